"""Friction that sticks: an elastic tangential spring with a slip limit at each contact point, and its adjoint (Taichi functions).

Regularised Coulomb friction, -min(mu f_n, kf |u_t|) u_t / |u_t|, is viscous at rest: a body on a slope creeps with the speed at
which kf |u_t| balances its weight. A bristle holds it instead (Cundall and Strack, A discrete numerical model for granular
assemblies, 1979). Its displacement s is a state of the contact point, zero where the point does not touch. A step averages
over the path of the point as ``ti_sim.rigid.contact`` does. With the fraction q of the time in contact, the limit mu f_n at each
time of the path, and

    <a> = a / |a| times the mean of min(|a|, mu f_n) over the path,

    s <- <kt (s + dt q u_t)> / (kt q),        force = -<kt s + kf u_t>.

The first limit is the slip, which does not come back; the second keeps spring and damper together in the friction cone. While
the limit is above or below |a| along the whole path, <a> is a, or shortened to the mean of mu f_n. Where it crosses |a| within a
step, as at the onset and the end of impacts, the mean does not depend on when the law is evaluated, and has a continuous
derivative. A point that slides steadily has the friction mu f_n against its velocity, and one below the cone comes to rest. At
kt = 0 the law is that without a bristle.
"""

from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec2, vec3, vec4
from ti_sim.rigid.contact import normal_force, normal_force_adjoint, onset, separating_depth, slack


@ti.func
def limited(a, most):
    """Vector a, shortened to the length ``most`` if it is longer."""
    length = ti.sqrt(a.x * a.x + a.y * a.y)
    result = a
    if length > most:
        result = most / length * a
    return result


@ti.func
def limited_adjoint(a, most, bar):
    """Adjoint of ``limited``: (a_bar, most_bar). On the limit it is that of the shorter vector."""
    length = ti.sqrt(a.x * a.x + a.y * a.y)
    a_bar, most_bar = bar, 0.0
    if length > most:
        along = a / length
        most_bar = along.dot(bar)
        a_bar = most / length * (bar - most_bar * along)
    return a_bar, most_bar


@ti.func
def contact_path(height, speed, ke, kd, dt):
    """Depth [m] at which the normal force begins from, travel in a step [m] and closing speed [m/s] of a contact point."""
    depth = -height - ti.static(slack()) - separating_depth(speed, ke, kd)
    return vec3(depth, dt * ti.abs(speed), ti.max(-speed, 0.0))


@ti.func
def contact_path_adjoint(speed, ke, kd, dt, path_bar):
    """Adjoint of ``contact_path``: (height_bar, speed_bar, ke_bar, kd_bar)."""
    speed_bar, ke_bar, kd_bar = -dt * path_bar[1] - path_bar[2], 0.0, 0.0
    if speed >= 0:
        speed_bar = dt * path_bar[1]
        if ke > 0:
            speed_bar -= kd / ke * path_bar[0]
            ke_bar = separating_depth(speed, ke, kd) / ke * path_bar[0]
            kd_bar = -speed / ke * path_bar[0]
    return -path_bar[0], speed_bar, ke_bar, kd_bar


@ti.func
def held(pull, path, ke, kd, mu):
    """Mean of min(pull, mu f_n) over a path [N], with f_n = ke c + kd s at the depth c > 0 and the closing speed s.

    Args:
        pull: not negative [N].
        path: of ``contact_path``.
        ke, kd, mu: of the contact.

    Returns:
        (mean [N], its derivative by ``pull`` [1]).
    """
    mean, fraction = onset(path[0], path[1])
    damped, stiffness = mu * kd * path[2], mu * ke
    value, rate = fraction * pull, fraction
    if pull > damped:
        value, rate = fraction * damped + stiffness * mean, 0.0
        if stiffness > 0:
            depth = path[0] - (pull - damped) / stiffness  # below the place where the limit is ``pull``
            if depth >= path[1]:
                value, rate = pull, 1.0
            elif depth > -path[1]:
                less, rate_less = onset(depth, path[1])
                value, rate = value - stiffness * less, rate_less
    elif mu == 0:
        rate = 0.0
    return value, rate


