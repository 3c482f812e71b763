"""Distance of a solid at a point from its sampled field (see ``distance``), and its derivatives (Taichi functions).

Inside the grid the distance is the value of the spline, and the direction its gradient, whose length is one except near edges and
deep inside. The outermost nodes of the grid are outside the solid. For a point beyond the grid, the closest surface point is
approximated by that of the closest grid point p, along the gradient at p, and the direction is the unit vector away from it.
"""

from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import mat3, offset_from_box, outer, vec3

_LEAST = 1e-6  # squared length of the gradient [1] that is treated as zero
_FAR = 1e9  # gap of points out of range [m]


@ti.func
def spline_weights(t, side):
    """Weight, and its first and second derivative by t, of the quadratic B-spline at the node before (side -1), at (0) or after
    (1) a node, for a point at t in [-1/2, 1/2] from that node.
    """
    reach = 0.5 + side * t
    weight, slope, bend = 0.5 * reach * reach, side * reach, 1.0
    if side == 0:
        weight, slope, bend = 0.75 - t * t, -2 * t, -2.0
    return weight, slope, bend


@ti.func
def grid_place(nodes, low, cell, x):
    """(Closest point of the grid to x, in nodes from the first one; x minus that point [m], exactly zero within the grid)."""
    u = (x - low) / cell
    first, last = vec3(1.0), vec3(nodes.x, nodes.y, nodes.z) - 2.0
    return ti.max(first, ti.min(u, last)), cell * offset_from_box(u, first, last)


@ti.func
def spline_at(sample: ti.template(), first, nodes, cell, u, second):
    """Value [m], gradient [1] and, if ``second``, matrix of second derivatives [1/m] of a field at the grid coordinates u.

    Args:
        sample: array that contains the coefficients of all fields.
        first: index of the first coefficient of the field.
        nodes: number of nodes along x, y, z.
        cell: distance between nodes [m].
        u: grid coordinates, in nodes from the first one.
        second: whether to compute second derivatives; zeros otherwise.
    """
    base = ti.cast(ti.floor(u + 0.5), ti.i32)
    t = u - ti.cast(base, float)
    before_z, before_slope, _bend = spline_weights(t.z, -1)
    here_z, here_slope, _bend = spline_weights(t.z, 0)
    after_z, after_slope, _bend = spline_weights(t.z, 1)
    value, gradient, squares, mixed = 0.0, vec3(0.0), vec3(0.0), vec3(0.0)
    for i in range(-1, 2):  # not unrolled, to save compile time
        w_x, slope_x, bend_x = spline_weights(t.x, i)
        for j in range(-1, 2):
            w_y, slope_y, bend_y = spline_weights(t.y, j)
            index = first + ((base.x + i) * nodes.y + base.y + j) * nodes.z + base.z
            before, middle, after = sample[index - 1], sample[index], sample[index + 1]
            f = before_z * before + here_z * middle + after_z * after
            slope_z = before_slope * before + here_slope * middle + after_slope * after
            value += w_x * w_y * f
            gradient += vec3(slope_x * w_y * f, w_x * slope_y * f, w_x * w_y * slope_z)
            if second:
                squares += vec3(bend_x * w_y * f, w_x * bend_y * f, w_x * w_y * (before - 2 * middle + after))
                mixed += vec3(slope_x * slope_y * f, slope_x * w_y * slope_z, w_x * slope_y * slope_z)
    hessian = mat3(
        squares.x, mixed.x, mixed.y,
        mixed.x, squares.y, mixed.z,
        mixed.y, mixed.z, squares.z,
    )  # fmt: skip
    return value, gradient / cell, hessian / (cell * cell)


