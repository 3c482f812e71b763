"""Advection by the velocity of a staggered grid: values are those of the places that the flow comes from.

Stam, Stable Fluids, SIGGRAPH 1999. Values between the nodes are bilinear, or cubic by Hermite's formula. Fields lie at the
centres of the cells, or at the faces across x or y. Beyond the walls they are mirrored; velocities across a wall change sign.
No scheme takes bounds from the cell in which a path ends: motions are continuous in the flow. Kernels and their
adjoints stand beside each other.
"""

from ti_sim.base.bundles import Array, Number, Static, bundle, kernel
from ti_sim.base.differentiable import Differentiable, differentiable
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec2, vec4

CENTRE, FACE_X, FACE_Y = range(3)  # where a field lies
SMALL = 0.03**2  # squared difference of density between cells, below which its slope is not limited [1]


@bundle
class Flow:
    """Velocities at the faces [m/s], [B, X + 1, Y] and [B, X, Y + 1], or their adjoints."""

    x: Array
    y: Array


@bundle
class GridPoints:
    """Where the values of a field lie.

    Attributes:
        kind: ``CENTRE``, ``FACE_X`` or ``FACE_Y``.
        open: 1 where values are kept and 0 where they are zero, in the field's shape without B.
        scale: dt over the side of a cell [s/m]; negative to follow the flow forward.
    """

    kind: Static
    open: Array
    scale: Number

    @property
    def curve(self) -> Differentiable:
        """Interpolation of ``advect_cubic``: limited at the centres."""
        return limited_cubic if self.kind == CENTRE else cubic


@ti.func
def velocity_at(kind: ti.template(), flow: ti.template(), b, i, j):
    """Velocity [m/s] where value (i, j) of a field of this kind lies, the mean of the faces around; zero beyond the walls."""
    u = vec2(0.0)
    if ti.static(kind == CENTRE):
        u = 0.5 * vec2(flow.x[b, i, j] + flow.x[b, i + 1, j], flow.y[b, i, j] + flow.y[b, i, j + 1])
    elif ti.static(kind == FACE_X):
        u[0] = flow.x[b, i, j]
        for k, m in ti.static(ti.ndrange(2, 2)):
            if 0 <= i - 1 + k < flow.y.shape[1]:
                u[1] += 0.25 * flow.y[b, i - 1 + k, j + m]
    else:
        u[1] = flow.y[b, i, j]
        for k, m in ti.static(ti.ndrange(2, 2)):
            if 0 <= j - 1 + m < flow.x.shape[2]:
                u[0] += 0.25 * flow.x[b, i + k, j - 1 + m]
    return u


@ti.func
def velocity_at_adjoint(kind: ti.template(), bar: ti.template(), b, i, j, u_bar):
    """Adjoint of ``velocity_at``: adds to the adjoints of the velocities at the faces."""
    if ti.static(kind == CENTRE):
        for k in ti.static(range(2)):
            bar.x[b, i + k, j] += 0.5 * u_bar[0]
            bar.y[b, i, j + k] += 0.5 * u_bar[1]
    elif ti.static(kind == FACE_X):
        bar.x[b, i, j] += u_bar[0]
        for k, m in ti.static(ti.ndrange(2, 2)):
            if 0 <= i - 1 + k < bar.y.shape[1]:
                bar.y[b, i - 1 + k, j + m] += 0.25 * u_bar[1]
    else:
        bar.y[b, i, j] += u_bar[1]
        for k, m in ti.static(ti.ndrange(2, 2)):
            if 0 <= j - 1 + m < bar.x.shape[2]:
                bar.x[b, i + k, j - 1 + m] += 0.25 * u_bar[0]


@ti.func
def trace_back(grid_points: ti.template(), flow: ti.template(), shape: ti.template(), b, i, j):
    """Where value (i, j) comes from, held at the walls.

    Returns:
        (its lower left node, the parts of a cell beyond it, 0 for axes along which the path is held and 1 otherwise).
    """
    u = velocity_at(grid_points.kind, flow, b, i, j)
    position = vec2(i, j) - grid_points.scale * u
    free = vec2(1.0)
    node = ti.Vector([0, 0])
    for axis in ti.static(range(2)):
        on_wall = ti.static(grid_points.kind == axis + 1)  # of the outermost nodes; the others are half a cell away
        lower_bound = ti.static(0.0 if on_wall else -0.5)
        upper_bound = shape[axis + 1] - 1 - lower_bound
        if position[axis] < lower_bound:
            position[axis], free[axis] = lower_bound, 0.0
        elif position[axis] > upper_bound:
            position[axis], free[axis] = upper_bound, 0.0
        first, last = ti.static(0 if on_wall else -1), shape[axis + 1] - (2 if ti.static(on_wall) else 1)
        node[axis] = ti.max(first, ti.min(int(ti.floor(position[axis])), last))  # both ends: a position may be no number
    return node, position - node, free


