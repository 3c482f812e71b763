"""The time stamps of a film: its frame rate, jitter and gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ti_sim.base.errors import UserError
from ti_sim.base.rules import NotNegative, Positive, Real, checked

__all__ = ["Clock"]

_RATE_TOLERANCE = 1e-4
_GAP_RATIO = 1.5  # intervals longer than this many usual intervals are gaps
_MAX_RELATIVE_JITTER = 0.1  # largest error of a time stamp, relative to the usual interval


@checked
@dataclass(frozen=True, eq=False)
class Clock:
    """Time stamps of the frames of a film.

    Attributes:
        times: float64 [T], time stamps relative to that of the first frame [s].
        start: time stamp of the first frame in its file [s].
        tick: resolution of the time stamps [s].
        named_rate: frames per second according to the file, or None. It is used if the time stamps agree with it, up to their
            resolution, and if there is one frame only.
    """

    times: np.ndarray
    start: Real = 0.0
    tick: NotNegative = 0.0
    named_rate: Positive | None = None

    @staticmethod
    def regular(frames: int, rate: float, *, start: float = 0.0) -> Clock:
        """Equally spaced time stamps, with ``rate`` frames per second."""
        return Clock(np.arange(frames) / rate, start, named_rate=rate)

    def select(self, frames: Sequence[int]) -> Clock:
        """The clock of some of the frames."""
        if not len(frames):
            return Clock(np.zeros(0), self.start, self.tick, self.named_rate)
        times = self.times[np.asarray(frames)]
        return Clock(times - times[0], self.start + float(times[0]), self.tick, self.named_rate)

    @property
    def period(self) -> float | None:
        """The usual interval between frames [s]; None for a film of one frame without a rate.

        The mean over the intervals that are not gaps; unlike a median, it is not limited by the resolution of the time stamps.
        """
        named_period = 1.0 / self.named_rate if self.named_rate else None
        steps = np.diff(self.times)
        intervals = steps[steps > 0]
        if not len(intervals):
            return named_period
        median = np.sort(intervals)[(len(intervals) - 1) // 2]  # one of them: the mean of two clusters would be like none
        intervals = intervals[np.abs(intervals / median - 1) < _GAP_RATIO - 1]
        mean = float(intervals.mean())
        return named_period if named_period and abs(named_period - mean) <= self._rounding_error(len(intervals)) else mean

    @property
    def rate(self) -> float | None:
        """Frames per second."""
        return None if self.period is None else 1.0 / self.period

    @property
    def gaps(self) -> list[tuple[int, float]]:
        """Indices of the frames after a gap, with the interval before each [s]."""
        steps, period = np.diff(self.times), self.period
        return [] if period is None else [(int(k) + 1, float(steps[k])) for k in np.flatnonzero(steps > _GAP_RATIO * period)]

    @property
    def is_even(self) -> bool:
        """Whether all intervals equal the usual one, up to a tenth of it plus the resolution of the time stamps."""
        return self.period is None or not self._is_uneven().any()

    @property
    def unrounded(self) -> np.ndarray:
        """float64 [T], multiples of the usual interval if all time stamps agree with them to their resolution, else ``times``."""
        if self.period is None:
            return self.times
        regular = self.period * np.arange(len(self.times))
        return regular if (np.abs(self.times - regular) <= self.tick + 1e-9).all() else self.times

    @property
    def jitter(self) -> float:
        """Largest difference between an interval and the usual one, gaps aside [s]."""
        steps, period = np.diff(self.times), self.period
        return 0.0 if period is None else float(np.abs(steps - period)[steps <= _GAP_RATIO * period].max(initial=0.0))

    @property
    def first_unordered_frame(self) -> int | None:
        """Index of the first frame whose time stamp does not exceed the previous one, or None."""
        unordered = np.flatnonzero(np.diff(self.times) <= 0)
        return int(unordered[0]) + 1 if len(unordered) else None

    @property
    def longest_even(self) -> tuple[int, int]:
        """First and last frame of the longest stretch without an uneven interval."""
        if self.period is None:
            return 0, len(self.times) - 1
        run_limits = [-1, *np.flatnonzero(self._is_uneven()), len(self.times) - 1]
        stretches = [(int(a) + 1, int(b)) for a, b in zip(run_limits, run_limits[1:], strict=False)]
        return max(stretches, key=lambda stretch: stretch[1] - stretch[0])

    def check_rate(self, path: Path, fps: float, frames: int | None = None) -> None:
        """Compare the time stamps with a frame rate.

        Args:
            path: path of the film, for error messages.
            fps: required frames per second.
            frames: number of the first frames that are compared; None for all.

        Raises:
            UserError: the rates differ by more than 1e-4 (relative), or a time stamp differs by more than a tenth of an interval.
        """
        clock = self if frames is None else self.select(range(min(frames, len(self.times))))
        if clock.rate is None:
            return
        check_rate(path, clock.rate, fps, tolerance=clock._rate_tolerance())
        expected_times = np.arange(len(clock.times)) / fps
        tolerance = _MAX_RELATIVE_JITTER / fps + clock.tick + _RATE_TOLERANCE * expected_times
        late_or_early = np.flatnonzero(np.abs(clock.times - expected_times) > tolerance)
        if len(late_or_early):
            raise UserError(f"video {path} is uneven: {clock._uneven_message(int(late_or_early[0]), fps)}")

    def _is_uneven(self) -> np.ndarray:
        """bool [T - 1]: whether an interval differs from the usual one."""
        return np.abs(np.diff(self.times) - self.period) > _MAX_RELATIVE_JITTER * self.period + self.tick

    def _rounding_error(self, intervals: int) -> float:
        """Largest error of the mean of ``intervals`` intervals due to rounded time stamps [s]; each gap begins a new sum."""
        return (len(self.times) - intervals) * self.tick / intervals + 1e-9

    def _rate_tolerance(self) -> float:
        """Largest relative error of the rate due to rounding and jitter of the time stamps."""
        period = self.period
        if period is None or self.named_rate and period == 1.0 / self.named_rate:
            return 0.0
        intervals = max(len(self.times) - 1 - len(self.gaps), 1)
        return (self._rounding_error(intervals) + self.jitter / intervals) / period

    def _uneven_message(self, frame: int, fps: float) -> str:
        interval, period = 1e3 * float(self.times[frame] - self.times[frame - 1]), 1e3 * self.period
        delay = 1e3 * (float(self.times[frame]) - frame / fps)
        side = "late" if delay > 0 else "early"
        return (
            f"frame {frame} comes {interval:.4g} ms after the one before it, where {period:.4g} ms are usual, and is "
            f"{abs(delay):.3g} ms {side} for {fps:g} frames per second: compare the film at its own times (--fps film), or take "
            "a part without it (risp film shows where, and cuts: --first, --last)"
        )


def check_rate(path: Path, file_rate: float, scene_rate: float, *, tolerance: float = 0.0) -> None:
    """Raise a UserError if a film's rate [frames per second] is not the scene's.

    Raises:
        UserError: they differ by more than one in ten thousand and ``tolerance``.
    """
    if abs(file_rate / float(scene_rate) - 1.0) > _RATE_TOLERANCE + tolerance:
        raise UserError(
            f"video {path} has {file_rate:.6g} frames per second, and the scene has {float(scene_rate):g}: "
            "convert the video, compare it at its own times (--fps film), or change the scene's frame time"
        )
