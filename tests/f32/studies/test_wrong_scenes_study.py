"""The study of answers from films of wrong scenes: which rows count, and when the study passes."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from risp_torch import UserError
from studies import markdown
from studies.error_bars import coverage, wrong_scene_cases, wrong_scenes
from studies.error_bars.wrong_scene_cases import KINDS, RIGHT, Case

WRONG = KINDS[0]


def row(*, kind: str = WRONG.name, error: float = 0.1, shown: bool = True, flagged: bool = False) -> dict[str, object]:
    """A row of an inversion whose estimate is ``error`` off, with an error bar of 0.1."""
    unknowns = {"a": {"truth": 1.0, "value": 1.0 + error, "error": error, "sd": 0.1}}
    return {"kind": kind, "scene": WRONG.scene, "shown": shown, "doubts": ["doubt"] if flagged else [], "unknowns": unknowns}


def cells(name: str, rows: list[dict[str, object]]) -> list[str]:
    """Cells of the report's line of that name."""
    return next(line for line in wrong_scenes.report(rows, 1).splitlines() if line.startswith(name))[len(name) :].split()


def test_only_unflagged_answers_whose_film_shows_the_fault_count() -> None:
    """Of four rows, one is unflagged, shown and 3 bars off; the flagged and the unobservable one do not count."""
    rows = [row(), row(error=0.3), row(error=0.9, flagged=True), row(error=0.8, shown=False)]
    assert cells("wrong scenes", rows) == ["4", "3", "1", "2", "1", "3.00"]


def test_right_scenes_count_whether_or_not_a_fault_is_shown() -> None:
    rows = [row(kind=RIGHT, shown=False), row(kind=RIGHT, shown=False, error=-0.25), row(kind=RIGHT, shown=False, flagged=True)]
    assert cells("right scenes", rows) == ["3", "0", "1", "2", "1", "2.50"]


@pytest.mark.parametrize(
    ("rows", "passes"),
    [
        ([row()] * 20 + [row(kind=RIGHT)] * 20, True),
        ([row()] * 19 + [row(error=0.3)], True),  # one of 20 excludes the truth
        ([row()] * 18 + [row(error=0.3)] * 2, False),
        ([row()] * 19 + [row(error=-0.41)], False),  # beyond four bars
        ([row(error=0.9, flagged=True)] * 20, True),
        ([row(kind=RIGHT)] * 18 + [row(kind=RIGHT, flagged=True)] * 2, False),  # false alarms
    ],
)
def test_when_the_study_passes(rows: list[dict[str, object]], passes: bool) -> None:
    assert wrong_scenes._is_good(rows) is passes


def test_a_film_shows_a_fault_that_changes_it_by_more_than_its_errors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The strength of a fault is the summed squared residual of the estimate over the variance of the film's errors."""
    films: list[np.ndarray] = []

    def filmed(scene: object) -> np.ndarray:
        films.append(np.full((2, 4, 4, 3), 0.3 + 0.05 * len(films)))
        return films[-1]

    found = SimpleNamespace(
        values={"a": 1.0}, scaled_error=lambda truth: dict.fromkeys(truth, 0.2), sd=defaultdict(lambda: 0.1), misfit=1.0,
        doubts=[], misspecifications=[],
    )  # fmt: skip
    monkeypatch.setattr(wrong_scene_cases, "_film_of", filmed)
    monkeypatch.setattr(wrong_scene_cases, "_put", lambda *_: None)
    monkeypatch.setattr(wrong_scene_cases, "invert", lambda *_, **__: found)
    for variance in (1e-4, 1.0):
        films.clear()
        monkeypatch.setattr(wrong_scene_cases, "_written", lambda *_, v=variance: (tmp_path, "PNG", v))
        found.values = defaultdict(lambda: 1.0)
        row = wrong_scene_cases.run(Case(3, wrong_scene_cases.Kind(RIGHT, "toss", None), 1), tmp_path)
        assert row["strength"] == pytest.approx(films[0].size * 0.05**2 / variance) and row["shown"] == (variance < 1)


def test_a_quarter_of_the_cases_is_right_and_all_kinds_occur() -> None:
    names = [Case.of(number, 3).kind.name for number in range(160)]
    assert names.count(RIGHT) == 40 and {kind.name for kind in KINDS} == set(names) - {RIGHT}


def test_tables_are_written_between_the_comments_of_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text around the comments stays; a page without the comments is an error."""
    for study in (wrong_scenes.STUDY, coverage.STUDY):
        assert f"<!-- printed by {study.module} -->\n" in (markdown.ROOT / study.page).read_text(encoding="utf-8")
    monkeypatch.setattr(markdown, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- printed by study -->\nold\n<!-- end -->\nb <!-- end -->\n", encoding="utf-8")
    markdown.write_into_page("page.md", "study", "new\n")
    assert page.read_text(encoding="utf-8") == "a\n<!-- printed by study -->\nnew\n<!-- end -->\nb <!-- end -->\n"
    with pytest.raises(UserError, match="page.md lacks the lines <!-- printed by other -->"):
        markdown.write_into_page("page.md", "other", "new\n")


def test_a_slow_clock_is_named_in_a_compressed_film(tmp_path: Path) -> None:
    """A pendulum whose film has another rate than it says: the damping is wrong by more than a half, and the bars hold."""
    row = wrong_scene_cases.run(Case.of(86, 50), tmp_path)
    assert row["kind"] == "rate of the film" and row["film"] == "H.264, crf 22" and row["misfit"] < 1.1
    assert any(doubt.startswith("likely wrong") for doubt in row["doubts"])
    damping = row["unknowns"]["pendulum.damping"]
    assert 0.15 < abs(damping["error"]) < 1.96 * damping["sd"]
