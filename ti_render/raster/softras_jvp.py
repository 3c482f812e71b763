"""Tangent of the soft rasteriser: the derivatives of every picture along K directions in one pass.

In the terms of ``softras_adjoint``, each fragment adds to every column

    rgb:  A w_j (c_j_dot + (c_j - C_in) (log D_j_dot + (zmin - z_j) rate_dot - rate z_j_dot)) + A_j_dot (C_in - C_back)
    alpha:  A_j_dot, the face's part in the tangent of the coverage (``coverage``)

(composite "softmax": factor 1 instead of A, no second term), and so does the backdrop. Fragments are computed once for all
columns.
"""

from typing import Any

from ti_render.arrays import MOVING_COLUMN, UNIFORM, FaceArrays, Faces, FaceTangentWork
from ti_render.backdrop.backdrop import backdrop_weights, inverse_ground_depth, negligible
from ti_render.backdrop.backdrop_jvp import inverse_depth_tangent, pixel_tangent, rate_tangent
from ti_render.raster.coverage import face_coverage, face_coverage_rates, union_sides
from ti_render.raster.edge_on import even_point, mixed_barycentrics, steepness_rates
from ti_render.raster.fragment import distance_gradient, fragment, perspective, vec2
from ti_render.raster.fragment_tangent import barycentrics_tangent
from ti_render.raster.softras import BACK, COLOUR, FRONT, MIN_DEPTH, STATE_SIZE, WEIGHT, pixel_alpha
from ti_render.raster.tiles import Tiles
from ti_render.raster.walk import NO_COVERAGE, TilePass, walk
from ti_render.rows import add_to3, get3, put3
from ti_render.shading.reflection import SCRATCH
from ti_render.shading.surface import (
    FACE_DOT_SIZE,
    SCREEN_PART,
    face_attributes,
    gather_face_tangents,
    surface_colour,
    surface_columns,
)
from ti_sim.base.bundles import bundle, kernel
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3


@ti.func
def corner_tangents(face_dot: ti.template(), face_row, c, p_dot):
    """Tangents of a face's screen corners relative to the pixel, and of its depths."""
    first = face_row + c * FACE_DOT_SIZE + SCREEN_PART
    return (
        vec2(face_dot[first], face_dot[first + 1]) - p_dot,
        vec2(face_dot[first + 3], face_dot[first + 4]) - p_dot,
        vec2(face_dot[first + 6], face_dot[first + 7]) - p_dot,
        vec3(face_dot[first + 2], face_dot[first + 5], face_dot[first + 8]),
    )


@ti.func
def perspective_tangent(b, r, z, inverse_depths, b_dot, depths_dot):
    """Tangents of the perspective-correct barycentrics ``r`` and of the depth ``z``."""
    ratio_dot = (b_dot - b * inverse_depths * depths_dot) * inverse_depths
    z_dot = -z * z * ratio_dot.sum()
    return ratio_dot * z + r * (z_dot / z), z_dot


@bundle
class TangentRows:
    """Of a tile, while a kernel is compiled.

    Attributes:
        columns: K, number of columns of tangents.
        scratch, face_dot: where the tile's entries of ``FaceTangentWork.scratch`` and ``face_dot`` begin.
        weights_change: whether a column changes the weights in the softmax.
    """

    columns: Any
    scratch: Any
    face_dot: Any
    weights_change: Any


@ti.func
def tangent_rows(work: ti.template(), slot):
    """``TangentRows`` of the tile with this slot."""
    columns = work.active.shape[0]
    scratch, face_dot, weights_change = slot * columns * SCRATCH.size, slot * columns * FACE_DOT_SIZE, 0
    for c in range(columns):
        if work.active[c] & MOVING_COLUMN != 0:
            weights_change = 1
    return TangentRows(columns, scratch, face_dot, weights_change)


