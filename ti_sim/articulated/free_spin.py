"""One step of a link that is attached to the world by a free or spherical joint and has no moving children, and its adjoint.

The torque follows from the accelerations: M = G w' + w x I w, with the armature on the diagonal of G. The momentum p = G w + dt M
then rotates with the link as in torque-free motion, by the implicit midpoint rule (``ti_sim.rollout.free_rotation``). Without
torque the angular momentum in world axes and the energy are conserved to rounding. The reference point is the centre of mass for
a free joint, whose velocity takes the usual semi-implicit step there, and the joint for a spherical one. The rigid solver uses
the same step. Links fixed to the link are merged into it (``merging``).
"""

from ti_sim.articulated.joints import FREE, SPHERICAL
from ti_sim.articulated.spatial import rotated, rotated_back, symmetric
from ti_sim.articulated.tables import JOINT, JOINT_WORK, LINK, TREE
from ti_sim.base.rows import add_vec3, load_vec3, load_vec4, store_vec3, store_vec4
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import (
    body_quaternion_rate,
    body_quaternion_rate_adjoint,
    mat3,
    normalized_adjoint,
    outer,
    quaternion_rate,
    vec3,
)
from ti_sim.rollout.free_rotation import mean_momentum, mean_momentum_adjoint


@ti.func
def inertia_about_pivot(world: ti.template(), b, i, kind):
    """Inertia [kg m2] about the centre of rotation of the link, in link axes, and the armatures of the three axes."""
    inertia = symmetric(world.link, b, i, LINK.inertia)
    if kind == SPHERICAL:
        mass, d = world.link[b, i, LINK.mass], load_vec3(world.link, b, i, LINK.com)
        inertia += mass * (d.dot(d) * diagonal(vec3(1.0)) - outer(d, d))
    last = world.tree[i, TREE.end_qd]
    armature = vec3(0.0)
    for k in ti.static(range(3)):
        armature[k] = world.velocity[b, last - 3 + k, JOINT.armature]
    return inertia, armature


@ti.func
def diagonal(v):
    """Diagonal matrix."""
    return mat3(v.x, 0.0, 0.0, 0.0, v.y, 0.0, 0.0, 0.0, v.z)


@ti.func
def step_freely(world: ti.template(), states: ti.template(), b, slot, i, kind):
    """Step coordinates and velocities of a freely rotating link in a row of ``states``, with the accelerations of that row."""
    dt, turns_q, turns_qd = world.dt, world.tree[i, TREE.first_q], world.coordinates + world.tree[i, TREE.first_qd]
    if kind == FREE:
        turns_q += 3
        turns_qd += 3
    q, w = load_vec4(states, b, slot, turns_q), load_vec3(states, b, slot, turns_qd)
    spin = load_vec3(states, b, slot, turns_qd + world.velocities)
    inertia, armature = inertia_about_pivot(world, b, i, kind)
    total_inertia = inertia + diagonal(armature)
    inverse = total_inertia.inverse()
    momentum = total_inertia @ (w + dt * spin) + dt * w.cross(inertia @ w)
    mean = mean_momentum(momentum, inverse, armature, 0.5 * dt, True)
    q_next = (q + dt * body_quaternion_rate(q, inverse @ mean)).normalized()
    w_next = inverse @ (2 * mean - momentum)
    if kind == FREE:
        d = load_vec3(world.link, b, i, LINK.com)
        x, v = load_vec3(states, b, slot, turns_q - 3), load_vec3(states, b, slot, turns_qd - 3)
        acceleration = load_vec3(states, b, slot, turns_qd - 3 + world.velocities)
        r, turning, turning_spin = rotated(q, d), rotated(q, w), rotated(q, spin)
        v += turning.cross(r) + dt * (
            acceleration + turning_spin.cross(r) + turning.cross(turning.cross(r))
        )  # of the centre of mass
        x += r + dt * v
        r = rotated(q_next, d)
        x -= r
        v -= rotated(q_next, w_next).cross(r)
        store_vec3(states, b, slot, turns_q - 3, x)
        store_vec3(states, b, slot, turns_qd - 3, v)
    store_vec4(states, b, slot, turns_q, q_next)
    store_vec3(states, b, slot, turns_qd, w_next)


