"""DIB-R: the nearest covering face gives a pixel its colour, all faces near a pixel outside of them its soft silhouette.

Chen et al., Learning to predict 3D objects with an interpolation-based differentiable renderer (NeurIPS 2019), eq. 1-5: colours
are interpolated attributes of the one face that is seen, with derivatives inside that face; A = 1 - prod_j (1 - phi_j E_j) with
E = 1 inside and exp(-d^2 / sigma) outside, here with a smooth fade to zero at the cut-off and all faces instead of the first
thirty. phi is the near fade. Ground and background show where no face covers the pixel or the ground is nearer.
"""

from ti_render.backdrop.backdrop import inverse_ground_depth, pixel_centre
from ti_render.raster.fragment import (
    FADE_START,
    fragment,
    near_fade_rates,
    perspective,
    setup,
)
from ti_render.raster.softras import NO_COVERAGE, face_screen, pixel_range, tile_box
from ti_render.raster.tiles import CUT_OFF
from ti_render.shading.surface import (
    TEXTURE,
    face_attributes,
    material_column,
    surface_colour,
)
from ti_render.shading.uniforms import SOFTNESS
from ti_sim.base.runtime import ti

# Columns of pixel_state: depth of the nearest covering face, its number (-1: none), prod (1 - phi E).
NEAREST, FACE, GAP = 0, 1, 2
DIBR_STATE_SIZE = 3


@ti.func
def silhouette(signed, inside):
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
def seen_face(pixel_state: ti.template(), uniforms: ti.template(), i, m, p):
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
                    bare, _tail, _gap, signed, _rate, b, _edge, inside = fragment(
                        p, a0, a1, a2, inverse_area, inverse_squared, to_distance, radius, inverse_sigma
                    )
                    if bare * fade > NO_COVERAGE:
                        i = base + (y - y0) * side + x - x0
                        value, _r = silhouette(signed, inside)
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
                f = seen_face(pixel_state, uniforms, i, m, p)
                if f >= 0:
                    a0, a1, a2, depths = face_screen(screen, corners, m, f)
                    inverse_area, inverse_squared, to_distance = setup(a0, a1, a2)
                    _c, _t, _g, _x, _l, b, _e, _i = fragment(
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
