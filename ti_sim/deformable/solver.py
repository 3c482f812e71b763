"""The deformable solver: rollouts of a batch of worlds and their adjoint, for any array container."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ti_sim.base.arrays import (
    Array,
    doubles_in_same_library,
    empty_in_same_library,
    int_zeros_in_same_library,
    ints_in_same_library,
    reals_in_same_library,
    to_numpy,
    zeros_in_same_library,
)
from ti_sim.base.bundles import views
from ti_sim.base.errors import ConvergenceError, DivergenceError, UserError
from ti_sim.base.parallel import ThreadTuner, iterations_per_task, thread_count
from ti_sim.base.runtime import require
from ti_sim.deformable import element_plan, lane_rollout, world_plan
from ti_sim.deformable.contact_forces import contact_forces, contact_forces_adjoint
from ti_sim.deformable.corners import PARTICLE
from ti_sim.deformable.element_plan import Slots, element_team, slots_of
from ti_sim.deformable.families import TABLES
from ti_sim.deformable.implicit.ground_forces import ground_forces, ground_forces_adjoint
from ti_sim.deformable.implicit.rollout import converging_division, differentiate, in_double, simulate
from ti_sim.deformable.inputs import ContinuedInputs, DeformableInputs
from ti_sim.deformable.kernel_arrays import SUM_STEPS, AdjointSums, DeformableArrays, compiled_for, prepare
from ti_sim.deformable.lane_rollout import has_lanes
from ti_sim.deformable.particle_step import Output, StepSettings
from ti_sim.deformable.rollout import DeformableRollout
from ti_sim.deformable.self_contact_tables import self_contact_memory
from ti_sim.deformable.states import copy_row, initialise_frames, initialise_state, initialise_state_adjoint
from ti_sim.deformable.step_launcher import StepLauncher
from ti_sim.rollout.adjoint import Adjoint, segment_length, storage_interval
from ti_sim.rollout.divergence import mark_diverged_frames
from ti_sim.rollout.solver import Solver
from ti_sim.rollout.time_steps import IMPLICIT

_LARGEST_ARRAY = 2**31 - 1  # kernels use 32-bit indices

# Cost of the force of an element on a CPU core [us], and least cost of the elements of a step for which several threads are used.
_ELEMENT_COST = {"tet": 0.06, "hex": 0.9, "tet10": 0.6, "triangle": 0.04, "edge": 0.03, "spring": 0.01}
_MIN_ELEMENT_PLAN_WORK = 12.0
_MANY_CUDA_WORLDS = 4096  # number of worlds that keeps a GPU busy with one thread per world


def check_controls(inputs: DeformableInputs, substeps: int) -> None:
    """Raise a UserError if the number of control rows does not divide the number of steps in a frame."""
    if substeps % inputs.controls:
        raise UserError(
            f"there are {inputs.controls} rows of actuation in a frame of {substeps} steps: give a number that divides the steps"
        )


def check_size(numbers: int, name: str, steps: int) -> None:
    """Raise a UserError if the states do not fit in an array."""
    if numbers > _LARGEST_ARRAY:
        raise UserError(
            f"StoreAll() would keep {numbers:.3g} numbers of {name}, more than an array can hold: use "
            f"Checkpoint(every={max(int(steps**0.5), 2)}), or fewer worlds at a time"
        )


class DeformableSolver(Solver):
    """Simulates particles and elements by semi-implicit Euler steps (gradSim, appendices A.1 and C), or by implicit ones."""

    frame_names, per_interval_inputs = ("particle_q", "particle_qd"), "loads and actuations"
    force_names = "ground_force", "self_force"

    def _check(self, inputs: DeformableInputs) -> None:
        super()._check(inputs)
        inputs.check_values(self.model)
        check_controls(inputs, self.settings.substeps)
        if self._is_implicit and self.model.with_self_contact:
            raise UserError(
                f"surfaces collide with each other, and the integrator is {self.settings.integrator!r}: self-contact needs "
                "integrator='semi_implicit'"
            )

    @property
    def _is_implicit(self) -> bool:
        return self.settings.integrator in IMPLICIT

    def _compiled(self, function: Callable) -> Callable:
        return compiled_for(self.model, function)

    def last_names(self, inputs: DeformableInputs) -> tuple[str, ...]:
        """As ``Solver.last_names``; large bodies also have ``particle_factor``."""
        if not self._is_implicit:
            return ()
        names = ("particle_history", "particle_driving", "particle_factor")
        return names if self.settings.integrator == "bdf2" else (names[0], names[2])

    def _simulate(self, inputs: DeformableInputs, frames: int, adjoint: Adjoint | None, first_frame: int) -> DeformableRollout:
        """``rollout`` of checked arguments."""
        if self._is_implicit:
            return self._simulate_implicitly(inputs, frames, adjoint, first_frame)
        like, b, p = inputs.particle_mass, inputs.world_count, self.model.particle_count
        steps = frames * self.settings.substeps
        interval = storage_interval(adjoint, steps)
        check_size(b * (steps // interval + 1) * p * 6, f"{b} worlds, {steps} steps and {p} particles", steps)
        checkpoints = empty_in_same_library(like, (b, steps // interval + 1, p, PARTICLE.size))
        keep_every = 0 if adjoint is None or interval == 1 else interval
        states = empty_in_same_library(like, (b, 1, p, PARTICLE.size)) if keep_every else checkpoints
        frame_arrays = tuple(empty_in_same_library(like, (b, frames + 1, p, 3)) for _ in range(2))
        divergence_marks = (ints_in_same_library(like, np.full(b, -1)) for _ in range(2))
        initial_state = (inputs.particle_q0, inputs.particle_qd0)
        initialise_state(*views(*initial_state, checkpoints))
        initialise_frames(*views(*initial_state, *frame_arrays))
        if keep_every:
            initialise_state(*views(*initial_state, states))
        result = DeformableRollout(
            *frame_arrays, *divergence_marks, inputs, frames, adjoint, None if adjoint is None else checkpoints
        )
        arrays = prepare(self.model, inputs)
        self._advance(arrays, result, states, interval != 1, True, keep_every, checkpoints, 0, steps)
        mark_diverged_frames(frame_arrays, to_numpy(result.diverged_step), self.settings.substeps)
        return result

    def _differentiate(
        self, rollout: DeformableRollout, bars: tuple[Array, ...], last_bars: tuple[Array, ...]
    ) -> DeformableInputs:
        """``rollout_adjoint`` of checked arguments."""
        if rollout.motion is not None:
            return self._differentiate_implicitly(rollout, bars, last_bars)
        inputs, like, steps = rollout.inputs, rollout.inputs.particle_mass, rollout.frames * self.settings.substeps
        b, p = inputs.world_count, self.model.particle_count
        segment_steps, states = segment_length(rollout.adjoint, steps), rollout.states
        if rollout.adjoint.interval > 1:
            states = empty_in_same_library(like, (b, segment_steps + 1, p, PARTICLE.size))
        thread_tuners = self._thread_tuner(b), self._thread_tuner(b)
        if has_lanes(self.model, inputs):
            return lane_rollout.differentiate(self.model, rollout, states, bars, self._step_settings, *thread_tuners)
        bar, dual = zeros_in_same_library(like, (b, p, PARTICLE.size)), empty_in_same_library(like, (b, p, 3))
        sums = AdjointSums(self.model, inputs)
        slots = slots_of(self.model, like) if self.plan(b) == "element" else None
        thread_tuner, recompute_tuner = thread_tuners
        element_bars = zeros_in_same_library(like, (b, slots.rows, PARTICLE.size)) if slots else None
        arrays, adjoint_arrays = (
            prepare(self.model, inputs, differentiable=differentiable) for differentiable in (False, True)
        )
        shared_arguments = (bar, dual, *bars, adjoint_arrays, sums.partial_sums())
        num_chunks = self._contact_chunks(slots)

        def recompute_segment(first: int, count: int) -> None:
            copy_row(*views(rollout.states, first // segment_steps, states, 0))
            self._advance(arrays, rollout, states, False, False, 0, states, first, count, recompute_tuner)

        def differentiate_segment(first: int, count: int) -> None:
            for start in reversed(range(first, first + count, SUM_STEPS)):
                step_count = min(SUM_STEPS, first + count - start)
                contacts = self_contact_memory(self.model, inputs, step=start + step_count - 1, num_chunks=num_chunks)
                if slots:
                    step_launcher = StepLauncher(
                        element_plan.step_all_adjoint, element_team(like, self.model, slots, b), slots, states,
                        element_bars, *shared_arguments, contacts, self._step_settings,
                    )  # fmt: skip
                    step_launcher.run(start + step_count - 1, step_count, thread_tuner, first_step=first, direction=-1)
                else:
                    world_plan.advance_adjoint(*views(
                        states, rollout.diverged_step, *shared_arguments, contacts, iterations_per_task(b),
                        self._step_settings, start, start - first, step_count,
                    ))  # fmt: skip
                sums.add_partial_sums()

        rollout.adjoint.run_backwards(steps, recompute=recompute_segment, differentiate=differentiate_segment)
        if slots:
            element_plan.sum_element_bars(*views(slots, element_bars, bar))
        sums.finish()
        initialise_state_adjoint(*views(bar, *bars, sums.bars.particle_q0, sums.bars.particle_qd0))
        return sums.bars

    def _simulate_implicitly(
        self, inputs: DeformableInputs, frames: int, adjoint: Adjoint | None, first_frame: int
    ) -> DeformableRollout:
        """``rollout`` by implicit steps in double precision, which stores all stages."""
        settings, like = self.settings, inputs.particle_mass
        motion = simulate(
            self.model, in_double(inputs), frames, integrator=settings.integrator, dt=settings.dt, substeps=settings.substeps,
            settings=settings.implicit, first_step=first_frame * settings.substeps,
        )  # fmt: skip
        frame_states = motion.states[:, motion.frame_rows]
        halves = np.split(frame_states, 2, axis=-1)
        positions, velocities = (reals_in_same_library(like, np.ascontiguousarray(half)) for half in halves)
        divergence_marks = (ints_in_same_library(like, indices) for indices in (motion.failed_step, motion.failed_particle))
        b, last_arrays = inputs.world_count, []
        for name in self.last_names(inputs):
            last_arrays.append(doubles_in_same_library(like, motion.history.get(name, np.zeros((b, 0)))))
        return DeformableRollout(
            positions, velocities, *divergence_marks, inputs, frames, adjoint, None, motion, tuple(last_arrays)
        )

    def _differentiate_implicitly(
        self, rollout: DeformableRollout, bars: tuple[Array, ...], last_bars: tuple[Array, ...]
    ) -> DeformableInputs:
        """``rollout_adjoint`` by the implicit function theorem."""
        frame_bars = tuple(to_numpy(bar).astype(np.float64) for bar in bars)
        named_last_bars = dict(zip(self.last_names(rollout.inputs), map(to_numpy, last_bars), strict=False))
        settings = self.settings
        input_bars = differentiate(
            self.model, in_double(rollout.inputs), rollout.motion, frame_bars, named_last_bars, dt=settings.dt,
            substeps=settings.substeps, settings=settings.implicit,
        )  # fmt: skip
        double_names, inputs_by_name = rollout.inputs.double_names(), rollout.inputs.named_arrays()
        return rollout.inputs.with_arrays(
            (doubles_in_same_library if name in double_names else reals_in_same_library)(inputs_by_name[name], values)
            for name, values in input_bars.named_arrays().items()
        )

    def _forces(self, inputs: DeformableInputs) -> tuple[Array, Array]:
        """``forces`` of checked inputs: those of the ground and of self-contact, each [B, P, 3] (``contact_forces``)."""
        if not self._is_implicit:
            return contact_forces(self.model, inputs, dt=self.settings.dt)
        like, force = inputs.particle_mass, ground_forces(self.model, *self._stages(inputs), **self._integrator_settings)
        return reals_in_same_library(like, force), zeros_in_same_library(like, force.shape)

    def _forces_adjoint(self, inputs: DeformableInputs, bars: tuple[Array, Array]) -> DeformableInputs:
        """``forces_adjoint`` of checked inputs."""
        if self._is_implicit:
            force_bar, bars = np.ascontiguousarray(to_numpy(bars[0]), dtype=np.float64), inputs.zeros()
            history_bar, contact_bar = ground_forces_adjoint(
                self.model, *self._stages(inputs), force_bar, **self._integrator_settings
            )
            history_bar = doubles_in_same_library(inputs.particle_mass, history_bar)
            contact_bar = reals_in_same_library(inputs.particle_mass, contact_bar)
            return replace(bars, particle_history0=history_bar, particle_contact=contact_bar)
        return contact_forces_adjoint(self.model, inputs, *bars, dt=self.settings.dt)

    def _stages(self, inputs: DeformableInputs) -> tuple[np.ndarray, np.ndarray]:
        """Results of the latest stages and contact numbers, f64 (UserError: the inputs continue no steps)."""
        if not isinstance(inputs, ContinuedInputs):
            raise UserError("forces of implicit steps are those of the step that ends in a state: give ContinuedInputs")
        arrays = inputs.particle_history0, inputs.particle_contact
        history, contact = (np.ascontiguousarray(to_numpy(array), dtype=np.float64) for array in arrays)
        return history, contact

    @property
    def _integrator_settings(self) -> dict[str, Any]:
        """Settings of the implicit integrator that ``ground_forces`` takes."""
        settings = self.settings
        return {"integrator": settings.integrator, "dt": settings.dt, "onset": settings.implicit.onset}

    def check_divergence(self, rollout: DeformableRollout) -> None:
        """Raise a DivergenceError that names particle, element and step when every world of the rollout diverged, or a
        ConvergenceError when no world's implicit steps converged.
        """
        steps = to_numpy(rollout.diverged_step)
        if not (steps >= 0).all():
            return
        world = int(steps.argmin())
        particle, step = int(to_numpy(rollout.diverged_particle)[world]), int(steps[world])
        if rollout.motion is not None:
            settings = self.settings
            division = converging_division(
                self.model, in_double(rollout.inputs), rollout.motion, world, integrator=settings.integrator, dt=settings.dt,
                substeps=settings.substeps, settings=settings.implicit,
            )  # fmt: skip
            remedy = "take shorter steps (more substeps)"
            if division is not None:
                remedy = f"steps of {settings.dt / division:.4g} s converge here: set substeps={division * settings.substeps}"
            raise ConvergenceError(
                f"the simulation did not converge: step {step} ({step * settings.dt:.4g} s) left a residual of "
                f"{rollout.motion.residual[world]:.3g} N at {self.model.particle_name(particle)}: {remedy}",
                body=self.model.part_of(particle),
                step=step,
            )
        element = self.model.element_of(particle)
        raise DivergenceError(
            f"the simulation diverged: {self.model.particle_name(particle)}{f' (a corner of {element})' if element else ''} "
            f"stopped being finite at step {step} ({step * self.settings.dt:.4g} s): take smaller steps (more substeps), or "
            "softer or heavier materials, less damping, or softer contact",
            body=self.model.part_of(particle),
            step=step,
        )

    def failed_steps(self, rollout: DeformableRollout) -> np.ndarray:
        """[B, 1] int32, first step after which the state of a world was not finite, -1 if it stayed finite."""
        return to_numpy(rollout.diverged_step)[:, None]

    def _advance(
        self, arrays: DeformableArrays, rollout: DeformableRollout, states: Array, in_place: bool, write_frames: bool,
        keep_every: int, checkpoints: Array, first: int, steps: int, thread_tuner: ThreadTuner | None = None,
    ) -> None:  # fmt: skip
        """Run ``advance`` over a segment from row 0 of ``states``; ``rollout`` holds the frames and the steps of divergence, and
        ``thread_tuner`` the timings of earlier segments.
        """
        like, b, p = rollout.inputs.particle_mass, rollout.inputs.world_count, self.model.particle_count
        output = Output(rollout.particle_q, rollout.particle_qd, checkpoints, int(write_frames), keep_every)
        diverged = (rollout.diverged_step, rollout.diverged_particle)
        thread_tuner = thread_tuner or self._thread_tuner(b)
        if has_lanes(self.model, rollout.inputs):
            lane_rollout.LaneSteps(
                self.model, rollout, states, output, self._step_settings, thread_tuner, in_place=in_place
            ).run(first, steps)  # fmt: skip
            return
        if self.plan(b) == "element":
            slots = slots_of(self.model, like)
            contacts = self_contact_memory(self.model, rollout.inputs, step=first, num_chunks=self._contact_chunks(slots))
            forces, fault = zeros_in_same_library(like, (b, slots.rows, 3)), int_zeros_in_same_library(like, (b, p))
            step_launcher = StepLauncher(
                element_plan.step_all, element_team(like, self.model, slots, b), slots, states, int(in_place), forces,
                output, fault, arrays, contacts, self._step_settings,
            )  # fmt: skip
            step_launcher.run(first, steps, thread_tuner, first_step=first, direction=1)
            element_plan.first_fault(*views(fault, *diverged))
            return
        contacts = self_contact_memory(self.model, rollout.inputs, step=first, num_chunks=1)
        world_plan.advance(*views(
            states, int(in_place), zeros_in_same_library(like, (b, p, 3)), output, *diverged, arrays, contacts,
            iterations_per_task(b), self._step_settings, first, steps,
        ))  # fmt: skip

    def _thread_tuner(self, worlds: int) -> ThreadTuner | None:
        """Tuner of the threads that share a world; None for one thread per world."""
        return ThreadTuner(element_plan.threads_per_world(worlds)) if self.plan(worlds) == "element" else None

    @property
    def _step_settings(self) -> StepSettings:
        """Ground height [m], step [s] and substeps."""
        return StepSettings(float(self.model.ground_height), float(self.settings.dt), int(self.settings.substeps))

    def _contact_chunks(self, slots: Slots | None) -> int:
        """Number of chunks of the self-contact triangles: that of the elements, or on a GPU one per triangle."""
        return 1 if slots is None else slots.copies or max(len(self.model.contact_triangles), 1)

    def plan(self, world_count: int) -> str:
        """Execution plan ("world" or "element") of a rollout of ``world_count`` worlds."""
        if self.settings.plan != "auto":
            return self.settings.plan
        if require().device != "cpu":
            return "element" if world_count < _MANY_CUDA_WORLDS else "world"
        work = sum(_ELEMENT_COST[family] * len(self.model.tables[TABLES[family]]) for family in self.model.families)
        return "element" if world_count < thread_count() and work > _MIN_ELEMENT_PLAN_WORK else "world"
