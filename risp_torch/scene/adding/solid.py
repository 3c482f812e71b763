"""Elastic solids."""

from __future__ import annotations

from functools import partial

import numpy as np

from risp_torch.scene.adding.actuation import add_actuation
from risp_torch.scene.adding.particles import ParticleOptions, Particles, Prescribed, add_deformable, start_axes
from risp_torch.scene.arguments import Array, Where
from risp_torch.scene.parameters import ParameterTable
from risp_torch.scene.parts.contact import Contact
from risp_torch.scene.parts.elements import Solid
from risp_torch.scene.parts.materials import MIN_RATIO_LINEAR, MIN_RATIO_SOLID, Actuation, Elastic, add_stiffness
from risp_torch.scene.parts.surface import Surface
from risp_torch.scene.spec import SceneSpec
from risp_torch.scene.start import AT_REST, Start
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked
from ti_sim.deformable.model import ENERGIES
from ti_sim.deformable.solids import corner_volumes, energy_constants, lame_from_young, rest_table
from ti_sim.meshes.solid import SolidMesh


@checked
def add_solid(
    scene: SceneSpec,
    name: str,
    *,
    mesh: SolidMesh,
    material: Elastic,
    density: Array | None = None,
    mass: Array | None = None,
    start: Start = AT_REST,
    fixed: Where = None,
    prescribed: Prescribed | None = None,
    actuation: Actuation | None = None,
    contact: Contact | None = None,
    surface: Surface | None = None,
) -> None:
    """Add an elastic solid.

    Args:
        scene: the scene.
        name: first part of its parameter names ("<name>.E", "<name>.density" and so on).
        mesh: V vertices, which become its particles, and E elements in their rest shape.
        material: elastic constants and damping.
        density: kg/m3, a number or one for each element [E], or
        mass: mass of each particle [kg], a number or [V].
        start: initial position of the mesh's origin, orientation of its axes, and velocities; at rest by default.
        fixed: particles that never move: indices, a mask, or a function of the mesh's vertices [V, 3] that returns a mask.
        prescribed: particles with a prescribed velocity, none by default.
        actuation: change of the elements' rest volume [1], none by default.
        contact: contact parameters of its surface particles with the ground and with colliding bodies; those of the ground
            by default.
        surface: colours, texture, highlights.

    Raises:
        UserError: a number or mesh is invalid; the message names it.
    """
    axes = start_axes(name, start)
    elements = make_solid(
        scene.table,
        name,
        mesh,
        material,
        actuation=actuation,
        frames=scene.frames,
        controls=scene.stepping.controls,
    )
    options = ParticleOptions(
        start=start, density=density, mass=mass, fixed=fixed, prescribed=prescribed,
        contact=contact, surface=surface,
    )  # fmt: skip
    particles = Particles(
        vertices=mesh.vertices, axes=axes, elements=elements, mesh=mesh.surface(),
        surface_particles=np.unique(mesh.faces).astype(np.int64), density_unit="kg/m3",
    )  # fmt: skip
    add_deformable(scene, name, particles, options)


def make_solid(
    table: ParameterTable,
    name: str,
    mesh: SolidMesh,
    material: Elastic,
    *,
    actuation: Actuation | None,
    frames: int,
    controls: int,
) -> Solid:
    """Add the parameters of a solid to the table and return its elements (arguments: ``add_solid``)."""
    if material.energy not in ENERGIES:
        raise UserError(f"the material of {name} has the energy {material.energy!r}: choose one of {', '.join(ENERGIES)}")
    count = len(mesh.indices)
    from_lame = partial(energy_constants, material.energy)
    stiffness = add_stiffness(
        table, name, material, count=count, units=("Pa", "Pa s"),
        from_young=lambda young, poisson: from_lame(*lame_from_young(young, poisson)), from_lame=from_lame,
        min_ratio=MIN_RATIO_SOLID if material.energy == "neo_hookean" else MIN_RATIO_LINEAR,
    )  # fmt: skip
    rest_shapes = rest_table(mesh.kind, mesh.vertices, mesh.indices, element_name=lambda e: f"element {e} of {name!r}")
    return Solid(
        mesh.kind, mesh.indices, corner_volumes(mesh.kind, rest_shapes), material.energy, stiffness,
        add_actuation(table, f"{name}.actuation", actuation, count=count, frames=frames, controls=controls),
    )  # fmt: skip
