"""Adjoint of the joint accelerations, by the implicit function theorem (Taichi functions).

The dynamics state that for all virtual joint velocities y, with the virtual link velocities that follow from them,

    L(y) = sum over links of force on its mass . virtual velocity + moment . virtual angular velocity
         + sum over joint velocities of (armature * acceleration - joint force) * y  =  0

where force and moment are the inertial ones minus the external ones. For adjoints g of the accelerations choose y with M y = -g.
The adjoint of any quantity on which the accelerations depend is then the derivative of L with respect to it, at fixed
accelerations and y. Couplings of joints restrict accelerations and y alike (see ``joint_coupling``); their forces do no virtual
work. L depends on kinematics only, and its adjoint is one sweep from the leaves to the root.

Rotations of a link are differentiated with respect to a small rotation vector in world axes, ``turn``: a vector u fixed to the
link changes by turn x u, so u_bar adds u x u_bar to the adjoint of ``turn``.
"""

from typing import Any

from ti_sim.articulated.contact_bristles import first_bristle, first_bristle_bar, load_point, point_column, store_point
from ti_sim.articulated.contact_pairs import pair_adjoint
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
    turn_adjoint,
)
from ti_sim.articulated.spatial import rotated, rotated_back, symmetric
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
from ti_sim.contact.law import contact_force, contact_force_adjoint
from ti_sim.contact.point_geometry import contact_arm, contact_height, contact_vector_adjoint, point_position, point_vector


@ti.func
def accelerations_of_links(world: ti.template(), states: ti.template(), b, slot):
    """Accelerations of the links from the joint accelerations in a row of ``states``, root to leaf."""
    for i in range(world.links):
        parent = world.tree[i, TREE.parent]
        rotation = load_vec4(world.work, b, i, WORK.quaternion)
        axis, r = load_vec3(world.work, b, i, WORK.axis), load_vec3(world.work, b, i, WORK.arm)
        rate_column = world.coordinates + world.tree[i, TREE.first_qd]
        kind = world.tree[i, TREE.kind]
        angular, linear = joint_rates(world, b, i, kind, rotation, axis, states, slot, rate_column + world.velocities)
        linear -= vec3(world.gravity[b, 0], world.gravity[b, 1], world.gravity[b, 2]) * ti.cast(parent < 0, float)
        if parent >= 0:
            j_w, j_v = joint_rates(world, b, i, kind, rotation, axis, states, slot, rate_column)
            w = load_vec3(world.work, b, parent, WORK.spin)
            spin = load_vec3(world.work, b, parent, WORK.acceleration)
            angular += spin + w.cross(j_w)
            linear += load_vec3(world.work, b, parent, WORK.acceleration + 3) + spin.cross(r) + w.cross(w.cross(r) + 2 * j_v)
        store_vec3(world.work, b, i, WORK.acceleration, angular)
        store_vec3(world.work, b, i, WORK.acceleration + 3, linear)


@ti.func
def begin_link_adjoints(world: ti.template(), b, frame, seeded, body_q_bar: ti.template(), body_qd_bar: ti.template()):
    """Set the adjoints of the links to zero, or to those of the poses and velocities at a frame."""
    for i in range(world.links):
        for k in ti.static(range(24)):
            world.work[b, i, WORK.bars + k] = 0.0
        if seeded == 1:
            for k in ti.static(range(3)):
                world.work[b, i, WORK.bars + 3 + k] = body_q_bar[b, frame, i, POSE.position + k]
                world.work[b, i, WORK.bars + 9 + k] = body_qd_bar[b, frame, i, TWIST.linear + k]
                world.work[b, i, WORK.bars + 6 + k] = body_qd_bar[b, frame, i, TWIST.angular + k]
            g = load_slot_vec4(body_q_bar, b, frame, i, POSE.quaternion)
            turn_bar, _ = quaternion_rate_adjoint(vec3(0.0), load_vec4(world.work, b, i, WORK.quaternion), g)
            store_vec3(world.work, b, i, WORK.bars, turn_bar)


@bundle
class LinkMotionAdjoint:
    """Adjoints of the motion of a link in the world, in a kernel.

    Attributes:
        virtual_velocity, virtual_spin: of the virtual velocities.
        spin: of the angular velocity.
        rotation: of the rotation (``turn``).
        center: of the centre of mass (world axes).
    """

    virtual_velocity: Any
    virtual_spin: Any
    spin: Any
    rotation: Any
    center: Any


