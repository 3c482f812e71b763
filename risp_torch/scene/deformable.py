"""A deformable body of a scene: which numbers it has, and how they become particles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from risp_torch.scene.body import (
    CONTACT_FIELDS,
    add_contact,
    check_name,
    meant_per_area,
    rotation_matrix,
    rotation_quaternion,
    unit_quaternion,
)
from risp_torch.scene.elements import Elements, lumped, over_frames
from risp_torch.scene.items import Contact, Surface
from risp_torch.scene.look import Look, make_look
from risp_torch.scene.materials import add_element_number, element_rows
from risp_torch.scene.numbers import Values, constant
from risp_torch.scene.parameters import ParameterTable
from ti_sim.base.errors import UserError
from ti_sim.base.param import Param
from ti_sim.shapes import Sphere
from ti_sim.shapes.surface import TriangleMesh, ungrouped_mesh, vertex_areas

Where = Callable[[np.ndarray], np.ndarray] | Any


@dataclass(frozen=True, eq=False)
class Deformable:
    """A deformable body.

    Attributes:
        name: its part of parameter names.
        first: number of its first particle among all of the scene.
        vertices: [V, 3] of its mesh [m].
        rest: [V, 3] the same along the world's axes (without its "rotation") [m].
        elements: between its particles.
        fixed: particles that never move, counted within the body, as are all below.
        prescribed: particles whose velocity is given.
        touching: particles of its surface, which touch the ground and meet bodies with collision.
        material: prefix of its contact parameters ("ground.contact" or "<name>.contact"), None without contact.
        look: its surface, None for a body that is not seen.
        thickness: twice the distance at which its particles touch bodies with collision [m].
        area: [V] surface that each particle stands for [m2], by which contact numbers per area are multiplied; None per point.
    """

    name: str
    first: int
    vertices: np.ndarray
    rest: np.ndarray
    elements: Elements
    fixed: np.ndarray
    prescribed: np.ndarray
    touching: np.ndarray
    material: str | None
    look: Look | None
    thickness: float = 0.0
    area: np.ndarray | None = None

    @property
    def count(self) -> int:
        """V, its particles."""
        return len(self.rest)

    def start(self, values: Values) -> torch.Tensor:
        """[B, V, 3] initial positions [m]."""
        return values[f"{self.name}.position"][:, None] + self._arms(values)

    def start_velocity(self, values: Values) -> torch.Tensor:
        """[B, V, 3] initial velocities [m/s]; those of particles that do not move are zero."""
        velocity, turning = values[f"{self.name}.velocity"], values[f"{self.name}.angular_velocity"]
        velocity = velocity if velocity.ndim == 3 else velocity[:, None]
        arms = self._arms(values)
        turned = torch.linalg.cross(turning[:, None].expand_as(arms), arms)
        moving = velocity + turned + arms @ values[f"{self.name}.velocity_gradient"].mT
        free = np.ones((self.count, 1))
        free[self.fixed] = 0.0
        return moving * constant(free)

    def mass(self, values: Values) -> torch.Tensor:
        """[B, V] kg."""
        given = values.get(f"{self.name}.mass")
        if given is not None:
            return element_rows(given, self.count)
        return lumped(element_rows(values[f"{self.name}.density"], len(self.elements.indices)), self.elements, self.count)

    def contact(self, values: Values) -> torch.Tensor:
        """[B, V, 4] ke, kd, kf, mu of every particle; zeros without contact."""
        if self.material is None:
            return values["gravity"].new_zeros(len(values["gravity"]), self.count, 4)
        row = torch.stack([values[f"{self.material}.{field}"] for field in CONTACT_FIELDS], dim=-1)
        if self.area is None:
            return row[:, None].expand(-1, self.count, 4)
        return row[:, None] * constant(np.stack([self.area, self.area, self.area, np.ones(self.count)], axis=1))

    def prescribed_velocity(self, values: Values, frames: int) -> torch.Tensor:
        """[B, frames, K, 3] m/s."""
        count = len(self.prescribed)
        if not count:
            return values["gravity"].new_zeros(len(values["gravity"]), frames, 0, 3)
        name = f"{self.name}.prescribed_velocity"
        given = values[name]
        if given.ndim == 2:
            return given[:, None, None].expand(-1, frames, count, 3)
        given = over_frames(name, given, frames)
        return given if given.ndim == 4 else given[:, :, None].expand(-1, -1, count, 3)

    def _arms(self, values: Values) -> torch.Tensor:
        """[B, V, 3] from its position to its particles at the start."""
        turn = rotation_matrix(rotation_quaternion(values[f"{self.name}.rotation"]))
        return constant(self.rest) @ turn.mT


def make_deformable(
    table: ParameterTable, name: str, *, first: int, vertices: np.ndarray, axes: np.ndarray, elements: Elements, density: Any,
    density_unit: str, mass: Any, position: Any, rotation: Any, velocity: Any, angular_velocity: Any, velocity_gradient: Any,
    fixed: Where, prescribed: Where, prescribed_velocity: Any, contact: Contact | None, touching: np.ndarray,
    mesh: TriangleMesh, surface: Surface, ground: bool, phong: bool, frames: int, radius: float | None = None,
    thickness: float = 0.0,
) -> Deformable:  # fmt: skip
    """Name the numbers of a body besides those of its elements, and return it.

    Args:
        table: of the scene.
        name: of the body.
        first: number of its first particle.
        vertices: [V, 3] of its mesh [m].
        axes: [3, 3] from the mesh's axes to the world's.
        elements: between its particles.
        density, mass, position, rotation, velocity, angular_velocity, velocity_gradient, fixed, prescribed,
            prescribed_velocity, contact: as of ``Scene.add_solid``.
        density_unit: for tables.
        touching: particles of its surface.
        mesh: what is seen of it; its vertices are ``vertices``.
        surface: how that looks.
        ground: whether the scene has one.
        phong: whether its shading has highlights.
        frames: of the scene.
        radius: of balls that are drawn in place of ``mesh`` [m].
        thickness: as of ``Scene.add_cloth``.

    Raises:
        UserError: a number makes no sense; the message says which.
    """
    if (density is None) == (mass is None):
        raise UserError(f"{name} needs its density or the mass of its particles: give exactly one of the two")
    if density is not None:
        add_element_number(table, f"{name}.density", density, len(elements.indices), unit=density_unit, sign="positive")
    else:
        add_element_number(table, f"{name}.mass", mass, len(vertices), unit="kg", sign="positive")
    table.add(f"{name}.position", position, unit="m", shape=(3,))
    table.add(f"{name}.rotation", rotation, unit="rad", shape=(3,))
    table.add(f"{name}.velocity", velocity, unit="m/s", shape=_velocity_shape(name, velocity, len(vertices)))
    table.add(f"{name}.angular_velocity", angular_velocity, unit="rad/s", shape=(3,))
    table.add(f"{name}.velocity_gradient", velocity_gradient, unit="1/s", shape=(3, 3))
    held = chosen_particles(f"{name}.fixed", fixed, vertices)
    driven = chosen_particles(f"{name}.prescribed", prescribed, vertices)
    both = np.intersect1d(held, driven)
    if len(both):
        raise UserError(f"particle {both[0]} of {name} is fixed and has a prescribed velocity: choose one of the two")
    if (prescribed_velocity is None) != (prescribed is None):
        raise UserError(f"{name} needs both prescribed (which particles) and prescribed_velocity: give both, or neither")
    if prescribed_velocity is not None:
        shape = np.shape(_plain(prescribed_velocity))
        if shape not in ((3,), (frames, 3), (frames, len(driven), 3)):
            raise UserError(
                f"{name}.prescribed_velocity has shape {shape}: give (3,), {(frames, 3)} (frame intervals) or "
                f"{(frames, len(driven), 3)} (particles, too)"
            )
        table.add(f"{name}.prescribed_velocity", prescribed_velocity, unit="m/s", shape=shape)
    per_area = meant_per_area(table, contact, ground=ground)
    if per_area and not len(mesh.faces):
        raise UserError(f"{name} has no surface, and its contact numbers are per area: give it a Contact per point")
    if contact is not None:
        add_contact(table, f"{name}.contact", contact)
    if radius is None:
        look = _skin(table, name, mesh, surface, phong=phong)
    else:
        look = _balls(table, name, vertices, radius, surface, phong=phong)
    return Deformable(
        name, first, vertices, vertices @ axes.T, elements, held, driven, touching,
        f"{name}.contact" if contact is not None else "ground.contact" if ground else None,
        replace(look, carrier=first + look.carrier), thickness, vertex_areas(vertices, mesh.faces) if per_area else None,
    )  # fmt: skip


def chosen_particles(owner: str, where: Where, vertices: np.ndarray) -> np.ndarray:
    """Numbers of the particles that ``where`` chooses, ascending.

    Args:
        owner: what the error calls the choice.
        where: None for none, indices, a mask [V], or a function of the mesh's vertices [V, 3] that returns one.
        vertices: [V, 3] m.

    Raises:
        UserError: it names no particle, or one that is not there.
    """
    if where is None:
        return np.zeros(0, dtype=np.int64)
    given = np.asarray(where(vertices) if callable(where) else where)
    if given.dtype == bool:
        if given.shape != (len(vertices),):
            raise UserError(f"{owner} is a mask of shape {given.shape}: give {(len(vertices),)}, one for each vertex")
        given = np.flatnonzero(given)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise UserError(f"{owner} has shape {given.shape} of {given.dtype}: give indices, a mask, or a function of the vertices")
    if not given.size:
        raise UserError(f"{owner} chooses no particle: leave it out, or mend the choice")
    wrong = given[(given < 0) | (given >= len(vertices))]
    if wrong.size:
        raise UserError(f"{owner} names particle {wrong[0]}, and there are particles 0 to {len(vertices) - 1}: name one of these")
    return np.unique(given).astype(np.int64)


def check_points(name: str, points: Any) -> np.ndarray:
    """Points [V, 3] float64 of a net.

    Raises:
        UserError: they have another shape, or are not finite.
    """
    array = np.asarray(points, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] != 3 or not len(array) or not np.isfinite(array).all():
        raise UserError(f"the points of {name} have shape {array.shape}: give finite positions [V, 3]")
    return array


def quaternion_axes(name: str, orientation: Any) -> np.ndarray:
    """Rotation matrix [3, 3] of a given quaternion (x, y, z, w) of any length.

    Raises:
        UserError: it is zero.
    """
    check_name(name)
    return rotation_matrix(torch.as_tensor(unit_quaternion(name, orientation))).numpy()


def _velocity_shape(name: str, velocity: Any, count: int) -> tuple[int, ...]:
    shape = np.shape(_plain(velocity))
    if shape not in ((), (3,), (count, 3)):
        raise UserError(f"{name}.velocity has shape {shape}: give (3,), or {(count, 3)}, one for each particle")
    return (count, 3) if shape == (count, 3) else (3,)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Param) else value


def _skin(table: ParameterTable, name: str, mesh: TriangleMesh, surface: Surface, *, phong: bool) -> Look:
    """The look of a mesh whose vertices are the particles."""
    look = make_look(table, name, mesh, surface, phong=phong)
    return replace(look, carrier=np.arange(len(mesh.vertices)), offset=np.zeros_like(mesh.vertices))


def _balls(
    table: ParameterTable, name: str, points: np.ndarray, radius: float, surface: Surface, *, phong: bool
) -> Look:
    """The look of particles that are drawn as balls."""
    ball = Sphere(radius=radius, subdivisions=1).mesh()
    carrier = np.repeat(np.arange(len(points)), len(ball.vertices))
    offset = np.tile(ball.vertices, (len(points), 1))
    faces = (ball.faces[None] + len(ball.vertices) * np.arange(len(points))[:, None, None]).reshape(-1, 3)
    look = make_look(table, name, ungrouped_mesh(points[carrier] + offset, faces), surface, phong=phong)
    return replace(look, carrier=carrier, offset=offset)


def surface_particles(faces: np.ndarray) -> np.ndarray:
    """Numbers of the vertices that faces [F, 3] use, ascending."""
    return np.unique(faces).astype(np.int64)
