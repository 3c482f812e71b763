"""DIB-R: the nearest covering face gives a pixel its colour, all faces near a pixel outside of them its soft silhouette.

Chen et al., Learning to predict 3D objects with an interpolation-based differentiable renderer (NeurIPS 2019), eq. 1-5: colours
are interpolated attributes of the one face that is seen, with derivatives inside that face; A = 1 - prod_j (1 - phi_j E_j) with
E = 1 inside and exp(-d^2 / sigma) outside, here with a smooth fade to zero at the cut-off and all faces instead of the first
thirty. phi is the near fade. Ground and background show where no face covers the pixel or the ground is nearer.
"""

from ti_render.backdrop import inverse_ground_depth, pixel_centre
from ti_render.fragment import (
    FADE_START,
    barycentrics_adjoint,
    distance_adjoint,
    distance_gradient,
    fragment,
    near_fade_rates,
    perspective,
    setup,
    vec2,
)
from ti_render.fragment_tangent import barycentrics_tangent
from ti_render.lighting import COLOUR_DOT, MOVING_COLUMN, R_DOT, SCRATCH_SIZE, Z_DOT
from ti_render.rasterise import NO_COVERAGE, face_screen, pixel_range, tile_box
from ti_render.rasterise_adjoint import OPAQUE, add_attributes, add_screen
from ti_render.rasterise_jvp import corner_tangents, perspective_tangent, pixel_tangent
from ti_render.rows import put3
from ti_render.surface import (
    DEPTH,
    DISTORTED,
    FACE_DOT_SIZE,
    TEXTURE,
    face_attributes,
    gather_face_tangents,
    material_column,
    surface_adjoint,
    surface_colour,
    surface_columns,
)
from ti_render.tiles import CUT_OFF
from ti_render.uniforms import SOFTNESS
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import outer, vec3

# Columns of pixel_state: depth of the nearest covering face, its number (-1: none), prod (1 - phi E).
NEAREST, FACE, GAP = 0, 1, 2
DIBR_STATE_SIZE = 3


@ti.func
def _silhouette(signed, inside):
    """E of a fragment and d(log E)/dx, x = +-d^2 / sigma."""
    value, rate = 1.0, 0.0
    if inside == 0:
        t = ti.max((-signed - FADE_START) / (CUT_OFF - FADE_START), 0.0)
        rest = 1.0 - t
        value = 0.0
        if rest > 0:
            value = ti.exp(signed) * rest * rest * (1.0 + 2.0 * t)
            rate = 1.0 + 6.0 * t / (rest * (1.0 + 2.0 * t) * (CUT_OFF - FADE_START))
    return value, rate


@ti.func
def _seen(pixel_state: ti.template(), uniforms: ti.template(), i, m, p):
    """Number of the face that a pixel shows, -1 for the backdrop."""
    f = ti.cast(pixel_state[i * DIBR_STATE_SIZE + FACE], ti.i32)
    inverse_depth = inverse_ground_depth(uniforms, m, p)
    if f >= 0 and inverse_depth > 1e-30 and inverse_depth * pixel_state[i * DIBR_STATE_SIZE + NEAREST] >= 1.0:
        f = -1
    return f


