"""Pictures of the study, and its table of angles."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from risp_torch import load_scene
from studies.real.dfki_pendulum.film.arm import Arm, Look
from studies.real.dfki_pendulum.film.camera import camera_numbers
from studies.real.dfki_pendulum.film.film import SIZE
from studies.real.dfki_pendulum.log.free_swing import HALF
from studies.real.dfki_pendulum.log.log import Clock, Log, rest_zeros

JOINTS = ("first joint", "second joint")


def write_angles(path: Path, times: np.ndarray, results: dict[str, np.ndarray]) -> None:
    """``angles.csv``: time [s], angles [rad], misfit, bars [rad]."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["time", "angle1", "angle2", "residual", "bar1", "bar2"])
        for row in zip(times, *results["angles"].T, results["misfit"], *results["bars"].T, strict=True):
            writer.writerow([f"{number:.6f}" for number in row])


def overlay(path: Path, pictures: np.ndarray, results: dict[str, np.ndarray], frames: Sequence[int]) -> None:
    """A sheet of frames: the film above, what was fitted below."""
    from PIL import Image

    arm = Arm(load_scene("real/double_pendulum", size=SIZE), camera_numbers(results["camera"], SIZE))
    drawn = Look(results["grey"], results["plate"]).pictures(arm.coverage(results["angles"][list(frames)]))
    strip = np.nan_to_num(np.concatenate([np.concatenate(list(rows), axis=1) for rows in (pictures[list(frames)], drawn)]))
    Image.fromarray((255 * np.clip(strip, 0, 1) ** 0.45).astype(np.uint8)).save(path)


def plot_angles(path: Path, times: np.ndarray, angles: np.ndarray, log: Log, clock: Clock) -> None:
    """Angles of the film over those of the encoders, and the differences."""
    figure, axes = _axes(2)
    log_times = clock.log_times(times)
    degrees = np.degrees(angles - rest_zeros(angles))
    difference = degrees - np.degrees(log.angles_at(log_times))
    for k, name in enumerate(JOINTS):
        axes[0].plot(log.times, np.degrees(log.joint_q[:, k]), color=f"C{k}", lw=1.0, label=f"encoder, {name}")
        axes[0].plot(log_times, degrees[:, k], ".", color="k", ms=2.0, label="film" if k == 0 else None)
        axes[1].plot(log_times, difference[:, k], color=f"C{k}", lw=0.8, label=name)
    _labelled(axes, ("angle [deg]", "film minus encoder [deg]"), "log time [s]")
    axes[1].set_ylim(-8, 8)
    _saved(figure, path)


def plot_prediction(path: Path, times: np.ndarray, angles: np.ndarray, errors: np.ndarray) -> None:
    """The second half of the free swing as filmed and as predicted."""
    figure, axes = _axes(2)
    observed = np.degrees(angles - rest_zeros(angles))[HALF + 1 : HALF + 1 + len(errors)]
    observed = observed - 360 * np.round(np.median(observed, axis=0) / 360)
    after = (times - times[HALF])[HALF + 1 : HALF + 1 + len(errors)]
    for k, name in enumerate(JOINTS):
        axes[k].plot(after, observed[:, k], ".", color="k", ms=3.0, label="film")
        axes[k].plot(after, observed[:, k] + errors[:, k], color=f"C{k}", label=f"predicted, {name}")
    _labelled(axes, ("angle [deg]", "angle [deg]"), "time after half of the swing [s]")
    _saved(figure, path)


def plot_torques(path: Path, rows: np.ndarray) -> None:
    """Torques [N, 7] (time, found, measured, bars) of the film and of the log."""
    figure, axes = _axes(2)
    for k, name in enumerate(JOINTS):
        axes[k].step(rows[:, 0], rows[:, 3 + k], where="post", color="k", lw=0.8, label="measured, mean of a frame")
        axes[k].step(rows[:, 0], rows[:, 1 + k], where="post", color=f"C{k}", lw=0.8, label=f"from the film, {name}")
        axes[k].set_xlim(0, 8)
    _labelled(axes, ("torque [N m]", "torque [N m]"), "log time [s]")
    _saved(figure, path)


def _axes(count: int) -> tuple:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot.subplots(count, 1, figsize=(10, 6), sharex=True)


def _labelled(axes: Sequence, names: Sequence[str], time: str) -> None:
    for axis, name in zip(axes, names, strict=True):
        axis.set_ylabel(name)
        axis.grid(alpha=0.3)
        axis.legend(loc="lower right", fontsize=8)
    axes[-1].set_xlabel(time)


def _saved(figure: object, path: Path) -> None:
    from matplotlib import pyplot

    figure.tight_layout()
    figure.savefig(path, dpi=90)
    pyplot.close(figure)
