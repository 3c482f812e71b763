"""Studies of many numbered runs: a line of results.jsonl each, so that an interrupted study resumes."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tqdm import tqdm

from risp_torch import UserError, start
from risp_torch.programs import number_parser, run_with_exit_status, write_text
from studies.markdown import write_into_page
from ti_sim import Count, Seed

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class NumberedStudy:
    """A study of many numbered runs, as a program.

    Attributes:
        module: of the program, whose table stands in ``page`` between comments with this name (``write_into_page``).
        summary: for ``--help``.
        page: path relative to the root of the repository.
        count, seed: defaults of the options.
        precision: of the kernels.
        run_case: makes the row of a run from its number, the study's seed and an empty folder; rows hold "number" and "seed".
        report: makes the text for the page from all rows and the seed.
        passes: whether the rows are as they should be.
    """

    module: str
    summary: str
    page: str
    count: int
    seed: int
    precision: Literal["f32", "f64"]
    run_case: Callable[[int, int, Path], Row]
    report: Callable[[Sequence[Row], int], str]
    passes: Callable[[Sequence[Row]], bool]

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Do the runs that are missing, and report all.

        Args:
            arguments: of the command line, sys.argv by default.

        Returns:
            0 if the rows pass, 1 if not, 2 for wrong input, 3 if a simulation diverged.
        """
        name = self.module.rpartition(".")[2]
        parser = argparse.ArgumentParser(prog=f"python -m {self.module}", description=self.summary)
        parser.add_argument("--count", type=number_parser(Count), default=self.count, help=f"runs (default {self.count})")
        parser.add_argument("--seed", type=number_parser(Seed), default=self.seed, help=f"of all samples (default {self.seed})")
        parser.add_argument("--most", type=number_parser(Count), default=None, help="runs of this call; the next call continues")
        parser.add_argument("--out", type=Path, default=Path("runs") / name, help=f"folder (default runs/{name})")
        parser.add_argument("--page", action="store_true", help=f"write the table into {self.page}, too")
        options = parser.parse_args(arguments)
        return run_with_exit_status(parser.prog, lambda: self._run(options, options.out / f"{name}.md"))

    def _run(self, options: argparse.Namespace, report_file: Path) -> int:
        start(precision=self.precision)
        rows = run_numbered(
            lambda index, folder: self.run_case(index, options.seed, folder), options.count, options.seed, options.out,
            options.most,
        )  # fmt: skip
        text = self.report(rows, options.seed)
        write_text(report_file, text)
        if options.page:
            write_into_page(self.page, self.module, text)
        print(text)
        print(f"{len(rows)} of {options.count} runs; written: {report_file}")
        return 0 if self.passes(rows) else 1


def run_numbered(
    run_case: Callable[[int, Path], Row], count: int, seed: int, out: Path, most: int | None = None
) -> list[Row]:
    """Do the runs that are missing, and return the rows of all.

    Args:
        run_case: makes the row of a run from its number and an empty folder; rows hold "number" and "seed".
        count: number of runs of the study.
        seed: seed of the study.
        out: folder of results.jsonl.
        most: largest number of runs of this call; all by default.

    Raises:
        UserError: the file has runs of another seed.
    """
    out.mkdir(parents=True, exist_ok=True)
    path = out / "results.jsonl"
    rows = finished_rows(path, seed, count)
    done = {row["number"] for row in rows}
    missing = [index for index in range(count) if index not in done][:most]
    for index in tqdm(missing, desc="runs", initial=len(done), total=len(done) + len(missing)):
        with tempfile.TemporaryDirectory() as folder:
            row = run_case(index, Path(folder))
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        rows.append(row)
    return rows


def finished_rows(path: Path, seed: int, count: int) -> list[Row]:
    """Rows of the file whose numbers are below ``count``. A line that was cut off by a kill is removed from the file.

    Raises:
        UserError: the file has runs of another seed.
    """
    if not path.is_file():
        return []
    text = path.read_text(encoding="utf-8")
    complete = text[: text.rfind("\n") + 1]
    if complete != text:
        write_text(path, complete)
    rows = [json.loads(line) for line in complete.splitlines()]
    if any(row["seed"] != seed for row in rows):
        raise UserError(f"{path} has runs of another seed: give the same --seed, or another --out")
    return [row for row in rows if row["number"] < count]
