"""Compliant contact of a point with a plane, the ground or any other: linear spring and damper, relaxed Coulomb friction.

A damper that acts at full strength as soon as a point is found below the plane makes the motion jump whenever a parameter
moves the onset of a contact from one step into the next. Between such jumps the discrete gradient is exact and yet misses what
the jumps add up to, so that gradient descent stops beside the minimum. Here the closing speed that the damper sees is at most
depth / dt: a point that set in within the last step is damped for the part of that step that it was in contact. The force
then grows from zero, the motion is continuous in all parameters, and the law is that of the continuous problem as dt -> 0.

A point set exactly on the surface is on it but for rounding, which decides whether it touches. The force of such a depth is
nothing, its slope is that of full contact: at rest friction would hold the point against velocities up to 1e-15 m/s, and the
adjoint would say that it holds it. The surface that touches therefore lies ``slack`` lower, far above rounding and far below
all that is seen.
"""

from ti_sim.base.runtime import require, ti
from ti_sim.base.vecmath import mat3, vec3, vec4


def slack() -> float:
    """How much lower the surface that touches lies [m]: above the rounding of a sum of coordinates of about 1 m."""
    return 4e-7 if require().precision == "f32" else 4e-15


slack._is_wrapped_kernel = True  # Taichi otherwise warns about plain functions in kernels


@ti.func
def contact_force(height, u, ke, kd, kf, mu, dt):
    """Force of the ground on one contact point (gradSim, appendix A: f_n and relaxed Coulomb f_f).

    Depth c = -height - ``slack``, normal velocity u_z (positive apart): f_n = max(0, ke c - kd max(u_z, -c / dt)), and
    tangential -min(mu f_n, kf |u_t|) u_t / |u_t|.

    Args:
        height: of the point above the plane [m].
        u: velocity of the point [m/s], 3-vector.
        ke: contact stiffness [N/m].
        kd: contact damping [N s/m].
        kf: tangential (friction) stiffness [N s/m].
        mu: friction coefficient [1].
        dt: physics step [s].

    Returns:
        Force [N], 3-vector.
    """
    force = vec3(0.0)
    depth = -height - ti.static(slack())
    if depth > 0:
        normal = ke * depth - kd * ti.max(u.z, -depth / dt)
        if normal > 0:
            speed = ti.sqrt(u.x * u.x + u.y * u.y)
            drag = 0.0  # where mu f_n = 0 there is no friction, at rest neither
            if kf * speed > mu * normal:
                drag = mu * normal / speed
            elif mu * normal > 0:
                drag = kf
            force = vec3(-drag * u.x, -drag * u.y, normal)
    return force


@ti.func
def contact_force_adjoint(height, u, ke, kd, kf, mu, dt, force_bar):
    """Adjoint of ``contact_force``.

    At its kinks the derivative is one-sided: at depth 0 that of no contact; where spring and damper sum to exactly f_n = 0 that
    of contact, by kd that of more damping; where u_n = -c / dt that of a limited damper; where kf |u_t| = mu f_n > 0 that of
    sticking. Where both are 0 no small change of one of them makes friction, and its derivative is 0. Numbers that may not be
    negative (ke, kd, kf, mu) at 0 have the derivative of larger ones.

    Returns:
        (height_bar, u_bar, contact_bar) with contact_bar the adjoints of (ke, kd, kf, mu).
    """
    height_bar = 0.0
    u_bar = vec3(0.0)
    contact_bar = vec4(0.0)
    depth = -height - ti.static(slack())
    if depth > 0:
        closing = ti.max(u.z, -depth / dt)
        normal = ke * depth - kd * closing
        if normal >= 0:
            speed = ti.sqrt(u.x * u.x + u.y * u.y)
            along = u.x * force_bar.x + u.y * force_bar.y
            normal_bar = force_bar.z
            if kf * speed > mu * normal:
                along /= speed
                drag = mu * normal / speed
                normal_bar -= mu * along
                contact_bar.w = -normal * along
                u_bar.x = -drag * (force_bar.x - u.x / speed * along)
                u_bar.y = -drag * (force_bar.y - u.y / speed * along)
            elif mu * normal > 0:
                contact_bar.z = -along
                u_bar.x = -kf * force_bar.x
                u_bar.y = -kf * force_bar.y
            contact_bar.x = depth * normal_bar
            if normal > 0 or closing < 0:  # where a contact that opens has no force, more damping makes none
                contact_bar.y = -closing * normal_bar
            height_bar = -ke * normal_bar
            if u.z > -depth / dt:
                u_bar.z = -kd * normal_bar
            else:
                height_bar -= kd / dt * normal_bar
    return height_bar, u_bar, contact_bar


@ti.func
def frame_about(n):
    """Rotation matrix whose third column is the unit vector n (Duff et al., Building an orthonormal basis, revisited, 2017)."""
    sign = 1.0
    if n.z < 0:
        sign = -1.0
    a = -1 / (sign + n.z)
    b = n.x * n.y * a
    return mat3(
        1 + sign * n.x * n.x * a, b, n.x,
        sign * b, sign + n.y * n.y * a, n.y,
        -sign * n.x, -n.y, n.z,
    )  # fmt: skip


@ti.func
def contact_force_along(normal, gap, u, ke, kd, kf, mu, dt):
    """``contact_force`` of a surface with any unit ``normal``, at a point at height ``gap`` [m] above it; world axes."""
    frame = frame_about(normal)
    return frame @ contact_force(gap, frame.transpose() @ u, ke, kd, kf, mu, dt)


@ti.func
def contact_force_along_adjoint(normal, gap, u, ke, kd, kf, mu, dt, force_bar):
    """Adjoint of ``contact_force_along``, whose law does not depend on the choice of axes in the surface.

    Returns:
        (normal_bar, gap_bar, u_bar, contact_bar), normal_bar at right angles to the normal.
    """
    frame = frame_about(normal)
    force = contact_force_along(normal, gap, u, ke, kd, kf, mu, dt)
    gap_bar, local_bar, contact_bar = contact_force_adjoint(
        gap, frame.transpose() @ u, ke, kd, kf, mu, dt, frame.transpose() @ force_bar
    )
    u_bar = frame @ local_bar
    # A turn of the normal turns the force as the law stands, and the velocity the other way round as the law sees it.
    turn_bar = force.cross(force_bar) - u.cross(u_bar)
    return turn_bar.cross(normal), gap_bar, u_bar, contact_bar