@ti.func
def ground_load_adjoint(
    world: ti.template(), bars: ti.template(), states: ti.template(), bar: ti.template(), b, slot, row, i, rotation,
    motion_bar: ti.template(),
):  # fmt: skip
    """Adjoint of the negative power of ``dynamics.ground_load`` on the virtual velocities of link i.

    Adds to the adjoints of the position and velocity of the link's origin and of its contact. With bristles it replaces the
    adjoints of the displacements of its contact points after the step, in a row of ``bar``, by those before it.

    Args:
        world, bars, states, bar, b, slot, row, i: as of ``virtual_power_adjoint``.
        rotation: of the link, a matrix.
        motion_bar: ``LinkMotionAdjoint`` without the contact.

    Returns:
        The adjoints of ``motion_bar``, in its order, with those of the contact.
    """
    vs_bar, ws_bar, w_bar = motion_bar.virtual_velocity, motion_bar.virtual_spin, motion_bar.spin
    turn_bar, center_bar = motion_bar.rotation, motion_bar.center
    w, center = load_vec3(world.work, b, i, WORK.spin), rotation @ load_vec3(world.link, b, i, LINK.center)
    ws, vs = load_vec3(world.work, b, i, WORK.virtual), load_vec3(world.work, b, i, WORK.virtual + 3)
    v = load_vec3(world.work, b, i, WORK.velocity)
    z = world.work[b, i, WORK.position + 2]
    contact = load_vec4(world.link, b, i, LINK.contact)
    v_bar, contact_bar, z_bar = vec3(0.0), vec4(0.0), 0.0
    margin = ground_margin(world, i, center, w, v)
    for p in range(world.tree[i, TREE.first_point], world.tree[i, TREE.end_point]):
        local = point_position(world.point, p)
        height = z - world.ground + center.z + contact_height(world.turning, world.point, p, local, rotation)
        s_bar = vec2(0.0)
        if height < margin:
            contact_offset, turning_weight = contact_arm(world.turning, world.point, p, local, rotation)
            arm = center + contact_offset
            u, power = v + w.cross(arm), -(vs + ws.cross(arm))
            f, height_bar, u_bar, theta_bar = vec3(0.0), 0.0, vec3(0.0), vec4(0.0)
            if ti.static(world.sticking):
                s = load_point(states, b, slot, first_bristle(world) + point_column(world, p))
                after_bar = load_point(bar, b, row, first_bristle_bar(world) + point_column(world, p))
                kt, kt_bar = world.link[b, i, LINK.bristle], 0.0
                f, _after = bristle_force(height, u, s, contact.x, contact.y, contact.z, contact.w, kt, world.dt)
                height_bar, u_bar, s_bar, theta_bar, kt_bar = bristle_force_adjoint(
                    height, u, s, contact.x, contact.y, contact.z, contact.w, kt, world.dt, turning_weight * power, after_bar
                )
                bars.link[b, i, LINK.bristle] = bars.link[b, i, LINK.bristle] + kt_bar
            else:
                f = contact_force(height, u, contact.x, contact.y, contact.z, contact.w, world.dt)
                height_bar, u_bar, theta_bar = contact_force_adjoint(
                    height, u, contact.x, contact.y, contact.z, contact.w, world.dt, turning_weight * power
                )
            arm_bar = u_bar.cross(w) - turning_weight * f.cross(ws)
            arm_bar.z += height_bar
            vs_bar -= turning_weight * f
            ws_bar -= turning_weight * arm.cross(f)
            v_bar += u_bar
            w_bar += arm.cross(u_bar)
            z_bar += height_bar
            contact_bar += theta_bar
            turn_bar += (center + rotation @ local).cross(arm_bar)
            if ti.static(world.turning):
                vector = rotation @ point_vector(world.point, p)
                turn_bar += vector.cross(contact_vector_adjoint(world.point, p, rotation, arm_bar, f.dot(power)))
            center_bar += arm_bar
        if ti.static(world.sticking):
            store_point(bar, b, row, first_bristle_bar(world) + point_column(world, p), s_bar)
    add_vec4(bars.link, b, i, LINK.contact, contact_bar)
    add_vec3(world.work, b, i, WORK.bars + 3, vec3(0.0, 0.0, z_bar))
    add_vec3(world.work, b, i, WORK.bars + 9, v_bar)
    return vs_bar, ws_bar, w_bar, turn_bar, center_bar


