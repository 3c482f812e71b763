"""A solver's rollout as one call on ``ti.ad.Tape`` with its hand-written adjoint: for Taichi programs without torch."""

from typing import Any, ClassVar

from ti_sim.base.arrays import Array, check_array, empty_in_same_library
from ti_sim.base.errors import UserError
from ti_sim.base.kernels import accumulate, copy
from ti_sim.base.runtime import ti
from ti_sim.rollout.adjoint import Adjoint, StoreAll


class SolverTape:
    """Base class of rollouts that record themselves on a running tape.

    The arrays are ti.ndarrays with ``needs_grad=True`` (empty ones may be numpy arrays); the gradient is added to the ``.grad``
    of every input array.

    Attributes:
        output_names: names of the rollout's positions and velocities at the frames, which ``record`` writes.
    """

    output_names: ClassVar[tuple[str, str]]

    def __init__(self, solver: Any, frames: int, *, adjoint: Adjoint | None = None) -> None:
        """Bind a solver to a number of frame intervals.

        Args:
            solver: solver to run.
            frames: frame intervals.
            adjoint: how states are stored; StoreAll() when None.
        """
        self.solver = solver
        self.frames = frames
        self.adjoint = adjoint or StoreAll()

    def record(self, inputs: Any, positions: Array, velocities: Array) -> None:
        """Simulate, and write positions and velocities at the frames.

        Args:
            inputs: inputs of the solver.
            positions, velocities: ti.ndarrays, each of the shape of the rollout's array named in ``output_names``.

        Raises:
            UserError: shapes or precision do not fit.
        """
        _run(_Call(self), inputs, positions, velocities)


class _Call:
    """One call of a ``SolverTape``. Each call stores its own states, so a tape can hold several."""

    def __init__(self, tape: SolverTape) -> None:
        self.solver, self.frames, self.adjoint, self.names = tape.solver, tape.frames, tape.adjoint, tape.output_names
        self.rollout: Any = None


@ti.ad.grad_replaced
def _run(call: _Call, inputs: Any, positions: Array, velocities: Array) -> None:
    """Forward pass of ``SolverTape``; Taichi replaces its gradient by ``_run_adjoint``."""
    call.rollout = call.solver.rollout(_without_gradient(inputs), call.frames, adjoint=call.adjoint)
    for name, value in zip(call.names, (positions, velocities), strict=True):
        result = getattr(call.rollout, name)
        check_array(value, name, tuple(result.shape))
        copy(result, value)


@ti.ad.grad_for(_run)
def _run_adjoint(call: _Call, inputs: Any, positions: Array, velocities: Array) -> None:
    """Add the adjoints of all inputs to their ``.grad``; reads the frames' ``.grad``."""
    if positions.grad is None or velocities.grad is None:
        raise UserError(f"{' and '.join(call.names)} have no gradient: make both with ti.ndarray(..., needs_grad=True)")
    bars = call.solver.rollout_adjoint(call.rollout, positions.grad, velocities.grad)
    for array, bar in zip(inputs.arrays(), bars.arrays(), strict=True):
        if isinstance(array, ti.Ndarray) and array.grad is not None:
            accumulate(bar, array.grad)


def _without_gradient(inputs: Any) -> Any:
    """The inputs with copies of the arrays that have no ``.grad``: with one, Taichi would compile every kernel a second time."""
    copies = []
    for array in inputs.arrays():
        if isinstance(array, ti.Ndarray):
            copies.append(empty_in_same_library(array, tuple(array.shape)))
            copy(array, copies[-1])
        else:
            copies.append(array)
    return inputs.with_arrays(copies)
