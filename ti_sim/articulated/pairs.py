"""Contact of links with links: the list of near pairs, the forces on both links, and their adjoint (Taichi functions).

The force is that of ``ti_sim.rigid.contact`` along the normal of the two surfaces, with the mean of both links' four parameters;
it acts on both links, in opposite directions, at the point midway between the surfaces, so that no momentum and no angular
momentum is made. Contacts of a pair:

- spheres and capsules with each other: one, at their closest points;
- sphere and box: one; capsule and box: the spheres at the capsule's two ends, and the point of the capsule closest to the box,
  whose force is weighted by 1 - (s / half length)^2 with s its place on the capsule, so that it fades where it becomes an end;
- sphere and mesh, capsule and mesh: as with a box, by the mesh's distance field;
- boxes and meshes with each other: the corners of each against the other, a box along its face of least depth, a mesh along its
  distance field's gradient. Two edges that cross without a corner in the other shape pass through each other.

See ``meeting`` for the kinks of the geometry; those of the law are where a contact begins or ends (its slope), and between
sticking and sliding.

Pairs are looked at only while their bounding spheres, each grown by the shape's slack, overlap. The list of these near pairs is
made anew once a shape's centre has moved by its slack since, so that no contact is ever missed, and the motion does not depend
on when that was.
"""

from ti_sim.articulated.collision import (
    BOUND,
    CONTACTS,
    CORNERS,
    FIRST_CONTACTS,
    FIRST_CORNER,
    FIRST_LINK,
    FIRST_NEAR,
    FIRST_SAMPLE,
    GRID_CELL,
    GRID_LOW,
    HALF_LENGTH,
    HALF_SIZE,
    LIST_COUNT,
    MEETING,
    NEAR_COUNT,
    NODES,
    RADIUS,
    ROUND_ROUND,
    SECOND_LINK,
    SHAPE_POSITION,
    SHAPE_QUATERNION,
    SLACK,
    TEST_COUNT,
)
from ti_sim.articulated.meeting import (
    closest_to_grid,
    closest_to_grid_adjoint,
    line_meets_box,
    lines_meet,
    sides_of_closest,
)
from ti_sim.articulated.spatial import quaternion_product, rotated
from ti_sim.articulated.tables import (
    BARS,
    LOAD,
    MATERIAL,
    MOVES,
    POSITION,
    QUATERNION,
    SPIN,
    VELOCITY,
    VIRTUAL,
    add_vec3,
    add_vec4,
    load_vec3,
    load_vec4,
)
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import mat3, rotation_matrix, vec3, vec4
from ti_sim.rigid.contact import contact_force_along, contact_force_along_adjoint
from ti_sim.shapes.distance_kernels import grid_distance, grid_distance_adjoint


@ti.func
def shape_vec3(world: ti.template(), i, column: ti.template()):
    """Three numbers of link i's shape."""
    return vec3(world.shape[i, column], world.shape[i, column + 1], world.shape[i, column + 2])


@ti.func
def shape_arm(world: ti.template(), b, i):
    """From the origin of link i to the centre of its shape, world axes."""
    return rotated(load_vec4(world.work, b, i, QUATERNION), shape_vec3(world, i, SHAPE_POSITION))


@ti.func
def shape_rotation(world: ti.template(), b, i):
    """Quaternion of link i's shape in the world."""
    local = vec4(
        world.shape[i, SHAPE_QUATERNION], world.shape[i, SHAPE_QUATERNION + 1],
        world.shape[i, SHAPE_QUATERNION + 2], world.shape[i, SHAPE_QUATERNION + 3],
    )  # fmt: skip
    return quaternion_product(load_vec4(world.work, b, i, QUATERNION), local)


