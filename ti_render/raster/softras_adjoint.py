"""Adjoint of the soft rasteriser.

With I_bar and A_bar the picture's adjoint: Cin_bar = A I_bar, a_bar = A_bar + I_bar . (C_in - C_back) (softmax: I_bar and A_bar),
w_j = D_j e_j / S, G_j = Cin_bar . (c_j - C_in):

    c_j_bar = w_j Cin_bar,   log D_j: L_j = w_j G_j + a_bar prod_i (1 - D_i) D_j / (1 - D_j),   x_j_bar = dlog D_j/dx_j L_j
    z_j_bar = -rate w_j G_j,   rate_bar = sum_j w_j G_j (zmin - z_j),   sigma_bar = -sum_j x_j_bar x_j / sigma

with x_j = +-d^2 / sigma; the backdrop takes part with weight (e_g + e_b) / S. Fragments are found again; a face's adjoints are
summed over the tile's pixels before they are added to memory that tiles share.
"""

from ti_render.backdrop.backdrop import backdrop_weights, depth_rate, inverse_ground_depth, negligible, pixel_centre
from ti_render.raster.edge_on import even_point, steepness_rates
from ti_render.raster.fragment import (
    barycentrics_adjoint,
    distance_adjoint,
    faded,
    fragment,
    near_fade_rates,
    perspective,
    setup,
    vec2,
)
from ti_render.raster.softras import (
    COLOUR,
    GAP,
    LEAST_DEPTH,
    NO_COVERAGE,
    STATE_SIZE,
    WEIGHT,
    face_screen,
    pixel_range,
    tile_box,
)
from ti_render.raster.tiles import CUT_OFF
from ti_render.rows import get3, row_of
from ti_render.shading.lighting import UNLIT, add3
from ti_render.shading.surface import (
    DEPTH,
    DISTORTED,
    NORMAL,
    NORMAL_ROW,
    TEXTURE,
    WITH_POSITION,
    face_attributes,
    material_column,
    surface_adjoint,
    surface_colour,
)
from ti_render.shading.uniforms import PLANE, SOFTNESS
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import mat3, outer, vec3

# Columns of the workspace of a pixel: Cin_bar, a_bar prod (1 - D).
COLOUR_BAR, GAP_BAR = 0, 3
PIXEL_BAR_SIZE = 4
# A (1 - D) below this is opaque: no other face shows through, and none has a gap adjoint.
OPAQUE = 1e-20


@ti.func
def _pixel_vector(pixel_state: ti.template(), i, first):
    return get3(pixel_state, i * STATE_SIZE + first)


@ti.func
def _split(pixel_state: ti.template(), pixel_bar: ti.template(), i, c_back, colour_bar, alpha_bar, strict):
    """Split a pixel's adjoint: keeps Cin_bar and a_bar prod (1 - D) for its faces, returns Cin_bar and C_back_bar."""
    gap = pixel_state[i * STATE_SIZE + GAP]
    in_bar, back_bar, whole_bar = colour_bar, vec3(0), alpha_bar
    if strict == 0:
        whole_bar += colour_bar.dot(_pixel_vector(pixel_state, i, COLOUR) - c_back)
        in_bar = colour_bar * (1.0 - gap)
        back_bar = colour_bar * gap
    for k in ti.static(range(3)):
        pixel_bar[i * PIXEL_BAR_SIZE + COLOUR_BAR + k] = in_bar[k]
    pixel_bar[i * PIXEL_BAR_SIZE + GAP_BAR] = whole_bar * gap
    return in_bar, back_bar


