"""Contact of boxes and meshes with each other, by points and edges of both surfaces (Taichi functions).

The features of a shape are its corners, points on its faces, and its sharp edges, each with a fixed weight w
(``surface_points``). With the depth D of each feature in the other shape, the elastic energy of a pair is

    U = ke / 2 sqrt(sum w D^4).

It has the stiffness ke for a single corner, and four times that for a face on a face, whose features have a total weight of 16,
shared in any way by both surfaces. The elastic force is the gradient of U, so it does no work around closed paths of both poses.
The depth of a point is minus the signed distance d of the other shape; that of an edge is the largest value along it of
(1 - s^2 / h^2) (r - d) - r, with a small length r (``shape_distance``). It is defined outside, too, where contact begins, and
changes smoothly with the tilt of an edge that is parallel to a face. The energy has continuous derivatives: the distance of a box
is smooth where two depths are equal, and that of a mesh is a smooth spline. Kinks remain where an edge enters a mesh at two
places.

In terms of the contact law, a feature at the point x with the unit normal n, the gap g along it, and the factor m = w (D / -g)^4
has the force of ``ti_sim.contact.law`` with all its parameters multiplied by m g^2 / sqrt(S), S = sum m g^4. So the features
of a pair also share damping and friction.

The spin of a cylinder or cone about its own axis moves its features, but not its surface. The normal velocity of a feature is
that without this spin, so damping does not resist rolling.
"""

from typing import Any

from ti_sim.articulated.contact_force import (
    depth_in_contact,
    mark_pair,
    min_resolved_gap,
    pair_margin,
    point_contact,
    shape_arm,
    shape_rotation,
)
from ti_sim.articulated.link_team import contact_row
from ti_sim.articulated.tables import LINK, TREE, WORK
from ti_sim.base.bundles import bundle
from ti_sim.base.rows import add_vec3, add_vec4, load_vec3
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import mat3, rotation_matrix, vec3, vec4
from ti_sim.contact.collision import MESH, PAIR, SHAPE, TOO_DEEP
from ti_sim.contact.law import contact_force_along, contact_force_along_adjoint
from ti_sim.contact.patch import PATCH, add_to_patch, empty_patch, merge_patch, patch_point_adjoint
from ti_sim.contact.shape_distance import (
    bounding_box,
    clip_to_box,
    deepest_adjoint,
    deepest_on_line,
    distance_adjoint,
    shape_distance,
    unit_normal,
)
from ti_sim.contact.surface_points import FEATURE_SIZE, FEATURE_VECTOR, FEATURE_WEIGHT

_FAR = 1e9  # overlap before the first test [m]
_EDGE_RADIUS_RATIO = 0.01  # length r in the depth of an edge, in the smaller half size of a pair
_USED_BITS = 63  # bits of a word that are used
_DEPTH_SCALE = 1e3  # depths are in mm where they are raised to the fourth power, for single precision


@ti.func
def load_mesh_vec3(world: ti.template(), column):
    """Three numbers of ``WorldArrays.mesh_data``, from an index on."""
    return vec3(world.mesh_data[column], world.mesh_data[column + 1], world.mesh_data[column + 2])


@ti.func
def bounding_box_in_frame(world: ti.template(), j, rotation, frame_origin, margin):
    """Bounding box of link j's shape, a box or mesh, in another frame: (lowest corner, highest corner) [m].

    Args:
        world: ``WorldArrays``.
        j: link.
        rotation: rotation from that frame to the frame of the shape.
        frame_origin: origin of that frame in the frame of the shape [m].
        margin: enlargement of the box on all sides [m].
    """
    box_centre, half_size = bounding_box(world, j)
    inverse_rotation = rotation.transpose()
    centre, half_extent = inverse_rotation @ (box_centre - frame_origin), ti.abs(inverse_rotation) @ half_size + margin
    return centre - half_extent, centre + half_extent


