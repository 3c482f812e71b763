"""The films of the loss landscapes: gradSim's cube in flight and one that lands, a beam that hangs, a ball that falls.

Sizes, masses and elastic constants are gradSim's: a cube whose corners are 1 m from its middle and whose eight vertices weigh 1
kg each, pulled by 10 N at two of them; Lame's constants mu = lambda = 1000 as they stand in the formula of the energy.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from risp_torch import AmbientLight, Box, Camera, Contact, DirectionalLight, Elastic, Param, Scene, Start, Surface, film
from studies.gradsim.tosses import draw_toss, toss_scene
from ti_sim.meshes import box_tets, sphere_tets

SIDE = 2 / math.sqrt(3)  # of the cube [m]
MASS = 8.0  # kg
DENSITY = "body.density"
LAME = ("body.mu", "body.lam")
TRUE_LAME = 1000.0  # Pa
FORCE = 10.0  # N, at each of two corners
FLIGHT_FRAMES, LANDING_FRAMES = 40, 60
BLUE, WHITE, RED = (0.1, 0.3, 0.6), (0.9, 0.9, 0.85), (0.75, 0.15, 0.1)
SIX = ((0.85, 0.12, 0.1), (0.1, 0.45, 0.75), (0.95, 0.75, 0.1), (0.12, 0.5, 0.2), (0.9, 0.9, 0.85), (0.5, 0.15, 0.6))
SOFT_FRAMES = 30
BEAM, BEAM_CELLS = (1.6, 0.4, 0.4), (8, 2, 2)  # m
RADIUS = 1.0  # of the ball [m]
SOFT_DENSITY = 10.0  # kg/m3


def rigid_scene(kind: str, *, size: int) -> Scene:
    """A scene whose mass is looked at, with the name ``DENSITY``.

    Args:
        kind: "flight": no gravity and nothing to fall on, as in the paper, 40 frames at 30 Hz; "landing": a cube of the same
            mass is pushed, falls under gravity, lands and slides, 60 frames; "toss N S": toss N of seed S (``tosses``).
        size: side of the pictures [pixels].
    """
    if kind.startswith("toss"):
        index, seed = (int(word) for word in kind.split()[1:])
        return toss_scene(draw_toss(index, seed=seed), size=size)
    return _flight(size) if kind == "flight" else _landing(size)


def _flight(size: int) -> Scene:
    scene = Scene(
        frame_dt=1 / 30, frames=FLIGHT_FRAMES, substeps=16, gravity=(0.0, 0.0, 0.0), gamma=1e-2, name="flight"
    )
    _add_cube(scene, Start())
    for number, corner in enumerate(((-1, -1), (1, -1))):
        scene.add_force(
            f"pull{number}", body="body", force=(0.0, 0.0, -FORCE), point=(*(SIDE / 2 * np.array(corner)), -SIDE / 2), start=0.0,
            duration=FLIGHT_FRAMES / 30,
        )  # fmt: skip
    _film(scene, eye=(0.0, -8 * math.cos(math.pi / 6), 8 * math.sin(math.pi / 6)), target=(0.0, 0.0, 0.0), fov=60.0, size=size)
    return scene


def _landing(size: int) -> Scene:
    scene = Scene(frame_dt=1 / 30, frames=LANDING_FRAMES, substeps=64, gamma=1e-2, name="landing")
    scene.add_ground(
        contact=Contact(stiffness=500.0, damping=20.0, friction_stiffness=100.0, friction=0.4), color=(0.35, 0.33, 0.3)
    )
    _add_cube(scene, Start(position=(-1.5, 0.0, 2.5), orientation=(0.2, 0.1, 0.3, 0.927), velocity=(0.5, 0.0, 0.0)))
    scene.add_force(
        "push", body="body", impulse=(1.5 * MASS, 0.0, 0.0), point=(0.0, -0.2, 0.15), start=0.1, duration=0.1
    )
    _film(scene, eye=(0.0, -9.0, 3.5), target=(0.5, 0.0, 0.8), fov=45.0, size=size)
    return scene


def _add_cube(scene: Scene, start: Start) -> None:
    density = MASS / SIDE**3
    scene.add_rigid(
        "body", shape=Box(SIDE, SIDE, SIDE), density=Param(density, low=density / 20, high=20 * density, scale="log10"),
        start=start, surface=Surface(face_colors=SIX),
    )  # fmt: skip


def soft_scene(kind: str, *, size: int) -> Scene:
    """A scene whose elastic constants are looked at, with the names ``LAME``.

    Args:
        kind: "beam": held at one end, it is let go straight and swings down; "ball": it is thrown at the ground, flattens and
            bounces.
        size: side of the pictures [pixels].
    """
    scene = Scene(frame_dt=1 / 30, frames=SOFT_FRAMES, substeps=64, gamma=1e-2, name=kind)
    material = Elastic(
        mu=Param(TRUE_LAME, low=TRUE_LAME / 10, high=10 * TRUE_LAME, scale="log10"),
        lam=Param(TRUE_LAME, low=TRUE_LAME / 10, high=10 * TRUE_LAME, scale="log10"), convention="energy", damping=1.0,
    )  # fmt: skip
    if kind == "beam":
        mesh = box_tets(BEAM, BEAM_CELLS)
        stripe = np.rint((mesh.vertices[:, 0] / BEAM[0] + 0.5) * BEAM_CELLS[0]).astype(int) % 2
        scene.add_solid(
            "body", mesh=mesh, material=material, density=SOFT_DENSITY, fixed=lambda x: x[:, 0] < -0.499 * BEAM[0],
            surface=Surface(vertex_colors=np.where(stripe[:, None] == 1, BLUE, WHITE)),
        )  # fmt: skip
        _film(scene, eye=(0.4, -4.8, 0.5), target=(0.0, 0.0, -0.5), fov=36.0, size=size)
        return scene
    mesh = sphere_tets(RADIUS)
    sector = np.floor(np.arctan2(mesh.vertices[:, 1], mesh.vertices[:, 0]) * 3 / np.pi + 1e-6).astype(int)
    scene.add_ground(
        contact=Contact(stiffness=300.0, damping=1.0, friction_stiffness=10.0, friction=0.5), color=(0.35, 0.36, 0.33)
    )
    scene.add_solid(
        "body", mesh=mesh, material=material, density=SOFT_DENSITY,
        start=Start(position=(-1.5, 0.0, 2.0), velocity=(2.0, 0.0, -1.0)),
        surface=Surface(vertex_colors=np.where(sector[:, None] % 2, RED, WHITE), smooth=True),
    )  # fmt: skip
    _film(scene, eye=(0.0, -9.0, 3.5), target=(0.0, 0.0, 1.0), fov=40.0, size=size)
    return scene


def _film(scene: Scene, *, eye: tuple, target: tuple, fov: float, size: int) -> None:
    far = math.dist(eye, target)
    camera = Camera.look_at(eye=eye, target=target, vertical_fov=fov, width=size, height=size, near=far / 10, far=4 * far)
    scene.add_camera(camera)
    scene.add_light(DirectionalLight(direction=(-0.4, 0.6, -1.0), intensity=0.75))
    scene.add_light(AmbientLight(intensity=0.25))


def frame_losses(scene: Scene, values: dict[str, np.ndarray], *, worlds: int = 8) -> np.ndarray:
    """Mean squared error of the pixels of every frame against the scene's own film.

    Args:
        scene: with the true numbers.
        values: name -> [N] other values.
        worlds: films that are made together.

    Returns:
        [N, T]; infinite where a film diverged.
    """
    with torch.no_grad():
        true, _ = film(scene, {}, worlds=1, frames=scene.frames)
        rows = []
        count = len(next(iter(values.values())))
        for first in range(0, count, worlds):
            batch = {
                name: torch.as_tensor(row[first : first + worlds], dtype=true.dtype, device=true.device)
                for name, row in values.items()
            }
            pictures, _ = film(scene, batch, worlds=min(worlds, count - first), frames=scene.frames)
            rows.append(((pictures - true) ** 2).mean(dim=(2, 3, 4)))
    losses = torch.cat(rows).cpu().numpy().astype(np.float64)
    return np.where(np.isnan(losses), np.inf, losses)
