"""The time stamps of a film: its rate, whether it is even, and where there are gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ti_sim.base.errors import UserError
from ti_sim.base.rules import NotNegative, Positive, Real, checked

__all__ = ["Clock"]

_RATE_TOLERANCE = 1e-4
_GAP = 1.5  # intervals longer than this many usual ones are gaps
_UNEVEN = 0.1  # of the usual interval: how far a time stamp may be off


@checked
@dataclass(frozen=True, eq=False)
class Clock:
    """When each frame of a film was taken.

    Attributes:
        times: float64 [T], time stamps from that of the first frame on [s].
        start: time stamp of the first frame in its file [s].
        tick: resolution of the time stamps [s].
        named_rate: frames per second that the file names, or None. It counts where the time stamps agree with it, to their
            resolution, and where there is one frame only.
    """

    times: np.ndarray
    start: Real = 0.0
    tick: NotNegative = 0.0
    named_rate: Positive | None = None

    @staticmethod
    def steady(frames: int, rate: float, *, start: float = 0.0) -> Clock:
        """Time stamps of a film with this many frames per second."""
        return Clock(np.arange(frames) / rate, start, named_rate=rate)

    def of(self, frames: Sequence[int]) -> Clock:
        """The clock of some of the frames."""
        if not len(frames):
            return Clock(np.zeros(0), self.start, self.tick, self.named_rate)
        times = self.times[np.asarray(frames)]
        return Clock(times - times[0], self.start + float(times[0]), self.tick, self.named_rate)

    @property
    def period(self) -> float | None:
        """The usual interval between frames [s]; None for a film of one frame without a rate.

        The mean over the intervals that are no gaps: it is not bound to the resolution of the time stamps, as a median would be.
        """
        named = 1.0 / self.named_rate if self.named_rate else None
        steps = np.diff(self.times)
        intervals = steps[steps > 0]
        if not len(intervals):
            return named
        middle = np.sort(intervals)[(len(intervals) - 1) // 2]  # one of them: the mean of two clusters would be like none
        intervals = intervals[np.abs(intervals / middle - 1) < _GAP - 1]
        mean = float(intervals.mean())
        return named if named and abs(named - mean) <= self._rounding(len(intervals)) else mean

    @property
    def rate(self) -> float | None:
        """Frames per second."""
        return None if self.period is None else 1.0 / self.period

    @property
    def gaps(self) -> list[tuple[int, float]]:
        """Frames that come too late, with the interval before each [s]."""
        steps, period = np.diff(self.times), self.period
        return [] if period is None else [(int(k) + 1, float(steps[k])) for k in np.flatnonzero(steps > _GAP * period)]

    @property
    def is_even(self) -> bool:
        """Whether all intervals are the usual one, to a tenth and the resolution of the time stamps."""
        return self.period is None or not self._uneven().any()

    @property
    def unrounded(self) -> np.ndarray:
        """float64 [T], multiples of the usual interval where all time stamps agree with them to their resolution; else ``times``.
        """
        if self.period is None:
            return self.times
        steady = self.period * np.arange(len(self.times))
        return steady if (np.abs(self.times - steady) <= self.tick + 1e-9).all() else self.times

    @property
    def jitter(self) -> float:
        """Largest difference between an interval and the usual one, gaps aside [s]."""
        steps, period = np.diff(self.times), self.period
        return 0.0 if period is None else float(np.abs(steps - period)[steps <= _GAP * period].max(initial=0.0))

    @property
    def disorder(self) -> int | None:
        """The first frame that does not come after the one before it, or None."""
        wrong = np.flatnonzero(np.diff(self.times) <= 0)
        return int(wrong[0]) + 1 if len(wrong) else None

    @property
    def longest_even(self) -> tuple[int, int]:
        """First and last frame of the longest stretch without an uneven interval."""
        if self.period is None:
            return 0, len(self.times) - 1
        run_limits = [-1, *np.flatnonzero(self._uneven()), len(self.times) - 1]
        stretches = [(int(a) + 1, int(b)) for a, b in zip(run_limits, run_limits[1:], strict=False)]
        return max(stretches, key=lambda stretch: stretch[1] - stretch[0])

    def check_rate(self, path: Path, fps: float, frames: int | None = None) -> None:
        """Refuse a film that has another rate, or whose frames are not where this rate puts them.

        Args:
            path: of the film, for the sentence.
            fps: wanted frames per second.
            frames: how many of the first frames are needed; all for None.

        Raises:
            UserError: the rate is another by more than one in ten thousand, or a frame is off by more than a tenth of an
                interval.
        """
        clock = self if frames is None else self.of(range(min(frames, len(self.times))))
        if clock.rate is None:
            return
        check_rate(path, clock.rate, fps, slack=clock._rate_slack())
        expected_times = np.arange(len(clock.times)) / fps
        allowed = _UNEVEN / fps + clock.tick + _RATE_TOLERANCE * expected_times
        wrong = np.flatnonzero(np.abs(clock.times - expected_times) > allowed)
        if len(wrong):
            raise UserError(f"video {path} is uneven: {clock._sentence(int(wrong[0]), fps)}")

    def _uneven(self) -> np.ndarray:
        """bool [T - 1]: intervals that are not the usual one."""
        return np.abs(np.diff(self.times) - self.period) > _UNEVEN * self.period + self.tick

    def _rounding(self, intervals: int) -> float:
        """How far the mean of so many intervals may be off because time stamps are rounded [s]; gaps begin new sums."""
        return (len(self.times) - intervals) * self.tick / intervals + 1e-9

    def _rate_slack(self) -> float:
        """How far, relatively, the rate may be off because time stamps are rounded or scatter."""
        period = self.period
        if period is None or self.named_rate and period == 1.0 / self.named_rate:
            return 0.0
        intervals = max(len(self.times) - 1 - len(self.gaps), 1)
        return (self._rounding(intervals) + self.jitter / intervals) / period

    def _sentence(self, frame: int, fps: float) -> str:
        step, period = 1e3 * float(self.times[frame] - self.times[frame - 1]), 1e3 * self.period
        off = 1e3 * (float(self.times[frame]) - frame / fps)
        side = "late" if off > 0 else "early"
        return (
            f"frame {frame} comes {step:.4g} ms after the one before it, where {period:.4g} ms are usual, and is "
            f"{abs(off):.3g} ms {side} for {fps:g} frames per second: compare the film at its own times (--fps film), or take "
            "a part without it (risp film shows where, and cuts: --first, --last)"
        )


def check_rate(path: Path, file_rate: float, scene_rate: float, *, slack: float = 0.0) -> None:
    """Raise a UserError if a film's rate [frames per second] is not the scene's.

    Raises:
        UserError: they differ by more than one in ten thousand and ``slack``.
    """
    if abs(file_rate / float(scene_rate) - 1.0) > _RATE_TOLERANCE + slack:
        raise UserError(
            f"video {path} has {file_rate:.6g} frames per second, and the scene has {float(scene_rate):g}: "
            "convert the video, compare it at its own times (--fps film), or change the scene's frame time"
        )