@ti.kernel
def rasterise_dibr(
    shading: ti.template(), flags: ti.types.ndarray(), screen: ti.types.ndarray(), corners: ti.types.ndarray(),
    vertices: ti.types.ndarray(), normals: ti.types.ndarray(), albedo: ti.types.ndarray(), uv: ti.types.ndarray(),
    texels: ti.types.ndarray(), textures: ti.types.ndarray(), uniforms: ti.types.ndarray(), maps: ti.types.ndarray(),
    frame: ti.types.ndarray(), centres: ti.types.ndarray(), start: ti.types.ndarray(), slot: ti.types.ndarray(),
    entries: ti.types.ndarray(), spread: int, side: int, near: float, pixel_state: ti.types.ndarray(),
    pictures: ti.types.ndarray(),
):  # fmt: skip
    """Draw the faces into pictures [M, H, W, 4] that hold the backdrop.

    Reads what ``rasterise`` reads. Writes pixel_state [occupied side^2 3] (face numbers as reals: at most 2^24 in f32) and
    pictures. Adjoint: ``rasterise_dibr_adjoint``; tangent: ``rasterise_dibr_jvp``; both by hand.
    """
    images, height, width = pictures.shape[0], pictures.shape[1], pictures.shape[2]
    half = 0.5 * ti.min(width, height)
    for index in range(slot.shape[0] * spread):
        if index % spread > 0 or slot[index // spread] < 0:
            continue
        tile = index // spread
        m, x0, y0, x1, y1 = tile_box(tile, width, height, side)
        base = slot[tile] * side * side
        inverse_sigma = 1.0 / uniforms[m, SOFTNESS]
        radius = ti.sqrt(CUT_OFF * uniforms[m, SOFTNESS])
        for i in range(base, base + side * side):
            pixel_state[i * DIBR_STATE_SIZE + NEAREST] = 1e30
            pixel_state[i * DIBR_STATE_SIZE + FACE] = -1.0
            pixel_state[i * DIBR_STATE_SIZE + GAP] = 1.0
        for entry in range(start[tile], start[tile + 1]):
            f = entries[entry]
            a0, a1, a2, depths = face_screen(screen, corners, m, f)
            inverse_depths = 1.0 / depths
            fade, _rates = near_fade_rates(depths, 1.0 / near)
            inverse_area, inverse_squared, to_distance = setup(a0, a1, a2)
            begin_x, end_x = pixel_range(flags, a0[0], a1[0], a2[0], radius, half, width, x0, x1)
            begin_y, end_y = pixel_range(flags, a0[1], a1[1], a2[1], radius, half, height, y0, y1)
            for y in range(begin_y, end_y + 1):
                for x in range(begin_x, end_x + 1):
                    p = pixel_centre(flags, centres, m, x, y, width, height)
                    bare, _gap, signed, _rate, b, _edge, inside = fragment(
                        p, a0, a1, a2, inverse_area, inverse_squared, to_distance, radius, inverse_sigma
                    )
                    if bare * fade > NO_COVERAGE:
                        i = base + (y - y0) * side + x - x0
                        value, _r = _silhouette(signed, inside)
                        pixel_state[i * DIBR_STATE_SIZE + GAP] = pixel_state[i * DIBR_STATE_SIZE + GAP] * (1.0 - fade * value)
                        if inside == 1:
                            _r3, z = perspective(b, inverse_depths)
                            if z < pixel_state[i * DIBR_STATE_SIZE + NEAREST]:
                                pixel_state[i * DIBR_STATE_SIZE + NEAREST] = z
                                pixel_state[i * DIBR_STATE_SIZE + FACE] = ti.cast(f, float)
        for y in range(y0, y1 + 1):
            for x in range(x0, x1 + 1):
                i = base + (y - y0) * side + x - x0
                p = pixel_centre(flags, centres, m, x, y, width, height)
                f = _seen(pixel_state, uniforms, i, m, p)
                if f >= 0:
                    a0, a1, a2, depths = face_screen(screen, corners, m, f)
                    inverse_area, inverse_squared, to_distance = setup(a0, a1, a2)
                    _c, _g, _x, _l, b, _e, _i = fragment(
                        p, a0, a1, a2, inverse_area, inverse_squared, to_distance, radius, inverse_sigma
                    )
                    r, z = perspective(b, 1.0 / depths)
                    base_c, place_c, mix_c, points_c = face_attributes(
                        shading, flags, corners, vertices, normals, albedo, uv, m, images, f
                    )
                    colour = surface_colour(
                        shading, flags, texels, textures, uniforms, maps, frame, m, images, corners[f, TEXTURE],
                        material_column(flags, corners, f), base_c, place_c, mix_c, points_c, r, z,
                    )  # fmt: skip
                    for k in ti.static(range(3)):
                        pictures[m, y, x, k] = colour[k]
                pictures[m, y, x, 3] = 1.0 - pixel_state[i * DIBR_STATE_SIZE + GAP]


@ti.kernel
def rasterise_dibr_adjoint(
    shading: ti.template(), flags: ti.types.ndarray(), screen: ti.types.ndarray(), corners: ti.types.ndarray(),
    vertices: ti.types.ndarray(), normals: ti.types.ndarray(), albedo: ti.types.ndarray(), uv: ti.types.ndarray(),
    texels: ti.types.ndarray(), textures: ti.types.ndarray(), uniforms: ti.types.ndarray(), maps: ti.types.ndarray(),
    frame: ti.types.ndarray(), centres: ti.types.ndarray(), start: ti.types.ndarray(), slot: ti.types.ndarray(),
    entries: ti.types.ndarray(), spread: int, side: int, near: float, pixel_state: ti.types.ndarray(),
    pictures_bar: ti.types.ndarray(), backdrop_bar: ti.types.ndarray(), screen_bar: ti.types.ndarray(),
    vertices_bar: ti.types.ndarray(), normals_bar: ti.types.ndarray(), albedo_bar: ti.types.ndarray(),
    uv_bar: ti.types.ndarray(), texels_bar: ti.types.ndarray(), bars: ti.types.ndarray(), maps_bar: ti.types.ndarray(),
    centres_bar: ti.types.ndarray(),
):  # fmt: skip
    """Adjoint of ``rasterise_dibr`` from pictures_bar [M, H, W, 4]: reads and writes what ``rasterise_adjoint`` does."""
    images, height, width = pictures_bar.shape[0], pictures_bar.shape[1], pictures_bar.shape[2]
    half = 0.5 * ti.min(width, height)
    for index in range(slot.shape[0] * spread):
        if index % spread > 0:
            continue
        tile = index // spread
        m, x0, y0, x1, y1 = tile_box(tile, width, height, side)
        row = slot[tile]
        base = row * side * side
        inverse_sigma = 1.0 / uniforms[m, SOFTNESS]
        radius = ti.sqrt(CUT_OFF * uniforms[m, SOFTNESS])
        for y in range(y0, y1 + 1):
            for x in range(x0, x1 + 1):
                colour_bar = vec3(pictures_bar[m, y, x, 0], pictures_bar[m, y, x, 1], pictures_bar[m, y, x, 2])
                if row >= 0:
                    p = pixel_centre(flags, centres, m, x, y, width, height)
                    f = _seen(pixel_state, uniforms, base + (y - y0) * side + x - x0, m, p)
                    if f >= 0:
                        a0, a1, a2, depths = face_screen(screen, corners, m, f)
                        inverse_depths = 1.0 / depths
                        inverse_area, inverse_squared, to_distance = setup(a0, a1, a2)
                        _c, _g, _x, _l, b, edge, inside = fragment(
                            p, a0, a1, a2, inverse_area, inverse_squared, to_distance, radius, inverse_sigma
                        )
                        r, z = perspective(b, inverse_depths)
                        base_c, place_c, mix_c, points_c = face_attributes(
                            shading, flags, corners, vertices, normals, albedo, uv, m, images, f
                        )
                        r_bar, base_bar, place_bar, mix_bar, point_bar, z_bar = surface_adjoint(
                            shading, flags, texels, textures, uniforms, maps, frame, m, images, corners[f, TEXTURE],
                            material_column(flags, corners, f), base_c, place_c, mix_c, points_c, r, colour_bar, bars, row,
                            maps_bar, texels_bar,
                        )  # fmt: skip
                        add_attributes(
                            shading, flags, corners, m, images, f, outer(base_bar, r), outer(place_bar, r), outer(mix_bar, r),
                            outer(point_bar, r), albedo_bar, uv_bar, normals_bar, vertices_bar,
                        )  # fmt: skip
                        ratio_bar = z * (r_bar - r_bar.dot(r)) - z * z * z_bar
                        b_bar = ratio_bar * inverse_depths
                        g0, g1, g2 = barycentrics_adjoint(
                            p, a0, a1, a2, b, edge, inside, inverse_area, inverse_squared, b_bar
                        )
                        add_screen(screen_bar, corners, m, f, g0, g1, g2, -b_bar * b * inverse_depths)
                        if flags[DISTORTED] == 1:
                            for k in ti.static(range(2)):
                                centres_bar[m, y, x, k] -= g0[k] + g1[k] + g2[k]
                        colour_bar = vec3(0)
                for k in ti.static(range(3)):
                    backdrop_bar[m, y, x, k] = colour_bar[k]
        if row >= 0:
            sigma_bar = 0.0
            for entry in range(start[tile], start[tile + 1]):
                f = entries[entry]
                a0, a1, a2, depths = face_screen(screen, corners, m, f)
                fade, fade_rates = near_fade_rates(depths, 1.0 / near)
                inverse_area, inverse_squared, to_distance = setup(a0, a1, a2)
                a0_bar, a1_bar, a2_bar, fade_bar = vec2(0), vec2(0), vec2(0), 0.0
                begin_x, end_x = pixel_range(flags, a0[0], a1[0], a2[0], radius, half, width, x0, x1)
                begin_y, end_y = pixel_range(flags, a0[1], a1[1], a2[1], radius, half, height, y0, y1)
                for y in range(begin_y, end_y + 1):
                    for x in range(begin_x, end_x + 1):
                        p = pixel_centre(flags, centres, m, x, y, width, height)
                        bare, _g2, signed, _r2, _b2, edge, inside = fragment(
                            p, a0, a1, a2, inverse_area, inverse_squared, to_distance, radius, inverse_sigma
                        )
                        i = base + (y - y0) * side + x - x0
                        if bare * fade > NO_COVERAGE and pixel_state[i * DIBR_STATE_SIZE + GAP] > OPAQUE:
                            value, log_rate = _silhouette(signed, inside)
                            others = pixel_state[i * DIBR_STATE_SIZE + GAP] / (1.0 - fade * value)
                            log_bar = pictures_bar[m, y, x, 3] * others * fade * value
                            fade_bar += log_bar
                            x_bar = log_rate * log_bar
                            if x_bar != 0:
                                h0, h1, h2 = distance_adjoint(
                                    p, a0, a1, a2, edge, inside, inverse_squared, x_bar, inverse_sigma
                                )
                                a0_bar += h0
                                a1_bar += h1
                                a2_bar += h2
                                sigma_bar -= x_bar * signed * inverse_sigma
                                if flags[DISTORTED] == 1:
                                    for k in ti.static(range(2)):
                                        centres_bar[m, y, x, k] -= h0[k] + h1[k] + h2[k]
                add_screen(screen_bar, corners, m, f, a0_bar, a1_bar, a2_bar, fade_rates * fade_bar)
            bars[row, SOFTNESS] = bars[row, SOFTNESS] + sigma_bar


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
                f = _seen(pixel_state, uniforms, base + (y - y0) * side + x - x0, m, p)
                if f >= 0:
                    a0, a1, a2, depths = face_screen(screen, corners, m, f)
                    inverse_depths = 1.0 / depths
                    inverse_area, inverse_squared, to_distance = setup(a0, a1, a2)
                    _c, _g, _x, _l, b, edge, inside = fragment(
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
                    bare, _g2, signed, _r2, _b2, edge, inside = fragment(
                        p, a0, a1, a2, inverse_area, inverse_squared, to_distance, radius, inverse_sigma
                    )
                    i = base + (y - y0) * side + x - x0
                    if bare * fade > NO_COVERAGE and pixel_state[i * DIBR_STATE_SIZE + GAP] > OPAQUE:
                        value, log_rate = _silhouette(signed, inside)
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
