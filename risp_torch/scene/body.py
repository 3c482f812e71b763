"""A rigid body of a scene: which numbers it has, and how they become the solver's and the renderer's arrays."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from risp_torch.scene.items import Contact, Surface
from risp_torch.scene.look import Look, make_look
from risp_torch.scene.numbers import Values
from risp_torch.scene.parameters import ParameterTable
from ti_sim.articulated.collision import CollisionShape, mesh_shape
from ti_sim.base.errors import UserError
from ti_sim.base.param import Param
from ti_sim.shapes import (
    Box,
    Capsule,
    MassProperties,
    Mesh,
    Shape,
    Sphere,
    TriangleMesh,
    check_inertia,
    contact_points,
    mass_properties,
)
from ti_sim.shapes.contact_points import balls

_OVERLAP = 1e-3  # of the volume: less is no matter
CONTACT_FIELDS = {"stiffness": "N/m", "damping": "N s/m", "friction_stiffness": "N s/m", "friction": ""}
_FIELDS_PER_AREA = {"stiffness": "N/m3", "damping": "N s/m3", "friction_stiffness": "N s/m3", "friction": ""}


@dataclass(frozen=True, eq=False)
class Form:
    """What a body looks like, where it touches, and which solid it is.

    Attributes:
        mesh: render mesh about the centre of mass [m], None for a body that is not seen.
        points: rows of contact points relative to the centre of mass (``ti_sim.shapes.contact_points``).
        solid: volume and inertia per density, None where mass and inertia are given.
    """

    mesh: TriangleMesh | None
    points: np.ndarray
    solid: MassProperties | None


@dataclass(frozen=True, eq=False)
class Body:
    """A rigid body.

    Attributes:
        name: its part of parameter names.
        look: render mesh about the centre of mass [m] and its surface, None for a body that is not seen.
        points: rows of contact points relative to the centre of mass (``ti_sim.shapes.contact_points``).
        solid: volume and inertia per density, None where mass and inertia are given.
        orientation: given quaternion (x, y, z, w), which the parameter "rotation" turns further.
        material: prefix of its contact parameters ("ground.contact" or "<name>.contact"), None without contact.
        collision: the shape by which it meets other bodies, centred at the centre of mass; None where it meets none.
    """

    name: str
    look: Look | None
    points: np.ndarray
    solid: MassProperties | None
    orientation: np.ndarray
    material: str | None
    collision: CollisionShape | None = None

    @property
    def mesh(self) -> TriangleMesh | None:
        """Render mesh about the centre of mass [m], None for a body that is not seen."""
        return None if self.look is None else self.look.mesh

    def mass(self, values: Values) -> torch.Tensor:
        """[B] kg."""
        given = values.get(f"{self.name}.mass")
        return given if given is not None else values[f"{self.name}.density"] * self.solid.volume

    def inertia(self, values: Values) -> torch.Tensor:
        """[B, 3, 3] kg m2 about the centre of mass, body frame."""
        given = values.get(f"{self.name}.inertia")
        if given is not None:
            return given
        mass = self.mass(values)
        unit = values.get(f"{self.name}.inertia_per_mass")
        if unit is None:
            unit = torch.as_tensor(self.solid.inertia_per_density / self.solid.volume, dtype=mass.dtype, device=mass.device)
        return mass[:, None, None] * unit

    def pose(self, values: Values) -> torch.Tensor:
        """[B, 7] initial position of the centre of mass [m] and quaternion: "rotation" [rad] applied to the given one."""
        turn = values[f"{self.name}.rotation"]
        given = torch.as_tensor(self.orientation, dtype=turn.dtype, device=turn.device)
        return torch.cat([values[f"{self.name}.position"], quaternion_product(rotation_quaternion(turn), given)], dim=-1)

    def velocity(self, values: Values) -> torch.Tensor:
        """[B, 6] initial velocity [m/s] and angular velocity [rad/s], world frame."""
        return torch.cat([values[f"{self.name}.velocity"], values[f"{self.name}.angular_velocity"]], dim=-1)

    @property
    def drag_names(self) -> tuple[str, str]:
        """Names that its linear and its angular drag have, where it has some."""
        return f"{self.name}.linear_drag", f"{self.name}.angular_drag"

    def drag(self, values: Values) -> torch.Tensor:
        """[B, 2] linear drag [N s/m] and angular drag [N m s]; zeros where there is none."""
        none = values["gravity"].new_zeros(values["gravity"].shape[0])
        return torch.stack([values.get(name, none) for name in self.drag_names], dim=-1)

    def contact(self, values: Values) -> torch.Tensor:
        """[B, 4] ke, kd, kf, mu; zeros (no force) without contact."""
        if self.material is None:
            return values[f"{self.name}.position"].new_zeros(values[f"{self.name}.position"].shape[0], 4)
        return torch.stack([values[f"{self.material}.{field}"] for field in CONTACT_FIELDS], dim=-1)


def make_body(
    table: ParameterTable, name: str, *, shape: Shape | Form, density: Any, mass: Any, inertia: Any, inertia_per_mass: Any,
    position: Any, orientation: Any, rotation: Any, velocity: Any, angular_velocity: Any, linear_drag: Any, angular_drag: Any,
    contact: Contact | None, surface: Surface | None, ground: bool, phong: bool, carrier: bool = False,
    collision: bool = False,
) -> Body:  # fmt: skip
    """Name a body's numbers in the table and return the body (arguments: ``Scene.add_rigid``; the scene has a ground, and
    its shading has highlights; what hangs on the body may hold all its mass)."""
    check_mass_choice(name, density, mass, inertia, inertia_per_mass)
    quaternion = unit_quaternion(name, orientation)
    check_name(name)
    per_area = meant_per_area(table, contact, ground=ground)
    check_contact(name, contact, collision=collision, ground=ground, per_area=per_area)
    form = form_of(shape, touches=ground, per_area=per_area)
    warn_of_overlap(name, shape, given=mass is not None and (inertia is not None or inertia_per_mass is not None))
    add_mass(table, name, density=density, mass=mass, inertia=inertia, inertia_per_mass=inertia_per_mass, carrier=carrier)
    table.add(f"{name}.position", position, unit="m", shape=(3,))
    table.add(f"{name}.rotation", rotation, unit="rad", shape=(3,))
    table.add(f"{name}.velocity", velocity, unit="m/s", shape=(3,))
    table.add(f"{name}.angular_velocity", angular_velocity, unit="rad/s", shape=(3,))
    for kind, drag, unit in (("linear_drag", linear_drag, "N s/m"), ("angular_drag", angular_drag, "N m s")):
        if drag is not None:
            table.add(f"{name}.{kind}", drag, unit=unit, sign="not negative")
    if contact is not None:
        add_contact(table, f"{name}.contact", contact)
    look = None if form.mesh is None else make_look(table, name, form.mesh, surface or Surface(), phong=phong)
    material = f"{name}.contact" if contact is not None else "ground.contact" if ground else None
    meets = collision_shape(name, shape) if collision else None
    return Body(name, look, form.points, form.solid, quaternion, material, meets)


def form_of(shape: Shape | Form, *, touches: bool, per_area: bool) -> Form:
    """The form of a shape, or the given one; without contact points where there is nothing to touch.

    Args:
        shape: of the body.
        touches: whether there is something.
        per_area: whether its contact numbers are per area.
    """
    nowhere = balls(np.zeros((0, 3)))
    if isinstance(shape, Form):
        return shape if touches else replace(shape, points=nowhere)
    points = contact_points(shape, per_area=per_area) if touches else nowhere
    return Form(shape.mesh(), points, mass_properties(shape))


def warn_of_overlap(name: str, shape: Shape | Form, *, given: bool) -> None:
    """Say so where a body's mass or inertia follows from a mesh that cuts itself, unless both are ``given``."""
    if isinstance(shape, Mesh) and not given and shape.miscounted_share > _OVERLAP:
        warnings.warn(
            f"the mesh of {name} cuts itself, or has parts that overlap or are inside out: {100 * shape.miscounted_share:.2g} % "
            "of its volume counts wrongly in mass and inertia: unite its parts in a mesh editor, or give both numbers",
            stacklevel=5,
        )


