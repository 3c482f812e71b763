"""Small articulated robots for tests, each written once: as a model with inputs, and as MJCF text with explicit inertials.

Lengths in m, masses in kg, angles in rad; quaternions x, y, z, w here, and w, x, y, z in the MJCF text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tests.reference.articulated import COORDINATES, VELOCITIES
from tests.reference.numpy_rigid import rotation, unit
from tests.reference.rigid_cases import GRAVITY, box_inertia, turned
from ti_sim.articulated.model import ArticulatedInputs, ArticulatedModel

X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
IDENTITY = (0.0, 0.0, 0.0, 1.0)


@dataclass(frozen=True)
class Link:
    """One link and the joint that it hangs by; every number of a joint is shared by its coordinates.

    Attributes:
        parent: index of the parent in the robot's list, -1 for the world.
        joint: type of the joint.
        axis: unit vector in the joint frame.
        position, turn: the joint frame in the parent's link frame.
        mass, com, inertia: kg, m, kg m2 about the centre of mass along the link's axes.
        stiffness, rest, damping, armature: of the joint.
        low, high, limit_stiffness: its limits.
        gain, motor_limit, servo_stiffness, servo_damping: its motor.
        points: [P, 3] contact points relative to the centre of mass.
    """

    parent: int
    joint: str
    axis: Sequence[float] = Y
    position: Sequence[float] = (0.0, 0.0, 0.0)
    turn: Sequence[float] = IDENTITY
    mass: float = 1.0
    com: Sequence[float] = (0.0, 0.0, 0.0)
    inertia: np.ndarray = field(default_factory=lambda: np.eye(3))
    stiffness: float = 0.0
    rest: float = 0.0
    damping: float = 0.0
    armature: float = 0.0
    low: float = -np.inf
    high: float = np.inf
    limit_stiffness: float = 0.0
    gain: float = 0.0
    motor_limit: float = np.inf
    servo_stiffness: float = 0.0
    servo_damping: float = 0.0
    points: np.ndarray = field(default_factory=lambda: np.zeros((0, 3)))


@dataclass(frozen=True)
class Robot:
    """Links, parents first, under one gravity [m/s2]."""

    links: tuple[Link, ...]
    gravity: Sequence[float] = (0.0, 0.0, -GRAVITY)

    def model(self) -> ArticulatedModel:
        """What is the same in every world."""
        return ArticulatedModel(
            link_names=tuple(f"link{i}" for i in range(len(self.links))),
            link_parent=tuple(link.parent for link in self.links),
            joint_type=tuple(link.joint for link in self.links),
            joint_axis=np.array([link.axis for link in self.links], float),
            contact_points=tuple(link.points for link in self.links) if any(len(link.points) for link in self.links) else (),
        )

    def inputs(self, worlds: int = 1, *, frames: int = 1) -> ArticulatedInputs:
        """The robot at rest at the origin of its coordinates, the same in all worlds, no action, no wrench, no contact."""

        def per_link(name: str) -> np.ndarray:
            values = np.array([getattr(link, name) for link in self.links], float)
            return np.repeat(values[None], worlds, 0)

        def per_velocity(name: str) -> np.ndarray:
            return np.repeat(per_link(name), [VELOCITIES[link.joint] for link in self.links], 1)

        start = [IDENTITY if c == 4 else (0, 0, 0, *IDENTITY) if c == 7 else (0,) * c for c in self._coordinates()]
        damping = per_velocity("damping")
        return ArticulatedInputs(
            joint_q0=np.repeat(np.concatenate([np.array(q, float) for q in start])[None], worlds, 0),
            joint_qd0=np.zeros_like(damping),
            joint_frame=np.concatenate([per_link("position"), per_link("turn")], -1),
            joint_stiffness=per_velocity("stiffness"),
            joint_rest=per_velocity("rest"),
            joint_damping=damping,
            joint_armature=per_velocity("armature"),
            joint_limit_low=per_velocity("low"),
            joint_limit_high=per_velocity("high"),
            joint_limit_stiffness=per_velocity("limit_stiffness"),
            motor_gain=per_velocity("gain"),
            motor_limit=per_velocity("motor_limit"),
            servo_stiffness=per_velocity("servo_stiffness"),
            servo_damping=per_velocity("servo_damping"),
            action=np.zeros((worlds, frames, damping.shape[1])),
            servo_target=np.zeros((worlds, frames, damping.shape[1])),
            link_mass=per_link("mass"),
            link_com=per_link("com"),
            link_inertia=per_link("inertia"),
            link_contact=np.zeros((worlds, len(self.links), 4)),
            gravity=np.repeat(np.array([self.gravity], float), worlds, 0),
            link_wrench=np.zeros((worlds, frames, len(self.links), 6)),
        )

    def random(self, rng: np.random.Generator, worlds: int, *, wrench: float = 1.0) -> ArticulatedInputs:
        """The robot in random states within its limits, with actions, servo targets, and wrenches of that standard deviation."""
        inputs = self.inputs(worlds)
        parts = []
        for link in self.links:
            turn = unit(rng.standard_normal((worlds, 4)))
            kinds = {
                "fixed": np.zeros((worlds, 0)),
                "revolute": rng.uniform(max(-np.pi, link.low), min(np.pi, link.high), (worlds, 1)),
                "prismatic": rng.uniform(-0.5, 0.5, (worlds, 1)),
                "spherical": turn,
                "free": np.concatenate([rng.standard_normal((worlds, 3)), turn], 1),
            }
            parts.append(kinds[link.joint])
        return replace(
            inputs,
            joint_q0=np.concatenate(parts, 1),
            joint_qd0=2.0 * rng.standard_normal(inputs.joint_qd0.shape),
            action=rng.uniform(-1, 1, inputs.action.shape),
            servo_target=rng.uniform(-1, 1, inputs.servo_target.shape),
            link_wrench=wrench * rng.standard_normal(inputs.link_wrench.shape),
        )

    def _coordinates(self) -> list[int]:
        return [COORDINATES[link.joint] for link in self.links]

    def mjcf(self) -> str:
        """The same robot for MuJoCo, links named link0, link1, ...; limits and contact are left out.

        A motor with gain becomes a general actuator; its control is action + servo_stiffness / gain * servo_target.
        """
        actuators = [
            f'<general joint="joint{i}" gaintype="fixed" biastype="affine" gainprm="{link.gain!r}" '
            f'biasprm="0 {-link.servo_stiffness!r} {-link.servo_damping!r}" '
            f'forcelimited="true" forcerange="{-link.motor_limit!r} {link.motor_limit!r}"/>'
            for i, link in enumerate(self.links)
            if link.gain
        ]
        return (
            '<mujoco><compiler angle="radian" inertiafromgeom="false"/>'
            f'<option gravity="{_text(self.gravity)}"><flag contact="disable" constraint="disable"/></option>'
            f"<worldbody>{self._bodies(-1)}</worldbody><actuator>{''.join(actuators)}</actuator></mujoco>"
        )

    def _bodies(self, parent: int) -> str:
        names = {"revolute": "hinge", "prismatic": "slide", "spherical": "ball"}
        text = ""
        for i, link in enumerate(self.links):
            if link.parent != parent:
                continue
            joint = f'<freejoint name="joint{i}"/>' if link.joint == "free" else ""
            if link.joint in names:
                rest = "" if link.joint == "spherical" else f'springref="{link.rest!r}"'
                joint = (
                    f'<joint name="joint{i}" type="{names[link.joint]}" axis="{_text(link.axis)}" {rest} '
                    f'stiffness="{link.stiffness!r}" damping="{link.damping!r}" armature="{link.armature!r}"/>'
                )
            m = np.asarray(link.inertia)
            moments = (m[0, 0], m[1, 1], m[2, 2], m[0, 1], m[0, 2], m[1, 2])
            text += (
                f'<body name="link{i}" pos="{_text(link.position)}" quat="{_text(np.roll(unit(np.array(link.turn)), 1))}">{joint}'
                f'<inertial pos="{_text(link.com)}" mass="{link.mass!r}" fullinertia="{_text(moments)}"/>{self._bodies(i)}</body>'
            )
        return text


def _text(numbers: Sequence[float]) -> str:
    return " ".join(repr(float(number)) for number in numbers)


# --- bodies -------------------------------------------------------------------------------------------------------------


def box(half: Sequence[float], centre: Sequence[float], density: float = 1000.0) -> dict[str, object]:
    """Mass, centre of mass and inertia of a solid box, as arguments of ``Link``."""
    mass = density * 8 * float(np.prod(half))
    return {"mass": mass, "com": tuple(centre), "inertia": box_inertia(mass, half)}


def bob(length: float, mass: float = 1.0, radius: float = 0.02) -> dict[str, object]:
    """Mass, centre of mass and inertia of a small ball below the joint, as arguments of ``Link``."""
    return {"mass": mass, "com": (0.0, 0.0, -length), "inertia": np.eye(3) * 0.4 * mass * radius**2}


def lopsided(mass: float, size: float, turn: Sequence[float] = (0.3, -0.2, 0.5, 0.8)) -> np.ndarray:
    """Inertia of a body with three different principal moments whose axes are nobody's own."""
    half = size * np.array([1.0, 0.6, 0.3])
    r = rotation(unit(np.array(turn, float)))
    return r @ box_inertia(mass, half) @ r.T


