"""Friction that sticks: an elastic tangential spring with a slip limit at each contact point, and its adjoint (Taichi functions).

Regularised Coulomb friction, -min(mu f_n, kf |u_t|) u_t / |u_t|, is viscous at rest: a body on a slope creeps with the speed at
which kf |u_t| balances its weight. A bristle holds it instead (Cundall and Strack, A discrete numerical model for granular
assemblies, 1979). Its displacement s is a state of the contact point, zero where the point does not touch. In each step, with the
normal force f_n of ``ti_sim.rigid.contact``,

    s <- limited(s + dt u_t, mu f_n / kt),        force = -limited(kt s + kf u_t, mu f_n),

where limited(a, c) shortens a vector a to the length c if it is longer. The first limit is the slip, which does not come back;
the second keeps spring and damper together in the friction cone. Both are continuous, the law at kt = 0 is that without a
bristle, a point that slides steadily has the friction mu f_n against its velocity, and one below the cone comes to rest.
"""

from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec2, vec3, vec4
from ti_sim.rigid.contact import slack


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
    depth = -height - ti.static(slack())
    if depth > 0:
        normal = ke * depth - kd * ti.max(u.z, -depth / dt)
        if normal > 0:
            slide = vec2(u.x, u.y)
            after = s + dt * slide
            if kt > 0:
                after = limited(after, mu * normal / kt)
            hold = limited(kt * after + kf * slide, mu * normal)
            force = vec3(-hold.x, -hold.y, normal)
    return force, after


@ti.func
def bristle_force_adjoint(height, u, s, ke, kd, kf, mu, kt, dt, force_bar, after_bar):
    """Adjoint of ``bristle_force``.

    At kinks the derivative is one-sided: that of no contact at depth 0 and at f_n = 0, that of the limited damper as in
    ``contact_force_adjoint``, and that of sticking where a limit is just reached.

    Returns:
        (height_bar, u_bar, s_bar, contact_bar, kt_bar), where contact_bar holds the adjoints of (ke, kd, kf, mu).
    """
    height_bar, kt_bar = 0.0, 0.0
    u_bar, s_bar = vec3(0.0), vec2(0.0)
    contact_bar = vec4(0.0)
    depth = -height - ti.static(slack())
    if depth > 0:
        closing = ti.max(u.z, -depth / dt)
        normal = ke * depth - kd * closing
        if normal > 0:
            slide = vec2(u.x, u.y)
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
            normal_bar = force_bar.z + mu * most_bar
            contact_bar = vec4(depth * normal_bar, -closing * normal_bar, slide.dot(pull_bar), normal * most_bar)
            height_bar = -ke * normal_bar
            u_bar = vec3(slide_bar.x, slide_bar.y, 0.0)
            if u.z > -depth / dt:
                u_bar.z = -kd * normal_bar
            else:
                height_bar -= kd / dt * normal_bar
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
