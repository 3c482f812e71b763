"""The log of encoders and torques, and the film's place in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

LOG = "trajectory.csv"
OFFSET_BY_HAND = 1.921  # s, film time minus log time in the swing-up, as measured by hand
SWING_UP = 4.4  # s of the log, from which on the pendulum is balanced upright
RATE = 400.0  # Hz, of the log


@dataclass(frozen=True, eq=False)
class Log:
    """Measurements at the joints.

    Attributes:
        times: [K] s.
        joint_q: [K, 2] rad, by encoders.
        torque: [K, 2] N m.
    """

    times: np.ndarray
    joint_q: np.ndarray
    torque: np.ndarray

    def angles_at(self, times: np.ndarray) -> np.ndarray:
        """Angles [T, 2] rad at log times [T] s, NaN outside of it."""
        return np.stack([np.interp(times, self.times, column, left=np.nan, right=np.nan) for column in self.joint_q.T], axis=1)

    def mean_torque(self, times: np.ndarray) -> np.ndarray:
        """Mean torques [T - 1, 2] N m between log times [T] s; none outside of the log."""
        steps = 0.5 * (self.torque[1:] + self.torque[:-1]) * np.diff(self.times)[:, None]
        sums = np.concatenate([np.zeros((1, 2)), np.cumsum(steps, axis=0)])
        torque_integral = np.stack([np.interp(times, self.times, column) for column in sums.T], axis=1)
        return np.diff(torque_integral, axis=0) / np.diff(times)[:, None]


def read_log(path: Path) -> Log:
    """The log of a file."""
    rows = np.genfromtxt(path, delimiter=",", names=True)
    return Log(rows["time"], *(np.stack([rows[f"{name}1"], rows[f"{name}2"]], axis=1) for name in ("pos_meas", "tau_meas")))


@dataclass(frozen=True)
class Clock:
    """The film's clock: film time = start + (1 + drift) log time.

    Attributes:
        start: film time at which the log begins [s].
        drift: by how much more the film's time stamps grow than the log's.
    """

    start: float
    drift: float = 0.0

    def log_times(self, times: np.ndarray) -> np.ndarray:
        """Log times [T] s of film times [T] s."""
        return (times - self.start) / (1 + self.drift)

    def offset(self, log_time: float) -> float:
        """Film time minus log time at a log time [s]."""
        return self.start + self.drift * log_time


def aligned(
    times: np.ndarray, angles: np.ndarray, log: Log, *, first_guess: float, drifts: bool = True, width: float = 0.5
) -> Clock:
    """The clock by which angles [T, 2] at film times [T] agree best with the log (mean absolute difference).

    Args:
        times, angles: of the film [s, rad].
        log: the log.
        first_guess, width: film time at which the log begins, about which the search goes, and its half width [s].
        drifts: whether the clocks may run at different rates.
    """

    def cost(numbers: np.ndarray) -> float:
        clock = Clock(*numbers)
        return float(np.nanmean(np.abs(wrapped(angles - log.angles_at(clock.log_times(times))))))

    coarse = first_guess + np.linspace(-width, width, 101)
    best = coarse[np.argmin([cost(np.array([candidate])) for candidate in coarse])]
    simplex = [[best, 0.0], [best + 0.01, 0.0], [best, 0.004]] if drifts else [[best], [best + 0.01]]
    options = {"xatol": 1e-6, "fatol": 1e-10, "initial_simplex": simplex}
    return Clock(*minimize(cost, simplex[0], method="Nelder-Mead", options=options).x.tolist())


def clock_bars(
    times: np.ndarray, angles: np.ndarray, log: Log, clock: Clock, *, time: float, num_parts: int = 6
) -> tuple[float, float]:
    """The offset at a log time [s], and its standard deviation by leaving out one of ``num_parts`` parts of the film in turn."""
    row = np.arange(len(times)) * num_parts // len(times)
    clocks = [aligned(times[row != k], angles[row != k], log, first_guess=clock.start, width=0.02) for k in range(num_parts)]
    offsets = [each_clock.offset(time) for each_clock in clocks]
    return clock.offset(time), float(np.sqrt((num_parts - 1) / num_parts * np.square(np.array(offsets) - np.mean(offsets)).sum()))


def wrapped(angles: np.ndarray) -> np.ndarray:
    """Angles within half a turn of 0 [rad]."""
    return (angles + np.pi) % (2 * np.pi) - np.pi


def moving(angles: np.ndarray, *, least: float = 0.01) -> np.ndarray:
    """[T] bool: frames between whose neighbours an angle [T, 2] changes by more than ``least`` rad."""
    return (np.abs(np.gradient(angles, axis=0)) > 0.5 * least).any(axis=1)


def rest_zeros(angles: np.ndarray, count: int = 45) -> np.ndarray:
    """Angles [2] of the pendulum at rest: the median of the first pictures. Both encoders are zero there."""
    return np.median(angles[:count], axis=0)


def compared(times: np.ndarray, angles: np.ndarray, log: Log) -> dict[str, float | list[float]]:
    """The film's clock, and rms differences [degrees] of both angles in moving frames, as they are and from the zeros of the
    pendulum at rest."""
    zero, fast = rest_zeros(angles), moving(angles)
    clock = aligned(times, angles - zero, log, first_guess=OFFSET_BY_HAND)
    swing = clock.log_times(times) < SWING_UP
    result: dict[str, float | list[float]] = {
        "rest [deg]": np.degrees(zero).round(3).tolist(), "start [s]": clock.start, "drift": clock.drift,
        "offset in the swing-up [s]": list(clock_bars(times, angles - zero, log, clock, time=0.5 * SWING_UP)),
        "offset of the swing-up alone, without drift [s]": aligned(
            times[swing], (angles - zero)[swing], log, first_guess=OFFSET_BY_HAND, drifts=False
        ).start,
        "offset of all frames, without drift [s]": aligned(
            times, angles - zero, log, first_guess=OFFSET_BY_HAND, drifts=False
        ).start,
    }  # fmt: skip
    truth = log.angles_at(clock.log_times(times))
    inside = np.isfinite(truth).all(axis=1) & fast
    result["moving frames"] = int(inside.sum())
    for name, these in (("raw", angles), ("from rest", angles - zero)):
        error = np.degrees(wrapped(these - truth)[inside])
        result[f"rms, {name} [deg]"] = np.sqrt((error**2).mean(axis=0)).round(3).tolist()
        result[f"median size, {name} [deg]"] = np.median(np.abs(error), axis=0).round(3).tolist()
        result[f"off by more than 10 degrees, {name}"] = (np.abs(error) > 10).sum(axis=0).tolist()
    return result
