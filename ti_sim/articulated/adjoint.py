"""Adjoint of the joint accelerations, by the implicit function theorem (Taichi functions).

The dynamics state that for all virtual joint velocities y, with the virtual link velocities that follow from them,

    L(y) = sum over links of force on its mass . virtual velocity + moment . virtual angular velocity
         + sum over joint velocities of (armature * acceleration - joint force) * y  =  0

where force and moment are the inertial ones minus the external ones. For adjoints g of the accelerations choose y with M y = -g.
The adjoint of any quantity on which the accelerations depend is then the derivative of L with respect to it, at fixed
accelerations and y. Couplings of joints restrict both accelerations and y (see ``joint_coupling``); their forces do no virtual
work. L depends on kinematics only, and its adjoint is one sweep from the leaves to the root.

Rotations of a link are differentiated with respect to a small rotation vector a in world axes, with the adjoint ``rotation_bar``:
a vector u fixed to the link changes by a x u, so u_bar adds u x u_bar to ``rotation_bar``.
"""

from typing import Any

from ti_sim.articulated.contact_bristles import (
    first_bristle,
    first_bristle_bar,
    load_point_displacement,
    point_column,
    store_point_displacement,
)
from ti_sim.articulated.contact_pairs import pair_loads_adjoint
from ti_sim.articulated.dry_friction import dry_force_adjoint
from ti_sim.articulated.dynamics import eliminate_links, ground_margin, place_links
from ti_sim.articulated.joint_coupling import couple_virtual_links
from ti_sim.articulated.joint_forces import joint_force_adjoint
from ti_sim.articulated.joint_solve import virtual_links
from ti_sim.articulated.joints import (
    JointMotionAdjoint,
    add_position_adjoint,
    joint_adjoint,
    joint_position,
    joint_rates,
    quaternion_adjoint,
)
from ti_sim.articulated.link_team import (
    SCHEDULE,
    in_one_lane,
    in_share,
    is_first_lane,
    level_count,
    link_at,
    link_from_leaf,
    links_at,
    point_count,
    point_row,
    row_of_parent,
    share,
    sum_children,
    synchronise,
)
from ti_sim.articulated.spatial import load_symmetric, rotated, rotated_back
from ti_sim.articulated.tables import JOINT, JOINT_WORK, LINK, TREE, WORK
from ti_sim.base.bundles import bundle
from ti_sim.base.rows import (
    POSE,
    TWIST,
    WRENCH,
    add_vec3,
    add_vec4,
    load_slot_vec3,
    load_slot_vec4,
    load_vec3,
    load_vec4,
    store_vec3,
)
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import quaternion_rate_adjoint, rotation_matrix, vec2, vec3, vec4
from ti_sim.contact.bristle import bristle_force, bristle_force_adjoint
from ti_sim.contact.law import contact_force_adjoint
from ti_sim.contact.point_geometry import contact_arm, contact_height, contact_vector_adjoint, point_position, point_vector


@ti.func
def accelerations_of_links(world: ti.template(), states: ti.template(), b, slot):
    """Accelerations of the links from the joint accelerations in a row of ``states``, root to leaf."""
    for level in range(level_count(world)):
        for k in range(links_at(world, level)):
            i = link_at(world, level, k)
            parent = world.tree[i, TREE.parent]
            rotation = load_vec4(world.work, b, i, WORK.quaternion)
            axis, r = load_vec3(world.work, b, i, WORK.axis), load_vec3(world.work, b, i, WORK.arm)
            rate_column = world.coordinates + world.tree[i, TREE.first_qd]
            kind = world.tree[i, TREE.kind]
            angular_acceleration, linear_acceleration = joint_rates(
                world, b, i, kind, rotation, axis, states, slot, rate_column + world.velocities
            )
            gravity = vec3(world.gravity[b, 0], world.gravity[b, 1], world.gravity[b, 2])
            linear_acceleration -= gravity * ti.cast(parent < 0, float)
            if parent >= 0:
                joint_spin, joint_velocity = joint_rates(world, b, i, kind, rotation, axis, states, slot, rate_column)
                w = load_vec3(world.work, b, parent, WORK.spin)
                parent_angular_acceleration = load_vec3(world.work, b, parent, WORK.acceleration)
                angular_acceleration += parent_angular_acceleration + w.cross(joint_spin)
                linear_acceleration += (
                    load_vec3(world.work, b, parent, WORK.acceleration + 3)
                    + parent_angular_acceleration.cross(r)
                    + w.cross(w.cross(r) + 2 * joint_velocity)
                )
            store_vec3(world.work, b, i, WORK.acceleration, angular_acceleration)
            store_vec3(world.work, b, i, WORK.acceleration + 3, linear_acceleration)
        synchronise(world, b)


