"""Actions of motors as their instruments recorded them: offset, lag, noise and spikes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from risp_torch.motions.measured import tensor
from risp_torch.motions.recording import Window
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import UserError

_NEIGHBOURS = 2  # actions on each side, whose median is compared with an action
_OUTLIER_SD = 6.0  # robust standard deviations from that median: larger deviations are spikes
_MIN_RELATIVE_SD = 0.3  # least standard deviation of the deviations, relative to the size of the actions


class RecordedActions:
    """Recorded actions of M windows, corrected by the scene's parameters of the instruments.

    Args:
        scene: the scene.
        windows: parts of recordings of joints that have actions.
        frames: T, of the longest window.
        offsets: A parameters that are added to recorded actions [N or N m]; None for 0.
        lag: parameter [s]: an action that acts at a time t is recorded at t + lag; None for 0.
        despike: whether actions that stand out from their neighbours are replaced by the median of these.

    Raises:
        UserError: a name is no parameter of the scene, the lag has no bounds, or offsets have another count.
    """

    def __init__(
        self, scene: Scene, windows: Sequence[Window], frames: int, *, offsets: Sequence[str] | None, lag: str | None,
        despike: bool = False,
    ) -> None:  # fmt: skip
        check_instruments(scene, offsets, lag)
        self.scene, self.offsets, self.lag, self.frames = scene, offsets, lag, frames
        self.dt = windows[0].recording.dt
        self._margin_rows = 0
        if lag is not None:
            lag_parameter = scene.table[lag]
            largest_lag = max(abs(float(bound)) for bound in (lag_parameter.low, lag_parameter.high, lag_parameter.value))
            self._margin_rows = math.ceil(largest_lag / self.dt) + 1
        self._windows = windows
        recorded = [window.recording.actions for window in windows]
        if despike:
            recorded = [actions - spikes(actions) for actions in recorded]
        self._recorded_rows = tensor(self._rows_of_windows(recorded))

    def _rows_of_windows(self, recorded: Sequence[np.ndarray]) -> np.ndarray:
        """[M, T - 1 + 2 margin, A] rows of the recordings for the intervals of their windows, and a margin on both sides."""
        rows = []
        for window, actions in zip(self._windows, recorded, strict=True):
            row_indices = np.arange(-self._margin_rows, self.frames - 1 + self._margin_rows) + window.first
            last = len(actions) - 1 if self._margin_rows else window.first + window.frames - 2
            rows.append(actions[np.clip(row_indices, 0, last)])
        return np.array(rows)

    def error_sd(self, default_sd: np.ndarray) -> np.ndarray:
        """[M, (T - 1 + 2 margin) A] standard deviations of recorded rows: ``default_sd`` [A] and half of a spike."""
        sizes = {id(window.recording): np.hypot(default_sd, 0.5 * spikes(window.recording.actions)) for window in self._windows}
        return self._rows_of_windows([sizes[id(window.recording)] for window in self._windows]).reshape(len(self._windows), -1)

    def of(
        self, values: Mapping[str, torch.Tensor], window_index: np.ndarray, errors: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Actions [R, T - 1, A] of simulations.

        Args:
            values: parameters that replace the scene's own, with R rows or none.
            window_index: [R] index of the window of each simulation.
            errors: [R, (T - 1 + 2 margin) A] that are added to the recorded rows; None for 0.
        """
        rows, margin_rows, num_intervals = self._recorded_rows[window_index], self._margin_rows, self.frames - 1
        rows = rows if errors is None else rows + errors.reshape(rows.shape)
        actions = rows[:, margin_rows : margin_rows + num_intervals]
        if self.lag is not None:
            # Actions are means over intervals; the mean over a shifted interval is linear between two of them.
            shift = (self._value(values, self.lag).expand(len(rows)) / self.dt).clamp(-margin_rows, margin_rows - 1e-6)
            whole_intervals = shift.floor().clamp(-margin_rows, margin_rows - 1)
            row_indices = torch.arange(num_intervals, device=rows.device) + margin_rows + whole_intervals.long()[:, None]
            simulation = torch.arange(len(rows), device=rows.device)[:, None]
            fraction = (shift - whole_intervals)[:, None, None]
            actions = (1 - fraction) * rows[simulation, row_indices] + fraction * rows[simulation, row_indices + 1]
        if self.offsets is not None:
            offsets = [self._value(values, name).expand(len(rows)) for name in self.offsets]
            actions = actions + torch.stack(offsets, dim=1)[:, None]
        return actions

    def _value(self, values: Mapping[str, torch.Tensor], name: str) -> torch.Tensor:
        return tensor(values.get(name, self.scene.table[name].value))


def check_instruments(scene: Scene, offsets: Sequence[str] | None, lag: str | None) -> None:
    """Raise a UserError unless offsets and lag are parameters of the scene (``RecordedActions``)."""
    motors = sum(group.command_count for group in scene.motors)
    if offsets is not None and (len(offsets) != motors or not set(offsets) <= set(scene.parameters)):
        raise UserError(
            f"action_offsets are {list(offsets)}: name a number of {scene.name} (add_number) for each of its {motors} motors"
        )
    if lag is not None and (lag not in scene.parameters or scene.table[lag].low is None or scene.table[lag].high is None):
        raise UserError(f"action_lag is {lag!r}: name a number of {scene.name} that has bounds (add_number)")


def spikes(actions: np.ndarray) -> np.ndarray:
    """Differences [T - 1, A] between actions and the median of their neighbours, where actions are outliers; elsewhere 0.

    A Hampel filter: outliers deviate by more than ``_OUTLIER_SD`` robust standard deviations of such differences, which are at
    least ``_MIN_RELATIVE_SD`` of the 90 % quantile of the medians' magnitudes. Jumps that last for three intervals or more are
    no outliers.

    Args:
        actions: [T - 1, A] recorded actions [N or N m].
    """
    padded = np.pad(actions, ((_NEIGHBOURS, _NEIGHBOURS), (0, 0)), mode="edge")
    neighbourhood = np.stack([padded[k : k + len(actions)] for k in range(2 * _NEIGHBOURS + 1)])
    medians = np.median(neighbourhood, axis=0)
    deviations = actions - medians
    sd = np.maximum(1.4826 * np.median(np.abs(deviations), axis=0), _MIN_RELATIVE_SD * np.quantile(np.abs(medians), 0.9, axis=0))
    return np.where(np.abs(deviations) > np.maximum(_OUTLIER_SD * sd, 1e-12), deviations, 0.0)
