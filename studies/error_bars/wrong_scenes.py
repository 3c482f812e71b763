"""How often an answer from a film with a wrong scene is doubted: inversions with faults of 20 kinds, and with the right scene.

`python -m studies.error_bars.wrong_scenes --count 160 --seed 5 --out runs/wrong_scenes` resumes an interrupted study: each
finished inversion is a line of results.jsonl. Three of four inversions have a wrong scene.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from risp_torch.files.report import format_table
from studies.error_bars.wrong_scene_cases import KINDS, RIGHT, Case, run
from studies.numbered_runs import NumberedStudy

INSIDE = 1.96  # standard deviations: 95 % of a normal distribution
ASKED = 0.05  # largest share of unflagged answers that exclude the truth, and of false flags
WORST = 4.0  # largest error of an unflagged answer, in bars
HEADERS = ["scene", "count", "film shows it", "flagged", "unflagged", "exclude the truth", "worst error / bar"]


def report(rows: Sequence[dict[str, Any]], seed: int) -> str:
    """Tables of finished inversions.

    Args:
        rows: lines of results.jsonl.
        seed: of the study.
    """
    wrong = [row for row in rows if row["kind"] != RIGHT]
    lines = [_line("right scenes", [row for row in rows if row["kind"] == RIGHT]), _line("wrong scenes", wrong)]
    lines += [
        _line(f"{kind.name} ({kind.scene})", group) for kind in KINDS if (group := [r for r in rows if r["kind"] == kind.name])
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
    observable, flagged = sum(row["shown"] for row in rows), sum(bool(row["doubts"]) for row in rows)
    return [name, f"{len(rows)}", f"{observable}", f"{flagged}", f"{len(quiet)}", f"{excluded}", f"{worst:.2f}"]


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


STUDY = NumberedStudy(
    module="studies.error_bars.wrong_scenes", summary=__doc__.splitlines()[0], page="docs/error-bars.md", count=160, seed=5,
    precision="f32", run_case=lambda index, seed, folder: run(Case.of(index, seed), folder), report=report, passes=_is_good,
)  # fmt: skip


if __name__ == "__main__":
    sys.exit(STUDY.main())
