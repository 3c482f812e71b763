"""Mitsuba's camera for a camera row, and resampling of its film to the pixels of the picture.

Mitsuba's film has square pixels and no lens distortion. For a camera with square pixels and no distortion, film and picture are
the same; otherwise the film is a finer pinhole picture of the same view, and every pixel of the picture is the mean of bilinear
taps in it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ti_sim.base.errors import UserError

_FILM_SCALE = 2.0  # film pixels for each picture pixel and axis, where film and picture differ
_TAPS_PER_AXIS = 4  # taps for each pixel and axis
_SQUARE_TOLERANCE = 1e-6  # relative difference of fx and fy below which pixels count as square
_MAX_FILM_SIDES = 6.0  # maximum size of the film, in sizes of the picture


@dataclass(frozen=True, eq=False)
class Film:
    """Film of Mitsuba's sensor: a pinhole picture with square pixels.

    Attributes:
        width, height: of the film [film pixels].
        focal: of the film [film pixels].
        center: principal point on the film [film pixels].
        taps: [H, W, K, 2] positions on the film (x, y; the centre of its first pixel is 0.5, 0.5) whose mean is a pixel of the
            picture; None where the film is the picture.
    """

    width: int
    height: int
    focal: float
    center: tuple[float, float]
    taps: np.ndarray | None


def film_of(camera: np.ndarray, distortion: np.ndarray | None, width: int, height: int) -> Film:
    """The film for a picture.

    Args:
        camera: [16] camera row (see ``ti_render.camera``).
        distortion: [5] k1, k2, p1, p2, k3, or None.
        width, height: of the picture [pixels].

    Raises:
        UserError: the distortion bends the view too far for a pinhole picture.
    """
    fx, fy, cx, cy = camera[:4]
    has_distortion = distortion is not None and bool(np.any(distortion))
    if not has_distortion and abs(fx / fy - 1) < _SQUARE_TOLERANCE:
        return Film(width, height, float(fx), (float(cx), float(cy)), None)
    tap_columns, tap_rows = ((np.arange(n * _TAPS_PER_AXIS) + 0.5) / _TAPS_PER_AXIS for n in (width, height))
    u, v = np.meshgrid(tap_columns, tap_rows)
    rays = np.stack([(u - cx) / fx, (v - cy) / fy], axis=-1)
    if has_distortion:
        rays = undistort(rays, distortion)
    error = UserError("the lens distortion bends the picture's corners too far for Mitsuba: give smaller coefficients")
    if not np.isfinite(rays).all():
        raise error
    focal = _FILM_SCALE * max(fx, fy)
    film_low, film_high = rays.reshape(-1, 2).min(axis=0) * focal, rays.reshape(-1, 2).max(axis=0) * focal
    film_low, film_high = np.floor(film_low) - 1, np.ceil(film_high) + 1
    film_size = (film_high - film_low).astype(int)
    if (film_size > _MAX_FILM_SIDES * _FILM_SCALE * max(fx / fy, fy / fx) * np.array([width, height])).any():
        raise error
    taps = (
        (rays * focal - film_low)
        .reshape(height, _TAPS_PER_AXIS, width, _TAPS_PER_AXIS, 2)
        .swapaxes(1, 2)
        .reshape(height, width, -1, 2)
    )
    return Film(int(film_size[0]), int(film_size[1]), float(focal), (float(-film_low[0]), float(-film_low[1])), taps)


def undistort(points: np.ndarray, distortion: np.ndarray) -> np.ndarray:
    """Undistort points, by Newton's method on OpenCV's lens model (k1, k2, p1, p2, k3).

    Args:
        points: [..., 2] distorted (X/Z, Y/Z).
        distortion: [5] k1, k2, p1, p2, k3.

    Returns:
        [..., 2] undistorted (X/Z, Y/Z); NaN where the iteration leaves the model's range.
    """
    k1, k2, p1, p2, k3 = distortion
    x, y = np.array(points[..., 0]), np.array(points[..., 1])
    for _ in range(20):
        r2 = x * x + y * y
        radial = 1 + r2 * (k1 + r2 * (k2 + r2 * k3))
        radial_derivative = 2 * (k1 + r2 * (2 * k2 + r2 * 3 * k3))  # of the radial factor, times x or y
        error_x = x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x * x) - points[..., 0]
        error_y = y * radial + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y - points[..., 1]
        xx = radial + x * x * radial_derivative + 2 * p1 * y + 6 * p2 * x
        yy = radial + y * y * radial_derivative + 6 * p1 * y + 2 * p2 * x
        xy = x * y * radial_derivative + 2 * p1 * x + 2 * p2 * y
        determinant = xx * yy - xy * xy
        with np.errstate(divide="ignore", invalid="ignore"):
            x, y = x - (yy * error_x - xy * error_y) / determinant, y - (xx * error_y - xy * error_x) / determinant
    diverged = ~(np.maximum(np.abs(error_x), np.abs(error_y)) < 1e-6)
    return np.where(diverged[..., None], np.nan, np.stack([x, y], axis=-1))


def eye_of(camera: np.ndarray) -> np.ndarray:
    """Position of the eye [3] in the world [m], -R^T t of a camera row [16]."""
    return -camera[4:13].reshape(3, 3).T @ camera[13:]


def sensor_dict(
    mitsuba: Any, camera: np.ndarray, film: Film, *, near: float, far: float, supersampling: int = 1
) -> dict[str, Any]:
    """Mitsuba's description of the camera.

    Args:
        mitsuba: the module.
        camera: [16] camera row.
        film: from ``film_of``.
        near, far: depths [m] of the clipping planes.
        supersampling: factor of the number of film pixels along each axis.
    """
    # Our camera axes are x right, y down, z forward; Mitsuba's are x left, y up, z forward.
    to_world = np.eye(4)
    to_world[:3, :3] = camera[4:13].reshape(3, 3).T @ np.diag([-1.0, -1.0, 1.0])
    to_world[:3, 3] = eye_of(camera)
    return {
        "type": "perspective",
        "fov": float(np.degrees(2 * np.arctan(0.5 * film.width / film.focal))),
        "fov_axis": "x",
        "principal_point_offset_x": 0.5 - film.center[0] / film.width,
        "principal_point_offset_y": 0.5 - film.center[1] / film.height,
        "near_clip": near,
        "far_clip": far,
        "to_world": mitsuba.ScalarTransform4f(to_world),
        "sampler": {"type": "multijitter"},  # has a third of the noise of independent samples
        "film": {
            "type": "hdrfilm", "width": film.width * supersampling, "height": film.height * supersampling,
            "rfilter": {"type": "box"}, "pixel_format": "rgba", "component_format": "float32",
        },
    }  # fmt: skip


def stratified_sample_count(samples: int) -> int:
    """The least number of samples, at least ``samples``, that fills a grid of the stratified sampler."""
    rows = math.isqrt(samples)
    return rows * -(-samples // rows)


def resample_film(film: Film, film_pixels: np.ndarray) -> np.ndarray:
    """The picture [H, W, C], resampled from the film [film height, film width, C]."""
    if film.taps is None:
        return film_pixels
    x, y = (np.clip(film.taps[..., axis] - 0.5, 0, limit - 1.001) for axis, limit in enumerate((film.width, film.height)))
    left, top = np.floor(x).astype(int), np.floor(y).astype(int)
    x_weight, y_weight = (x - left)[..., None], (y - top)[..., None]
    upper = film_pixels[top, left] * (1 - x_weight) + film_pixels[top, left + 1] * x_weight
    lower = film_pixels[top + 1, left] * (1 - x_weight) + film_pixels[top + 1, left + 1] * x_weight
    return (upper * (1 - y_weight) + lower * y_weight).mean(axis=2)
