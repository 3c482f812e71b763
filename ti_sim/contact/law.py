"""Compliant contact of a point with a plane (the ground or any other): linear spring and damper, regularised Coulomb friction.

Formulas, kernels and columns of arrays use the symbols of the law: stiffness ke [N/m], damping kd [N s/m], tangential damping kf
[N s/m], friction coefficient mu [1], and bristle stiffness kt [N/m] of ``ti_sim.contact.bristle``. Scenes and public functions
spell them out: ``stiffness``, ``damping``, ``friction_stiffness``, ``friction``, ``bristle_stiffness``.

A force that is evaluated at discrete times jumps in its first and last step: the motion then depends on the time between the
onset of a contact and the next evaluation, and its derivative, exact at a point, is far from the trend. This law is therefore
the mean of the continuous law over the path, with a weight that decreases linearly from the time of evaluation to zero one step
earlier and one step later (the weight of a variational integrator with a piecewise linear path; Marsden and West, Discrete
mechanics and variational integrators, Acta Numerica 10, 2001). The path is straight, with the present normal velocity u_n. With
the depth c, the travel l = |u_n| dt and y = c / l, for |y| < 1,

    fraction of the time in contact:  (1 + y)^2 / 2 for y < 0,      1 - (1 - y)^2 / 2 for y >= 0,
    mean depth:                       l (1 + y)^3 / 6 for y < 0,    l (y + (1 - y)^3 / 6) for y >= 0.

They are 1 and c for c >= l, 0 and 0 for c <= -l. Contact therefore begins at a gap of l. The weights of the steps add up to one
at every time, so the impulse of a straight path does not depend on when it is evaluated, neither in steps of semi-implicit Euler
nor in the stages of a Runge-Kutta step. The mean is even in u_n and adds no damping; beyond |c| = l the law is the continuous
one. Friction is the mean over the same path, along which its limit mu f_n grows or falls (``limited_friction``).

Rounding decides whether a point that is placed exactly on the surface and rests there is in contact. The force at that depth is
negligible, but its derivative is that of full contact: friction would hold a point at rest against velocities up to 1e-15 m/s,
and the adjoint would report sticking. The contact surface therefore lies lower by ``surface_offset``, which is well above
rounding and far below visible size.
"""

from ti_sim.base.rows import Row
from ti_sim.base.runtime import require, ti
from ti_sim.base.vecmath import vec2, vec3, vec4

# Columns of the parameters of a contact, in the units above.
CONTACT_LAW = Row(ke=1, kd=1, kf=1, mu=1)


def surface_offset() -> float:
    """Offset of the contact surface below the plane [m]: above the rounding of a sum of coordinates of about 1 m."""
    return 4e-7 if require().precision == "f32" else 4e-15


surface_offset._is_wrapped_kernel = True  # Taichi otherwise warns about plain functions in kernels


@ti.func
def path_average(depth, travel):
    """Mean depth [m] and fraction of the time in contact [1] of a point on a straight path, see the formulas above.

    Args:
        depth: depth of the point at the time of evaluation [m].
        travel: distance that it moves along the normal in a step [m], not negative.
    """
    mean_depth, fraction = 0.0, 0.0
    if depth >= travel:
        mean_depth, fraction = depth, 1.0
    elif depth > -travel:
        y = depth / travel
        remaining = 1 - ti.abs(y)
        mean_depth, fraction = travel * remaining * remaining * remaining / 6, 0.5 * remaining * remaining
        if y >= 0:
            mean_depth += depth
            fraction = 1 - fraction
    return mean_depth, fraction


@ti.func
def path_average_derivatives(depth, travel):
    """Derivatives of the fraction of ``path_average`` by depth and by travel [1/m], and of its mean depth by travel [1]."""
    by_depth, by_travel, mean_by_travel = 0.0, 0.0, 0.0
    if ti.abs(depth) < travel:
        y = depth / travel
        remaining = 1 - ti.abs(y)
        by_depth, by_travel, mean_by_travel = (
            remaining / travel,
            -y * remaining / travel,
            remaining * remaining * (1 + 2 * ti.abs(y)) / 6,
        )
    return by_depth, by_travel, mean_by_travel


@ti.func
def separating_depth(speed, ke, kd):
    """Depth at which the force on a separating point is zero: kd u_n / ke [m]; huge without stiffness."""
    # No branch: a resting point changes the sign of its speed at random. The quotient is the same for all points of a body.
    return ti.min(kd / ti.max(ke, 1e-30), 1e30) * ti.max(speed, 0.0)