@ti.func
def begin_link_adjoints(world: ti.template(), b, frame, has_frame_bars, body_q_bar: ti.template(), body_qd_bar: ti.template()):
    """Set the adjoints of the links to zero, or to those of the poses and velocities at a frame."""
    for n in range(share(world, world.links)):
        i = in_share(world, n)
        for k in ti.static(range(24)):
            world.work[b, i, WORK.bars + k] = 0.0
        if has_frame_bars == 1:
            for k in ti.static(range(3)):
                world.work[b, i, WORK.bars + 3 + k] = body_q_bar[b, frame, i, POSE.position + k]
                world.work[b, i, WORK.bars + 9 + k] = body_qd_bar[b, frame, i, TWIST.linear + k]
                world.work[b, i, WORK.bars + 6 + k] = body_qd_bar[b, frame, i, TWIST.angular + k]
            quaternion_bar = load_slot_vec4(body_q_bar, b, frame, i, POSE.quaternion)
            rotation_bar, _ = quaternion_rate_adjoint(vec3(0.0), load_vec4(world.work, b, i, WORK.quaternion), quaternion_bar)
            store_vec3(world.work, b, i, WORK.bars, rotation_bar)
    synchronise(world, b)


@bundle
class LinkMotionAdjoint:
    """Adjoints of the motion of a link in the world, in a kernel.

    Attributes:
        virtual_velocity, virtual_spin: of the virtual velocities.
        spin: of the angular velocity.
        rotation: of the rotation, a small rotation vector in world axes.
        center: of the centre of mass (world axes).
    """

    virtual_velocity: Any
    virtual_spin: Any
    spin: Any
    rotation: Any
    center: Any


