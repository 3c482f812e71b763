"""Figures 5 and 6: their pages on a small scene, who judges errors, and what the tables count."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from risp_torch.control import GoalLoss, open_loop
from studies.gradsim import cells
from studies.gradsim.control import figures as control
from studies.gradsim.control.runs import WAYS, JudgedGoalLoss, run_control
from studies.gradsim.presets import preset_of
from tests.reference import control_scene

TINY = replace(preset_of("tiny"), control_runs=2, goals=2, control_frames=None)


@pytest.fixture
def small(tmp_path: Path) -> str:
    """The scene file of a small scene."""
    return str(shutil.copy(control_scene.__file__, tmp_path / "small.py"))


def test_figure_5_has_its_rows_and_is_not_made_twice(tmp_path: Path, small: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "STUDIES", {small: control.Study(((0, 0), (1, 0)), asked=0.9)})
    page = control.make("figure-5", TINY, tmp_path, jobs=1)
    rows = [line.split(" | ") for line in page.text.splitlines() if line.startswith("| small |")]
    assert [row[1] for row in rows] == list(control.TAUGHT) and all(row[7] == "2 of 2" and row[8] == "0 to 0" for row in rows)
    assert page.pictures["runs.png"].is_file() and "0 of 6 runs have no result." in page.text
    monkeypatch.setattr(cells, "_perform", None)
    assert control.make("figure-5", TINY, tmp_path, jobs=1).text == page.text


def test_figure_6_has_its_rows(tmp_path: Path, small: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "PARTS", {"control-fem": (small, 2, 0.05)})
    monkeypatch.setattr(control, "_size", lambda scene: "1")
    page = control.make("figure-6", TINY, tmp_path, jobs=1)
    rows = [line.split(" | ") for line in page.text.splitlines() if line.startswith("| control-fem |")]
    assert [row[1] for row in rows] == list(control.COMPARED) and all(row[2] == "2" for row in rows)


def test_errors_are_those_of_the_scene_whatever_is_compared() -> None:
    scene = control_scene.make_scene()
    task = control_scene.make_control(scene)
    goal, taught = task.goal(scene, 0), replace(task, **WAYS["centre at each step"].changes)
    goal_loss = JudgedGoalLoss(scene, taught, goal, judge=task, render_goal=False)
    with torch.no_grad():
        driven = open_loop(scene, task)(task.policy(scene, 0))
        places = driven.states.particle_q[0].cpu().numpy()
        mass = scene.deformables[0].mass(scene.table.values())[0].cpu().numpy()
        wanted = np.asarray(goal.placement)[0]
        vertices = np.linalg.norm(places[-1] - wanted, axis=1).mean() / task.size
        centres = np.einsum("p,tpk->tk", mass / mass.sum(), places[1:] - wanted)
        assert goal_loss.error(driven) == pytest.approx(vertices, rel=1e-5)
        assert float(goal_loss.state_loss(driven)) == pytest.approx((centres**2).sum(axis=1).mean() / task.size**2, rel=1e-4)
        assert GoalLoss(scene, task, goal).error(driven) == pytest.approx(vertices, rel=1e-5)


def test_all_ways_start_from_the_same_policy(small: str) -> None:
    results = {way: run_control(scene=small, options={}, way=way, goal=0, seed=3, steps=2) for way in WAYS}
    assert len({round(result["errors"][0], 5) for result in results.values()}) == 1
    errors = results["random policies"]["errors"]
    assert len(errors) == 3 and errors == sorted(errors, reverse=True) and results["random policies"]["kept"] == errors[-1]
    assert np.shape(results["pixels"]["places"])[0] == 4 and "places" not in results["state"]


def test_steps_to_what_is_asked() -> None:
    assert control.first_within([0.5, 0.04, 0.2], 0.05, None) == 1
    assert control.first_within([0.5, 0.4, 0.04], 0.05, 1) is None and control.first_within([0.5, 0.04], 0.05, 1) == 1


def test_cloths_have_64_to_2048_triangles() -> None:
    sizes = {control.options_of("cloth_control", goal, preset_of("quick"))["cells"][0] for goal in range(200)}
    assert 64 <= 2 * min(sizes) ** 2 < 100 and 1900 < 2 * max(sizes) ** 2 <= 2048
    assert control.options_of("gear", 0, preset_of("quick")) == {}
