"""Contact of a line with a radius (a sphere or capsule) with the shape of another link, and its adjoint (Taichi functions).

A point is a line of zero length. See ``contact_geometry`` for the geometry and its kinks.
"""

from ti_sim.articulated.collision import FIRST_SAMPLE, GRID_CELL, GRID_LOW, HALF_LENGTH, HALF_SIZE, NODES, RADIUS
from ti_sim.articulated.contact_force import shape_vec3
from ti_sim.articulated.contact_geometry import (
    closest_to_grid,
    closest_to_grid_adjoint,
    line_box_contact,
    line_line_contact,
    point_box_contact,
    sides_of_closest,
)
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import mat3, vec3
from ti_sim.shapes.distance_kernels import grid_distance, grid_distance_adjoint, grid_distance_slopes, grid_place

_FAR = 1e9  # gap of points that are out of range [m]


@ti.func
def is_mesh(world: ti.template(), j):
    """Whether the shape of link j is a mesh."""
    result = False
    if ti.static(world.with_meshes):
        result = world.mesh[j, NODES] > 0
    return result


@ti.func
def field_of(world: ti.template(), j):
    """Distance field of link j's mesh, as arguments of ``distance_kernels``: first coefficient, nodes, first node, cell."""
    nodes = ti.Vector([world.mesh[j, NODES], world.mesh[j, NODES + 1], world.mesh[j, NODES + 2]])
    return world.mesh[j, FIRST_SAMPLE], nodes, shape_vec3(world, j, GRID_LOW), world.shape[j, GRID_CELL]


@ti.func
def line_mesh_contact(world: ti.template(), j, centre, line, radius, h, given, free, margin):
    """``contact_geometry.line_box_contact`` for the mesh of link j, in the frame of the mesh; gaps above ``margin`` may be out of
    range."""
    first, nodes, low, cell = field_of(world, j)
    s, weight = given, 1.0
    if free > 0:
        s = closest_to_grid(world.sample, first, nodes, low, cell, centre, line, h, radius + margin)
        weight = 1 - s * s / (h * h)
    distance, normal = grid_distance(world.sample, first, nodes, low, cell, centre + s * line, radius + margin)
    return s * line - 0.5 * (radius + distance) * normal, normal, distance - radius, weight


@ti.func
def line_mesh_contact_adjoint(
    world: ti.template(), j, centre, line, radius, h, given, free, place, normal, gap, place_bar, normal_bar, gap_bar, weight_bar
):
    """Adjoint of ``line_mesh_contact``, given its results: (centre_bar, line_bar)."""
    first, nodes, low, cell = field_of(world, j)
    distance, s = gap + radius, given
    if free > 0:
        s = line.dot(place + 0.5 * (radius + distance) * normal)
    x = centre + s * line
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
def point_shape_contact(world: ti.template(), j, x, margin, slopes: ti.template()):
    """Contact of a point with the shape of link j, a box or mesh, in its frame; a point farther than a margin from the
    grid of a mesh is out of range.

    The contact point is x moved by half the gap against the normal.

    Args:
        world: ``WorldArrays``.
        j: link.
        x: the point minus the centre of the shape [m].
        margin: see above [m].
        slopes: whether to compute the derivatives; zeros otherwise.

    Returns:
        (gap [m], outward unit normal of the shape, derivative of the gap by x, matrix that maps the adjoint of the normal to that
        of x).
    """
    gap, normal, slope, bend = _FAR, vec3(0.0), vec3(0.0), mat3(0.0)
    if is_mesh(world, j):
        if ti.static(world.with_meshes):
            first, nodes, low, cell = field_of(world, j)
            _place, beyond = grid_place(nodes, low, cell, x)
            if beyond.dot(beyond) <= margin * margin:
                if ti.static(slopes):
                    gap, normal, slope, bend = grid_distance_slopes(world.sample, first, nodes, low, cell, x)
                else:
                    gap, normal = grid_distance(world.sample, first, nodes, low, cell, x, 2 * margin)
    else:
        gap, normal, slope, bend = point_box_contact(x, shape_vec3(world, j, HALF_SIZE))
    return gap, normal, slope, bend


