"""Compliant contact of a point with a plane (the ground or any other): linear spring and damper, regularised Coulomb friction.

A force that is evaluated at discrete times jumps in its first and last step: the motion then depends on the time between the
onset of a contact and the next evaluation, and its derivative, exact at a point, is far from the trend. The law here is therefore
the mean of the continuous law over the path, with a weight that decreases linearly from the time of evaluation to zero one step
earlier and one step later (the weight of a variational integrator with a piecewise linear path; Marsden and West, Discrete
mechanics and variational integrators, Acta Numerica 10, 2001). The path is straight, with the present normal velocity u_n. With
the depth c, the travel l = |u_n| dt and y = c / l, for |y| < 1,

    fraction of the time in contact:  (1 + y)^2 / 2 for y < 0,      1 - (1 - y)^2 / 2 for y >= 0,
    mean depth:                       l (1 + y)^3 / 6 for y < 0,    l (y + (1 - y)^3 / 6) for y >= 0.

They are 1 and c for c >= l, 0 and 0 for c <= -l. Contact therefore begins at a gap of l. The weights of the steps add up to one
at every time, so the impulse of a straight path does not depend on when it is evaluated, neither in steps of semi-implicit Euler
nor in the stages of a Runge-Kutta step. The mean is even in u_n and adds no damping; beyond |c| = l the law is the continuous
one.

Rounding decides whether a point that is placed exactly on the surface and rests there is in contact. The force at that depth is
negligible, but its derivative is that of full contact: friction would hold a point at rest against velocities up to 1e-15 m/s,
and the adjoint would report sticking. The contact surface therefore lies lower by ``slack``, which is well above rounding and far
below visible size.
"""

from ti_sim.base.runtime import require, ti
from ti_sim.base.vecmath import vec3, vec4


def slack() -> float:
    """Offset of the contact surface below the plane [m]: above the rounding of a sum of coordinates of about 1 m."""
    return 4e-7 if require().precision == "f32" else 4e-15


slack._is_wrapped_kernel = True  # Taichi otherwise warns about plain functions in kernels


@ti.func
def onset(depth, travel):
    """Mean depth [m] and fraction of the time in contact [1] of a point on a straight path, see the formulas above.

    Args:
        depth: depth of the point at the time of evaluation [m].
        travel: distance that it moves along the normal in a step [m], not negative.
    """
    mean, fraction = 0.0, 0.0
    if depth >= travel:
        mean, fraction = depth, 1.0
    elif depth > -travel:
        y = depth / travel
        rest = 1 - ti.abs(y)
        mean, fraction = travel * rest * rest * rest / 6, 0.5 * rest * rest
        if y >= 0:
            mean += depth
            fraction = 1 - fraction
    return mean, fraction


@ti.func
def separating_depth(speed, ke, kd):
    """Depth at which the force on a separating point is zero: kd u_n / ke [m]; out of reach without stiffness."""
    depth = 0.0
    if speed > 0 and kd > 0:
        depth = kd * speed / ti.max(ke, 1e-30)
    return depth


@ti.func
def normal_force(height, speed, ke, kd, dt):
    """Normal force of contact, ke c + kd s for a closing speed s > 0 and max(0, ke c - kd u_n) while separating; see ``onset``.

    Args:
        height: height of the point above the plane [m].
        speed: normal velocity u_n [m/s], positive if separating.
        ke: contact stiffness [N/m].
        kd: contact damping [N s/m].
        dt: physics step [s].

    Returns:
        (force [N], fraction of the time in contact [1]).
    """
    force, fraction = 0.0, 0.0
    depth, travel = -height - ti.static(slack()), dt * ti.abs(speed)
    if depth > -travel:
        mean, share = onset(depth - separating_depth(speed, ke, kd), travel)
        force, fraction = ke * mean - kd * share * ti.min(speed, 0.0), share
    return force, fraction


@ti.func
def normal_force_adjoint(height, speed, ke, kd, dt, force_bar, fraction_bar):
    """Adjoint of ``normal_force``: (height_bar, speed_bar, ke_bar, kd_bar)."""
    height_bar, speed_bar, ke_bar, kd_bar = 0.0, 0.0, 0.0, 0.0
    depth, travel = -height - ti.static(slack()), dt * ti.abs(speed)
    if depth > -travel:
        lift = separating_depth(speed, ke, kd)
        depth -= lift
        mean, fraction = onset(depth, travel)
        if fraction > 0:
            closing = -ti.min(speed, 0.0)
            mean_bar, travel_bar = ke * force_bar, 0.0
            ke_bar, kd_bar = mean * force_bar, fraction * closing * force_bar
            depth_bar = fraction * mean_bar
            if ti.abs(depth) < travel:
                y = depth / travel
                rest = 1 - ti.abs(y)
                slope_bar = rest / travel * (fraction_bar + kd * closing * force_bar)
                depth_bar += slope_bar
                travel_bar = rest * rest * (1 + 2 * ti.abs(y)) / 6 * mean_bar - y * slope_bar
            height_bar = -depth_bar
            if speed < 0 or ke == 0:
                speed_bar = -dt * travel_bar - kd * fraction * force_bar
            else:
                speed_bar = dt * travel_bar - kd / ke * depth_bar
                ke_bar += lift / ke * depth_bar
                kd_bar = -speed / ke * depth_bar
    return height_bar, speed_bar, ke_bar, kd_bar


