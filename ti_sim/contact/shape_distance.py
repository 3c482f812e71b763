"""Signed distance of a link's shape, a box or mesh, and the deepest point of a line in it (Taichi functions).

A contact at a point x of another body has the potential energy ke / 2 (r - d(x))^2, where d is the signed distance of the
shape and r a radius. Its force is along the gradient of d, which is shorter than one near edges and deep inside. Along the unit
normal n the gap is (d - r) / |grad d|, and the factor of the force |grad d|^2.

A line c + s k, |s| <= h, touches at the point where (1 - s^2 / h^2) (r - d) is largest. Its force vanishes at the ends, which are
contacts themselves, and its position is unique in a box. The derivative of a maximum by the pose is that of the function at the
maximum, so the force is the gradient of the energy although the position depends on the pose. This holds only for the largest of
all maxima: another one would release less energy than the contact stored.
"""

from ti_sim.base.runtime import require, ti
from ti_sim.base.vecmath import mat3, vec3, vec4
from ti_sim.contact.collision import MESH, SHAPE
from ti_sim.contact.shape_geometry import box_distance, box_distance_along
from ti_sim.shapes.distance_kernels import closest_grid_point, grid_distance, spline_along, spline_value

_MAX_ITERATIONS = 50
_MAX_SAMPLES = 128  # points along a line in a mesh that are tested first
_SAFE_STEP_FRACTION = 0.9  # step over the distance of a point outside; below 1, since the spline only approximates the distance
_MAXIMA_TOLERANCE = 0.1  # difference of two maxima below which their estimates may be in the wrong order, in cells
_LARGE_DISTANCE = 1e9  # gap where there is no contact, and range of a distance that is computed at every point [m]
_OUTSIDE_NODES = 4.5  # nodes of a grid along an axis minus the cells of the box: two nodes or more are beyond each side
_MIN_SQUARED_GRADIENT = 1e-9  # squared length of a gradient that is treated as zero


def newton_tolerance() -> float:
    """Last Newton step, in half lengths of a line, whose squared error is about the rounding."""
    return 3e-4 if require().precision == "f32" else 1e-8


newton_tolerance._is_wrapped_kernel = True  # Taichi otherwise warns about plain functions in kernels


@ti.func
def shape_vec3(world: ti.template(), i, column: ti.template()):
    """Three numbers in the row of link i's shape."""
    return vec3(world.shape[i, column], world.shape[i, column + 1], world.shape[i, column + 2])


@ti.func
def is_mesh(world: ti.template(), j):
    """Whether the shape of link j is a mesh."""
    result = False
    if ti.static(world.with_meshes):
        result = world.mesh[j, MESH.nodes] > 0
    return result


@ti.func
def distance_field(world: ti.template(), j):
    """Distance field of link j's mesh, as arguments of ``distance_kernels``: first coefficient, nodes, first node, cell."""
    nodes = ti.Vector([world.mesh[j, MESH.nodes], world.mesh[j, MESH.nodes + 1], world.mesh[j, MESH.nodes + 2]])
    return world.mesh[j, MESH.first_coefficient], nodes, shape_vec3(world, j, SHAPE.grid_low), world.shape[j, SHAPE.grid_cell]


@ti.func
def shape_distance(world: ti.template(), j, x, max_distance, with_second_derivatives):
    """Signed distance of link j's box or mesh at a point x of its frame, as returned by ``distance_kernels.grid_distance``."""
    distance, direction, distance_gradient, direction_jacobian = 0.0, vec3(0.0), vec3(0.0), mat3(0.0)
    if is_mesh(world, j):
        if ti.static(world.with_meshes):
            first_coefficient, nodes, first_node, cell = distance_field(world, j)
            distance, direction, distance_gradient, direction_jacobian = grid_distance(
                world.mesh_data, first_coefficient, nodes, first_node, cell, x, max_distance, with_second_derivatives
            )
    else:
        distance, direction, direction_jacobian = box_distance(x, shape_vec3(world, j, SHAPE.half_size))
        distance_gradient = direction
    return distance, direction, distance_gradient, direction_jacobian


@ti.func
def unit_normal(distance, direction, radius):
    """Unit normal, gap along it [m], and length of the direction; a zero length and a large gap where there is no normal."""
    normal, gap, length = vec3(0.0), _LARGE_DISTANCE, 0.0
    squared_length = direction.dot(direction)
    if squared_length > _MIN_SQUARED_GRADIENT:
        length = ti.sqrt(squared_length)
        normal, gap = direction / length, (distance - radius) / length
    return normal, gap, length


@ti.func
def distance_adjoint(normal, gap, length, distance_gradient, direction_jacobian, normal_bar, gap_bar, length_bar):
    """Adjoint of a point from those of ``unit_normal``'s results and the derivatives of ``shape_distance``; all in one frame."""
    normal_component = normal.dot(normal_bar)
    direction_bar = (normal_bar - normal_component * normal) / length + (length_bar - gap_bar * gap / length) * normal
    return gap_bar / length * distance_gradient + direction_jacobian @ direction_bar


