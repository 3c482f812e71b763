"""Pinhole cameras as rows of 16 numbers: fx, fy, cx, cy, R (row-major, 9), t (3).

OpenCV axes (x right, y down, z forward): p_cam = R p_world + t; pixel (u, v) = (fx X/Z + cx, fy Y/Z + cy), with pixel
centres at half-integers and row 0 at the top. The world is right-handed with z up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

import numpy as np

from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, Rule, checked

CAMERA_SIZE = 16
Vector = Annotated[Sequence[float], Rule(shape=(3,), exact=True)]


@checked
def look_at(eye: Vector, target: Vector, up: Vector = (0.0, 0.0, 1.0)) -> tuple[np.ndarray, np.ndarray]:
    """World-to-camera rotation and translation of a camera at ``eye`` that looks at ``target``.

    Args:
        eye, target: points [m], shape [3].
        up: direction that points upwards in the image, shape [3].

    Returns:
        R [3, 3] and t [3] (float64) with p_cam = R p_world + t.

    Raises:
        UserError: eye and target coincide, or the line of sight is parallel to up.
    """
    eye, target, up = (np.asarray(vector, dtype=np.float64) for vector in (eye, target, up))
    forward = target - eye
    distance = np.linalg.norm(forward)
    if not distance > 0:
        raise UserError(f"the camera's eye and target coincide at {eye.tolist()}: give two different points")
    forward = forward / distance
    right = np.cross(forward, up)
    sine = np.linalg.norm(right)
    if not sine > 1e-9 * np.linalg.norm(up):
        raise UserError(f"the camera looks along up ({up.tolist()}): give an up that is not parallel to the line of sight")
    right = right / sine
    rotation = np.stack([right, np.cross(forward, right), forward])
    return rotation, -rotation @ eye


@checked
def intrinsics_from_fov(
    *, vertical_fov: Annotated[float, Rule(above=0, below=math.pi)], width: Count, height: Count
) -> tuple[float, float, float, float]:
    """Intrinsics of a camera with square pixels and its principal point in the middle.

    Args:
        vertical_fov: full vertical angle of view [rad], between 0 and pi.
        width, height: size of the image [pixels].

    Returns:
        fx, fy, cx, cy [pixels].

    Raises:
        UserError: the angle is out of range.
    """
    focal = 0.5 * height / float(np.tan(0.5 * vertical_fov))
    return focal, focal, 0.5 * width, 0.5 * height


@checked
def pack_camera(intrinsics: Sequence[float], rotation: np.ndarray, translation: np.ndarray) -> np.ndarray:
    """One camera row [16] (float64) from fx, fy, cx, cy [pixels], R [3, 3] and t [3] [m]."""
    return np.concatenate([np.asarray(values, dtype=np.float64).reshape(-1) for values in (intrinsics, rotation, translation)])
