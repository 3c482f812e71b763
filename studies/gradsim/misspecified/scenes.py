"""Films of the study of wrong models: a rigid object, a soft one or a cloth is pushed in flight, falls and lands on the ground.

All three have the pose, velocity, push and contact of a drawn toss (``tosses``), so that a soft object can be modelled as the
rigid one of the same surface, and the other way round. The push shows the mass in flight; the air is known, and shows that of a
cloth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from risp_torch import Air, Bending, Contact, Elastic, Mesh, Param, PictureStyle, Scene, Shell, Start, Surface, UserError
from scenes.toss import EIGHT_COLORS, octant_colors
from studies.gradsim.tosses import BEYOND, CONTACT, MASS, MESHES, OBJECTS, RANGES, Toss, add_view, draw_toss, shaped, toss_scene
from ti_sim import FromZero, checked, contact_points
from ti_sim.meshes import SheetMesh, SolidMesh, read_solid_mesh, sheet_grid

KINDS = ("rigid", "soft", "cloth")
FRICTION, DAMPING, STIFFNESS = "ground.contact.friction", "ground.contact.damping", "body.E"
FRAMES = 45
YOUNG = (2e3, 2e4)  # Pa, of soft objects: a landing squeezes them by some percent to some ten percent
POISSON, VISCOSITY = 0.3, 5.0  # of soft objects: 1, Pa s
# Of the contact of soft objects, N/m and N s/m: with less they sink into the ground and are not seen any more.
FIRM = {"ground.contact.stiffness": (250.0, 500.0), DAMPING: (20.0, 200.0)}
THICKNESS = 0.1  # m: a cloth has this times the density of a toss for each square metre
MEMBRANE, FOLD = 60.0, 0.05  # of cloths: mu and lambda [N/m], bending stiffness [N m]
AIR = Air(drag=0.3, lift=0.1)
CELLS = 6  # of a cloth, along each side
LIGHTEST = 0.5  # times the lowest density that is drawn: steps are stable down to it
_SAFETY = 0.6  # of the longest stable step
_FEWEST = 16  # physics steps of a frame


@dataclass(frozen=True, kw_only=True)
class Thrown:
    """A thrown object.

    Attributes:
        kind: "rigid", "soft" or "cloth".
        toss: its shape, start, push and numbers.
        young: Young's modulus of a soft object [Pa].
    """

    kind: str
    toss: Toss
    young: float

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Model:
    """Assumptions about a film.

    Attributes:
        kind: of the object.
        known: names of numbers of the contact and of the stiffness -> value that is taken for known, in place of the truth.
        unknown: names of numbers that are estimated with the density, none of which has its true value.
    """

    kind: str
    known: Mapping[str, float] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()


@checked
def draw_thrown(kind: str, index: FromZero, *, seed: FromZero) -> Thrown:
    """Thrown object number ``index`` of a kind and a seed: a box of drawn sides, or a cloth.

    Of the fourteen objects only the box has tetrahedra whose stable steps are no shorter than those of its contact: slivers of
    the others need 16 to 4,000 times as many.

    Raises:
        UserError: another kind.
    """
    if kind not in KINDS:
        raise UserError(f"the kind {kind!r} is unknown: choose {', '.join(KINDS)}")
    toss = draw_toss(len(OBJECTS) * index, seed=seed + 1000 * KINDS.index(kind))
    random = np.random.default_rng([seed, index, KINDS.index(kind)])
    young = 10 ** random.uniform(*np.log10(YOUNG))
    if kind == "soft":
        toss = toss.with_values({name: random.uniform(*bounds) for name, bounds in FIRM.items()})
    if kind == "cloth":
        area = float(np.prod(toss.sides[:2]))
        impulse = np.array(toss.impulse) * THICKNESS * area / toss.volume  # the change of velocity stays
        toss = replace(toss, impulse=tuple(impulse.tolist()), point=(0.0, 0.0, 0.0))
    return Thrown(kind=kind, toss=toss, young=float(young))


def scene_of(thrown: Thrown, model: Model, *, size: int, frames: int = FRAMES) -> Scene:
    """The scene of an object as a model has it; the density and unknown numbers have bounds ``BEYOND`` their range.

    Args:
        thrown: the object, with its true numbers.
        model: what is taken for known.
        size: side of the pictures [pixels].
        frames: frame intervals.

    Raises:
        UserError: a cloth is no solid, and a solid no cloth.
    """
    if (thrown.kind == "cloth") != (model.kind == "cloth"):
        raise UserError(f"an object of the kind {thrown.kind} cannot be modelled as {model.kind}: solids are rigid or soft")
    numbers = dict(model.known)
    young = numbers.pop(STIFFNESS, thrown.young)
    toss = thrown.toss.with_values(numbers)
    if model.kind == "rigid":
        return toss_scene(toss, size=size, frames=frames)
    scene = _soft_scene(toss, young, frames) if model.kind == "soft" else _cloth_scene(toss, frames)
    add_view(scene, RANGES[toss.units], size=size)
    return scene


def bounded(value: float, ranges: tuple[float, float], factor: float = 1.0) -> Param | float:
    """A number whose bounds lie ``BEYOND`` its range, a plain number if it is zero; ``factor`` converts the range's unit."""
    if value == 0:
        return 0.0
    return Param(value * factor, low=factor * ranges[0] / BEYOND, high=factor * ranges[1] * BEYOND, scale="log10")


