"""Distance of a solid at a point from its sampled field (see ``distance``), and its derivatives (Taichi functions).

Inside the grid the distance is the value of the spline, and the direction its gradient, whose length is one except near edges and
deep inside. The outermost nodes of the grid are outside the solid. For a point beyond the grid, the closest surface point is
approximated by that of the closest grid point p, along the gradient at p, and the direction is the unit vector away from it.
"""

from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import mat3, offset_from_box, outer, vec3

_MIN_SQUARED_GRADIENT = 1e-6  # squared length of the gradient [1] that is treated as zero
_OUT_OF_RANGE = 1e9  # gap of points out of range [m]


@ti.func
def spline_weights(t, side):
    """Weight, and its first and second derivative by t, of the quadratic B-spline at the node before (side -1), at (0) or after
    (1) a node, for a point at t in [-1/2, 1/2] from that node.
    """
    edge_distance = 0.5 + side * t
    weight, derivative, second_derivative = 0.5 * edge_distance * edge_distance, side * edge_distance, 1.0
    if side == 0:
        weight, derivative, second_derivative = 0.75 - t * t, -2 * t, -2.0
    return weight, derivative, second_derivative


@ti.func
def closest_grid_point(nodes, low, cell, x):
    """(Closest point of the grid to x, in nodes from the first one; x minus that point [m], exactly zero within the grid)."""
    u = (x - low) / cell
    first, last = vec3(1.0), vec3(nodes.x, nodes.y, nodes.z) - 2.0
    return ti.max(first, ti.min(u, last)), cell * offset_from_box(u, first, last)


@ti.func
def spline_at(sample: ti.template(), first_coefficient, nodes, cell, u, with_second):
    """Value [m], gradient [1] and, if ``with_second``, matrix of second derivatives [1/m] of a field at the grid coordinates u.

    Args:
        sample: array that contains the coefficients of all fields.
        first_coefficient: index of the first coefficient of the field.
        nodes: number of nodes along x, y, z.
        cell: distance between nodes [m].
        u: grid coordinates, in nodes from the first one.
        with_second: whether to compute second derivatives; zeros otherwise.
    """
    base = ti.cast(ti.floor(u + 0.5), ti.i32)
    t = u - ti.cast(base, float)
    weight_before, derivative_before, _second = spline_weights(t.z, -1)
    weight_here, derivative_here, _second = spline_weights(t.z, 0)
    weight_after, derivative_after, _second = spline_weights(t.z, 1)
    value, gradient, diagonal, off_diagonal = 0.0, vec3(0.0), vec3(0.0), vec3(0.0)
    for i in range(-1, 2):  # not unrolled, to save compile time
        w_x, derivative_x, second_x = spline_weights(t.x, i)
        for j in range(-1, 2):
            w_y, derivative_y, second_y = spline_weights(t.y, j)
            index = first_coefficient + ((base.x + i) * nodes.y + base.y + j) * nodes.z + base.z
            sample_before, sample_here, sample_after = sample[index - 1], sample[index], sample[index + 1]
            f = weight_before * sample_before + weight_here * sample_here + weight_after * sample_after
            derivative_z = derivative_before * sample_before + derivative_here * sample_here + derivative_after * sample_after
            value += w_x * w_y * f
            gradient += vec3(derivative_x * w_y * f, w_x * derivative_y * f, w_x * w_y * derivative_z)
            if with_second:
                diagonal += vec3(
                    second_x * w_y * f, w_x * second_y * f, w_x * w_y * (sample_before - 2 * sample_here + sample_after)
                )
                off_diagonal += vec3(
                    derivative_x * derivative_y * f, derivative_x * w_y * derivative_z, w_x * derivative_y * derivative_z
                )
    hessian = mat3(
        diagonal.x, off_diagonal.x, off_diagonal.y,
        off_diagonal.x, diagonal.y, off_diagonal.z,
        off_diagonal.y, off_diagonal.z, diagonal.z,
    )  # fmt: skip
    return value, gradient / cell, hessian / (cell * cell)


