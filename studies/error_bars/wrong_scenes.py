"""How often an answer from a film with a wrong scene is doubted: inversions with faults of 20 kinds, and with the right scene.

`python -m studies.error_bars.wrong_scenes --count 160 --seed 5 --out runs/wrong_scenes` resumes an interrupted study: each
finished inversion is a line of results.jsonl. Three of four inversions have a wrong scene.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from risp_torch import UserError, start
from risp_torch.files.report import format_table
from risp_torch.programs import number, write_text
from studies.error_bars.wrong_scene_cases import KINDS, RIGHT, Case, run
from studies.markdown import write_into_page
from studies.numbered_runs import run_numbered
from ti_sim import Count, Seed

PAGE = "docs/error-bars.md"
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
    parser.add_argument("--page", action="store_true", help=f"write the table into {PAGE}, too")
    options = parser.parse_args(arguments)
    out = Path(options.out)
    try:
        start(precision="f32")
        rows = run_numbered(
            lambda index, folder: run(Case.of(index, options.seed), folder), options.count, options.seed, out, options.most
        )
        text = report(rows, options.seed)
        write_text(out / "wrong_scenes.md", text)
        if options.page:
            write_into_page(PAGE, "studies.error_bars.wrong_scenes", text)
    except UserError as error:
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        return 2
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
        f"Seed {seed}, {len(rows)} inversions. An answer is flagged if `result.json` has a doubt; unflagged answers are counted "
        f"where the film shows the fault, and exclude the truth beyond {INSIDE} bars.\n\n```\n{table}\n```\n"
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


if __name__ == "__main__":
    sys.exit(main())