def middle(name: str) -> float:
    """The geometric middle of the range that a number is drawn from."""
    low, high = YOUNG if name == STIFFNESS else RANGES["paper"].of(name)
    return math.sqrt(low * high)


@cache
def solid_mesh(shape: str, sides: tuple[float, ...]) -> SolidMesh:
    """Tetrahedra of an object of ``scenes/assets/objects``, stretched along its axes."""
    unit = read_solid_mesh(MESHES / f"{shape}.tet")
    return SolidMesh(unit.vertices * np.array(sides), unit.indices)


def cloth_mesh(toss: Toss) -> SheetMesh:
    """A rectangle with the first two sides of a toss."""
    return sheet_grid((toss.sides[0], toss.sides[1]), (CELLS, CELLS))


def push_shares(vertices: np.ndarray, masses: np.ndarray, point: np.ndarray) -> np.ndarray:
    """Shares [V] of a force on each vertex that act, as long as they move rigidly or affinely, like the force at a point.

    The shares sum up to 1 and are linear in place, so that the sum of share times vertex is the point: force and torque are those
    at the point in every orientation.

    Args:
        vertices: [V, 3] m.
        masses: [V] kg, the weights by which the shares are spread.
        point: [3] m, in the axes of the vertices.
    """
    weights = masses / masses.sum()
    middle_ = weights @ vertices
    arms = vertices - middle_
    spread = (weights[:, None] * arms).T @ arms
    return weights * (1 + arms @ np.linalg.pinv(spread, hermitian=True) @ (point - middle_))


def _soft_scene(toss: Toss, young: float, frames: int) -> Scene:
    ranges, mesh, surface = RANGES[toss.units], solid_mesh(toss.shape, toss.sides), shaped(toss.shape, toss.sides)
    # The contact of all points together is that of the rigid object's points together.
    share = len(contact_points(surface)) / len(np.unique(mesh.faces))
    slopes = _shape_slopes(mesh)
    volumes = np.linalg.det(np.diff(mesh.vertices[mesh.indices], axis=1)) / 6
    lumped = np.bincount(mesh.indices.ravel(), np.repeat(volumes / 4, 4), minlength=len(mesh.vertices))
    lightest = LIGHTEST * ranges.density[0]
    lame = YOUNG[1] * (1 - POISSON) / ((1 + POISSON) * (1 - 2 * POISSON))
    least = float(lumped[np.unique(mesh.faces)].min()) * lightest
    scene = Scene(
        frame_dt=ranges.frame_dt, frames=frames, gamma=1e-2, name=f"soft_{toss.shape}",
        substeps=stable_substeps(
            ranges.frame_dt, stiffness=4 * lame / lightest * slopes.max() + share * ranges.stiffness[1] / least,
            damping=4 * VISCOSITY / lightest * slopes.max() + share * ranges.damping[1] / least,
        ),
    )  # fmt: skip
    scene.add_ground(contact=_contact(toss, share), color=(0.35, 0.33, 0.3))
    scene.add_solid(
        "body", mesh=mesh, material=Elastic(E=bounded(young, YOUNG), nu=POISSON, damping=VISCOSITY),
        density=bounded(toss.values[MASS], ranges.density), start=_start(toss),
        surface=Surface(face_colors=octant_colors(Mesh(vertices=mesh.vertices, faces=mesh.faces))),
    )  # fmt: skip
    _push(scene, toss, push_shares(mesh.vertices, lumped, np.array(toss.point)))
    return scene