@ti.func
def subtract_wrench(world: ti.template(), b, i, moment, force):
    """Subtract a force and its moment about the origin of link i from its load."""
    if world.tree[i, TREE.moves] == 1:
        row = contact_row(world, i)
        add_vec3(world.work, b, row, WORK.load, -moment)
        add_vec3(world.work, b, row, WORK.load + 3, -force)


@ti.func
def relative_motion(
    world: ti.template(), b, first, second, separation, angular_column: ti.template(), linear_column: ti.template()
):
    """Velocity of one link relative to another at the first link's origin, and relative angular velocity.

    Args:
        world: ``WorldArrays``.
        b: world.
        first: a link.
        second: the other.
        separation: origin of the first minus that of the second [m].
        angular_column: column of the angular velocities of the links, real or virtual.
        linear_column: column of the velocities of their origins.
    """
    second_spin = load_vec3(world.work, b, second, angular_column)
    origin_velocity = (
        load_vec3(world.work, b, first, linear_column)
        - load_vec3(world.work, b, second, linear_column)
        - second_spin.cross(separation)
    )
    return origin_velocity, load_vec3(world.work, b, first, angular_column) - second_spin


@ti.func
def add_motion_adjoints(
    world: ti.template(), bars: ti.template(), b, first, second, separation, u_bar, u_bar_moment, force, moment, contact_bar
):
    """Add the adjoints of two links' velocities, real and virtual, and contact parameters.

    Args:
        world: ``WorldArrays``.
        bars: ``BarArrays``.
        b, first, second, separation: as in ``relative_motion``.
        u_bar: sum of the adjoints of the points' velocities (of the first link relative to the second).
        u_bar_moment: sum of the moments of these adjoints about the origin of the first.
        force: sum of the forces of the points on the first link.
        moment: sum of their moments.
        contact_bar: adjoint of the pair's contact parameters.

    Returns:
        Adjoint of ``separation``.
    """
    first_row, second_row = contact_row(world, first), contact_row(world, second)
    add_vec3(world.work, b, first_row, WORK.bars + 6, u_bar_moment)
    add_vec3(world.work, b, first_row, WORK.bars + 9, u_bar)
    add_vec3(world.work, b, first_row, WORK.bars + 18, -moment)
    add_vec3(world.work, b, first_row, WORK.bars + 21, -force)
    add_vec3(world.work, b, second_row, WORK.bars + 6, -u_bar_moment - separation.cross(u_bar))
    add_vec3(world.work, b, second_row, WORK.bars + 9, -u_bar)
    add_vec3(world.work, b, second_row, WORK.bars + 18, moment + separation.cross(force))
    add_vec3(world.work, b, second_row, WORK.bars + 21, force)
    add_vec4(bars.link, b, first_row, LINK.contact, 0.5 * contact_bar)
    add_vec4(bars.link, b, second_row, LINK.contact, 0.5 * contact_bar)
    return load_vec3(world.work, b, second, WORK.spin).cross(u_bar) - load_vec3(world.work, b, second, WORK.virtual).cross(force)


@bundle
class PairPose:
    """Poses of the shapes of a pair of links (values of a kernel).

    Attributes:
        first, second: the links.
        separation: origin of the first minus that of the second [m].
        first_arm, second_arm: from the origin of each link to the centre of its shape, world axes [m].
        first_rotation, second_rotation: rotation matrix of each shape.
        edge_radius: length r in the depth of an edge [m].
        margin: gap at which contact may begin [m].
    """

    first: Any
    second: Any
    separation: Any
    first_arm: Any
    second_arm: Any
    first_rotation: Any
    second_rotation: Any
    edge_radius: Any
    margin: Any


@bundle
class PairSide:
    """One shape of a pair, whose features are tested against the other shape (values of a kernel).

    Attributes:
        link, other_link: link of the features, link of the other shape.
        sign: 1 for the features of the first link, -1 for those of the second.
        origin: origin of ``link`` minus that of the first link [m].
        arm, other_arm: from the origin of each link to the centre of its shape [m].
        rotation, other_rotation: rotation matrix of each shape.
        centre: centre of the features' shape minus that of the other shape [m].
        low, high: bounding box of the other shape in the frame of the features' shape, with the margin [m].
    """

    link: Any
    other_link: Any
    sign: Any
    origin: Any
    arm: Any
    other_arm: Any
    rotation: Any
    other_rotation: Any
    centre: Any
    low: Any
    high: Any


