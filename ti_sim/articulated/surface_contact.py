"""Contact of boxes and meshes with each other, by points and edges of both surfaces (Taichi functions).

The features of a shape are its corners, points on its faces, and its sharp edges, each with a fixed weight w
(``surface_points``). With the depth D of each feature in the other shape, the elastic energy of a pair is

    U = ke / 2 sqrt(sum w D^4).

It has the stiffness ke for a single corner, and four times that for a face on a face, whose features have a total weight of 16,
shared in any way by both surfaces. The elastic force is the gradient of U, so it does no work around closed paths of both poses.
The depth of a point is minus the signed distance d of the other shape; that of an edge is the largest value along it of
(1 - s^2 / h^2) (r - d) - r, with a small length r (``shape_distance``). It is defined outside, too, where contact begins, and
changes smoothly with the tilt of an edge that is parallel to a face. The energy has continuous derivatives: the distance of a box
is smooth where two depths are equal, and that of a mesh is a smooth spline. Kinks are left where an edge enters a mesh at two
places.

In terms of the contact law, a feature at the place x with the unit normal n, the gap g along it, and the mass m = w (D / -g)^4
has the force of ``ti_sim.contact.law`` with all its parameters multiplied by m g^2 / sqrt(S), S = sum m g^4. So the features
of a pair also share damping and friction.

The spin of a cylinder or cone about its own axis moves its features, but not its surface. The normal velocity of a feature is
that without this spin, so damping does not resist rolling.
"""

from ti_sim.articulated.contact_force import (
    depth_in_contact,
    greatest_depth,
    mark_pair,
    pair_margin,
    point_contact,
    shape_arm,
    shape_rotation,
)
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
from ti_sim.base.vecmath import rotation_matrix, vec3, vec4
from ti_sim.contact.collision import DEEP, FIRST_FEATURE, FIRST_FEATURES, LEAST_HALF, REVOLVED, SECOND_FEATURES
from ti_sim.contact.law import (
    contact_force_along,
    contact_force_along_adjoint,
)
from ti_sim.contact.patch import KT, add_to_patch, empty_patch, merge_patch, patch_point_adjoint
from ti_sim.contact.shape_distance import (
    box_about,
    deepest_adjoint,
    deepest_on_line,
    distance_adjoint,
    part_within,
    shape_distance,
    unit_normal,
)
from ti_sim.contact.surface_points import FEATURE_SIZE, FEATURE_VECTOR, FEATURE_WEIGHT

_FAR = 1e9  # overlap before the first test [m]
_REACH = 0.01  # length r in the depth of an edge, in the smaller half size of a pair
_GROUPS = 63  # bits of a word that are used
_UNIT = 1e3  # depths are in mm where they are raised to the fourth power, for single precision


