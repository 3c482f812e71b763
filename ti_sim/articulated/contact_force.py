"""Contact force at a point between two links, and its adjoint (Taichi functions).

The force is that of ``ti_sim.contact.law`` along the normal of the two surfaces, with the mean contact parameters of both
links, times a weight. It acts on both links in opposite directions at the same point, so momentum and angular momentum are
conserved. The points of a pair with a bristle have no friction, but are gathered into its patch, which has (``pair_bristle``).
"""

from typing import Any

from ti_sim.articulated.link_team import contact_row, fault_column
from ti_sim.articulated.spatial import quaternion_product, rotated
from ti_sim.articulated.tables import LINK, TREE, WORK
from ti_sim.base.bundles import bundle
from ti_sim.base.rows import add_vec3, add_vec4, load_vec3, load_vec4
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3, vec4
from ti_sim.contact.collision import NEAR, SHAPE
from ti_sim.contact.law import contact_force_along, contact_force_along_adjoint, path_average, surface_offset
from ti_sim.contact.patch import PATCH, add_to_patch, patch_point_adjoint
from ti_sim.contact.shape_distance import shape_vec3


@bundle
class ContactPoint:
    """A point at which links i and j touch, in a kernel.

    Attributes:
        arm: from the origin of link i to the point [m].
        separation: origin of link i minus that of link j [m].
        normal: unit vector from j to i.
        gap: gap of the two surfaces along the normal [m].
        weight: factor of the force [1].
        side: 1 if link i is the first of its pair, -1 if it is the second.
    """

    arm: Any
    separation: Any
    normal: Any
    gap: Any
    weight: Any
    side: Any


@ti.func
def shape_arm(world: ti.template(), b, i):
    """Vector from the origin of link i to the centre of its shape, world axes."""
    return rotated(load_vec4(world.work, b, i, WORK.quaternion), shape_vec3(world, i, SHAPE.position))


@ti.func
def shape_rotation(world: ti.template(), b, i):
    """Quaternion of link i's shape in the world frame."""
    local_rotation = vec4(
        world.shape[i, SHAPE.quaternion], world.shape[i, SHAPE.quaternion + 1],
        world.shape[i, SHAPE.quaternion + 2], world.shape[i, SHAPE.quaternion + 3],
    )  # fmt: skip
    return quaternion_product(load_vec4(world.work, b, i, WORK.quaternion), local_rotation)


@ti.func
def mean_contact(world: ti.template(), b, i, j):
    """Mean of the contact parameters of two links."""
    return 0.5 * (load_vec4(world.link, b, i, LINK.contact) + load_vec4(world.link, b, j, LINK.contact))


@ti.func
def mean_bristle(world: ti.template(), b, i, j):
    """Mean of the bristle stiffnesses of two links [N/m]."""
    return 0.5 * (world.link[b, i, LINK.bristle] + world.link[b, j, LINK.bristle])


@ti.func
def point_contact(world: ti.template(), b, i, j):
    """Contact parameters of the points of two links: the mean, without friction where the pair has a bristle."""
    contact = mean_contact(world, b, i, j)
    if ti.static(world.with_contact_bristles):
        if mean_bristle(world, b, i, j) > 0:
            contact.w = 0.0
    return contact


@ti.func
def point_velocity(world: ti.template(), b, i, arm):
    """Velocity of the point of link i at ``arm`` from its origin."""
    return load_vec3(world.work, b, i, WORK.velocity) + load_vec3(world.work, b, i, WORK.spin).cross(arm)


@ti.func
def depth_in_contact(gap, speed, dt):
    """Depth of which the elastic force of ``ti_sim.contact.law`` is a multiple [m], and its derivatives by minus the gap and by
    the normal velocity ``speed``.
    """
    depth, travel, speed_rate = -gap - ti.static(surface_offset()), dt * ti.abs(speed), 0.0
    mean_depth, depth_rate = path_average(depth, travel)
    if ti.abs(depth) < travel:
        y = ti.abs(depth) / travel
        speed_rate = (1 - y) * (1 - y) * (1 + 2 * y) / 6 * dt * ti.select(speed < 0, -1.0, 1.0)
    return mean_depth, depth_rate, speed_rate


