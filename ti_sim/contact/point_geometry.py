"""Positions of a body's contact points and their weights of the contact parameters, with adjoints (Taichi functions).

The rows of points are described in ``ti_sim.shapes.contact_points``. The compile-time flag ``has_rims_or_patches`` says whether
there are rims or patches, whose position or weight depends on the direction of their axis; otherwise only the first four columns
are read.
"""

from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec2, vec3
from ti_sim.shapes.contact_points import KIND, PATCH, RADIUS, RIM, VECTOR

# Sine of the tilt of a rim below which it has no distinct lowest point: the four points are then fixed to the body.
_MIN_TILT_SINE = 1e-6


@ti.func
def point_position(point: ti.template(), p):
    """Position of a point in the body frame [m]: of a vertex, or of the centre of a ball or rim."""
    return vec3(point[p, 0], point[p, 1], point[p, 2])


@ti.func
def point_vector(point: ti.template(), p):
    """Axis of a rim or area vector of a patch, in the body frame."""
    return vec3(point[p, VECTOR], point[p, VECTOR + 1], point[p, VECTOR + 2])


@ti.func
def contact_height(has_rims_or_patches: ti.template(), point: ti.template(), p, local_position, rotation):
    """Height of the lowest point of contact point p, at ``local_position`` in the body frame, above the body's centre [m]."""
    height = (
        rotation[2, 0] * local_position.x
        + rotation[2, 1] * local_position.y
        + rotation[2, 2] * local_position.z
        - point[p, RADIUS]
    )
    if ti.static(has_rims_or_patches):
        quarter = ti.cast(point[p, KIND], int) - RIM
        if quarter >= 0 and quarter < 4:
            height += point[p, RADIUS] * (1 + rim_direction(rotation @ point_vector(point, p), quarter).z)
    return height


@ti.func
def contact_arm(has_rims_or_patches: ti.template(), point: ti.template(), p, local_position, rotation):
    """Position where point p touches the plane.

    Args:
        has_rims_or_patches: whether there are rims or patches.
        point: [P, 4 or 8] rows.
        p: index of the point.
        local_position: its position in the body frame.
        rotation: rotation matrix of the body.

    Returns:
        (arm from the body's centre to that point, world axes [m]; weight of the contact parameters: 1, or the area of a patch
        that faces the plane [m2]).
    """
    arm, weight = rotation @ local_position, 1.0
    if ti.static(has_rims_or_patches):
        kind, downwards = ti.cast(point[p, KIND], int), vec3(0.0, 0.0, -1.0)
        if kind == PATCH:
            weight = ti.max(0.0, -(rotation @ point_vector(point, p)).z)
        elif kind >= RIM:
            downwards = rim_direction(rotation @ point_vector(point, p), kind - RIM)
        arm += point[p, RADIUS] * downwards
    else:
        arm.z -= point[p, RADIUS]
    return arm, weight


@ti.func
def contact_vector_adjoint(point: ti.template(), p, rotation, arm_bar, weight_bar):
    """Adjoint of ``contact_arm`` with respect to the axis of a rim or the area vector of a patch, world axes; zero for a ball.

    The adjoint of the position of the point is ``arm_bar`` itself.
    """
    vector_bar = vec3(0.0)
    kind = ti.cast(point[p, KIND], int)
    if kind == PATCH:
        if (rotation @ point_vector(point, p)).z < 0:
            vector_bar.z = -weight_bar
    elif kind >= RIM:
        axis = rotation @ point_vector(point, p)
        vector_bar = rim_direction_adjoint(axis, kind - RIM, point[p, RADIUS] * arm_bar)
    return vector_bar


@ti.func
def horizontal_direction(axis):
    """Unit vector along the horizontal part of an axis, and the length of that part; x if the axis is vertical."""
    sine, heading = ti.sqrt(axis.x * axis.x + axis.y * axis.y), vec2(1.0, 0.0)
    if sine > _MIN_TILT_SINE:
        heading = vec2(axis.x, axis.y) / sine
    return heading, sine


@ti.func
def rim_direction(axis, quarter):
    """Unit vector from the centre of a rim to its lowest point, or to the point that is quarter * 90 degrees further.

    With h along the horizontal part of the axis a, the lowest point is along (a_z h, -a.h), and the orthogonal one along k =
    (-h_y, h_x), whose height -k.a a_z is zero. If the axis is vertical, h is fixed, and these are the directions of points fixed
    to the body, to first order in its tilt.
    """
    h, _sine = horizontal_direction(axis)
    result = vec3(axis.z * h.x, axis.z * h.y, -(h.x * axis.x + h.y * axis.y))
    if quarter == 1 or quarter == 3:
        result = vec3(-h.y, h.x, (h.y * axis.x - h.x * axis.y) * axis.z)
    if quarter >= 2:
        result = -result
    return result


@ti.func
def rim_direction_adjoint(axis, quarter, direction_bar):
    """Adjoint of ``rim_direction`` with respect to the axis."""
    h, sine = horizontal_direction(axis)
    signed_bar = direction_bar
    if quarter >= 2:
        signed_bar = -signed_bar
    axis_bar, h_bar = vec3(0.0), vec2(0.0)
    if quarter == 1 or quarter == 3:
        cross_component = h.y * axis.x - h.x * axis.y
        axis_bar = signed_bar.z * vec3(h.y * axis.z, -h.x * axis.z, cross_component)
        h_bar = vec2(signed_bar.y - axis.y * axis.z * signed_bar.z, axis.x * axis.z * signed_bar.z - signed_bar.x)
    else:
        axis_bar = vec3(-h.x * signed_bar.z, -h.y * signed_bar.z, h.x * signed_bar.x + h.y * signed_bar.y)
        h_bar = vec2(axis.z * signed_bar.x - axis.x * signed_bar.z, axis.z * signed_bar.y - axis.y * signed_bar.z)
    if sine > _MIN_TILT_SINE:
        tangent_bar = (h_bar - h * h.dot(h_bar)) / sine
        axis_bar += vec3(tangent_bar.x, tangent_bar.y, 0.0)
    return axis_bar
