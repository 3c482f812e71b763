"""Global search of a camera pose: many subsets of the points are fitted from many initial directions in one batch.

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

BEHIND_RESIDUAL = 1e4  # pixels: residual of a point behind the camera
_DIRECTIONS, _ROLLS = 32, 4  # initial cameras: directions of view, and rolls about each
_STARTS = 4  # number of the best initial cameras that are fitted for each subset
_ZOOMS = (1.0, 3.0)  # factors of the initial focal length, where it is estimated
_SUBSETS = 150  # maximum; random subsets of seven points, where there are more ways to leave out up to two points
_RANDOM_SUBSET_SIZE = 7
_STEPS = 40
_MIN_RELATIVE_DECREASE = 1e-10  # of the squared residual: a hypothesis stops at a smaller expected decrease
_MAX_DAMPING = 1e6  # a hypothesis stops at larger damping


def best_pose(
    points: np.ndarray, pixels: np.ndarray, focal: float, *, free_focal: bool, min_points: int, tolerance: float
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """The pose with the lowest score.

    Args:
        points: [N, 3] in the world [m].
        pixels: [N, 2] or [V, N, 2], their undistorted pixels from the principal point [px]; V tables are fitted in one batch,
            without leaving out points, and the best one is returned.
        focal: focal length [px].
        free_focal: whether a factor of the focal length is estimated.
        min_points: number of points that a pose needs.
        tolerance: residual [px] above which all points have the same cost.

    Returns:
        Rotation [3, 3] and translation [3] from the world to the camera, factor of the focal length, and the index of the table.
    """
    tables = pixels if pixels.ndim == 3 else pixels[None]
    masks = np.ones((1, len(points)), dtype=bool) if pixels.ndim == 3 else _subsets(len(points), min_points)
    start_rotations, start_translations, start_zooms, start_tables, start_masks = [], [], [], [], []
    for index, image_points in enumerate(tables):
        rotations, translations, zooms = _initial_cameras(points, image_points, focal, free_focal)
        pixel_errors = np.linalg.norm(_project(points, rotations, translations, zooms, focal)[0] - image_points, axis=2)
        order = np.argsort(np.where(masks[:, None], np.minimum(pixel_errors, BEHIND_RESIDUAL), 0.0).sum(axis=2), axis=1)[
            :, :_STARTS
        ]
        start_rotations.append(rotations[order].reshape(-1, 3, 3))
        start_translations.append(translations[order].reshape(-1, 3))
        start_zooms.append(zooms[order].ravel())
        start_tables.append(np.full(order.size, index))
        start_masks.append(np.repeat(masks, order.shape[1], axis=0))
    table_indices, weights = np.concatenate(start_tables), np.concatenate(start_masks).astype(float)
    starts = tuple(np.concatenate(values) for values in (start_rotations, start_translations, start_zooms))
    rotations, translations, zooms = _fit(points, tables[table_indices], weights, *starts, focal, free_focal)
    pixel_errors = np.linalg.norm(_project(points, rotations, translations, zooms, focal)[0] - tables[table_indices], axis=2)
    best = int(np.argmin(np.minimum(pixel_errors, tolerance) ** 2 @ np.ones(len(points))))
    return rotations[best], translations[best], float(zooms[best]), int(table_indices[best])


def _subsets(count: int, min_points: int) -> np.ndarray:
    """Which points are fitted, [S, count] bool: all, all but one or two, or random ones."""
    omitted_counts = [omitted_count for omitted_count in range(3) if omitted_count == 0 or count - omitted_count >= min_points]
    subsets = [
        omitted
        for omitted_count in omitted_counts
        for omitted in itertools.islice(itertools.combinations(range(count), omitted_count), _SUBSETS)
    ]
    masks = np.ones((len(subsets), count), dtype=bool)
    for row, omitted in zip(masks, subsets, strict=True):
        row[list(omitted)] = False
    if len(masks) <= _SUBSETS:
        return masks
    rng = np.random.default_rng(0)
    random_subsets = np.argsort(rng.random((_SUBSETS, count)), axis=1) < _RANDOM_SUBSET_SIZE
    return np.concatenate([masks[:1], random_subsets])


def _project(
    points: np.ndarray, rotation: np.ndarray, translation: np.ndarray, zoom: np.ndarray, focal: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Image points [B, N, 2] (px, ``BEHIND_RESIDUAL`` behind the camera), rotated points and camera-frame points [B, N, 3]."""
    rotated = np.einsum("bij,nj->bni", rotation, points)
    camera_points = rotated + translation[:, None]
    depth = np.where(camera_points[..., 2:] > 1e-9, camera_points[..., 2:], np.nan)
    return (
        np.nan_to_num(focal * zoom[:, None, None] * camera_points[..., :2] / depth, nan=BEHIND_RESIDUAL),
        rotated,
        camera_points,
    )


