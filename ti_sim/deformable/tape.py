"""The deformable rollout as one call on ``ti.ad.Tape``, its adjoint ours: for programs in Taichi without torch."""

from ti_sim.adjoint import Adjoint, StoreAll
from ti_sim.base.arrays import Array, check_array, empty_like_family
from ti_sim.base.errors import UserError
from ti_sim.base.kernels import accumulate, copy
from ti_sim.base.runtime import ti
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.solver import DeformableRollout, DeformableSolver


class DeformableTape:
    """A deformable rollout whose ``__call__`` records itself on a running tape.

    The arrays are ti.ndarrays with ``needs_grad=True`` (empty ones numpy arrays); the gradient is added to the ``.grad`` of every
    input array.
    """

    def __init__(self, solver: DeformableSolver, frames: int, *, adjoint: Adjoint | None = None) -> None:
        """Bind a solver to a number of frame intervals.

        Args:
            solver: what to run.
            frames: frame intervals.
            adjoint: how states are kept; StoreAll() when None.
        """
        self.solver = solver
        self.frames = frames
        self.adjoint = adjoint or StoreAll()

    def __call__(self, inputs: DeformableInputs, particle_q: Array, particle_qd: Array) -> None:
        """Simulate, and write particle_q and particle_qd [B, frames + 1, P, 3] (ti.ndarrays).

        Raises:
            UserError: shapes or precision do not fit.
        """
        run_rollout(_Call(self), inputs, particle_q, particle_qd)


class _Call:
    """One call of a ``DeformableTape``: each keeps its own states, so that a tape may hold several."""

    def __init__(self, tape: DeformableTape) -> None:
        self.solver, self.frames, self.adjoint = tape.solver, tape.frames, tape.adjoint
        self.rollout: DeformableRollout | None = None


@ti.ad.grad_replaced
def run_rollout(call: _Call, inputs: DeformableInputs, particle_q: Array, particle_qd: Array) -> None:
    """Forward part of ``DeformableTape``; the tape finds its adjoint, ``run_rollout_adjoint``."""
    call.rollout = call.solver.rollout(_without_gradient(inputs), call.frames, adjoint=call.adjoint)
    for name, given, result in (
        ("particle_q", particle_q, call.rollout.particle_q), ("particle_qd", particle_qd, call.rollout.particle_qd)
    ):  # fmt: skip
        check_array(given, name, tuple(result.shape))
        copy(result, given)


@ti.ad.grad_for(run_rollout)
def run_rollout_adjoint(call: _Call, inputs: DeformableInputs, particle_q: Array, particle_qd: Array) -> None:
    """Add the adjoints of all inputs to their ``.grad``; reads the frames' ``.grad``."""
    if particle_q.grad is None or particle_qd.grad is None:
        raise UserError("particle_q and particle_qd have no gradient: make both with ti.ndarray(..., needs_grad=True)")
    bars = call.solver.rollout_adjoint(call.rollout, particle_q.grad, particle_qd.grad)
    for array, bar in zip(inputs.arrays(), bars.arrays(), strict=True):
        if isinstance(array, ti.Ndarray) and array.grad is not None:
            accumulate(bar, array.grad)


def _without_gradient(inputs: DeformableInputs) -> DeformableInputs:
    """Copies of the arrays that carry no ``.grad``: with one, taichi would compile every kernel a second time."""
    copies = []
    for array in inputs.arrays():
        if isinstance(array, ti.Ndarray):
            copies.append(empty_like_family(array, tuple(array.shape)))
            copy(array, copies[-1])
        else:
            copies.append(array)
    return DeformableInputs(*copies)
