"""Adjoint of DIB-R: of the seen face's colour inside it, and of the silhouette."""

from ti_render.arrays import FLAG, UNIFORM, FaceArrays, Faces
from ti_render.backdrop.backdrop import pixel_centre
from ti_render.raster.coverage import covered_part, covered_part_rates, union_sides
from ti_render.raster.dibr import BACK, DIBR_STATE_SIZE, FRONT, seen_face
from ti_render.raster.fragment import (
    barycentrics_adjoint,
    fragment,
    near_fade_rates,
    perspective,
    setup,
    sub_areas,
    vec2,
)
from ti_render.raster.softras import face_screen, pixel_range, tile_box
from ti_render.raster.softras_adjoint import add_screen
from ti_render.raster.tiles import CUT_OFF, Tiles
from ti_render.shading.surface import add_attributes, face_attributes, surface_adjoint
from ti_sim.base.bundles import kernel
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import outer, vec3


@kernel
def rasterise_dibr_adjoint(
    serial: ti.template(), faces: Faces, tiles: Tiles, pixel_state: ti.types.ndarray(), pictures_bar: ti.types.ndarray(),
    backdrop_bar: ti.types.ndarray(), bars: FaceArrays,
):  # fmt: skip
    """Adjoint of ``rasterise_dibr`` from pictures_bar [M, H, W, 4]: reads and writes what ``rasterise_adjoint`` does."""
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
                        _c, _t, _x, _l, b, edge, inside, _d = fragment(
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
                code = faces.contours[m, f]
                if ti.abs(code) & 7 == 0:  # nothing but silhouettes moves the coverage
                    continue
                a0, a1, a2, depths = face_screen(faces, m, f)
                fade, fade_rates = near_fade_rates(depths, 1.0 / faces.near)
                _area, inverse_squared, to_distance = setup(a0, a1, a2)
                a0_bar, a1_bar, a2_bar, fade_bar = vec2(0), vec2(0), vec2(0), 0.0
                begin_x, end_x = pixel_range(faces, a0[0], a1[0], a2[0], radius, half, width, x0, x1)
                begin_y, end_y = pixel_range(faces, a0[1], a1[1], a2[1], radius, half, height, y0, y1)
                for y in range(begin_y, end_y + 1):
                    for x in range(begin_x, end_x + 1):
                        i = base + (y - y0) * tiles.side + x - x0
                        front_rate, back_rate = union_sides(
                            pixel_state[i * DIBR_STATE_SIZE + FRONT], pixel_state[i * DIBR_STATE_SIZE + BACK]
                        )
                        part_bar = fade * pictures_bar[m, y, x, 3] * (front_rate if code > 0 else back_rate)
                        if part_bar != 0:
                            p = pixel_centre(faces, m, x, y, width, height)
                            distance = sub_areas(p, a0, a1, a2) * to_distance
                            h0, h1, h2, sigma_rate = covered_part_rates(
                                p, a0, a1, a2, inverse_squared, distance, to_distance, code, radius
                            )
                            a0_bar += h0 * part_bar
                            a1_bar += h1 * part_bar
                            a2_bar += h2 * part_bar
                            sigma_bar += sigma_rate * inverse_sigma * part_bar
                            if fade < 1:
                                fade_bar += part_bar * covered_part(
                                    p, a0, a1, a2, inverse_squared, distance, to_distance, code, radius
                                )
                            if faces.flags[FLAG.distorted] == 1:
                                for k in ti.static(range(2)):
                                    bars.centres[m, y, x, k] -= (h0[k] + h1[k] + h2[k]) * part_bar
                add_screen(faces, bars, m, f, a0_bar, a1_bar, a2_bar, fade_rates * fade_bar)
            bars.uniforms[row, UNIFORM.sigma] = bars.uniforms[row, UNIFORM.sigma] + sigma_bar
