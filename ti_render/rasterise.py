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

Adjoint, with I_bar and A_bar the image's adjoint: Cin_bar = A I_bar, a_bar = A_bar + I_bar . (C_in - C_back) (softmax:
I_bar and A_bar), w_j = D_j e_j / S, G_j = Cin_bar . (c_j - C_in): c_j_bar = w_j Cin_bar, z_j_bar = -w_j G_j / (gamma (far -
near)), and for x_j = +-d^2 / sigma, x_j_bar = dlog(D_j)/dx_j (w_j G_j + a_bar prod_i (1 - D_i) D_j / (1 - D_j)).
"""

from ti_render.fragment import barycentrics_adjoint, distance_adjoint, fragment, perspective, setup, vec2
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
def _tile_box(tile, width, height, side):
    """Image, first and last pixel column and row of a tile."""
    columns = (width + side - 1) // side
    tiles = columns * ((height + side - 1) // side)
    x0, y0 = (tile % tiles) % columns * side, (tile % tiles) // columns * side
    return tile // tiles, x0, y0, ti.min(x0 + side, width) - 1, ti.min(y0 + side, height) - 1


@ti.func
def _centre(x, y, width, height):
    """Screen position of a pixel's centre."""
    scale = 2.0 / ti.min(width, height)
    return vec2((x + 0.5 - 0.5 * width) * scale, (y + 0.5 - 0.5 * height) * scale)


@ti.func
def _backdrop_vector(backdrop: ti.template(), m, first):
    return vec3(backdrop[m, first], backdrop[m, first + 1], backdrop[m, first + 2])


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
def _backdrop_at(plane, p, near, background_depth, depth_rate):
    """``_backdrop_weights`` at the screen position ``p``, and the ground's inverse depth there."""
    inverse_depth = plane[2] + plane[0] * p[0] + plane[1] * p[1]
    depth, e_ground, e_background = _backdrop_weights(inverse_depth, near, background_depth, depth_rate)
    return depth, e_ground, e_background, inverse_depth


@ti.func
def _uniform_backdrop(plane, low, high, near, background_depth, depth_rate):
    """1 where the whole rectangle from ``low`` to ``high`` shows the ground only, 0 the background only, -1 neither for sure.

    The inverse ground depth is affine on the screen, so its extremes are at the corners.
    """
    least = plane[2] + ti.min(plane[0] * low[0], plane[0] * high[0]) + ti.min(plane[1] * low[1], plane[1] * high[1])
    most = plane[2] + ti.max(plane[0] * low[0], plane[0] * high[0]) + ti.max(plane[1] * low[1], plane[1] * high[1])
    margin = -NEGLIGIBLE / depth_rate
    result = -1
    # A hair's breadth stricter than the test per pixel, which rounds differently.
    if most * (background_depth + margin) < 0.999 or least * near > 1.001:
        result = 0
    elif least > 0 and most * near < 0.999 and least * (background_depth - margin) > 1.001:
        result = 1
    return result


@ti.func
def _screen_vertex(screen: ti.template(), m, v):
    return vec2(screen[m, v, 0], screen[m, v, 1])


@ti.func
def _corner_colour(lit: ti.template(), m, f, corner):
    return vec3(lit[m, f, corner, 0], lit[m, f, corner, 1], lit[m, f, corner, 2])


@ti.func
def _pixel_range(a, b, c, radius, half, size, first, last):
    """Pixels of [first, last] whose centres lie within ``radius`` of the range of a, b, c, along one axis of ``size`` pixels."""
    middle = 0.5 * size - 0.5
    begin = ti.max(ti.ceil((ti.min(a, b, c) - radius) * half + middle), first)
    end = ti.min(ti.floor((ti.max(a, b, c) + radius) * half + middle), last)
    return ti.cast(begin, ti.i32), ti.cast(end, ti.i32)


@ti.func
def _blend(pixel_state: ti.template(), i, coverage, z, colour, depth_rate):
    """Take a fragment into a pixel's running softmax; a nearer one than all before rescales what is there."""
    t = (pixel_state[i, DEPTH] - z) * depth_rate
    if t > 0:
        keep = 0.0
        if -t > NEGLIGIBLE:
            keep = ti.exp(-t)
        pixel_state[i, DEPTH] = z
        pixel_state[i, WEIGHT] = pixel_state[i, WEIGHT] * keep + coverage
        for k in ti.static(range(3)):
            pixel_state[i, COLOUR + k] = pixel_state[i, COLOUR + k] * keep + coverage * colour[k]
    elif t > NEGLIGIBLE:
        weight = coverage * ti.exp(t)
        pixel_state[i, WEIGHT] = pixel_state[i, WEIGHT] + weight
        for k in ti.static(range(3)):
            pixel_state[i, COLOUR + k] = pixel_state[i, COLOUR + k] + weight * colour[k]


