"""Contact with the ground in implicit steps: the mean of the continuous law over the path, as in ``ti_sim.contact.law``.

A particle comes from the height z_hat and ends at z with the velocity u = (x - x_hat) / gamma; one step before the end, it was
at z_before (heights above the ground). The travel of the mean is l = |z - z_before| + onset, where ``onset`` smooths the
stiffness at rest. With the mean depth m and the fraction q of ``law.path_average`` at the depth -z (less kd u_z / ke while
separating),

    f_n = ke m + kd q max(0, -u_z).

A straight path has |z - z_before| = |u_z| dt, so that the weights of the stages add up to one at every time for each integrator.
In steps that are longer than the contact, |u_z| dt as the travel would reach back beyond the start of the step and create energy.
Here df_n / dz <= 0 in all cases, so that f_n, which is a function of z alone within a stage, has a convex potential.

The first stage of BDF2 has the path from z_before, the height at the start of the step, to the end of the step (``Stage.reach``),
with weights that fall linearly from the start to the end.

Friction is -mu f_n phi(kf q |u_t| / (mu f_n)) u_t / |u_t| with the f_n and q of the end of the step (nothing is lagged). phi(y)
is y below 1 - w and 1 above 1 + w, joined by a parabola: sticking and sliding are those of the explicit law, and the transition
between them is smooth.
"""

from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import mat3, vec2, vec3, vec4
from ti_sim.contact.law import separating_depth

Z, Z_HAT, Z_BEFORE, KE, KD = range(5)  # entries of gradients of the normal force and of the fraction in contact
_WIDTH = 0.5  # w
_CELLS, _GAUSS = 8, 0.5 / 3**0.5  # cells of the quadrature of the potential, and the nodes in each of them


@ti.func
def vec5(a, b, c, d, e):
    """A 5-vector in the precision of the kernel; a vector type would have the precision set when this module was imported."""
    return ti.Vector([a, b, c, d, e])


@ti.func
def regularised_friction(y):
    """phi(y), the friction over its limit, and its derivative."""
    value, derivative = 1.0, 0.0
    if y <= 1 - _WIDTH:
        value, derivative = y, 1.0
    elif y < 1 + _WIDTH:
        remaining_width = 1 + _WIDTH - y
        value, derivative = 1 - remaining_width * remaining_width / (4 * _WIDTH), remaining_width / (2 * _WIDTH)
    return value, derivative


@ti.func
def mean_over_path(depth, above, below):
    """Mean depth and fraction in contact of a path, with weights that fall linearly from ``depth`` to zero at both of its ends.

    Args:
        depth: depth with the largest weight [m].
        above, below: distances from there to the ends above and below [m]; with equal ones this is ``law.path_average``.

    Returns:
        (mean [m], fraction [1], mean_by: derivatives of the mean by above and below, as that by the depth is the fraction,
        fraction_by: derivatives of the fraction by depth, above and below).
    """
    side_distance = above
    if depth <= 0:
        side_distance = below
    width = above + below
    remaining = ti.max(side_distance - ti.abs(depth), 0.0)
    fraction, fraction_by_depth = remaining * remaining / (side_distance * width), 2 * remaining / (side_distance * width)
    mean = remaining * fraction / 3
    mean_by_side, mean_by_other = fraction - mean * (1 / side_distance + 1 / width), -mean / width
    by_side, by_other = fraction_by_depth - fraction * (1 / side_distance + 1 / width), -fraction / width
    mean_by, fraction_by = vec2(mean_by_other, mean_by_side), vec3(fraction_by_depth, by_other, by_side)
    if depth > 0:
        mean += depth + (below - above) / 3
        fraction = 1 - fraction
        mean_by = vec2(mean_by_side - 1 / 3, mean_by_other + 1 / 3)
        fraction_by = vec3(fraction_by_depth, -by_side, -by_other)
    return mean, fraction, mean_by, fraction_by


