"""The rigid rollout as one call on ``ti.ad.Tape``, its adjoint ours: for programs in Taichi without torch."""

from ti_sim.adjoint import Adjoint, StoreAll
from ti_sim.base.arrays import Array, check_array, empty_like_family
from ti_sim.base.errors import UserError
from ti_sim.base.kernels import accumulate, copy
from ti_sim.base.runtime import ti
from ti_sim.rigid.model import RigidInputs
from ti_sim.rigid.solver import RigidRollout, RigidSolver


class RolloutTape:
    """A rollout whose ``__call__`` records itself on a running tape.

    The arrays are ti.ndarrays with ``needs_grad=True``; the gradient is added to the ``.grad`` of every input array.
    """

    def __init__(self, solver: RigidSolver, frames: int, *, adjoint: Adjoint | None = None) -> None:
        """Bind a solver to a number of frame intervals.

        Args:
            solver: what to run.
            frames: frame intervals.
            adjoint: how states are kept; StoreAll() when None.
        """
        self.solver = solver
        self.frames = frames
        self.adjoint = adjoint or StoreAll()

    def __call__(self, inputs: RigidInputs, body_q: Array, body_qd: Array) -> None:
        """Simulate, and write body_q [B, frames + 1, N, 7] and body_qd [B, frames + 1, N, 6] (ti.ndarrays).

        Raises:
            UserError: shapes or precision do not fit.
        """
        run_rollout(_Call(self), inputs, body_q, body_qd)


class _Call:
    """One call of a ``RolloutTape``: each keeps its own states, so that a tape may hold several."""

    def __init__(self, tape: RolloutTape) -> None:
        self.solver, self.frames, self.adjoint = tape.solver, tape.frames, tape.adjoint
        self.rollout: RigidRollout | None = None


@ti.ad.grad_replaced
def run_rollout(call: _Call, inputs: RigidInputs, body_q: Array, body_qd: Array) -> None:
    """Forward part of ``RolloutTape``; the tape finds its adjoint, ``run_rollout_adjoint``."""
    call.rollout = call.solver.rollout(without_gradient(inputs), call.frames, adjoint=call.adjoint)
    check_array(body_q, "body_q", tuple(call.rollout.body_q.shape))
    check_array(body_qd, "body_qd", tuple(call.rollout.body_qd.shape))
    copy(call.rollout.body_q, body_q)
    copy(call.rollout.body_qd, body_qd)


@ti.ad.grad_for(run_rollout)
def run_rollout_adjoint(call: _Call, inputs: RigidInputs, body_q: Array, body_qd: Array) -> None:
    """Add the adjoints of all inputs to their ``.grad``; reads the frames' ``.grad``."""
    if body_q.grad is None or body_qd.grad is None:
        raise UserError("body_q and body_qd have no gradient: make both with ti.ndarray(..., needs_grad=True)")
    bars = call.solver.rollout_adjoint(call.rollout, body_q.grad, body_qd.grad)
    for array, bar in zip(inputs.arrays(), bars.arrays(), strict=True):
        if array.grad is not None:
            accumulate(bar, array.grad)


def without_gradient(inputs: RigidInputs) -> RigidInputs:
    """Copies of the arrays that carry no ``.grad``: with one, taichi would compile every kernel a second time."""
    copies = []
    for array in inputs.arrays():
        copies.append(empty_like_family(array, tuple(array.shape)))
        copy(array, copies[-1])
    return RigidInputs(*copies)