@ti.func
def spline_value(sample: ti.template(), first, nodes, u):
    """Value of ``spline_at`` alone."""
    base = ti.cast(ti.floor(u + 0.5), ti.i32)
    t = u - ti.cast(base, float)
    before, middle, after = 0.5 * (0.5 - t) * (0.5 - t), 0.75 - t * t, 0.5 * (0.5 + t) * (0.5 + t)
    w_x, w_y = vec3(before.x, middle.x, after.x), vec3(before.y, middle.y, after.y)
    value, index = 0.0, first + ((base.x - 1) * nodes.y + base.y - 1) * nodes.z + base.z
    for i, j in ti.static(ti.ndrange(3, 3)):
        row = index + (i * nodes.y + j) * nodes.z
        value += w_x[i] * w_y[j] * (before.z * sample[row - 1] + middle.z * sample[row] + after.z * sample[row + 1])
    return value


@ti.func
def spline_along(sample: ti.template(), first, nodes, cell, u, k):
    """Value of ``spline_at``, and its first and second derivative along a unit vector k [m, 1, 1/m]."""
    base = ti.cast(ti.floor(u + 0.5), ti.i32)
    t, rate = u - ti.cast(base, float), k / cell
    total = vec3(0.0)
    for i in range(-1, 2):
        sheet = vec3(0.0)
        for j in range(-1, 2):
            index, row = first + ((base.x + i) * nodes.y + base.y + j) * nodes.z + base.z, vec3(0.0)
            for m in ti.static(range(-1, 2)):
                row += sample[index + m] * _weights_along(t.z, m, rate.z)
            sheet += _product(_weights_along(t.y, j, rate.y), row)
        total += _product(_weights_along(t.x, i, rate.x), sheet)
    return total.x, total.y, total.z


@ti.func
def _weights_along(t, side, rate):
    """Weight of ``spline_weights`` and its derivatives by a variable of which t changes by ``rate``."""
    weight, slope, bend = spline_weights(t, side)
    return vec3(weight, slope * rate, bend * rate * rate)


@ti.func
def _product(a, b):
    """Product of two functions of one variable, each given as value, first and second derivative."""
    return vec3(a.x * b.x, a.x * b.y + a.y * b.x, a.x * b.z + 2 * a.y * b.y + a.z * b.x)


@ti.func
def grid_distance(sample: ti.template(), first, nodes, low, cell, x, reach, second):
    """Distance of a solid at a point, the direction away from it, and their derivatives.

    Args:
        sample: array that contains the coefficients of all fields.
        first: index of the first coefficient of the field.
        nodes: number of nodes along x, y, z.
        low: first node [m].
        cell: distance between nodes [m].
        x: point in the frame of the field [m].
        reach: distance from the grid beyond which a point is out of range [m].
        second: whether to compute the derivatives; zeros otherwise.

    Returns:
        (distance [m], direction [1]: the gradient of the distance in the grid and a unit vector beyond it, derivative of the
        distance by x, matrix that maps the adjoint of the direction to that of x [1/m]); a large distance and zeros out of range.
    """
    u, beyond = grid_place(nodes, low, cell, x)
    distance, direction, slope, bend = _FAR, vec3(0.0), vec3(0.0), mat3(0.0)
    outside = beyond.dot(beyond)
    if outside == 0 or outside < reach * reach:
        value, gradient, hessian = spline_at(sample, first, nodes, cell, u, second)
        distance, direction, slope, bend = value, gradient, gradient, hessian
        if outside > 0:
            squared, inverse = gradient.dot(gradient), 0.0
            if squared > _LEAST:
                inverse = 1 / ti.sqrt(squared)
            normal = gradient * inverse
            away = value * normal + beyond
            distance = away.norm()
            direction = away / distance
            if second:
                # Maps the adjoint of ``away`` to that of x.
                moved = outer(gradient, normal) + value * inverse * (hessian - outer(hessian @ normal, normal))
                for k in ti.static(range(3)):
                    if beyond[k] != 0:
                        for m in ti.static(range(3)):
                            moved[k, m] = 1.0 if ti.static(k == m) else 0.0
                slope = moved @ direction
                bend = (moved - outer(slope, direction)) / distance
    return distance, direction, slope, bend