@ti.func
def ground_load_adjoint(
    world: ti.template(), bars: ti.template(), states: ti.template(), bar: ti.template(), b, slot, row, i, first_point, end_point,
    target_row, rotation, motion_bar: ti.template(),
):  # fmt: skip
    """Adjoint of the negative power of ``dynamics.ground_load`` on the virtual velocities of link i.

    Adds to the adjoints of the position and velocity of the link's origin and of its contact. With bristles it replaces the
    adjoints of the displacements of its contact points after the step, in a row of ``bar``, by those before it.

    Args:
        world, bars, states, bar, b, slot, row, i: as of ``virtual_power_adjoint``.
        first_point, end_point: some of the contact points of the link.
        target_row: row of ``world.work`` and of ``bars.link`` that is added to: that of the link, or of a point.
        rotation: of the link, a matrix.
        motion_bar: ``LinkMotionAdjoint`` without the contact.

    Returns:
        The adjoints of ``motion_bar``, in its order, with those of the contact.
    """
    virtual_velocity_bar, virtual_spin_bar, w_bar = motion_bar.virtual_velocity, motion_bar.virtual_spin, motion_bar.spin
    rotation_bar, center_bar = motion_bar.rotation, motion_bar.center
    w, center = load_vec3(world.work, b, i, WORK.spin), rotation @ load_vec3(world.link, b, i, LINK.center)
    virtual_spin, virtual_velocity = load_vec3(world.work, b, i, WORK.virtual), load_vec3(world.work, b, i, WORK.virtual + 3)
    v = load_vec3(world.work, b, i, WORK.velocity)
    z = world.work[b, i, WORK.position + 2]
    contact = load_vec4(world.link, b, i, LINK.contact)
    v_bar, contact_bar, z_bar = vec3(0.0), vec4(0.0), 0.0
    margin = ground_margin(world, i, center, w, v)
    for p in range(first_point, end_point):
        local_position = point_position(world.point, p)
        lowest_offset = contact_height(world.has_rims_or_patches, world.point, p, local_position, rotation)
        height = z - world.ground + center.z + lowest_offset
        s_bar = vec2(0.0)
        if height < margin:
            contact_offset, weight = contact_arm(world.has_rims_or_patches, world.point, p, local_position, rotation)
            arm = center + contact_offset
            u, f_bar = v + w.cross(arm), -(virtual_velocity + virtual_spin.cross(arm))
            f, height_bar, u_bar, point_contact_bar = vec3(0.0), 0.0, vec3(0.0), vec4(0.0)
            if ti.static(world.with_contact_bristles):
                s = load_point_displacement(states, b, slot, first_bristle(world) + point_column(world, p))
                new_displacement_bar = load_point_displacement(bar, b, row, first_bristle_bar(world) + point_column(world, p))
                kt, kt_bar = world.link[b, i, LINK.bristle], 0.0
                f, _new_displacement = bristle_force(height, u, s, contact.x, contact.y, contact.z, contact.w, kt, world.dt)
                height_bar, u_bar, s_bar, point_contact_bar, kt_bar = bristle_force_adjoint(
                    height, u, s, contact.x, contact.y, contact.z, contact.w, kt, world.dt, weight * f_bar, new_displacement_bar
                )
                bars.link[b, target_row, LINK.bristle] = bars.link[b, target_row, LINK.bristle] + kt_bar
            else:
                f, height_bar, u_bar, point_contact_bar = contact_force_adjoint(
                    height, u, contact.x, contact.y, contact.z, contact.w, world.dt, weight * f_bar
                )
            arm_bar = u_bar.cross(w) - weight * f.cross(virtual_spin)
            arm_bar.z += height_bar
            virtual_velocity_bar -= weight * f
            virtual_spin_bar -= weight * arm.cross(f)
            v_bar += u_bar
            w_bar += arm.cross(u_bar)
            z_bar += height_bar
            contact_bar += point_contact_bar
            rotation_bar += (center + rotation @ local_position).cross(arm_bar)
            if ti.static(world.has_rims_or_patches):
                vector = rotation @ point_vector(world.point, p)
                rotation_bar += vector.cross(contact_vector_adjoint(world.point, p, rotation, arm_bar, f.dot(f_bar)))
            center_bar += arm_bar
        if ti.static(world.with_contact_bristles):
            store_point_displacement(bar, b, row, first_bristle_bar(world) + point_column(world, p), s_bar)
    add_vec4(bars.link, b, target_row, LINK.contact, contact_bar)
    add_vec3(world.work, b, target_row, WORK.bars + 3, vec3(0.0, 0.0, z_bar))
    add_vec3(world.work, b, target_row, WORK.bars + 9, v_bar)
    return virtual_velocity_bar, virtual_spin_bar, w_bar, rotation_bar, center_bar


