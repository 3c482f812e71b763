"""Contact with the ground at the end of an implicit step: the explicit law (``rigid.contact``) with smooth transitions.

A particle comes from the height z_hat and ends at z with the velocity u = (x - x_hat) / gamma, heights above the ground. With
the depths c = -z and c_hat = Q(-z_hat; onset), the normal force is

    f_n = Q(ke c + kd (c - c_hat) / gamma; ke onset),

which is a function of z alone, so that it has a potential. The damper acts on the part of the way below the ground, as in the
explicit law. Friction is -mu f_n phi(kf |u_t| / (mu f_n)) u_t / |u_t|, with f_n that of the end of the step (it is not lagged).

Q(y; e) = e (2 t^2 - t^3), t = y / e, joins 0 at y <= 0 to y at y >= e with a continuous derivative. phi(y) is y below 1 - w and 1
above 1 + w, joined by a parabola: sticking and sliding are those of the explicit law, and the change between them is smooth.
"""

from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import mat3, vec2, vec3, vec4

_WIDTH = 0.5  # w


@ti.func
def soft_plus(y, width):
    """Q(y; width), its derivatives by y and by width, and its integral from 0 to y."""
    value, slope, by_width, integral = 0.0, 0.0, 0.0, 0.0
    if y >= width:
        value, slope, integral = y, 1.0, 0.5 * y * y - width * width / 12
    elif y > 0:
        t = y / width
        value = width * t * t * (2 - t)
        slope = t * (4 - 3 * t)
        by_width = 2 * t * t * (t - 1)
        integral = width * width * t * t * t * (2.0 / 3 - t / 4)
    return value, slope, by_width, integral


@ti.func
def grip(y):
    """phi(y) and its derivative."""
    value, slope = 1.0, 0.0
    if y <= 1 - _WIDTH:
        value, slope = y, 1.0
    elif y < 1 + _WIDTH:
        left = 1 + _WIDTH - y
        value, slope = 1 - left * left / (4 * _WIDTH), left / (2 * _WIDTH)
    return value, slope


@ti.func
def ground_law(x, x_hat, ground, gamma, onset, contact):
    """Force of the ground on a particle, and its derivatives.

    Args:
        x: position at the end of the stage [m].
        x_hat: position that it came from (``stages``) [m].
        ground: height of the ground [m].
        gamma: time between both [s].
        onset: see ``ImplicitSettings`` [m].
        contact: ke, kd, kf, mu, a 4-vector.

    Returns:
        (force [N], energy of the normal force [J], by_x and by_x_hat: 3x3 derivatives of the force [N/m], by_normal: derivatives
        of f_n by ke and kd, tangent: direction of sliding, along: derivatives of the friction by f_n, kf and mu along it).
    """
    ke, kd, kf, mu = contact[0], contact[1], contact[2], contact[3]
    came, came_slope, _w, _i = soft_plus(ground - x_hat.z, onset)
    depth = ground - x.z
    push = ke * depth + kd * (depth - came) / gamma
    stiffness = ke + kd / gamma
    normal, slope, by_width, integral = soft_plus(push, ke * onset)
    by_z, by_z_hat = -slope * stiffness, slope * kd / gamma * came_slope
    energy = 0.0
    if stiffness > 0:
        energy = integral / stiffness
    n_ke, n_kd = slope * depth + by_width * onset, slope * (depth - came) / gamma

    tangent = vec3(0.0)
    drag, along, t_n, t_kf, t_mu = 0.0, 0.0, 0.0, 0.0, 0.0
    u = vec3(x.x - x_hat.x, x.y - x_hat.y, 0.0) / gamma
    limit = mu * normal
    if limit > 0 and kf > 0:
        speed = u.norm()
        held, held_slope = grip(kf * speed / limit)
        drag, along = kf, kf * held_slope
        rest = held - kf * speed / limit * held_slope
        if speed > 0:
            tangent = u / speed
            if kf * speed > (1 - _WIDTH) * limit:
                drag = limit * held / speed
        t_n, t_mu, t_kf = -mu * rest, -normal * rest, -speed * held_slope
    force = vec3(-drag * u.x, -drag * u.y, normal)
    by_x, by_x_hat = mat3(0.0), mat3(0.0)
    for i, j in ti.static(ti.ndrange(2, 2)):
        same = ti.static(1.0 if i == j else 0.0)
        by_x[i, j] = -(drag * (same - tangent[i] * tangent[j]) + along * tangent[i] * tangent[j]) / gamma
        by_x_hat[i, j] = -by_x[i, j]
    for i in ti.static(range(2)):
        by_x[i, 2] = t_n * tangent[i] * by_z
        by_x_hat[i, 2] = t_n * tangent[i] * by_z_hat
    by_x[2, 2], by_x_hat[2, 2] = by_z, by_z_hat
    return force, energy, by_x, by_x_hat, vec2(n_ke, n_kd), tangent, vec3(t_n, t_kf, t_mu)


@ti.func
def ground_bars(by_normal, tangent, along, dual):
    """Adjoints of ke, kd, kf, mu from the last three results of ``ground_law`` and the adjoint ``dual`` of the force."""
    pulled = tangent.dot(dual)
    normal_bar = dual.z + along[0] * pulled
    return vec4(by_normal[0] * normal_bar, by_normal[1] * normal_bar, along[1] * pulled, along[2] * pulled)
