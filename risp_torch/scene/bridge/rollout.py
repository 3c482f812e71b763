"""A rollout of any solver as a differentiable torch function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from risp_torch.scene.bridge.checks import kernel_tensor, upstream
from risp_torch.scene.bridge.once import once, twice
from ti_sim.base.errors import DivergenceError
from ti_sim.rollout.adjoint import Adjoint, StoreAll
from ti_sim.rollout.arrays import Arrays
from ti_sim.rollout.solver import Solver


@dataclass(frozen=True)
class _RolloutOptions:
    """Arguments of a rollout besides tensors."""

    solver: Solver
    inputs: Arrays
    frames: int
    adjoint: Adjoint | None
    failures: list[DivergenceError] | None


class _Rollout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, options: _RolloutOptions, *tensors: torch.Tensor) -> Any:
        names = options.inputs.named_arrays()
        inputs = options.inputs.with_arrays(kernel_tensor(t, name) for t, name in zip(tensors, names, strict=True))
        result = options.solver.rollout(inputs, options.frames, adjoint=options.adjoint)
        ctx.solver = options.solver
        ctx.save_for_backward(*tensors)  # with their graphs, for the error of a second derivative
        ctx.kept = result if options.adjoint is not None else None
        try:
            options.solver.check_divergence(result)
        except DivergenceError as error:
            if options.failures is None:
                raise
            options.failures.append(error)
        failed = torch.as_tensor(options.solver.failed_steps(result), device=tensors[0].device).clone()
        ctx.mark_non_differentiable(failed)
        # Copies: callers own the returned arrays, and the kept rollout must not reference its own graph.
        return *(array.clone() for array in result.frame_arrays), failed

    @staticmethod
    def backward(ctx: Any, *bars: Any) -> Any:
        kept = ctx.kept
        given = [upstream(bar, like.shape, like) for bar, like in zip(bars, kept.frame_arrays, strict=False)]

        def adjoints() -> tuple[torch.Tensor, ...]:
            return ctx.solver.rollout_adjoint(kept, *given).arrays()

        return None, *once(adjoints, twice("a rollout"), *bars[: len(given)], *ctx.saved_tensors)


def rollout(
    solver: Solver, inputs: Arrays, frames: int, *, adjoint: Adjoint | None = None, failures: list[DivergenceError] | None = None
) -> tuple[torch.Tensor, ...]:
    """Simulate a batch of worlds, differentiable in every tensor of ``inputs``.

    Args:
        solver: rigid, articulated, deformable or coupled solver.
        inputs: inputs of the solver, tensors of the runtime's precision on its device.
        frames: frame intervals.
        adjoint: how states are kept for the backward pass; StoreAll() when None. Under ``torch.no_grad()``, and when no input
            requires a gradient, nothing is kept.
        failures: list to which the error is appended if all worlds diverge; None raises it.

    Returns:
        The arrays of the solver's ``frame_names``, [B, frames + 1, ...], and its ``failed_steps`` [B, bodies] int32.

    Raises:
        UserError: a tensor has the wrong device, precision or shape. DivergenceError: every world diverged. A second derivative
            raises RuntimeError.
    """
    tensors = inputs.arrays()
    wanted = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    return _Rollout.apply(_RolloutOptions(solver, inputs, frames, (adjoint or StoreAll()) if wanted else None, failures),
    *tensors)
