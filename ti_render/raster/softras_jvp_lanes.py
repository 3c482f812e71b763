"""Tangent of the soft rasteriser with neighbouring pixels of a row in the lanes of the processor's vector units.

Same tangents as ``softras_jvp`` to rounding. What all columns share is computed once for the pixels of a face: the derivatives
of coverage, of log D and of two barycentrics (the three add up to one) by the screen corners (``ScreenGradients``).
"""

from typing import Any

from ti_render.arrays import FLAG, MOVING_COLUMN, UNIFORM, FaceArrays, Faces, FaceTangentWork
from ti_render.backdrop.backdrop import min_exponent
from ti_render.backdrop.backdrop_jvp import inverse_temperature_tangent
from ti_render.raster.coverage_lanes import lane_coverage, lane_coverage_adjoint
from ti_render.raster.edge_on import edge_average_point
from ti_render.raster.fragment_lanes import (
    lane_barycentrics_adjoint,
    lane_corners,
    lane_distance_adjoint,
    lane_fragments,
    lane_mixed_barycentrics,
    lane_perspective,
)
from ti_render.raster.fragment_tangent import dot_entry
from ti_render.raster.lane_walk import LanePass
from ti_render.raster.softras import BACK, COLOUR, FRONT, MIN_DEPTH, STATE_SIZE, WEIGHT
from ti_render.raster.softras_jvp import BlendingTangents
from ti_render.raster.tiles import Tiles
from ti_render.raster.walk import MIN_PROBABILITY, walk
from ti_render.shading.reflection import SCRATCH
from ti_render.shading.surface import FACE_DOT_SIZE, SCREEN_OFFSET
from ti_render.shading.surface_jvp_lanes import ColumnLanes, lane_surface_columns
from ti_sim.base.bundles import bundle, kernel
from ti_sim.base.lanes import (
    LANE_ARRAY,
    LANES,
    MIN_LANE_EXPONENT,
    LaneVector,
    add_lanes,
    constant_lanes,
    exp_lanes,
    load_lanes,
    max_lanes,
    min_lanes,
    zero_lane_vector,
    zero_lane_vector2,
)
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3


@bundle
class ScreenGradient:
    """Derivatives of a number by the screen corners of a face (``LaneVector``s of two numbers) and by sigma (lanes)."""

    a0: Any
    a1: Any
    a2: Any
    sigma: Any

    @ti.func
    def tangent(self, a0_dot: ti.template(), a1_dot: ti.template(), a2_dot: ti.template(), sigma_dot):
        """Tangent from those of the corners, ``LaneVector``s, and of sigma."""
        return self.a0.dot(a0_dot) + self.a1.dot(a1_dot) + self.a2.dot(a2_dot) + self.sigma * sigma_dot


@ti.func
def _barycentric_gradient(
    lanes: ti.template(), triangle: ti.template(), fragments: ti.template(), steepness, inverse_sigma, unit: ti.template()
):
    """``ScreenGradient`` of one of the barycentrics of ``lane_mixed_barycentrics`` at constant steepness, that which is 1 in the
    ``LaneVector`` ``unit``."""
    pixels, sigma = lanes.distances, constant_lanes(0.0)
    a0, a1, a2 = lane_barycentrics_adjoint(pixels, triangle, fragments, unit * (1.0 - steepness))
    if steepness > 0:
        corner0, corner1, corner2 = lane_corners(pixels, triangle)
        a0_term, a1_term, a2_term, inverse_sigma_bar = edge_average_point.vjp(
            (corner0, corner1, corner2, inverse_sigma), unit * steepness
        )
        a0 += a0_term
        a1 += a1_term
        a2 += a2_term
        sigma += inverse_sigma_bar * (-inverse_sigma * inverse_sigma)
    return ScreenGradient(a0, a1, a2, sigma)


