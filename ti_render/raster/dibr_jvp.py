"""Tangents of DIB-R in all columns."""

from ti_render.backdrop.backdrop import pixel_centre
from ti_render.raster.dibr import DIBR_STATE_SIZE, GAP, seen_face, silhouette
from ti_render.raster.fragment import (
    distance_gradient,
    fragment,
    near_fade_rates,
    perspective,
    setup,
)
from ti_render.raster.fragment_tangent import barycentrics_tangent
from ti_render.raster.softras import NO_COVERAGE, face_screen, pixel_range, tile_box
from ti_render.raster.softras_adjoint import OPAQUE
from ti_render.raster.softras_jvp import corner_tangents, perspective_tangent, pixel_tangent
from ti_render.raster.tiles import CUT_OFF
from ti_render.rows import put3
from ti_render.shading.lighting import COLOUR_DOT, MOVING_COLUMN, R_DOT, SCRATCH_SIZE, Z_DOT
from ti_render.shading.surface import (
    DEPTH,
    FACE_DOT_SIZE,
    TEXTURE,
    face_attributes,
    gather_face_tangents,
    material_column,
    surface_columns,
)
from ti_render.shading.uniforms import SOFTNESS
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3


@ti.kernel
def rasterise_dibr_jvp(
    shading: ti.template(), flags: ti.types.ndarray(), screen: ti.types.ndarray(), corners: ti.types.ndarray(),
    vertices: ti.types.ndarray(), normals: ti.types.ndarray(), albedo: ti.types.ndarray(), uv: ti.types.ndarray(),
    texels: ti.types.ndarray(), textures: ti.types.ndarray(), uniforms: ti.types.ndarray(), maps: ti.types.ndarray(),
    frame: ti.types.ndarray(), centres: ti.types.ndarray(), start: ti.types.ndarray(), slot: ti.types.ndarray(),
    entries: ti.types.ndarray(), spread: int, side: int, near: float, pixel_state: ti.types.ndarray(),
    active: ti.types.ndarray(), screen_dot: ti.types.ndarray(), vertices_dot: ti.types.ndarray(),
    normals_dot: ti.types.ndarray(), albedo_dot: ti.types.ndarray(), uv_dot: ti.types.ndarray(),
    texels_dot: ti.types.ndarray(), uniforms_dot: ti.types.ndarray(), maps_dot: ti.types.ndarray(),
    centres_dot: ti.types.ndarray(), scratch: ti.types.ndarray(), face_dot: ti.types.ndarray(), pictures_dot: ti.types.ndarray(),
):  # fmt: skip
    """Turn pictures_dot [M, K, H, W, 4], which hold the backdrop's tangents, into those of the pictures (``rasterise_jvp``)."""
    images, columns, height, width = (
        pictures_dot.shape[0], pictures_dot.shape[1], pictures_dot.shape[2], pictures_dot.shape[3],
    )  # fmt: skip
    half = 0.5 * ti.min(width, height)
    for index in range(slot.shape[0] * spread):
        if index % spread > 0 or slot[index // spread] < 0:
            continue
        tile = index // spread
        m, x0, y0, x1, y1 = tile_box(tile, width, height, side)
        row, face_row = slot[tile] * columns * SCRATCH_SIZE, slot[tile] * columns * FACE_DOT_SIZE
        base = slot[tile] * side * side
        inverse_sigma = 1.0 / uniforms[m, SOFTNESS]
        radius = ti.sqrt(CUT_OFF * uniforms[m, SOFTNESS])
        for y in range(y0, y1 + 1):
            for x in range(x0, x1 + 1):
                p = pixel_centre(flags, centres, m, x, y, width, height)
                f = seen_face(pixel_state, uniforms, base + (y - y0) * side + x - x0, m, p)
                if f >= 0:
                    a0, a1, a2, depths = face_screen(screen, corners, m, f)
                    inverse_depths = 1.0 / depths
                    inverse_area, inverse_squared, to_distance = setup(a0, a1, a2)
                    _c, _t, _g, _x, _l, b, edge, inside = fragment(
                        p, a0, a1, a2, inverse_area, inverse_squared, to_distance, radius, inverse_sigma
                    )
                    r, z = perspective(b, inverse_depths)
                    base_c, place_c, mix_c, points_c = face_attributes(
                        shading, flags, corners, vertices, normals, albedo, uv, m, images, f
                    )
                    gather_face_tangents(
                        shading, flags, corners, m, images, f, active, screen_dot, vertices_dot, normals_dot, albedo_dot, uv_dot,
                        face_dot, face_row,
                    )  # fmt: skip
                    for c in range(columns):
                        r_dot, z_dot = vec3(0), 0.0
                        if active[c] & MOVING_COLUMN != 0:
                            d0, d1, d2, depths_dot = corner_tangents(
                                face_dot, face_row, c, pixel_tangent(flags, centres_dot, m, c, y, x)
                            )
                            b_dot = barycentrics_tangent(
                                p, a0, a1, a2, b, edge, inside, inverse_area, inverse_squared, d0, d1, d2
                            )
                            r_dot, z_dot = perspective_tangent(b, r, z, inverse_depths, b_dot, depths_dot)
                        put3(scratch, row + c * SCRATCH_SIZE + R_DOT, r_dot)
                        scratch[row + c * SCRATCH_SIZE + Z_DOT] = z_dot
                    surface_columns(
                        shading, flags, texels, textures, uniforms, maps, frame, m, images, corners[f, TEXTURE],
                        material_column(flags, corners, f), base_c, place_c, mix_c, points_c, r, active, face_dot, face_row,
                        texels_dot, uniforms_dot, maps_dot, scratch, row,
                    )  # fmt: skip
                    for c in range(columns):
                        for k in ti.static(range(3)):
                            pictures_dot[m, c, y, x, k] = scratch[row + c * SCRATCH_SIZE + COLOUR_DOT + k]
        for entry in range(start[tile], start[tile + 1]):
            f = entries[entry]
            a0, a1, a2, depths = face_screen(screen, corners, m, f)
            fade, fade_rates = near_fade_rates(depths, 1.0 / near)
            inverse_area, inverse_squared, to_distance = setup(a0, a1, a2)
            gather_face_tangents(
                DEPTH, flags, corners, m, images, f, active, screen_dot, vertices_dot, normals_dot, albedo_dot, uv_dot, face_dot,
                face_row,
            )  # fmt: skip
            begin_x, end_x = pixel_range(flags, a0[0], a1[0], a2[0], radius, half, width, x0, x1)
            begin_y, end_y = pixel_range(flags, a0[1], a1[1], a2[1], radius, half, height, y0, y1)
            for y in range(begin_y, end_y + 1):
                for x in range(begin_x, end_x + 1):
                    p = pixel_centre(flags, centres, m, x, y, width, height)
                    bare, _t2, _g2, signed, _r2, _b2, edge, inside = fragment(
                        p, a0, a1, a2, inverse_area, inverse_squared, to_distance, radius, inverse_sigma
                    )
                    i = base + (y - y0) * side + x - x0
                    if bare * fade > NO_COVERAGE and pixel_state[i * DIBR_STATE_SIZE + GAP] > OPAQUE:
                        value, log_rate = silhouette(signed, inside)
                        alpha_rate = pixel_state[i * DIBR_STATE_SIZE + GAP] * fade * value / (1.0 - fade * value)
                        gradient, q = distance_gradient(p, a0, a1, a2, edge, inside, inverse_squared, inverse_sigma)
                        for c in range(columns):
                            log_dot = -log_rate * signed * inverse_sigma * uniforms_dot[m * columns + c, SOFTNESS]
                            if active[c] & MOVING_COLUMN != 0:
                                d0, d1, d2, depths_dot = corner_tangents(
                                    face_dot, face_row, c, pixel_tangent(flags, centres_dot, m, c, y, x)
                                )
                                log_dot += log_rate * gradient.dot(d0 * q[0] + d1 * q[1] + d2 * q[2])
                                log_dot += fade_rates.dot(depths_dot)
                            pictures_dot[m, c, y, x, 3] = pictures_dot[m, c, y, x, 3] + alpha_rate * log_dot
