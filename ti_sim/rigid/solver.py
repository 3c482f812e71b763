"""The rigid solver: rollouts of a batch of worlds and their adjoint, for any array container."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ti_sim.base.arrays import (
    Array,
    assign,
    empty_in_same_library,
    ints_in_same_library,
    reals_in_same_library,
    section,
    to_numpy,
    zeros_in_same_library,
)
from ti_sim.base.bundles import views, with_fields
from ti_sim.base.errors import DivergenceError, UserError
from ti_sim.base.runtime import at_optimisation_level_0
from ti_sim.base.team_sums import team_rows
from ti_sim.base.teams import raise_if_timed_out, single_threads
from ti_sim.rigid.arrays import STATE, BodyArrays, BristleArrays, FrameArrays, RigidArrays
from ti_sim.rigid.body import LOAD_INPUTS
from ti_sim.rigid.body_teams import lanes_share_points, point_teams
from ti_sim.rigid.forces import contact_wrenches, contact_wrenches_adjoint
from ti_sim.rigid.model import RigidInputs, RigidModel, RigidSettings
from ti_sim.rigid.rollout import advance, advance_adjoint
from ti_sim.rigid.state import LEFT_REGION, initialise_state, initialise_state_adjoint
from ti_sim.rollout.adjoint import Adjoint, segment_length, storage_interval
from ti_sim.rollout.divergence import fill_nan, mark_diverged_frames
from ti_sim.rollout.solver import Solver

# Columns of a state.
POSE, VELOCITY = slice(STATE.position, STATE.velocity), slice(STATE.velocity, STATE.momentum)
MOMENTUM = slice(STATE.momentum, STATE.size)
_MAX_FINITE_DISTANCE = 1e18  # m: a position beyond it is treated as not finite, whatever max_distance is


@dataclass(frozen=True)
class RigidRollout:
    """Result of a rollout, and the data that its adjoint needs.

    Attributes:
        body_q: [B, frames + 1, N, 7] poses at the frames; frame 0 is the initial state (m, quaternion x, y, z, w).
        body_qd: [B, frames + 1, N, 6] velocities [m/s] and angular velocities [rad/s], world frame.
        diverged_step: [B, N] int32, first step at which the state of a body was not finite or its centre of mass was beyond
            ``max_distance``, -1 if neither occurred.
        inputs: inputs of the rollout.
        frames: number of frame intervals.
        adjoint: how states were stored, None for a rollout without gradient.
        states: [B, stored, N, 13] states (x, q, v, L) at every step or checkpoint; None without gradient.
        bristles: [B, stored, P, 2] displacements of the bristles there [m]; None without gradient or bristles.
        first_frame: frame at which the rollout begins.
        last_arrays: the angular momentum [B, N, 3] after the last step [kg m2/s], and in a model with bristles their
            displacements [B, P, 2] [m].
        left_region: [B, N] numpy bool, True if the body was beyond ``max_distance``; None in a rollout built for its adjoint.
    """

    body_q: Array
    body_qd: Array
    diverged_step: Array
    inputs: RigidInputs
    frames: int
    adjoint: Adjoint | None
    states: Array | None
    bristles: Array | None = None
    first_frame: int = 0
    last_arrays: tuple[Array, ...] = ()
    left_region: np.ndarray | None = None

    @property
    def frame_arrays(self) -> tuple[Array, ...]:
        """The arrays at the frames."""
        return self.body_q, self.body_qd

    @property
    def diverged(self) -> np.ndarray:
        """[B] bool, whether a body of the world diverged."""
        return (to_numpy(self.diverged_step) >= 0).any(axis=1)


class RigidSolver(Solver):
    """Simulates rigid bodies with compliant contact (gradSim, Eq. 2 and appendix A)."""

    frame_names, force_names, per_interval_inputs = ("body_q", "body_qd"), ("ground_wrench",), "wrenches"

    def __init__(self, model: RigidModel, settings: RigidSettings) -> None:
        """Bind a model to its time stepping.

        Args:
            model: bodies, contact points, applied forces.
            settings: time stepping, integrator and plan.
        """
        super().__init__(model, settings)
        if model.has_bristles and settings.integrator != "semi_implicit":
            raise UserError(
                f"the contact has bristles, and the integrator is {settings.integrator!r}: bristles need "
                "integrator='semi_implicit'"
            )
        self._arrays: dict[str, dict[str, Any]] = {}

    def last_names(self, inputs: RigidInputs) -> tuple[str, ...]:
        """As ``Solver.last_names``."""
        return ("body_momentum", "contact_bristle") if self.model.has_bristles else ("body_momentum",)

    @at_optimisation_level_0
    def _simulate(self, inputs: RigidInputs, frames: int, adjoint: Adjoint | None, first_frame: int) -> RigidRollout:
        """``rollout`` of checked arguments."""
        b, n, steps = inputs.world_count, self.model.body_count, frames * self.settings.substeps
        like, interval = inputs.body_mass, storage_interval(adjoint, steps, last=True)
        slots = -(-steps // interval) + 1  # the last state has a slot, too, after a whole segment or not
        states = empty_in_same_library(like, (b, slots, n, STATE.size))
        body_q = zeros_in_same_library(like, (b, frames + 1, n, 7))
        body_qd = zeros_in_same_library(like, (b, frames + 1, n, 6))
        diverged = ints_in_same_library(like, np.full((b, n), -1))
        if inputs.body_momentum0 is None:
            initialise_state(*views(inputs.body_q0, inputs.body_qd0, inputs.body_inertia, states, body_q, body_qd))
        else:
            _write_continued_state(inputs, states, body_q, body_qd)
        bristles = self._bristles(like, b, slots, inputs.contact_bristle0)
        rigid = self._kernel_arrays(inputs, bristles, first_frame)
        rk4, max_distance = self.settings.integrator == "rk4", min(self.settings.max_distance, _MAX_FINITE_DISTANCE)
        for first_body, launched in self._launches(rigid):
            advance(*views(
                rk4, first_body, states, interval, FrameArrays(body_q, body_qd, diverged), steps, self.settings.substeps,
                max_distance, launched,
            ))  # fmt: skip
            raise_if_timed_out(launched.team)
        left_region = to_numpy(diverged) >= LEFT_REGION
        if left_region.any():
            diverged = ints_in_same_library(like, to_numpy(diverged) - LEFT_REGION * left_region)
        last_arrays = self._last_arrays(states, bristles, diverged)
        stored_states = None if adjoint is None else states
        stored_bristles = bristles.stored if adjoint is not None and self.model.has_bristles else None
        stored_arrays = stored_states, stored_bristles
        result = RigidRollout(
            body_q, body_qd, diverged, inputs, frames, adjoint, *stored_arrays, first_frame, last_arrays, left_region
        )
        mark_diverged_frames(result.frame_arrays, to_numpy(diverged), self.settings.substeps)
        return result

    def _last_arrays(self, states: Array, bristles: BristleArrays, diverged: Array) -> tuple[Array, ...]:
        """``RigidRollout.last_arrays``, from the last slots; NaN for bodies that diverged."""
        momentum = section(states, (slice(None), -1, slice(None), MOMENTUM))
        last_arrays = (momentum, section(bristles.stored, (slice(None), -1))) if self.model.has_bristles else (momentum,)
        for world, body in np.argwhere(to_numpy(diverged) >= 0).tolist():
            first, stop = self.model.point_start[body : body + 2].tolist()
            for array, entries in zip(last_arrays, (body, slice(first, stop)), strict=False):
                fill_nan(array, (world, entries))
        return last_arrays

    @at_optimisation_level_0
    def _differentiate(self, rollout: RigidRollout, bars: tuple[Array, ...], last_bars: tuple[Array, ...]) -> RigidInputs:
        """``rollout_adjoint`` of checked arguments."""
        inputs, like = rollout.inputs, rollout.inputs.body_mass
        input_bars = inputs.zeros()
        state_bar = zeros_in_same_library(like, (inputs.world_count, self.model.body_count, STATE.size))
        if last_bars:
            assign(state_bar, (..., MOMENTUM), last_bars[0])
        bristle_bar = self._steps_adjoint(
            rollout, state_bar, *bars, input_bars, rollout.frames * self.settings.substeps, last_bars[1:]
        )
        if inputs.contact_bristle0 is not None:
            assign(input_bars.contact_bristle0, (...,), section(bristle_bar, (slice(None), 0)))
        if inputs.body_momentum0 is not None:
            _write_continued_state_adjoint(state_bar, bars, input_bars)
            return input_bars
        initialise_state_adjoint(*views(
            inputs.body_q0, inputs.body_qd0, inputs.body_inertia, state_bar, *bars,
            input_bars.body_q0, input_bars.body_qd0, input_bars.body_inertia,
        ))  # fmt: skip
        return input_bars

    @at_optimisation_level_0
    def _forces(self, inputs: RigidInputs) -> tuple[Array]:
        """``forces`` of checked inputs: ground_wrench [B, N, 6], of the ground on each body (``contact_wrenches``)."""
        wrench = zeros_in_same_library(inputs.body_mass, (inputs.world_count, self.model.body_count, 6))
        bristles = self._bristles(inputs.body_mass, inputs.world_count, 1, inputs.contact_bristle0)
        contact_wrenches(*views(inputs.body_q0, inputs.body_qd0, wrench, self._kernel_arrays(inputs, bristles, 0)))
        return (wrench,)

    @at_optimisation_level_0
    def _forces_adjoint(self, inputs: RigidInputs, bars: tuple[Array]) -> RigidInputs:
        """``forces_adjoint`` of checked inputs."""
        input_bars = inputs.zeros()
        bristles = self._bristles(inputs.body_mass, inputs.world_count, 1, inputs.contact_bristle0)
        contact_wrenches_adjoint(*views(
            inputs.body_q0, inputs.body_qd0, *bars, input_bars.body_q0, input_bars.body_qd0,
            self._kernel_arrays(inputs, bristles, 0), BodyArrays(**_kernel_fields(input_bars)),
        ))  # fmt: skip
        if inputs.contact_bristle0 is not None:
            assign(input_bars.contact_bristle0, (...,), section(bristles.bar, (slice(None), 0)))
        return input_bars

    def check_divergence(self, rollout: RigidRollout) -> None:
        """Raise a DivergenceError that names body and step when every world of the rollout diverged."""
        steps, left_region = to_numpy(rollout.diverged_step), rollout.left_region
        if not (steps >= 0).any(axis=1).all():
            return
        world, body = np.unravel_index(np.where(steps >= 0, steps, np.iinfo(np.int32).max).argmin(), steps.shape)
        name, step = self.model.body_names[body], int(steps[world, body])
        if bool(left_region[world, body]):
            raise DivergenceError(
                f"{name!r} left the region that the scene allows: it was farther than {self.settings.max_distance:g} m from the "
                f"origin at step {step} ({step * self.settings.dt:.4g} s): take weaker forces, or a larger max_distance",
                body=name,
                step=step,
            )
        raise DivergenceError(
            f"the simulation diverged: the state of {name!r} stopped being finite at step {step} "
            f"({step * self.settings.dt:.4g} s): take smaller steps (more substeps) or softer contact",
            body=name,
            step=step,
        )

    def failed_steps(self, rollout: RigidRollout) -> Array:
        """[B, N] int32, first step at which the state of a body was not finite or too far away, -1 if neither occurred."""
        return rollout.diverged_step

    def plan(self, world_count: int) -> str:
        """Execution plan ("world" or "element") of a rollout of ``world_count`` worlds."""
        if self.settings.plan != "auto":
            return self.settings.plan
        return "element" if lanes_share_points(world_count * self.model.body_count, self._max_points) else "world"

    @property
    def _max_points(self) -> int:
        """Largest number of contact points of a body."""
        return max((len(points) for points in self.model.contact_points), default=0)

    def _launches(self, rigid: RigidArrays) -> Iterator[tuple[int, RigidArrays]]:
        """Launches that compute the steps of all bodies: number of the first body, and the arguments with the launch's team."""
        like, (worlds, bodies) = rigid.body_mass, rigid.body_mass.shape
        if self.plan(worlds) == "world":
            yield 0, rigid
            return
        for first_body, team in point_teams(like, worlds * bodies, self._max_points):
            yield first_body, with_fields(rigid, team=team, sums=team_rows(like, team, LOAD_INPUTS.size))

    def _steps_adjoint(
        self, rollout: RigidRollout, state_bar: Array, body_q_bar: Array, body_qd_bar: Array, bars: RigidInputs, steps: int,
        last_bristle_bar: tuple[Array, ...],
    ) -> Array:  # fmt: skip
        """Adjoint of all steps.

        Returns:
            [B, 1, P, 2] adjoint of the initial displacements of bristles, from ``last_bristle_bar`` (zeros if it is empty).
        """
        inputs, stored_states = rollout.inputs, rollout.states
        recompute, segment_steps = rollout.adjoint.interval > 1, segment_length(rollout.adjoint, steps)
        shape = (inputs.world_count, segment_steps + 1, self.model.body_count, STATE.size)
        states = empty_in_same_library(inputs.body_mass, shape) if recompute else stored_states
        rk4, substeps = self.settings.integrator == "rk4", self.settings.substeps
        bristles = self._bristles(inputs.body_mass, inputs.world_count, segment_steps + 1 if recompute else 1)
        if rollout.bristles is not None:
            segment = bristles.stored if recompute else rollout.bristles
            bristles = replace(bristles, stored=rollout.bristles, segment=segment)
        for bar in last_bristle_bar:
            assign(bristles.bar, (slice(None), 0), bar)
        rigid, body_bars = self._kernel_arrays(inputs, bristles, rollout.first_frame), BodyArrays(**_kernel_fields(bars))
        frames = (rollout.diverged_step, state_bar, body_q_bar, body_qd_bar)
        for first_body, launched in self._launches(rigid):
            advance_adjoint(*views(
                rk4, first_body, stored_states, states, segment_steps, int(recompute), *frames, steps, substeps, launched,
                body_bars,
            ))  # fmt: skip
            raise_if_timed_out(launched.team)
        return bristles.bar

    def _bristles(self, like: Array, worlds: int, slots: int, initial: Array | None = None) -> BristleArrays:
        """Displacements of bristles, with this many slots in ``stored``; placeholders without bristles.

        Args:
            like: array of the container.
            worlds: B.
            slots: of ``stored``.
            initial: [B, P, 2] displacements at the first step [m]; zeros by default.
        """
        if not self.model.has_bristles:
            placeholder = zeros_in_same_library(like, (1, 1, 1, 2))
            return BristleArrays(placeholder, placeholder, placeholder, placeholder)
        points = self.model.point_count
        current, bar = (zeros_in_same_library(like, (worlds, 1, points, 2)) for _ in range(2))
        stored = zeros_in_same_library(like, (worlds, slots, points, 2))
        if initial is not None:
            assign(current, (slice(None), 0), initial)
            assign(stored, (slice(None), 0), initial)
        return BristleArrays(current, stored, stored, bar)

    def _kernel_arrays(self, inputs: RigidInputs, bristles: BristleArrays, first_frame: int) -> RigidArrays:
        """Inputs and tables as kernel arguments; the kernels count steps from the beginning of the rollout."""
        like = inputs.body_mass
        tables = self._tables(like)
        if first_frame and self.model.force_count:
            window = self.model.force_window - first_frame * self.settings.substeps * np.array([0, 1, 1])
            tables = tables | {"force_window": ints_in_same_library(like, window)}
        return RigidArrays(
            bristles=bristles, has_wrenches=self.model.has_wrenches, has_bristles=self.model.has_bristles,
            has_contact_radii=self.model.has_contact_radii, has_rims_or_patches=self.model.has_rims_or_patches,
            **_kernel_fields(inputs), **tables, **self._single_team(like, like.shape[0] * like.shape[1]),
            force_count=self.model.force_count, dt=float(self.settings.dt), ground=float(self.model.ground_height),
        )  # fmt: skip

    def _single_team(self, like: Array, bodies: int) -> dict[str, Any]:
        """Arguments for a team of one thread a body; kernels do not write to its arrays, so that launches share them."""
        key = f"{_container(like)} {bodies}"
        if key not in self._arrays:
            team = single_threads(like, bodies)
            self._arrays[key] = {"team": team, "sums": team_rows(like, team, LOAD_INPUTS.size)}
        return self._arrays[key]

    def _tables(self, like: Array) -> dict[str, Array]:
        """Tables of the model in the container of ``like``."""
        key = _container(like)
        if key not in self._arrays:
            self._arrays[key] = {
                "point": reals_in_same_library(like, self.model.point),
                "point_start": ints_in_same_library(like, self.model.point_start),
                "point_reach": reals_in_same_library(like, self.model.point_reach),
                "force_window": ints_in_same_library(like, self.model.force_window),
            }
        return self._arrays[key]


