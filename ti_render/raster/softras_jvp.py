"""Tangent of the soft rasteriser: the derivatives of every picture along K directions in one pass.

In the terms of ``softras_adjoint``, each fragment adds to every column

    rgb:  A w_j (c_j_dot + (c_j - C_in) (log D_j_dot + (zmin - z_j) beta_dot - beta z_j_dot)) + A_j_dot (C_in - C_back)
    alpha:  A_j_dot, the face's contribution to the tangent of the coverage (``coverage``)

(composite "softmax": factor 1 instead of A, no second term), and so does the backdrop. Fragments are computed once for all
columns.
"""

from typing import Any

from ti_render.arrays import BACKDROP_COLUMN, MOVING_COLUMN, UNIFORM, FaceArrays, Faces, FaceTangentWork
from ti_render.backdrop.backdrop import backdrop_weights, inverse_ground_depth, min_exponent
from ti_render.backdrop.backdrop_jvp import inverse_depth_tangent, inverse_temperature_tangent, pixel_tangent
from ti_render.raster.coverage import face_coverage, face_coverage_gradient, union_coverage_gradient
from ti_render.raster.edge_on import edge_average_point, face_steepness_gradient, mixed_barycentrics
from ti_render.raster.fragment import distance_gradient, fragment_at, perspective
from ti_render.raster.fragment_tangent import (
    add_colour_tangent,
    barycentrics_tangent,
    corner_tangents,
    coverage_tangent,
    dot_entry,
    perspective_tangent,
    tangent_entry,
    tangent_rows,
)
from ti_render.raster.softras import BACK, FRONT, WEIGHT, depth_advantage, inner_colour, pixel_alpha
from ti_render.raster.tiles import Tiles
from ti_render.raster.walk import MIN_PROBABILITY, TilePass, walk
from ti_render.rows import get3, put3
from ti_render.shading.reflection import SCRATCH
from ti_render.shading.surface import (
    face_attributes,
    gather_face_tangents,
    surface_colour,
    surface_columns,
)
from ti_sim.base.bundles import bundle, kernel
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3


@bundle
class SteepFace:
    """State of ``BlendingTangents`` for a face: its ``Attributes``, steepness and derivatives (``face_steepness_gradient``)."""

    attributes: Any
    steepness: Any
    steepness_by_a0: Any
    steepness_by_a1: Any
    steepness_by_a2: Any
    steepness_by_depths: Any


