"""Films of a camera that a hand holds: how it moved, from what stands still in space, and the pictures as from one place."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import gaussian_filter, map_coordinates

RIG_SCALE = 0.05  # residual (linear light) from which on a pixel counts less


def moved_points(points: np.ndarray, motion: np.ndarray, middle: np.ndarray) -> np.ndarray:
    """Points [P, 2] (x, y) of the reference in a frame, by a motion [4]: shift x, y [pixels], turn [rad], scale minus one."""
    arms = points - middle
    turned = np.stack([arms[:, 0] - motion[2] * arms[:, 1], arms[:, 1] + motion[2] * arms[:, 0]], axis=1)
    return middle + (1 + motion[3]) * turned + motion[:2]


def camera_motion(grey: np.ndarray, mask: np.ndarray, *, reference: int, smooth: float = 1.0, steps: int = 12) -> np.ndarray:
    """Motion of the camera: [T, 4] motions (``moved_points``) that lay the masked pixels of the reference onto each frame.

    Args:
        grey: [T, H, W] pictures.
        mask: [H, W] pixels of the reference that stand still in space.
        reference: number of that frame.
        smooth: pixels, of a Gaussian by which pictures are smoothed first.
        steps: Gauss-Newton steps of a frame, at most; each begins from the neighbour on the side of the reference.
    """
    points = np.argwhere(mask)[:, ::-1] + 0.5
    middle = np.array(grey.shape[:0:-1]) / 2
    arms = points - middle
    reference_values = gaussian_filter(grey[reference], smooth)[mask]
    motions = np.zeros((len(grey), 4))
    order = [*range(reference, len(grey)), *range(reference - 1, -1, -1)]
    for k in order:
        neighbour = k - 1 if k > reference else k + 1
        motion = np.zeros(4) if k == reference else motions[neighbour].copy()
        picture = gaussian_filter(grey[k], smooth)
        slope_y, slope_x = np.gradient(picture)
        for _ in range(steps):
            points_yx = moved_points(points, motion, middle)[:, ::-1].T - 0.5
            values, gx, gy = (map_coordinates(image, points_yx, order=1, mode="nearest") for image in (picture, slope_x, slope_y))
            columns = [gx, gy, gy * arms[:, 0] - gx * arms[:, 1], gx * arms[:, 0] + gy * arms[:, 1]]
            jacobian, residual = np.stack(columns, axis=1), reference_values - values
            weight = (1 + (residual / RIG_SCALE) ** 2) ** -2.0
            normal = jacobian.T @ (weight[:, None] * jacobian)
            step = np.linalg.solve(normal + 1e-9 * np.trace(normal) * np.eye(4), jacobian.T @ (weight * residual))
            motion = motion + step
            if np.abs(step * [1, 1, 50, 50]).max() < 2e-3:
                break
        motions[k] = motion
    return motions


def steadied(grey: np.ndarray, motion: np.ndarray) -> np.ndarray:
    """The pictures [T, H, W] as the camera of the reference would see them; NaN where a frame does not reach."""
    height, width = grey.shape[1:]
    y, x = np.mgrid[:height, :width] + 0.5
    points, middle = np.stack([x.ravel(), y.ravel()], axis=1), np.array([width, height]) / 2
    result = np.empty_like(grey)
    for k, picture in enumerate(grey):
        px, py = moved_points(points, motion[k], middle).T
        outside = (px < 0.5) | (px > width - 0.5) | (py < 0.5) | (py > height - 0.5)
        values = map_coordinates(picture, [py - 0.5, px - 0.5], order=3, mode="nearest")
        result[k] = np.where(outside, np.nan, values).reshape(height, width)
    return result
