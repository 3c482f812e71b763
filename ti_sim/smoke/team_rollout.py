"""Rollouts of smoke by the threads of a team, with all steps in one launch: on a GPU, where launches take longer than steps."""

from __future__ import annotations

import numpy as np

from ti_sim.base.arrays import (
    Array,
    ints_in_same_library,
    reals_in_same_library,
    to_numpy,
)
from ti_sim.base.bundles import viewed, views
from ti_sim.base.errors import UserError
from ti_sim.base.runtime import require, without_subexpression_elimination
from ti_sim.base.teams import Team, block_team, grid_team, multiprocessor_count, raise_if_timed_out, reset_arrivals
from ti_sim.smoke.advection import Fields, Flow
from ti_sim.smoke.forces import Grid
from ti_sim.smoke.model import SmokeInputs, SmokeModel, SmokeSettings
from ti_sim.smoke.obstacles import Filling
from ti_sim.smoke.poisson import failed_worlds, poisson_of, project_flow
from ti_sim.smoke.rows import sum_places
from ti_sim.smoke.team_steps import Fillings, Forcing, advance, advance_adjoint
from ti_sim.smoke.work import BAR, BUOYANCY_SUMS, ENTRIES, FORWARD_ENTRIES, STATE, SUMS, Scheme, get_entry, set_entry, work_arrays

_BLOCK_DIM = 256  # threads of a GPU block
_NO_FRAME = np.iinfo(np.int32).max


def device_team(like: Array, worlds: int) -> Team | None:
    """A team for worlds on a GPU: a block for each, or the whole grid for few; None on a CPU.

    Args:
        like: array of the container and device of the kernels' others.
        worlds: number of worlds.
    """
    device = require().device
    if device == "cpu":
        return None
    if device == "cuda" and 2 * worlds <= multiprocessor_count():
        return grid_team(like, _BLOCK_DIM)
    return block_team(like, worlds, _BLOCK_DIM)


