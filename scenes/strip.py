"""A strip of plastic, clamped at one end: how stiff and how heavy is it?

The strip is 0.3 x 0.1 m and 2 mm thick, with a Young's modulus of 1e9 Pa. The longest stable explicit step is below a
microsecond, so its steps are implicit, two for each picture of a film with 30 per second. The strip sags under its weight, and a
known force at its free end pushes it up and is released: the deflection determines the stiffness, the subsequent
oscillation the mass. Its tetrahedra have ten nodes, as one layer of linear ones would lock.
"""

import numpy as np

from risp_torch import AmbientLight, Camera, DirectionalLight, Elastic, Param, Scene, Surface
from ti_sim.meshes import box_tet10s, box_tets

SIZE = (0.3, 0.1, 0.002)  # m
FRAME_DT = 1 / 30  # s
RISE_TIME = 0.25  # s
BANDS = 4  # of alternating colours along the strip, wider than its motion in a frame
BLUE, WHITE = (0.15, 0.35, 0.6), (0.85, 0.85, 0.8)


def make_scene(
    E: float = 1e9, density: float = 1200.0, cells: tuple[int, int, int] = (12, 4, 1), linear: bool = False, substeps: int = 2,
    push: float = 1.0, release: float = 0.25, frames: int = 60, size: int = 96, integrator: str = "sdirk2",
) -> Scene:  # fmt: skip
    """The strip.

    Args:
        E: Young's modulus [Pa].
        density: kg/m3.
        cells: blocks of five tetrahedra along the sides.
        linear: whether the tetrahedra have four nodes, which lock: one layer of them is several times too stiff in bending.
        substeps: of a frame.
        push: maximum force, at 0.25 s [N].
        release: time in which the force returns to zero; shorter times excite larger oscillations [s].
        frames: frame intervals of 1/30 s.
        size: of the square picture [pixels].
        integrator: of the scene.
    """
    scene = Scene(frame_dt=FRAME_DT, frames=frames, substeps=substeps, integrator=integrator, gamma=1e-2, name="strip")
    mesh = (box_tets if linear else box_tet10s)(SIZE, cells)
    band = np.rint((mesh.vertices[:, 0] / SIZE[0] + 0.5) * BANDS).astype(int)
    scene.add_solid(
        "strip",
        mesh=mesh,
        material=Elastic(E=Param(E, low=1e8, high=1e10, scale="log10"), nu=0.35, damping=1e6),
        density=Param(density, low=200.0, high=8000.0),
        fixed=lambda x: x[:, 0] < -0.499 * SIZE[0],
        surface=Surface(vertex_colors=np.where(band[:, None] % 2, BLUE, WHITE)),
    )
    scene.add_load(
        "push",
        body="strip",
        where=lambda x: x[:, 0] > 0.499 * SIZE[0],
        force=Param(push * force_over_time(np.arange(frames) * FRAME_DT, release), low=-2 * push, high=2 * push, frozen=True),
        direction=(0.0, 0.0, 1.0),
        limit=2 * push,
    )
    scene.add_camera(
        Camera.look_at(
            eye=(0.25, -0.5, 0.45), target=(0.0, 0.0, 0.0), vertical_fov=26.0, width=size, height=size, near=0.2, far=1.6
        )
    )
    scene.add_light(DirectionalLight(direction=(-0.4, 1.0, -0.8), intensity=0.8))
    scene.add_light(AmbientLight(intensity=0.3))
    scene.set_background((0.7, 0.72, 0.75))
    return scene


def force_over_time(time: np.ndarray, release: float) -> np.ndarray:
    """The force at times [...] [s] in units of its maximum: it rises and falls as a squared sine."""
    rising, falling = (
        np.sin(np.pi * time / (2 * RISE_TIME)) ** 2,
        np.cos(np.pi * (time - RISE_TIME) / (2 * max(release, 1e-9))) ** 2,
    )
    return np.select([time < RISE_TIME, time < RISE_TIME + release], [rising, falling], 0.0)
