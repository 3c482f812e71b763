"""The coupled solver: rollouts of deformable bodies and links with contact between them, and their adjoint, for any container."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from ti_sim.articulated.contact_warnings import ContactWarnings
from ti_sim.articulated.forces import with_all_links_loaded
from ti_sim.articulated.link_team import LinkTeam, begin_launch, link_team
from ti_sim.articulated.model import ArticulatedSettings
from ti_sim.articulated.solver import (
    ArticulatedRollout,
    ArticulatedSolver,
    PackedBars,
    failed_links,
    last_columns,
    last_names,
    start_links,
)
from ti_sim.articulated.solver import prepare as prepare_links
from ti_sim.articulated.tables import WorldArrays
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
from ti_sim.base.bundles import views
from ti_sim.base.launcher import Launcher
from ti_sim.base.runtime import without_subexpression_elimination
from ti_sim.base.teams import raise_if_timed_out
from ti_sim.coupled.forces import ParticleContact, link_contacts, link_contacts_adjoint
from ti_sim.coupled.model import ContactParticles, CoupledFrames, CoupledInputs, CoupledModel, CoupledSettings, DivergenceMarks
from ti_sim.coupled.rollout import advance, advance_adjoint
from ti_sim.deformable.contact_forces import contact_forces, contact_forces_adjoint
from ti_sim.deformable.corners import PARTICLE
from ti_sim.deformable.element_plan import Slots, slots_of, sum_element_bars
from ti_sim.deformable.kernel_arrays import AdjointSums
from ti_sim.deformable.kernel_arrays import prepare as prepare_particles
from ti_sim.deformable.model import DeformableSettings
from ti_sim.deformable.rollout import DeformableRollout
from ti_sim.deformable.self_contact_lists import SelfContactArrays
from ti_sim.deformable.self_contact_tables import self_contact_memory
from ti_sim.deformable.solver import DeformableSolver, check_controls
from ti_sim.deformable.states import copy_row
from ti_sim.deformable.states import initialise_state as initialise_particles
from ti_sim.deformable.states import initialise_state_adjoint as initialise_particles_adjoint
from ti_sim.rollout.adjoint import Adjoint, segment_length, storage_interval
from ti_sim.rollout.divergence import mark_diverged_frames, mark_diverged_worlds
from ti_sim.rollout.solver import Solver

# Number of steps whose parameter adjoints are summed before they are added to the sum over the rollout.
_SUM_STEPS = 1024


@dataclass(frozen=True)
class CoupledRollout:
    """Result of a rollout, and the data that its adjoint needs.

    Attributes:
        links: frames of the links; its diverged_link is -1 if only a particle diverged.
        particles: frames of the particles, with the same diverged_step; its diverged_particle is -1 if only a link diverged.
        inputs: inputs of the rollout.
    """

    links: ArticulatedRollout
    particles: DeformableRollout
    inputs: CoupledInputs

    @property
    def frames(self) -> int:
        """Number of frame intervals."""
        return self.links.frames

    @property
    def adjoint(self) -> Adjoint | None:
        """How states were stored, None for a rollout without gradient."""
        return self.links.adjoint

    @property
    def frame_arrays(self) -> tuple[Array, ...]:
        """The arrays at the frames, in the order of ``CoupledFrames``."""
        return *self.links.frame_arrays, *self.particles.frame_arrays

    @property
    def last_arrays(self) -> tuple[Array, ...]:
        """As ``ArticulatedRollout.last_arrays``."""
        return self.links.last_arrays

    @property
    def diverged(self) -> np.ndarray:
        """[B] bool, whether the world diverged."""
        return self.links.diverged

    @property
    def marks(self) -> DivergenceMarks:
        """Marks of diverged worlds, as kernel arguments."""
        return DivergenceMarks(self.links.diverged_step, self.links.diverged_link, self.particles.diverged_particle)


class CoupledSolver(Solver):
    """Simulates links by the articulated-body algorithm and particles by semi-implicit Euler steps, with contact between them."""

    frame_names, per_interval_inputs = tuple(field.name for field in fields(CoupledFrames)), "actions, loads and actuations"
    force_names = *ArticulatedSolver.force_names, *DeformableSolver.force_names, "link_force", "particle_wrench"

    def __init__(self, model: CoupledModel, settings: CoupledSettings) -> None:
        """Bind a model to its time stepping.

        Args:
            model: links, particles and elements.
            settings: time stepping.
        """
        super().__init__(model, settings)
        self._contact_warnings = ContactWarnings(model.articulated, settings.dt)

    def _check(self, inputs: CoupledInputs) -> None:
        super()._check(inputs)
        check_controls(inputs.particles, self.settings.substeps)

    def last_names(self, inputs: CoupledInputs) -> tuple[str, ...]:
        """As ``Solver.last_names``."""
        return last_names(inputs.links)

    @without_subexpression_elimination
    def _simulate(self, inputs: CoupledInputs, frames: int, adjoint: Adjoint | None, first_frame: int) -> CoupledRollout:
        """``rollout`` of checked arguments."""
        b, n, q, d, p = self._sizes(inputs)
        like, steps = inputs.links.link_mass, frames * self.settings.substeps
        columns = self.model.articulated.state_columns(inputs.links)
        interval = storage_interval(adjoint, steps, last=bool(last_names(inputs.links)))
        rows = steps // interval + 1
        stored_joint_states = empty_in_same_library(like, (b, rows, columns))
        stored_particle_states = empty_in_same_library(like, (b, rows, p, PARTICLE.size))
        joint_states, particle_states, store_every = stored_joint_states, stored_particle_states, 0
        if interval > 1 and (adjoint is not None or last_names(inputs.links)):
            store_every = interval
            joint_states = empty_in_same_library(like, (b, 1, columns))
            particle_states = empty_in_same_library(like, (b, 1, p, PARTICLE.size))
        links = (zeros_in_same_library(like, (b, frames + 1, *tail)) for tail in ((q,), (d,), (n, 7), (n, 6)))
        particles = (zeros_in_same_library(like, (b, frames + 1, p, 3)) for _ in range(2))
        diverged_step, diverged_link, diverged_particle = (ints_in_same_library(like, np.full(b, -1)) for _ in range(3))
        stored_states = (None, None) if adjoint is None else (stored_joint_states, stored_particle_states)
        pair_tests = np.zeros((b, 2), dtype=np.int32)
        result = CoupledRollout(
            ArticulatedRollout(
                *links, diverged_step, diverged_link, pair_tests, inputs.links, frames, adjoint, stored_states[0], first_frame
            ),
            DeformableRollout(*particles, diverged_step, diverged_particle, inputs.particles, frames, adjoint, stored_states[1]),
            inputs,
        )
        self._write_first_state(inputs, joint_states, particle_states, first_frame)
        if store_every:
            self._write_first_state(inputs, stored_joint_states, stored_particle_states, first_frame)
        self._advance(
            result, joint_states, particle_states, interval == 1, True, store_every, stored_joint_states,
            stored_particle_states, 0, steps,
        )  # fmt: skip
        mark_diverged_frames(result.frame_arrays, to_numpy(diverged_step), self.settings.substeps)
        last_arrays = self._last_arrays(result, stored_joint_states, stored_particle_states, interval, steps)
        return replace(result, links=replace(result.links, last_arrays=last_arrays))

    def _last_arrays(
        self, rollout: CoupledRollout, joint_states: Array, particle_states: Array, interval: int, steps: int
    ) -> tuple[Array, ...]:
        """``ArticulatedRollout.last_arrays``; NaN in worlds that diverged. Repeats the steps after the last checkpoint."""
        columns = last_columns(self.model.articulated, rollout.inputs.links)
        if not columns:
            return ()
        (row, remainder), (b, _rows, count) = divmod(steps, interval), joint_states.shape
        if remainder:
            segment = empty_in_same_library(joint_states, (b, remainder + 1, count))
            segment_states = empty_in_same_library(particle_states, (b, remainder + 1, *particle_states.shape[2:]))
            copy_row(*views(particle_states, row, segment_states, 0))
            _copy_joints(joint_states, row, segment)
            self._advance(
                rollout, segment, segment_states, True, False, 0, segment, segment_states, steps - remainder, remainder,
            )  # fmt: skip
            joint_states = segment
        last_arrays = tuple(section(joint_states, (slice(None), int(joint_states.shape[1]) - 1, column)) for column in columns)
        mark_diverged_worlds(last_arrays, rollout.diverged)
        return last_arrays

    @without_subexpression_elimination
    def _differentiate(self, rollout: CoupledRollout, bars: tuple[Array, ...], last_bars: tuple[Array, ...]) -> CoupledInputs:
        """``rollout_adjoint`` of checked arguments."""
        inputs, steps = rollout.inputs, rollout.frames * self.settings.substeps
        b, _n, _q, _d, p = self._sizes(inputs)
        like, segment_steps, frame_bars = inputs.links.link_mass, segment_length(rollout.adjoint, steps), CoupledFrames(*bars)
        joint_states, particle_states = rollout.links.states, rollout.particles.states
        columns = self.model.articulated.state_columns(inputs.links)
        if rollout.adjoint.interval > 1:
            joint_states = empty_in_same_library(like, (b, segment_steps + 1, columns))
            particle_states = empty_in_same_library(like, (b, segment_steps + 1, p, PARTICLE.size))
        joint_bar = zeros_in_same_library(like, (b, 1, self.model.articulated.bar_columns(inputs.links)))
        last_entries = [(slice(None), 0, column) for column in last_columns(self.model.articulated, inputs.links, adjoint=True)]
        if last_bars and inputs.links.has_dry_friction:
            assign(joint_bar, last_entries[0], last_bars[0])
        particle_bar = zeros_in_same_library(like, (b, p, PARTICLE.size))
        force_bar = zeros_in_same_library(like, (b, p, 3))
        sums = AdjointSums(self.model.deformable, inputs.particles)
        team = self._team(inputs)
        packed_bars = PackedBars(self.model.articulated, inputs.links, rollout.links.first_frame, team)
        slots = self._slots(team, like)
        element_bars = zeros_in_same_library(like, (b, slots.rows, PARTICLE.size))
        links = prepare_links(self.model.articulated, inputs.links, dt=self.settings.dt, team=team)
        particles = prepare_particles(self.model.deformable, inputs.particles, differentiable=True)

        def recompute_segment(first: int, count: int) -> None:
            copy_row(*views(rollout.particles.states, first // segment_steps, particle_states, 0))
            _copy_joints(rollout.links.states, first // segment_steps, joint_states)
            self._advance(rollout, joint_states, particle_states, True, False, 0, joint_states, particle_states, first, count)

        def run(start: int, row: int, length: int, *, is_last: bool) -> None:
            Launcher(
                advance_adjoint, row, length, int(is_last), self.settings.substeps,
                joint_states, particle_states, rollout.links.diverged_step, joint_bar, particle_bar, force_bar, frame_bars,
                self._contact_particles(like), links, packed_bars.rows, particles, sums.partial_sums(),
                self._self_contact(inputs, team, start + length - 1), slots, element_bars, begin_launch(team),
                float(self.model.deformable.ground_height),
            )(start)  # fmt: skip
            raise_if_timed_out(team.team)
            sums.add_partial_sums()

        def differentiate_segment(first: int, count: int) -> None:
            for start in reversed(range(first, first + count, _SUM_STEPS)):
                length = min(_SUM_STEPS, first + count - start)
                is_last = start + length == steps
                if is_last and last_bars and inputs.links.has_bristles:
                    # The adjoint of the last frame's poses clears the adjoints of displacements, so it runs before these are set.
                    run(steps, count, 0, is_last=True)
                    assign(joint_bar, last_entries[-1], last_bars[-1])
                    is_last = False
                run(start, start - first, length, is_last=is_last)

        rollout.adjoint.run_backwards(steps, recompute=recompute_segment, differentiate=differentiate_segment)
        if team.team.kind != "single":
            sum_element_bars(*views(slots, element_bars, particle_bar))
        sums.finish()
        packed_bars.finish(links, joint_bar)
        deformable_bars = sums.bars
        initial_bars = deformable_bars.particle_q0, deformable_bars.particle_qd0
        initialise_particles_adjoint(*views(particle_bar, frame_bars.particle_q, frame_bars.particle_qd, *initial_bars))
        return CoupledInputs(packed_bars.bars, deformable_bars)

    @without_subexpression_elimination
    def _forces(self, inputs: CoupledInputs) -> tuple[Array, ...]:
        """``forces`` of checked inputs: those of both solvers, link_force [B, P, 3] of the links on the particles, and
        particle_wrench [B, G, N, 6] of the particles of each of the G deformable bodies on each link (``link_contacts``).
        """
        like, (b, n, _q, _d, p) = inputs.links.link_mass, self._sizes(inputs)
        groups = self._particles_by_body(like)
        world, joint_states, particle_states = self._initial_arguments(inputs)
        force, wrenches = zeros_in_same_library(like, (b, p, 3)), zeros_in_same_library(like, (b, len(groups), n, 6))
        for index, candidates in enumerate(groups):
            wrench = zeros_in_same_library(like, (b, n, 6))
            if candidates is not None:
                contact = ParticleContact(inputs.particles.particle_contact)
                link_contacts(*views(joint_states, particle_states, force, wrench, world, contact, candidates))
            assign(wrenches, (slice(None), index), wrench)
        deformable_forces = contact_forces(self.model.deformable, inputs.particles, dt=self.settings.dt)
        return *self._link_solver.forces(inputs.links), *deformable_forces, force, wrenches

    @without_subexpression_elimination
    def _forces_adjoint(self, inputs: CoupledInputs, bars: tuple[Array, ...]) -> CoupledInputs:
        """``forces_adjoint`` of checked inputs."""
        like, (b, _n, _q, _d, p) = inputs.links.link_mass, self._sizes(inputs)
        *link_bars, ground_bar, self_bar, force_bar, wrench_bar = bars
        deformable_bars = contact_forces_adjoint(
            self.model.deformable, inputs.particles, ground_bar, self_bar, dt=self.settings.dt
        )
        world, joint_states, particle_states = self._initial_arguments(inputs)
        packed_bars = PackedBars(self.model.articulated, inputs.links, 0)
        particle_bar = zeros_in_same_library(like, (b, p, PARTICLE.size))
        joint_bar = zeros_in_same_library(like, (b, 3, self.model.articulated.bar_columns(inputs.links)))
        for index, candidates in enumerate(self._particles_by_body(like)):
            if candidates is not None:
                link_contacts_adjoint(*views(
                    joint_states, particle_states, force_bar, section(wrench_bar, (slice(None), index)),
                    zeros_in_same_library(like, (b, p, 3)), joint_bar, particle_bar, world, packed_bars.rows,
                    ParticleContact(inputs.particles.particle_contact), ParticleContact(deformable_bars.particle_contact),
                    candidates,
                ))  # fmt: skip
        packed_bars.finish(world, joint_bar)
        for array, columns in ((deformable_bars.particle_q0, slice(3)), (deformable_bars.particle_qd0, slice(3, 6))):
            assign(array, (...,), reals_in_same_library(array, to_numpy(array) + to_numpy(particle_bar)[..., columns]))
        links = self._link_solver.forces_adjoint(inputs.links, *link_bars)
        pairs = zip(links.arrays(), packed_bars.bars.arrays(), strict=True)
        links = links.with_arrays(reals_in_same_library(like, to_numpy(first) + to_numpy(second)) for first, second in pairs)
        return CoupledInputs(links, deformable_bars)

    @property
    def _link_solver(self) -> ArticulatedSolver:
        """A solver of the links alone."""
        return ArticulatedSolver(self.model.articulated, ArticulatedSettings(self.settings.dt, self.settings.substeps))

    def _particles_by_body(self, like: Array) -> list[ContactParticles | None]:
        """Particles of each deformable body that collide with links; None for a body without any."""
        particles, margins, groups = self.model.contact_particles, self.model.margins, []
        for _name, first, past_last in self.model.deformable.parts or (("particles", 0, self.model.deformable.particle_count),):
            is_in_body = (particles >= first) & (particles < past_last)
            arrays = ints_in_same_library(like, particles[is_in_body]), reals_in_same_library(like, margins[is_in_body])
            groups.append(ContactParticles(*arrays) if is_in_body.any() else None)
        return groups

    def _initial_arguments(self, inputs: CoupledInputs) -> tuple[WorldArrays, Array, Array]:
        """Kernel arguments of the links, and the initial state of joints and particles in rows."""
        links, like, (b, _n, _q, _d, p) = self.model.articulated, inputs.links.link_mass, self._sizes(inputs)
        world = with_all_links_loaded(links, inputs.links, prepare_links(links, inputs.links, dt=self.settings.dt))
        joint_states = zeros_in_same_library(like, (b, 1, links.state_columns(inputs.links)))
        particle_states = empty_in_same_library(like, (b, 1, p, PARTICLE.size))
        self._write_first_state(inputs, joint_states, particle_states, 0)
        return world, joint_states, particle_states

    def check_divergence(self, rollout: CoupledRollout) -> None:
        """Raise a DivergenceError that names link or particle, and the step, when every world of the rollout diverged."""
        steps = to_numpy(rollout.links.diverged_step)
        if not (steps >= 0).all():
            return
        dt, substeps = self.settings.dt, self.settings.substeps
        if int(to_numpy(rollout.particles.diverged_particle)[int(steps.argmin())]) >= 0:
            DeformableSolver(self.model.deformable, DeformableSettings(dt, substeps)).check_divergence(rollout.particles)
        ArticulatedSolver(self.model.articulated, ArticulatedSettings(dt, substeps)).check_divergence(rollout.links)

    def failed_steps(self, rollout: CoupledRollout) -> np.ndarray:
        """[B, N + 1] int32, step after which the state of a link (or, in the last column, of a particle) was the first that was
        not finite, -1 otherwise.
        """
        links = failed_links(rollout.links, self.model.articulated.link_count)
        diverged_particle, diverged_step = to_numpy(rollout.particles.diverged_particle), to_numpy(rollout.links.diverged_step)
        particle_steps = np.where(diverged_particle >= 0, diverged_step, -1)[:, None].astype(np.int32)
        return np.concatenate([links, particle_steps], axis=1)

    def _sizes(self, inputs: CoupledInputs) -> tuple[int, int, int, int, int]:
        """Numbers of worlds, links, joint coordinates, joint velocities and particles."""
        links, particles = self.model.articulated, self.model.deformable.particle_count
        return inputs.world_count, links.link_count, links.coordinate_count, links.velocity_count, particles

    def _contact_particles(self, like: Array) -> ContactParticles:
        """Particles that collide with links, as kernel arguments."""
        particles, margins = self.model.contact_particles, self.model.margins
        return ContactParticles(ints_in_same_library(like, particles), reals_in_same_library(like, margins))

    def _self_contact(self, inputs: CoupledInputs, team: LinkTeam, step: int) -> SelfContactArrays:
        """Kernel arguments for the self-contact of the particles, from this step on; each triangle is a chunk for a team."""
        model = self.model.deformable
        num_chunks = 1 if team.team.kind == "single" else max(len(model.contact_triangles), 1)
        return self_contact_memory(model, inputs.particles, step=step, num_chunks=num_chunks)

    def _team(self, inputs: CoupledInputs) -> LinkTeam:
        """Team of threads of each world."""
        links = self.model.articulated
        return link_team(
            links.link_parent, np.diff(links.point_start), inputs.links.link_mass, inputs.world_count, self.settings.plan
        )

    def _slots(self, team: LinkTeam, like: Array) -> Slots:
        """Memory of the elements' contributions: slots for a team, and one copy of the particles for one thread."""
        return slots_of(self.model.deformable, like, copies=1 if team.team.kind == "single" else 0, with_contact=True)

    def _write_first_state(self, inputs: CoupledInputs, joint_states: Array, particle_states: Array, first_frame: int) -> None:
        """Write the first state to row 0 of both arrays."""
        start_links(self.model.articulated, inputs.links, joint_states, first_frame)
        initialise_particles(*views(inputs.particles.particle_q0, inputs.particles.particle_qd0, particle_states))

    def _advance(
        self, rollout: CoupledRollout, joint_states: Array, particle_states: Array, store_all: bool, write_frames: bool,
        store_every: int, stored_joint_states: Array, stored_particle_states: Array, first: int, steps: int,
    ) -> None:  # fmt: skip
        """Run ``advance`` over a segment from row 0 of both arrays; ``rollout`` holds the frames and the marks of divergence."""
        inputs, like = rollout.inputs, rollout.inputs.links.link_mass
        b, _n, q, d, p = self._sizes(inputs)
        particles = prepare_particles(self.model.deformable, inputs.particles)
        team = self._team(inputs)
        slots = self._slots(team, like)
        links = prepare_links(self.model.articulated, inputs.links, dt=self.settings.dt, team=team)
        stage_rows = zeros_in_same_library(like, (b, 1, self.model.articulated.state_columns(inputs.links) + q))
        _copy_joints(joint_states, 0, stage_rows)
        Launcher(
            advance, steps, self.settings.substeps, int(store_all), int(write_frames), store_every, stage_rows, joint_states,
            particle_states, zeros_in_same_library(like, (b, slots.rows, 3)), stored_joint_states, stored_particle_states,
            CoupledFrames(*rollout.frame_arrays),
            rollout.marks, self._contact_particles(like), links, particles, self._self_contact(inputs, team, first), slots,
            ints_in_same_library(like, np.full(b, p)), begin_launch(team), float(self.model.deformable.ground_height),
        )(first)  # fmt: skip
        raise_if_timed_out(team.team)
        if write_frames:
            self._contact_warnings.warn(to_numpy(links.near_pairs))


def _copy_joints(source: Array, row: int, target: Array) -> None:
    """Copy a row of source [B, rows, columns] to row 0 of target, as many columns as both have."""
    if hasattr(source, "from_numpy"):
        values = target.to_numpy()
        source_row = source.to_numpy()[:, row]
        values[:, 0, : source_row.shape[1]] = source_row[:, : values.shape[2]]
        target.from_numpy(values)
    else:
        columns = min(source.shape[2], target.shape[2])
        target[:, 0, :columns] = source[:, row, :columns]
