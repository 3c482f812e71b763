"""A deformable rollout as a differentiable torch function."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import torch

from risp_torch.bridge.checks import kernel_tensor, upstream
from risp_torch.bridge.once import once, twice
from ti_sim.adjoint import Adjoint, StoreAll
from ti_sim.base.errors import DivergenceError
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.solver import DeformableRollout, DeformableSolver

_NAMES = tuple(field.name for field in fields(DeformableInputs))


class _Rollout(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, solver: DeformableSolver, frames: int, adjoint: Adjoint | None, failures: list[DivergenceError] | None,
        *tensors: torch.Tensor,
    ) -> Any:  # fmt: skip
        inputs = DeformableInputs(*(kernel_tensor(t, name) for t, name in zip(tensors, _NAMES, strict=True)))
        result = solver.rollout(inputs, frames, adjoint=adjoint)
        ctx.solver = solver
        ctx.save_for_backward(*tensors)  # with their graphs, for the error of a second derivative
        ctx.kept = result if adjoint is not None else None
        try:
            solver.check_divergence(result)
        except DivergenceError as error:
            if failures is None:
                raise
            failures.append(error)
        # Copies: what is returned may change hands, and the adjoint reads the rollout's own arrays.
        steps = result.diverged_step.clone()
        ctx.mark_non_differentiable(steps)
        return result.particle_q.clone(), result.particle_qd.clone(), steps

    @staticmethod
    def backward(ctx: Any, particle_q_bar: Any, particle_qd_bar: Any, _steps: Any) -> Any:
        kept: DeformableRollout = ctx.kept
        bars = (particle_q_bar, particle_qd_bar)
        given = [upstream(bar, like.shape, like) for bar, like in zip(bars, (kept.particle_q, kept.particle_qd), strict=True)]

        def adjoints() -> tuple[torch.Tensor, ...]:
            return ctx.solver.rollout_adjoint(kept, *given).arrays()

        return None, None, None, None, *once(adjoints, twice("a rollout"), *bars, *ctx.saved_tensors)


def deformable_rollout(
    solver: DeformableSolver, inputs: DeformableInputs, frames: int, *, adjoint: Adjoint | None = None,
    failures: list[DivergenceError] | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """Simulate, differentiable in every tensor of ``inputs``.

    Args:
        solver: the deformable solver.
        inputs: tensors of the runtime's precision on its device (shapes: ``DeformableInputs``).
        frames: frame intervals.
        adjoint: as of ``rollout``.
        failures: gets the error of a rollout all of whose worlds diverged, where it is one of several; else it is raised.

    Returns:
        particle_q [B, frames + 1, P, 3] m and particle_qd [B, frames + 1, P, 3] m/s, and diverged_step [B] int32 (-1 where all
        went well).

    Raises:
        UserError: a tensor has the wrong device, precision or shape. DivergenceError: every world diverged. A second derivative
            raises RuntimeError.
    """
    wanted = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs.arrays())
    kept = (adjoint or StoreAll()) if wanted else None
    return _Rollout.apply(solver, frames, kept, failures, *inputs.arrays())