@ti.func
def path_of(heights, gamma, onset, reach, ke, kd):
    """Path of a particle; see the formulas above.

    Args:
        heights: z, z_hat and z_before above the ground [m], a 3-vector.
        gamma: time from z_hat to z [s].
        onset: see ``ImplicitSettings`` [m].
        reach: see ``Stage``.
        ke, kd: contact stiffness [N/m] and damping [N s/m].

    Returns:
        (arguments of ``mean_over_path`` [m], a 3-vector, whose depth is reduced while separating; closing speed [m/s]).
    """
    speed = (heights.x - heights.y) / gamma
    travel = ti.abs(heights.x - heights.z)
    path = vec3(-heights.x, travel + onset, travel + onset)
    if reach > 0:
        path = vec3(-heights.z, reach * travel + onset, onset)
        if heights.x < heights.z:
            path = vec3(-heights.z, onset, reach * travel + onset)
    path.x -= separating_depth(speed, ke, kd)
    return path, -ti.min(speed, 0.0)


@ti.func
def max_depth(z, previous_height, onset, reach):
    """Depth of the lower end of the path of a particle that does not separate [m]: a convex function of z."""
    travel = ti.abs(z - previous_height)
    depth = travel - z
    if reach > 0:
        depth = ti.max(reach * (previous_height - z), 0.0) - previous_height
    return depth + onset


@ti.func
def normal_law(heights, gamma, onset, reach, ke, kd):
    """Normal force [N], fraction q [1], and their gradients by z, z_hat, z_before, ke and kd (arguments of ``path_of``)."""
    path, closing_speed = path_of(heights, gamma, onset, reach, ke, kd)
    mean, fraction, mean_by_sides, fraction_by_path = mean_over_path(path.x, path.y, path.z)
    force = ke * mean + kd * fraction * closing_speed
    force_by, fraction_by = vec5(0.0, 0.0, 0.0, 0.0, 0.0), vec5(0.0, 0.0, 0.0, 0.0, 0.0)
    if fraction > 0:
        sign = 1.0
        if heights.x < heights.z:
            sign = -1.0
        depth_by, closing_speed_by = vec5(-1.0, 0.0, 0.0, 0.0, 0.0), vec5(0.0, 0.0, 0.0, 0.0, 0.0)
        above_by = vec5(sign, 0.0, -sign, 0.0, 0.0)
        below_by = above_by
        if reach > 0:
            depth_by = vec5(0.0, 0.0, -1.0, 0.0, 0.0)
            above_by *= reach * ti.max(sign, 0.0)
            below_by *= reach * ti.max(-sign, 0.0)
        if closing_speed > 0:
            closing_speed_by = vec5(-1.0, 1.0, 0.0, 0.0, 0.0) / gamma
        elif ke > 0:
            speed, damping_ratio = (heights.x - heights.y) / gamma, kd / (ke * gamma)
            depth_by += vec5(-damping_ratio, damping_ratio, 0.0, kd * speed / (ke * ke), -speed / ke)
        mean_by = fraction * depth_by + mean_by_sides.x * above_by + mean_by_sides.y * below_by
        fraction_by = fraction_by_path.x * depth_by + fraction_by_path.y * above_by + fraction_by_path.z * below_by
        force_by = ke * mean_by + kd * (fraction * closing_speed_by + closing_speed * fraction_by)
        force_by[KE] += mean
        force_by[KD] += fraction * closing_speed
    return force, fraction, force_by, fraction_by


