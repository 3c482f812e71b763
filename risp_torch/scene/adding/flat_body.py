"""Flat bodies: slices of solids in plane strain."""

from __future__ import annotations

import numpy as np

from risp_torch.scene.adding.actuation import add_actuation
from risp_torch.scene.adding.particles import ParticleOptions, Particles, Prescribed, add_deformable, start_axes
from risp_torch.scene.arguments import Array, Where
from risp_torch.scene.parameters import ParameterTable
from risp_torch.scene.parts.contact import Contact
from risp_torch.scene.parts.elements import Sheet
from risp_torch.scene.parts.materials import MIN_RATIO_PLANE, Actuation, Elastic, add_stiffness
from risp_torch.scene.parts.surface import Surface
from risp_torch.scene.spec import SceneSpec
from risp_torch.scene.start import AT_REST, Start
from ti_sim.base.errors import UserError
from ti_sim.base.param import Param
from ti_sim.base.rules import Positive, checked
from ti_sim.deformable.triangles import plane_strain_constants, triangle_areas, triangle_constants
from ti_sim.meshes.sheet import SheetMesh


@checked
def add_flat_body(
    scene: SceneSpec,
    name: str,
    *,
    mesh: SheetMesh,
    material: Elastic,
    density: Array | None = None,
    mass: Array | None = None,
    depth: Positive = 1.0,
    start: Start = AT_REST,
    fixed: Where = None,
    prescribed: Prescribed | None = None,
    actuation: Actuation | None = None,
    contact: Contact | None = None,
    surface: Surface | None = None,
) -> None:
    """Add a two-dimensional body: a slice of a solid that cannot expand along its normal (plane strain).

    It lies in the plane of its mesh after the start's ``orientation``, and resists inversion of its elements. Velocities
    and forces along the normal would move it out of that plane.

    Args:
        scene: the scene.
        name: first part of its parameter names.
        mesh: V vertices in one plane, and T triangles with the same winding.
        material: material of the solid; its energy is "neo_hookean".
        density: kg/m3, a number or one for each triangle [T], or
        mass: mass of each particle [kg], a number or [V].
        depth: depth of the slice along the normal [m]; masses and forces are proportional to it.
        start, fixed, prescribed: see ``add_solid``; without a ``rotation``.
        actuation: change of the triangles' rest area [1], none by default.
        contact: contact parameters of its particles with the ground and with colliding bodies; those of the ground by default.
        surface: colours, texture, highlights.

    Raises:
        UserError: a number or mesh is invalid; the message names it.
    """
    axes = start_axes(name, start)
    if isinstance(start.rotation, Param) or np.any(start.rotation):
        raise UserError(f"{name} is flat and starts with a rotation: turn its plane by the start's orientation alone")
    elements = make_flat_body(
        scene.table, name, mesh, material, depth=depth, rotation=axes, actuation=actuation,
        frames=scene.frames, controls=scene.stepping.controls,
    )  # fmt: skip
    options = ParticleOptions(
        start=start, density=density, mass=mass, fixed=fixed, prescribed=prescribed,
        contact=contact, surface=surface,
    )  # fmt: skip
    particles = Particles(
        vertices=mesh.vertices, axes=axes, elements=elements, mesh=mesh.surface(),
        surface_particles=np.arange(len(mesh.vertices)), density_unit="kg/m3",
    )  # fmt: skip
    add_deformable(scene, name, particles, options)


def make_flat_body(
    table: ParameterTable, name: str, mesh: SheetMesh, material: Elastic, *, depth: float, rotation: np.ndarray,
    actuation: Actuation | None, frames: int, controls: int,
) -> Sheet:  # fmt: skip
    """Add the parameters of a flat body to the table and return its elements (arguments: ``add_flat_body``; ``rotation``
    [3, 3] takes the mesh's axes to the world's; ``frames`` and ``controls`` of the scene)."""
    if material.energy != "neo_hookean":
        raise UserError(f"{name} is flat and its material has the energy {material.energy!r}: flat bodies are 'neo_hookean'")
    count = len(mesh.triangles)
    stiffness = add_stiffness(
        table, name, material, count=count, units=("Pa", "Pa s"), from_young=plane_strain_constants,
        from_lame=triangle_constants, min_ratio=MIN_RATIO_PLANE,
    )  # fmt: skip
    corner_volumes = np.repeat(depth * triangle_areas(mesh.vertices, mesh.triangles)[:, None] / 3, 3, axis=1)
    return Sheet(
        mesh.triangles, corner_volumes, rotation @ plane_normal(name, mesh), depth, stiffness,
        add_actuation(table, f"{name}.actuation", actuation, count=count, frames=frames, controls=controls), False,
        np.zeros((0, 4), dtype=np.int32), None, None,
    )  # fmt: skip


def plane_normal(name: str, mesh: SheetMesh) -> np.ndarray:
    """Unit normal [3] of a flat mesh.

    Raises:
        UserError: its triangles do not lie in one plane, or have different winding.
    """
    a, b, c = np.moveaxis(mesh.vertices[mesh.triangles], 1, 0)
    normals = np.cross(b - a, c - a)
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    is_reversed = normals @ normals[0] < 0
    if is_reversed.any():
        triangle = int(np.argmax(is_reversed))
        raise UserError(f"{name} is a flat body, and its triangle {triangle} has the opposite winding of triangle 0: reverse it")
    distances = np.abs((mesh.vertices - mesh.vertices[0]) @ normals[0])
    if distances.max() > 1e-9 * np.ptp(mesh.vertices, axis=0).max():
        raise UserError(
            f"{name} is a flat body, and vertex {int(distances.argmax())} is outside the plane of triangle 0: move it"
        )
    return normals[0]
