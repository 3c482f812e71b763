"""Signed distance of a link's shape, a box or mesh, and the deepest point of a line in it (Taichi functions).

A contact at a point x of another body has the potential energy ke / 2 (r - d(x))^2, where d is the signed distance of the
shape and r a radius. Its force is along the gradient of d, which is shorter than one near edges and deep inside. Along the unit
normal n the gap is (d - r) / |grad d|, and the factor of the force |grad d|^2.

A line c + s k, |s| <= h, touches at the point where (1 - s^2 / h^2) (r - d) is largest. Its force vanishes at the ends, which are
contacts themselves, and its place is unique where the surface is flat or the solid is convex. The derivative of a maximum by the
pose is that of the function at the maximum, so the force is the gradient of the energy although the place depends on the pose.
"""

from ti_sim.articulated.collision import FIRST_SAMPLE, GRID_CELL, GRID_LOW, HALF_SIZE, NODES
from ti_sim.articulated.contact_force import shape_vec3
from ti_sim.articulated.contact_geometry import box_distance, box_distance_along
from ti_sim.base.runtime import require, ti
from ti_sim.base.vecmath import mat3, vec3
from ti_sim.shapes.distance_kernels import grid_distance

_ITERATIONS = 50
_FINER = 4  # points of a line in a mesh of which one is tested first
_MOST_SAMPLES = 64  # of them along a line
_SAFE = 0.9  # of the distance of a point outside, which the spline approximates
_MARGIN = 0.05  # of the largest depth between two of them, in distances between points
_ANYWHERE = 1e9  # reach of points whose distance is computed anywhere [m]
_SHORT = 1e-9  # squared length of a gradient that is treated as zero


def tolerance() -> float:
    """Last Newton step, in half lengths of a line, whose squared error is about the rounding."""
    return 3e-4 if require().precision == "f32" else 1e-8


tolerance._is_wrapped_kernel = True  # Taichi otherwise warns about plain functions in kernels


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
            half = 0.5 * cell * (nodes - 3)
    return middle, half


@ti.func
def part_within(x, along, low, high, reach):
    """Part of the line x + s along, |s| <= reach, in the box between low and high: (start, end), empty where end < start."""
    start, end = -reach, reach
    for k in ti.static(range(3)):
        below, above = low[k] - x[k], high[k] - x[k]
        if ti.abs(along[k]) * reach > 1e-3 * (above - below):
            start = ti.max(start, ti.min(below / along[k], above / along[k]))
            end = ti.min(end, ti.max(below / along[k], above / along[k]))
        elif below > ti.abs(along[k]) * reach or above < -ti.abs(along[k]) * reach:
            end = start - 1
    return start, end


@ti.func
def distance_along(world: ti.template(), j, x, k):
    """Distance of link j's box or mesh at a point x, parts of its direction and of its slope along k, and k . bend k."""
    distance, along, slope_along, bend_along = 0.0, 0.0, 0.0, 0.0
    if is_mesh(world, j):
        if ti.static(world.with_meshes):
            first, nodes, low, cell = field_of(world, j)
            away, direction, slope, bend = grid_distance(world.sample, first, nodes, low, cell, x, _ANYWHERE, True)
            distance, along, slope_along, bend_along = away, k.dot(direction), k.dot(slope), k.dot(bend @ k)
    else:
        distance, along, bend_along = box_distance_along(x, k, shape_vec3(world, j, HALF_SIZE))
        slope_along = along
    return distance, along, slope_along, bend_along


@ti.func
def windowed_depth(world: ti.template(), j, c, k, h, radius, s):
    """Depth of the point c + s k of a line in a mesh, times its window if inside; the depth itself [m], and its slope by s."""
    distance, direction, _slope, _bend = shape_distance(world, j, c + s * k, _ANYWHERE, False)
    depth = radius - distance
    windowed = depth
    if depth > 0:
        windowed *= 1 - s * s / (h * h)
    return windowed, depth, -k.dot(direction)


