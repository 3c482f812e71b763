"""Adjoint of the soft rasteriser with neighbouring pixels of a row in the lanes of the processor's vector units.

Same adjoints as ``softras_adjoint`` to rounding. A face's adjoints are summed lane by lane over its pixels, and then over the
lanes.
"""

from typing import Any

from ti_render.arrays import FLAG, FaceArrays, Faces
from ti_render.backdrop.backdrop import min_exponent
from ti_render.raster.coverage_lanes import lane_coverage, lane_coverage_adjoint
from ti_render.raster.edge_on import edge_average_point
from ti_render.raster.fragment import vec2
from ti_render.raster.fragment_lanes import (
    lane_barycentrics_adjoint,
    lane_corners,
    lane_distance_adjoint,
    lane_fragments,
    lane_mixed_barycentrics,
    lane_perspective,
)
from ti_render.raster.lane_walk import LanePass
from ti_render.raster.softras import COLOUR, MIN_DEPTH, STATE_SIZE, WEIGHT
from ti_render.raster.softras_adjoint import COLOUR_BAR, PIXEL_BAR_SIZE, BlendingAdjoint, FaceSums
from ti_render.raster.tiles import Tiles
from ti_render.raster.walk import MIN_PROBABILITY, walk
from ti_render.shading.reflection import UNLIT
from ti_render.shading.surface import DEPTH, NORMAL
from ti_render.shading.surface_adjoint_lanes import lane_colours_adjoint
from ti_sim.base.bundles import bundle, kernel
from ti_sim.base.lanes import (
    LANES,
    MIN_LANE_EXPONENT,
    LaneVector,
    constant_lanes,
    exp_lanes,
    load_lanes,
    max_lanes,
    zero_lane_vector,
    zero_lane_vector2,
)
from ti_sim.base.runtime import ti, with_vector_code
from ti_sim.base.vecmath import mat3, vec3


@bundle
class LaneFaceSums(FaceSums):
    """``FaceSums`` with sums over the pixels of each lane.

    Attributes:
        lane_a0_bar, lane_a1_bar, lane_a2_bar: of the adjoints of the corners, ``LaneVector``s of two numbers.
        lane_depths_bar: of the depths, a ``LaneVector``.
        lane_fade_sigma_beta_bar: of the fade, of sigma and of beta, a ``LaneVector``.
        lane_albedo_bar, lane_uv_bar, lane_normals_bar, lane_points_bar: of the attributes, a ``LaneVector`` of nine numbers each,
            the columns of the matrices one after the other.
    """

    lane_a0_bar: Any
    lane_a1_bar: Any
    lane_a2_bar: Any
    lane_depths_bar: Any
    lane_fade_sigma_beta_bar: Any
    lane_albedo_bar: Any
    lane_uv_bar: Any
    lane_normals_bar: Any
    lane_points_bar: Any


@ti.func
def _zeros9():
    return LaneVector(*[constant_lanes(0.0) for _ in range(9)])


@ti.func
def _add_outer(sums: ti.template(), x: ti.template(), r: ti.template()):
    """Add the columns x r0, x r1 and x r2."""
    for i, k in ti.static(ti.ndrange(3, 3)):
        sums[3 * k + i] += x[i] * r[k]


@ti.func
def _sum2(lanes: ti.template()):
    return vec2(lanes[0].sum(), lanes[1].sum())


@ti.func
def _sum3(lanes: ti.template()):
    return vec3(lanes[0].sum(), lanes[1].sum(), lanes[2].sum())


@ti.func
def _sum9(lanes: ti.template()):
    """The matrix of the sums over the lanes."""
    result = mat3(0)
    for i, k in ti.static(ti.ndrange(3, 3)):
        result[i, k] = lanes[3 * k + i].sum()
    return result