@ti.func
def contact_path(height, speed, ke, kd, dt):
    """Path of a contact point in a step.

    Args:
        height: height of the point above the plane [m].
        speed: normal velocity u_n [m/s], positive if separating.
        ke: contact stiffness [N/m].
        kd: contact damping [N s/m].
        dt: physics step [s].

    Returns:
        3-vector: depth below which the point bears a force [m], travel in a step [m], closing speed [m/s].
    """
    depth = -height - ti.static(surface_offset()) - separating_depth(speed, ke, kd)
    return vec3(depth, dt * ti.abs(speed), ti.max(-speed, 0.0))


@ti.func
def contact_path_adjoint(speed, ke, kd, dt, path_bar):
    """Adjoint of ``contact_path``: (height_bar, speed_bar, ke_bar, kd_bar)."""
    inverse_ke = 0.0
    if ke > 0:
        inverse_ke = 1 / ke
    by_depth = ti.select(speed >= 0, inverse_ke * path_bar[0], 0.0)
    speed_bar = ti.select(speed >= 0, dt * path_bar[1], -dt * path_bar[1] - path_bar[2]) - kd * by_depth
    ke_bar, kd_bar = separating_depth(speed, ke, kd) * by_depth, -speed * by_depth
    return -path_bar[0], speed_bar, ke_bar, kd_bar


@ti.func
def normal_force(path, ke, kd):
    """Mean normal force of contact, ke c + kd s for a closing speed s > 0 and max(0, ke c - kd u_n) while separating.

    Args:
        path: of ``contact_path``.
        ke, kd: contact stiffness [N/m] and damping [N s/m].

    Returns:
        (force [N], fraction of the time in contact [1]).
    """
    mean_depth, fraction = path_average(path[0], path[1])
    return ke * mean_depth + kd * fraction * path[2], fraction


@ti.func
def normal_force_adjoint(path, ke, kd, force_bar, fraction_bar):
    """Adjoint of ``normal_force``: (path_bar, ke_bar, kd_bar)."""
    mean_depth, fraction = path_average(path[0], path[1])
    by_depth, by_travel, mean_by_travel = path_average_derivatives(path[0], path[1])
    fraction_bar += kd * path[2] * force_bar
    path_bar = vec3(
        fraction * ke * force_bar + by_depth * fraction_bar,
        mean_by_travel * ke * force_bar + by_travel * fraction_bar,
        kd * fraction * force_bar,
    )
    return path_bar, mean_depth * force_bar, fraction * path[2] * force_bar


@ti.func
def limited_friction(trial_force, path, ke, kd, mu):
    """Mean of min(trial_force, mu f_n) over a path [N], with f_n = ke c + kd s at the depth c > 0 and the closing speed s.

    Args:
        trial_force: friction without the limit, not negative [N].
        path: of ``contact_path``.
        ke, kd, mu: of the contact.

    Returns:
        (mean [N], its derivative by ``trial_force`` [1], vec3 of those by the path, vec3 of those by ke, kd and mu).
    """
    value, by_trial_force, by_path, by_law = trial_force, 1.0, vec3(0.0), vec3(0.0)
    damping_limit, limit_stiffness = mu * kd * path[2], mu * ke
    elastic_excess = trial_force - damping_limit  # part of the force that only the elastic limit mu ke c can hold
    if path[0] < path[1] or elastic_excess > limit_stiffness * (path[0] - path[1]) or damping_limit + limit_stiffness == 0:
        mean_depth, fraction = path_average(path[0], path[1])
        by_depth, by_travel, mean_by_travel = path_average_derivatives(path[0], path[1])
        viscous_part, damping_limit_rate, limit_stiffness_rate = ti.min(trial_force, damping_limit), 0.0, 0.0
        value, by_trial_force = fraction * viscous_part, 0.0
        by_path = vec3(viscous_part * by_depth, viscous_part * by_travel, 0.0)
        if elastic_excess > 0:
            damping_limit_rate, limit_stiffness_rate = fraction, mean_depth
            # Whether the limit is above ``trial_force`` for the rest of the step.
            if elastic_excess < limit_stiffness * (path[0] + path[1]):
                depth = path[0] - elastic_excess / limit_stiffness
                remaining_mean, by_trial_force = path_average(depth, path[1])
                _by_depth, _by_travel, remaining_by_travel = path_average_derivatives(depth, path[1])
                mean_by_travel -= remaining_by_travel
                damping_limit_rate -= by_trial_force
                limit_stiffness_rate -= remaining_mean + by_trial_force * elastic_excess / limit_stiffness
                mean_depth -= remaining_mean
            value += limit_stiffness * mean_depth
            by_path += vec3(limit_stiffness * damping_limit_rate, limit_stiffness * mean_by_travel, mu * kd * damping_limit_rate)
            by_law = vec3(
                mu * limit_stiffness_rate,
                mu * path[2] * damping_limit_rate,
                ke * limit_stiffness_rate + kd * path[2] * damping_limit_rate,
            )
        elif damping_limit + limit_stiffness > 0:
            by_trial_force = fraction
    return value, by_trial_force, by_path, by_law


