"""Fragments and coverage of a face at neighbouring pixels of a row, one pixel in each lane (``ti_sim.base.lanes``).

The formulas are those of ``fragment`` and ``coverage``; branches become selections.
"""

from typing import Any

from ti_render.raster.coverage import PI
from ti_render.raster.fragment import FADE_START, FADE_STRENGTH, MIN_FADE_REMAINDER
from ti_render.raster.tiles import CUT_OFF
from ti_sim.base.bundles import bundle
from ti_sim.base.lanes import (
    MIN_LANE_EXPONENT,
    abs_lanes,
    atan2_lanes,
    constant_lanes,
    exp_lanes,
    max_lanes,
    min_lanes,
)
from ti_sim.base.runtime import ti


@bundle
class LaneDistances:
    """Neighbouring pixel centres relative to a face, while a kernel is compiled; a vector of lanes each.

    Attributes:
        x, y: screen positions of the pixel centres.
        s0, s1, s2: doubled sub-areas (``fragment.sub_areas``).
        d0, d1, d2: signed distances from the lines of the edges, positive inside.
    """

    x: Any
    y: Any
    s0: Any
    s1: Any
    s2: Any
    d0: Any
    d1: Any
    d2: Any


@ti.func
def lane_distances(x, y, triangle: ti.template()):
    """``LaneDistances`` of pixel centres."""
    u, v = triangle.a1 - triangle.a0, triangle.a2 - triangle.a0
    dx, dy = x - triangle.a0[0], y - triangle.a0[1]
    s2 = u[0] * dy - u[1] * dx
    s1 = dx * v[1] - dy * v[0]
    s0 = (u[0] * v[1] - u[1] * v[0]) - s1 - s2
    scales = triangle.distance_scales
    d0, d1, d2 = s0 * scales[0], s1 * scales[1], s2 * scales[2]
    return LaneDistances(x, y, s0, s1, s2, d0, d1, d2)


@ti.func
def _edge_point(pixels: ti.template(), a, b, inverse_squared_length):
    """``fragment.edge_point`` in lanes."""
    ex, ey = b[0] - a[0], b[1] - a[1]
    dx, dy = pixels.x - a[0], pixels.y - a[1]
    t = min_lanes(max_lanes((dx * ex + dy * ey) * inverse_squared_length, constant_lanes(0.0)), constant_lanes(1.0))
    ox, oy = dx - t * ex, dy - t * ey
    return t, ox * ox + oy * oy


@ti.func
def lane_fragments(pixels: ti.template(), triangle: ti.template(), inverse_sigma):
    """Of each pixel: sigmoid (0 beyond the cut-off), tail exponent, and the three barycentrics (``Fragment``)."""
    # For a triangle without inside, all edges are tried at every pixel.
    outside_below = 0.0
    if triangle.inverse_area == 0:
        outside_below = 1e30
    inverse_squared_lengths = triangle.inverse_squared_lengths
    t0, q0 = _edge_point(pixels, triangle.a1, triangle.a2, inverse_squared_lengths[0])
    t1, q1 = _edge_point(pixels, triangle.a2, triangle.a0, inverse_squared_lengths[1])
    t2, q2 = _edge_point(pixels, triangle.a0, triangle.a1, inverse_squared_lengths[2])
    q0 = ti.select(pixels.d0 < outside_below, q0, 1e30)
    q1 = ti.select(pixels.d1 < outside_below, q1, 1e30)
    q2 = ti.select(pixels.d2 < outside_below, q2, 1e30)
    squared_distance, b0, b1, b2 = q0, constant_lanes(0.0), 1.0 - t0, t0
    is_nearer = q1 < squared_distance
    squared_distance = ti.select(is_nearer, q1, squared_distance)
    b0, b1, b2 = ti.select(is_nearer, t1, b0), ti.select(is_nearer, 0.0, b1), ti.select(is_nearer, 1.0 - t1, b2)
    is_nearer = q2 < squared_distance
    squared_distance = ti.select(is_nearer, q2, squared_distance)
    b0, b1, b2 = ti.select(is_nearer, 1.0 - t2, b0), ti.select(is_nearer, t2, b1), ti.select(is_nearer, 0.0, b2)
    min_distance = min_lanes(min_lanes(pixels.d0, pixels.d1), pixels.d2)
    is_inside = min_distance >= outside_below
    area = triangle.inverse_area
    b0, b1, b2 = (
        ti.select(is_inside, pixels.s0 * area, b0),
        ti.select(is_inside, pixels.s1 * area, b1),
        ti.select(is_inside, pixels.s2 * area, b2),
    )
    y = ti.select(is_inside, min_distance * min_distance, squared_distance) * inverse_sigma
    e = exp_lanes(max_lanes(0.0 - y, constant_lanes(MIN_LANE_EXPONENT)))
    complement = e / (1.0 + e)
    t = max_lanes((y - FADE_START) * (1.0 / (CUT_OFF - FADE_START)), constant_lanes(0.0))
    remainder = ti.select(is_inside, 1.0, 1.0 - t)
    tail_exponent = FADE_STRENGTH * t * t / max_lanes(remainder, constant_lanes(MIN_FADE_REMAINDER))
    sigmoid = ti.select(is_inside, 1.0 - complement, complement)
    sigmoid = ti.select(remainder > MIN_FADE_REMAINDER, sigmoid, 0.0)
    return sigmoid, ti.select(is_inside, 0.0, tail_exponent), b0, b1, b2


