"""Contact of a line with a radius (a sphere or capsule) with the shape of another link, and its adjoint (Taichi functions).

A point is a line of zero length. See ``shape_geometry`` and ``shape_distance`` for the geometry and its kinks.
"""

from typing import Any

from ti_sim.base.bundles import bundle
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3
from ti_sim.contact.collision import SHAPE
from ti_sim.contact.shape_distance import deepest_adjoint, deepest_on_line, distance_adjoint, shape_distance, unit_normal
from ti_sim.contact.shape_geometry import line_line_contact


@bundle
class Line:
    """A line with a radius in a kernel: a sphere, or the axis of a capsule.

    Attributes:
        centre: its centre minus that of the shape that it may touch, world axes [m].
        direction: unit vector if the line has a length.
        half_length: [m], 0 for a point.
        radius: [m].
    """

    centre: Any
    direction: Any
    half_length: Any
    radius: Any


@ti.func
def window(s, h, is_deepest):
    """Window at position s of a line of half length h, and its derivative; 1 and 0 without ``is_deepest``."""
    value, rate = 1.0, 0.0
    if is_deepest > 0:
        value, rate = 1 - s * s / (h * h), -2 * s / (h * h)
    return value, rate


@ti.func
def line_shape_contact(world: ti.template(), j, rotation, line: ti.template(), s, is_deepest, margin):
    """Contact of a line with the shape of link j.

    Args:
        world: ``WorldArrays``.
        j: link.
        rotation: rotation matrix of the shape.
        line: the line.
        s: position of the contact point on the line, in multiples of its direction.
        is_deepest: 1 for the deepest point in a box or mesh (``shape_distance``) instead of that at ``s``.
        margin: gap above which a point may be out of range of a mesh [m].

    Returns:
        (contact point minus the centre of the line [m], unit normal from j to the line, both in world axes; gap [m]; weight [1];
        s).
    """
    centre, line_direction, h, radius = line.centre, line.direction, line.half_length, line.radius
    point, normal, gap, weight = vec3(0.0), vec3(0.0), 1e9, 1.0
    if world.shape[j, SHAPE.radius] > 0:
        point, normal, gap = line_line_contact.value(
            centre, line_direction, rotation @ vec3(0.0, 0.0, 1.0), h, world.shape[j, SHAPE.half_length], radius,
            world.shape[j, SHAPE.radius],
        )  # fmt: skip
    else:
        local_centre, local_direction, touches = rotation.transpose() @ centre, rotation.transpose() @ line_direction, True
        if is_deepest > 0:
            s, touches = deepest_on_line(world, j, local_centre, local_direction, h, radius)
        if touches:
            distance, direction, _distance_gradient, _direction_jacobian = shape_distance(
                world, j, local_centre + s * local_direction, radius + margin, False
            )
            local_normal, local_gap, length = unit_normal(distance, direction, radius)
            window_value, _window_rate = window(s, h, is_deepest)
            normal, gap, weight = rotation @ local_normal, local_gap, window_value * window_value * length * length
            point = s * line_direction - (radius + 0.5 * gap) * normal
    return point, normal, gap, weight, s


@ti.func
def line_shape_contact_adjoint(
    world: ti.template(), j, rotation, line: ti.template(), s, is_deepest, normal, gap, contact_point_bar, normal_bar, gap_bar,
    weight_bar,
):  # fmt: skip
    """Adjoint of ``line_shape_contact``, from its results and their adjoints.

    Returns:
        Adjoints of the centre and the direction of the line, and of the rotation of link j.
    """
    centre, line_direction, h, radius = line.centre, line.direction, line.half_length, line.radius
    centre_bar, line_direction_bar, rotation_bar = vec3(0.0), vec3(0.0), vec3(0.0)
    if world.shape[j, SHAPE.radius] > 0:
        shape_axis = rotation @ vec3(0.0, 0.0, 1.0)
        bars = line_line_contact.vjp(
            (centre, line_direction, shape_axis, h, world.shape[j, SHAPE.half_length], radius, world.shape[j, SHAPE.radius]),
            (contact_point_bar, normal_bar, gap_bar),
        )
        centre_bar, line_direction_bar = bars[0], bars[1]
        rotation_bar = shape_axis.cross(bars[2])
    else:
        inverse_rotation = rotation.transpose()
        local_direction = inverse_rotation @ line_direction
        distance, direction, distance_gradient, direction_jacobian = shape_distance(
            world, j, inverse_rotation @ centre + s * local_direction, 1e9, True
        )
        _normal, _gap, length = unit_normal(distance, direction, radius)
        window_value, window_rate = window(s, h, is_deepest)
        normal_bar -= (radius + 0.5 * gap) * contact_point_bar
        gap_bar -= 0.5 * normal.dot(contact_point_bar)
        point_bar = distance_adjoint(
            inverse_rotation @ normal, gap, length, distance_gradient, direction_jacobian, inverse_rotation @ normal_bar, gap_bar,
            2 * window_value * window_value * length * weight_bar,
        )  # fmt: skip
        s_bar = (
            local_direction.dot(point_bar)
            + line_direction.dot(contact_point_bar)
            + 2 * window_value * window_rate * length * length * weight_bar
        )
        centre_bar, line_direction_bar = point_bar, s * point_bar
        if is_deepest > 0:
            deepest_centre_bar, deepest_direction_bar = deepest_adjoint(
                local_direction, s, h, radius - distance, direction, distance_gradient, direction_jacobian, s_bar
            )
            centre_bar += deepest_centre_bar
            line_direction_bar += deepest_direction_bar
        centre_bar, line_direction_bar = rotation @ centre_bar, rotation @ line_direction_bar
        # The frame of j rotates the normal forwards and the line backwards.
        rotation_bar = normal.cross(normal_bar) - centre.cross(centre_bar) - line_direction.cross(line_direction_bar)
        line_direction_bar += s * contact_point_bar
    return centre_bar, line_direction_bar, rotation_bar
