"""Adjoint of the soft rasteriser.

With I_bar and A_bar the picture's adjoint: Cin_bar = A I_bar, a_bar = A_bar + I_bar . (C_in - C_back) (softmax: I_bar and A_bar;
its way to the faces is in ``coverage``), w_j = D_j e_j / S, G_j = Cin_bar . (c_j - C_in):

    c_j_bar = w_j Cin_bar,   log D_j: L_j = w_j G_j,   x_j_bar = dlog D_j/dx_j L_j
    z_j_bar = -rate w_j G_j,   rate_bar = sum_j w_j G_j (zmin - z_j),   sigma_bar = -sum_j x_j_bar x_j / sigma

with x_j = +-d^2 / sigma; the backdrop takes part with weight (e_g + e_b) / S. Fragments are found again; a face's adjoints are
summed over the tile's pixels before they are added to memory that tiles share.
"""

from typing import Any

from ti_render.arrays import FLAG, UNIFORM, FaceArrays, Faces
from ti_render.backdrop.backdrop import backdrop_weights, depth_rate, inverse_ground_depth, negligible, pixel_centre
from ti_render.raster.coverage import covered_part, covered_part_rates, union_sides
from ti_render.raster.edge_on import even_point, steepness_rates
from ti_render.raster.fragment import (
    barycentrics_adjoint,
    distance_adjoint,
    fragment,
    near_fade_rates,
    perspective,
    setup,
    vec2,
)
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
from ti_render.rows import get3
from ti_render.shading.lighting import UNLIT, add3
from ti_render.shading.surface import DEPTH, NORMAL, add_attributes, face_attributes, surface_adjoint, surface_colour
from ti_render.shading.uniforms import uniform3
from ti_sim.base.bundles import bundle, kernel
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import mat3, outer, vec3

# Columns of the workspace of a pixel: Cin_bar, and the adjoints of the sums over front and back faces.
COLOUR_BAR, FRONT_BAR, BACK_BAR = 0, 3, 4
PIXEL_BAR_SIZE = 5


@ti.func
def _pixel_vector(pixel_state: ti.template(), i, first):
    return get3(pixel_state, i * STATE_SIZE + first)


@ti.func
def _split(pixel_state: ti.template(), pixel_bar: ti.template(), i, c_back, colour_bar, alpha_bar, strict):
    """Split a pixel's adjoint: keeps Cin_bar and the adjoints of the sums of ``coverage``, returns Cin_bar and C_back_bar."""
    alpha = pixel_alpha(pixel_state, i)
    in_bar, back_bar, whole_bar = colour_bar, vec3(0), alpha_bar
    if strict == 0:
        whole_bar += colour_bar.dot(_pixel_vector(pixel_state, i, COLOUR) - c_back)
        in_bar = colour_bar * alpha
        back_bar = colour_bar * (1.0 - alpha)
    for k in ti.static(range(3)):
        pixel_bar[i * PIXEL_BAR_SIZE + COLOUR_BAR + k] = in_bar[k]
    front_rate, back_rate = union_sides(pixel_state[i * STATE_SIZE + FRONT], pixel_state[i * STATE_SIZE + BACK])
    pixel_bar[i * PIXEL_BAR_SIZE + FRONT_BAR] = whole_bar * front_rate
    pixel_bar[i * PIXEL_BAR_SIZE + BACK_BAR] = whole_bar * back_rate
    return in_bar, back_bar


@ti.func
def add_screen(faces: ti.template(), bars: ti.template(), m, f, a0_bar, a1_bar, a2_bar, depths_bar):
    """Add the adjoints of a face's screen corners and depths."""
    for k in ti.static(range(2)):
        bars.screen[m, faces.corners[f, 0], k] += a0_bar[k]
        bars.screen[m, faces.corners[f, 1], k] += a1_bar[k]
        bars.screen[m, faces.corners[f, 2], k] += a2_bar[k]
    for k in ti.static(range(3)):
        bars.screen[m, faces.corners[f, k], 2] += depths_bar[k]


@bundle
class TileSums:
    """Adjoints that a tile's thread sums, while a kernel is compiled: of the depth rate, and of the ground's plane."""

    rate: Any
    plane: Any


