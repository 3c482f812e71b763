"""Rigid bodies."""

from __future__ import annotations

from typing import Any

import numpy as np

from risp_torch.files.suggest import unknown_name_error
from risp_torch.scene.adding.body_options import BodyOptions
from risp_torch.scene.arguments import Array, Number
from risp_torch.scene.parameters import check_name
from risp_torch.scene.parts.body import Body
from risp_torch.scene.parts.contact import Contact
from risp_torch.scene.parts.surface import Surface
from risp_torch.scene.rotations import unit_quaternion
from risp_torch.scene.spec import SceneSpec
from risp_torch.scene.start import AT_REST, Start
from ti_sim.base.errors import UserError
from ti_sim.base.param import Param
from ti_sim.base.rules import checked
from ti_sim.shapes.shape import Shape


@checked
def add_rigid(
    scene: SceneSpec,
    name: str,
    *,
    shape: Shape,
    density: Number | None = None,
    mass: Number | None = None,
    inertia: Array | None = None,
    inertia_per_mass: Array | None = None,
    start: Start = AT_REST,
    linear_drag: Number | None = None,
    angular_drag: Number | None = None,
    contact: Contact | None = None,
    collision: bool = False,
    surface: Surface | None = None,
) -> None:
    """Add a rigid body.

    Args:
        scene: the scene.
        name: first part of its parameter names.
        shape: geometry, from which the mass properties are computed.
        density: kg/m3, or
        mass: kg (the inertia is then computed from the shape unless ``inertia`` is given).
        inertia: [3, 3] kg m2 about the centre of mass, body frame.
        inertia_per_mass: [3, 3] m2, inertia divided by mass; the inertia is then proportional to the mass.
        start: initial position of the centre of mass, orientation and velocities; at rest at the origin by default.
        linear_drag: drag force per velocity [N s/m], none by default.
        angular_drag: drag torque per angular velocity [N m s], none by default.
        contact: contact parameters with the ground; those of the ground by default.
        collision: whether its shape collides with other bodies that also have this option.
        surface: colours, texture, highlights.

    Raises:
        UserError: a number or mesh is invalid; the message names it.
    """
    options = BodyOptions(
        shape=shape, density=density, mass=mass, inertia=inertia, inertia_per_mass=inertia_per_mass, contact=contact,
        collision=collision, surface=surface,
    )  # fmt: skip
    scene.bodies += (make_body(scene, name, options, start, linear_drag=linear_drag, angular_drag=angular_drag),)


def make_body(
    scene: SceneSpec, name: str, options: BodyOptions, start: Start, *, linear_drag: Any = None, angular_drag: Any = None
) -> Body:
    """Add the parameters of a body to the scene's table and return the body (arguments: ``add_rigid``)."""
    options.check(scene, name)
    quaternion = unit_quaternion(name, start.orientation)
    if isinstance(start.velocity_gradient, Param) or np.any(start.velocity_gradient):
        raise UserError(f"{name} is rigid and starts with a velocity_gradient: give its velocity and angular_velocity alone")
    check_name(name)
    table = scene.table
    options.add_mass(table, name)
    start.add_to(table, name)
    for kind, drag, unit in (("linear_drag", linear_drag, "N s/m"), ("angular_drag", angular_drag, "N m s")):
        if drag is not None:
            table.add(f"{name}.{kind}", drag, unit=unit, sign="not negative")
    return Body(name=name, orientation=quaternion, **options.add_to(scene, name))


def body_index(scene: SceneSpec, name: str) -> int:
    """Index of the body with this name (UserError: there is none)."""
    names = [body.name for body in scene.bodies]
    if name not in names:
        raise unknown_name_error("body", name, names)
    return names.index(name)
