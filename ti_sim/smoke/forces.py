"""Sources, buoyancy, viscosity and vorticity confinement of a step, each with its adjoint."""

from ti_sim.base.bundles import Array, Number, bundle, kernel
from ti_sim.base.differentiable import differentiable, sqrt
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec2
from ti_sim.smoke.advection import Flow

MIN_VORTICITY = 1e-3  # 1/s: vorticity, and its difference between cells, below which confinement fades out


@bundle
class Grid:
    """The grid, and the numbers of a step.

    Attributes:
        open, open_x, open_y: 1 where smoke is, and where it moves across a face; [X, Y], [X + 1, Y], [X, Y + 1].
        beside_x, beside_y: 0 for faces between two closed cells, inside obstacles; 1 for all others, including walls.
        dt: s.
        cell: side of a cell [m].
    """

    open: Array
    open_x: Array
    open_y: Array
    beside_x: Array
    beside_y: Array
    dt: Number
    cell: Number


@kernel
def add_source(grid: Grid, source: ti.types.ndarray(), frame: int, density: ti.types.ndarray()):
    """density += dt source of a frame interval, in open cells."""
    for b, i, j in density:
        density[b, i, j] += grid.dt * source[b, frame, i, j] * grid.open[i, j]


@kernel
def add_source_adjoint(grid: Grid, density_bar: ti.types.ndarray(), frame: int, source_bar: ti.types.ndarray()):
    """Adjoint of ``add_source``: adds to that of the source."""
    for b, i, j in density_bar:
        source_bar[b, frame, i, j] += grid.dt * density_bar[b, i, j] * grid.open[i, j]


@ti.func
def laplacian(field: ti.template(), neighbour_open: ti.template(), b, i, j):
    """Sum of the differences to four neighbours; walls and obstacles are frictionless: neighbours inside them are left out."""
    centre, total = field[b, i, j], 0.0
    if i > 0:
        total += neighbour_open[i - 1, j] * (field[b, i - 1, j] - centre)
    if i < field.shape[1] - 1:
        total += neighbour_open[i + 1, j] * (field[b, i + 1, j] - centre)
    if j > 0:
        total += neighbour_open[i, j - 1] * (field[b, i, j - 1] - centre)
    if j < field.shape[2] - 1:
        total += neighbour_open[i, j + 1] * (field[b, i, j + 1] - centre)
    return total


@ti.func
def accelerated_x(grid: ti.template(), flow: ti.template(), viscosity: ti.template(), b, i, j):
    """Velocity along x after ``accelerate``."""
    factor = viscosity[b] * grid.dt / (grid.cell * grid.cell)
    return grid.open_x[i, j] * (flow.x[b, i, j] + factor * laplacian(flow.x, grid.beside_x, b, i, j))


@ti.func
def accelerated_y(
    grid: ti.template(), flow: ti.template(), density: ti.template(), buoyancy: ti.template(), viscosity: ti.template(), b, i, j
):
    """Velocity along y after ``accelerate``."""
    value = 0.0
    if grid.open_y[i, j] > 0:
        factor = viscosity[b] * grid.dt / (grid.cell * grid.cell)
        face_density = 0.5 * (density[b, i, j - 1] + density[b, i, j])
        value = flow.y[b, i, j] + factor * laplacian(flow.y, grid.beside_y, b, i, j) + grid.dt * buoyancy[b] * face_density
    return value


@kernel
def accelerate(
    grid: Grid, flow: Flow, density: ti.types.ndarray(), buoyancy: ti.types.ndarray(), viscosity: ti.types.ndarray(),
    result: Flow,
):  # fmt: skip
    """result = flow + dt (viscosity times its Laplacian + buoyancy of the smoke at the face), 0 at closed faces."""
    for b, i, j in result.x:
        result.x[b, i, j] = accelerated_x(grid, flow, viscosity, b, i, j)
    for b, i, j in result.y:
        result.y[b, i, j] = accelerated_y(grid, flow, density, buoyancy, viscosity, b, i, j)


@ti.func
def viscosity_adjoint(open_faces: ti.template(), neighbour_open: ti.template(), bar: ti.template(), b, i, j, factor):
    """Adjoint of a velocity at face (i, j) from the adjoints of the accelerated velocities at the face and at its neighbours."""
    centre = open_faces[i, j] * bar[b, i, j]
    total = 0.0
    if i > 0:
        total += open_faces[i - 1, j] * bar[b, i - 1, j] - neighbour_open[i - 1, j] * centre
    if i < bar.shape[1] - 1:
        total += open_faces[i + 1, j] * bar[b, i + 1, j] - neighbour_open[i + 1, j] * centre
    if j > 0:
        total += open_faces[i, j - 1] * bar[b, i, j - 1] - neighbour_open[i, j - 1] * centre
    if j < bar.shape[2] - 1:
        total += open_faces[i, j + 1] * bar[b, i, j + 1] - neighbour_open[i, j + 1] * centre
    return centre + factor * neighbour_open[i, j] * total


