"""Lift and drag of the air on a triangle, and their adjoint.

With s = N . u the volume flow through the triangle, N its area vector (area times unit normal) and u its velocity relative to the
air: drag -c_d |s| u, and lift -c_l (N . u) (|u| n - (n . u) u / |u|), which is orthogonal to u and does no work. Both are
independent of the winding of the triangle, and vanish for a triangle at rest in the air.
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
        normal_speed = n.dot(u)
        cosine = normal_speed / speed
        force = -area * ((drag * ti.abs(normal_speed) - lift * normal_speed * cosine) * u + lift * normal_speed * speed * n)
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
        normal_speed = n.dot(u)
        abs_normal_speed = ti.abs(normal_speed)
        sign = ti.select(normal_speed < 0, -1.0, 1.0)
        inverse_speed = 1 / speed
        cosine = inverse_speed * normal_speed
        uw, nw = u.dot(w), n.dot(w)
        dw = inverse_speed * uw
        drag_bar = -area * abs_normal_speed * uw
        lift_bar = -area * normal_speed * (speed * nw - normal_speed * dw)
        # With v_n the normal speed, the virtual power of the lift is -lift area (v_n speed nw - v_n^2 dw).
        normal_speed_bar = -drag * sign * uw - lift * (speed * nw - 2 * normal_speed * dw)  # per area
        area_vector_bar = normal_speed_bar * u + lift * normal_speed * ((speed * nw - normal_speed * dw) * n - speed * w)
        u_bar = area * (
            normal_speed_bar * n
            - (drag * abs_normal_speed - lift * normal_speed * cosine) * w
            - lift * cosine * (nw + cosine * dw) * u
        )
    return area_vector_bar, u_bar, drag_bar, lift_bar
