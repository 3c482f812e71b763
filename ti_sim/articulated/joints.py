"""Types of joints: everything that depends on the type, for the other files of the solver (Taichi functions).

A type is a row of ``JOINT_TYPES``, a number for kernels, and its branches in the functions below; each function has its adjoint.
"""

from dataclasses import dataclass
from typing import Any

from ti_sim.articulated.spatial import quaternion_product, rotated, rotated_back, rotation_vector, rotation_vector_adjoint
from ti_sim.articulated.tables import JOINT_WORK, LINK, TREE, WORK
from ti_sim.base.bundles import bundle
from ti_sim.base.rows import add_vec3, add_vec4, load_vec3, load_vec4, store_vec3, store_vec4
from ti_sim.base.rules import FromZero, checked
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import (
    body_quaternion_rate,
    body_quaternion_rate_adjoint,
    normalized_adjoint,
    quaternion_rate,
    vec3,
    vec4,
)


@checked
@dataclass(frozen=True)
class JointType:
    """Sizes of a type of joint.

    Attributes:
        coordinates: number of coordinates.
        velocities: number of velocities. Three angular velocities of a quaternion are the last ones.
        has_axis: whether it has an axis.
    """

    coordinates: FromZero
    velocities: FromZero
    has_axis: bool = False


# The position of a type in this table is its number in kernels.
JOINT_TYPES = {
    "fixed": JointType(coordinates=0, velocities=0),
    "revolute": JointType(coordinates=1, velocities=1, has_axis=True),
    "prismatic": JointType(coordinates=1, velocities=1, has_axis=True),
    "spherical": JointType(coordinates=4, velocities=3),
    "free": JointType(coordinates=7, velocities=6),
}
FIXED, REVOLUTE, PRISMATIC, SPHERICAL, FREE = range(len(JOINT_TYPES))


@ti.func
def has_limits(kind):
    """Whether the joint has limits."""
    return kind == REVOLUTE or kind == PRISMATIC


@ti.func
def has_springs_and_servos(kind):
    """Whether springs and servos act on the joint."""
    return kind != FREE


@ti.func
def joint_position(states: ti.template(), b, slot, kind, first_q, j):
    """Position x [m, rad] of joint velocity j, on which springs and servos act (0 for a free joint)."""
    x = 0.0
    if kind == REVOLUTE or kind == PRISMATIC:
        x = states[b, slot, first_q]
    elif kind == SPHERICAL:
        x = component(rotation_vector(load_vec4(states, b, slot, first_q)), j)
    return x


@ti.func
def add_position_adjoint(states: ti.template(), bar: ti.template(), b, slot, row, kind, first_q, j, x_bar):
    """Adjoint of ``joint_position``: adds to the adjoints of the coordinates in a row of ``bar``."""
    if kind == REVOLUTE or kind == PRISMATIC:
        bar[b, row, first_q] = bar[b, row, first_q] + x_bar
    elif kind == SPHERICAL:
        q_bar = rotation_vector_adjoint(load_vec4(states, b, slot, first_q), x_bar * unit_vector(j))
        add_vec4(bar, b, row, first_q, q_bar)


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
        angular = rotated(rotation, load_vec3(rates, b, slot, column))
    elif kind == FREE:
        linear = rotated(load_vec4(world.link, b, i, LINK.frame_quaternion), load_vec3(rates, b, slot, column))
        angular = rotated(rotation, load_vec3(rates, b, slot, column + 3))
    return angular, linear


@ti.func
def place_joint(world: ti.template(), states: ti.template(), b, slot, i, kind, frame_rotation, r):
    """Orientation and position of link i on its joint, whose coordinates are in a row of ``states``.

    Args:
        frame_rotation: quaternion of the joint frame in the world.
        r: position of the joint frame relative to the parent's origin, in world axes [m].

    Returns:
        (quaternion of the link, position of its origin relative to the parent's, axis of the joint in world axes or zero).
    """
    first_q = world.tree[i, TREE.first_q]
    rotation = frame_rotation
    axis = vec3(0.0)
    if kind == REVOLUTE or kind == PRISMATIC:
        local_axis = joint_axis(world, b, i)
        axis = rotated(frame_rotation, local_axis)
        x = states[b, slot, first_q]
        if kind == REVOLUTE:
            vector_part = ti.sin(0.5 * x) * local_axis
            rotation = quaternion_product(frame_rotation, vec4(vector_part.x, vector_part.y, vector_part.z, ti.cos(0.5 * x)))
        else:
            r += x * axis
    elif kind == SPHERICAL:
        rotation = quaternion_product(frame_rotation, load_vec4(states, b, slot, first_q).normalized())
    elif kind == FREE:
        r += rotated(frame_rotation, load_vec3(states, b, slot, first_q))
        rotation = quaternion_product(frame_rotation, load_vec4(states, b, slot, first_q + 3).normalized())
    return rotation, r, axis


