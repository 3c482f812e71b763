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

_NEIGHBOURS = 2  # actions on each side whose median is compared with an action
_OUTLYING = 6.0  # robust standard deviations from that median
_SMOOTH = 0.3  # of the actions' size: least standard deviation of these distances


class RecordedActions:
    """Recorded actions of M windows, corrected by the scene's numbers of the instruments.

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
        self._margin = 0
        if lag is not None:
            number = scene.table[lag]
            largest = max(abs(float(bound)) for bound in (number.low, number.high, number.value))
            self._margin = math.ceil(largest / self.dt) + 1
        self._windows = windows
        recorded = [window.recording.actions for window in windows]
        if despike:
            recorded = [actions - spikes(actions) for actions in recorded]
        self._rows = tensor(self._each_interval(recorded))

    def _each_interval(self, recorded: Sequence[np.ndarray]) -> np.ndarray:
        """[M, T - 1 + 2 margin, A] rows of the recordings for the intervals of their windows, and those about them."""
        rows = []
        for window, table in zip(self._windows, recorded, strict=True):
            needed = np.arange(-self._margin, self.frames - 1 + self._margin) + window.first
            last = len(table) - 1 if self._margin else window.first + window.frames - 2
            rows.append(table[np.clip(needed, 0, last)])
        return np.array(rows)

    def error_sd(self, default_sd: np.ndarray) -> np.ndarray:
        """[M, (T - 1 + 2 margin) A] standard deviations of errors of recorded rows: ``default_sd`` [A], and half of a spike."""
        sizes = {id(window.recording): np.hypot(default_sd, 0.5 * spikes(window.recording.actions)) for window in self._windows}
        return self._each_interval([sizes[id(window.recording)] for window in self._windows]).reshape(len(self._windows), -1)

    def of(self, values: Mapping[str, torch.Tensor], motion: np.ndarray, errors: torch.Tensor | None = None) -> torch.Tensor:
        """Actions [R, T - 1, A] of simulations.

        Args:
            values: of the scene, with R rows or none.
            motion: [R] number of the window that each simulation belongs to.
            errors: [R, (T - 1 + 2 margin) A] that are added to the recorded rows; None for 0.
        """
        rows, margin, count = self._rows[motion], self._margin, self.frames - 1
        rows = rows if errors is None else rows + errors.reshape(rows.shape)
        actions = rows[:, margin : margin + count]
        if self.lag is not None:
            # Actions are means over intervals; the mean over a shifted interval is linear between two of them.
            shift = (self._value(values, self.lag).expand(len(rows)) / self.dt).clamp(-margin, margin - 1e-6)
            whole_frames = shift.floor().clamp(-margin, margin - 1)
            row_indices = torch.arange(count, device=rows.device) + margin + whole_frames.long()[:, None]
            world = torch.arange(len(rows), device=rows.device)[:, None]
            fraction = (shift - whole_frames)[:, None, None]
            actions = (1 - fraction) * rows[world, row_indices] + fraction * rows[world, row_indices + 1]
        if self.offsets is not None:
            added = [self._value(values, name).expand(len(rows)) for name in self.offsets]
            actions = actions + torch.stack(added, dim=1)[:, None]
        return actions

    def _value(self, values: Mapping[str, torch.Tensor], name: str) -> torch.Tensor:
        return tensor(values.get(name, self.scene.table[name].value))


def check_instruments(scene: Scene, offsets: Sequence[str] | None, lag: str | None) -> None:
    """Raise a UserError unless offsets and lag are numbers of the scene (``RecordedActions``)."""
    motors = sum(group.rows for group in scene.motors)
    if offsets is not None and (len(offsets) != motors or not set(offsets) <= set(scene.parameters)):
        raise UserError(
            f"action_offsets are {list(offsets)}: name a number of {scene.name} (add_number) for each of its {motors} motors"
        )
    if lag is not None and (lag not in scene.parameters or scene.table[lag].low is None or scene.table[lag].high is None):
        raise UserError(f"action_lag is {lag!r}: name a number of {scene.name} that has bounds (add_number)")


def spikes(actions: np.ndarray) -> np.ndarray:
    """Differences [T - 1, A] of actions to the median of their neighbours, where they stand out from these; elsewhere 0.

    A Hampel filter: an action stands out by more than ``_OUTLYING`` robust standard deviations of such distances, which are
    at least 0.3 of what the actions usually are. Jumps that last for three intervals or more are none.

    Args:
        actions: [T - 1, A].
    """
    padded = np.pad(actions, ((_NEIGHBOURS, _NEIGHBOURS), (0, 0)), mode="edge")
    around = np.stack([padded[k : k + len(actions)] for k in range(2 * _NEIGHBOURS + 1)])
    middle = np.median(around, axis=0)
    away = actions - middle
    typical_size = np.maximum(1.4826 * np.median(np.abs(away), axis=0), _SMOOTH * np.quantile(np.abs(middle), 0.9, axis=0))
    return np.where(np.abs(away) > np.maximum(_OUTLYING * typical_size, 1e-12), away, 0.0)
