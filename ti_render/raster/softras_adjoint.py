"""Adjoint of the soft rasteriser.

With I_bar and A_bar the picture's adjoint: Cin_bar = A I_bar, a_bar = A_bar + I_bar . (C_in - C_back) (softmax: I_bar and A_bar;
the path to the faces is in ``coverage``), w_j = D_j e_j / S, G_j = Cin_bar . (c_j - C_in):

    c_j_bar = w_j Cin_bar,   log D_j: L_j = w_j G_j,   x_j_bar = dlog D_j/dx_j L_j
    z_j_bar = -rate w_j G_j,   rate_bar = sum_j w_j G_j (zmin - z_j),   sigma_bar = -sum_j x_j_bar x_j / sigma

with x_j = +-d^2 / sigma; the backdrop takes part with weight (e_g + e_b) / S. Fragments are computed again; a face's adjoints are
summed over the tile's pixels before they are added to memory that tiles share.
"""

from typing import Any

from ti_render.arrays import FLAG, UNIFORM, FaceArrays, Faces
from ti_render.backdrop.backdrop import backdrop_weights, inverse_ground_depth, negligible
from ti_render.raster.coverage import face_coverage, face_coverage_rates, union_sides
from ti_render.raster.edge_on import even_point, mixed_barycentrics, steepness_rates
from ti_render.raster.fragment import barycentrics_adjoint, distance_adjoint, fragment, perspective, vec2
from ti_render.raster.softras import BACK, COLOUR, FRONT, MIN_DEPTH, STATE_SIZE, WEIGHT, pixel_alpha
from ti_render.raster.tiles import Tiles
from ti_render.raster.walk import NO_COVERAGE, TilePass, walk
from ti_render.rows import get3
from ti_render.shading.reflection import UNLIT, add3
from ti_render.shading.surface import DEPTH, NORMAL, add_attributes, face_attributes, surface_adjoint, surface_colour
from ti_render.shading.uniforms import uniform3
from ti_sim.base.bundles import bundle, kernel
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import mat3, outer, vec3

# Columns of the workspace of a pixel: Cin_bar, and the adjoints of the sums over front and back faces.
COLOUR_BAR, FRONT_BAR, BACK_BAR = 0, 3, 4
PIXEL_BAR_SIZE = 5


@ti.func
def _split(pixel_state: ti.template(), pixel_bar: ti.template(), i, c_back, colour_bar, alpha_bar, strict):
    """Split a pixel's adjoint: writes Cin_bar and the adjoints of the sums of ``coverage``, returns Cin_bar and C_back_bar."""
    alpha = pixel_alpha(pixel_state, i)
    in_bar, back_bar, mix_bar = colour_bar, vec3(0), alpha_bar
    if strict == 0:
        mix_bar += colour_bar.dot(get3(pixel_state, i * STATE_SIZE + COLOUR) - c_back)
        in_bar = colour_bar * alpha
        back_bar = colour_bar * (1.0 - alpha)
    for k in ti.static(range(3)):
        pixel_bar[i * PIXEL_BAR_SIZE + COLOUR_BAR + k] = in_bar[k]
    front_rate, back_rate = union_sides(pixel_state[i * STATE_SIZE + FRONT], pixel_state[i * STATE_SIZE + BACK])
    pixel_bar[i * PIXEL_BAR_SIZE + FRONT_BAR] = mix_bar * front_rate
    pixel_bar[i * PIXEL_BAR_SIZE + BACK_BAR] = mix_bar * back_rate
    return in_bar, back_bar


@ti.func
def add_screen(faces: ti.template(), bars: ti.template(), m, f, a0_bar, a1_bar, a2_bar, depths_bar):
    """Add the adjoints of a face's screen corners and depths."""
    for k in ti.static(range(2)):
        bars.screen[m, faces.corners[f, 0], k] += a0_bar[k]
        bars.screen[m, faces.corners[f, 1], k] += a1_bar[k]
        bars.screen[m, faces.corners[f, 2], k] += a2_bar[k]
    for k in ti.static(range(3)):
        bars.screen[m, faces.corners[f, k], 2] += depths_bar[k]


@bundle
class TileSums:
    """Adjoints that a tile's thread sums, while a kernel is compiled: of sigma, of the depth rate, and of the ground's plane."""

    sigma: Any
    rate: Any
    plane: Any


