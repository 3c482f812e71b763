"""Runs the commands of the pages, and writes the estimates that they print into the pages.

    python -m studies.pages.estimates                            # every page: about a quarter of an hour on two cores
    python -m studies.pages.estimates --table time-late-found    # one table, named like its page and run folder

A table in a page lies between two comments. The first one names a run folder and the true values:

    <!-- estimates of runs/late-found, truth: body.density=600 film.start=-0.00333 -->
    <!-- end -->

The commands are those of the fenced block above it, up to the one that writes this folder. They run as printed in an empty
folder, which holds the page's scene file if they name ``my_scene.py``, with one thread: sums of several threads round
differently, and an error bar from a few compressed films may differ with them. The warnings of the run follow the table.
``docs/results/pages`` keeps the numbers of each table beside its commands, and the compressed film that the last one reads:
processors round differently, and another encoding of the same pictures moves an estimate by the error of compression.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import log10
from pathlib import Path
from typing import Any

from risp_torch.programs import write_text
from studies.markdown import ROOT, markdown
from ti_sim import UserError

RECORDS = ROOT / "docs" / "results" / "pages"
HEADERS = ("unknown", "truth", "estimate", "error bar", "error", "error / bar")

_MARKER = re.compile(r"<!-- estimates of (?P<run>\S+), truth:(?P<truth>(?: \S+=\S+)+) -->\n(?P<table>.*?)<!-- end -->", re.DOTALL)
_FENCE = re.compile(r"^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class EstimateTable:
    """A table of estimates in a page.

    Attributes:
        page: path relative to the root of the repository.
        run: folder that the last command writes, relative to where the commands run.
        truth: label of an unknown -> true value, in its unit.
        commands: the commands of its fenced block, up to the one that writes the run folder.
        text: the table, as it stands in the page.
    """

    page: str
    run: str
    truth: dict[str, float]
    commands: tuple[str, ...]
    text: str

    @property
    def name(self) -> str:
        """Name of the table, from its page and run folder."""
        return f"{Path(self.page).stem.lower()}-{Path(self.run).name}"

    @property
    def record_path(self) -> Path:
        """File of the table's numbers."""
        return RECORDS / f"{self.name}.json"

    @property
    def film(self) -> str | None:
        """The .mp4 that the last command reads, relative to where the commands run; None if it reads none, or several."""
        films = [word for word in shlex.split(self.commands[-1]) if word.endswith(".mp4")]
        return films[0] if len(films) == 1 else None

    @property
    def film_path(self) -> Path:
        """Copy of the film beside the record."""
        return self.record_path.with_suffix(".mp4")

    def record(self) -> dict[str, Any]:
        """Numbers of the table: page, run, truth, commands, and name -> value, sd and its parts, scale, unit of each unknown."""
        return json.loads(self.record_path.read_text(encoding="utf-8"))


def tables_of(page: str, text: str) -> list[EstimateTable]:
    """The tables of a page with the given text.

    Raises:
        UserError: no fenced block above a table writes its run folder.
    """
    tables = []
    for marker in _MARKER.finditer(text):
        run = marker["run"]
        blocks = [block for block in map(_commands, _FENCE.findall(text[: marker.start()])) if _writer(block, run) is not None]
        if not blocks:
            raise UserError(f"{page}: no command above the table of {run} has --out {run}")
        commands = blocks[-1][: _writer(blocks[-1], run) + 1]
        truth = {name: float(value) for name, value in (pair.rsplit("=", 1) for pair in marker["truth"].split())}
        tables.append(EstimateTable(page, run, truth, tuple(commands), marker["table"]))
    return tables


def all_tables() -> list[EstimateTable]:
    """The tables of README.md and of the pages in docs."""
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [table for path in paths for table in tables_of(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))]


def _commands(block: str) -> list[str]:
    """The ``risp`` commands of a fenced block, those over several lines joined."""
    lines = (" ".join(line.split()) for line in block.replace("\\\n", " ").splitlines())
    return [line for line in lines if line.startswith("risp ")]