@ti.func
def sticks_throughout(force, path, ke, kd, mu):
    """Whether |force| is below mu f_n on the whole path, so that ``limited_friction`` is |force|.

    Most contacts stick, and this test takes no root.
    """
    min_limit = mu * (ke * (path[0] - path[1]) + kd * path[2])
    return path[0] >= path[1] and min_limit > 0 and force.dot(force) <= min_limit * min_limit


@ti.func
def limited_friction_vector(force, path, ke, kd, mu):
    """A force [N], shortened to the mean of min(|force|, mu f_n)."""
    scale = 1.0
    if not sticks_throughout(force, path, ke, kd, mu):
        length = force.norm()
        if length > 0:
            value, _rate, _by_path, _by_law = limited_friction(length, path, ke, kd, mu)
            scale = value / length
    return scale * force


@ti.func
def limited_friction_vector_adjoint(force, path, ke, kd, mu, result_bar):
    """Adjoint of ``limited_friction_vector``: (its value, force_bar, path_bar, vec3 of the adjoints of ke, kd, mu)."""
    limited_force, force_bar, path_bar, law_bar = force, result_bar, vec3(0.0), vec3(0.0)
    if not sticks_throughout(force, path, ke, kd, mu):
        length = force.norm()
        value, by_trial_force, by_path, by_law = limited_friction(length, path, ke, kd, mu)
        force_bar = by_trial_force * result_bar
        if length > 0:
            inverse = 1 / length
            scale, direction = value * inverse, inverse * force
            limited_force = scale * force
            value_bar = direction.dot(result_bar)
            force_bar = scale * result_bar + (by_trial_force - scale) * value_bar * direction
            path_bar, law_bar = value_bar * by_path, value_bar * by_law
    return limited_force, force_bar, path_bar, law_bar


@ti.func
def contact_force(height, u, ke, kd, kf, mu, dt):
    """Force of the ground on one contact point (gradSim, appendix A: normal force f_n and relaxed Coulomb friction f_f).

    The tangential force is -min(mu f_n, kf |u_t|) u_t / |u_t|. Both are means over the path, of ``normal_force`` and
    ``limited_friction``.

    Args:
        height, ke, kd, dt: as in ``contact_path``.
        u: velocity of the point [m/s], 3-vector.
        kf: tangential damping [N s/m].
        mu: friction coefficient [1].

    Returns:
        Force [N], 3-vector.
    """
    force = vec3(0.0)
    path = contact_path(height, u.z, ke, kd, dt)
    normal_magnitude, _fraction = normal_force(path, ke, kd)
    if normal_magnitude > 0:
        friction = limited_friction_vector(kf * vec2(u.x, u.y), path, ke, kd, mu)
        force = vec3(-friction.x, -friction.y, normal_magnitude)
    return force


@ti.func
def contact_force_adjoint(height, u, ke, kd, kf, mu, dt, force_bar):
    """Adjoint of ``contact_force``: (the force, height_bar, u_bar, contact_bar), see ``contact_force_along_adjoint``."""
    force, height_bar, u_bar, contact_bar = vec3(0.0), 0.0, vec3(0.0), vec4(0.0)
    path, tangential_velocity = contact_path(height, u.z, ke, kd, dt), vec2(u.x, u.y)
    if sticks_throughout(kf * tangential_velocity, path, ke, kd, mu):  # most contacts: forces ke c - kd u_n and kf u_t
        depth = -height - ti.static(surface_offset())
        force = vec3(-kf * u.x, -kf * u.y, ke * depth - kd * u.z)
        height_bar, u_bar = -ke * force_bar.z, vec3(-kf * force_bar.x, -kf * force_bar.y, -kd * force_bar.z)
        sliding_bar = -(u.x * force_bar.x + u.y * force_bar.y)
        contact_bar = vec4(depth * force_bar.z, -u.z * force_bar.z, sliding_bar, 0.0)
    elif path[0] > -path[1]:
        friction_bar = vec2(-force_bar.x, -force_bar.y)
        friction, trial_force_bar, path_bar, law_bar = limited_friction_vector_adjoint(
            kf * tangential_velocity, path, ke, kd, mu, friction_bar
        )
        normal_magnitude, _fraction = normal_force(path, ke, kd)
        force = vec3(-friction.x, -friction.y, normal_magnitude)
        path_bar_normal, ke_bar, kd_bar = normal_force_adjoint(path, ke, kd, force_bar.z, 0.0)
        height_bar, speed_bar, ke_bar_path, kd_bar_path = contact_path_adjoint(u.z, ke, kd, dt, path_bar + path_bar_normal)
        contact_bar = vec4(
            ke_bar + ke_bar_path + law_bar[0],
            kd_bar + kd_bar_path + law_bar[1],
            tangential_velocity.dot(trial_force_bar),
            law_bar[2],
        )
        u_bar = vec3(kf * trial_force_bar.x, kf * trial_force_bar.y, speed_bar)
    return force, height_bar, u_bar, contact_bar


