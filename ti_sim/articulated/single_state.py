"""Kinematics and dynamics at one state: poses, accelerations, forces, mass matrix, Jacobians; for any array container.

Bristles of contacts are at rest.
"""

import numpy as np

from ti_sim.articulated.adjoint import accelerations_of_links
from ti_sim.articulated.dry_friction import dry_force, initialise_bristles
from ti_sim.articulated.dynamics import accelerate, place_links
from ti_sim.articulated.joint_forces import joint_force
from ti_sim.articulated.joints import joint_position, velocity_direction
from ti_sim.articulated.model import ArticulatedInputs, ArticulatedModel
from ti_sim.articulated.rollout import initialise_state, store_links
from ti_sim.articulated.solver import prepare
from ti_sim.articulated.spatial import load_matrix, load_symmetric, rotated
from ti_sim.articulated.tables import JOINT, TREE, WORK, WorldArrays
from ti_sim.base.arrays import Array, check_array, reals_in_same_library, to_numpy, zeros_in_same_library
from ti_sim.base.bundles import kernel, views
from ti_sim.base.errors import UserError
from ti_sim.base.rows import add_vec3, load_vec3, load_vec4
from ti_sim.base.rules import FromZero, Positive, checked
from ti_sim.base.runtime import require, ti, without_subexpression_elimination
from ti_sim.base.vecmath import vec3

# Step [s] that is small enough to have no effect in the contact law, which averages the force over a step.
_NEGLIGIBLE_STEP = 1e-30


@checked
@without_subexpression_elimination
def forward_kinematics(
    model: ArticulatedModel, inputs: ArticulatedInputs, joint_q: Array, joint_qd: Array
) -> tuple[Array, Array]:
    """Poses and velocities of all links.

    Args:
        model: the tree.
        inputs: numbers of B worlds.
        joint_q: [B, Q] coordinates [m, rad].
        joint_qd: [B, D] velocities [m/s, rad/s].

    Returns:
        (body_q [B, N, 7], body_qd [B, N, 6]): pose of each link's frame (m, quaternion x, y, z, w), velocity of its origin [m/s]
        and angular velocity [rad/s], world axes.

    Raises:
        UserError: shapes or precision do not fit.
    """
    _states, body_q, body_qd = _evaluate_links(model, inputs, joint_q, joint_qd, 0, _NEGLIGIBLE_STEP)
    return reals_in_same_library(joint_q, to_numpy(body_q)[:, 0]), reals_in_same_library(joint_q, to_numpy(body_qd)[:, 0])


@checked
@without_subexpression_elimination
def forward_dynamics(
    model: ArticulatedModel,
    inputs: ArticulatedInputs,
    joint_q: Array,
    joint_qd: Array,
    *,
    frame: FromZero = 0,
    dt: Positive = _NEGLIGIBLE_STEP,
) -> Array:
    """Joint accelerations under all modelled forces, by the articulated-body algorithm.

    Args:
        model, inputs, joint_q, joint_qd: as in ``forward_kinematics``.
        frame: frame interval whose actions, targets and wrenches act.
        dt: physics step in the contact law [s]; by default without effect.

    Returns:
        joint_qdd [B, D], time derivative of the velocities [m/s2, rad/s2].

    Raises:
        UserError: shapes or precision do not fit, or there is no such frame.
    """
    inputs.check_values(model)
    states, _body_q, _body_qd = _evaluate_links(model, inputs, joint_q, joint_qd, frame, dt)
    first_column = model.coordinate_count + model.velocity_count
    return reals_in_same_library(joint_q, to_numpy(states)[:, 0, first_column : first_column + model.velocity_count])


@checked
@without_subexpression_elimination
def inverse_dynamics(
    model: ArticulatedModel,
    inputs: ArticulatedInputs,
    joint_q: Array,
    joint_qd: Array,
    joint_qdd: Array,
    *,
    frame: FromZero = 0,
    dt: Positive = _NEGLIGIBLE_STEP,
) -> Array:
    """Joint forces that cause these accelerations, in addition to all modelled forces, by the recursive Newton-Euler algorithm.

    Args:
        model, inputs, joint_q, joint_qd: as in ``forward_kinematics``.
        joint_qdd: [B, D] accelerations [m/s2, rad/s2].
        frame: frame interval whose actions, targets and wrenches act.
        dt: physics step in the contact law [s]; by default without effect.

    Returns:
        tau [B, D], N or N m: zero for the accelerations from ``forward_dynamics``, but for the forces of couplings of joints.

    Raises:
        UserError: shapes or precision do not fit, or there is no such frame.
    """
    world, states = _prepared(model, inputs, joint_q, joint_qd, frame, dt)
    check_array(joint_qdd, "joint_qdd", (inputs.world_count, model.velocity_count))
    force = zeros_in_same_library(joint_q, (inputs.world_count, model.velocity_count))
    inverse_dynamics_kernel(*views(states, joint_qdd, force, world, frame))
    return force


