"""Camera and second length by all frames together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from risp_torch.motions import SharedNormalEquations, clustered_covariance
from scenes.real import double_pendulum as pendulum
from studies.real.dfki_pendulum.film.angles import NEAR, RADIUS, STEP, WIDEST, Closeness
from studies.real.dfki_pendulum.film.arm import Arm, Look, geman
from studies.real.dfki_pendulum.film.film import SIZE

CAMERA = ("pivot x [m]", "pivot z [m]", "log focal", "distance [m]", "lower length [m]")
BLOCK = 5  # frames of those that are fitted together
CAMERA_STEPS = np.array([2e-3, 2e-3, 5e-3, 0.1, 2e-3])
PRIOR_SD = np.array([1.0, 1.0, 1.0, 0.4, 1.0])  # of the distance alone: what telephones' fields of view leave open


def camera_numbers(values: np.ndarray, size: int) -> dict[str, np.ndarray]:
    """Numbers of a scene of this width from values [5] (``CAMERA``): place of the pivot in the camera's frame, logarithm of the
    focal length over that of the scene file, distance, second length."""
    camera = pendulum.film_camera(size)
    return {
        "camera.position": np.array([values[0], -values[3], values[1]]),
        "camera.focal": np.array(camera.focal) * np.exp(values[2]),
        "lower.length": np.array(values[4]),
    }


def first_camera() -> np.ndarray:
    """Values [5] (``CAMERA``) of the scene file."""
    position = pendulum.film_camera(SIZE).position.value
    return np.array([position[0], position[2], 0.0, -position[1], pendulum.LOWER_LENGTH])


def camera_step(
    arm: Arm, look: Look, pictures: np.ndarray, angles: np.ndarray, values: np.ndarray, size: int, close: Closeness = NEAR
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One Gauss-Newton step of camera and second length by all frames together, in which the angles of every frame follow.

    Bars come from the scatter of the gradients of ``BLOCK`` frames after each other (``clustered_covariance``): what shapes and
    greys lack pulls neighbouring frames alike.

    Args:
        arm, look: of the arm.
        pictures: [n, H, W].
        angles: [n, 2] rad.
        values: [5] (``CAMERA``).
        size: width of the pictures.
        close: how pictures are compared.

    Returns:
        (angles [n, 2], values [5], their bars [5]).
    """
    is_visible = np.isfinite(pictures)
    filled = np.where(is_visible, pictures, look.plate)

    def left_by(tries: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        moved = replace(arm, numbers=camera_numbers(numbers, size))
        return close.smoothed(is_visible * (filled - look.pictures(moved.coverage(tries)))).reshape(len(angles), -1)

    residual = left_by(angles, values)
    columns = [(left_by(angles - move, values) - left_by(angles + move, values)) / (2 * STEP) for move in STEP * np.eye(2)]
    for move in np.diag(CAMERA_STEPS):
        columns.append((left_by(angles, values - move) - left_by(angles, values + move)) / (2 * move.sum()))
    weight = geman(residual, close.scale)
    touched = weight * (np.abs(columns[0]) + np.abs(columns[1]) > 0.01)
    noise = RADIUS * np.sqrt((touched * residual**2).sum() / touched.sum())
    normal = SharedNormalEquations.of(np.stack(columns, axis=2) / noise, weight, residual / noise, 2)
    normal.local[:, range(2), range(2)] += 1e-6 / noise**2
    precision = np.diag(1 / PRIOR_SD**2)
    step, follow = normal.step(precision, precision @ (first_camera() - values))
    blocks = np.arange(len(angles)) // BLOCK
    covariance = clustered_covariance(normal.schur_complement.sum(axis=0) + precision, normal.scores, blocks, precision)
    return angles + np.clip(follow, -WIDEST, WIDEST), values + step, np.sqrt(np.diagonal(covariance))
