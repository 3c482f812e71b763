"""``gradcheck`` of every input of an articulated rollout.

The loss is a random linear functional of all frames: joint coordinates and velocities, poses and velocities of the links.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields

import numpy as np

from tests.reference.gradients_in_worlds import Point, gradcheck_in_worlds
from ti_sim.articulated.model import ArticulatedInputs, ArticulatedModel, ArticulatedSettings
from ti_sim.articulated.solver import ArticulatedRollout, ArticulatedSolver
from ti_sim.rollout.adjoint import Adjoint, StoreAll

NAMES = [field.name for field in fields(ArticulatedInputs) if field.default is MISSING]  # without dry friction


def check_adjoint(
    model: ArticulatedModel, inputs: ArticulatedInputs, settings: ArticulatedSettings, few: int, *,
    adjoint: Adjoint | None = None, units: Mapping[str, float] | None = None, rtol: float = 1e-5, atol: float = 2e-8,
    order: int = 2, step: float = 2e-6, steps: Mapping[str, float] | None = None,
) -> set[str]:  # fmt: skip
    """Assert that adjoint and differences agree; returns the names of the inputs that the loss reacts to.

    Args:
        model, inputs, settings: of the rollout.
        few: number of entries of each input.
        adjoint: how the states are stored; all of them by default.
        units: by name, unit in which an input is varied, so that its derivative is of the size of others.
        rtol, atol, order, step: of ``gradcheck``.
        steps: by name, steps of inputs on which kinks or roundoff depend in another way.
    """
    solver, units = ArticulatedSolver(model, settings), units or {}
    rng = np.random.default_rng(1)

    def frames(points: list[Point], **options: object) -> ArticulatedRollout:
        given = {name: np.concatenate([at[name] for at in points]) * units.get(name, 1.0) for name in points[0]}
        return solver.rollout(ArticulatedInputs(**given), inputs.frame_count, **options)

    point = {name: array / units.get(name, 1.0) for name, array in inputs.named_arrays().items()}
    weights = [rng.standard_normal(array.shape) for array in frames([point]).frame_arrays]

    def losses(points: list[Point]) -> np.ndarray:
        arrays = frames(points).frame_arrays
        return sum(array.reshape(len(points), -1) @ w.ravel() for w, array in zip(weights, arrays, strict=True))

    def gradient(at: Point) -> Point:
        bars = solver.rollout_adjoint(frames([at], adjoint=adjoint or StoreAll()), *weights).named_arrays()
        return {name: array * units.get(name, 1.0) for name, array in bars.items()}

    finite = [name for name in point if np.isfinite(point[name]).all()]
    each = {name: (steps or {}).get(name, step) for name in finite}
    report = gradcheck_in_worlds(
        losses, gradient, point, names=finite, rtol=rtol, floor=1e-4, atol=atol, max_entries=few, step=each,
        order=order,
    )  # fmt: skip
    report.raise_if_wrong()
    return {entry.name for entry in report.entries if entry.status == "ok"}
