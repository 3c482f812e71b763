"""The study of how often error bars hold: its cases, one of its inversions, and going on after a kill."""

import json
from pathlib import Path

import pytest

from risp_torch import UserError
from scenes.studies import coverage
from scenes.studies.coverage_cases import CAMERA, KINDS, LOOK, MASKS, SAME, SOLVED, SUBJECTS, Case, run
from scenes.studies.numbered_runs import finished_rows


def line(number: int, kind: str, errors: dict[str, float]) -> dict[str, object]:
    """A line of the results, with bars of 0.1."""
    unknowns = {name: {"truth": 1.0, "value": 1.0 + error, "error": error, "sd": 0.1} for name, error in errors.items()}
    return {"number": number, "scene": "toss", "kind": kind, "seed": 3, "film": "H.264, crf 18", "unknowns": unknowns}


def test_half_of_the_cases_do_not_agree_with_their_films() -> None:
    cases = [Case.of(number, seed=0) for number in range(120)]
    for name in SUBJECTS:
        kinds = [case.kind for case in cases if case.scene == name]
        assert [kinds.count(kind) for kind in (SAME, MASKS, LOOK, SOLVED, CAMERA)] == [15, 3, 3, 6, 3]
    assert set(KINDS) == {SAME, MASKS, LOOK, SOLVED, CAMERA}


def test_an_inversion_of_the_study_is_the_same_again(tmp_path: Path) -> None:
    first, again = (run(Case(2, "quadrotor", SAME, 5), tmp_path) for _ in range(2))
    (about,) = first["unknowns"].values()
    assert abs(about["error"]) < 4 * about["sd"] < 0.1 and about["value"] - about["truth"] == pytest.approx(about["error"])
    assert json.loads(json.dumps(first))["unknowns"] == again["unknowns"] and first["film"] == again["film"]


def test_a_line_that_was_cut_off_is_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = [line(0, SAME, {"a": 0.05}), line(1, CAMERA, {"a": 0.3, "b": 0.1})]
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in done) + '{"number": 2, "sce')
    monkeypatch.setattr(coverage, "run", lambda case, folder: line(case.number, case.kind, {"a": 0.01}))
    assert coverage.main(["--count", "4", "--seed", "3", "--most", "1", "--out", str(tmp_path)]) == 1  # two of three hold
    rows = [json.loads(text) for text in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert [row["number"] for row in rows] == [0, 1, 2]
    table = (tmp_path / "coverage.md").read_text()
    assert ["all", "3", "67", "%", "4", "75", "%"] == next(row for row in table.splitlines() if row.startswith("all")).split()[:7]
    with pytest.raises(UserError, match="inversions of another seed"):
        finished_rows(tmp_path / "results.jsonl", 4, 4)
