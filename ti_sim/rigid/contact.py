"""Compliant contact of a point with a plane (the ground or any other): linear spring and damper, regularised Coulomb friction.

If the damper acted at full strength as soon as a point is below the plane, the motion would jump whenever a parameter moves the
onset of a contact from one step to the next. Between these jumps the discrete gradient is exact, but it misses the sum of the
jumps, so gradient descent stops next to the minimum. The closing speed in the damper is therefore limited to depth / dt: a point
that came into contact during the last step is damped for the part of that step in which it was in contact. The force grows from
zero, the motion is continuous in all parameters, and the law converges to the continuous one as dt -> 0.

Rounding decides whether a point placed exactly on the surface is in contact. The force at that depth is negligible, but its
derivative is that of full contact: friction would hold a point at rest against velocities up to 1e-15 m/s, and the adjoint would
report sticking. The contact surface therefore lies lower by ``slack``, which is well above rounding and far below visible size.
"""

from ti_sim.base.runtime import require, ti
from ti_sim.base.vecmath import mat3, vec3, vec4


def slack() -> float:
    """Offset of the contact surface below the plane [m]: above the rounding of a sum of coordinates of about 1 m."""
    return 4e-7 if require().precision == "f32" else 4e-15


slack._is_wrapped_kernel = True  # Taichi otherwise warns about plain functions in kernels


@ti.func
def contact_force(height, u, ke, kd, kf, mu, dt):
    """Force of the ground on one contact point (gradSim, appendix A: normal force f_n and relaxed Coulomb friction f_f).

    With the depth c = -height - ``slack`` and the normal velocity u_z (positive if separating), the normal force is f_n = max(0,
    ke c - kd max(u_z, -c / dt)) and the tangential force -min(mu f_n, kf |u_t|) u_t / |u_t|.

    Args:
        height: height of the point above the plane [m].
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
            drag = 0.0  # if mu f_n = 0 there is no friction, also at rest
            if kf * speed > mu * normal:
                drag = mu * normal / speed
            elif mu * normal > 0:
                drag = kf
            force = vec3(-drag * u.x, -drag * u.y, normal)
    return force


@ti.func
def contact_force_adjoint(height, u, ke, kd, kf, mu, dt, force_bar):
    """Adjoint of ``contact_force``.

    At kinks the derivative is one-sided: that of no contact at depth 0; that of contact (for kd: of more damping) if spring and
    damper sum to exactly f_n = 0; that of the limited damper if u_n = -c / dt; that of sticking if kf |u_t| = mu f_n > 0. If both
    are 0, a small change of either one causes no friction, and the derivative is 0. For parameters that must not be negative (ke,
    kd, kf, mu), the derivative at 0 is the right-hand one.

    Returns:
        (height_bar, u_bar, contact_bar), where contact_bar holds the adjoints of (ke, kd, kf, mu).
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
            if normal > 0 or closing < 0:  # a separating contact without force gets none from more damping
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
    """``contact_force`` for a surface with a given unit ``normal`` and a point at the distance ``gap`` [m] above it; world axes.
    """
    frame = frame_about(normal)
    return frame @ contact_force(gap, frame.transpose() @ u, ke, kd, kf, mu, dt)


@ti.func
def contact_force_along_adjoint(normal, gap, u, ke, kd, kf, mu, dt, force_bar):
    """Adjoint of ``contact_force_along``; the law does not depend on the choice of axes in the surface.

    Returns:
        (normal_bar, gap_bar, u_bar, contact_bar); normal_bar is orthogonal to the normal.
    """
    frame = frame_about(normal)
    force = contact_force_along(normal, gap, u, ke, kd, kf, mu, dt)
    gap_bar, local_bar, contact_bar = contact_force_adjoint(
        gap, frame.transpose() @ u, ke, kd, kf, mu, dt, frame.transpose() @ force_bar
    )
    u_bar = frame @ local_bar
    # A rotation of the normal rotates the force, and rotates the velocity in the axes of the law backwards.
    turn_bar = force.cross(force_bar) - u.cross(u_bar)
    return turn_bar.cross(normal), gap_bar, u_bar, contact_bar
