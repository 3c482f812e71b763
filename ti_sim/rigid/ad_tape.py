"""The rigid rollout as one call on ``ti.ad.Tape``."""

from ti_sim.base.arrays import Array
from ti_sim.rigid.model import RigidInputs
from ti_sim.rollout.ad_tape import SolverTape


class RigidTape(SolverTape):
    """A rigid rollout whose ``__call__`` records itself on a running tape.

    Its argument ``solver`` is a ``RigidSolver``.
    """

    output_names = ("body_q", "body_qd")

    def __call__(self, inputs: RigidInputs, body_q: Array, body_qd: Array) -> None:
        """Simulate, and write body_q [B, frames + 1, N, 7] and body_qd [B, frames + 1, N, 6] (ti.ndarrays).

        Raises:
            UserError: shapes or precision do not fit.
        """
        self.record(inputs, body_q, body_qd)
