"""The soft rasteriser: all faces of a tile blended into its pixels in one pass, and the adjoint.

Per pixel, over the faces j with coverage D_j, depth z_j and colour c_j, the ground g (coverage 1) and the background b:

    e_k = exp((zmin - z_k) / (gamma (far - near)))        (the softmax over normalised depths, zmin the least depth)
    S = sum_j D_j e_j + e_g + e_b,   C_in = (sum_j D_j e_j c_j + e_g c_g + e_b c_b) / S
    C_back = (e_g c_g + e_b c_b) / (e_g + e_b),   A = 1 - prod_j (1 - D_j)
    composite "alpha": rgb = A C_in + (1 - A) C_back;   "softmax": rgb = C_in

(Liu et al., Soft Rasterizer, ICCV 2019, eq. 2-4; the running rescaling is Milakov and Gimelshein, Online normalizer
calculation for softmax, 2018, eq. 5.) A thread owns a tile: it walks over the tile's faces, and for each face over the pixels
of its grown box, so that a pixel is visited by the faces near it only. What a pixel carries from face to face lies in
pixel_state, which exists for the tiles that have faces; a tile without faces shows the backdrop.

Taichi's CPU scheduler gives at least 512 iterations of a loop to a thread at a time, whatever the loop's settings say. The loop
over the tiles therefore counts ``spread`` iterations for each tile, of which one does the work.

Adjoint, with I_bar and A_bar the image's adjoint: Cin_bar = A I_bar, a_bar = A_bar + I_bar . (C_in - C_back) (softmax: I_bar and A_bar),
w_j = D_j e_j / S, G_j = Cin_bar . (c_j - C_in): c_j_bar = w_j Cin_bar, z_j_bar = -w_j G_j / (gamma (far - near)), and for
x_j = +-d^2 / sigma, x_j_bar = dlog(D_j)/dx_j (w_j G_j + a_bar prod_i (1 - D_i) D_j / (1 - D_j)).
"""

from ti_render.fragment import (
    closest_point,
    edge_parameter_adjoint,
    inside_foot,
    inside_gap,
    outside_coverage,
    setup,
    sub_areas,
    sub_areas_adjoint,
    vec2,
)
from ti_render.tiles import CUT_OFF
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3

# Columns of pixel_state: least depth, S, sum (after the pass: C_in), prod (1 - D); in the backward pass Cin_bar, a_bar prod.
DEPTH, WEIGHT, COLOUR, GAP, COLOUR_BAR, GAP_BAR = 0, 1, 2, 5, 6, 9
STATE_SIZE = 10
# Softmax exponents below this count as exp() = 0.
NEGLIGIBLE = -60.0
# A product of (1 - D) below this is an opaque pixel.
OPAQUE = 1e-20
# A coverage below this is none (its square must stay above the least f32).
NO_COVERAGE = 1e-17


@ti.func
def _backdrop_weights(inverse_depth, near, background_depth, depth_rate):
    """Least depth of ground and background, and their softmax weights e_g, e_b."""
    depth, e_ground, e_background = background_depth, 0.0, 1.0
    if inverse_depth > 1e-30 and inverse_depth * near < 1.0:
        z = 1.0 / inverse_depth
        t = (background_depth - z) * depth_rate
        if t >= 0:
            depth, e_ground, e_background = z, 1.0, 0.0
            if -t > NEGLIGIBLE:
                e_background = ti.exp(-t)
        elif t > NEGLIGIBLE:
            e_ground = ti.exp(t)
    return depth, e_ground, e_background


@ti.func
def _uniform_backdrop(plane, x0, y0, x1, y1, near, background_depth, depth_rate):
    """1 where the whole rectangle shows the ground only, 0 where it shows the background only, -1 where neither is sure.

    The inverse ground depth is affine on the screen, so its extremes are at the corners.
    """
    a, b = plane[2] + ti.min(plane[0] * x0, plane[0] * x1), plane[2] + ti.max(plane[0] * x0, plane[0] * x1)
    low, high = a + ti.min(plane[1] * y0, plane[1] * y1), b + ti.max(plane[1] * y0, plane[1] * y1)
    result = -1
    margin = NEGLIGIBLE / depth_rate
    # A hair's breadth wider than the test per pixel, which rounds differently.
    if high * (background_depth - margin) < 0.999 or low * near > 1.001:
        result = 0
    elif low > 0 and high * near < 0.999 and low * (background_depth + margin) > 1.001:
        result = 1
    return result


