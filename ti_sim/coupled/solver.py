"""The coupled solver: rollouts of deformable bodies and links that meet each other, and their adjoint, for any container."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ti_sim.adjoint import Adjoint, Checkpoint
from ti_sim.articulated.faults import FaultWarnings
from ti_sim.articulated.model import ArticulatedInputs, ArticulatedSettings
from ti_sim.articulated.rollout import begin as begin_links
from ti_sim.articulated.rollout import begin_adjoint as begin_links_adjoint
from ti_sim.articulated.solver import (
    ArticulatedRollout,
    ArticulatedSolver,
    fill_nan,
    mark_diverged_frames,
    views,
)
from ti_sim.articulated.solver import prepare as prepare_links
from ti_sim.articulated.solver import unpack as unpack_links
from ti_sim.articulated.tables import LINK_SIZE, VELOCITY_SIZE
from ti_sim.base.arrays import (
    Array,
    check_array,
    empty_like_family,
    ints_like_family,
    reals_like_family,
    to_numpy,
    zeros_like_family,
)
from ti_sim.base.errors import UserError
from ti_sim.base.launch import Launcher
from ti_sim.base.parallel import spread_of
from ti_sim.base.rules import Count, checked
from ti_sim.base.runtime import compiled_plainly, require
from ti_sim.coupled.model import CoupledInputs, CoupledModel, CoupledSettings
from ti_sim.coupled.rollout import advance, advance_adjoint
from ti_sim.deformable.model import DeformableSettings
from ti_sim.deformable.prepared import AdjointSums
from ti_sim.deformable.prepared import prepare as prepare_particles
from ti_sim.deformable.self_contact_tables import self_contact_memory
from ti_sim.deformable.solver import DeformableRollout, DeformableSolver, check_controls
from ti_sim.deformable.states import begin as begin_particles
from ti_sim.deformable.states import begin_adjoint as begin_particles_adjoint
from ti_sim.deformable.states import copy_row

# Steps whose parameter adjoints are summed before they join the sum over the rollout.
_SUM_STEPS = 1024


@dataclass(frozen=True)
class CoupledRollout:
    """What a rollout gives, and what its adjoint needs.

    Attributes:
        links: frames of the links; its diverged_link is -1 where a particle alone diverged.
        particles: frames of the particles, with the same diverged_step; its diverged_particle is -1 where a link alone diverged.
        inputs: what the rollout started from.
    """

    links: ArticulatedRollout
    particles: DeformableRollout
    inputs: CoupledInputs

    @property
    def frames(self) -> int:
        """Number of frame intervals."""
        return self.links.frames

    @property
    def frame_arrays(self) -> tuple[Array, ...]:
        """All frames, in the order of ``CoupledBars``."""
        links, particles = self.links, self.particles
        return links.joint_q, links.joint_qd, links.body_q, links.body_qd, particles.particle_q, particles.particle_qd


@dataclass(frozen=True)
class CoupledBars:
    """Derivatives of a loss with respect to all frames of a rollout, shaped like the frames.

    Attributes:
        joint_q: [B, frames + 1, Q].
        joint_qd: [B, frames + 1, D].
        body_q: [B, frames + 1, N, 7].
        body_qd: [B, frames + 1, N, 6].
        particle_q: [B, frames + 1, P, 3].
        particle_qd: [B, frames + 1, P, 3].
    """

    joint_q: Array
    joint_qd: Array
    body_q: Array
    body_qd: Array
    particle_q: Array
    particle_qd: Array


class CoupledSolver:
    """Advances links by the articulated-body algorithm and particles by semi-implicit Euler steps, with contact between them."""

    def __init__(self, model: CoupledModel, settings: CoupledSettings) -> None:
        """Bind a model to its time stepping.

        Args:
            model: links, particles and elements.
            settings: step and substeps.
        """
        self.model = model
        self.settings = settings
        self._faults = FaultWarnings(model.articulated, settings.dt)

    @compiled_plainly
    @checked
    def rollout(self, inputs: CoupledInputs, frames: Count, *, adjoint: Adjoint | None = None) -> CoupledRollout:
        """Simulate ``frames`` frame intervals.

        Args:
            inputs: the numbers of every world.
            frames: frame intervals; the result has one frame more, the start.
            adjoint: ``StoreAll()`` or ``Checkpoint(every=k)`` to keep what ``rollout_adjoint`` needs; None keeps nothing.

        Returns:
            Frames and kept states. A world that diverges is marked in ``diverged_step``; its later frames are NaN.

        Raises:
            UserError: shapes, precision or numbers do not fit, or there are inputs for fewer frame intervals.
        """
        require()
        inputs.check(self.model)
        given = min(inputs.links.frame_count, inputs.particles.frame_count)
        if given < frames:
            raise UserError(
                f"frames={frames}, and there are actions, loads and actuations for {given} frame intervals: simulate fewer "
                "frames, or give more"
            )
        check_controls(inputs.particles, self.settings.substeps)
        b, n, q, d, p = self._sizes(inputs)
        like, steps = inputs.links.link_mass, frames * self.settings.substeps
        every = adjoint.every if isinstance(adjoint, Checkpoint) and adjoint.every > 1 else 0
        store_all = adjoint is not None and every == 0
        rows = steps + 1 if store_all else 1
        joints, states = empty_like_family(like, (b, rows, q + 2 * d)), empty_like_family(like, (b, rows, p, 6))
        kept_joints, kept_states = joints, states
        if every:
            kept_joints = empty_like_family(like, (b, steps // every + 1, q + 2 * d))
            kept_states = empty_like_family(like, (b, steps // every + 1, p, 6))
        links = (zeros_like_family(like, (b, frames + 1, *tail)) for tail in ((q,), (d,), (n, 7), (n, 6)))
        particles = (zeros_like_family(like, (b, frames + 1, p, 3)) for _ in range(2))
        step, link, particle = (ints_like_family(like, np.full(b, -1)) for _ in range(3))
        kept = (None, None) if adjoint is None else (kept_joints, kept_states)
        tests = np.zeros((b, 2), dtype=np.int32)
        result = CoupledRollout(
            ArticulatedRollout(*links, step, link, tests, inputs.links, frames, adjoint, kept[0]),
            DeformableRollout(*particles, step, particle, inputs.particles, frames, adjoint, kept[1]),
            inputs,
        )
        self._begin(inputs, joints, states)
        if every:
            self._begin(inputs, kept_joints, kept_states)
        self._advance(result, joints, states, store_all, True, every, kept_joints, kept_states, 0, steps)
        mark_diverged_frames(result.frame_arrays, to_numpy(step), self.settings.substeps)
        return result

    @compiled_plainly
    def rollout_adjoint(self, rollout: CoupledRollout, given: CoupledBars) -> CoupledInputs:
        """Adjoint of ``rollout``: from the adjoints of the frames to those of every input.

        Args:
            rollout: result of ``rollout`` with an adjoint.
            given: derivatives of the loss with respect to the frames.

        Returns:
            Derivatives with respect to every array of the inputs; NaN for worlds that diverged. At the kinks of contacts and
            clamped motors they are those of the side that was active.

        Raises:
            UserError: the rollout kept nothing, or shapes or precision do not fit.
        """
        adjoint = rollout.links.adjoint
        if adjoint is None:
            raise UserError("this rollout kept no states: give it adjoint=StoreAll() or Checkpoint(every=...)")
        inputs, frames = rollout.inputs, rollout.frames
        b, n, q, d, p = self._sizes(inputs)
        seeds = tuple(getattr(given, name) for name in CoupledBars.__dataclass_fields__)
        for name, bar, like in zip(CoupledBars.__dataclass_fields__, seeds, rollout.frame_arrays, strict=True):
            check_array(bar, f"{name}_bar", tuple(like.shape))
        like, steps = inputs.links.link_mass, frames * self.settings.substeps
        every = min(adjoint.every, steps) if isinstance(adjoint, Checkpoint) else 1
        span = every if every > 1 else steps
        joints, states = rollout.links.states, rollout.particles.states
        if every > 1:
            joints, states = empty_like_family(like, (b, span + 1, q + 2 * d)), empty_like_family(like, (b, span + 1, p, 6))
        bars = ArticulatedInputs(*(zeros_like_family(like, tuple(a.shape)) for a in inputs.links.arrays()))
        link_rows = [zeros_like_family(like, (b, n, LINK_SIZE)) for _ in range(2)]
        velocity_rows = [zeros_like_family(like, (b, max(d, 1), VELOCITY_SIZE)) for _ in range(2)]
        joint_bar, bar = zeros_like_family(like, (b, 1, q + d)), zeros_like_family(like, (b, p, 6))
        dual = zeros_like_family(like, (b, p, 3))
        sums = AdjointSums(self.model.deformable, inputs.particles)
        links = prepare_links(self.model.articulated, inputs.links)
        particles = prepare_particles(self.model.deformable, inputs.particles, differentiable=True)
        for first in reversed(range(0, steps, span)):
            count = min(span, steps - first)
            if every > 1:
                copy_row(*views(rollout.particles.states, first // every, states, 0))
                _copy_joints(rollout.links.states, first // every, joints)
                self._advance(rollout, joints, states, True, False, 0, joints, states, first, count)
            for start in reversed(range(first, first + count, _SUM_STEPS)):
                length = min(_SUM_STEPS, first + count - start)
                Launcher(
                    advance_adjoint, start - first, length, int(start + length == steps), self.settings.substeps,
                    particles.features, joints, states, rollout.links.diverged_step, joint_bar, bar, dual, *seeds,
                    *self._meeting(like), *links.arguments(), link_rows[0], velocity_rows[0], link_rows[1], velocity_rows[1],
                    bars.action, bars.servo_target, bars.link_wrench, bars.gravity, *particles.arrays, *sums.arguments(),
                    *self._self_contact(inputs, start + length - 1), sums.self_contact, *self._numbers(inputs),
                )(start)  # fmt: skip
                sums.join()
        sums.finish()
        begin_links_adjoint(*views(inputs.links.joint_q0, links.tree, joint_bar, bars.joint_q0, bars.joint_qd0, q, d))
        unpack_links(self.model.articulated, links, link_rows[1], velocity_rows[1], bars)
        soft = sums.bars
        begin_particles_adjoint(*views(bar, given.particle_q, given.particle_qd, soft.particle_q0, soft.particle_qd0))
        for world in np.flatnonzero(to_numpy(rollout.links.diverged_step) >= 0):
            for array in (*bars.arrays(), *soft.arrays()):
                fill_nan(array, (int(world),))
        return CoupledInputs(bars, soft)

    def check_divergence(self, rollout: CoupledRollout) -> None:
        """Raise a DivergenceError that names link or particle, and the step, when every world of the rollout diverged."""
        steps = to_numpy(rollout.links.diverged_step)
        if not (steps >= 0).all():
            return
        dt, substeps = self.settings.dt, self.settings.substeps
        if int(to_numpy(rollout.particles.diverged_particle)[int(steps.argmin())]) >= 0:
            DeformableSolver(self.model.deformable, DeformableSettings(dt, substeps)).check_divergence(rollout.particles)
        ArticulatedSolver(self.model.articulated, ArticulatedSettings(dt, substeps)).check_divergence(rollout.links)

    def _sizes(self, inputs: CoupledInputs) -> tuple[int, int, int, int, int]:
        """Numbers of worlds, links, joint coordinates, joint velocities and particles."""
        links, particles = self.model.articulated, self.model.deformable.particle_count
        return inputs.world_count, links.link_count, links.coordinate_count, links.velocity_count, particles

    def _meeting(self, like: Array) -> tuple[Array, Array]:
        """Particles that meet links and their margins, for kernels."""
        return ints_like_family(like, self.model.meeting), reals_like_family(like, self.model.margins)

    def _self_contact(self, inputs: CoupledInputs, step: int) -> tuple[Array, ...]:
        """What kernels need for self-contact of the particles, from this step on."""
        return self_contact_memory(self.model.deformable, inputs.particles, step=step, parts=1)

    def _numbers(self, inputs: CoupledInputs) -> tuple[int | float, ...]:
        """The last arguments of both kernels."""
        b, _n, q, d, _p = self._sizes(inputs)
        grounds = float(self.model.articulated.ground_height), float(self.model.deformable.ground_height)
        return q, d, spread_of(b), float(self.settings.dt), *grounds

    def _begin(self, inputs: CoupledInputs, joints: Array, states: Array) -> None:
        """Write the first state to row 0 of both arrays."""
        _b, _n, q, d, _p = self._sizes(inputs)
        tree = ints_like_family(inputs.links.link_mass, self.model.articulated.tree)
        begin_links(*views(inputs.links.joint_q0, inputs.links.joint_qd0, tree, joints, q, d))
        begin_particles(*views(inputs.particles.particle_q0, inputs.particles.particle_qd0, states))

    def _advance(
        self, rollout: CoupledRollout, joints: Array, states: Array, store_all: bool, write_frames: bool, keep_every: int,
        kept_joints: Array, kept_states: Array, first: int, steps: int,
    ) -> None:  # fmt: skip
        """Run ``advance`` over a segment from row 0 of both arrays; ``rollout`` gives the frames and the marks of divergence."""
        inputs, like = rollout.inputs, rollout.inputs.links.link_mass
        b, _n, q, d, p = self._sizes(inputs)
        particles = prepare_particles(self.model.deformable, inputs.particles)
        links = prepare_links(self.model.articulated, inputs.links)
        run = empty_like_family(like, (b, 1, 2 * (q + d)))
        _copy_joints(joints, 0, run)
        Launcher(
            advance, steps, self.settings.substeps, particles.features, int(store_all), int(write_frames), keep_every,
            run, joints, states, zeros_like_family(like, (b, p, 3)), kept_joints, kept_states, *rollout.frame_arrays,
            rollout.links.diverged_step, rollout.links.diverged_link, rollout.particles.diverged_particle, *self._meeting(like),
            *links.arguments(), *particles.arrays, *self._self_contact(inputs, first), *self._numbers(inputs),
        )(first)  # fmt: skip
        if write_frames:
            self._faults.tell(to_numpy(links.near))


def _copy_joints(source: Array, row: int, target: Array) -> None:
    """Copy a row of source [B, rows, columns] to row 0 of target, as many columns as both have."""
    if hasattr(source, "from_numpy"):
        values = target.to_numpy()
        given = source.to_numpy()[:, row]
        values[:, 0, : given.shape[1]] = given[:, : values.shape[2]]
        target.from_numpy(values)
    else:
        columns = min(source.shape[2], target.shape[2])
        target[:, 0, :columns] = source[:, row, :columns]