@ti.func
def virtual_power_adjoint(
    world: ti.template(), bars: ti.template(), states: ti.template(), bar: ti.template(), b, slot, row, frame, i
):
    """Adjoint of the part of L of link i: adds to the adjoints of the link's motion, of its row and of its wrench.

    With bristles it replaces the adjoints of the displacements of its contact points after the step, in a row of ``bar``, by
    those before it.
    """
    rotation = rotation_matrix(load_vec4(world.work, b, i, WORK.quaternion))
    inverse_rotation = rotation.transpose()
    w = load_vec3(world.work, b, i, WORK.spin)
    spin, pull = load_vec3(world.work, b, i, WORK.acceleration), load_vec3(world.work, b, i, WORK.acceleration + 3)
    ws, vs = load_vec3(world.work, b, i, WORK.virtual), load_vec3(world.work, b, i, WORK.virtual + 3)
    mass, d = world.link[b, i, LINK.mass], rotation @ load_vec3(world.link, b, i, LINK.com)

    # Force on the mass, times the virtual velocity y of the centre of mass; the wrench acts at the centre of mass of the link
    # itself.
    push = load_slot_vec3(world.wrench, b, frame, i, WRENCH.force)
    twist = load_slot_vec3(world.wrench, b, frame, i, WRENCH.torque)
    y, center = vs + ws.cross(d), rotation @ load_vec3(world.link, b, i, LINK.center)
    pushed = vs + ws.cross(center)
    turning = w.cross(d)
    acceleration = pull + spin.cross(d) + w.cross(turning)
    force = mass * acceleration
    for k in ti.static(range(3)):
        bars.wrench[b, frame, i, WRENCH.force + k] = bars.wrench[b, frame, i, WRENCH.force + k] - pushed[k]
        bars.wrench[b, frame, i, WRENCH.torque + k] = bars.wrench[b, frame, i, WRENCH.torque + k] - ws[k]
    bars.link[b, i, LINK.mass] = bars.link[b, i, LINK.mass] + acceleration.dot(y)
    g = mass * y
    turning_bar = g.cross(w)
    d_bar = force.cross(ws) + g.cross(spin) + turning_bar.cross(w)
    vs_bar, pull_bar = force - push, g
    ws_bar, spin_bar = d.cross(force) - center.cross(push) - twist, d.cross(g)
    w_bar = turning.cross(g) + d.cross(turning_bar)
    add_vec3(bars.link, b, i, LINK.com, inverse_rotation @ d_bar)
    center_bar = ws.cross(push)
    turn_bar = d.cross(d_bar) + center.cross(center_bar)

    # Moment I w' + w x I w, times the virtual angular velocity ws; the second term is e.I w with e = ws x w. In link axes.
    inertia = symmetric(world.link, b, i, LINK.inertia)
    w_l, spin_l, ws_l = inverse_rotation @ w, inverse_rotation @ spin, inverse_rotation @ ws
    e_l = ws_l.cross(w_l)
    i_w, i_spin, i_ws, i_e = inertia @ w_l, inertia @ spin_l, inertia @ ws_l, inertia @ e_l
    ws_l_bar = i_spin + w_l.cross(i_w)
    w_l_bar = i_e + i_w.cross(ws_l)
    turn_bar -= rotation @ (ws_l.cross(ws_l_bar) + w_l.cross(w_l_bar) + spin_l.cross(i_ws))
    ws_bar += rotation @ ws_l_bar
    w_bar += rotation @ w_l_bar
    spin_bar += rotation @ i_ws
    for k in ti.static(range(3)):
        bars.link[b, i, LINK.inertia + k] = bars.link[b, i, LINK.inertia + k] + ws_l[k] * spin_l[k] + e_l[k] * w_l[k]
    for k, pair in ti.static(enumerate(((0, 1), (0, 2), (1, 2)))):
        mixed = ws_l[pair[0]] * spin_l[pair[1]] + ws_l[pair[1]] * spin_l[pair[0]]
        mixed += e_l[pair[0]] * w_l[pair[1]] + e_l[pair[1]] * w_l[pair[0]]
        bars.link[b, i, LINK.inertia + 3 + k] = bars.link[b, i, LINK.inertia + 3 + k] + mixed

    if world.tree[i, TREE.first_point] < world.tree[i, TREE.end_point]:
        motion_bar = LinkMotionAdjoint(vs_bar, ws_bar, w_bar, turn_bar, center_bar)
        vs_bar, ws_bar, w_bar, turn_bar, center_bar = ground_load_adjoint(
            world, bars, states, bar, b, slot, row, i, rotation, motion_bar
        )

    add_vec3(bars.link, b, i, LINK.center, inverse_rotation @ center_bar)
    add_vec3(world.work, b, i, WORK.bars, turn_bar)
    add_vec3(world.work, b, i, WORK.bars + 6, w_bar)
    add_vec3(world.work, b, i, WORK.bars + 12, spin_bar)
    add_vec3(world.work, b, i, WORK.bars + 15, pull_bar)
    add_vec3(world.work, b, i, WORK.bars + 18, ws_bar)
    add_vec3(world.work, b, i, WORK.bars + 21, vs_bar)


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
    rotation = load_vec4(world.work, b, i, WORK.quaternion)
    axis, r = load_vec3(world.work, b, i, WORK.axis), load_vec3(world.work, b, i, WORK.arm)
    turn_bar, position_bar = load_vec3(world.work, b, i, WORK.bars), load_vec3(world.work, b, i, WORK.bars + 3)
    w_bar, v_bar = load_vec3(world.work, b, i, WORK.bars + 6), load_vec3(world.work, b, i, WORK.bars + 9)
    spin_bar, pull_bar = load_vec3(world.work, b, i, WORK.bars + 12), load_vec3(world.work, b, i, WORK.bars + 15)
    ws_bar, vs_bar = load_vec3(world.work, b, i, WORK.bars + 18), load_vec3(world.work, b, i, WORK.bars + 21)
    parent_rotation = vec4(0.0, 0.0, 0.0, 1.0)
    r_bar, j_w_bar, j_v_bar = position_bar, w_bar, v_bar
    gravity_bar = vec3(0.0)
    if parent >= 0:
        j_w, j_v = joint_rates(world, b, i, kind, rotation, axis, states, slot, rate_column)
        parent_rotation = load_vec4(world.work, b, parent, WORK.quaternion)
        w, spin = load_vec3(world.work, b, parent, WORK.spin), load_vec3(world.work, b, parent, WORK.acceleration)
        ws = load_vec3(world.work, b, parent, WORK.virtual)
        j_w_bar += spin_bar.cross(w)
        y_bar = pull_bar.cross(w)
        j_v_bar += 2 * y_bar
        r_bar += v_bar.cross(w) + pull_bar.cross(spin) + y_bar.cross(w) + vs_bar.cross(ws)
        swing = w.cross(r) + 2 * j_v
        add_vec3(world.work, b, parent, WORK.bars + 3, position_bar)
        add_vec3(
            world.work, b, parent, WORK.bars + 6,
            w_bar + r.cross(v_bar) + j_w.cross(spin_bar) + swing.cross(pull_bar) + r.cross(y_bar),
        )  # fmt: skip
        add_vec3(world.work, b, parent, WORK.bars + 9, v_bar)
        add_vec3(world.work, b, parent, WORK.bars + 12, spin_bar + r.cross(pull_bar))
        add_vec3(world.work, b, parent, WORK.bars + 15, pull_bar)
        add_vec3(world.work, b, parent, WORK.bars + 18, ws_bar + r.cross(vs_bar))
        add_vec3(world.work, b, parent, WORK.bars + 21, vs_bar)
    else:
        gravity_bar = pull_bar

    offset_bar = r_bar  # adjoint of the frame's position in the parent, in world axes
    motion_bar = JointMotionAdjoint(turn_bar, r_bar, j_w_bar, j_v_bar, spin_bar, pull_bar, ws_bar, vs_bar)
    turn_bar = joint_adjoint(world, states, bar, b, slot, row, i, kind, parent_rotation, motion_bar)
    quaternion = load_vec4(world.link, b, i, LINK.frame_quaternion)
    arm = rotated(parent_rotation, load_vec3(world.link, b, i, LINK.frame_position))
    add_vec3(bars.link, b, i, LINK.frame_position, rotated_back(parent_rotation, offset_bar))
    add_vec4(bars.link, b, i, LINK.frame_quaternion, turn_adjoint(quaternion, rotated_back(parent_rotation, turn_bar)))
    if parent >= 0:
        add_vec3(world.work, b, parent, WORK.bars, turn_bar + arm.cross(offset_bar))
    return gravity_bar


