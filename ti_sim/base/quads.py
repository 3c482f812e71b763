"""Arrays of rows of four numbers, for kernels that are compiled ``with_vector_code`` in single precision on the processor.

A kernel reads or writes a row by one instruction. ``gather_rows`` turns eight rows into a vector in lanes, and ``add_rows`` turns
one back; the fourth number of such a row is not used.
"""

from typing import Annotated, Any

import numpy as np

from ti_sim.base.lanes import LANES, LaneVector, constant_lanes
from ti_sim.base.runtime import ti

Quads = Annotated[Any, ti.types.ndarray(dtype=ti.types.vector(4, ti.f32), ndim=1)]  # [rows, 4]
IntQuads = Annotated[Any, ti.types.ndarray(dtype=ti.types.vector(4, ti.i32), ndim=1)]  # [rows, 4]
Pairs = Annotated[Any, ti.types.ndarray(dtype=ti.types.vector(2, ti.f32), ndim=1)]  # [rows, 2]

QUADS = LANES // 4  # rows of a number in lanes


def quad_zeros(*shape: int) -> np.ndarray:
    """[rows, 4] zeros, of which ``shape`` is that of the rows."""
    return np.zeros((int(np.prod(shape)), 4), dtype=np.float32)


def in_blocks(values: np.ndarray) -> np.ndarray:
    """``Quads`` of values [..., E, columns] in blocks of ``LANES`` elements; the last one fills up the last block.

    Row ``QUADS (block columns + column)`` and the next one are the lanes of a column.
    """
    count, columns = values.shape[-2:]
    blocks = block_count(count)
    padded = np.concatenate([values, np.repeat(values[..., -1:, :], blocks * LANES - count, axis=-2)], axis=-2)
    lanes_last = padded.reshape(*values.shape[:-2], blocks, LANES, columns).swapaxes(-1, -2)
    return np.ascontiguousarray(lanes_last, dtype=np.float32).reshape(-1, 4)


def from_blocks(quads: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Inverse of ``in_blocks`` for values of this shape."""
    count, columns = shape[-2:]
    lanes_last = quads.reshape(*shape[:-2], block_count(count), columns, LANES)
    return lanes_last.swapaxes(-1, -2).reshape(*shape[:-2], -1, columns)[..., :count, :]


def block_count(elements: int) -> int:
    """Number of blocks of ``LANES`` elements."""
    return -(-elements // LANES)


@ti.func
def as_quad(x):
    """Row of a 3-vector."""
    return ti.Vector([x[0], x[1], x[2], 0.0])


@ti.func
def load_block(quads: ti.template(), first):
    """A number in lanes from two consecutive rows."""
    return _joined(quads[first], quads[first + 1])


@ti.func
def add_block(quads: ti.template(), first, value):
    """Add a number in lanes to two consecutive rows."""
    low = quads[first] + _low(value)
    high = quads[first + 1] + _high(value)
    quads[first] = low
    quads[first + 1] = high


@ti.func
def gather_rows(quads: ti.template(), rows):
    """A row for each lane: four pairs of rows, of lanes 0 and 4, 1 and 5, ..., whose sums and differences ``separated`` takes."""
    return LaneVector(
        _joined(quads[rows[0]], quads[rows[4]]), _joined(quads[rows[1]], quads[rows[5]]),
        _joined(quads[rows[2]], quads[rows[6]]), _joined(quads[rows[3]], quads[rows[7]]),
    )  # fmt: skip


@ti.func
def separated(rows: ti.template()):
    """``LaneVector`` of the first three numbers of rows for each lane, which are sums or differences of ``gather_rows``."""
    a, b, c, d = rows[0], rows[1], rows[2], rows[3]
    ab, cd = _kept(_interleaved_01(a, b)), _kept(_interleaved_01(c, d))
    return LaneVector(
        _first_pairs(ab, cd), _last_pairs(ab, cd),
        _first_pairs(_kept(_interleaved_23(a, b)), _kept(_interleaved_23(c, d))),
    )  # fmt: skip


@ti.func
def add_rows(quads: ti.template(), rows, value: ti.template()):
    """Add a ``LaneVector`` to a row for each lane, one after the other: lanes may share a row."""
    x, y, z, zero = value[0], value[1], value[2], constant_lanes(0.0)
    xy, zw = _kept(_interleaved_01(x, y)), _kept(_interleaved_01(z, zero))
    next_xy, next_zw = _kept(_interleaved_23(x, y)), _kept(_interleaved_23(z, zero))
    rows_04, rows_15 = _kept(_first_pairs(xy, zw)), _kept(_last_pairs(xy, zw))
    rows_26, rows_37 = _kept(_first_pairs(next_xy, next_zw)), _kept(_last_pairs(next_xy, next_zw))
    quads[rows[0]] = quads[rows[0]] + _low(rows_04)
    quads[rows[1]] = quads[rows[1]] + _low(rows_15)
    quads[rows[2]] = quads[rows[2]] + _low(rows_26)
    quads[rows[3]] = quads[rows[3]] + _low(rows_37)
    quads[rows[4]] = quads[rows[4]] + _high(rows_04)
    quads[rows[5]] = quads[rows[5]] + _high(rows_15)
    quads[rows[6]] = quads[rows[6]] + _high(rows_26)
    quads[rows[7]] = quads[rows[7]] + _high(rows_37)


@ti.func
def _kept(a):
    """The same numbers (and 0 for -0). The compiler would write several shuffles in a row as a copy of each number."""
    return a + 0.0


# Each of the following is one instruction of a processor with vectors of eight numbers, which shuffles both halves alike.


@ti.func
def _joined(low, high):
    return ti.Vector([low[0], low[1], low[2], low[3], high[0], high[1], high[2], high[3]])


@ti.func
def _low(a):
    return ti.Vector([a[0], a[1], a[2], a[3]])


@ti.func
def _high(a):
    return ti.Vector([a[4], a[5], a[6], a[7]])


@ti.func
def _interleaved_01(a, b):
    return ti.Vector([a[0], b[0], a[1], b[1], a[4], b[4], a[5], b[5]])


@ti.func
def _interleaved_23(a, b):
    return ti.Vector([a[2], b[2], a[3], b[3], a[6], b[6], a[7], b[7]])


@ti.func
def _first_pairs(a, b):
    return ti.Vector([a[0], a[1], b[0], b[1], a[4], a[5], b[4], b[5]])


@ti.func
def _last_pairs(a, b):
    return ti.Vector([a[2], a[3], b[2], b[3], a[6], a[7], b[6], b[7]])
