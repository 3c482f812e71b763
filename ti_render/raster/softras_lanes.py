"""The soft rasteriser with neighbouring pixels of a row in the lanes of the processor's vector units.

Same pictures as ``softras`` to rounding. A face is visited row by row, LANES pixels at a time. Textured faces, faces that are
nearly edge-on (``edge_on``) and pixels on the line of an edge are visited pixel by pixel (``Blending.visit``).
"""

from typing import Any

from ti_render.arrays import FLAG, LIGHT, UNIFORM, Faces
from ti_render.backdrop.backdrop import min_exponent
from ti_render.geometry.normals import MIN_SQUARED_AREA
from ti_render.raster.coverage import EXACT_TEST_BAND
from ti_render.raster.fragment_lanes import lane_coverage, lane_distances, lane_fragments
from ti_render.raster.softras import STATE_SIZE, Blending
from ti_render.raster.tiles import Tiles
from ti_render.raster.walk import MIN_PROBABILITY, pixel_at, walk
from ti_render.shading.reflection import UNLIT
from ti_render.shading.uniforms import light_column, uniform3
from ti_sim.base.bundles import bundle, kernel
from ti_sim.base.lanes import (
    LANES,
    MIN_LANE_EXPONENT,
    abs_lanes,
    constant_lanes,
    exp_lanes,
    lane_numbers,
    load_lanes,
    max_lanes,
    min_lanes,
    store_lanes,
)
from ti_sim.base.runtime import ti


@ti.func
def _interpolate(matrix: ti.template(), k: ti.template(), r0, r1, r2):
    """Row k of a matrix of the corners' attributes, at barycentrics in lanes."""
    return matrix[k, 0] * r0 + matrix[k, 1] * r1 + matrix[k, 2] * r2


@ti.func
def _irradiance(faces: ti.template(), m, attributes: ti.template(), r0, r1, r2):
    """Irradiance over pi of ambient and directional light in lanes, red, green and blue (``light_surface``)."""
    ambient = uniform3(faces.uniforms, m, UNIFORM.ambient)
    n0, n1, n2 = (
        _interpolate(attributes.normals, 0, r0, r1, r2),
        _interpolate(attributes.normals, 1, r0, r1, r2),
        _interpolate(attributes.normals, 2, r0, r1, r2),
    )
    scale = 1.0 / ti.sqrt(max_lanes(n0 * n0 + n1 * n1 + n2 * n2, constant_lanes(MIN_SQUARED_AREA)))
    if faces.flags[FLAG.two_sided] == 1:
        eye = uniform3(faces.uniforms, m, UNIFORM.eye)
        towards_eye = n0 * (eye[0] - _interpolate(attributes.points, 0, r0, r1, r2))
        towards_eye += n1 * (eye[1] - _interpolate(attributes.points, 1, r0, r1, r2))
        towards_eye += n2 * (eye[2] - _interpolate(attributes.points, 2, r0, r1, r2))
        scale = ti.select(towards_eye < 0.0, 0.0 - scale, scale)
    red, green, blue = constant_lanes(ambient[0]), constant_lanes(ambient[1]), constant_lanes(ambient[2])
    for i in range(faces.flags[FLAG.directional]):
        to_light = uniform3(faces.uniforms, m, light_column(i))
        intensity = uniform3(faces.uniforms, m, light_column(i) + LIGHT.intensity)
        cosine = max_lanes((n0 * to_light[0] + n1 * to_light[1] + n2 * to_light[2]) * scale, constant_lanes(0.0))
        red += intensity[0] * cosine
        green += intensity[1] * cosine
        blue += intensity[2] * cosine
    return red, green, blue