@ti.func
def store_point_adjoint(
    world: ti.template(), bars: ti.template(), states: ti.template(), bar: ti.template(), b, slot, row, p
):
    """``ground_load_adjoint`` of contact point p, whose results are written to the rows of the point (see ``sum_of_points``)."""
    i, target_row = world.team.schedule[p, SCHEDULE.point_link], point_row(world, p)
    if world.tree[i, TREE.moves] == 1:
        for k in ti.static(range(24)):
            world.work[b, target_row, WORK.bars + k] = 0.0
        for k in ti.static(range(4)):
            bars.link[b, target_row, LINK.contact + k] = 0.0
        bars.link[b, target_row, LINK.bristle] = 0.0
        rotation = rotation_matrix(load_vec4(world.work, b, i, WORK.quaternion))
        motion_bar = LinkMotionAdjoint(vec3(0.0), vec3(0.0), vec3(0.0), vec3(0.0), vec3(0.0))
        virtual_velocity_bar, virtual_spin_bar, w_bar, rotation_bar, center_bar = ground_load_adjoint(
            world, bars, states, bar, b, slot, row, i, p, p + 1, target_row, rotation, motion_bar
        )
        store_vec3(world.work, b, target_row, WORK.bars, rotation_bar)
        store_vec3(world.work, b, target_row, WORK.bars + 6, w_bar)
        store_vec3(world.work, b, target_row, WORK.bars + 12, center_bar)
        store_vec3(world.work, b, target_row, WORK.bars + 18, virtual_spin_bar)
        store_vec3(world.work, b, target_row, WORK.bars + 21, virtual_velocity_bar)


@ti.func
def sum_of_points(world: ti.template(), bars: ti.template(), b, i, first_point, end_point, motion_bar: ti.template()):
    """The adjoints of ``motion_bar`` with those of the contact points of link i, from the rows of the points.

    Adds to the adjoints of the position and velocity of the link's origin and of its contact.
    """
    virtual_velocity_bar, virtual_spin_bar, w_bar = motion_bar.virtual_velocity, motion_bar.virtual_spin, motion_bar.spin
    rotation_bar, center_bar = motion_bar.rotation, motion_bar.center
    for p in range(first_point, end_point):
        row = point_row(world, p)
        rotation_bar += load_vec3(world.work, b, row, WORK.bars)
        w_bar += load_vec3(world.work, b, row, WORK.bars + 6)
        center_bar += load_vec3(world.work, b, row, WORK.bars + 12)
        virtual_spin_bar += load_vec3(world.work, b, row, WORK.bars + 18)
        virtual_velocity_bar += load_vec3(world.work, b, row, WORK.bars + 21)
        add_vec3(world.work, b, i, WORK.bars + 3, load_vec3(world.work, b, row, WORK.bars + 3))
        add_vec3(world.work, b, i, WORK.bars + 9, load_vec3(world.work, b, row, WORK.bars + 9))
        add_vec4(bars.link, b, i, LINK.contact, load_vec4(bars.link, b, row, LINK.contact))
        bars.link[b, i, LINK.bristle] = bars.link[b, i, LINK.bristle] + bars.link[b, row, LINK.bristle]
    return virtual_velocity_bar, virtual_spin_bar, w_bar, rotation_bar, center_bar