@bundle
class FaceSums:
    """Of a face whose adjoint is computed, while a kernel is compiled: what its pixels need, and sums over them.

    Attributes:
        attributes: its ``Attributes``.
        steep, s0, s1, s2, steep_rates: its steepness, and the derivatives by its corners and depths (``steepness_rates``).
        side: column of its side in pixel_bar.
        a0_bar, a1_bar, a2_bar, depths_bar, fade_bar, steep_bar: sums of the adjoints of its corners, depths, fade and steepness.
        albedo_bar, uv_bar, normals_bar, points_bar: sums of the adjoints of its attributes.
    """

    attributes: Any
    steep: Any
    s0: Any
    s1: Any
    s2: Any
    steep_rates: Any
    side: Any
    a0_bar: Any
    a1_bar: Any
    a2_bar: Any
    depths_bar: Any
    fade_bar: Any
    steep_bar: Any
    albedo_bar: Any
    uv_bar: Any
    normals_bar: Any
    points_bar: Any


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
        sigma_bar, rate_bar, plane_bar = 0.0, 0.0, vec3(0)
        return TileSums(sigma_bar, rate_bar, plane_bar)

    @ti.func
    def begin_pixel(self, tile: ti.template(), pixel: ti.template()):
        """Split the pixel's adjoint between the faces and the backdrop, whose colour backdrop_bar holds until then."""
        m, x, y = tile.image, pixel.x, pixel.y
        back_bar = vec3(self.pictures_bar[m, y, x, 0], self.pictures_bar[m, y, x, 1], self.pictures_bar[m, y, x, 2])
        if tile.slot >= 0:
            c_back = vec3(self.backdrop_bar[m, y, x, 0], self.backdrop_bar[m, y, x, 1], self.backdrop_bar[m, y, x, 2])
            alpha_bar = self.pictures_bar[m, y, x, 3]
            in_bar, rest_bar = _split(
                self.pixel_state, self.pixel_bar, pixel.index, c_back, back_bar, alpha_bar, self.faces.strict
            )
            back_bar = rest_bar + self.backdrop_adjoint(tile, pixel, c_back, in_bar)
        for k in ti.static(range(3)):
            self.backdrop_bar[m, y, x, k] = back_bar[k]

    @ti.func
    def backdrop_adjoint(self, tile: ti.template(), pixel: ti.template(), c_back, in_bar):
        """Adjoint of the backdrop's part in the softmax over everything: returns that of its colour."""
        faces, sums, i, depth_rate = self.faces, tile.state, pixel.index, tile.depth_rate
        back_bar, inverse_depth = vec3(0), inverse_ground_depth(faces, tile.image, pixel.centre)
        depth, e_ground, e_background = backdrop_weights(faces, inverse_depth, depth_rate, 0)
        t = (self.pixel_state[i * STATE_SIZE + MIN_DEPTH] - depth) * depth_rate
        if t > ti.static(negligible()):
            weight = ti.exp(t) / self.pixel_state[i * STATE_SIZE + WEIGHT]
            back_bar = in_bar * (weight * (e_ground + e_background))
            contrast = weight * in_bar.dot(c_back - get3(self.pixel_state, i * STATE_SIZE + COLOUR))
            sums.rate += contrast * e_background * (self.pixel_state[i * STATE_SIZE + MIN_DEPTH] - faces.background_depth)
            if e_ground > 0:
                z = 1.0 / inverse_depth
                sums.rate += contrast * e_ground * (self.pixel_state[i * STATE_SIZE + MIN_DEPTH] - z)
                inverse_bar = contrast * e_ground * depth_rate * z * z
                sums.plane += vec3(pixel.centre[0], pixel.centre[1], 1.0) * inverse_bar
                if faces.flags[FLAG.distorted] == 1:
                    plane = uniform3(faces.uniforms, tile.image, UNIFORM.plane)
                    self.bars.centres[tile.image, pixel.y, pixel.x, 0] += plane[0] * inverse_bar
                    self.bars.centres[tile.image, pixel.y, pixel.x, 1] += plane[1] * inverse_bar
        return back_bar

    @ti.func
    def begin_face(self, tile: ti.template(), face: ti.template()):
        """Attributes, steepness and side of the face, and its sums."""
        triangle = face.triangle
        steep, s0, s1, s2, steep_rates = steepness_rates(
            triangle.a0, triangle.a1, triangle.a2, triangle.inverse_depths, self.faces.steepest
        )
        attributes = face_attributes(self.faces, tile.image, face.number)
        side = FRONT_BAR
        if face.code < 0:
            side = BACK_BAR
        a0_bar, a1_bar, a2_bar, depths_bar, fade_bar, steep_bar = vec2(0), vec2(0), vec2(0), vec3(0), 0.0, 0.0
        albedo_bar, uv_bar, normals_bar, points_bar = mat3(0), mat3(0), mat3(0), mat3(0)
        return FaceSums(
            attributes, steep, s0, s1, s2, steep_rates, side, a0_bar, a1_bar, a2_bar, depths_bar, fade_bar, steep_bar,
            albedo_bar, uv_bar, normals_bar, points_bar,
        )  # fmt: skip

    @ti.func
    def visit(self, tile: ti.template(), face: ti.template(), pixel: ti.template()):
        """Adjoints of coverage and colour of a fragment."""
        i, p, sums, triangle = pixel.index, pixel.centre, face.state, face.triangle
        hit = fragment(p, triangle, tile.radius, tile.inverse_sigma)
        g0, g1, g2 = vec2(0), vec2(0), vec2(0)
        covered_bar = face.fade * self.pixel_bar[i * PIXEL_BAR_SIZE + sums.side]
        if covered_bar != 0 and ti.abs(face.code) & 7 != 0:
            rates = face_coverage_rates(p, triangle, hit.distances, face.code, tile.radius)
            g0, g1, g2 = rates.a0 * covered_bar, rates.a1 * covered_bar, rates.a2 * covered_bar
            tile.state.sigma += rates.sigma * tile.inverse_sigma * covered_bar
            if face.fade < 1:
                sums.fade_bar += covered_bar * face_coverage(p, triangle, hit.distances, face.code, tile.radius)
        coverage = hit.sigmoid * face.fade
        if coverage > NO_COVERAGE:
            log_bar = 0.0
            mixed, even = mixed_barycentrics(p, triangle, hit.barycentrics, sums.steep, tile.inverse_sigma)
            r, z = perspective(mixed, triangle.inverse_depths)
            t = (self.pixel_state[i * STATE_SIZE + MIN_DEPTH] - z) * tile.depth_rate - hit.tail
            if t > ti.static(negligible()):
                weight = coverage * ti.exp(t) / self.pixel_state[i * STATE_SIZE + WEIGHT]
                in_bar = get3(self.pixel_bar, i * PIXEL_BAR_SIZE + COLOUR_BAR)
                if weight > 0 and (in_bar[0] != 0 or in_bar[1] != 0 or in_bar[2] != 0):
                    contrast, b_bar = self.colour_adjoint(tile, face, i, r, z, in_bar, weight)
                    log_bar += contrast
                    sums.depths_bar -= b_bar * mixed * triangle.inverse_depths
                    h0, h1, h2 = barycentrics_adjoint(p, triangle, hit, b_bar * (1.0 - sums.steep))
                    g0 += h0
                    g1 += h1
                    g2 += h2
                    if sums.steep > 0:
                        corners = (triangle.a0 - p, triangle.a1 - p, triangle.a2 - p, tile.inverse_sigma)
                        e0, e1, e2, inverse_bar = even_point.vjp(corners, b_bar * sums.steep)
                        g0 += e0
                        g1 += e1
                        g2 += e2
                        tile.state.sigma -= inverse_bar * tile.inverse_sigma * tile.inverse_sigma
                        sums.steep_bar += b_bar.dot(even - hit.barycentrics)
            sums.fade_bar += log_bar
            x_bar = hit.log_rate * log_bar
            if x_bar != 0:
                h0, h1, h2 = distance_adjoint(p, triangle, hit, x_bar, tile.inverse_sigma)
                g0 += h0
                g1 += h1
                g2 += h2
                tile.state.sigma -= x_bar * hit.x * tile.inverse_sigma
        sums.a0_bar += g0
        sums.a1_bar += g1
        sums.a2_bar += g2
        # A shift of all corners is the opposite shift of the pixel.
        if self.faces.flags[FLAG.distorted] == 1:
            for k in ti.static(range(2)):
                self.bars.centres[tile.image, pixel.y, pixel.x, k] -= g0[k] + g1[k] + g2[k]

    @ti.func
    def colour_adjoint(self, tile: ti.template(), face: ti.template(), i, r, z, in_bar, weight):
        """Adjoint of a fragment's colour and of its share in the softmax: returns those of log D_j and of the barycentrics."""
        faces, sums, m = self.faces, face.state, tile.image
        colour = surface_colour(faces, sums.attributes, m, r, z)
        contrast = weight * in_bar.dot(colour - get3(self.pixel_state, i * STATE_SIZE + COLOUR))
        tile.state.rate += contrast * (self.pixel_state[i * STATE_SIZE + MIN_DEPTH] - z)
        r_bar, albedo_bar, uv_bar, normal_bar, point_bar, z_bar = surface_adjoint(
            faces, self.bars, tile.slot, sums.attributes, m, r, in_bar * weight
        )
        if ti.static(faces.shading != DEPTH and faces.shading != NORMAL):
            sums.albedo_bar += outer(albedo_bar, r)
            if sums.attributes.texture >= 0:
                sums.uv_bar += outer(uv_bar, r)
        if ti.static(faces.shading != DEPTH and faces.shading != UNLIT):
            sums.normals_bar += outer(normal_bar, r)
            sums.points_bar += outer(point_bar, r)
        # r = z ratio, ratio = b / depths, z = 1 / sum(ratio), and z has its own adjoint.
        z_bar -= contrast * tile.depth_rate
        ratio_bar = z * (r_bar - r_bar.dot(r)) - z * z * z_bar
        return contrast, ratio_bar * face.triangle.inverse_depths

    @ti.func
    def end_face(self, tile: ti.template(), face: ti.template()):
        """Add the sums of the face."""
        sums, m, f = face.state, tile.image, face.number
        sums.depths_bar += face.fade_rates * sums.fade_bar + sums.steep_rates * sums.steep_bar
        sums.a0_bar += sums.s0 * sums.steep_bar
        sums.a1_bar += sums.s1 * sums.steep_bar
        sums.a2_bar += sums.s2 * sums.steep_bar
        add_screen(self.faces, self.bars, m, f, sums.a0_bar, sums.a1_bar, sums.a2_bar, sums.depths_bar)
        add_attributes(self.faces, self.bars, m, f, sums.albedo_bar, sums.uv_bar, sums.normals_bar, sums.points_bar)

    @ti.func
    def end_tile(self, tile: ti.template()):
        """Add the sums of the tile to its row of the uniforms' adjoints."""
        bars, row, sums = self.bars, tile.slot, tile.state
        add3(bars.uniforms, row, UNIFORM.plane, sums.plane)
        bars.uniforms[row, UNIFORM.sigma] = bars.uniforms[row, UNIFORM.sigma] + sums.sigma
        gamma_bar = sums.rate * tile.depth_rate / self.faces.uniforms[tile.image, UNIFORM.gamma]
        bars.uniforms[row, UNIFORM.gamma] = bars.uniforms[row, UNIFORM.gamma] - gamma_bar


@kernel
def rasterise_adjoint(
    serial: ti.template(), faces: Faces, tiles: Tiles, pixel_state: ti.types.ndarray(), pixel_bar: ti.types.ndarray(),
    pictures_bar: ti.types.ndarray(), backdrop_bar: ti.types.ndarray(), bars: FaceArrays,
):  # fmt: skip
    """Adjoint of ``rasterise`` from pictures_bar [M, H, W, 4].

    Writes pixel_bar [occupied side^2 5] (workspace) and turns backdrop_bar [M, H, W, 3], which holds the backdrop's colours,
    into their adjoint. Adds to ``bars``, of which the uniforms have a row [occupied, U] for each tile that has faces.
    """
    ti.loop_config(serialize=serial)
    walk(
        faces, tiles, pictures_bar.shape[2], pictures_bar.shape[1],
        BlendingAdjoint(faces, pixel_state, pixel_bar, pictures_bar, backdrop_bar, bars),
    )  # fmt: skip
