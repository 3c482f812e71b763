"""Loads and actuations of a stage: constant within a frame (a control row), with jumps in between.

Steps end where the inputs jump, so a one-step formula keeps its order. BDF2 also uses the step before the jump: with the load at
the end of the step, every jump acts half a step late, an error of first order. With the load u, v minus the integral of u / m has
no jump; BDF2 for this difference is BDF2 for v with the load

    3/2 u - 1/2 u',

where u' is the load of the step before. Actuations are combined in the same way, which is exact to first order in their jump.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ti_sim.deformable.implicit.stages import Stage
from ti_sim.deformable.inputs import DeformableInputs

_PER_FRAME, _PER_CONTROL_ROW = ("load",), ("solid_actuation", "tri_actuation", "edge_actuation")
_PRESCRIBED = ("prescribed_qd",)  # positions follow these velocities exactly
_CURRENT_WEIGHT, _PREVIOUS_WEIGHT = 1.5, -0.5


class Driving:
    """Time-dependent inputs with two added rows: for the step before the first one, and for a BDF2 stage that spans a jump.

    Attributes:
        inputs: the inputs, with both rows in every time-dependent array that has elements.
    """

    def __init__(self, inputs: DeformableInputs, substeps: int, previous: np.ndarray | None = None) -> None:
        """Append the rows.

        Args:
            inputs: numbers of every world, f64 numpy arrays.
            substeps: steps per frame.
            previous: [B, G] loads and actuations of the step before the first one (``last_driving``).
        """
        self._substeps, self._controls, self._frames = substeps, inputs.controls, inputs.frame_count
        self.inputs = _with_added_rows(inputs)
        if previous is not None:
            for name, columns in _columns(inputs).items():
                values = getattr(self.inputs, name)
                values[:, -2] = previous[:, columns].reshape(values[:, -2].shape)

    def rows(self, stage: Stage, world: int) -> tuple[int, int]:
        """Control row and frame that the stage reads; if it spans a jump these are the last added rows, which are written."""
        current = self._rows_of(stage.step)
        if not self._spans_jump(stage):
            return current
        previous = self._rows_of(stage.step - 1)
        for names, axis in ((_PER_CONTROL_ROW, 0), (_PER_FRAME, 1)):
            for values in self._world_arrays(self.inputs, names, world):
                values[-1] = _CURRENT_WEIGHT * values[current[axis]] + _PREVIOUS_WEIGHT * values[previous[axis]]
        return self._controls * self._frames + 1, self._frames + 1

    def rows_adjoint(self, bars: DeformableInputs, stage: Stage, world: int) -> None:
        """Adjoint of ``rows``: add the last added rows of ``bars`` to the rows that they combine, and clear them."""
        if not self._spans_jump(stage):
            return
        current, previous = self._rows_of(stage.step), self._rows_of(stage.step - 1)
        for names, axis, weights in (
            (_PER_CONTROL_ROW, 0, (_CURRENT_WEIGHT, _PREVIOUS_WEIGHT)),
            (_PER_FRAME, 1, (_CURRENT_WEIGHT, _PREVIOUS_WEIGHT)), (_PRESCRIBED, 1, (1.0, 0.0)),
        ):  # fmt: skip
            for values in self._world_arrays(bars, names, world):
                values[current[axis]] += weights[0] * values[-1]
                values[previous[axis]] += weights[1] * values[-1]
                values[-1] = 0.0

    def without_added_rows(self, bars: DeformableInputs) -> tuple[DeformableInputs, np.ndarray]:
        """``bars`` without the added rows, and the adjoint of ``previous``."""
        names = [name for name in (*_PER_FRAME, *_PER_CONTROL_ROW, *_PRESCRIBED) if getattr(bars, name).size]
        previous = _flat_row(bars, row=-2)
        return replace(bars, **{name: np.ascontiguousarray(getattr(bars, name)[:, :-2]) for name in names}), previous

    def _rows_of(self, step: int) -> tuple[int, int]:
        """Control row (``elements.actuation_row``) and frame of a step; for step -1 the indices of its added rows."""
        if step < 0:
            return self._controls * self._frames, self._frames
        return step * self._controls // self._substeps, step // self._substeps

    def _spans_jump(self, stage: Stage) -> bool:
        return stage.reaches_back and self._rows_of(stage.step) != self._rows_of(stage.step - 1)

    @staticmethod
    def _world_arrays(inputs: DeformableInputs, names: tuple[str, ...], world: int) -> list[np.ndarray]:
        """Arrays [rows, ...] of a world; arrays without elements are left out."""
        return [getattr(inputs, name)[world] for name in names if getattr(inputs, name).size]


def last_driving(inputs: DeformableInputs, frames: int) -> np.ndarray:
    """[B, G] loads and actuations of the last step of ``frames`` frame intervals, f64."""
    row_counts = {name: frames for name in _PER_FRAME} | {name: frames * inputs.controls for name in _PER_CONTROL_ROW}
    return _flat_row(replace(inputs, **{name: getattr(inputs, name)[:, : row_counts[name]] for name in row_counts}), row=-1)


def last_driving_adjoint(inputs: DeformableInputs, bars: DeformableInputs, frames: int, bar: np.ndarray) -> None:
    """Adjoint of ``last_driving``: adds to ``bars``, the adjoints of the inputs."""
    for name, columns in _columns(inputs).items():
        row = frames * (inputs.controls if name in _PER_CONTROL_ROW else 1) - 1
        values = getattr(bars, name)
        values[:, row] += bar[:, columns].reshape(values[:, row].shape)


def _flat_row(inputs: DeformableInputs, *, row: int) -> np.ndarray:
    """[B, G] a row of loads and actuations."""
    rows = [getattr(inputs, name)[:, row].reshape(inputs.world_count, -1) for name in _columns(inputs)]
    return np.concatenate([np.zeros((inputs.world_count, 0)), *rows], axis=1)


def _columns(inputs: DeformableInputs) -> dict[str, slice]:
    """Columns of each array that has elements in a row of ``_flat_row``."""
    columns, stop = {}, 0
    for name in (*_PER_FRAME, *_PER_CONTROL_ROW):
        values = getattr(inputs, name)
        if values.size:
            start, stop = stop, stop + int(np.prod(values.shape[2:]))
            columns[name] = slice(start, stop)
    return columns


def _with_added_rows(inputs: DeformableInputs) -> DeformableInputs:
    arrays = {name: getattr(inputs, name) for name in (*_PER_FRAME, *_PER_CONTROL_ROW, *_PRESCRIBED)}
    added = {name: np.zeros((len(values), 2, *values.shape[2:])) for name, values in arrays.items()}
    return replace(inputs, **{name: np.append(values, added[name], axis=1) for name, values in arrays.items() if values.size})
