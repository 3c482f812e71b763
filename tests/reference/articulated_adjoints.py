"""``gradcheck`` of every input of an articulated rollout.

The loss is a random linear functional of all frames: joint coordinates and velocities, poses and velocities of the links.
"""

from dataclasses import MISSING, fields

import numpy as np

from ti_sim.articulated.model import ArticulatedInputs, ArticulatedModel, ArticulatedSettings
from ti_sim.articulated.solver import ArticulatedSolver
from ti_sim.base.gradcheck import gradcheck
from ti_sim.rollout.adjoint import StoreAll

NAMES = [field.name for field in fields(ArticulatedInputs) if field.default is MISSING]  # without dry friction


def check_adjoint(model: ArticulatedModel, inputs: ArticulatedInputs, settings: ArticulatedSettings, few: int) -> set[str]:
    """Assert that adjoint and differences agree; returns the names of the inputs that the loss reacts to."""
    solver = ArticulatedSolver(model, settings)
    rng = np.random.default_rng(1)

    def frames(at: dict[str, np.ndarray], **options: object) -> tuple:
        rollout = solver.rollout(ArticulatedInputs(**at), inputs.frame_count, **options)
        return rollout, (rollout.joint_q, rollout.joint_qd, rollout.body_q, rollout.body_qd)

    point = inputs.named_arrays()
    weights = [rng.standard_normal(array.shape) for array in frames(point)[1]]

    def loss(at: dict[str, np.ndarray]) -> float:
        return float(sum(np.sum(w * array) for w, array in zip(weights, frames(at)[1], strict=True)))

    def loss_and_gradient(at: dict[str, np.ndarray]) -> tuple[float, dict[str, np.ndarray]]:
        bars = solver.rollout_adjoint(frames(at, adjoint=StoreAll())[0], *weights)
        return loss(at), bars.named_arrays()

    finite = [name for name in point if np.isfinite(point[name]).all()]
    report = gradcheck(
        loss_and_gradient, point, loss=loss, names=finite, rtol=1e-5, floor=1e-4, atol=2e-8, max_entries=few, step=2e-6, order=2
    )
    report.raise_if_wrong()
    return {entry.name for entry in report.entries if entry.status == "ok"}