@bundle
class BlendingLanes(Blending):
    """The pass of ``rasterise_lanes``."""

    lane_state: Any
    by_rows = True

    @ti.func
    def visit_row(self, tile: ti.template(), face: ti.template(), y, first_x, last_x):
        """Add the coverage and the colours of a face to the pixels of a row."""
        if face.state.steepness > 0 or face.state.attributes.texture >= 0:
            self.visit_pixels(tile, face, y, first_x, last_x)
        else:
            for block in range((last_x - first_x) // LANES + 1):
                self.visit_lanes(tile, face, y, first_x + block * LANES, last_x)

    @ti.func
    def visit_pixels(self, tile: ti.template(), face: ti.template(), y, first_x, last_x):
        """``visit`` of the pixels of a row."""
        for x in range(first_x, last_x + 1):
            pixel = pixel_at(self.faces, tile, x, y)
            self.visit(tile, face, pixel)

    @ti.func
    def visit_lanes(self, tile: ti.template(), face: ti.template(), y, first_x, last_x):
        """``visit`` of the pixels from ``first_x`` on, up to LANES and at most to ``last_x``."""
        # Lanes end with the tile: the last ones begin to the left of ``first_x``.
        start = ti.min(first_x, tile.x0 + tile.side - LANES)
        pixel, triangle = pixel_at(self.faces, tile, start, y), face.triangle
        numbers = lane_numbers()
        is_active = ti.select(numbers <= ti.cast(last_x - start, float), constant_lanes(1.0), 0.0)
        is_active = ti.select(numbers >= ti.cast(first_x - start, float), is_active, 0.0)
        x = pixel.centre[0] + numbers * (2.0 / ti.min(tile.width, tile.height))
        pixels = lane_distances(x, constant_lanes(pixel.centre[1]), triangle)
        nearest = min_lanes(min_lanes(abs_lanes(pixels.d0), abs_lanes(pixels.d1)), abs_lanes(pixels.d2))
        if face.code != 0 and ti.select(is_active > 0, nearest, 1e30).min() < EXACT_TEST_BAND * tile.radius:
            self.visit_pixels(tile, face, y, first_x, ti.min(last_x, first_x + LANES - 1))
        else:
            index = pixel.row * (STATE_SIZE * tile.side) + pixel.column
            if face.code != 0:
                coverage = lane_coverage(pixels, triangle, ti.abs(face.code), tile.radius) * (is_active * face.fade)
                side_index = index + face.state.side_column * tile.side
                store_lanes(self.lane_state, side_index, load_lanes(self.lane_state, side_index) + coverage)
            min_depth = load_lanes(self.lane_state, index)
            # A face so far behind that its softmax weight is zero contributes coverage and no colour.
            farthest = ti.select(is_active > 0, min_depth, 0.0).max()
            if (farthest - face.state.min_depth) * tile.inverse_temperature > ti.static(min_exponent()):
                self.add_colours(tile, face, index, pixels, is_active, min_depth)

    @ti.func
    def add_colours(self, tile: ti.template(), face: ti.template(), index, pixels: ti.template(), is_active, min_depth):
        """Add the colours of the fragments whose weight is not zero; ``index`` is that of the first pixel's least depth."""
        triangle, attributes, beta, step = face.triangle, face.state.attributes, tile.inverse_temperature, tile.side
        sums, sums_red = load_lanes(self.lane_state, index + step), load_lanes(self.lane_state, index + 2 * step)
        sums_green, sums_blue = load_lanes(self.lane_state, index + 3 * step), load_lanes(self.lane_state, index + 4 * step)
        sigmoid, tail_exponent, b0, b1, b2 = lane_fragments(pixels, triangle, tile.inverse_sigma)
        probability = sigmoid * (is_active * face.fade)
        probability = ti.select(probability > MIN_PROBABILITY, probability, 0.0)
        r0, r1, r2 = b0 * triangle.inverse_depths[0], b1 * triangle.inverse_depths[1], b2 * triangle.inverse_depths[2]
        z = 1.0 / (r0 + r1 + r2)
        r0, r1, r2 = r0 * z, r1 * z, r2 * z
        exponent = ti.select(probability > 0.0, (min_depth - z) * beta - tail_exponent, MIN_LANE_EXPONENT)
        is_nearer = exponent > 0.0
        magnitude = abs_lanes(exponent)
        ratio = exp_lanes(max_lanes(0.0 - magnitude, constant_lanes(MIN_LANE_EXPONENT)))
        ratio = ti.select(magnitude < ti.static(-min_exponent()), ratio, 0.0)
        scale = ti.select(is_nearer, ratio, 1.0)
        weight = ti.select(is_nearer, probability, probability * ratio)
        red, green, blue = weight, weight, weight
        if ti.static(self.faces.shading != UNLIT):
            red_light, green_light, blue_light = _irradiance(self.faces, tile.image, attributes, r0, r1, r2)
            red, green, blue = weight * red_light, weight * green_light, weight * blue_light
        red *= _interpolate(attributes.albedo, 0, r0, r1, r2)
        green *= _interpolate(attributes.albedo, 1, r0, r1, r2)
        blue *= _interpolate(attributes.albedo, 2, r0, r1, r2)
        store_lanes(self.lane_state, index, ti.select(is_nearer, z + tail_exponent * (1.0 / beta), min_depth))
        store_lanes(self.lane_state, index + step, sums * scale + weight)
        store_lanes(self.lane_state, index + 2 * step, sums_red * scale + red)
        store_lanes(self.lane_state, index + 3 * step, sums_green * scale + green)
        store_lanes(self.lane_state, index + 4 * step, sums_blue * scale + blue)


@kernel
def rasterise_lanes(
    faces: Faces, tiles: Tiles, pixel_state: ti.types.ndarray(), lane_state: ti.types.ndarray(), pictures: ti.types.ndarray()
):
    """``softras.rasterise`` for the pictures of ``has_lanes``, in tiles of at least LANES pixels; compiled ``with_vector_code``.

    Writes pictures and pixel_state. lane_state is pixel_state as a flat array: its index is computed without the shape of an
    array, which a kernel loads again after each store. Adjoint: ``rasterise_adjoint``; tangent: ``rasterise_jvp``; both by hand.
    """
    walk(faces, tiles, pictures.shape[2], pictures.shape[1], BlendingLanes(faces, pixel_state, pictures, lane_state))
