"""Sums of the uniforms' adjoints over the rows that threads wrote separately."""

from ti_sim.base.runtime import ti


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