@ti.func
def velocity_direction(world: ti.template(), b, i, kind, j):
    """Direction of joint velocity j of link i in world axes, and whether it is a translation."""
    axis = load_vec3(world.work, b, i, WORK.axis)
    is_linear = kind == PRISMATIC
    if kind == SPHERICAL or kind == FREE:
        if kind == FREE and j < 3:
            is_linear = True
            axis = rotated(load_vec4(world.link, b, i, LINK.frame_quaternion), unit_vector(j))
        else:
            component = j
            if kind == FREE:
                component = j - 3
            axis = rotated(load_vec4(world.work, b, i, WORK.quaternion), unit_vector(component))
    return axis, is_linear


@ti.func
def quaternion_column(tree: ti.template(), i):
    """First column of the quaternion of joint i in the coordinates, -1 for joints without one."""
    column = -1
    if tree[i, TREE.kind] == SPHERICAL:
        column = tree[i, TREE.first_q]
    elif tree[i, TREE.kind] == FREE:
        column = tree[i, TREE.first_q] + 3
    return column


@ti.func
def step_joint(world: ti.template(), states: ti.template(), b, slot, i, kind):
    """Euler step of the coordinates of joint i in a row of ``states``, with the velocities of that row."""
    first_q, first_qd = world.tree[i, TREE.first_q], world.coordinates + world.tree[i, TREE.first_qd]
    if kind == REVOLUTE or kind == PRISMATIC:
        states[b, slot, first_q] = states[b, slot, first_q] + world.dt * states[b, slot, first_qd]
    elif kind == SPHERICAL or kind == FREE:
        if kind == FREE:
            for k in ti.static(range(3)):
                states[b, slot, first_q + k] = states[b, slot, first_q + k] + world.dt * states[b, slot, first_qd + k]
            first_q += 3
            first_qd += 3
        q = load_vec4(states, b, slot, first_q)
        q = (q + world.dt * body_quaternion_rate(q, load_vec3(states, b, slot, first_qd))).normalized()
        store_vec4(states, b, slot, first_q, q)


@ti.func
def step_joint_adjoint(world: ti.template(), states: ti.template(), bar: ti.template(), b, slot, row, i, kind):
    """Adjoint of ``step_joint`` in place in a row of ``bar``; the coordinates before the step are in ``slot``, the velocities
    after it in the next slot.
    """
    first_q, first_qd = world.tree[i, TREE.first_q], world.coordinates + world.tree[i, TREE.first_qd]
    if kind == REVOLUTE or kind == PRISMATIC:
        bar[b, row, first_qd] = bar[b, row, first_qd] + world.dt * bar[b, row, first_q]
    elif kind == SPHERICAL or kind == FREE:
        if kind == FREE:
            for k in ti.static(range(3)):
                bar[b, row, first_qd + k] = bar[b, row, first_qd + k] + world.dt * bar[b, row, first_q + k]
            first_q += 3
            first_qd += 3
        q, w = load_vec4(states, b, slot, first_q), load_vec3(states, b, slot + 1, first_qd)
        raw_quaternion_bar = normalized_adjoint(q + world.dt * body_quaternion_rate(q, w), load_vec4(bar, b, row, first_q))
        q_bar_from_rate, w_bar = body_quaternion_rate_adjoint(q, w, world.dt * raw_quaternion_bar)
        for k in ti.static(range(4)):
            bar[b, row, first_q + k] = raw_quaternion_bar[k] + q_bar_from_rate[k]
        add_vec3(bar, b, row, first_qd, w_bar)