@checked
@without_subexpression_elimination
def mass_matrix(model: ArticulatedModel, inputs: ArticulatedInputs, joint_q: Array) -> Array:
    """Joint-space mass matrix, armatures included; couplings of joints do not change it.

    Args:
        model, inputs, joint_q: as in ``forward_kinematics``.

    Returns:
        [B, D, D], symmetric; force at velocity d per acceleration of velocity e (kg, kg m, kg m2).

    Raises:
        UserError: shapes or precision do not fit.
    """
    zero_velocity = zeros_in_same_library(joint_q, (inputs.world_count, model.velocity_count))
    world, states = _prepared(model, inputs, joint_q, zero_velocity, 0, 1.0)
    result = zeros_in_same_library(joint_q, (inputs.world_count, model.velocity_count, model.velocity_count))
    mass_matrix_kernel(*views(states, result, world))
    return result


@checked
@without_subexpression_elimination
def point_jacobian(
    model: ArticulatedModel, inputs: ArticulatedInputs, joint_q: Array, link: FromZero, point: np.ndarray
) -> Array:
    """Velocity of a point of a link per joint velocity.

    Args:
        model, inputs, joint_q: as in ``forward_kinematics``.
        link: index of the link.
        point: [3] in the link's frame [m].

    Returns:
        [B, 6, D]: rows are the point's velocity and the link's angular velocity, world axes.

    Raises:
        UserError: shapes or precision do not fit, or there is no such link.
    """
    if not 0 <= link < model.link_count:
        raise UserError(f"link {link} does not exist: there are links 0 to {model.link_count - 1}")
    zero_velocity = zeros_in_same_library(joint_q, (inputs.world_count, model.velocity_count))
    world, states = _prepared(model, inputs, joint_q, zero_velocity, 0, 1.0)
    result = zeros_in_same_library(joint_q, (inputs.world_count, 6, model.velocity_count))
    x, y, z = (float(value) for value in to_numpy(point))
    jacobian(*views(states, result, world, link, x, y, z))
    return result


def _prepared(
    model: ArticulatedModel, inputs: ArticulatedInputs, joint_q: Array, joint_qd: Array, frame: int, dt: float
) -> tuple[WorldArrays, Array]:
    """Packed inputs, and coordinates and velocities in a row [B, 1, Q + 2 D]."""
    require()
    inputs.check(model)
    b, q, d = inputs.world_count, model.coordinate_count, model.velocity_count
    check_array(joint_q, "joint_q", (b, q))
    check_array(joint_qd, "joint_qd", (b, d))
    if not 0 <= frame < inputs.frame_count:
        raise UserError(f"frame {frame} does not exist: there are actions for {inputs.frame_count} frame intervals")
    world = prepare(model, inputs, dt=dt)
    states = zeros_in_same_library(joint_q, (b, 1, model.state_columns(inputs)))
    initialise_state(*views(joint_q, joint_qd, world.tree, states, q, d))
    if inputs.has_dry_friction:
        initialise_bristles(*views(inputs.joint_bristle0, states, q + 2 * d))
    return world, states


def _evaluate_links(
    model: ArticulatedModel, inputs: ArticulatedInputs, joint_q: Array, joint_qd: Array, frame: int, dt: float
) -> tuple[Array, Array, Array]:
    """Row of coordinates, velocities and accelerations, and the poses and velocities of the links."""
    world, states = _prepared(model, inputs, joint_q, joint_qd, frame, dt)
    body_q = zeros_in_same_library(joint_q, (inputs.world_count, 1, model.link_count, 7))
    body_qd = zeros_in_same_library(joint_q, (inputs.world_count, 1, model.link_count, 6))
    evaluate(*views(states, body_q, body_qd, world, frame))
    return states, body_q, body_qd


@ti.func
def sum_forces(world: ti.template(), states: ti.template(), b):
    """Loads of each link with all its descendants, from the links' poses and the accelerations in row 0, leaf to root."""
    accelerations_of_links(world, states, b, 0)
    for i in range(world.links):
        if world.tree[i, TREE.moves] == 1:
            coupling_block = load_matrix(world.work, b, i, WORK.articulated_inertia + 6)
            angular_acceleration = load_vec3(world.work, b, i, WORK.acceleration)
            linear_acceleration = load_vec3(world.work, b, i, WORK.acceleration + 3)
            angular_block = load_symmetric(world.work, b, i, WORK.articulated_inertia)
            mass_block = load_symmetric(world.work, b, i, WORK.articulated_inertia + 15)
            moment = angular_block @ angular_acceleration + coupling_block @ linear_acceleration
            force = coupling_block.transpose() @ angular_acceleration + mass_block @ linear_acceleration
            add_vec3(world.work, b, i, WORK.load, moment)
            add_vec3(world.work, b, i, WORK.load + 3, force)
    for k in range(world.links):
        i = world.links - 1 - k
        parent = world.tree[i, TREE.parent]
        if parent >= 0 and world.tree[i, TREE.moves] == 1:
            force = load_vec3(world.work, b, i, WORK.load + 3)
            moment = load_vec3(world.work, b, i, WORK.load) + load_vec3(world.work, b, i, WORK.arm).cross(force)
            add_vec3(world.work, b, parent, WORK.load, moment)
            add_vec3(world.work, b, parent, WORK.load + 3, force)


