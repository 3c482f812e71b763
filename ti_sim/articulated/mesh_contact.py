"""Contact of meshes with each other and with boxes, by points and edges of both surfaces (Taichi functions).

The points of a shape are its corners, and points on large faces and long edges (``surface_points``). Each is tested against the
other shape: the distance field of a mesh, or the face of least depth of a box. A single point has the stiffness, damping and
tangential stiffness of the pair. More than four points share four times these parameters: the forces of single points are
multiplied by 4 / max(4, n). A point at a distance g outside contributes 1 - g / w to the count n, with w 0.02 of the smallest
half size. It is fully counted before it touches, so no force jumps when it does.

The force of a point within a face acts along the normal of that face, which is exact where the distance field of a mesh is
rounded near edges. It decreases if the normal of the other shape deviates by more than 40 degrees, to zero at 80 degrees. The
force of all other points acts along the normal of the other shape.

Sharp edges longer than the distance between points are used if n < 1. Each is a line whose point closest to the other shape has
the weight (1 - n) (1 - (s / half length)^2) / 2, with s its position on the line. Two edges that cross give two contacts, one for
the line of each shape.

The force has kinks where n is four or one, and where the contribution of a point to n begins or is complete; see
``contact_geometry`` for those of the shapes.
"""

from ti_sim.articulated.collision import (
    DEEP,
    FIRST_CORNER,
    FIRST_EDGE,
    FIRST_EDGES,
    FIRST_POINTS,
    HALF_SIZE,
    LEAST_HALF,
    SECOND_EDGES,
    SECOND_POINTS,
)
from ti_sim.articulated.contact_force import (
    greatest_depth,
    mark_pair,
    pair_margin,
    point_contact,
    shape_arm,
    shape_rotation,
    shape_vec3,
)
from ti_sim.articulated.line_contact import field_of, is_mesh, line_shape_contact, line_shape_contact_adjoint, point_shape_contact
from ti_sim.articulated.patch import KT, add_to_patch, empty_patch, merge_patch, patch_point_adjoint
from ti_sim.articulated.tables import (
    BARS,
    CONTACT,
    LOAD,
    MOVES,
    POSITION,
    SPIN,
    VELOCITY,
    VIRTUAL,
    add_vec3,
    add_vec4,
    load_vec3,
)
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import mat3, rotation_matrix, vec3, vec4
from ti_sim.rigid.contact import (
    contact_force_along,
    contact_force_along_adjoint,
    fraction_along,
    fraction_along_adjoint,
)

_COUNTING = 0.02  # distance within which a point is counted, in smallest half sizes
_MOST = 4.0  # number of points that have the full parameters of the pair
_OPPOSED = (0.17, 0.77)  # cosine of the angle between two normals: weight of a point's force from 0 to 1


@ti.func
def sampled(world: ti.template(), at):
    """Three numbers of ``WorldArrays.sample``, from an index on."""
    return vec3(world.sample[at], world.sample[at + 1], world.sample[at + 2])


@ti.func
def box_about(world: ti.template(), j):
    """Centre and half sizes of the bounding box of link j's shape, a box or mesh, in its frame [m]."""
    middle, half = vec3(0.0), shape_vec3(world, j, HALF_SIZE)
    if is_mesh(world, j):
        _first, nodes, first_node, cell = field_of(world, j)
        middle = first_node + 0.5 * cell * (nodes - 1)
        half = 0.5 * cell * (nodes - 3)
    return middle, half


@ti.func
def bounds_of(world: ti.template(), j, turn, shift, margin):
    """Bounding box of link j's shape, a box or mesh, in another frame: (lowest corner, highest corner) [m].

    Args:
        world: ``WorldArrays``.
        j: link.
        turn: rotation from that frame to the frame of the shape.
        shift: origin of that frame in the frame of the shape [m].
        margin: enlargement of the box on all sides [m].
    """
    middle, half = box_about(world, j)
    back = turn.transpose()
    centre, reach = back @ (middle - shift), ti.abs(back) @ half + margin
    return centre - reach, centre + reach


@ti.func
def crosses(x, along, low, high):
    """Whether a line, given by its middle and half vector, crosses a box, given by its lowest and highest corner."""
    start, end = -1.0, 1.0
    for k in ti.static(range(3)):
        below, above = low[k] - x[k], high[k] - x[k]
        if ti.abs(along[k]) > 1e-3 * (above - below):
            start = ti.max(start, ti.min(below / along[k], above / along[k]))
            end = ti.min(end, ti.max(below / along[k], above / along[k]))
        elif below > ti.abs(along[k]) or above < -ti.abs(along[k]):
            end = start - 1
    return start <= end