@ti.func
def bounding_box(world: ti.template(), j):
    """Centre and half sizes of the bounding box of link j's shape, a box or mesh, in its frame [m]."""
    centre, half_size = vec3(0.0), shape_vec3(world, j, SHAPE.half_size)
    if is_mesh(world, j):
        if ti.static(world.with_meshes):
            _first, nodes, first_node, cell = distance_field(world, j)
            centre = first_node + 0.5 * cell * (nodes - 1)
            half_size = 0.5 * cell * (nodes - _OUTSIDE_NODES)
    return centre, half_size


@ti.func
def clip_to_box(x, line_direction, low, high, half_length):
    """Range (s_min, s_max) of the line x + s line_direction, |s| <= half_length, in the box between low and high.

    The range is empty where s_max < s_min.
    """
    s_min, s_max = -half_length, half_length
    for k in ti.static(range(3)):
        to_low, to_high = low[k] - x[k], high[k] - x[k]
        if ti.abs(line_direction[k]) * half_length > 1e-3 * (to_high - to_low):
            s_min = ti.max(s_min, ti.min(to_low / line_direction[k], to_high / line_direction[k]))
            s_max = ti.min(s_max, ti.max(to_low / line_direction[k], to_high / line_direction[k]))
        elif to_low > ti.abs(line_direction[k]) * half_length or to_high < -ti.abs(line_direction[k]) * half_length:
            s_max = s_min - 1
    return s_min, s_max


@ti.func
def distance_along(world: ti.template(), j, x, k):
    """Distance d of link j's box or mesh at a point x, k . direction, k . grad d, and k . (direction Jacobian) k."""
    distance, rate, gradient_rate, curvature = 0.0, 0.0, 0.0, 0.0
    if is_mesh(world, j):
        if ti.static(world.with_meshes):
            first_coefficient, nodes, first_node, cell = distance_field(world, j)
            u, offset_outside = closest_grid_point(nodes, first_node, cell, x)
            if offset_outside.dot(offset_outside) == 0:
                distance, rate, curvature = spline_along(world.mesh_data, first_coefficient, nodes, cell, u, k)
                gradient_rate = rate
            else:
                distance_outside, direction, distance_gradient, direction_jacobian = grid_distance(
                    world.mesh_data, first_coefficient, nodes, first_node, cell, x, _LARGE_DISTANCE, True
                )
                distance, rate, gradient_rate, curvature = (
                    distance_outside,
                    k.dot(direction),
                    k.dot(distance_gradient),
                    k.dot(direction_jacobian @ k),
                )
    else:
        distance, rate, curvature = box_distance_along(x, k, shape_vec3(world, j, SHAPE.half_size))
        gradient_rate = rate
    return distance, rate, gradient_rate, curvature


@ti.func
def depth_in_mesh(world: ti.template(), j, x, radius):
    """Depth r - d of a point x of the frame of link j's mesh [m]."""
    first_coefficient, nodes, first_node, cell = distance_field(world, j)
    u, offset_outside = closest_grid_point(nodes, first_node, cell, x)
    distance = 0.0
    if offset_outside.dot(offset_outside) == 0:
        distance = spline_value(world.mesh_data, first_coefficient, nodes, u)
    else:
        distance, _direction, _distance_gradient, _direction_jacobian = grid_distance(
            world.mesh_data, first_coefficient, nodes, first_node, cell, x, _LARGE_DISTANCE, False
        )
    return radius - distance


@ti.func
def largest_maxima(world: ti.template(), j, c, k, h, radius, low, high, step):
    """The two largest local maxima of the depth times its window on the part [low, high] of a line in a mesh.

    Even a convex mesh can have several: along a line that crosses a ridge at a small angle the spline is wavy. Points on the line
    are ``step`` apart, and farther outside, where no point is inside that is closer than the distance. A parabola through three
    of them estimates the position and the value of a maximum.

    Returns:
        Two rows (estimated maximum [m], its position, the samples before and after it [m]), the larger one first.
    """
    largest, second_largest = vec4(-_LARGE_DISTANCE, low, low, high), vec4(-_LARGE_DISTANCE, low, low, high)
    previous_s, s, next_s = low, low, low
    previous_value, value, next_value = -_LARGE_DISTANCE, -_LARGE_DISTANCE, -_LARGE_DISTANCE
    safe_step, is_sampling = 0.0, True
    while is_sampling:
        if value > -_LARGE_DISTANCE:
            next_s = ti.min(s + ti.max(step, safe_step), high)
        is_sampling = next_s > s or value == -_LARGE_DISTANCE
        next_value = -_LARGE_DISTANCE
        if is_sampling:
            depth = depth_in_mesh(world, j, c + next_s * k, radius)
            safe_step = -_SAFE_STEP_FRACTION * depth
            next_value = depth
            if depth > 0:
                next_value *= 1 - next_s * next_s / (h * h)
        if value > -_LARGE_DISTANCE and value >= previous_value and value > next_value:
            position, estimate = s, value
            if previous_s < s and s < next_s:
                slope_before, slope_after = (value - previous_value) / (s - previous_s), (next_value - value) / (next_s - s)
                slope = (slope_before * (next_s - s) + slope_after * (s - previous_s)) / (next_s - previous_s)
                half_curvature = (slope_after - slope_before) / (next_s - previous_s)  # half the second derivative
                position -= 0.5 * slope / half_curvature
                estimate -= 0.25 * slope * slope / half_curvature
            maximum = vec4(estimate, position, previous_s, next_s)
            if estimate > largest[0]:
                second_largest = largest
                largest = maximum
            elif estimate > second_largest[0]:
                second_largest = maximum
        previous_s, previous_value = s, value
        s, value = next_s, next_value
    return largest, second_largest