@ti.func
def drive_adjoint(world: ti.template(), bars: ti.template(), states: ti.template(), bar: ti.template(), b, slot, row, frame, i):
    """Adjoint of the joint forces and armatures of joint i, whose part of L is (armature * acceleration - force) * y."""
    kind, first_q, first = world.tree[i, TREE.kind], world.tree[i, TREE.first_q], world.tree[i, TREE.first_qd]
    for d in range(first, world.tree[i, TREE.end_qd]):
        rate_column = world.coordinates + d
        y = world.velocity_work[b, d, JOINT_WORK.drive]
        acceleration = states[b, slot, rate_column + world.velocities]
        bars.velocity[b, d, JOINT.armature] = bars.velocity[b, d, JOINT.armature] + y * acceleration
        x = joint_position(states, b, slot, kind, first_q, d - first)
        x_bar, rate_bar = joint_force_adjoint(world, bars, b, frame, d, kind, x, states[b, slot, rate_column], -y)
        add_position_adjoint(states, bar, b, slot, row, kind, first_q, d - first, x_bar)
        bar[b, row, rate_column] = bar[b, row, rate_column] + rate_bar
        if ti.static(world.with_bristles):
            dry_force_adjoint(world, bars, states, bar, b, slot, row, kind, d, -y)


@ti.func
def begin_accelerate_adjoint(
    world: ti.template(), states: ti.template(), b, slot, frame,
    seed_frame, seeded, body_q_bar: ti.template(), body_qd_bar: ti.template(),
):  # fmt: skip
    """First half of ``accelerate_adjoint``: computes poses and virtual velocities of the links, and initialises their adjoints.
    """
    place_links(world, states, b, slot, frame, True)
    eliminate_links(world, states, b, slot, frame, True)
    virtual_links(world, b, False)
    if ti.static(world.with_couplings):
        couple_virtual_links(world, b)
    accelerations_of_links(world, states, b, slot)
    begin_link_adjoints(world, b, seed_frame, seeded, body_q_bar, body_qd_bar)


