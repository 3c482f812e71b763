"""Pictures of boards by plain numpy: every pixel's ray meets the board's plane, and is coloured there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ti_render import look_at
from ti_render.camera_files import CameraRecord

EYES = [(0.05, -0.25, 0.3), (0.3, -0.1, 0.28), (-0.12, -0.2, 0.35), (0.15, 0.2, 0.33), (0.0, -0.05, 0.4), (0.25, -0.25, 0.25)]


def board_cameras(
    intrinsics: np.ndarray, distortion: np.ndarray, middle: np.ndarray, *, width: int, height: int
) -> list[CameraRecord]:
    """Cameras that look at a board from several sides."""
    cameras = []
    for k, eye in enumerate(EYES):
        rotation, translation = look_at(eye, middle + 0.02 * np.array([np.sin(k), np.cos(k), 0.0]))
        cameras.append(
            CameraRecord(
                name=f"view_{k}", width=width, height=height, intrinsics=intrinsics, rotation=rotation, translation=translation,
                distortion=distortion,
            )  # fmt: skip
        )
    return cameras


def drawn(camera: CameraRecord, color: Callable[[np.ndarray, np.ndarray], np.ndarray], *, fine: int = 2) -> np.ndarray:
    """The picture [H, W] uint8 of the plane z = 0 whose grey level at (x, y) is ``color``, from 0 to 1."""
    v, u = ((np.arange(side * fine) + 0.5) / fine for side in (camera.height, camera.width))
    u, v = np.meshgrid(u, v)
    fx, fy, cx, cy = camera.intrinsics
    seen = np.stack([(u - cx) / fx, (v - cy) / fy], axis=-1)
    straight = seen.copy()
    for _ in range(5 if camera.distortion.any() else 0):  # the inverse of the lens
        bent = np.stack(camera._distort(straight[..., 0], straight[..., 1]), axis=-1)
        straight += seen - bent
    rays = np.concatenate([straight, np.ones_like(straight[..., :1])], axis=-1) @ camera.rotation
    eye = camera.position()
    places = eye + rays * (-eye[2] / rays[..., 2])[..., None]
    levels = color(places[..., 0], places[..., 1])
    return np.round(255 * levels.reshape(camera.height, fine, camera.width, fine).mean(axis=(1, 3))).astype(np.uint8)


def chessboard(columns: int, rows: int, square: float) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """A chessboard with that many inner corners, the first at the origin, rows towards -y, on a white sheet."""

    def color(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        i, j = np.floor(x / square), np.floor(-y / square)
        inside = (i >= -1) & (i < columns) & (j >= -1) & (j < rows)
        return np.where(inside & ((i + j) % 2 == 0), 0.08, 0.92)

    return color
