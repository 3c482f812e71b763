"""Estimates from the driven part of the log, with measured torques: masses, inertias, friction, and the next two seconds.

The swing-up is split by time into halves, each of which is predicted from the other. In the balanced part the torque oscillates
between its limits at 15 Hz; there the joints are seen to be elastic, and a roll-out without the controller falls
over at once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from risp_torch import Scene, load_scene
from risp_torch.motions import GrowingFits, JointNoise, JointRecording, MotionFitSettings
from studies.real.dfki_pendulum.log.growing_windows import grown, prediction_errors, rms
from studies.real.dfki_pendulum.log.log import RATE, SWING_UP, Log
from studies.real.dfki_pendulum.log.numbers import FRICTION, MASSES, upright_growth

FIRST, HALF = 0.1, 2.3  # s of the log: it begins with a jump of the clock; half of the swing-up
EARLY = 0.3  # s, from which on the first half is predicted
AHEAD = 2.0  # s that are predicted
PAST = 0.2  # s before, from which the state is estimated
BALANCED = 10.0  # s of the log, from which on the next two seconds are upright
HORIZONS = (0.1, 0.2, 0.5, 1.0, 1.5, 2.0)  # s
SUBSTEPS = 4
UNKNOWN = (*MASSES, *FRICTION)
SETTINGS = MotionFitSettings(
    noise=JointNoise(coordinate=5e-3, start_coordinate=1e-3, start_rate=0.2), robust_scale=float("inf"), iterations=40
)


def logged(log: Log, first: float, last: float) -> JointRecording:
    """Encoders' angles and mean torques between two times of the log [s], at its rate."""
    times = first + np.arange(round((last - first) * RATE) + 1) / RATE
    name = f"log, {first:g} to {last:g} s"
    return JointRecording(name, ("upper", "lower"), log.angles_at(times), 1 / RATE, log.mean_torque(times))


def scene_of(seconds: float) -> Scene:
    """The scene with the published numbers of the drawing, for that long."""
    return load_scene("real/double_pendulum", frames=round(seconds * RATE), substeps=SUBSTEPS, rate=RATE)


def predicted(log: Log, fits: GrowingFits, first: float) -> dict[str, list[float]]:
    """Root mean square of the errors over the next two seconds [degrees], and errors at some times after the start."""
    scene = scene_of(PAST + AHEAD)
    for name, value in fits.values.items():
        scene.table.set(name, value)
    motion = logged(log, first - PAST, first + AHEAD)
    errors = prediction_errors(scene, motion, round(PAST * RATE), SETTINGS)
    errors_by_horizon = {f"{horizon:g} s": np.abs(errors[round(horizon * RATE) - 1]).tolist() for horizon in HORIZONS}
    return {"rms [deg]": rms(errors), **errors_by_horizon}


def driven(log: Log, say: Callable[[str], None]) -> tuple[GrowingFits, dict[str, object]]:
    """Fit the swing-up and each of its halves, and predict.

    Returns:
        (the fits to the whole swing-up; predictions: of each half from the other, and upright, with the growth of errors there).
    """
    early, late, all_frames = (
        grown(scene_of(last - first), logged(log, first, last), UNKNOWN, SETTINGS, say=say)
        for first, last in ((FIRST, HALF), (HALF, SWING_UP), (FIRST, SWING_UP))
    )
    return all_frames, {
        "growth upright [1/s]": all_frames.derived_number(upright_growth),
        f"{HALF:g} to {HALF + AHEAD:g} s, from the first half": predicted(log, early, HALF),
        f"{EARLY:g} to {EARLY + AHEAD:g} s, from the second half": predicted(log, late, EARLY),
        f"{BALANCED:g} to {BALANCED + AHEAD:g} s, upright, from the whole swing-up": predicted(log, all_frames, BALANCED),
    }