@ti.func
def spline_value(sample: ti.template(), first_coefficient, nodes, u):
    """Value of ``spline_at`` alone."""
    base = ti.cast(ti.floor(u + 0.5), ti.i32)
    t = u - ti.cast(base, float)
    weights_before, weights_here, weights_after = 0.5 * (0.5 - t) * (0.5 - t), 0.75 - t * t, 0.5 * (0.5 + t) * (0.5 + t)
    w_x, w_y = vec3(weights_before.x, weights_here.x, weights_after.x), vec3(weights_before.y, weights_here.y, weights_after.y)
    value, index = 0.0, first_coefficient + ((base.x - 1) * nodes.y + base.y - 1) * nodes.z + base.z
    for i, j in ti.static(ti.ndrange(3, 3)):
        row = index + (i * nodes.y + j) * nodes.z
        value += (
            w_x[i]
            * w_y[j]
            * (weights_before.z * sample[row - 1] + weights_here.z * sample[row] + weights_after.z * sample[row + 1])
        )
    return value


@ti.func
def spline_along(sample: ti.template(), first_coefficient, nodes, cell, u, k):
    """Value of ``spline_at``, and its first and second derivative along a unit vector k [m, 1, 1/m]."""
    base = ti.cast(ti.floor(u + 0.5), ti.i32)
    t, t_rate = u - ti.cast(base, float), k / cell
    total = vec3(0.0)
    for i in range(-1, 2):
        plane_sum = vec3(0.0)
        for j in range(-1, 2):
            index, line_sum = first_coefficient + ((base.x + i) * nodes.y + base.y + j) * nodes.z + base.z, vec3(0.0)
            for m in ti.static(range(-1, 2)):
                line_sum += sample[index + m] * _weights_along(t.z, m, t_rate.z)
            plane_sum += _product(_weights_along(t.y, j, t_rate.y), line_sum)
        total += _product(_weights_along(t.x, i, t_rate.x), plane_sum)
    return total.x, total.y, total.z


@ti.func
def _weights_along(t, side, t_rate):
    """Weight of ``spline_weights`` and its derivatives by a variable of which t changes by ``t_rate``."""
    weight, derivative, second_derivative = spline_weights(t, side)
    return vec3(weight, derivative * t_rate, second_derivative * t_rate * t_rate)


@ti.func
def _product(a, b):
    """Product of two functions of one variable, each given as value, first and second derivative."""
    return vec3(a.x * b.x, a.x * b.y + a.y * b.x, a.x * b.z + 2 * a.y * b.y + a.z * b.x)


@ti.func
def grid_distance(sample: ti.template(), first_coefficient, nodes, low, cell, x, max_distance, with_second):
    """Distance of a solid at a point, the direction away from it, and their derivatives.

    Args:
        sample, first_coefficient, nodes, cell: as in ``spline_at``.
        low: first node [m].
        x: point in the frame of the field [m].
        max_distance: distance from the grid beyond which a point is out of range [m].
        with_second: whether to compute the derivatives; zeros otherwise.

    Returns:
        (distance [m], direction [1]: the gradient of the distance in the grid and a unit vector beyond it, derivative of the
        distance by x, matrix that maps the adjoint of the direction to that of x [1/m]); a large distance and zeros out of range.
    """
    u, offset_outside = closest_grid_point(nodes, low, cell, x)
    distance, direction, distance_gradient, direction_jacobian = _OUT_OF_RANGE, vec3(0.0), vec3(0.0), mat3(0.0)
    squared_outside = offset_outside.dot(offset_outside)
    if squared_outside == 0 or squared_outside < max_distance * max_distance:
        value, gradient, hessian = spline_at(sample, first_coefficient, nodes, cell, u, with_second)
        distance, direction, distance_gradient, direction_jacobian = value, gradient, gradient, hessian
        if squared_outside > 0:
            squared_gradient, inverse_norm = gradient.dot(gradient), 0.0
            if squared_gradient > _MIN_SQUARED_GRADIENT:
                inverse_norm = 1 / ti.sqrt(squared_gradient)
            normal = gradient * inverse_norm
            surface_offset = value * normal + offset_outside
            distance = surface_offset.norm()
            direction = surface_offset / distance
            if with_second:
                # Maps the adjoint of ``surface_offset`` to that of x.
                surface_jacobian = outer(gradient, normal) + value * inverse_norm * (hessian - outer(hessian @ normal, normal))
                for k in ti.static(range(3)):
                    if offset_outside[k] != 0:
                        for m in ti.static(range(3)):
                            surface_jacobian[k, m] = 1.0 if ti.static(k == m) else 0.0
                distance_gradient = surface_jacobian @ direction
                direction_jacobian = (surface_jacobian - outer(distance_gradient, direction)) / distance
    return distance, direction, distance_gradient, direction_jacobian
