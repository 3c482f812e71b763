"""Actuation of elements: values over time."""

from __future__ import annotations

import numpy as np

from risp_torch.scene.parameters import ParameterTable
from risp_torch.scene.parts.elements import ActuationRows
from risp_torch.scene.parts.materials import Actuation
from ti_sim.base.errors import UserError
from ti_sim.base.param import Param


def add_actuation(
    table: ParameterTable, name: str, actuation: Actuation | None, *, count: int, frames: int, controls: int, unit: str = ""
) -> ActuationRows | None:
    """Add the values of an actuation of ``count`` elements, with C = ``controls`` rows a frame; None for none.

    Raises:
        UserError: it has another size, or the groups do not fit.
    """
    if actuation is None:
        return None
    rows_and_columns, groups = actuation.values, actuation.groups
    shape = np.shape(rows_and_columns.value if isinstance(rows_and_columns, Param) else rows_and_columns)
    columns, element_groups = count, None
    if groups is not None:
        element_groups = np.asarray(groups)
        if element_groups.shape != (count,) or element_groups.dtype.kind not in "iu" or element_groups.min() < 0:
            raise UserError(
                f"the groups of {name} have shape {element_groups.shape} of {element_groups.dtype}: give {(count,)} "
                "whole numbers from 0 on"
            )
        columns = int(element_groups.max()) + 1
    rows = frames * controls
    if shape != (rows, columns):
        column_unit = "groups" if groups is not None else "elements"
        row_unit = "frame intervals" if controls == 1 else f"{controls} rows a frame interval"
        raise UserError(f"{name} has shape {shape}, and {(rows, columns)} is needed ({row_unit}, {column_unit})")
    table.add(name, rows_and_columns, unit=unit, shape=(rows, columns))
    return ActuationRows(name, element_groups, controls)
