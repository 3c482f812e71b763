"""Articulated-body algorithm (Featherstone, Rigid Body Dynamics Algorithms, 2008, ch. 7) over a tree (Taichi functions).

Quantities are in world axes, those of a link about its own origin. Accelerations are classical and relative to free fall, so
gravity is an upward acceleration of the world. The velocities of a joint are eliminated one at a time, from last to first: with s
the direction of the velocity, I the articulated inertia and p the load,

    U = I s,  D = s.U + armature,  u = tau - s.p;   I <- I - U U^T / D,  p <- p + U u / D

Then the acceleration of the joint follows from that of the parent, from first to last velocity: (u - U.a) / D.

The same elimination with zero loads, velocities and gravity solves M x = y for the joint-space mass matrix M; the adjoint uses it
("virtual").
"""

from ti_sim.articulated.contact_bristles import (
    bristle_size,
    first_bristle,
    load_point_displacement,
    point_column,
    store_point_displacement,
)
from ti_sim.articulated.contact_pairs import pair_loads
from ti_sim.articulated.dry_friction import dry_force
from ti_sim.articulated.joint_coupling import couple_accelerations
from ti_sim.articulated.joint_forces import joint_force
from ti_sim.articulated.joint_solve import solve_joint
from ti_sim.articulated.joints import joint_position, velocity_direction
from ti_sim.articulated.kinematics import place_link
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
from ti_sim.articulated.spatial import crossed_columns, load_matrix, load_symmetric, store_matrix, store_symmetric
from ti_sim.articulated.tables import JOINT, JOINT_WORK, LINK, TREE, WORK
from ti_sim.base.rows import WRENCH, add_vec3, load_slot_vec3, load_vec3, load_vec4, store_vec3
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import mat3, outer, rotation_matrix, vec2, vec3
from ti_sim.contact.bristle import bristle_force
from ti_sim.contact.law import contact_force
from ti_sim.contact.point_geometry import contact_arm, contact_height, point_position


@ti.func
def ground_margin(world: ti.template(), i, center, w, v):
    """Height below which a contact point of link i can touch the ground [m]: the largest distance that it moves along z.

    Args:
        world: ``WorldArrays``.
        i: link.
        center: centre of mass relative to the link's origin [m].
        w, v: angular velocity of the link, velocity of its origin.
    """
    vertical_speed = ti.abs(v.z + w.x * center.y - w.y * center.x)
    return world.dt * (vertical_speed + ti.sqrt(w.x * w.x + w.y * w.y) * world.point_reach[i])


@ti.func
def wrench_load(world: ti.template(), b, frame, i, rotation):
    """Force [N] and moment about the link's origin [N m] of the wrench of link i, which acts at LINK.center."""
    wrench_force = load_slot_vec3(world.wrench, b, frame, i, WRENCH.force)
    wrench_torque = load_slot_vec3(world.wrench, b, frame, i, WRENCH.torque)
    return wrench_force, wrench_torque + (rotation @ load_vec3(world.link, b, i, LINK.center)).cross(wrench_force)


