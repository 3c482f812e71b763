"""Contact forces of links and joint forces at one state, and their adjoint: the forces of the step that starts from this state.

A contact is the ground with a link, or a pair of links. Its loads are computed separately, into cleared loads of the links, by
the functions of a step. The adjoint uses those of the virtual power (see ``adjoint``): the negative power of a load on virtual
velocities that are minus the adjoints of force and moment is the sum of their products, and has the same derivatives.
"""

from dataclasses import replace

import numpy as np

from ti_sim.articulated.adjoint import LinkMotionAdjoint, ground_load_adjoint, link_adjoint
from ti_sim.articulated.contact_bristles import clear_pairs
from ti_sim.articulated.contact_pairs import one_pair_contacts, one_pair_contacts_adjoint, update_near_pairs
from ti_sim.articulated.dry_friction import dry_force, dry_force_adjoint
from ti_sim.articulated.dynamics import ground_load
from ti_sim.articulated.joint_forces import (
    limit_force,
    limit_force_adjoint,
    motor_force,
    motor_force_adjoint,
    passive_force,
    passive_force_adjoint,
)
from ti_sim.articulated.joints import add_position_adjoint, joint_position
from ti_sim.articulated.kinematics import place_link
from ti_sim.articulated.model import ArticulatedInputs, ArticulatedModel
from ti_sim.articulated.rollout import add_and_clear_sums
from ti_sim.articulated.spatial import rotated, rotated_back
from ti_sim.articulated.tables import JOINT_WORK, LINK, TREE, WORK, BarArrays, WorldArrays
from ti_sim.base.arrays import ints_in_same_library
from ti_sim.base.bundles import kernel
from ti_sim.base.rows import WRENCH, Row, add_vec3, load_vec3, load_vec4, store_vec3
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import rotation_matrix, vec3
from ti_sim.contact.collision import NEAR, PAIR
from ti_sim.contact.patch import empty_patch

# Columns of the forces of a joint velocity [N, N m], and of the wrenches of a pair on its first and on its second link.
JOINT_FORCE = Row(motor=1, passive=1, friction=1, limit=1)
PAIR_WRENCH = Row(first=6, second=6)


def with_all_links_loaded(model: ArticulatedModel, inputs: ArticulatedInputs, world: WorldArrays) -> WorldArrays:
    """Kernel arguments with which links that cannot move also collect the loads of their pairs."""
    tree = np.array(model.tree)
    is_fixed = tree[:, TREE.moves] == 0
    tree[is_fixed, TREE.end_point] = tree[is_fixed, TREE.first_point]  # the ground has no force on them
    tree[:, TREE.moves] = 1
    return replace(world, tree=ints_in_same_library(inputs.link_mass, tree))


@ti.func
def clear_load(world: ti.template(), b, i):
    """Set the load of link i to zero."""
    for k in ti.static(range(6)):
        world.work[b, i, WORK.load + k] = 0.0


@ti.func
def centre_arm(world: ti.template(), b, i):
    """Vector from the origin of link i to its centre of mass, world axes [m]."""
    return rotated(load_vec4(world.work, b, i, WORK.quaternion), load_vec3(world.link, b, i, LINK.center))


@ti.func
def store_wrench(world: ti.template(), b, i, force, moment, wrench: ti.template(), row, column: ti.template()):
    """Write a force on link i and its torque about the centre of mass, from its moment about the link's origin."""
    store_vec3(wrench, b, row, column + WRENCH.force, force)
    store_vec3(wrench, b, row, column + WRENCH.torque, moment - centre_arm(world, b, i).cross(force))


@ti.func
def store_load(world: ti.template(), b, i, wrench: ti.template(), row, column: ti.template()):
    """Write the wrench that the load of link i subtracts."""
    force, moment = -load_vec3(world.work, b, i, WORK.load + 3), -load_vec3(world.work, b, i, WORK.load)
    store_wrench(world, b, i, force, moment, wrench, row, column)


@ti.func
def seed_wrench(world: ti.template(), bars: ti.template(), b, i, force, wrench_bar: ti.template(), row, column: ti.template()):
    """Adjoint of ``store_wrench``: sets the virtual velocities of link i, and adds to the adjoints of its centre of mass."""
    force_bar = load_vec3(wrench_bar, b, row, column + WRENCH.force)
    torque_bar = load_vec3(wrench_bar, b, row, column + WRENCH.torque)
    arm, arm_bar = centre_arm(world, b, i), torque_bar.cross(force)
    store_vec3(world.work, b, i, WORK.virtual, -torque_bar)
    store_vec3(world.work, b, i, WORK.virtual + 3, -force_bar - arm.cross(torque_bar))
    add_vec3(world.work, b, i, WORK.bars, arm.cross(arm_bar))
    add_vec3(bars.link, b, i, LINK.center, rotated_back(load_vec4(world.work, b, i, WORK.quaternion), arm_bar))