@ti.func
def _half_side(size, scale):
    """Half an image side in screen units."""
    return 0.5 * size * scale


@ti.func
def _screen_vertex(screen: ti.template(), m, v):
    return vec2(screen[m, v, 0], screen[m, v, 1])


@ti.func
def _depths(screen: ti.template(), m, i, j, k):
    return vec3(screen[m, i, 2], screen[m, j, 2], screen[m, k, 2])


@ti.func
def _corner_colour(lit: ti.template(), m, f, corner):
    return vec3(lit[m, f, corner, 0], lit[m, f, corner, 1], lit[m, f, corner, 2])


@ti.func
def _pixel_range(low, high, radius, half, size, first, last):
    """Pixels of [first, last] whose centres lie within ``radius`` of [low, high], along one axis of ``size`` pixels."""
    middle = 0.5 * size - 0.5
    begin = ti.max(ti.ceil((low - radius) * half + middle), first)
    end = ti.min(ti.floor((high + radius) * half + middle), last)
    return ti.cast(begin, ti.i32), ti.cast(end, ti.i32)


@ti.kernel
def rasterise(
    screen: ti.types.ndarray(), faces: ti.types.ndarray(), lit: ti.types.ndarray(), backdrop: ti.types.ndarray(),
    start: ti.types.ndarray(), slot: ti.types.ndarray(), entries: ti.types.ndarray(),
    spread: int, width: int, height: int, side: int, strict: int, sigma: float, near: float, background_depth: float, depth_rate: float,
    pixel_state: ti.types.ndarray(), images: ti.types.ndarray(),
):  # fmt: skip
    """Draw every image.

    Reads screen [M, V, 3], faces [F, 3], lit [M, F, 3, 3], backdrop [M, 9], the tiles' start, slot, entries, and the settings
    (strict = 1: composite "softmax"). Writes pixel_state [occupied side^2, 10] (columns 0-5) and images [M, H, W, 4].
    Adjoint: ``rasterise_adjoint``, by hand.
    """
    columns = (width + side - 1) // side
    tiles = columns * ((height + side - 1) // side)
    half = 0.5 * ti.min(width, height)
    scale = 1.0 / half
    inverse_sigma = 1.0 / sigma
    radius = ti.sqrt(CUT_OFF * sigma)
    for index in range(images.shape[0] * tiles * spread):
        if index % spread > 0:
            continue
        tile = index // spread
        m = tile // tiles
        x0, y0 = (tile % tiles) % columns * side, (tile % tiles) // columns * side
        x1, y1 = ti.min(x0 + side, width) - 1, ti.min(y0 + side, height) - 1
        plane = vec3(backdrop[m, 0], backdrop[m, 1], backdrop[m, 2])
        c_ground = vec3(backdrop[m, 3], backdrop[m, 4], backdrop[m, 5])
        c_background = vec3(backdrop[m, 6], backdrop[m, 7], backdrop[m, 8])
        left, top = (x0 + 0.5) * scale - _half_side(width, scale), (y0 + 0.5) * scale - _half_side(height, scale)
        uniform = _uniform_backdrop(
            plane, left, top, left + (x1 - x0) * scale, top + (y1 - y0) * scale, near, background_depth, depth_rate
        )
        if slot[tile] < 0:
            colour = c_background
            if uniform == 1:
                colour = c_ground
            for y in range(y0, y1 + 1):
                for x in range(x0, x1 + 1):
                    if uniform < 0:
                        inverse_depth = plane[2] + plane[0] * (left + (x - x0) * scale) + plane[1] * (top + (y - y0) * scale)
                        _, e_ground, e_background = _backdrop_weights(inverse_depth, near, background_depth, depth_rate)
                        colour = (c_ground * e_ground + c_background * e_background) / (e_ground + e_background)
                    for k in ti.static(range(3)):
                        images[m, y, x, k] = colour[k]
                    images[m, y, x, 3] = 0.0
        else:
            base = slot[tile] * side * side
            for y in range(y0, y1 + 1):
                for x in range(x0, x1 + 1):
                    i = base + (y - y0) * side + x - x0
                    inverse_depth = plane[2] + plane[0] * (left + (x - x0) * scale) + plane[1] * (top + (y - y0) * scale)
                    depth, e_ground, e_background = _backdrop_weights(inverse_depth, near, background_depth, depth_rate)
                    pixel_state[i, DEPTH] = depth
                    pixel_state[i, WEIGHT] = e_ground + e_background
                    for k in ti.static(range(3)):
                        pixel_state[i, COLOUR + k] = c_ground[k] * e_ground + c_background[k] * e_background
                    pixel_state[i, GAP] = 1.0
            for entry in range(start[tile], start[tile + 1]):
                f = entries[entry]
                v0, v1, v2 = faces[f, 0], faces[f, 1], faces[f, 2]
                a0, a1, a2 = _screen_vertex(screen, m, v0), _screen_vertex(screen, m, v1), _screen_vertex(screen, m, v2)
                depths = _depths(screen, m, v0, v1, v2)
                inverse_depths = 1.0 / depths
                face_depth = ti.min(depths[0], depths[1], depths[2])
                c0, c1, c2 = _corner_colour(lit, m, f, 0), _corner_colour(lit, m, f, 1), _corner_colour(lit, m, f, 2)
                inverse_area, inverse_squared, to_distance = setup(a0, a1, a2)
                thin = inverse_area == 0
                begin_x, end_x = _pixel_range(ti.min(a0[0], a1[0], a2[0]), ti.max(a0[0], a1[0], a2[0]), radius, half, width, x0, x1)
                begin_y, end_y = _pixel_range(ti.min(a0[1], a1[1], a2[1]), ti.max(a0[1], a1[1], a2[1]), radius, half, height, y0, y1)
                for y in range(begin_y, end_y + 1):
                    for x in range(begin_x, end_x + 1):
                        p = vec2(left + (x - x0) * scale, top + (y - y0) * scale)
                        areas = sub_areas(p, a0, a1, a2)
                        distance = areas * to_distance
                        least = ti.min(distance[0], distance[1], distance[2])
                        if least > -radius:
                            coverage, gap = 0.0, 1.0
                            b = vec3(0)
                            if least >= 0 and not thin:
                                gap = inside_gap(least * least * inverse_sigma)
                                coverage = 1.0 - gap
                                b = areas * inverse_area
                            else:
                                b, squared, _ = closest_point(p, a0, a1, a2, inverse_squared, distance, thin)
                                if squared * inverse_sigma < CUT_OFF:
                                    coverage, _ = outside_coverage(squared * inverse_sigma)
                                    gap = 1.0 - coverage
                            if coverage > NO_COVERAGE:
                                i = base + (y - y0) * side + x - x0
                                pixel_state[i, GAP] = pixel_state[i, GAP] * gap
                                depth = pixel_state[i, DEPTH]
                                if (depth - face_depth) * depth_rate > NEGLIGIBLE:
                                    r = b * inverse_depths
                                    z = 1.0 / (r[0] + r[1] + r[2])
                                    r *= z
                                    t = (depth - z) * depth_rate
                                    if t > 0:
                                        keep = 0.0
                                        if -t > NEGLIGIBLE:
                                            keep = ti.exp(-t)
                                        pixel_state[i, DEPTH] = z
                                        pixel_state[i, WEIGHT] = pixel_state[i, WEIGHT] * keep + coverage
                                        for k in ti.static(range(3)):
                                            pixel_state[i, COLOUR + k] = pixel_state[i, COLOUR + k] * keep + coverage * (
                                                r[0] * c0[k] + r[1] * c1[k] + r[2] * c2[k]
                                            )
                                    elif t > NEGLIGIBLE:
                                        weight = coverage * ti.exp(t)
                                        pixel_state[i, WEIGHT] = pixel_state[i, WEIGHT] + weight
                                        for k in ti.static(range(3)):
                                            pixel_state[i, COLOUR + k] = pixel_state[i, COLOUR + k] + weight * (
                                                r[0] * c0[k] + r[1] * c1[k] + r[2] * c2[k]
                                            )
            for y in range(y0, y1 + 1):
                for x in range(x0, x1 + 1):
                    i = base + (y - y0) * side + x - x0
                    alpha = 1.0 - pixel_state[i, GAP]
                    mix = alpha
                    if strict == 1:
                        mix = 1.0
                    inverse_depth = plane[2] + plane[0] * (left + (x - x0) * scale) + plane[1] * (top + (y - y0) * scale)
                    _, e_ground, e_background = _backdrop_weights(inverse_depth, near, background_depth, depth_rate)
                    inverse_weight = 1.0 / pixel_state[i, WEIGHT]
                    inverse_back = 1.0 / (e_ground + e_background)
                    for k in ti.static(range(3)):
                        c_in = pixel_state[i, COLOUR + k] * inverse_weight
                        c_back = (c_ground[k] * e_ground + c_background[k] * e_background) * inverse_back
                        pixel_state[i, COLOUR + k] = c_in
                        images[m, y, x, k] = mix * c_in + (1.0 - mix) * c_back
                    images[m, y, x, 3] = alpha


@ti.kernel
def rasterise_adjoint(
    screen: ti.types.ndarray(), faces: ti.types.ndarray(), lit: ti.types.ndarray(), backdrop: ti.types.ndarray(),
    start: ti.types.ndarray(), slot: ti.types.ndarray(), entries: ti.types.ndarray(),
    spread: int, width: int, height: int, side: int, strict: int, sigma: float, near: float, background_depth: float, depth_rate: float,
    pixel_state: ti.types.ndarray(), images_bar: ti.types.ndarray(),
    screen_bar: ti.types.ndarray(), lit_bar: ti.types.ndarray(), backdrop_bar: ti.types.ndarray(),
):  # fmt: skip
    """Adjoint of ``rasterise``: adds to screen_bar, lit_bar, backdrop_bar (shapes of their inputs).

    Reads the inputs of ``rasterise``, its pixel_state, and images_bar [M, H, W, 4]. Writes columns 6-9 of pixel_state. The
    fragments are computed again; a face's 18 adjoints are summed over the tile's pixels before they are added.
    """
    columns = (width + side - 1) // side
    tiles = columns * ((height + side - 1) // side)
    half = 0.5 * ti.min(width, height)
    scale = 1.0 / half
    inverse_sigma = 1.0 / sigma
    radius = ti.sqrt(CUT_OFF * sigma)
    for index in range(images_bar.shape[0] * tiles * spread):
        if index % spread > 0:
            continue
        tile = index // spread
        m = tile // tiles
        x0, y0 = (tile % tiles) % columns * side, (tile % tiles) // columns * side
        x1, y1 = ti.min(x0 + side, width) - 1, ti.min(y0 + side, height) - 1
        plane = vec3(backdrop[m, 0], backdrop[m, 1], backdrop[m, 2])
        c_ground = vec3(backdrop[m, 3], backdrop[m, 4], backdrop[m, 5])
        c_background = vec3(backdrop[m, 6], backdrop[m, 7], backdrop[m, 8])
        left, top = (x0 + 0.5) * scale - _half_side(width, scale), (y0 + 0.5) * scale - _half_side(height, scale)
        plane_bar, ground_bar, background_bar = vec3(0), vec3(0), vec3(0)
        occupied = slot[tile] >= 0
        base = slot[tile] * side * side
        uniform = _uniform_backdrop(
            plane, left, top, left + (x1 - x0) * scale, top + (y1 - y0) * scale, near, background_depth, depth_rate
        )
        if not occupied and uniform >= 0:
            total = vec3(0)
            for y in range(y0, y1 + 1):
                for x in range(x0, x1 + 1):
                    for k in ti.static(range(3)):
                        total[k] += images_bar[m, y, x, k]
            if uniform == 1:
                ground_bar = total
            else:
                background_bar = total
        else:
            for y in range(y0, y1 + 1):
                for x in range(x0, x1 + 1):
                    p = vec2(left + (x - x0) * scale, top + (y - y0) * scale)
                    inverse_depth = plane[2] + plane[0] * p[0] + plane[1] * p[1]
                    depth, e_ground, e_background = _backdrop_weights(inverse_depth, near, background_depth, depth_rate)
                    inverse_back = 1.0 / (e_ground + e_background)
                    share_ground, share_background = e_ground * inverse_back, e_background * inverse_back
                    c_back = c_ground * share_ground + c_background * share_background
                    c_bar = vec3(images_bar[m, y, x, 0], images_bar[m, y, x, 1], images_bar[m, y, x, 2])
                    back_bar = c_bar
                    z_bar = 0.0
                    if occupied:
                        i = base + (y - y0) * side + x - x0
                        c_in = vec3(pixel_state[i, COLOUR], pixel_state[i, COLOUR + 1], pixel_state[i, COLOUR + 2])
                        gap = pixel_state[i, GAP]
                        gap_bar = images_bar[m, y, x, 3]
                        in_bar = c_bar
                        if strict == 1:
                            back_bar = vec3(0)
                        else:
                            gap_bar += c_bar.dot(c_in - c_back)
                            in_bar = c_bar * (1.0 - gap)
                            back_bar = c_bar * gap
                        for k in ti.static(range(3)):
                            pixel_state[i, COLOUR_BAR + k] = in_bar[k]
                        pixel_state[i, GAP_BAR] = gap_bar * gap
                        # The backdrop's part in the softmax over everything.
                        t = (pixel_state[i, DEPTH] - depth) * depth_rate
                        if t > NEGLIGIBLE:
                            share = ti.exp(t) / pixel_state[i, WEIGHT]
                            ground_bar += in_bar * (share * e_ground)
                            background_bar += in_bar * (share * e_background)
                            z_bar -= share * e_ground * in_bar.dot(c_ground - c_in)
                    ground_bar += back_bar * share_ground
                    background_bar += back_bar * share_background
                    z_bar -= share_ground * back_bar.dot(c_ground - c_back)
                    if z_bar != 0:
                        inverse_depth_bar = -z_bar * depth_rate / (inverse_depth * inverse_depth)
                        plane_bar += vec3(p[0], p[1], 1.0) * inverse_depth_bar
        if uniform != 0:
            for k in ti.static(range(3)):
                backdrop_bar[m, k] += plane_bar[k]
                backdrop_bar[m, 3 + k] += ground_bar[k]
        if uniform != 1:
            for k in ti.static(range(3)):
                backdrop_bar[m, 6 + k] += background_bar[k]
        if occupied:
            for entry in range(start[tile], start[tile + 1]):
                f = entries[entry]
                v0, v1, v2 = faces[f, 0], faces[f, 1], faces[f, 2]
                a0, a1, a2 = _screen_vertex(screen, m, v0), _screen_vertex(screen, m, v1), _screen_vertex(screen, m, v2)
                depths = _depths(screen, m, v0, v1, v2)
                inverse_depths = 1.0 / depths
                face_depth = ti.min(depths[0], depths[1], depths[2])
                c0, c1, c2 = _corner_colour(lit, m, f, 0), _corner_colour(lit, m, f, 1), _corner_colour(lit, m, f, 2)
                inverse_area, inverse_squared, to_distance = setup(a0, a1, a2)
                thin = inverse_area == 0
                begin_x, end_x = _pixel_range(ti.min(a0[0], a1[0], a2[0]), ti.max(a0[0], a1[0], a2[0]), radius, half, width, x0, x1)
                begin_y, end_y = _pixel_range(ti.min(a0[1], a1[1], a2[1]), ti.max(a0[1], a1[1], a2[1]), radius, half, height, y0, y1)
                a0_bar, a1_bar, a2_bar = vec2(0), vec2(0), vec2(0)
                depths_bar = vec3(0)
                c0_bar, c1_bar, c2_bar = vec3(0), vec3(0), vec3(0)
                for y in range(begin_y, end_y + 1):
                    for x in range(begin_x, end_x + 1):
                        p = vec2(left + (x - x0) * scale, top + (y - y0) * scale)
                        areas = sub_areas(p, a0, a1, a2)
                        distance = areas * to_distance
                        least = ti.min(distance[0], distance[1], distance[2])
                        if least > -radius:
                            i = base + (y - y0) * side + x - x0
                            depth = pixel_state[i, DEPTH]
                            visible = (depth - face_depth) * depth_rate > NEGLIGIBLE
                            if visible or pixel_state[i, GAP] > OPAQUE:
                                coverage, gap, rate = 0.0, 1.0, 0.0
                                b = vec3(0)
                                edge = -1
                                inside = least >= 0 and not thin
                                if inside:
                                    gap = inside_gap(least * least * inverse_sigma)
                                    coverage = 1.0 - gap
                                    rate = gap
                                    b = areas * inverse_area
                                else:
                                    b, squared, edge = closest_point(p, a0, a1, a2, inverse_squared, distance, thin)
                                    if squared * inverse_sigma < CUT_OFF:
                                        coverage, rate = outside_coverage(squared * inverse_sigma)
                                        gap = 1.0 - coverage
                                if coverage > NO_COVERAGE:
                                    # prod_i (1 - D_i) / (1 - D_j) dD_j/dx: the factor 1 - D_j of an inside pixel cancels.
                                    x_bar = pixel_state[i, GAP_BAR] * coverage
                                    if not inside:
                                        x_bar *= rate / gap
                                    if visible:
                                        r = b * inverse_depths
                                        z = 1.0 / (r[0] + r[1] + r[2])
                                        t = (depth - z) * depth_rate
                                        if t > NEGLIGIBLE:
                                            c_bar = vec3(
                                                pixel_state[i, COLOUR_BAR], pixel_state[i, COLOUR_BAR + 1], pixel_state[i, COLOUR_BAR + 2]
                                            )
                                            weight = coverage * ti.exp(t) / pixel_state[i, WEIGHT]
                                            c_bar *= weight
                                            h = vec3(c0.dot(c_bar), c1.dot(c_bar), c2.dot(c_bar))
                                            mean = h.dot(r) * z
                                            contrast = mean - (
                                                c_bar[0] * pixel_state[i, COLOUR] + c_bar[1] * pixel_state[i, COLOUR + 1]
                                                + c_bar[2] * pixel_state[i, COLOUR + 2]
                                            )  # fmt: skip
                                            x_bar += rate * contrast
                                            c0_bar += c_bar * (r[0] * z)
                                            c1_bar += c_bar * (r[1] * z)
                                            c2_bar += c_bar * (r[2] * z)
                                            # r = b / depths; z = 1 / sum r; the colour's weights are r z.
                                            r_bar = z * (h - mean) + z * z * depth_rate * contrast
                                            b_bar = r_bar * inverse_depths
                                            depths_bar -= r_bar * r * inverse_depths
                                            if inside:
                                                g = (b_bar - b.dot(b_bar)) * inverse_area
                                                g0, g1, g2 = sub_areas_adjoint(p, a0, a1, a2, g)
                                                a0_bar += g0
                                                a1_bar += g1
                                                a2_bar += g2
                                            elif edge == 0:
                                                g1, g2 = edge_parameter_adjoint(p, a1, a2, b[2], inverse_squared[0], b_bar[2] - b_bar[1])
                                                a1_bar += g1
                                                a2_bar += g2
                                            elif edge == 1:
                                                g2, g0 = edge_parameter_adjoint(p, a2, a0, b[0], inverse_squared[1], b_bar[0] - b_bar[2])
                                                a2_bar += g2
                                                a0_bar += g0
                                            else:
                                                g0, g1 = edge_parameter_adjoint(p, a0, a1, b[1], inverse_squared[2], b_bar[1] - b_bar[0])
                                                a0_bar += g0
                                                a1_bar += g1
                                    if x_bar != 0:
                                        # x = +-|p - q|^2 / sigma, q the closest boundary point: dq with fixed barycentrics.
                                        g = 2.0 * inverse_sigma * x_bar
                                        if inside:
                                            g = -g
                                            b = inside_foot(p, a0, a1, a2, inverse_squared, distance, least)
                                        offset = (p - a0 * b[0] - a1 * b[1] - a2 * b[2]) * g
                                        a0_bar += offset * b[0]
                                        a1_bar += offset * b[1]
                                        a2_bar += offset * b[2]
                for k in ti.static(range(2)):
                    screen_bar[m, v0, k] += a0_bar[k]
                    screen_bar[m, v1, k] += a1_bar[k]
                    screen_bar[m, v2, k] += a2_bar[k]
                screen_bar[m, v0, 2] += depths_bar[0]
                screen_bar[m, v1, 2] += depths_bar[1]
                screen_bar[m, v2, 2] += depths_bar[2]
                for k in ti.static(range(3)):
                    lit_bar[m, f, 0, k] += c0_bar[k]
                    lit_bar[m, f, 1, k] += c1_bar[k]
                    lit_bar[m, f, 2, k] += c2_bar[k]
