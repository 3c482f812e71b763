"""A rollout of deformable bodies and links that meet each other as a differentiable torch function."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import torch

from risp_torch.bridge.articulated import failed_links
from risp_torch.bridge.checks import kernel_tensor, upstream
from risp_torch.bridge.once import once, twice
from ti_sim.adjoint import Adjoint, StoreAll
from ti_sim.articulated.model import ArticulatedInputs
from ti_sim.coupled.model import CoupledInputs
from ti_sim.coupled.solver import CoupledBars, CoupledRollout, CoupledSolver
from ti_sim.deformable.inputs import DeformableInputs

_LINKS, _PARTICLES = (tuple(field.name for field in fields(kind)) for kind in (ArticulatedInputs, DeformableInputs))


class _Rollout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, solver: CoupledSolver, frames: int, adjoint: Adjoint | None, *tensors: torch.Tensor) -> Any:
        given = [kernel_tensor(t, name) for t, name in zip(tensors, _LINKS + _PARTICLES, strict=True)]
        inputs = CoupledInputs(ArticulatedInputs(*given[: len(_LINKS)]), DeformableInputs(*given[len(_LINKS) :]))
        result = solver.rollout(inputs, frames, adjoint=adjoint)
        ctx.solver = solver
        ctx.save_for_backward(*tensors)  # with their graphs, for the error of a second derivative
        ctx.kept = result if adjoint is not None else None
        solver.check_divergence(result)
        links = failed_links(result.links, solver.model.articulated.link_count)
        steps = result.links.diverged_step
        particles = torch.where(result.particles.diverged_particle >= 0, steps, torch.full_like(steps, -1))
        ctx.mark_non_differentiable(links, particles)
        # Copies: what is returned may change hands, and the adjoint reads the rollout's own frames.
        return *(frames_at.clone() for frames_at in result.frame_arrays), links, particles

    @staticmethod
    def backward(ctx: Any, *bars: Any) -> Any:
        kept: CoupledRollout = ctx.kept
        given = [upstream(bar, like.shape, like) for bar, like in zip(bars[:6], kept.frame_arrays, strict=True)]

        def adjoints() -> tuple[torch.Tensor, ...]:
            result = ctx.solver.rollout_adjoint(kept, CoupledBars(*given))
            return *result.links.arrays(), *result.particles.arrays()

        return None, None, None, *once(adjoints, twice("a rollout"), *bars[:6], *ctx.saved_tensors)


def coupled_rollout(
    solver: CoupledSolver, inputs: CoupledInputs, frames: int, *, adjoint: Adjoint | None = None
) -> tuple[torch.Tensor, ...]:
    """Simulate, differentiable in every tensor of ``inputs``.

    Args:
        solver: the coupled solver.
        inputs: tensors of the runtime's precision on its device.
        frames: frame intervals.
        adjoint: as of ``rollout``.

    Returns:
        joint_q [B, frames + 1, Q], joint_qd [B, frames + 1, D], body_q [B, frames + 1, N, 7] and body_qd [B, frames + 1, N, 6] of
        the link frames (m, rad, quaternion; m/s, rad/s, world frame), particle_q [B, frames + 1, P, 3] m and particle_qd
        [B, frames + 1, P, 3] m/s, and the diverged_step of links [B, N] and of particles [B], int32 (-1 where all went well).

    Raises:
        UserError: a tensor has the wrong device, precision or shape. DivergenceError: every world diverged. A second derivative
            raises RuntimeError.
    """
    tensors = (*inputs.links.arrays(), *inputs.particles.arrays())
    wanted = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    return _Rollout.apply(solver, frames, (adjoint or StoreAll()) if wanted else None, *tensors)
