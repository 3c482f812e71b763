"""Adjoint of the soft rasteriser.

With I_bar and A_bar the picture's adjoint: Cin_bar = A I_bar, a_bar = A_bar + I_bar . (C_in - C_back) (softmax: I_bar and A_bar;
the derivatives of A are in ``coverage``), w_j = D_j e_j / S, G_j = Cin_bar . (c_j - C_in):

    c_j_bar = w_j Cin_bar,   log D_j: L_j = w_j G_j,   x_j_bar = dlog D_j/dx_j L_j
    z_j_bar = -beta w_j G_j,   beta_bar = sum_j w_j G_j (zmin - z_j),   sigma_bar = -sum_j x_j_bar x_j / sigma

with the logit x_j = +-d^2 / sigma; the backdrop has the weight (e_g + e_b) / S. Fragments are recomputed; a face's adjoints are
summed over the tile's pixels before they are added to memory that tiles share. Given the pixels' adjoints, faces are independent
of each other, so that several threads of a GPU share the faces of a tile (``rasterise_adjoint_in_parts``).
"""

from typing import Any

from ti_render.arrays import FLAG, UNIFORM, FaceArrays, Faces
from ti_render.backdrop.backdrop import backdrop_weights, inverse_ground_depth, min_exponent
from ti_render.raster.coverage import face_coverage, face_coverage_gradient, union_coverage_gradient
from ti_render.raster.edge_on import edge_average_point, face_steepness_gradient, mixed_barycentrics
from ti_render.raster.fragment import barycentrics_adjoint, distance_adjoint, fragment_at, perspective, vec2
from ti_render.raster.softras import BACK, FRONT, WEIGHT, depth_advantage, inner_colour, pixel_alpha
from ti_render.raster.tiles import Tiles
from ti_render.raster.walk import MIN_PROBABILITY, TileParts, TilePass, walk, walk_face_parts, walk_pixel_parts
from ti_render.rows import has_nonzero
from ti_render.shading.reflection import UNLIT, add3, add_light_sums, make_light_sums
from ti_render.shading.surface import DEPTH, NORMAL, add_attribute_adjoints, face_attributes, surface_adjoint, surface_colour
from ti_render.shading.uniforms import uniform3
from ti_sim.base.bundles import bundle, kernel
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import mat3, outer, vec3

# Columns of pixel_bar: Cin_bar, and the adjoints of the sums over front and back faces.
COLOUR_BAR, FRONT_BAR, BACK_BAR = 0, 3, 4
PIXEL_BAR_SIZE = 5


@ti.func
def _split_pixel_adjoint(
    pixel_state: ti.template(), pixel_bar: ti.template(), pixel: ti.template(), c_back, colour_bar, alpha_bar, strict
):
    """Split a pixel's adjoint: writes Cin_bar and the adjoints of the sums of ``coverage``, returns Cin_bar and C_back_bar."""
    alpha = pixel_alpha(pixel_state, pixel)
    c_in_bar, c_back_bar, coverage_bar = colour_bar, vec3(0), alpha_bar
    if strict == 0:
        coverage_bar += colour_bar.dot(inner_colour(pixel_state, pixel) - c_back)
        c_in_bar = colour_bar * alpha
        c_back_bar = colour_bar * (1.0 - alpha)
    for k in ti.static(range(3)):
        pixel_bar[pixel.row, COLOUR_BAR + k, pixel.column] = c_in_bar[k]
    front_derivative, back_derivative = union_coverage_gradient(
        pixel_state[pixel.row, FRONT, pixel.column], pixel_state[pixel.row, BACK, pixel.column]
    )
    pixel_bar[pixel.row, FRONT_BAR, pixel.column] = coverage_bar * front_derivative
    pixel_bar[pixel.row, BACK_BAR, pixel.column] = coverage_bar * back_derivative
    return c_in_bar, c_back_bar