@ti.func
def largest_between(before, rise, after, fall, step):
    """Largest value of a concave function between two places ``step`` apart, of its values and slopes at both."""
    most = ti.max(before, after)
    if rise > 0 and fall < 0:
        most = ti.max(most, before + rise * ti.min((after - before - fall * step) / (rise - fall), step))
    return most


@ti.func
def coarse_place(world: ti.template(), j, c, k, h, radius, low, high, step):
    """Place of the largest ``windowed_depth`` of points on the part [low, high] of a line in a mesh, ``step`` apart.

    Every fourth point is tested first, and those between two of them only where a depth may be larger, with a margin for solids
    that are not convex. No point closer to a point outside than its distance is inside.
    """
    s, end = low, low
    most, before, rise = windowed_depth(world, j, c, k, h, radius, s)
    while end < high:
        start = end
        end = ti.min(start + ti.max(_FINER * step, -_SAFE * before), high)
        windowed, after, fall = windowed_depth(world, j, c, k, h, radius, end)
        if windowed > most:
            s, most = end, windowed
        if -_SAFE * before <= _FINER * step and largest_between(before, rise, after, fall, end - start) + _MARGIN * step > most:
            for m in range(1, _FINER):
                place = ti.min(start + m * step, high)
                windowed, _depth, _slope = windowed_depth(world, j, c, k, h, radius, place)
                if windowed > most:
                    s, most = place, windowed
        before, rise = after, fall
    return s


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
    low, high = part_within(c, k, middle - half - radius, middle + half + radius, h)
    going, touches = low < high, False
    if ti.static(world.with_meshes):
        if going and is_mesh(world, j):
            # There may be several such places, in convex meshes too, as the spline is not concave where two faces are equally
            # deep: begin beside the deepest of many points.
            step = ti.max(world.shape[j, GRID_CELL], 2 * h / _MOST_SAMPLES)
            best = coarse_place(world, j, c, k, h, radius, low, high, step)
            low, high = ti.max(best - step, low), ti.min(best + step, high)
    s = ti.max(0.75 * low + 0.25 * high, ti.min(0.25 * low + 0.75 * high, 0.0))
    for _ in range(_ITERATIONS):
        if going:
            distance, along, slope_along, bend_along = distance_along(world, j, c + s * k, k)
            depth = radius - distance
            touches = depth > 0
            following = s
            if touches:
                rate, curve = _window_rates(s, h, depth, along, slope_along, bend_along)
                if rate > 0:
                    low = s
                else:
                    high = s
                following = 0.5 * (low + high)
                if curve < 0:
                    newton = s - rate / curve
                    if newton >= low and newton <= high:
                        following = newton
                        going = ti.abs(newton - s) > ti.static(tolerance()) * h
            else:
                if along > 0:
                    high = s
                else:
                    low = s
                following = 0.5 * (low + high)
                going = ti.abs(along) * (high - low) > -depth  # a convex distance does not decrease further
            s = following
    return s, touches


@ti.func
def _window_rates(s, h, depth, along, slope_along, bend_along):
    """Derivative by s of (1 - s^2 / h^2) times the depth of the point at s, which is zero where the line touches, and its own
    derivative; the last arguments are those of ``distance_along``.
    """
    part, rate, curve = 1 - s * s / (h * h), -2 * s / (h * h), -2 / (h * h)
    return rate * depth - part * along, curve * depth - rate * (along + slope_along) - part * bend_along


@ti.func
def deepest_adjoint(k, s, h, depth, direction, slope, bend, s_bar):
    """Adjoint of ``deepest_on_line`` by the implicit function theorem, from its results: (c_bar, k_bar)."""
    c_bar, k_bar = vec3(0.0), vec3(0.0)
    _rate, curve = _window_rates(s, h, depth, k.dot(direction), k.dot(slope), k.dot(bend @ k))
    if curve < 0:
        part, rate, factor = 1 - s * s / (h * h), -2 * s / (h * h), s_bar / curve
        c_bar = factor * (rate * slope + part * (bend @ k))
        k_bar = s * c_bar + factor * part * direction
    return c_bar, k_bar
