"""The soft rasteriser with neighbouring pixels of a row in the lanes of the processor's vector units.

Same pictures as ``softras`` to rounding.
"""

from typing import Any

from ti_render.arrays import Faces
from ti_render.backdrop.backdrop import min_exponent
from ti_render.raster.coverage_lanes import lane_coverage
from ti_render.raster.fragment_lanes import lane_fragments, lane_mixed_barycentrics, lane_perspective
from ti_render.raster.lane_walk import LanePass
from ti_render.raster.softras import COLOUR, MIN_DEPTH, STATE_SIZE, WEIGHT, Blending
from ti_render.raster.tiles import Tiles
from ti_render.raster.walk import MIN_PROBABILITY, walk
from ti_render.shading.surface_lanes import lane_colours
from ti_sim.base.bundles import bundle, kernel
from ti_sim.base.lanes import (
    MIN_LANE_EXPONENT,
    abs_lanes,
    constant_lanes,
    exp_lanes,
    load_lanes,
    max_lanes,
    store_lanes,
)
from ti_sim.base.runtime import ti, with_vector_code


@bundle
class BlendingLanes(LanePass, Blending):
    """The pass of ``rasterise_lanes``."""

    lane_state: Any

    @ti.func
    def visit_lanes(self, tile: ti.template(), face: ti.template(), lanes: ti.template()):
        """Add the coverage and the colours of fragments."""
        index = lanes.pixel.row * (STATE_SIZE * tile.side) + lanes.pixel.column
        if face.code != 0:
            coverage = lane_coverage(lanes.distances, face.triangle, ti.abs(face.code), tile.radius)
            side_index = index + face.state.side_column * tile.side
            side_sum = load_lanes(self.lane_state, side_index)
            store_lanes(self.lane_state, side_index, side_sum + coverage * (lanes.is_active * face.fade))
        min_depth = load_lanes(self.lane_state, index + MIN_DEPTH * tile.side)
        # A face so far behind that its softmax weight is zero contributes coverage and no colour.
        farthest = ti.select(lanes.is_active > 0, min_depth, 0.0).max()
        if (farthest - face.state.min_depth) * tile.inverse_temperature > ti.static(min_exponent()):
            self.add_colours(tile, face, lanes, index, min_depth)

    @ti.func
    def add_colours(self, tile: ti.template(), face: ti.template(), lanes: ti.template(), index, min_depth):
        """Add the colours of the fragments whose weight is not zero; ``index`` is that of the first pixel's state."""
        beta, step = tile.inverse_temperature, tile.side
        sums = load_lanes(self.lane_state, index + WEIGHT * step)
        red, green = load_lanes(self.lane_state, index + COLOUR * step), load_lanes(self.lane_state, index + (COLOUR + 1) * step)
        blue = load_lanes(self.lane_state, index + (COLOUR + 2) * step)
        fragments = lane_fragments(lanes.distances, face.triangle, tile.inverse_sigma)
        probability = fragments.sigmoid * (lanes.is_active * face.fade)
        probability = ti.select(probability > MIN_PROBABILITY, probability, 0.0)
        b, _edge_average = lane_mixed_barycentrics(
            lanes.distances, face.triangle, fragments.barycentrics, face.state.steepness, tile.inverse_sigma
        )
        r, z = lane_perspective(b, face.triangle.inverse_depths)
        exponent = ti.select(probability > 0.0, (min_depth - z) * beta - fragments.tail_exponent, MIN_LANE_EXPONENT)
        is_nearer = exponent > 0.0
        magnitude = abs_lanes(exponent)
        ratio = exp_lanes(max_lanes(0.0 - magnitude, constant_lanes(MIN_LANE_EXPONENT)))
        ratio = ti.select(magnitude < ti.static(-min_exponent()), ratio, 0.0)
        scale = ti.select(is_nearer, ratio, 1.0)
        weight = ti.select(is_nearer, probability, probability * ratio)
        colour = lane_colours(self.faces, face.state.attributes, tile.image, weight, r, z) * weight
        nearest = ti.select(is_nearer, z + fragments.tail_exponent * (1.0 / beta), min_depth)
        store_lanes(self.lane_state, index + MIN_DEPTH * step, nearest)
        store_lanes(self.lane_state, index + WEIGHT * step, sums * scale + weight)
        store_lanes(self.lane_state, index + COLOUR * step, red * scale + colour[0])
        store_lanes(self.lane_state, index + (COLOUR + 1) * step, green * scale + colour[1])
        store_lanes(self.lane_state, index + (COLOUR + 2) * step, blue * scale + colour[2])


@with_vector_code
@kernel
def rasterise_lanes(
    faces: Faces, tiles: Tiles, pixel_state: ti.types.ndarray(), lane_state: ti.types.ndarray(), pictures: ti.types.ndarray()
):
    """``softras.rasterise`` on the processor, in tiles of at least LANES pixels; compiled ``with_vector_code``.

    Writes pictures and pixel_state. lane_state is pixel_state as a flat array: its index is computed without the shape of an
    array, which a kernel loads again after each store. Adjoint: ``rasterise_adjoint_lanes``; tangent: ``rasterise_jvp_lanes``;
    both by hand.
    """
    walk(faces, tiles, pictures.shape[2], pictures.shape[1], BlendingLanes(faces, pixel_state, pictures, lane_state))
