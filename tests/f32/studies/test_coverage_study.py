"""The study of how often error bars hold: its cases, one of its inversions, and resuming after a kill."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from risp_torch import Scene, UserError, load_scene
from studies.error_bars import coverage, coverage_cases
from studies.error_bars.coverage_cases import CAMERA, KINDS, LOOK, MASKS, SAME, SOLVED, SUBJECTS, Case, run
from studies.numbered_runs import finished_rows

DIRECTIONS = ("turn", "position")


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


def test_cameras_are_off_as_their_priors_say(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    off: list[np.ndarray] = []

    def filmed(true: Scene, values: dict, **_: object) -> tuple[torch.Tensor, None]:
        scene = load_scene("pendulum")
        parts = [np.subtract(true.parameters[f"camera.{n}"].value, scene.parameters[f"camera.{n}"].value) for n in DIRECTIONS]
        off.append(np.concatenate(parts))
        return torch.zeros(1, 1, 1, 1, 3), None

    monkeypatch.setattr(coverage_cases, "film", filmed)
    monkeypatch.setattr(coverage_cases, "_written", lambda *_: (tmp_path, "PNG"))
    case = Case(0, "pendulum", CAMERA, 1)
    made = [coverage_cases._filmed(case, np.random.default_rng(k), tmp_path) for k in range(40)]
    priors = made[0].arguments["priors"]
    bars = np.array(off) / np.repeat([priors["camera.turn"], priors["camera.position"]], 3)
    assert bars.std() == pytest.approx(1.0, abs=0.15) and len(bars) == 40
    eye = np.linalg.norm(load_scene("pendulum").parameters["camera.position"].value)
    assert priors["camera.position"] == pytest.approx(coverage_cases.CAMERA_SHIFT * eye)


@pytest.mark.usefixtures("undiagnosed")
def test_an_inversion_of_the_study_is_the_same_again(tmp_path: Path) -> None:
    first, again = (run(Case(2, "quadrotor", SAME, 5), tmp_path) for _ in range(2))
    (about,) = first["unknowns"].values()
    assert abs(about["error"]) < 4 * about["sd"] < 0.1 and about["value"] - about["truth"] == pytest.approx(about["error"])
    assert json.loads(json.dumps(first))["unknowns"] == again["unknowns"] and first["film"] == again["film"]


def test_a_line_that_was_cut_off_is_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = [line(0, SAME, {"a": 0.05}), line(1, CAMERA, {"a": 0.3, "b": 0.1})]
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in done) + '{"number": 2, "sce')
    monkeypatch.setattr(coverage, "run", lambda case, folder: line(case.number, case.kind, {"a": 0.01}))
    assert coverage.STUDY.main(["--count", "4", "--seed", "3", "--most", "1", "--out", str(tmp_path)]) == 1  # two of three hold
    rows = [json.loads(text) for text in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert [row["number"] for row in rows] == [0, 1, 2]
    table = (tmp_path / "coverage.md").read_text()
    whole = next(row for row in table.splitlines() if row.startswith("all")).split()
    assert whole == ["all", "3", "67", "%", "4", "75", "%", "0.75", "2.40", "3.00"]  # of 0.1, 0.5, 1 and 3 bars
    with pytest.raises(UserError, match="runs of another seed"):
        finished_rows(tmp_path / "results.jsonl", 4, 4)
