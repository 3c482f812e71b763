"""One step of a link that is attached to the world by a free or spherical joint and has no moving children, and its adjoint.

The torque follows from the accelerations: M = G w' + w x I w, with the armature on the diagonal of G. The momentum p = G w + dt M
then rotates with the link as in torque-free motion, by the implicit midpoint rule (``ti_sim.rollout.free_rotation``). Without
torque the angular momentum in world axes and the energy are conserved to rounding. The reference point is the centre of mass for
a free joint, whose velocity takes the usual semi-implicit step there, and the joint for a spherical one. The rigid solver uses
the same step. Links fixed to the link are merged into it (``merging``).
"""

from ti_sim.articulated.joints import FREE, SPHERICAL
from ti_sim.articulated.spatial import load_symmetric, rotated, rotated_back
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
    inertia = load_symmetric(world.link, b, i, LINK.inertia)
    if kind == SPHERICAL:
        mass, d = world.link[b, i, LINK.mass], load_vec3(world.link, b, i, LINK.com)
        inertia += mass * (d.dot(d) * diagonal(vec3(1.0)) - outer(d, d))
    past_last = world.tree[i, TREE.end_qd]
    armature = vec3(0.0)
    for k in ti.static(range(3)):
        armature[k] = world.velocity[b, past_last - 3 + k, JOINT.armature]
    return inertia, armature


@ti.func
def diagonal(v):
    """Diagonal matrix."""
    return mat3(v.x, 0.0, 0.0, 0.0, v.y, 0.0, 0.0, 0.0, v.z)


@ti.func
def step_freely(world: ti.template(), states: ti.template(), b, slot, i, kind):
    """Step coordinates and velocities of a freely rotating link in a row of ``states``, with the accelerations of that row."""
    dt, q_column, w_column = world.dt, world.tree[i, TREE.first_q], world.coordinates + world.tree[i, TREE.first_qd]
    if kind == FREE:
        q_column += 3
        w_column += 3
    q, w = load_vec4(states, b, slot, q_column), load_vec3(states, b, slot, w_column)
    w_rate = load_vec3(states, b, slot, w_column + world.velocities)
    inertia, armature = inertia_about_pivot(world, b, i, kind)
    total_inertia = inertia + diagonal(armature)
    inverse_inertia = total_inertia.inverse()
    momentum = total_inertia @ (w + dt * w_rate) + dt * w.cross(inertia @ w)
    midpoint_momentum = mean_momentum(momentum, inverse_inertia, armature, 0.5 * dt, True)
    q_next = (q + dt * body_quaternion_rate(q, inverse_inertia @ midpoint_momentum)).normalized()
    w_next = inverse_inertia @ (2 * midpoint_momentum - momentum)
    if kind == FREE:
        d = load_vec3(world.link, b, i, LINK.com)
        x, v = load_vec3(states, b, slot, q_column - 3), load_vec3(states, b, slot, w_column - 3)
        acceleration = load_vec3(states, b, slot, w_column - 3 + world.velocities)
        r, world_w, world_w_rate = rotated(q, d), rotated(q, w), rotated(q, w_rate)
        v += world_w.cross(r) + dt * (
            acceleration + world_w_rate.cross(r) + world_w.cross(world_w.cross(r))
        )  # of the centre of mass
        x += r + dt * v
        r = rotated(q_next, d)
        x -= r
        v -= rotated(q_next, w_next).cross(r)
        store_vec3(states, b, slot, q_column - 3, x)
        store_vec3(states, b, slot, w_column - 3, v)
    store_vec4(states, b, slot, q_column, q_next)
    store_vec3(states, b, slot, w_column, w_next)


