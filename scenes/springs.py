"""A net of springs: how stiff are they?

Twenty-five balls in a square, each joined to its neighbours by springs along the sides and the diagonals of the cells, sag
between the four fixed corners, and swing.
"""

import numpy as np

from risp_torch import AmbientLight, Camera, DirectionalLight, Param, Scene, Springs, Surface

BALLS_PER_SIDE = 5
SPACING = 0.12  # m
ORANGE, TEAL = (0.85, 0.4, 0.08), (0.1, 0.45, 0.5)


def make_scene(stiffness: float = 60.0, size: int = 128) -> Scene:
    """The net.

    Args:
        stiffness: of every spring [N/m].
        size: of the square picture [pixels].
    """
    scene = Scene(frame_dt=1 / 60, frames=36, substeps=20, gamma=5e-3, name="springs")
    row, column = np.divmod(np.arange(BALLS_PER_SIDE * BALLS_PER_SIDE), BALLS_PER_SIDE)
    points = SPACING * np.stack([column - (BALLS_PER_SIDE - 1) / 2, row - (BALLS_PER_SIDE - 1) / 2, 0 * row], axis=1)
    scene.add_springs(
        "net", points=points,
        springs=Springs(
            indices=grid_springs(row, column), stiffness=Param(stiffness, low=15.0, high=250.0, scale="log10"), damping=0.02
        ),
        mass=0.03, fixed=np.flatnonzero(np.isin(row, (0, BALLS_PER_SIDE - 1)) & np.isin(column, (0, BALLS_PER_SIDE - 1))),
        radius=0.035, surface=Surface(color=ORANGE, smooth=True),
    )  # fmt: skip
    scene.add_camera(
        Camera.look_at(
            eye=(0.2, -1.3, 0.4),
            target=(0.0, -0.02, -0.09),
            vertical_fov=32.0,
            width=size,
            height=size,
            near=0.4,
            far=3.0,
        )
    )
    scene.add_light(DirectionalLight(direction=(-0.4, 0.8, -1.0), intensity=0.8))
    scene.add_light(AmbientLight(intensity=0.3))
    scene.set_background((0.75, 0.77, 0.8))
    return scene


def grid_springs(row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Pairs [S, 2] of neighbouring points of a grid, diagonals included.

    Args:
        row, column: [V] of the points.
    """
    is_neighbour = np.maximum(np.abs(row[:, None] - row), np.abs(column[:, None] - column)) == 1
    return np.argwhere(np.triu(is_neighbour))