@bundle
class BlendingTangentsLanes(LanePass, BlendingTangents):
    """The pass of ``rasterise_jvp_lanes``."""

    lane_state: Any
    lane_scratch: Any

    @ti.func
    def visit_lanes(self, tile: ti.template(), face: ti.template(), lanes: ti.template()):
        """Add the contributions of a face to the tangents of pixels."""
        state_index = lanes.pixel.row * (STATE_SIZE * tile.side) + lanes.pixel.column
        rows = tile.state
        columns = ColumnLanes(rows.columns, self.lane_scratch, rows.scratch_offset, rows.face_offset, rows.any_moving)
        if rows.any_moving == 1 and ti.abs(face.code) & 7 != 0:
            self.add_lane_coverage(tile, face, lanes, columns, state_index)
        fragments = lane_fragments(lanes.distances, face.triangle, tile.inverse_sigma)
        probability = fragments.sigmoid * (lanes.is_active * face.fade)
        if probability.max() > MIN_PROBABILITY:
            self.add_fragments(tile, face, lanes, columns, state_index, fragments, probability)

    @ti.func
    def lane_face_weights(self, state_index, step):
        """Weight of the faces in the pixels' colours: A, or 1 for the composite "softmax"."""
        result = constant_lanes(1.0)
        if self.faces.softmax_only == 0:
            front = load_lanes(self.lane_state, state_index + FRONT * step)
            back = load_lanes(self.lane_state, state_index + BACK * step)
            result = min_lanes(max_lanes(max_lanes(front, back), constant_lanes(0.0)), constant_lanes(1.0))
        return result

    @ti.func
    def lane_corner_tangents(self, tile: ti.template(), lanes: ti.template(), c):
        """Tangents of a face's screen corners relative to the pixels, and of its depths."""
        offset = tile.state.face_offset + c * FACE_DOT_SIZE + SCREEN_OFFSET
        x, y = constant_lanes(0.0), constant_lanes(0.0)
        if self.faces.flags[FLAG.distorted] == 1:
            m, row, first, last = tile.image, lanes.pixel.y, lanes.pixel.x, tile.width - 1
            x = ti.Vector([self.dots.centres[m, c, row, ti.min(first + lane, last), 0] for lane in range(LANES)])
            y = ti.Vector([self.dots.centres[m, c, row, ti.min(first + lane, last), 1] for lane in range(LANES)])
        depths_dot = vec3(self.work.face_dot[offset + 2], self.work.face_dot[offset + 5], self.work.face_dot[offset + 8])
        return (
            LaneVector(self.work.face_dot[offset] - x, self.work.face_dot[offset + 1] - y),
            LaneVector(self.work.face_dot[offset + 3] - x, self.work.face_dot[offset + 4] - y),
            LaneVector(self.work.face_dot[offset + 6] - x, self.work.face_dot[offset + 7] - y),
            depths_dot,
        )

    @ti.func
    def add_lane_coverage(
        self, tile: ti.template(), face: ti.template(), lanes: ti.template(), columns: ti.template(), state_index
    ):
        """``add_coverage``."""
        triangle, bits, step = face.triangle, ti.abs(face.code), tile.side
        front = load_lanes(self.lane_state, state_index + FRONT * step)
        back = load_lanes(self.lane_state, state_index + BACK * step)
        larger = max_lanes(front, back)
        counts = ti.select(larger > 0.0, ti.select(larger < 1.0, lanes.is_active, 0.0), 0.0)
        if face.code > 0:
            counts = ti.select(front >= back, counts, 0.0)
        else:
            counts = ti.select(front >= back, 0.0, counts)
        if counts.max() > 0:
            coverage_bar = counts * face.fade
            by_a0, by_a1, by_a2 = zero_lane_vector2(), zero_lane_vector2(), zero_lane_vector2()
            by_sigma = tile.inverse_sigma * lane_coverage_adjoint(
                lanes.distances, triangle, bits, tile.radius, coverage_bar, by_a0, by_a1, by_a2
            )
            gradient = ScreenGradient(by_a0, by_a1, by_a2, by_sigma)
            faded_coverage = constant_lanes(0.0)
            if face.fade < 1:
                faded_coverage = coverage_bar * lane_coverage(lanes.distances, triangle, bits, tile.radius)
            colour_difference = zero_lane_vector()
            if self.faces.softmax_only == 0:
                m, row, first, last = tile.image, lanes.pixel.y, lanes.pixel.x, tile.width - 1
                for k in ti.static(range(3)):
                    backdrop = ti.Vector([self.backdrop[m, row, ti.min(first + lane, last), k] for lane in range(LANES)])
                    inner = load_lanes(self.lane_state, state_index + (COLOUR + k) * step)
                    colour_difference[k] = ti.select(counts > 0.0, inner - backdrop, 0.0)
            for c in range(columns.count):
                if self.work.column_flags[c] & MOVING_COLUMN != 0:
                    a0_dot, a1_dot, a2_dot, depths_dot = self.lane_corner_tangents(tile, lanes, c)
                    sigma_dot = self.dots.uniforms[tile.image * columns.count + c, UNIFORM.sigma]
                    alpha_dot = gradient.tangent(a0_dot, a1_dot, a2_dot, sigma_dot)
                    alpha_dot += faded_coverage * face.log_fade_gradient.dot(depths_dot)
                    first = dot_entry(tile, lanes.pixel, c)
                    for k in ti.static(range(3)):
                        add_lanes(self.pixel_dot, first + k * step, colour_difference[k] * alpha_dot)
                    add_lanes(self.pixel_dot, first + 3 * step, alpha_dot)

    @ti.func
    def add_fragments(
        self, tile: ti.template(), face: ti.template(), lanes: ti.template(), columns: ti.template(), state_index,
        fragments: ti.template(), probability,
    ):  # fmt: skip
        """Add the contributions of the fragments' colours and weights."""
        step, state = tile.side, face.state
        b, edge_average = lane_mixed_barycentrics(
            lanes.distances, face.triangle, fragments.barycentrics, state.steepness, tile.inverse_sigma
        )
        r, z = lane_perspective(b, face.triangle.inverse_depths)
        depth_advantage = load_lanes(self.lane_state, state_index + MIN_DEPTH * step) - z
        exponent = depth_advantage * tile.inverse_temperature - fragments.tail_exponent
        counts = ti.select(probability > MIN_PROBABILITY, exponent, MIN_LANE_EXPONENT) > ti.static(min_exponent())
        weight_sum = ti.select(counts, load_lanes(self.lane_state, state_index + WEIGHT * step), 1.0)
        weight = probability * exp_lanes(max_lanes(exponent, constant_lanes(MIN_LANE_EXPONENT))) / weight_sum
        weight = ti.select(counts, weight * self.lane_face_weights(state_index, step), 0.0)
        if weight.max() > 0:
            if columns.any_moving == 1:
                depth_advantage = ti.select(weight > 0.0, depth_advantage, 0.0)
                self.put_fragment_tangents(tile, face, lanes, columns, fragments, b, edge_average, r, z, depth_advantage)
            for c in range(columns.count):
                columns.put3(c, SCRATCH.colour_dot, zero_lane_vector())
            colour = lane_surface_columns(self.faces, self.dots, self.work, columns, state.attributes, tile.image, weight, r, z)
            difference = zero_lane_vector()
            for k in ti.static(range(3)):
                inner = load_lanes(self.lane_state, state_index + (COLOUR + k) * step)
                difference[k] = ti.select(weight > 0.0, (colour[k] - inner) * weight, 0.0)
            for c in range(columns.count):
                if self.work.column_flags[c] != 0:
                    first, result = dot_entry(tile, lanes.pixel, c), columns.get3(c, SCRATCH.colour_dot)
                    if self.work.column_flags[c] & MOVING_COLUMN != 0:
                        result += difference * columns.get(c, SCRATCH.log_weight_dot)
                    for k in ti.static(range(3)):
                        add_lanes(self.pixel_dot, first + k * step, result[k])

    @ti.func
    def put_fragment_tangents(
        self, tile: ti.template(), face: ti.template(), lanes: ti.template(), columns: ti.template(), fragments: ti.template(),
        b: ti.template(), edge_average: ti.template(), r: ti.template(), z, depth_advantage,
    ):  # fmt: skip
        """Write the tangents of log w, r and z to scratch, in the columns that move vertices or camera."""
        triangle, state, inverse_sigma, beta = face.triangle, face.state, tile.inverse_sigma, tile.inverse_temperature
        zero, one = constant_lanes(0.0), constant_lanes(1.0)
        by1 = _barycentric_gradient(lanes, triangle, fragments, state.steepness, inverse_sigma, LaneVector(zero, one, zero))
        by2 = _barycentric_gradient(lanes, triangle, fragments, state.steepness, inverse_sigma, LaneVector(zero, zero, one))
        d0, d1, d2 = lane_distance_adjoint(lanes.distances, triangle, fragments, fragments.log_derivative, inverse_sigma)
        log_gradient = ScreenGradient(d0, d1, d2, fragments.log_derivative * fragments.logit * (0.0 - inverse_sigma))
        inverse_depths = triangle.inverse_depths
        ratio0, ratio1, ratio2 = b[0] * inverse_depths[0], b[1] * inverse_depths[1], b[2] * inverse_depths[2]
        steep1, steep2 = edge_average[1] - fragments.barycentrics[1], edge_average[2] - fragments.barycentrics[2]
        for c in range(columns.count):
            if self.work.column_flags[c] & MOVING_COLUMN != 0:
                row = tile.image * columns.count + c
                sigma_dot = self.dots.uniforms[row, UNIFORM.sigma]
                a0_dot, a1_dot, a2_dot, depths_dot = self.lane_corner_tangents(tile, lanes, c)
                b1_dot, b2_dot = by1.tangent(a0_dot, a1_dot, a2_dot, sigma_dot), by2.tangent(a0_dot, a1_dot, a2_dot, sigma_dot)
                log_weight_dot = log_gradient.tangent(a0_dot, a1_dot, a2_dot, sigma_dot)
                if state.steepness > 0:
                    steepness_dot = (
                        a0_dot.dot(state.steepness_by_a0) + a1_dot.dot(state.steepness_by_a1) + a2_dot.dot(state.steepness_by_a2)
                    )
                    steepness_dot += state.steepness_by_depths.dot(depths_dot)
                    b1_dot += steep1 * steepness_dot
                    b2_dot += steep2 * steepness_dot
                ratio0_dot = (0.0 - b1_dot - b2_dot - ratio0 * depths_dot[0]) * inverse_depths[0]
                ratio1_dot = (b1_dot - ratio1 * depths_dot[1]) * inverse_depths[1]
                ratio2_dot = (b2_dot - ratio2 * depths_dot[2]) * inverse_depths[2]
                sum_dot = ratio0_dot + ratio1_dot + ratio2_dot
                z_dot = sum_dot * z * (0.0 - z)
                r_dot = LaneVector(
                    (ratio0_dot - r[0] * sum_dot) * z, (ratio1_dot - r[1] * sum_dot) * z, (ratio2_dot - r[2] * sum_dot) * z
                )
                beta_dot = inverse_temperature_tangent(self.faces, self.dots, tile.image, row, beta)
                log_weight_dot += face.log_fade_gradient.dot(depths_dot) + depth_advantage * beta_dot - z_dot * beta
                columns.put3(c, SCRATCH.r_dot, r_dot)
                columns.put(c, SCRATCH.z_dot, z_dot)
                columns.put(c, SCRATCH.log_weight_dot, log_weight_dot)


@kernel
def rasterise_jvp_lanes(
    faces: Faces, tiles: Tiles, pixel_state: ti.types.ndarray(), lane_state: ti.types.ndarray(), backdrop: ti.types.ndarray(),
    dots: FaceArrays, work: FaceTangentWork, lane_scratch: LANE_ARRAY, pixel_dot: ti.types.ndarray(), width: int, height: int,
    pictures_dot: ti.types.ndarray(),
):  # fmt: skip
    """``softras_jvp.rasterise_jvp`` of pictures of ``rasterise_lanes``; compiled ``with_vector_code``.

    Reads and writes as ``rasterise_jvp``; lane_state is pixel_state as a flat array. lane_scratch takes the place of the scratch
    of ``work``: [occupied K SCRATCH.size, LANES].
    """
    walk(
        faces, tiles, width, height,
        BlendingTangentsLanes(
            faces, pixel_state, backdrop, dots, work, pixel_dot, pictures_dot, lane_state=lane_state, lane_scratch=lane_scratch
        ),
    )  # fmt: skip