@ti.func
def finish_accelerate_adjoint(
    world: ti.template(), bars: ti.template(), states: ti.template(), bar: ti.template(), b, slot, row, frame
):
    """Second half of ``accelerate_adjoint``: adds the contributions of the forces and propagates the adjoints from leaf to root.

    Returns:
        Adjoint of the gravity [3].
    """
    if ti.static(world.with_pairs):
        pair_adjoint(world, bars, states, bar, b, slot, row)
    gravity_bar = vec3(0.0)
    for k in range(world.links):
        i = world.links - 1 - k
        if world.tree[i, TREE.moves] == 1:
            virtual_power_adjoint(world, bars, states, bar, b, slot, row, frame, i)
        gravity_bar -= link_adjoint(world, bars, states, bar, b, slot, row, i)
        drive_adjoint(world, bars, states, bar, b, slot, row, frame, i)
    return gravity_bar


@ti.func
def accelerate_adjoint(
    world: ti.template(), bars: ti.template(), states: ti.template(), bar: ti.template(), b, slot, row, frame,
    seed_frame, seeded, body_q_bar: ti.template(), body_qd_bar: ti.template(),
):  # fmt: skip
    """Adjoint of ``dynamics.accelerate`` and, if ``seeded``, of the links' poses and velocities at a frame.

    Column JOINT_WORK.drive of the joint velocities holds the negative adjoints of the accelerations. Adds to the adjoints of
    coordinates and velocities in a row of ``bar``, and to those of the tables.

    Returns:
        Adjoint of the gravity [3].
    """
    begin_accelerate_adjoint(world, states, b, slot, frame, seed_frame, seeded, body_q_bar, body_qd_bar)
    return finish_accelerate_adjoint(world, bars, states, bar, b, slot, row, frame)
