"""Fragments of a face at neighbouring pixels of a row, one pixel in each lane (``ti_sim.base.lanes``), and their adjoints.

The formulas are those of ``fragment``; branches become selections.
"""

from typing import Any

from ti_render.raster.edge_on import edge_average_point
from ti_render.raster.fragment import FADE_START, FADE_STRENGTH, MIN_FADE_REMAINDER
from ti_render.raster.tiles import CUT_OFF
from ti_sim.base.bundles import bundle
from ti_sim.base.lanes import MIN_LANE_EXPONENT, LaneVector, constant_lanes, exp_lanes, max_lanes, min_lanes, zero_lane_vector
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


@bundle
class LaneFragments:
    """``Fragment``s of a face at neighbouring pixels, while a kernel is compiled; a vector of lanes each.

    Attributes:
        sigmoid, tail_exponent, logit, log_derivative: as of ``Fragment``.
        barycentrics: ``LaneVector`` of the closest point of the triangle.
        is_inside: 1 in lanes whose pixel is inside, else 0.
        edges: ``LaneVector``, 1 for the edge nearest to the pixel and 0 for the others.
        boundary: ``LaneVector``, the barycentrics of the point of that edge that is closest to the pixel.
    """

    sigmoid: Any
    tail_exponent: Any
    logit: Any
    log_derivative: Any
    barycentrics: Any
    is_inside: Any
    edges: Any
    boundary: Any


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
    """``LaneFragments`` at pixels with these ``LaneDistances``."""
    # For a triangle without inside, all edges are tried at every pixel.
    outside_below = 0.0
    if triangle.inverse_area == 0:
        outside_below = 1e30
    inverse_squared_lengths = triangle.inverse_squared_lengths
    t0, q0 = _edge_point(pixels, triangle.a1, triangle.a2, inverse_squared_lengths[0])
    t1, q1 = _edge_point(pixels, triangle.a2, triangle.a0, inverse_squared_lengths[1])
    t2, q2 = _edge_point(pixels, triangle.a0, triangle.a1, inverse_squared_lengths[2])
    min_distance = min_lanes(min_lanes(pixels.d0, pixels.d1), pixels.d2)
    inside = min_distance >= outside_below
    # The nearest edge: inside that with the least distance, outside that with the nearest point, of those that face the pixel.
    q0 = ti.select(inside, pixels.d0, ti.select(pixels.d0 < outside_below, q0, 1e30))
    q1 = ti.select(inside, pixels.d1, ti.select(pixels.d1 < outside_below, q1, 1e30))
    q2 = ti.select(inside, pixels.d2, ti.select(pixels.d2 < outside_below, q2, 1e30))
    b0, b1, b2, least = constant_lanes(0.0), 1.0 - t0, t0, q0
    edge0, edge1, edge2 = constant_lanes(1.0), constant_lanes(0.0), constant_lanes(0.0)
    is_nearer = q1 < least
    least = ti.select(is_nearer, q1, least)
    b0, b1, b2 = ti.select(is_nearer, t1, b0), ti.select(is_nearer, 0.0, b1), ti.select(is_nearer, 1.0 - t1, b2)
    edge0, edge1 = ti.select(is_nearer, 0.0, edge0), ti.select(is_nearer, 1.0, edge1)
    is_nearer = q2 < least
    least = ti.select(is_nearer, q2, least)
    b0, b1, b2 = ti.select(is_nearer, 1.0 - t2, b0), ti.select(is_nearer, t2, b1), ti.select(is_nearer, 0.0, b2)
    edge0, edge1 = ti.select(is_nearer, 0.0, edge0), ti.select(is_nearer, 0.0, edge1)
    edge2 = ti.select(is_nearer, 1.0, edge2)
    boundary = LaneVector(b0, b1, b2)
    area = triangle.inverse_area
    barycentrics = LaneVector(
        ti.select(inside, pixels.s0 * area, b0), ti.select(inside, pixels.s1 * area, b1), ti.select(inside, pixels.s2 * area, b2)
    )
    y = ti.select(inside, min_distance * min_distance, least) * inverse_sigma
    e = exp_lanes(max_lanes(0.0 - y, constant_lanes(MIN_LANE_EXPONENT)))
    complement = e / (1.0 + e)
    t = max_lanes((y - FADE_START) * (1.0 / (CUT_OFF - FADE_START)), constant_lanes(0.0))
    remainder = ti.select(inside, 1.0, 1.0 - t)
    is_visible = remainder > MIN_FADE_REMAINDER
    inverse_remainder = 1.0 / max_lanes(remainder, constant_lanes(MIN_FADE_REMAINDER))
    tail_exponent = ti.select(inside, 0.0, FADE_STRENGTH * t * t * inverse_remainder)
    sigmoid = ti.select(is_visible, ti.select(inside, 1.0 - complement, complement), 0.0)
    tail_slope = FADE_STRENGTH / (CUT_OFF - FADE_START) * t * (2.0 - t) * inverse_remainder * inverse_remainder
    log_derivative = ti.select(inside, complement, 1.0 - complement + tail_slope)
    log_derivative = ti.select(is_visible, log_derivative, 0.0)
    logit = ti.select(inside, y, 0.0 - y)
    is_inside = ti.select(inside, constant_lanes(1.0), 0.0)
    return LaneFragments(
        sigmoid, tail_exponent, logit, log_derivative, barycentrics, is_inside, LaneVector(edge0, edge1, edge2), boundary
    )


