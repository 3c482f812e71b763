"""Fits to windows of the pendulum's motions that grow, and predictions from a state that is estimated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from risp_torch import Scene
from risp_torch.motions import (
    GrowingFits,
    JointRecording,
    MotionFitSettings,
    Window,
    estimate_starts,
    fit_growing_windows,
    predict_joints,
    whole_recordings,
)  # fmt: skip

SHARES = (16, 8, 4, 2, 1)  # pieces into which a motion is cut, one fit after the other


def grown(
    scene: Scene, recording: JointRecording, unknown: Sequence[str], settings: MotionFitSettings, *,
    encoder_offsets: Sequence[str] | None = None, say: Callable[[str], None],
) -> GrowingFits:  # fmt: skip
    """Fits from the published numbers alone; the scene then has the numbers of the last one.

    Args:
        scene: the scene, whose values are changed.
        recording: the motion.
        unknown: numbers of the scene.
        settings: of the fits.
        encoder_offsets: as of ``fit_motions``.
        say: is called with a line after each fit.
    """
    settings = replace(settings, first_guesses=1, piece_counts=SHARES)
    fits = fit_growing_windows(
        scene, whole_recordings([recording], first=0), unknown, settings, encoder_offsets=encoder_offsets, say=say
    )
    for name, value in fits.values.items():
        scene.table.set(name, value)
    return fits


def prediction_errors(
    scene: Scene, recording: JointRecording, past: int, settings: MotionFitSettings, encoder_offsets: Sequence[str] | None = None
) -> np.ndarray:
    """Differences [T - past - 1, 2] degrees of a roll-out and what was measured, after the last frame that tells the state.

    Args:
        scene: with the numbers of the fit.
        recording: the motion from a little before the time from which on it is predicted.
        past: frames before that time, from which the state there is estimated; nothing later is looked at.
        settings: of the fit.
        encoder_offsets: as of ``fit_motions``.
    """
    starts = estimate_starts(scene, [Window(recording, 0, past + 1)], settings, encoder_offsets=encoder_offsets)
    (predicted,) = predict_joints(scene, [Window(recording, 0, len(recording))], starts=starts, encoder_offsets=encoder_offsets)
    return np.degrees(predicted - recording.joint_q)[past + 1 :]


def rms(errors: np.ndarray) -> list[float]:
    """Root mean square of each column."""
    return np.sqrt(np.mean(np.square(errors), axis=0)).tolist()
