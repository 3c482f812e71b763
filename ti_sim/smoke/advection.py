"""Semi-Lagrangian advection by the velocity of a staggered grid: each value is interpolated where the flow comes from.

Stam, Stable Fluids, SIGGRAPH 1999. Values between the nodes are bilinear, or cubic by Hermite's formula. Fields lie at the
centres of the cells, or at the faces across x or y. Beyond the walls they are mirrored; velocities across a wall change sign.
No scheme takes bounds from the cell in which a path ends: motions are continuous in the flow. Kernels and their
adjoints stand beside each other.
"""

from ti_sim.base.arrays import empty_in_same_library, zeros_in_same_library
from ti_sim.base.bundles import Array, Number, Static, bundle, kernel
from ti_sim.base.differentiable import Differentiable, differentiable
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec2, vec4

CENTRE, FACE_X, FACE_Y = range(3)  # position of the values of a field in the cells
MIN_SQUARED_DIFFERENCE = 0.03**2  # squared difference of density between cells, below which its slope is not limited [1]


@bundle
class Flow:
    """Velocities at the faces [m/s], [B, X + 1, Y] and [B, X, Y + 1], or their adjoints."""

    x: Array
    y: Array


@bundle
class Fields:
    """Density [B, X, Y] and velocities of a step, or their adjoints; or rows of them, [B, rows, ...]."""

    density: Array
    flow: Flow

    def arrays(self) -> tuple[Array, Array, Array]:
        """Density, velocities along x and y."""
        return self.density, self.flow.x, self.flow.y

    def zeros(self) -> "Fields":
        """Zeros of the same shapes."""
        density, x, y = (zeros_in_same_library(field, tuple(field.shape)) for field in self.arrays())
        return Fields(density, Flow(x, y))

    def empty(self) -> "Fields":
        """Uninitialised arrays of the same shapes."""
        density, x, y = (empty_in_same_library(field, tuple(field.shape)) for field in self.arrays())
        return Fields(density, Flow(x, y))


@bundle
class GridPoints:
    """Positions of the values of a field, and the mask of its open ones.

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
    """Start of the path that ends at value (i, j), clamped at the walls.

    Returns:
        (its lower left node, the fractions of a cell beyond this node, 0 for axes along which the path is clamped, else 1).
    """
    u = velocity_at(grid_points.kind, flow, b, i, j)
    position = vec2(i, j) - grid_points.scale * u
    unclamped = vec2(1.0)
    node = ti.Vector([0, 0])
    for axis in ti.static(range(2)):
        on_wall = ti.static(grid_points.kind == axis + 1)  # of the outermost nodes; the others are half a cell away
        lower_bound = ti.static(0.0 if on_wall else -0.5)
        upper_bound = shape[axis + 1] - 1 - lower_bound
        if position[axis] < lower_bound:
            position[axis], unclamped[axis] = lower_bound, 0.0
        elif position[axis] > upper_bound:
            position[axis], unclamped[axis] = upper_bound, 0.0
        first, last = ti.static(0 if on_wall else -1), shape[axis + 1] - (2 if ti.static(on_wall) else 1)
        node[axis] = ti.max(first, ti.min(int(ti.floor(position[axis])), last))  # both bounds: a position may be NaN
    return node, position - node, unclamped


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


@ti.func
def advected_at(grid_points: ti.template(), flow: ti.template(), field: ti.template(), b, i, j):
    """Value of a field at the start of the path that ends at (i, j), bilinear, and 0 at closed positions."""
    value = 0.0
    if grid_points.open[i, j] > 0:
        node, fraction, _ = trace_back(grid_points, flow, field.shape, b, i, j)
        for k, m in ti.static(ti.ndrange(2, 2)):
            x, _x = mirrored(grid_points.kind == FACE_X, node[0] + k, field.shape[1])
            y, _y = mirrored(grid_points.kind == FACE_Y, node[1] + m, field.shape[2])
            value += (fraction[0] if k else 1 - fraction[0]) * (fraction[1] if m else 1 - fraction[1]) * field[b, x, y]
    return value


@kernel
def advect(grid_points: GridPoints, flow: Flow, field: ti.types.ndarray(), result: ti.types.ndarray()):
    """result = field at the start of each path, bilinear, and 0 at closed positions; fields [B, ., .]."""
    for b, i, j in result:
        result[b, i, j] = advected_at(grid_points, flow, field, b, i, j)


@ti.func
def advected_at_adjoint(
    grid_points: ti.template(), flow: ti.template(), field: ti.template(), bar, flow_bar: ti.template(), field_bar: ti.template(),
    b, i, j,
):  # fmt: skip
    """Adjoint of ``advected_at`` from that of its value: adds to those of the flow and of the field."""
    if grid_points.open[i, j] > 0:
        node, fraction, unclamped = trace_back(grid_points, flow, field.shape, b, i, j)
        gradient = vec2(0.0)
        for k, m in ti.static(ti.ndrange(2, 2)):
            x, _x = mirrored(grid_points.kind == FACE_X, node[0] + k, field.shape[1])
            y, _y = mirrored(grid_points.kind == FACE_Y, node[1] + m, field.shape[2])
            weight_x, weight_y = (fraction[0] if k else 1 - fraction[0]), (fraction[1] if m else 1 - fraction[1])
            field_bar[b, x, y] += bar * weight_x * weight_y
            gradient[0] += (1.0 if k else -1.0) * weight_y * field[b, x, y]
            gradient[1] += (1.0 if m else -1.0) * weight_x * field[b, x, y]
        velocity_at_adjoint(grid_points.kind, flow_bar, b, i, j, -grid_points.scale * bar * unclamped * gradient)


@kernel
def advect_adjoint(
    grid_points: GridPoints, flow: Flow, field: ti.types.ndarray(), result_bar: ti.types.ndarray(), flow_bar: Flow,
    field_bar: ti.types.ndarray(),
):  # fmt: skip
    """Adjoint of ``advect``: adds to those of the flow and of the field. At nodes, where slopes jump, it is one-sided."""
    for b, i, j in result_bar:
        advected_at_adjoint(grid_points, flow, field, result_bar[b, i, j], flow_bar, field_bar, b, i, j)


def _hermite(values, fraction, slope):
    """Cubic from the second to the third of four values, with these slopes at both."""
    before, middle, after = values[1] - values[0], values[2] - values[1], values[3] - values[2]
    first_slope, second_slope = slope(before, middle), slope(middle, after)
    cubic_factor = first_slope + second_slope - 2.0 * middle
    return values[1] + fraction * (
        first_slope + fraction * (3.0 * middle - 2.0 * first_slope - second_slope + fraction * cubic_factor)
    )


@differentiable()
def cubic(values, fraction):
    """Value between the second and the third of four values: Catmull and Rom's cubic."""
    return _hermite(values, fraction, lambda a, b: 0.5 * (a + b))