@ti.func
def ground_load(world: ti.template(), states: ti.template(), b, slot, i, first_point, end_point, rotation, position, w, v):
    """Force [N] and moment about the link's origin [N m] of the ground on some contact points of link i.

    With bristles it reads their displacements before the step in a row of ``states``, and writes those after it to the same row.
    """
    force, moment = vec3(0.0), vec3(0.0)
    contact, center = load_vec4(world.link, b, i, LINK.contact), rotation @ load_vec3(world.link, b, i, LINK.center)
    margin = ground_margin(world, i, center, w, v)
    for p in range(first_point, end_point):
        local_position = point_position(world.point, p)
        lowest_offset = contact_height(world.has_rims_or_patches, world.point, p, local_position, rotation)
        height = position.z - world.ground + center.z + lowest_offset
        new_displacement = vec2(0.0)
        if height < margin:
            contact_offset, weight = contact_arm(world.has_rims_or_patches, world.point, p, local_position, rotation)
            arm = center + contact_offset
            f = vec3(0.0)
            if ti.static(world.with_contact_bristles):
                s = load_point_displacement(states, b, slot, first_bristle(world) + point_column(world, p))
                f, new_displacement = bristle_force(
                    height, v + w.cross(arm), s, contact.x, contact.y, contact.z, contact.w, world.link[b, i, LINK.bristle],
                    world.dt,
                )  # fmt: skip
                f *= weight
            else:
                f = weight * contact_force(height, v + w.cross(arm), contact.x, contact.y, contact.z, contact.w, world.dt)
            force += f
            moment += arm.cross(f)
        if ti.static(world.with_contact_bristles):
            store_point_displacement(
                states, b, slot, first_bristle(world) + bristle_size(world) + point_column(world, p), new_displacement
            )
    return force, moment


@ti.func
def link_inertia_and_load(
    world: ti.template(), states: ti.template(), b, slot, frame, i, rotation, w, v, virtual: ti.template()
):
    """Inertia and load of link i without its descendants; ``virtual`` omits the load.

    Args:
        world, states, b, slot, frame: as of ``place_links``.
        i: link.
        rotation: its quaternion in the world.
        w, v: its angular velocity, velocity of its origin.
        virtual: as of ``place_links``.
    """
    matrix = rotation_matrix(rotation)
    mass = world.link[b, i, LINK.mass]
    d = matrix @ load_vec3(world.link, b, i, LINK.com)
    inertia = matrix @ load_symmetric(world.link, b, i, LINK.inertia) @ matrix.transpose()
    hx, hy, hz = mass * d.x, mass * d.y, mass * d.z
    origin_inertia = mat3(
        inertia[0, 0] + hy * d.y + hz * d.z, inertia[0, 1] - hx * d.y, inertia[0, 2] - hx * d.z,
        inertia[0, 1] - hx * d.y, inertia[1, 1] + hx * d.x + hz * d.z, inertia[1, 2] - hy * d.z,
        inertia[0, 2] - hx * d.z, inertia[1, 2] - hy * d.z, inertia[2, 2] + hx * d.x + hy * d.y,
    )  # fmt: skip
    store_symmetric(world.work, b, i, WORK.articulated_inertia, origin_inertia)
    store_matrix(world.work, b, i, WORK.articulated_inertia + 6, mat3(0.0, -hz, hy, hz, 0.0, -hx, -hy, hx, 0.0))
    store_symmetric(world.work, b, i, WORK.articulated_inertia + 15, mat3(mass, 0.0, 0.0, 0.0, mass, 0.0, 0.0, 0.0, mass))
    moment, force = vec3(0.0), vec3(0.0)
    if ti.static(not virtual):
        # ``origin_inertia`` already contains the moment of the centripetal force at the centre of mass about the origin.
        moment = w.cross(origin_inertia @ w)
        force = mass * w.cross(w.cross(d))
        external_force, external_moment = wrench_load(world, b, frame, i, matrix)
        moment -= external_moment
        force -= external_force
        if ti.static(world.kind == "single"):
            first_point, end_point = world.tree[i, TREE.first_point], world.tree[i, TREE.end_point]
            if first_point < end_point:
                external_force, external_moment = ground_load(
                    world, states, b, slot, i, first_point, end_point, matrix, load_vec3(world.work, b, i, WORK.position), w, v
                )
                moment -= external_moment
                force -= external_force
    store_vec3(world.work, b, i, WORK.load, moment)
    store_vec3(world.work, b, i, WORK.load + 3, force)