@ti.func
def step_freely_adjoint(
    world: ti.template(), states: ti.template(), bars: ti.template(), bar: ti.template(), b, slot, row, i, kind
):
    """Adjoint of ``step_freely``; see ``kinematics.step_coordinates_adjoint``."""
    dt, q_column, first_w = world.dt, world.tree[i, TREE.first_q], world.tree[i, TREE.first_qd]
    if kind == FREE:
        q_column += 3
        first_w += 3
    w_column = world.coordinates + first_w
    q, w = load_vec4(states, b, slot, q_column), load_vec3(states, b, slot, w_column)
    w_rate = load_vec3(states, b, slot, w_column + world.velocities)
    inertia, armature = inertia_about_pivot(world, b, i, kind)
    total_inertia = inertia + diagonal(armature)
    inverse_inertia = total_inertia.inverse()
    momentum = total_inertia @ (w + dt * w_rate) + dt * w.cross(inertia @ w)
    midpoint_momentum = mean_momentum(momentum, inverse_inertia, armature, 0.5 * dt, True)
    midpoint_w = inverse_inertia @ midpoint_momentum

    q_bar, w_bar = load_vec4(bar, b, row, q_column), load_vec3(bar, b, row, w_column)
    com_w_bar, com_w_rate_bar, rotation_bar = vec3(0.0), vec3(0.0), vec3(0.0)  # before the step
    if kind == FREE:
        d = load_vec3(world.link, b, i, LINK.com)
        q_next, w_next = load_vec4(states, b, slot + 1, q_column), load_vec3(states, b, slot + 1, w_column)
        x_bar, v_bar = load_vec3(bar, b, row, q_column - 3), load_vec3(bar, b, row, w_column - 3)
        r, world_w = rotated(q_next, d), rotated(q_next, w_next)
        r_bar, world_w_bar = world_w.cross(v_bar) - x_bar, v_bar.cross(r)
        q_bar += 4 * quaternion_rate(r.cross(r_bar) + world_w.cross(world_w_bar), q_next)
        w_bar += rotated_back(q_next, world_w_bar)
        d_bar = rotated_back(q_next, r_bar)
        v_bar += dt * x_bar
        r, world_w, world_w_rate = rotated(q, d), rotated(q, w), rotated(q, w_rate)
        acceleration_bar, relative_velocity = dt * v_bar, world_w.cross(r)
        relative_velocity_bar = v_bar + acceleration_bar.cross(world_w)
        world_w_bar = relative_velocity.cross(acceleration_bar) + r.cross(relative_velocity_bar)
        world_w_rate_bar = r.cross(acceleration_bar)
        r_bar = x_bar + relative_velocity_bar.cross(world_w) + acceleration_bar.cross(world_w_rate)
        rotation_bar = r.cross(r_bar) + world_w.cross(world_w_bar) + world_w_rate.cross(world_w_rate_bar)
        com_w_bar, com_w_rate_bar = rotated_back(q, world_w_bar), rotated_back(q, world_w_rate_bar)
        add_vec3(bars.link, b, i, LINK.com, d_bar + rotated_back(q, r_bar))
        for k in ti.static(range(3)):
            bar[b, row, w_column - 3 + k] = v_bar[k]
            world.velocity_work[b, first_w - 3 + k, JOINT_WORK.solution] = -acceleration_bar[k]

    momentum_after_bar = inverse_inertia @ w_bar  # of 2 midpoint_momentum - momentum
    inverse_inertia_bar = outer(w_bar, 2 * midpoint_momentum - momentum)
    raw_quaternion_bar = normalized_adjoint(q + dt * body_quaternion_rate(q, midpoint_w), q_bar)
    q_bar_from_rate, midpoint_w_bar = body_quaternion_rate_adjoint(q, midpoint_w, dt * raw_quaternion_bar)
    inverse_inertia_bar += outer(midpoint_w_bar, midpoint_momentum)
    momentum_bar, midpoint_inverse_inertia_bar, armature_bar = mean_momentum_adjoint(
        midpoint_momentum, inverse_inertia, armature, 0.5 * dt, inverse_inertia @ midpoint_w_bar + 2 * momentum_after_bar, True
    )
    momentum_bar -= momentum_after_bar
    inverse_inertia_bar += midpoint_inverse_inertia_bar
    updated_w_bar = total_inertia @ momentum_bar
    inertia_w_bar = dt * momentum_bar.cross(w)  # of inertia @ w
    total_inertia_bar = outer(momentum_bar, w + dt * w_rate) - inverse_inertia @ inverse_inertia_bar @ inverse_inertia
    w_bar = updated_w_bar + dt * (inertia @ w).cross(momentum_bar) + inertia @ inertia_w_bar + com_w_bar
    w_rate_bar = dt * updated_w_bar + com_w_rate_bar
    q_bar = raw_quaternion_bar + q_bar_from_rate + 4 * quaternion_rate(rotation_bar, q)
    inertia_bar = total_inertia_bar + outer(inertia_w_bar, w)
    add_inertia_adjoint(world, bars, b, i, kind, inertia_bar)
    for k in ti.static(range(3)):
        d = first_w + k
        bars.velocity[b, d, JOINT.armature] = bars.velocity[b, d, JOINT.armature] + armature_bar[k] + total_inertia_bar[k, k]
        bar[b, row, w_column + k] = w_bar[k]
        world.velocity_work[b, d, JOINT_WORK.solution] = -w_rate_bar[k]
    store_vec4(bar, b, row, q_column, q_bar)


@ti.func
def add_inertia_adjoint(world: ti.template(), bars: ti.template(), b, i, kind, inertia_bar):
    """Add the adjoint of the result of ``inertia_about_pivot`` to those of the link's inertia, mass and centre of mass."""
    for k in ti.static(range(3)):
        bars.link[b, i, LINK.inertia + k] = bars.link[b, i, LINK.inertia + k] + inertia_bar[k, k]
    for k, pair in ti.static(enumerate(((0, 1), (0, 2), (1, 2)))):
        off_diagonal_bar = inertia_bar[pair[0], pair[1]] + inertia_bar[pair[1], pair[0]]
        bars.link[b, i, LINK.inertia + 3 + k] = bars.link[b, i, LINK.inertia + 3 + k] + off_diagonal_bar
    if kind == SPHERICAL:
        mass, d = world.link[b, i, LINK.mass], load_vec3(world.link, b, i, LINK.com)
        trace = inertia_bar[0, 0] + inertia_bar[1, 1] + inertia_bar[2, 2]
        bars.link[b, i, LINK.mass] = bars.link[b, i, LINK.mass] + trace * d.dot(d) - d.dot(inertia_bar @ d)
        add_vec3(bars.link, b, i, LINK.com, mass * (2 * trace * d - (inertia_bar + inertia_bar.transpose()) @ d))