@bundle
class FeatureContact:
    """Contact of a feature with the other shape of its pair (values of a kernel).

    Attributes:
        may_touch: whether it may touch.
        offset: its middle minus the centre of its shape, world axes [m].
        edge_direction: unit vector along the edge, world axes.
        h: half length of the edge [m], 0 for a point.
        s: position of the contact on it [m].
        window: 1 - s^2 / h^2.
        normal, gap: unit normal, world axes; gap [m].
        length: length of the gradient of the distance.
        distance, direction, distance_gradient, direction_jacobian: of ``shape_distance``.
    """

    may_touch: Any
    offset: Any
    edge_direction: Any
    h: Any
    s: Any
    window: Any
    normal: Any
    gap: Any
    length: Any
    distance: Any
    direction: Any
    distance_gradient: Any
    direction_jacobian: Any


@ti.func
def load_pair(world: ti.template(), b, first, second):
    """``PairPose`` of two links."""
    separation = load_vec3(world.work, b, first, WORK.position) - load_vec3(world.work, b, second, WORK.position)
    first_arm, first_rotation = shape_arm(world, b, first), rotation_matrix(shape_rotation(world, b, first))
    second_arm, second_rotation = shape_arm(world, b, second), rotation_matrix(shape_rotation(world, b, second))
    margin = pair_margin(world, b, first, second)
    edge_radius = _EDGE_RADIUS_RATIO * ti.min(
        world.shape[first, SHAPE.min_half_extent], world.shape[second, SHAPE.min_half_extent]
    )
    return PairPose(first, second, separation, first_arm, second_arm, first_rotation, second_rotation, edge_radius, margin)


@ti.func
def load_side(world: ti.template(), pair: ti.template(), second):
    """``PairSide`` of the features of a pair's first link, or of its second link if ``second`` is 1."""
    i, j, sign, origin = pair.first, pair.second, 1.0, vec3(0.0)
    arm_i, arm_j, rotation, other_rotation = pair.first_arm, pair.second_arm, pair.first_rotation, pair.second_rotation
    if second == 1:
        i, j, sign, origin = pair.second, pair.first, -1.0, -pair.separation
        arm_i, arm_j, rotation, other_rotation = pair.second_arm, pair.first_arm, pair.second_rotation, pair.first_rotation
    centre, to_other_frame = sign * pair.separation + arm_i - arm_j, other_rotation.transpose()
    low, high = bounding_box_in_frame(world, j, to_other_frame @ rotation, to_other_frame @ centre, pair.margin)
    return PairSide(i, j, sign, origin, arm_i, arm_j, rotation, other_rotation, centre, low, high)


@ti.func
def overlap_and_count(world: ti.template(), side: ti.template(), feature_count):
    """Least overlap of the bounding boxes of a side [m], and ``feature_count``, or 0 where the boxes do not overlap."""
    box_centre, half_size = bounding_box(world, side.link)
    overlap, count = ti.min(side.high - box_centre + half_size, box_centre + half_size - side.low).min(), feature_count
    if (box_centre + half_size <= side.low).any() or (box_centre - half_size >= side.high).any():
        count = 0
    return overlap, count