@ti.kernel
def rasterise_adjoint(
    shading: ti.template(), flags: ti.types.ndarray(), screen: ti.types.ndarray(), corners: ti.types.ndarray(),
    vertices: ti.types.ndarray(), normals: ti.types.ndarray(), albedo: ti.types.ndarray(), uv: ti.types.ndarray(),
    texels: ti.types.ndarray(), textures: ti.types.ndarray(), uniforms: ti.types.ndarray(), maps: ti.types.ndarray(),
    frame: ti.types.ndarray(), centres: ti.types.ndarray(), start: ti.types.ndarray(), slot: ti.types.ndarray(),
    entries: ti.types.ndarray(), spread: int, side: int, strict: int, near: float, background_depth: float,
    depth_range: float, steepest: float, pixel_state: ti.types.ndarray(), pixel_bar: ti.types.ndarray(),
    pictures_bar: ti.types.ndarray(), backdrop_bar: ti.types.ndarray(), screen_bar: ti.types.ndarray(),
    vertices_bar: ti.types.ndarray(), normals_bar: ti.types.ndarray(), albedo_bar: ti.types.ndarray(),
    uv_bar: ti.types.ndarray(), texels_bar: ti.types.ndarray(), bars: ti.types.ndarray(), maps_bar: ti.types.ndarray(),
    centres_bar: ti.types.ndarray(),
):  # fmt: skip
    """Adjoint of ``rasterise`` from pictures_bar [M, H, W, 4].

    Reads the inputs of ``rasterise`` and its pixel_state. Writes pixel_bar [occupied side^2 4] (workspace) and turns
    backdrop_bar [M, H, W, 3], which holds the backdrop's colours, into their adjoint. Adds to screen_bar, vertices_bar,
    normals_bar, albedo_bar, uv_bar, texels_bar, maps_bar, centres_bar (shapes of their inputs) and to bars [occupied, U], a row
    of uniforms' adjoints for each tile that has faces.
    """
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
        rate = depth_rate(uniforms, m, depth_range)
        sigma_bar, rate_bar, plane_bar = 0.0, 0.0, vec3(0)
        for y in range(y0, y1 + 1):
            for x in range(x0, x1 + 1):
                back_bar = vec3(pictures_bar[m, y, x, 0], pictures_bar[m, y, x, 1], pictures_bar[m, y, x, 2])
                if row >= 0:
                    i = base + (y - y0) * side + x - x0
                    c_back = vec3(backdrop_bar[m, y, x, 0], backdrop_bar[m, y, x, 1], backdrop_bar[m, y, x, 2])
                    in_bar, rest_bar = _split(
                        pixel_state, pixel_bar, i, c_back, back_bar, pictures_bar[m, y, x, 3], strict
                    )
                    back_bar = rest_bar
                    # The backdrop's part in the softmax over everything.
                    p = pixel_centre(flags, centres, m, x, y, width, height)
                    inverse_depth = inverse_ground_depth(uniforms, m, p)
                    depth, e_ground, e_background = backdrop_weights(inverse_depth, near, background_depth, rate, 0)
                    t = (pixel_state[i * STATE_SIZE + LEAST_DEPTH] - depth) * rate
                    if t > ti.static(negligible()):
                        share = ti.exp(t) / pixel_state[i * STATE_SIZE + WEIGHT]
                        back_bar += in_bar * (share * (e_ground + e_background))
                        contrast = share * in_bar.dot(c_back - _pixel_vector(pixel_state, i, COLOUR))
                        rate_bar += contrast * e_background * (pixel_state[i * STATE_SIZE + LEAST_DEPTH] - background_depth)
                        if e_ground > 0:
                            z = 1.0 / inverse_depth
                            rate_bar += contrast * e_ground * (pixel_state[i * STATE_SIZE + LEAST_DEPTH] - z)
                            inverse_bar = contrast * e_ground * rate * z * z
                            plane_bar += vec3(p[0], p[1], 1.0) * inverse_bar
                            if flags[DISTORTED] == 1:
                                centres_bar[m, y, x, 0] += uniforms[m, PLANE] * inverse_bar
                                centres_bar[m, y, x, 1] += uniforms[m, PLANE + 1] * inverse_bar
                for k in ti.static(range(3)):
                    backdrop_bar[m, y, x, k] = back_bar[k]
        if row >= 0:
            for entry in range(start[tile], start[tile + 1]):
                f = entries[entry]
                a0, a1, a2, depths = face_screen(screen, corners, m, f)
                inverse_depths = 1.0 / depths
                fade, fade_rates = near_fade_rates(depths, 1.0 / near)
                steep, s0, s1, s2, steep_rates = steepness_rates(a0, a1, a2, inverse_depths, steepest)
                inverse_area, inverse_squared, to_distance = setup(a0, a1, a2)
                a0_bar, a1_bar, a2_bar = vec2(0), vec2(0), vec2(0)
                depths_bar = vec3(0)
                fade_bar, steep_bar = 0.0, 0.0
                base_c, place_c, mix_c, points_c = face_attributes(
                    shading, flags, corners, vertices, normals, albedo, uv, m, images, f
                )
                texture, material = corners[f, TEXTURE], material_column(flags, corners, f)
                base_c_bar, place_c_bar, mix_c_bar, points_c_bar = mat3(0), mat3(0), mat3(0), mat3(0)
                begin_x, end_x = pixel_range(flags, a0[0], a1[0], a2[0], radius, half, width, x0, x1)
                begin_y, end_y = pixel_range(flags, a0[1], a1[1], a2[1], radius, half, height, y0, y1)
                for y in range(begin_y, end_y + 1):
                    for x in range(begin_x, end_x + 1):
                        p = pixel_centre(flags, centres, m, x, y, width, height)
                        bare, tail, bare_gap, signed, log_rate, b, edge, inside = fragment(
                            p, a0, a1, a2, inverse_area, inverse_squared, to_distance, radius, inverse_sigma
                        )
                        coverage = bare * fade
                        if coverage > NO_COVERAGE:
                            i = base + (y - y0) * side + x - x0
                            gap = 1.0 - fade + fade * bare_gap
                            log_bar = 0.0
                            if gap > OPAQUE:
                                log_bar = pixel_bar[i * PIXEL_BAR_SIZE + GAP_BAR] * faded(coverage, tail) / gap
                            seen, even = b, vec3(0)
                            if steep > 0:
                                even = even_point.value(a0 - p, a1 - p, a2 - p, inverse_sigma)
                                seen = b + (even - b) * steep
                            r, z = perspective(seen, inverse_depths)
                            t = (pixel_state[i * STATE_SIZE + LEAST_DEPTH] - z) * rate - tail
                            g0, g1, g2 = vec2(0), vec2(0), vec2(0)
                            if t > ti.static(negligible()):
                                share = coverage * ti.exp(t) / pixel_state[i * STATE_SIZE + WEIGHT]
                                in_bar = get3(pixel_bar, i * PIXEL_BAR_SIZE + COLOUR_BAR)
                                if share > 0 and (in_bar[0] != 0 or in_bar[1] != 0 or in_bar[2] != 0):
                                    colour = surface_colour(
                                        shading, flags, texels, textures, uniforms, maps, frame, m, images, texture, material,
                                        base_c, place_c, mix_c, points_c, r, z,
                                    )  # fmt: skip
                                    contrast = share * in_bar.dot(colour - _pixel_vector(pixel_state, i, COLOUR))
                                    log_bar += contrast
                                    rate_bar += contrast * (pixel_state[i * STATE_SIZE + LEAST_DEPTH] - z)
                                    r_bar, base_bar, place_bar, mix_bar, point_bar, z_bar = surface_adjoint(
                                        shading, flags, texels, textures, uniforms, maps, frame, m, images, texture, material,
                                        base_c, place_c, mix_c, points_c, r, in_bar * share, bars, row, maps_bar, texels_bar,
                                    )  # fmt: skip
                                    if ti.static(shading != DEPTH and shading != NORMAL):
                                        base_c_bar += outer(base_bar, r)
                                        if texture >= 0:
                                            place_c_bar += outer(place_bar, r)
                                    if ti.static(shading != DEPTH and shading != UNLIT):
                                        mix_c_bar += outer(mix_bar, r)
                                        points_c_bar += outer(point_bar, r)
                                    # r = z ratio, ratio = b / depths, z = 1 / sum(ratio), and z has its own adjoint.
                                    z_bar -= contrast * rate
                                    ratio_bar = z * (r_bar - r_bar.dot(r)) - z * z * z_bar
                                    b_bar = ratio_bar * inverse_depths
                                    depths_bar -= b_bar * seen * inverse_depths
                                    g0, g1, g2 = barycentrics_adjoint(
                                        p, a0, a1, a2, b, edge, inside, inverse_area, inverse_squared, b_bar * (1.0 - steep)
                                    )
                                    if steep > 0:
                                        e0, e1, e2, inverse_bar = even_point.vjp(
                                            (a0 - p, a1 - p, a2 - p, inverse_sigma), b_bar * steep
                                        )
                                        g0 += e0
                                        g1 += e1
                                        g2 += e2
                                        sigma_bar -= inverse_bar * inverse_sigma * inverse_sigma
                                        steep_bar += b_bar.dot(even - b)
                            fade_bar += log_bar
                            x_bar = log_rate * log_bar
                            if x_bar != 0:
                                h0, h1, h2 = distance_adjoint(
                                    p, a0, a1, a2, edge, inside, inverse_squared, x_bar, inverse_sigma
                                )
                                g0 += h0
                                g1 += h1
                                g2 += h2
                                sigma_bar -= x_bar * signed * inverse_sigma
                            a0_bar += g0
                            a1_bar += g1
                            a2_bar += g2
                            # What moves all corners moves the pixel the other way.
                            if flags[DISTORTED] == 1:
                                for k in ti.static(range(2)):
                                    centres_bar[m, y, x, k] -= g0[k] + g1[k] + g2[k]
                depths_bar += fade_rates * fade_bar + steep_rates * steep_bar
                a0_bar += s0 * steep_bar
                a1_bar += s1 * steep_bar
                a2_bar += s2 * steep_bar
                add_screen(screen_bar, corners, m, f, a0_bar, a1_bar, a2_bar, depths_bar)
                add_attributes(
                    shading, flags, corners, m, images, f, base_c_bar, place_c_bar, mix_c_bar, points_c_bar, albedo_bar, uv_bar,
                    normals_bar, vertices_bar,
                )  # fmt: skip
            add3(bars, row, PLANE, plane_bar)
            bars[row, SOFTNESS] = bars[row, SOFTNESS] + sigma_bar
            bars[row, SOFTNESS + 1] = bars[row, SOFTNESS + 1] - rate_bar * rate / uniforms[m, SOFTNESS + 1]


