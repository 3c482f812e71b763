"""Tangents of DIB-R in all columns."""

from ti_render.arrays import MOVING_COLUMN, UNIFORM, FaceArrays, Faces, FaceTangentWork
from ti_render.backdrop.backdrop import pixel_centre
from ti_render.backdrop.backdrop_jvp import pixel_tangent
from ti_render.raster.coverage import covered_part, covered_part_rates, union_sides
from ti_render.raster.dibr import BACK, DIBR_STATE_SIZE, FRONT, seen_face
from ti_render.raster.fragment import fragment, near_fade_rates, perspective, setup, sub_areas
from ti_render.raster.fragment_tangent import barycentrics_tangent
from ti_render.raster.softras import face_screen, pixel_range, tile_box
from ti_render.raster.softras_jvp import corner_tangents, coverage_tangent, perspective_tangent
from ti_render.raster.tiles import CUT_OFF, Tiles
from ti_render.rows import put3
from ti_render.shading.lighting import COLOUR_DOT, R_DOT, SCRATCH_SIZE, Z_DOT
from ti_render.shading.surface import DEPTH, FACE_DOT_SIZE, face_attributes, gather_face_tangents, surface_columns
from ti_sim.base.bundles import kernel, with_fields
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3


@kernel
def rasterise_dibr_jvp(
    faces: Faces, tiles: Tiles, pixel_state: ti.types.ndarray(), dots: FaceArrays, work: FaceTangentWork,
    pictures_dot: ti.types.ndarray(),
):  # fmt: skip
    """Turn pictures_dot [M, K, H, W, 4], which hold the backdrop's tangents, into those of the pictures (``rasterise_jvp``)."""
    columns, height, width = pictures_dot.shape[1], pictures_dot.shape[2], pictures_dot.shape[3]
    half = 0.5 * ti.min(width, height)
    for index in range(tiles.slot.shape[0] * tiles.spread):
        if index % tiles.spread > 0 or tiles.slot[index // tiles.spread] < 0:
            continue
        tile = index // tiles.spread
        m, x0, y0, x1, y1 = tile_box(tile, width, height, tiles.side)
        row, face_row = tiles.slot[tile] * columns * SCRATCH_SIZE, tiles.slot[tile] * columns * FACE_DOT_SIZE
        base = tiles.slot[tile] * tiles.side * tiles.side
        inverse_sigma = 1.0 / faces.uniforms[m, UNIFORM.sigma]
        radius = ti.sqrt(CUT_OFF * faces.uniforms[m, UNIFORM.sigma])
        for y in range(y0, y1 + 1):
            for x in range(x0, x1 + 1):
                p = pixel_centre(faces, m, x, y, width, height)
                f = seen_face(faces, pixel_state, base + (y - y0) * tiles.side + x - x0, m, p)
                if f >= 0:
                    a0, a1, a2, depths = face_screen(faces, m, f)
                    inverse_depths = 1.0 / depths
                    inverse_area, inverse_squared, to_distance = setup(a0, a1, a2)
                    _c, _t, _x, _l, b, edge, inside, _d = fragment(
                        p, a0, a1, a2, inverse_area, inverse_squared, to_distance, radius, inverse_sigma
                    )
                    r, z = perspective(b, inverse_depths)
                    face = face_attributes(faces, m, f)
                    gather_face_tangents(faces, dots, work, face_row, m, f)
                    for c in range(columns):
                        r_dot, z_dot = vec3(0), 0.0
                        if work.active[c] & MOVING_COLUMN != 0:
                            d0, d1, d2, depths_dot = corner_tangents(
                                work.face_dot, face_row, c, pixel_tangent(faces, dots, m, c, y, x)
                            )
                            b_dot = barycentrics_tangent(
                                p, a0, a1, a2, b, edge, inside, inverse_area, inverse_squared, d0, d1, d2
                            )
                            r_dot, z_dot = perspective_tangent(b, r, z, inverse_depths, b_dot, depths_dot)
                        put3(work.scratch, row + c * SCRATCH_SIZE + R_DOT, r_dot)
                        work.scratch[row + c * SCRATCH_SIZE + Z_DOT] = z_dot
                    surface_columns(faces, dots, work, row, face_row, face, m, r)
                    for c in range(columns):
                        for k in ti.static(range(3)):
                            pictures_dot[m, c, y, x, k] = work.scratch[row + c * SCRATCH_SIZE + COLOUR_DOT + k]
        for entry in range(tiles.start[tile], tiles.start[tile + 1]):
            f = tiles.entries[entry]
            code = faces.contours[m, f]
            if ti.abs(code) & 7 == 0:
                continue
            a0, a1, a2, depths = face_screen(faces, m, f)
            fade, fade_rates = near_fade_rates(depths, 1.0 / faces.near)
            _area, inverse_squared, to_distance = setup(a0, a1, a2)
            gather_face_tangents(with_fields(faces, shading=DEPTH), dots, work, face_row, m, f)
            begin_x, end_x = pixel_range(faces, a0[0], a1[0], a2[0], radius, half, width, x0, x1)
            begin_y, end_y = pixel_range(faces, a0[1], a1[1], a2[1], radius, half, height, y0, y1)
            for y in range(begin_y, end_y + 1):
                for x in range(begin_x, end_x + 1):
                    i = base + (y - y0) * tiles.side + x - x0
                    front_rate, back_rate = union_sides(
                        pixel_state[i * DIBR_STATE_SIZE + FRONT], pixel_state[i * DIBR_STATE_SIZE + BACK]
                    )
                    if fade > 0 and ((code > 0 and front_rate > 0) or (code < 0 and back_rate > 0)):
                        p = pixel_centre(faces, m, x, y, width, height)
                        distance = sub_areas(p, a0, a1, a2) * to_distance
                        g0, g1, g2, sigma_rate = covered_part_rates(
                            p, a0, a1, a2, inverse_squared, distance, to_distance, code, radius
                        )
                        part = covered_part(p, a0, a1, a2, inverse_squared, distance, to_distance, code, radius)
                        for c in range(columns):
                            if work.active[c] & MOVING_COLUMN != 0:
                                pictures_dot[m, c, y, x, 3] = pictures_dot[m, c, y, x, 3] + coverage_tangent(
                                    faces, dots, work, face_row, c, m, y, x, g0, g1, g2, sigma_rate * inverse_sigma, part, fade,
                                    fade_rates,
                                )  # fmt: skip
