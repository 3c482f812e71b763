"""An articulated rollout as a differentiable torch function."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import torch

from risp_torch.bridge.checks import kernel_tensor, upstream
from risp_torch.bridge.once import once, twice
from ti_sim.adjoint import Adjoint, StoreAll
from ti_sim.articulated.model import ArticulatedInputs
from ti_sim.articulated.solver import ArticulatedRollout, ArticulatedSolver

_NAMES = tuple(field.name for field in fields(ArticulatedInputs))


class _Rollout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, solver: ArticulatedSolver, frames: int, adjoint: Adjoint | None, *tensors: torch.Tensor) -> Any:
        inputs = ArticulatedInputs(*(kernel_tensor(t, name) for t, name in zip(tensors, _NAMES, strict=True)))
        result = solver.rollout(inputs, frames, adjoint=adjoint)
        ctx.solver = solver
        ctx.save_for_backward(*tensors)  # with their graphs, for the error of a second derivative
        ctx.kept = result if adjoint is not None else None
        solver.check_divergence(result)
        steps = failed_links(result, solver.model.link_count)
        ctx.mark_non_differentiable(steps)
        # Copies: what is returned may change hands, and the adjoint reads the rollout's own frames.
        return *(t.clone() for t in (result.joint_q, result.joint_qd, result.body_q, result.body_qd)), steps

    @staticmethod
    def backward(ctx: Any, *bars: Any) -> Any:
        kept: ArticulatedRollout = ctx.kept
        frames = (kept.joint_q, kept.joint_qd, kept.body_q, kept.body_qd)
        given = [upstream(bar, like.shape, like) for bar, like in zip(bars[:4], frames, strict=True)]

        def adjoints() -> tuple[torch.Tensor, ...]:
            return ctx.solver.rollout_adjoint(kept, *given).arrays()

        return None, None, None, *once(adjoints, twice("a rollout"), *bars[:4], *ctx.saved_tensors)


def failed_links(result: ArticulatedRollout, links: int) -> torch.Tensor:
    """[B, N] int32 step after which a link's joint was the first whose state was not finite, -1 for all others."""
    steps = torch.full((len(result.diverged_step), links), -1, dtype=torch.int32, device=result.diverged_step.device)
    failed = torch.nonzero(result.diverged_link >= 0)[:, 0]
    steps[failed, result.diverged_link[failed].long()] = result.diverged_step[failed]
    return steps


def articulated_rollout(
    solver: ArticulatedSolver, inputs: ArticulatedInputs, frames: int, *, adjoint: Adjoint | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Simulate, differentiable in every tensor of ``inputs``.

    Args:
        solver: the articulated solver.
        inputs: tensors of the runtime's precision on its device (shapes: ``ArticulatedInputs``).
        frames: frame intervals.
        adjoint: as of ``rollout``.

    Returns:
        joint_q [B, frames + 1, Q], joint_qd [B, frames + 1, D], body_q [B, frames + 1, N, 7] and body_qd [B, frames + 1, N, 6] of
        the link frames (m, rad, quaternion; m/s, rad/s, world frame), and diverged_step [B, N] int32 (-1 where all went well).

    Raises:
        UserError: a tensor has the wrong device, precision or shape. DivergenceError: every world diverged. A second derivative
            raises RuntimeError.
    """
    wanted = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs.arrays())
    return _Rollout.apply(solver, frames, (adjoint or StoreAll()) if wanted else None, *inputs.arrays())
