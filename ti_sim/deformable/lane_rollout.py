"""Rollouts in the plan of ``lane_plan``, and their adjoints."""

import numpy as np

from ti_sim.base.arrays import Array, to_numpy, zeros_in_same_library
from ti_sim.base.bundles import flat, views
from ti_sim.base.parallel import ThreadTuner
from ti_sim.base.quads import from_blocks, quad_zeros
from ti_sim.base.runtime import require, ti, with_vector_code
from ti_sim.base.teams import Team, cpu_team, single_threads
from ti_sim.deformable.corners import PARTICLE
from ti_sim.deformable.element_plan import ElementOutput, copy_count, first_fault, threads_per_world
from ti_sim.deformable.families import ENERGIES
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.kernel_arrays import SUM_STEPS, AdjointSums, prepare
from ti_sim.deformable.lane_plan import StoredStates, step_lanes, step_lanes_adjoint
from ti_sim.deformable.lane_step import lane_particle_bars, lane_particles
from ti_sim.deformable.model import DeformableModel
from ti_sim.deformable.particle_step import Output, StepSettings
from ti_sim.deformable.rollout import DeformableRollout
from ti_sim.deformable.states import copy_row, initialise_state_adjoint
from ti_sim.deformable.step_launcher import StepLauncher
from ti_sim.deformable.tet_lanes import TetBlockBars, tet_blocks


def has_lanes(model: DeformableModel, inputs: DeformableInputs) -> bool:
    """Whether rollouts take this plan: of neo-Hookean tetrahedra, on the processor, in single precision.

    Taichi's own arrays have no views as rows of numbers.
    """
    runtime = require()
    is_supported = model.families == ("tet",) and not model.with_self_contact and not isinstance(inputs.particle_mass, ti.Ndarray)
    is_neo_hookean = bool((model.solid_energy_numbers == ENERGIES.index("neo_hookean")).all())
    return is_supported and is_neo_hookean and runtime.device == "cpu" and runtime.precision == "f32"


def _team(inputs: DeformableInputs, *, shared: bool) -> tuple[Team, int]:
    """Threads that share each world, or one thread for each; and number of chunks of a world."""
    worlds = inputs.world_count
    if shared:
        return cpu_team(worlds, threads_per_world(worlds)), copy_count()
    return single_threads(np.zeros(0), worlds), 1


def _stored(states: Array) -> StoredStates:
    """``StoredStates`` of states [B, rows, P, 6]."""
    return StoredStates(to_numpy(states).reshape(-1, 2), states.shape[1])


class LaneSteps:
    """Steps of all worlds in this plan."""

    def __init__(
        self, model: DeformableModel, rollout: DeformableRollout, states: Array, output: Output, settings: StepSettings,
        thread_tuner: ThreadTuner | None, *, in_place: bool,
    ) -> None:  # fmt: skip
        """Bind the arguments of ``step_lanes``.

        Args:
            model, settings: of the rollout.
            rollout: holds the inputs and the steps of divergence.
            states: [B, rows, P, 6] states of a segment.
            output: receives frames and checkpoints.
            thread_tuner: of the threads that share a world; None for one thread per world.
            in_place: whether row 0 of the states is the only one.
        """
        inputs = rollout.inputs
        team, copies = _team(inputs, shared=thread_tuner is not None)
        particles = lane_particles(model, inputs, dt=settings.dt, copies=copies)
        self._tuner, self._diverged = thread_tuner, (rollout.diverged_step, rollout.diverged_particle)
        self._fault = np.zeros((inputs.world_count, model.particle_count), dtype=np.int32)
        self._launcher = with_vector_code(StepLauncher)(
            step_lanes, team, _stored(states), int(in_place), tet_blocks(model, inputs), particles,
            ElementOutput(*flat(output), self._fault), prepare(model, inputs), settings,
        )  # fmt: skip

    def run(self, first: int, steps: int) -> None:
        """Take ``steps`` steps from step ``first``, the state before which is in row 0 of the states."""
        self._launcher.run(first, steps, self._tuner, first_step=first, direction=1)
        first_fault(*views(self._fault, *self._diverged))


