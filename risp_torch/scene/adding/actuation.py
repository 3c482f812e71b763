"""Actuation of elements: values over time."""

from __future__ import annotations

from typing import Any

import numpy as np

from risp_torch.scene.parameters import ParameterTable
from risp_torch.scene.parts.elements import Actuation
from ti_sim.base.errors import UserError
from ti_sim.base.param import Param


def add_actuation(
    table: ParameterTable, name: str, given: Any, groups: Any, *, count: int, frames: int, controls: int, unit: str = ""
) -> Actuation | None:
    """Add an actuation [frames C, E], or [frames C, G] with the group of each element; None for none.

    Raises:
        UserError: it has another size, or the groups do not fit.
    """
    if given is None:
        if groups is not None:
            raise UserError(f"{name} has groups and no values: give both")
        return None
    shape = np.shape(given.value if isinstance(given, Param) else given)
    columns, which = count, None
    if groups is not None:
        which = np.asarray(groups)
        if which.shape != (count,) or which.dtype.kind not in "iu" or which.min() < 0:
            raise UserError(
                f"the groups of {name} have shape {which.shape} of {which.dtype}: give {(count,)} whole numbers from 0 on"
            )
        columns = int(which.max()) + 1
    rows = frames * controls
    if shape != (rows, columns):
        what = "groups" if groups is not None else "elements"
        when = "frame intervals" if controls == 1 else f"{controls} rows a frame interval"
        raise UserError(f"{name} has shape {shape}, and {(rows, columns)} is needed ({when}, {what})")
    table.add(name, given, unit=unit, shape=(rows, columns))
    return Actuation(name, which, controls)
