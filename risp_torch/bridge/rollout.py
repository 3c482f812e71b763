"""A rigid rollout as a differentiable torch function."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import torch

from risp_torch.bridge.checks import kernel_tensor, upstream
from risp_torch.bridge.once import once, twice
from ti_sim.adjoint import Adjoint, StoreAll
from ti_sim.rigid.model import RigidInputs
from ti_sim.rigid.solver import RigidRollout, RigidSolver

_NAMES = tuple(field.name for field in fields(RigidInputs))


class _Rollout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, solver: RigidSolver, frames: int, adjoint: Adjoint | None, *tensors: torch.Tensor) -> Any:
        # The last two are None, and not among the tensors, in a model that is not driven.
        inputs = RigidInputs(*(kernel_tensor(t, name) for t, name in zip(tensors, _NAMES, strict=False)))
        result = solver.rollout(inputs, frames, adjoint=adjoint)
        ctx.solver = solver
        ctx.save_for_backward(*tensors)  # with their graphs, for the error of a second derivative
        # Frames are returned, so the kept rollout must not hold them: that would be a cycle through the graph.
        ctx.kept = (frames, adjoint, inputs, result.states, result.diverged_step)
        left_region = torch.as_tensor(result.left_region)
        ctx.mark_non_differentiable(result.diverged_step, left_region)
        return result.body_q, result.body_qd, result.diverged_step, left_region

    @staticmethod
    def backward(ctx: Any, body_q_bar: Any, body_qd_bar: Any, _diverged: Any, _left: Any) -> Any:
        frames, adjoint, inputs, states, diverged = ctx.kept
        like = inputs.body_mass
        shape = (inputs.world_count, frames + 1, ctx.solver.model.body_count)
        q_bar = upstream(body_q_bar, torch.Size((*shape, 7)), like)
        qd_bar = upstream(body_qd_bar, torch.Size((*shape, 6)), like)
        # The frames themselves are not needed again (recomputed segments write none): their adjoints stand in their place.
        rollout = RigidRollout(q_bar, qd_bar, diverged, inputs, frames, adjoint, states)

        def adjoints() -> tuple[torch.Tensor, ...]:
            return ctx.solver.rollout_adjoint(rollout, q_bar, qd_bar).arrays()

        return None, None, None, *once(adjoints, twice("a rollout"), body_q_bar, body_qd_bar, *ctx.saved_tensors)


def rollout(
    solver: RigidSolver, inputs: RigidInputs, frames: int, *, adjoint: Adjoint | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Simulate, differentiable in every tensor of ``inputs``.

    Args:
        solver: the rigid solver.
        inputs: tensors of the runtime's precision on its device (shapes: ``RigidInputs``).
        frames: frame intervals.
        adjoint: how states are kept for the backward pass; StoreAll() when None. Under ``torch.no_grad()``, and when no
            input requires a gradient, nothing is kept.

    Returns:
        body_q [B, frames + 1, N, 7] (m, quaternion), body_qd [B, frames + 1, N, 6] (m/s, rad/s), diverged_step [B, N] int32
        (-1 where all went well) and left_region [B, N] bool (on the CPU; whether it was the distance that ended a motion).

    Raises:
        UserError: a tensor has the wrong device, precision or shape. A second derivative raises RuntimeError.
    """
    wanted = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs.arrays())
    return _Rollout.apply(solver, frames, (adjoint or StoreAll()) if wanted else None, *inputs.arrays())
