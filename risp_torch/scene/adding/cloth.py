"""Cloths and thin shells."""

from __future__ import annotations

import numpy as np

from risp_torch.scene.adding.actuation import add_actuation
from risp_torch.scene.adding.particles import ParticleOptions, Particles, Prescribed, add_deformable, start_axes
from risp_torch.scene.arguments import Array, Where
from risp_torch.scene.parameters import ParameterTable
from risp_torch.scene.parts.contact import Contact
from risp_torch.scene.parts.elements import ActuationRows, Sheet
from risp_torch.scene.parts.materials import MIN_RATIO_PLANE, Actuation, Bending, Shell, add_element_parameter, add_stiffness
from risp_torch.scene.parts.surface import Surface
from risp_torch.scene.spec import SceneSpec
from risp_torch.scene.start import AT_REST, Start
from ti_sim.base.errors import UserError
from ti_sim.base.rules import NotNegative, checked
from ti_sim.deformable.bending import bending_edges, edge_stiffness, rest_angles
from ti_sim.deformable.triangles import membrane_constants, triangle_areas, triangle_constants
from ti_sim.meshes.sheet import SheetMesh


@checked
def add_cloth(
    scene: SceneSpec,
    name: str,
    *,
    mesh: SheetMesh,
    material: Shell,
    density: Array | None = None,
    mass: Array | None = None,
    start: Start = AT_REST,
    fixed: Where = None,
    prescribed: Prescribed | None = None,
    actuation: Actuation | None = None,
    contact: Contact | None = None,
    thickness: NotNegative = 0.0,
    surface: Surface | None = None,
) -> None:
    """Add a cloth or thin shell. It is lit on both sides in a scene with ``PictureStyle(two_sided=True)``.

    Args:
        scene: the scene.
        name: first part of its parameter names.
        mesh: V vertices and T triangles in their rest shape.
        material: resistance to stretching, shearing and bending, and by the air.
        density: kg/m2, a number or one for each triangle [T], or
        mass: mass of each particle [kg], a number or [V].
        start, fixed, prescribed: see ``add_solid``.
        actuation: change of the triangles' rest area [1], none by default.
        contact: contact parameters of its particles with the ground and with colliding bodies; those of the ground by default.
        thickness: twice the distance at which its particles touch colliding bodies [m]; a small value prevents the
            triangles between them from penetrating round bodies.
        surface: colours, texture, highlights.

    Raises:
        UserError: a number or mesh is invalid; the message names it.
    """
    axes = start_axes(name, start)
    elements = make_cloth(
        scene.table, name, mesh, material, actuation=actuation,
        frames=scene.frames, controls=scene.stepping.controls,
    )  # fmt: skip
    options = ParticleOptions(
        start=start, density=density, mass=mass, fixed=fixed, prescribed=prescribed,
        contact=contact, surface=surface,
    )  # fmt: skip
    particles = Particles(
        vertices=mesh.vertices, axes=axes, elements=elements, mesh=mesh.surface(),
        surface_particles=np.arange(len(mesh.vertices)), density_unit="kg/m2", thickness=thickness,
    )  # fmt: skip
    add_deformable(scene, name, particles, options)


def make_cloth(
    table: ParameterTable, name: str, mesh: SheetMesh, material: Shell, *, actuation: Actuation | None,
    frames: int, controls: int,
) -> Sheet:  # fmt: skip
    """Add the parameters of a cloth to the table and return its elements (arguments: ``add_cloth``)."""
    count, thickness, bending, air = len(mesh.triangles), material.thickness, material.bending, material.air
    if (material.E is not None) != (thickness is not None):
        raise UserError(f"the material of {name} has E={material.E} and thickness={thickness}: give both, or mu and lam [N/m]")
    stiffness = add_stiffness(
        table, name, material, count=count, units=("N/m", "N s/m"),
        from_young=lambda young, poisson: membrane_constants(young, poisson, thickness), from_lame=triangle_constants,
        min_ratio=MIN_RATIO_PLANE,
    )  # fmt: skip
    if air is not None:
        for key in ("drag", "lift"):
            add_element_parameter(table, f"{name}.air.{key}", getattr(air, key), count, unit="kg/m3", sign="not negative")
    edges = np.zeros((0, 4), dtype=np.int32) if bending is None else bending_edges(mesh.triangles)
    stiffness_per_rigidity = bending_actuation = None
    if bending is not None:
        stiffness_per_rigidity, bending_actuation = add_bending(
            table, name, mesh, bending, edges, frames=frames, controls=controls
        )
    corner_areas = np.repeat(triangle_areas(mesh.vertices, mesh.triangles)[:, None] / 3, 3, axis=1)
    return Sheet(
        mesh.triangles, corner_areas, np.zeros(3), 1.0, stiffness,
        add_actuation(table, f"{name}.actuation", actuation, count=count, frames=frames, controls=controls),
        air is not None, edges, stiffness_per_rigidity, bending_actuation,
    )  # fmt: skip


def add_bending(
    table: ParameterTable, name: str, mesh: SheetMesh, bending: Bending, edges: np.ndarray, *, frames: int, controls: int
) -> tuple[np.ndarray | None, ActuationRows | None]:
    """Add the bending parameters; return the edge stiffness per rigidity if the rigidity is given, and the actuation."""
    count, stiffness_per_rigidity = len(edges), None
    if (bending.stiffness is None) == (bending.rigidity is None):
        raise UserError(f"the bending of {name} needs its stiffness or its rigidity: give exactly one of the two")
    if bending.rigidity is not None:
        stiffness_per_rigidity = edge_stiffness(1.0, mesh.vertices, edges)
        table.add(f"{name}.bending.rigidity", bending.rigidity, unit="N m", sign="not negative")
    else:
        add_element_parameter(table, f"{name}.bending.stiffness", bending.stiffness, count, unit="N m", sign="not negative")
    add_element_parameter(table, f"{name}.bending.damping", bending.damping, count, unit="N m s", sign="not negative")
    rest_angle = bending.rest_angle
    if isinstance(rest_angle, str):
        if rest_angle != "mesh":
            raise UserError(f"the bending of {name} has rest_angle={rest_angle!r}: give angles [rad], or 'mesh'")
        rest_angle = rest_angles(mesh.vertices, edges)
    add_element_parameter(table, f"{name}.bending.rest_angle", rest_angle, count, unit="rad")
    bending_actuation = add_actuation(
        table, f"{name}.bending.actuation", bending.actuation, count=count, frames=frames,
        controls=controls, unit="rad",
    )  # fmt: skip
    return stiffness_per_rigidity, bending_actuation
