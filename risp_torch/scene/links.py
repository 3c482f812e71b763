"""A link of a scene's articulated bodies: which numbers it has, and how they become the solver's arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from risp_torch.scene.body import (
    Body,
    Form,
    add_contact,
    add_mass,
    check_contact,
    check_mass_choice,
    check_name,
    collision_shape,
    form_of,
    meant_per_area,
    rotation_quaternion,
    unit_quaternion,
    warn_of_overlap,
)
from risp_torch.scene.items import Contact, Surface
from risp_torch.scene.joints import Joint, Spherical
from risp_torch.scene.look import make_look
from risp_torch.scene.numbers import Values
from risp_torch.scene.parameters import ParameterTable
from ti_sim.base.errors import UserError
from ti_sim.shapes import Shape


@dataclass(frozen=True, eq=False)
class Link(Body):
    """A link: a body that hangs on its parent, or on the world, by a joint.

    Its frame lies in the joint. ``orientation`` is that of the joint frame in the parent's.

    Attributes:
        parent: index among the scene's bodies, -1 for the world.
        joint: how it hangs.
        names: the joint's numbers -> names of the parameters that hold them.
        axis: unit vector in the joint frame.
        direction: unit vector in the link frame, along which its length is laid off.
        share: which part of the length lies between the joint and the centre of mass.
        at_tip: whether the joint sits at the end of its parent's length.
    """

    parent: int = -1
    joint: Joint = field(default_factory=lambda: Spherical())
    names: dict[str, str] = field(default_factory=dict)
    axis: np.ndarray = field(default_factory=lambda: np.array([0.0, 0.0, 1.0]))
    direction: np.ndarray | None = None
    share: float = 0.0
    at_tip: bool = False

    def along(self, values: Values) -> torch.Tensor:
        """[B, 3] from the joint to the tip, link frame [m]; zeros for a link without length."""
        if self.direction is None:
            return torch.zeros_like(values[f"{self.name}.center"])
        length = values[f"{self.name}.length"]
        return length[:, None] * length.new_tensor(self.direction)

    def center(self, values: Values) -> torch.Tensor:
        """[B, 3] centre of mass, link frame [m]."""
        return values[f"{self.name}.center"] + self.share * self.along(values)

    def joint_frame(self, values: Values, parent: Link | None) -> torch.Tensor:
        """[B, 7] pose of the joint in the parent's frame, or in the world."""
        place = values[f"{self.name}.position"]
        if self.at_tip and parent is not None:
            place = place + parent.along(values)
        return torch.cat([place, place.new_tensor(self.orientation).expand(len(place), 4)], dim=-1)

    def number(self, values: Values, key: str) -> torch.Tensor:
        """[B, velocities] of a joint number (zeros where the joint has none of this name)."""
        some, count = values["gravity"], self.joint.velocities
        if key not in self.names:
            return some.new_zeros(len(some), count)
        value = values[self.names[key]]
        return value if value.ndim == 2 else value[:, None].expand(-1, count)

    def start(self, values: Values) -> torch.Tensor:
        """[B, coordinates] of the joint at the start (rad, m; a unit quaternion for a spherical joint)."""
        if self.joint.kind == "spherical":
            return rotation_quaternion(values[self.names["turn"]])
        return self.number(values, "angle" if self.joint.kind == "revolute" else "slide")


def make_link(
    table: ParameterTable, name: str, *, bodies: Sequence[Body], parent: str | None, joint: Joint, shape: Shape | Form,
    density: Any, mass: Any, inertia: Any, inertia_per_mass: Any, position: Any, orientation: Any, center: Any, length: Any,
    direction: Any, share: float, at_tip: bool, contact: Contact | None, surface: Surface | None, ground: bool, phong: bool,
    carrier: bool = False, collision: bool = False,
) -> Link:  # fmt: skip
    """Name a link's numbers in the table and return the link (arguments: ``Scene.add_link``; what hangs on a carrier may hold all
    its mass)."""
    check_name(name)
    check_mass_choice(name, density, mass, inertia, inertia_per_mass)
    index = parent_index(name, parent, bodies)
    quaternion = unit_quaternion(name, orientation)
    if at_tip and (index < 0 or getattr(bodies[index], "direction", None) is None):
        raise UserError(f"{name} hangs at the tip of {parent or 'the world'}, which has no length: give its position")
    per_area = meant_per_area(table, contact, ground=ground)
    check_contact(name, contact, collision=collision, ground=ground, per_area=per_area)
    add_mass(table, name, density=density, mass=mass, inertia=inertia, inertia_per_mass=inertia_per_mass, carrier=carrier)
    table.add(f"{name}.position", position, unit="m", shape=(3,))
    table.add(f"{name}.center", center, unit="m", shape=(3,))
    unit = None
    if length is not None:
        unit = unit_vector(name, direction)
        table.add(f"{name}.length", length, unit="m", sign="positive")
    names = add_joint(table, name, joint)
    if contact is not None:
        add_contact(table, f"{name}.contact", contact)
    form = form_of(shape, touches=ground, per_area=per_area)
    warn_of_overlap(name, shape, given=mass is not None and (inertia is not None or inertia_per_mass is not None))
    look = None if form.mesh is None else make_look(table, name, form.mesh, surface or Surface(), phong=phong)
    material = f"{name}.contact" if contact is not None else "ground.contact" if ground else None
    axis = joint.unit_axis(name) if hasattr(joint, "unit_axis") else np.array([0.0, 0.0, 1.0])
    return Link(
        name, look, form.points, form.solid, quaternion, material,
        collision_shape(name, shape) if collision else None,
        parent=index, joint=joint, names=names, axis=axis, direction=unit, share=share, at_tip=at_tip,
    )  # fmt: skip


def add_joint(table: ParameterTable, link: str, joint: Joint) -> dict[str, str]:
    """Name a joint's numbers; those that are names of other parameters stay theirs.

    Raises:
        UserError: a shared parameter is not there, or the limits are reversed.
    """
    names = {}
    for key, value in joint.numbers().items():
        if isinstance(value, str):
            table[value]  # an error that lists near names
            names[key] = value
            continue
        names[key] = f"{link}.{key}"
        vector = isinstance(joint, Spherical) and key in ("turn", "rate", "rest")
        sign = "not negative" if key in joint.not_negative else None
        table.add(names[key], value, unit=joint.units[key], shape=(3,) if vector else (), sign=sign)
    if "limit_low" in names and "limit_high" in names:
        low, high = (table[names[key]].value for key in ("limit_low", "limit_high"))
        if not low < high:
            raise UserError(f"the joint of {link} has its limits reversed ({low:g} and {high:g}): give limit_low < limit_high")
    return names


def parent_index(name: str, parent: str | None, bodies: Sequence[Body]) -> int:
    """Index of a link's parent among the bodies, -1 for the world.

    Raises:
        UserError: there is no such link or body (yet).
    """
    if parent is None:
        return -1
    names = [body.name for body in bodies]
    if parent == name or parent not in names:
        raise UserError(
            f"{name} hangs on {parent!r}, which is no link that was added before it: add parents first (links make trees, "
            f"without loops; there are: {', '.join(names) or 'none'})"
        )
    return names.index(parent)


def unit_vector(name: str, direction: Any) -> np.ndarray:
    """The direction of a link's length, of length one."""
    vector = np.asarray(direction, dtype=np.float64)
    if not np.linalg.norm(vector) > 0:
        raise UserError(f"{name}.length has the direction {direction}: give three numbers that are not all zero")
    return vector / np.linalg.norm(vector)