@ti.func
def step_freely_adjoint(
    world: ti.template(), states: ti.template(), bars: ti.template(), bar: ti.template(), b, slot, row, i, kind
):
    """Adjoint of ``step_freely``; see ``kinematics.step_coordinates_adjoint``."""
    dt, turns_q, turns_d = world.dt, world.tree[i, TREE.first_q], world.tree[i, TREE.first_qd]
    if kind == FREE:
        turns_q += 3
        turns_d += 3
    turns_qd = world.coordinates + turns_d
    q, w = load_vec4(states, b, slot, turns_q), load_vec3(states, b, slot, turns_qd)
    spin = load_vec3(states, b, slot, turns_qd + world.velocities)
    inertia, armature = inertia_about_pivot(world, b, i, kind)
    total_inertia = inertia + diagonal(armature)
    inverse = total_inertia.inverse()
    momentum = total_inertia @ (w + dt * spin) + dt * w.cross(inertia @ w)
    mean = mean_momentum(momentum, inverse, armature, 0.5 * dt, True)
    w_mean = inverse @ mean

    q_bar, w_bar = load_vec4(bar, b, row, turns_q), load_vec3(bar, b, row, turns_qd)
    early_w_bar, early_spin_bar, turn_bar = vec3(0.0), vec3(0.0), vec3(0.0)  # before the step
    if kind == FREE:
        d = load_vec3(world.link, b, i, LINK.com)
        q_next, w_next = load_vec4(states, b, slot + 1, turns_q), load_vec3(states, b, slot + 1, turns_qd)
        x_bar, v_bar = load_vec3(bar, b, row, turns_q - 3), load_vec3(bar, b, row, turns_qd - 3)
        r, turning = rotated(q_next, d), rotated(q_next, w_next)
        r_bar, turning_bar = turning.cross(v_bar) - x_bar, v_bar.cross(r)
        q_bar += 4 * quaternion_rate(r.cross(r_bar) + turning.cross(turning_bar), q_next)
        w_bar += rotated_back(q_next, turning_bar)
        d_bar = rotated_back(q_next, r_bar)
        v_bar += dt * x_bar
        r, turning, turning_spin = rotated(q, d), rotated(q, w), rotated(q, spin)
        g, relative_velocity = dt * v_bar, turning.cross(r)
        relative_velocity_bar = v_bar + g.cross(turning)
        turning_bar = relative_velocity.cross(g) + r.cross(relative_velocity_bar)
        turning_spin_bar = r.cross(g)
        r_bar = x_bar + relative_velocity_bar.cross(turning) + g.cross(turning_spin)
        turn_bar = r.cross(r_bar) + turning.cross(turning_bar) + turning_spin.cross(turning_spin_bar)
        early_w_bar, early_spin_bar = rotated_back(q, turning_bar), rotated_back(q, turning_spin_bar)
        add_vec3(bars.link, b, i, LINK.com, d_bar + rotated_back(q, r_bar))
        for k in ti.static(range(3)):
            bar[b, row, turns_qd - 3 + k] = v_bar[k]
            world.velocity_work[b, turns_d - 3 + k, JOINT_WORK.drive] = -g[k]

    after_bar = inverse @ w_bar  # of 2 mean - momentum
    inverse_bar = outer(w_bar, 2 * mean - momentum)
    raw_bar = normalized_adjoint(q + dt * body_quaternion_rate(q, w_mean), q_bar)
    rate_q_bar, w_mean_bar = body_quaternion_rate_adjoint(q, w_mean, dt * raw_bar)
    inverse_bar += outer(w_mean_bar, mean)
    momentum_bar, mean_inverse_bar, armature_bar = mean_momentum_adjoint(
        mean, inverse, armature, 0.5 * dt, inverse @ w_mean_bar + 2 * after_bar, True
    )
    momentum_bar -= after_bar
    inverse_bar += mean_inverse_bar
    gained_bar = total_inertia @ momentum_bar
    swirl_bar = dt * momentum_bar.cross(w)  # of inertia @ w
    whole_bar = outer(momentum_bar, w + dt * spin) - inverse @ inverse_bar @ inverse
    w_bar = gained_bar + dt * (inertia @ w).cross(momentum_bar) + inertia @ swirl_bar + early_w_bar
    spin_bar = dt * gained_bar + early_spin_bar
    q_bar = raw_bar + rate_q_bar + 4 * quaternion_rate(turn_bar, q)
    inertia_bar = whole_bar + outer(swirl_bar, w)
    add_inertia_adjoint(world, bars, b, i, kind, inertia_bar)
    for k in ti.static(range(3)):
        d = turns_d + k
        bars.velocity[b, d, JOINT.armature] = bars.velocity[b, d, JOINT.armature] + armature_bar[k] + whole_bar[k, k]
        bar[b, row, turns_qd + k] = w_bar[k]
        world.velocity_work[b, d, JOINT_WORK.drive] = -spin_bar[k]
    store_vec4(bar, b, row, turns_q, q_bar)


@ti.func
def add_inertia_adjoint(world: ti.template(), bars: ti.template(), b, i, kind, inertia_bar):
    """Add the adjoint of the result of ``inertia_about_pivot`` to those of the link's inertia, mass and centre of mass."""
    for k in ti.static(range(3)):
        bars.link[b, i, LINK.inertia + k] = bars.link[b, i, LINK.inertia + k] + inertia_bar[k, k]
    for k, pair in ti.static(enumerate(((0, 1), (0, 2), (1, 2)))):
        mixed = inertia_bar[pair[0], pair[1]] + inertia_bar[pair[1], pair[0]]
        bars.link[b, i, LINK.inertia + 3 + k] = bars.link[b, i, LINK.inertia + 3 + k] + mixed
    if kind == SPHERICAL:
        mass, d = world.link[b, i, LINK.mass], load_vec3(world.link, b, i, LINK.com)
        trace = inertia_bar[0, 0] + inertia_bar[1, 1] + inertia_bar[2, 2]
        bars.link[b, i, LINK.mass] = bars.link[b, i, LINK.mass] + trace * d.dot(d) - d.dot(inertia_bar @ d)
        add_vec3(bars.link, b, i, LINK.com, mass * (2 * trace * d - (inertia_bar + inertia_bar.transpose()) @ d))