@ti.func
def store_point_load(world: ti.template(), states: ti.template(), b, slot, p):
    """Write the load of the ground on contact point p to the row of the point."""
    i, row = world.team.schedule[p, SCHEDULE.point_link], point_row(world, p)
    if world.tree[i, TREE.moves] == 1:
        rotation = rotation_matrix(load_vec4(world.work, b, i, WORK.quaternion))
        position, v = load_vec3(world.work, b, i, WORK.position), load_vec3(world.work, b, i, WORK.velocity)
        w = load_vec3(world.work, b, i, WORK.spin)
        force, moment = ground_load(world, states, b, slot, i, p, p + 1, rotation, position, w, v)
        store_vec3(world.work, b, row, WORK.load, moment)
        store_vec3(world.work, b, row, WORK.load + 3, force)


@ti.func
def subtract_point_loads(world: ti.template(), b, i):
    """Subtract the loads of the contact points of link i from its load."""
    if world.tree[i, TREE.moves] == 1:
        for p in range(world.tree[i, TREE.first_point], world.tree[i, TREE.end_point]):
            for column in ti.static(range(WORK.load, WORK.load + 6)):
                world.work[b, i, column] = world.work[b, i, column] - world.work[b, point_row(world, p), column]


@ti.func
def joint_force_of(world: ti.template(), states: ti.template(), b, slot, frame, i, kind, d):
    """Force [N, N m] on joint velocity d of link i at the state in a row of ``states``."""
    first_q, first_qd = world.tree[i, TREE.first_q], world.tree[i, TREE.first_qd]
    x = joint_position(states, b, slot, kind, first_q, d - first_qd)
    return joint_force(world, b, frame, d, kind, x, states[b, slot, world.coordinates + d])


@ti.func
def store_joint_forces(world: ti.template(), states: ti.template(), b, slot, frame, i):
    """Write the joint forces of link i to column JOINT_WORK.solution, as the right-hand side of the elimination."""
    kind = world.tree[i, TREE.kind]
    for d in range(world.tree[i, TREE.first_qd], world.tree[i, TREE.end_qd]):
        force = joint_force_of(world, states, b, slot, frame, i, kind, d)
        if ti.static(world.with_dry_friction):
            force += dry_force(world, states, b, slot, kind, d)
        world.velocity_work[b, d, JOINT_WORK.solution] = force


@ti.func
def place_links(world: ti.template(), states: ti.template(), b, slot, frame, virtual: ti.template()):
    """First sweep, root to leaf: poses, velocities, and the inertia and load of each link without its descendants.

    ``virtual`` omits loads and velocity-dependent accelerations.
    """
    for level in range(level_count(world)):
        for k in range(links_at(world, level)):
            i = link_at(world, level, k)
            rotation, w, v, r, j_w, j_v, w_p = place_link(world, states, b, slot, i)
            if world.tree[i, TREE.moves] == 1:
                if ti.static(not virtual):
                    store_vec3(world.work, b, i, WORK.bias, w_p.cross(j_w))
                    store_vec3(world.work, b, i, WORK.bias + 3, w_p.cross(w_p.cross(r) + 2 * j_v))
                if ti.static(world.kind == "single"):
                    link_inertia_and_load(world, states, b, slot, frame, i, rotation, w, v, virtual)
        synchronise(world, b)
    if ti.static(world.kind != "single"):  # lanes over all links at once, not level by level
        for k in range(share(world, world.links)):
            i = in_share(world, k)
            if world.tree[i, TREE.moves] == 1:
                rotation, w = load_vec4(world.work, b, i, WORK.quaternion), load_vec3(world.work, b, i, WORK.spin)
                v = load_vec3(world.work, b, i, WORK.velocity)
                link_inertia_and_load(world, states, b, slot, frame, i, rotation, w, v, virtual)
                if ti.static(not virtual):
                    store_joint_forces(world, states, b, slot, frame, i)
        if ti.static(not virtual):
            for k in range(share(world, point_count(world))):
                store_point_load(world, states, b, slot, in_share(world, k))
        synchronise(world, b)
        if ti.static(not virtual):
            if point_count(world) > 0:
                for k in range(share(world, world.links)):
                    subtract_point_loads(world, b, in_share(world, k))
                synchronise(world, b)
    if ti.static(world.with_pairs and not virtual):
        pair_loads(world, states, b, slot)


