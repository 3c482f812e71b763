"""The deformable rollout as one call on ``ti.ad.Tape``."""

from ti_sim.base.arrays import Array
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.rollout.ad_tape import SolverTape


class DeformableTape(SolverTape):
    """A deformable rollout whose ``__call__`` records itself on a running tape.

    Its argument ``solver`` is a ``DeformableSolver``.
    """

    output_names = ("particle_q", "particle_qd")

    def __call__(self, inputs: DeformableInputs, particle_q: Array, particle_qd: Array) -> None:
        """Simulate, and write particle_q and particle_qd [B, frames + 1, P, 3] (ti.ndarrays).

        Raises:
            UserError: shapes or precision do not fit.
        """
        self.record(inputs, particle_q, particle_qd)
