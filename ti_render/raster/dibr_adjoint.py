"""Adjoint of DIB-R: of the seen face's colour inside it, and of the silhouette outside of all faces."""

from ti_render.arrays import FLAG, UNIFORM, FaceArrays, Faces
from ti_render.backdrop.backdrop import pixel_centre
from ti_render.raster.dibr import DIBR_STATE_SIZE, GAP, seen_face, silhouette
from ti_render.raster.fragment import (
    barycentrics_adjoint,
    distance_adjoint,
    fragment,
    near_fade_rates,
    perspective,
    setup,
    vec2,
)
from ti_render.raster.softras import NO_COVERAGE, face_screen, pixel_range, tile_box
from ti_render.raster.softras_adjoint import OPAQUE, add_screen
from ti_render.raster.tiles import CUT_OFF, Tiles
from ti_render.shading.surface import add_attributes, face_attributes, surface_adjoint
from ti_sim.base.bundles import kernel
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import outer, vec3


@kernel
def rasterise_dibr_adjoint(
    faces: Faces, tiles: Tiles, pixel_state: ti.types.ndarray(), pictures_bar: ti.types.ndarray(),
    backdrop_bar: ti.types.ndarray(), bars: FaceArrays,
):  # fmt: skip
    """Adjoint of ``rasterise_dibr`` from pictures_bar [M, H, W, 4]: reads and writes what ``rasterise_adjoint`` does."""
    height, width = pictures_bar.shape[1], pictures_bar.shape[2]
    half = 0.5 * ti.min(width, height)
    for index in range(tiles.slot.shape[0] * tiles.spread):
        if index % tiles.spread > 0:
            continue
        tile = index // tiles.spread
        m, x0, y0, x1, y1 = tile_box(tile, width, height, tiles.side)
        row = tiles.slot[tile]
        base = row * tiles.side * tiles.side
        inverse_sigma = 1.0 / faces.uniforms[m, UNIFORM.sigma]
        radius = ti.sqrt(CUT_OFF * faces.uniforms[m, UNIFORM.sigma])
        for y in range(y0, y1 + 1):
            for x in range(x0, x1 + 1):
                colour_bar = vec3(pictures_bar[m, y, x, 0], pictures_bar[m, y, x, 1], pictures_bar[m, y, x, 2])
                if row >= 0:
                    p = pixel_centre(faces, m, x, y, width, height)
                    f = seen_face(faces, pixel_state, base + (y - y0) * tiles.side + x - x0, m, p)
                    if f >= 0:
                        a0, a1, a2, depths = face_screen(faces, m, f)
                        inverse_depths = 1.0 / depths
                        inverse_area, inverse_squared, to_distance = setup(a0, a1, a2)
                        _c, _t, _g, _x, _l, b, edge, inside = fragment(
                            p, a0, a1, a2, inverse_area, inverse_squared, to_distance, radius, inverse_sigma
                        )
                        r, z = perspective(b, inverse_depths)
                        face = face_attributes(faces, m, f)
                        r_bar, base_bar, place_bar, mix_bar, point_bar, z_bar = surface_adjoint(
                            faces, bars, row, face, m, r, colour_bar
                        )
                        add_attributes(
                            faces, bars, m, f, outer(base_bar, r), outer(place_bar, r), outer(mix_bar, r), outer(point_bar, r)
                        )
                        ratio_bar = z * (r_bar - r_bar.dot(r)) - z * z * z_bar
                        b_bar = ratio_bar * inverse_depths
                        g0, g1, g2 = barycentrics_adjoint(
                            p, a0, a1, a2, b, edge, inside, inverse_area, inverse_squared, b_bar
                        )
                        add_screen(faces, bars, m, f, g0, g1, g2, -b_bar * b * inverse_depths)
                        if faces.flags[FLAG.distorted] == 1:
                            for k in ti.static(range(2)):
                                bars.centres[m, y, x, k] -= g0[k] + g1[k] + g2[k]
                        colour_bar = vec3(0)
                for k in ti.static(range(3)):
                    backdrop_bar[m, y, x, k] = colour_bar[k]
        if row >= 0:
            sigma_bar = 0.0
            for entry in range(tiles.start[tile], tiles.start[tile + 1]):
                f = tiles.entries[entry]
                a0, a1, a2, depths = face_screen(faces, m, f)
                fade, fade_rates = near_fade_rates(depths, 1.0 / faces.near)
                inverse_area, inverse_squared, to_distance = setup(a0, a1, a2)
                a0_bar, a1_bar, a2_bar, fade_bar = vec2(0), vec2(0), vec2(0), 0.0
                begin_x, end_x = pixel_range(faces, a0[0], a1[0], a2[0], radius, half, width, x0, x1)
                begin_y, end_y = pixel_range(faces, a0[1], a1[1], a2[1], radius, half, height, y0, y1)
                for y in range(begin_y, end_y + 1):
                    for x in range(begin_x, end_x + 1):
                        p = pixel_centre(faces, m, x, y, width, height)
                        bare, _t2, _g2, signed, _r2, _b2, edge, inside = fragment(
                            p, a0, a1, a2, inverse_area, inverse_squared, to_distance, radius, inverse_sigma
                        )
                        i = base + (y - y0) * tiles.side + x - x0
                        if bare * fade > NO_COVERAGE and pixel_state[i * DIBR_STATE_SIZE + GAP] > OPAQUE:
                            value, log_rate = silhouette(signed, inside)
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
                                if faces.flags[FLAG.distorted] == 1:
                                    for k in ti.static(range(2)):
                                        bars.centres[m, y, x, k] -= h0[k] + h1[k] + h2[k]
                add_screen(faces, bars, m, f, a0_bar, a1_bar, a2_bar, fade_rates * fade_bar)
            bars.uniforms[row, UNIFORM.sigma] = bars.uniforms[row, UNIFORM.sigma] + sigma_bar
