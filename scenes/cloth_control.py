"""A cloth that is thrown into the shape of a picture.

A square cloth of 2 m with a cord in its rim flies through the air for 1.5 s, turns, falls and folds (after gradSim, ICLR 2021,
section 4.2). The control is its uniform initial velocity. The goal is one picture of the end of another throw.
"""

import numpy as np
import torch

from risp_torch import Air, AmbientLight, Bending, Camera, DirectionalLight, Param, PictureStyle, Scene, Shell, Start, Surface
from risp_torch.control import ControlTask, DirectPolicy, Goal
from ti_sim.meshes import SheetMesh, sheet_grid

SIDE = 2.0  # m
MIN_VELOCITY, MAX_VELOCITY = np.array([1.5, -0.5, 2.0]), np.array([3.5, 0.5, 4.0])  # m/s, range of random throws
RED, YELLOW, BLUE, WHITE = np.array([(0.7, 0.12, 0.1), (0.9, 0.75, 0.3), (0.1, 0.3, 0.6), (0.85, 0.85, 0.85)])


def make_scene(
    velocity: tuple[float, float, float] = (2.5, 0.0, 3.0), cells: tuple[int, int] = (16, 16), frames: int = 45, size: int = 128
) -> Scene:
    """The cloth.

    Args:
        velocity: of all its points at the start [m/s].
        cells: along its sides, of two triangles each; the step is stable up to (32, 32).
        frames: frame intervals of 1/30 s.
        size: of the square picture [pixels].
    """
    scene = Scene(
        frame_dt=1 / 30, frames=frames, substeps=32, style=PictureStyle(two_sided=True), gamma=1e-2, name="cloth_control",
    )  # fmt: skip
    mesh = sheet_grid((SIDE, SIDE), cells)
    scene.add_cloth(
        "cloth", mesh=mesh,
        material=Shell(
            mu=60.0, lam=30.0, damping=0.01, bending=Bending(rigidity=0.05, damping=1e-5), air=Air(drag=1.0, lift=0.3)
        ),
        mass=_masses(mesh, density=1.0, cord=0.15),
        start=Start(
            position=(-1.8, 0.0, 1.8), rotation=(0.5, 0.1, 0.1), angular_velocity=(0.0, 1.0, 0.0),
            velocity=Param(velocity, low=-20.0, high=20.0, unit="m/s"),
        ),
        surface=Surface(vertex_colors=_colors(mesh), smooth=True),
    )  # fmt: skip
    scene.add_camera(
        Camera.look_at(
            eye=(0.6, -6.5, -1.8), target=(0.6, 0.0, -1.2), vertical_fov=70.0, width=size, height=size, near=2.0, far=30.0
        )
    )
    scene.add_light(DirectionalLight(direction=(-0.4, 1.0, -0.9), intensity=0.8))
    scene.add_light(AmbientLight(intensity=0.3))
    scene.set_background((0.04, 0.06, 0.1))
    return scene


def make_control(scene: Scene) -> ControlTask:
    """The control is the velocity; goals and starts have the same distribution."""
    return ControlTask(
        controlled_parameter="cloth.velocity",
        policy=lambda scene, seed: DirectPolicy(_random_velocity(seed, 1)),
        goal=goal,
        size=SIDE,
        measure="vertices",
        blur=(2.0, 8.0, 32.0),
        learning_rate={"image": 0.5, "state": 0.5},
        iterations=80,
        checkpoint=1,
    )


def goal(scene: Scene, number: int) -> Goal:
    """The motion after a random throw with seed ``number``."""
    velocity = _random_velocity(number, 0)
    with torch.no_grad():
        states = scene.rollout({"cloth.velocity": torch.as_tensor(velocity)}, worlds=1)
    return Goal(states.particle_q[0], f"the end of a throw at ({', '.join(f'{v:.2f}' for v in velocity)}) m/s")


def _random_velocity(number: int, stream: int) -> np.ndarray:
    """[3] m/s; goals and starts of one number have different streams."""
    return np.random.default_rng((number, stream)).uniform(MIN_VELOCITY, MAX_VELOCITY)


def _masses(mesh: SheetMesh, *, density: float, cord: float) -> np.ndarray:
    """Masses [V] of the particles of a cloth [kg/m2] with a cord along its rim [kg/m], kg.

    Without the cord every triangle would move identically, and the cloth stay flat.
    """
    corners, masses = mesh.vertices[mesh.triangles], np.zeros(len(mesh.vertices))
    doubled_areas = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1)
    np.add.at(masses, mesh.triangles, density * doubled_areas[:, None] / 6)
    sides = np.sort(mesh.triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    edges, triangle_counts = np.unique(sides, axis=0, return_counts=True)
    rim_edges = edges[triangle_counts == 1]
    lengths = np.linalg.norm(mesh.vertices[rim_edges[:, 1]] - mesh.vertices[rim_edges[:, 0]], axis=1)
    np.add.at(masses, rim_edges, cord * lengths[:, None] / 2)
    return masses


def _colors(mesh: SheetMesh) -> np.ndarray:
    """Linear rgb [V, 3]: a colour at each corner, interpolated between them, so that all points differ in colour."""
    x, y = np.moveaxis(mesh.vertices[:, :2, None] / SIDE + 0.5, 1, 0)
    return (1 - x) * ((1 - y) * RED + y * YELLOW) + x * ((1 - y) * BLUE + y * WHITE)
