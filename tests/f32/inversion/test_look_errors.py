"""Shifts of estimates by what a solved look cannot represent, found from films of the estimate in known looks."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from risp_torch import (
    AmbientLight,
    Box,
    Camera,
    DirectionalLight,
    LookSettings,
    MatchedLoss,
    PixelLoss,
    Scene,
    Start,
    Surface,
)
from risp_torch.inversion.losses.loss import Loss
from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.inversion.problem.linearisation import Linearisation, linearise, newton_step
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.inversion.uncertainty import error_bars as bars_module
from risp_torch.inversion.uncertainty.appearance_errors import look_moves
from risp_torch.inversion.uncertainty.covariance import CovarianceEstimate
from tests.reference.searches import quick

NAME, SPEED = "box.velocity[0]", 0.8
RANGE = 1.2  # of the speed
LAMPS = ((0.8, 0.2, -0.3), (-0.4, 0.6, -1.0), (-0.9, -0.5, -0.2))


def thrown(lamp: tuple[float, float, float] = LAMPS[1]) -> Scene:
    """A box that turns in the light of a lamp, as no light of nine spherical harmonics shows it."""
    scene = Scene(frame_dt=0.02, frames=8, substeps=2, name="thrown")
    scene.add_rigid(
        "box", shape=Box(0.07, 0.05, 0.06), density=500.0, surface=Surface(color=(0.8, 0.3, 0.2)),
        start=Start(position=(-0.08, 0.0, 0.03), velocity=(SPEED, 0.1, 0.9), angular_velocity=(3.0, 8.0, 1.0)),
    )  # fmt: skip
    scene.add_camera(Camera.look_at(eye=(0.05, -0.6, 0.2), target=(0.0, 0.0, 0.06), vertical_fov=30.0, width=32, height=32))
    scene.add_light(DirectionalLight(direction=lamp, intensity=0.8))
    scene.add_light(AmbientLight(intensity=0.2))
    scene.set_background(top=(0.2, 0.3, 0.6), bottom=(0.7, 0.6, 0.4))
    return scene


def film_of(scene: Scene) -> torch.Tensor:
    with torch.no_grad():
        return scene.render(scene.rollout())[0]


def at_truth(lamp: tuple[float, float, float], loss: Loss) -> tuple[Scene, Unknowns, Linearisation]:
    """The scene, its unknown, and the film of another lamp at the true speed."""
    scene = thrown()
    unknowns = Unknowns.of(scene, [NAME], bounds={NAME: (0.3, 0.3 + RANGE)})
    return scene, unknowns, linearise(scene, Comparison.of(scene, loss, film_of(thrown(lamp))), unknowns, np.array([SPEED]))


def test_films_in_known_looks_have_shifts_as_large_as_those_of_the_film() -> None:
    """Films of other lamps without noise move the estimate by more than bars of the residual hold, and by at most two shifts."""
    in_bars, in_shifts = [], []
    for lamp in LAMPS:
        scene, unknowns, at = at_truth(lamp, MatchedLoss(LookSettings(edges="scene")))
        shift = np.sqrt(np.mean(look_moves(scene, unknowns, at, np.array([SPEED]), 1e-9) ** 2))
        step = abs(newton_step(at)[0])
        in_bars.append(step / np.sqrt(CovarianceEstimate.of(at, 1e-12).variances[0]))
        in_shifts.append(step / shift)
    assert max(in_bars) > 2.2 and max(in_shifts) < 1.96 and max(in_shifts) > 0.3, (in_bars, in_shifts)


def test_shifts_are_as_large_as_what_noise_leaves() -> None:
    scene, unknowns, at = at_truth(LAMPS[0], MatchedLoss())
    whole, half = (look_moves(scene, unknowns, at, np.array([SPEED]), part * at.loss) for part in (0.0, 0.75))
    assert len(whole) == 4
    np.testing.assert_allclose(half, 0.5 * whole, rtol=1e-3)
    for explained in (None, at.loss):
        assert not look_moves(scene, unknowns, at, np.array([SPEED]), explained).any()
    assert not look_moves(scene, unknowns, at_truth(LAMPS[0], PixelLoss())[2], np.array([SPEED]), 0.0).any()


def test_bars_contain_errors_of_the_solved_look(monkeypatch: pytest.MonkeyPatch) -> None:
    moves = []
    monkeypatch.setattr(bars_module, "look_moves", lambda *given: moves.append(look_moves(*given)) or moves[0])
    monkeypatch.setattr(bars_module, "flatness", lambda scene, unknowns, at, spread, sizes: np.full(len(sizes), 2.0))
    options = {"bounds": {NAME: (0.3, 0.3 + RANGE)}, "starts": [{NAME: SPEED}], "refine": 1}
    result = quick(thrown(), film_of(thrown(LAMPS[0])), [NAME], loss=MatchedLoss(LookSettings(edges="scene")), **options)
    part = result.uncertainty.components["solved look"]
    np.testing.assert_allclose(part, 2.0 * RANGE * np.sqrt(np.mean(moves[0] ** 2)), rtol=1e-5)
    assert abs(result.values[NAME] - SPEED) < 1.96 * result.sd[NAME]