# --- robots -------------------------------------------------------------------------------------------------------------


def pendulum(length: float = 1.0, mass: float = 1.0, *, radius: float = 0.02, **joint: float) -> Robot:
    """A bob on a massless rod that swings about y."""
    return Robot((Link(-1, "revolute", Y, **bob(length, mass, radius), **joint),))


def double_pendulum(lengths: Sequence[float] = (1.0, 1.0), masses: Sequence[float] = (1.0, 1.0), **joint: float) -> Robot:
    """Two bobs on massless rods that swing about y."""
    upper = Link(-1, "revolute", Y, **bob(lengths[0], masses[0]), **joint)
    return Robot((upper, Link(0, "revolute", Y, (0.0, 0.0, -lengths[0]), **bob(lengths[1], masses[1]), **joint)))


def hand() -> Robot:
    """A palm fixed to the world with a thumb and four fingers: thirteen hinges, boxes of the density of water."""
    joint = {"stiffness": 0.8, "rest": 0.1, "damping": 0.02, "armature": 1e-4, "gain": 0.5, "motor_limit": 0.4}
    limits = {"low": -np.pi / 4, "high": np.pi / 4, "limit_stiffness": 50.0}
    links = [Link(-1, "fixed", turn=turned(X, 0.4), **box((0.053, 0.063, 0.013), (0.0, 0.0, 0.0)))]
    base, tip = box((0.013, 0.015, 0.011), (0.0, -0.01, 0.0)), box((0.013, 0.031, 0.011), (0.0, -0.0222, 0.0))
    links.append(Link(0, "revolute", Z, (-0.033, -0.0569, 0.0), **base, **joint, **limits))
    links.append(Link(1, "revolute", X, (0.0, -0.0199, 0.0), **tip, **joint, **limits))
    for y, phalanges in ((-0.04425, 3), (-0.01475, 3), (0.01475, 3), (0.04425, 2)):
        parent, place = 0, (0.0668, y, 0.0)
        for _ in range(phalanges):
            solid = box((0.0305, 0.013, 0.011), (0.0215, 0.0, 0.0018))
            links.append(Link(parent, "revolute", Y, place, **solid, **joint, **limits))
            parent, place = len(links) - 1, (0.044, 0.0, 0.0)
    return Robot(tuple(links))


