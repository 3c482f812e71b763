"""Table 4 (right) of gradSim: what is timed, how rates are computed, and the page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from studies.gradsim import cells, newton_rates, rates
from studies.gradsim.presets import PRESETS
from studies.gradsim.rates import ASKED, CELLS, KINDS, PAPER, PUBLIC, STEP, body_scene, pass_seconds
from ti_sim.meshes import box_tets

SIZE = 16


def test_bodies_have_as_many_tetrahedra_as_they_say() -> None:
    for count in CELLS:
        assert len(box_tets(*rates._box(count)).indices) == count
    assert list(CELLS) == list(PAPER) == list(PUBLIC) and set(ASKED) <= set(KINDS)


def test_seconds_are_those_of_a_step_and_the_least(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls are given times by hand: those of the call that warms up do not count."""
    scene = body_scene(100, size=SIZE, every=4, frames=3)
    given = iter([0.001] * 4 + [12.0, 24.0, 36.0, 48.0] + [24.0, 12.0, 72.0, 24.0])
    monkeypatch.setattr(rates, "_timed", lambda function: (next(given), function()))
    seconds = pass_seconds(scene, 2)
    assert seconds == {
        "forward DP": 1.0, "forward DR": 1.0, "backward DP + DR": 3.0, "backward DP": 2.0, "forward DP + DR": 3.0,
    }  # fmt: skip


def test_the_body_moves_touches_and_every_pass_has_gradients() -> None:
    scene = body_scene(100, size=SIZE, every=32, frames=4)
    values = {"body.mu": torch.full((1,), 1000.0, requires_grad=True)}
    states = scene.rollout(values, worlds=1)
    assert states.finite.all() and (states.particle_q[0, -1, :, 2].min() < 0)
    pictures = scene.render(states, values)
    assert pictures.shape == (1, 5, SIZE, SIZE, 3)
    (pictures**2).mean().backward()
    assert values["body.mu"].grad.abs().item() > 0


def test_newton_gets_the_same_mass_and_says_why_it_was_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    mesh = box_tets(*rates._box(100))
    case = newton_rates.description(mesh, density=10.0, mu=2.0, lam=3.0, dt=STEP)
    assert sum(case["mass"]) == pytest.approx(10 * 1.25 * 0.5 * 0.5) and min(case["mass"]) > 0
    assert case["tet_materials"] == [[2.0, 3.0, 0.0]] * 100 and len(case["q0"]) == len(mesh.vertices)
    monkeypatch.setenv(newton_rates.PYTHON, "/no/such/python")
    found = newton_rates.newton_seconds(mesh, density=10.0, mu=2.0, lam=3.0, dt=STEP, repeats=1)
    assert found["missing"].startswith("not measured: /no/such/python failed")


def test_newton_stands_beside_the_rates_of_the_run() -> None:
    seconds = {"taped": 1 / 50, "taped, graph": 1 / 200, "backward": 1 / 10, "backward, graph": 1 / 20}
    one = {"sparse": {"forward DP": 1 / 100, "backward DP": 1 / 40}, "newton": {"version": "Newton 1", "seconds": seconds}}
    assert "| 100 | 100 | 50 | 2 | 200 | 0.5 | 40 | 10 | 4 | 20 | 2 |" in rates._newton({100: one})
    assert rates._newton({100: one | {"newton": {"missing": "not measured: x"}}}) .startswith("Newton was not measured: x.")


def test_the_page_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preset = replace(PRESETS["tiny"], size=SIZE, tetrahedra=100)
    page = rates.make("table-4-right", preset, tmp_path, jobs=1)
    assert page.text.count("\n| 100 |") == 3 and "not among the sizes" in page.text
    monkeypatch.setattr(cells, "_perform", lambda cell, folder: pytest.fail(f"{cell.name} is made again"))
    assert rates.make("table-4-right", preset, tmp_path, jobs=1).text == page.text


def test_rates_are_compared_with_the_paper_the_public_code_and_what_was_asked() -> None:
    sparse = {"forward DP": 1 / 2999, "forward DR": 1 / 50, "backward DP": 1 / 320, "backward DP + DR": 1 / 251}
    one = {"sparse": sparse, "dense": sparse | {"forward DP + DR": 1 / 40}, "triangles": 7}
    assert rates._row(10_000, one) == ["10,000", "7", "2,999", "3,721", "50", "1,500", "320", "1,429", "251", "248"]
    assert rates._public_row(10_000, one) == ["10,000", "2,999", "480", "6.25", "320", "160", "2"]
    asked = rates._asked({10_000: one})
    assert "forward DP 2,999 Hz of 3,000 (MISSED)" in asked and "backward DP + DR 251 Hz of 250 (reached)" in asked
