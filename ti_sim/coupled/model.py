"""Parts of a coupled simulation: both models, the particles that collide with links, inputs and settings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ti_sim.articulated.model import ArticulatedInputs, ArticulatedModel
from ti_sim.base.bundles import Array, bundle
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, Positive, checked
from ti_sim.deformable.inputs import DeformableInputs
from ti_sim.deformable.model import DeformableModel
from ti_sim.rollout.arrays import Arrays
from ti_sim.rollout.time_steps import Plan, check_plan


@checked
@dataclass(frozen=True)
class CoupledModel:
    """Links and deformable bodies, equal in every world.

    Attributes:
        articulated: links; those with a ``collision_shape`` collide with particles.
        deformable: particles and elements.
        particles: [M] particles that collide with links, None for all; for solids, those of the surface are sufficient.
        margin: distance from a shape at which they touch it [m], one number or [M]. With half the thickness of a sheet, the
            triangles between its particles do not penetrate round shapes.
    """

    articulated: ArticulatedModel
    deformable: DeformableModel
    particles: np.ndarray | None = None
    margin: float | np.ndarray = 0.0

    def __post_init__(self) -> None:
        if not any(shape is not None for shape in self.articulated.collision_shape):
            raise UserError("no link has a collision_shape, so no particle collides with one: simulate links and particles apart")
        particles, count = self.contact_particles, self.deformable.particle_count
        if particles.ndim != 1 or particles.dtype.kind not in "iu" or len(particles) == 0:
            raise UserError(
                f"the particles that collide with links have shape {particles.shape} of {particles.dtype}: "
                "give a row of whole numbers, or None for all"
            )
        if particles.min() < 0 or particles.max() >= count or len(np.unique(particles)) != len(particles):
            raise UserError(f"the particles that collide with links must be different numbers from 0 to {count - 1}")
        if np.shape(self.margin) not in ((), particles.shape) or not ((self.margins >= 0) & (self.margins < np.inf)).all():
            raise UserError(
                f"margin has shape {np.shape(self.margin)}: give one length in m or {len(particles)}, finite and not below zero"
            )

    @property
    def contact_particles(self) -> np.ndarray:
        """Particles that collide with links, [M] integers."""
        return np.arange(self.deformable.particle_count) if self.particles is None else np.asarray(self.particles)

    @property
    def margins(self) -> np.ndarray:
        """Margin of each of these particles, [M] float64, m."""
        return np.array(np.broadcast_to(np.asarray(self.margin, dtype=np.float64), self.contact_particles.shape))


@dataclass(frozen=True)
class CoupledInputs(Arrays):
    """Inputs of a coupled rollout, which is differentiable in all of them; also the container of their adjoints.

    Attributes:
        links: inputs of the links; a contact has the mean of ``link_contact`` and ``particle_contact``.
        particles: inputs of the deformable bodies.
    """

    links: ArticulatedInputs
    particles: DeformableInputs

    @property
    def frame_count(self) -> int:
        """Number of frame intervals of the actions, loads and actuations."""
        return min(self.links.frame_count, self.particles.frame_count)

    @property
    def world_count(self) -> int:
        """Number of worlds B."""
        return self.links.world_count

    def check(self, model: CoupledModel) -> None:
        """Raise a UserError if arrays do not fit the models or each other."""
        self.links.check(model.articulated)
        self.links.check_values(model.articulated)
        self.particles.check(model.deformable)
        self.particles.check_values(model.deformable)
        if self.particles.world_count != self.world_count:
            raise UserError(f"there are {self.world_count} worlds of links and {self.particles.world_count} of particles")


@bundle
class ContactParticles:
    """Particles that collide with links.

    Attributes:
        index: [M] int32 particles.
        margin: [M] distance from a shape at which they touch it [m].
    """

    index: Array
    margin: Array


@bundle
class DivergenceMarks:
    """Marks of worlds that diverged; -1 for all others.

    Attributes:
        step: [B] int32, first step after which a state was not finite.
        link: [B] int32, the link with that state.
        particle: [B] int32, the particle with that state.
    """

    step: Array
    link: Array
    particle: Array


@bundle
class CoupledFrames:
    """All frames of a rollout; also the container of their adjoints.

    Attributes:
        joint_q: [B, frames + 1, Q] joint coordinates [m, rad].
        joint_qd: [B, frames + 1, D] joint velocities [m/s, rad/s].
        body_q: [B, frames + 1, N, 7] poses of the links' frames (m, quaternion x, y, z, w).
        body_qd: [B, frames + 1, N, 6] their velocities [m/s, rad/s].
        particle_q: [B, frames + 1, P, 3] positions [m].
        particle_qd: [B, frames + 1, P, 3] velocities [m/s].
    """

    joint_q: Array
    joint_qd: Array
    body_q: Array
    body_qd: Array
    particle_q: Array
    particle_qd: Array


@checked
@dataclass(frozen=True)
class CoupledSettings:
    """Time stepping of a coupled simulation: semi-implicit Euler.

    Attributes:
        dt: physics step [s].
        substeps: steps per frame.
        plan: "world" (one thread per world), "element" (a team of threads per world, which share links, elements and particles)
            or "auto" (a team on a GPU, unless there are many worlds).
    """

    dt: Positive
    substeps: Count
    plan: Plan = "auto"

    def __post_init__(self) -> None:
        check_plan(self.plan)
