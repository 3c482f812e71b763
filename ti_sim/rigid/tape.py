"""The rigid rollout as one call on ``ti.ad.Tape``, its adjoint ours: for programs in Taichi without torch."""

from ti_sim.adjoint import Adjoint, StoreAll
from ti_sim.base.arrays import Array
from ti_sim.base.kernels import accumulate, copy
from ti_sim.base.runtime import ti
from ti_sim.rigid.model import RigidInputs
from ti_sim.rigid.solver import RigidSolver


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
        self._rollout = None

    def __call__(self, inputs: RigidInputs, body_q: Array, body_qd: Array) -> None:
        """Simulate, and write body_q [B, frames + 1, N, 7] and body_qd [B, frames + 1, N, 6] (ti.ndarrays)."""
        run_rollout(self, inputs, body_q, body_qd)


@ti.ad.grad_replaced
def run_rollout(tape: RolloutTape, inputs: RigidInputs, body_q: Array, body_qd: Array) -> None:
    """Forward part of ``RolloutTape``; the tape finds its adjoint, ``run_rollout_adjoint``."""
    tape._rollout = tape.solver.rollout(inputs, tape.frames, adjoint=tape.adjoint)
    copy(tape._rollout.body_q, body_q)
    copy(tape._rollout.body_qd, body_qd)


@ti.ad.grad_for(run_rollout)
def run_rollout_adjoint(tape: RolloutTape, inputs: RigidInputs, body_q: Array, body_qd: Array) -> None:
    """Add the adjoints of all inputs to their ``.grad``; reads the frames' ``.grad``."""
    bars = tape.solver.rollout_adjoint(tape._rollout, body_q.grad, body_qd.grad)
    for array, bar in zip(inputs.arrays(), bars.arrays(), strict=True):
        if array.grad is not None:
            accumulate(bar, array.grad)
