"""Scatter of an estimate by rounding: the shift that errors of the simulation cause, which its residual does not show."""

import numpy as np
import pytest
import torch

from risp_torch import Param
from risp_torch.inversion import Unknowns, linearise
from risp_torch.inversion.uncertainty.rounding import RELATIVE_MOVE, rounding_scatter
from tests.reference.linear_films import FRAMES, SIDE, LinearLoss, LinearScene, compared

SIZE = 1e-9  # of the errors, in units of the unknown
FAST = 1e9  # 1/unit: the error has no relation to itself at the next point


class RoundedLoss(LinearLoss):
    """Observations whose unknown is wrong by an error that differs from point to point."""

    def observe(self, scene, states, values, frames):
        """The same of wrong values (``Loss.observe``)."""
        return super().observe(scene, states, {name: x + SIZE * torch.sin(FAST * x) for name, x in values.items()}, frames)


def made(loss_class: type[LinearLoss]) -> tuple[LinearScene, Unknowns, object]:
    scene = LinearScene()
    scene.add_number("x", Param(0.3, low=0.0, high=2.0))
    columns = {"x": torch.rand(FRAMES, SIDE, generator=torch.manual_seed(1), dtype=torch.float64)}
    loss = loss_class(columns, 0.3 * columns["x"])
    return scene, Unknowns.of(scene, ["x"]), compared(loss)


def test_errors_of_the_simulation_move_the_estimate_by_their_own_size() -> None:
    """The estimate moves by the difference of two errors, that of the point and that of another one (mean square 1/2)."""
    scene, unknowns, comparison = made(RoundedLoss)
    at = linearise(scene, comparison, unknowns, np.array([0.3]))
    expected = SIZE * np.sqrt(0.5 + np.sin(FAST * 0.3) ** 2)
    assert rounding_scatter(scene, unknowns, at, worlds=400)[0] == pytest.approx(expected, rel=0.1)


def test_an_exact_simulation_has_none() -> None:
    scene, unknowns, comparison = made(LinearLoss)
    at = linearise(scene, comparison, unknowns, np.array([0.3]))
    assert rounding_scatter(scene, unknowns, at)[0] < 1e-6 * RELATIVE_MOVE


def test_points_lie_within_the_bounds() -> None:
    scene, unknowns, comparison = made(RoundedLoss)
    at = linearise(scene, comparison, unknowns, np.array([2.0]))
    assert 0 < rounding_scatter(scene, unknowns, at)[0] < 3 * SIZE