@ti.func
def add_screen(faces: ti.template(), bars: ti.template(), m, f, a0_bar, a1_bar, a2_bar, depths_bar):
    """Add the adjoints of a face's screen corners and depths, if any is not zero (a hidden face has no silhouette)."""
    if has_nonzero(a0_bar) or has_nonzero(a1_bar) or has_nonzero(a2_bar) or has_nonzero(depths_bar):
        for k in ti.static(range(2)):
            bars.screen[m, faces.corners[f, 0], k] += a0_bar[k]
            bars.screen[m, faces.corners[f, 1], k] += a1_bar[k]
            bars.screen[m, faces.corners[f, 2], k] += a2_bar[k]
        for k in ti.static(range(3)):
            bars.screen[m, faces.corners[f, k], 2] += depths_bar[k]


@bundle
class TileSums:
    """Adjoints of sigma, beta and the ground's plane, summed over a tile; exist while a kernel is compiled."""

    sigma_bar: Any
    beta_bar: Any
    plane_bar: Any


@bundle
class FaceSums:
    """State of ``BlendingAdjoint`` for a face, while a kernel is compiled: values that its pixels read, and sums over them.

    Attributes:
        attributes: its ``Attributes``.
        steepness, steepness_by_a0, steepness_by_a1, steepness_by_a2, steepness_by_depths: its steepness, and the derivatives by
            its corners and depths (``face_steepness_gradient``).
        side_column: column of its side in pixel_bar.
        a0_bar, a1_bar, a2_bar, depths_bar, fade_bar, steepness_bar: sums of the adjoints of its corners, depths, fade and
            steepness.
        albedo_bar, uv_bar, normals_bar, points_bar: sums of the adjoints of its attributes.
        lights: ``LightSums``.
    """

    attributes: Any
    steepness: Any
    steepness_by_a0: Any
    steepness_by_a1: Any
    steepness_by_a2: Any
    steepness_by_depths: Any
    side_column: Any
    a0_bar: Any
    a1_bar: Any
    a2_bar: Any
    depths_bar: Any
    fade_bar: Any
    steepness_bar: Any
    albedo_bar: Any
    uv_bar: Any
    normals_bar: Any
    points_bar: Any
    lights: Any