def meant_per_area(table: ParameterTable, contact: Contact | None, *, ground: bool) -> bool:
    """Whether the contact numbers of a body are per area: its own, or those of the ground."""
    return contact.per == "area" if contact is not None else ground and "ground.contact" in table.per_area


def check_contact(name: str, contact: Contact | None, *, collision: bool, ground: bool, per_area: bool) -> None:
    """Refuse a contact material that nothing asks for, and bodies that meet others without one, or with one per area."""
    if collision and per_area:
        raise UserError(f"{name} meets other bodies, at points, and its contact numbers are per area: give a Contact per point")
    if contact is not None and not ground and not collision:
        raise UserError(f"{name} has a contact material and the scene has no ground: call add_ground first")
    if collision and contact is None and not ground:
        raise UserError(f"{name} meets other bodies and has no contact material: give it a Contact, or the scene a ground")


def collision_shape(name: str, shape: Shape | Form) -> CollisionShape:
    """The shape by which a body meets others, centred at its centre of mass; by a mesh's distance field if it is none of three.

    Raises:
        UserError: the shape is not known, or the cells of its distance field are too coarse.
    """
    if isinstance(shape, Sphere):
        return CollisionShape("sphere", (shape.radius,))
    if isinstance(shape, Capsule):
        return CollisionShape("capsule", (shape.radius, 0.5 * shape.length))
    if isinstance(shape, Box):
        return CollisionShape("box", (0.5 * shape.x, 0.5 * shape.y, 0.5 * shape.z))
    if isinstance(shape, Form):
        raise UserError(f"{name} is made of several shapes and meets no other bodies: leave collision out, or give it one Shape")
    return mesh_shape(shape)


