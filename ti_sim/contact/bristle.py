"""Friction that sticks: an elastic tangential spring with a slip limit at each contact point, and its adjoint (Taichi functions).

Regularised Coulomb friction, -min(mu f_n, kf |u_t|) u_t / |u_t|, is viscous at rest: a body on a slope creeps with the speed at
which kf |u_t| balances its weight. A bristle holds it instead (Cundall and Strack, A discrete numerical model for granular
assemblies, 1979). Its displacement s is a state of the contact point, zero where the point does not touch. A step averages
over the path of the point as ``ti_sim.contact.law`` does. With the fraction q of the time in contact, the limit mu f_n at each
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
from ti_sim.contact.law import (
    contact_path,
    contact_path_adjoint,
    limited_friction_vector,
    limited_friction_vector_adjoint,
    normal_force,
    normal_force_adjoint,
)


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
    force, new_displacement = vec3(0.0), vec2(0.0)
    path = contact_path(height, u.z, ke, kd, dt)
    normal_magnitude, fraction = normal_force(path, ke, kd)
    if normal_magnitude > 0:
        tangential_velocity = vec2(u.x, u.y)
        new_displacement = s + dt * fraction * tangential_velocity
        if kt > 0:
            new_displacement = limited_friction_vector(kt * new_displacement, path, ke, kd, mu) / (kt * fraction)
        friction = limited_friction_vector(kt * new_displacement + kf * tangential_velocity, path, ke, kd, mu)
        force = vec3(-friction.x, -friction.y, normal_magnitude)
    return force, new_displacement


@ti.func
def bristle_force_adjoint(height, u, s, ke, kd, kf, mu, kt, dt, force_bar, new_displacement_bar):
    """Adjoint of ``bristle_force``.

    At kinks the derivative is one-sided: that of no contact at f_n = 0, and that of sticking where a limit is just reached.

    Returns:
        (height_bar, u_bar, s_bar, contact_bar, kt_bar), where contact_bar holds the adjoints of (ke, kd, kf, mu).
    """
    height_bar, kt_bar = 0.0, 0.0
    u_bar, s_bar = vec3(0.0), vec2(0.0)
    contact_bar = vec4(0.0)
    path = contact_path(height, u.z, ke, kd, dt)
    normal_magnitude, fraction = normal_force(path, ke, kd)
    if normal_magnitude > 0:
        tangential_velocity, fraction_bar = vec2(u.x, u.y), 0.0
        trial_displacement = s + dt * fraction * tangential_velocity
        new_displacement = trial_displacement
        if kt > 0:
            new_displacement = limited_friction_vector(kt * trial_displacement, path, ke, kd, mu) / (kt * fraction)
        _friction, trial_friction_bar, path_bar, law_bar = limited_friction_vector_adjoint(
            kt * new_displacement + kf * tangential_velocity, path, ke, kd, mu, -vec2(force_bar.x, force_bar.y)
        )
        kt_bar, s_bar = new_displacement.dot(trial_friction_bar), new_displacement_bar + kt * trial_friction_bar
        if kt > 0:
            spring_bar = s_bar / (kt * fraction)
            _spring_force, trial_spring_bar, path_bar_spring, law_bar_spring = limited_friction_vector_adjoint(
                kt * trial_displacement, path, ke, kd, mu, spring_bar
            )
            fraction_bar = -kt * new_displacement.dot(spring_bar)
            kt_bar += trial_displacement.dot(trial_spring_bar) - fraction * new_displacement.dot(spring_bar)
            s_bar = kt * trial_spring_bar
            path_bar, law_bar = path_bar + path_bar_spring, law_bar + law_bar_spring
        path_bar_normal, ke_bar, kd_bar = normal_force_adjoint(
            path, ke, kd, force_bar.z, fraction_bar + dt * tangential_velocity.dot(s_bar)
        )
        height_bar, speed_bar, ke_bar_path, kd_bar_path = contact_path_adjoint(u.z, ke, kd, dt, path_bar + path_bar_normal)
        tangential_velocity_bar = kf * trial_friction_bar + dt * fraction * s_bar
        u_bar = vec3(tangential_velocity_bar.x, tangential_velocity_bar.y, speed_bar)
        contact_bar = vec4(
            ke_bar + ke_bar_path + law_bar[0],
            kd_bar + kd_bar_path + law_bar[1],
            tangential_velocity.dot(trial_friction_bar),
            law_bar[2],
        )
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
def copy_bristle(source: ti.template(), source_slot, target: ti.template(), target_slot, b, p):
    """Copy the displacement of the bristle of point p of world b from one slot to another."""
    for k in ti.static(range(2)):
        target[b, target_slot, p, k] = source[b, source_slot, p, k]