@ti.func
def virtual_power_adjoint(
    world: ti.template(), bars: ti.template(), states: ti.template(), bar: ti.template(), b, slot, row, frame, i
):
    """Adjoint of the term of link i in L: adds to the adjoints of the link's motion, of its row and of its wrench.

    With bristles it replaces the adjoints of the displacements of its contact points after the step, in a row of ``bar``, by
    those before it.
    """
    rotation = rotation_matrix(load_vec4(world.work, b, i, WORK.quaternion))
    inverse_rotation = rotation.transpose()
    w = load_vec3(world.work, b, i, WORK.spin)
    angular_acceleration = load_vec3(world.work, b, i, WORK.acceleration)
    linear_acceleration = load_vec3(world.work, b, i, WORK.acceleration + 3)
    virtual_spin, virtual_velocity = load_vec3(world.work, b, i, WORK.virtual), load_vec3(world.work, b, i, WORK.virtual + 3)
    mass, d = world.link[b, i, LINK.mass], rotation @ load_vec3(world.link, b, i, LINK.com)

    # Force on the mass, times the virtual velocity of its centre; the wrench acts at LINK.center.
    wrench_force = load_slot_vec3(world.wrench, b, frame, i, WRENCH.force)
    wrench_torque = load_slot_vec3(world.wrench, b, frame, i, WRENCH.torque)
    virtual_com_velocity, center = virtual_velocity + virtual_spin.cross(d), rotation @ load_vec3(world.link, b, i, LINK.center)
    virtual_center_velocity = virtual_velocity + virtual_spin.cross(center)
    rotational_velocity = w.cross(d)
    acceleration = linear_acceleration + angular_acceleration.cross(d) + w.cross(rotational_velocity)
    force = mass * acceleration
    for k in ti.static(range(3)):
        bars.wrench[b, frame, i, WRENCH.force + k] = bars.wrench[b, frame, i, WRENCH.force + k] - virtual_center_velocity[k]
        bars.wrench[b, frame, i, WRENCH.torque + k] = bars.wrench[b, frame, i, WRENCH.torque + k] - virtual_spin[k]
    bars.link[b, i, LINK.mass] = bars.link[b, i, LINK.mass] + acceleration.dot(virtual_com_velocity)
    acceleration_bar = mass * virtual_com_velocity
    rotational_velocity_bar = acceleration_bar.cross(w)
    d_bar = force.cross(virtual_spin) + acceleration_bar.cross(angular_acceleration) + rotational_velocity_bar.cross(w)
    virtual_velocity_bar, linear_acceleration_bar = force - wrench_force, acceleration_bar
    virtual_spin_bar = d.cross(force) - center.cross(wrench_force) - wrench_torque
    angular_acceleration_bar = d.cross(acceleration_bar)
    w_bar = rotational_velocity.cross(acceleration_bar) + d.cross(rotational_velocity_bar)
    add_vec3(bars.link, b, i, LINK.com, inverse_rotation @ d_bar)
    center_bar = virtual_spin.cross(wrench_force)
    rotation_bar = d.cross(d_bar) + center.cross(center_bar)

    # Moment I w' + w x I w, times the virtual spin; the second term is e.I w with e = (virtual spin) x w. In link axes.
    inertia = load_symmetric(world.link, b, i, LINK.inertia)
    w_link, alpha_link = inverse_rotation @ w, inverse_rotation @ angular_acceleration
    virtual_spin_link = inverse_rotation @ virtual_spin
    e_link = virtual_spin_link.cross(w_link)
    i_w, i_alpha, i_virtual_spin, i_e = inertia @ w_link, inertia @ alpha_link, inertia @ virtual_spin_link, inertia @ e_link
    virtual_spin_link_bar = i_alpha + w_link.cross(i_w)
    w_link_bar = i_e + i_w.cross(virtual_spin_link)
    rotation_bar -= rotation @ (
        virtual_spin_link.cross(virtual_spin_link_bar) + w_link.cross(w_link_bar) + alpha_link.cross(i_virtual_spin)
    )
    virtual_spin_bar += rotation @ virtual_spin_link_bar
    w_bar += rotation @ w_link_bar
    angular_acceleration_bar += rotation @ i_virtual_spin
    for k in ti.static(range(3)):
        bars.link[b, i, LINK.inertia + k] = (
            bars.link[b, i, LINK.inertia + k] + virtual_spin_link[k] * alpha_link[k] + e_link[k] * w_link[k]
        )
    for k, pair in ti.static(enumerate(((0, 1), (0, 2), (1, 2)))):
        off_diagonal_bar = virtual_spin_link[pair[0]] * alpha_link[pair[1]] + virtual_spin_link[pair[1]] * alpha_link[pair[0]]
        off_diagonal_bar += e_link[pair[0]] * w_link[pair[1]] + e_link[pair[1]] * w_link[pair[0]]
        bars.link[b, i, LINK.inertia + 3 + k] = bars.link[b, i, LINK.inertia + 3 + k] + off_diagonal_bar

    first_point, end_point = world.tree[i, TREE.first_point], world.tree[i, TREE.end_point]
    if first_point < end_point:
        motion_bar = LinkMotionAdjoint(virtual_velocity_bar, virtual_spin_bar, w_bar, rotation_bar, center_bar)
        if ti.static(world.kind == "single"):
            virtual_velocity_bar, virtual_spin_bar, w_bar, rotation_bar, center_bar = ground_load_adjoint(
                world, bars, states, bar, b, slot, row, i, first_point, end_point, i, rotation, motion_bar
            )
        else:
            virtual_velocity_bar, virtual_spin_bar, w_bar, rotation_bar, center_bar = sum_of_points(
                world, bars, b, i, first_point, end_point, motion_bar
            )

    add_vec3(bars.link, b, i, LINK.center, inverse_rotation @ center_bar)
    add_vec3(world.work, b, i, WORK.bars, rotation_bar)
    add_vec3(world.work, b, i, WORK.bars + 6, w_bar)
    add_vec3(world.work, b, i, WORK.bars + 12, angular_acceleration_bar)
    add_vec3(world.work, b, i, WORK.bars + 15, linear_acceleration_bar)
    add_vec3(world.work, b, i, WORK.bars + 18, virtual_spin_bar)
    add_vec3(world.work, b, i, WORK.bars + 21, virtual_velocity_bar)