@ti.func
def add_screen(screen_bar: ti.template(), corners: ti.template(), m, f, a0_bar, a1_bar, a2_bar, depths_bar):
    """Add the adjoints of a face's screen corners and depths."""
    for k in ti.static(range(2)):
        screen_bar[m, corners[f, 0], k] += a0_bar[k]
        screen_bar[m, corners[f, 1], k] += a1_bar[k]
        screen_bar[m, corners[f, 2], k] += a2_bar[k]
    for k in ti.static(range(3)):
        screen_bar[m, corners[f, k], 2] += depths_bar[k]


@ti.func
def add_attributes(
    shading: ti.template(), flags: ti.template(), corners: ti.template(), m, images, f, base_bar, place_bar, mix_bar, points_bar,
    albedo_bar: ti.template(), uv_bar: ti.template(), normals_bar: ti.template(), vertices_bar: ti.template(),
):  # fmt: skip
    """Add the adjoints of a face's ``face_attributes`` to those of the arrays that they came from."""
    if ti.static(shading != DEPTH and shading != NORMAL):
        r = row_of(m, albedo_bar.shape[0], images)
        for i, k in ti.static(ti.ndrange(3, 3)):
            albedo_bar[r, f, k, i] += base_bar[i, k]
        if corners[f, TEXTURE] >= 0:
            s = row_of(m, uv_bar.shape[0], images)
            for i, k in ti.static(ti.ndrange(2, 3)):
                uv_bar[s, f, k, i] += place_bar[i, k]
    if ti.static(shading != DEPTH and shading != UNLIT):
        for i, k in ti.static(ti.ndrange(3, 3)):
            normals_bar[m, corners[f, NORMAL_ROW + k], i] += mix_bar[i, k]
        if flags[WITH_POSITION] == 1:
            for i, k in ti.static(ti.ndrange(3, 3)):
                vertices_bar[m, corners[f, k], i] += points_bar[i, k]
