"""Signed distance of a link's shape, a box or mesh, and the deepest point of a line in it (Taichi functions).

A contact at a point x of another body has the potential energy ke / 2 (r - d(x))^2, where d is the signed distance of the
shape and r a radius. Its force is along the gradient of d, which is shorter than one near edges and deep inside. Along the unit
normal n the gap is (d - r) / |grad d|, and the factor of the force |grad d|^2.

A line c + s k, |s| <= h, touches at the point where (1 - s^2 / h^2) (r - d) is largest. Its force vanishes at the ends, which are
contacts themselves, and its place is unique in a box. The derivative of a maximum by the pose is that of the function at the
maximum, so the force is the gradient of the energy although the place depends on the pose. It is so only for the largest of all
maxima: another one would release less energy than the contact took up.
"""

from ti_sim.base.runtime import require, ti
from ti_sim.base.vecmath import mat3, vec3, vec4
from ti_sim.contact.collision import FIRST_SAMPLE, GRID_CELL, GRID_LOW, HALF_SIZE, NODES
from ti_sim.contact.shape_geometry import box_distance, box_distance_along
from ti_sim.shapes.distance_kernels import grid_distance, grid_place, spline_along, spline_value

_ITERATIONS = 50
_MOST_SAMPLES = 128  # points along a line in a mesh that are tested first
_SAFE = 0.9  # of the distance of a point outside, which the spline approximates
_ALIKE = 0.1  # difference of two maxima that their estimates may mistake, in cells
_ANYWHERE = 1e9  # reach of points whose distance is computed anywhere [m]
_OUTSIDE = 4.5  # nodes of a grid along an axis, less the cells of the box: the solid has at least two nodes beyond each side
_SHORT = 1e-9  # squared length of a gradient that is treated as zero


def tolerance() -> float:
    """Last Newton step, in half lengths of a line, whose squared error is about the rounding."""
    return 3e-4 if require().precision == "f32" else 1e-8


tolerance._is_wrapped_kernel = True  # Taichi otherwise warns about plain functions in kernels


@ti.func
def shape_vec3(world: ti.template(), i, column: ti.template()):
    """Three numbers in the row of link i's shape."""
    return vec3(world.shape[i, column], world.shape[i, column + 1], world.shape[i, column + 2])


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
def shape_distance(world: ti.template(), j, x, reach, second):
    """Signed distance of link j's box or mesh at a point x of its frame, as returned by ``distance_kernels.grid_distance``."""
    distance, direction, slope, bend = 0.0, vec3(0.0), vec3(0.0), mat3(0.0)
    if is_mesh(world, j):
        if ti.static(world.with_meshes):
            first, nodes, low, cell = field_of(world, j)
            distance, direction, slope, bend = grid_distance(world.sample, first, nodes, low, cell, x, reach, second)
    else:
        distance, direction, bend = box_distance(x, shape_vec3(world, j, HALF_SIZE))
        slope = direction
    return distance, direction, slope, bend


@ti.func
def unit_normal(distance, direction, radius):
    """Unit normal, gap along it [m], and length of the direction; a zero length and a large gap where there is no normal."""
    normal, gap, length = vec3(0.0), _ANYWHERE, 0.0
    squared = direction.dot(direction)
    if squared > _SHORT:
        length = ti.sqrt(squared)
        normal, gap = direction / length, (distance - radius) / length
    return normal, gap, length


@ti.func
def distance_adjoint(normal, gap, length, slope, bend, normal_bar, gap_bar, length_bar):
    """Adjoint of the point whose distance has this slope and bend, from those of ``unit_normal``'s results; all in one frame."""
    along = normal.dot(normal_bar)
    direction_bar = (normal_bar - along * normal) / length + (length_bar - gap_bar * gap / length) * normal
    return gap_bar / length * slope + bend @ direction_bar