@ti.func
def add_to_parent(world: ti.template(), b, i, parent, column: ti.template(), value):
    """Add three numbers to the adjoints of the parent of link i, in order of the links; a team writes them to a row of link i."""
    if ti.static(world.kind == "single"):
        add_vec3(world.work, b, parent, column, value)
    else:
        store_vec3(world.work, b, row_of_parent(world, i, parent), column, value)


@ti.func
def link_adjoint(world: ti.template(), bars: ti.template(), states: ti.template(), bar: ti.template(), b, slot, row, i):
    """Adjoint of the motion of link i as a function of the motion of its parent and its joint.

    Adds to the adjoints of the parent, to those of the joint's coordinates and velocities in a row of ``bar``, and to that of the
    joint frame in the row of the link.

    Returns:
        Adjoint of the acceleration of the world, zero unless the link is attached to the world.
    """
    parent, kind = world.tree[i, TREE.parent], world.tree[i, TREE.kind]
    rate_column = world.coordinates + world.tree[i, TREE.first_qd]
    sum_children(world, b, i, WORK.bars, 24)
    rotation = load_vec4(world.work, b, i, WORK.quaternion)
    axis, r = load_vec3(world.work, b, i, WORK.axis), load_vec3(world.work, b, i, WORK.arm)
    rotation_bar, position_bar = load_vec3(world.work, b, i, WORK.bars), load_vec3(world.work, b, i, WORK.bars + 3)
    w_bar, v_bar = load_vec3(world.work, b, i, WORK.bars + 6), load_vec3(world.work, b, i, WORK.bars + 9)
    angular_acceleration_bar = load_vec3(world.work, b, i, WORK.bars + 12)
    linear_acceleration_bar = load_vec3(world.work, b, i, WORK.bars + 15)
    virtual_spin_bar = load_vec3(world.work, b, i, WORK.bars + 18)
    virtual_velocity_bar = load_vec3(world.work, b, i, WORK.bars + 21)
    parent_rotation = vec4(0.0, 0.0, 0.0, 1.0)
    r_bar, joint_spin_bar, joint_velocity_bar = position_bar, w_bar, v_bar
    gravity_bar = vec3(0.0)
    if parent >= 0:
        joint_spin, joint_velocity = joint_rates(world, b, i, kind, rotation, axis, states, slot, rate_column)
        parent_rotation = load_vec4(world.work, b, parent, WORK.quaternion)
        w = load_vec3(world.work, b, parent, WORK.spin)
        parent_angular_acceleration = load_vec3(world.work, b, parent, WORK.acceleration)
        parent_virtual_spin = load_vec3(world.work, b, parent, WORK.virtual)
        joint_spin_bar += angular_acceleration_bar.cross(w)
        coriolis_velocity_bar = linear_acceleration_bar.cross(w)
        joint_velocity_bar += 2 * coriolis_velocity_bar
        r_bar += (
            v_bar.cross(w)
            + linear_acceleration_bar.cross(parent_angular_acceleration)
            + coriolis_velocity_bar.cross(w)
            + virtual_velocity_bar.cross(parent_virtual_spin)
        )
        coriolis_velocity = w.cross(r) + 2 * joint_velocity
        add_to_parent(world, b, i, parent, WORK.bars + 3, position_bar)
        add_to_parent(
            world, b, i, parent, WORK.bars + 6,
            w_bar + r.cross(v_bar) + joint_spin.cross(angular_acceleration_bar) + coriolis_velocity.cross(linear_acceleration_bar)
            + r.cross(coriolis_velocity_bar),
        )  # fmt: skip
        add_to_parent(world, b, i, parent, WORK.bars + 9, v_bar)
        add_to_parent(world, b, i, parent, WORK.bars + 12, angular_acceleration_bar + r.cross(linear_acceleration_bar))
        add_to_parent(world, b, i, parent, WORK.bars + 15, linear_acceleration_bar)
        add_to_parent(world, b, i, parent, WORK.bars + 18, virtual_spin_bar + r.cross(virtual_velocity_bar))
        add_to_parent(world, b, i, parent, WORK.bars + 21, virtual_velocity_bar)
    else:
        gravity_bar = linear_acceleration_bar

    offset_bar = r_bar  # adjoint of the frame's position in the parent, in world axes
    motion_bar = JointMotionAdjoint(
        rotation_bar, r_bar, joint_spin_bar, joint_velocity_bar, angular_acceleration_bar, linear_acceleration_bar,
        virtual_spin_bar, virtual_velocity_bar,
    )  # fmt: skip
    rotation_bar = joint_adjoint(world, states, bar, b, slot, row, i, kind, parent_rotation, motion_bar)
    quaternion = load_vec4(world.link, b, i, LINK.frame_quaternion)
    arm = rotated(parent_rotation, load_vec3(world.link, b, i, LINK.frame_position))
    add_vec3(bars.link, b, i, LINK.frame_position, rotated_back(parent_rotation, offset_bar))
    add_vec4(bars.link, b, i, LINK.frame_quaternion, quaternion_adjoint(quaternion, rotated_back(parent_rotation, rotation_bar)))
    if parent >= 0:
        add_to_parent(world, b, i, parent, WORK.bars, rotation_bar + arm.cross(offset_bar))
    return gravity_bar