@ti.func
def opposing(cosine):
    """Weight of a point, and its derivative, from the cosine between the normal of its face and the reversed normal of the other
    shape.
    """
    t = ti.max(0.0, ti.min(1.0, (cosine - _OPPOSED[0]) / (_OPPOSED[1] - _OPPOSED[0])))
    return t * t * (3 - 2 * t), 6 * t * (1 - t) / (_OPPOSED[1] - _OPPOSED[0])


@ti.func
def add_wrench(world: ti.template(), b, i, moment, force):
    """Subtract a force and its moment about the origin of link i from its load."""
    if world.tree[i, MOVES] == 1:
        add_vec3(world.work, b, i, LOAD, -moment)
        add_vec3(world.work, b, i, LOAD + 3, -force)


@ti.func
def relative_motion(world: ti.template(), b, first, second, apart, turning: ti.template(), moving: ti.template()):
    """Velocity of one link relative to another at the first link's origin, and relative angular velocity.

    Args:
        world: ``WorldArrays``.
        b: world.
        first: a link.
        second: the other.
        apart: origin of the first minus that of the second [m].
        turning: column of the angular velocities of the links, real or virtual.
        moving: column of the velocities of their origins.
    """
    spin = load_vec3(world.work, b, second, turning)
    drift = load_vec3(world.work, b, first, moving) - load_vec3(world.work, b, second, moving) - spin.cross(apart)
    return drift, load_vec3(world.work, b, first, turning) - spin


@ti.func
def add_motion_adjoints(
    world: ti.template(), bars: ti.template(), b, first, second, apart, u_bar, turn_bar, force, moment, contact_bar
):
    """Add the adjoints of two links' velocities, real and virtual, and contact parameters.

    Args:
        world: ``WorldArrays``.
        bars: ``BarArrays``.
        b: world.
        first: a link.
        second: the other.
        apart: origin of the first minus that of the second [m].
        u_bar: sum of the adjoints of the points' velocities (of the first link relative to the second).
        turn_bar: sum of the moments of these adjoints about the origin of the first.
        force: sum of the forces of the points on the first link.
        moment: sum of their moments.
        contact_bar: adjoint of the pair's contact parameters.

    Returns:
        Adjoint of ``apart``.
    """
    add_vec3(world.work, b, first, BARS + 6, turn_bar)
    add_vec3(world.work, b, first, BARS + 9, u_bar)
    add_vec3(world.work, b, first, BARS + 18, -moment)
    add_vec3(world.work, b, first, BARS + 21, -force)
    add_vec3(world.work, b, second, BARS + 6, -turn_bar - apart.cross(u_bar))
    add_vec3(world.work, b, second, BARS + 9, -u_bar)
    add_vec3(world.work, b, second, BARS + 18, moment + apart.cross(force))
    add_vec3(world.work, b, second, BARS + 21, force)
    add_vec4(bars.link, b, first, CONTACT, 0.5 * contact_bar)
    add_vec4(bars.link, b, second, CONTACT, 0.5 * contact_bar)
    return load_vec3(world.work, b, second, SPIN).cross(u_bar) - load_vec3(world.work, b, second, VIRTUAL).cross(force)


@ti.func
def touch(world: ti.template(), j, other, back, at, along, h, own, free, margin, adjoint: ti.template()):
    """How a point (or an edge, where ``free`` is 1) of one mesh touches the shape of link j.

    Args:
        world: arrays of the simulation.
        j: link of the shape.
        other, back: rotation matrix of the shape, and its transpose.
        at: place relative to the shape's origin [m], world axes.
        along, h: direction and half length of the edge [m].
        own: inner normal of the mesh at the point, of length one, or zeros outside of its faces.
        free: 1 for an edge, 0 for a point.
        margin: gap above which the point may be out of range [m].
        adjoint: whether derivatives are needed.

    Returns:
        Place of the contact relative to ``at``, normal, direction of the force, gap, weight of the force, slope of the weight by
        how far both normals oppose each other, slope and bend of the distance field (shape's axes).
    """
    place, normal, gap, weight, slope, bend = vec3(0.0), vec3(0.0), 1.0, 1.0, vec3(0.0), mat3(0.0)
    if free > 0:
        place, normal, gap, weight = line_shape_contact(world, j, other, at, along, h, 0.0, 0.0, free, margin)
    else:
        gap, normal, slope, bend = point_shape_contact(world, j, back @ at, margin, adjoint)
        normal = other @ normal
        place = -0.5 * gap * normal
    push, opposed_slope = normal, 0.0
    if own.dot(own) > 0.5:
        push = -own
        weight, opposed_slope = opposing(normal.dot(push))
    return place, normal, push, gap, weight, opposed_slope, slope, bend