@ti.func
def joint_coordinate_rates(world: ti.template(), stage_rows: ti.template(), b, stage, i, kind):
    """Write the rates of the coordinates of joint i at a Runge-Kutta stage after its accelerations (see ``runge_kutta``)."""
    rate_column = world.coordinates + 2 * world.velocities
    first_q, first_qd = world.tree[i, TREE.first_q], world.coordinates + world.tree[i, TREE.first_qd]
    if kind == REVOLUTE or kind == PRISMATIC:
        stage_rows[b, stage, rate_column + first_q] = stage_rows[b, stage, first_qd]
    elif kind == SPHERICAL or kind == FREE:
        if kind == FREE:
            for k in ti.static(range(3)):
                stage_rows[b, stage, rate_column + first_q + k] = stage_rows[b, stage, first_qd + k]
            first_q += 3
            first_qd += 3
        rate = body_quaternion_rate(load_vec4(stage_rows, b, stage, first_q), load_vec3(stage_rows, b, stage, first_qd))
        store_vec4(stage_rows, b, stage, rate_column + first_q, rate)


@ti.func
def joint_coordinate_rates_adjoint(world: ti.template(), states: ti.template(), bar: ti.template(), b, row, i, kind):
    """Adjoint of ``joint_coordinate_rates`` at the coordinates and velocities in ``row`` of ``states``.

    In row 2 of ``bar`` the adjoints of the rates become those of the coordinates, and the adjoints of the velocities are written.
    """
    first_q, first_qd = world.tree[i, TREE.first_q], world.coordinates + world.tree[i, TREE.first_qd]
    if kind == REVOLUTE or kind == PRISMATIC:
        bar[b, 2, first_qd] = bar[b, 2, first_q]
        bar[b, 2, first_q] = 0.0
    elif kind == SPHERICAL or kind == FREE:
        if kind == FREE:
            for k in ti.static(range(3)):
                bar[b, 2, first_qd + k] = bar[b, 2, first_q + k]
                bar[b, 2, first_q + k] = 0.0
            first_q += 3
            first_qd += 3
        q_bar, w_bar = body_quaternion_rate_adjoint(
            load_vec4(states, b, row, first_q), load_vec3(states, b, row, first_qd), load_vec4(bar, b, 2, first_q)
        )
        store_vec4(bar, b, 2, first_q, q_bar)
        store_vec3(bar, b, 2, first_qd, w_bar)


@bundle
class JointMotionAdjoint:
    """Adjoints of the motion of a link relative to its parent, in a kernel.

    Attributes:
        rotation: of the link (a small rotation vector, see ``adjoint``).
        position: of its origin relative to the parent's.
        spin, velocity: angular and linear velocity of the joint.
        angular_acceleration, acceleration: its accelerations.
        virtual_spin, virtual_velocity: its virtual velocities.
    """

    rotation: Any
    position: Any
    spin: Any
    velocity: Any
    angular_acceleration: Any
    acceleration: Any
    virtual_spin: Any
    virtual_velocity: Any


