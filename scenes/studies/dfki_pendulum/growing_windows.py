"""Fits to windows that grow: from many short ones to one that is the whole motion."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from risp_torch import Scene
from risp_torch.motions import (
    JointRecording,
    MotionFit,
    MotionFitSettings,
    Window,
    estimate_starts,
    fit_motions,
    predict_joints,
)  # fmt: skip

SHARES = (16, 8, 4, 2, 1)  # parts into which a motion is cut, one fit after the other
AT_BOUND = 1e-3  # of the range


@dataclass(frozen=True, eq=False)
class GrowingFits:
    """Fits to shorter and longer windows of one motion.

    Attributes:
        fits: one for each of ``SHARES``.
    """

    fits: tuple[MotionFit, ...]

    @property
    def values(self) -> Mapping[str, float]:
        """Label -> estimate of the last fit, to the whole motion at once."""
        return self.fits[-1].values

    def number(self, function: Callable[[Mapping[str, float]], float]) -> tuple[float, float]:
        """A number computed from the estimates of the last fit, and its error bar.

        Where the model is right, all lengths give the same. The bar is the root of the variance of the fit with the most windows,
        and the mean square distance of the other lengths from the last. K unknowns follow the scatter of G windows in part, so
        that the variance is multiplied by G / (G - K).
        """
        found = [fit.derived(function) for fit in self.fits]
        values = np.array([each.value for each in found])
        windows, unknowns = len(self.fits[0].windows), len(self.fits[0].scaled)
        variance = found[0].sd ** 2 * windows / max(windows - unknowns, 1)
        return float(values[-1]), float(np.sqrt(variance + np.mean(np.square(values[:-1] - values[-1]))))

    @property
    def left(self) -> list[tuple[int, float]]:
        """Windows of each fit, and the root mean square [degrees] that is left: where it grows, the model is not exact."""
        return [(len(fit.windows), float(np.degrees(np.sqrt(np.mean(fit.residual**2))))) for fit in self.fits]


def at_bounds(fit: MotionFit) -> list[str]:
    """Unknowns that ended at a bound."""
    low, high = (fit.unknowns.scaled(bound) for bound in fit.unknowns.bounds())
    near = np.minimum(fit.scaled - low, high - fit.scaled) < AT_BOUND * fit.unknowns.scaled_range()
    return [label for label, here in zip(fit.unknowns.labels, near, strict=True) if here]


def pieces(recording: JointRecording, count: int) -> list[Window]:
    """The recording in ``count`` windows of equal length, each a recording of its own; an uneven end is left out."""
    frames = (len(recording) - 1) // count
    found = []
    for k in range(count):
        part = slice(k * frames, (k + 1) * frames + 1)
        actions = None if recording.actions is None else recording.actions[part.start : part.stop - 1]
        own = replace(recording, name=f"{recording.name}, {k + 1} of {count}", joint_q=recording.joint_q[part], actions=actions)
        found.append(Window(own, 0, frames + 1))
    return found


def fit_growing_windows(
    scene: Scene, recording: JointRecording, unknown: Sequence[str], settings: MotionFitSettings, *,
    zeros: Sequence[str] | None = None, say: Callable[[str], None],
) -> GrowingFits:  # fmt: skip
    """Fit numbers to windows that grow; each fit begins with the numbers of the one before it.

    A long window has many minima, and a short one says little: it forgets the motion at its start.

    Args:
        scene: the scene, whose values are changed.
        recording: the motion.
        unknown: numbers of the scene.
        settings: of the fits.
        zeros: as of ``fit_motions``.
        say: what is called after each fit.
    """
    fits = []
    for count in SHARES:
        fit = fit_motions(scene, pieces(recording, count), unknown, settings, zeros=zeros)
        for name, value in fit.values.items():
            scene.table.set(name, value)
        say(f"{count} windows: residual {np.degrees(np.median(fit.residual)):.2f} degrees, " + "; ".join(fit.lines()))
        fits.append(fit)
    return GrowingFits(tuple(fits))


def prediction_errors(
    scene: Scene, recording: JointRecording, past: int, settings: MotionFitSettings, zeros: Sequence[str] | None = None
) -> np.ndarray:
    """Differences [T - past - 1, 2] degrees of a roll-out and what was measured, after the last frame that tells the state.

    Args:
        scene: with the numbers of the fit.
        recording: the motion from a little before the time from which on it is predicted.
        past: frames before that time, from which the state there is estimated; nothing later is looked at.
        settings: of the fit.
        zeros: as of ``fit_motions``.
    """
    starts = estimate_starts(scene, [Window(recording, 0, past + 1)], settings, zeros=zeros)
    (predicted,) = predict_joints(scene, [Window(recording, 0, len(recording))], starts=starts, zeros=zeros)
    return np.degrees(predicted - recording.joint_q)[past + 1 :]


def rms(errors: np.ndarray) -> list[float]:
    """Root mean square of each column."""
    return np.sqrt(np.mean(np.square(errors), axis=0)).tolist()
