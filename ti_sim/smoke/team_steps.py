"""All steps of a rollout, and their adjoints, in one launch: the threads of a team share the cells of one or several worlds.

The steps are those of ``SmokeSolver``, from the same functions. Between two stages of a step all threads of a group meet.
"""

from ti_sim.base.bundles import Array, Integer, bundle, kernel
from ti_sim.base.runtime import ti
from ti_sim.base.teams import Team, group_of, lane_of, takes_part, team_iterations
from ti_sim.smoke.advection import (
    CENTRE,
    FACE_X,
    FACE_Y,
    Fields,
    GridPoints,
    advected_at,
    advected_at_adjoint,
    cubic_at,
    cubic_at_adjoint,
)
from ti_sim.smoke.forces import (
    Grid,
    accelerated_x,
    accelerated_x_adjoint,
    accelerated_y,
    accelerated_y_adjoint,
    confine_cell,
    confine_cell_adjoint,
    vorticity_at,
    vorticity_at_adjoint,
)
from ti_sim.smoke.obstacles import Filling, fill_node, fill_node_adjoint
from ti_sim.smoke.poisson import Poisson, project
from ti_sim.smoke.thread import barrier, cell_of, share, thread_of
from ti_sim.smoke.work import (
    ACCELERATED,
    ADVECTED,
    BACKWARD_BAR,
    BAR,
    BUOYANCY_SUMS,
    FLOW_BAR,
    FORWARD_BAR,
    STATE,
    STATE_BAR,
    SUMS,
    Scheme,
    Work,
    row_of,
)


@bundle
class Fillings:
    """Nodes of all fields inside obstacles.

    Attributes:
        nodes: those of the density, then of the velocities along x, and then along y.
        face_x: first node of the velocities along x.
        face_y: first node of the velocities along y.
    """

    nodes: Filling
    face_x: Integer
    face_y: Integer


@bundle
class Forcing:
    """Inputs of every step (see ``SmokeInputs``)."""

    source: Array
    buoyancy: Array
    viscosity: Array
    confinement: Array


