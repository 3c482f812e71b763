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


@kernel
def write_entry(field: ti.types.ndarray(), entries: ti.types.ndarray(), entry: int):
    """entries[entry] = field; entries [N, B, ., .]."""
    for b, i, j in field:
        entries[entry, b, i, j] = field[b, i, j]


@kernel
def read_entry(entries: ti.types.ndarray(), entry: int, field: ti.types.ndarray()):
    """field = entries[entry]."""
    for b, i, j in field:
        field[b, i, j] = entries[entry, b, i, j]


@kernel
def sum_places(entries: ti.types.ndarray(), entry: int, sums: ti.types.ndarray()):
    """sums [B] += the sums of entries[entry] over all places."""
    for b, i, j in ti.ndrange(entries.shape[1], entries.shape[2], entries.shape[3]):
        sums[b] += entries[entry, b, i, j]