@ti.func
def feature_contact(world: ti.template(), pair: ti.template(), side: ti.template(), column, is_tested, with_second_derivatives):
    """``FeatureContact`` of a point, or of the deepest point of an edge, with the other shape of its pair.

    Args:
        world: ``WorldArrays``.
        pair: ``PairPose``.
        side: ``PairSide``.
        column: first number of the feature in ``world.mesh_data``.
        is_tested: whether the feature may touch.
        with_second_derivatives: whether to compute second derivatives of the distance.
    """
    offset, edge_direction = load_mesh_vec3(world, column), load_mesh_vec3(world, column + FEATURE_VECTOR)
    h, s, window, extent = 0.0, 0.0, 1.0, ti.abs(edge_direction)
    normal, gap, length = vec3(0.0), _FAR, 0.0
    distance, direction, distance_gradient, direction_jacobian = 0.0, vec3(0.0), vec3(0.0), mat3(0.0)
    may_touch = is_tested and (offset + extent > side.low).all() and (offset - extent < side.high).all()
    if may_touch and extent.sum() > 0:
        s_min, s_max = clip_to_box(offset, edge_direction, side.low, side.high, 1.0)
        may_touch = s_min < s_max
        h = edge_direction.norm()
    if may_touch:
        to_other_frame = side.other_rotation.transpose()
        offset = side.rotation @ offset
        position = to_other_frame @ (side.centre + offset)
        if h > 0:
            edge_direction = side.rotation @ (edge_direction / h)
            s, may_touch = deepest_on_line(world, side.other_link, position, to_other_frame @ edge_direction, h, pair.edge_radius)
            position += s * (to_other_frame @ edge_direction)
            window -= s * s / (h * h)
        distance, direction, distance_gradient, direction_jacobian = shape_distance(
            world, side.other_link, position, pair.margin, with_second_derivatives
        )
        normal, gap, length = unit_normal(distance, direction, pair.edge_radius - pair.edge_radius / window)
        normal = side.other_rotation @ normal
    return FeatureContact(
        may_touch, offset, edge_direction, h, s, window, normal, gap, length, distance, direction, distance_gradient,
        direction_jacobian,
    )  # fmt: skip


@ti.func
def feature_velocity(side: ti.template(), origin_velocity, spin, arm, normal, roll_velocity):
    """Velocity of a feature relative to the other shape, minus the normal component of ``roll_velocity``, see above.

    Args:
        side: ``PairSide``.
        origin_velocity, spin: of ``relative_motion``.
        arm: from the origin of the first link to the feature [m].
        normal: unit normal.
        roll_velocity: velocity of the feature due to the spin of a cylinder or cone about its axis [m/s].
    """
    u = side.sign * (origin_velocity + spin.cross(arm))
    u -= normal.dot(roll_velocity) * normal
    return u


@ti.func
def revolution_axis(world: ti.template(), side: ti.template()):
    """Axis of a cylinder or cone in world axes; zero for other shapes."""
    return world.shape[side.link, SHAPE.revolved] * (side.rotation @ vec3(0.0, 0.0, 1.0))


