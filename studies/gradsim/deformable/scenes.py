"""Deformable bodies of table 3: balls and bars that are thrown, beams that hang, cloths that swing; all drawn from a seed.

The paper gives no ranges. These are of bodies on a table: every scale is drawn over a decade, evenly in its logarithm, so that
the two starts, five times the least and a fifth of the most, lie up to five times off without knowing the truth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from risp_torch import (
    Air,
    AmbientLight,
    Bending,
    Camera,
    Contact,
    DirectionalLight,
    Elastic,
    Param,
    PictureStyle,
    Scene,
    Shell,
    Start,
    Surface,
)
from risp_torch.programs import unknown_name_error
from ti_sim import Count, FromZero, checked
from ti_sim.meshes import SheetMesh, SolidMesh, box_hexes, sheet_grid, sphere_tets

DECADE = 10.0  # most of a drawn scale over its least
OFF = 5.0  # starts are up to this factor off
BEYOND = 6.0  # bounds lie beyond the drawn range by this factor
FASTEST = 4.0  # bound of the components of a velocity [m/s]
STEEPEST = 8.0  # bound of the components of its gradient [1/s]
THROWN = (2e3, 2e4)  # mu and lambda of what is thrown, as the energy counts them [Pa]
HANGING = (2e4, 2e5)  # of beams [Pa]
DENSITY = (60.0, 600.0)  # mean density of balls whose masses are unknown [kg/m3]
LAME = ("body.mu", "body.lam")
RED, BLUE, WHITE = (0.75, 0.15, 0.1), (0.1, 0.3, 0.6), (0.9, 0.88, 0.8)
UPRIGHT = (math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5))  # a cloth's y axis points up
CLOTH = (0.8, 0.4)  # m
CLOTH_CELLS = (6, 3)
_SAFETY = 0.5  # of an element's height over the speed of its waves


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A drawn body.

    Attributes:
        kind: name, one of ``KINDS``.
        values: unknown -> its true value.
        sides: radius of a ball, or length and thickness [m].
        density: kg/m3; of masses that are unknown, the mean.
        velocity, angular_velocity: of the start [m/s], [rad/s].
    """

    kind: str
    values: Mapping[str, Any]
    sides: tuple[float, ...] = ()
    density: float = 0.0
    velocity: tuple[float, ...] = (0.0, 0.0, 0.0)
    angular_velocity: tuple[float, ...] = (0.0, 0.0, 0.0)

    def with_values(self, values: Mapping[str, Any]) -> Drawn:
        """The same body with other numbers."""
        return Drawn(**{**self.__dict__, "values": dict(self.values) | dict(values)})


@dataclass(frozen=True, kw_only=True)
class Kind:
    """The unknowns of a kind of body.

    Attributes:
        title: for tables.
        unknown: names of the unknowns.
        coarse: kind whose few unknowns are found first, where there are many; "" for none.
        spread: names of scales -> their drawn range.
    """

    title: str
    unknown: tuple[str, ...]
    coarse: str = ""
    spread: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def _lame(low_high: tuple[float, float]) -> Mapping[str, tuple[float, float]]:
    return dict.fromkeys(LAME, low_high)


KINDS = {
    "ball": Kind(title="ball, thrown", unknown=LAME, spread=_lame(THROWN)),
    "bar": Kind(title="bar, thrown", unknown=LAME, spread=_lame(THROWN)),
    "beam": Kind(title="beam, hanging", unknown=LAME, spread=_lame(HANGING)),
    "density": Kind(title="ball, one density", unknown=("body.density",), spread={"body.density": DENSITY}),
    "mass": Kind(title="ball, mass of each particle", unknown=("body.mass",), coarse="density"),
    "affine": Kind(title="cloth, affine velocity", unknown=("body.velocity", "body.velocity_gradient")),
    "velocity": Kind(title="cloth, velocity of each particle", unknown=("body.velocity",), coarse="affine"),
}  # fmt: skip


