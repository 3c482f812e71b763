"""The soft rasteriser: all faces of a tile blended into its pixels in one pass.

Per pixel, over the faces j with coverage D_j, depth z_j and colour c_j, the ground g (coverage 1) and the background b:

    e_k = exp((zmin - z_k) rate), rate = 1 / (gamma (far - near))   (the softmax over normalised depths, zmin any depth)
    S = sum_j D_j e_j + e_g + e_b,   C_in = (sum_j D_j e_j c_j + (e_g + e_b) C_back) / S
    C_back = (e_g c_g + e_b c_b) / (e_g + e_b)  (``backdrop``),   A: ``coverage``
    composite "alpha": rgb = A C_in + (1 - A) C_back;   "softmax": rgb = C_in

(Liu et al., Soft Rasterizer, ICCV 2019, eq. 2-3; A in place of their 1 - prod_j (1 - D_j), which depends on the triangulation;
the running rescaling is Milakov and Gimelshein, Online normalizer calculation for softmax, 2018, eq. 5.) A thread owns a tile:
it walks over the tile's faces, and for each face over the pixels of its grown box, so that a pixel is visited by the faces near
it only. The state of a pixel between faces lies in pixel_state, which exists for the tiles that have faces; a tile without
faces shows the backdrop. The colours of fragments that are far behind what is there already are not computed. Numbers stay in
range where D is exceedingly small: the part exp(-tail) of D = sigmoid exp(-tail) (``fragment``) counts as a greater depth, z +
tail / rate, and zmin is the least of those.

Taichi's CPU scheduler gives at least 512 iterations of a loop to a thread at a time, whatever the loop's settings say. The loop
over the tiles therefore counts ``spread`` iterations for each tile, of which one does the work.

The adjoint is in ``softras_adjoint``, the tangent in ``softras_jvp``.
"""

from ti_render.arrays import FLAG, UNIFORM, Faces
from ti_render.backdrop.backdrop import backdrop_weights, depth_rate, inverse_ground_depth, negligible, pixel_centre
from ti_render.raster.coverage import covered_part, union_coverage
from ti_render.raster.edge_on import even_point, steepness
from ti_render.raster.fragment import fragment, near_fade_rates, perspective, setup, vec2
from ti_render.raster.tiles import CUT_OFF, Tiles
from ti_render.shading.surface import face_attributes, surface_colour
from ti_sim.base.bundles import kernel
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3

# Columns of pixel_state: zmin, S, sum (after the pass: C_in), and the sums of ``coverage`` over front and back faces.
LEAST_DEPTH, WEIGHT, COLOUR, FRONT, BACK = 0, 1, 2, 5, 6
STATE_SIZE = 7
# A coverage below this is none (its square must stay above the least f32).
NO_COVERAGE = 1e-17