@ti.func
def mirrored(on_wall: ti.template(), index, count):
    """Index of a node within an axis of ``count`` nodes, mirrored at the walls, and the sign of its value."""
    sign = 1.0
    if ti.static(on_wall):
        if index < 0:
            index, sign = -index, -1.0
        elif index > count - 1:
            index, sign = 2 * (count - 1) - index, -1.0
    else:
        if index < 0:
            index = -1 - index
        elif index > count - 1:
            index = 2 * count - 1 - index
    return index, sign


@kernel
def advect(grid_points: GridPoints, flow: Flow, field: ti.types.ndarray(), result: ti.types.ndarray()):
    """result = field where the flow comes from, bilinear, and 0 where the place is closed; fields [B, ., .]."""
    for b, i, j in result:
        value = 0.0
        if grid_points.open[i, j] > 0:
            node, fraction, _ = trace_back(grid_points, flow, field.shape, b, i, j)
            for k, m in ti.static(ti.ndrange(2, 2)):
                x, _x = mirrored(grid_points.kind == FACE_X, node[0] + k, field.shape[1])
                y, _y = mirrored(grid_points.kind == FACE_Y, node[1] + m, field.shape[2])
                value += (fraction[0] if k else 1 - fraction[0]) * (fraction[1] if m else 1 - fraction[1]) * field[b, x, y]
        result[b, i, j] = value


@kernel
def advect_adjoint(
    grid_points: GridPoints, flow: Flow, field: ti.types.ndarray(), result_bar: ti.types.ndarray(), flow_bar: Flow,
    field_bar: ti.types.ndarray(),
):  # fmt: skip
    """Adjoint of ``advect``: adds to those of the flow and of the field. Where a path begins at a node, slopes are one-sided."""
    for b, i, j in result_bar:
        if grid_points.open[i, j] > 0:
            bar = result_bar[b, i, j]
            node, fraction, free = trace_back(grid_points, flow, field.shape, b, i, j)
            gradient = vec2(0.0)
            for k, m in ti.static(ti.ndrange(2, 2)):
                x, _x = mirrored(grid_points.kind == FACE_X, node[0] + k, field.shape[1])
                y, _y = mirrored(grid_points.kind == FACE_Y, node[1] + m, field.shape[2])
                along_x, along_y = (fraction[0] if k else 1 - fraction[0]), (fraction[1] if m else 1 - fraction[1])
                field_bar[b, x, y] += bar * along_x * along_y
                gradient[0] += (1.0 if k else -1.0) * along_y * field[b, x, y]
                gradient[1] += (1.0 if m else -1.0) * along_x * field[b, x, y]
            velocity_at_adjoint(grid_points.kind, flow_bar, b, i, j, -grid_points.scale * bar * free * gradient)


def _hermite(values, fraction, slope):
    """Cubic from the second to the third of four values, with these slopes at both."""
    before, middle, after = values[1] - values[0], values[2] - values[1], values[3] - values[2]
    first, second = slope(before, middle), slope(middle, after)
    cubic_factor = first + second - 2.0 * middle
    return values[1] + fraction * (first + fraction * (3.0 * middle - 2.0 * first - second + fraction * cubic_factor))


@differentiable()
def cubic(values, fraction):
    """Value between the second and the third of four values: Catmull and Rom's cubic."""
    return _hermite(values, fraction, lambda a, b: 0.5 * (a + b))


@differentiable()
def limited_cubic(values, fraction):
    """Cubic whose slopes are those of van Albada et al., Astron. Astrophys. 108, 1982: smooth, and hardly outside the values.

    Differences far below the root of ``SMALL`` have the slopes of ``cubic``, so that there is a derivative where all are equal.
    """

    def slope(a, b):
        aa, bb = a * a + SMALL, b * b + SMALL
        return (a * bb + b * aa) / (aa + bb)

    return _hermite(values, fraction, slope)


