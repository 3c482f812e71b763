"""Coverage of neighbouring pixels of a row by a face, one pixel in each lane (``ti_sim.base.lanes``), and its derivatives.

The formulas are those of ``coverage``; branches become selections.
"""

from typing import Any

from ti_render.raster.coverage import EXACT_TEST_BAND, PI, edge_sides
from ti_render.raster.fragment import vec2
from ti_sim.base.bundles import bundle
from ti_sim.base.lanes import LANES, LaneVector, abs_lanes, atan2_lanes, constant_lanes, max_lanes, min_lanes
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3


@bundle
class LaneEdge:
    """Parts of an edge within the discs of neighbouring pixels, in radii, while a kernel is compiled; a vector of lanes each.

    Attributes:
        h: distance of the edge's line.
        t0, t1: range of the position along the edge; empty where t1 <= t0.
        t_a: position of its start.
        length: of the edge, a number.
    """

    h: Any
    t0: Any
    t1: Any
    t_a: Any
    length: Any

    @ti.func
    def integrals(self):
        """Integrals of t^2 and t^4 over the range."""
        t0_squared, t1_squared = self.t0 * self.t0, self.t1 * self.t1
        integral_t2 = (t1_squared * self.t1 - t0_squared * self.t0) * (1 / 3)
        integral_t4 = (t1_squared * t1_squared * self.t1 - t0_squared * t0_squared * self.t0) * 0.2
        return integral_t2, integral_t4


@ti.func
def _edge_in_discs(pixels: ti.template(), a, b, inverse_squared_length, distance, radius):
    """``LaneEdge`` of the edge from a to b, whose length is not zero."""
    inverse_radius, inverse_length = 1.0 / radius, ti.sqrt(inverse_squared_length)
    h = distance * inverse_radius
    length = inverse_radius / inverse_length
    t_a = ((a[0] - pixels.x) * (b[0] - a[0]) + (a[1] - pixels.y) * (b[1] - a[1])) * (inverse_length * inverse_radius)
    half_chord = ti.sqrt(max_lanes(1.0 - h * h, constant_lanes(0.0)))
    t0, t1 = max_lanes(t_a, 0.0 - half_chord), min_lanes(t_a + length, half_chord)
    return LaneEdge(h, t0, t1, t_a, length)


@ti.func
def _lane_sides(pixels: ti.template(), triangle: ti.template(), radius):
    """``coverage.edge_sides``: a ``LaneVector``."""
    d0, d1, d2, one = pixels.d0, pixels.d1, pixels.d2, constant_lanes(1.0)
    side0, side1, side2 = ti.select(d0 < 0.0, -1.0, one), ti.select(d1 < 0.0, -1.0, one), ti.select(d2 < 0.0, -1.0, one)
    if min_lanes(min_lanes(abs_lanes(d0), abs_lanes(d1)), abs_lanes(d2)).min() < EXACT_TEST_BAND * radius:
        for lane in range(LANES):
            p, distances = vec2(pixels.x[lane], pixels.y[lane]), vec3(d0[lane], d1[lane], d2[lane])
            sides = edge_sides(p, triangle, distances, radius)
            side0[lane], side1[lane], side2[lane] = sides[0], sides[1], sides[2]
    return LaneVector(side0, side1, side2)


@ti.func
def _edge_term(pixels: ti.template(), a, b, inverse_squared_length, distance, side, radius):
    """``coverage._edge_term`` in lanes."""
    result = constant_lanes(0.0)
    if inverse_squared_length > 0:
        edge = _edge_in_discs(pixels, a, b, inverse_squared_length, distance, radius)
        length, h_squared = edge.t1 - edge.t0, edge.h * edge.h
        sine = abs_lanes(edge.h) * max_lanes(length, constant_lanes(0.0))
        angle = side * atan2_lanes(sine, h_squared + edge.t0 * edge.t1)
        integral_t2, integral_t4 = edge.integrals()
        polynomial_term = (h_squared * (3.0 - h_squared) - 3.0) * length + (3.0 - 2.0 * h_squared) * integral_t2 - integral_t4
        result = ti.select(length > 0.0, (angle + edge.h * polynomial_term) * (-0.5 / PI), 0.0)
    return result