@ti.func
def surface_contacts(world: ti.template(), b, p, first, second, patch: ti.template()):
    """Add the contact forces of pair p of two links, whose shapes are boxes or meshes, to the loads of both links.

    The forces are summed in one sweep over the features, and multiplied by the common factor at its end.

    Args:
        world: ``WorldArrays``.
        b: world.
        p: pair; marked if it overlaps deeper than contact resolves.
        first: its first link.
        second: its second link.
        patch: of the pair (``pair_bristle``): the points are added to it.
    """
    contact, pair = point_contact(world, b, first, second), load_pair(world, b, first, second)
    origin_velocity, spin = relative_motion(world, b, first, second, pair.separation, WORK.spin, WORK.velocity)
    # Of the first link relative to the second; moments are about the origin of the first.
    force, moment, feature_patch = vec3(0.0), vec3(0.0), empty_patch()
    total, min_distance, overlap = 0.0, 0.0, _FAR
    for side_index in range(2):
        side, feature_count = load_side(world, pair, side_index), world.pair[p, PAIR.first_features]
        if side_index == 1:
            feature_count = world.pair[p, PAIR.second_features]
        box_overlap, count = overlap_and_count(world, side, feature_count)
        overlap = ti.min(overlap, box_overlap)
        axis = revolution_axis(world, side)
        roll_rate = axis.dot(load_vec3(world.work, b, side.link, WORK.spin))
        for n in range(count):
            column = world.mesh[side.link, MESH.first_feature] + FEATURE_SIZE * n
            feature = feature_contact(world, pair, side, column, True, False)
            if feature.may_touch and feature.gap < pair.margin:
                arm = side.origin + side.arm + feature.offset + feature.s * feature.edge_direction
                roll_velocity = roll_rate * axis.cross(feature.offset + feature.s * feature.edge_direction)
                u = feature_velocity(side, origin_velocity, spin, arm, feature.normal, roll_velocity)
                depth, _depth_rate, _speed_rate = depth_in_contact(feature.gap, feature.normal.dot(u), world.dt)
                depth *= _DEPTH_SCALE
                weight = world.mesh_data[column + FEATURE_WEIGHT] * (feature.window * feature.length) ** 4 * depth * depth
                min_distance = ti.min(min_distance, feature.distance)
                f, path = contact_force_along(
                    feature.normal, feature.gap, u, contact.x, contact.y, contact.z, contact.w, world.dt
                )
                total += weight * depth * depth
                force += side.sign * weight * f
                moment += side.sign * weight * arm.cross(f)
                if ti.static(world.with_contact_bristles):
                    if patch[PATCH.kt] > 0:
                        add_to_patch(feature_patch, arm, side.sign * feature.normal, weight * f.dot(feature.normal), path)
    if total > 0:
        scale = 1 / ti.sqrt(total)
        force *= scale
        moment *= scale
        subtract_wrench(world, b, first, moment, force)
        subtract_wrench(world, b, second, -moment - pair.separation.cross(force), -force)
        if ti.static(world.with_contact_bristles):
            merge_patch(patch, feature_patch, scale)
    min_gap = min_resolved_gap(world, first, second)
    if overlap > -min_gap and min_distance < 0.5 * min_gap:
        mark_pair(world, b, p, TOO_DEEP)