@bundle
class BlendingAdjointLanes(LanePass, BlendingAdjoint):
    """The pass of ``rasterise_adjoint_lanes``."""

    lane_state: Any
    lane_bar: Any

    @ti.func
    def begin_face(self, tile: ti.template(), face: ti.template()):
        """Attributes, steepness and side of the face, and its sums."""
        sums = self.face_sums(tile, face)
        return LaneFaceSums(
            sums.attributes, sums.steepness, sums.steepness_by_a0, sums.steepness_by_a1, sums.steepness_by_a2,
            sums.steepness_by_depths, sums.side_column, sums.a0_bar, sums.a1_bar, sums.a2_bar, sums.depths_bar, sums.fade_bar,
            sums.steepness_bar, sums.albedo_bar, sums.uv_bar, sums.normals_bar, sums.points_bar, sums.lights,
            zero_lane_vector2(), zero_lane_vector2(), zero_lane_vector2(), zero_lane_vector(), zero_lane_vector(),
            _zeros9(), _zeros9(), _zeros9(), _zeros9(),
        )  # fmt: skip

    @ti.func
    def visit_lanes(self, tile: ti.template(), face: ti.template(), lanes: ti.template()):
        """Adjoints of coverage and colour of fragments."""
        sums, triangle, step, pixels = face.state, face.triangle, tile.side, lanes.distances
        bar_index = lanes.pixel.row * (PIXEL_BAR_SIZE * step) + lanes.pixel.column
        a0_bar, a1_bar, a2_bar = zero_lane_vector2(), zero_lane_vector2(), zero_lane_vector2()
        fade_bar, sigma_bar = constant_lanes(0.0), constant_lanes(0.0)
        bits = ti.abs(face.code)
        if bits & 7 != 0:
            # Lanes beyond the picture's right end hold no number.
            coverage_bar = load_lanes(self.lane_bar, bar_index + sums.side_column * step) * face.fade
            coverage_bar = ti.select(lanes.is_active > 0.0, coverage_bar, 0.0)
            sigma_bar += tile.inverse_sigma * lane_coverage_adjoint(
                pixels, triangle, bits, tile.radius, coverage_bar, a0_bar, a1_bar, a2_bar
            )
            if face.fade < 1:
                fade_bar += coverage_bar * lane_coverage(pixels, triangle, bits, tile.radius)
        fragments = lane_fragments(pixels, triangle, tile.inverse_sigma)
        b, edge_average = lane_mixed_barycentrics(
            pixels, triangle, fragments.barycentrics, sums.steepness, tile.inverse_sigma
        )
        r, z = lane_perspective(b, triangle.inverse_depths)
        weight, depth_advantage = self.fragment_weights(tile, face, lanes, fragments, z)
        if weight.max() > 0:
            log_weight_bar, b_bar = self.lane_colour_adjoint(tile, face, lanes, r, z, weight, depth_advantage)
            fade_bar += log_weight_bar
            for k in ti.static(range(3)):
                sums.lane_depths_bar[k] += b_bar[k] * b[k] * (0.0 - triangle.inverse_depths[k])
            a0_term, a1_term, a2_term = lane_barycentrics_adjoint(
                pixels, triangle, fragments, b_bar * (1.0 - sums.steepness)
            )
            if sums.steepness > 0:
                corner0, corner1, corner2 = lane_corners(pixels, triangle)
                a0_average_term, a1_average_term, a2_average_term, inverse_sigma_bar = edge_average_point.vjp(
                    (corner0, corner1, corner2, tile.inverse_sigma), b_bar * sums.steepness
                )
                a0_bar += a0_average_term
                a1_bar += a1_average_term
                a2_bar += a2_average_term
                sigma_bar += inverse_sigma_bar * (-tile.inverse_sigma * tile.inverse_sigma)
                sums.steepness_bar += b_bar.dot(edge_average - fragments.barycentrics).sum()
            logit_bar = fragments.log_derivative * log_weight_bar
            a0_distance_term, a1_distance_term, a2_distance_term = lane_distance_adjoint(
                pixels, triangle, fragments, logit_bar, tile.inverse_sigma
            )
            a0_bar += a0_term + a0_distance_term
            a1_bar += a1_term + a1_distance_term
            a2_bar += a2_term + a2_distance_term
            sigma_bar += logit_bar * fragments.logit * (0.0 - tile.inverse_sigma)
        sums.lane_a0_bar += a0_bar
        sums.lane_a1_bar += a1_bar
        sums.lane_a2_bar += a2_bar
        sums.lane_fade_sigma_beta_bar[0] += fade_bar
        sums.lane_fade_sigma_beta_bar[1] += sigma_bar
        # A shift of all corners is the opposite shift of the pixel.
        if self.faces.flags[FLAG.distorted] == 1:
            shift_bar = a0_bar + a1_bar + a2_bar
            for lane in range(LANES):
                if lanes.is_active[lane] > 0:
                    for k in ti.static(range(2)):
                        self.bars.centres[tile.image, lanes.pixel.y, lanes.pixel.x + lane, k] -= shift_bar[k][lane]

    @ti.func
    def fragment_weights(self, tile: ti.template(), face: ti.template(), lanes: ti.template(), fragments: ti.template(), z):
        """Weights w of the fragments in the softmax, and zmin - z [m]."""
        index = lanes.pixel.row * (STATE_SIZE * tile.side) + lanes.pixel.column
        depth_advantage = load_lanes(self.lane_state, index + MIN_DEPTH * tile.side) - z
        probability = fragments.sigmoid * (lanes.is_active * face.fade)
        exponent = depth_advantage * tile.inverse_temperature - fragments.tail_exponent
        counts = ti.select(probability > MIN_PROBABILITY, exponent, MIN_LANE_EXPONENT) > ti.static(min_exponent())
        weight_sum = ti.select(counts, load_lanes(self.lane_state, index + WEIGHT * tile.side), 1.0)
        weight = probability * exp_lanes(max_lanes(exponent, constant_lanes(MIN_LANE_EXPONENT))) / weight_sum
        return ti.select(counts, weight, 0.0), ti.select(counts, depth_advantage, 0.0)

    @ti.func
    def lane_colour_adjoint(
        self, tile: ti.template(), face: ti.template(), lanes: ti.template(), r: ti.template(), z, weight, depth_advantage
    ):
        """``colour_adjoint``: returns the adjoints of log D_j and of the barycentrics."""
        faces, sums, step = self.faces, face.state, tile.side
        state_index = lanes.pixel.row * (STATE_SIZE * step) + COLOUR * step + lanes.pixel.column
        bar_index = lanes.pixel.row * (PIXEL_BAR_SIZE * step) + COLOUR_BAR * step + lanes.pixel.column
        c_in_bar, inner_colour = zero_lane_vector(), zero_lane_vector()
        for k in ti.static(range(3)):
            c_in_bar[k] = ti.select(weight > 0.0, load_lanes(self.lane_bar, bar_index + k * step), 0.0)
            inner_colour[k] = ti.select(weight > 0.0, load_lanes(self.lane_state, state_index + k * step), 0.0)
        colour_bar = c_in_bar * weight
        surface = lane_colours_adjoint(
            faces, self.bars, tile.slot, sums.attributes, tile.image, weight, r, z, colour_bar
        )
        log_weight_bar = colour_bar.dot(surface.colour - inner_colour)
        sums.lane_fade_sigma_beta_bar[2] += log_weight_bar * depth_advantage
        if ti.static(faces.shading != DEPTH and faces.shading != NORMAL):
            _add_outer(sums.lane_albedo_bar, surface.albedo, r)
            if sums.attributes.texture >= 0:
                _add_outer(sums.lane_uv_bar, surface.uv, r)
        if ti.static(faces.shading != DEPTH and faces.shading != UNLIT):
            _add_outer(sums.lane_normals_bar, surface.normal, r)
            if faces.flags[FLAG.position] == 1:
                _add_outer(sums.lane_points_bar, surface.point, r)
        # r = z ratio, ratio = b / depths, z = 1 / sum(ratio), and the depth order adds to the adjoint of z.
        z_bar = surface.z - log_weight_bar * tile.inverse_temperature
        shift, inverse_depths = surface.r.dot(r) + z * z_bar, face.triangle.inverse_depths
        b_bar = LaneVector(
            z * (surface.r[0] - shift) * inverse_depths[0], z * (surface.r[1] - shift) * inverse_depths[1],
            z * (surface.r[2] - shift) * inverse_depths[2],
        )  # fmt: skip
        return log_weight_bar, b_bar

    @ti.func
    def end_face(self, tile: ti.template(), face: ti.template()):
        """Add the sums of the face."""
        sums = face.state
        sums.a0_bar += _sum2(sums.lane_a0_bar)
        sums.a1_bar += _sum2(sums.lane_a1_bar)
        sums.a2_bar += _sum2(sums.lane_a2_bar)
        sums.depths_bar += _sum3(sums.lane_depths_bar)
        fade_sigma_beta_bar = _sum3(sums.lane_fade_sigma_beta_bar)
        sums.fade_bar += fade_sigma_beta_bar[0]
        tile.state.sigma_bar += fade_sigma_beta_bar[1]
        tile.state.beta_bar += fade_sigma_beta_bar[2]
        if ti.static(self.faces.shading != DEPTH and self.faces.shading != NORMAL):
            sums.albedo_bar += _sum9(sums.lane_albedo_bar)
            if sums.attributes.texture >= 0:
                sums.uv_bar += _sum9(sums.lane_uv_bar)
        if ti.static(self.faces.shading != DEPTH and self.faces.shading != UNLIT):
            sums.normals_bar += _sum9(sums.lane_normals_bar)
            sums.points_bar += _sum9(sums.lane_points_bar)
        self.add_face_sums(tile, face)


@with_vector_code
@kernel
def rasterise_adjoint_lanes(
    serial: ti.template(), faces: Faces, tiles: Tiles, pixel_state: ti.types.ndarray(), pixel_bar: ti.types.ndarray(),
    lane_state: ti.types.ndarray(), lane_bar: ti.types.ndarray(), pictures_bar: ti.types.ndarray(),
    backdrop_bar: ti.types.ndarray(), bars: FaceArrays,
):  # fmt: skip
    """``softras_adjoint.rasterise_adjoint`` of pictures of ``rasterise_lanes``; compiled ``with_vector_code``.

    Reads and writes as ``rasterise_adjoint``; lane_state and lane_bar are pixel_state and pixel_bar as flat arrays.
    """
    ti.loop_config(serialize=serial)
    walk(
        faces, tiles, pictures_bar.shape[2], pictures_bar.shape[1],
        BlendingAdjointLanes(
            faces, pixel_state, pixel_bar, pictures_bar, backdrop_bar, bars, lane_state=lane_state, lane_bar=lane_bar
        ),
    )  # fmt: skip