class _LaneAdjoint:
    """Adjoint of ``LaneSteps``, which runs over the segments of a rollout from the last to the first."""

    def __init__(
        self, model: DeformableModel, inputs: DeformableInputs, states: Array, frame_bars: tuple[Array, Array],
        sums: DeformableInputs, settings: StepSettings, thread_tuner: ThreadTuner | None,
    ) -> None:  # fmt: skip
        """Set all adjoints to zero.

        Args:
            model, inputs, settings: of the rollout.
            states: [B, rows, P, 6] states of a segment.
            frame_bars: adjoints of positions and velocities at the frames.
            sums: adjoints to which steps add; gravity [B, P, 3] by particle.
            thread_tuner: as in ``LaneSteps``.
        """
        team, copies = _team(inputs, shared=thread_tuner is not None)
        self._tuner, self._sums, self._dt = thread_tuner, sums, np.float32(settings.dt)
        particles, tets = lane_particles(model, inputs, dt=settings.dt, copies=copies), tet_blocks(model, inputs)
        self._particle_bars = lane_particle_bars(particles, frame_bars)
        self._tet_bars = TetBlockBars(quad_zeros(len(tets.material)), quad_zeros(len(tets.actuation)))
        self._launcher = with_vector_code(StepLauncher)(
            step_lanes_adjoint, team, _stored(states), tets, self._tet_bars, particles, self._particle_bars,
            prepare(model, inputs, differentiable=True), sums, settings,
        )  # fmt: skip

    def run(self, first: int, steps: int, first_step: int) -> None:
        """Differentiate ``steps`` steps from the last one to ``first``; row 0 of the states is that before ``first_step``."""
        self._launcher.run(first + steps - 1, steps, self._tuner, first_step=first_step, direction=-1)
        sums = self._sums
        material, mass, gravity = (to_numpy(array) for array in (sums.solid_material, sums.particle_mass, sums.gravity))
        motion = self._particle_bars.motion.reshape(*mass.shape, 4)
        material += from_blocks(self._tet_bars.material, material.shape)
        mass += motion[..., 3] / self._dt
        gravity += motion[..., :3] * self._dt
        motion.fill(0)
        self._tet_bars.material.fill(0)

    def finish(self, state_bar: Array, actuation_bar: Array) -> None:
        """Write the adjoints of the first state [B, P, 6] and of the actuation [B, R, E]."""
        bar, bars = to_numpy(state_bar), self._particle_bars
        worlds, count = bar.shape[:2]
        for column, rows, parts in ((0, bars.position, bars.position_part), (3, bars.velocity, bars.velocity_part)):
            total = rows.reshape(worlds, count, 4) + parts.reshape(worlds, -1, count, 4).sum(axis=1)
            bar[..., column : column + 3] = total[..., :3]
        actuation = to_numpy(actuation_bar)
        actuation[...] = from_blocks(self._tet_bars.actuation, (*actuation.shape, 1))[..., 0]


def differentiate(
    model: DeformableModel, rollout: DeformableRollout, states: Array, bars: tuple[Array, Array], settings: StepSettings,
    thread_tuner: ThreadTuner | None, recompute_tuner: ThreadTuner | None,
) -> DeformableInputs:  # fmt: skip
    """Adjoint of a rollout in this plan.

    Args:
        model, settings: of the rollout.
        rollout: the rollout.
        states: [B, rows, P, 6], all states, or memory for those of a segment.
        bars: adjoints of positions and velocities at the frames.
        thread_tuner, recompute_tuner: see ``LaneSteps``, for the adjoint and for steps that are repeated.
    """
    inputs, steps, interval = rollout.inputs, rollout.frames * settings.substeps, rollout.adjoint.interval
    sums = AdjointSums(model, inputs)
    lanes = _LaneAdjoint(model, inputs, states, bars, sums.partial_sums(), settings, thread_tuner)
    output = Output(rollout.particle_q, rollout.particle_qd, states, write_frames=0, keep_every=0)
    repeated = LaneSteps(model, rollout, states, output, settings, recompute_tuner, in_place=False) if interval > 1 else None

    def recompute_segment(first: int, count: int) -> None:
        copy_row(*views(rollout.states, first // interval, states, 0))
        repeated.run(first, count)

    def differentiate_segment(first: int, count: int) -> None:
        for start in reversed(range(first, first + count, SUM_STEPS)):
            lanes.run(start, min(SUM_STEPS, first + count - start), first)
            sums.add_partial_sums()

    rollout.adjoint.run_backwards(steps, recompute=recompute_segment, differentiate=differentiate_segment)
    bar = zeros_in_same_library(inputs.particle_mass, (inputs.world_count, model.particle_count, PARTICLE.size))
    lanes.finish(bar, sums.bars.solid_actuation)
    sums.finish()
    initialise_state_adjoint(*views(bar, *bars, sums.bars.particle_q0, sums.bars.particle_qd0))
    return sums.bars
