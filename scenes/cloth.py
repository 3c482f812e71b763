"""A cloth tied at two corners: how fast was it moving at the start?

A cloth of 80 x 40 cm hangs by its upper corners and starts with a uniform velocity (after gradSim, ICLR 2021,
table 3). It swings, folds and is slowed by the air. The initial velocity may also be an affine field of
twelve numbers, or a separate one for each particle.
"""

from typing import Literal

import numpy as np

from risp_torch import (
    Air,
    AmbientLight,
    Bending,
    Camera,
    DirectionalLight,
    Param,
    PictureStyle,
    Scene,
    Shell,
    Start,
    Surface,
    UserError,
)
from ti_sim.meshes import sheet_grid

SIZE = (0.8, 0.4)  # m
CELLS = (16, 8)
UPRIGHT = (np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5))  # the mesh's y axis points up
RED, YELLOW = (0.7, 0.12, 0.1), (0.9, 0.75, 0.3)
VELOCITY_GRADIENT = (
    (0.9, 0.0, -0.8),
    (2.0, 0.0, -1.5),
    (-1.2, 0.0, 0.6),
)  # 1/s; the derivative normal to the cloth is unobservable

Field = Literal["uniform", "affine", "particles"]


def make_scene(
    velocity: tuple[float, float, float] = (0.4, 2.0, 0.5), size: int = 128, field: Field = "uniform", stiffness: float = 150.0
) -> Scene:
    """The cloth.

    Args:
        velocity: of all its points at the start, of an affine field at the middle [m/s].
        size: of the square picture [pixels].
        field: unknowns of the velocity: "uniform", the same everywhere; "affine", which adds a gradient; "particles", the
            same affine field as one velocity for each particle (fixed particles have no effect).
        stiffness: Lamé's mu of the membrane, whose lambda is two thirds of it [N/m]. The stiffer, the sooner an
            initial stretching stops, and the less observable it is.

    Raises:
        UserError: another field.
    """
    if field not in ("uniform", "affine", "particles"):
        raise UserError(f"the field {field!r} is unknown: choose uniform, affine or particles")
    scene = Scene(frame_dt=1 / 60, frames=36, substeps=40, style=PictureStyle(two_sided=True), name="cloth")
    mesh = sheet_grid(SIZE, CELLS)
    cell_index = np.rint((mesh.vertices[:, :2] / SIZE + 0.5) * CELLS).astype(int)
    upright_positions = mesh.vertices[:, [0, 2, 1]]  # in the world, for the upright cloth
    start_velocity = upright_positions @ np.transpose(VELOCITY_GRADIENT) + velocity if field == "particles" else velocity
    gradient = Param(VELOCITY_GRADIENT, low=-5.0, high=5.0, unit="1/s") if field == "affine" else 0.0
    scene.add_cloth(
        "cloth", mesh=mesh,
        material=Shell(
            mu=stiffness, lam=stiffness / 1.5, damping=0.05, bending=Bending(stiffness=2e-3, damping=2e-5),
            air=Air(drag=0.6, lift=0.2),
        ),
        density=0.2,
        start=Start(
            orientation=UPRIGHT, velocity=Param(start_velocity, low=-4.0, high=4.0, unit="m/s"), velocity_gradient=gradient
        ),
        fixed=lambda x: (np.abs(x[:, 0]) > 0.499 * SIZE[0]) & (x[:, 1] > 0.499 * SIZE[1]),
        surface=Surface(vertex_colors=np.where((cell_index.sum(axis=1) // 2 % 2)[:, None] > 0, RED, YELLOW), smooth=True),
    )  # fmt: skip
    scene.add_camera(
        Camera.look_at(
            eye=(0.9, -1.5, 0.5), target=(0.04, 0.0, -0.02), vertical_fov=30.0, width=size, height=size, near=0.4, far=4.0
        )
    )
    scene.add_light(DirectionalLight(direction=(-0.4, 1.0, -0.7), intensity=0.8))
    scene.add_light(AmbientLight(intensity=0.3))
    scene.set_background((0.62, 0.68, 0.75))
    return scene