def _cloth_scene(toss: Toss, frames: int) -> Scene:
    ranges, mesh = RANGES[toss.units], cloth_mesh(toss)
    corners = mesh.vertices[mesh.triangles]
    areas = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1) / 2
    lumped = np.bincount(mesh.triangles.ravel(), np.repeat(areas / 3, 3), minlength=len(mesh.vertices))
    # The contact of all points together is that of a box's eight corners, for as many times less mass.
    share = 8 * THICKNESS / len(mesh.vertices)
    lightest = LIGHTEST * ranges.density[0] * THICKNESS
    least, shortest = float(lumped.min()) * lightest, min(toss.sides[:2]) / CELLS
    slopes = (corners[:, [1, 2, 0]] - corners[:, [2, 0, 1]]) / (2 * areas[:, None, None])
    squared = float((slopes**2).sum(axis=(1, 2)).max())
    scene = Scene(
        frame_dt=ranges.frame_dt, frames=frames, gamma=1e-2, style=PictureStyle(two_sided=True), name="thrown_cloth",
        substeps=stable_substeps(
            ranges.frame_dt,
            stiffness=9 * MEMBRANE / lightest * squared + (share * ranges.stiffness[1] + 16 * FOLD / shortest**2) / least,
            damping=share * ranges.damping[1] / least + 9 * 0.05 / lightest * squared,
        ),
    )  # fmt: skip
    scene.add_ground(contact=_contact(toss, share), color=(0.35, 0.33, 0.3))
    cell = np.rint((mesh.vertices[:, :2] / np.array(toss.sides[:2]) + 0.5) * CELLS).astype(int)
    scene.add_cloth(
        "body", mesh=mesh, material=Shell(mu=MEMBRANE, lam=MEMBRANE, damping=0.05, bending=Bending(stiffness=FOLD), air=AIR),
        density=bounded(toss.values[MASS], ranges.density, THICKNESS), start=_start(toss),
        surface=Surface(vertex_colors=EIGHT_COLORS[(3 * (cell[:, 0] // 2) + cell[:, 1] // 2) % len(EIGHT_COLORS)]),
    )  # fmt: skip
    _push(scene, toss, push_shares(mesh.vertices, lumped, np.array(toss.point)))
    return scene


def stable_substeps(frame_dt: float, *, stiffness: float, damping: float) -> int:
    """Physics steps of a frame: a semi-implicit step stays bounded while stiffness dt^2 + 2 damping dt <= 4.

    Args:
        frame_dt: s.
        stiffness: largest eigenvalue of stiffness over mass, or more [1/s2].
        damping: largest eigenvalue of damping over mass, or more [1/s].
    """
    longest = 4 / (damping + math.sqrt(damping**2 + 4 * stiffness))
    return max(_FEWEST, math.ceil(frame_dt / (_SAFETY * longest)))


def _shape_slopes(mesh: SolidMesh) -> np.ndarray:
    """Sum over the corners of each tetrahedron of the squared gradient of its shape function [E], 1/m2.

    Lumped mass and the trace of an element's stiffness bound the largest eigenvalue of all (Fried, 1972) by
    4 (lambda + 2 mu) / rho times this.
    """
    edges = np.swapaxes(mesh.vertices[mesh.indices][:, 1:] - mesh.vertices[mesh.indices][:, :1], 1, 2)
    rows = np.linalg.inv(edges)
    return (rows**2).sum(axis=(1, 2)) + (rows.sum(axis=1) ** 2).sum(axis=1)


def _contact(toss: Toss, share: float) -> Contact:
    """The contact of a toss; all but its friction is shared among points."""
    ranges, values = RANGES[toss.units], {}
    for name in CONTACT:
        factor = 1.0 if name == FRICTION else share
        values[name.rpartition(".")[2]] = bounded(toss.values[name], ranges.of(name), factor)
    return Contact(**values)


def _start(toss: Toss) -> Start:
    return Start(
        position=toss.position, orientation=toss.orientation, velocity=toss.velocity, angular_velocity=toss.angular_velocity
    )


def _push(scene: Scene, toss: Toss, shares: np.ndarray) -> None:
    """The push of ``toss_scene``, from the third to the sixth frame, spread over all particles."""
    forces = np.zeros((scene.frames, len(shares), 3))
    forces[3:6] = shares[:, None] * np.array(toss.impulse) / (3 * scene.frame_dt)
    scene.add_load("push", body="body", where=np.arange(len(shares)), force=forces)