def check_mass_choice(name: str, density: Any, mass: Any, inertia: Any, inertia_per_mass: Any) -> None:
    """Refuse masses and inertias that contradict each other."""
    if (density is None) == (mass is None):
        raise UserError(f"{name} needs its density or its mass: give exactly one of the two")
    if inertia is not None and mass is None:
        raise UserError(f"{name} has an inertia and a density: give its mass with the inertia instead")
    if inertia is not None and inertia_per_mass is not None:
        raise UserError(f"{name} has an inertia and an inertia_per_mass: give one of the two")


def add_mass(
    table: ParameterTable, name: str, *, density: Any, mass: Any, inertia: Any, inertia_per_mass: Any, carrier: bool
) -> None:
    """Name mass or density, and the inertia where it is given; those of a carrier may be zero."""
    if density is not None:
        table.add(f"{name}.density", density, unit="kg/m3", sign="positive")
    else:
        table.add(f"{name}.mass", mass, unit="kg", sign="not negative" if carrier else "positive")
    for kind, given, unit in (("inertia", inertia, "kg m2"), ("inertia_per_mass", inertia_per_mass, "m2")):
        if given is not None:
            check_inertia(given.value if isinstance(given, Param) else given, f"{name}.{kind}", solid=not carrier)
            table.add(f"{name}.{kind}", given, unit=unit, shape=(3, 3))


def unit_quaternion(name: str, orientation: Any) -> np.ndarray:
    """A given quaternion (x, y, z, w) [4] with length one.

    Raises:
        UserError: it is zero.
    """
    quaternion = np.asarray(orientation, dtype=np.float64)
    if not np.linalg.norm(quaternion) > 0:
        raise UserError(f"{name}.orientation is {orientation}: give a quaternion (x, y, z, w) that is not zero")
    return quaternion / np.linalg.norm(quaternion)


def check_name(name: str) -> None:
    """Refuse a body's name that cannot be the first part of parameter names."""
    if not re.fullmatch(r"[A-Za-z_][\w-]*", name):
        raise UserError(f"a body is called {name!r}: use letters, digits, _ and - (dots separate the parts of parameter names)")


def add_contact(table: ParameterTable, prefix: str, contact: Contact) -> None:
    """Name the four contact parameters under ``prefix``; negative values are errors, and zero stiffness is one."""
    if contact.per == "area":
        table.per_area.add(prefix)
    for field, unit in (_FIELDS_PER_AREA if contact.per == "area" else CONTACT_FIELDS).items():
        sign = "positive" if field == "stiffness" else "not negative"
        table.add(f"{prefix}.{field}", getattr(contact, field), unit=unit, sign=sign)


def rotation_quaternion(turn: torch.Tensor) -> torch.Tensor:
    """Unit quaternion [..., 4] of a rotation vector [..., 3] in rad, smooth at zero."""
    half2 = 0.25 * (turn * turn).sum(dim=-1, keepdim=True)
    small = half2 < 1e-6
    half = torch.sqrt(torch.where(small, torch.ones_like(half2), half2))
    sinc = torch.where(small, 1 - half2 / 6 + half2**2 / 120, torch.sin(half) / half)
    cosine = torch.where(small, 1 - half2 / 2 + half2**2 / 24, torch.cos(half))
    return torch.cat([0.5 * sinc * turn, cosine], dim=-1)


def rotation_matrix(q: torch.Tensor) -> torch.Tensor:
    """Rotation matrix [..., 3, 3] of a unit quaternion [..., 4] (x, y, z, w)."""
    x, y, z, w = q.unbind(-1)
    rows = [
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    ]  # fmt: skip
    return torch.stack(rows, dim=-1).reshape(*q.shape[:-1], 3, 3)


def quaternion_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Hamilton product a b of quaternions (x, y, z, w): first the rotation b, then a."""
    av, aw, bv, bw = a[..., :3], a[..., 3:], b[..., :3], b[..., 3:]
    av, bv = torch.broadcast_tensors(av, bv)
    vector = aw * bv + bw * av + torch.linalg.cross(av, bv)
    return torch.cat([vector, aw * bw - (av * bv).sum(-1, keepdim=True)], dim=-1)
