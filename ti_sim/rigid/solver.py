"""The rigid solver: rollouts of a batch of worlds, and their adjoint, for any container of arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ti_sim.adjoint import Adjoint, Checkpoint, StoreAll
from ti_sim.base.arrays import (
    Array,
    check_array,
    empty_like_family,
    ints_like_family,
    kernel_view,
    reals_like_family,
    to_numpy,
    zeros_like_family,
)
from ti_sim.base.errors import DivergenceError, UserError
from ti_sim.base.parallel import spread_of
from ti_sim.base.rules import Count, checked
from ti_sim.base.runtime import compiled_briefly, require
from ti_sim.rigid import element_plan, world_plan
from ti_sim.rigid.dynamics import STATE_SIZE
from ti_sim.rigid.model import RigidInputs, RigidModel, RigidSettings
from ti_sim.rigid.state import LEFT_REGION, begin, begin_adjoint

# On a CPU one thread walks over a body's points faster than two share them through atomic sums, at every size measured
# (`python -m benchmarks rigid`); a GPU has threads to fill.
_ELEMENT_POINTS_CUDA = 64
_FULL_CUDA_THREADS = 1024
_FARTHEST = 1e18  # m: beyond it a position counts as not finite, whatever the region


@dataclass(frozen=True)
class ModelArrays:
    """The model's tables in the container of a rollout's arrays (what kernels read)."""

    point: Array
    point_start: Array
    point_body: Array
    force_window: Array


@dataclass(frozen=True)
class RigidRollout:
    """What a rollout gives, and what its adjoint needs.

    Attributes:
        body_q: [B, frames + 1, N, 7] poses at the frames, frame 0 the start (m, quaternion x, y, z, w).
        body_qd: [B, frames + 1, N, 6] velocities [m/s] and angular velocities [rad/s], world frame.
        diverged_step: [B, N] int32, first step at which a body's state was not finite or its centre of mass beyond
            ``max_distance``, -1 where all went well.
        inputs: what the rollout started from.
        frames: number of frame intervals.
        adjoint: how states were kept, None for a rollout without gradient.
        states: [B, kept, N, 13] states (x, q, v, L) at every step or checkpoint; None without gradient.
        left_region: [B, N] numpy bool, True where it was the distance; None where a rollout is put together for its adjoint.
    """

    body_q: Array
    body_qd: Array
    diverged_step: Array
    inputs: RigidInputs
    frames: int
    adjoint: Adjoint | None
    states: Array | None
    left_region: np.ndarray | None = None


class RigidSolver:
    """Advances a rigid model by compliant contact dynamics (gradSim, Eq. 2 and appendix A)."""

    def __init__(self, model: RigidModel, settings: RigidSettings) -> None:
        """Bind a model to its time stepping.

        Args:
            model: bodies, contact points, applied forces.
            settings: step, substeps, integrator, plan.
        """
        self.model = model
        self.settings = settings
        self._arrays: dict[str, ModelArrays] = {}

    @compiled_briefly
    @checked
    def rollout(self, inputs: RigidInputs, frames: Count, *, adjoint: Adjoint | None = None) -> RigidRollout:
        """Simulate ``frames`` frame intervals.

        Args:
            inputs: the numbers of every world.
            frames: frame intervals; the result has one frame more, the start.
            adjoint: ``StoreAll()`` or ``Checkpoint(every=k)`` to keep what ``rollout_adjoint`` needs; None keeps nothing.

        Returns:
            Frames and kept states. A world that diverges is marked in ``diverged_step``; its later frames are NaN.

        Raises:
            UserError: shapes or precision do not fit, or there are wrenches for fewer frame intervals.
        """
        require()
        inputs.check(self.model)
        if self.model.driven and inputs.body_wrench.shape[1] < frames:
            raise UserError(
                f"frames={frames}, and there are wrenches for {inputs.body_wrench.shape[1]} frame intervals: simulate fewer "
                "frames, or give more"
            )
        b, n, steps = inputs.world_count, self.model.body_count, frames * self.settings.substeps
        like = inputs.body_mass
        store_every = {StoreAll: 1, type(None): steps + 1}.get(type(adjoint)) or adjoint.every
        states = empty_like_family(like, (b, steps // store_every + 1, n, STATE_SIZE))
        body_q = zeros_like_family(like, (b, frames + 1, n, 7))
        body_qd = zeros_like_family(like, (b, frames + 1, n, 6))
        diverged = ints_like_family(like, np.full((b, n), -1))
        begin(*_views(inputs.body_q0, inputs.body_qd0, inputs.body_inertia, states, body_q, body_qd))
        self._advance(inputs, states, 0, states, store_every, body_q, body_qd, True, diverged, 0, steps)
        left = to_numpy(diverged) >= LEFT_REGION
        if left.any():
            diverged = ints_like_family(like, to_numpy(diverged) - LEFT_REGION * left)
        kept = None if adjoint is None else states
        result = RigidRollout(body_q, body_qd, diverged, inputs, frames, adjoint, kept, left)
        mark_diverged_frames(body_q, body_qd, diverged, self.settings.substeps)
        return result

    @compiled_briefly
    def rollout_adjoint(self, rollout: RigidRollout, body_q_bar: Array, body_qd_bar: Array) -> RigidInputs:
        """Adjoint of ``rollout``: from the adjoints of the frames to those of every input.

        Args:
            rollout: result of ``rollout`` with an adjoint.
            body_q_bar: [B, frames + 1, N, 7] derivative of the loss with respect to ``body_q``.
            body_qd_bar: [B, frames + 1, N, 6] derivative with respect to ``body_qd``.

        Returns:
            Derivatives with respect to every array of ``RigidInputs``; NaN for worlds that diverged, which have none.

        Raises:
            UserError: the rollout kept nothing, or shapes or precision do not fit.
        """
        if rollout.states is None:
            raise UserError(
                "this rollout kept no states: run it with adjoint=StoreAll() or Checkpoint(every=k) to differentiate it"
            )
        inputs = rollout.inputs
        # From the counts, not from the kept frames, which a caller may have let go of.
        shape = (inputs.world_count, rollout.frames + 1, self.model.body_count)
        check_array(body_q_bar, "body_q_bar", (*shape, 7))
        check_array(body_qd_bar, "body_qd_bar", (*shape, 6))
        like = inputs.body_mass
        bars = RigidInputs(*(zeros_like_family(like, tuple(a.shape)) for a in inputs.arrays()))
        b, n = inputs.world_count, self.model.body_count
        state_bar = zeros_like_family(like, (b, n, STATE_SIZE))
        steps = rollout.frames * self.settings.substeps
        self._steps_adjoint(rollout, state_bar, body_q_bar, body_qd_bar, bars, steps)
        begin_adjoint(*_views(
            inputs.body_q0, inputs.body_qd0, inputs.body_inertia, state_bar, body_q_bar, body_qd_bar,
            bars.body_q0, bars.body_qd0, bars.body_inertia,
        ))  # fmt: skip
        mark_diverged_worlds(bars, rollout.diverged_step)
        return bars

    def check_divergence(self, rollout: RigidRollout) -> None:
        """Raise a DivergenceError that names body and step when every world of the rollout diverged."""
        self.check_divergence_steps(rollout.diverged_step, rollout.left_region)

    def check_divergence_steps(self, diverged_step: Array, left_region: Array) -> None:
        """As ``check_divergence``, from diverged_step and left_region, both [B, N]."""
        steps = to_numpy(diverged_step)
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

    def plan(self, world_count: int) -> str:
        """The execution plan ("world" or "element") that a rollout of ``world_count`` worlds takes."""
        if self.settings.plan != "auto":
            return self.settings.plan
        points = max((len(p) for p in self.model.contact_points), default=0)
        threads = world_count * self.model.body_count
        if self.settings.integrator == "rk4":
            return "world"
        if require().device == "cuda":
            return "element" if threads < _FULL_CUDA_THREADS and points >= _ELEMENT_POINTS_CUDA else "world"
        return "world"

    def _advance(
        self, inputs: RigidInputs, source: Array, source_slot: int, states: Array, store_every: int,
        body_q: Array, body_qd: Array, write_frames: bool, diverged: Array, first: int, steps: int,
    ) -> None:  # fmt: skip
        tables = self._tables(inputs.body_mass)
        run = element_plan.advance if self.plan(inputs.world_count) == "element" else world_plan.advance
        run(*_views(
            self.settings.integrator == "rk4", self.model.driven, self.model.turning, source, source_slot, states, store_every,
            body_q, body_qd, int(write_frames), diverged,
            inputs.body_mass, inputs.body_inertia, inputs.body_material, inputs.gravity, inputs.body_force,
            inputs.force_point, *_driving(inputs), *self._table_arguments(tables, run is element_plan.advance),
            *self._counts(run is element_plan.advance, inputs.world_count), self.settings.dt, self.model.ground_height,
            first, steps, self.settings.substeps, min(self.settings.max_distance, _FARTHEST),
        ))  # fmt: skip

    def _steps_adjoint(
        self, rollout: RigidRollout, state_bar: Array, body_q_bar: Array, body_qd_bar: Array, bars: RigidInputs, steps: int
    ) -> None:
        """Adjoint of all steps: one launch in the world plan, one segment after another in the element plan."""
        inputs, kept = rollout.inputs, rollout.states
        recompute = isinstance(rollout.adjoint, Checkpoint)
        every = min(rollout.adjoint.every, steps) if recompute else steps
        shape = (inputs.world_count, every + 1, self.model.body_count, STATE_SIZE)
        states = empty_like_family(inputs.body_mass, shape) if recompute else kept
        element = self.plan(inputs.world_count) == "element"
        rk4 = self.settings.integrator == "rk4"
        bodies = (
            inputs.body_mass, inputs.body_inertia, inputs.body_material, inputs.gravity, inputs.body_force, inputs.force_point,
            *_driving(inputs),
            bars.body_mass, bars.body_inertia, bars.body_material, bars.gravity, bars.body_force, bars.force_point,
            *_driving(bars),
            *self._table_arguments(self._tables(inputs.body_mass), element),
            *self._counts(element, inputs.world_count), self.settings.dt, self.model.ground_height,
        )  # fmt: skip
        frames = (rollout.diverged_step, state_bar, body_q_bar, body_qd_bar)
        if not element:
            arguments = (kept, states, every, int(recompute), *frames, *bodies, steps, self.settings.substeps)
            world_plan.advance_adjoint(*_views(rk4, self.model.driven, self.model.turning, *arguments))
            return
        for first in reversed(range(0, steps, every)):
            count = min(every, steps - first)
            if recompute:
                self._advance(
                    inputs, kept, first // every, states, 1, rollout.body_q, rollout.body_qd, False,
                    rollout.diverged_step, first, count,
                )  # fmt: skip
            arguments = (states, *frames, *bodies, first, count, self.settings.substeps)
            element_plan.advance_adjoint(*_views(rk4, self.model.driven, self.model.turning, *arguments))

    def _tables(self, like: Array) -> ModelArrays:
        key = f"{type(like)} {getattr(like, 'device', '')} {like.dtype}"
        if key not in self._arrays:
            self._arrays[key] = ModelArrays(
                point=reals_like_family(like, self.model.point),
                point_start=ints_like_family(like, self.model.point_start),
                point_body=ints_like_family(like, self.model.point_body),
                force_window=ints_like_family(like, self.model.force_window),
            )
        return self._arrays[key]

    def _counts(self, element: bool, world_count: int) -> tuple[int, int]:
        points = sum(len(p) for p in self.model.contact_points)
        return self.model.force_count, points if element else spread_of(world_count * self.model.body_count)

    @staticmethod
    def _table_arguments(tables: ModelArrays, element: bool) -> tuple[Array, ...]:
        owner = tables.point_body if element else tables.point_start
        return tables.point, owner, tables.force_window


def _views(*arguments: object) -> tuple[object, ...]:
    """Arguments of a kernel, its arrays as ``kernel_view`` gives them."""
    return tuple(kernel_view(argument) if hasattr(argument, "shape") else argument for argument in arguments)


def _driving(inputs: RigidInputs) -> tuple[Array, Array]:
    """Wrenches and drag for a kernel; in a model that is not driven, arrays in their places that no kernel reads."""
    if inputs.body_wrench is None:
        return inputs.body_mass, inputs.body_mass
    return inputs.body_wrench, inputs.body_drag


def mark_diverged_frames(body_q: Array, body_qd: Array, diverged_step: Array, substeps: int) -> None:
    """Set the frames of diverged bodies after their last finite one to NaN, in place."""
    steps = to_numpy(diverged_step)
    for b, n in np.argwhere(steps >= 0):
        frame = int(steps[b, n] - 1) // substeps + 1
        _fill(body_q, (int(b), slice(frame, None), int(n)))
        _fill(body_qd, (int(b), slice(frame, None), int(n)))


def mark_diverged_worlds(bars: RigidInputs, diverged_step: Array) -> None:
    """Set the adjoints of diverged worlds to NaN, in place: a gradient that does not exist is not zero."""
    for b in np.flatnonzero((to_numpy(diverged_step) >= 0).any(axis=1)):
        for bar in bars.arrays():
            _fill(bar, (int(b),))


def _fill(array: Array, index: tuple) -> None:
    if hasattr(array, "from_numpy"):
        values = array.to_numpy()
        values[index] = np.nan
        array.from_numpy(values)
    else:
        array[index] = float("nan")