@ti.func
def update_near_pairs(world: ti.template(), b):
    """Make the list of near pairs of placed links anew if a shape has moved by its slack since it was made."""
    stale = world.near[b, NEAR_COUNT] < 0
    for i in range(world.links):
        if world.shape[i, SLACK] > 0 and not stale:
            moved = load_vec3(world.work, b, i, POSITION) + shape_arm(world, b, i)
            moved -= vec3(world.anchor[b, i, 0], world.anchor[b, i, 1], world.anchor[b, i, 2])
            stale = moved.dot(moved) > world.shape[i, SLACK] * world.shape[i, SLACK]
    if stale:
        for i in range(world.links):
            if world.shape[i, BOUND] > 0:
                centre = load_vec3(world.work, b, i, POSITION) + shape_arm(world, b, i)
                for k in ti.static(range(3)):
                    world.anchor[b, i, k] = centre[k]
        count = 0
        for p in range(world.pairs):
            i, j = world.pair[p, FIRST_LINK], world.pair[p, SECOND_LINK]
            reach = world.shape[i, BOUND] + world.shape[j, BOUND] + world.shape[i, SLACK] + world.shape[j, SLACK]
            apart = load_vec3(world.anchor, b, i, 0) - load_vec3(world.anchor, b, j, 0)
            if apart.dot(apart) < reach * reach:
                world.near[b, FIRST_NEAR + count] = p
                count += 1
        world.near[b, NEAR_COUNT] = count
        world.near[b, LIST_COUNT] = world.near[b, LIST_COUNT] + 1
    world.near[b, TEST_COUNT] = world.near[b, TEST_COUNT] + world.near[b, NEAR_COUNT]


@ti.func
def sides_of_pair(world: ti.template(), p, c):
    """The two links of contact c of pair p: that whose line (or corner) it is, and the other."""
    swapped = ti.cast(c >= world.pair[p, FIRST_CONTACTS], int)
    return world.pair[p, FIRST_LINK + swapped], world.pair[p, SECOND_LINK - swapped]


