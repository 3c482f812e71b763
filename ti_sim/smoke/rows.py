"""Copies between fields [B, X, Y] and rows of arrays [B, rows, X, Y]: stored states, frames, and their adjoints."""

from ti_sim.base.bundles import kernel
from ti_sim.base.runtime import ti


@kernel
def write_row(field: ti.types.ndarray(), rows: ti.types.ndarray(), row: int):
    """rows[:, row] = field."""
    for b, i, j in field:
        rows[b, row, i, j] = field[b, i, j]


@kernel
def read_row(rows: ti.types.ndarray(), row: int, field: ti.types.ndarray()):
    """field = rows[:, row]."""
    for b, i, j in field:
        field[b, i, j] = rows[b, row, i, j]


@kernel
def add_row(rows: ti.types.ndarray(), row: int, field: ti.types.ndarray()):
    """field += rows[:, row]."""
    for b, i, j in field:
        field[b, i, j] += rows[b, row, i, j]


@kernel
def add_field(source: ti.types.ndarray(), target: ti.types.ndarray()):
    """target += source."""
    for b, i, j in target:
        target[b, i, j] += source[b, i, j]


@kernel
def zero_closed(is_open: ti.types.ndarray(), field: ti.types.ndarray()):
    """field = 0 where is_open [X, Y] is 0."""
    for b, i, j in field:
        field[b, i, j] *= is_open[i, j]