@ti.func
def tile_box(tile, width, height, side):
    """Image, first and last pixel column and row of a tile."""
    columns = (width + side - 1) // side
    tiles = columns * ((height + side - 1) // side)
    x0, y0 = (tile % tiles) % columns * side, (tile % tiles) // columns * side
    return tile // tiles, x0, y0, ti.min(x0 + side, width) - 1, ti.min(y0 + side, height) - 1


@ti.func
def screen_vertex(screen: ti.template(), m, v):
    """Screen position of a vertex."""
    return vec2(screen[m, v, 0], screen[m, v, 1])


@ti.func
def face_screen(faces: ti.template(), m, f):
    """Screen positions and depths of a face's corners."""
    v0, v1, v2 = faces.corners[f, 0], faces.corners[f, 1], faces.corners[f, 2]
    return (
        screen_vertex(faces.screen, m, v0), screen_vertex(faces.screen, m, v1), screen_vertex(faces.screen, m, v2),
        vec3(faces.screen[m, v0, 2], faces.screen[m, v1, 2], faces.screen[m, v2, 2]),
    )  # fmt: skip


@ti.func
def pixel_range(faces: ti.template(), a, b, c, radius, half, size, first, last):
    """Pixels of [first, last] whose centres lie within ``radius`` of the range of a, b, c, along one axis of ``size`` pixels
    (all of them where the lens distorts)."""
    middle = 0.5 * size - 0.5
    begin, end = first, last
    if faces.flags[FLAG.distorted] == 0:
        begin = ti.cast(ti.max(ti.ceil((ti.min(a, b, c) - radius) * half + middle), first), ti.i32)
        end = ti.cast(ti.min(ti.floor((ti.max(a, b, c) + radius) * half + middle), last), ti.i32)
    return begin, end


@ti.func
def _blend(pixel_state: ti.template(), i, coverage, z, tail, colour, rate):
    """Take a fragment into a pixel's running softmax; a nearer one than all before rescales what is there."""
    t = (pixel_state[i * STATE_SIZE + LEAST_DEPTH] - z) * rate - tail
    if t > 0:
        keep = 0.0
        if -t > ti.static(negligible()):
            keep = ti.exp(-t)
        pixel_state[i * STATE_SIZE + LEAST_DEPTH] = z + tail / rate
        pixel_state[i * STATE_SIZE + WEIGHT] = pixel_state[i * STATE_SIZE + WEIGHT] * keep + coverage
        for k in ti.static(range(3)):
            pixel_state[i * STATE_SIZE + COLOUR + k] = pixel_state[i * STATE_SIZE + COLOUR + k] * keep + coverage * colour[k]
    else:
        weight = coverage * ti.exp(t)
        pixel_state[i * STATE_SIZE + WEIGHT] = pixel_state[i * STATE_SIZE + WEIGHT] + weight
        for k in ti.static(range(3)):
            pixel_state[i * STATE_SIZE + COLOUR + k] = pixel_state[i * STATE_SIZE + COLOUR + k] + weight * colour[k]


@ti.func
def _begin(pixel_state: ti.template(), i, faces: ti.template(), m, p, rate, c_back):
    depth, e_ground, e_background = backdrop_weights(faces, inverse_ground_depth(faces, m, p), rate, 0)
    weight = e_ground + e_background
    pixel_state[i * STATE_SIZE + LEAST_DEPTH] = depth
    pixel_state[i * STATE_SIZE + WEIGHT] = weight
    pixel_state[i * STATE_SIZE + FRONT] = 0.0
    pixel_state[i * STATE_SIZE + BACK] = 0.0
    for k in ti.static(range(3)):
        pixel_state[i * STATE_SIZE + COLOUR + k] = weight * c_back[k]


@ti.func
def pixel_alpha(pixel_state: ti.template(), i):
    """A of a pixel, after all of its faces."""
    return union_coverage(pixel_state[i * STATE_SIZE + FRONT], pixel_state[i * STATE_SIZE + BACK])


@ti.func
def _finish(pixel_state: ti.template(), i, pictures: ti.template(), m, y, x, strict):
    alpha = pixel_alpha(pixel_state, i)
    mix = alpha
    if strict == 1:
        mix = 1.0
    inverse_weight = 1.0 / pixel_state[i * STATE_SIZE + WEIGHT]
    for k in ti.static(range(3)):
        c_in = pixel_state[i * STATE_SIZE + COLOUR + k] * inverse_weight
        pixel_state[i * STATE_SIZE + COLOUR + k] = c_in
        pictures[m, y, x, k] = mix * c_in + (1.0 - mix) * pictures[m, y, x, k]
    pictures[m, y, x, 3] = alpha


@kernel
def rasterise(faces: Faces, tiles: Tiles, pixel_state: ti.types.ndarray(), pictures: ti.types.ndarray()):
    """Draw the faces into pictures [M, H, W, 4] that hold the backdrop. Writes pixel_state [occupied side^2 7], too.

    Adjoint: ``rasterise_adjoint``; tangent: ``rasterise_jvp``; both by hand.
    """
    height, width = pictures.shape[1], pictures.shape[2]
    half = 0.5 * ti.min(width, height)
    for index in range(tiles.slot.shape[0] * tiles.spread):
        if index % tiles.spread > 0 or tiles.slot[index // tiles.spread] < 0:
            continue
        tile = index // tiles.spread
        m, x0, y0, x1, y1 = tile_box(tile, width, height, tiles.side)
        base = tiles.slot[tile] * tiles.side * tiles.side
        inverse_sigma = 1.0 / faces.uniforms[m, UNIFORM.sigma]
        radius = ti.sqrt(CUT_OFF * faces.uniforms[m, UNIFORM.sigma])
        rate = depth_rate(faces, m)
        for y in range(y0, y1 + 1):
            for x in range(x0, x1 + 1):
                c_back = vec3(pictures[m, y, x, 0], pictures[m, y, x, 1], pictures[m, y, x, 2])
                p = pixel_centre(faces, m, x, y, width, height)
                _begin(pixel_state, base + (y - y0) * tiles.side + x - x0, faces, m, p, rate, c_back)
        for entry in range(tiles.start[tile], tiles.start[tile + 1]):
            f = tiles.entries[entry]
            a0, a1, a2, depths = face_screen(faces, m, f)
            inverse_depths = 1.0 / depths
            face_depth = ti.min(depths[0], depths[1], depths[2])
            fade, _rates = near_fade_rates(depths, 1.0 / faces.near)
            steep = steepness(a0, a1, a2, inverse_depths, faces.steepest)
            face = face_attributes(faces, m, f)
            code = faces.contours[m, f]
            side = FRONT
            if code < 0:
                side = BACK
            inverse_area, inverse_squared, to_distance = setup(a0, a1, a2)
            begin_x, end_x = pixel_range(faces, a0[0], a1[0], a2[0], radius, half, width, x0, x1)
            begin_y, end_y = pixel_range(faces, a0[1], a1[1], a2[1], radius, half, height, y0, y1)
            for y in range(begin_y, end_y + 1):
                for x in range(begin_x, end_x + 1):
                    p = pixel_centre(faces, m, x, y, width, height)
                    i = base + (y - y0) * tiles.side + x - x0
                    bare, tail, _x, _rate, b, _edge, _inside, distance = fragment(
                        p, a0, a1, a2, inverse_area, inverse_squared, to_distance, radius, inverse_sigma
                    )
                    part = fade * covered_part(p, a0, a1, a2, inverse_squared, distance, to_distance, code, radius)
                    if part != 0:
                        pixel_state[i * STATE_SIZE + side] = pixel_state[i * STATE_SIZE + side] + part
                    coverage = bare * fade
                    if coverage > NO_COVERAGE:
                        # A face that is deeper than the pixel by the softmax's reach only covers.
                        if (pixel_state[i * STATE_SIZE + LEAST_DEPTH] - face_depth) * rate > ti.static(negligible()):
                            if steep > 0:
                                b += (even_point.value(a0 - p, a1 - p, a2 - p, inverse_sigma) - b) * steep
                            r, z = perspective(b, inverse_depths)
                            if (pixel_state[i * STATE_SIZE + LEAST_DEPTH] - z) * rate - tail > ti.static(negligible()):
                                colour = surface_colour(faces, face, m, r, z)
                                _blend(pixel_state, i, coverage, z, tail, colour, rate)
        for y in range(y0, y1 + 1):
            for x in range(x0, x1 + 1):
                _finish(pixel_state, base + (y - y0) * tiles.side + x - x0, pictures, m, y, x, faces.strict)