@ti.func
def corner_of_contact(world: ti.template(), p, c, i):
    """Corner of link i's shape, a box or a mesh, that contact c of pair p is at, in the shape's frame."""
    n = c % world.pair[p, FIRST_CONTACTS]
    corner = shape_vec3(world, i, HALF_SIZE)
    if n % 2 == 1:
        corner.x = -corner.x
    if (n // 2) % 2 == 1:
        corner.y = -corner.y
    if (n // 4) % 2 == 1:
        corner.z = -corner.z
    if ti.static(world.with_meshes):
        if world.mesh[i, NODES] > 0:
            if i == world.pair[p, SECOND_LINK]:
                n = c - world.pair[p, FIRST_CONTACTS]
            at = world.mesh[i, FIRST_CORNER] + 3 * n
            corner = vec3(world.sample[at], world.sample[at + 1], world.sample[at + 2])
    return corner


@ti.func
def line_of_contact(world: ti.template(), b, p, c, i):
    """Line of link i's shape that contact c of pair p lies on.

    Returns:
        (along it, world axes; where on it in these lengths; 1 if the closest point is asked for instead).
    """
    rotation = shape_rotation(world, b, i)
    along = rotated(rotation, vec3(0.0, 0.0, 1.0))
    given, free = 0.0, 0.0
    if world.pair[p, MEETING] == CORNERS:
        along = rotated(rotation, corner_of_contact(world, p, c, i))
        given = 1.0
    elif world.pair[p, CONTACTS] == 3:
        if c == 2:
            free = 1.0
        else:
            given = (2.0 * c - 1.0) * world.shape[i, HALF_LENGTH]
    return along, given, free


@ti.func
def is_mesh(world: ti.template(), j):
    """Whether link j's shape is a mesh."""
    result = False
    if ti.static(world.with_meshes):
        result = world.mesh[j, NODES] > 0
    return result


@ti.func
def field_of(world: ti.template(), j):
    """Distance field of link j's mesh, as ``distance_kernels`` takes it: first coefficient, nodes, first node, cell."""
    nodes = ti.Vector([world.mesh[j, NODES], world.mesh[j, NODES + 1], world.mesh[j, NODES + 2]])
    return world.mesh[j, FIRST_SAMPLE], nodes, shape_vec3(world, j, GRID_LOW), world.shape[j, GRID_CELL]


@ti.func
def line_meets_mesh(world: ti.template(), j, centre, line, radius, h, given, free):
    """``meeting.line_meets_box`` for the mesh of link j, in the frame of the mesh."""
    first, nodes, low, cell = field_of(world, j)
    s, weight = given, 1.0
    if free > 0:
        s = closest_to_grid(world.sample, first, nodes, low, cell, centre, line, h, radius)
        weight = 1 - s * s / (h * h)
    distance, normal = grid_distance(world.sample, first, nodes, low, cell, centre + s * line, radius)
    return s * line - 0.5 * (radius + distance) * normal, normal, distance - radius, weight


@ti.func
def line_meets_mesh_adjoint(
    world: ti.template(), j, centre, line, radius, h, given, free, place_bar, normal_bar, gap_bar, weight_bar
):
    """Adjoint of ``line_meets_mesh``: (centre_bar, line_bar)."""
    first, nodes, low, cell = field_of(world, j)
    s = given
    if free > 0:
        s = closest_to_grid(world.sample, first, nodes, low, cell, centre, line, h, radius)
    x = centre + s * line
    distance, normal = grid_distance(world.sample, first, nodes, low, cell, x, radius)
    x_bar = grid_distance_adjoint(
        world.sample, first, nodes, low, cell, x,
        gap_bar - 0.5 * normal.dot(place_bar), normal_bar - 0.5 * (radius + distance) * place_bar,
    )  # fmt: skip
    centre_bar, line_bar = x_bar, s * (x_bar + place_bar)
    if free > 0:
        s_bar = line.dot(x_bar + place_bar) - 2 * s / (h * h) * weight_bar
        more_centre_bar, more_line_bar = closest_to_grid_adjoint(
            world.sample, first, nodes, low, cell, x, line, s, normal, h, s_bar
        )
        centre_bar += more_centre_bar
        line_bar += more_line_bar
    return centre_bar, line_bar


@ti.func
def meet(world: ti.template(), b, p, c, i, j):
    """Contact c of pair p, of links i and j.

    Returns:
        (contact point less the centre of i's shape [m], unit normal from j to i, both in world axes; gap [m]; weight [1]).
    """
    d = load_vec3(world.work, b, i, POSITION) + shape_arm(world, b, i)
    d -= load_vec3(world.work, b, j, POSITION) + shape_arm(world, b, j)
    along, given, free = line_of_contact(world, b, p, c, i)
    h, radius = world.shape[i, HALF_LENGTH], world.shape[i, RADIUS]
    rotation = shape_rotation(world, b, j)
    place, normal, gap, weight = vec3(0.0), vec3(0.0), 1.0, 1.0
    if world.pair[p, MEETING] == ROUND_ROUND:
        other = rotated(rotation, vec3(0.0, 0.0, 1.0))
        place, normal, gap = lines_meet.value(
            d, along, other, h, world.shape[j, HALF_LENGTH], radius, world.shape[j, RADIUS]
        )
    else:
        matrix = rotation_matrix(rotation)
        centre, line = matrix.transpose() @ d, matrix.transpose() @ along
        local_place, local_normal, gap_now, weight_now = vec3(0.0), vec3(0.0), 1.0, 1.0
        if is_mesh(world, j):
            if ti.static(world.with_meshes):
                local_place, local_normal, gap_now, weight_now = line_meets_mesh(world, j, centre, line, radius, h, given, free)
        else:
            half, outside = shape_vec3(world, j, HALF_SIZE), vec3(0.0)
            if free > 0:
                outside = sides_of_closest(centre, line, half, h)
            local_place, local_normal, gap_now, weight_now = line_meets_box.value(
                centre, line, half, radius, h, given, free, outside
            )
        place, normal, gap, weight = matrix @ local_place, matrix @ local_normal, gap_now, weight_now
    return place, normal, gap, weight


@ti.func
def meet_adjoint(world: ti.template(), b, p, c, i, j, place, normal, place_bar, normal_bar, gap_bar, weight_bar):
    """Adjoint of ``meet``, whose results are given: (adjoint of the distance of the shapes' centres, turn_bar of i, of j)."""
    d = load_vec3(world.work, b, i, POSITION) + shape_arm(world, b, i)
    d -= load_vec3(world.work, b, j, POSITION) + shape_arm(world, b, j)
    along, given, free = line_of_contact(world, b, p, c, i)
    h, radius = world.shape[i, HALF_LENGTH], world.shape[i, RADIUS]
    rotation = shape_rotation(world, b, j)
    d_bar, turn_i_bar, turn_j_bar = vec3(0.0), vec3(0.0), vec3(0.0)
    if world.pair[p, MEETING] == ROUND_ROUND:
        other = rotated(rotation, vec3(0.0, 0.0, 1.0))
        bars = lines_meet.vjp(
            (d, along, other, h, world.shape[j, HALF_LENGTH], radius, world.shape[j, RADIUS]), (place_bar, normal_bar, gap_bar)
        )
        d_bar = bars[0]
        turn_i_bar, turn_j_bar = along.cross(bars[1]), other.cross(bars[2])
    else:
        matrix = rotation_matrix(rotation)
        back = matrix.transpose()
        centre, line = back @ d, back @ along
        centre_bar, line_bar = vec3(0.0), vec3(0.0)
        if is_mesh(world, j):
            if ti.static(world.with_meshes):
                centre_bar, line_bar = line_meets_mesh_adjoint(
                    world, j, centre, line, radius, h, given, free, back @ place_bar, back @ normal_bar, gap_bar, weight_bar
                )
        else:
            half, outside = shape_vec3(world, j, HALF_SIZE), vec3(0.0)
            if free > 0:
                outside = sides_of_closest(centre, line, half, h)
            bars = line_meets_box.vjp(
                (centre, line, half, radius, h, given, free, outside),
                (back @ place_bar, back @ normal_bar, gap_bar, weight_bar),
            )
            centre_bar, line_bar = bars[0], bars[1]
        d_bar = matrix @ centre_bar
        along_bar = matrix @ line_bar
        turn_i_bar = along.cross(along_bar)
        # The frame of j turns its results forwards and its arguments backwards.
        turn_j_bar = place.cross(place_bar) + normal.cross(normal_bar) - d.cross(d_bar) - turn_i_bar
    return d_bar, turn_i_bar, turn_j_bar


@ti.func
def pair_material(world: ti.template(), b, i, j):
    """Mean of the four contact parameters of two links."""
    return 0.5 * (load_vec4(world.link, b, i, MATERIAL) + load_vec4(world.link, b, j, MATERIAL))


@ti.func
def point_velocity(world: ti.template(), b, i, arm):
    """Velocity of the point of link i at ``arm`` from its origin."""
    return load_vec3(world.work, b, i, VELOCITY) + load_vec3(world.work, b, i, SPIN).cross(arm)


@ti.func
def add_load(world: ti.template(), b, i, arm, force):
    """Take a force at ``arm`` from its origin off the load of link i."""
    if world.tree[i, MOVES] == 1:
        add_vec3(world.work, b, i, LOAD, -arm.cross(force))
        add_vec3(world.work, b, i, LOAD + 3, -force)


@ti.func
def place_in_second(world: ti.template(), b, p):
    """Rotation and translation from the frame of the first shape of pair p to that of the second; used of corners of meshes."""
    turn, shift = mat3(0.0), vec3(0.0)
    if ti.static(world.with_meshes):
        i, j = world.pair[p, FIRST_LINK], world.pair[p, SECOND_LINK]
        d = load_vec3(world.work, b, i, POSITION) + shape_arm(world, b, i)
        d -= load_vec3(world.work, b, j, POSITION) + shape_arm(world, b, j)
        back = rotation_matrix(shape_rotation(world, b, j)).transpose()
        turn, shift = back @ rotation_matrix(shape_rotation(world, b, i)), back @ d
    return turn, shift


@ti.func
def may_touch(world: ti.template(), p, c, i, j, turn, shift):
    """Whether contact c of pair p is to be looked at: a mesh's corners are only within the other shape's bounding box."""
    result = True
    if ti.static(world.with_meshes):
        if world.pair[p, MEETING] == CORNERS:
            x = corner_of_contact(world, p, c, i)
            if i == world.pair[p, FIRST_LINK]:
                x = turn @ x + shift
            else:
                x = turn.transpose() @ (x - shift)
            high = shape_vec3(world, j, HALF_SIZE)
            low = -high
            if is_mesh(world, j):
                _first, nodes, first_node, cell = field_of(world, j)
                low = first_node + cell
                high = first_node + (nodes - 2) * cell
            result = (x > low).all() and (x < high).all()
    return result


@ti.func
def pair_loads(world: ti.template(), b):
    """Forces of near pairs of placed links, added to the links' loads."""
    update_near_pairs(world, b)
    for n in range(world.near[b, NEAR_COUNT]):
        p = world.near[b, FIRST_NEAR + n]
        turn, shift = place_in_second(world, b, p)
        for c in range(world.pair[p, CONTACTS]):
            i, j = sides_of_pair(world, p, c)
            place, normal, gap, weight = vec3(0.0), vec3(0.0), 1.0, 1.0
            if may_touch(world, p, c, i, j, turn, shift):
                place, normal, gap, weight = meet(world, b, p, c, i, j)
            if gap < 0:
                arm_i = shape_arm(world, b, i) + place
                arm_j = arm_i + load_vec3(world.work, b, i, POSITION) - load_vec3(world.work, b, j, POSITION)
                u = point_velocity(world, b, i, arm_i) - point_velocity(world, b, j, arm_j)
                material = pair_material(world, b, i, j)
                force = weight * contact_force_along(
                    normal, gap, u, material.x, material.y, material.z, material.w, world.dt
                )
                add_load(world, b, i, arm_i, force)
                add_load(world, b, j, arm_j, -force)


@ti.func
def point_adjoint(world: ti.template(), b, i, arm, force, u_bar):
    """Adjoint of the velocity of a point of link i, and of minus the power of a force there on the virtual velocity.

    Adds to the adjoints of the link's velocities, real and virtual, and returns that of the arm.
    """
    add_vec3(world.work, b, i, BARS + 6, arm.cross(u_bar))
    add_vec3(world.work, b, i, BARS + 9, u_bar)
    add_vec3(world.work, b, i, BARS + 18, -arm.cross(force))
    add_vec3(world.work, b, i, BARS + 21, -force)
    spin, virtual = load_vec3(world.work, b, i, SPIN), load_vec3(world.work, b, i, VIRTUAL)
    return u_bar.cross(spin) - force.cross(virtual)


@ti.func
def pair_adjoint(world: ti.template(), bars: ti.template(), b):
    """Adjoint of the pairs' part of L (see ``adjoint``), minus the forces' power on the virtual velocities of their points.

    Adds to the adjoints of both links' motion and material.
    """
    update_near_pairs(world, b)
    for n in range(world.near[b, NEAR_COUNT]):
        p = world.near[b, FIRST_NEAR + n]
        turn, shift = place_in_second(world, b, p)
        for c in range(world.pair[p, CONTACTS]):
            i, j = sides_of_pair(world, p, c)
            place, normal, gap, weight = vec3(0.0), vec3(0.0), 1.0, 1.0
            if may_touch(world, p, c, i, j, turn, shift):
                place, normal, gap, weight = meet(world, b, p, c, i, j)
            if gap < 0:
                centre_i, centre_j = shape_arm(world, b, i), shape_arm(world, b, j)
                arm_i = centre_i + place
                arm_j = arm_i + load_vec3(world.work, b, i, POSITION) - load_vec3(world.work, b, j, POSITION)
                u = point_velocity(world, b, i, arm_i) - point_velocity(world, b, j, arm_j)
                material = pair_material(world, b, i, j)
                force = contact_force_along(normal, gap, u, material.x, material.y, material.z, material.w, world.dt)
                y = load_vec3(world.work, b, i, VIRTUAL + 3) + load_vec3(world.work, b, i, VIRTUAL).cross(arm_i)
                y -= load_vec3(world.work, b, j, VIRTUAL + 3) + load_vec3(world.work, b, j, VIRTUAL).cross(arm_j)
                normal_bar, gap_bar, u_bar, material_bar = contact_force_along_adjoint(
                    normal, gap, u, material.x, material.y, material.z, material.w, world.dt, -weight * y
                )
                arm_i_bar = point_adjoint(world, b, i, arm_i, weight * force, u_bar)
                arm_j_bar = point_adjoint(world, b, j, arm_j, -weight * force, -u_bar)
                add_vec4(bars.link, b, i, MATERIAL, 0.5 * material_bar)
                add_vec4(bars.link, b, j, MATERIAL, 0.5 * material_bar)
                place_bar = arm_i_bar + arm_j_bar
                d_bar, turn_i_bar, turn_j_bar = meet_adjoint(
                    world, b, p, c, i, j, place, normal, place_bar, normal_bar, gap_bar, -force.dot(y)
                )
                add_vec3(world.work, b, i, BARS, turn_i_bar + centre_i.cross(place_bar + d_bar))
                add_vec3(world.work, b, j, BARS, turn_j_bar - centre_j.cross(d_bar))
                add_vec3(world.work, b, i, BARS + 3, arm_j_bar + d_bar)
                add_vec3(world.work, b, j, BARS + 3, -arm_j_bar - d_bar)
