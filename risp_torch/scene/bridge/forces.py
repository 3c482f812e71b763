"""Contact and joint forces of any solver at one state as a differentiable torch function."""

from __future__ import annotations

from typing import Any

import torch

from risp_torch.scene.bridge.checks import kernel_tensor
from risp_torch.scene.bridge.derivative_errors import Derivative
from ti_sim.base.rules import checked
from ti_sim.rollout.arrays import Arrays
from ti_sim.rollout.solver import Solver

_NO_FORWARD_MODE = (
    "contact forces have no forward derivatives (torch.func.jvp, jacfwd, forward_ad): use reverse ones (torch.func.vjp, jacrev, "
    "backward)"
)
_NO_VMAP = "contact forces are computed in batches: pass all states in one call, as worlds or frames, in place of torch.func.vmap"


def _with_tensors(inputs: Arrays, tensors: tuple[torch.Tensor, ...]) -> Arrays:
    """The inputs with these tensors as arrays of kernels."""
    named, double_names = zip(tensors, inputs.named_arrays(), strict=True), inputs.double_names()
    return inputs.with_arrays(kernel_tensor(tensor, name, double=name in double_names) for tensor, name in named)


class _Forces(torch.autograd.Function):
    @staticmethod
    def forward(solver: Solver, inputs: Arrays, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(solver.forces(_with_tensors(inputs, tensors)))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
        ctx.solver, ctx.inputs, *tensors = inputs
        ctx.save_for_backward(*tensors)  # with their graphs, for the error of a second derivative

    @staticmethod
    def backward(ctx: Any, *bars: torch.Tensor) -> Any:
        return None, None, *_Adjoint.apply((ctx.solver, ctx.inputs, len(bars)), *bars, *ctx.saved_tensors)

    @staticmethod
    def jvp(ctx: Any, *_tangents: torch.Tensor | None) -> Any:
        raise RuntimeError(_NO_FORWARD_MODE)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *_arguments: Any) -> Any:
        raise RuntimeError(_NO_VMAP)


class _Adjoint(Derivative):
    """Adjoints of the tensors from those of the forces."""

    subject = "contact forces"

    @staticmethod
    def forward(call: tuple[Solver, Arrays, int], *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        solver, inputs, num_bars = call
        bars = (bar.detach().contiguous() for bar in tensors[:num_bars])
        return tuple(solver.forces_adjoint(_with_tensors(inputs, tensors[num_bars:]), *bars).arrays())


@checked
def forces(solver: Solver, inputs: Arrays) -> dict[str, torch.Tensor]:
    """Forces at the initial state of the inputs (``Solver.forces``), differentiable in every tensor of ``inputs``.

    Args:
        solver: rigid, articulated, deformable or coupled solver.
        inputs: inputs of the solver, tensors of the runtime's precision on its device.

    Returns:
        The arrays of the solver's ``force_names`` by name.

    Raises:
        UserError: a tensor has the wrong device, precision or shape, or the solver does not compute forces. Second and forward
            derivatives raise RuntimeError.
    """
    return dict(zip(solver.force_names, _Forces.apply(solver, inputs, *inputs.arrays()), strict=True))
