"""Tangent of the soft rasteriser: the derivatives of every picture along K directions in one pass.

In the terms of ``softras_adjoint``, each fragment adds to every column

    rgb:  A w_j (c_j_dot + (c_j - C_in) (log D_j_dot + (zmin - z_j) rate_dot - rate z_j_dot)) + A_j_dot (C_in - C_back)
    alpha:  A_j_dot, the face's part in the tangent of the coverage (``coverage``)

(composite "softmax": factor 1 instead of A, no second term), and so does the backdrop. Fragments are found once for all columns.
"""

from ti_render.arrays import MOVING_COLUMN, UNIFORM, FaceArrays, Faces, FaceTangentWork
from ti_render.backdrop.backdrop import backdrop_weights, depth_rate, inverse_ground_depth, negligible, pixel_centre
from ti_render.backdrop.backdrop_jvp import inverse_depth_tangent, pixel_tangent, rate_tangent
from ti_render.raster.coverage import covered_part, covered_part_rates, union_sides
from ti_render.raster.edge_on import even_point, steepness_rates
from ti_render.raster.fragment import distance_gradient, fragment, near_fade_rates, perspective, setup, vec2
from ti_render.raster.fragment_tangent import barycentrics_tangent
from ti_render.raster.softras import (
    BACK,
    COLOUR,
    FRONT,
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
from ti_render.rows import add_to3, get3, put3
from ti_render.shading.lighting import COLOUR_DOT, LOG_DOT, R_DOT, SCRATCH_SIZE, Z_DOT
from ti_render.shading.surface import (
    FACE_DOT_SIZE,
    SCREEN_PART,
    face_attributes,
    gather_face_tangents,
    surface_colour,
    surface_columns,
)
from ti_sim.base.bundles import kernel
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3


@ti.func
def _state_vector(pixel_state: ti.template(), i, first):
    return get3(pixel_state, i * STATE_SIZE + first)


@ti.func
def corner_tangents(face_dot: ti.template(), face_row, c, p_dot):
    """Tangents of a face's screen corners relative to the pixel, and of its depths."""
    first = face_row + c * FACE_DOT_SIZE + SCREEN_PART
    return (
        vec2(face_dot[first], face_dot[first + 1]) - p_dot,
        vec2(face_dot[first + 3], face_dot[first + 4]) - p_dot,
        vec2(face_dot[first + 6], face_dot[first + 7]) - p_dot,
        vec3(face_dot[first + 2], face_dot[first + 5], face_dot[first + 8]),
    )


@ti.func
def perspective_tangent(b, r, z, inverse_depths, b_dot, depths_dot):
    """Tangents of the perspective-correct barycentrics ``r`` and of the depth ``z``."""
    ratio_dot = (b_dot - b * inverse_depths * depths_dot) * inverse_depths
    z_dot = -z * z * ratio_dot.sum()
    return ratio_dot * z + r * (z_dot / z), z_dot


@ti.func
def _begin(
    faces: ti.template(), dots: ti.template(), pixel_state: ti.template(), backdrop: ti.template(), pixel_dot: ti.template(),
    pictures_dot: ti.template(), i, m, y, x, p, rate,
):  # fmt: skip
    """Write the backdrop's part in the tangents of a pixel to pixel_dot."""
    columns = pictures_dot.shape[1]
    inverse_depth = inverse_ground_depth(faces, m, p)
    depth, e_ground, e_background = backdrop_weights(faces, inverse_depth, rate, 0)
    mix = pixel_alpha(pixel_state, i)
    if faces.strict == 1:
        mix = 1.0
    share, t = 0.0, (pixel_state[i * STATE_SIZE + LEAST_DEPTH] - depth) * rate
    if t > ti.static(negligible()):
        share = ti.exp(t) / pixel_state[i * STATE_SIZE + WEIGHT]
    c_back = vec3(backdrop[m, y, x, 0], backdrop[m, y, x, 1], backdrop[m, y, x, 2])
    contrast = c_back - _state_vector(pixel_state, i, COLOUR)
    for c in range(columns):
        row = m * columns + c
        rate_dot = rate_tangent(faces, dots, m, row, rate)
        weight_dot = e_background * (pixel_state[i * STATE_SIZE + LEAST_DEPTH] - faces.background_depth) * rate_dot
        if e_ground > 0:
            z = 1.0 / inverse_depth
            p_dot = pixel_tangent(faces, dots, m, c, y, x)
            z_dot = -z * z * inverse_depth_tangent(faces, dots, m, row, p, p_dot)
            weight_dot += e_ground * ((pixel_state[i * STATE_SIZE + LEAST_DEPTH] - z) * rate_dot - rate * z_dot)
        for k in ti.static(range(3)):
            pixel_dot[4 * (i * columns + c) + k] = (
                pictures_dot[m, c, y, x, k] * (1.0 - mix + mix * share * (e_ground + e_background))
                + mix * share * weight_dot * contrast[k]
            )
        pixel_dot[4 * (i * columns + c) + 3] = 0.0


@ti.func
def _add_columns(
    faces: ti.template(), dots: ti.template(), work: ti.template(), row, pixel_state: ti.template(), pixel_dot: ti.template(), i,
    m, z, rate, share, contrast,
):  # fmt: skip
    """Add a fragment's part in the tangents of a pixel to pixel_dot."""
    columns = work.active.shape[0]
    for c in range(columns):
        here, result = row + c * SCRATCH_SIZE, vec3(0)
        if work.active[c] & MOVING_COLUMN != 0:
            rate_dot = rate_tangent(faces, dots, m, m * columns + c, rate)
            log_share = work.scratch[here + LOG_DOT] - rate * work.scratch[here + Z_DOT]
            log_share += (pixel_state[i * STATE_SIZE + LEAST_DEPTH] - z) * rate_dot
            result = share * log_share * contrast
        if work.active[c] != 0:
            if share > 0:
                result += share * get3(work.scratch, here + COLOUR_DOT)
            add_to3(pixel_dot, 4 * (i * columns + c), result)


@ti.func
def coverage_tangent(
    faces: ti.template(), dots: ti.template(), work: ti.template(), face_row, c, m, y, x, g0, g1, g2, sigma_rate, part, fade,
    fade_rates,
):  # fmt: skip
    """Tangent of a face's part in the coverage, from its derivatives (``covered_part_rates``) and its value."""
    d0, d1, d2, depths_dot = corner_tangents(work.face_dot, face_row, c, pixel_tangent(faces, dots, m, c, y, x))
    sigma_dot = dots.uniforms[m * work.active.shape[0] + c, UNIFORM.sigma]
    moved = g0.dot(d0) + g1.dot(d1) + g2.dot(d2) + sigma_rate * sigma_dot
    return fade * (moved + part * fade_rates.dot(depths_dot))


@ti.func
def _add_coverage(
    faces: ti.template(), dots: ti.template(), work: ti.template(), face_row, pixel_state: ti.template(),
    pixel_dot: ti.template(), i, m, y, x, p, a0, a1, a2, inverse_squared, distance, to_distance, code, radius, inverse_sigma,
    fade, fade_rates, over,
):  # fmt: skip
    """Add a face's part in the tangent of the coverage to pixel_dot."""
    front_rate, back_rate = union_sides(pixel_state[i * STATE_SIZE + FRONT], pixel_state[i * STATE_SIZE + BACK])
    if (code > 0 and front_rate > 0) or (code < 0 and back_rate > 0):
        columns = work.active.shape[0]
        g0, g1, g2, sigma_rate = covered_part_rates(p, a0, a1, a2, inverse_squared, distance, to_distance, code, radius)
        part = covered_part(p, a0, a1, a2, inverse_squared, distance, to_distance, code, radius)
        for c in range(columns):
            if work.active[c] & MOVING_COLUMN != 0:
                alpha_dot = coverage_tangent(
                    faces, dots, work, face_row, c, m, y, x, g0, g1, g2, sigma_rate * inverse_sigma, part, fade, fade_rates
                )
                pixel_dot[4 * (i * columns + c) + 3] = pixel_dot[4 * (i * columns + c) + 3] + alpha_dot
                add_to3(pixel_dot, 4 * (i * columns + c), over * alpha_dot)


@ti.func
def _begin_tile(
    faces: ti.template(), dots: ti.template(), tiles: ti.template(), pixel_state: ti.template(), backdrop: ti.template(),
    pixel_dot: ti.template(), pictures_dot: ti.template(), tile, m, x0, y0, x1, y1, rate,
):  # fmt: skip
    """Write the backdrop's part in the tangents of a tile's pixels to pixel_dot."""
    height, width = pictures_dot.shape[2], pictures_dot.shape[3]
    base = tiles.slot[tile] * tiles.side * tiles.side
    for y in range(y0, y1 + 1):
        for x in range(x0, x1 + 1):
            i = base + (y - y0) * tiles.side + x - x0
            p = pixel_centre(faces, m, x, y, width, height)
            _begin(faces, dots, pixel_state, backdrop, pixel_dot, pictures_dot, i, m, y, x, p, rate)


@ti.func
def _write_tile(
    tiles: ti.template(), pixel_dot: ti.template(), pictures_dot: ti.template(), tile, m, x0, y0, x1, y1
):  # fmt: skip
    """Write the tangents of a tile's pixels from pixel_dot to the pictures'."""
    columns, base = pictures_dot.shape[1], tiles.slot[tile] * tiles.side * tiles.side
    for y in range(y0, y1 + 1):
        for x in range(x0, x1 + 1):
            i = base + (y - y0) * tiles.side + x - x0
            for c in range(columns):
                for k in ti.static(range(4)):
                    pictures_dot[m, c, y, x, k] = pixel_dot[4 * (i * columns + c) + k]


@kernel
def rasterise_jvp(
    faces: Faces, tiles: Tiles, pixel_state: ti.types.ndarray(), backdrop: ti.types.ndarray(), dots: FaceArrays,
    work: FaceTangentWork, pixel_dot: ti.types.ndarray(), pictures_dot: ti.types.ndarray(),
):  # fmt: skip
    """Turn pictures_dot [M, K, H, W, 4], which hold the backdrop's tangents, into those of the pictures.

    Reads the backdrop [M, H, W, 3], and of ``dots`` screen, vertices [M, V, K, 3], normals [M, G + F, K, 3], albedo
    [K, n, F, 3, 3], uv [K, n, F, 3, 2], texels [K, n, X, 3], uniforms [M K, U], maps [M L, K, R, R, 4], centres
    [M, K, H, W, 2]. Threads have tiles; pixel_dot [occupied side^2 K 4] is workspace, too.
    """
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
        rate = depth_rate(faces, m)
        weights_change = 0
        for c in range(columns):
            if work.active[c] & MOVING_COLUMN != 0:
                weights_change = 1
        _begin_tile(faces, dots, tiles, pixel_state, backdrop, pixel_dot, pictures_dot, tile, m, x0, y0, x1, y1, rate)
        for entry in range(tiles.start[tile], tiles.start[tile + 1]):
            f = tiles.entries[entry]
            a0, a1, a2, depths = face_screen(faces, m, f)
            inverse_depths = 1.0 / depths
            fade, fade_rates = near_fade_rates(depths, 1.0 / faces.near)
            steep, s0, s1, s2, steep_rates = steepness_rates(a0, a1, a2, inverse_depths, faces.steepest)
            face = face_attributes(faces, m, f)
            code = faces.contours[m, f]
            gather_face_tangents(faces, dots, work, face_row, m, f)
            inverse_area, inverse_squared, to_distance = setup(a0, a1, a2)
            begin_x, end_x = pixel_range(faces, a0[0], a1[0], a2[0], radius, half, width, x0, x1)
            begin_y, end_y = pixel_range(faces, a0[1], a1[1], a2[1], radius, half, height, y0, y1)
            for y in range(begin_y, end_y + 1):
                for x in range(begin_x, end_x + 1):
                    p = pixel_centre(faces, m, x, y, width, height)
                    i = base + (y - y0) * tiles.side + x - x0
                    bare, tail, signed, log_rate, b, edge, inside, distance = fragment(
                        p, a0, a1, a2, inverse_area, inverse_squared, to_distance, radius, inverse_sigma
                    )
                    c_in = _state_vector(pixel_state, i, COLOUR)
                    if weights_change == 1 and fade > 0 and ti.abs(code) & 7 != 0:
                        over = vec3(0)
                        if faces.strict == 0:
                            over = c_in - vec3(backdrop[m, y, x, 0], backdrop[m, y, x, 1], backdrop[m, y, x, 2])
                        _add_coverage(
                            faces, dots, work, face_row, pixel_state, pixel_dot, i, m, y, x, p, a0, a1, a2, inverse_squared,
                            distance, to_distance, code, radius, inverse_sigma, fade, fade_rates, over,
                        )  # fmt: skip
                    coverage = bare * fade
                    if coverage > NO_COVERAGE:
                        seen, even = b, vec3(0)
                        if steep > 0:
                            even = even_point.value(a0 - p, a1 - p, a2 - p, inverse_sigma)
                            seen = b + (even - b) * steep
                        r, z = perspective(seen, inverse_depths)
                        t = (pixel_state[i * STATE_SIZE + LEAST_DEPTH] - z) * rate - tail
                        share = 0.0
                        mix = 1.0
                        if faces.strict == 0:
                            mix = pixel_alpha(pixel_state, i)
                        contrast = vec3(0)
                        if t > ti.static(negligible()):
                            share = mix * coverage * ti.exp(t) / pixel_state[i * STATE_SIZE + WEIGHT]
                            if share > 0 and weights_change == 1:
                                contrast = surface_colour(faces, face, m, r, z) - c_in
                        gradient, q = distance_gradient(p, a0, a1, a2, edge, inside, inverse_squared, inverse_sigma)
                        for c in range(columns):
                            if work.active[c] & MOVING_COLUMN != 0:
                                here = c * SCRATCH_SIZE
                                sigma_dot = dots.uniforms[m * columns + c, UNIFORM.sigma]
                                p_dot = pixel_tangent(faces, dots, m, c, y, x)
                                d0, d1, d2, depths_dot = corner_tangents(work.face_dot, face_row, c, p_dot)
                                log_dot = log_rate * gradient.dot(d0 * q[0] + d1 * q[1] + d2 * q[2])
                                log_dot += fade_rates.dot(depths_dot) - log_rate * signed * inverse_sigma * sigma_dot
                                if share > 0:
                                    b_dot = barycentrics_tangent(
                                        p, a0, a1, a2, b, edge, inside, inverse_area, inverse_squared, d0, d1, d2
                                    )
                                    if steep > 0:
                                        even_dot = even_point.jvp(
                                            (a0 - p, a1 - p, a2 - p, inverse_sigma),
                                            (d0, d1, d2, -inverse_sigma * inverse_sigma * sigma_dot),
                                        )
                                        steep_dot = s0.dot(d0) + s1.dot(d1) + s2.dot(d2) + steep_rates.dot(depths_dot)
                                        b_dot += (even_dot - b_dot) * steep + (even - b) * steep_dot
                                    r_dot, z_dot = perspective_tangent(seen, r, z, inverse_depths, b_dot, depths_dot)
                                    put3(work.scratch, row + here + R_DOT, r_dot)
                                    work.scratch[row + here + Z_DOT] = z_dot
                                work.scratch[row + here + LOG_DOT] = log_dot
                        if share > 0:
                            surface_columns(faces, dots, work, row, face_row, face, m, r)
                        _add_columns(
                            faces, dots, work, row, pixel_state, pixel_dot, i, m, z, rate, share, contrast
                        )
        _write_tile(tiles, pixel_dot, pictures_dot, tile, m, x0, y0, x1, y1)