@checked
def draw(kind: str, index: FromZero, *, seed: FromZero) -> Drawn:
    """Body number ``index`` of a kind.

    Args:
        kind: name, one of ``KINDS``.
        index: of the body.
        seed: of all.

    Raises:
        UserError: another kind.
    """
    if kind not in KINDS:
        raise unknown_name_error("kind", kind, list(KINDS))
    random = np.random.default_rng([seed, index, list(KINDS).index(kind)])
    if kind in ("affine", "velocity"):
        return Drawn(kind=kind, values=_drawn_velocity(kind, random))
    low, high = HANGING if kind == "beam" else THROWN
    mu, lam, density = (math.exp(random.uniform(math.log(a), math.log(b))) for a, b in ((low, high), (low, high), DENSITY))
    values: dict[str, Any] = {"body.mu": mu, "body.lam": lam}
    if kind == "beam":
        sides = (random.uniform(0.3, 0.4), random.uniform(0.1, 0.14))
        return Drawn(kind=kind, values=values, sides=sides, density=random.uniform(800.0, 1200.0))
    motion = {
        "velocity": (random.uniform(0.7, 1.1), random.uniform(-0.2, 0.2), random.uniform(-2.0, -1.0)),
        "angular_velocity": tuple(random.uniform(-5.0, 5.0, 3).tolist()),
    }
    sides = (random.uniform(0.08, 0.12),) if kind != "bar" else (random.uniform(0.2, 0.28), random.uniform(0.08, 0.11))
    if kind == "density":
        values = {"body.density": density}
    elif kind == "mass":
        values = {"body.mass": (density * density_field(random) * volumes(sides[0])).tolist()}
    else:
        density = random.uniform(100.0, 300.0)
    return Drawn(kind=kind, values=values, sides=sides, density=density, **motion)


def density_field(random: np.random.Generator) -> np.ndarray:
    """[V] drawn density of a ball at its particles over the mean: a slope and a wave, of its logarithm."""
    points = ball_mesh(1.0).vertices
    slope, wave = random.normal(0.0, 0.3, 3), random.normal(0.0, 2.0, 3)
    logarithm = points @ slope + 0.2 * np.sin(points @ wave + random.uniform(0, 2 * math.pi))
    volume = volumes(1.0)
    return np.exp(logarithm) * volume.sum() / (np.exp(logarithm) @ volume)


def volumes(radius: float) -> np.ndarray:
    """[V] volume of a ball that each particle carries: a quarter of each tetrahedron at its corners [m3]."""
    mesh = ball_mesh(radius)
    corners = mesh.vertices[mesh.indices]
    cell_volumes = np.abs(np.linalg.det(corners[:, 1:] - corners[:, :1])) / 6
    total = np.zeros(len(mesh.vertices))
    np.add.at(total, mesh.indices, cell_volumes[:, None] / 4)
    return total


def velocities(values: Mapping[str, Any]) -> np.ndarray:
    """[V, 3] velocities of the free particles of a cloth at the start [m/s], of its unknowns."""
    gradient = np.asarray(values.get("body.velocity_gradient", np.zeros((3, 3))))
    velocity = np.asarray(values["body.velocity"])
    return (velocity + standing_cloth() @ gradient.T)[~_tied(cloth_mesh().vertices)]


def standing_cloth() -> np.ndarray:
    """[V, 3] particles of the cloth where it begins [m]."""
    x, y, _ = cloth_mesh().vertices.T
    return np.stack([x, np.zeros_like(x), y], axis=1)


def _drawn_velocity(kind: str, random: np.random.Generator) -> dict[str, Any]:
    mean = random.uniform((-0.6, 1.0, -0.6), (0.6, 2.0, 0.6))
    gradient = random.uniform(-2.0, 2.0, (3, 3))
    gradient[:, 1] = 0.0  # the cloth has no depth, along which the velocity could change
    if kind == "affine":
        return {"body.velocity": mean.tolist(), "body.velocity_gradient": gradient.tolist()}
    points = standing_cloth()
    wave = random.normal(0.0, 4.0, 3)
    waves = np.sin(points @ wave + random.uniform(0, 2 * math.pi))[:, None] * random.uniform(-0.3, 0.3, 3)
    return {"body.velocity": (mean + points @ gradient.T + waves).tolist()}


@cache
def ball_mesh(radius: float) -> SolidMesh:
    """A ball of 43 particles and 80 tetrahedra."""
    return sphere_tets(radius, 2)


@cache
def cloth_mesh() -> SheetMesh:
    """The cloth, flat."""
    return sheet_grid(CLOTH, CLOTH_CELLS)


