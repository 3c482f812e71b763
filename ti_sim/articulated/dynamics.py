"""Articulated-body algorithm (Featherstone, Rigid Body Dynamics Algorithms, 2008, ch. 7) over a tree (Taichi functions).

Quantities are in world axes, those of a link about its own origin. Accelerations are classical and relative to free fall, so
gravity is an upward acceleration of the world. The velocities of a joint are eliminated one at a time, from last to first: with s
the direction of the velocity, I the articulated inertia and p the load,

    U = I s,  D = s.U + armature,  u = tau - s.p;   I <- I - U U^T / D,  p <- p + U u / D

Then the acceleration of the joint follows from that of the parent, from first to last velocity: (u - U.a) / D.

The same elimination with zero loads, velocities and gravity solves M x = y for the joint-space mass matrix M; the adjoint uses it
("virtual").
"""

from ti_sim.articulated.contact_bristles import bristle_size, first_bristle, load_point, point_column, store_point
from ti_sim.articulated.contact_pairs import pair_loads
from ti_sim.articulated.dry_friction import dry_force
from ti_sim.articulated.joint_coupling import couple_accelerations
from ti_sim.articulated.joint_forces import joint_force
from ti_sim.articulated.joint_solve import solve_joint
from ti_sim.articulated.joints import direction, joint_position
from ti_sim.articulated.kinematics import place_link
from ti_sim.articulated.spatial import crossed_columns, load_matrix, store_matrix, store_symmetric, symmetric
from ti_sim.articulated.tables import JOINT, JOINT_WORK, LINK, TREE, WORK
from ti_sim.base.rows import WRENCH, add_vec3, load_slot_vec3, load_vec3, load_vec4, store_vec3
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import mat3, outer, rotation_matrix, vec2, vec3
from ti_sim.contact.bristle import bristle_force
from ti_sim.contact.law import contact_force
from ti_sim.contact.point_geometry import contact_arm, contact_height, point_position


@ti.func
def ground_margin(world: ti.template(), i, center, w, v):
    """Height below which a contact point of link i can touch the ground [m]: the farthest that it moves along z in a step.

    Args:
        world: ``WorldArrays``.
        i: link.
        center: centre of mass relative to the link's origin [m].
        w, v: angular velocity of the link, velocity of its origin.
    """
    rising = ti.abs(v.z + w.x * center.y - w.y * center.x)
    return world.dt * (rising + ti.sqrt(w.x * w.x + w.y * w.y) * world.point_reach[i])


@ti.func
def wrench_load(world: ti.template(), b, frame, i, rotation):
    """Force [N] and moment about the link's origin [N m] of the wrench of link i, which acts at the centre of its mass alone."""
    push = load_slot_vec3(world.wrench, b, frame, i, WRENCH.force)
    twist = load_slot_vec3(world.wrench, b, frame, i, WRENCH.torque)
    return push, twist + (rotation @ load_vec3(world.link, b, i, LINK.center)).cross(push)


@ti.func
def ground_load(world: ti.template(), states: ti.template(), b, slot, i, rotation, position, w, v):
    """Force [N] and moment about the link's origin [N m] of the ground on the contact points of link i.

    With bristles it reads their displacements in a row of ``states``, and writes those after the step there.
    """
    force, moment = vec3(0.0), vec3(0.0)
    contact, center = load_vec4(world.link, b, i, LINK.contact), rotation @ load_vec3(world.link, b, i, LINK.center)
    margin = ground_margin(world, i, center, w, v)
    for p in range(world.tree[i, TREE.first_point], world.tree[i, TREE.end_point]):
        local = point_position(world.point, p)
        height = position.z - world.ground + center.z + contact_height(world.turning, world.point, p, local, rotation)
        after = vec2(0.0)
        if height < margin:
            contact_offset, turning_weight = contact_arm(world.turning, world.point, p, local, rotation)
            arm = center + contact_offset
            f = vec3(0.0)
            if ti.static(world.sticking):
                s = load_point(states, b, slot, first_bristle(world) + point_column(world, p))
                f, after = bristle_force(
                    height, v + w.cross(arm), s, contact.x, contact.y, contact.z, contact.w, world.link[b, i, LINK.bristle],
                    world.dt,
                )  # fmt: skip
                f *= turning_weight
            else:
                f = turning_weight * contact_force(height, v + w.cross(arm), contact.x, contact.y, contact.z, contact.w, world.dt)
            force += f
            moment += arm.cross(f)
        if ti.static(world.sticking):
            store_point(states, b, slot, first_bristle(world) + bristle_size(world) + point_column(world, p), after)
    return force, moment


