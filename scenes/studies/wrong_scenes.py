"""How often an answer from a film with a wrong scene is doubted: inversions with faults of 20 kinds, and with the right scene.

`python -m scenes.studies.wrong_scenes --count 160 --seed 5 --out runs/wrong_scenes` resumes an interrupted study: each finished
inversion is a line of results.jsonl. Three of four inversions have a wrong scene.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from risp_torch import UserError, start
from risp_torch.files.report import format_table
from risp_torch.programs import number, write_text
from ti_sim import Count, Seed

from .wrong_scene_cases import KINDS, RIGHT, Case, run

INSIDE = 1.96  # standard deviations: 95 % of a normal distribution
ASKED = 0.05  # largest share of unflagged answers that exclude the truth, and of false flags
WORST = 4.0  # largest error of an unflagged answer, in bars
HEADERS = ["scene", "count", "film shows it", "flagged", "unflagged", "exclude the truth", "worst error / bar"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study as a command.

    Args:
        arguments: of the command line, the process' own by default.

    Returns:
        0 if unflagged answers and flags are right as often as they should, 1 if not, 2 for wrong input.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=number(Count), default=160, help="inversions (default 160)")
    parser.add_argument("--seed", type=number(Seed), default=5, help="of truths, starts and films (default 5)")
    parser.add_argument("--most", type=number(Count), default=None, help="inversions of this call; the next call continues")
    parser.add_argument("--out", default="runs/wrong_scenes", help="folder (default runs/wrong_scenes)")
    options = parser.parse_args(arguments)
    out = Path(options.out)
    try:
        start(precision="f32")
        rows = _run_all(options.count, options.seed, out, options.most)
    except UserError as error:
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        return 2
    text = report(rows, options.seed)
    write_text(out / "wrong_scenes.md", text)
    print(text)
    print(f"{len(rows)} of {options.count} inversions; written: {out}/wrong_scenes.md")
    return 0 if _is_good(rows) else 1


def report(rows: Sequence[dict[str, Any]], seed: int) -> str:
    """Tables of finished inversions.

    Args:
        rows: lines of results.jsonl.
        seed: of the study.
    """
    wrong = [row for row in rows if row["kind"] != RIGHT]
    lines = [_line("right scenes", [row for row in rows if row["kind"] == RIGHT]), _line("wrong scenes", wrong)]
    lines += [
        _line(f"{kind.name} ({kind.scene})", some) for kind in KINDS if (some := [r for r in rows if r["kind"] == kind.name])
    ]
    table = format_table(lines, HEADERS)
    return (
        f"# Answers from films of other scenes\n\nSeed {seed}. An answer is flagged if `result.json` has a doubt; unflagged "
        f"answers are counted where the film shows the fault, and exclude the truth beyond {INSIDE} bars.\n\n```\n{table}\n```\n"
    )


def _line(name: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    quiet = _quiet(rows)
    worst = max((_error(row) for row in quiet), default=0.0)
    excluded = sum(_error(row) > INSIDE for row in quiet)
    shown, flagged = sum(row["shown"] for row in rows), sum(bool(row["doubts"]) for row in rows)
    return [name, f"{len(rows)}", f"{shown}", f"{flagged}", f"{len(quiet)}", f"{excluded}", f"{worst:.2f}"]


def _quiet(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Unflagged rows, of wrong scenes only those whose film shows the fault."""
    return [row for row in rows if not row["doubts"] and (row["shown"] or row["kind"] == RIGHT)]


def _error(row: dict[str, Any]) -> float:
    """Largest error of a row, in bars."""
    return max(abs(about["error"]) / max(about["sd"], 1e-300) for about in row["unknowns"].values())


def _is_good(rows: Sequence[dict[str, Any]]) -> bool:
    right, quiet = [row for row in rows if row["kind"] == RIGHT], _quiet([row for row in rows if row["kind"] != RIGHT])
    false = np.mean([bool(row["doubts"]) for row in right]) if right else 0.0
    errors = np.array([_error(row) for row in quiet] or [0.0])
    return bool(false <= ASKED and (errors > INSIDE).mean() <= ASKED and errors.max() <= WORST)


def _run_all(count: int, seed: int, out: Path, most: int | None) -> list[dict[str, Any]]:
    """Run what is not done yet, at most so many, and return the lines of all."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / "results.jsonl"
    rows = _finished(path, seed, count)
    done = {row["number"] for row in rows}
    left = [number for number in range(count) if number not in done][:most]
    for each in tqdm(left, desc="inversions", initial=len(done), total=len(done) + len(left)):
        with tempfile.TemporaryDirectory() as folder:
            row = run(Case.of(each, seed), Path(folder))
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        rows.append(row)
    return rows


def _finished(path: Path, seed: int, count: int) -> list[dict[str, Any]]:
    """Whole lines of the file; a line that was cut off when the study was killed is removed."""
    if not path.is_file():
        return []
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        write_text(path, whole)
    rows = [json.loads(line) for line in whole.splitlines()]
    if any(row["seed"] != seed for row in rows):
        raise UserError(f"{path} has inversions of another seed: give the same --seed, or another --out")
    return [row for row in rows if row["number"] < count]


if __name__ == "__main__":
    sys.exit(main())