@ti.func
def load_along_joint(world: ti.template(), b, i, d):
    """Component of link i's total load along joint velocity d."""
    axis, is_linear = velocity_direction(world, b, i, world.tree[i, TREE.kind], d - world.tree[i, TREE.first_qd])
    value = axis.dot(load_vec3(world.work, b, i, WORK.load))
    if is_linear:
        value = axis.dot(load_vec3(world.work, b, i, WORK.load + 3))
    return value


@kernel
def evaluate(
    states: ti.types.ndarray(), body_q: ti.types.ndarray(), body_qd: ti.types.ndarray(),
    world: WorldArrays, frame: int,
):  # fmt: skip
    """Write accelerations to states [B, 1, Q + 2 D], after coordinates and velocities; write body_q [B, 1, N, 7], body_qd [B, 1,
    N, 6].
    """
    for b in range(states.shape[0]):
        accelerate(world, states, b, 0, frame)
        store_links(world, b, 0, body_q, body_qd)


@kernel
def inverse_dynamics_kernel(
    states: ti.types.ndarray(), acceleration: ti.types.ndarray(), force: ti.types.ndarray(),
    world: WorldArrays, frame: int,
):  # fmt: skip
    """Joint forces [B, D] that cause accelerations [B, D] in addition to the modelled forces, at states [B, 1, Q + 2 D]."""
    for b in range(states.shape[0]):
        for d in range(world.velocities):
            states[b, 0, world.coordinates + world.velocities + d] = acceleration[b, d]
        place_links(world, states, b, 0, frame, False)
        sum_forces(world, states, b)
        for i in range(world.links):
            kind, first_qd = world.tree[i, TREE.kind], world.tree[i, TREE.first_qd]
            for d in range(first_qd, world.tree[i, TREE.end_qd]):
                x = joint_position(states, b, 0, kind, world.tree[i, TREE.first_q], d - first_qd)
                modelled_force = joint_force(world, b, frame, d, kind, x, states[b, 0, world.coordinates + d])
                if ti.static(world.with_dry_friction):
                    modelled_force += dry_force(world, states, b, 0, kind, d)
                inertial_force = load_along_joint(world, b, i, d) + world.velocity[b, d, JOINT.armature] * acceleration[b, d]
                force[b, d] = inertial_force - modelled_force


@kernel
def mass_matrix_kernel(
    states: ti.types.ndarray(), matrix: ti.types.ndarray(),
    world: WorldArrays,
):  # fmt: skip
    """Mass matrix [B, D, D] at states [B, 1, Q + 2 D] at rest, column by column.

    The loads without motion contain the upward acceleration of the world and are subtracted.
    """
    for b in range(states.shape[0]):
        acceleration_column = world.coordinates + world.velocities
        for column in range(-1, world.velocities):
            if column >= 0:
                states[b, 0, acceleration_column + column] = 1.0
            place_links(world, states, b, 0, 0, True)
            sum_forces(world, states, b)
            for i in range(world.links):
                for d in range(world.tree[i, TREE.first_qd], world.tree[i, TREE.end_qd]):
                    value = load_along_joint(world, b, i, d)
                    if column < 0:
                        world.velocity_work[b, d, 0] = value
                    else:
                        matrix[b, d, column] = value - world.velocity_work[b, d, 0]
            if column >= 0:
                states[b, 0, acceleration_column + column] = 0.0
                matrix[b, column, column] = matrix[b, column, column] + world.velocity[b, column, JOINT.armature]


@kernel
def jacobian(
    states: ti.types.ndarray(), matrix: ti.types.ndarray(),
    world: WorldArrays, link: int, x: float, y: float, z: float,
):  # fmt: skip
    """Jacobian [B, 6, D] of the point (x, y, z) of link ``link`` at states [B, 1, Q + 2 D]; the matrix must hold zeros on
    entry.
    """
    for b in range(states.shape[0]):
        place_links(world, states, b, 0, 0, True)
        arm = rotated(load_vec4(world.work, b, link, WORK.quaternion), vec3(x, y, z))
        point = load_vec3(world.work, b, link, WORK.position) + arm
        i = link
        while i >= 0:
            first_qd = world.tree[i, TREE.first_qd]
            for d in range(first_qd, world.tree[i, TREE.end_qd]):
                along_axis, is_linear = velocity_direction(world, b, i, world.tree[i, TREE.kind], d - first_qd)
                angular = vec3(0.0)
                if not is_linear:
                    angular = along_axis
                    along_axis = angular.cross(point - load_vec3(world.work, b, i, WORK.position))
                for k in ti.static(range(3)):
                    matrix[b, k, d] = along_axis[k]
                    matrix[b, 3 + k, d] = angular[k]
            i = world.tree[i, TREE.parent]
