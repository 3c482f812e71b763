"""Loads: forces on particles of deformable bodies."""

from __future__ import annotations

import math

import numpy as np

from risp_torch.files.suggest import unknown_name_error
from risp_torch.scene.adding.particles import chosen_particles
from risp_torch.scene.arguments import Array, Direction, Where
from risp_torch.scene.parts.loads import Load
from risp_torch.scene.spec import SceneSpec
from ti_sim.base.errors import UserError
from ti_sim.base.param import Param
from ti_sim.base.rules import PositiveOrInfinite, checked


@checked
def add_load(
    scene: SceneSpec,
    name: str,
    *,
    body: str,
    where: Where,
    force: Array,
    direction: Direction | None = None,
    limit: PositiveOrInfinite = math.inf,
) -> None:
    """Add an external force on some particles of a deformable body, in equal parts or different for each particle.

    Args:
        scene: the scene.
        name: first part of its parameter name, "<name>.force".
        body: name of the deformable body.
        where: its particles: indices, a mask, or a function of the mesh's vertices [V, 3] that returns a mask.
        force: total force on all of them [N], (3,) or (frames, 3), each held over a frame interval; along a direction one
            number, or (frames,). Or one force per particle, in the order of their indices, (frames, K, 3).
        direction: [3] of any length, for a scalar force; None for a vector.
        limit: largest magnitude of the force or of a component [N]; larger values are clipped and their gradient is zero,
             so an optimiser cannot leave this range.

    Raises:
        UserError: the body or a particle does not exist, or a number is invalid.
    """
    names = [deformable.name for deformable in scene.deformables]
    if body not in names:
        raise unknown_name_error("deformable body", body, names)
    deformable, frames = scene.deformables[names.index(body)], scene.frames
    body_particles = chosen_particles(f"{name}.where", where, deformable.vertices)
    if not len(body_particles):
        raise UserError(f"{name} acts on no particle: say where")
    particles = deformable.first_particle + body_particles
    shape = np.shape(force.value if isinstance(force, Param) else force)
    allowed = ((3,), (frames, 3), (frames, len(particles), 3)) if direction is None else ((), (frames,))
    if shape not in allowed:
        per_particle = f", or {allowed[-1]} (particle by particle; for a number along a direction, give the direction too)"
        hint = per_particle if direction is None else ""
        raise UserError(f"{name}.force has shape {shape}: give {allowed[0]}, or {allowed[1]} (frame intervals){hint}")
    unit_direction = None
    if direction is not None:
        vector = np.asarray(direction, dtype=np.float64)
        if not np.linalg.norm(vector) > 0:
            raise UserError(f"{name} has the direction {direction}: give three numbers that are not all zero")
        unit_direction = vector / np.linalg.norm(vector)
    scene.table.add(f"{name}.force", force, unit="N", shape=shape)
    scene.loads += (Load(name, particles, unit_direction, limit),)