@bundle
class CornerSums:
    """Adjoints of a face's ``Attributes`` that a tile's thread sums, while a kernel is compiled."""

    base: Any
    place: Any
    mix: Any
    points: Any


@ti.func
def _behind_adjoint(
    faces: ti.template(), bars: ti.template(), sums: ti.template(), pixel_state: ti.template(), i, m, y, x, p, rate, c_back,
    in_bar,
):  # fmt: skip
    """Adjoint of the backdrop's part in the softmax over everything: returns that of its colour."""
    back_bar, inverse_depth = vec3(0), inverse_ground_depth(faces, m, p)
    depth, e_ground, e_background = backdrop_weights(faces, inverse_depth, rate, 0)
    t = (pixel_state[i * STATE_SIZE + LEAST_DEPTH] - depth) * rate
    if t > ti.static(negligible()):
        share = ti.exp(t) / pixel_state[i * STATE_SIZE + WEIGHT]
        back_bar = in_bar * (share * (e_ground + e_background))
        contrast = share * in_bar.dot(c_back - _pixel_vector(pixel_state, i, COLOUR))
        sums.rate += contrast * e_background * (pixel_state[i * STATE_SIZE + LEAST_DEPTH] - faces.background_depth)
        if e_ground > 0:
            z = 1.0 / inverse_depth
            sums.rate += contrast * e_ground * (pixel_state[i * STATE_SIZE + LEAST_DEPTH] - z)
            inverse_bar = contrast * e_ground * rate * z * z
            sums.plane += vec3(p[0], p[1], 1.0) * inverse_bar
            if faces.flags[FLAG.distorted] == 1:
                plane = uniform3(faces.uniforms, m, UNIFORM.plane)
                bars.centres[m, y, x, 0] += plane[0] * inverse_bar
                bars.centres[m, y, x, 1] += plane[1] * inverse_bar
    return back_bar


@ti.func
def _colour_adjoint(
    faces: ti.template(), bars: ti.template(), row, sums: ti.template(), own: ti.template(), face: ti.template(),
    pixel_state: ti.template(), i, m, r, z, in_bar, share, rate, inverse_depths,
):  # fmt: skip
    """Adjoint of a fragment's colour and of its share in the softmax: returns those of log D_j and of the barycentrics."""
    colour = surface_colour(faces, face, m, r, z)
    contrast = share * in_bar.dot(colour - _pixel_vector(pixel_state, i, COLOUR))
    sums.rate += contrast * (pixel_state[i * STATE_SIZE + LEAST_DEPTH] - z)
    r_bar, base_bar, place_bar, mix_bar, point_bar, z_bar = surface_adjoint(faces, bars, row, face, m, r, in_bar * share)
    if ti.static(faces.shading != DEPTH and faces.shading != NORMAL):
        own.base += outer(base_bar, r)
        if face.texture >= 0:
            own.place += outer(place_bar, r)
    if ti.static(faces.shading != DEPTH and faces.shading != UNLIT):
        own.mix += outer(mix_bar, r)
        own.points += outer(point_bar, r)
    # r = z ratio, ratio = b / depths, z = 1 / sum(ratio), and z has its own adjoint.
    z_bar -= contrast * rate
    ratio_bar = z * (r_bar - r_bar.dot(r)) - z * z * z_bar
    return contrast, ratio_bar * inverse_depths


@ti.func
def _backdrop_part(
    faces: ti.template(), tiles: ti.template(), bars: ti.template(), sums: ti.template(), pixel_state: ti.template(),
    pixel_bar: ti.template(), pictures_bar: ti.template(), backdrop_bar: ti.template(), m, row, x0, y0, x1, y1, rate,
):  # fmt: skip
    """Split the adjoints of a tile's pixels between the faces and the backdrop, whose colours backdrop_bar holds before."""
    height, width = pictures_bar.shape[1], pictures_bar.shape[2]
    base = row * tiles.side * tiles.side
    for y in range(y0, y1 + 1):
        for x in range(x0, x1 + 1):
            back_bar = vec3(pictures_bar[m, y, x, 0], pictures_bar[m, y, x, 1], pictures_bar[m, y, x, 2])
            if row >= 0:
                p = pixel_centre(faces, m, x, y, width, height)
                i = base + (y - y0) * tiles.side + x - x0
                c_back = vec3(backdrop_bar[m, y, x, 0], backdrop_bar[m, y, x, 1], backdrop_bar[m, y, x, 2])
                alpha_bar = pictures_bar[m, y, x, 3]
                in_bar, rest_bar = _split(pixel_state, pixel_bar, i, c_back, back_bar, alpha_bar, faces.strict)
                back_bar = rest_bar + _behind_adjoint(faces, bars, sums, pixel_state, i, m, y, x, p, rate, c_back, in_bar)
            for k in ti.static(range(3)):
                backdrop_bar[m, y, x, k] = back_bar[k]


