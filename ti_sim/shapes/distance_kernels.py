"""Distance and normal of a sampled solid at a point, and their adjoint (Taichi functions); see ``distance`` for the field.

Inside the grid the gap is the spline's value and the normal its gradient, scaled to length one. A point beyond the grid, whose
outermost nodes lie outside the solid, is looked at from the closest point p of the grid: the closest surface point of p, along
the normal there, stands for that of the point. Both are continuous; the normal is zero where the gradient vanishes, deep inside.
"""

from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import mat3, outer, vec3

_LEAST = 1e-6  # square of the gradient's length [1] that counts as none
_FAR = 1e9  # gap of points beyond reach [m]


@ti.func
def spline_weights(t, side):
    """Weight of the quadratic B-spline about the node before (side -1), at (0) or after (1) a point at t in [-1/2, 1/2] of a
    node, and its first and second derivative by t."""
    reach = 0.5 + side * t
    weight, slope, bend = 0.5 * reach * reach, side * reach, 1.0
    if side == 0:
        weight, slope, bend = 0.75 - t * t, -2 * t, -2.0
    return weight, slope, bend


@ti.func
def grid_place(nodes, low, cell, x):
    """(Closest point of the grid to x in nodes from the first one, x less that point [m])."""
    u = (x - low) / cell
    held = u
    for k in ti.static(range(3)):
        held[k] = ti.max(1.0, ti.min(u[k], nodes[k] - 2.0))
    return held, cell * (u - held)


@ti.func
def spline_at(sample: ti.template(), first, nodes, cell, u, second: ti.template()):
    """Value [m], gradient [1] and, if ``second``, matrix of second derivatives [1/m] of a field at a place u of its grid.

    Args:
        sample: coefficients of all fields in a row.
        first: number of the field's first one.
        nodes: along x, y, z.
        cell: distance of nodes [m].
        u: place in nodes from the first one.
        second: whether second derivatives are wanted; zeros otherwise.
    """
    base = ti.cast(ti.floor(u + 0.5), ti.i32)
    t = u - ti.cast(base, float)
    before_z, before_slope, _bend = spline_weights(t.z, -1)
    here_z, here_slope, _bend = spline_weights(t.z, 0)
    after_z, after_slope, _bend = spline_weights(t.z, 1)
    value, gradient, squares, mixed = 0.0, vec3(0.0), vec3(0.0), vec3(0.0)
    for i in range(-1, 2):  # not unrolled, as that takes long to compile
        w_x, slope_x, bend_x = spline_weights(t.x, i)
        for j in range(-1, 2):
            w_y, slope_y, bend_y = spline_weights(t.y, j)
            at = first + ((base.x + i) * nodes.y + base.y + j) * nodes.z + base.z
            before, here, after = sample[at - 1], sample[at], sample[at + 1]
            f = before_z * before + here_z * here + after_z * after
            slope_z = before_slope * before + here_slope * here + after_slope * after
            value += w_x * w_y * f
            gradient += vec3(slope_x * w_y * f, w_x * slope_y * f, w_x * w_y * slope_z)
            if ti.static(second):
                squares += vec3(bend_x * w_y * f, w_x * bend_y * f, w_x * w_y * (before - 2 * here + after))
                mixed += vec3(slope_x * slope_y * f, slope_x * w_y * slope_z, w_x * slope_y * slope_z)
    hessian = mat3(
        squares.x, mixed.x, mixed.y,
        mixed.x, squares.y, mixed.z,
        mixed.y, mixed.z, squares.z,
    )  # fmt: skip
    return value, gradient / cell, hessian / (cell * cell)


@ti.func
def grid_distance(sample: ti.template(), first, nodes, low, cell, x, reach):
    """Distance and normal of a solid at a point.

    Args:
        sample: coefficients of all fields in a row.
        first: number of the field's first one.
        nodes: along x, y, z.
        low: first node [m].
        cell: distance of nodes [m].
        x: the point, in the field's frame [m].
        reach: distance beyond the grid from which on the point does not matter [m].

    Returns:
        (gap [m], unit normal out of the solid): a large gap and no normal beyond reach.
    """
    u, beyond = grid_place(nodes, low, cell, x)
    gap, normal = _FAR, vec3(0.0)
    outside = beyond.dot(beyond)
    if outside == 0 or outside < reach * reach:
        value, gradient, _ = spline_at(sample, first, nodes, cell, u, False)
        squared = gradient.dot(gradient)
        gap = value
        if squared > _LEAST:
            normal = gradient / ti.sqrt(squared)
        if outside > 0:
            away = value * normal + beyond
            gap = away.norm()
            normal = away / gap
    return gap, normal


@ti.func
def grid_distance_slopes(sample: ti.template(), first, nodes, low, cell, x):
    """``grid_distance`` of a point within reach, and its derivatives.

    Returns:
        (gap [m], unit normal, derivative of the gap by x, matrix that takes the normal's adjoint to that of x [1/m]).
    """
    u, beyond = grid_place(nodes, low, cell, x)
    value, gradient, hessian = spline_at(sample, first, nodes, cell, u, True)
    squared = gradient.dot(gradient)
    inverse = 0.0
    if squared > _LEAST:
        inverse = 1 / ti.sqrt(squared)
    normal = gradient * inverse
    bend = inverse * (hessian - outer(hessian @ normal, normal))
    gap, slope = value, gradient
    if beyond.dot(beyond) > 0:
        away = value * normal + beyond
        gap = away.norm()
        moved = outer(gradient, normal) + value * bend  # takes the adjoint of ``away`` to that of x
        for k in ti.static(range(3)):
            if beyond[k] != 0:
                for m in ti.static(range(3)):
                    moved[k, m] = 1.0 if ti.static(k == m) else 0.0
        normal = away / gap
        slope = moved @ normal
        bend = (moved - outer(slope, normal)) / gap
    return gap, normal, slope, bend


@ti.func
def grid_distance_adjoint(sample: ti.template(), first, nodes, low, cell, x, gap_bar, normal_bar):
    """Adjoint of ``grid_distance``: that of x. Points beyond reach have none and must not be asked for."""
    _gap, _normal, slope, bend = grid_distance_slopes(sample, first, nodes, low, cell, x)
    return gap_bar * slope + bend @ normal_bar
