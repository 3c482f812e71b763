"""The deformable solver: rollouts of a batch of worlds, and their adjoint, for any container of arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ti_sim.adjoint import Adjoint, Checkpoint
from ti_sim.articulated.solver import fill_nan, mark_diverged_frames, views
from ti_sim.base.arrays import (
    Array,
    check_array,
    empty_like_family,
    int_zeros_like_family,
    ints_like_family,
    kernel_view,
    to_numpy,
    zeros_like_family,
)
from ti_sim.base.errors import DivergenceError, UserError
from ti_sim.base.launch import Launcher
from ti_sim.base.parallel import Pace, spread_of, thread_count
from ti_sim.base.rules import Count, checked
from ti_sim.base.runtime import require
from ti_sim.deformable import element_plan, self_contact_gpu, world_plan
from ti_sim.deformable import self_contact_layout as layout
from ti_sim.deformable.arrays import TABLES
from ti_sim.deformable.element_plan import Slots, slots_of
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.model import DeformableModel, DeformableSettings
from ti_sim.deformable.prepared import AdjointSums, PreparedInputs, compiled_for, prepare
from ti_sim.deformable.self_contact_tables import self_contact_memory
from ti_sim.deformable.states import begin, begin_adjoint, begin_frames, copy_row
from ti_sim.deformable.team_steps import TeamSteps

# Steps whose parameter adjoints are summed before they join the sum over the rollout.
_SUM_STEPS = 1024

_LARGEST_ARRAY = 2**31 - 1  # kernels count entries in 32 bits

# Cost of an element's force on a CPU core [us], and of the elements of a step that are worth sharing among threads.
_COST = {"tet": 0.06, "hex": 0.9, "tet10": 0.6, "triangle": 0.04, "edge": 0.03, "spring": 0.01}
_LEAST_WORK = 12.0
_MANY_CUDA_WORLDS = 4096  # as many threads keep a GPU busy without sharing a world's elements


def check_controls(inputs: DeformableInputs, substeps: int) -> None:
    """Raise a UserError where the rows of actuation cannot share the steps of a frame in equal parts."""
    if substeps % inputs.controls:
        raise UserError(
            f"there are {inputs.controls} rows of actuation in a frame of {substeps} steps: give a number that divides the steps"
        )


@dataclass(frozen=True)
class DeformableRollout:
    """What a rollout gives, and what its adjoint needs.

    Attributes:
        particle_q: [B, frames + 1, P, 3] positions at the frames, frame 0 the start [m].
        particle_qd: [B, frames + 1, P, 3] velocities [m/s].
        diverged_step: [B] int32, first step after which a world's state was not finite, -1 where all went well.
        diverged_particle: [B] int32, its first particle whose state it was, -1 where all went well.
        inputs: what the rollout started from.
        frames: number of frame intervals.
        adjoint: how states were kept, None for a rollout without gradient.
        states: [B, kept, P, 6] positions and velocities at every step or checkpoint; None without gradient.
    """

    particle_q: Array
    particle_qd: Array
    diverged_step: Array
    diverged_particle: Array
    inputs: DeformableInputs
    frames: int
    adjoint: Adjoint | None
    states: Array | None


class DeformableSolver:
    """Advances particles and the elements between them by semi-implicit Euler steps (gradSim, appendices A.1 and C)."""

    def __init__(self, model: DeformableModel, settings: DeformableSettings) -> None:
        """Bind a model to its time stepping.

        Args:
            model: particles and elements.
            settings: step, substeps, plan.
        """
        self.model = model
        self.settings = settings

    @checked
    def rollout(self, inputs: DeformableInputs, frames: Count, *, adjoint: Adjoint | None = None) -> DeformableRollout:
        """Simulate ``frames`` frame intervals.

        Args:
            inputs: the numbers of every world.
            frames: frame intervals; the result has one frame more, the start.
            adjoint: ``StoreAll()`` or ``Checkpoint(every=k)`` to keep what ``rollout_adjoint`` needs; None keeps nothing.

        Returns:
            Frames and kept states. A world that diverges is marked in ``diverged_step``; its later frames are NaN.

        Raises:
            UserError: shapes, precision or numbers do not fit, or there are loads for fewer frame intervals.
        """
        require()
        inputs.check(self.model)
        inputs.check_values(self.model)
        if inputs.frame_count < frames:
            raise UserError(
                f"frames={frames}, and there are loads and actuations for {inputs.frame_count} frame intervals: simulate fewer "
                "frames, or give more"
            )
        check_controls(inputs, self.settings.substeps)
        return compiled_for(self.model, self._rollout)(inputs, frames, adjoint)

    def _rollout(self, inputs: DeformableInputs, frames: int, adjoint: Adjoint | None) -> DeformableRollout:
        """``rollout`` of checked arguments."""
        like, b, p = inputs.particle_mass, inputs.world_count, self.model.particle_count
        steps = frames * self.settings.substeps
        keep_every = adjoint.every if isinstance(adjoint, Checkpoint) and adjoint.every > 1 else 0
        store_all = adjoint is not None and keep_every == 0
        rows = steps + 1 if store_all else 1
        if b * rows * p * 6 > _LARGEST_ARRAY:
            raise UserError(
                f"StoreAll() would keep {b * rows * p * 6:.3g} numbers of {b} worlds, {steps} steps and {p} particles, more than "
                f"an array can hold: use Checkpoint(every={max(int(steps**0.5), 2)}), or fewer worlds at a time"
            )
        states = empty_like_family(like, (b, rows, p, 6))
        kept = empty_like_family(like, (b, steps // keep_every + 1, p, 6)) if keep_every else states
        particle_q, particle_qd = (empty_like_family(like, (b, frames + 1, p, 3)) for _ in range(2))
        diverged = [ints_like_family(like, np.full(b, -1)) for _ in range(2)]
        start = (inputs.particle_q0, inputs.particle_qd0)
        begin(*views(*start, states))
        begin_frames(*views(*start, particle_q, particle_qd))
        if keep_every:
            begin(*views(*start, kept))
        result = DeformableRollout(
            particle_q, particle_qd, *diverged, inputs, frames, adjoint, None if adjoint is None else kept
        )
        self._advance(prepare(self.model, inputs), result, states, not store_all, True, keep_every, kept, 0, steps)
        mark_diverged_frames((particle_q, particle_qd), to_numpy(diverged[0]), self.settings.substeps)
        return result

    def rollout_adjoint(self, rollout: DeformableRollout, particle_q_bar: Array, particle_qd_bar: Array) -> DeformableInputs:
        """Adjoint of ``rollout``: from the adjoints of the frames to those of every input.

        Args:
            rollout: result of ``rollout`` with an adjoint.
            particle_q_bar: [B, frames + 1, P, 3] adjoint of particle_q [1/m].
            particle_qd_bar: [B, frames + 1, P, 3] adjoint of particle_qd [s/m].

        Returns:
            Adjoints in the shapes of the inputs; NaN for worlds that diverged.

        Raises:
            UserError: the rollout kept nothing, or shapes or precision do not fit.
        """
        if rollout.adjoint is None:
            raise UserError("this rollout kept no states: give it adjoint=StoreAll() or Checkpoint(every=...)")
        for name, bar in (("particle_q_bar", particle_q_bar), ("particle_qd_bar", particle_qd_bar)):
            check_array(bar, name, tuple(rollout.particle_q.shape))
        return compiled_for(self.model, self._rollout_adjoint)(rollout, particle_q_bar, particle_qd_bar)

    def _rollout_adjoint(self, rollout: DeformableRollout, particle_q_bar: Array, particle_qd_bar: Array) -> DeformableInputs:
        """``rollout_adjoint`` of checked arguments."""
        inputs, frames = rollout.inputs, rollout.frames
        like, b, p = inputs.particle_mass, inputs.world_count, self.model.particle_count
        steps = frames * self.settings.substeps
        every = rollout.adjoint.every if isinstance(rollout.adjoint, Checkpoint) else 1
        span = min(every, steps) if every > 1 else steps
        states = rollout.states if every == 1 else empty_like_family(like, (b, span + 1, p, 6))
        bar, sums = zeros_like_family(like, (b, p, 6)), AdjointSums(self.model, inputs)
        slots = slots_of(self.model, like) if self._by_element(like) else None
        pace, pace_again = (Pace(element_plan.team_of(b)) for _ in range(2))
        pending = zeros_like_family(like, (b, slots.rows, 6)) if slots else None
        prepared, prepared_adjoint = prepare(self.model, inputs), prepare(self.model, inputs, differentiable=True)
        shared = (bar, empty_like_family(like, (b, p, 3)), particle_q_bar, particle_qd_bar, *prepared_adjoint.arrays)
        parts = self._contact_parts(slots)
        for first in reversed(range(0, steps, span)):
            count = min(span, steps - first)
            if every > 1:
                copy_row(*views(rollout.states, first // every, states, 0))
                self._advance(prepared, rollout, states, False, False, 0, states, first, count, pace_again)
            for start in reversed(range(first, first + count, _SUM_STEPS)):
                length = min(_SUM_STEPS, first + count - start)
                memory = self_contact_memory(self.model, inputs, step=start + length - 1, parts=parts)
                if slots:
                    steps_back = TeamSteps(
                        element_plan.step_all_adjoint, slots.copies, prepared_adjoint.features, states, first, pending,
                        slots.start, slots.slot, *shared, *sums.arguments(), *memory, sums.self_contact, slots.elements,
                        *self._numbers(), worlds=b, like=like,
                        after=self._contact_launchers_adjoint(slots, states, first, shared[1], pending, memory, sums),
                    )  # fmt: skip
                    steps_back.run(start + length - 1, length, pace, direction=-1)
                else:
                    world_plan.advance_adjoint(*views(
                        prepared_adjoint.features, states, rollout.diverged_step, *shared, *sums.arguments(), *memory,
                        sums.self_contact, spread_of(b), *self._numbers(), start, start - first, length,
                    ))  # fmt: skip
                sums.join()
        if slots:
            element_plan.sum_pending(*views(slots.copies, pending, slots.start, slots.slot, bar))
        sums.finish()
        bars = sums.bars
        begin_adjoint(*views(bar, particle_q_bar, particle_qd_bar, bars.particle_q0, bars.particle_qd0))
        for world in np.flatnonzero(to_numpy(rollout.diverged_step) >= 0):
            for array in bars.arrays():
                fill_nan(array, (int(world),))
        return bars

    def check_divergence(self, rollout: DeformableRollout) -> None:
        """Raise a DivergenceError that names particle, element and step when every world of the rollout diverged."""
        steps = to_numpy(rollout.diverged_step)
        if not (steps >= 0).all():
            return
        world = int(steps.argmin())
        particle, step = int(to_numpy(rollout.diverged_particle)[world]), int(steps[world])
        element = self.model.element_of(particle)
        raise DivergenceError(
            f"the simulation diverged: {self.model.particle_name(particle)}{f' (a corner of {element})' if element else ''} "
            f"stopped being finite at step {step} ({step * self.settings.dt:.4g} s): take smaller steps (more substeps), or "
            "softer or heavier materials, less damping, or softer contact",
            body=self.model.part_of(particle),
            step=step,
        )

    def _advance(
        self, prepared: PreparedInputs, rollout: DeformableRollout, states: Array, in_place: bool, write_frames: bool,
        keep_every: int, kept: Array, first: int, steps: int, pace: Pace | None = None,
    ) -> None:  # fmt: skip
        """Run ``advance`` over a segment from row 0 of ``states``; ``rollout`` gives the frames and the marks of divergence, and
        ``pace`` what the segments before took."""
        like, b, p = rollout.inputs.particle_mass, rollout.inputs.world_count, self.model.particle_count
        frames = (rollout.particle_q, rollout.particle_qd)
        diverged = (rollout.diverged_step, rollout.diverged_particle)
        if self._by_element(like):
            slots = slots_of(self.model, like)
            memory = self_contact_memory(self.model, rollout.inputs, step=first, parts=self._contact_parts(slots))
            given = zeros_like_family(like, (b, slots.rows, 3))
            fault = int_zeros_like_family(like, (b, p))
            all_steps = TeamSteps(
                element_plan.step_all, slots.copies, prepared.features, states, first, int(in_place),
                given, slots.start, slots.slot, *frames, int(write_frames), keep_every, kept, fault, *prepared.arrays, *memory,
                slots.elements, *self._numbers(), worlds=b, like=like,
                before=self._contact_launchers(slots, states, first, in_place, given, memory),
            )  # fmt: skip
            all_steps.run(first, steps, pace or Pace(element_plan.team_of(b)), direction=1)
            element_plan.first_fault(*views(fault, *diverged))
            return
        world_plan.advance(*views(
            prepared.features, states, int(in_place), zeros_like_family(like, (b, p, 3)), *frames, int(write_frames),
            keep_every, kept, *diverged, *prepared.arrays,
            *self_contact_memory(self.model, rollout.inputs, step=first, parts=1), spread_of(b), *self._numbers(), first, steps,
        ))  # fmt: skip

    def _numbers(self) -> tuple[float, float, int]:
        """Ground height [m], step [s] and substeps, as kernels take them."""
        return float(self.model.ground_height), float(self.settings.dt), int(self.settings.substeps)

    def _contact_parts(self, slots: Slots | None) -> int:
        """Parts of the triangles of self-contact: those of the elements, or on a GPU one for each triangle."""
        return 1 if slots is None else slots.copies or max(len(self.model.contact_triangles), 1)

    def _sorting(self, states: Array, first: int, in_place: bool, memory: tuple[Array, ...]) -> Launcher:
        """What builds a new hash of self-contact on a GPU where a step needs one."""
        table = self.model.tables["self_contact"]
        sizes = (int(table[layout.VERTICES]), int(table[layout.BUCKETS]), int(table[layout.TRIANGLES]))
        return Launcher(self_contact_gpu.sort_vertices, states, first, int(in_place), *sizes, *memory)

    def _contact_launchers(
        self, slots: Slots, states: Array, first: int, in_place: bool, given: Array, memory: tuple[Array, ...]
    ) -> tuple[Launcher, ...]:
        """What steps of the element plan need beside them on a GPU for self-contact."""
        if slots.copies or not self.model.with_self_contact:
            return ()
        add = Launcher(
            self_contact_gpu.add_contacts, states, first, int(in_place), given, self._contact_parts(slots),
            float(self.settings.dt), *memory,
        )  # fmt: skip
        return self._sorting(states, first, in_place, memory), add

    def _contact_launchers_adjoint(
        self, slots: Slots, states: Array, first: int, dual: Array, pending: Array, memory: tuple[Array, ...], sums: AdjointSums
    ) -> tuple[Launcher, ...]:
        """``_contact_launchers`` of the adjoint."""
        if slots.copies or not self.model.with_self_contact:
            return ()
        add = Launcher(
            self_contact_gpu.add_contacts_adjoint, states, first, dual, pending, self._contact_parts(slots),
            float(self.settings.dt), *memory, sums.self_contact,
        )  # fmt: skip
        return self._sorting(states, first, False, memory), add

    def plan(self, world_count: int) -> str:
        """The execution plan ("world" or "element") that a rollout of ``world_count`` worlds takes.

        On CUDA that is of arrays that lie there; those of the host would travel at every step of the element plan.
        """
        if self.settings.plan != "auto":
            return self.settings.plan
        if require().device != "cpu":
            return "element" if world_count < _MANY_CUDA_WORLDS else "world"
        work = sum(_COST[family] * len(self.model.tables[TABLES[family]]) for family in self.model.families)
        return "element" if world_count < thread_count() and work > _LEAST_WORK else "world"

    def _by_element(self, like: Array) -> bool:
        """Whether the element plan runs worlds with masses ``like``."""
        travels = require().device != "cpu" and isinstance(kernel_view(like), np.ndarray)
        return self.plan(like.shape[0]) == "element" and not (travels and self.settings.plan == "auto")
