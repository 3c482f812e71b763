"""The smoke solver: rollouts of a batch of worlds and their adjoint, for any array container."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from ti_sim.base.arrays import (
    Array,
    empty_in_same_library,
    ints_in_same_library,
    reals_in_same_library,
    to_numpy,
    zeros_in_same_library,
)
from ti_sim.base.bundles import viewed, views
from ti_sim.base.errors import DivergenceError
from ti_sim.rollout.adjoint import Adjoint, segment_length, storage_interval
from ti_sim.rollout.divergence import mark_diverged_frames
from ti_sim.rollout.solver import Solver
from ti_sim.smoke import forces
from ti_sim.smoke.advection import (
    CENTRE,
    FACE_X,
    FACE_Y,
    Fields,
    Flow,
    GridPoints,
    advect,
    advect_adjoint,
    advect_cubic,
    advect_cubic_adjoint,
    correct,
    correct_adjoint,
)
from ti_sim.smoke.forces import Grid
from ti_sim.smoke.model import SmokeInputs, SmokeModel, SmokeSettings
from ti_sim.smoke.obstacles import Filling, fill, fill_adjoint, nearest_outside
from ti_sim.smoke.pressure import Pressure
from ti_sim.smoke.rows import add_field, add_row, read_row, write_row, zero_closed
from ti_sim.smoke.team_rollout import TeamRollout, device_team


@dataclass(frozen=True)
class SmokeRollout:
    """Result of a rollout, and the data that its adjoint needs.

    Attributes:
        density: [B, frames + 1, X, Y] density of the smoke at the frames; frame 0 is the start [1].
        velocity_x, velocity_y: [B, frames + 1, X + 1, Y] and [B, frames + 1, X, Y + 1] velocities at the faces [m/s].
        diverged_step: [B] int, first step of the interval that ends at the first frame that is not finite, -1 if all are finite.
        inputs: inputs of the rollout.
        frames: number of frame intervals.
        adjoint: how states were stored, None for a rollout without gradient.
        states: density and velocities [B, stored, ...] at every step or checkpoint; None without gradient.
        first_frame: frame at which the rollout begins.
    """

    density: Array
    velocity_x: Array
    velocity_y: Array
    diverged_step: np.ndarray
    inputs: SmokeInputs
    frames: int
    adjoint: Adjoint | None
    states: Fields | None
    first_frame: int = 0

    @property
    def last_arrays(self) -> tuple[Array, ...]:
        """An empty tuple: the frames hold the whole state."""
        return ()

    @property
    def frame_arrays(self) -> tuple[Array, ...]:
        """The arrays at the frames."""
        return self.density, self.velocity_x, self.velocity_y

    @property
    def diverged(self) -> np.ndarray:
        """[B] bool, whether the world diverged."""
        return self.diverged_step >= 0


class SmokeSolver(Solver):
    """Simulates smoke by operator splitting (Stam, Stable Fluids, SIGGRAPH 1999): advection, sources, forces, projection."""

    frame_names, per_interval_inputs = ("density", "velocity_x", "velocity_y"), "sources"

    def __init__(self, model: SmokeModel, settings: SmokeSettings) -> None:
        """Bind a grid to its time stepping.

        Args:
            model: the grid.
            settings: time stepping.
        """
        super().__init__(model, settings)

    @cached_property
    def _pressure(self) -> Pressure:
        return Pressure(self.model)

    def _check(self, inputs: SmokeInputs) -> None:
        inputs.check(self.model, self.settings)

    def _simulate(self, inputs: SmokeInputs, frames: int, adjoint: Adjoint | None, first_frame: int) -> SmokeRollout:
        """``rollout`` of checked arguments."""
        substeps = self.settings.substeps
        steps, grid = frames * substeps, self._grid(inputs.density0)
        interval = storage_interval(adjoint, steps)
        team_rollout = self._team_rollout(inputs, grid)
        state = self._initial_state(inputs, self._projection(grid, team_rollout), grid, continued=first_frame > 0)
        checkpoints, frame_rows = (_empty_rows(state, count) for count in (steps // interval + 1, frames + 1))
        _write_state(state, checkpoints, 0)
        _write_state(state, frame_rows, 0)
        if team_rollout is None:
            for step in range(steps):
                state = self._step(inputs, grid, state, step // substeps)
                if (step + 1) % interval == 0:
                    _write_state(state, checkpoints, (step + 1) // interval)
                if (step + 1) % substeps == 0:
                    _write_state(state, frame_rows, (step + 1) // substeps)
            first_bad_frame = _first_bad_frame(frame_rows)
        else:
            first_bad_frame = team_rollout.simulate(state, checkpoints, interval, frame_rows, steps)
        diverged_step = np.where(first_bad_frame < 0, -1, np.maximum(first_bad_frame - 1, 0) * substeps + 1)
        mark_diverged_frames(frame_rows.arrays(), diverged_step, substeps)
        return SmokeRollout(
            *frame_rows.arrays(), diverged_step, inputs, frames, adjoint, None if adjoint is None else checkpoints, first_frame
        )

    def _differentiate(self, rollout: SmokeRollout, bars: tuple[Array, ...], last_bars: tuple[Array, ...]) -> SmokeInputs:
        """``rollout_adjoint`` of checked arguments."""
        inputs, substeps = rollout.inputs, self.settings.substeps
        steps, grid, sums = rollout.frames * substeps, self._grid(inputs.density0), inputs.zeros()
        interval = rollout.adjoint.interval
        first_state = _read_state(rollout.states, 0)
        rows = rollout.states if interval == 1 else _empty_rows(first_state, segment_length(rollout.adjoint, steps) + 1)
        bar, frame_bars, team_rollout = first_state.zeros(), Fields(bars[0], Flow(*bars[1:])), self._team_rollout(inputs, grid)
        segment_start = 0

        def recompute_segment(first: int, count: int) -> None:
            nonlocal segment_start
            segment_start = first
            state = _read_state(rollout.states, first // interval)
            _write_state(state, rows, 0)
            if team_rollout is not None:
                team_rollout.advance(state, rows, 1, first, count - 1)
                return
            for k in range(count - 1):
                state = self._step(inputs, grid, state, (first + k) // substeps)
                _write_state(state, rows, k + 1)

        def differentiate_segment(first: int, count: int) -> None:
            nonlocal bar
            if team_rollout is not None:
                bar = team_rollout.differentiate(bar, rows, first - segment_start, frame_bars, first, count, sums)
                return
            for step in reversed(range(first, first + count)):
                if (step + 1) % substeps == 0:
                    _add_row_to_state(frame_bars, (step + 1) // substeps, bar)
                bar = self._step_adjoint(inputs, grid, _read_state(rows, step - segment_start), step // substeps, bar, sums)

        rollout.adjoint.run_backwards(steps, recompute=recompute_segment, differentiate=differentiate_segment)
        _add_row_to_state(frame_bars, 0, bar)
        if not rollout.first_frame:
            zero_closed(*views(grid.open, bar.density))
            self._projection(grid, team_rollout)(bar.flow)
        for source, target in zip(bar.arrays(), (sums.density0, sums.velocity_x0, sums.velocity_y0), strict=True):
            add_field(*views(source, target))
        return sums

    def check_divergence(self, rollout: SmokeRollout) -> None:
        """Raise a DivergenceError that names the step when every world of the rollout diverged."""
        if (rollout.diverged_step >= 0).all():
            step = int(rollout.diverged_step.min())
            raise DivergenceError(
                f"the smoke is not finite from step {step} on: look at velocities, sources and buoyancy, or take more substeps",
                body="smoke", step=step,
            )  # fmt: skip

    def failed_steps(self, rollout: SmokeRollout) -> np.ndarray:
        """[B, 1] int32, first step of the first frame that is not finite, -1 if all are."""
        return rollout.diverged_step[:, None].astype(np.int32)

    def _grid(self, like: Array) -> Grid:
        model = self.model
        masks = (
            reals_in_same_library(like, mask.astype(float))
            for mask in (model.open_cells, model.open_x, model.open_y, model.beside_x, model.beside_y)
        )
        return Grid(*masks, float(self.settings.dt), float(model.cell))

    def _team_rollout(self, inputs: SmokeInputs, grid: Grid) -> TeamRollout | None:
        """The rollout by a team of threads; None on a CPU, where each step is several launches."""
        team = device_team(inputs.density0, inputs.world_count)
        if team is None:
            return None
        return TeamRollout(self.model, self.settings, inputs, grid, self._nearest_outside, team)

    def _projection(self, grid: Grid, team_rollout: TeamRollout | None) -> Callable[[Flow], None]:
        """Function that projects velocities, in place."""
        return partial(self._pressure.project, grid) if team_rollout is None else team_rollout.project

    def _initial_state(self, inputs: SmokeInputs, project: Callable[[Flow], None], grid: Grid, *, continued: bool) -> Fields:
        """The initial state, in new arrays; unless ``continued``, without smoke in obstacles and with projected velocities."""
        density, x, y = (_copy(field) for field in (inputs.density0, inputs.velocity_x0, inputs.velocity_y0))
        if continued:
            return Fields(density, Flow(x, y))
        zero_closed(*views(grid.open, density))
        state = Fields(density, Flow(x, y))
        project(state.flow)
        return state

    def _grid_points(self, grid: Grid, sign: float = 1.0) -> tuple[GridPoints, GridPoints, GridPoints]:
        scale = sign * grid.dt / grid.cell
        return (
            GridPoints(CENTRE, grid.open, scale), GridPoints(FACE_X, grid.open_x, scale), GridPoints(FACE_Y, grid.open_y, scale),
        )  # fmt: skip

    @cached_property
    def _nearest_outside(self) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], ...]:
        """``nearest_outside`` of the fields."""
        model = self.model
        return tuple(nearest_outside(outside) for outside in (model.open_cells, model.beside_x, model.beside_y))

    def _filling(self, field_index: int, like: Array) -> Filling:
        target, source, weight = self._nearest_outside[field_index]
        indices = (ints_in_same_library(like, values) for values in (target, source))
        return Filling(*indices, reals_in_same_library(like, weight))

    def _fill_obstacles(self, field_index: int, field: Array) -> Array:
        """A copy of a field with values inside obstacles; the field itself if there are no obstacles."""
        if not len(self._nearest_outside[field_index][0]):
            return field
        result = _copy(field)
        fill(viewed(self._filling(field_index, field)), *views(result))
        return result

    def _step(self, inputs: SmokeInputs, grid: Grid, state: Fields, frame: int) -> Fields:
        """The state after a step, in new arrays."""
        density, flow = self._advect(grid, state)
        forces.add_source(viewed(grid), *views(inputs.source), frame, *views(density))
        result = Flow(*(empty_in_same_library(field, tuple(field.shape)) for field in (flow.x, flow.y)))
        forces.accelerate(viewed(grid), viewed(flow), *views(density, inputs.buoyancy, inputs.viscosity), viewed(result))
        vorticity = self._curl(grid, state.flow)
        forces.confine(viewed(grid), *views(vorticity, inputs.confinement), viewed(result))
        self._pressure.project(grid, result)
        return Fields(density, result)

    def _curl(self, grid: Grid, flow: Flow) -> Array:
        vorticity = empty_in_same_library(flow.x, (flow.x.shape[0], *grid.open.shape))
        forces.curl(viewed(grid), viewed(flow), *views(vorticity))
        return vorticity

    def _advect(self, grid: Grid, state: Fields) -> tuple[Array, Flow]:
        """Advected density and velocities, in new arrays."""
        advected = [self._advect_field(grid, k, state)[-1] for k in range(3)]
        return advected[0], Flow(*advected[1:])

    def _advect_field(self, grid: Grid, field_index: int, state: Fields) -> list[Array]:
        """Advect one field: the filled field, in MacCormack's scheme the filled intermediate field, and last the result."""
        field, grid_points, flow = state.arrays()[field_index], viewed(self._grid_points(grid)[field_index]), viewed(state.flow)
        source, result = self._fill_obstacles(field_index, field), empty_in_same_library(field, tuple(field.shape))
        if self.settings.advection == "cubic":
            advect_cubic(grid_points, flow, *views(source, result))
            return [source, result]
        advect(grid_points, flow, *views(source, result))
        if self.settings.advection == "semi_lagrangian":
            return [source, result]
        filled = self._fill_obstacles(field_index, result)
        round_trip, corrected = (empty_in_same_library(field, tuple(field.shape)) for _ in range(2))
        advect(viewed(self._grid_points(grid, -1.0)[field_index]), flow, *views(filled, round_trip))
        correct(grid_points, *views(field, result, round_trip, corrected))
        return [source, filled, corrected]

    def _step_adjoint(self, inputs: SmokeInputs, grid: Grid, state: Fields, frame: int, bar: Fields, sums: SmokeInputs) -> Fields:
        """Adjoint of the state before a step from ``bar``, that of the state after it, which is overwritten; adds to ``sums``."""
        advected_fields = [self._advect_field(grid, k, state) for k in range(3)]
        density, flow = advected_fields[0][-1], Flow(advected_fields[1][-1], advected_fields[2][-1])
        forces.add_source(viewed(grid), *views(inputs.source), frame, *views(density))
        state_bar = state.zeros()
        self._pressure.project(grid, bar.flow)
        vorticity = self._curl(grid, state.flow)
        vorticity_bar = zeros_in_same_library(vorticity, tuple(vorticity.shape))
        forces.confine_adjoint(
            viewed(grid), *views(vorticity, inputs.confinement), viewed(bar.flow), *views(vorticity_bar, sums.confinement)
        )
        forces.curl_adjoint(viewed(grid), *views(vorticity_bar), viewed(state_bar.flow))
        flow_bar = Flow(*(empty_in_same_library(field, tuple(field.shape)) for field in (flow.x, flow.y)))
        forces.accelerate_adjoint(
            viewed(grid), viewed(flow), *views(density, inputs.buoyancy, inputs.viscosity), viewed(bar.flow), viewed(flow_bar),
            *views(bar.density, sums.buoyancy, sums.viscosity),
        )  # fmt: skip
        forces.add_source_adjoint(viewed(grid), *views(bar.density), frame, *views(sums.source))
        for field_index, result_bar in enumerate((bar.density, flow_bar.x, flow_bar.y)):
            self._advect_field_adjoint(grid, field_index, state, advected_fields[field_index], result_bar, state_bar)
        return state_bar

    def _advect_field_adjoint(
        self, grid: Grid, field_index: int, state: Fields, advected: list[Array], result_bar: Array, state_bar: Fields
    ) -> None:
        """Adjoint of ``_advect_field``: adds to ``state_bar``, the adjoint of the state before the step."""
        grid_points, flow, flow_bar = viewed(self._grid_points(grid)[field_index]), viewed(state.flow), viewed(state_bar.flow)
        source, shape, field_bar = advected[0], tuple(result_bar.shape), state_bar.arrays()[field_index]
        forward_bar = result_bar
        if self.settings.advection == "maccormack":
            forward_bar, backward_bar = (empty_in_same_library(source, shape) for _ in range(2))
            correct_adjoint(grid_points, *views(result_bar, field_bar, forward_bar, backward_bar))
            filled_bar = self._filled_field_bar(field_index, forward_bar)
            advect_adjoint(
                viewed(self._grid_points(grid, -1.0)[field_index]), flow, *views(advected[1], backward_bar), flow_bar,
                *views(filled_bar),
            )  # fmt: skip
            self._fill_obstacles_adjoint(field_index, filled_bar, forward_bar)
        source_bar = self._filled_field_bar(field_index, field_bar)
        advection_adjoint = advect_cubic_adjoint if self.settings.advection == "cubic" else advect_adjoint
        advection_adjoint(grid_points, flow, *views(source, forward_bar), flow_bar, *views(source_bar))
        self._fill_obstacles_adjoint(field_index, source_bar, field_bar)

    def _filled_field_bar(self, field_index: int, field_bar: Array) -> Array:
        """Array that sums the adjoint of a filled field: ``field_bar`` itself if there are no obstacles."""
        return (
            zeros_in_same_library(field_bar, tuple(field_bar.shape)) if len(self._nearest_outside[field_index][0]) else field_bar
        )

    def _fill_obstacles_adjoint(self, field_index: int, filled_bar: Array, field_bar: Array) -> None:
        """Adjoint of ``_fill_obstacles`` from the result of ``_filled_field_bar``: adds to the adjoint of the field."""
        if filled_bar is not field_bar:
            fill_adjoint(viewed(self._filling(field_index, filled_bar)), *views(filled_bar))
            add_field(*views(filled_bar, field_bar))


