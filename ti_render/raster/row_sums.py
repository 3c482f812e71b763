"""Sums of the uniforms' adjoints over the rows that threads wrote separately."""

from ti_render.raster.walk import TileParts
from ti_sim.base.bundles import kernel
from ti_sim.base.runtime import ti

_ROWS = 32  # that a thread of a GPU adds up


@ti.kernel
def add_tile_sums(serial: ti.template(), bars: ti.types.ndarray(), slot: ti.types.ndarray(), uniforms_bar: ti.types.ndarray()):
    """Add bars [occupied, U], one row for each tile that has faces, to uniforms_bar [M, U]. Reads slot [M tiles]."""
    tiles = slot.shape[0] // uniforms_bar.shape[0]
    ti.loop_config(serialize=serial)
    for m, u in ti.ndrange(uniforms_bar.shape[0], uniforms_bar.shape[1]):
        total = 0.0
        for tile in range(m * tiles, (m + 1) * tiles):
            if slot[tile] >= 0:
                total += bars[slot[tile], u]
        uniforms_bar[m, u] = uniforms_bar[m, u] + total


@kernel
def add_part_sums(parts: TileParts, tiles: int, bars: ti.types.ndarray(), uniforms_bar: ti.types.ndarray()):
    """Add bars [occupied parts, U], a row for each part of a tile that has faces, to uniforms_bar [M, U]; an image has ``tiles``
    tiles. A thread adds up ``_ROWS`` rows of a column, for a GPU."""
    columns = uniforms_bar.shape[1]
    for index in range((bars.shape[0] + _ROWS - 1) // _ROWS * columns):
        first_row, u = index // columns * _ROWS, index % columns
        m, total = parts.tile_of_slot[first_row // parts.count] // tiles, 0.0
        for row in range(first_row, ti.min(first_row + _ROWS, bars.shape[0])):
            image = parts.tile_of_slot[row // parts.count] // tiles
            if image != m:
                uniforms_bar[m, u] += total
                m, total = image, 0.0
            total += bars[row, u]
        uniforms_bar[m, u] += total


@ti.kernel
def add_row_sums(serial: ti.template(), bars: ti.types.ndarray(), uniforms_bar: ti.types.ndarray()):
    """Add bars [M R, U], R rows for each image, to uniforms_bar [M, U]."""
    rows = bars.shape[0] // uniforms_bar.shape[0]
    ti.loop_config(serialize=serial)
    for m, u in ti.ndrange(uniforms_bar.shape[0], uniforms_bar.shape[1]):
        total = 0.0
        for row in range(m * rows, (m + 1) * rows):
            total += bars[row, u]
        uniforms_bar[m, u] = uniforms_bar[m, u] + total
