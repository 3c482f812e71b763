"""Advection by the velocity of a staggered grid: values are those of the places that the flow comes from.

Stam, Stable Fluids, SIGGRAPH 1999; the correction of second order is that of Selle et al., J. Sci. Comput. 35, 2008. Fields lie
at the centres of the cells, or at the faces across x or y. Kernels and their adjoints stand beside each other; derivatives with
respect to the velocity are those of bilinear interpolation, one-sided where a path begins at a node or is held at the wall.
"""

from ti_sim.base.bundles import Array, Number, Static, bundle, kernel
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec2

CENTRE, FACE_X, FACE_Y = range(3)  # where a field lies


@bundle
class Flow:
    """Velocities at the faces [m/s], [B, X + 1, Y] and [B, X, Y + 1], or their adjoints."""

    x: Array
    y: Array


@bundle
class Place:
    """Where the values of a field lie.

    Attributes:
        kind: ``CENTRE``, ``FACE_X`` or ``FACE_Y``.
        open: 1 where values are kept and 0 where they are zero, in the field's shape without B.
        counted: 1 where values take part in interpolation and 0 inside obstacles.
        scale: dt over the side of a cell [s/m]; negative to follow the flow forward.
    """

    kind: Static
    open: Array
    counted: Array
    scale: Number


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
def traced(place: ti.template(), flow: ti.template(), shape: ti.template(), b, i, j):
    """Where value (i, j) comes from: its lower left node, the parts of a cell beyond it, and 0 for axes along which the path is
    held at the outermost nodes (1 otherwise)."""
    u = velocity_at(place.kind, flow, b, i, j)
    at = vec2(i, j) - place.scale * u
    free = vec2(1.0)
    node = ti.Vector([0, 0])
    for axis in ti.static(range(2)):
        most = shape[axis + 1] - 1
        if at[axis] < 0:
            at[axis], free[axis] = 0.0, 0.0
        elif at[axis] > most:
            at[axis], free[axis] = most, 0.0
        node[axis] = ti.max(0, ti.min(int(ti.floor(at[axis])), most - 1))  # both ends: a place may be no number
    return node, at - node, free


@ti.func
def weight_of(place: ti.template(), node, part, k, m):
    """Bilinear weight of node (k, m) of a cell, 0 inside an obstacle."""
    return (part[0] if k else 1 - part[0]) * (part[1] if m else 1 - part[1]) * place.counted[node[0] + k, node[1] + m]


@kernel
def advect(place: Place, flow: Flow, field: ti.types.ndarray(), result: ti.types.ndarray()):
    """result = field where the flow comes from, 0 where the place is closed; fields [B, ., .].

    Nodes inside obstacles do not take part, as those beyond the walls of the box: the weights of the others are scaled to a sum
    of one. A path that ends inside an obstacle keeps the value.
    """
    for b, i, j in result:
        value = 0.0
        if place.open[i, j] > 0:
            node, part, _ = traced(place, flow, field.shape, b, i, j)
            total = 0.0
            for k, m in ti.static(ti.ndrange(2, 2)):
                weight = weight_of(place, node, part, k, m)
                total += weight
                value += weight * field[b, node[0] + k, node[1] + m]
            value = value / total if total > 0 else field[b, i, j]
        result[b, i, j] = value


