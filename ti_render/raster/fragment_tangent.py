"""Tangents of what ``fragment`` finds: barycentrics, +-d^2 / sigma, depth."""

from ti_render.raster.fragment import cross2
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3


@ti.func
def _edge_parameter_tangent(p, a, b, t, inverse_squared, a_dot, b_dot):
    """Tangent of the place t of the point of the segment a-b that is closest to ``p`` (zero where t was clipped)."""
    result = 0.0
    if t > 0 and t < 1:
        e, e_dot, r = b - a, b_dot - a_dot, p - a
        result = (r.dot(e_dot) - a_dot.dot(e) - 2.0 * t * e.dot(e_dot)) * inverse_squared
    return result


@ti.func
def barycentrics_tangent(p, a0, a1, a2, b, edge, inside, inverse_area, inverse_squared, d0, d1, d2):
    """Tangent of the barycentrics ``b`` from the tangents d0, d1, d2 of the corners relative to the pixel."""
    b_dot = vec3(0)
    if inside == 1:
        d, u, v = p - a0, a1 - a0, a2 - a0
        u_dot, v_dot = d1 - d0, d2 - d0
        s2 = cross2(u_dot, d) - cross2(u, d0)
        s1 = -cross2(d0, v) + cross2(d, v_dot)
        total = cross2(u_dot, v) + cross2(u, v_dot)
        b_dot = (vec3(total - s1 - s2, s1, s2) - b * total) * inverse_area
    elif edge == 0:
        t = _edge_parameter_tangent(p, a1, a2, b[2], inverse_squared[0], d1, d2)
        b_dot = vec3(0.0, -t, t)
    elif edge == 1:
        t = _edge_parameter_tangent(p, a2, a0, b[0], inverse_squared[1], d2, d0)
        b_dot = vec3(t, 0.0, -t)
    else:
        t = _edge_parameter_tangent(p, a0, a1, b[1], inverse_squared[2], d0, d1)
        b_dot = vec3(-t, t, 0.0)
    return b_dot
