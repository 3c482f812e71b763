"""Joints of a scene's links: how a link is attached to its parent, with parameters.

Every number may be a ``Param``, or the name of another parameter of the scene (``Scene.add_number``), which several joints may
share.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
import torch

from risp_torch.scene.arguments import Direction, Number, Vector
from risp_torch.scene.rotations import rotation_quaternion
from ti_sim.articulated.joints import JOINT_TYPES
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked

NumberOrName = Number | str
VectorOrName = Vector | str


@checked
@dataclass(frozen=True, kw_only=True)
class Joint:
    """Base of all joints.

    Attributes:
        kind: name of its type in ``ti_sim.articulated.joints.JOINT_TYPES``.
        units: unit of each parameter, by field; a field without unit is no parameter.
        vectors: parameters that have an entry for each velocity.
        not_negative: parameters that are not below zero.
        positive: parameters that are above zero.
        coordinate_name: the parameter that holds the coordinates at the start; "" without coordinates.
    """

    kind: ClassVar[str]
    units: ClassVar[dict[str, str]] = {}
    vectors: ClassVar[tuple[str, ...]] = ()
    coordinate_name: ClassVar[str] = ""
    not_negative: ClassVar[tuple[str, ...]] = (
        "stiffness", "damping", "armature", "limit_stiffness", "dry_friction", "dry_damping",
    )  # fmt: skip
    positive: ClassVar[tuple[str, ...]] = ("dry_stiffness",)

    @property
    def coordinates(self) -> int:
        """Number of its coordinates."""
        return JOINT_TYPES[self.kind].coordinates

    @property
    def velocities(self) -> int:
        """Number of its velocities."""
        return JOINT_TYPES[self.kind].velocities

    def start(self, position: torch.Tensor) -> torch.Tensor:
        """Coordinates at the start [B, coordinates] (rad, m; unit quaternions).

        Args:
            position: parameter ``coordinate_name`` [B, velocities].
        """
        return position

    def numbers(self) -> dict[str, Any]:
        """The joint's parameters by their names in the scene: value, Param, or name of a shared parameter."""
        field_values = {field.name: getattr(self, field.name) for field in fields(self) if field.name in self.units}
        return {name: value for name, value in field_values.items() if value is not None}


@checked
@dataclass(frozen=True, kw_only=True)
class Fixed(Joint):
    """No motion relative to the parent."""

    kind = "fixed"


@dataclass(frozen=True, kw_only=True)
class _OneAxis(Joint):
    """A joint with one coordinate along or about an axis.

    Attributes:
        axis: axis in the joint frame, of any length.
        stiffness, rest: stiffness of the spring, and coordinate at which it is at rest.
        damping: viscous damping of the joint's velocity.
        armature: inertia added to the joint's own. That of a rotor behind a gear of ratio n (turns of the rotor per turn of the
            joint) is n^2 times the rotor's inertia.
        dry_friction: force up to which the joint sticks, and against which it slips (no dry friction by default).
        dry_stiffness: stiffness with which it sticks; needed with ``dry_friction``.
        dry_damping: damping of the sticking spring; spring and damper together are limited by ``dry_friction``.
        limit_low, limit_high: coordinates beyond which the limit's spring acts (no limit by default).
        limit_stiffness: stiffness of the limit's spring.
    """

    axis: Direction
    stiffness: NumberOrName = 0.0
    rest: NumberOrName = 0.0
    damping: NumberOrName = 0.0
    armature: NumberOrName = 0.0
    dry_friction: NumberOrName | None = None
    dry_stiffness: NumberOrName | None = None
    dry_damping: NumberOrName | None = None
    limit_low: NumberOrName | None = None
    limit_high: NumberOrName | None = None
    limit_stiffness: NumberOrName = 0.0

    def unit_axis(self, name: str) -> np.ndarray:
        """The axis with unit length (UserError with the link's name if it is zero)."""
        axis = np.asarray(self.axis, dtype=np.float64)
        if not np.linalg.norm(axis) > 0:
            raise UserError(f"the joint of {name} has the axis {self.axis}: give three numbers that are not all zero")
        return axis / np.linalg.norm(axis)


@checked
@dataclass(frozen=True, kw_only=True)
class Revolute(_OneAxis):
    """Rotation about an axis through the joint.

    Attributes:
        angle, rate: initial angle and rate [rad, rad/s]. Springs in N m/rad, damping in N m s/rad, armature in kg m2, dry
            friction in N m.
    """

    angle: NumberOrName = 0.0
    rate: NumberOrName = 0.0
    kind = "revolute"
    coordinate_name = "angle"
    units = {
        "angle": "rad", "rate": "rad/s", "stiffness": "N m/rad", "rest": "rad", "damping": "N m s/rad", "armature": "kg m2",
        "dry_friction": "N m", "dry_stiffness": "N m/rad", "dry_damping": "N m s/rad",
        "limit_low": "rad", "limit_high": "rad", "limit_stiffness": "N m/rad",
    }  # fmt: skip


@checked
@dataclass(frozen=True, kw_only=True)
class Prismatic(_OneAxis):
    """Translation along an axis.

    Attributes:
        slide, rate: initial displacement and rate [m, m/s]. Springs in N/m, damping in N s/m, armature in kg, dry friction in N.
    """

    slide: NumberOrName = 0.0
    rate: NumberOrName = 0.0
    kind = "prismatic"
    coordinate_name = "slide"
    units = {
        "slide": "m", "rate": "m/s", "stiffness": "N/m", "rest": "m", "damping": "N s/m", "armature": "kg",
        "dry_friction": "N", "dry_stiffness": "N/m", "dry_damping": "N s/m",
        "limit_low": "m", "limit_high": "m", "limit_stiffness": "N/m",
    }  # fmt: skip


@checked
@dataclass(frozen=True, kw_only=True)
class Spherical(Joint):
    """Rotation about a point.

    Attributes:
        turn: rotation vector of the link in the joint frame at the start [3], rad.
        rate: angular velocity relative to the parent at the start [3], link frame, rad/s.
        stiffness, rest: spring on the rotation vector towards a rest value [3] (N m/rad, rad).
        damping: N m s/rad.
        armature: kg m2.
        dry_friction, dry_stiffness, dry_damping: as of ``Revolute``, about each axis of the link's frame (N m, N m/rad,
            N m s/rad).
    """

    turn: VectorOrName = (0.0, 0.0, 0.0)
    rate: VectorOrName = (0.0, 0.0, 0.0)
    stiffness: NumberOrName = 0.0
    rest: VectorOrName = (0.0, 0.0, 0.0)
    damping: NumberOrName = 0.0
    armature: NumberOrName = 0.0
    dry_friction: NumberOrName | None = None
    dry_stiffness: NumberOrName | None = None
    dry_damping: NumberOrName | None = None
    kind = "spherical"
    coordinate_name = "turn"
    vectors = ("turn", "rate", "rest")
    units = {
        "turn": "rad", "rate": "rad/s", "stiffness": "N m/rad", "rest": "rad", "damping": "N m s/rad", "armature": "kg m2",
        "dry_friction": "N m", "dry_stiffness": "N m/rad", "dry_damping": "N m s/rad",
    }  # fmt: skip

    def start(self, position: torch.Tensor) -> torch.Tensor:
        """As ``Joint.start``."""
        return rotation_quaternion(position)