@bundle
class BlendingAdjoint(TilePass):
    """The pass of ``rasterise_adjoint``."""

    faces: Any
    pixel_state: Any
    pixel_bar: Any
    pictures_bar: Any
    backdrop_bar: Any
    bars: Any
    empty_tiles = True

    @ti.func
    def begin_tile(self, tile: ti.template()):
        """Sums of the tile."""
        sigma_bar, beta_bar, plane_bar = 0.0, 0.0, vec3(0)
        return TileSums(sigma_bar, beta_bar, plane_bar)

    @ti.func
    def begin_pixel(self, tile: ti.template(), pixel: ti.template()):
        """Split the pixel's adjoint between the faces and the backdrop, whose colour backdrop_bar holds before."""
        m, x, y = tile.image, pixel.x, pixel.y
        c_back_bar = vec3(self.pictures_bar[m, y, x, 0], self.pictures_bar[m, y, x, 1], self.pictures_bar[m, y, x, 2])
        if tile.slot >= 0:
            c_back = vec3(self.backdrop_bar[m, y, x, 0], self.backdrop_bar[m, y, x, 1], self.backdrop_bar[m, y, x, 2])
            alpha_bar = self.pictures_bar[m, y, x, 3]
            c_in_bar, direct_c_back_bar = _split_pixel_adjoint(
                self.pixel_state, self.pixel_bar, pixel, c_back, c_back_bar, alpha_bar, self.faces.softmax_only
            )
            c_back_bar = direct_c_back_bar + self.backdrop_adjoint(tile, pixel, c_back, c_in_bar)
        for k in ti.static(range(3)):
            self.backdrop_bar[m, y, x, k] = c_back_bar[k]

    @ti.func
    def backdrop_adjoint(self, tile: ti.template(), pixel: ti.template(), c_back, c_in_bar):
        """Adjoint of the backdrop's term in the softmax: returns that of its colour."""
        faces, sums, beta = self.faces, tile.state, tile.inverse_temperature
        c_back_bar, inverse_depth = vec3(0), inverse_ground_depth(faces, tile.image, pixel.centre)
        depth, e_ground, e_background = backdrop_weights(faces, inverse_depth, beta, 0)
        exponent = depth_advantage(self.pixel_state, pixel, depth) * beta
        if exponent > ti.static(min_exponent()):
            weight = ti.exp(exponent) / self.pixel_state[pixel.row, WEIGHT, pixel.column]
            c_back_bar = c_in_bar * (weight * (e_ground + e_background))
            log_weight_bar = weight * c_in_bar.dot(c_back - inner_colour(self.pixel_state, pixel))
            sums.beta_bar += (
                log_weight_bar * e_background * depth_advantage(self.pixel_state, pixel, faces.background_depth)
            )
            if e_ground > 0:
                z = 1.0 / inverse_depth
                sums.beta_bar += log_weight_bar * e_ground * depth_advantage(self.pixel_state, pixel, z)
                inverse_depth_bar = log_weight_bar * e_ground * beta * z * z
                sums.plane_bar += vec3(pixel.centre[0], pixel.centre[1], 1.0) * inverse_depth_bar
                if faces.flags[FLAG.distorted] == 1:
                    plane = uniform3(faces.uniforms, tile.image, UNIFORM.plane)
                    self.bars.centres[tile.image, pixel.y, pixel.x, 0] += plane[0] * inverse_depth_bar
                    self.bars.centres[tile.image, pixel.y, pixel.x, 1] += plane[1] * inverse_depth_bar
        return c_back_bar

    @ti.func
    def begin_face(self, tile: ti.template(), face: ti.template()):
        """Attributes, steepness and side of the face, and its sums."""
        return self.face_sums(tile, face)

    @ti.func
    def face_sums(self, tile: ti.template(), face: ti.template()):
        """``FaceSums`` at the start."""
        triangle = face.triangle
        steepness, steepness_by_a0, steepness_by_a1, steepness_by_a2, steepness_by_depths = face_steepness_gradient(
            triangle.a0, triangle.a1, triangle.a2, triangle.inverse_depths, self.faces.edge_on_slope
        )
        attributes = face_attributes(self.faces, tile.image, face.number)
        side_column = FRONT_BAR
        if face.code < 0:
            side_column = BACK_BAR
        a0_bar, a1_bar, a2_bar, depths_bar, fade_bar, steepness_bar = vec2(0), vec2(0), vec2(0), vec3(0), 0.0, 0.0
        albedo_bar, uv_bar, normals_bar, points_bar = mat3(0), mat3(0), mat3(0), mat3(0)
        return FaceSums(
            attributes, steepness, steepness_by_a0, steepness_by_a1, steepness_by_a2, steepness_by_depths, side_column,
            a0_bar, a1_bar, a2_bar, depths_bar, fade_bar, steepness_bar, albedo_bar, uv_bar, normals_bar, points_bar,
            make_light_sums(),
        )  # fmt: skip

    @ti.func
    def visit(self, tile: ti.template(), face: ti.template(), pixel: ti.template()):
        """Adjoints of coverage and colour of a fragment."""
        p, sums, triangle = pixel.centre, face.state, face.triangle
        fragment = fragment_at(p, triangle, tile.radius, tile.inverse_sigma)
        a0_bar, a1_bar, a2_bar = vec2(0), vec2(0), vec2(0)
        coverage_bar = face.fade * self.pixel_bar[pixel.row, sums.side_column, pixel.column]
        if coverage_bar != 0 and ti.abs(face.code) & 7 != 0:
            gradient = face_coverage_gradient(p, triangle, fragment.distances, face.code, tile.radius)
            a0_bar, a1_bar, a2_bar = gradient.a0 * coverage_bar, gradient.a1 * coverage_bar, gradient.a2 * coverage_bar
            tile.state.sigma_bar += gradient.sigma * tile.inverse_sigma * coverage_bar
            if face.fade < 1:
                sums.fade_bar += coverage_bar * face_coverage(p, triangle, fragment.distances, face.code, tile.radius)
        probability = fragment.sigmoid * face.fade
        # A face so far behind that its softmax weight is zero has no colour.
        min_depth = ti.min(triangle.depths[0], triangle.depths[1], triangle.depths[2])
        advantage = depth_advantage(self.pixel_state, pixel, min_depth) * tile.inverse_temperature
        if probability > MIN_PROBABILITY and advantage > ti.static(min_exponent()):
            log_probability_bar = 0.0
            mixed, edge_average = mixed_barycentrics(p, triangle, fragment.barycentrics, sums.steepness, tile.inverse_sigma)
            r, z = perspective(mixed, triangle.inverse_depths)
            exponent = depth_advantage(self.pixel_state, pixel, z) * tile.inverse_temperature - fragment.tail_exponent
            if exponent > ti.static(min_exponent()):
                weight = probability * ti.exp(exponent) / self.pixel_state[pixel.row, WEIGHT, pixel.column]
                c_in_bar = vec3(0)
                for k in ti.static(range(3)):
                    c_in_bar[k] = self.pixel_bar[pixel.row, COLOUR_BAR + k, pixel.column]
                if weight > 0 and (c_in_bar[0] != 0 or c_in_bar[1] != 0 or c_in_bar[2] != 0):
                    log_weight_bar, b_bar = self.colour_adjoint(tile, face, pixel, r, z, c_in_bar, weight)
                    log_probability_bar += log_weight_bar
                    sums.depths_bar += b_bar * mixed * triangle.inverse_depths * -1.0
                    a0_term, a1_term, a2_term = barycentrics_adjoint(p, triangle, fragment, b_bar * (1.0 - sums.steepness))
                    a0_bar += a0_term
                    a1_bar += a1_term
                    a2_bar += a2_term
                    if sums.steepness > 0:
                        edge_average_args = (triangle.a0 - p, triangle.a1 - p, triangle.a2 - p, tile.inverse_sigma)
                        a0_average_term, a1_average_term, a2_average_term, inverse_sigma_bar = edge_average_point.vjp(
                            edge_average_args, b_bar * sums.steepness
                        )
                        a0_bar += a0_average_term
                        a1_bar += a1_average_term
                        a2_bar += a2_average_term
                        tile.state.sigma_bar -= inverse_sigma_bar * tile.inverse_sigma * tile.inverse_sigma
                        sums.steepness_bar += b_bar.dot(edge_average - fragment.barycentrics)
            sums.fade_bar += log_probability_bar
            logit_bar = fragment.log_derivative * log_probability_bar
            if logit_bar != 0:
                a0_term, a1_term, a2_term = distance_adjoint(p, triangle, fragment, logit_bar, tile.inverse_sigma)
                a0_bar += a0_term
                a1_bar += a1_term
                a2_bar += a2_term
                tile.state.sigma_bar -= logit_bar * fragment.logit * tile.inverse_sigma
        sums.a0_bar += a0_bar
        sums.a1_bar += a1_bar
        sums.a2_bar += a2_bar
        # A shift of all corners is the opposite shift of the pixel.
        if self.faces.flags[FLAG.distorted] == 1:
            for k in ti.static(range(2)):
                self.bars.centres[tile.image, pixel.y, pixel.x, k] -= a0_bar[k] + a1_bar[k] + a2_bar[k]

    @ti.func
    def colour_adjoint(self, tile: ti.template(), face: ti.template(), pixel: ti.template(), r, z, c_in_bar, weight):
        """Adjoint of a fragment's colour and of its weight in the softmax: returns those of log D_j and of the barycentrics."""
        faces, sums, m = self.faces, face.state, tile.image
        colour = surface_colour(faces, sums.attributes, m, r, z)
        log_weight_bar = weight * c_in_bar.dot(colour - inner_colour(self.pixel_state, pixel))
        tile.state.beta_bar += log_weight_bar * depth_advantage(self.pixel_state, pixel, z)
        r_bar, albedo_bar, uv_bar, normal_bar, point_bar, z_bar = surface_adjoint(
            faces, self.bars, tile.row, sums.lights, sums.attributes, m, r, c_in_bar * weight
        )
        if ti.static(faces.shading != DEPTH and faces.shading != NORMAL):
            sums.albedo_bar += outer(albedo_bar, r)
            if sums.attributes.texture >= 0:
                sums.uv_bar += outer(uv_bar, r)
        if ti.static(faces.shading != DEPTH and faces.shading != UNLIT):
            sums.normals_bar += outer(normal_bar, r)
            sums.points_bar += outer(point_bar, r)
        # r = z ratio, ratio = b / depths, z = 1 / sum(ratio), and the depth order adds to the adjoint of z.
        z_bar -= log_weight_bar * tile.inverse_temperature
        ratio_bar = z * (r_bar - r_bar.dot(r)) - z * z * z_bar
        return log_weight_bar, ratio_bar * face.triangle.inverse_depths

    @ti.func
    def end_face(self, tile: ti.template(), face: ti.template()):
        """Add the sums of the face."""
        self.add_face_sums(tile, face)
        add_light_sums(self.faces, self.bars, tile.row, face.state.attributes.material, face.state.lights)

    @ti.func
    def add_face_sums(self, tile: ti.template(), face: ti.template()):
        """Add the sums of the face to the adjoints that tiles share."""
        sums, m, f = face.state, tile.image, face.number
        sums.depths_bar += face.log_fade_gradient * sums.fade_bar + sums.steepness_by_depths * sums.steepness_bar
        sums.a0_bar += sums.steepness_by_a0 * sums.steepness_bar
        sums.a1_bar += sums.steepness_by_a1 * sums.steepness_bar
        sums.a2_bar += sums.steepness_by_a2 * sums.steepness_bar
        add_screen(self.faces, self.bars, m, f, sums.a0_bar, sums.a1_bar, sums.a2_bar, sums.depths_bar)
        add_attribute_adjoints(self.faces, self.bars, m, f, sums.albedo_bar, sums.uv_bar, sums.normals_bar, sums.points_bar)

    @ti.func
    def end_tile(self, tile: ti.template()):
        """Add the sums of the tile, or of its part, to its row of the uniforms' adjoints."""
        bars, row, sums = self.bars, tile.row, tile.state
        add3(bars.uniforms, row, UNIFORM.plane, sums.plane_bar)
        bars.uniforms[row, UNIFORM.sigma] = bars.uniforms[row, UNIFORM.sigma] + sums.sigma_bar
        gamma_bar = sums.beta_bar * tile.inverse_temperature / self.faces.uniforms[tile.image, UNIFORM.gamma]
        bars.uniforms[row, UNIFORM.gamma] = bars.uniforms[row, UNIFORM.gamma] - gamma_bar