@ti.func
def lane_coverage(pixels: ti.template(), triangle: ti.template(), bits, radius):
    """``coverage.face_coverage`` of each pixel.

    Args:
        pixels: ``LaneDistances``.
        triangle: the face on the screen.
        bits: of its code without the sign.
        radius: R.
    """
    sides = _lane_sides(pixels, triangle, radius)
    result = ti.select(sides[0] + sides[1] + sides[2] > 2.5, constant_lanes(1.0), 0.0)
    inverse_squared_lengths = triangle.inverse_squared_lengths
    if bits & 1 != 0:
        result += _edge_term(pixels, triangle.a1, triangle.a2, inverse_squared_lengths[0], pixels.d0, sides[0], radius)
    if bits & 2 != 0:
        result += _edge_term(pixels, triangle.a2, triangle.a0, inverse_squared_lengths[1], pixels.d1, sides[1], radius)
    if bits & 4 != 0:
        result += _edge_term(pixels, triangle.a0, triangle.a1, inverse_squared_lengths[2], pixels.d2, sides[2], radius)
    return result


@ti.func
def _edge_adjoint(
    pixels: ti.template(), a, b, inverse_squared_length, distance, distance_scale, radius, coverage_bar,
    a_bar: ti.template(), b_bar: ti.template(),
):  # fmt: skip
    """Adjoint of an edge's term in ``lane_coverage`` (``coverage._edge_gradient``).

    Adds to the adjoints of the edge's corners, ``LaneVector``s of two numbers, and returns sigma times the adjoint of sigma.
    """
    sigma_bar = constant_lanes(0.0)
    if inverse_squared_length > 0:
        edge = _edge_in_discs(pixels, a, b, inverse_squared_length, distance, radius)
        t0, t1 = edge.t0, edge.t1
        t0_squared, t1_squared, one_minus_h2 = t0 * t0, t1 * t1, 1.0 - edge.h * edge.h
        integral_t2, integral_t4 = edge.integrals()
        integral = one_minus_h2 * one_minus_h2 * (t1 - t0) - 2.0 * one_minus_h2 * integral_t2 + integral_t4
        first_moment = (t1_squared - t0_squared) * (
            0.5 * one_minus_h2 * (one_minus_h2 - t0_squared - t1_squared)
            + (t0_squared * t0_squared + t0_squared * t1_squared + t1_squared * t1_squared) * (1 / 6)
        )
        b_integral = (first_moment - edge.t_a * integral) * (1.0 / edge.length)
        bar = ti.select(t1 > t0, coverage_bar, 0.0)
        scale = bar * (distance_scale * (3.0 / PI) / radius)
        outward_x, outward_y = (b[1] - a[1]) * scale, (a[0] - b[0]) * scale
        a_integral = integral - b_integral
        a_bar += LaneVector(outward_x * a_integral, outward_y * a_integral)
        b_bar += LaneVector(outward_x * b_integral, outward_y * b_integral)
        sigma_bar = edge.h * integral * bar * (-1.5 / PI)
    return sigma_bar


@ti.func
def lane_coverage_adjoint(
    pixels: ti.template(), triangle: ti.template(), bits, radius, coverage_bar,
    a0_bar: ti.template(), a1_bar: ti.template(), a2_bar: ti.template(),
):  # fmt: skip
    """Adjoint of ``lane_coverage``.

    Adds to the adjoints of the corners, ``LaneVector``s of two numbers, and returns sigma times the adjoint of sigma.
    """
    sigma_bar = constant_lanes(0.0)
    squares, scales = triangle.inverse_squared_lengths, triangle.distance_scales
    if bits & 1 != 0:
        sigma_bar += _edge_adjoint(
            pixels, triangle.a1, triangle.a2, squares[0], pixels.d0, scales[0], radius, coverage_bar, a1_bar, a2_bar
        )
    if bits & 2 != 0:
        sigma_bar += _edge_adjoint(
            pixels, triangle.a2, triangle.a0, squares[1], pixels.d1, scales[1], radius, coverage_bar, a2_bar, a0_bar
        )
    if bits & 4 != 0:
        sigma_bar += _edge_adjoint(
            pixels, triangle.a0, triangle.a1, squares[2], pixels.d2, scales[2], radius, coverage_bar, a0_bar, a1_bar
        )
    return sigma_bar
