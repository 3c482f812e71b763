"""``gradcheck`` of the inputs of a rigid rollout, whose loss is a random linear functional of all frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tests.reference.gradients_in_worlds import Point, gradcheck_in_worlds
from ti_sim.base.gradcheck import GradcheckReport
from ti_sim.rigid.model import RigidInputs
from ti_sim.rigid.solver import RigidRollout, RigidSolver
from ti_sim.rollout.adjoint import Adjoint


def rigid_gradcheck(
    solver: RigidSolver, inputs: RigidInputs, names: Sequence[str], frames: int, adjoint: Adjoint, *,
    units: Mapping[str, float] | None = None, **options: object,
) -> GradcheckReport:  # fmt: skip
    """Compare the adjoint of poses and velocities in all frames with differences.

    Args:
        solver: of the model.
        inputs: of one or several worlds, which the loss sums.
        names: inputs to vary.
        frames: number of frame intervals.
        adjoint: how the states are stored.
        units: by name, unit in which an input is varied, so that its derivative is of the size of others.
        options: of ``gradcheck``.
    """
    units, rng = {name: (units or {}).get(name, 1.0) for name in names}, np.random.default_rng(7)
    shape = inputs.world_count, frames + 1, solver.model.body_count
    weights = [rng.standard_normal((*shape, size)) for size in (7, 6)]

    def rollout(points: list[Point], **stored: Adjoint) -> RigidRollout:
        given = {name: units[name] * np.concatenate([at[name] for at in points]) for name in names}
        return solver.rollout(RigidInputs(**given), frames, **stored)

    def losses(points: list[Point]) -> np.ndarray:
        arrays = rollout(points).frame_arrays
        return sum(array.reshape(len(points), -1) @ weight.ravel() for array, weight in zip(arrays, weights, strict=True))

    def gradient(at: Point) -> Point:
        bars = solver.rollout_adjoint(rollout([at], adjoint=adjoint), *weights)
        return {name: units[name] * getattr(bars, name) for name in names}

    return gradcheck_in_worlds(losses, gradient, {name: getattr(inputs, name) / units[name] for name in names}, **options)