@bundle
class BlendingTangents(TilePass):
    """The pass of ``rasterise_jvp``."""

    faces: Any
    pixel_state: Any
    backdrop: Any
    dots: Any
    work: Any
    pixel_dot: Any
    pictures_dot: Any

    @ti.func
    def begin_tile(self, tile: ti.template()):
        """``TangentRows`` of the tile."""
        return tangent_rows(self.work, tile.slot)

    @ti.func
    def begin_pixel(self, tile: ti.template(), pixel: ti.template()):
        """Start the sums over the faces."""
        for c in range(tile.state.columns):
            first = dot_entry(tile, pixel, c)
            for k in ti.static(range(4)):
                self.pixel_dot[first + k * tile.side] = 0.0

    @ti.func
    def backdrop_colour(self, m, pixel: ti.template()):
        """C_back of the pixel."""
        x, y = pixel.x, pixel.y
        return vec3(self.backdrop[m, y, x, 0], self.backdrop[m, y, x, 1], self.backdrop[m, y, x, 2])

    @ti.func
    def begin_face(self, tile: ti.template(), face: ti.template()):
        """Attributes and steepness of the face; gathers the tangents of its corners."""
        triangle = face.triangle
        steepness, steepness_by_a0, steepness_by_a1, steepness_by_a2, steepness_by_depths = face_steepness_gradient(
            triangle.a0, triangle.a1, triangle.a2, triangle.inverse_depths, self.faces.edge_on_slope
        )
        attributes = face_attributes(self.faces, tile.image, face.number)
        gather_face_tangents(self.faces, self.dots, self.work, tile.state.face_offset, tile.image, face.number)
        return SteepFace(attributes, steepness, steepness_by_a0, steepness_by_a1, steepness_by_a2, steepness_by_depths)

    @ti.func
    def visit(self, tile: ti.template(), face: ti.template(), pixel: ti.template()):
        """Add a fragment's contribution to the tangents of the pixel to pixel_dot."""
        p, m, triangle, state = pixel.centre, tile.image, face.triangle, face.state
        fragment = fragment_at(p, triangle, tile.radius, tile.inverse_sigma)
        c_in = inner_colour(self.pixel_state, pixel)
        if tile.state.any_moving == 1 and face.fade > 0 and ti.abs(face.code) & 7 != 0:
            colour_difference = vec3(0)
            if self.faces.softmax_only == 0:
                colour_difference = c_in - self.backdrop_colour(m, pixel)
            self.add_coverage(tile, face, pixel, fragment.distances, colour_difference)
        probability = fragment.sigmoid * face.fade
        if probability > MIN_PROBABILITY:
            mixed, edge_average = mixed_barycentrics(p, triangle, fragment.barycentrics, state.steepness, tile.inverse_sigma)
            r, z = perspective(mixed, triangle.inverse_depths)
            exponent = depth_advantage(self.pixel_state, pixel, z) * tile.inverse_temperature - fragment.tail_exponent
            weight = 0.0
            if exponent > ti.static(min_exponent()):
                weight = probability * ti.exp(exponent) / self.pixel_state[pixel.row, WEIGHT, pixel.column]
                if self.faces.softmax_only == 0:
                    weight *= pixel_alpha(self.pixel_state, pixel)
            if weight > 0:
                colour_difference = vec3(0)
                if tile.state.any_moving == 1:
                    colour_difference = surface_colour(self.faces, state.attributes, m, r, z) - c_in
                    self.write_fragment_tangents(tile, face, pixel, fragment, mixed, edge_average, r, z)
                offsets = tile.state
                surface_columns(
                    self.faces, self.dots, self.work, offsets.scratch_offset, offsets.face_offset, state.attributes, m, r
                )
                self.add_colour(tile, pixel, weight, colour_difference)

    @ti.func
    def write_fragment_tangents(
        self, tile: ti.template(), face: ti.template(), pixel: ti.template(), fragment: ti.template(), mixed, edge_average, r, z
    ):
        """Write the tangents of log w, r and z to scratch, in the columns that move vertices or camera.

        Args:
            tile, face, pixel, fragment: of the fragment.
            mixed, edge_average: of ``mixed_barycentrics``.
            r, z: of ``perspective``.
        """
        p, m, triangle, state, beta = pixel.centre, tile.image, face.triangle, face.state, tile.inverse_temperature
        gradient, boundary_barycentrics = distance_gradient(p, triangle, fragment, tile.inverse_sigma)
        for c in range(tile.state.columns):
            if self.work.column_flags[c] & MOVING_COLUMN != 0:
                offset, row = tile.state.scratch_offset + c * SCRATCH.size, m * tile.state.columns + c
                sigma_dot = self.dots.uniforms[row, UNIFORM.sigma]
                p_dot = pixel_tangent(self.faces, self.dots, m, c, pixel.y, pixel.x)
                a0_dot, a1_dot, a2_dot, depths_dot = corner_tangents(self.work.face_dot, tile.state.face_offset, c, p_dot)
                log_weight_dot = fragment.log_derivative * gradient.dot(
                    a0_dot * boundary_barycentrics[0] + a1_dot * boundary_barycentrics[1] + a2_dot * boundary_barycentrics[2]
                )
                log_weight_dot += (
                    face.log_fade_gradient.dot(depths_dot)
                    - fragment.log_derivative * fragment.logit * tile.inverse_sigma * sigma_dot
                )
                b_dot = barycentrics_tangent(p, triangle, fragment, a0_dot, a1_dot, a2_dot)
                if state.steepness > 0:
                    edge_average_dot = edge_average_point.jvp(
                        (triangle.a0 - p, triangle.a1 - p, triangle.a2 - p, tile.inverse_sigma),
                        (a0_dot, a1_dot, a2_dot, -tile.inverse_sigma * tile.inverse_sigma * sigma_dot),
                    )
                    steepness_dot = (
                        state.steepness_by_a0.dot(a0_dot)
                        + state.steepness_by_a1.dot(a1_dot)
                        + state.steepness_by_a2.dot(a2_dot)
                    )
                    steepness_dot += state.steepness_by_depths.dot(depths_dot)
                    b_dot += (edge_average_dot - b_dot) * state.steepness + (
                        edge_average - fragment.barycentrics
                    ) * steepness_dot
                r_dot, z_dot = perspective_tangent(mixed, r, z, triangle.inverse_depths, b_dot, depths_dot)
                beta_dot = inverse_temperature_tangent(self.faces, self.dots, m, row, beta)
                log_weight_dot += depth_advantage(self.pixel_state, pixel, z) * beta_dot - beta * z_dot
                put3(self.work.scratch, offset + SCRATCH.r_dot, r_dot)
                self.work.scratch[offset + SCRATCH.z_dot] = z_dot
                self.work.scratch[offset + SCRATCH.log_weight_dot] = log_weight_dot

    @ti.func
    def add_colour(self, tile: ti.template(), pixel: ti.template(), weight, colour_difference):
        """Add the contribution of a fragment's colour and weight to the tangents of a pixel to pixel_dot."""
        for c in range(tile.state.columns):
            offset, result = tile.state.scratch_offset + c * SCRATCH.size, vec3(0)
            if self.work.column_flags[c] != 0:
                result = get3(self.work.scratch, offset + SCRATCH.colour_dot)
                if self.work.column_flags[c] & MOVING_COLUMN != 0:
                    result += self.work.scratch[offset + SCRATCH.log_weight_dot] * colour_difference
                add_colour_tangent(self.pixel_dot, tile, pixel, c, weight * result)

    @ti.func
    def add_coverage(self, tile: ti.template(), face: ti.template(), pixel: ti.template(), distances, colour_difference):
        """Add a face's contribution to the coverage's tangent to pixel_dot; ``colour_difference`` is d(colour) / d(coverage)."""
        p, triangle, code = pixel.centre, face.triangle, face.code
        front_derivative, back_derivative = union_coverage_gradient(
            self.pixel_state[pixel.row, FRONT, pixel.column], self.pixel_state[pixel.row, BACK, pixel.column]
        )
        if (code > 0 and front_derivative > 0) or (code < 0 and back_derivative > 0):
            gradient = face_coverage_gradient(p, triangle, distances, code, tile.radius)
            coverage = face_coverage(p, triangle, distances, code, tile.radius)
            for c in range(tile.state.columns):
                if self.work.column_flags[c] & MOVING_COLUMN != 0:
                    alpha_dot = coverage_tangent(self, tile, face, pixel, c, coverage, gradient)
                    alpha = dot_entry(tile, pixel, c) + 3 * tile.side
                    self.pixel_dot[alpha] = self.pixel_dot[alpha] + alpha_dot
                    add_colour_tangent(self.pixel_dot, tile, pixel, c, colour_difference * alpha_dot)

    @ti.func
    def end_pixel(self, tile: ti.template(), pixel: ti.template()):
        """Write the tangents of the pixel: the sums over the faces, and the backdrop's contribution."""
        faces, m, beta = self.faces, tile.image, tile.inverse_temperature
        inverse_depth = inverse_ground_depth(faces, m, pixel.centre)
        depth, e_ground, e_background = backdrop_weights(faces, inverse_depth, beta, 0)
        face_weight = pixel_alpha(self.pixel_state, pixel)
        if faces.softmax_only == 1:
            face_weight = 1.0
        weight, exponent = 0.0, depth_advantage(self.pixel_state, pixel, depth) * beta
        if exponent > ti.static(min_exponent()):
            weight = face_weight * ti.exp(exponent) / self.pixel_state[pixel.row, WEIGHT, pixel.column]
        colour_difference = (self.backdrop_colour(m, pixel) - inner_colour(self.pixel_state, pixel)) * weight
        backdrop_weight = 1.0 - face_weight + weight * (e_ground + e_background)
        for c in range(tile.state.columns):
            picture, first = tangent_entry(tile, pixel, c), dot_entry(tile, pixel, c)
            rgb_dot = get3(self.pictures_dot, picture) * backdrop_weight
            if self.work.column_flags[c] & (MOVING_COLUMN | BACKDROP_COLUMN) != 0:
                rgb_dot += colour_difference * self.backdrop_log_weight_tangent(
                    tile, pixel, c, inverse_depth, e_ground, e_background
                )
            for k in ti.static(range(3)):
                self.pictures_dot[picture + k] = rgb_dot[k] + self.pixel_dot[first + k * tile.side]
            self.pictures_dot[picture + 3] = self.pixel_dot[first + 3 * tile.side]

    @ti.func
    def backdrop_log_weight_tangent(
        self, tile: ti.template(), pixel: ti.template(), c, inverse_depth, e_ground, e_background
    ):
        """Tangent of the backdrop's sum e_g + e_b in column ``c``, relative to the greatest e."""
        faces, dots, m, beta = self.faces, self.dots, tile.image, tile.inverse_temperature
        row = m * tile.state.columns + c
        beta_dot = inverse_temperature_tangent(faces, dots, m, row, beta)
        result = e_background * depth_advantage(self.pixel_state, pixel, faces.background_depth) * beta_dot
        if e_ground > 0:
            z = 1.0 / inverse_depth
            p_dot = pixel_tangent(faces, dots, m, c, pixel.y, pixel.x)
            z_dot = -z * z * inverse_depth_tangent(faces, dots, m, row, pixel.centre, p_dot)
            result += e_ground * (depth_advantage(self.pixel_state, pixel, z) * beta_dot - beta * z_dot)
        return result


@kernel
def rasterise_jvp(
    faces: Faces, tiles: Tiles, pixel_state: ti.types.ndarray(), backdrop: ti.types.ndarray(), dots: FaceArrays,
    work: FaceTangentWork, pixel_dot: ti.types.ndarray(), width: int, height: int, pictures_dot: ti.types.ndarray(),
):  # fmt: skip
    """Turn pictures_dot [M K H W 4], a flat array of the backdrop's tangents, into those of the pictures.

    Reads the backdrop [M, H, W, 3], and of ``dots`` screen, vertices [M, V, K, 3], normals [M, G + F, K, 3], albedo
    [K, n, F, 3, 3], uv [K, n, F, 3, 2], texels [K, n, X, 3], uniforms [M K, U], maps [M L, K, R, R, 4], centres
    [M, K, H, W, 2]. pixel_dot [occupied side K 4 side], flat, is workspace.
    """
    walk(
        faces, tiles, width, height,
        BlendingTangents(faces, pixel_state, backdrop, dots, work, pixel_dot, pictures_dot),
    )  # fmt: skip
