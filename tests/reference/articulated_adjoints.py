"""``gradcheck`` of every input of an articulated rollout.

The loss is a random linear functional of all frames: joint coordinates and velocities, poses and velocities of the links.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields

import numpy as np

from ti_sim.articulated.model import ArticulatedInputs, ArticulatedModel, ArticulatedSettings
from ti_sim.articulated.solver import ArticulatedSolver
from ti_sim.base.gradcheck import gradcheck
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

    def frames(at: dict[str, np.ndarray], **options: object) -> tuple:
        given = {name: array * units.get(name, 1.0) for name, array in at.items()}
        rollout = solver.rollout(ArticulatedInputs(**given), inputs.frame_count, **options)
        return rollout, (rollout.joint_q, rollout.joint_qd, rollout.body_q, rollout.body_qd)

    point = {name: array / units.get(name, 1.0) for name, array in inputs.named_arrays().items()}
    weights = [rng.standard_normal(array.shape) for array in frames(point)[1]]

    def loss(at: dict[str, np.ndarray]) -> float:
        return float(sum(np.sum(w * array) for w, array in zip(weights, frames(at)[1], strict=True)))

    def loss_and_gradient(at: dict[str, np.ndarray]) -> tuple[float, dict[str, np.ndarray]]:
        bars = solver.rollout_adjoint(frames(at, adjoint=adjoint or StoreAll())[0], *weights).named_arrays()
        return loss(at), {name: array * units.get(name, 1.0) for name, array in bars.items()}

    finite = [name for name in point if np.isfinite(point[name]).all()]
    each = {name: (steps or {}).get(name, step) for name in finite}
    report = gradcheck(
        loss_and_gradient, point, loss=loss, names=finite, rtol=rtol, floor=1e-4, atol=atol, max_entries=few, step=each,
        order=order,
    )  # fmt: skip
    report.raise_if_wrong()
    return {entry.name for entry in report.entries if entry.status == "ok"}