@ti.func
def deepest_on_line(world: ti.template(), j, c, k, h, radius):
    """Position s on the line c + s k, |s| < h, at which it touches link j's box or mesh (see above), in the frame of the shape.

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
    centre, half_size = bounding_box(world, j)
    low, high = clip_to_box(c, k, centre - half_size - radius, centre + half_size + radius, h)
    start = ti.max(0.75 * low + 0.25 * high, ti.min(0.25 * low + 0.75 * high, 0.0))
    second_start, second_low, second_high, num_maxima = 0.0, 0.0, 0.0, ti.select(low < high, 1, 0)
    if ti.static(world.with_meshes):
        if num_maxima > 0 and is_mesh(world, j):
            cell = world.shape[j, SHAPE.grid_cell]
            largest, second_largest = largest_maxima(
                world, j, c, k, h, radius, low, high, ti.max(0.5 * cell, 2 * h / _MAX_SAMPLES)
            )
            start, low, high = largest[1], largest[2], largest[3]
            if second_largest[0] > largest[0] - _MAXIMA_TOLERANCE * cell:
                num_maxima, second_start, second_low, second_high = 2, second_largest[1], second_largest[2], second_largest[3]
    deepest_s, max_depth = 0.0, -_LARGE_DISTANCE
    for n in range(num_maxima):
        s, depth = start, 0.0
        if n == 1:
            s, low, high = second_start, second_low, second_high
        is_searching = low < high
        for _ in range(_MAX_ITERATIONS):
            if is_searching:
                distance, rate, gradient_rate, curvature = distance_along(world, j, c + s * k, k)
                depth = radius - distance
                next_s = s
                if depth > 0:
                    derivative, second_derivative = _window_rates(s, h, depth, rate, gradient_rate, curvature)
                    depth *= 1 - s * s / (h * h)
                    if derivative > 0:
                        low = s
                    else:
                        high = s
                    next_s = 0.5 * (low + high)
                    if second_derivative < 0:
                        newton_s = s - derivative / second_derivative
                        if newton_s >= low and newton_s <= high:
                            next_s = newton_s
                            is_searching = ti.abs(newton_s - s) > ti.static(newton_tolerance()) * h
                else:
                    if rate > 0:
                        high = s
                    else:
                        low = s
                    next_s = 0.5 * (low + high)
                    is_searching = ti.abs(rate) * (high - low) > -depth  # a convex distance does not decrease further
                s = next_s
        if depth > max_depth:
            deepest_s, max_depth = s, depth
    return deepest_s, max_depth > 0


@ti.func
def _window_rates(s, h, depth, rate, gradient_rate, curvature):
    """First and second derivative by s of (1 - s^2 / h^2) times the depth of the point at s; the line touches where the first is
    zero. The last arguments are results of ``distance_along``.
    """
    window, window_rate, window_curvature = 1 - s * s / (h * h), -2 * s / (h * h), -2 / (h * h)
    return window_rate * depth - window * rate, window_curvature * depth - window_rate * (
        rate + gradient_rate
    ) - window * curvature


@ti.func
def deepest_adjoint(k, s, h, depth, direction, distance_gradient, direction_jacobian, s_bar):
    """Adjoint of ``deepest_on_line`` by the implicit function theorem, from its results: (c_bar, k_bar)."""
    c_bar, k_bar = vec3(0.0), vec3(0.0)
    _rate, second_derivative = _window_rates(
        s, h, depth, k.dot(direction), k.dot(distance_gradient), k.dot(direction_jacobian @ k)
    )
    if second_derivative < 0:
        window, window_rate, factor = 1 - s * s / (h * h), -2 * s / (h * h), s_bar / second_derivative
        c_bar = factor * (window_rate * distance_gradient + window * (direction_jacobian @ k))
        k_bar = s * c_bar + factor * window * direction
    return c_bar, k_bar