def arm() -> Robot:
    """Six hinges with servos on a fixed stand, turned frames, masses from 6 kg to 0.2 kg."""
    quarter = np.pi / 2
    motor = {"gain": 3.0, "servo_stiffness": 20.0, "servo_damping": 2.0, "motor_limit": 40.0}
    upper, wrist = {"damping": 0.5, "armature": 0.1, **motor}, {"damping": 0.1, "armature": 0.02, **motor}

    def solid(mass: float, com: Sequence[float], size: float) -> dict[str, object]:
        return {"mass": mass, "com": com, "inertia": lopsided(mass, size)}

    return Robot(
        (
            Link(-1, "fixed", position=(0.1, -0.2, 0.3), turn=turned((1, 2, 3), 0.3), **solid(4.0, (0, 0, 0.02), 0.1)),
            Link(0, "revolute", Z, (0, 0, 0.15), **solid(6.0, (0.0, -0.03, 0.05), 0.12), **upper),
            Link(1, "revolute", Y, (0, 0.12, 0.05), turned(Y, quarter), **solid(5.0, (0.01, 0.0, 0.2), 0.2), **upper),
            Link(2, "revolute", Y, (0, -0.1, 0.42), **solid(2.5, (0.0, 0.02, 0.18), 0.18), **upper),
            Link(3, "revolute", Z, (0, 0.01, 0.39), turned(X, -quarter), **solid(1.2, (0.0, 0.03, 0.01), 0.06), **wrist),
            Link(4, "revolute", Y, (0, 0.09, 0), turned(Z, 0.2), **solid(1.0, (0.0, 0.0, 0.04), 0.06), **wrist),
            Link(5, "revolute", (0.0, 0.6, 0.8), (0, 0, 0.09), **solid(0.2, (0.02, 0.0, 0.03), 0.04), **wrist),
        )
    )


