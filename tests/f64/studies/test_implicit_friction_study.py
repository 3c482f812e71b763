"""The study of implicit steps with friction: its scenes, and what it does with those that do not converge."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from studies.engine import implicit_friction
from studies.engine.implicit_friction import FRAME, INTEGRATORS, KINDS, STUDY, Case, report
from ti_sim import ConvergenceError


def test_scenes_of_the_study_converge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--count", "6", "--seed", "3", "--out", str(tmp_path)]
    assert STUDY.main([*arguments, "--most", "2"]) == 0
    assert STUDY.main(arguments) == 0
    assert "Seed 3: 6 of 6 scenes converged" in capsys.readouterr().out
    rows = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["number"] for row in rows] == list(range(6)) and {row["kind"] for row in rows} == set(KINDS)


def test_draws_cover_kinds_integrators_steps_and_friction() -> None:
    cases = [Case.of(number, 1) for number in range(200)]
    assert {(case.kind, case.integrator) for case in cases} == {(kind, each) for kind in KINDS for each in INTEGRATORS}
    steps, frictions = [1e3 * FRAME / case.substeps for case in cases], [case.friction for case in cases]
    assert min(steps) < 1.1 and max(steps) == 20 and min(frictions) < 0.05 and max(frictions) > 1.45


def test_a_scene_that_does_not_converge_fails_unless_its_error_names_substeps_that_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(message: str, least: int) -> None:
        def error_of(case: Case) -> str:
            return message if case.substeps < least else ""

        monkeypatch.setattr(implicit_friction, "_error_of", error_of)

    arguments = ["--count", "1", "--out"]
    failing("take shorter steps", 99)
    assert STUDY.main([*arguments, str(tmp_path / "unnamed")]) == 1
    failing("set substeps=98", 99)
    assert STUDY.main([*arguments, str(tmp_path / "wrong")]) == 1
    failing("set substeps=99", 99)
    assert STUDY.main([*arguments, str(tmp_path / "right")]) == 0
    row = json.loads((tmp_path / "right" / "results.jsonl").read_text(encoding="utf-8"))
    assert "0 of 1 scenes converged" in report([row], 1) and "1 others" in report([row], 1)


def test_errors_of_scenes_are_those_of_convergence(monkeypatch: pytest.MonkeyPatch) -> None:
    def rollout(_scene: object) -> None:
        raise ConvergenceError("step 1 did not converge", body="body", step=1)

    monkeypatch.setattr(implicit_friction.Scene, "rollout", rollout)
    row = implicit_friction.run(Case.of(0, 1))
    assert row["error"] == "step 1 did not converge" and not row["converged"] and not row["remedied"]
