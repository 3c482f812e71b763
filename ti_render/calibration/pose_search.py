"""The pose on which most points agree, from nothing: many subsets of the points are fitted from many directions at once.

Levenberg-Marquardt steps of all hypotheses are batched. The score of a hypothesis is that of MSAC (Torr and Zisserman, Computer
Vision and Image Understanding 78, 2000): the sum over all points of the squared residual, at most the squared tolerance.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
from scipy.spatial.transform import Rotation

from ti_render.camera import look_at

BEHIND = 1e4  # pixels: residual of a point behind the camera
_DIRECTIONS, _ROLLS, _STARTS = 32, 4, 4  # initial guesses, and how many of them are fitted for each subset
_ZOOMS = (1.0, 3.0)  # factors of the initial focal length, where it is estimated
_SUBSETS = 150  # where leaving out up to two points takes more, random ones of seven points
_RANDOM_SIZE = 7
_STEPS = 40
_SETTLED = 1e-10  # of the squared residual: expected decrease at which a hypothesis stops
_MAX_DAMPING = 1e6  # at which it stops as well


def best_pose(
    points: np.ndarray, pixels: np.ndarray, focal: float, *, free_focal: bool, min_points: int, tolerance: float
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """The pose with the lowest score.

    Args:
        points: [N, 3] in the world [m].
        pixels: [N, 2] or [V, N, 2], where a pinhole camera without lens sees them, from the principal point [px]; V tables are
            fitted in one batch, without leaving out points, and the best of them counts.
        focal: focal length [px].
        free_focal: whether a factor of the focal length is estimated.
        min_points: number of points that a pose needs.
        tolerance: residual [px] from which points count alike.

    Returns:
        Rotation [3, 3] and translation [3] from the world to the camera, factor of the focal length, and the index of the table.
    """
    tables = pixels if pixels.ndim == 3 else pixels[None]
    masks = np.ones((1, len(points)), dtype=bool) if pixels.ndim == 3 else _subsets(len(points), min_points)
    rotation, translation, zoom, table, mask = [], [], [], [], []
    for index, image_points in enumerate(tables):
        rotations, translations, zooms = _guesses(points, image_points, focal, free_focal)
        pixel_errors = np.linalg.norm(_project(points, rotations, translations, zooms, focal)[0] - image_points, axis=2)
        order = np.argsort(np.where(masks[:, None], np.minimum(pixel_errors, BEHIND), 0.0).sum(axis=2), axis=1)[:, :_STARTS]
        rotation.append(rotations[order].reshape(-1, 3, 3))
        translation.append(translations[order].reshape(-1, 3))
        zoom.append(zooms[order].ravel())
        table.append(np.full(order.size, index))
        mask.append(np.repeat(masks, order.shape[1], axis=0))
    table_of, weights = np.concatenate(table), np.concatenate(mask).astype(float)
    starts = tuple(np.concatenate(values) for values in (rotation, translation, zoom))
    rotations, translations, zooms = _fit(points, tables[table_of], weights, *starts, focal, free_focal)
    pixel_errors = np.linalg.norm(_project(points, rotations, translations, zooms, focal)[0] - tables[table_of], axis=2)
    best = int(np.argmin(np.minimum(pixel_errors, tolerance) ** 2 @ np.ones(len(points))))
    return rotations[best], translations[best], float(zooms[best]), int(table_of[best])


def _subsets(count: int, min_points: int) -> np.ndarray:
    """Which points are fitted, [S, count] bool: all, all but one or two, or random ones."""
    omitted_counts = [omitted for omitted in range(3) if omitted == 0 or count - omitted >= min_points]
    subsets = [
        leave for omitted in omitted_counts for leave in itertools.islice(itertools.combinations(range(count), omitted), _SUBSETS)
    ]
    masks = np.ones((len(subsets), count), dtype=bool)
    for row, leave in zip(masks, subsets, strict=True):
        row[list(leave)] = False
    if len(masks) <= _SUBSETS:
        return masks
    random = np.random.default_rng(0)
    random_subsets = np.argsort(random.random((_SUBSETS, count)), axis=1) < _RANDOM_SIZE
    return np.concatenate([masks[:1], random_subsets])


def _project(
    points: np.ndarray, rotation: np.ndarray, translation: np.ndarray, zoom: np.ndarray, focal: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Image points [B, N, 2] (px, ``BEHIND`` behind the camera), rotated points and points in the camera's axes [B, N, 3]."""
    rotated = np.einsum("bij,nj->bni", rotation, points)
    camera_points = rotated + translation[:, None]
    depth = np.where(camera_points[..., 2:] > 1e-9, camera_points[..., 2:], np.nan)
    return np.nan_to_num(focal * zoom[:, None, None] * camera_points[..., :2] / depth, nan=BEHIND), rotated, camera_points