def _copy(field: Array) -> Array:
    result = zeros_in_same_library(field, tuple(field.shape))
    add_field(*views(field, result))
    return result


def _empty_rows(state: Fields, count: int) -> Fields:
    """Uninitialised arrays [B, count, ...] for the fields of ``count`` steps or frames."""
    density, x, y = (empty_in_same_library(field, (field.shape[0], count, *field.shape[1:])) for field in state.arrays())
    return Fields(density, Flow(x, y))


def _write_state(state: Fields, rows: Fields, row: int) -> None:
    for field, field_rows in zip(state.arrays(), rows.arrays(), strict=True):
        write_row(*views(field, field_rows), row)


def _read_state(rows: Fields, row: int) -> Fields:
    fields = []
    for field_rows in rows.arrays():
        field = empty_in_same_library(field_rows, (field_rows.shape[0], *field_rows.shape[2:]))
        read_row(*views(field_rows), row, *views(field))
        fields.append(field)
    return Fields(fields[0], Flow(*fields[1:]))


def _add_row_to_state(rows: Fields, row: int, state: Fields) -> None:
    for field_rows, field in zip(rows.arrays(), state.arrays(), strict=True):
        add_row(*views(field_rows), row, *views(field))


def _first_bad_frame(frame_rows: Fields) -> np.ndarray:
    """[B] first frame that is not finite, -1 if all are."""
    is_finite = np.all([np.isfinite(to_numpy(rows)).all(axis=(2, 3)) for rows in frame_rows.arrays()], axis=0)
    return np.where(is_finite.all(axis=1), -1, is_finite.argmin(axis=1))