@ti.func
def place_links(world: ti.template(), states: ti.template(), b, slot, frame, virtual: ti.template()):
    """First sweep, root to leaf: poses, velocities, and the inertia and load of each link alone.

    ``virtual`` omits loads and velocity-dependent accelerations.
    """
    for i in range(world.links):
        rotation, w, v, r, j_w, j_v, w_p = place_link(world, states, b, slot, i)
        if world.tree[i, TREE.moves] == 1:
            matrix = rotation_matrix(rotation)
            mass = world.link[b, i, LINK.mass]
            d = matrix @ load_vec3(world.link, b, i, LINK.com)
            inertia = matrix @ symmetric(world.link, b, i, LINK.inertia) @ matrix.transpose()
            hx, hy, hz = mass * d.x, mass * d.y, mass * d.z
            origin_inertia = mat3(
                inertia[0, 0] + hy * d.y + hz * d.z, inertia[0, 1] - hx * d.y, inertia[0, 2] - hx * d.z,
                inertia[0, 1] - hx * d.y, inertia[1, 1] + hx * d.x + hz * d.z, inertia[1, 2] - hy * d.z,
                inertia[0, 2] - hx * d.z, inertia[1, 2] - hy * d.z, inertia[2, 2] + hx * d.x + hy * d.y,
            )  # fmt: skip
            store_symmetric(world.work, b, i, WORK.body, origin_inertia)
            store_matrix(world.work, b, i, WORK.body + 6, mat3(0.0, -hz, hy, hz, 0.0, -hx, -hy, hx, 0.0))
            store_symmetric(world.work, b, i, WORK.body + 15, mat3(mass, 0.0, 0.0, 0.0, mass, 0.0, 0.0, 0.0, mass))
            moment, force = vec3(0.0), vec3(0.0)
            if ti.static(not virtual):
                store_vec3(world.work, b, i, WORK.bias, w_p.cross(j_w))
                store_vec3(world.work, b, i, WORK.bias + 3, w_p.cross(w_p.cross(r) + 2 * j_v))
                # ``origin_inertia`` already contains the moment of the centripetal force at the centre of mass about the origin.
                moment = w.cross(origin_inertia @ w)
                force = mass * w.cross(w.cross(d))
                external, external_moment = wrench_load(world, b, frame, i, matrix)
                moment -= external_moment
                force -= external
                if world.tree[i, TREE.first_point] < world.tree[i, TREE.end_point]:
                    external, external_moment = ground_load(
                        world, states, b, slot, i, matrix, load_vec3(world.work, b, i, WORK.position), w, v
                    )
                    moment -= external_moment
                    force -= external
            store_vec3(world.work, b, i, WORK.load, moment)
            store_vec3(world.work, b, i, WORK.load + 3, force)
    if ti.static(world.with_pairs and not virtual):
        pair_loads(world, states, b, slot)


