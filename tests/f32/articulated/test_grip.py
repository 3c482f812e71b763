"""A box between two fingers, in the precision that users run."""

import numpy as np

from tests.reference.bristle_cases import KT, MASS, pinched
from tests.reference.devices import long_loops
from tests.reference.rigid_cases import GRAVITY
from ti_sim.articulated.model import ArticulatedSettings
from ti_sim.articulated.solver import ArticulatedSolver
from ti_sim.rollout.adjoint import StoreAll


@long_loops
def test_a_pinched_box_stays_in_single_precision() -> None:
    """5 10^4 steps; a part of the displacement below its last digit is lost, and the box does not creep for that."""
    frames = 50
    model, inputs = pinched("box", 5.0, frames=frames)
    inputs = inputs.with_arrays(array.astype(np.float32) for array in inputs.arrays())
    box = ArticulatedSolver(model, ArticulatedSettings(1e-4, 1000)).rollout(inputs, frames).body_q[0, :, 3]
    np.testing.assert_allclose(box[-1, 2], -MASS * GRAVITY / (2 * KT), rtol=2e-2)
    assert np.abs(box[25:] - box[-1]).max() < 1e-7


def test_its_gradient_is_that_of_the_closed_form() -> None:
    model, inputs = pinched("sphere", 5.0, frames=2)
    inputs = inputs.with_arrays(array.astype(np.float32) for array in inputs.arrays())
    solver = ArticulatedSolver(model, ArticulatedSettings(1e-3, 100))
    rollout = solver.rollout(inputs, 2, adjoint=StoreAll())
    seeds = [np.zeros_like(array) for array in rollout.frame_arrays]
    seeds[2][0, -1, 3, 2] = 1.0
    bars = solver.rollout_adjoint(rollout, *seeds)
    # At rest the box is at -m g / (2 kt), with the mean kt of the box and each finger: half of the slope is the box's own.
    wanted = MASS * GRAVITY / (2 * KT**2)
    np.testing.assert_allclose(bars.link_bristle[0], wanted * np.array([0.0, 0.25, 0.25, 0.5]), rtol=2e-2, atol=1e-12)