@cache
def _box(length: float, thickness: float, cells: tuple[int, int, int]) -> SolidMesh:
    return box_hexes((length, thickness, thickness), cells)


def _tied(points: np.ndarray) -> np.ndarray:
    return (np.abs(points[:, 0]) > 0.499 * CLOTH[0]) & (points[:, 1] > 0.499 * CLOTH[1])


@checked
def deformable_scene(drawn: Drawn, *, size: Count) -> Scene:
    """The scene of a body with its true values; scales have bounds ``BEYOND`` their range.

    Args:
        drawn: the body.
        size: side of the pictures [pixels].
    """
    if drawn.kind in ("affine", "velocity"):
        return _cloth_scene(drawn, size)
    return _beam_scene(drawn, size) if drawn.kind == "beam" else _thrown_scene(drawn, size)


def starts_of(kind: str) -> list[dict[str, Any]]:
    """Starts of a kind's search, which know the drawn ranges alone: near their ends for scales, at rest for velocities."""
    if kind == "affine":
        return [{"body.velocity": np.zeros(3), "body.velocity_gradient": np.zeros((3, 3))}]
    spread = KINDS[kind].spread
    return [{name: low * OFF for name, (low, _) in spread.items()}, {name: high / OFF for name, (_, high) in spread.items()}]


def finer(kind: str, drawn: Drawn, estimate: Mapping[str, Any]) -> dict[str, Any]:
    """Start of a search for the numbers of each particle, of what its coarse kind found.

    Args:
        kind: of the search, "mass" or "velocity".
        drawn: the body, of which the mesh alone is used.
        estimate: values of the coarse kind's unknowns.
    """
    if kind == "mass":
        return {"body.mass": estimate["body.density"] * volumes(drawn.sides[0])}
    return {"body.velocity": estimate["body.velocity"] + standing_cloth() @ np.asarray(estimate["body.velocity_gradient"]).T}


def _scale(value: Any, low_high: tuple[float, float], times: Any = 1.0, *, unit: str = "Pa") -> Param:
    low, high = low_high
    return Param(value, low=low / BEYOND * times, high=high * BEYOND * times, scale="log10", unit=unit)


def _thrown_scene(drawn: Drawn, size: int) -> Scene:
    ball = drawn.kind != "bar"
    mesh = ball_mesh(drawn.sides[0]) if ball else _box(*drawn.sides, (5, 2, 2))
    x, y, z = mesh.vertices.T
    stripe = np.floor(np.arctan2(y, x) * 3 / np.pi + 1e-6) if ball else np.rint((x / drawn.sides[0] + 0.5) * 5)
    stiff = drawn.kind in ("ball", "bar")  # whether it is what is unknown
    constants = {
        name.rpartition(".")[2]: _scale(drawn.values[name], THROWN) if stiff else math.sqrt(math.prod(THROWN)) for name in LAME
    }
    mass: dict[str, Any] = {"density": drawn.density}
    if drawn.kind == "density":
        mass = {"density": _scale(drawn.values["body.density"], DENSITY, unit="kg/m3")}
    elif drawn.kind == "mass":
        mass = {"mass": _scale(np.asarray(drawn.values["body.mass"]), DENSITY, volumes(drawn.sides[0]), unit="kg")}
    wave = math.sqrt(3 * max(THROWN) * BEYOND / 100.0) if stiff else math.sqrt(3 * max(THROWN) / (min(DENSITY) / 2))
    scene = Scene(frame_dt=1 / 60, frames=30, substeps=substeps(mesh, wave), gamma=1e-2, name=drawn.kind)
    scene.add_ground(
        contact=Contact(stiffness=300.0, damping=0.1, friction_stiffness=0.5, friction=0.5), color=(0.35, 0.36, 0.33)
    )
    scene.add_solid(
        "body", mesh=mesh, material=Elastic(**constants, convention="energy", damping=1.0), **mass,
        start=Start(
            position=(-0.25, 0.0, 0.28), velocity=drawn.velocity, angular_velocity=drawn.angular_velocity
        ),
        surface=Surface(vertex_colors=np.where((stripe % 2)[:, None] > 0, RED, WHITE), smooth=ball),
    )  # fmt: skip
    _look(scene, size, eye=(0.0, -1.3, 0.4), target=(0.0, 0.0, 0.17), angle=36.0)
    return scene