@ti.func
def subtract_force(world: ti.template(), b, i, arm, force):
    """Subtract a force at ``arm`` from the origin of link i from its load."""
    if world.tree[i, TREE.moves] == 1:
        row = contact_row(world, i)
        add_vec3(world.work, b, row, WORK.load, -arm.cross(force))
        add_vec3(world.work, b, row, WORK.load + 3, -force)


@ti.func
def add_contact_force(world: ti.template(), b, i, j, point: ti.template(), contact, patch: ti.template()):
    """Add the force at one contact point to the loads of both links, and the point to their patch.

    Args:
        world: ``WorldArrays``.
        b: world.
        i: a link.
        j: the other.
        point: ``ContactPoint`` of the links.
        contact: contact parameters of the point (``point_contact``).
        patch: of the pair.
    """
    arm, separation, normal = point.arm, point.separation, point.normal
    u = point_velocity(world, b, i, arm) - point_velocity(world, b, j, arm + separation)
    force, path = contact_force_along(normal, point.gap, u, contact.x, contact.y, contact.z, contact.w, world.dt)
    force *= point.weight
    subtract_force(world, b, i, arm, force)
    subtract_force(world, b, j, arm + separation, -force)
    if ti.static(world.with_contact_bristles):
        if patch[PATCH.kt] > 0:
            add_to_patch(patch, position_from_first_link(point), point.side * normal, force.dot(normal), path)


@ti.func
def position_from_first_link(point: ti.template()):
    """A ``ContactPoint`` relative to the origin of the first link of its pair [m]."""
    offset = point.arm
    if point.side < 0:
        offset += point.separation
    return offset


@ti.func
def point_adjoint(world: ti.template(), b, i, arm, force, u_bar):
    """Adjoint of the velocity of a point of link i, and of the negative power of a force at it on the virtual velocity.

    Adds to the adjoints of the link's real and virtual velocities, and returns that of the arm.
    """
    row = contact_row(world, i)
    add_vec3(world.work, b, row, WORK.bars + 6, arm.cross(u_bar))
    add_vec3(world.work, b, row, WORK.bars + 9, u_bar)
    add_vec3(world.work, b, row, WORK.bars + 18, -arm.cross(force))
    add_vec3(world.work, b, row, WORK.bars + 21, -force)
    spin, virtual_spin = load_vec3(world.work, b, i, WORK.spin), load_vec3(world.work, b, i, WORK.virtual)
    return u_bar.cross(spin) - force.cross(virtual_spin)


@ti.func
def add_contact_force_adjoint(
    world: ti.template(), bars: ti.template(), b, i, j, point: ti.template(), contact, patch: ti.template()
):
    """Adjoint of the negative power of ``add_contact_force`` on the virtual velocities of the links (see ``adjoint``), and of the
    point's part of the patch.

    Adds to the adjoints of both links' velocities and contact parameters.

    Returns:
        Adjoints of the point's arm, of ``separation``, of the normal, of the gap, and of the weight.
    """
    arm, normal, gap, weight, side = point.arm, point.normal, point.gap, point.weight, point.side
    arm_j = arm + point.separation
    u = point_velocity(world, b, i, arm) - point_velocity(world, b, j, arm_j)
    virtual_velocity = load_vec3(world.work, b, i, WORK.virtual + 3) + load_vec3(world.work, b, i, WORK.virtual).cross(arm)
    virtual_velocity -= load_vec3(world.work, b, j, WORK.virtual + 3) + load_vec3(world.work, b, j, WORK.virtual).cross(arm_j)
    force_bar, normal_force_bar = -weight * virtual_velocity, 0.0
    point_bar, patch_normal_bar, path_bar = vec3(0.0), vec3(0.0), vec3(0.0)
    if ti.static(world.with_contact_bristles):
        force, path = contact_force_along(normal, gap, u, contact.x, contact.y, contact.z, contact.w, world.dt)
        normal_force_bar, point_bar, patch_normal_bar, path_bar = patch_point_adjoint(
            patch, position_from_first_link(point), side * normal, weight * force.dot(normal), path
        )
        force_bar += weight * normal_force_bar * normal
    f, normal_bar, gap_bar, u_bar, contact_bar = contact_force_along_adjoint(
        normal, gap, u, contact.x, contact.y, contact.z, contact.w, world.dt, force_bar, path_bar
    )
    arm_bar = point_adjoint(world, b, i, arm, weight * f, u_bar)
    separation_bar = point_adjoint(world, b, j, arm_j, -weight * f, -u_bar)
    weight_bar = -f.dot(virtual_velocity)
    if ti.static(world.with_contact_bristles):
        if patch[PATCH.kt] > 0:
            contact_bar.w = 0.0
        if side > 0:
            arm_bar += point_bar
        else:
            separation_bar += point_bar
        normal_bar += side * patch_normal_bar
        weight_bar += normal_force_bar * f.dot(normal)
    add_vec4(bars.link, b, contact_row(world, i), LINK.contact, 0.5 * contact_bar)
    add_vec4(bars.link, b, contact_row(world, j), LINK.contact, 0.5 * contact_bar)
    return arm_bar + separation_bar, separation_bar, normal_bar, gap_bar, weight_bar