@ti.func
def surface_contacts_adjoint(world: ti.template(), bars: ti.template(), b, p, first, second, patch: ti.template()):
    """Adjoint of the negative power of ``surface_contacts`` on the virtual velocities (see ``adjoint``).

    Adds to the adjoints of both links' motion and contact parameters. The first sweep over the features sums the forces again for
    the common factor and its adjoint; the second sweep needs both.

    Args:
        world: ``WorldArrays``.
        bars: ``BarArrays``.
        b, p, first, second: as of ``surface_contacts``.
        patch: of the pair (``pair_bristle``): the adjoints of its points follow from it.
    """
    contact, pair = point_contact(world, b, first, second), load_pair(world, b, first, second)
    origin_velocity, spin = relative_motion(world, b, first, second, pair.separation, WORK.spin, WORK.velocity)
    virtual_origin_velocity, virtual_spin = relative_motion(
        world, b, first, second, pair.separation, WORK.virtual, WORK.virtual + 3
    )
    force, moment, u_bar_sum, u_bar_moment, contact_bar = vec3(0.0), vec3(0.0), vec3(0.0), vec3(0.0), vec4(0.0)
    first_rotation_bar, second_rotation_bar, separation_bar = vec3(0.0), vec3(0.0), vec3(0.0)
    normal_force_power, total, scale, total_bar = 0.0, 0.0, 0.0, 0.0
    first_touching_bits = ti.i64(0)
    second_touching_bits = ti.i64(0)
    for sweep in range(2):
        if sweep == 0 or total > 0:
            for side_index in range(2):
                side = load_side(world, pair, side_index)
                feature_count = world.pair[p, PAIR.first_features]
                touching_bits = first_touching_bits
                if side_index == 1:
                    feature_count, touching_bits = world.pair[p, PAIR.second_features], second_touching_bits
                group_size = feature_count // _USED_BITS + 1
                _overlap, count = overlap_and_count(world, side, feature_count)
                position_bar_sum, centre_bar, side_rotation_bar, other_rotation_bar = vec3(0.0), vec3(0.0), vec3(0.0), vec3(0.0)
                axis, to_other_frame = revolution_axis(world, side), side.other_rotation.transpose()
                roll_rate, roll_rate_bar = axis.dot(load_vec3(world.work, b, side.link, WORK.spin)), 0.0
                for n in range(count):
                    column, bit = world.mesh[side.link, MESH.first_feature] + FEATURE_SIZE * n, ti.i64(1) << (n // group_size)
                    # The second sweep needs only the features that touched in the first one.
                    is_tested = sweep == 0 or (touching_bits & bit) != 0
                    feature = feature_contact(world, pair, side, column, is_tested, sweep == 1)
                    if feature.may_touch and feature.gap < pair.margin:
                        arm = side.origin + side.arm + feature.offset + feature.s * feature.edge_direction
                        roll_velocity = roll_rate * axis.cross(feature.offset + feature.s * feature.edge_direction)
                        u = feature_velocity(side, origin_velocity, spin, arm, feature.normal, roll_velocity)
                        depth, depth_rate, speed_rate = depth_in_contact(feature.gap, feature.normal.dot(u), world.dt)
                        depth *= _DEPTH_SCALE
                        depth_weight = world.mesh_data[column + FEATURE_WEIGHT] * (feature.window * feature.length) ** 4
                        weight = depth_weight * depth * depth
                        f, path = vec3(0.0), vec3(0.0)
                        if sweep == 0 or ti.static(world.with_contact_bristles):  # the second sweep's comes with its adjoint
                            f, path = contact_force_along(
                                feature.normal, feature.gap, u, contact.x, contact.y, contact.z, contact.w, world.dt
                            )
                        normal_force_bar, patch_position_bar, patch_normal_bar, path_bar = 0.0, vec3(0.0), vec3(0.0), vec3(0.0)
                        if ti.static(world.with_contact_bristles):
                            normal_force_bar, patch_position_bar, patch_normal_bar, path_bar = patch_point_adjoint(
                                patch, arm, side.sign * feature.normal, scale * weight * f.dot(feature.normal), path
                            )
                        if sweep == 0:
                            total += weight * depth * depth
                            force += side.sign * weight * f
                            moment += side.sign * weight * arm.cross(f)
                            touching_bits |= bit
                            normal_force_power += weight * normal_force_bar * f.dot(feature.normal)
                        else:
                            virtual_velocity = side.sign * (virtual_origin_velocity + virtual_spin.cross(arm))
                            f, normal_bar, gap_bar, u_bar, feature_contact_bar = contact_force_along_adjoint(
                                feature.normal, feature.gap, u, contact.x, contact.y, contact.z, contact.w, world.dt,
                                scale * weight * (normal_force_bar * feature.normal - virtual_velocity), path_bar,
                            )  # fmt: skip
                            if ti.static(world.with_contact_bristles):
                                if patch[PATCH.kt] > 0:
                                    feature_contact_bar.w = 0.0
                                normal_bar += side.sign * patch_normal_bar
                            contact_bar += feature_contact_bar
                            weight_bar = scale * (normal_force_bar * f.dot(feature.normal) - f.dot(virtual_velocity))
                            depth_weight_bar = depth * depth * (weight_bar + depth * depth * total_bar)
                            depth_bar = _DEPTH_SCALE * depth_weight * depth * (2 * weight_bar + 4 * depth * depth * total_bar)
                            gap_bar -= depth_rate * depth_bar
                            u_bar += speed_rate * depth_bar * feature.normal
                            normal_bar += speed_rate * depth_bar * u
                            roll_velocity_bar = -u_bar.dot(feature.normal) * feature.normal
                            normal_bar -= feature.normal.dot(roll_velocity) * u_bar + u_bar.dot(feature.normal) * roll_velocity
                            roll_arm_bar = roll_rate * roll_velocity_bar.cross(axis)
                            roll_rate_bar += roll_velocity_bar.dot(
                                axis.cross(feature.offset + feature.s * feature.edge_direction)
                            )
                            side_rotation_bar += roll_velocity.cross(roll_velocity_bar)
                            u_bar *= side.sign
                            position_bar = (
                                u_bar.cross(spin) - side.sign * scale * weight * f.cross(virtual_spin) + patch_position_bar
                            )
                            point_bar = side.other_rotation @ distance_adjoint(
                                to_other_frame @ feature.normal, feature.gap, feature.length, feature.distance_gradient,
                                feature.direction_jacobian, to_other_frame @ normal_bar, gap_bar,
                                4 * depth_weight / feature.length * depth_weight_bar,
                            )  # fmt: skip
                            edge_direction_bar = feature.s * point_bar
                            # The frame of j rotates the direction forwards and the point backwards.
                            direction_rotation_bar = feature.normal.cross(normal_bar)
                            if feature.h > 0:
                                window_rate = -2 * feature.s / (feature.h * feature.h)
                                s_bar = (
                                    feature.edge_direction.dot(point_bar + position_bar + roll_arm_bar)
                                    + 4 * depth_weight / feature.window * window_rate * depth_weight_bar
                                )
                                s_bar -= (
                                    pair.edge_radius / (feature.window * feature.window * feature.length) * window_rate * gap_bar
                                )
                                deepest_centre_bar, deepest_direction_bar = deepest_adjoint(
                                    to_other_frame @ feature.edge_direction, feature.s, feature.h,
                                    pair.edge_radius - feature.distance, feature.direction, feature.distance_gradient,
                                    feature.direction_jacobian, s_bar,
                                )  # fmt: skip
                                point_bar += side.other_rotation @ deepest_centre_bar
                                edge_direction_bar += side.other_rotation @ deepest_direction_bar
                            u_bar_sum += u_bar
                            u_bar_moment += arm.cross(u_bar)
                            position_bar_sum += position_bar
                            centre_bar += point_bar
                            side_rotation_bar += feature.offset.cross(point_bar + position_bar) + feature.edge_direction.cross(
                                edge_direction_bar + feature.s * position_bar
                            )
                            other_rotation_bar += (
                                direction_rotation_bar
                                - (side.centre + feature.offset).cross(point_bar)
                                - feature.edge_direction.cross(edge_direction_bar)
                            )
                add_vec3(world.work, b, contact_row(world, side.link), WORK.bars + 6, roll_rate_bar * axis)
                side_rotation_bar += roll_rate_bar * axis.cross(load_vec3(world.work, b, side.link, WORK.spin))
                side_rotation_bar += side.arm.cross(position_bar_sum + centre_bar)
                other_rotation_bar -= side.other_arm.cross(centre_bar)
                separation_bar += side.sign * centre_bar
                if side_index == 0:
                    first_touching_bits = touching_bits
                    first_rotation_bar += side_rotation_bar
                    second_rotation_bar += other_rotation_bar
                else:
                    second_touching_bits = touching_bits
                    first_rotation_bar += other_rotation_bar
                    second_rotation_bar += side_rotation_bar
                    separation_bar -= position_bar_sum
            if sweep == 0 and total > 0:
                scale = 1 / ti.sqrt(total)
                force *= scale
                moment *= scale
                total_bar = (
                    -0.5 / total * (scale * normal_force_power - force.dot(virtual_origin_velocity) - moment.dot(virtual_spin))
                )
    if total > 0:
        separation_bar += add_motion_adjoints(
            world, bars, b, first, second, pair.separation, u_bar_sum, u_bar_moment, force, moment, contact_bar
        )
        first_row, second_row = contact_row(world, first), contact_row(world, second)
        add_vec3(world.work, b, first_row, WORK.bars, first_rotation_bar)
        add_vec3(world.work, b, second_row, WORK.bars, second_rotation_bar)
        add_vec3(world.work, b, first_row, WORK.bars + 3, separation_bar)
        add_vec3(world.work, b, second_row, WORK.bars + 3, -separation_bar)
