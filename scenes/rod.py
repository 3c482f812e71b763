"""RISP's rod: how stiff is it?

A rod of 1.0 x 0.2 x 0.2 m and 40 kg, fixed at both ends, sinks under its weight while a vertical force at its middle pushes it up
and down (RISP, ICLR 2022, section 4.1). Size, mesh and force are not published; here, weight and force are of the same size, and
at a Young's modulus of 1e5 Pa the middle moves by about 20 cm. The state is that of ten sensors on the spine.
"""

import math

import numpy as np

from risp_torch import AmbientLight, Camera, DirectionalLight, Elastic, Param, Scene, SolverOptions, Surface
from risp_torch.risp import Domains, RispTask, SensorHead
from risp_torch.scene.rendering_parameters import default_psi
from ti_sim.meshes import box_hexes

SIZE = (1.0, 0.2, 0.2)  # m
FORCE_LIMIT = 500.0  # N
FRAME_DT = 0.02  # s
FRAMES = 40
BLUE, WHITE = (0.15, 0.35, 0.6), (0.85, 0.85, 0.8)


def make_scene(
    E: float = 1e5, cells: tuple[int, int, int] = (20, 4, 4), substeps: int = 80, frames: int = FRAMES, size: int = 128,
    integrator: str = "semi_implicit",
) -> Scene:  # fmt: skip
    """The rod.

    Args:
        E: Young's modulus [Pa]; log10 E is unknown within [4, 7), or up to twice a stiffer one.
        cells: hexahedra along the sides.
        substeps: of a frame, for explicit steps the maximum; the default is sufficient up to 1e7 Pa, softer rods take fewer.
        frames: frame intervals of 0.02 s.
        size: of the square picture [pixels].
        integrator: of the scene; implicit integrators need one or two steps in a frame.
    """
    adaptive = integrator == "semi_implicit"
    scene = Scene(
        frame_dt=FRAME_DT, frames=frames, substeps=substeps, integrator=integrator, solver=SolverOptions(adaptive=adaptive),
        gamma=1e-2, name="rod",
    )  # fmt: skip
    mesh = box_hexes(SIZE, cells)
    node_column = np.rint((mesh.vertices[:, 0] / SIZE[0] + 0.5) * cells[0]).astype(int)
    scene.add_solid(
        "rod",
        mesh=mesh,
        material=Elastic(E=Param(E, low=1e4, high=max(1e7, 2 * E), scale="log10"), nu=0.4, energy="corotated", damping=50.0),
        density=1000.0,
        fixed=lambda x: np.abs(x[:, 0]) > 0.499 * SIZE[0],
        surface=Surface(vertex_colors=np.where(node_column[:, None] % 2, BLUE, WHITE)),
    )
    time = np.arange(frames)
    scene.add_load(
        "press",
        body="rod",
        where=lambda x: np.abs(x[:, 0]) < 0.01 * SIZE[0],
        force=Param(FORCE_LIMIT * np.sin(2 * math.pi * time / FRAMES), low=-FORCE_LIMIT, high=FORCE_LIMIT, frozen=True),
        direction=(0.0, 0.0, 1.0),
        limit=FORCE_LIMIT,
    )
    scene.add_camera(
        Camera.look_at(
            eye=(0.3, -2.2, 0.25), target=(0.0, 0.0, -0.15), vertical_fov=36.0, width=size, height=size, near=1.0, far=4.0
        )
    )
    scene.add_light(DirectionalLight(direction=(-0.4, 1.0, -0.8), intensity=0.8))
    scene.add_light(AmbientLight(intensity=0.3))
    scene.set_background((0.7, 0.72, 0.75))
    return scene


def make_task(scene: Scene) -> RispTask:
    """RISP reads the heights of the ten sensors, for all lights, tints and backgrounds.

    Training motions have a Young's modulus from 2e4 Pa (softer rods sag out of the picture) to 1e6 Pa (stiffer ones all look
    straight).
    """
    head = SensorHead(
        "rod", particles=sensors(scene), axis=2, low=-0.5, high=0.2,
        draws={"rod.E": (2e4, 1e6), "press.force": (-1.0, 1.0)}, worlds=64,
    )  # fmt: skip
    return RispTask(head, Domains.default(scene, default_psi(scene)), gamma=30.0)


def sensors(scene: Scene, count: int = 10) -> tuple[int, ...]:
    """Indices of the particles closest to ``count`` equidistant points on the spine, the first half a spacing from the end."""
    vertices = scene.deformables[0].vertices
    positions = SIZE[0] * ((np.arange(count) + 0.5) / count - 0.5)
    spine = np.stack([positions, np.zeros(count), np.zeros(count)], axis=1)
    return tuple(int(k) for k in np.linalg.norm(vertices[None] - spine[:, None], axis=2).argmin(axis=1))