@ti.func
def add_pose_adjoints(
    world: ti.template(), b, i, j, arm_i, arm_j, arm_bar, separation_bar, centre_offset_bar, rotation_i_bar, rotation_j_bar
):
    """Add the adjoints of two links' poses.

    Args:
        world, b, i, j: as in ``add_contact_force``.
        arm_i: vector from the origin of link i to the centre of its shape.
        arm_j: the same for link j.
        arm_bar: adjoint of arm_i as part of the positions of contact points.
        separation_bar: adjoint of the origin of link i minus that of link j.
        centre_offset_bar: adjoint of the centre of j's shape minus that of i's.
        rotation_i_bar: adjoint of the rotation of link i, without the contribution of its arm.
        rotation_j_bar: the same for link j.
    """
    row_i, row_j = contact_row(world, i), contact_row(world, j)
    add_vec3(world.work, b, row_i, WORK.bars, rotation_i_bar + arm_i.cross(arm_bar - centre_offset_bar))
    add_vec3(world.work, b, row_j, WORK.bars, rotation_j_bar + arm_j.cross(centre_offset_bar))
    add_vec3(world.work, b, row_i, WORK.bars + 3, separation_bar - centre_offset_bar)
    add_vec3(world.work, b, row_j, WORK.bars + 3, centre_offset_bar - separation_bar)


@ti.func
def shape_travel(world: ti.template(), b, i):
    """Largest distance that a point of link i's shape moves in a step [m]."""
    speed = point_velocity(world, b, i, shape_arm(world, b, i)).norm()
    return world.dt * (speed + load_vec3(world.work, b, i, WORK.spin).norm() * world.shape[i, SHAPE.bounding_radius])


@ti.func
def pair_margin(world: ti.template(), b, i, j):
    """Gap of the shapes of two links at which contact may begin [m]: the largest distance that they approach in a step."""
    u = point_velocity(world, b, i, shape_arm(world, b, i)) - point_velocity(world, b, j, shape_arm(world, b, j))
    rotation_speed = load_vec3(world.work, b, i, WORK.spin).norm() * world.shape[i, SHAPE.bounding_radius]
    rotation_speed += load_vec3(world.work, b, j, WORK.spin).norm() * world.shape[j, SHAPE.bounding_radius]
    return world.dt * (u.norm() + rotation_speed)


@ti.func
def min_resolved_gap(world: ti.template(), i, j):
    """Gap of two links below which contact does not resolve the overlap [m]: minus half of the smaller half size."""
    return -0.5 * ti.min(world.shape[i, SHAPE.min_half_extent], world.shape[j, SHAPE.min_half_extent])


@ti.func
def mark_pair(world: ti.template(), b, p, fault_code: ti.template()):
    """Record that contact cannot resolve pair p, unless another pair is recorded already; a team records each pair."""
    if ti.static(world.kind != "single"):
        if world.near_pairs[b, fault_column(world, p)] == 0:
            world.near_pairs[b, fault_column(world, p)] = 1 + fault_code
    elif world.near_pairs[b, NEAR.faulty_pair] < 0:
        world.near_pairs[b, NEAR.faulty_pair] = p
        world.near_pairs[b, NEAR.fault] = fault_code
