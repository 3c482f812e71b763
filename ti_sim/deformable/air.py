"""Lift and drag of the air on a triangle, and their adjoint.

With s = N . u the flow through the triangle, N its area vector (area times unit normal) and u its velocity relative to the air:
drag -c_d |s| u, and lift -c_l (N . u) (|u| n - (n . u) u / |u|), which is orthogonal to u and does no work. Both are independent
of the winding of the triangle, and vanish for a triangle at rest in the air.
"""

from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3


@ti.func
def air_force(area, n, u, drag, lift):
    """Force of the air on a triangle.

    Args:
        area: current area [m2].
        n: unit normal, or zero for a triangle without area.
        u: mean velocity of the corners minus that of the air [m/s].
        drag: coefficient c_d [kg/m3].
        lift: coefficient c_l [kg/m3].

    Returns:
        Force [N], 3-vector.
    """
    force = vec3(0.0)
    speed = u.norm()
    if speed > 0:
        signed_speed = n.dot(u)
        direction = signed_speed / speed
        force = -area * ((drag * ti.abs(signed_speed) - lift * signed_speed * direction) * u + lift * signed_speed * speed * n)
    return force


@ti.func
def air_force_adjoint(area, n, u, drag, lift, w):
    """Adjoint of ``air_force``, with w the adjoint of the force.

    Returns:
        (area_vector_bar, u_bar, drag_bar, lift_bar); the area vector is ``area * n``.
    """
    area_vector_bar = vec3(0.0)
    u_bar = vec3(0.0)
    drag_bar = 0.0
    lift_bar = 0.0
    speed = u.norm()
    if speed > 0:
        across = n.dot(u)
        magnitude = ti.abs(across)
        side = ti.select(across < 0, -1.0, 1.0)
        inverse = 1 / speed
        direction = inverse * across
        uw, nw = u.dot(w), n.dot(w)
        dw = inverse * uw
        drag_bar = -area * magnitude * uw
        lift_bar = -area * across * (speed * nw - across * dw)
        # The virtual power of the lift is -lift area (across speed nw - across^2 dw).
        across_bar = -drag * side * uw - lift * (speed * nw - 2 * across * dw)  # per area
        area_vector_bar = across_bar * u + lift * across * ((speed * nw - across * dw) * n - speed * w)
        u_bar = area * (
            across_bar * n - (drag * magnitude - lift * across * direction) * w - lift * direction * (nw + direction * dw) * u
        )
    return area_vector_bar, u_bar, drag_bar, lift_bar