@ti.kernel
def rasterise(
    screen: ti.types.ndarray(), faces: ti.types.ndarray(), lit: ti.types.ndarray(), backdrop: ti.types.ndarray(),
    start: ti.types.ndarray(), slot: ti.types.ndarray(), entries: ti.types.ndarray(),
    spread: int, width: int, height: int, side: int, strict: int, sigma: float, near: float, background_depth: float,
    depth_rate: float, pixel_state: ti.types.ndarray(), images: ti.types.ndarray(),
):  # fmt: skip
    """Draw every image.

    Reads screen [M, V, 3], faces [F, 3], lit [M, F, 3, 3], backdrop [M, 9], the tiles' start, slot, entries, and the settings
    (strict = 1: composite "softmax"). Writes pixel_state [occupied side^2, 10] (columns 0-5) and images [M, H, W, 4].
    Adjoint: ``rasterise_adjoint``, by hand.
    """
    half = 0.5 * ti.min(width, height)
    inverse_sigma = 1.0 / sigma
    radius = ti.sqrt(CUT_OFF * sigma)
    for index in range(slot.shape[0] * spread):
        if index % spread > 0:
            continue
        tile = index // spread
        m, x0, y0, x1, y1 = _tile_box(tile, width, height, side)
        base = slot[tile] * side * side
        plane, c_ground, c_background = (
            _backdrop_vector(backdrop, m, 0), _backdrop_vector(backdrop, m, 3), _backdrop_vector(backdrop, m, 6),
        )  # fmt: skip
        uniform = _uniform_backdrop(
            plane, _centre(x0, y0, width, height), _centre(x1, y1, width, height), near, background_depth, depth_rate
        )
        if base < 0:
            colour = c_background
            if uniform == 1:
                colour = c_ground
            for y in range(y0, y1 + 1):
                for x in range(x0, x1 + 1):
                    if uniform < 0:
                        _, e_ground, e_background, _ = _backdrop_at(
                            plane, _centre(x, y, width, height), near, background_depth, depth_rate
                        )
                        colour = (c_ground * e_ground + c_background * e_background) / (e_ground + e_background)
                    for k in ti.static(range(3)):
                        images[m, y, x, k] = colour[k]
                    images[m, y, x, 3] = 0.0
        else:
            for y in range(y0, y1 + 1):
                for x in range(x0, x1 + 1):
                    i = base + (y - y0) * side + x - x0
                    depth, e_ground, e_background, _ = _backdrop_at(
                        plane, _centre(x, y, width, height), near, background_depth, depth_rate
                    )
                    pixel_state[i, DEPTH] = depth
                    pixel_state[i, WEIGHT] = e_ground + e_background
                    for k in ti.static(range(3)):
                        pixel_state[i, COLOUR + k] = c_ground[k] * e_ground + c_background[k] * e_background
                    pixel_state[i, GAP] = 1.0
            for entry in range(start[tile], start[tile + 1]):
                f = entries[entry]
                v0, v1, v2 = faces[f, 0], faces[f, 1], faces[f, 2]
                a0, a1, a2 = _screen_vertex(screen, m, v0), _screen_vertex(screen, m, v1), _screen_vertex(screen, m, v2)
                depths = vec3(screen[m, v0, 2], screen[m, v1, 2], screen[m, v2, 2])
                inverse_depths = 1.0 / depths
                face_depth = ti.min(depths[0], depths[1], depths[2])
                c0, c1, c2 = _corner_colour(lit, m, f, 0), _corner_colour(lit, m, f, 1), _corner_colour(lit, m, f, 2)
                inverse_area, inverse_squared, to_distance = setup(a0, a1, a2)
                begin_x, end_x = _pixel_range(a0[0], a1[0], a2[0], radius, half, width, x0, x1)
                begin_y, end_y = _pixel_range(a0[1], a1[1], a2[1], radius, half, height, y0, y1)
                for y in range(begin_y, end_y + 1):
                    for x in range(begin_x, end_x + 1):
                        coverage, gap, _, b, _, _ = fragment(
                            _centre(x, y, width, height), a0, a1, a2,
                            inverse_area, inverse_squared, to_distance, radius, inverse_sigma,
                        )  # fmt: skip
                        if coverage > NO_COVERAGE:
                            i = base + (y - y0) * side + x - x0
                            pixel_state[i, GAP] = pixel_state[i, GAP] * gap
                            # A face that is deeper than the pixel by the softmax's reach only covers.
                            if (pixel_state[i, DEPTH] - face_depth) * depth_rate > NEGLIGIBLE:
                                r, z = perspective(b, inverse_depths)
                                _blend(pixel_state, i, coverage, z, c0 * r[0] + c1 * r[1] + c2 * r[2], depth_rate)
            for y in range(y0, y1 + 1):
                for x in range(x0, x1 + 1):
                    i = base + (y - y0) * side + x - x0
                    alpha = 1.0 - pixel_state[i, GAP]
                    mix = alpha
                    if strict == 1:
                        mix = 1.0
                    _, e_ground, e_background, _ = _backdrop_at(
                        plane, _centre(x, y, width, height), near, background_depth, depth_rate
                    )
                    inverse_weight = 1.0 / pixel_state[i, WEIGHT]
                    inverse_back = 1.0 / (e_ground + e_background)
                    for k in ti.static(range(3)):
                        c_in = pixel_state[i, COLOUR + k] * inverse_weight
                        c_back = (c_ground[k] * e_ground + c_background[k] * e_background) * inverse_back
                        pixel_state[i, COLOUR + k] = c_in
                        images[m, y, x, k] = mix * c_in + (1.0 - mix) * c_back
                    images[m, y, x, 3] = alpha