class TeamRollout:
    """Steps of the worlds of a rollout, for ``SmokeSolver``."""

    def __init__(
        self, model: SmokeModel, settings: SmokeSettings, inputs: SmokeInputs, grid: Grid,
        nearest: tuple[tuple[np.ndarray, np.ndarray, np.ndarray], ...], team: Team,
    ) -> None:  # fmt: skip
        """Allocate the arrays that steps need.

        Args:
            model, settings: of the solver.
            inputs: inputs of the rollout.
            grid: the grid, in the container of the inputs.
            nearest: results of ``nearest_outside`` for density and velocities.
            team: the threads.
        """
        self._inputs, self._grid, self._substeps, self._team = inputs, grid, settings.substeps, viewed(team)
        self._scheme = Scheme(settings.advection, not model.open_cells.all())
        self._fillings = viewed(_fillings(inputs.density0, nearest))
        self._poisson = viewed(poisson_of(model, inputs.density0, inputs.world_count))
        self._forcing = viewed(Forcing(inputs.source, inputs.buoyancy, inputs.viscosity, inputs.confinement))

    @without_subexpression_elimination
    def project(self, flow: Flow) -> None:
        """Replace velocities, or their adjoints, by the nearest divergence-free ones; in place."""
        reset_arrivals(self._team)
        project_flow(self._team, viewed(self._grid), self._poisson, self._scheme.has_obstacles, viewed(flow))
        self._check()

    def advance(self, state: Fields, states: Fields, interval: int, first: int, steps: int) -> None:
        """Advance a state, and write it to rows.

        Args:
            state: state before the steps; it is left as it is.
            states: rows [B, rows, ...]; receives the states after every ``interval`` steps from row 1 on.
            interval: steps between two rows.
            first: first step.
            steps: number of steps.
        """
        self._advance(state, states, interval, states, first, steps, has_frames=False)

    def simulate(self, state: Fields, states: Fields, interval: int, frames: Fields, steps: int) -> np.ndarray:
        """As ``advance`` from step 0 on, also to rows of frames from row 1 on.

        Returns:
            [B] first frame with a number that is not finite, -1 if all are.
        """
        first_frame = self._advance(state, states, interval, frames, 0, steps, has_frames=True)
        return np.where(first_frame == _NO_FRAME, -1, first_frame)

    @without_subexpression_elimination
    def _advance(
        self, state: Fields, states: Fields, interval: int, frames: Fields, first: int, steps: int, *, has_frames: bool
    ) -> np.ndarray:
        work = work_arrays(state, FORWARD_ENTRIES)
        set_entry(work, STATE, state)
        first_frame = ints_in_same_library(state.density, np.full(self._inputs.world_count, _NO_FRAME))
        reset_arrivals(self._team)
        advance(
            self._team, self._scheme, viewed(self._grid), self._poisson, self._fillings, self._forcing, viewed(work),
            viewed(states), interval, viewed(frames), *views(first_frame), int(has_frames), first, steps, self._substeps,
        )  # fmt: skip
        self._check()
        return to_numpy(first_frame)

    @without_subexpression_elimination
    def differentiate(
        self, bar: Fields, states: Fields, first_row: int, frame_bars: Fields, first: int, steps: int, sums: SmokeInputs
    ) -> Fields:
        """Adjoint of steps.

        Args:
            bar: adjoint of the state after the steps, without that of its frame.
            states: rows [B, rows, ...] of the states before the steps.
            first_row: row of the state before the first step.
            frame_bars: adjoints of the frames.
            first: first step.
            steps: number of steps.
            sums: adjoints of the inputs; those of sources, buoyancy, viscosity and confinement are added to.

        Returns:
            Adjoint of the state before the steps.
        """
        work = work_arrays(bar, ENTRIES)
        set_entry(work, BAR, bar)
        reset_arrivals(self._team)
        advance_adjoint(
            self._team, self._scheme, viewed(self._grid), self._poisson, self._fillings, self._forcing, viewed(work),
            viewed(states), first_row, viewed(frame_bars), *views(sums.source), first, steps, self._substeps,
        )  # fmt: skip
        self._check()
        sum_places(*views(work.cells), SUMS, *views(sums.confinement))
        sum_places(*views(work.faces_x), SUMS, *views(sums.viscosity))
        sum_places(*views(work.faces_y), SUMS, *views(sums.viscosity))
        sum_places(*views(work.faces_y), BUOYANCY_SUMS, *views(sums.buoyancy))
        result = bar.empty()
        get_entry(work, BAR, result)
        return result

    def _check(self) -> None:
        """Raise an error if the last launch failed; waits for it."""
        raise_if_timed_out(self._team)
        if self._scheme.has_obstacles and failed_worlds(to_numpy(self._poisson.sums)).any():
            raise UserError("the pressure between these obstacles did not converge: simulate this smoke on device 'cpu'")


def _fillings(like: Array, nearest: tuple[tuple[np.ndarray, np.ndarray, np.ndarray], ...]) -> Fillings:
    """The results of ``nearest_outside`` of all fields, in the container of ``like``; one unused node if there are none."""
    counts = [len(target) for target, _, _ in nearest]
    size = max(source.shape[1] for _, source, _ in nearest)
    target, source = np.zeros((max(sum(counts), 1), 2)), np.zeros((max(sum(counts), 1), size, 2))
    weight, first = np.zeros((len(target), size)), 0
    for count, (field_target, field_source, field_weight) in zip(counts, nearest, strict=True):
        entries, neighbours = slice(first, first + count), slice(field_source.shape[1])
        target[entries], source[entries, neighbours], weight[entries, neighbours] = field_target, field_source, field_weight
        first += count
    nodes = ints_in_same_library(like, target), ints_in_same_library(like, source), reals_in_same_library(like, weight)
    return Fillings(Filling(*nodes), counts[0], counts[0] + counts[1])