def quadruped() -> Robot:
    """A trunk that floats and four legs of three hinges each."""
    links = [Link(-1, "free", mass=9.0, com=(0.01, 0.002, -0.005), inertia=lopsided(9.0, 0.2, (0.0, 0.05, 0.02, 1.0)))]
    joint = {"damping": 0.1, "armature": 0.01, "gain": 8.0, "motor_limit": 6.0, "servo_stiffness": 5.0, "servo_damping": 0.2}
    for front in (1, -1):
        for left in (1, -1):
            hip = box((0.04, 0.03, 0.04), (0, 0.01 * left, 0))
            thigh = box((0.015, 0.012, 0.1), (-0.003, 0.002 * left, -0.1), 2000.0)
            shank = box((0.01, 0.008, 0.1), (0.0, 0.0, -0.1), 1500.0)
            at = len(links)
            links += [
                Link(0, "revolute", X, (0.19 * front, 0.05 * left, 0.0), **hip, **joint),
                Link(at, "revolute", Y, (0.0, 0.08 * left, 0.0), **thigh, stiffness=1.0, rest=0.6, **joint),
                Link(at + 1, "revolute", Y, (0.0, 0.0, -0.2), **shank, stiffness=2.0, rest=-1.2, **joint),
            ]
    return Robot(tuple(links))


def tree(seed: int = 0) -> Robot:
    """Twelve links with joints of all five types in a random tree, one branch of it floating, in turned frames."""
    rng = np.random.default_rng(seed)
    kinds = ("fixed", "revolute", "free", "spherical", "prismatic", "spherical", "fixed", "revolute")
    kinds += ("prismatic", "revolute", "spherical", "prismatic")
    parents = (-1, 0, -1, 1, 2, 3, 4, 6, 5, 3, 2, -1)
    links = []
    for kind, parent in zip(kinds, parents, strict=True):
        moves, loose = kind != "fixed", kind == "free"
        mass = rng.uniform(0.5, 2.0)
        axis = rng.standard_normal(3)
        link = Link(
            parent,
            kind,
            tuple(axis / np.linalg.norm(axis)),
            (0.0, 0.0, 0.0) if loose else tuple(rng.uniform(-0.4, 0.4, 3)),
            IDENTITY if loose else tuple(unit(rng.standard_normal(4))),
            mass=mass,
            com=tuple(rng.uniform(-0.2, 0.2, 3)),
            inertia=lopsided(mass, rng.uniform(0.1, 0.3), rng.standard_normal(4)),
        )
        if moves and not loose:
            stiffness, damping, armature = rng.uniform(0.5, 3.0), rng.uniform(0.1, 0.5), rng.uniform(0.01, 0.1)
            link = replace(link, stiffness=stiffness, damping=damping, armature=armature)
        if kind in ("revolute", "prismatic"):
            link = replace(link, rest=rng.uniform(-0.3, 0.3), gain=2.0, motor_limit=3.0, servo_stiffness=1.5, servo_damping=0.3)
        links.append(link)
    return Robot(tuple(links))