@kernel
def advance(
    team: Team, scheme: Scheme, grid: Grid, poisson: Poisson, fillings: Fillings, forcing: Forcing, work: Work,
    states: Fields, interval: int, frames: Fields, first_frame: ti.types.ndarray(), has_frames: int, first: int, steps: int,
    substeps: int,
):  # fmt: skip
    """Advance the entry ``STATE`` of the work arrays by steps, and write its states to rows.

    Args:
        team, scheme, grid, poisson, fillings, forcing, work: of the worlds.
        states: rows [B, rows, ...]; receives the state after every ``interval`` steps, from row 1 on.
        interval: steps between two rows.
        frames: rows of frames, written if ``has_frames`` is 1.
        first_frame: [B] int32, lowered to the first frame with a number that is not finite.
        has_frames: 1 to write frames, and to look for such numbers.
        first: first step of the rollout to run.
        steps: number of steps.
        substeps: steps per frame.
    """
    ti.loop_config(block_dim=team.block_dim)
    for index in range(team_iterations(team)):
        if takes_part(team, index):
            thread, passed = thread_of(team, group_of(team, index), lane_of(team, index), work.cells.shape[1]), 0
            if has_frames == 1:
                _note_divergence(thread, work, 0, first_frame)
            for step in range(first, first + steps):
                passed = _advect(thread, scheme, grid, fillings, forcing, work, step // substeps, passed)
                _accelerate(thread, grid, forcing, work)
                passed = barrier(thread, passed)
                for k in range(share(thread, _cells(thread, work))):
                    b, i, j = cell_of(thread, k, work.cells.shape[2], work.cells.shape[3])
                    confine_cell(grid, work.at_cells(ACCELERATED), forcing.confinement, work.flow(ACCELERATED), b, i, j)
                passed = barrier(thread, passed)
                passed = project(thread, grid, poisson, scheme.has_obstacles, work.flow(ACCELERATED), passed)
                _copy(thread, work.at_cells(ADVECTED), work.at_cells(STATE))
                _copy(thread, work.flow(ACCELERATED).x, work.flow(STATE).x)
                _copy(thread, work.flow(ACCELERATED).y, work.flow(STATE).y)
                if (step + 1 - first) % interval == 0:
                    _write_row(thread, work, states, (step + 1 - first) // interval)
                if has_frames == 1 and (step + 1) % substeps == 0:
                    frame = (step + 1) // substeps
                    _write_row(thread, work, frames, frame)
                    _note_divergence(thread, work, frame, first_frame)
                passed = barrier(thread, passed)


@kernel
def advance_adjoint(
    team: Team, scheme: Scheme, grid: Grid, poisson: Poisson, fillings: Fillings, forcing: Forcing, work: Work,
    states: Fields, first_row: int, frame_bars: Fields, source_bar: ti.types.ndarray(), first: int, steps: int, substeps: int,
):  # fmt: skip
    """Adjoint of ``advance``: moves the entry ``BAR`` of the work arrays from the end of the steps to their begin.

    Args:
        team, scheme, grid, poisson, fillings, forcing, work: of the worlds; ``SUMS`` and ``BUOYANCY_SUMS`` accumulate the
            contributions of each place to the adjoints of numbers.
        states: rows [B, rows, ...] of the states before the steps.
        first_row: row of the state before step ``first``.
        frame_bars: adjoints of the frames; those of the frames at ends of steps are added.
        source_bar: adjoint of the sources, added to.
        first: first step.
        steps: number of steps.
        substeps: steps per frame.
    """
    ti.loop_config(block_dim=team.block_dim)
    for index in range(team_iterations(team)):
        if takes_part(team, index):
            thread, passed = thread_of(team, group_of(team, index), lane_of(team, index), work.cells.shape[1]), 0
            for reversed_step in range(steps):
                step = first + steps - 1 - reversed_step
                frame = step // substeps
                _begin_adjoint(thread, scheme, work, states, step - first + first_row)
                if (step + 1) % substeps == 0:
                    _add_row(thread, frame_bars, frame + 1, work)
                passed = barrier(thread, passed)
                passed = _advect(thread, scheme, grid, fillings, forcing, work, frame, passed)
                passed = project(thread, grid, poisson, scheme.has_obstacles, work.flow(BAR), passed)
                passed = barrier(thread, passed)
                _accelerate_adjoint(thread, grid, forcing, work)
                passed = barrier(thread, passed)
                for k in range(share(thread, _cells(thread, work))):
                    b, i, j = cell_of(thread, k, work.cells.shape[2], work.cells.shape[3])
                    vorticity_at_adjoint(grid, work.at_cells(FLOW_BAR), work.flow(STATE_BAR), b, i, j)
                    source_bar[b, frame, i, j] += grid.dt * work.at_cells(BAR)[b, i, j] * grid.open[i, j]
                passed = _advect_adjoint(thread, scheme, grid, fillings, work, passed)
                _copy(thread, work.at_cells(STATE_BAR), work.at_cells(BAR))
                _copy(thread, work.flow(STATE_BAR).x, work.flow(BAR).x)
                _copy(thread, work.flow(STATE_BAR).y, work.flow(BAR).y)


@ti.func
def _cells(thread: ti.template(), work: ti.template()):
    """Number of cells of the group's worlds."""
    return thread.worlds * work.cells.shape[2] * work.cells.shape[3]


@ti.func
def _copy(thread: ti.template(), source: ti.template(), target: ti.template()):
    """target = source, for the thread's entries of fields [B, ., .]."""
    for k in range(share(thread, thread.worlds * source.shape[1] * source.shape[2])):
        b, i, j = cell_of(thread, k, source.shape[1], source.shape[2])
        target[b, i, j] = source[b, i, j]


@ti.func
def _add(thread: ti.template(), source: ti.template(), target: ti.template()):
    """target += source."""
    for k in range(share(thread, thread.worlds * source.shape[1] * source.shape[2])):
        b, i, j = cell_of(thread, k, source.shape[1], source.shape[2])
        target[b, i, j] = target[b, i, j] + source[b, i, j]


@ti.func
def _clear(thread: ti.template(), target: ti.template()):
    """target = 0."""
    for k in range(share(thread, thread.worlds * target.shape[1] * target.shape[2])):
        b, i, j = cell_of(thread, k, target.shape[1], target.shape[2])
        target[b, i, j] = 0.0


@ti.func
def _write_row(thread: ti.template(), work: ti.template(), rows: ti.template(), row):
    """Copy the state to a row."""
    _copy(thread, work.at_cells(STATE), row_of(rows, row).density)
    _copy(thread, work.flow(STATE).x, row_of(rows, row).flow.x)
    _copy(thread, work.flow(STATE).y, row_of(rows, row).flow.y)


@ti.func
def _add_row(thread: ti.template(), rows: ti.template(), row, work: ti.template()):
    """Add a row to the adjoint of the state."""
    _add(thread, row_of(rows, row).density, work.at_cells(BAR))
    _add(thread, row_of(rows, row).flow.x, work.flow(BAR).x)
    _add(thread, row_of(rows, row).flow.y, work.flow(BAR).y)


@ti.func
def _note_divergence(thread: ti.template(), work: ti.template(), frame, first_frame: ti.template()):
    """Lower the first frame of worlds whose states are not finite."""
    _note_divergence_of_field(thread, work.at_cells(STATE), frame, first_frame)
    _note_divergence_of_field(thread, work.flow(STATE).x, frame, first_frame)
    _note_divergence_of_field(thread, work.flow(STATE).y, frame, first_frame)


@ti.func
def _note_divergence_of_field(thread: ti.template(), field: ti.template(), frame, first_frame: ti.template()):
    for k in range(share(thread, thread.worlds * field.shape[1] * field.shape[2])):
        b, i, j = cell_of(thread, k, field.shape[1], field.shape[2])
        value = field[b, i, j]
        if ti.math.isnan(value) or ti.math.isinf(value):
            ti.atomic_min(first_frame[b], frame)


@ti.func
def _fill(thread: ti.template(), fillings: ti.template(), source: ti.template(), target: ti.template(), passed):
    """Copy fields, with values inside obstacles; a barrier is the last statement."""
    _copy(thread, source.density, target.density)
    _copy(thread, source.flow.x, target.flow.x)
    _copy(thread, source.flow.y, target.flow.y)
    passed = barrier(thread, passed)
    _fill_nodes(thread, fillings.nodes, 0, fillings.face_x, target.density)
    _fill_nodes(thread, fillings.nodes, fillings.face_x, fillings.face_y, target.flow.x)
    _fill_nodes(thread, fillings.nodes, fillings.face_y, fillings.nodes.target.shape[0], target.flow.y)
    return barrier(thread, passed)


@ti.func
def _fill_nodes(thread: ti.template(), filling: ti.template(), first, end, field: ti.template()):
    for k in range(share(thread, thread.worlds * (end - first))):
        b, n, _zero = cell_of(thread, k, end - first, 1)
        fill_node(filling, field, b, first + n)


@ti.func
def _fill_adjoint(thread: ti.template(), fillings: ti.template(), filled_bar: ti.template(), bar: ti.template(), passed):
    """Adjoint of ``_fill``: adds to that of its source; ``filled_bar`` is overwritten, and no barrier follows."""
    passed = barrier(thread, passed)
    _fill_nodes_adjoint(thread, fillings.nodes, 0, fillings.face_x, filled_bar.density)
    _fill_nodes_adjoint(thread, fillings.nodes, fillings.face_x, fillings.face_y, filled_bar.flow.x)
    _fill_nodes_adjoint(thread, fillings.nodes, fillings.face_y, fillings.nodes.target.shape[0], filled_bar.flow.y)
    passed = barrier(thread, passed)
    _add(thread, filled_bar.density, bar.density)
    _add(thread, filled_bar.flow.x, bar.flow.x)
    _add(thread, filled_bar.flow.y, bar.flow.y)
    return passed


@ti.func
def _fill_nodes_adjoint(thread: ti.template(), filling: ti.template(), first, end, field_bar: ti.template()):
    for k in range(share(thread, thread.worlds * (end - first))):
        b, n, _zero = cell_of(thread, k, end - first, 1)
        fill_node_adjoint(filling, field_bar, b, first + n)


@ti.func
def _advect(
    thread: ti.template(), scheme: ti.template(), grid: ti.template(), fillings: ti.template(), forcing: ti.template(),
    work: ti.template(), frame, passed,
):  # fmt: skip
    """Write the advected fields with their sources, and the vorticity of the state; a barrier is the last statement."""
    state, forward, advected = work.fields(STATE), work.fields(scheme.forward), work.fields(ADVECTED)
    if ti.static(scheme.has_obstacles):
        passed = _fill(thread, fillings, state, work.fields(scheme.filled), passed)
    filled, scale = work.fields(scheme.filled), grid.dt / grid.cell
    _advect_field(thread, scheme, GridPoints(CENTRE, grid.open, scale), state.flow, filled.density, forward.density)
    _advect_field(thread, scheme, GridPoints(FACE_X, grid.open_x, scale), state.flow, filled.flow.x, forward.flow.x)
    _advect_field(thread, scheme, GridPoints(FACE_Y, grid.open_y, scale), state.flow, filled.flow.y, forward.flow.y)
    for k in range(share(thread, _cells(thread, work))):
        b, i, j = cell_of(thread, k, work.cells.shape[2], work.cells.shape[3])
        work.at_cells(ACCELERATED)[b, i, j] = vorticity_at(grid, state.flow, b, i, j)
    if ti.static(scheme.advection == "maccormack"):
        passed = barrier(thread, passed)
        if ti.static(scheme.has_obstacles):
            passed = _fill(thread, fillings, forward, work.fields(scheme.forward_filled), passed)
        again = work.fields(scheme.forward_filled)
        centre, flow = GridPoints(CENTRE, grid.open, -scale), state.flow
        face_x, face_y = GridPoints(FACE_X, grid.open_x, -scale), GridPoints(FACE_Y, grid.open_y, -scale)
        _correct(thread, centre, flow, state.density, forward.density, again.density, advected.density)
        _correct(thread, face_x, flow, state.flow.x, forward.flow.x, again.flow.x, advected.flow.x)
        _correct(thread, face_y, flow, state.flow.y, forward.flow.y, again.flow.y, advected.flow.y)
    for k in range(share(thread, _cells(thread, work))):
        b, i, j = cell_of(thread, k, work.cells.shape[2], work.cells.shape[3])
        source = grid.dt * forcing.source[b, frame, i, j] * grid.open[i, j]
        advected.density[b, i, j] = advected.density[b, i, j] + source
    return barrier(thread, passed)


@ti.func
def _advect_field(
    thread: ti.template(), scheme: ti.template(), grid_points: ti.template(), flow: ti.template(), field: ti.template(),
    result: ti.template(),
):  # fmt: skip
    for k in range(share(thread, thread.worlds * result.shape[1] * result.shape[2])):
        b, i, j = cell_of(thread, k, result.shape[1], result.shape[2])
        if ti.static(scheme.advection == "cubic"):
            result[b, i, j] = cubic_at(grid_points, flow, field, b, i, j)
        else:
            result[b, i, j] = advected_at(grid_points, flow, field, b, i, j)


@ti.func
def _correct(
    thread: ti.template(), back_points: ti.template(), flow: ti.template(), field: ti.template(), forward: ti.template(),
    forward_filled: ti.template(), result: ti.template(),
):  # fmt: skip
    """MacCormack's correction (see ``advection.correct``), with the way back along ``back_points``."""
    for k in range(share(thread, thread.worlds * result.shape[1] * result.shape[2])):
        b, i, j = cell_of(thread, k, result.shape[1], result.shape[2])
        backward = advected_at(back_points, flow, forward_filled, b, i, j)
        result[b, i, j] = back_points.open[i, j] * (forward[b, i, j] + 0.5 * (field[b, i, j] - backward))


@ti.func
def _accelerate(thread: ti.template(), grid: ti.template(), forcing: ti.template(), work: ti.template()):
    """Write the accelerated velocities."""
    advected, result = work.fields(ADVECTED), work.flow(ACCELERATED)
    for k in range(share(thread, thread.worlds * result.x.shape[1] * result.x.shape[2])):
        b, i, j = cell_of(thread, k, result.x.shape[1], result.x.shape[2])
        result.x[b, i, j] = accelerated_x(grid, advected.flow, forcing.viscosity, b, i, j)
    for k in range(share(thread, thread.worlds * result.y.shape[1] * result.y.shape[2])):
        b, i, j = cell_of(thread, k, result.y.shape[1], result.y.shape[2])
        result.y[b, i, j] = accelerated_y(grid, advected.flow, advected.density, forcing.buoyancy, forcing.viscosity, b, i, j)


@ti.func
def _begin_adjoint(thread: ti.template(), scheme: ti.template(), work: ti.template(), states: ti.template(), row):
    """Read the state before the step, and clear the adjoints that are summed."""
    state, state_row = work.fields(STATE), row_of(states, row)
    _copy(thread, state_row.density, state.density)
    _copy(thread, state_row.flow.x, state.flow.x)
    _copy(thread, state_row.flow.y, state.flow.y)
    _clear(thread, work.at_cells(FLOW_BAR))
    _clear_fields(thread, work.fields(STATE_BAR))
    if ti.static(scheme.has_obstacles):
        _clear_fields(thread, work.fields(scheme.filled_bar))
        if ti.static(scheme.advection == "maccormack"):
            _clear_fields(thread, work.fields(scheme.forward_filled_bar))


@ti.func
def _clear_fields(thread: ti.template(), fields: ti.template()):
    _clear(thread, fields.density)
    _clear(thread, fields.flow.x)
    _clear(thread, fields.flow.y)


@ti.func
def _accelerate_adjoint(thread: ti.template(), grid: ti.template(), forcing: ti.template(), work: ti.template()):
    """Adjoints of vorticity confinement and of ``_accelerate``; contributions to the adjoints of numbers stay in their places."""
    advected, bar, flow_bar, sums = work.fields(ADVECTED), work.fields(BAR), work.flow(FLOW_BAR), work.fields(SUMS)
    for k in range(share(thread, _cells(thread, work))):
        b, i, j = cell_of(thread, k, work.cells.shape[2], work.cells.shape[3])
        strength_bar = confine_cell_adjoint(
            grid, work.at_cells(ACCELERATED), forcing.confinement, bar.flow, work.at_cells(FLOW_BAR), b, i, j
        )
        sums.density[b, i, j] = sums.density[b, i, j] + strength_bar
    for k in range(share(thread, thread.worlds * flow_bar.x.shape[1] * flow_bar.x.shape[2])):
        b, i, j = cell_of(thread, k, flow_bar.x.shape[1], flow_bar.x.shape[2])
        viscosity_bar = accelerated_x_adjoint(grid, advected.flow, forcing.viscosity, bar.flow, flow_bar, b, i, j)
        sums.flow.x[b, i, j] = sums.flow.x[b, i, j] + viscosity_bar
    for k in range(share(thread, thread.worlds * flow_bar.y.shape[1] * flow_bar.y.shape[2])):
        b, i, j = cell_of(thread, k, flow_bar.y.shape[1], flow_bar.y.shape[2])
        viscosity_bar, buoyancy_bar = accelerated_y_adjoint(
            grid, advected.flow, advected.density, forcing.buoyancy, forcing.viscosity, bar.flow, flow_bar, bar.density, b, i, j
        )
        sums.flow.y[b, i, j] = sums.flow.y[b, i, j] + viscosity_bar
        buoyancy_sums = work.flow(BUOYANCY_SUMS)
        buoyancy_sums.y[b, i, j] = buoyancy_sums.y[b, i, j] + buoyancy_bar


@ti.func
def _advect_adjoint(
    thread: ti.template(), scheme: ti.template(), grid: ti.template(), fillings: ti.template(), work: ti.template(), passed
):
    """Adjoint of ``_advect``: adds to that of the state; a barrier is the last statement."""
    state, state_bar, flow_bar = work.fields(STATE), work.fields(STATE_BAR), work.flow(FLOW_BAR)
    if ti.static(scheme.advection == "maccormack"):
        scale, bar, again = grid.dt / grid.cell, work.fields(BAR), work.fields(scheme.forward_filled)
        forward_bar, backward_bar = work.fields(FORWARD_BAR), work.fields(BACKWARD_BAR)
        _correct_adjoint(thread, grid.open, bar.density, state_bar.density, forward_bar.density, backward_bar.density)
        _correct_adjoint(thread, grid.open_x, flow_bar.x, state_bar.flow.x, forward_bar.flow.x, backward_bar.flow.x)
        _correct_adjoint(thread, grid.open_y, flow_bar.y, state_bar.flow.y, forward_bar.flow.y, backward_bar.flow.y)
        passed = barrier(thread, passed)
        again_bar = work.fields(scheme.forward_filled_bar)
        _advect_fields_adjoint(thread, scheme, grid, -scale, state.flow, again, backward_bar, state_bar.flow, again_bar)
        if ti.static(scheme.has_obstacles):
            passed = _fill_adjoint(thread, fillings, again_bar, forward_bar, passed)
        passed = barrier(thread, passed)
        passed = _advect_back(thread, scheme, grid, fillings, work, forward_bar, passed)
    else:
        passed = _advect_back(thread, scheme, grid, fillings, work, Fields(work.at_cells(BAR), flow_bar), passed)
    return passed


@ti.func
def _advect_back(
    thread: ti.template(), scheme: ti.template(), grid: ti.template(), fillings: ti.template(), work: ti.template(),
    result_bar: ti.template(), passed,
):  # fmt: skip
    """Adjoint of the advection of the state; a barrier is the last statement."""
    state, state_bar, filled = work.fields(STATE), work.fields(STATE_BAR), work.fields(scheme.filled)
    filled_bar, scale = work.fields(scheme.filled_bar), grid.dt / grid.cell
    _advect_fields_adjoint(thread, scheme, grid, scale, state.flow, filled, result_bar, state_bar.flow, filled_bar)
    if ti.static(scheme.has_obstacles):
        passed = _fill_adjoint(thread, fillings, filled_bar, state_bar, passed)
    return barrier(thread, passed)


@ti.func
def _advect_fields_adjoint(
    thread: ti.template(), scheme: ti.template(), grid: ti.template(), scale, flow: ti.template(), fields: ti.template(),
    result_bar: ti.template(), flow_bar: ti.template(), fields_bar: ti.template(),
):  # fmt: skip
    """Adjoint of the advection of all fields: adds to those of the flow and of the fields."""
    centre, face_x = GridPoints(CENTRE, grid.open, scale), GridPoints(FACE_X, grid.open_x, scale)
    face_y = GridPoints(FACE_Y, grid.open_y, scale)
    _advect_field_adjoint(thread, scheme, centre, flow, fields.density, result_bar.density, flow_bar, fields_bar.density)
    _advect_field_adjoint(thread, scheme, face_x, flow, fields.flow.x, result_bar.flow.x, flow_bar, fields_bar.flow.x)
    _advect_field_adjoint(thread, scheme, face_y, flow, fields.flow.y, result_bar.flow.y, flow_bar, fields_bar.flow.y)


@ti.func
def _advect_field_adjoint(
    thread: ti.template(), scheme: ti.template(), grid_points: ti.template(), flow: ti.template(), field: ti.template(),
    result_bar: ti.template(), flow_bar: ti.template(), field_bar: ti.template(),
):  # fmt: skip
    for k in range(share(thread, thread.worlds * field.shape[1] * field.shape[2])):
        b, i, j = cell_of(thread, k, field.shape[1], field.shape[2])
        if ti.static(scheme.advection == "cubic"):
            cubic_at_adjoint(grid_points, flow, field, result_bar[b, i, j], flow_bar, field_bar, b, i, j)
        else:
            advected_at_adjoint(grid_points, flow, field, result_bar[b, i, j], flow_bar, field_bar, b, i, j)


@ti.func
def _correct_adjoint(
    thread: ti.template(), is_open: ti.template(), result_bar: ti.template(), field_bar: ti.template(),
    forward_bar: ti.template(), backward_bar: ti.template(),
):  # fmt: skip
    """Adjoint of ``_correct`` but for the way back; other threads may add to ``field_bar``."""
    for k in range(share(thread, thread.worlds * result_bar.shape[1] * result_bar.shape[2])):
        b, i, j = cell_of(thread, k, result_bar.shape[1], result_bar.shape[2])
        bar = is_open[i, j] * result_bar[b, i, j]
        field_bar[b, i, j] += 0.5 * bar
        forward_bar[b, i, j] = bar
        backward_bar[b, i, j] = -0.5 * bar