def _beam_scene(drawn: Drawn, size: int) -> Scene:
    length, thickness = drawn.sides
    mesh = _box(length, thickness, (6, 2, 2))
    stripe = np.rint((mesh.vertices[:, 0] / length + 0.5) * 6).astype(int)
    wave = math.sqrt(3 * max(HANGING) * BEYOND / 800.0)
    scene = Scene(frame_dt=1 / 60, frames=30, substeps=substeps(mesh, wave), gamma=1e-2, name="beam")
    scene.add_solid(
        "body", mesh=mesh, density=drawn.density,
        material=Elastic(
            mu=_scale(drawn.values["body.mu"], HANGING), lam=_scale(drawn.values["body.lam"], HANGING), convention="energy",
            damping=20.0,
        ),
        fixed=lambda x: x[:, 0] < -0.499 * length,
        surface=Surface(vertex_colors=np.where(stripe[:, None] % 2, BLUE, WHITE)),
    )  # fmt: skip
    _look(scene, size, eye=(0.1, -1.3, 0.05), target=(0.0, 0.0, -0.14), angle=30.0)
    return scene


def _cloth_scene(drawn: Drawn, size: int) -> Scene:
    scene = Scene(frame_dt=1 / 60, frames=24, substeps=40, style=PictureStyle(two_sided=True), name=drawn.kind)
    mesh = cloth_mesh()
    cell = np.rint((mesh.vertices[:, :2] / CLOTH + 0.5) * CLOTH_CELLS).astype(int)
    gradient: Any = 0.0
    if drawn.kind == "affine":
        gradient = Param(
            np.asarray(drawn.values["body.velocity_gradient"]), low=-STEEPEST, high=STEEPEST, unit="1/s"
        )  # fmt: skip
    velocity = Param(np.asarray(drawn.values["body.velocity"]), low=-FASTEST, high=FASTEST, unit="m/s")
    scene.add_cloth(
        "body", mesh=mesh,
        material=Shell(
            mu=40.0, lam=40.0 / 1.5, damping=0.05, bending=Bending(stiffness=2e-3, damping=2e-5), air=Air(drag=0.6, lift=0.2)
        ),
        density=0.2, start=Start(orientation=UPRIGHT, velocity=velocity, velocity_gradient=gradient), fixed=_tied,
        surface=Surface(vertex_colors=np.where((cell.sum(axis=1) % 2)[:, None] > 0, RED, WHITE), smooth=True),
    )  # fmt: skip
    _look(scene, size, eye=(0.9, -1.5, 0.5), target=(0.04, 0.0, -0.02), angle=32.0)
    return scene


def _look(scene: Scene, size: int, *, eye: tuple[float, ...], target: tuple[float, ...], angle: float) -> None:
    scene.add_camera(
        Camera.look_at(eye=eye, target=target, vertical_fov=angle, width=size, height=size, near=0.4, far=4.0)
    )  # fmt: skip
    scene.add_light(DirectionalLight(direction=(-0.4, 0.8, -0.9), intensity=0.8))
    scene.add_light(AmbientLight(intensity=0.3))
    scene.set_background((0.62, 0.68, 0.75))


def substeps(mesh: SolidMesh, speed: float, *, frame_dt: float = 1 / 60) -> int:
    """Physics steps of a frame that no wave needs to cross an element.

    Args:
        mesh: of the body; of tetrahedra the shortest height counts, of others the shortest edge.
        speed: of the fastest waves, sqrt((lambda + 2 mu) / density) [m/s].
        frame_dt: s.
    """
    corners = mesh.vertices[mesh.indices]
    if corners.shape[1] == 4:
        faces = [corners[:, [b, c, d]] for b, c, d in ((1, 2, 3), (0, 2, 3), (0, 1, 3), (0, 1, 2))]
        areas = [np.linalg.norm(np.cross(f[:, 1] - f[:, 0], f[:, 2] - f[:, 0]), axis=1) / 2 for f in faces]
        volume = np.abs(np.linalg.det(corners[:, 1:] - corners[:, :1])) / 6
        height = float((3 * volume / np.max(areas, axis=0)).min())
    else:
        apart = np.linalg.norm(corners[:, :, None] - corners[:, None], axis=-1)
        height = float(apart[apart > 0].min())
    return max(16, math.ceil(frame_dt * speed / (_SAFETY * height)))