@ti.func
def begin_contacts(world: ti.template(), states: ti.template(), b):
    """Poses and velocities of the links at a state, and the list of their near pairs."""
    for i in range(world.links):
        place_link(world, states, b, 0, i)
    if ti.static(world.with_pairs):
        update_near_pairs(world, b)
        if ti.static(world.with_contact_bristles):
            clear_pairs(world, states, b, 0)


@ti.func
def one_pair_loads(world: ti.template(), states: ti.template(), b, p, patch: ti.template()):
    """Contacts of pair p only, as loads of its two links."""
    clear_load(world, b, world.pair[p, PAIR.first_link])
    clear_load(world, b, world.pair[p, PAIR.second_link])
    one_pair_contacts(world, states, b, 0, p, patch)


@ti.func
def ground_load_of(world: ti.template(), states: ti.template(), b, i):
    """``ground_load`` of link i: force [N] and moment about the link's origin [N m]."""
    rotation = rotation_matrix(load_vec4(world.work, b, i, WORK.quaternion))
    return ground_load(
        world, states, b, 0, i, world.tree[i, TREE.first_point], world.tree[i, TREE.end_point], rotation,
        load_vec3(world.work, b, i, WORK.position), load_vec3(world.work, b, i, WORK.spin),
        load_vec3(world.work, b, i, WORK.velocity),
    )  # fmt: skip


@kernel
def joint_and_contact_forces(
    states: ti.types.ndarray(), ground_wrench: ti.types.ndarray(), pair_wrench: ti.types.ndarray(),
    joint_force: ti.types.ndarray(), world: WorldArrays,
):  # fmt: skip
    """Write the forces at states [B, 1, columns] (see ``rollout.advance``) in the first frame interval.

    ground_wrench [B, N, 6] is that of the ground on each link, and pair_wrench [B, K, 12] those of each pair of links that may
    collide on both of them (``PAIR_WRENCH``): force [N] and torque about the link's centre of mass [N m], world axes.
    joint_force [B, D, 4] holds the columns of ``JOINT_FORCE``. The arrays must hold zeros. Displacements after the step and
    patches are written to the rows of states. Hand-written adjoint: ``joint_and_contact_forces_adjoint``.
    """
    for b in range(states.shape[0]):
        begin_contacts(world, states, b)
        if ti.static(world.with_pairs):
            patch = empty_patch()
            for n in range(world.near_pairs[b, NEAR.count]):
                p = world.near_pairs[b, NEAR.first_pair + n]
                one_pair_loads(world, states, b, p, patch)
                store_load(world, b, world.pair[p, PAIR.first_link], pair_wrench, p, PAIR_WRENCH.first)
                store_load(world, b, world.pair[p, PAIR.second_link], pair_wrench, p, PAIR_WRENCH.second)
        for i in range(world.links):
            if world.tree[i, TREE.first_point] < world.tree[i, TREE.end_point]:
                force, moment = ground_load_of(world, states, b, i)
                store_wrench(world, b, i, force, moment, ground_wrench, i, 0)
            kind, first_qd = world.tree[i, TREE.kind], world.tree[i, TREE.first_qd]
            for d in range(first_qd, world.tree[i, TREE.end_qd]):
                x = joint_position(states, b, 0, kind, world.tree[i, TREE.first_q], d - first_qd)
                rate = states[b, 0, world.coordinates + d]
                joint_force[b, d, JOINT_FORCE.motor] = motor_force(world, b, 0, d, kind, x, rate)
                joint_force[b, d, JOINT_FORCE.passive] = passive_force(world, b, d, kind, x, rate)
                joint_force[b, d, JOINT_FORCE.limit] = limit_force(world, b, d, kind, x)
                if ti.static(world.with_dry_friction):
                    joint_force[b, d, JOINT_FORCE.friction] = dry_force(world, states, b, 0, kind, d)


