"""Tangents of a ``Fragment`` in K directions, the columns of the tangents: barycentrics, depth and coverage."""

from typing import Any

from ti_render.arrays import MOVING_COLUMN, UNIFORM
from ti_render.backdrop.backdrop_jvp import pixel_tangent
from ti_render.raster.fragment import cross2, vec2
from ti_render.shading.reflection import SCRATCH
from ti_render.shading.surface import FACE_DOT_SIZE, SCREEN_OFFSET
from ti_sim.base.bundles import bundle
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3


@ti.func
def _edge_parameter_tangent(p, a, b, t, inverse_squared_length, a_dot, b_dot):
    """Tangent of the parameter t of the point of the segment a-b that is closest to ``p`` (zero where t was clipped)."""
    result = 0.0
    if t > 0 and t < 1:
        e, e_dot, r = b - a, b_dot - a_dot, p - a
        result = (r.dot(e_dot) - a_dot.dot(e) - 2.0 * t * e.dot(e_dot)) * inverse_squared_length
    return result


@ti.func
def barycentrics_tangent(p, triangle: ti.template(), fragment: ti.template(), a0_dot, a1_dot, a2_dot):
    """Tangent of the barycentrics of ``fragment`` from the tangents d0, d1, d2 of the corners relative to the pixel."""
    b_dot, b, inverse_squared_lengths = vec3(0), fragment.barycentrics, triangle.inverse_squared_lengths
    if fragment.inside == 1:
        d, u, v = p - triangle.a0, triangle.a1 - triangle.a0, triangle.a2 - triangle.a0
        u_dot, v_dot = a1_dot - a0_dot, a2_dot - a0_dot
        area2_dot = cross2(u_dot, d) - cross2(u, a0_dot)
        area1_dot = -cross2(a0_dot, v) + cross2(d, v_dot)
        area_dot = cross2(u_dot, v) + cross2(u, v_dot)
        b_dot = (vec3(area_dot - area1_dot - area2_dot, area1_dot, area2_dot) - b * area_dot) * triangle.inverse_area
    elif fragment.edge == 0:
        t_dot = _edge_parameter_tangent(p, triangle.a1, triangle.a2, b[2], inverse_squared_lengths[0], a1_dot, a2_dot)
        b_dot = vec3(0.0, -t_dot, t_dot)
    elif fragment.edge == 1:
        t_dot = _edge_parameter_tangent(p, triangle.a2, triangle.a0, b[0], inverse_squared_lengths[1], a2_dot, a0_dot)
        b_dot = vec3(t_dot, 0.0, -t_dot)
    else:
        t_dot = _edge_parameter_tangent(p, triangle.a0, triangle.a1, b[1], inverse_squared_lengths[2], a0_dot, a1_dot)
        b_dot = vec3(-t_dot, t_dot, 0.0)
    return b_dot


@ti.func
def corner_tangents(face_dot: ti.template(), face_offset, c, p_dot):
    """Tangents of a face's screen corners relative to the pixel, and of its depths."""
    offset = face_offset + c * FACE_DOT_SIZE + SCREEN_OFFSET
    return (
        vec2(face_dot[offset], face_dot[offset + 1]) - p_dot,
        vec2(face_dot[offset + 3], face_dot[offset + 4]) - p_dot,
        vec2(face_dot[offset + 6], face_dot[offset + 7]) - p_dot,
        vec3(face_dot[offset + 2], face_dot[offset + 5], face_dot[offset + 8]),
    )


@ti.func
def perspective_tangent(b, r, z, inverse_depths, b_dot, depths_dot):
    """Tangents of the perspective-correct barycentrics ``r`` and of the depth ``z``."""
    ratio_dot = (b_dot - b * inverse_depths * depths_dot) * inverse_depths
    z_dot = -z * z * ratio_dot.sum()
    return ratio_dot * z + r * (z_dot / z), z_dot


@bundle
class TangentRows:
    """Layout of the tangents of a tile, while a kernel is compiled.

    Attributes:
        columns: K, number of columns of tangents.
        scratch_offset, face_offset: first entries of the tile in ``FaceTangentWork.scratch`` and ``face_dot``.
        any_moving: whether a column changes the weights in the softmax (MOVING_COLUMN).
    """

    columns: Any
    scratch_offset: Any
    face_offset: Any
    any_moving: Any


@ti.func
def tangent_rows(work: ti.template(), slot):
    """``TangentRows`` of the tile with this slot."""
    columns = work.column_flags.shape[0]
    scratch_offset, face_offset, any_moving = slot * columns * SCRATCH.size, slot * columns * FACE_DOT_SIZE, 0
    for c in range(columns):
        if work.column_flags[c] & MOVING_COLUMN != 0:
            any_moving = 1
    return TangentRows(columns, scratch_offset, face_offset, any_moving)


@ti.func
def tangent_entry(tile: ti.template(), pixel: ti.template(), c):
    """First of the four entries of a pixel in column ``c`` of the pictures' tangents, a flat array."""
    return 4 * (((tile.image * tile.state.columns + c) * tile.height + pixel.y) * tile.width + pixel.x)


@ti.func
def coverage_tangent(
    tangent_pass: ti.template(), tile: ti.template(), face: ti.template(), pixel: ti.template(), c, coverage,
    gradient: ti.template(),
):  # fmt: skip
    """Tangent of a face's contribution to the coverage in column ``c``, from ``face_coverage`` and its ``CoverageGradient``."""
    faces, dots, work = tangent_pass.faces, tangent_pass.dots, tangent_pass.work
    p_dot = pixel_tangent(faces, dots, tile.image, c, pixel.y, pixel.x)
    a0_dot, a1_dot, a2_dot, depths_dot = corner_tangents(work.face_dot, tile.state.face_offset, c, p_dot)
    sigma_dot = dots.uniforms[tile.image * tile.state.columns + c, UNIFORM.sigma]
    unfaded_dot = (
        gradient.a0.dot(a0_dot)
        + gradient.a1.dot(a1_dot)
        + gradient.a2.dot(a2_dot)
        + gradient.sigma * tile.inverse_sigma * sigma_dot
    )
    return face.fade * (unfaded_dot + coverage * face.log_fade_gradient.dot(depths_dot))


@ti.func
def dot_entry(tile: ti.template(), pixel: ti.template(), c):
    """Entry of a pixel's red channel in column ``c`` of pixel_dot [occupied side, K, 4, side], a flat array."""
    return 4 * tile.side * (pixel.row * tile.state.columns + c) + pixel.column


@ti.func
def add_colour_tangent(pixel_dot: ti.template(), tile: ti.template(), pixel: ti.template(), c, rgb_dot):
    """Add to the colour channels of a pixel in column ``c`` of pixel_dot."""
    first = dot_entry(tile, pixel, c)
    for k in ti.static(range(3)):
        pixel_dot[first + k * tile.side] = pixel_dot[first + k * tile.side] + rgb_dot[k]