@ti.func
def box_about(world: ti.template(), j):
    """Centre and half sizes of the bounding box of link j's shape, a box or mesh, in its frame [m]."""
    middle, half = vec3(0.0), shape_vec3(world, j, HALF_SIZE)
    if is_mesh(world, j):
        if ti.static(world.with_meshes):
            _first, nodes, first_node, cell = field_of(world, j)
            middle = first_node + 0.5 * cell * (nodes - 1)
            half = 0.5 * cell * (nodes - _OUTSIDE)
    return middle, half


@ti.func
def clip_to_box(x, along, low, high, reach):
    """Part of the line x + s along, |s| <= reach, in the box between low and high: (s_min, s_max), empty where s_max < s_min."""
    s_min, s_max = -reach, reach
    for k in ti.static(range(3)):
        below, above = low[k] - x[k], high[k] - x[k]
        if ti.abs(along[k]) * reach > 1e-3 * (above - below):
            s_min = ti.max(s_min, ti.min(below / along[k], above / along[k]))
            s_max = ti.min(s_max, ti.max(below / along[k], above / along[k]))
        elif below > ti.abs(along[k]) * reach or above < -ti.abs(along[k]) * reach:
            s_max = s_min - 1
    return s_min, s_max


@ti.func
def distance_along(world: ti.template(), j, x, k):
    """Distance of link j's box or mesh at a point x, parts of its direction and of its slope along k, and k . bend k."""
    distance, along, slope_along, bend_along = 0.0, 0.0, 0.0, 0.0
    if is_mesh(world, j):
        if ti.static(world.with_meshes):
            first, nodes, low, cell = field_of(world, j)
            u, beyond = grid_place(nodes, low, cell, x)
            if beyond.dot(beyond) == 0:
                distance, along, bend_along = spline_along(world.sample, first, nodes, cell, u, k)
                slope_along = along
            else:
                away, direction, slope, bend = grid_distance(world.sample, first, nodes, low, cell, x, _ANYWHERE, True)
                distance, along, slope_along, bend_along = away, k.dot(direction), k.dot(slope), k.dot(bend @ k)
    else:
        distance, along, bend_along = box_distance_along(x, k, shape_vec3(world, j, HALF_SIZE))
        slope_along = along
    return distance, along, slope_along, bend_along


@ti.func
def depth_in_mesh(world: ti.template(), j, x, radius):
    """Depth r - d of a point x of the frame of link j's mesh [m]."""
    first, nodes, low, cell = field_of(world, j)
    u, beyond = grid_place(nodes, low, cell, x)
    distance = 0.0
    if beyond.dot(beyond) == 0:
        distance = spline_value(world.sample, first, nodes, u)
    else:
        distance, _direction, _slope, _bend = grid_distance(world.sample, first, nodes, low, cell, x, _ANYWHERE, False)
    return radius - distance


@ti.func
def largest_maxima(world: ti.template(), j, c, k, h, radius, low, high, step):
    """The two largest local maxima of the depth times its window on the part [low, high] of a line in a mesh.

    A convex mesh has several, too: along a line that crosses a ridge at a small angle the spline is wavy. Points on the line are
    ``step`` apart, and farther outside, where no point is inside that is closer than the distance. A parabola through three of
    them estimates the position and the size of a maximum.

    Returns:
        Two rows (estimated size [m], estimated position, point before it, point after it [m]), the larger one first.
    """
    largest, second = vec4(-_ANYWHERE, low, low, high), vec4(-_ANYWHERE, low, low, high)
    before, s, after = low, low, low
    value_before, value, value_after = -_ANYWHERE, -_ANYWHERE, -_ANYWHERE
    skipped, is_sampling = 0.0, True
    while is_sampling:
        if value > -_ANYWHERE:
            after = ti.min(s + ti.max(step, skipped), high)
        is_sampling = after > s or value == -_ANYWHERE
        value_after = -_ANYWHERE
        if is_sampling:
            depth = depth_in_mesh(world, j, c + after * k, radius)
            skipped = -_SAFE * depth
            value_after = depth
            if depth > 0:
                value_after *= 1 - after * after / (h * h)
        if value > -_ANYWHERE and value >= value_before and value > value_after:
            position, size = s, value
            if before < s and s < after:
                rise, fall = (value - value_before) / (s - before), (value_after - value) / (after - s)
                slope = (rise * (after - s) + fall * (s - before)) / (after - before)
                curve = (fall - rise) / (after - before)  # half the second derivative
                position -= 0.5 * slope / curve
                size -= 0.25 * slope * slope / curve
            row = vec4(size, position, before, after)
            if size > largest[0]:
                second = largest
                largest = row
            elif size > second[0]:
                second = row
        before, value_before = s, value
        s, value = after, value_after
    return largest, second


