"""Warning about contact that begins in the first step of BDF2."""

from __future__ import annotations

import numpy as np

from ti_sim.base.warn import warn
from ti_sim.deformable.implicit.rollout import ImplicitMotion
from ti_sim.deformable.model import DeformableModel

_GENTLE = 10.0  # changes of velocity by contact up to this multiple of gravity's in a step: a body that is laid on the ground


def warn_of_early_contact(model: DeformableModel, motion: ImplicitMotion, gravity: np.ndarray, *, dt: float) -> None:
    """Warn if a particle hits the ground in the first step of BDF2.

    BDF2 extrapolates the change of velocity of the step before, which multiplies an impulse by 3/2 in the end. Its own steps have
    the weight 2/3, so that impulses add up to themselves; the first step is one of SDIRK2, with the weight 1.

    Args:
        model: particles and elements.
        motion: of the rollout.
        gravity: [B, 3] m/s2.
        dt: step [s].
    """
    rows = [0, *(stage.row for stage in motion.stages if stage.step == 0)]
    states = motion.states[:, rows][:, :, np.asarray(model.contact, dtype=np.int64)]
    height = states[..., 2] - model.ground_height
    change = states[:, -1, :, 5] - states[:, 0, :, 5]
    gentle = _GENTLE * dt * np.linalg.norm(gravity, axis=1)[:, None]
    hits = (height[:, 0] > 0) & (height[:, 1:].min(axis=1) < 0) & (change > gentle)
    if hits.any():
        particle = int(np.asarray(model.contact)[np.flatnonzero(hits.any(axis=0))[0]])
        warn(
            f"particle {particle} hits the ground in the first step, and BDF2 counts an impulse of that step one and a half "
            "times: start one more step above the ground, or choose the integrator 'sdirk2'"
        )
