"""A rollout of any solver as a differentiable torch function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from risp_torch.scene.bridge.checks import kernel_gradient, kernel_tensor
from risp_torch.scene.bridge.derivative_errors import Derivative
from ti_sim.base.errors import DivergenceError
from ti_sim.base.rules import Count, FromZero, checked
from ti_sim.rollout.adjoint import Adjoint, StoreAll
from ti_sim.rollout.arrays import Arrays
from ti_sim.rollout.solver import Solver

_NO_FORWARD_MODE = (
    "a rollout has no forward derivatives (torch.func.jvp, jacfwd, forward_ad): use reverse ones (torch.func.grad, vjp, jacrev, "
    "backward)"
)
_NO_VMAP = "a rollout runs batches itself: pass all rows in one call, as worlds along the first axis, in place of torch.func.vmap"


@dataclass
class _Call:
    """One rollout: its arguments besides tensors, and what its derivatives need.

    Attributes:
        solver, inputs, frames, adjoint, failures, first_frame: of ``rollout``; ``adjoint`` is None where no input requires
            a gradient.
        result: the rollout with the states that were kept for its derivatives.
    """

    solver: Solver
    inputs: Arrays
    frames: int
    adjoint: Adjoint | None
    failures: list[DivergenceError] | None
    first_frame: int
    result: Any = None


class _Rollout(torch.autograd.Function):
    """The frame arrays, the last arrays and the failed steps of a call."""

    @staticmethod
    def forward(call: _Call, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        named, double_names = zip(tensors, call.inputs.named_arrays(), strict=True), call.inputs.double_names()
        inputs = call.inputs.with_arrays(kernel_tensor(tensor, name, double=name in double_names) for tensor, name in named)
        result = call.solver.rollout(inputs, call.frames, adjoint=call.adjoint, first_frame=call.first_frame)
        call.result = result if call.adjoint is not None else None
        try:
            call.solver.check_divergence(result)
        except DivergenceError as error:
            if call.failures is None:
                raise
            call.failures.append(error)
        failed = torch.as_tensor(call.solver.failed_steps(result), device=tensors[0].device).clone()
        # Copies: callers own the returned arrays, and the kept rollout must not reference its own graph.
        return *(array.clone() for array in (*result.frame_arrays, *result.last_arrays)), failed

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
        ctx.call, *tensors = inputs
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors)  # with their graphs, for the error of a second derivative
        ctx.mark_non_differentiable(output[-1])

    @staticmethod
    def backward(ctx: Any, *bars: torch.Tensor | None) -> Any:
        return None, *_Adjoint.apply(ctx.call, len(bars) - 1, *bars[:-1], *ctx.saved_tensors)

    @staticmethod
    def jvp(ctx: Any, *_tangents: torch.Tensor | None) -> Any:
        raise RuntimeError(_NO_FORWARD_MODE)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *_arguments: Any) -> Any:
        raise RuntimeError(_NO_VMAP)


class _Adjoint(Derivative):
    """Adjoints of the tensors from those of ``num_bars`` arrays of a result."""

    subject = "a rollout"

    @staticmethod
    def forward(call: _Call, num_bars: int, *tensors: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
        frame_arrays, last_arrays = call.result.frame_arrays, call.result.last_arrays
        kernel_bars = [
            kernel_gradient(bar, like.shape, like)
            for bar, like in zip(tensors[:num_bars], (*frame_arrays, *last_arrays), strict=True)
        ]
        frame_bars, last_bars = kernel_bars[: len(frame_arrays)], kernel_bars[len(frame_arrays) :]
        return tuple(call.solver.rollout_adjoint(call.result, *frame_bars, last_bars=last_bars).arrays())


@checked
def rollout(
    solver: Solver,
    inputs: Arrays,
    frames: Count,
    *,
    adjoint: Adjoint | None = None,
    failures: list[DivergenceError] | None = None,
    first_frame: FromZero = 0,
) -> tuple[torch.Tensor, ...]:
    """Simulate a batch of worlds, differentiable in every tensor of ``inputs``.

    Args:
        solver: rigid, articulated, deformable or coupled solver.
        inputs: inputs of the solver, tensors of the runtime's precision on its device.
        frames: frame intervals.
        adjoint: how states are kept for the backward pass; StoreAll() when None. Under ``torch.no_grad()``, and when no input
            requires a gradient, nothing is kept.
        failures: list to which the error is appended if all worlds diverge; None raises it.
        first_frame: frame at which the simulation begins (``Solver.rollout``).

    Returns:
        The arrays of the solver's ``frame_names``, [B, frames + 1, ...], those of its ``last_names``, [B, ...], and its
        ``failed_steps`` [B, bodies] int32.

    Raises:
        UserError: a tensor has the wrong device, precision or shape. DivergenceError: every world diverged. A second derivative
            raises RuntimeError.
    """
    tensors = inputs.arrays()
    needs_gradient = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    adjoint = (adjoint or StoreAll()) if needs_gradient else None
    return _Rollout.apply(_Call(solver, inputs, frames, adjoint, failures, first_frame), *tensors)
