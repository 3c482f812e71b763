"""Interface between a fit and measured motions of any kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import torch

from risp_torch.motions.recording import Window
from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import UserError

_ROUNDING_OF_DECIMALS = 0.51e-6  # s, of a frame time with six decimals
_ROUNDING_OF_DIGITS = 1e-5  # relative, of a frame time with six digits
_MAX_DT_ERROR = 5e-4  # relative


class MeasuredMotions(Protocol):
    """M windows of measured motions, and their simulations, each from its own start.

    Attributes:
        target: [M, T, G, P] measured coordinates: P of each of G groups, whose residuals have one robust weight; NaN behind the
            end of a shorter window.
        noise: [M, T, G, 1] standard deviation of a measured coordinate, in its unit.
        starts: [M, S] measured initial state of each window, with its unknown actions or their errors, if any.
        start_sd: [S] or [M, S] standard deviations of these.
        start_names: parameters of the scene that the starts replace.
    """

    target: np.ndarray
    noise: np.ndarray
    starts: np.ndarray
    start_sd: np.ndarray
    start_names: frozenset[str]

    def simulate(self, values: Mapping[str, torch.Tensor], starts: np.ndarray, window_index: np.ndarray) -> np.ndarray:
        """Coordinates [R, T, G, P] of simulations; NaN where a world diverged.

        Args:
            values: parameters that replace the scene's own, with R rows or none.
            starts: [R, S].
            window_index: [R] index of the window of each simulation.
        """


class SelectedMotions:
    """Some of the windows of measured motions (``MeasuredMotions``).

    Args:
        motions: all windows.
        rows: [M] indices of the windows.
    """

    def __init__(self, motions: MeasuredMotions, rows: np.ndarray) -> None:
        self.motions, self.rows, self.start_names = motions, rows, motions.start_names
        self.target, self.noise, self.starts = motions.target[rows], motions.noise[rows], motions.starts[rows]
        self.start_sd = np.broadcast_to(motions.start_sd, motions.starts.shape)[rows]

    def simulate(self, values: Mapping[str, torch.Tensor], starts: np.ndarray, window_index: np.ndarray) -> np.ndarray:
        """As ``MeasuredMotions.simulate``."""
        return self.motions.simulate(values, starts, self.rows[window_index])


def tensor(array: np.ndarray) -> torch.Tensor:
    """An array on the scene's device, in its floating-point type."""
    return torch.as_tensor(array, dtype=bridge_dtype(), device=bridge_device())


def check_windows(scene: Scene, windows: Sequence[Window]) -> None:
    """Raise a UserError if windows have another frame time than the scene, or frames that their recordings do not have.

    Frame times may be rounded to six digits or six decimals; 29.97 and 30 frames per second differ by twenty times as much.
    """
    for window in windows:
        recording = window.recording
        if abs(recording.dt - scene.frame_dt) > min(
            max(_ROUNDING_OF_DECIMALS, _ROUNDING_OF_DIGITS * scene.frame_dt), _MAX_DT_ERROR * scene.frame_dt
        ):
            raise UserError(f"{recording.name} has a frame every {recording.dt:g} s, and {scene.name} every {scene.frame_dt:g} s")
        if window.first < 0 or window.frames < 3 or window.first + window.frames > len(recording):
            raise UserError(f"{recording.name} has {len(recording)} frames, and not {window.frames} from frame {window.first} on")


def noise_of_windows(windows: Sequence[Window], frames: int, default_sd: np.ndarray) -> np.ndarray:
    """[M, frames, G, 1] standard deviations: [G] ``default_sd`` ones, and those of windows that have their own."""
    noise = np.tile(default_sd[None, None, :, None], (len(windows), frames, 1, 1))
    for row, window in zip(noise, windows, strict=True):
        if window.noise is not None:
            row[: window.frames, :, 0] = window.noise.reshape(window.frames, -1)
    return noise
