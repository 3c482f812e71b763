"""The rigid solver: rollouts of a batch of worlds and their adjoint, for any array container."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

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
from ti_sim.base.errors import DivergenceError, UserError
from ti_sim.base.parallel import iterations_per_task
from ti_sim.base.runtime import compiled_briefly, require
from ti_sim.rigid import element_plan, world_plan
from ti_sim.rigid.arrays import BodyArrays, BristleArrays, RigidArrays
from ti_sim.rigid.dynamics import STATE_SIZE
from ti_sim.rigid.model import RigidInputs, RigidModel, RigidSettings
from ti_sim.rigid.state import LEFT_REGION, begin, begin_adjoint
from ti_sim.rollout.adjoint import Adjoint, kept_interval, segment_length
from ti_sim.rollout.divergence import mark_diverged_frames
from ti_sim.rollout.solver import Solver

# On a CPU one thread per body is faster than two that share its points through atomic sums, at every size measured (`python -m
# benchmarks rigid`). A GPU needs more threads.
_ELEMENT_POINTS_CUDA = 64
_FULL_CUDA_THREADS = 1024
_FARTHEST = 1e18  # m: a position beyond it is treated as not finite, whatever max_distance is


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

    frame_names, held = ("body_q", "body_qd"), "wrenches"

    def __init__(self, model: RigidModel, settings: RigidSettings) -> None:
        """Bind a model to its time stepping.

        Args:
            model: bodies, contact points, applied forces.
            settings: time stepping, integrator and plan.
        """
        super().__init__(model, settings)
        if model.bristled and (settings.integrator != "semi_implicit" or settings.plan == "element"):
            raise UserError(
                f"the contact has bristles, the integrator is {settings.integrator!r} and the plan {settings.plan!r}: bristles "
                "need integrator='semi_implicit', and plan='auto' or 'world'"
            )
        self._arrays: dict[str, dict[str, Array]] = {}

    @compiled_briefly
    def _simulate(self, inputs: RigidInputs, frames: int, adjoint: Adjoint | None) -> RigidRollout:
        """``rollout`` of checked arguments."""
        b, n, steps = inputs.world_count, self.model.body_count, frames * self.settings.substeps
        like, interval = inputs.body_mass, kept_interval(adjoint, steps)
        states = empty_in_same_library(like, (b, steps // interval + 1, n, STATE_SIZE))
        body_q = zeros_in_same_library(like, (b, frames + 1, n, 7))
        body_qd = zeros_in_same_library(like, (b, frames + 1, n, 6))
        diverged = ints_in_same_library(like, np.full((b, n), -1))
        begin(*views(inputs.body_q0, inputs.body_qd0, inputs.body_inertia, states, body_q, body_qd))
        bristles = self._bristles(like, b, steps // interval + 1)
        rigid = self._arrays_of(inputs, bristles)
        self._advance(rigid, states, 0, states, interval, body_q, body_qd, True, diverged, 0, steps)
        left = to_numpy(diverged) >= LEFT_REGION
        if left.any():
            diverged = ints_in_same_library(like, to_numpy(diverged) - LEFT_REGION * left)
        kept = None if adjoint is None else states
        held = bristles.kept if adjoint is not None and self.model.bristled else None
        result = RigidRollout(body_q, body_qd, diverged, inputs, frames, adjoint, kept, held, left)
        mark_diverged_frames(result.frame_arrays, to_numpy(diverged), self.settings.substeps)
        return result

    @compiled_briefly
    def _differentiate(self, rollout: RigidRollout, bars: tuple[Array, ...]) -> RigidInputs:
        """``rollout_adjoint`` of checked arguments."""
        inputs, like = rollout.inputs, rollout.inputs.body_mass
        input_bars = inputs.zeros()
        state_bar = zeros_in_same_library(like, (inputs.world_count, self.model.body_count, STATE_SIZE))
        self._steps_adjoint(rollout, state_bar, *bars, input_bars, rollout.frames * self.settings.substeps)
        begin_adjoint(*views(
            inputs.body_q0, inputs.body_qd0, inputs.body_inertia, state_bar, *bars,
            input_bars.body_q0, input_bars.body_qd0, input_bars.body_inertia,
        ))  # fmt: skip
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
        points = max((len(p) for p in self.model.contact_points), default=0)
        threads = world_count * self.model.body_count
        if self.settings.integrator == "rk4" or self.model.bristled:
            return "world"
        if require().device == "cuda":
            return "element" if threads < _FULL_CUDA_THREADS and points >= _ELEMENT_POINTS_CUDA else "world"
        return "world"

    def _advance(
        self, rigid: RigidArrays, source: Array, source_slot: int, states: Array, store_every: int,
        body_q: Array, body_qd: Array, write_frames: bool, diverged: Array, first: int, steps: int,
    ) -> None:  # fmt: skip
        rk4, reach = self.settings.integrator == "rk4", min(self.settings.max_distance, _FARTHEST)
        worlds, bodies = rigid.body_mass.shape
        state = rk4, source, source_slot, states, store_every, body_q, body_qd, int(write_frames), diverged
        count = first, steps, self.settings.substeps, reach
        if self.plan(worlds) == "element":
            element_plan.advance(*views(*state, *count), viewed(rigid))
        else:
            world_plan.advance(*views(*state, iterations_per_task(worlds * bodies), *count, rigid))

    def _steps_adjoint(
        self, rollout: RigidRollout, state_bar: Array, body_q_bar: Array, body_qd_bar: Array, bars: RigidInputs, steps: int
    ) -> None:
        """Adjoint of all steps: one launch in the world plan, segment by segment in the element plan."""
        inputs, kept = rollout.inputs, rollout.states
        recompute, span = rollout.adjoint.interval > 1, segment_length(rollout.adjoint, steps)
        shape = (inputs.world_count, span + 1, self.model.body_count, STATE_SIZE)
        states = empty_in_same_library(inputs.body_mass, shape) if recompute else kept
        rk4, substeps = self.settings.integrator == "rk4", self.settings.substeps
        bristles = self._bristles(inputs.body_mass, inputs.world_count, span + 1 if recompute else 1)
        if rollout.bristles is not None:
            segment = bristles.kept if recompute else rollout.bristles
            bristles = replace(bristles, kept=rollout.bristles, segment=segment)
        rigid, body_bars = self._arrays_of(inputs, bristles), BodyArrays(**_numbers(bars))
        frames = (rollout.diverged_step, state_bar, body_q_bar, body_qd_bar)
        if self.plan(inputs.world_count) == "world":
            spread = iterations_per_task(inputs.world_count * self.model.body_count)
            world_plan.advance_adjoint(*views(
                rk4, kept, states, span, int(recompute), *frames, spread, steps, substeps, rigid, body_bars
            ))  # fmt: skip
            return

        def again(first: int, count: int) -> None:
            nothing = (rollout.body_q, rollout.body_qd, False, rollout.diverged_step)
            self._advance(rigid, kept, first // span, states, 1, *nothing, first, count)

        def back(first: int, count: int) -> None:
            arguments = views(rk4, states, *frames, first, count, substeps)
            element_plan.advance_adjoint(*arguments, viewed(rigid), viewed(body_bars))

        rollout.adjoint.run_backwards(steps, recompute=again, differentiate=back)

    def _bristles(self, like: Array, worlds: int, slots: int) -> BristleArrays:
        """Displacements of bristles, all zero, with this many slots in ``kept``; placeholders without bristles."""
        if not self.model.bristled:
            nothing = zeros_in_same_library(like, (1, 1, 1, 2))
            return BristleArrays(nothing, nothing, nothing, nothing)
        points = sum(len(given) for given in self.model.contact_points)
        now, bar = (zeros_in_same_library(like, (worlds, 1, points, 2)) for _ in range(2))
        kept = zeros_in_same_library(like, (worlds, slots, points, 2))
        return BristleArrays(now, kept, kept, bar)

    def _arrays_of(self, inputs: RigidInputs, bristles: BristleArrays) -> RigidArrays:
        """Inputs and tables as kernel arguments."""
        return RigidArrays(
            bristles=bristles, driven=self.model.driven, bristled=self.model.bristled, rounded=self.model.rounded,
            turning=self.model.turning, **_numbers(inputs), **self._tables(inputs.body_mass),
            force_count=self.model.force_count, point_count=sum(len(points) for points in self.model.contact_points),
            dt=float(self.settings.dt), ground=float(self.model.ground_height),
        )  # fmt: skip

    def _tables(self, like: Array) -> dict[str, Array]:
        """Tables of the model in the container of ``like``."""
        key = f"{type(like)} {getattr(like, 'device', '')} {like.dtype}"
        if key not in self._arrays:
            self._arrays[key] = {
                "point": reals_in_same_library(like, self.model.point),
                "point_start": ints_in_same_library(like, self.model.point_start),
                "point_reach": reals_in_same_library(like, self.model.point_reach),
                "point_body": ints_in_same_library(like, self.model.point_body),
                "force_window": ints_in_same_library(like, self.model.force_window),
            }
        return self._arrays[key]


def _numbers(inputs: RigidInputs) -> dict[str, Array]:
    """Arrays of inputs or adjoints as kernel arguments; those that the model does not have are unused placeholders."""
    arrays = {field.name: getattr(inputs, field.name) for field in fields(BodyArrays)}
    return {name: inputs.body_mass if array is None else array for name, array in arrays.items()}
