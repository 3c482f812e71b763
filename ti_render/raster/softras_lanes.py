"""The soft rasteriser with neighbouring pixels of a row in the lanes of the processor's vector units.

Same pictures as ``softras`` to rounding. A face is visited row by row, LANES pixels at a time. Faces that are nearly edge-on
(``edge_on``) and pixels on the line of an edge are visited pixel by pixel (``Blending.visit``).
"""

from typing import Any

from ti_render.arrays import FLAG, Faces
from ti_render.backdrop.backdrop import min_exponent
from ti_render.raster.coverage import EXACT_TEST_BAND
from ti_render.raster.fragment_lanes import lane_coverage, lane_distances, lane_fragments
from ti_render.raster.softras import STATE_SIZE, Blending
from ti_render.raster.tiles import Tiles
from ti_render.raster.walk import MIN_PROBABILITY, pixel_at, walk
from ti_render.shading.surface_lanes import lane_colours
from ti_sim.base.bundles import bundle, kernel
from ti_sim.base.lanes import (
    LANES,
    MIN_LANE_EXPONENT,
    LaneVector,
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
def lane_centres(faces: ti.template(), tile: ti.template(), pixel: ti.template(), is_distorted):
    """Screen positions of the centres of ``pixel`` and the next ones to the right."""
    x = pixel.centre[0] + lane_numbers() * (2.0 / ti.min(tile.width, tile.height))
    y = constant_lanes(pixel.centre[1])
    if is_distorted:
        last = tile.width - 1
        m, row = tile.image, pixel.y
        x = ti.Vector([faces.centres[m, row, ti.min(pixel.x + lane, last), 0] for lane in range(LANES)])
        y = ti.Vector([faces.centres[m, row, ti.min(pixel.x + lane, last), 1] for lane in range(LANES)])
    return x, y


@bundle
class BlendingLanes(Blending):
    """The pass of ``rasterise_lanes``."""

    lane_state: Any
    by_rows = True

    @ti.func
    def visit_row(self, tile: ti.template(), face: ti.template(), y, first_x, last_x):
        """Add the coverage and the colours of a face to the pixels of a row."""
        is_distorted = self.faces.flags[FLAG.distorted] == 1
        for block in range((last_x - first_x) // LANES + 1):
            self.visit_lanes(tile, face, y, first_x + block * LANES, last_x, is_distorted)

    @ti.func
    def visit_lanes(self, tile: ti.template(), face: ti.template(), y, first_x, last_x, is_distorted):
        """``visit`` of the pixels from ``first_x`` on, up to LANES and at most to ``last_x``."""
        # Lanes end with the tile: the last ones begin to the left of ``first_x``.
        start = ti.min(first_x, tile.x0 + tile.side - LANES)
        pixel, triangle = pixel_at(self.faces, tile, start, y), face.triangle
        numbers = lane_numbers()
        is_active = ti.select(numbers <= ti.cast(last_x - start, float), constant_lanes(1.0), 0.0)
        is_active = ti.select(numbers >= ti.cast(first_x - start, float), is_active, 0.0)
        centre_x, centre_y = lane_centres(self.faces, tile, pixel, is_distorted)
        pixels = lane_distances(centre_x, centre_y, triangle)
        visits_single_pixels = face.state.steepness > 0
        if face.code != 0:
            edge_distance = min_lanes(min_lanes(abs_lanes(pixels.d0), abs_lanes(pixels.d1)), abs_lanes(pixels.d2))
            if ti.select(is_active > 0, edge_distance, 1e30).min() < EXACT_TEST_BAND * tile.radius:
                visits_single_pixels = True
        # Where the lens distorts, a face is visited at every pixel of its tiles.
        is_within_reach = True
        if is_distorted:
            is_within_reach = min_lanes(min_lanes(pixels.d0, pixels.d1), pixels.d2).max() > -tile.radius
        if not is_within_reach:
            pass
        elif visits_single_pixels:
            for x in range(first_x, ti.min(last_x, first_x + LANES - 1) + 1):
                single_pixel = pixel_at(self.faces, tile, x, y)
                self.visit(tile, face, single_pixel)
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
        r = LaneVector(r0 * z, r1 * z, r2 * z)
        exponent = ti.select(probability > 0.0, (min_depth - z) * beta - tail_exponent, MIN_LANE_EXPONENT)
        is_nearer = exponent > 0.0
        magnitude = abs_lanes(exponent)
        ratio = exp_lanes(max_lanes(0.0 - magnitude, constant_lanes(MIN_LANE_EXPONENT)))
        ratio = ti.select(magnitude < ti.static(-min_exponent()), ratio, 0.0)
        scale = ti.select(is_nearer, ratio, 1.0)
        weight = ti.select(is_nearer, probability, probability * ratio)
        colour = lane_colours(self.faces, attributes, tile.image, weight, r, z) * weight
        store_lanes(self.lane_state, index, ti.select(is_nearer, z + tail_exponent * (1.0 / beta), min_depth))
        store_lanes(self.lane_state, index + step, sums * scale + weight)
        store_lanes(self.lane_state, index + 2 * step, sums_red * scale + colour[0])
        store_lanes(self.lane_state, index + 3 * step, sums_green * scale + colour[1])
        store_lanes(self.lane_state, index + 4 * step, sums_blue * scale + colour[2])


@kernel
def rasterise_lanes(
    faces: Faces, tiles: Tiles, pixel_state: ti.types.ndarray(), lane_state: ti.types.ndarray(), pictures: ti.types.ndarray()
):
    """``softras.rasterise`` for the pictures of ``has_lanes``, in tiles of at least LANES pixels; compiled ``with_vector_code``.

    Writes pictures and pixel_state. lane_state is pixel_state as a flat array: its index is computed without the shape of an
    array, which a kernel loads again after each store. Adjoint: ``rasterise_adjoint``; tangent: ``rasterise_jvp``; both by hand.
    """
    walk(faces, tiles, pictures.shape[2], pictures.shape[1], BlendingLanes(faces, pixel_state, pictures, lane_state))
