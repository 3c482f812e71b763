"""Changes of the world frame: files have various axes and units, the engine uses z up and metres."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ti_render.camera_files.checks import located, numbers, rotation
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Positive, checked

_Z_UP_FROM = {
    "z": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "y": ((1.0, 0.0, 0.0), (0.0, 0.0, -1.0), (0.0, 1.0, 0.0)),
    "-y": ((1.0, 0.0, 0.0), (0.0, 0.0, 1.0), (0.0, -1.0, 0.0)),
}


@checked
def z_up_from(up: Literal["z", "y", "-y"], *, scale: Positive = 1.0) -> np.ndarray:
    """The change from a world whose up is y, -y or z to one with z up; x stays x.

    Args:
        up: the axis of the file's world that points up: "y" (glTF, OpenGL scenes), or "-y" for y down (a world that
            has the axes of an upright OpenCV camera, as COLMAP's often nearly has). "z" changes the scale alone.
        scale: metres in one unit of the file.

    Returns:
        p_world = M p_file, shape [4, 4], float64: an argument for ``read_cameras(..., world_from_file=M)``.

    Raises:
        UserError: the axis is another, or the scale is not a finite number above zero.
    """
    matrix = np.eye(4)
    matrix[:3, :3] = scale * np.array(_Z_UP_FROM[up])
    return matrix


def similarity(matrix: Any, name: str) -> tuple[float, np.ndarray, np.ndarray]:
    """Scale, rotation and shift of a similarity: p_new = scale rotation p_old + shift.

    Args:
        matrix: [4, 4], [3, 4] without the last row, or [3, 3] without a shift.
        name: its name in messages.

    Returns:
        scale, rotation [3, 3], shift [3]; float64.

    Raises:
        UserError: it has another shape, its last row is not 0 0 0 1, or it is singular, sheared or a reflection.
    """
    matrix = numbers(matrix, name)
    if matrix.shape not in ((4, 4), (3, 4), (3, 3)):
        raise UserError(f"{name} has shape {list(matrix.shape)}: [4, 4], [3, 4] or [3, 3] is needed")
    if matrix.shape == (4, 4) and not np.allclose(matrix[3], (0.0, 0.0, 0.0, 1.0), rtol=0.0, atol=1e-9):
        raise UserError(f"{name} has the last row {matrix[3].tolist()}: 0, 0, 0, 1 is needed")
    linear = matrix[:3, :3]
    scale = float(np.cbrt(abs(np.linalg.det(linear))))
    if not scale > 1e-12 * np.abs(linear).max():  # the zero matrix has no scale either
        raise UserError(f"{name} is singular: give a rotation, or a rotation times one scale")
    with located(f"{name}, divided by its scale {scale:g}"):
        rotation_matrix = rotation(linear / scale, "the 3 x 3 part")
    return scale, rotation_matrix, matrix[:3, 3].copy() if matrix.shape[1] == 4 else np.zeros(3)