@kernel
def rasterise_adjoint(
    serial: ti.template(), faces: Faces, tiles: Tiles, pixel_state: ti.types.ndarray(), pixel_bar: ti.types.ndarray(),
    pictures_bar: ti.types.ndarray(), backdrop_bar: ti.types.ndarray(), bars: FaceArrays,
):  # fmt: skip
    """Adjoint of ``rasterise`` from pictures_bar [M, H, W, 4].

    Writes pixel_bar [occupied side^2 5] (workspace) and turns backdrop_bar [M, H, W, 3], which holds the backdrop's colours,
    into their adjoint. Adds to ``bars``, of which the uniforms have a row [occupied, U] for each tile that has faces.
    """
    height, width = pictures_bar.shape[1], pictures_bar.shape[2]
    half = 0.5 * ti.min(width, height)
    ti.loop_config(serialize=serial)
    for index in range(tiles.slot.shape[0] * tiles.spread):
        if index % tiles.spread > 0:
            continue
        tile = index // tiles.spread
        m, x0, y0, x1, y1 = tile_box(tile, width, height, tiles.side)
        row = tiles.slot[tile]
        base = row * tiles.side * tiles.side
        inverse_sigma = 1.0 / faces.uniforms[m, UNIFORM.sigma]
        radius = ti.sqrt(CUT_OFF * faces.uniforms[m, UNIFORM.sigma])
        rate = depth_rate(faces, m)
        sigma_bar, rate_bar, plane_bar = 0.0, 0.0, vec3(0)
        sums = TileSums(rate_bar, plane_bar)
        _backdrop_part(faces, tiles, bars, sums, pixel_state, pixel_bar, pictures_bar, backdrop_bar, m, row, x0, y0, x1, y1, rate)
        if row >= 0:
            for entry in range(tiles.start[tile], tiles.start[tile + 1]):
                f = tiles.entries[entry]
                a0, a1, a2, depths = face_screen(faces, m, f)
                inverse_depths = 1.0 / depths
                fade, fade_rates = near_fade_rates(depths, 1.0 / faces.near)
                steep, s0, s1, s2, steep_rates = steepness_rates(a0, a1, a2, inverse_depths, faces.steepest)
                inverse_area, inverse_squared, to_distance = setup(a0, a1, a2)
                a0_bar, a1_bar, a2_bar = vec2(0), vec2(0), vec2(0)
                depths_bar, fade_bar, steep_bar = vec3(0), 0.0, 0.0
                face = face_attributes(faces, m, f)
                base_bar, place_bar, mix_bar, points_bar = mat3(0), mat3(0), mat3(0), mat3(0)
                own = CornerSums(base_bar, place_bar, mix_bar, points_bar)
                code = faces.contours[m, f]
                side = FRONT_BAR
                if code < 0:
                    side = BACK_BAR
                begin_x, end_x = pixel_range(faces, a0[0], a1[0], a2[0], radius, half, width, x0, x1)
                begin_y, end_y = pixel_range(faces, a0[1], a1[1], a2[1], radius, half, height, y0, y1)
                for y in range(begin_y, end_y + 1):
                    for x in range(begin_x, end_x + 1):
                        p = pixel_centre(faces, m, x, y, width, height)
                        i = base + (y - y0) * tiles.side + x - x0
                        bare, tail, signed, log_rate, b, edge, inside, distance = fragment(
                            p, a0, a1, a2, inverse_area, inverse_squared, to_distance, radius, inverse_sigma
                        )
                        g0, g1, g2 = vec2(0), vec2(0), vec2(0)
                        part_bar = fade * pixel_bar[i * PIXEL_BAR_SIZE + side]
                        if part_bar != 0 and ti.abs(code) & 7 != 0:
                            k0, k1, k2, sigma_rate = covered_part_rates(
                                p, a0, a1, a2, inverse_squared, distance, to_distance, code, radius
                            )
                            g0, g1, g2 = k0 * part_bar, k1 * part_bar, k2 * part_bar
                            sigma_bar += sigma_rate * inverse_sigma * part_bar
                            if fade < 1:
                                fade_bar += part_bar * covered_part(
                                    p, a0, a1, a2, inverse_squared, distance, to_distance, code, radius
                                )
                        coverage = bare * fade
                        if coverage > NO_COVERAGE:
                            log_bar = 0.0
                            seen, even = b, vec3(0)
                            if steep > 0:
                                even = even_point.value(a0 - p, a1 - p, a2 - p, inverse_sigma)
                                seen = b + (even - b) * steep
                            r, z = perspective(seen, inverse_depths)
                            t = (pixel_state[i * STATE_SIZE + LEAST_DEPTH] - z) * rate - tail
                            if t > ti.static(negligible()):
                                share = coverage * ti.exp(t) / pixel_state[i * STATE_SIZE + WEIGHT]
                                in_bar = get3(pixel_bar, i * PIXEL_BAR_SIZE + COLOUR_BAR)
                                if share > 0 and (in_bar[0] != 0 or in_bar[1] != 0 or in_bar[2] != 0):
                                    contrast, b_bar = _colour_adjoint(
                                        faces, bars, row, sums, own, face, pixel_state, i, m, r, z, in_bar, share, rate,
                                        inverse_depths,
                                    )  # fmt: skip
                                    log_bar += contrast
                                    depths_bar -= b_bar * seen * inverse_depths
                                    h0, h1, h2 = barycentrics_adjoint(
                                        p, a0, a1, a2, b, edge, inside, inverse_area, inverse_squared, b_bar * (1.0 - steep)
                                    )
                                    g0 += h0
                                    g1 += h1
                                    g2 += h2
                                    if steep > 0:
                                        place = (a0 - p, a1 - p, a2 - p, inverse_sigma)
                                        e0, e1, e2, inverse_bar = even_point.vjp(place, b_bar * steep)
                                        g0 += e0
                                        g1 += e1
                                        g2 += e2
                                        sigma_bar -= inverse_bar * inverse_sigma * inverse_sigma
                                        steep_bar += b_bar.dot(even - b)
                            fade_bar += log_bar
                            x_bar = log_rate * log_bar
                            if x_bar != 0:
                                h0, h1, h2 = distance_adjoint(p, a0, a1, a2, edge, inside, inverse_squared, x_bar, inverse_sigma)
                                g0 += h0
                                g1 += h1
                                g2 += h2
                                sigma_bar -= x_bar * signed * inverse_sigma
                        a0_bar += g0
                        a1_bar += g1
                        a2_bar += g2
                        # A shift of all corners is the opposite shift of the pixel.
                        if faces.flags[FLAG.distorted] == 1:
                            for k in ti.static(range(2)):
                                bars.centres[m, y, x, k] -= g0[k] + g1[k] + g2[k]
                depths_bar += fade_rates * fade_bar + steep_rates * steep_bar
                a0_bar += s0 * steep_bar
                a1_bar += s1 * steep_bar
                a2_bar += s2 * steep_bar
                add_screen(faces, bars, m, f, a0_bar, a1_bar, a2_bar, depths_bar)
                add_attributes(faces, bars, m, f, base_bar, place_bar, mix_bar, points_bar)
            add3(bars.uniforms, row, UNIFORM.plane, plane_bar)
            bars.uniforms[row, UNIFORM.sigma] = bars.uniforms[row, UNIFORM.sigma] + sigma_bar
            gamma_bar = rate_bar * rate / faces.uniforms[m, UNIFORM.gamma]
            bars.uniforms[row, UNIFORM.gamma] = bars.uniforms[row, UNIFORM.gamma] - gamma_bar