@ti.func
def contact_force(height, u, ke, kd, kf, mu, dt):
    """Force of the ground on one contact point (gradSim, appendix A: normal force f_n and relaxed Coulomb friction f_f).

    The tangential force is -min(mu f_n, kf q |u_t|) u_t / |u_t|, with f_n and the fraction q of ``normal_force``.

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
    normal, fraction = normal_force(height, u.z, ke, kd, dt)
    if normal > 0:
        speed = ti.sqrt(u.x * u.x + u.y * u.y)
        drag = 0.0  # if mu f_n = 0 there is no friction, also at rest
        if kf * fraction * speed > mu * normal:
            drag = mu * normal / speed
        elif mu * normal > 0:
            drag = kf * fraction
        force = vec3(-drag * u.x, -drag * u.y, normal)
    return force


@ti.func
def contact_force_adjoint(height, u, ke, kd, kf, mu, dt, force_bar):
    """Adjoint of ``contact_force``.

    The normal force has a continuous derivative, except at rest on the surface, where it is that of no contact. At the other
    kinks the derivative is one-sided: that of sticking if kf q |u_t| = mu f_n > 0. If both are 0, a small change of either one
    causes no friction, and the derivative is 0. For parameters that must not be negative (ke, kd, kf, mu), the derivative at 0 is
    the right-hand one.

    Returns:
        (height_bar, u_bar, contact_bar), where contact_bar holds the adjoints of (ke, kd, kf, mu).
    """
    height_bar = 0.0
    u_bar = vec3(0.0)
    contact_bar = vec4(0.0)
    normal, fraction = normal_force(height, u.z, ke, kd, dt)
    if fraction > 0:
        speed = ti.sqrt(u.x * u.x + u.y * u.y)
        along = u.x * force_bar.x + u.y * force_bar.y
        normal_bar, fraction_bar = force_bar.z, 0.0
        if kf * fraction * speed > mu * normal:
            along /= speed
            drag = mu * normal / speed
            normal_bar -= mu * along
            contact_bar.w = -normal * along
            u_bar.x = -drag * (force_bar.x - u.x / speed * along)
            u_bar.y = -drag * (force_bar.y - u.y / speed * along)
        elif mu * normal > 0:
            contact_bar.z = -fraction * along
            fraction_bar = -kf * along
            u_bar.x = -kf * fraction * force_bar.x
            u_bar.y = -kf * fraction * force_bar.y
        height_bar, u_bar.z, contact_bar.x, contact_bar.y = normal_force_adjoint(
            height, u.z, ke, kd, dt, normal_bar, fraction_bar
        )
    return height_bar, u_bar, contact_bar


@ti.func
def contact_force_along(normal, gap, u, ke, kd, kf, mu, dt):
    """``contact_force`` for a surface with the unit ``normal`` and a point at the distance ``gap`` [m] above it, in world axes.

    Returns:
        (force [N], fraction of the time in contact [1]).
    """
    force, speed = vec3(0.0), u.dot(normal)
    size, fraction = normal_force(gap, speed, ke, kd, dt)
    if size > 0:
        slide, drag = u - speed * normal, 0.0
        slip = slide.norm()
        if kf * fraction * slip > mu * size:
            drag = mu * size / slip
        elif mu * size > 0:
            drag = kf * fraction
        force = size * normal - drag * slide
    return force, fraction


@ti.func
def contact_force_along_adjoint(normal, gap, u, ke, kd, kf, mu, dt, force_bar, fraction_bar):
    """Adjoint of ``contact_force_along``, with the derivatives of ``contact_force_adjoint`` at kinks.

    Returns:
        (normal_bar, gap_bar, u_bar, contact_bar); normal_bar is orthogonal to the normal.
    """
    normal_bar, gap_bar, u_bar, contact_bar = vec3(0.0), 0.0, vec3(0.0), vec4(0.0)
    speed = u.dot(normal)
    size, fraction = normal_force(gap, speed, ke, kd, dt)
    if fraction > 0:
        slide, size_bar, drag = u - speed * normal, force_bar.dot(normal), 0.0
        across, slide_bar, slip = force_bar - size_bar * normal, vec3(0.0), slide.norm()
        normal_bar = size * across
        along, lost = slide.dot(across), size_bar
        if kf * fraction * slip > mu * size:
            along /= slip
            drag = mu * size / slip
            size_bar -= mu * along
            contact_bar.w = -size * along
            slide_bar = -drag * (across - slide * (along / slip))
        elif mu * size > 0:
            drag = kf * fraction
            contact_bar.z = -fraction * along
            fraction_bar -= kf * along
            slide_bar = -drag * across
        gap_bar, speed_bar, contact_bar.x, contact_bar.y = normal_force_adjoint(
            gap, speed, ke, kd, dt, size_bar, fraction_bar
        )
        # The normal changes the speed along it, and what is left of the velocity.
        normal_bar += (lost * drag + speed_bar) * slide - speed * slide_bar
        u_bar = slide_bar + speed_bar * normal
    return normal_bar, gap_bar, u_bar, contact_bar