@ti.func
def contact_force_along(normal, gap, u, ke, kd, kf, mu, dt):
    """``contact_force`` for a surface with the unit ``normal`` and a point at the distance ``gap`` [m] above it, in world axes.

    Returns:
        (force [N], path of ``contact_path``).
    """
    force, speed = vec3(0.0), u.dot(normal)
    path = contact_path(gap, speed, ke, kd, dt)
    normal_magnitude, _fraction = normal_force(path, ke, kd)
    if normal_magnitude > 0:
        force = normal_magnitude * normal - limited_friction_vector(kf * (u - speed * normal), path, ke, kd, mu)
    return force, path


@ti.func
def contact_force_along_adjoint(normal, gap, u, ke, kd, kf, mu, dt, force_bar, path_bar):
    """Adjoint of ``contact_force_along``, with the force, most of whose terms it needs.

    Normal force and friction have continuous derivatives while the point moves along the normal, except at rest on the surface,
    where they are those of no contact. Without travel the derivative of friction is one-sided where its limit is just reached:
    that of sticking if mu f_n > 0. If kf |u_t| and mu f_n are 0, a small change of either one causes no friction, and the
    derivative is 0. For parameters that must not be negative (ke, kd, kf, mu), the derivative at 0 is the right-hand one.

    Returns:
        (force [N], normal_bar, gap_bar, u_bar, contact_bar), where contact_bar holds the adjoints of (ke, kd, kf, mu);
        normal_bar is orthogonal to the normal.
    """
    force, normal_bar, gap_bar, u_bar, contact_bar = vec3(0.0), vec3(0.0), 0.0, vec3(0.0), vec4(0.0)
    speed = u.dot(normal)
    path, tangential_velocity = contact_path(gap, speed, ke, kd, dt), u - speed * normal
    normal_force_bar, tangential_velocity_bar, normal_magnitude, speed_bar = force_bar.dot(normal), vec3(0.0), 0.0, 0.0
    if sticks_throughout(kf * tangential_velocity, path, ke, kd, mu):  # most contacts: forces ke c - kd u_n and kf u_t
        depth = -gap - ti.static(surface_offset())
        normal_magnitude = ke * depth - kd * speed
        force, tangential_velocity_bar = normal_magnitude * normal - kf * tangential_velocity, -kf * force_bar
        gap_bar, speed_bar, ke_bar, kd_bar = contact_path_adjoint(speed, ke, kd, dt, path_bar)
        gap_bar -= ke * normal_force_bar
        speed_bar -= kd * normal_force_bar
        sliding_bar = -tangential_velocity.dot(force_bar)
        contact_bar = vec4(ke_bar + depth * normal_force_bar, kd_bar - speed * normal_force_bar, sliding_bar, 0.0)
    else:
        mean_force, fraction = normal_force(path, ke, kd)
        if fraction > 0:
            friction, trial_force_bar, path_bar_friction, law_bar = limited_friction_vector_adjoint(
                kf * tangential_velocity, path, ke, kd, mu, -force_bar
            )
            normal_magnitude, tangential_velocity_bar = mean_force, kf * trial_force_bar
            if normal_magnitude > 0:
                force = normal_magnitude * normal - friction
            path_bar_normal, ke_bar, kd_bar = normal_force_adjoint(path, ke, kd, normal_force_bar, 0.0)
            gap_bar, speed_bar, ke_bar_path, kd_bar_path = contact_path_adjoint(
                speed, ke, kd, dt, path_bar + path_bar_normal + path_bar_friction
            )
            contact_bar = vec4(
                ke_bar + ke_bar_path + law_bar[0],
                kd_bar + kd_bar_path + law_bar[1],
                tangential_velocity.dot(trial_force_bar),
                law_bar[2],
            )
    # The normal determines the speed along it and the tangential velocity.
    speed_bar -= tangential_velocity_bar.dot(normal)
    u_bar = tangential_velocity_bar + speed_bar * normal
    normal_bar = normal_magnitude * force_bar + speed_bar * tangential_velocity - speed * tangential_velocity_bar
    normal_bar -= normal_bar.dot(normal) * normal
    return force, normal_bar, gap_bar, u_bar, contact_bar
