"""The rigid films: one of fourteen objects of drawn size, pose, velocity and contact is pushed in flight, falls and lands.

Ranges of ``PAPER`` are gradSim's (ICLR 2021, appendix G) where it gives them: density, contact parameters and friction; its
cube of 13 m is what the camera sees. Gravity is real (the public code pulls every vertex with 10 N). In flight, mass shows by the
known impulse alone; on the ground, contact parameters show only divided by the mass. Numbers of ``SI`` are those of things on a
table, with lengths of a sixteenth and times of a quarter, so that the pictures are alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from risp_torch import AmbientLight, Camera, Contact, DirectionalLight, Mesh, Param, PictureStyle, Scene, Start, Surface
from scenes.toss import octant_colors
from ti_sim import FromZero, checked

OBJECTS = (
    "box", "sphere", "capsule", "cylinder", "cone", "ellipsoid", "torus", "bowl", "mug", "corner", "bracket", "knot", "star",
    "dumbbell",
)  # fmt: skip
MESHES = Path(__file__).parents[2] / "scenes" / "assets" / "objects"
MASS = "body.density"  # mass over the known volume
CONTACT = {
    "ground.contact.damping": "kd", "ground.contact.stiffness": "ke", "ground.contact.friction_stiffness": "kf",
    "ground.contact.friction": "mu",
}  # fmt: skip
NUMBERS = {MASS: "m"} | CONTACT  # name -> the paper's, in the order of its table 2
BEYOND = 6.0  # bounds of an inversion lie beyond the drawn range by this factor: starts are up to 5 times off
FRAMES = 60  # frame intervals of a film
_LOWEST = 0.25  # of a body's extent: contact points up to this height over the lowest may touch together
_SAFETY = 0.5  # of the longest stable step


@dataclass(frozen=True, kw_only=True)
class Ranges:
    """Ranges of the random tosses, each number uniform between two.

    Attributes:
        side: longest side of an object before it is stretched [m].
        stretch: factors of its three sides.
        density: kg/m3.
        stiffness, damping, friction_stiffness: ke [N/m], kd and kf [N s/m] of a contact point.
        friction: mu.
        place: horizontal distance of the start from the middle along x and y [m].
        height: of the start [m].
        speed: of the start along each axis [m/s].
        spin: of the start about each axis [rad/s].
        push: change of velocity that a body of the middle density gets [m/s].
        frame_dt: s.
        eye: of the camera [m].
        target: what it looks at [m].
    """

    side: tuple[float, float] = (2.0, 4.0)
    stretch: tuple[float, float] = (0.7, 1.3)
    density: tuple[float, float] = (2.0, 12.0)
    stiffness: tuple[float, float] = (1.0, 500.0)
    damping: tuple[float, float] = (1.0, 500.0)
    friction_stiffness: tuple[float, float] = (1.0, 500.0)
    friction: tuple[float, float] = (0.2, 1.0)
    place: tuple[float, float] = (-2.0, 2.0)
    height: tuple[float, float] = (3.5, 5.0)
    speed: tuple[float, float] = (-1.5, 1.5)
    spin: tuple[float, float] = (-2.0, 2.0)
    push: tuple[float, float] = (1.0, 2.0)
    frame_dt: float = 1 / 30
    eye: tuple[float, float, float] = (0.0, -18.0, 7.0)
    target: tuple[float, float, float] = (0.0, 0.0, 2.2)

    def of(self, name: str) -> tuple[float, float]:
        """Of a number by its name in the scene."""
        return getattr(self, name.rpartition(".")[2])


PAPER = Ranges()
SI = Ranges(
    side=(0.125, 0.25), density=(200.0, 1200.0), stiffness=(20.0, 4000.0), damping=(0.5, 20.0), friction_stiffness=(0.5, 20.0),
    place=(-0.125, 0.125), height=(0.22, 0.31), speed=(-0.375, 0.375), spin=(-8.0, 8.0), push=(0.25, 0.5), frame_dt=1 / 120,
    eye=(0.0, -1.125, 0.4375), target=(0.0, 0.0, 0.1375),
)  # fmt: skip
RANGES = {"paper": PAPER, "si": SI}


@dataclass(frozen=True, kw_only=True)
class Toss:
    """A drawn toss.

    Attributes:
        units: name of its ranges.
        shape: name of its object.
        sides: factors of the object's three sides [m].
        values: name of each number of ``NUMBERS`` -> its true value.
        position, orientation, velocity, angular_velocity: of the start; m, quaternion (x, y, z, w), m/s, rad/s.
        impulse, point: of the push: N s, world frame; m from the centre of mass, body frame.
    """

    units: str
    shape: str
    sides: tuple[float, ...]
    values: Mapping[str, float]
    position: tuple[float, ...]
    orientation: tuple[float, ...]
    velocity: tuple[float, ...]
    angular_velocity: tuple[float, ...]
    impulse: tuple[float, ...]
    point: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @property
    def volume(self) -> float:
        """m3."""
        return shaped(self.shape, self.sides).solid().volume

    def with_values(self, values: Mapping[str, float]) -> Toss:
        """The same toss with other numbers."""
        return replace(self, values=dict(self.values) | dict(values))


@cache
def shaped(name: str, sides: tuple[float, ...]) -> Mesh:
    """An object of ``scenes/assets/objects``, stretched along its axes."""
    unit = Mesh(MESHES / f"{name}.obj").mesh()
    return Mesh(vertices=unit.vertices * np.array(sides), faces=unit.faces)


@checked
def draw_toss(index: FromZero, *, seed: FromZero, units: str = "paper") -> Toss:
    """Toss number ``index`` of a seed; objects follow each other in turn.

    The push is directed within 60 degrees of the way to the middle of the picture, off the centre of mass.

    Args:
        index: of the toss.
        seed: of all.
        units: name of the ranges, "paper" or "si".
    """
    ranges, random = RANGES[units], np.random.default_rng([seed, index, sorted(RANGES).index(units)])
    shape = OBJECTS[index % len(OBJECTS)]
    sides = tuple((random.uniform(*ranges.side) * random.uniform(*ranges.stretch, 3)).tolist())
    values = {name: random.uniform(*ranges.of(name)) for name in NUMBERS}
    mesh, position = shaped(shape, sides), random.uniform(*ranges.place, 2)
    quaternion = random.standard_normal(4)
    inward = math.atan2(-position[1], -position[0]) + random.uniform(-math.pi / 3, math.pi / 3)
    direction = np.array([math.cos(inward), math.sin(inward), random.uniform(-0.3, 0.3)])
    points = mesh.mesh().vertices
    return Toss(
        units=units, shape=shape, sides=sides, values=values, position=(*position.tolist(), random.uniform(*ranges.height)),
        orientation=tuple((quaternion / np.linalg.norm(quaternion)).tolist()),
        velocity=tuple(random.uniform(*ranges.speed, 3).tolist()),
        angular_velocity=tuple(random.uniform(*ranges.spin, 3).tolist()),
        impulse=tuple((direction * random.uniform(*ranges.push) * sum(ranges.density) / 2 * mesh.solid().volume).tolist()),
        point=tuple((0.3 * points[random.integers(len(points))]).tolist()),
    )  # fmt: skip


def toss_scene(
    toss: Toss, *, size: int, frames: int = FRAMES, shading: Literal["none", "lambert", "phong"] = "lambert",
    surface: Surface | None = None,
) -> Scene:  # fmt: skip
    """The scene of a toss; its numbers have bounds ``BEYOND`` their range, those that are zero none.

    Args:
        toss: the toss.
        size: side of the pictures [pixels].
        frames: frame intervals.
        shading: of the scene.
        surface: of the body, eight colours by the octants that faces look into by default.
    """
    ranges, mesh = RANGES[toss.units], shaped(toss.shape, toss.sides)
    scene = Scene(
        frame_dt=ranges.frame_dt, frames=frames, substeps=substeps(mesh, ranges), gamma=1e-2, style=PictureStyle(shading=shading),
        name=toss.shape,
    )  # fmt: skip
    unknown = {}
    for name, value in toss.values.items():
        low, high = ranges.of(name)
        bounded = Param(value, low=low / BEYOND, high=high * BEYOND, scale="log10") if value else 0.0
        unknown[name.rpartition(".")[2]] = bounded
    density = unknown.pop("density")
    scene.add_ground(contact=Contact(**unknown), color=(0.35, 0.33, 0.3))
    scene.add_rigid(
        "body", shape=mesh, density=density,
        start=Start(
            position=toss.position, orientation=toss.orientation, velocity=toss.velocity, angular_velocity=toss.angular_velocity
        ),
        surface=surface or Surface(face_colors=octant_colors(mesh)),
    )  # fmt: skip
    scene.add_force(
        "push", body="body", impulse=toss.impulse, point=toss.point, start=3 * ranges.frame_dt, duration=3 * ranges.frame_dt
    )
    add_view(scene, ranges, size=size)
    return scene


def add_view(scene: Scene, ranges: Ranges, *, size: int) -> None:
    """Add the camera, with square pictures of that side [pixels], and the lights of all tosses."""
    far = math.dist(ranges.eye, ranges.target)
    scene.add_camera(
        Camera.look_at(
            eye=ranges.eye, target=ranges.target, vertical_fov=34.0, width=size, height=size, near=far / 5, far=3 * far
        )
    )
    scene.add_light(DirectionalLight(direction=(-0.4, 0.6, -1.0), intensity=0.75))
    scene.add_light(AmbientLight(intensity=0.25))


def substeps(mesh: Mesh, ranges: Ranges) -> int:
    """Physics steps of a frame that are stable for the lightest and hardest contact that is drawn.

    With J_p the map from velocity and angular velocity to the velocity of contact point p and M mass and inertia, springs and
    dampers of all points near the lowest change the motion by at most k a, a the largest eigenvalue of M^-1 sum J_p^T J_p; a
    semi-implicit step stays bounded while (ke a) dt^2 + 2 (kd a) dt <= 4.
    """
    solid, points = mesh.solid(), mesh.mesh().vertices
    moving = np.zeros((6, 6))
    moving[:3, :3], moving[3:, 3:] = solid.volume * np.eye(3), solid.inertia_per_density
    moving *= ranges.density[0]
    largest = 0.0
    for axis in (sign * unit for unit in np.eye(3) for sign in (1.0, -1.0)):
        depth = points @ axis
        low = points[depth >= depth.max() - _LOWEST * np.ptp(depth)]
        maps = np.concatenate([np.broadcast_to(np.eye(3), (len(low), 3, 3)), _crossed(low)], axis=2)
        rows = np.linalg.solve(moving, np.einsum("pij,pik->jk", maps, maps))
        largest = max(largest, float(np.linalg.eigvals(rows).real.max()))
    squared, damping = largest * ranges.stiffness[1], largest * max(ranges.damping[1], ranges.friction_stiffness[1])
    longest = 4 / (damping + math.sqrt(damping**2 + 4 * squared))
    return max(16, math.ceil(ranges.frame_dt / (_SAFETY * longest)))


def _crossed(points: np.ndarray) -> np.ndarray:
    """Matrices [P, 3, 3] that make the velocity of points [P, 3] of an angular velocity: w x p."""
    x, y, z = points.T
    zero = np.zeros_like(x)
    return np.stack([np.stack([zero, z, -y], -1), np.stack([-z, zero, x], -1), np.stack([y, -x, zero], -1)], 1)