@kernel
def advect_adjoint(
    place: Place, flow: Flow, field: ti.types.ndarray(), result_bar: ti.types.ndarray(), flow_bar: Flow,
    field_bar: ti.types.ndarray(),
):  # fmt: skip
    """Adjoint of ``advect``: adds to those of the flow and of the field."""
    for b, i, j in result_bar:
        if place.open[i, j] > 0:
            bar = result_bar[b, i, j]
            node, part, free = traced(place, flow, field.shape, b, i, j)
            total, mean = 0.0, 0.0
            for k, m in ti.static(ti.ndrange(2, 2)):
                weight = weight_of(place, node, part, k, m)
                total += weight
                mean += weight * field[b, node[0] + k, node[1] + m]
            if total > 0:
                mean /= total
                slope = vec2(0.0)
                for k, m in ti.static(ti.ndrange(2, 2)):
                    field_bar[b, node[0] + k, node[1] + m] += bar * weight_of(place, node, part, k, m) / total
                    away = (field[b, node[0] + k, node[1] + m] - mean) * place.counted[node[0] + k, node[1] + m]
                    slope[0] += away * (1.0 if k else -1.0) * (part[1] if m else 1 - part[1])
                    slope[1] += away * (1.0 if m else -1.0) * (part[0] if k else 1 - part[0])
                velocity_at_adjoint(place.kind, flow_bar, b, i, j, -place.scale * bar / total * free * slope)
            else:
                field_bar[b, i, j] += bar


@kernel
def correct(
    place: Place, flow: Flow, field: ti.types.ndarray(), ahead: ti.types.ndarray(), back: ti.types.ndarray(),
    result: ti.types.ndarray(),
):  # fmt: skip
    """MacCormack's correction: result = ahead + (field - back) / 2, within the values around the place that is traced back to.

    Args:
        place: of the field.
        flow: what advects.
        field: before the step.
        ahead: ``advect`` of it.
        back: ``advect`` of ``ahead`` against the flow.
        result: written.
    """
    for b, i, j in result:
        value = 0.0
        if place.open[i, j] > 0:
            node, _part, _free = traced(place, flow, field.shape, b, i, j)
            least, most = ahead[b, i, j], ahead[b, i, j]  # between the others, or the value itself where no other counts
            for k, m in ti.static(ti.ndrange(2, 2)):
                if place.counted[node[0] + k, node[1] + m] > 0:
                    least = ti.min(least, field[b, node[0] + k, node[1] + m])
                    most = ti.max(most, field[b, node[0] + k, node[1] + m])
            value = ti.min(ti.max(ahead[b, i, j] + 0.5 * (field[b, i, j] - back[b, i, j]), least), most)
        result[b, i, j] = value


@kernel
def correct_adjoint(
    place: Place, flow: Flow, field: ti.types.ndarray(), ahead: ti.types.ndarray(), back: ti.types.ndarray(),
    result_bar: ti.types.ndarray(), field_bar: ti.types.ndarray(), ahead_bar: ti.types.ndarray(),
    back_bar: ti.types.ndarray(),
):  # fmt: skip
    """Adjoint of ``correct``: adds to those of the three fields; where the result is limited, to that of the limiting value."""
    for b, i, j in result_bar:
        if place.open[i, j] > 0:
            bar = result_bar[b, i, j]
            node, _part, _free = traced(place, flow, field.shape, b, i, j)
            least, most = ahead[b, i, j], ahead[b, i, j]
            low, high = ti.Vector([-1, -1]), ti.Vector([-1, -1])  # of the limiting nodes; none is below 0
            for k, m in ti.static(ti.ndrange(2, 2)):
                value = field[b, node[0] + k, node[1] + m]
                if place.counted[node[0] + k, node[1] + m] > 0:
                    if value < least:
                        least, low = value, ti.Vector([node[0] + k, node[1] + m])
                    if value > most:
                        most, high = value, ti.Vector([node[0] + k, node[1] + m])
            wanted = ahead[b, i, j] + 0.5 * (field[b, i, j] - back[b, i, j])
            if wanted < least:
                if low[0] >= 0:
                    field_bar[b, low[0], low[1]] += bar
                else:
                    ahead_bar[b, i, j] += bar
            elif wanted > most:
                if high[0] >= 0:
                    field_bar[b, high[0], high[1]] += bar
                else:
                    ahead_bar[b, i, j] += bar
            else:
                ahead_bar[b, i, j] += bar
                field_bar[b, i, j] += 0.5 * bar
                back_bar[b, i, j] -= 0.5 * bar