@ti.func
def accelerated_x_adjoint(
    grid: ti.template(), flow: ti.template(), viscosity: ti.template(), result_bar: ti.template(), flow_bar: ti.template(),
    b, i, j,
):  # fmt: skip
    """Adjoint of ``accelerated_x``: writes that of the flow.

    Returns:
        Adjoint of the viscosity.
    """
    factor = grid.dt / (grid.cell * grid.cell)
    flow_bar.x[b, i, j] = viscosity_adjoint(grid.open_x, grid.beside_x, result_bar.x, b, i, j, viscosity[b] * factor)
    return grid.open_x[i, j] * result_bar.x[b, i, j] * factor * laplacian(flow.x, grid.beside_x, b, i, j)


@ti.func
def accelerated_y_adjoint(
    grid: ti.template(), flow: ti.template(), density: ti.template(), buoyancy: ti.template(), viscosity: ti.template(),
    result_bar: ti.template(), flow_bar: ti.template(), density_bar: ti.template(), b, i, j,
):  # fmt: skip
    """Adjoint of ``accelerated_y``: writes that of the flow, and adds to that of the density.

    Returns:
        Adjoints of the viscosity and of the buoyancy.
    """
    viscosity_bar, buoyancy_bar = 0.0, 0.0
    factor = grid.dt / (grid.cell * grid.cell)
    flow_bar.y[b, i, j] = viscosity_adjoint(grid.open_y, grid.beside_y, result_bar.y, b, i, j, viscosity[b] * factor)
    if grid.open_y[i, j] > 0:
        bar = result_bar.y[b, i, j]
        viscosity_bar = bar * factor * laplacian(flow.y, grid.beside_y, b, i, j)
        buoyancy_bar = bar * grid.dt * 0.5 * (density[b, i, j - 1] + density[b, i, j])
        density_bar[b, i, j - 1] += 0.5 * grid.dt * buoyancy[b] * bar
        density_bar[b, i, j] += 0.5 * grid.dt * buoyancy[b] * bar
    return viscosity_bar, buoyancy_bar


@kernel
def accelerate_adjoint(
    grid: Grid, flow: Flow, density: ti.types.ndarray(), buoyancy: ti.types.ndarray(), viscosity: ti.types.ndarray(),
    result_bar: Flow, flow_bar: Flow, density_bar: ti.types.ndarray(), buoyancy_bar: ti.types.ndarray(),
    viscosity_bar: ti.types.ndarray(),
):  # fmt: skip
    """Adjoint of ``accelerate``: writes that of the flow, and adds to the others."""
    for b, i, j in flow_bar.x:
        viscosity_bar[b] += accelerated_x_adjoint(grid, flow, viscosity, result_bar, flow_bar, b, i, j)
    for b, i, j in flow_bar.y:
        viscosity_part, buoyancy_part = accelerated_y_adjoint(
            grid, flow, density, buoyancy, viscosity, result_bar, flow_bar, density_bar, b, i, j
        )
        viscosity_bar[b] += viscosity_part
        buoyancy_bar[b] += buoyancy_part


# -- vorticity confinement (Fedkiw, Stam and Jensen, SIGGRAPH 2001, equations 9 to 11) ---


@differentiable()
def confining(left, right, below, above, centre, strength):
    """Confinement acceleration (x, y) times dt [m/s], from the vorticity [1/s] of a cell and of its four neighbours.

    ``strength`` is epsilon h dt [m s]. The length of a vector v is sqrt(v^2 + MIN_VORTICITY^2), which is differentiable at zero.
    """
    def smooth_abs(vorticity):
        return sqrt(vorticity * vorticity + MIN_VORTICITY * MIN_VORTICITY)

    x, y = smooth_abs(right) - smooth_abs(left), smooth_abs(above) - smooth_abs(below)
    length = sqrt(x * x + y * y + MIN_VORTICITY * MIN_VORTICITY)
    return strength * (y / length) * centre, -(strength * (x / length) * centre)


@ti.func
def is_inside(cells: ti.template(), i, j):
    """Whether a cell and the four around it are open."""
    is_open = 0
    if 0 < i < cells.shape[0] - 1 and 0 < j < cells.shape[1] - 1:
        if cells[i, j] * cells[i - 1, j] * cells[i + 1, j] * cells[i, j - 1] * cells[i, j + 1] > 0:
            is_open = 1
    return is_open


@ti.func
def vorticity_at(grid: ti.template(), flow: ti.template(), b, i, j):
    """Vorticity [1/s] in cell (i, j) from the velocities in the cells around; zero beside walls and obstacles."""
    total = 0.0
    if is_inside(grid.open, i, j) == 1:
        for k in ti.static(range(2)):
            total += flow.y[b, i + 1, j + k] - flow.y[b, i - 1, j + k]
            total -= flow.x[b, i + k, j + 1] - flow.x[b, i + k, j - 1]
    return total / (4 * grid.cell)


