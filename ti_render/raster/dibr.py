"""DIB-R: the nearest covering face gives a pixel its colour, all faces together give it its soft silhouette.

Chen et al., Learning to predict 3D objects with an interpolation-based differentiable renderer (NeurIPS 2019), eq. 1-5: colours
are interpolated attributes of the one face that is seen, with derivatives inside that face. The silhouette is the ``coverage`` of
all faces, in place of a product over faces, which depends on the triangulation. Ground and background show where no face covers
the pixel or the ground is nearer.
"""

from ti_render.arrays import UNIFORM, Faces
from ti_render.backdrop.backdrop import inverse_ground_depth, pixel_centre
from ti_render.raster.coverage import covered_part, union_coverage
from ti_render.raster.fragment import fragment, near_fade_rates, perspective, setup
from ti_render.raster.softras import NO_COVERAGE, face_screen, pixel_range, tile_box
from ti_render.raster.tiles import CUT_OFF, Tiles
from ti_render.shading.surface import face_attributes, surface_colour
from ti_sim.base.bundles import kernel
from ti_sim.base.runtime import ti

# Columns of pixel_state: depth of the nearest covering face, its number (-1: none), the sums of ``coverage`` over front and back.
NEAREST, FACE, FRONT, BACK = 0, 1, 2, 3
DIBR_STATE_SIZE = 4


@ti.func
def seen_face(faces: ti.template(), pixel_state: ti.template(), i, m, p):
    """Number of the face that a pixel shows, -1 for the backdrop."""
    f = ti.cast(pixel_state[i * DIBR_STATE_SIZE + FACE], ti.i32)
    inverse_depth = inverse_ground_depth(faces, m, p)
    if f >= 0 and inverse_depth > 1e-30 and inverse_depth * pixel_state[i * DIBR_STATE_SIZE + NEAREST] >= 1.0:
        f = -1
    return f


@kernel
def rasterise_dibr(faces: Faces, tiles: Tiles, pixel_state: ti.types.ndarray(), pictures: ti.types.ndarray()):
    """Draw the faces into pictures [M, H, W, 4] that hold the backdrop.

    Writes pixel_state [occupied side^2 4] (face numbers as reals: at most 2^24 in f32), too. Adjoint: ``rasterise_dibr_adjoint``;
    tangent: ``rasterise_dibr_jvp``; both by hand.
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
        for i in range(base, base + tiles.side * tiles.side):
            pixel_state[i * DIBR_STATE_SIZE + NEAREST] = 1e30
            pixel_state[i * DIBR_STATE_SIZE + FACE] = -1.0
            pixel_state[i * DIBR_STATE_SIZE + FRONT] = 0.0
            pixel_state[i * DIBR_STATE_SIZE + BACK] = 0.0
        for entry in range(tiles.start[tile], tiles.start[tile + 1]):
            f = tiles.entries[entry]
            a0, a1, a2, depths = face_screen(faces, m, f)
            inverse_depths = 1.0 / depths
            fade, _rates = near_fade_rates(depths, 1.0 / faces.near)
            inverse_area, inverse_squared, to_distance = setup(a0, a1, a2)
            code = faces.contours[m, f]
            side = FRONT
            if code < 0:
                side = BACK
            begin_x, end_x = pixel_range(faces, a0[0], a1[0], a2[0], radius, half, width, x0, x1)
            begin_y, end_y = pixel_range(faces, a0[1], a1[1], a2[1], radius, half, height, y0, y1)
            for y in range(begin_y, end_y + 1):
                for x in range(begin_x, end_x + 1):
                    p = pixel_centre(faces, m, x, y, width, height)
                    i = base + (y - y0) * tiles.side + x - x0
                    bare, _tail, _x, _rate, b, _edge, inside, distance = fragment(
                        p, a0, a1, a2, inverse_area, inverse_squared, to_distance, radius, inverse_sigma
                    )
                    part = fade * covered_part(p, a0, a1, a2, inverse_squared, distance, to_distance, code, radius)
                    if part != 0:
                        pixel_state[i * DIBR_STATE_SIZE + side] = pixel_state[i * DIBR_STATE_SIZE + side] + part
                    if bare * fade > NO_COVERAGE:
                        if inside == 1:
                            _r3, z = perspective(b, inverse_depths)
                            if z < pixel_state[i * DIBR_STATE_SIZE + NEAREST]:
                                pixel_state[i * DIBR_STATE_SIZE + NEAREST] = z
                                pixel_state[i * DIBR_STATE_SIZE + FACE] = ti.cast(f, float)
        for y in range(y0, y1 + 1):
            for x in range(x0, x1 + 1):
                i = base + (y - y0) * tiles.side + x - x0
                p = pixel_centre(faces, m, x, y, width, height)
                f = seen_face(faces, pixel_state, i, m, p)
                if f >= 0:
                    a0, a1, a2, depths = face_screen(faces, m, f)
                    inverse_area, inverse_squared, to_distance = setup(a0, a1, a2)
                    _c, _t, _x, _l, b, _e, _i, _d = fragment(
                        p, a0, a1, a2, inverse_area, inverse_squared, to_distance, radius, inverse_sigma
                    )
                    r, z = perspective(b, 1.0 / depths)
                    colour = surface_colour(faces, face_attributes(faces, m, f), m, r, z)
                    for k in ti.static(range(3)):
                        pictures[m, y, x, k] = colour[k]
                pictures[m, y, x, 3] = union_coverage(
                    pixel_state[i * DIBR_STATE_SIZE + FRONT], pixel_state[i * DIBR_STATE_SIZE + BACK]
                )
