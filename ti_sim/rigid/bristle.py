"""Friction that sticks: an elastic tangential spring with a slip limit at each contact point, and its adjoint (Taichi functions).

Regularised Coulomb friction, -min(mu f_n, kf |u_t|) u_t / |u_t|, is viscous at rest: a body on a slope creeps with the speed at
which kf |u_t| balances its weight. A bristle holds it instead (Cundall and Strack, A discrete numerical model for granular
assemblies, 1979). Its displacement s is a state of the contact point, zero where the point does not touch. In each step, with the
normal force f_n and the fraction q of the time in contact of ``ti_sim.rigid.contact``,

    s <- limited(s + dt q u_t, mu f_n / kt),        force = -limited(kt s + kf q u_t, mu f_n),

where limited(a, c) shortens a vector a to the length c if it is longer. The first limit is the slip, which does not come back;
the second keeps spring and damper together in the friction cone. With q the displacement grows from zero at the onset, at
whatever time of a step it occurs. Both are continuous, the law at kt = 0 is that without a
bristle, a point that slides steadily has the friction mu f_n against its velocity, and one below the cone comes to rest.
"""

from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec2, vec3, vec4
from ti_sim.rigid.contact import normal_force, normal_force_adjoint


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
        slide = fraction * vec2(u.x, u.y)
        after = s + dt * slide
        if kt > 0:
            after = limited(after, mu * normal / kt)
        hold = limited(kt * after + kf * slide, mu * normal)
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
        tangential = vec2(u.x, u.y)
        slide = fraction * tangential
        trial = s + dt * slide
        after = trial
        if kt > 0:
            after = limited(trial, mu * normal / kt)
        pull_bar, most_bar = limited_adjoint(kt * after + kf * slide, mu * normal, -vec2(force_bar.x, force_bar.y))
        kt_bar = after.dot(pull_bar)
        trial_bar = after_bar + kt * pull_bar
        if kt > 0:
            trial_bar, limit_bar = limited_adjoint(trial, mu * normal / kt, trial_bar)
            most_bar += limit_bar / kt
            kt_bar -= mu * normal / (kt * kt) * limit_bar
        s_bar = trial_bar
        slide_bar = kf * pull_bar + dt * trial_bar
        height_bar, speed_bar, ke_bar, kd_bar = normal_force_adjoint(
            height, u.z, ke, kd, dt, force_bar.z + mu * most_bar, tangential.dot(slide_bar)
        )
        u_bar = vec3(fraction * slide_bar.x, fraction * slide_bar.y, speed_bar)
        contact_bar = vec4(ke_bar, kd_bar, slide.dot(pull_bar), normal * most_bar)
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