@kernel
def rasterise_adjoint(
    serial: ti.template(), faces: Faces, tiles: Tiles, pixel_state: ti.types.ndarray(), pixel_bar: ti.types.ndarray(),
    pictures_bar: ti.types.ndarray(), backdrop_bar: ti.types.ndarray(), bars: FaceArrays,
):  # fmt: skip
    """Adjoint of ``rasterise`` from pictures_bar [M, H, W, 4].

    Writes pixel_bar [occupied side, 5, side] (workspace) and turns backdrop_bar [M, H, W, 3], which holds the backdrop's colours,
    into their adjoint. Adds to ``bars``, of which the uniforms have a row [occupied, U] for each tile that has faces.
    """
    ti.loop_config(serialize=serial)
    walk(
        faces, tiles, pictures_bar.shape[2], pictures_bar.shape[1],
        BlendingAdjoint(faces, pixel_state, pixel_bar, pictures_bar, backdrop_bar, bars),
    )  # fmt: skip


@kernel
def rasterise_adjoint_in_parts(
    faces: Faces, tiles: Tiles, parts: TileParts, pixel_state: ti.types.ndarray(), pixel_bar: ti.types.ndarray(),
    pictures_bar: ti.types.ndarray(), backdrop_bar: ti.types.ndarray(), bars: FaceArrays,
):  # fmt: skip
    """``rasterise_adjoint`` for a GPU: ``bars.uniforms`` [occupied parts, U] has a row for each part of a tile that has faces."""
    tile_pass = BlendingAdjoint(faces, pixel_state, pixel_bar, pictures_bar, backdrop_bar, bars)
    walk_pixel_parts(faces, tiles, parts, pictures_bar.shape[2], pictures_bar.shape[1], tile_pass)
    walk_face_parts(faces, tiles, parts, pictures_bar.shape[2], pictures_bar.shape[1], tile_pass)