@ti.func
def values_along_y(grid_points: ti.template(), field: ti.template(), b, x, sign, first):
    """Four values of a field from node (x, first) on along y, times a sign."""
    values = vec4(0.0)
    for m in ti.static(range(4)):
        y, y_sign = mirrored(grid_points.kind == FACE_Y, first + m, field.shape[2])
        values[m] = sign * y_sign * field[b, x, y]
    return values


@ti.func
def values_along_x(grid_points: ti.template(), field: ti.template(), b, node, fraction):
    """Four values of a field from a node on along x, each interpolated along y."""
    values = vec4(0.0)
    for k in ti.static(range(4)):
        x, sign = mirrored(grid_points.kind == FACE_X, node[0] - 1 + k, field.shape[1])
        values[k] = grid_points.curve.value(values_along_y(grid_points, field, b, x, sign, node[1] - 1), fraction[1])
    return values


@kernel
def advect_cubic(grid_points: GridPoints, flow: Flow, field: ti.types.ndarray(), result: ti.types.ndarray()):
    """As ``advect``, cubic along y and then along x; what lies at the centres is limited."""
    for b, i, j in result:
        value = 0.0
        if grid_points.open[i, j] > 0:
            node, fraction, _ = trace_back(grid_points, flow, field.shape, b, i, j)
            value = grid_points.curve.value(values_along_x(grid_points, field, b, node, fraction), fraction[0])
        result[b, i, j] = value


@kernel
def advect_cubic_adjoint(
    grid_points: GridPoints, flow: Flow, field: ti.types.ndarray(), result_bar: ti.types.ndarray(), flow_bar: Flow,
    field_bar: ti.types.ndarray(),
):  # fmt: skip
    """Adjoint of ``advect_cubic``: adds to those of the flow and of the field."""
    for b, i, j in result_bar:
        if grid_points.open[i, j] > 0:
            node, fraction, free = trace_back(grid_points, flow, field.shape, b, i, j)
            rows, part_bar = values_along_x(grid_points, field, b, node, fraction), vec2(0.0)
            rows_bar, part_bar[0] = grid_points.curve.vjp((rows, fraction[0]), result_bar[b, i, j])
            for k in ti.static(range(4)):
                x, sign = mirrored(grid_points.kind == FACE_X, node[0] - 1 + k, field.shape[1])
                values = values_along_y(grid_points, field, b, x, sign, node[1] - 1)
                values_bar, y_bar = grid_points.curve.vjp((values, fraction[1]), rows_bar[k])
                part_bar[1] += y_bar
                for m in ti.static(range(4)):
                    y, y_sign = mirrored(grid_points.kind == FACE_Y, node[1] - 1 + m, field.shape[2])
                    field_bar[b, x, y] += sign * y_sign * values_bar[m]
            velocity_at_adjoint(grid_points.kind, flow_bar, b, i, j, -grid_points.scale * free * part_bar)


@kernel
def correct(
    grid_points: GridPoints, field: ti.types.ndarray(), forward: ti.types.ndarray(), backward: ti.types.ndarray(),
    result: ti.types.ndarray(),
):  # fmt: skip
    """MacCormack's correction (Selle et al., J. Sci. Comput. 35, 2008) without a limiter: forward + (field - backward) / 2.

    Args:
        grid_points: of the field.
        field: before the step.
        forward: ``advect`` of it.
        backward: ``advect`` of ``forward`` against the flow.
        result: written, 0 where the place is closed.
    """
    for b, i, j in result:
        result[b, i, j] = grid_points.open[i, j] * (forward[b, i, j] + 0.5 * (field[b, i, j] - backward[b, i, j]))


@kernel
def correct_adjoint(
    grid_points: GridPoints, result_bar: ti.types.ndarray(), field_bar: ti.types.ndarray(), ahead_bar: ti.types.ndarray(),
    back_bar: ti.types.ndarray(),
):  # fmt: skip
    """Adjoint of ``correct``: adds to that of the field, and writes those of the others."""
    for b, i, j in result_bar:
        bar = grid_points.open[i, j] * result_bar[b, i, j]
        field_bar[b, i, j] += 0.5 * bar
        ahead_bar[b, i, j] = bar
        back_bar[b, i, j] = -0.5 * bar