@differentiable()
def limited_cubic(values, fraction):
    """Cubic whose slopes are those of van Albada et al., Astron. Astrophys. 108, 1982: smooth, and hardly outside the values.

    Differences far below the root of ``MIN_SQUARED_DIFFERENCE`` have the slopes of ``cubic``, so that it is differentiable where
    all values are equal.
    """

    def slope(a, b):
        aa, bb = a * a + MIN_SQUARED_DIFFERENCE, b * b + MIN_SQUARED_DIFFERENCE
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


@ti.func
def cubic_at(grid_points: ti.template(), flow: ti.template(), field: ti.template(), b, i, j):
    """As ``advected_at``, cubic along y and then along x; fields at the centres are limited."""
    value = 0.0
    if grid_points.open[i, j] > 0:
        node, fraction, _ = trace_back(grid_points, flow, field.shape, b, i, j)
        value = grid_points.curve.value(values_along_x(grid_points, field, b, node, fraction), fraction[0])
    return value


@kernel
def advect_cubic(grid_points: GridPoints, flow: Flow, field: ti.types.ndarray(), result: ti.types.ndarray()):
    """As ``advect``, cubic along y and then along x; fields at the centres are limited."""
    for b, i, j in result:
        result[b, i, j] = cubic_at(grid_points, flow, field, b, i, j)


@ti.func
def cubic_at_adjoint(
    grid_points: ti.template(), flow: ti.template(), field: ti.template(), bar, flow_bar: ti.template(), field_bar: ti.template(),
    b, i, j,
):  # fmt: skip
    """Adjoint of ``cubic_at`` from that of its value: adds to those of the flow and of the field."""
    if grid_points.open[i, j] > 0:
        node, fraction, unclamped = trace_back(grid_points, flow, field.shape, b, i, j)
        values_x, fraction_bar = values_along_x(grid_points, field, b, node, fraction), vec2(0.0)
        values_x_bar, fraction_bar[0] = grid_points.curve.vjp((values_x, fraction[0]), bar)
        for k in ti.static(range(4)):
            x, sign = mirrored(grid_points.kind == FACE_X, node[0] - 1 + k, field.shape[1])
            values_y = values_along_y(grid_points, field, b, x, sign, node[1] - 1)
            values_y_bar, fraction_y_bar = grid_points.curve.vjp((values_y, fraction[1]), values_x_bar[k])
            fraction_bar[1] += fraction_y_bar
            for m in ti.static(range(4)):
                y, y_sign = mirrored(grid_points.kind == FACE_Y, node[1] - 1 + m, field.shape[2])
                field_bar[b, x, y] += sign * y_sign * values_y_bar[m]
        velocity_at_adjoint(grid_points.kind, flow_bar, b, i, j, -grid_points.scale * unclamped * fraction_bar)


@kernel
def advect_cubic_adjoint(
    grid_points: GridPoints, flow: Flow, field: ti.types.ndarray(), result_bar: ti.types.ndarray(), flow_bar: Flow,
    field_bar: ti.types.ndarray(),
):  # fmt: skip
    """Adjoint of ``advect_cubic``: adds to those of the flow and of the field."""
    for b, i, j in result_bar:
        cubic_at_adjoint(grid_points, flow, field, result_bar[b, i, j], flow_bar, field_bar, b, i, j)


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
        result: receives the corrected field, 0 at closed positions.
    """
    for b, i, j in result:
        result[b, i, j] = grid_points.open[i, j] * (forward[b, i, j] + 0.5 * (field[b, i, j] - backward[b, i, j]))


@kernel
def correct_adjoint(
    grid_points: GridPoints, result_bar: ti.types.ndarray(), field_bar: ti.types.ndarray(), forward_bar: ti.types.ndarray(),
    backward_bar: ti.types.ndarray(),
):  # fmt: skip
    """Adjoint of ``correct``: adds to that of the field, and writes those of the others."""
    for b, i, j in result_bar:
        bar = grid_points.open[i, j] * result_bar[b, i, j]
        field_bar[b, i, j] += 0.5 * bar
        forward_bar[b, i, j] = bar
        backward_bar[b, i, j] = -0.5 * bar
