"""What a robot file says, whatever its format: links, the joint that each hangs by, and shapes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ti_sim.shapes.surface import TriangleMesh

JointType = Literal["fixed", "revolute", "prismatic", "spherical", "free"]
ShapeKind = Literal["box", "sphere", "cylinder", "capsule", "mesh"]


@dataclass(frozen=True, eq=False)
class RobotShape:
    """One visual or collision shape of a link.

    Attributes:
        name: of the shape in the file, "" for none.
        kind: which of the five.
        size: m; box: full side lengths (x, y, z); sphere: (radius,); cylinder: (radius, height); capsule: (radius, length of the
            cylinder without the caps); mesh: (). Cylinders and capsules stand along z of the shape's frame.
        position: [3] of the shape's frame in the link frame, m.
        quaternion: [4] xyzw of the shape's frame in the link frame.
        color: linear RGB in [0, 1], or None where the file gives none. Files hold sRGB; it is decoded.
        mesh: the triangles of a mesh in the shape's frame, m, scaled; None for the other kinds.
    """

    name: str
    kind: ShapeKind
    size: tuple[float, ...]
    position: np.ndarray
    quaternion: np.ndarray
    color: tuple[float, float, float] | None = None
    mesh: TriangleMesh | None = field(default=None, repr=False)


@dataclass(frozen=True, eq=False)
class RobotJoint:
    """The joint that a link hangs by. Per joint coordinate: N, m for a prismatic joint, else N m, rad.

    Attributes:
        name: of the joint in the file, "" where the file has no joint there (a fixed link).
        type: its kind.
        position: [3] of the joint frame in the parent's link frame (in the world for a root), m.
        quaternion: [4] xyzw of the joint frame in the parent's link frame.
        axis: [3] unit vector in the joint frame; along x where the kind has no axis.
        limit_low, limit_high: rad or m; -inf and inf where there is none.
        stiffness: of the spring at the joint, N m/rad or N/m.
        rest: the joint's coordinate at which the spring is slack, rad or m; 0 for spherical joints is no turn.
        damping: N m s/rad or N s/m.
        armature: inertia added to the joint's own, kg m2 or kg.
        motor_gain: N m or N per unit of action; 0 for a joint without a motor.
        motor_limit: largest force of motor and servo either way, N m or N; inf where there is none.
        servo_stiffness: of a position servo, N m/rad or N/m; 0 for none.
        servo_damping: of a position or velocity servo, N m s/rad or N s/m.
        start: coordinates in the pose in which the file shows the robot: () fixed, 1 number revolute and prismatic (rad, m),
            quaternion xyzw spherical, position (m) and quaternion xyzw of the link frame in the joint frame free.
    """

    name: str
    type: JointType
    position: np.ndarray
    quaternion: np.ndarray
    axis: np.ndarray = field(default_factory=lambda: np.array([1.0, 0.0, 0.0]))
    limit_low: float = -math.inf
    limit_high: float = math.inf
    stiffness: float = 0.0
    rest: float = 0.0
    damping: float = 0.0
    armature: float = 0.0
    motor_gain: float = 0.0
    motor_limit: float = math.inf
    servo_stiffness: float = 0.0
    servo_damping: float = 0.0
    start: tuple[float, ...] = ()

    @property
    def moves(self) -> bool:
        """Whether the joint has coordinates."""
        return self.type != "fixed"


@dataclass(frozen=True, eq=False)
class RobotLink:
    """One body of a robot. Its frame is the child frame of its joint.

    Attributes:
        name: unique.
        parent: index of the parent link, -1 for the world.
        joint: that it hangs by.
        mass: kg; 0 for a link that only carries others.
        com: [3] centre of mass in the link frame, m.
        inertia: [3, 3] kg m2 about the centre of mass, along the axes of the link frame; symmetric, its moments not below zero (a
            thin rod has a moment that is zero).
        visuals: shapes that are seen.
        collisions: shapes that touch.
    """

    name: str
    parent: int
    joint: RobotJoint
    mass: float
    com: np.ndarray
    inertia: np.ndarray
    visuals: tuple[RobotShape, ...] = ()
    collisions: tuple[RobotShape, ...] = ()


@dataclass(frozen=True, eq=False)
class RobotDescription:
    """A robot as its file describes it.

    Attributes:
        name: of the robot.
        links: every parent before its children.
        gravity: (x, y, z) m/s2, or None where the format has none (URDF).
        unsupported: one sentence for each kind of thing in the file that is not carried over or deserves a look, with the
            places; empty if there is none.
    """

    name: str
    links: tuple[RobotLink, ...]
    gravity: tuple[float, float, float] | None = None
    unsupported: tuple[str, ...] = ()
