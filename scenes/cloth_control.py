"""A cloth that is thrown once: with which velocity does it land in the shape of a picture?

A square cloth flies through the air for 1.5 s, falls, and is bent by the air (after gradSim, ICLR 2021, section 4.2). All that can be chosen is
its velocity at the start, three numbers; the goal is one picture of the moment at which the film ends. No two velocities give the
same shape.
"""

import numpy as np

from risp_torch import Air, AmbientLight, Bending, Camera, DirectionalLight, Membrane, Param, Scene, Surface
from ti_sim.meshes import SheetMesh, sheet_grid

SIZE = (2.0, 2.0)  # m
START = (-1.8, 0.0, 1.8)  # m
TILT = (0.5, 0.1, 0.1)  # rotation vector at the start [rad]
RED, YELLOW, BLUE, WHITE = (0.7, 0.12, 0.1), (0.9, 0.75, 0.3), (0.1, 0.3, 0.6), (0.85, 0.85, 0.85)


def make_scene(
    velocity: tuple[float, float, float] = (1.0, 0.0, 2.0), cells: tuple[int, int] = (16, 16), size: int = 128
) -> Scene:
    """The cloth."""
    scene = Scene(frame_dt=1 / 30, frames=45, substeps=32, two_sided=True, gamma=1e-2, name="cloth_control")
    mesh = sheet_grid(SIZE, cells)
    unit = mesh.vertices[:, :2] / SIZE + 0.5
    left = (1 - unit[:, 1:]) * RED + unit[:, 1:] * np.array(YELLOW)
    right = (1 - unit[:, 1:]) * BLUE + unit[:, 1:] * np.array(WHITE)
    scene.add_cloth(
        "cloth",
        mesh=mesh,
        material=Membrane(mu=60.0, lam=30.0, damping=0.01),
        bending=Bending(rigidity=5e-2, damping=1e-5),
        air=Air(drag=1.0, lift=0.3),
        mass=_masses(mesh, density=1.0, hem=0.15),
        position=START,
        rotation=TILT,
        angular_velocity=(0.0, 1.0, 0.0),
        velocity=Param(velocity, low=-10.0, high=10.0, unit="m/s"),
        surface=Surface(vertex_colors=(1 - unit[:, :1]) * left + unit[:, :1] * right, smooth=True),
    )
    scene.add_camera(
        Camera.look_at(
            eye=(0.2, -11.5, 4.5), target=(0.2, 0.0, -0.5), vertical_fov=33.0, width=size, height=size, near=4.0, far=30.0
        )
    )
    scene.add_light(DirectionalLight(direction=(-0.4, 1.0, -0.9), intensity=0.8))
    scene.add_light(AmbientLight(intensity=0.3))
    scene.set_background((0.62, 0.68, 0.75))
    return scene


def _masses(mesh: SheetMesh, *, density: float, hem: float) -> np.ndarray:
    """[V] kg, of the cloth [kg/m2] and of a cord along its rim [kg/m]."""
    corners = mesh.vertices[mesh.triangles]
    areas = 0.5 * np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1)
    masses = np.zeros(len(mesh.vertices))
    np.add.at(masses, mesh.triangles, density * areas[:, None] / 3)
    edges = np.concatenate([mesh.triangles[:, [0, 1]], mesh.triangles[:, [1, 2]], mesh.triangles[:, [2, 0]]])
    edges, uses = np.unique(np.sort(edges, axis=1), axis=0, return_counts=True)
    rim = edges[uses == 1]
    lengths = np.linalg.norm(mesh.vertices[rim[:, 1]] - mesh.vertices[rim[:, 0]], axis=1)
    np.add.at(masses, rim, 0.5 * hem * lengths[:, None])
    return masses