@ti.func
def coverage_tangent(
    tangent_pass: ti.template(), tile: ti.template(), face: ti.template(), pixel: ti.template(), c, covered, rates: ti.template()
):  # fmt: skip
    """Tangent of a face's part in the coverage in column ``c``, from ``face_coverage`` and its ``CoverageRates``."""
    faces, dots, work = tangent_pass.faces, tangent_pass.dots, tangent_pass.work
    p_dot = pixel_tangent(faces, dots, tile.image, c, pixel.y, pixel.x)
    d0, d1, d2, depths_dot = corner_tangents(work.face_dot, tile.state.face_dot, c, p_dot)
    sigma_dot = dots.uniforms[tile.image * tile.state.columns + c, UNIFORM.sigma]
    exponent_dot = rates.a0.dot(d0) + rates.a1.dot(d1) + rates.a2.dot(d2) + rates.sigma * tile.inverse_sigma * sigma_dot
    return face.fade * (exponent_dot + covered * face.fade_rates.dot(depths_dot))


@bundle
class SteepFace:
    """What ``BlendingTangents`` holds for a face: its ``Attributes``, steepness and the derivatives (``steepness_rates``)."""

    attributes: Any
    steep: Any
    s0: Any
    s1: Any
    s2: Any
    steep_rates: Any


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
        """Write the backdrop's part in the tangents of the pixel to pixel_dot."""
        faces, dots, m, i, p = self.faces, self.dots, tile.image, pixel.index, pixel.centre
        columns, depth_rate = tile.state.columns, tile.depth_rate
        inverse_depth = inverse_ground_depth(faces, m, p)
        depth, e_ground, e_background = backdrop_weights(faces, inverse_depth, depth_rate, 0)
        mix = pixel_alpha(self.pixel_state, i)
        if faces.strict == 1:
            mix = 1.0
        weight, t = 0.0, (self.pixel_state[i * STATE_SIZE + MIN_DEPTH] - depth) * depth_rate
        if t > ti.static(negligible()):
            weight = ti.exp(t) / self.pixel_state[i * STATE_SIZE + WEIGHT]
        contrast = self.backdrop_colour(m, pixel) - get3(self.pixel_state, i * STATE_SIZE + COLOUR)
        for c in range(columns):
            row = m * columns + c
            rate_dot = rate_tangent(faces, dots, m, row, depth_rate)
            weight_dot = e_background * (self.pixel_state[i * STATE_SIZE + MIN_DEPTH] - faces.background_depth) * rate_dot
            if e_ground > 0:
                z = 1.0 / inverse_depth
                p_dot = pixel_tangent(faces, dots, m, c, pixel.y, pixel.x)
                z_dot = -z * z * inverse_depth_tangent(faces, dots, m, row, p, p_dot)
                weight_dot += e_ground * ((self.pixel_state[i * STATE_SIZE + MIN_DEPTH] - z) * rate_dot - depth_rate * z_dot)
            for k in ti.static(range(3)):
                self.pixel_dot[4 * (i * columns + c) + k] = (
                    self.pictures_dot[m, c, pixel.y, pixel.x, k] * (1.0 - mix + mix * weight * (e_ground + e_background))
                    + mix * weight * weight_dot * contrast[k]
                )
            self.pixel_dot[4 * (i * columns + c) + 3] = 0.0

    @ti.func
    def backdrop_colour(self, m, pixel: ti.template()):
        """C_back of the pixel."""
        x, y = pixel.x, pixel.y
        return vec3(self.backdrop[m, y, x, 0], self.backdrop[m, y, x, 1], self.backdrop[m, y, x, 2])

    @ti.func
    def begin_face(self, tile: ti.template(), face: ti.template()):
        """Attributes and steepness of the face; the tangents of its corners are gathered."""
        triangle = face.triangle
        steep, s0, s1, s2, steep_rates = steepness_rates(
            triangle.a0, triangle.a1, triangle.a2, triangle.inverse_depths, self.faces.steepest
        )
        attributes = face_attributes(self.faces, tile.image, face.number)
        gather_face_tangents(self.faces, self.dots, self.work, tile.state.face_dot, tile.image, face.number)
        return SteepFace(attributes, steep, s0, s1, s2, steep_rates)

    @ti.func
    def visit(self, tile: ti.template(), face: ti.template(), pixel: ti.template()):
        """Add a fragment's part in the tangents of the pixel to pixel_dot."""
        i, p, m, triangle, state = pixel.index, pixel.centre, tile.image, face.triangle, face.state
        hit = fragment(p, triangle, tile.radius, tile.inverse_sigma)
        c_in = get3(self.pixel_state, i * STATE_SIZE + COLOUR)
        if tile.state.weights_change == 1 and face.fade > 0 and ti.abs(face.code) & 7 != 0:
            contrast = vec3(0)
            if self.faces.strict == 0:
                contrast = c_in - self.backdrop_colour(m, pixel)
            self.add_coverage(tile, face, pixel, hit.distances, contrast)
        coverage = hit.sigmoid * face.fade
        if coverage > NO_COVERAGE:
            mixed, even = mixed_barycentrics(p, triangle, hit.barycentrics, state.steep, tile.inverse_sigma)
            r, z = perspective(mixed, triangle.inverse_depths)
            t = (self.pixel_state[i * STATE_SIZE + MIN_DEPTH] - z) * tile.depth_rate - hit.tail
            weight = 0.0
            mix = 1.0
            if self.faces.strict == 0:
                mix = pixel_alpha(self.pixel_state, i)
            contrast = vec3(0)
            if t > ti.static(negligible()):
                weight = mix * coverage * ti.exp(t) / self.pixel_state[i * STATE_SIZE + WEIGHT]
                if weight > 0 and tile.state.weights_change == 1:
                    contrast = surface_colour(self.faces, state.attributes, m, r, z) - c_in
            gradient, q = distance_gradient(p, triangle, hit, tile.inverse_sigma)
            for c in range(tile.state.columns):
                if self.work.active[c] & MOVING_COLUMN != 0:
                    first = tile.state.scratch + c * SCRATCH.size
                    sigma_dot = self.dots.uniforms[m * tile.state.columns + c, UNIFORM.sigma]
                    p_dot = pixel_tangent(self.faces, self.dots, m, c, pixel.y, pixel.x)
                    d0, d1, d2, depths_dot = corner_tangents(self.work.face_dot, tile.state.face_dot, c, p_dot)
                    log_dot = hit.log_rate * gradient.dot(d0 * q[0] + d1 * q[1] + d2 * q[2])
                    log_dot += face.fade_rates.dot(depths_dot) - hit.log_rate * hit.x * tile.inverse_sigma * sigma_dot
                    if weight > 0:
                        b_dot = barycentrics_tangent(p, triangle, hit, d0, d1, d2)
                        if state.steep > 0:
                            even_dot = even_point.jvp(
                                (triangle.a0 - p, triangle.a1 - p, triangle.a2 - p, tile.inverse_sigma),
                                (d0, d1, d2, -tile.inverse_sigma * tile.inverse_sigma * sigma_dot),
                            )
                            steep_dot = state.s0.dot(d0) + state.s1.dot(d1) + state.s2.dot(d2)
                            steep_dot += state.steep_rates.dot(depths_dot)
                            b_dot += (even_dot - b_dot) * state.steep + (even - hit.barycentrics) * steep_dot
                        r_dot, z_dot = perspective_tangent(mixed, r, z, triangle.inverse_depths, b_dot, depths_dot)
                        put3(self.work.scratch, first + SCRATCH.r_dot, r_dot)
                        self.work.scratch[first + SCRATCH.z_dot] = z_dot
                    self.work.scratch[first + SCRATCH.log_dot] = log_dot
            if weight > 0:
                rows = tile.state
                surface_columns(self.faces, self.dots, self.work, rows.scratch, rows.face_dot, state.attributes, m, r)
            self.add_colour(tile, i, z, weight, contrast)

    @ti.func
    def add_colour(self, tile: ti.template(), i, z, weight, contrast):
        """Add the part of a fragment's colour and weight in the tangents of pixel i to pixel_dot."""
        work, m, depth_rate, columns = self.work, tile.image, tile.depth_rate, tile.state.columns
        for c in range(columns):
            first, result = tile.state.scratch + c * SCRATCH.size, vec3(0)
            if work.active[c] & MOVING_COLUMN != 0:
                rate_dot = rate_tangent(self.faces, self.dots, m, m * columns + c, depth_rate)
                log_share = work.scratch[first + SCRATCH.log_dot] - depth_rate * work.scratch[first + SCRATCH.z_dot]
                log_share += (self.pixel_state[i * STATE_SIZE + MIN_DEPTH] - z) * rate_dot
                result = weight * log_share * contrast
            if work.active[c] != 0:
                if weight > 0:
                    result += weight * get3(work.scratch, first + SCRATCH.colour_dot)
                add_to3(self.pixel_dot, 4 * (i * columns + c), result)

    @ti.func
    def add_coverage(self, tile: ti.template(), face: ti.template(), pixel: ti.template(), distances, contrast):
        """Add a face's part in the tangent of the coverage to pixel_dot; ``contrast`` is the colour's derivative by it."""
        i, p, triangle, code = pixel.index, pixel.centre, face.triangle, face.code
        front_rate, back_rate = union_sides(self.pixel_state[i * STATE_SIZE + FRONT], self.pixel_state[i * STATE_SIZE + BACK])
        if (code > 0 and front_rate > 0) or (code < 0 and back_rate > 0):
            columns = tile.state.columns
            rates = face_coverage_rates(p, triangle, distances, code, tile.radius)
            covered = face_coverage(p, triangle, distances, code, tile.radius)
            for c in range(columns):
                if self.work.active[c] & MOVING_COLUMN != 0:
                    alpha_dot = coverage_tangent(self, tile, face, pixel, c, covered, rates)
                    self.pixel_dot[4 * (i * columns + c) + 3] = self.pixel_dot[4 * (i * columns + c) + 3] + alpha_dot
                    add_to3(self.pixel_dot, 4 * (i * columns + c), contrast * alpha_dot)

    @ti.func
    def end_pixel(self, tile: ti.template(), pixel: ti.template()):
        """Write the tangents of the pixel from pixel_dot to the pictures'."""
        columns = tile.state.columns
        for c in range(columns):
            for k in ti.static(range(4)):
                self.pictures_dot[tile.image, c, pixel.y, pixel.x, k] = self.pixel_dot[4 * (pixel.index * columns + c) + k]


@kernel
def rasterise_jvp(
    faces: Faces, tiles: Tiles, pixel_state: ti.types.ndarray(), backdrop: ti.types.ndarray(), dots: FaceArrays,
    work: FaceTangentWork, pixel_dot: ti.types.ndarray(), pictures_dot: ti.types.ndarray(),
):  # fmt: skip
    """Turn pictures_dot [M, K, H, W, 4], which hold the backdrop's tangents, into those of the pictures.

    Reads the backdrop [M, H, W, 3], and of ``dots`` screen, vertices [M, V, K, 3], normals [M, G + F, K, 3], albedo
    [K, n, F, 3, 3], uv [K, n, F, 3, 2], texels [K, n, X, 3], uniforms [M K, U], maps [M L, K, R, R, 4], centres
    [M, K, H, W, 2]. pixel_dot [occupied side^2 K 4] is workspace.
    """
    walk(
        faces, tiles, pictures_dot.shape[3], pictures_dot.shape[2],
        BlendingTangents(faces, pixel_state, backdrop, dots, work, pixel_dot, pictures_dot),
    )  # fmt: skip