@kernel
def curl(grid: Grid, flow: Flow, vorticity: ti.types.ndarray()):
    """vorticity [B, X, Y] of the flow [1/s], zero in the cells beside walls and obstacles."""
    for b, i, j in vorticity:
        vorticity[b, i, j] = vorticity_at(grid, flow, b, i, j)


@ti.func
def vorticity_at_adjoint(grid: ti.template(), vorticity_bar: ti.template(), flow_bar: ti.template(), b, i, j):
    """Adjoint of ``vorticity_at``: adds to that of the flow."""
    if is_inside(grid.open, i, j) == 1:
        bar = vorticity_bar[b, i, j] / (4 * grid.cell)
        for k in ti.static(range(2)):
            flow_bar.y[b, i + 1, j + k] += bar
            flow_bar.y[b, i - 1, j + k] -= bar
            flow_bar.x[b, i + k, j + 1] -= bar
            flow_bar.x[b, i + k, j - 1] += bar


@kernel
def curl_adjoint(grid: Grid, vorticity_bar: ti.types.ndarray(), flow_bar: Flow):
    """Adjoint of ``curl``: adds to that of the flow."""
    for b, i, j in vorticity_bar:
        vorticity_at_adjoint(grid, vorticity_bar, flow_bar, b, i, j)


@ti.func
def vorticity_neighbours(vorticity: ti.template(), b, i, j):
    """Vorticity left, right, below, above and here; that of the cell itself beyond the walls."""
    return (
        vorticity[b, ti.max(i - 1, 0), j], vorticity[b, ti.min(i + 1, vorticity.shape[1] - 1), j],
        vorticity[b, i, ti.max(j - 1, 0)], vorticity[b, i, ti.min(j + 1, vorticity.shape[2] - 1)], vorticity[b, i, j],
    )  # fmt: skip


@ti.func
def confine_cell(grid: ti.template(), vorticity: ti.template(), confinement: ti.template(), flow: ti.template(), b, i, j):
    """Add dt times the confining acceleration of a cell to the flow, half of it to each open face."""
    left, right, below, above, centre = vorticity_neighbours(vorticity, b, i, j)
    ax, ay = confining.value(left, right, below, above, centre, confinement[b] * grid.cell * grid.dt)
    for k in ti.static(range(2)):
        flow.x[b, i + k, j] += 0.5 * ax * grid.open_x[i + k, j]
        flow.y[b, i, j + k] += 0.5 * ay * grid.open_y[i, j + k]


@kernel
def confine(grid: Grid, vorticity: ti.types.ndarray(), confinement: ti.types.ndarray(), flow: Flow):
    """flow += dt times the confining acceleration, half of it to each open face of a cell."""
    for b, i, j in vorticity:
        confine_cell(grid, vorticity, confinement, flow, b, i, j)


@ti.func
def confine_cell_adjoint(
    grid: ti.template(), vorticity: ti.template(), confinement: ti.template(), flow_bar: ti.template(),
    vorticity_bar: ti.template(), b, i, j,
):  # fmt: skip
    """Adjoint of ``confine_cell``: adds to that of the vorticity.

    Returns:
        Adjoint of the strength.
    """
    bar = vec2(0.0)
    for k in ti.static(range(2)):
        bar[0] += 0.5 * flow_bar.x[b, i + k, j] * grid.open_x[i + k, j]
        bar[1] += 0.5 * flow_bar.y[b, i, j + k] * grid.open_y[i, j + k]
    left, right, below, above, centre = vorticity_neighbours(vorticity, b, i, j)
    scale = grid.cell * grid.dt
    left_bar, right_bar, below_bar, above_bar, centre_bar, strength_bar = confining.vjp(
        (left, right, below, above, centre, confinement[b] * scale), (bar[0], bar[1])
    )
    vorticity_bar[b, ti.max(i - 1, 0), j] += left_bar
    vorticity_bar[b, ti.min(i + 1, vorticity.shape[1] - 1), j] += right_bar
    vorticity_bar[b, i, ti.max(j - 1, 0)] += below_bar
    vorticity_bar[b, i, ti.min(j + 1, vorticity.shape[2] - 1)] += above_bar
    vorticity_bar[b, i, j] += centre_bar
    return strength_bar * scale


@kernel
def confine_adjoint(
    grid: Grid, vorticity: ti.types.ndarray(), confinement: ti.types.ndarray(), flow_bar: Flow,
    vorticity_bar: ti.types.ndarray(), confinement_bar: ti.types.ndarray(),
):  # fmt: skip
    """Adjoint of ``confine``: adds to those of the vorticity and of the strength."""
    for b, i, j in vorticity:
        confinement_bar[b] += confine_cell_adjoint(grid, vorticity, confinement, flow_bar, vorticity_bar, b, i, j)