def _fit(
    points: np.ndarray, pixels: np.ndarray, weights: np.ndarray, rotation: np.ndarray, translation: np.ndarray, zoom: np.ndarray,
    focal: float, free_focal: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Levenberg-Marquardt steps of all hypotheses: weights [B, N], rotations [B, 3, 3], translations [B, 3], zooms [B]."""
    count, damping, active = 7 if free_focal else 6, np.full(len(zoom), 1e-3), np.arange(len(zoom))
    results = rotation.copy(), translation.copy(), zoom.copy()

    def cost(projected: np.ndarray) -> np.ndarray:
        return (weights * ((projected - pixels) ** 2).sum(axis=2)).sum(axis=1)

    projected, rotated, camera_points = _project(points, rotation, translation, zoom, focal)
    min_points = cost(projected)
    for _ in range(_STEPS):
        depth = np.where(camera_points[..., 2] > 1e-9, camera_points[..., 2], np.inf)  # points behind have no derivative
        scale, normalised = focal * zoom[:, None] / depth, camera_points[..., :2] / depth[..., None]
        # d(pixel) / d(point in the camera's axes), [B, N, 2, 3]
        local = np.zeros((*normalised.shape, 3))
        local[..., 0, 0] = local[..., 1, 1] = scale
        local[..., 2] = -scale[..., None] * normalised
        columns = np.empty((*normalised.shape, count))
        x, y, z = (rotated[:, :, None, axis] for axis in range(3))  # of a turn w: local (w x p) = w (p x local)
        columns[..., 0] = y * local[..., 2] - z * local[..., 1]
        columns[..., 1] = z * local[..., 0] - x * local[..., 2]
        columns[..., 2] = x * local[..., 1] - y * local[..., 0]
        columns[..., 3:6] = local
        if free_focal:
            columns[..., 6] = projected * (camera_points[..., 2:] > 1e-9)  # of the zoom's logarithm
        flat = (columns * weights[:, :, None, None]).reshape(len(zoom), -1, count)
        normal = np.swapaxes(flat, 1, 2) @ columns.reshape(len(zoom), -1, count)
        gradient = np.einsum("bkc,bk->bc", flat, (projected - pixels).reshape(len(zoom), -1))
        diagonal = np.einsum("bii->bi", normal).copy()
        np.einsum("bii->bi", normal)[:] += damping[:, None] * diagonal + 1e-9 * (1 + diagonal.max(axis=1, keepdims=True))
        step = -np.linalg.solve(normal, gradient[..., None])[..., 0]
        turns = Rotation.from_rotvec(step[:, :3]).as_matrix() @ rotation
        translations = translation + step[:, 3:6]
        zooms = zoom * np.exp(np.clip(step[:, 6], -1, 1)) if free_focal else zoom
        new_projected, new_turned, new_camera_points = _project(points, turns, translations, zooms, focal)
        reached = cost(new_projected)
        better = reached < min_points
        rotation, translation, zoom = (
            np.where(better[:, None, None], turns, rotation), np.where(better[:, None], translations, translation),
            np.where(better, zooms, zoom),
        )  # fmt: skip
        projected, rotated, camera_points = (
            np.where(better[:, None, None], new, old)
            for new, old in ((new_projected, projected), (new_turned, rotated), (new_camera_points, camera_points))
        )
        min_points = np.where(better, reached, min_points)
        damping = np.clip(np.where(better, 0.2 * damping, 5.0 * damping), 1e-9, 1e9)
        for result, reached in zip(results, (rotation, translation, zoom), strict=True):
            result[active] = reached
        unfinished = (-(gradient * step).sum(axis=1) > _SETTLED * min_points) & (damping < _MAX_DAMPING)
        if not unfinished.any():
            break
        active, damping, min_points, pixels, weights, rotation, translation, zoom, projected, rotated, camera_points = (
            values[unfinished]
            for values in (
                active, damping, min_points, pixels, weights, rotation, translation, zoom, projected, rotated, camera_points
            )
        )  # fmt: skip
    return results


def _guesses(points: np.ndarray, pixels: np.ndarray, focal: float, free_focal: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rotations, translations and zooms of cameras that look at the points from all around, as far away as these look large."""
    cameras = list(_around(points, pixels, focal, _ZOOMS if free_focal else (1.0,)))
    rotation, eye, zoom = (np.stack(values) for values in zip(*cameras, strict=True))
    return rotation, -np.einsum("bij,bj->bi", rotation, eye), zoom


def _around(
    points: np.ndarray, pixels: np.ndarray, focal: float, zooms: tuple[float, ...]
) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
    middle, mean_pixel = points.mean(axis=0), pixels.mean(axis=0)
    wide = float(np.sqrt(((points - middle) ** 2).sum(axis=1).mean()))
    large = float(np.sqrt(((pixels - mean_pixel) ** 2).sum(axis=1).mean()))
    for direction in _sphere(_DIRECTIONS):
        rotation, _ = look_at(middle + direction, middle)
        for zoom in zooms:
            eye = middle + zoom * focal * wide / max(large, 1e-9) * direction
            aim = Rotation.from_rotvec([-mean_pixel[1] / (zoom * focal), mean_pixel[0] / (zoom * focal), 0.0]).as_matrix()
            for roll in range(_ROLLS):
                yield aim @ Rotation.from_rotvec([0, 0, roll * math.pi / 2]).as_matrix() @ rotation, eye, np.asarray(zoom)


def _sphere(count: int) -> np.ndarray:
    """Directions [count, 3] spread over the sphere (a Fibonacci lattice), none of them vertical."""
    heights = 1 - (2 * np.arange(count) + 1) / count
    angles = math.pi * (3 - math.sqrt(5)) * np.arange(count)
    radii = np.sqrt(1 - heights**2)
    return np.stack([radii * np.cos(angles), radii * np.sin(angles), heights], axis=1)