@ti.func
def joint_adjoint(
    world: ti.template(), states: ti.template(), bar: ti.template(), b, slot, row, i, kind, parent_rotation,
    motion_bar: ti.template(),
):  # fmt: skip
    """Adjoint of ``place_joint`` and of the three uses of ``joint_rates``: for velocities, accelerations and virtual velocities.

    Adds to the adjoints of the joint's coordinates and velocities in a row of ``bar``. Rotations are differentiated as in
    ``adjoint``.

    Args:
        parent_rotation: quaternion of the parent in the world.
        motion_bar: ``JointMotionAdjoint``.

    Returns:
        Adjoint of the rotation of the joint frame in the world.
    """
    rotation_bar, r_bar = motion_bar.rotation, motion_bar.position
    joint_spin_bar, joint_velocity_bar = motion_bar.spin, motion_bar.velocity
    angular_acceleration_bar, linear_acceleration_bar = motion_bar.angular_acceleration, motion_bar.acceleration
    virtual_spin_bar, virtual_velocity_bar = motion_bar.virtual_spin, motion_bar.virtual_velocity
    first_q, first_qd = world.tree[i, TREE.first_q], world.tree[i, TREE.first_qd]
    rate_column = world.coordinates + first_qd
    rotation, axis = load_vec4(world.work, b, i, WORK.quaternion), load_vec3(world.work, b, i, WORK.axis)
    if kind == REVOLUTE or kind == PRISMATIC:
        rate, acceleration = states[b, slot, rate_column], states[b, slot, rate_column + world.velocities]
        virtual_rate = world.velocity_work[b, first_qd, JOINT_WORK.solution]
        if kind == REVOLUTE:
            bar[b, row, first_q] = bar[b, row, first_q] + axis.dot(rotation_bar)
            bar[b, row, rate_column] = bar[b, row, rate_column] + axis.dot(joint_spin_bar)
            rotation_bar += axis.cross(
                rate * joint_spin_bar + acceleration * angular_acceleration_bar + virtual_rate * virtual_spin_bar
            )
        else:
            bar[b, row, first_q] = bar[b, row, first_q] + axis.dot(r_bar)
            bar[b, row, rate_column] = bar[b, row, rate_column] + axis.dot(joint_velocity_bar)
            axis_bar = rate * joint_velocity_bar + acceleration * linear_acceleration_bar + virtual_rate * virtual_velocity_bar
            rotation_bar += axis.cross(axis_bar + states[b, slot, first_q] * r_bar)
    elif kind == SPHERICAL or kind == FREE:
        frame_rotation = quaternion_product(parent_rotation, load_vec4(world.link, b, i, LINK.frame_quaternion))
        frame_rotation_bar = vec3(0.0)
        first_angular = first_qd  # first of the three angular velocities
        if kind == FREE:
            x = rotated(frame_rotation, load_vec3(states, b, slot, first_q))
            rate = rotated(frame_rotation, load_vec3(states, b, slot, rate_column))
            acceleration = rotated(frame_rotation, load_vec3(states, b, slot, rate_column + world.velocities))
            virtual_rate = rotated(frame_rotation, virtual_velocities(world, b, first_qd))
            frame_rotation_bar = (
                x.cross(r_bar)
                + rate.cross(joint_velocity_bar)
                + acceleration.cross(linear_acceleration_bar)
                + virtual_rate.cross(virtual_velocity_bar)
            )
            x_bar, rate_bar = rotated_back(frame_rotation, r_bar), rotated_back(frame_rotation, joint_velocity_bar)
            add_vec3(bar, b, row, first_q, x_bar)
            add_vec3(bar, b, row, rate_column, rate_bar)
            first_q += 3
            rate_column += 3
            first_angular += 3
        rate = rotated(rotation, load_vec3(states, b, slot, rate_column))
        acceleration = rotated(rotation, load_vec3(states, b, slot, rate_column + world.velocities))
        virtual_rate = rotated(rotation, virtual_velocities(world, b, first_angular))
        rotation_bar += (
            rate.cross(joint_spin_bar) + acceleration.cross(angular_acceleration_bar) + virtual_rate.cross(virtual_spin_bar)
        )
        rate_bar = rotated_back(rotation, joint_spin_bar)
        q_bar = quaternion_adjoint(load_vec4(states, b, slot, first_q), rotated_back(frame_rotation, rotation_bar))
        add_vec3(bar, b, row, rate_column, rate_bar)
        add_vec4(bar, b, row, first_q, q_bar)
        rotation_bar += frame_rotation_bar
    return rotation_bar


@ti.func
def virtual_velocities(world: ti.template(), b, first_column):
    """Three virtual joint velocities, beginning with ``first_column``."""
    return vec3(
        world.velocity_work[b, first_column, JOINT_WORK.solution],
        world.velocity_work[b, first_column + 1, JOINT_WORK.solution],
        world.velocity_work[b, first_column + 2, JOINT_WORK.solution],
    )


@ti.func
def quaternion_adjoint(q, rotation_bar):
    """Adjoint of a quaternion q (any length, normalised on reading) from that of its small rotation, in the target frame."""
    return 4 / q.dot(q) * quaternion_rate(rotation_bar, q)


@ti.func
def component(v, j):
    """v[j] of a 3-vector for a run-time index j."""
    value = v.x
    if j == 1:
        value = v.y
    elif j == 2:
        value = v.z
    return value


@ti.func
def unit_vector(j):
    """Unit vector j of space, for a run-time index j."""
    return vec3(ti.cast(j == 0, float), ti.cast(j == 1, float), ti.cast(j == 2, float))
