"""A cloth that is thrown over itself: how large is its friction?

A square cloth of 40 cm lies on a table. Its left half is thrown up, folds over onto the right half and stays there. Cloth on
cloth and cloth on table are both contact of surfaces (``add_self_contact``); the table is a fixed sheet.
"""

import numpy as np

from risp_torch import (
    Air,
    AmbientLight,
    Bending,
    Camera,
    Contact,
    DirectionalLight,
    Param,
    PictureStyle,
    Scene,
    Shell,
    Start,
    Surface,
)
from ti_sim.meshes import sheet_grid

SIDE, CELLS = 0.4, 16  # m, 1
TABLE_SIZE = (0.7, 0.6)  # m
THICKNESS = 0.012  # m
RED, YELLOW, GREY = (0.7, 0.12, 0.1), (0.9, 0.75, 0.3), (0.35, 0.38, 0.42)


def make_scene(friction: float = 0.4, rate: float = 17.0, size: int = 128) -> Scene:
    """The cloth and the table.

    Args:
        friction: of the cloth on itself and on the table.
        rate: initial angular velocity of the half [rad/s].
        size: of the square picture [pixels].
    """
    scene = Scene(frame_dt=1 / 60, frames=300, substeps=100, style=PictureStyle(two_sided=True), name="fold")
    mesh = sheet_grid((SIDE, SIDE), (CELLS, CELLS))
    cell_index = np.rint((mesh.vertices[:, :2] / SIDE + 0.5) * CELLS).astype(int)
    scene.add_cloth(
        "cloth", mesh=mesh,
        material=Shell(
            mu=100.0, lam=60.0, damping=0.05, bending=Bending(stiffness=2e-4, damping=2e-6), air=Air(drag=0.6, lift=0.1)
        ),
        density=0.2,
        start=Start(position=(0.0, 0.0, THICKNESS), velocity=np.outer(np.maximum(-mesh.vertices[:, 0], 0.0), (0.0, 0.0, rate))),
        surface=Surface(vertex_colors=np.where((cell_index.sum(axis=1) // 2 % 2)[:, None] > 0, RED, YELLOW), smooth=True),
    )  # fmt: skip
    scene.add_cloth(
        "table",
        mesh=sheet_grid(TABLE_SIZE, (1, 1)),
        material=Shell(mu=100.0, lam=60.0),
        density=1.0,
        fixed=lambda x: np.ones(len(x), dtype=bool),
        surface=Surface(color=GREY),
    )
    scene.add_self_contact(
        contact=Contact(stiffness=100.0, damping=0.02, friction_stiffness=0.02, friction=Param(friction, low=0.0, high=1.0)),
        thickness=THICKNESS,
    )
    scene.add_camera(
        Camera.look_at(
            eye=(0.3, -0.9, 0.5), target=(0.0, 0.0, 0.05), vertical_fov=36.0, width=size, height=size, near=0.3, far=3.0
        )
    )
    scene.add_light(DirectionalLight(direction=(-0.4, 0.7, -1.0), intensity=0.8))
    scene.add_light(AmbientLight(intensity=0.3))
    scene.set_background((0.62, 0.68, 0.75))
    return scene