@kernel
def joint_and_contact_forces_adjoint(
    states: ti.types.ndarray(), ground_bar: ti.types.ndarray(), pair_bar: ti.types.ndarray(), joint_bar: ti.types.ndarray(),
    bar: ti.types.ndarray(), world: WorldArrays, bars: BarArrays,
):  # fmt: skip
    """Adjoint of ``joint_and_contact_forces``, from the adjoints of its arrays.

    Writes the adjoint of the state to row 0 of bar [B, 3, columns], which must hold zeros on entry, and adds to the adjoints of
    the tables and inputs.
    """
    for b in range(states.shape[0]):
        begin_contacts(world, states, b)
        for i in range(world.links):
            for k in ti.static(range(24)):
                world.work[b, i, WORK.bars + k] = 0.0
            for k in ti.static(range(6)):
                world.work[b, i, WORK.acceleration + k] = 0.0
                world.work[b, i, WORK.virtual + k] = 0.0
        if ti.static(world.with_pairs):
            patch = empty_patch()
            for n in range(world.near_pairs[b, NEAR.count]):
                p = world.near_pairs[b, NEAR.first_pair + n]
                i, j = world.pair[p, PAIR.first_link], world.pair[p, PAIR.second_link]
                one_pair_loads(world, states, b, p, patch)
                seed_wrench(world, bars, b, i, -load_vec3(world.work, b, i, WORK.load + 3), pair_bar, p, PAIR_WRENCH.first)
                seed_wrench(world, bars, b, j, -load_vec3(world.work, b, j, WORK.load + 3), pair_bar, p, PAIR_WRENCH.second)
                one_pair_contacts_adjoint(world, bars, states, bar, b, 0, 0, p, patch)
        for d in range(world.velocities):
            world.velocity_work[b, d, JOINT_WORK.solution] = 0.0
        for k in range(world.links):
            i = world.links - 1 - k
            first_point, end_point = world.tree[i, TREE.first_point], world.tree[i, TREE.end_point]
            if first_point < end_point:
                force, _moment = ground_load_of(world, states, b, i)
                seed_wrench(world, bars, b, i, force, ground_bar, i, 0)
                rotation = rotation_matrix(load_vec4(world.work, b, i, WORK.quaternion))
                motion_bar = LinkMotionAdjoint(vec3(0.0), vec3(0.0), vec3(0.0), vec3(0.0), vec3(0.0))
                _virtual_velocity_bar, _virtual_spin_bar, w_bar, rotation_bar, center_bar = ground_load_adjoint(
                    world, bars, states, bar, b, 0, 0, i, first_point, end_point, i, rotation, motion_bar
                )
                add_vec3(bars.link, b, i, LINK.center, rotation.transpose() @ center_bar)
                add_vec3(world.work, b, i, WORK.bars, rotation_bar)
                add_vec3(world.work, b, i, WORK.bars + 6, w_bar)
        for k in range(world.links):
            i = world.links - 1 - k
            for column in ti.static(range(12)):  # virtual velocities and accelerations are no functions of the state here
                world.work[b, i, WORK.bars + 12 + column] = 0.0
            joint_forces_adjoint(world, bars, states, joint_bar, bar, b, i)
        for k in range(world.links):
            link_adjoint(world, bars, states, bar, b, 0, 0, world.links - 1 - k)
        add_and_clear_sums(world, bars, b)


@ti.func
def joint_forces_adjoint(
    world: ti.template(), bars: ti.template(), states: ti.template(), joint_bar: ti.template(), bar: ti.template(), b, i
):
    """Adjoint of the forces of joint i."""
    kind, first_q, first_qd = world.tree[i, TREE.kind], world.tree[i, TREE.first_q], world.tree[i, TREE.first_qd]
    for d in range(first_qd, world.tree[i, TREE.end_qd]):
        rate_column = world.coordinates + d
        x, rate = joint_position(states, b, 0, kind, first_q, d - first_qd), states[b, 0, rate_column]
        x_bar, rate_bar = motor_force_adjoint(world, bars, b, 0, d, kind, x, rate, joint_bar[b, d, JOINT_FORCE.motor])
        passive_x_bar, passive_rate_bar = passive_force_adjoint(
            world, bars, b, d, kind, x, rate, joint_bar[b, d, JOINT_FORCE.passive]
        )
        x_bar += passive_x_bar + limit_force_adjoint(world, bars, b, d, kind, x, joint_bar[b, d, JOINT_FORCE.limit])
        add_position_adjoint(states, bar, b, 0, 0, kind, first_q, d - first_qd, x_bar)
        bar[b, 0, rate_column] = bar[b, 0, rate_column] + rate_bar + passive_rate_bar
        if ti.static(world.with_dry_friction):
            dry_force_adjoint(world, bars, states, bar, b, 0, 0, kind, d, joint_bar[b, d, JOINT_FORCE.friction])
