"""The smoke solver: rollouts of a batch of worlds and their adjoint, for any array container."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

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
    states: tuple[Array, Array, Array] | None
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


@dataclass(frozen=True)
class _State:
    """Density [B, X, Y] and velocities of a step, or their adjoints."""

    density: Array
    flow: Flow

    def fields(self) -> tuple[Array, Array, Array]:
        return self.density, self.flow.x, self.flow.y

    def zeros(self) -> _State:
        density, x, y = (zeros_in_same_library(field, tuple(field.shape)) for field in self.fields())
        return _State(density, Flow(x, y))


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
        state = self._initial_state(inputs, grid, continued=first_frame > 0)
        checkpoints, frame_rows = (_empty_rows(state, count) for count in (steps // interval + 1, frames + 1))
        _write_state(state, checkpoints, 0)
        _write_state(state, frame_rows, 0)
        for step in range(steps):
            state = self._step(inputs, grid, state, step // substeps)
            if (step + 1) % interval == 0:
                _write_state(state, checkpoints, (step + 1) // interval)
            if (step + 1) % substeps == 0:
                _write_state(state, frame_rows, (step + 1) // substeps)
        diverged_step = _diverged_steps(frame_rows, substeps)
        mark_diverged_frames(frame_rows, diverged_step, substeps)
        return SmokeRollout(
            *frame_rows, diverged_step, inputs, frames, adjoint, None if adjoint is None else checkpoints, first_frame
        )

    def _differentiate(self, rollout: SmokeRollout, bars: tuple[Array, ...], last_bars: tuple[Array, ...]) -> SmokeInputs:
        """``rollout_adjoint`` of checked arguments."""
        inputs, substeps = rollout.inputs, self.settings.substeps
        steps, grid, sums = rollout.frames * substeps, self._grid(inputs.density0), inputs.zeros()
        interval = rollout.adjoint.interval
        first_state = _read_state(rollout.states, 0)
        rows = rollout.states if interval == 1 else _empty_rows(first_state, segment_length(rollout.adjoint, steps) + 1)
        bar = first_state.zeros()
        segment_start = 0

        def recompute_segment(first: int, count: int) -> None:
            nonlocal segment_start
            segment_start = first
            state = _read_state(rollout.states, first // interval)
            _write_state(state, rows, 0)
            for k in range(count - 1):
                state = self._step(inputs, grid, state, (first + k) // substeps)
                _write_state(state, rows, k + 1)

        def differentiate_segment(first: int, count: int) -> None:
            nonlocal bar
            for step in reversed(range(first, first + count)):
                if (step + 1) % substeps == 0:
                    _add_row_to_state(bars, (step + 1) // substeps, bar)
                bar = self._step_adjoint(inputs, grid, _read_state(rows, step - segment_start), step // substeps, bar, sums)

        rollout.adjoint.run_backwards(steps, recompute=recompute_segment, differentiate=differentiate_segment)
        _add_row_to_state(bars, 0, bar)
        if not rollout.first_frame:
            zero_closed(*views(grid.open, bar.density))
            self._pressure.project(grid, bar.flow)
        for source, target in zip(bar.fields(), (sums.density0, sums.velocity_x0, sums.velocity_y0), strict=True):
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

    def _initial_state(self, inputs: SmokeInputs, grid: Grid, *, continued: bool) -> _State:
        """The initial state, in new arrays; unless ``continued``, without smoke in obstacles and with projected velocities."""
        density, x, y = (_copy(field) for field in (inputs.density0, inputs.velocity_x0, inputs.velocity_y0))
        if continued:
            return _State(density, Flow(x, y))
        zero_closed(*views(grid.open, density))
        state = _State(density, Flow(x, y))
        self._pressure.project(grid, state.flow)
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

    def _step(self, inputs: SmokeInputs, grid: Grid, state: _State, frame: int) -> _State:
        """The state after a step, in new arrays."""
        density, flow = self._advect(grid, state)
        forces.add_source(viewed(grid), *views(inputs.source), frame, *views(density))
        result = Flow(*(empty_in_same_library(field, tuple(field.shape)) for field in (flow.x, flow.y)))
        forces.accelerate(viewed(grid), viewed(flow), *views(density, inputs.buoyancy, inputs.viscosity), viewed(result))
        vorticity = self._curl(grid, state.flow)
        forces.confine(viewed(grid), *views(vorticity, inputs.confinement), viewed(result))
        self._pressure.project(grid, result)
        return _State(density, result)

    def _curl(self, grid: Grid, flow: Flow) -> Array:
        vorticity = empty_in_same_library(flow.x, (flow.x.shape[0], *grid.open.shape))
        forces.curl(viewed(grid), viewed(flow), *views(vorticity))
        return vorticity

    def _advect(self, grid: Grid, state: _State) -> tuple[Array, Flow]:
        """Advected density and velocities, in new arrays."""
        advected = [self._advect_field(grid, k, state)[-1] for k in range(3)]
        return advected[0], Flow(*advected[1:])

    def _advect_field(self, grid: Grid, field_index: int, state: _State) -> list[Array]:
        """Advect one field: the filled field, in MacCormack's scheme the filled intermediate field, and last the result."""
        field, grid_points, flow = state.fields()[field_index], viewed(self._grid_points(grid)[field_index]), viewed(state.flow)
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

    def _step_adjoint(self, inputs: SmokeInputs, grid: Grid, state: _State, frame: int, bar: _State, sums: SmokeInputs) -> _State:
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
        self, grid: Grid, field_index: int, state: _State, advected: list[Array], result_bar: Array, state_bar: _State
    ) -> None:
        """Adjoint of ``_advect_field``: adds to ``state_bar``, the adjoint of the state before the step."""
        grid_points, flow, flow_bar = viewed(self._grid_points(grid)[field_index]), viewed(state.flow), viewed(state_bar.flow)
        source, shape, field_bar = advected[0], tuple(result_bar.shape), state_bar.fields()[field_index]
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


def _empty_rows(state: _State, count: int) -> tuple[Array, Array, Array]:
    """Uninitialised arrays [B, count, ...] for the fields of ``count`` steps or frames."""
    return tuple(empty_in_same_library(field, (field.shape[0], count, *field.shape[1:])) for field in state.fields())


def _write_state(state: _State, rows: tuple[Array, ...], row: int) -> None:
    for field, field_rows in zip(state.fields(), rows, strict=True):
        write_row(*views(field, field_rows), row)


def _read_state(rows: tuple[Array, ...], row: int) -> _State:
    fields = []
    for field_rows in rows:
        field = empty_in_same_library(field_rows, (field_rows.shape[0], *field_rows.shape[2:]))
        read_row(*views(field_rows), row, *views(field))
        fields.append(field)
    return _State(fields[0], Flow(*fields[1:]))


def _add_row_to_state(rows: tuple[Array, ...], row: int, state: _State) -> None:
    for field_rows, field in zip(rows, state.fields(), strict=True):
        add_row(*views(field_rows), row, *views(field))


def _diverged_steps(frame_rows: tuple[Array, ...], substeps: int) -> np.ndarray:
    """[B] first step of the first frame that is not finite, -1 if all are."""
    is_finite = np.all([np.isfinite(to_numpy(rows)).all(axis=(2, 3)) for rows in frame_rows], axis=0)
    return np.where(is_finite.all(axis=1), -1, np.maximum(is_finite.argmin(axis=1) - 1, 0) * substeps + 1)