@ti.func
def deepest_on_line(world: ti.template(), j, c, k, h, radius):
    """Place s on the line c + s k, |s| < h, at which it touches link j's box or mesh (see above), in the frame of the shape.

    Args:
        world: ``WorldArrays``.
        j: link.
        c: middle of the line [m].
        k: unit vector along it.
        h: half length, above zero [m].
        radius: radius of the line [m].

    Returns:
        (s [m], whether the line touches there).
    """
    middle, half = box_about(world, j)
    low, high = clip_to_box(c, k, middle - half - radius, middle + half + radius, h)
    start = ti.max(0.75 * low + 0.25 * high, ti.min(0.25 * low + 0.75 * high, 0.0))
    next_start, next_low, next_high, count = 0.0, 0.0, 0.0, ti.select(low < high, 1, 0)
    if ti.static(world.with_meshes):
        if count > 0 and is_mesh(world, j):
            cell = world.shape[j, GRID_CELL]
            largest, second = largest_maxima(world, j, c, k, h, radius, low, high, ti.max(0.5 * cell, 2 * h / _MOST_SAMPLES))
            start, low, high = largest[1], largest[2], largest[3]
            if second[0] > largest[0] - _ALIKE * cell:
                count, next_start, next_low, next_high = 2, second[1], second[2], second[3]
    result, deepest = 0.0, -_ANYWHERE
    for n in range(count):
        s, depth = start, 0.0
        if n == 1:
            s, low, high = next_start, next_low, next_high
        is_searching = low < high
        for _ in range(_ITERATIONS):
            if is_searching:
                distance, along, slope_along, bend_along = distance_along(world, j, c + s * k, k)
                depth = radius - distance
                following = s
                if depth > 0:
                    rate, curve = _window_rates(s, h, depth, along, slope_along, bend_along)
                    depth *= 1 - s * s / (h * h)
                    if rate > 0:
                        low = s
                    else:
                        high = s
                    following = 0.5 * (low + high)
                    if curve < 0:
                        newton = s - rate / curve
                        if newton >= low and newton <= high:
                            following = newton
                            is_searching = ti.abs(newton - s) > ti.static(tolerance()) * h
                else:
                    if along > 0:
                        high = s
                    else:
                        low = s
                    following = 0.5 * (low + high)
                    is_searching = ti.abs(along) * (high - low) > -depth  # a convex distance does not decrease further
                s = following
        if depth > deepest:
            result, deepest = s, depth
    return result, deepest > 0


@ti.func
def _window_rates(s, h, depth, along, slope_along, bend_along):
    """Derivative by s of (1 - s^2 / h^2) times the depth of the point at s, which is zero where the line touches, and its own
    derivative; the last arguments are those of ``distance_along``.
    """
    window, rate, curve = 1 - s * s / (h * h), -2 * s / (h * h), -2 / (h * h)
    return rate * depth - window * along, curve * depth - rate * (along + slope_along) - window * bend_along


@ti.func
def deepest_adjoint(k, s, h, depth, direction, slope, bend, s_bar):
    """Adjoint of ``deepest_on_line`` by the implicit function theorem, from its results: (c_bar, k_bar)."""
    c_bar, k_bar = vec3(0.0), vec3(0.0)
    _rate, curve = _window_rates(s, h, depth, k.dot(direction), k.dot(slope), k.dot(bend @ k))
    if curve < 0:
        window, rate, factor = 1 - s * s / (h * h), -2 * s / (h * h), s_bar / curve
        c_bar = factor * (rate * slope + window * (bend @ k))
        k_bar = s * c_bar + factor * window * direction
    return c_bar, k_bar
