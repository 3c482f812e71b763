"""The kernel that writes the weights of the faces in the pixels (``fragment_weights``)."""

from ti_render.arrays import UNIFORM, Faces
from ti_render.backdrop.backdrop import depth_rate, negligible, pixel_centre
from ti_render.raster.edge_on import even_point, steepness
from ti_render.raster.fragment import fragment, near_fade_rates, perspective, setup
from ti_render.raster.softras import (
    LEAST_DEPTH,
    NO_COVERAGE,
    STATE_SIZE,
    WEIGHT,
    face_screen,
    pixel_alpha,
    pixel_range,
    tile_box,
)
from ti_render.raster.tiles import CUT_OFF, Tiles
from ti_sim.base.bundles import kernel
from ti_sim.base.runtime import ti


@kernel
def fragment_weights_kernel(
    faces: Faces, tiles: Tiles, pixel_state: ti.types.ndarray(), width: int, height: int, least: float, write: int,
    entries: ti.types.ndarray(), places: ti.types.ndarray(), weights: ti.types.ndarray(),
):  # fmt: skip
    """Count the fragments with a weight of at least ``least``, or write them.

    Reads pixel_state, which ``rasterise`` has written. With ``write`` 0 it writes entries [occupied] int32, the number of
    fragments of each tile that has faces; with 1 it reads there the first entry of each, and writes places [n, 4] int32 (image,
    row, column, face) and weights [n, 3] of the face's corners. Threads have tiles. No adjoint: weights have no derivatives.
    """
    half = 0.5 * ti.min(width, height)
    for index in range(tiles.slot.shape[0] * tiles.spread):
        if index % tiles.spread > 0 or tiles.slot[index // tiles.spread] < 0:
            continue
        tile = index // tiles.spread
        m, x0, y0, x1, y1 = tile_box(tile, width, height, tiles.side)
        slot = tiles.slot[tile]
        base = slot * tiles.side * tiles.side
        inverse_sigma = 1.0 / faces.uniforms[m, UNIFORM.sigma]
        radius = ti.sqrt(CUT_OFF * faces.uniforms[m, UNIFORM.sigma])
        rate = depth_rate(faces, m)
        found = 0
        for entry in range(tiles.start[tile], tiles.start[tile + 1]):
            f = tiles.entries[entry]
            a0, a1, a2, depths = face_screen(faces, m, f)
            inverse_depths = 1.0 / depths
            fade, _rates = near_fade_rates(depths, 1.0 / faces.near)
            steep = steepness(a0, a1, a2, inverse_depths, faces.steepest)
            inverse_area, inverse_squared, to_distance = setup(a0, a1, a2)
            begin_x, end_x = pixel_range(faces, a0[0], a1[0], a2[0], radius, half, width, x0, x1)
            begin_y, end_y = pixel_range(faces, a0[1], a1[1], a2[1], radius, half, height, y0, y1)
            for y in range(begin_y, end_y + 1):
                for x in range(begin_x, end_x + 1):
                    p = pixel_centre(faces, m, x, y, width, height)
                    bare, tail, _x, _rate, b, _edge, _inside, _distance = fragment(
                        p, a0, a1, a2, inverse_area, inverse_squared, to_distance, radius, inverse_sigma
                    )
                    coverage = bare * fade
                    if coverage > NO_COVERAGE:
                        i = base + (y - y0) * tiles.side + x - x0
                        if steep > 0:
                            b += (even_point.value(a0 - p, a1 - p, a2 - p, inverse_sigma) - b) * steep
                        r, z = perspective(b, inverse_depths)
                        t = (pixel_state[i * STATE_SIZE + LEAST_DEPTH] - z) * rate - tail
                        if t > ti.static(negligible()):
                            mix = pixel_alpha(pixel_state, i)
                            if faces.strict == 1:
                                mix = 1.0
                            share = mix * coverage * ti.exp(t) / pixel_state[i * STATE_SIZE + WEIGHT]
                            if share >= least:
                                if write == 1:
                                    at = entries[slot] + found
                                    places[at, 0], places[at, 1], places[at, 2], places[at, 3] = m, y, x, f
                                    for k in ti.static(range(3)):
                                        weights[at, k] = share * r[k]
                                found += 1
        if write == 0:
            entries[slot] = found