@ti.func
def drive_adjoint(world: ti.template(), bars: ti.template(), states: ti.template(), bar: ti.template(), b, slot, row, frame, i):
    """Adjoint of the joint forces and armatures of joint i, whose term in L is (armature * acceleration - force) * y."""
    kind, first_q, first_qd = world.tree[i, TREE.kind], world.tree[i, TREE.first_q], world.tree[i, TREE.first_qd]
    for d in range(first_qd, world.tree[i, TREE.end_qd]):
        rate_column = world.coordinates + d
        virtual_velocity = world.velocity_work[b, d, JOINT_WORK.solution]
        acceleration = states[b, slot, rate_column + world.velocities]
        bars.velocity[b, d, JOINT.armature] = bars.velocity[b, d, JOINT.armature] + virtual_velocity * acceleration
        x = joint_position(states, b, slot, kind, first_q, d - first_qd)
        x_bar, rate_bar = joint_force_adjoint(world, bars, b, frame, d, kind, x, states[b, slot, rate_column], -virtual_velocity)
        add_position_adjoint(states, bar, b, slot, row, kind, first_q, d - first_qd, x_bar)
        bar[b, row, rate_column] = bar[b, row, rate_column] + rate_bar
        if ti.static(world.with_dry_friction):
            dry_force_adjoint(world, bars, states, bar, b, slot, row, kind, d, -virtual_velocity)