@ti.func
def eliminate_links(world: ti.template(), states: ti.template(), b, slot, frame, virtual: ti.template()):
    """Second sweep, leaf to root: eliminates joint velocities and adds articulated inertias and loads to the parents.

    In a virtual solve the right-hand side is in column JOINT_WORK.solution of each velocity; otherwise it is the joint force.
    """
    for n in range(level_count(world)):
        level = level_count(world) - 1 - n
        for k in range(links_at(world, level)):
            i = link_from_leaf(world, level, k)
            if world.tree[i, TREE.moves] == 1:
                kind, parent = world.tree[i, TREE.kind], world.tree[i, TREE.parent]
                sum_children(world, b, i, WORK.articulated_inertia, 27)  # and load
                angular_block = load_symmetric(world.work, b, i, WORK.articulated_inertia)
                coupling_block = load_matrix(world.work, b, i, WORK.articulated_inertia + 6)
                mass_block = load_symmetric(world.work, b, i, WORK.articulated_inertia + 15)
                moment, force = load_vec3(world.work, b, i, WORK.load), load_vec3(world.work, b, i, WORK.load + 3)
                first_qd, past_last = world.tree[i, TREE.first_qd], world.tree[i, TREE.end_qd]
                d = past_last - 1
                while d >= first_qd:
                    axis, is_linear = velocity_direction(world, b, i, kind, d - first_qd)
                    angular_column, linear_column = angular_block @ axis, coupling_block.transpose() @ axis
                    axis_inertia, axis_load = axis.dot(angular_column), axis.dot(moment)
                    if is_linear:
                        angular_column, linear_column = coupling_block @ axis, mass_block @ axis
                        axis_inertia, axis_load = axis.dot(linear_column), axis.dot(force)
                    drive = -axis_load
                    if ti.static(virtual or world.kind != "single"):
                        drive += world.velocity_work[b, d, JOINT_WORK.solution]
                    else:
                        drive += joint_force_of(world, states, b, slot, frame, i, kind, d)
                        if ti.static(world.with_dry_friction):
                            drive += dry_force(world, states, b, slot, kind, d)
                    inverse = 1 / (axis_inertia + world.velocity[b, d, JOINT.armature])
                    angular_block -= inverse * outer(angular_column, angular_column)
                    coupling_block -= inverse * outer(angular_column, linear_column)
                    mass_block -= inverse * outer(linear_column, linear_column)
                    moment += inverse * drive * angular_column
                    force += inverse * drive * linear_column
                    store_vec3(world.velocity_work, b, d, JOINT_WORK.inertia_column, angular_column)
                    store_vec3(world.velocity_work, b, d, JOINT_WORK.inertia_column + 3, linear_column)
                    world.velocity_work[b, d, JOINT_WORK.inverse_inertia] = inverse
                    world.velocity_work[b, d, JOINT_WORK.solution] = drive
                    d -= 1
                parent_moves = 0
                if parent >= 0:
                    parent_moves = world.tree[parent, TREE.moves]
                if parent_moves == 1:
                    r = load_vec3(world.work, b, i, WORK.arm)
                    if ti.static(not virtual):
                        angular_bias = load_vec3(world.work, b, i, WORK.bias)
                        linear_bias = load_vec3(world.work, b, i, WORK.bias + 3)
                        moment += angular_block @ angular_bias + coupling_block @ linear_bias
                        force += coupling_block.transpose() @ angular_bias + mass_block @ linear_bias
                    mass_moment = crossed_columns(r, mass_block)
                    crossed_coupling = crossed_columns(r, coupling_block.transpose())
                    angular_block += crossed_coupling + crossed_coupling.transpose() + crossed_columns(r, mass_moment.transpose())
                    coupling_block += mass_moment
                    moment += r.cross(force)
                    add_to_parent(world, b, i, parent, angular_block, coupling_block, mass_block, moment, force)
        synchronise(world, b)


