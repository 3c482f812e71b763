"""Description of a robot, independent of the file format: links, their joints, and shapes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ti_sim.base.rules import Real, checked
from ti_sim.shapes.surface import TriangleMesh

JointType = Literal["fixed", "revolute", "prismatic", "spherical", "free"]
ShapeKind = Literal["box", "sphere", "cylinder", "capsule", "mesh"]


@dataclass(frozen=True, eq=False)
class RobotShape:
    """One visual or collision shape of a link.

    Attributes:
        name: name of the shape in the file, "" for none.
        kind: one of the five kinds.
        size: m; box: full side lengths (x, y, z); sphere: (radius,); cylinder: (radius, height); capsule: (radius, length of the
            cylinder without the caps); mesh: (). Cylinders and capsules are along z of the shape's frame.
        position: [3] of the shape's frame in the link frame, m.
        quaternion: [4] xyzw of the shape's frame in the link frame.
        color: linear RGB in [0, 1], or None if the file gives none. The sRGB colours of files are decoded.
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
    """The joint that attaches a link to its parent. Per joint coordinate: N, m for a prismatic joint, else N m, rad.

    Attributes:
        name: name of the joint in the file, "" if the file has no joint there (a fixed link).
        type: its kind.
        position: [3] of the joint frame in the parent's link frame (in the world for a root), m.
        quaternion: [4] xyzw of the joint frame in the parent's link frame.
        axis: [3] unit vector in the joint frame; along x if the kind has no axis.
        limit_low, limit_high: rad or m; -inf and inf if there is none.
        stiffness: of the spring at the joint, N m/rad or N/m.
        rest: joint coordinate at which the spring is relaxed, rad or m; for spherical joints 0, the identity rotation.
        damping: N m s/rad or N s/m.
        armature: inertia added to the joint's own, kg m2 or kg.
        dry_friction: N m or N.
        motor_gain: N m or N per unit of action; 0 for a joint without a motor.
        motor_limit: largest magnitude of the force of motor and servo, N m or N; inf if there is no limit.
        servo_stiffness: of a position servo, N m/rad or N/m; 0 for none.
        servo_damping: of a position or velocity servo, N m s/rad or N s/m.
        start: coordinates in the pose of the file: () fixed, 1 number revolute and prismatic (rad, m),
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
    dry_friction: float = 0.0
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
        joint: joint to its parent.
        mass: kg; 0 for a link that only carries others.
        com: [3] centre of mass in the link frame, m.
        inertia: [3, 3] kg m2 about the centre of mass, along the axes of the link frame; symmetric, with non-negative moments (a
            thin rod has a zero moment).
        visuals: visible shapes.
        collisions: collision shapes.
    """

    name: str
    parent: int
    joint: RobotJoint
    mass: float
    com: np.ndarray
    inertia: np.ndarray
    visuals: tuple[RobotShape, ...] = ()
    collisions: tuple[RobotShape, ...] = ()


@checked
@dataclass(frozen=True)
class RobotMimic:
    """A joint whose coordinate is ``multiplier * that of another joint + offset``.

    Attributes:
        joint: name of the joint.
        leader: name of the other joint, which follows none itself.
        multiplier: 1, m/rad or rad/m.
        offset: coordinate of the joint where that of the leader is zero, rad or m.
    """

    joint: str
    leader: str
    multiplier: Real
    offset: Real


@dataclass(frozen=True, eq=False)
class RobotDescription:
    """A robot as described by its file.

    Attributes:
        name: name of the robot.
        links: every parent before its children.
        gravity: (x, y, z) m/s2, or None if the format has none (URDF).
        unsupported: one sentence for each kind of feature that is not imported or should be checked, with its
            locations; may be empty.
        mimics: the joints whose coordinates the file couples to those of others.
    """

    name: str
    links: tuple[RobotLink, ...]
    gravity: tuple[float, float, float] | None = None
    unsupported: tuple[str, ...] = ()
    mimics: tuple[RobotMimic, ...] = ()