@ti.func
def begin_accelerate_adjoint(
    world: ti.template(), states: ti.template(), b, slot, frame,
    seed_frame, has_frame_bars, body_q_bar: ti.template(), body_qd_bar: ti.template(),
):  # fmt: skip
    """First half of ``accelerate_adjoint``: computes poses and virtual velocities of the links; initialises their adjoints."""
    place_links(world, states, b, slot, frame, True)
    eliminate_links(world, states, b, slot, frame, True)
    virtual_links(world, b, False)
    if ti.static(world.with_couplings):
        if is_first_lane(world):
            couple_virtual_links(in_one_lane(world), b)
        synchronise(world, b)
    accelerations_of_links(world, states, b, slot)
    begin_link_adjoints(world, b, seed_frame, has_frame_bars, body_q_bar, body_qd_bar)


@ti.func
def finish_accelerate_adjoint(
    world: ti.template(), bars: ti.template(), states: ti.template(), bar: ti.template(), b, slot, row, frame
):
    """Second half of ``accelerate_adjoint``: adds the contributions of the forces and propagates the adjoints from leaf to root.

    Returns:
        Adjoint of the gravity [3]; of a team, the part of this lane.
    """
    if ti.static(world.with_pairs):
        pair_loads_adjoint(world, bars, states, bar, b, slot, row)
    gravity_bar = vec3(0.0)
    if ti.static(world.kind != "single"):  # lanes over all links at once, not level by level
        if point_count(world) > 0:
            for k in range(share(world, point_count(world))):
                store_point_adjoint(world, bars, states, bar, b, slot, row, in_share(world, k))
            synchronise(world, b)
        for k in range(share(world, world.links)):
            i = in_share(world, k)
            if world.tree[i, TREE.moves] == 1:
                virtual_power_adjoint(world, bars, states, bar, b, slot, row, frame, i)
            drive_adjoint(world, bars, states, bar, b, slot, row, frame, i)
        synchronise(world, b)
    for n in range(level_count(world)):
        level = level_count(world) - 1 - n
        for k in range(links_at(world, level)):
            i = link_from_leaf(world, level, k)
            if ti.static(world.kind == "single"):
                if world.tree[i, TREE.moves] == 1:
                    virtual_power_adjoint(world, bars, states, bar, b, slot, row, frame, i)
            gravity_bar -= link_adjoint(world, bars, states, bar, b, slot, row, i)
            if ti.static(world.kind == "single"):
                drive_adjoint(world, bars, states, bar, b, slot, row, frame, i)
        synchronise(world, b)
    return gravity_bar


@ti.func
def accelerate_adjoint(
    world: ti.template(), bars: ti.template(), states: ti.template(), bar: ti.template(), b, slot, row, frame,
    seed_frame, has_frame_bars, body_q_bar: ti.template(), body_qd_bar: ti.template(),
):  # fmt: skip
    """Adjoint of ``dynamics.accelerate`` and, if ``has_frame_bars``, of the links' poses and velocities at a frame.

    Column JOINT_WORK.solution of the joint velocities holds the negative adjoints of the accelerations. Adds to the adjoints of
    coordinates and velocities in a row of ``bar``, and to those of the tables.

    Returns:
        Adjoint of the gravity [3]; of a team, the part of this lane.
    """
    begin_accelerate_adjoint(world, states, b, slot, frame, seed_frame, has_frame_bars, body_q_bar, body_qd_bar)
    return finish_accelerate_adjoint(world, bars, states, bar, b, slot, row, frame)