@ti.func
def touch_adjoint(
    world: ti.template(), j, other, back, at, along, h, free, within, place, normal, push, gap, weight, opposed_slope,
    slope, bend, u, f, side, spin, y, virtual_spin, contact, arm, patch: ti.template(),
):  # fmt: skip
    """Adjoint of the force of one contact, of minus its power on the virtual velocities, and of its part of the patch.

    Args:
        world, j, other, back, at, along, h, free: as of ``touch``.
        within: whether the point is on a face of its mesh.
        place, normal, push, gap, weight, opposed_slope, slope, bend: what ``touch`` returns.
        u, f: relative velocity of the point, and force without weight.
        side: 1 where the point belongs to the first link, -1 for the second.
        spin: relative angular velocity.
        y, virtual_spin: virtual velocity of the point, relative virtual angular velocity.
        contact: ke, kd, kf, mu of the points of the pair (``point_contact``).
        arm: the contact relative to the origin of the first link [m].
        patch: of the pair.

    Returns:
        Adjoints of the relative velocity, the contact parameters, the place, the point, the edge's direction; the moments on the
        mesh by its normal, and on the shape; and the adjoint of a factor of the force in the patch.
    """
    force_bar, size_bar, patch_place_bar, patch_normal_bar, fraction_bar = -weight * y, 0.0, vec3(0.0), vec3(0.0), 0.0
    if ti.static(world.sticking):
        size_bar, patch_place_bar, patch_normal_bar, fraction_bar = patch_point_adjoint(
            patch, arm, side * push, weight * f.dot(push), fraction_along(push, gap, u, contact.x, contact.y, world.dt)
        )
        force_bar += weight * size_bar * push
    normal_bar, gap_bar, u_bar, contact_bar = contact_force_along_adjoint(
        push, gap, u, contact.x, contact.y, contact.z, contact.w, world.dt, force_bar
    )
    if ti.static(world.sticking):
        one_normal_bar, one_gap_bar, one_u_bar, one_contact_bar = fraction_along_adjoint(
            push, gap, u, contact.x, contact.y, world.dt, fraction_bar
        )
        normal_bar += one_normal_bar
        gap_bar += one_gap_bar
        u_bar += one_u_bar
        contact_bar += one_contact_bar
    weight_bar, along_bar, turn_bar, own_bar = -f.dot(y), vec3(0.0), vec3(0.0), vec3(0.0)
    if ti.static(world.sticking):
        if patch[KT] > 0:
            contact_bar.w = 0.0
        weight_bar += size_bar * f.dot(push)
        normal_bar += side * patch_normal_bar
    if within:
        own_bar = push.cross(normal_bar + weight_bar * opposed_slope * normal)
        normal_bar = weight_bar * opposed_slope * push
        weight_bar = 0.0
    u_bar *= side
    place_bar, centre_bar = u_bar.cross(spin) - side * weight * f.cross(virtual_spin), vec3(0.0)
    if ti.static(world.sticking):
        place_bar += patch_place_bar
    if free > 0:
        centre_bar, along_bar, turn_bar = line_shape_contact_adjoint(
            world, j, other, at, along, h, 0.0, 0.0, free, place, normal, gap, place_bar, normal_bar, gap_bar, weight_bar
        )
    else:
        gap_bar -= 0.5 * normal.dot(place_bar)
        normal_bar -= 0.5 * gap * place_bar
        centre_bar = other @ (gap_bar * slope + bend @ (back @ normal_bar))
        # The frame of j rotates results forwards and arguments backwards.
        turn_bar = normal.cross(normal_bar) - at.cross(centre_bar)
    return u_bar, contact_bar, place_bar, centre_bar, along_bar, own_bar, turn_bar, size_bar * weight * f.dot(push)