@ti.func
def _pixel_adjoint(pixel_state: ti.template(), i, images_bar: ti.template(), m, y, x, c_back, strict):
    """Split a pixel's adjoint into Cin_bar and C_back_bar (returned), and keep what its faces need in columns 6-9."""
    c_bar = vec3(images_bar[m, y, x, 0], images_bar[m, y, x, 1], images_bar[m, y, x, 2])
    c_in = vec3(pixel_state[i, COLOUR], pixel_state[i, COLOUR + 1], pixel_state[i, COLOUR + 2])
    gap = pixel_state[i, GAP]
    alpha_bar = images_bar[m, y, x, 3]
    in_bar, back_bar = c_bar, vec3(0)
    if strict == 0:
        alpha_bar += c_bar.dot(c_in - c_back)
        in_bar = c_bar * (1.0 - gap)
        back_bar = c_bar * gap
    for k in ti.static(range(3)):
        pixel_state[i, COLOUR_BAR + k] = in_bar[k]
    pixel_state[i, GAP_BAR] = alpha_bar * gap
    return c_in, in_bar, back_bar


@ti.kernel
def rasterise_adjoint(
    screen: ti.types.ndarray(), faces: ti.types.ndarray(), lit: ti.types.ndarray(), backdrop: ti.types.ndarray(),
    start: ti.types.ndarray(), slot: ti.types.ndarray(), entries: ti.types.ndarray(),
    spread: int, width: int, height: int, side: int, strict: int, sigma: float, near: float, background_depth: float,
    depth_rate: float, pixel_state: ti.types.ndarray(), images_bar: ti.types.ndarray(),
    screen_bar: ti.types.ndarray(), lit_bar: ti.types.ndarray(), backdrop_bar: ti.types.ndarray(),
):  # fmt: skip
    """Adjoint of ``rasterise``: adds to screen_bar, lit_bar, backdrop_bar (shapes of their inputs).

    Reads the inputs of ``rasterise``, its pixel_state, and images_bar [M, H, W, 4]. Writes columns 6-9 of pixel_state. The
    fragments are computed again; a face's 18 adjoints are summed over the tile's pixels before they are added.
    """
    half = 0.5 * ti.min(width, height)
    inverse_sigma = 1.0 / sigma
    radius = ti.sqrt(CUT_OFF * sigma)
    for index in range(slot.shape[0] * spread):
        if index % spread > 0:
            continue
        tile = index // spread
        m, x0, y0, x1, y1 = _tile_box(tile, width, height, side)
        base = slot[tile] * side * side
        plane, c_ground, c_background = (
            _backdrop_vector(backdrop, m, 0), _backdrop_vector(backdrop, m, 3), _backdrop_vector(backdrop, m, 6),
        )  # fmt: skip
        plane_bar, ground_bar, background_bar = vec3(0), vec3(0), vec3(0)
        uniform = _uniform_backdrop(
            plane, _centre(x0, y0, width, height), _centre(x1, y1, width, height), near, background_depth, depth_rate
        )
        if base < 0 and uniform >= 0:
            total = vec3(0)
            for y in range(y0, y1 + 1):
                for x in range(x0, x1 + 1):
                    total += vec3(images_bar[m, y, x, 0], images_bar[m, y, x, 1], images_bar[m, y, x, 2])
            if uniform == 1:
                ground_bar = total
            else:
                background_bar = total
        else:
            for y in range(y0, y1 + 1):
                for x in range(x0, x1 + 1):
                    p = _centre(x, y, width, height)
                    depth, e_ground, e_background, inverse_depth = _backdrop_at(plane, p, near, background_depth, depth_rate)
                    inverse_back = 1.0 / (e_ground + e_background)
                    share_ground, share_background = e_ground * inverse_back, e_background * inverse_back
                    c_back = c_ground * share_ground + c_background * share_background
                    back_bar = vec3(images_bar[m, y, x, 0], images_bar[m, y, x, 1], images_bar[m, y, x, 2])
                    z_bar = 0.0
                    if base >= 0:
                        i = base + (y - y0) * side + x - x0
                        c_in, in_bar, rest_bar = _pixel_adjoint(pixel_state, i, images_bar, m, y, x, c_back, strict)
                        back_bar = rest_bar
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
                        plane_bar -= vec3(p[0], p[1], 1.0) * (z_bar * depth_rate / (inverse_depth * inverse_depth))
        for k in ti.static(range(3)):
            if uniform != 0:
                backdrop_bar[m, k] += plane_bar[k]
                backdrop_bar[m, 3 + k] += ground_bar[k]
            if uniform != 1:
                backdrop_bar[m, 6 + k] += background_bar[k]
        if base >= 0:
            for entry in range(start[tile], start[tile + 1]):
                f = entries[entry]
                v0, v1, v2 = faces[f, 0], faces[f, 1], faces[f, 2]
                a0, a1, a2 = _screen_vertex(screen, m, v0), _screen_vertex(screen, m, v1), _screen_vertex(screen, m, v2)
                depths = vec3(screen[m, v0, 2], screen[m, v1, 2], screen[m, v2, 2])
                inverse_depths = 1.0 / depths
                face_depth = ti.min(depths[0], depths[1], depths[2])
                c0, c1, c2 = _corner_colour(lit, m, f, 0), _corner_colour(lit, m, f, 1), _corner_colour(lit, m, f, 2)
                inverse_area, inverse_squared, to_distance = setup(a0, a1, a2)
                begin_x, end_x = _pixel_range(a0[0], a1[0], a2[0], radius, half, width, x0, x1)
                begin_y, end_y = _pixel_range(a0[1], a1[1], a2[1], radius, half, height, y0, y1)
                a0_bar, a1_bar, a2_bar = vec2(0), vec2(0), vec2(0)
                depths_bar = vec3(0)
                c0_bar, c1_bar, c2_bar = vec3(0), vec3(0), vec3(0)
                for y in range(begin_y, end_y + 1):
                    for x in range(begin_x, end_x + 1):
                        i = base + (y - y0) * side + x - x0
                        depth = pixel_state[i, DEPTH]
                        visible = (depth - face_depth) * depth_rate > NEGLIGIBLE
                        p = _centre(x, y, width, height)
                        coverage, gap, rate, b, edge, inside = 0.0, 1.0, 0.0, vec3(0), 0, 0
                        if visible or pixel_state[i, GAP] > OPAQUE:
                            coverage, gap, rate, b, edge, inside = fragment(
                                p, a0, a1, a2, inverse_area, inverse_squared, to_distance, radius, inverse_sigma
                            )
                        if coverage > NO_COVERAGE:
                            # prod_i (1 - D_i) / (1 - D_j) dD_j/dx: the factor 1 - D_j of an inside pixel cancels.
                            x_bar = pixel_state[i, GAP_BAR] * coverage
                            if inside == 0:
                                x_bar *= rate / gap
                            if visible:
                                r, z = perspective(b, inverse_depths)
                                t = (depth - z) * depth_rate
                                if t > NEGLIGIBLE:
                                    c_in = vec3(pixel_state[i, COLOUR], pixel_state[i, COLOUR + 1], pixel_state[i, COLOUR + 2])
                                    c_bar = vec3(
                                        pixel_state[i, COLOUR_BAR], pixel_state[i, COLOUR_BAR + 1], pixel_state[i, COLOUR_BAR + 2]
                                    ) * (coverage * ti.exp(t) / pixel_state[i, WEIGHT])  # fmt: skip
                                    h = vec3(c0.dot(c_bar), c1.dot(c_bar), c2.dot(c_bar))
                                    mean = h.dot(r)
                                    contrast = mean - c_bar.dot(c_in)
                                    x_bar += rate * contrast
                                    c0_bar += c_bar * r[0]
                                    c1_bar += c_bar * r[1]
                                    c2_bar += c_bar * r[2]
                                    # r = z b / depths with z = 1 / sum(b / depths), and z has its own adjoint.
                                    ratio_bar = z * (h - mean) + z * z * depth_rate * contrast
                                    b_bar = ratio_bar * inverse_depths
                                    depths_bar -= b_bar * b * inverse_depths
                                    g0, g1, g2 = barycentrics_adjoint(
                                        p, a0, a1, a2, b, edge, inside, inverse_area, inverse_squared, b_bar
                                    )
                                    a0_bar += g0
                                    a1_bar += g1
                                    a2_bar += g2
                            if x_bar != 0:
                                g0, g1, g2 = distance_adjoint(
                                    p, a0, a1, a2, edge, inside, inverse_squared, x_bar, inverse_sigma
                                )
                                a0_bar += g0
                                a1_bar += g1
                                a2_bar += g2
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
