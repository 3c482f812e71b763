"""Unit quaternions in COLMAP's order: w, x, y, z (Hamilton's convention)."""

from __future__ import annotations

import numpy as np

from ti_render.camera_files.checks import ROTATION_TOLERANCE
from ti_sim.base.errors import UserError


def rotation_from_quaternion(quaternion: np.ndarray) -> np.ndarray:
    """The rotation [3, 3] (float64) of a quaternion w, x, y, z, shape [4], that is of unit length up to 1e-3.

    Raises:
        UserError: its length is not 1.
    """
    length = float(np.linalg.norm(quaternion))
    if not abs(length - 1.0) <= ROTATION_TOLERANCE:
        raise UserError(f"the quaternion {quaternion.tolist()} has length {length:.6g}: 1 is needed")
    w, x, y, z = quaternion / length
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def quaternion_from_rotation(rotation: np.ndarray) -> np.ndarray:
    """The unit quaternion w, x, y, z with w >= 0, shape [4] (float64), of a rotation [3, 3].

    The products q_i q_j are linear in the rotation; the row of the largest q_i^2 loses no digits (Shepperd 1978).
    """
    (a, b, c), (d, e, f), (g, h, i) = rotation
    products = np.array(  # 4 q_i q_j
        [
            [1 + a + e + i, h - f, c - g, d - b],
            [h - f, 1 + a - e - i, b + d, c + g],
            [c - g, b + d, 1 - a + e - i, f + h],
            [d - b, c + g, f + h, 1 - a - e + i],
        ]
    )
    row = products[np.argmax(np.diagonal(products))]
    quaternion = row / np.linalg.norm(row)
    return quaternion if quaternion[0] >= 0 else -quaternion