@ti.func
def add_to_parent(world: ti.template(), b, i, parent, angular_block, coupling_block, mass_block, moment, force):
    """Add articulated inertia and load of link i to those of its parent; a team writes them to a row of link i."""
    row = row_of_parent(world, i, parent)
    if ti.static(world.kind == "single"):
        add_symmetric(world.work, b, row, WORK.articulated_inertia, angular_block)
        add_matrix(world.work, b, row, WORK.articulated_inertia + 6, coupling_block)
        add_symmetric(world.work, b, row, WORK.articulated_inertia + 15, mass_block)
        add_vec3(world.work, b, row, WORK.load, moment)
        add_vec3(world.work, b, row, WORK.load + 3, force)
    else:
        store_symmetric(world.work, b, row, WORK.articulated_inertia, angular_block)
        store_matrix(world.work, b, row, WORK.articulated_inertia + 6, coupling_block)
        store_symmetric(world.work, b, row, WORK.articulated_inertia + 15, mass_block)
        store_vec3(world.work, b, row, WORK.load, moment)
        store_vec3(world.work, b, row, WORK.load + 3, force)


@ti.func
def add_symmetric(array: ti.template(), b, i, column: ti.template(), m):
    """Add to a symmetric matrix stored in a row."""
    store_symmetric(array, b, i, column, load_symmetric(array, b, i, column) + m)


@ti.func
def add_matrix(array: ti.template(), b, i, column: ti.template(), m):
    """Add to a matrix stored in a row."""
    store_matrix(array, b, i, column, load_matrix(array, b, i, column) + m)


@ti.func
def accelerate_links(world: ti.template(), states: ti.template(), b, slot):
    """Third sweep, root to leaf: joint accelerations, written after the velocities in the row of ``states``.

    The accelerations of the links (column WORK.acceleration) are those without couplings of joints.
    """
    for level in range(level_count(world)):
        for k in range(links_at(world, level)):
            i = link_at(world, level, k)
            parent, kind = world.tree[i, TREE.parent], world.tree[i, TREE.kind]
            angular_acceleration = vec3(0.0)
            linear_acceleration = -vec3(world.gravity[b, 0], world.gravity[b, 1], world.gravity[b, 2])
            if world.tree[i, TREE.moves] == 1:
                if parent >= 0:
                    angular_acceleration = load_vec3(world.work, b, parent, WORK.acceleration)
                    linear_acceleration = load_vec3(world.work, b, parent, WORK.acceleration + 3)
                r = load_vec3(world.work, b, i, WORK.arm)
                linear_acceleration += angular_acceleration.cross(r) + load_vec3(world.work, b, i, WORK.bias + 3)
                angular_acceleration += load_vec3(world.work, b, i, WORK.bias)
                angular_acceleration, linear_acceleration = solve_joint(
                    world, b, i, kind, angular_acceleration, linear_acceleration
                )
                for d in range(world.tree[i, TREE.first_qd], world.tree[i, TREE.end_qd]):
                    states[b, slot, world.coordinates + world.velocities + d] = world.velocity_work[b, d, JOINT_WORK.solution]
            store_vec3(world.work, b, i, WORK.acceleration, angular_acceleration)
            store_vec3(world.work, b, i, WORK.acceleration + 3, linear_acceleration)
        synchronise(world, b)
    if ti.static(world.with_couplings):
        if is_first_lane(world):
            couple_accelerations(in_one_lane(world), states, b, slot)
        synchronise(world, b)


@ti.func
def accelerate(world: ti.template(), states: ti.template(), b, slot, frame):
    """Joint accelerations for the coordinates and velocities in a row of ``states``, written after them."""
    place_links(world, states, b, slot, frame, False)
    eliminate_links(world, states, b, slot, frame, False)
    accelerate_links(world, states, b, slot)