@ti.func
def onset_rates(depth, travel):
    """Derivatives of the fraction of ``onset`` by depth and by travel [1/m], and of its mean depth by travel [1]."""
    by_depth, by_travel, mean_by_travel = 0.0, 0.0, 0.0
    if ti.abs(depth) < travel:
        y = depth / travel
        rest = 1 - ti.abs(y)
        by_depth, by_travel, mean_by_travel = rest / travel, -y * rest / travel, rest * rest * (1 + 2 * ti.abs(y)) / 6
    return by_depth, by_travel, mean_by_travel


@ti.func
def held_adjoint(pull, path, ke, kd, mu, bar):
    """Adjoint of the mean of ``held``, but for ``pull``: (adjoint of the path, vec3 of the adjoints of ke, kd, mu)."""
    mean, fraction = onset(path[0], path[1])
    by_depth, by_travel, mean_by_travel = onset_rates(path[0], path[1])
    damped, stiffness = mu * kd * path[2], mu * ke
    lesser = ti.min(pull, damped)
    depth_bar, travel_bar, damped_bar, stiffness_bar = lesser * by_depth, lesser * by_travel, 0.0, 0.0
    if pull > damped:
        over, less, rate_less, less_by_travel = 0.0, 0.0, 0.0, 0.0
        if stiffness > 0:
            over = (pull - damped) / stiffness
            less, rate_less = onset(path[0] - over, path[1])
            _depth, _travel, less_by_travel = onset_rates(path[0] - over, path[1])
        depth_bar += stiffness * (fraction - rate_less)
        travel_bar += stiffness * (mean_by_travel - less_by_travel)
        damped_bar, stiffness_bar = fraction - rate_less, mean - less - rate_less * over
    law_bar = vec3(mu * stiffness_bar, mu * path[2] * damped_bar, ke * stiffness_bar + kd * path[2] * damped_bar)
    return bar * vec3(depth_bar, travel_bar, mu * kd * damped_bar), bar * law_bar


@ti.func
def held_vector(a, path, ke, kd, mu):
    """A vector a [N], shortened to the mean of min(|a|, mu f_n)."""
    length, result = ti.sqrt(a.x * a.x + a.y * a.y), vec2(0.0)
    if length > 0:
        value, _rate = held(length, path, ke, kd, mu)
        result = value / length * a
    return result


@ti.func
def held_vector_adjoint(a, path, ke, kd, mu, bar):
    """Adjoint of ``held_vector``: (a_bar, adjoint of the path, vec3 of the adjoints of ke, kd, mu)."""
    length = ti.sqrt(a.x * a.x + a.y * a.y)
    value, rate = held(length, path, ke, kd, mu)
    a_bar, path_bar, law_bar = rate * bar, vec3(0.0), vec3(0.0)
    if length > 0:
        along = a / length
        value_bar = along.dot(bar)
        path_bar, law_bar = held_adjoint(length, path, ke, kd, mu, value_bar)
        a_bar = rate * value_bar * along + value / length * (bar - value_bar * along)
    return a_bar, path_bar, law_bar


@ti.func
def bristle_force(height, u, s, ke, kd, kf, mu, kt, dt):
    """Force of the ground on one contact point with a bristle, and the bristle's displacement after the step.

    Args:
        height: height of the point above the plane [m].
        u: velocity of the point [m/s], 3-vector.
        s: displacement of the bristle at the start of the step [m], 2-vector in the plane.
        ke: contact stiffness [N/m].
        kd: contact damping [N s/m].
        kf: tangential damping [N s/m].
        mu: friction coefficient [1].
        kt: bristle stiffness [N/m].
        dt: physics step [s].

    Returns:
        (force [N], 3-vector; displacement at the end of the step [m], 2-vector).
    """
    force, after = vec3(0.0), vec2(0.0)
    normal, fraction = normal_force(height, u.z, ke, kd, dt)
    if normal > 0:
        tangential = vec2(u.x, u.y)
        after = s + dt * fraction * tangential
        hold = vec2(0.0)
        if kt > 0:
            path = contact_path(height, u.z, ke, kd, dt)
            after = held_vector(kt * after, path, ke, kd, mu) / (kt * fraction)
            hold = held_vector(kt * after + kf * tangential, path, ke, kd, mu)
        else:
            hold = limited(kf * fraction * tangential, mu * normal)
        force = vec3(-hold.x, -hold.y, normal)
    return force, after