@ti.func
def sampled(world: ti.template(), at):
    """Three numbers of ``WorldArrays.sample``, from an index on."""
    return vec3(world.sample[at], world.sample[at + 1], world.sample[at + 2])


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
def surface_contacts(
    world: ti.template(), bars: ti.template(), b, p, first, second, patch: ti.template(), adjoint: ti.template()
):
    """Contact of pair p of two links, whose shapes are boxes or meshes: the forces or their adjoint.

    The forces are summed in one sweep over the features, and multiplied by the common factor at its end. The adjoint takes a
    second sweep, which needs this factor and its adjoint.

    Args:
        world: ``WorldArrays``.
        bars: ``BarArrays``, read with ``adjoint`` only.
        b: world.
        p: pair; marked if it overlaps deeper than contact resolves.
        first: its first link.
        second: its second link.
        patch: of the pair (``pair_bristle``): the points are added to it, or their adjoints follow from it.
        adjoint: False adds the forces to both links' loads; True adds the adjoints of the negative power of the forces on the
            virtual velocities (see ``adjoint``) to those of both links' motion and contact parameters.
    """
    contact = point_contact(world, b, first, second)
    apart = load_vec3(world.work, b, first, POSITION) - load_vec3(world.work, b, second, POSITION)
    drift, spin = relative_motion(world, b, first, second, apart, SPIN, VELOCITY)
    virtual_drift, virtual_spin = vec3(0.0), vec3(0.0)
    if ti.static(adjoint):
        virtual_drift, virtual_spin = relative_motion(world, b, first, second, apart, VIRTUAL, VIRTUAL + 3)
    # Of the first link relative to the second; moments are about the origin of the first.
    force, moment, u_sum, u_moment, contact_bar = vec3(0.0), vec3(0.0), vec3(0.0), vec3(0.0), vec4(0.0)
    first_turn_bar, second_turn_bar, apart_bar = vec3(0.0), vec3(0.0), vec3(0.0)
    feature_patch, size_power, deepest = empty_patch(), 0.0, 0.0
    total, scale, total_bar, overlap = 0.0, 0.0, 0.0, _FAR
    first_arm, first_matrix = shape_arm(world, b, first), rotation_matrix(shape_rotation(world, b, first))
    second_arm, second_matrix = shape_arm(world, b, second), rotation_matrix(shape_rotation(world, b, second))
    first_touching, second_touching = ti.i64(0), ti.i64(0)  # a bit for each group of features, of which there are at most 63
    margin = pair_margin(world, b, first, second)
    reach = _REACH * ti.min(world.shape[first, LEAST_HALF], world.shape[second, LEAST_HALF])
    for sweep in range(ti.static(2 if adjoint else 1)):
        if sweep == 0 or total > 0:
            for half in range(2):
                i, j, features, side, origin = first, second, world.pair[p, FIRST_FEATURES], 1.0, vec3(0.0)
                arm_i, arm_j, matrix, other, touching = first_arm, second_arm, first_matrix, second_matrix, first_touching
                if half == 1:
                    i, j, features, side, origin = second, first, world.pair[p, SECOND_FEATURES], -1.0, -apart
                    arm_i, arm_j, matrix, other, touching = second_arm, first_arm, second_matrix, first_matrix, second_touching
                group = features // _GROUPS + 1
                centre, back = side * apart + arm_i - arm_j, other.transpose()
                low, high = bounds_of(world, j, back @ matrix, back @ centre, margin)
                begin = world.mesh[i, FIRST_FEATURE]
                middle, size = box_about(world, i)
                overlap = ti.min(overlap, ti.min(high - middle + size, middle + size - low).min())
                if (middle + size <= low).any() or (middle - size >= high).any():
                    features = 0
                place_sum, centre_bar, turn_i_bar, turn_j_bar = vec3(0.0), vec3(0.0), vec3(0.0), vec3(0.0)
                axis = world.shape[i, REVOLVED] * (matrix @ vec3(0.0, 0.0, 1.0))
                rolling, rolling_bar = axis.dot(load_vec3(world.work, b, i, SPIN)), 0.0
                for n in range(features):
                    at = begin + FEATURE_SIZE * n
                    offset, along = sampled(world, at), sampled(world, at + FEATURE_VECTOR)
                    h, s, part, extent, bit = 0.0, 0.0, 1.0, ti.abs(along), ti.i64(0)
                    near = True
                    if ti.static(adjoint):  # the second sweep needs only what touched in the first one
                        bit = ti.i64(1) << (n // group)
                        near = sweep == 0 or (touching & bit) != 0
                    near = near and (offset + extent > low).all() and (offset - extent < high).all()
                    if near and extent.sum() > 0:
                        start, end = part_within(offset, along, low, high, 1.0)
                        near = start < end
                        h = along.norm()
                    if near:
                        offset = matrix @ offset
                        at_j = back @ (centre + offset)
                        if h > 0:
                            along = matrix @ (along / h)
                            s, near = deepest_on_line(world, j, at_j, back @ along, h, reach)
                            at_j += s * (back @ along)
                            part -= s * s / (h * h)
                        distance, direction, slope, bend = shape_distance(world, j, at_j, margin, sweep == 1)
                        normal, gap, length = unit_normal(distance, direction, reach - reach / part)
                        normal = other @ normal
                        if near and gap < margin:
                            arm = origin + arm_i + offset + s * along
                            u = side * (drift + spin.cross(arm))
                            round_u = rolling * axis.cross(offset + s * along)  # velocity by the spin of a round body
                            u -= normal.dot(round_u) * normal
                            speed = normal.dot(u)
                            depth, depth_rate, speed_rate = depth_in_contact(gap, speed, world.dt)
                            depth *= _UNIT
                            mass = world.sample[at + FEATURE_WEIGHT] * (part * length) ** 4
                            weight = mass * depth * depth
                            deepest = ti.min(deepest, distance)
                            f, path = contact_force_along(
                                normal, gap, u, contact.x, contact.y, contact.z, contact.w, world.dt
                            )
                            size_bar, patch_place_bar, patch_normal_bar, path_bar = 0.0, vec3(0.0), vec3(0.0), vec3(0.0)
                            if ti.static(adjoint and world.sticking):
                                size_bar, patch_place_bar, patch_normal_bar, path_bar = patch_point_adjoint(
                                    patch, arm, side * normal, scale * weight * f.dot(normal), path
                                )
                            if sweep == 0:
                                total += weight * depth * depth
                                force += side * weight * f
                                moment += side * weight * arm.cross(f)
                                touching |= bit
                                size_power += weight * size_bar * f.dot(normal)
                                if ti.static(not adjoint and world.sticking):
                                    if patch[KT] > 0:
                                        add_to_patch(feature_patch, arm, side * normal, weight * f.dot(normal), path)
                            elif ti.static(adjoint):
                                y = side * (virtual_drift + virtual_spin.cross(arm))
                                normal_bar, gap_bar, u_bar, one_contact_bar = contact_force_along_adjoint(
                                    normal, gap, u, contact.x, contact.y, contact.z, contact.w, world.dt,
                                    scale * weight * (size_bar * normal - y), path_bar,
                                )  # fmt: skip
                                if ti.static(world.sticking):
                                    if patch[KT] > 0:
                                        one_contact_bar.w = 0.0
                                    normal_bar += side * patch_normal_bar
                                contact_bar += one_contact_bar
                                weight_bar = scale * (size_bar * f.dot(normal) - f.dot(y))
                                mass_bar = depth * depth * (weight_bar + depth * depth * total_bar)
                                depth_bar = _UNIT * mass * depth * (2 * weight_bar + 4 * depth * depth * total_bar)
                                gap_bar -= depth_rate * depth_bar
                                u_bar += speed_rate * depth_bar * normal
                                normal_bar += speed_rate * depth_bar * u
                                round_u_bar = -u_bar.dot(normal) * normal
                                normal_bar -= normal.dot(round_u) * u_bar + u_bar.dot(normal) * round_u
                                lever_bar = rolling * round_u_bar.cross(axis)
                                rolling_bar += round_u_bar.dot(axis.cross(offset + s * along))
                                turn_i_bar += round_u.cross(round_u_bar)
                                u_bar *= side
                                place_bar = u_bar.cross(spin) - side * scale * weight * f.cross(virtual_spin) + patch_place_bar
                                point_bar = other @ distance_adjoint(
                                    back @ normal, gap, length, slope, bend, back @ normal_bar, gap_bar,
                                    4 * mass / length * mass_bar,
                                )  # fmt: skip
                                along_bar = s * point_bar
                                # The frame of j rotates the direction forwards and the point backwards.
                                turned = normal.cross(normal_bar)
                                if h > 0:
                                    rate = -2 * s / (h * h)
                                    s_bar = along.dot(point_bar + place_bar + lever_bar) + 4 * mass / part * rate * mass_bar
                                    s_bar -= reach / (part * part * length) * rate * gap_bar
                                    line_bar, line_along_bar = deepest_adjoint(
                                        back @ along, s, h, reach - distance, direction, slope, bend, s_bar
                                    )
                                    point_bar += other @ line_bar
                                    along_bar += other @ line_along_bar
                                u_sum += u_bar
                                u_moment += arm.cross(u_bar)
                                place_sum += place_bar
                                centre_bar += point_bar
                                turn_i_bar += offset.cross(point_bar + place_bar) + along.cross(along_bar + s * place_bar)
                                turn_j_bar += turned - (centre + offset).cross(point_bar) - along.cross(along_bar)
                if ti.static(adjoint):
                    add_vec3(world.work, b, i, BARS + 6, rolling_bar * axis)
                    turn_i_bar += rolling_bar * axis.cross(load_vec3(world.work, b, i, SPIN))
                    if half == 0:
                        first_touching = touching
                    else:
                        second_touching = touching
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
            if sweep == 0 and total > 0:
                scale = 1 / ti.sqrt(total)
                force *= scale
                moment *= scale
                if ti.static(adjoint):
                    total_bar = -0.5 / total * (scale * size_power - force.dot(virtual_drift) - moment.dot(virtual_spin))
    if total > 0:
        if ti.static(adjoint):
            apart_bar += add_motion_adjoints(
                world, bars, b, first, second, apart, u_sum, u_moment, force, moment, contact_bar
            )
            add_vec3(world.work, b, first, BARS, first_turn_bar)
            add_vec3(world.work, b, second, BARS, second_turn_bar)
            add_vec3(world.work, b, first, BARS + 3, apart_bar)
            add_vec3(world.work, b, second, BARS + 3, -apart_bar)
        else:
            add_wrench(world, b, first, moment, force)
            add_wrench(world, b, second, -moment - apart.cross(force), -force)
            if ti.static(world.sticking):
                merge_patch(patch, feature_patch, scale)
    limit = greatest_depth(world, first, second)
    if overlap > -limit and deepest < 0.5 * limit:
        mark_pair(world, b, p, DEEP)