def _fit(
    points: np.ndarray, pixels: np.ndarray, weights: np.ndarray, rotation: np.ndarray, translation: np.ndarray, zoom: np.ndarray,
    focal: float, free_focal: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Levenberg-Marquardt steps of B hypotheses: rotations [B, 3, 3], translations [B, 3], and factors [B] of the focal length.

    ``weights`` [B, N] are those of the points.
    """
    parameter_count, damping, running = 7 if free_focal else 6, np.full(len(zoom), 1e-3), np.arange(len(zoom))
    results = rotation.copy(), translation.copy(), zoom.copy()

    def cost(projected: np.ndarray) -> np.ndarray:
        return (weights * ((projected - pixels) ** 2).sum(axis=2)).sum(axis=1)

    projected, rotated, camera_points = _project(points, rotation, translation, zoom, focal)
    costs = cost(projected)
    for _ in range(_STEPS):
        depth = np.where(camera_points[..., 2] > 1e-9, camera_points[..., 2], np.inf)  # points behind have no derivative
        pixels_per_metre, normalised = focal * zoom[:, None] / depth, camera_points[..., :2] / depth[..., None]
        # d(pixel) / d(point in the camera's axes), [B, N, 2, 3]
        point_jacobian = np.zeros((*normalised.shape, 3))
        point_jacobian[..., 0, 0] = point_jacobian[..., 1, 1] = pixels_per_metre
        point_jacobian[..., 2] = -pixels_per_metre[..., None] * normalised
        jacobian = np.empty((*normalised.shape, parameter_count))
        x, y, z = (rotated[:, :, None, axis] for axis in range(3))  # for a rotation w: J (w x p) = w (p x J)
        jacobian[..., 0] = y * point_jacobian[..., 2] - z * point_jacobian[..., 1]
        jacobian[..., 1] = z * point_jacobian[..., 0] - x * point_jacobian[..., 2]
        jacobian[..., 2] = x * point_jacobian[..., 1] - y * point_jacobian[..., 0]
        jacobian[..., 3:6] = point_jacobian
        if free_focal:
            jacobian[..., 6] = projected * (camera_points[..., 2:] > 1e-9)  # of the zoom's logarithm
        weighted_jacobian = (jacobian * weights[:, :, None, None]).reshape(len(zoom), -1, parameter_count)
        normal_matrix = np.swapaxes(weighted_jacobian, 1, 2) @ jacobian.reshape(len(zoom), -1, parameter_count)
        gradient = np.einsum("bkc,bk->bc", weighted_jacobian, (projected - pixels).reshape(len(zoom), -1))
        diagonal = np.einsum("bii->bi", normal_matrix).copy()
        np.einsum("bii->bi", normal_matrix)[:] += damping[:, None] * diagonal + 1e-9 * (1 + diagonal.max(axis=1, keepdims=True))
        step = -np.linalg.solve(normal_matrix, gradient[..., None])[..., 0]
        new_rotation = Rotation.from_rotvec(step[:, :3]).as_matrix() @ rotation
        new_translation = translation + step[:, 3:6]
        new_zoom = zoom * np.exp(np.clip(step[:, 6], -1, 1)) if free_focal else zoom
        new_projected, new_rotated, new_camera_points = _project(points, new_rotation, new_translation, new_zoom, focal)
        new_costs = cost(new_projected)
        is_better = new_costs < costs
        rotation, translation, zoom = (
            np.where(is_better[:, None, None], new_rotation, rotation),
            np.where(is_better[:, None], new_translation, translation),
            np.where(is_better, new_zoom, zoom),
        )  # fmt: skip
        projected, rotated, camera_points = (
            np.where(is_better[:, None, None], new, old)
            for new, old in ((new_projected, projected), (new_rotated, rotated), (new_camera_points, camera_points))
        )
        costs = np.where(is_better, new_costs, costs)
        damping = np.clip(np.where(is_better, 0.2 * damping, 5.0 * damping), 1e-9, 1e9)
        for result, values in zip(results, (rotation, translation, zoom), strict=True):
            result[running] = values
        unfinished = (-(gradient * step).sum(axis=1) > _MIN_RELATIVE_DECREASE * costs) & (damping < _MAX_DAMPING)
        if not unfinished.any():
            break
        running, damping, costs, pixels, weights, rotation, translation, zoom, projected, rotated, camera_points = (
            values[unfinished]
            for values in (
                running, damping, costs, pixels, weights, rotation, translation, zoom, projected, rotated, camera_points
            )
        )  # fmt: skip
    return results


def _initial_cameras(
    points: np.ndarray, pixels: np.ndarray, focal: float, free_focal: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rotations, translations and zooms of cameras that look at the points from all directions, with images of their size."""
    cameras = list(_cameras_around(points, pixels, focal, _ZOOMS if free_focal else (1.0,)))
    rotation, eye, zoom = (np.stack(values) for values in zip(*cameras, strict=True))
    return rotation, -np.einsum("bij,bj->bi", rotation, eye), zoom


def _cameras_around(
    points: np.ndarray, pixels: np.ndarray, focal: float, zooms: tuple[float, ...]
) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
    centre, mean_pixel = points.mean(axis=0), pixels.mean(axis=0)
    rms_radius = float(np.sqrt(((points - centre) ** 2).sum(axis=1).mean()))
    rms_pixel_radius = float(np.sqrt(((pixels - mean_pixel) ** 2).sum(axis=1).mean()))
    rolls = [Rotation.from_rotvec([0, 0, roll * math.pi / 2]).as_matrix() for roll in range(_ROLLS)]
    rotations_to_pixel = [
        Rotation.from_rotvec([-mean_pixel[1] / (zoom * focal), mean_pixel[0] / (zoom * focal), 0.0]).as_matrix() for zoom in zooms
    ]
    rolled = [[rotation_to_pixel @ roll for roll in rolls] for rotation_to_pixel in rotations_to_pixel]
    for direction in _sphere_directions(_DIRECTIONS):
        rotation, _ = look_at(centre + direction, centre)
        for zoom, rotations in zip(zooms, rolled, strict=True):
            eye = centre + zoom * focal * rms_radius / max(rms_pixel_radius, 1e-9) * direction
            for rolled_rotation in rotations:
                yield rolled_rotation @ rotation, eye, np.asarray(zoom)


def _sphere_directions(count: int) -> np.ndarray:
    """Directions [count, 3] distributed over the sphere (Fibonacci lattice), none of them vertical."""
    heights = 1 - (2 * np.arange(count) + 1) / count
    angles = math.pi * (3 - math.sqrt(5)) * np.arange(count)
    radii = np.sqrt(1 - heights**2)
    return np.stack([radii * np.cos(angles), radii * np.sin(angles), heights], axis=1)
