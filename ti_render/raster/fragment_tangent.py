"""Tangent of the barycentrics of a ``Fragment``."""

from ti_render.raster.fragment import cross2
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