@ti.func
def bristle_force_adjoint(height, u, s, ke, kd, kf, mu, kt, dt, force_bar, after_bar):
    """Adjoint of ``bristle_force``.

    At kinks the derivative is one-sided: that of no contact at f_n = 0, and that of sticking where a limit is just reached.

    Returns:
        (height_bar, u_bar, s_bar, contact_bar, kt_bar), where contact_bar holds the adjoints of (ke, kd, kf, mu).
    """
    height_bar, kt_bar = 0.0, 0.0
    u_bar, s_bar = vec3(0.0), vec2(0.0)
    contact_bar = vec4(0.0)
    normal, fraction = normal_force(height, u.z, ke, kd, dt)
    if normal > 0:
        tangential, hold_bar = vec2(u.x, u.y), -vec2(force_bar.x, force_bar.y)
        trial = s + dt * fraction * tangential
        tangential_bar, normal_bar, fraction_bar, kf_bar = vec2(0.0), force_bar.z, 0.0, 0.0
        path_bar, law_bar = vec3(0.0), vec3(0.0)
        if kt > 0:
            path = contact_path(height, u.z, ke, kd, dt)
            after = held_vector(kt * trial, path, ke, kd, mu) / (kt * fraction)
            pull_bar, path_bar_force, law_bar_force = held_vector_adjoint(
                kt * after + kf * tangential, path, ke, kd, mu, hold_bar
            )
            kf_bar, tangential_bar = tangential.dot(pull_bar), kf * pull_bar
            spring_bar = after_bar + kt * pull_bar
            fraction_bar = -after.dot(spring_bar) / fraction
            trial_bar, path_bar_after, law_bar_after = held_vector_adjoint(
                kt * trial, path, ke, kd, mu, spring_bar / (kt * fraction)
            )
            kt_bar = after.dot(pull_bar) - after.dot(spring_bar) / kt + trial.dot(trial_bar)
            s_bar = kt * trial_bar
            path_bar, law_bar = path_bar_force + path_bar_after, law_bar_force + law_bar_after
        else:
            pull_bar, most_bar = limited_adjoint(kf * fraction * tangential, mu * normal, hold_bar)
            kt_bar, s_bar = trial.dot(pull_bar), after_bar
            kf_bar, tangential_bar = fraction * tangential.dot(pull_bar), kf * fraction * pull_bar
            fraction_bar = kf * tangential.dot(pull_bar)
            normal_bar += mu * most_bar
            law_bar[2] = normal * most_bar
        tangential_bar += dt * fraction * s_bar
        fraction_bar += dt * tangential.dot(s_bar)
        height_bar, speed_bar, ke_bar, kd_bar = normal_force_adjoint(height, u.z, ke, kd, dt, normal_bar, fraction_bar)
        path_height_bar, path_speed_bar, path_ke_bar, path_kd_bar = contact_path_adjoint(u.z, ke, kd, dt, path_bar)
        height_bar += path_height_bar
        u_bar = vec3(tangential_bar.x, tangential_bar.y, speed_bar + path_speed_bar)
        contact_bar = vec4(ke_bar + path_ke_bar + law_bar[0], kd_bar + path_kd_bar + law_bar[1], kf_bar, law_bar[2])
    return height_bar, u_bar, s_bar, contact_bar, kt_bar


@ti.func
def load_bristle(bristle: ti.template(), b, slot, p):
    """Displacement [m] of the bristle of point p of world b from a [B, slots, P, 2] array."""
    return vec2(bristle[b, slot, p, 0], bristle[b, slot, p, 1])


@ti.func
def store_bristle(bristle: ti.template(), b, slot, p, s):
    """Write the displacement of a bristle into a [B, slots, P, 2] array."""
    bristle[b, slot, p, 0] = s.x
    bristle[b, slot, p, 1] = s.y


@ti.func
def copy_bristles(source: ti.template(), source_slot, target: ti.template(), slot, b, first, last):
    """Copy the displacements of the points first..last-1 of world b from one slot to another."""
    for p in range(first, last):
        for k in ti.static(range(2)):
            target[b, slot, p, k] = source[b, source_slot, p, k]