@ti.func
def normal_work(start, heights, gamma, onset, reach, ke, kd):
    """Integral of the normal force from the height ``start`` to z: minus the change of its potential [J].

    Two Gauss points in each of eight cells. The force is smooth but for jumps of its curvature, so that the error relative to
    the work of a change of the force vanishes with the length of the path.
    """
    work = 0.0
    # Without contact at both ends there is none between them.
    if ti.max(max_depth(heights.x, heights.z, onset, reach), max_depth(start, heights.z, onset, reach)) > 0:
        cell = (heights.x - start) / _CELLS
        for i in range(2 * _CELLS):
            node = (i // 2) + 0.5 + (2 * (i % 2) - 1) * _GAUSS
            path, closing_speed = path_of(vec3(start + node * cell, heights.y, heights.z), gamma, onset, reach, ke, kd)
            mean, fraction, _mean_by, _fraction_by = mean_over_path(path.x, path.y, path.z)
            work += 0.5 * cell * (ke * mean + kd * fraction * closing_speed)
    return work


@ti.func
def ground_law(x, x_hat, previous_height, ground, gamma, onset, reach, contact):
    """Force of the ground on a particle, and its derivatives.

    Args:
        x: position at the end of the stage [m].
        x_hat: position that it came from (``stages``) [m].
        previous_height: height one step before the end [m].
        ground: height of the ground [m].
        gamma: time from x_hat to x [s].
        onset: see ``ImplicitSettings`` [m].
        reach: see ``Stage``.
        contact: ke, kd, kf, mu, a 4-vector.

    Returns:
        (force [N], by_x and by_x_hat: 3x3 derivatives of the force [N/m], normal_by and friction_by: gradients of ``normal_law``
        of the normal force and of the friction along the tangent, tangent: direction of sliding, friction_by_kf_mu: derivatives
        of the friction along it by kf and mu).
    """
    ke, kd, kf, mu = contact[0], contact[1], contact[2], contact[3]
    heights = vec3(x.z, x_hat.z, previous_height) - ground
    normal, fraction, normal_by, fraction_by = normal_law(heights, gamma, onset, reach, ke, kd)

    tangent, friction_by_kf_mu, friction_by = vec3(0.0), vec2(0.0), vec5(0.0, 0.0, 0.0, 0.0, 0.0)
    damping, damping_along = 0.0, 0.0
    u = vec3(x.x - x_hat.x, x.y - x_hat.y, 0.0) / gamma
    friction_limit, sticking_damping = mu * normal, kf * fraction
    if friction_limit > 0 and sticking_damping > 0:
        speed = u.norm()
        phi, phi_derivative = regularised_friction(sticking_damping * speed / friction_limit)
        damping, damping_along = sticking_damping, sticking_damping * phi_derivative
        phi_remainder = phi - sticking_damping * speed / friction_limit * phi_derivative
        if speed > 0:
            tangent = u / speed
            if sticking_damping * speed > (1 - _WIDTH) * friction_limit:
                damping = friction_limit * phi / speed
        friction_by_kf_mu = vec2(-fraction * speed * phi_derivative, -normal * phi_remainder)
        friction_by = -mu * phi_remainder * normal_by - kf * speed * phi_derivative * fraction_by
    force = vec3(-damping * u.x, -damping * u.y, normal)
    by_x, by_x_hat = mat3(0.0), mat3(0.0)
    for i, j in ti.static(ti.ndrange(2, 2)):
        identity = ti.static(1.0 if i == j else 0.0)
        by_x[i, j] = -(damping * (identity - tangent[i] * tangent[j]) + damping_along * tangent[i] * tangent[j]) / gamma
        by_x_hat[i, j] = -by_x[i, j]
    for i in ti.static(range(2)):
        by_x[i, 2] = friction_by[Z] * tangent[i]
        by_x_hat[i, 2] = friction_by[Z_HAT] * tangent[i]
    by_x[2, 2], by_x_hat[2, 2] = normal_by[Z], normal_by[Z_HAT]
    return force, by_x, by_x_hat, normal_by, friction_by, tangent, friction_by_kf_mu


@ti.func
def ground_bars(normal_by, friction_by, tangent, friction_by_kf_mu, dual):
    """Adjoints of z_before and of (ke, kd, kf, mu) from the last results of ``ground_law`` and the force's adjoint ``dual``."""
    bar = tangent.dot(dual)
    gradient = dual.z * normal_by + bar * friction_by
    return gradient[Z_BEFORE], vec4(gradient[KE], gradient[KD], friction_by_kf_mu[0] * bar, friction_by_kf_mu[1] * bar)
