"""Tangent of the barycentrics of a ``Fragment``."""

from ti_render.raster.fragment import cross2
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3


@ti.func
def _edge_parameter_tangent(p, a, b, t, inverse_squared, a_dot, b_dot):
    """Tangent of the parameter t of the point of the segment a-b that is closest to ``p`` (zero where t was clipped)."""
    result = 0.0
    if t > 0 and t < 1:
        e, e_dot, r = b - a, b_dot - a_dot, p - a
        result = (r.dot(e_dot) - a_dot.dot(e) - 2.0 * t * e.dot(e_dot)) * inverse_squared
    return result


@ti.func
def barycentrics_tangent(p, triangle: ti.template(), hit: ti.template(), d0, d1, d2):
    """Tangent of the barycentrics of ``hit`` from the tangents d0, d1, d2 of the corners relative to the pixel."""
    b_dot, b, inverse_squared = vec3(0), hit.barycentrics, triangle.inverse_squared
    if hit.inside == 1:
        d, u, v = p - triangle.a0, triangle.a1 - triangle.a0, triangle.a2 - triangle.a0
        u_dot, v_dot = d1 - d0, d2 - d0
        s2 = cross2(u_dot, d) - cross2(u, d0)
        s1 = -cross2(d0, v) + cross2(d, v_dot)
        total = cross2(u_dot, v) + cross2(u, v_dot)
        b_dot = (vec3(total - s1 - s2, s1, s2) - b * total) * triangle.inverse_area
    elif hit.edge == 0:
        t = _edge_parameter_tangent(p, triangle.a1, triangle.a2, b[2], inverse_squared[0], d1, d2)
        b_dot = vec3(0.0, -t, t)
    elif hit.edge == 1:
        t = _edge_parameter_tangent(p, triangle.a2, triangle.a0, b[0], inverse_squared[1], d2, d0)
        b_dot = vec3(t, 0.0, -t)
    else:
        t = _edge_parameter_tangent(p, triangle.a0, triangle.a1, b[1], inverse_squared[2], d0, d1)
        b_dot = vec3(-t, t, 0.0)
    return b_dot