@ti.func
def lane_mixed_barycentrics(pixels: ti.template(), triangle: ti.template(), b: ti.template(), steepness, inverse_sigma):
    """``edge_on.mixed_barycentrics``: two ``LaneVector``s."""
    mixed, edge_average = b * 1.0, zero_lane_vector()
    if steepness > 0:
        corner0, corner1, corner2 = lane_corners(pixels, triangle)
        edge_average = edge_average_point.value(corner0, corner1, corner2, inverse_sigma)
        mixed = b + (edge_average - b) * steepness
    return mixed, edge_average


@ti.func
def lane_corners(pixels: ti.template(), triangle: ti.template()):
    """Corners relative to the pixels: three ``LaneVector``s of two numbers."""
    return (
        LaneVector(triangle.a0[0] - pixels.x, triangle.a0[1] - pixels.y),
        LaneVector(triangle.a1[0] - pixels.x, triangle.a1[1] - pixels.y),
        LaneVector(triangle.a2[0] - pixels.x, triangle.a2[1] - pixels.y),
    )


@ti.func
def lane_perspective(b: ti.template(), inverse_depths):
    """``fragment.perspective``: a ``LaneVector`` and a vector of lanes."""
    r0, r1, r2 = b[0] * inverse_depths[0], b[1] * inverse_depths[1], b[2] * inverse_depths[2]
    z = 1.0 / (r0 + r1 + r2)
    return LaneVector(r0 * z, r1 * z, r2 * z), z


@ti.func
def _by_edge(edges: ti.template(), x0, x1, x2):
    """One of three numbers, by the nearest edge."""
    return edges[0] * x0 + edges[1] * x1 + edges[2] * x2


@ti.func
def lane_distance_adjoint(pixels: ti.template(), triangle: ti.template(), fragments: ti.template(), logit_bar, inverse_sigma):
    """``fragment.distance_adjoint``: the adjoints of the corners, ``LaneVector``s of two numbers."""
    b, a0, a1, a2 = fragments.boundary, triangle.a0, triangle.a1, triangle.a2
    scale = (2.0 * inverse_sigma) * logit_bar * (1.0 - 2.0 * fragments.is_inside)
    x = (pixels.x - a0[0] * b[0] - a1[0] * b[1] - a2[0] * b[2]) * scale
    y = (pixels.y - a0[1] * b[0] - a1[1] * b[1] - a2[1] * b[2]) * scale
    return LaneVector(x * b[0], y * b[0]), LaneVector(x * b[1], y * b[1]), LaneVector(x * b[2], y * b[2])


@ti.func
def lane_barycentrics_adjoint(pixels: ti.template(), triangle: ti.template(), fragments: ti.template(), b_bar: ti.template()):
    """``fragment.barycentrics_adjoint``: the adjoints of the corners, ``LaneVector``s of two numbers.

    ``b_bar`` is the ``LaneVector`` of the barycentrics' adjoints.
    """
    a0, a1, a2, edges, b = triangle.a0, triangle.a1, triangle.a2, fragments.edges, fragments.barycentrics
    # Inside: the sub-areas.
    scale = triangle.inverse_area * fragments.is_inside
    mean = b.dot(b_bar)
    area0_bar, area1_bar, area2_bar = (b_bar[0] - mean) * scale, (b_bar[1] - mean) * scale, (b_bar[2] - mean) * scale
    x0, y0 = a0[0] - pixels.x, a0[1] - pixels.y
    x1, y1 = a1[0] - pixels.x, a1[1] - pixels.y
    x2, y2 = a2[0] - pixels.x, a2[1] - pixels.y
    # Outside: the parameter of the nearest edge from its start to its end, whose corners follow that opposite to it.
    start_x, start_y = _by_edge(edges, x1, x2, x0), _by_edge(edges, y1, y2, y0)
    edge_x, edge_y = _by_edge(edges, x2, x0, x1) - start_x, _by_edge(edges, y2, y0, y1) - start_y
    t = _by_edge(edges, b[2], b[0], b[1])
    inverse_squared_lengths = triangle.inverse_squared_lengths
    inverse_squared_length = _by_edge(edges, inverse_squared_lengths[0], inverse_squared_lengths[1], inverse_squared_lengths[2])
    t_bar = _by_edge(edges, b_bar[2] - b_bar[1], b_bar[0] - b_bar[2], b_bar[1] - b_bar[0])
    t_bar = t_bar * inverse_squared_length * (1.0 - fragments.is_inside)
    t_bar = ti.select(t > 0.0, ti.select(t < 1.0, t_bar, 0.0), 0.0)
    end_x_bar, end_y_bar = (0.0 - start_x - 2.0 * t * edge_x) * t_bar, (0.0 - start_y - 2.0 * t * edge_y) * t_bar
    start_x_bar, start_y_bar = 0.0 - end_x_bar - edge_x * t_bar, 0.0 - end_y_bar - edge_y * t_bar
    return (
        LaneVector(
            y1 * area2_bar - y2 * area1_bar + edges[1] * end_x_bar + edges[2] * start_x_bar,
            x2 * area1_bar - x1 * area2_bar + edges[1] * end_y_bar + edges[2] * start_y_bar,
        ),
        LaneVector(
            y2 * area0_bar - y0 * area2_bar + edges[2] * end_x_bar + edges[0] * start_x_bar,
            x0 * area2_bar - x2 * area0_bar + edges[2] * end_y_bar + edges[0] * start_y_bar,
        ),
        LaneVector(
            y0 * area1_bar - y1 * area0_bar + edges[0] * end_x_bar + edges[1] * start_x_bar,
            x1 * area0_bar - x0 * area1_bar + edges[0] * end_y_bar + edges[1] * start_y_bar,
        ),
    )
