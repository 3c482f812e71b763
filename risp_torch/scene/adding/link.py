"""Links, and the numbers of their joints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from risp_torch.scene.adding.body_options import BodyOptions
from risp_torch.scene.arguments import UPRIGHT, Array, Direction, Number, Quaternion, Vector
from risp_torch.scene.parameters import ParameterTable, check_name
from risp_torch.scene.parts.body import Body
from risp_torch.scene.parts.contact import Contact
from risp_torch.scene.parts.joints import Joint
from risp_torch.scene.parts.links import JointCoupling, Link
from risp_torch.scene.parts.surface import Surface
from risp_torch.scene.rotations import unit_quaternion
from risp_torch.scene.spec import SceneSpec
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Real, checked
from ti_sim.shapes.shape import Shape


@checked
@dataclass(frozen=True, kw_only=True)
class LinkFrame:
    """The frame of a link, at its joint, and its centre of mass.

    Attributes:
        parent: name of the link to which it is attached, None for the world.
        position: position of the joint in the parent's frame, or in the world [m].
        orientation: orientation of the joint in the parent's frame, quaternion (x, y, z, w).
        at_tip: whether the joint is at the parent's tip; ``position`` is then relative to the tip.
        center: centre of mass in the link's frame [m].
        length: length of the link [m]; it determines the centre of mass and the position of links attached at the tip; None for a
            link without a tip.
        direction: direction of the length in the link's frame.
        share: fraction of the length between the joint and the centre of mass.
    """

    parent: str | None = None
    position: Vector = (0.0, 0.0, 0.0)
    orientation: Quaternion = UPRIGHT
    at_tip: bool = False
    center: Vector = (0.0, 0.0, 0.0)
    length: Number | None = None
    direction: Direction = (0.0, 0.0, -1.0)
    share: Real = 1.0


@checked
def add_link(
    scene: SceneSpec,
    name: str,
    *,
    joint: Joint,
    shape: Shape,
    frame: LinkFrame = LinkFrame(),  # noqa: B008 (it is frozen)
    density: Number | None = None,
    mass: Number | None = None,
    inertia: Array | None = None,
    inertia_per_mass: Array | None = None,
    contact: Contact | None = None,
    collision: bool = False,
    surface: Surface | None = None,
) -> None:
    """Add a link, attached to another link or to the world by a joint, at which its frame is. Parents must be added first.

    Args:
        scene: the scene.
        name: first part of its parameter names.
        joint: one of ``risp_torch.scene.parts.joints``, such as ``Revolute``; its parameters are "<name>.stiffness" and so on.
        shape: geometry, centred at the centre of mass, with the axes of the link's frame.
        frame: parent, position and orientation of the joint, and the centre of mass; a joint at the world's origin by default.
        density, mass, inertia, inertia_per_mass: see ``add_rigid``.
        contact: contact parameters with the ground; those of the ground by default.
        collision: whether its shape collides with other bodies that also have this option.
        surface: colours, texture, highlights.

    Raises:
        UserError: the parent is unknown, limits are reversed, or a number or mesh is invalid; the message names it.
    """
    options = BodyOptions(
        shape=shape, density=density, mass=mass, inertia=inertia, inertia_per_mass=inertia_per_mass, contact=contact,
        collision=collision, surface=surface,
    )  # fmt: skip
    scene.bodies += (make_link(scene, name, options, frame, joint=joint),)


def make_link(
    scene: SceneSpec, name: str, options: BodyOptions, frame: LinkFrame, *, joint: Joint, coupling: JointCoupling | None = None
) -> Link:
    """Add the parameters of a link to the scene's table and return the link.

    Args:
        scene: the scene.
        name: first part of its parameter names.
        options: shape, mass, contact and look.
        frame: its frame and its centre of mass.
        joint: the joint to its parent.
        coupling: see ``Link``.

    Raises:
        UserError: see ``add_link``.
    """
    check_name(name)
    options.check(scene, name)
    index = parent_index(name, frame.parent, scene.bodies)
    quaternion = unit_quaternion(name, frame.orientation)
    if frame.at_tip and (index < 0 or getattr(scene.bodies[index], "direction", None) is None):
        raise UserError(f"{name} is attached to the tip of {frame.parent or 'the world'}, which has no length: give its position")
    table = scene.table
    options.add_mass(table, name)
    table.add(f"{name}.position", frame.position, unit="m", shape=(3,))
    table.add(f"{name}.center", frame.center, unit="m", shape=(3,))
    unit_direction = None
    if frame.length is not None:
        unit_direction = unit_vector(name, frame.direction)
        table.add(f"{name}.length", frame.length, unit="m", sign="positive")
    parameter_names = add_joint(table, name, joint, excluded=() if coupling is None else (joint.coordinate_name, "rate"))
    axis = joint.unit_axis(name) if hasattr(joint, "unit_axis") else np.array([0.0, 0.0, 1.0])
    return Link(
        name=name, orientation=quaternion, **options.add_to(scene, name), parent=index, joint=joint,
        parameter_names=parameter_names, axis=axis, direction=unit_direction,
        share=frame.share, at_tip=frame.at_tip, coupling=coupling,
    )  # fmt: skip


def add_joint(table: ParameterTable, link: str, joint: Joint, *, excluded: Sequence[str] = ()) -> dict[str, str]:
    """Add the parameters of a joint, except shared ones and those ``excluded``; return joint quantity -> parameter name.

    Raises:
        UserError: a shared parameter does not exist, the limits are reversed, or dry friction has no stiffness.
    """
    names = {}
    for key, value in joint.numbers().items():
        if key in excluded:
            continue
        if isinstance(value, str):
            table[value]  # raises an error with similar names
            names[key] = value
            continue
        names[key] = f"{link}.{key}"
        sign = "not negative" if key in joint.not_negative else "positive" if key in joint.positive else None
        table.add(names[key], value, unit=joint.units[key], shape=(joint.velocities,) if key in joint.vectors else (), sign=sign)
    if "limit_low" in names and "limit_high" in names:
        low, high = (table[names[key]].value for key in ("limit_low", "limit_high"))
        if not low < high:
            raise UserError(f"the joint of {link} has its limits reversed ({low:g} and {high:g}): give limit_low < limit_high")
    if any(key.startswith("dry_") for key in names) and not {"dry_friction", "dry_stiffness"} <= set(names):
        raise UserError(
            f"the joint of {link} has a part of its dry friction: give dry_friction and dry_stiffness, with which it sticks"
        )
    return names


def parent_index(name: str, parent: str | None, bodies: Sequence[Body]) -> int:
    """Index of a link's parent among the bodies, -1 for the world.

    Raises:
        UserError: the link or body does not exist (yet).
    """
    if parent is None:
        return -1
    names = [body.name for body in bodies]
    if parent == name or parent not in names:
        raise UserError(
            f"{name} is attached to {parent!r}, which is not a link added before it: add parents first (links form trees "
            f"without loops; existing links: {', '.join(names) or 'none'})"
        )
    return names.index(parent)


def unit_vector(name: str, direction: Any) -> np.ndarray:
    """The unit vector of the direction of a link's length."""
    vector = np.asarray(direction, dtype=np.float64)
    if not np.linalg.norm(vector) > 0:
        raise UserError(f"{name}.length has the direction {direction}: give three numbers that are not all zero")
    return vector / np.linalg.norm(vector)