@ti.func
def add_sums(
    world: ti.template(), bars: ti.template(), b, first, second, sweep, count, count_bar, apart, force, moment, u_sum, u_moment,
    contact_bar, first_turn_bar, second_turn_bar, apart_bar, virtual_drift, virtual_spin, own_patch: ti.template(), size_bar,
    patch: ti.template(), adjoint: ti.template(),
):  # fmt: skip
    """Add the sums of a sweep, scaled by a function of the count, to the links' wrenches or to their adjoints.

    Args:
        world, bars, b, first, second, adjoint: as of ``mesh_contacts``.
        sweep: 0 of points, 1 of edges.
        count: of the points.
        count_bar: adjoint of the count so far.
        apart: origin of the first link minus that of the second [m].
        force, moment: on the first link, about its origin.
        u_sum, u_moment, contact_bar, first_turn_bar, second_turn_bar, apart_bar: adjoints (``add_motion_adjoints``).
        virtual_drift, virtual_spin: relative virtual motion of the links.
        own_patch, size_bar: patch of the points of the sweep, and adjoint of a factor of their forces in the patch of the pair.
        patch: of the pair.

    Returns:
        Adjoint of the count.
    """
    scale = _MOST / ti.max(count, _MOST)
    if sweep == 1:
        scale = 0.5 * (1 - count)
    if ti.static(adjoint):
        power = -force.dot(virtual_drift) - moment.dot(virtual_spin)
        if ti.static(world.sticking):
            power += size_bar
        if sweep == 0 and count > _MOST:
            count_bar = -power * scale / count
        elif sweep == 1:
            count_bar = -0.5 * power
        apart_bar = scale * apart_bar + add_motion_adjoints(
            world, bars, b, first, second, apart, scale * u_sum, scale * u_moment, scale * force, scale * moment,
            scale * contact_bar,
        )  # fmt: skip
        add_vec3(world.work, b, first, BARS, scale * first_turn_bar)
        add_vec3(world.work, b, second, BARS, scale * second_turn_bar)
        add_vec3(world.work, b, first, BARS + 3, apart_bar)
        add_vec3(world.work, b, second, BARS + 3, -apart_bar)
    else:
        add_wrench(world, b, first, scale * moment, scale * force)
        add_wrench(world, b, second, -scale * (moment + apart.cross(force)), -scale * force)
        if ti.static(world.sticking):
            merge_patch(patch, own_patch, scale)
    return count_bar


@ti.func
def add_count_adjoint(world: ti.template(), b, first, second, apart, slope, moment):
    """Add the adjoints of both links' poses by the count of points.

    Args:
        world, b, first, second, apart: as of ``add_sums``.
        slope, moment: adjoint of the translation of the first link, and of its rotation about its origin.
    """
    add_vec3(world.work, b, first, BARS, moment)
    add_vec3(world.work, b, second, BARS, -moment - apart.cross(slope))
    add_vec3(world.work, b, first, BARS + 3, slope)
    add_vec3(world.work, b, second, BARS + 3, -slope)