@ti.func
def _edge_term(pixels: ti.template(), a, b, inverse_squared_length, distance, radius):
    """``coverage._edge_term`` in lanes."""
    result = constant_lanes(0.0)
    if inverse_squared_length > 0:
        inverse_radius, inverse_length = 1.0 / radius, ti.sqrt(inverse_squared_length)
        h = distance * inverse_radius
        edge_length = inverse_radius / inverse_length
        t_a = ((a[0] - pixels.x) * (b[0] - a[0]) + (a[1] - pixels.y) * (b[1] - a[1])) * (inverse_length * inverse_radius)
        half_chord = ti.sqrt(max_lanes(1.0 - h * h, constant_lanes(0.0)))
        t0, t1 = max_lanes(t_a, 0.0 - half_chord), min_lanes(t_a + edge_length, half_chord)
        length = t1 - t0
        angle = atan2_lanes(abs_lanes(h) * max_lanes(length, constant_lanes(0.0)), h * h + t0 * t1)
        angle = ti.select(distance < 0.0, 0.0 - angle, angle)
        t0_squared, t1_squared, h_squared = t0 * t0, t1 * t1, h * h
        integral_t2 = (t1_squared * t1 - t0_squared * t0) * (1 / 3)
        integral_t4 = (t1_squared * t1_squared * t1 - t0_squared * t0_squared * t0) * 0.2
        polynomial_term = (h_squared * (3.0 - h_squared) - 3.0) * length + (3.0 - 2.0 * h_squared) * integral_t2 - integral_t4
        result = ti.select(length > 0.0, (angle + h * polynomial_term) * (-0.5 / PI), 0.0)
    return result


@ti.func
def lane_coverage(pixels: ti.template(), triangle: ti.template(), bits, radius):
    """``coverage.face_coverage`` of pixels of which none lies on the line of an edge.

    Args:
        pixels: ``LaneDistances``.
        triangle: the face on the screen.
        bits: of its code without the sign.
        radius: R.
    """
    min_distance = min_lanes(min_lanes(pixels.d0, pixels.d1), pixels.d2)
    result = ti.select(min_distance > 0.0, constant_lanes(1.0), 0.0)
    inverse_squared_lengths = triangle.inverse_squared_lengths
    if bits & 1 != 0:
        result += _edge_term(pixels, triangle.a1, triangle.a2, inverse_squared_lengths[0], pixels.d0, radius)
    if bits & 2 != 0:
        result += _edge_term(pixels, triangle.a2, triangle.a0, inverse_squared_lengths[1], pixels.d1, radius)
    if bits & 4 != 0:
        result += _edge_term(pixels, triangle.a0, triangle.a1, inverse_squared_lengths[2], pixels.d2, radius)
    return result