@ti.func
def line_shape_contact(world: ti.template(), j, matrix, centre, along, h, radius, given, free, margin):
    """Contact of a line with the shape of link j.

    Args:
        world: ``WorldArrays``.
        j: link.
        matrix: rotation matrix of the shape.
        centre: centre of the line minus that of the shape, world axes [m].
        along: direction of the line, a unit vector if the line has a length.
        h: half length of the line [m].
        radius: radius of the line [m].
        given: position of the contact point on the line, in multiples of ``along``.
        free: 1 for the point closest to a box or mesh instead of the given one.
        margin: gap above which a point may be out of range of a mesh [m].

    Returns:
        (contact point minus ``centre`` [m], unit normal from j to the line, both in world axes; gap [m]; weight [1]).
    """
    place, normal, gap, weight = vec3(0.0), vec3(0.0), 1.0, 1.0
    if world.shape[j, RADIUS] > 0:
        place, normal, gap = line_line_contact.value(
            centre, along, matrix @ vec3(0.0, 0.0, 1.0), h, world.shape[j, HALF_LENGTH], radius, world.shape[j, RADIUS]
        )
    else:
        local_centre, line = matrix.transpose() @ centre, matrix.transpose() @ along
        local_place, local_normal, gap_now, weight_now = vec3(0.0), vec3(0.0), 1.0, 1.0
        if is_mesh(world, j):
            if ti.static(world.with_meshes):
                local_place, local_normal, gap_now, weight_now = line_mesh_contact(
                    world, j, local_centre, line, radius, h, given, free, margin
                )
        else:
            half, outside = shape_vec3(world, j, HALF_SIZE), vec3(0.0)
            if free > 0:
                outside = sides_of_closest(local_centre, line, half, h)
            local_place, local_normal, gap_now, weight_now = line_box_contact.value(
                local_centre, line, half, radius, h, given, free, outside
            )
        place, normal, gap, weight = matrix @ local_place, matrix @ local_normal, gap_now, weight_now
    return place, normal, gap, weight


@ti.func
def line_shape_contact_adjoint(
    world: ti.template(), j, matrix, centre, along, h, radius, given, free, place, normal, gap, place_bar, normal_bar, gap_bar,
    weight_bar,
):  # fmt: skip
    """Adjoint of ``line_shape_contact``, given its results: (centre_bar, along_bar, adjoint of the rotation of link j)."""
    centre_bar, along_bar, turn_bar = vec3(0.0), vec3(0.0), vec3(0.0)
    if world.shape[j, RADIUS] > 0:
        other = matrix @ vec3(0.0, 0.0, 1.0)
        bars = line_line_contact.vjp(
            (centre, along, other, h, world.shape[j, HALF_LENGTH], radius, world.shape[j, RADIUS]),
            (place_bar, normal_bar, gap_bar),
        )
        centre_bar, along_bar = bars[0], bars[1]
        turn_bar = other.cross(bars[2])
    else:
        back = matrix.transpose()
        local_centre, line = back @ centre, back @ along
        local_centre_bar, line_bar = vec3(0.0), vec3(0.0)
        if is_mesh(world, j):
            if ti.static(world.with_meshes):
                local_centre_bar, line_bar = line_mesh_contact_adjoint(
                    world, j, local_centre, line, radius, h, given, free, back @ place, back @ normal, gap,
                    back @ place_bar, back @ normal_bar, gap_bar, weight_bar,
                )  # fmt: skip
        else:
            half, outside = shape_vec3(world, j, HALF_SIZE), vec3(0.0)
            if free > 0:
                outside = sides_of_closest(local_centre, line, half, h)
            bars = line_box_contact.vjp(
                (local_centre, line, half, radius, h, given, free, outside),
                (back @ place_bar, back @ normal_bar, gap_bar, weight_bar),
            )
            local_centre_bar, line_bar = bars[0], bars[1]
        centre_bar, along_bar = matrix @ local_centre_bar, matrix @ line_bar
        # The frame of j rotates results forwards and arguments backwards.
        turn_bar = place.cross(place_bar) + normal.cross(normal_bar) - centre.cross(centre_bar) - along.cross(along_bar)
    return centre_bar, along_bar, turn_bar