def _container(array: Array) -> str:
    """Name of the library, device and precision of an array."""
    return f"{type(array)} {getattr(array, 'device', '')} {array.dtype}"


def _write_continued_state(inputs: RigidInputs, states: Array, body_q: Array, body_qd: Array) -> None:
    """Write the first state and frame 0 of a rollout that continues another one.

    Hand-written adjoint: ``_write_continued_state_adjoint``.
    """
    all_entries = slice(None)
    assign(states, (all_entries, 0, all_entries, POSE), inputs.body_q0)
    assign(states, (all_entries, 0, all_entries, VELOCITY), section(inputs.body_qd0, (..., slice(3))))
    assign(states, (all_entries, 0, all_entries, MOMENTUM), inputs.body_momentum0)
    assign(body_q, (all_entries, 0), inputs.body_q0)
    assign(body_qd, (all_entries, 0), inputs.body_qd0)


def _write_continued_state_adjoint(state_bar: Array, bars: tuple[Array, ...], input_bars: RigidInputs) -> None:
    """Adjoint of ``_write_continued_state`` from that of the first state [B, N, 13] and those of the frames."""
    body_q_bar, body_qd_bar = (to_numpy(section(bar, (slice(None), 0))) for bar in bars)
    assign(input_bars.body_q0, (...,), reals_in_same_library(state_bar, body_q_bar + to_numpy(section(state_bar, (..., POSE)))))
    velocity_bar = np.array(body_qd_bar)
    velocity_bar[..., :3] += to_numpy(section(state_bar, (..., VELOCITY)))
    assign(input_bars.body_qd0, (...,), reals_in_same_library(state_bar, velocity_bar))
    assign(input_bars.body_momentum0, (...,), section(state_bar, (..., MOMENTUM)))


def _kernel_fields(inputs: RigidInputs) -> dict[str, Array]:
    """Arrays of inputs or adjoints as kernel arguments; those that the model does not have are unused placeholders."""
    arrays = {field.name: getattr(inputs, field.name) for field in fields(BodyArrays)}
    return {name: inputs.body_mass if array is None else array for name, array in arrays.items()}