@ti.func
def eliminate_links(world: ti.template(), states: ti.template(), b, slot, frame, virtual: ti.template()):
    """Second sweep, leaf to root: eliminates joint velocities and adds articulated inertias and loads to the parents.

    In a virtual solve the right-hand side is in column JOINT_WORK.drive of each velocity; otherwise it is the joint force.
    """
    for k in range(world.links):
        i = world.links - 1 - k
        if world.tree[i, TREE.moves] == 1:
            kind, parent = world.tree[i, TREE.kind], world.tree[i, TREE.parent]
            a = symmetric(world.work, b, i, WORK.body)
            c = load_matrix(world.work, b, i, WORK.body + 6)
            m = symmetric(world.work, b, i, WORK.body + 15)
            moment, force = load_vec3(world.work, b, i, WORK.load), load_vec3(world.work, b, i, WORK.load + 3)
            first, past_last = world.tree[i, TREE.first_qd], world.tree[i, TREE.end_qd]
            d = past_last - 1
            while d >= first:
                axis, linear = direction(world, b, i, kind, d - first)
                angular_column, linear_column = a @ axis, c.transpose() @ axis
                axis_inertia, axis_load = axis.dot(angular_column), axis.dot(moment)
                if linear:
                    angular_column, linear_column = c @ axis, m @ axis
                    axis_inertia, axis_load = axis.dot(linear_column), axis.dot(force)
                drive = -axis_load
                if ti.static(virtual):
                    drive += world.velocity_work[b, d, JOINT_WORK.drive]
                else:
                    x = joint_position(states, b, slot, kind, world.tree[i, TREE.first_q], d - first)
                    drive += joint_force(world, b, frame, d, kind, x, states[b, slot, world.coordinates + d])
                    if ti.static(world.with_bristles):
                        drive += dry_force(world, states, b, slot, kind, d)
                inverse = 1 / (axis_inertia + world.velocity[b, d, JOINT.armature])
                a -= inverse * outer(angular_column, angular_column)
                c -= inverse * outer(angular_column, linear_column)
                m -= inverse * outer(linear_column, linear_column)
                moment += inverse * drive * angular_column
                force += inverse * drive * linear_column
                store_vec3(world.velocity_work, b, d, JOINT_WORK.column, angular_column)
                store_vec3(world.velocity_work, b, d, JOINT_WORK.column + 3, linear_column)
                world.velocity_work[b, d, JOINT_WORK.inverse] = inverse
                world.velocity_work[b, d, JOINT_WORK.drive] = drive
                d -= 1
            parent_moves = 0
            if parent >= 0:
                parent_moves = world.tree[parent, TREE.moves]
            if parent_moves == 1:
                r = load_vec3(world.work, b, i, WORK.arm)
                if ti.static(not virtual):
                    spin, pull = load_vec3(world.work, b, i, WORK.bias), load_vec3(world.work, b, i, WORK.bias + 3)
                    moment += a @ spin + c @ pull
                    force += c.transpose() @ spin + m @ pull
                mass_moment = crossed_columns(r, m)
                turned = crossed_columns(r, c.transpose())
                a += turned + turned.transpose() + crossed_columns(r, mass_moment.transpose())
                c += mass_moment
                add_symmetric(world.work, b, parent, WORK.body, a)
                add_matrix(world.work, b, parent, WORK.body + 6, c)
                add_symmetric(world.work, b, parent, WORK.body + 15, m)
                add_vec3(world.work, b, parent, WORK.load, moment + r.cross(force))
                add_vec3(world.work, b, parent, WORK.load + 3, force)


@ti.func
def add_symmetric(array: ti.template(), b, i, column: ti.template(), m):
    """Add to a symmetric matrix stored in a row."""
    store_symmetric(array, b, i, column, symmetric(array, b, i, column) + m)


@ti.func
def add_matrix(array: ti.template(), b, i, column: ti.template(), m):
    """Add to a matrix stored in a row."""
    store_matrix(array, b, i, column, load_matrix(array, b, i, column) + m)


@ti.func
def accelerate_links(world: ti.template(), states: ti.template(), b, slot):
    """Third sweep, root to leaf: joint accelerations, written after the velocities in the row of ``states``.

    The accelerations of the links (column WORK.acceleration) are those without couplings of joints.
    """
    for i in range(world.links):
        parent, kind = world.tree[i, TREE.parent], world.tree[i, TREE.kind]
        angular = vec3(0.0)
        linear = -vec3(world.gravity[b, 0], world.gravity[b, 1], world.gravity[b, 2])
        if world.tree[i, TREE.moves] == 1:
            if parent >= 0:
                angular = load_vec3(world.work, b, parent, WORK.acceleration)
                linear = load_vec3(world.work, b, parent, WORK.acceleration + 3)
            r = load_vec3(world.work, b, i, WORK.arm)
            linear += angular.cross(r) + load_vec3(world.work, b, i, WORK.bias + 3)
            angular += load_vec3(world.work, b, i, WORK.bias)
            angular, linear = solve_joint(world, b, i, kind, angular, linear)
            for d in range(world.tree[i, TREE.first_qd], world.tree[i, TREE.end_qd]):
                states[b, slot, world.coordinates + world.velocities + d] = world.velocity_work[b, d, JOINT_WORK.drive]
        store_vec3(world.work, b, i, WORK.acceleration, angular)
        store_vec3(world.work, b, i, WORK.acceleration + 3, linear)
    if ti.static(world.with_couplings):
        couple_accelerations(world, states, b, slot)


@ti.func
def accelerate(world: ti.template(), states: ti.template(), b, slot, frame):
    """Joint accelerations for the coordinates and velocities in a row of ``states``, written after them."""
    place_links(world, states, b, slot, frame, False)
    eliminate_links(world, states, b, slot, frame, False)
    accelerate_links(world, states, b, slot)
