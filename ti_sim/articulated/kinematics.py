"""Motion of the links from the motion of the joints, root to leaf, and its adjoint, leaf to root (Taichi functions).

All quantities are in world axes, those of a link about its own origin, so small links far from the world's origin lose no digits
in f32. With r the arm from the parent's origin, j_w and j_v the angular and linear velocity of the joint (j_w', j_v' from its
accelerations), and the subscript p for the parent:

    w = w_p + j_w                v = v_p + w_p x r + j_v
    w' = w_p' + w_p x j_w + j_w'      a = a_p + w_p' x r + w_p x (w_p x r + 2 j_v) + j_v'

Virtual velocities (of the adjoint's multipliers) follow the first line.
"""

from ti_sim.articulated.free_spin import step_freely, step_freely_adjoint
from ti_sim.articulated.joints import FREE, PRISMATIC, REVOLUTE, SPHERICAL, load_vec3_at, load_vec4_at
from ti_sim.articulated.spatial import quaternion_product, rotated
from ti_sim.articulated.tables import (
    ARM,
    AXIS,
    DRIVE,
    END_QD,
    FIRST_Q,
    FIRST_QD,
    FRAME_POSITION,
    FRAME_QUATERNION,
    KIND,
    PARENT,
    POSITION,
    QUATERNION,
    SPIN,
    SPINS_FREELY,
    VELOCITY,
    load_vec3,
    load_vec4,
    store_vec3,
    store_vec4,
)
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import (
    body_quaternion_rate,
    body_quaternion_rate_adjoint,
    normalized_adjoint,
    vec3,
    vec4,
)


@ti.func
def joint_axis(world: ti.template(), b, i):
    """Unit axis of joint i in its joint frame."""
    return vec3(world.axis[i, 0], world.axis[i, 1], world.axis[i, 2])


@ti.func
def joint_rates(world: ti.template(), b, i, kind, rotation, axis, rates: ti.template(), slot, column):
    """Angular and linear velocity of a joint in world axes, from the joint velocities in a row, beginning at ``column``.

    The same map applies to joint accelerations and to multipliers (virtual velocities).

    Args:
        world: ``WorldArrays``.
        b: world.
        i: link.
        kind: type of its joint.
        rotation: quaternion of the link in the world.
        axis: axis of the joint in world axes.
        rates: array of the joint velocities.
        slot: its row.
        column: column of the joint's first velocity.

    Returns:
        (angular, linear).
    """
    angular, linear = vec3(0.0), vec3(0.0)
    if kind == REVOLUTE:
        angular = axis * rates[b, slot, column]
    elif kind == PRISMATIC:
        linear = axis * rates[b, slot, column]
    elif kind == SPHERICAL:
        angular = rotated(rotation, load_vec3_at(rates, b, slot, column))
    elif kind == FREE:
        linear = rotated(load_vec4(world.link, b, i, FRAME_QUATERNION), load_vec3_at(rates, b, slot, column))
        angular = rotated(rotation, load_vec3_at(rates, b, slot, column + 3))
    return angular, linear


@ti.func
def place_link(world: ti.template(), states: ti.template(), b, slot, i):
    """Pose and velocity of link i from those of its parent, written to ``work``; coordinates and velocities are in a row of
    ``states``.

    Returns:
        (quaternion, w, v, r, j_w, j_v, w_p).
    """
    parent, kind, first_q = world.tree[i, PARENT], world.tree[i, KIND], world.tree[i, FIRST_Q]
    parent_rotation = vec4(0.0, 0.0, 0.0, 1.0)
    w_p, v_p, position = vec3(0.0), vec3(0.0), vec3(0.0)
    if parent >= 0:
        parent_rotation = load_vec4(world.work, b, parent, QUATERNION)
        w_p = load_vec3(world.work, b, parent, SPIN)
        v_p = load_vec3(world.work, b, parent, VELOCITY)
        position = load_vec3(world.work, b, parent, POSITION)
    frame = quaternion_product(parent_rotation, load_vec4(world.link, b, i, FRAME_QUATERNION))
    r = rotated(parent_rotation, load_vec3(world.link, b, i, FRAME_POSITION))
    rotation = frame
    axis = vec3(0.0)
    if kind == REVOLUTE or kind == PRISMATIC:
        local = joint_axis(world, b, i)
        axis = rotated(frame, local)
        x = states[b, slot, first_q]
        if kind == REVOLUTE:
            s = ti.sin(0.5 * x) * local
            rotation = quaternion_product(frame, vec4(s.x, s.y, s.z, ti.cos(0.5 * x)))
        else:
            r += x * axis
    elif kind == SPHERICAL:
        rotation = quaternion_product(frame, load_vec4_at(states, b, slot, first_q).normalized())
    elif kind == FREE:
        r += rotated(frame, load_vec3_at(states, b, slot, first_q))
        rotation = quaternion_product(frame, load_vec4_at(states, b, slot, first_q + 3).normalized())
    j_w, j_v = joint_rates(
        world, b, i, kind, rotation, axis, states, slot, world.coordinates + world.tree[i, FIRST_QD]
    )
    w = w_p + j_w
    v = v_p + w_p.cross(r) + j_v
    store_vec4(world.work, b, i, QUATERNION, rotation)
    store_vec3(world.work, b, i, SPIN, w)
    store_vec3(world.work, b, i, ARM, r)
    store_vec3(world.work, b, i, AXIS, axis)
    store_vec3(world.work, b, i, POSITION, position + r)
    store_vec3(world.work, b, i, VELOCITY, v)
    return rotation, w, v, r, j_w, j_v, w_p


