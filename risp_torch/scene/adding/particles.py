"""Options common to all deformable bodies: masses, start, constraints, contact and surface of their particles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from risp_torch.scene.arguments import Array, Where
from risp_torch.scene.parameters import ParameterTable, check_name
from risp_torch.scene.parts.contact import Contact, add_contact, is_per_area
from risp_torch.scene.parts.deformable import Deformable
from risp_torch.scene.parts.elements import Elements
from risp_torch.scene.parts.materials import add_element_parameter
from risp_torch.scene.parts.surface import Surface, SurfaceMesh, make_surface_mesh
from risp_torch.scene.rotations import rotation_matrix, unit_quaternion
from risp_torch.scene.spec import SceneSpec
from risp_torch.scene.start import Start
from ti_sim.base.errors import UserError
from ti_sim.base.param import Param
from ti_sim.base.rules import checked
from ti_sim.shapes.primitives import Sphere
from ti_sim.shapes.surface import TriangleMesh, single_group_mesh, vertex_areas


@checked
@dataclass(frozen=True, kw_only=True)
class Prescribed:
    """Particles with a prescribed velocity.

    Attributes:
        particles: indices, a mask, or a function of the mesh's vertices [V, 3] that returns a mask.
        velocity: of the K particles [m/s]: (3,), (frames, 3), each held over a frame interval, or (frames, K, 3).
    """

    particles: Where
    velocity: Array


@dataclass(frozen=True, kw_only=True)
class ParticleOptions:
    """Options of every deformable body (``Scene.add_solid``).

    Attributes:
        start, density, mass, fixed, prescribed, contact, surface: see ``Scene.add_solid``.
    """

    start: Start
    mass: Any
    density: Any = None
    fixed: Where = None
    prescribed: Prescribed | None = None
    contact: Contact | None = None
    surface: Surface | None = None


@dataclass(frozen=True, kw_only=True)
class Particles:
    """Particles of a deformable body, as its kind determines them.

    Attributes:
        vertices: [V, 3] vertices of its mesh [m].
        axes: [3, 3] from the mesh's axes to the world's.
        elements: elements between its particles.
        mesh: render mesh, with the vertices ``vertices``.
        surface_particles: particles of its surface.
        density_unit: unit of the density in tables.
        radius: radius of balls that are rendered instead of ``mesh`` [m], or None.
        thickness: see ``Scene.add_cloth`` [m].
    """

    vertices: np.ndarray
    axes: np.ndarray
    elements: Elements
    mesh: TriangleMesh
    surface_particles: np.ndarray
    density_unit: str = ""
    radius: float | None = None
    thickness: float = 0.0


def start_axes(name: str, start: Start) -> np.ndarray:
    """Rotation matrix [3, 3] from a mesh's axes to the world's at the start.

    Raises:
        UserError: the name is invalid, or the quaternion is zero.
    """
    check_name(name)
    return rotation_matrix(torch.as_tensor(unit_quaternion(name, start.orientation))).numpy()


def add_deformable(scene: SceneSpec, name: str, particles: Particles, options: ParticleOptions) -> None:
    """Add the parameters of a body, except those of its elements, and the body to the scene.

    Raises:
        UserError: a number is invalid; the message names it.
    """
    table, vertices = scene.table, particles.vertices
    _add_mass(table, name, particles, options)
    options.start.add_to(table, name, velocity_shape=_velocity_shape(name, options.start.velocity, len(vertices)))
    table.add(f"{name}.velocity_gradient", options.start.velocity_gradient, unit="1/s", shape=(3, 3))
    fixed, prescribed = _add_constraints(scene, name, vertices, options)
    has_ground, contact = scene.ground is not None, options.contact
    per_area = is_per_area(table, contact, has_ground=has_ground)
    if per_area and not len(particles.mesh.faces):
        raise UserError(f"{name} has no surface, and its contact parameters are per area: give it a Contact per point")
    if contact is not None:
        add_contact(table, f"{name}.contact", contact)
    surface, first_particle = _surface_mesh(scene, name, particles, options.surface or Surface()), scene.particle_count
    scene.deformables += (
        Deformable(
            name=name, first_particle=first_particle, vertices=vertices, rest=vertices @ particles.axes.T,
            elements=particles.elements, fixed=fixed, prescribed=prescribed, surface_particles=particles.surface_particles,
            contact_name=f"{name}.contact" if contact is not None else "ground.contact" if has_ground else None,
            surface=replace(surface, vertex_particle=first_particle + surface.vertex_particle), thickness=particles.thickness,
            area=vertex_areas(vertices, particles.mesh.faces) if per_area else None,
        ),
    )  # fmt: skip


def chosen_particles(owner: str, where: Where, vertices: np.ndarray) -> np.ndarray:
    """Indices of the particles that ``where`` selects, ascending.

    Args:
        owner: name of the selection in error messages.
        where: None for none, indices, a mask [V], or a function of the mesh's vertices [V, 3] that returns one of these.
        vertices: [V, 3] m.

    Raises:
        UserError: it selects no particle, or one that does not exist.
    """
    if where is None:
        return np.zeros(0, dtype=np.int64)
    chosen = np.asarray(where(vertices) if callable(where) else where)
    if chosen.dtype == bool:
        if chosen.shape != (len(vertices),):
            raise UserError(f"{owner} is a mask of shape {chosen.shape}: give {(len(vertices),)}, one for each vertex")
        chosen = np.flatnonzero(chosen)
    if chosen.ndim != 1 or (chosen.size and chosen.dtype.kind not in "iu"):
        raise UserError(
            f"{owner} has shape {chosen.shape} of {chosen.dtype}: give indices, a mask, or a function of the vertices"
        )
    if not chosen.size:
        raise UserError(f"{owner} selects no particle: leave it out, or fix the selection")
    invalid = chosen[(chosen < 0) | (chosen >= len(vertices))]
    if invalid.size:
        raise UserError(
            f"{owner} contains particle {invalid[0]}, but the particles are 0 to {len(vertices) - 1}: use one of these"
        )
    return np.unique(chosen).astype(np.int64)


def _add_mass(table: ParameterTable, name: str, particles: Particles, options: ParticleOptions) -> None:
    if (options.density is None) == (options.mass is None):
        raise UserError(f"{name} needs its density or the mass of its particles: give exactly one of the two")
    if options.density is not None:
        count, unit = len(particles.elements.indices), particles.density_unit
        add_element_parameter(table, f"{name}.density", options.density, count, unit=unit, sign="positive")
    else:
        add_element_parameter(table, f"{name}.mass", options.mass, len(particles.vertices), unit="kg", sign="positive")


def _add_constraints(
    scene: SceneSpec, name: str, vertices: np.ndarray, options: ParticleOptions
) -> tuple[np.ndarray, np.ndarray]:
    """Fixed particles, and particles with a prescribed velocity, which is added to the table."""
    fixed = chosen_particles(f"{name}.fixed", options.fixed, vertices)
    prescribed = chosen_particles(f"{name}.prescribed", options.prescribed and options.prescribed.particles, vertices)
    overlap = np.intersect1d(fixed, prescribed)
    if len(overlap):
        raise UserError(f"particle {overlap[0]} of {name} is fixed and has a prescribed velocity: choose one of the two")
    if options.prescribed is not None:
        if options.prescribed.particles is None:
            raise UserError(f"{name}.prescribed selects no particle: give its particles, or leave it out")
        velocity, frames = options.prescribed.velocity, scene.frames
        shape = np.shape(_param_value(velocity))
        if shape not in ((3,), (frames, 3), (frames, len(prescribed), 3)):
            raise UserError(
                f"{name}.prescribed_velocity has shape {shape}: give (3,), {(frames, 3)} (frame intervals) or "
                f"{(frames, len(prescribed), 3)} (particles, too)"
            )
        scene.table.add(f"{name}.prescribed_velocity", velocity, unit="m/s", shape=shape)
    return fixed, prescribed


def _surface_mesh(scene: SceneSpec, name: str, particles: Particles, surface: Surface) -> SurfaceMesh:
    phong = scene.style.shading == "phong"
    if particles.radius is None:
        return _particle_surface(scene.table, name, particles.mesh, surface, phong=phong)
    return _ball_surface(scene.table, name, particles.vertices, particles.radius, surface, phong=phong)


def _velocity_shape(name: str, velocity: Any, count: int) -> tuple[int, ...]:
    shape = np.shape(_param_value(velocity))
    if shape not in ((), (3,), (count, 3)):
        raise UserError(f"{name}.velocity has shape {shape}: give (3,), or {(count, 3)}, one for each particle")
    return (count, 3) if shape == (count, 3) else (3,)


def _param_value(value: Any) -> Any:
    return value.value if isinstance(value, Param) else value


def _particle_surface(table: ParameterTable, name: str, mesh: TriangleMesh, surface: Surface, *, phong: bool) -> SurfaceMesh:
    """The surface mesh whose vertices are the particles."""
    surface_mesh = make_surface_mesh(table, name, mesh, surface, phong=phong)
    return replace(surface_mesh, vertex_particle=np.arange(len(mesh.vertices)), vertex_offset=np.zeros_like(mesh.vertices))


def _ball_surface(
    table: ParameterTable, name: str, points: np.ndarray, radius: float, surface: Surface, *, phong: bool
) -> SurfaceMesh:
    """The surface mesh of particles that are rendered as balls."""
    ball = Sphere(radius=radius, subdivisions=1).mesh()
    vertex_particle = np.repeat(np.arange(len(points)), len(ball.vertices))
    vertex_offset = np.tile(ball.vertices, (len(points), 1))
    faces = (ball.faces[None] + len(ball.vertices) * np.arange(len(points))[:, None, None]).reshape(-1, 3)
    surface_mesh = make_surface_mesh(
        table, name, single_group_mesh(points[vertex_particle] + vertex_offset, faces), surface, phong=phong
    )
    return replace(surface_mesh, vertex_particle=vertex_particle, vertex_offset=vertex_offset)
