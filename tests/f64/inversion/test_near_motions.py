"""Motions near a point, between a few simulated ones where each world takes implicit steps."""

import numpy as np
import pytest
import torch

from risp_torch.inversion.diagnostics import near_motions
from risp_torch.inversion.diagnostics.near_motions import motions_near
from risp_torch.inversion.problem.films.rendered_film import motion_at
from risp_torch.inversion.problem.unknowns import Unknowns
from scenes.strip import make_scene

POINT = np.array([9.0, 1200.0])  # decades, kg/m3
DIRECTIONS = np.array([[2e-3, 3.0], [-1e-3, 4.0]])
MOVES = np.random.default_rng(0).normal(size=(7, 2)) @ DIRECTIONS


def strip():
    scene = make_scene(cells=(3, 1, 1), linear=True, substeps=1, frames=4, size=16, push=0.05)
    return scene, Unknowns.of(scene, ["strip.E", "strip.density"])


@pytest.fixture
def simulated(monkeypatch):
    """The calls that simulate from now on."""
    calls = []
    monkeypatch.setattr(near_motions, "motion_at", lambda *given: calls.append(given) or motion_at(*given))
    return calls


def test_motions_within_small_bars_are_linear(simulated):
    """They differ from simulated ones by little of the change, and take 2 K + 1 worlds."""
    scene, unknowns = strip()
    center = motion_at(scene, unknowns, unknowns.physical_values(POINT))[0]
    near = list(motions_near(scene, unknowns, POINT, MOVES, DIRECTIONS))
    assert len(simulated) == 5
    for (states, values), move in zip(near, MOVES, strict=True):
        expected, expected_values = motion_at(scene, unknowns, unknowns.physical_values(POINT + move))
        change = (expected.particle_q - center.particle_q).abs().max()
        assert 0 < (states.particle_q - expected.particle_q).abs().max() < 0.02 * change
        for name, value in expected_values.items():
            torch.testing.assert_close(values[name], value)
        assert scene.render(states, values).shape == (1, 5, 16, 16, 3)


@pytest.mark.parametrize("scale, count", [(1.0, 4), (100.0, 7)], ids=["few", "curved"])
def test_other_motions_are_simulated(simulated, scale, count):
    """A few moves, and motions that curve within the bars."""
    scene, unknowns = strip()
    moves = scale * MOVES[:count] if scale == 1.0 else MOVES
    near = list(motions_near(scene, unknowns, POINT, moves, scale * DIRECTIONS))
    expected = motion_at(scene, unknowns, unknowns.physical_values(POINT + moves[-1]))[0]
    torch.testing.assert_close(near[-1][0].particle_q, expected.particle_q, rtol=0, atol=0)
    assert len(simulated) >= count
