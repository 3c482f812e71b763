"""Fits to the free swing at the film's end: friction, ratios of masses and inertias, the first length, and its second half.

The split is by time: numbers are fitted to the first half of the swing, and the second half is predicted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from risp_torch import Param, Scene, load_scene
from risp_torch.motions import (
    GrowingFits,
    JointNoise,
    JointRecording,
    MotionFitSettings,
    fit_motions,
    split_windows,
    whole_recordings,
)  # fmt: skip
from studies.real.dfki_pendulum.log.growing_windows import grown, prediction_errors, rms
from studies.real.dfki_pendulum.log.log import rest_zeros
from studies.real.dfki_pendulum.log.numbers import FRICTION, MASSES

SWING, HALF, END = 657, 781, 904  # pictures (frame of the film minus 3): the log is over and motors are off; half; the last one
PAST = 12  # pictures, from which the state is estimated where the prediction begins
LINKS = ("upper", "lower")
ZEROS = ("zero1", "zero2")  # friction holds a pendulum at rest off the vertical, where encoders show zero
SUBSTEPS = 32
SETTINGS = MotionFitSettings(
    noise=JointNoise(coordinate=(0.01, 0.02), start_coordinate=(0.02, 0.04), start_rate=0.5),
    robust_scale=float("inf"),
    iterations=40,
)
# Without torques a motion tells masses and inertias up to a common factor alone: the second mass is given.
UNKNOWN = (*(name for name in MASSES if name != "lower.mass"), *FRICTION, *ZEROS)


def swing(times: np.ndarray, angles: np.ndarray, first: int, last: int) -> JointRecording:
    """The film's angles [T, 2] in pictures first..last, from those at rest, within a turn."""
    dt = float((times[-1] - times[0]) / (len(times) - 1))
    deflections = (angles - rest_zeros(angles))[first : last + 1]
    deflections = deflections - 2 * np.pi * np.round(np.median(deflections, axis=0) / (2 * np.pi))
    return JointRecording(f"pictures {first} to {last}", LINKS, deflections, dt)


def scene_of(recording: JointRecording, frames: int = END - SWING + 1) -> Scene:
    """The scene with the published numbers of the drawing, and what instruments show at coordinate 0."""
    scene = load_scene("real/double_pendulum", frames=frames, substeps=SUBSTEPS, rate=1 / recording.dt)
    for name in ZEROS:
        scene.add_number(name, Param(0.0, low=-0.1, high=0.1, unit="rad"))
    return scene


def free_swing(times: np.ndarray, angles: np.ndarray, say: Callable[[str], None]) -> tuple[GrowingFits, dict[str, object]]:
    """Fit the first half, predict the second.

    Returns:
        (the fits; figures of the prediction [degrees], sentences on what is not seen, and the first length where it is unknown).
    """
    early, unseen = swing(times, angles, SWING, HALF), swing(times, angles, HALF - PAST, END)
    scene = scene_of(early)
    fits = grown(scene, early, UNKNOWN, SETTINGS, encoder_offsets=ZEROS, say=say)
    errors = prediction_errors(scene, unseen, PAST, SETTINGS, ZEROS)
    second = round(1 / unseen.dt)
    unknown = ["lower.mass", "upper.center[2]", "lower.center[2]", *UNKNOWN]
    every = fit_motions(
        scene_of(early), split_windows(whole_recordings([early], first=0), 8), unknown,
        replace(SETTINGS, first_guesses=1, shortest_window=None), encoder_offsets=ZEROS,
    )  # fmt: skip
    with_length = grown(scene_of(early), early, [*UNKNOWN, "upper.length"], SETTINGS, encoder_offsets=ZEROS, say=say)
    return fits, {
        "errors": errors.tolist(),
        "rms, first second [deg]": rms(errors[:second]), "rms, after 1 s [deg]": rms(errors[second:]),
        "after exactly 1 s [deg]": errors[second - 1].tolist(), "unseen": every.unobservable,
        "first length [m]": with_length.derived_number(lambda values: values["upper.length"]),
    }  # fmt: skip
