"""Rollouts in the plan of ``lane_plan``, and their adjoints."""

import numpy as np

from ti_sim.base.arrays import Array, to_numpy
from ti_sim.base.parallel import ThreadTuner
from ti_sim.base.quads import from_blocks, quad_zeros
from ti_sim.base.runtime import require, ti, with_vector_code
from ti_sim.base.teams import Team, cpu_team, single_threads
from ti_sim.deformable.element_plan import ElementOutput, copy_count, threads_per_world
from ti_sim.deformable.families import ENERGIES
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.kernel_arrays import DeformableArrays
from ti_sim.deformable.lane_plan import StoredStates, step_lanes, step_lanes_adjoint
from ti_sim.deformable.lane_step import lane_particle_bars, lane_particles
from ti_sim.deformable.model import DeformableModel
from ti_sim.deformable.particle_step import StepSettings
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


def _stored(states: Array, first_step: int) -> StoredStates:
    """``StoredStates`` of states [B, rows, P, 6]."""
    return StoredStates(to_numpy(states).reshape(-1, 2), states.shape[1], first_step)


def advance(
    model: DeformableModel, inputs: DeformableInputs, states: Array, output: ElementOutput, arrays: DeformableArrays,
    settings: StepSettings, *, first: int, steps: int, in_place: bool, thread_tuner: ThreadTuner | None,
) -> None:  # fmt: skip
    """Run ``step_lanes`` over a segment from row 0 of ``states``; without a ``thread_tuner``, by one thread per world."""
    team, copies = _team(inputs, shared=thread_tuner is not None)
    particles = lane_particles(model, inputs, dt=settings.dt, copies=copies)
    launcher = with_vector_code(StepLauncher)(
        step_lanes, team, _stored(states, first), int(in_place), tet_blocks(model, inputs), particles, output,
        arrays, settings,
    )  # fmt: skip
    launcher.run(first, steps, thread_tuner, direction=1)


class LaneAdjoint:
    """Adjoint of ``advance``, which runs over the segments of a rollout from the last to the first."""

    def __init__(
        self, model: DeformableModel, inputs: DeformableInputs, frame_bars: tuple[Array, Array], arrays: DeformableArrays,
        settings: StepSettings, *, thread_tuner: ThreadTuner | None,
    ) -> None:  # fmt: skip
        """Set all adjoints to zero.

        Args:
            model, inputs, arrays, settings: of the rollout.
            frame_bars: adjoints of positions and velocities at the frames.
            thread_tuner: as in ``advance``.
        """
        self._team, copies = _team(inputs, shared=thread_tuner is not None)
        self._tuner, self._arrays, self._settings = thread_tuner, arrays, settings
        self._particles = lane_particles(model, inputs, dt=settings.dt, copies=copies)
        self._particle_bars = lane_particle_bars(self._particles, frame_bars)
        self._tets = tet_blocks(model, inputs)
        self._tet_bars = TetBlockBars(quad_zeros(len(self._tets.material)), quad_zeros(len(self._tets.actuation)))

    def run(self, states: Array, row_step: int, first: int, steps: int, sums: DeformableInputs) -> None:
        """Differentiate ``steps`` steps from the last one to ``first``, and add to the adjoints ``sums``.

        Args:
            states: [B, rows, P, 6], of which row 0 is the state before step ``row_step``.
            row_step, first, steps: steps of the rollout.
            sums: gravity [B, P, 3] by particle.
        """
        launcher = with_vector_code(StepLauncher)(
            step_lanes_adjoint, self._team, _stored(states, row_step), self._tets, self._tet_bars,
            self._particles, self._particle_bars, self._arrays, sums, self._settings,
        )  # fmt: skip
        launcher.run(first + steps - 1, steps, self._tuner, direction=-1)
        material, mass, gravity = (to_numpy(array) for array in (sums.solid_material, sums.particle_mass, sums.gravity))
        motion = self._particle_bars.motion.reshape(*mass.shape, 4)
        material += from_blocks(self._tet_bars.material, material.shape)
        mass += motion[..., 3] / np.float32(self._settings.dt)
        gravity += motion[..., :3] * np.float32(self._settings.dt)
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
