"""Loads and actuations of a stage: constant within a frame (a control row), with jumps in between.

A one-step formula ends a step where they jump, and stays as accurate as it is. BDF2 reaches back over the jump: with the load at
the end of the step, every jump acts half a step late, an error of first order. The velocity without the load's part, v minus the
integral of u / m, has no jump; BDF2 for it is BDF2 for v with the load

    3/2 u - 1/2 u',

u' the load of the step before. Actuations are taken in the same way, which is exact to first order in their jump.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ti_sim.deformable.implicit.stages import Stage
from ti_sim.deformable.inputs import DeformableInputs

_BY_FRAME, _BY_CONTROL = ("load",), ("solid_actuation", "tri_actuation", "edge_actuation")
_FOLLOWED = ("prescribed_qd",)  # positions follow these velocities exactly
_NOW, _BEFORE = 1.5, -0.5


class Driving:
    """Rows of what changes over time, with a spare row at the end for a stage that reaches back over a jump.

    Attributes:
        inputs: the inputs, with the spare row in every array over time that has elements.
    """

    def __init__(self, inputs: DeformableInputs, substeps: int) -> None:
        """Append the spare rows.

        Args:
            inputs: numbers of every world, f64 numpy arrays.
            substeps: steps per frame.
        """
        self._substeps, self._controls, self._frames = substeps, inputs.controls, inputs.frame_count
        self.inputs = _with_spare_row(inputs)

    def rows(self, stage: Stage, world: int) -> tuple[int, int]:
        """Control row and frame that the stage reads; writes the spare rows of the world if it is those."""
        now = self._rows_of(stage.step)
        if not self._jumps(stage):
            return now
        before = self._rows_of(stage.step - 1)
        for names, axis in ((_BY_CONTROL, 0), (_BY_FRAME, 1)):
            for values in self._of(self.inputs, names, world):
                values[-1] = _NOW * values[now[axis]] + _BEFORE * values[before[axis]]
        return self._controls * self._frames, self._frames

    def spread(self, bars: DeformableInputs, stage: Stage, world: int) -> None:
        """Adjoint of ``rows``: add the spare rows of ``bars`` to the rows that they are made of, and clear them."""
        if not self._jumps(stage):
            return
        now, before = self._rows_of(stage.step), self._rows_of(stage.step - 1)
        for names, axis, weights in (
            (_BY_CONTROL, 0, (_NOW, _BEFORE)), (_BY_FRAME, 1, (_NOW, _BEFORE)), (_FOLLOWED, 1, (1.0, 0.0))
        ):  # fmt: skip
            for values in self._of(bars, names, world):
                values[now[axis]] += weights[0] * values[-1]
                values[before[axis]] += weights[1] * values[-1]
                values[-1] = 0.0

    def without_spare_rows(self, bars: DeformableInputs) -> DeformableInputs:
        """``bars`` with the shapes of the inputs that were given."""
        names = [name for name in (*_BY_FRAME, *_BY_CONTROL, *_FOLLOWED) if getattr(bars, name).size]
        return replace(bars, **{name: np.ascontiguousarray(getattr(bars, name)[:, :-1]) for name in names})

    def _rows_of(self, step: int) -> tuple[int, int]:
        """Control row (``elements.actuation_row``) and frame of a step."""
        return step * self._controls // self._substeps, step // self._substeps

    def _jumps(self, stage: Stage) -> bool:
        return stage.reaches_back and self._rows_of(stage.step) != self._rows_of(stage.step - 1)

    @staticmethod
    def _of(inputs: DeformableInputs, names: tuple[str, ...], world: int) -> list[np.ndarray]:
        """Arrays [rows, ...] of a world, of those that have elements."""
        return [getattr(inputs, name)[world] for name in names if getattr(inputs, name).size]


def _with_spare_row(inputs: DeformableInputs) -> DeformableInputs:
    arrays = {name: getattr(inputs, name) for name in (*_BY_FRAME, *_BY_CONTROL, *_FOLLOWED)}
    longer = {name: np.append(values, np.zeros_like(values[:, :1]), axis=1) for name, values in arrays.items() if values.size}
    return replace(inputs, **longer)
