"""How often error bars hold the truth: many small inversions with drawn truths, half of them of films that differ from the scene.

`python -m studies.error_bars.coverage --count 120 --seed 3 --out runs/coverage` resumes an interrupted study: each finished
inversion is a line of results.jsonl.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from risp_torch.files.report import format_table
from studies.error_bars.coverage_cases import KINDS, SUBJECTS, Case, run
from studies.numbered_runs import NumberedStudy

INSIDE = 1.96  # standard deviations: 95 % of a normal distribution
ASKED = (0.90, 0.99)  # share of the inversions whose bars hold the truth


def report(rows: Sequence[dict[str, Any]], seed: int) -> str:
    """Tables of finished inversions.

    Args:
        rows: lines of results.jsonl.
        seed: of the study.
    """
    headers = ["inversions", "count", "bars hold the truth", "numbers", "hold", "|error| / bar: median", "90 %", "largest"]
    lines = [_line("all", rows)]
    groups: list[tuple[str, Callable[[dict[str, Any]], bool]]] = [
        *((f"scene {name}", lambda row, name=name: row["scene"] == name) for name in SUBJECTS),
        *((kind, lambda row, kind=kind: row["kind"] == kind) for kind in dict.fromkeys(KINDS)),
        ("H.264", lambda row: row["film"].startswith("H.264")),
        ("PNG with noise", lambda row: row["film"].startswith("PNG")),
    ]
    for name, belongs in groups:
        if group := [row for row in rows if belongs(row)]:
            lines.append(_line(name, group))
    table = format_table(lines, headers)
    return f"Seed {seed}, {len(rows)} inversions; bars of {INSIDE} standard deviations.\n\n```\n{table}\n```\n"


def _line(name: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    ratios = np.array([ratio for row in rows for ratio in _parts(row)])
    return [
        name, f"{len(rows)}", f"{100 * _share(rows):.0f} %", f"{len(ratios)}", f"{100 * (ratios <= INSIDE).mean():.0f} %",
        f"{np.median(ratios):.2f}", f"{np.quantile(ratios, 0.9):.2f}", f"{ratios.max():.2f}",
    ]  # fmt: skip


def _parts(row: dict[str, Any]) -> list[float]:
    """|error| of every unknown, in standard deviations."""
    return [abs(about["error"]) / max(about["sd"], 1e-300) for about in row["unknowns"].values()]


def _share(rows: Sequence[dict[str, Any]]) -> float:
    """Fraction of the inversions whose first unknown is within its bar, which is one of 95 % for each of them."""
    return float(np.mean([_parts(row)[0] <= INSIDE for row in rows]))


def _holds_often(rows: Sequence[dict[str, Any]]) -> bool:
    return ASKED[0] <= _share(rows) <= ASKED[1]


STUDY = NumberedStudy(
    module="studies.error_bars.coverage", summary=__doc__.splitlines()[0], page="docs/error-bars.md", count=120, seed=3,
    precision="f32", run_case=lambda index, seed, folder: run(Case.of(index, seed), folder), report=report, passes=_holds_often,
)  # fmt: skip


if __name__ == "__main__":
    sys.exit(STUDY.main())