def varied(robot: Robot, worlds: int, *, frames: int = 1, seed: int = 0) -> tuple[ArticulatedModel, ArticulatedInputs]:
    """A robot in random states with every number different in every world: in and out of limits, clamps and contact.

    Quaternions and axes are not of unit length, inertias not symmetric, some limits on one side only. Three points
    on every third link touch the ground, at z = -0.2, or not.
    """
    rng = np.random.default_rng(seed)
    links = list(robot.links)
    links[2::3] = [replace(link, points=rng.uniform(-0.3, 0.3, (3, 3))) for link in links[2::3]]
    robot = Robot(tuple(links), tuple(rng.uniform(-5, 5, 3)))
    inputs = robot.random(rng, worlds)
    velocities = inputs.joint_qd0.shape
    sizes = [VELOCITIES[link.joint] for link in robot.links]
    bound = np.repeat([link.joint != "free" for link in robot.links], sizes)

    def some(low: float, high: float, shape: tuple[int, ...] = velocities) -> np.ndarray:
        return rng.uniform(low, high, shape)

    place, turn = np.split(inputs.joint_frame, [3], -1)
    frame = [place + some(-0.1, 0.1, place.shape), turn * some(0.5, 2.0, (*place.shape[:2], 1))]
    low, high = some(-0.4, -0.1), some(0.1, 0.4)
    low[1::3], high[2::3] = -np.inf, np.inf
    inertia = inputs.link_inertia * some(0.8, 1.25, (worlds, len(links), 1, 1))
    inertia += 1e-3 * np.array([[0, 1, -2], [-1, 0, 3], [2, -3, 0]])
    model = replace(robot.model(), ground_height=-0.2, joint_axis=1.7 * robot.model().joint_axis)
    return model, replace(
        inputs,
        joint_q0=_stretched(robot, inputs.joint_q0),
        joint_frame=np.concatenate(frame, -1),
        joint_stiffness=some(0.5, 2.0) * bound,
        joint_rest=some(-0.5, 0.5) * bound,
        joint_damping=some(0.1, 0.5),
        joint_armature=some(0.01, 0.1),
        joint_limit_low=low,
        joint_limit_high=high,
        joint_limit_stiffness=some(20.0, 40.0),
        motor_gain=some(0.5, 2.0),
        motor_limit=some(0.5, 2.0),
        servo_stiffness=some(0.5, 2.0) * bound,
        servo_damping=some(0.1, 0.5),
        action=some(-1.0, 1.0, (worlds, frames, velocities[1])),
        servo_target=some(-1.0, 1.0, (worlds, frames, velocities[1])),
        link_mass=inputs.link_mass * some(0.8, 1.25, inputs.link_mass.shape),
        link_com=inputs.link_com + some(-0.05, 0.05, inputs.link_com.shape),
        link_inertia=inertia,
        link_contact=np.array([400.0, 5.0, 8.0, 0.6]) * some(0.8, 1.25, (worlds, len(links), 4)),
        gravity=inputs.gravity + some(-1.0, 1.0, (worlds, 3)),
        link_wrench=rng.standard_normal((worlds, frames, len(links), 6)),
    )


def _stretched(robot: Robot, joint_q: np.ndarray) -> np.ndarray:
    """The same coordinates with quaternions of length 1.5."""
    parts = [
        np.concatenate([np.ones(max(size - 4, 0)), np.full(4, 1.5)]) if size >= 4 else np.ones(size)
        for size in robot._coordinates()
    ]
    return joint_q * np.concatenate(parts)