@ti.func
def quaternion_column(tree: ti.template(), i):
    """First column of the quaternion of joint i in the coordinates, -1 for joints without one."""
    column = -1
    if tree[i, KIND] == SPHERICAL:
        column = tree[i, FIRST_Q]
    elif tree[i, KIND] == FREE:
        column = tree[i, FIRST_Q] + 3
    return column


@ti.func
def step_coordinates(world: ti.template(), states: ti.template(), b, slot):
    """Semi-implicit Euler step in a row of ``states``: velocities from accelerations, then coordinates from the new velocities.

    The step of a freely rotating link conserves momentum and energy (see ``free_spin``).
    """
    for i in range(world.links):
        kind, first_q = world.tree[i, KIND], world.tree[i, FIRST_Q]
        first_qd = world.coordinates + world.tree[i, FIRST_QD]
        if world.tree[i, SPINS_FREELY] == 1:
            step_freely(world, states, b, slot, i, kind)
        else:
            for at in range(first_qd, world.coordinates + world.tree[i, END_QD]):
                states[b, slot, at] = states[b, slot, at] + world.dt * states[b, slot, at + world.velocities]
            if kind == REVOLUTE or kind == PRISMATIC:
                states[b, slot, first_q] = states[b, slot, first_q] + world.dt * states[b, slot, first_qd]
            elif kind == SPHERICAL or kind == FREE:
                if kind == FREE:
                    for k in ti.static(range(3)):
                        states[b, slot, first_q + k] = states[b, slot, first_q + k] + world.dt * states[b, slot, first_qd + k]
                    first_q += 3
                    first_qd += 3
                q = load_vec4_at(states, b, slot, first_q)
                q = (q + world.dt * body_quaternion_rate(q, load_vec3_at(states, b, slot, first_qd))).normalized()
                for k in ti.static(range(4)):
                    states[b, slot, first_q + k] = q[k]


@ti.func
def step_coordinates_adjoint(world: ti.template(), states: ti.template(), bars: ti.template(), bar: ti.template(), b, slot, row):
    """Adjoint of ``step_coordinates``, in place in a row of ``bar``; adds to the links' adjoints.

    The row holds the adjoints of coordinates and velocities after the step and is overwritten by those before it, without the
    contribution of the accelerations: their negative adjoints are written to column DRIVE of the joint velocities. ``states``
    holds coordinates, velocities and accelerations before the step in ``slot``, and the state after it in the next slot.
    """
    for i in range(world.links):
        kind, first_q = world.tree[i, KIND], world.tree[i, FIRST_Q]
        first, end = world.tree[i, FIRST_QD], world.tree[i, END_QD]
        first_qd = world.coordinates + first
        if world.tree[i, SPINS_FREELY] == 1:
            step_freely_adjoint(world, states, bars, bar, b, slot, row, i, kind)
        else:
            if kind == REVOLUTE or kind == PRISMATIC:
                bar[b, row, first_qd] = bar[b, row, first_qd] + world.dt * bar[b, row, first_q]
            elif kind == SPHERICAL or kind == FREE:
                if kind == FREE:
                    for k in ti.static(range(3)):
                        bar[b, row, first_qd + k] = bar[b, row, first_qd + k] + world.dt * bar[b, row, first_q + k]
                    first_q += 3
                    first_qd += 3
                q, w = load_vec4_at(states, b, slot, first_q), load_vec3_at(states, b, slot + 1, first_qd)
                raw_bar = normalized_adjoint(q + world.dt * body_quaternion_rate(q, w), load_vec4_at(bar, b, row, first_q))
                rate_bar, w_bar = body_quaternion_rate_adjoint(q, w, world.dt * raw_bar)
                for k in ti.static(range(4)):
                    bar[b, row, first_q + k] = raw_bar[k] + rate_bar[k]
                for k in ti.static(range(3)):
                    bar[b, row, first_qd + k] = bar[b, row, first_qd + k] + w_bar[k]
            for d in range(first, end):
                world.velocity_work[b, d, DRIVE] = -world.dt * bar[b, row, world.coordinates + d]