def _writer(commands: Sequence[str], run: str) -> int | None:
    """Index of the command that writes a run folder, or None."""
    writers = [index for index, command in enumerate(commands) if command.endswith(f"--out {run}")]
    return writers[-1] if writers else None


def table_text(truth: Mapping[str, float], unknowns: Mapping[str, Mapping[str, Any]], doubts: Sequence[str] = ()) -> str:
    """The table, as Markdown, followed by the warnings.

    Args:
        truth: label -> true value, in its unit.
        unknowns: label -> value, sd (decades if the scale is log10), scale and unit, as in ``result.json``.
        doubts: warnings of the run.
    """
    rows = [row_of(label, true, unknowns[label]) for label, true in truth.items()]
    return "\n".join([markdown(HEADERS, rows), *(f"\n> {sentence}" for sentence in doubts), ""])


def row_of(label: str, true: float, unknown: Mapping[str, Any]) -> list[str]:
    """A row of the table: the error and the bar are relative for logarithmic unknowns, and in the unit for the others."""
    value, sd, unit = unknown["value"], unknown["sd"], unknown["unit"]
    if unknown["scale"] == "log10":
        error = log10(value / true)
        bar, error_text = f"± {100 * (10**sd - 1):.2g} %", f"{100 * (value / true - 1):+.2g} %"
    else:
        error = value - true
        bar, error_text = f"± {sd:.2g}", f"{error:+.2g}"
    return [f"`{label}`", f"{true:.5g} {unit}".strip(), f"{value:.5g} {unit}".strip(), bar, error_text, f"{error / sd:+.1f}"]


def run_commands(commands: Sequence[str], folder: Path, *, scene_file: str | None = None) -> None:
    """Run ``risp`` commands as printed.

    Args:
        commands: command lines.
        folder: where they run.
        scene_file: contents of ``my_scene.py`` in that folder.

    Raises:
        UserError: a command ended with another status than 0.
    """
    if scene_file is not None:
        (folder / "my_scene.py").write_text(scene_file, encoding="utf-8")
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "TI_CPU_MAX_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    for command in commands:
        print(f"$ {command}", flush=True)
        done = subprocess.run([sys.executable, "-m", "risp_torch", *shlex.split(command)[1:]], cwd=folder, env=environment)
        if done.returncode:
            raise UserError(f"the command ended with status {done.returncode}: {command}")


def scene_file_of(page: str) -> str | None:
    """The scene file that a page shows, or None."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    scenes = [block for block in blocks if "\ndef make_scene(" in block]
    return scenes[0] if scenes else None


def write_table(table: EstimateTable) -> None:
    """Run the commands of a table, and write its numbers into its record and its page."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        uses_scene = any("my_scene.py" in command for command in table.commands)
        run_commands(table.commands, Path(folder), scene_file=scene_file_of(table.page) if uses_scene else None)
        result = json.loads((Path(folder) / table.run / "result.json").read_text(encoding="utf-8"))
        RECORDS.mkdir(parents=True, exist_ok=True)
        if table.film is not None:
            shutil.copyfile(Path(folder) / table.film, table.film_path)
    fields = ("value", "sd", "parts", "scale", "unit")
    record = {key: value for key, value in asdict(table).items() if key != "text"} | {
        "unknowns": {label: {key: result["unknowns"][label][key] for key in fields} for label in table.truth},
        "doubts": result["doubts"],
        "seconds": round(time.perf_counter() - began),
    }
    write_text(table.record_path, json.dumps(record, indent=1) + "\n")
    path = ROOT / table.page
    text = path.read_text(encoding="utf-8")
    for marker in _MARKER.finditer(text):
        if marker["run"] == table.run:
            first, stop = marker.span("table")
            write_text(path, text[:first] + table_text(table.truth, record["unknowns"], record["doubts"]) + text[stop:])


def main() -> int:
    """Write the tables; 0 when every command ran."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    tables = {table.name: table for table in all_tables()}
    parser.add_argument("--table", nargs="+", choices=tables, default=list(tables), help="tables to write (default: all)")
    for name in parser.parse_args().table:
        write_table(tables[name])
    return 0


if __name__ == "__main__":
    sys.exit(main())