@ti.func
def mesh_contacts(
    world: ti.template(), bars: ti.template(), b, p, first, second, patch: ti.template(), adjoint: ti.template()
):
    """Contacts of pair p, two meshes or a box and a mesh: the forces or their adjoint (arguments of ``box_box_contacts``).

    The first sweep counts the points and sums their forces and adjoints, the second does so for the edges. The sums are scaled by
    a function of the count at the end of each sweep. The adjoint of the count also reaches counted points without contact.
    """
    margin = pair_margin(world, b, first, second)
    counting = _COUNTING * ti.min(world.shape[first, LEAST_HALF], world.shape[second, LEAST_HALF])
    contact = point_contact(world, b, first, second)
    apart = load_vec3(world.work, b, first, POSITION) - load_vec3(world.work, b, second, POSITION)
    drift, spin = relative_motion(world, b, first, second, apart, SPIN, VELOCITY)
    virtual_drift, virtual_spin = vec3(0.0), vec3(0.0)
    if ti.static(adjoint):
        virtual_drift, virtual_spin = relative_motion(world, b, first, second, apart, VIRTUAL, VIRTUAL + 3)
    count, count_bar, deepest = 0.0, 0.0, 0.0
    # Derivatives of the count by the translation of the first link and by its rotation about its origin.
    count_slope, count_moment = vec3(0.0), vec3(0.0)
    for sweep in range(2):
        if sweep == 0 or count < 1:
            # Of the first link relative to the second; moments are about the origin of the first.
            force, moment, u_sum, u_moment, contact_bar = vec3(0.0), vec3(0.0), vec3(0.0), vec3(0.0), vec4(0.0)
            first_turn_bar, second_turn_bar, apart_bar = vec3(0.0), vec3(0.0), vec3(0.0)
            own_patch, size_bar = empty_patch(), 0.0
            for half in range(2):
                i, j, points, edges = first, second, world.pair[p, FIRST_POINTS], world.pair[p, FIRST_EDGES]
                side, origin = 1.0, vec3(0.0)
                if half == 1:
                    i, j, points, edges = second, first, world.pair[p, SECOND_POINTS], world.pair[p, SECOND_EDGES]
                    side, origin = -1.0, -apart
                arm_i, arm_j = shape_arm(world, b, i), shape_arm(world, b, j)
                matrix, other = rotation_matrix(shape_rotation(world, b, i)), rotation_matrix(shape_rotation(world, b, j))
                centre, back = side * apart + arm_i - arm_j, other.transpose()
                low, high = bounds_of(world, j, back @ matrix, back @ centre, ti.max(counting, margin))
                begin, end, free = world.mesh[i, FIRST_CORNER], points, 0.0
                if sweep == 1:
                    begin, end, free = world.mesh[i, FIRST_EDGE], edges, 1.0
                middle, size = box_about(world, i)
                if (middle + size <= low).any() or (middle - size >= high).any():
                    end = 0
                place_sum, centre_bar, turn_i_bar, turn_j_bar = vec3(0.0), vec3(0.0), vec3(0.0), vec3(0.0)
                for c in range(end):
                    at = begin + 6 * c
                    offset, along, h, own, near = sampled(world, at), vec3(0.0), 0.0, vec3(0.0), True
                    if free > 0:
                        along = sampled(world, at + 3)
                        near = crosses(offset, along, low, high)
                    else:
                        near = (offset > low).all() and (offset < high).all()
                    if near:
                        offset = matrix @ offset
                        if free > 0:
                            h = along.norm()
                            along = matrix @ (along / h)
                        else:
                            own = matrix @ sampled(world, at + 3)
                        place, normal, push, gap, weight, opposed_slope, slope, bend = touch(
                            world, j, other, back, centre + offset, along, h, own, free, margin, adjoint
                        )
                        within = own.dot(own) > 0.5
                        if sweep == 0 and gap < counting:
                            count += 1 - ti.max(gap, 0.0) / counting
                            deepest = ti.min(deepest, gap)
                            if ti.static(adjoint):
                                if gap >= 0:
                                    one = -side / counting * (other @ slope)
                                    count_slope += one
                                    count_moment += (origin + arm_i + offset).cross(one)
                        if gap < margin:
                            arm = origin + arm_i + offset + place
                            u = side * (drift + spin.cross(arm))
                            f = contact_force_along(push, gap, u, contact.x, contact.y, contact.z, contact.w, world.dt)
                            if ti.static(adjoint):
                                (
                                    u_bar, one_contact_bar, place_bar, point_bar, along_bar, own_bar, one_turn_bar, one_size_bar,
                                ) = touch_adjoint(
                                    world, j, other, back, centre + offset, along, h, free, within,
                                    place, normal, push, gap, weight, opposed_slope, slope, bend, u, f, side, spin,
                                    side * (virtual_drift + virtual_spin.cross(arm)), virtual_spin, contact, arm, patch,
                                )  # fmt: skip
                                u_sum += u_bar
                                u_moment += arm.cross(u_bar)
                                contact_bar += one_contact_bar
                                place_sum += place_bar
                                centre_bar += point_bar
                                turn_i_bar += own_bar
                                turn_i_bar += offset.cross(point_bar + place_bar) + along.cross(along_bar)
                                turn_j_bar += one_turn_bar
                                size_bar += one_size_bar
                            elif ti.static(world.sticking):
                                if patch[KT] > 0:
                                    fraction = fraction_along(push, gap, u, contact.x, contact.y, world.dt)
                                    add_to_patch(own_patch, arm, side * push, weight * f.dot(push), fraction)
                            f *= side * weight
                            force += f
                            moment += arm.cross(f)
                if ti.static(adjoint):
                    turn_i_bar += arm_i.cross(place_sum + centre_bar)
                    turn_j_bar -= arm_j.cross(centre_bar)
                    apart_bar += side * centre_bar
                    if half == 0:
                        first_turn_bar += turn_i_bar
                        second_turn_bar += turn_j_bar
                    else:
                        first_turn_bar += turn_j_bar
                        second_turn_bar += turn_i_bar
                        apart_bar -= place_sum
            count_bar = add_sums(
                world, bars, b, first, second, sweep, count, count_bar, apart, force, moment, u_sum, u_moment, contact_bar,
                first_turn_bar, second_turn_bar, apart_bar, virtual_drift, virtual_spin, own_patch, size_bar, patch, adjoint,
            )  # fmt: skip
    if ti.static(adjoint):
        if count_bar != 0:
            add_count_adjoint(world, b, first, second, apart, count_bar * count_slope, count_bar * count_moment)
    if deepest < greatest_depth(world, first, second):
        mark_pair(world, b, p, DEEP)
