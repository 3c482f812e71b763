"""Plain numpy: elastic energy of two boxes from the features of both (``ti_sim.articulated.surface_contact``)."""

import numpy as np

from tests.reference.numpy_rigid import rotation
from ti_sim.contact.collision import CollisionShape

_PLACES = np.linspace(-1, 1, 401)


def depth_in_box(x: np.ndarray, half: np.ndarray) -> np.ndarray:
    """Depths of points [..., 3] in a box, the smooth minimum of those below its six faces [m]; minus the distance outside."""
    below = np.concatenate([half - x, half + x], axis=-1)
    inside = (below > 0).all(axis=-1)
    within = (np.where(inside[..., None], below, 1.0) ** -8.0).sum(axis=-1) ** (-1 / 8)
    return np.where(inside, within, -np.linalg.norm(x - np.clip(x, -half, half), axis=-1))


def largest_depth(middle: np.ndarray, along: np.ndarray, half: np.ndarray, reach: float) -> float:
    """Largest value along an edge of the sum of depth and ``reach`` times its window, minus ``reach``."""

    def windowed(t: np.ndarray) -> np.ndarray:
        return (1 - t * t) * (reach + depth_in_box(middle + t[:, None] * along, half)) - reach

    places = _PLACES
    for _ in range(6):
        best = int(windowed(places).argmax())
        places = np.linspace(places[max(best - 1, 0)], places[min(best + 1, len(places) - 1)], 101)
    return float(windowed(places).max())


def energy_over_ke(shapes: tuple[CollisionShape, CollisionShape], poses: np.ndarray) -> float:
    """Energy over ke [m2] of two boxes at poses [2, 7]."""
    total, reach = 0.0, 0.01 * min(min(shape.size) for shape in shapes)
    for i, j in ((0, 1), (1, 0)):
        own, other = rotation(poses[[i, j], 3:] / np.linalg.norm(poses[[i, j], 3:], axis=1, keepdims=True))
        half = np.array(shapes[j].size)
        for row in shapes[i].features:
            middle = other.T @ (own @ row[:3] + poses[i, :3] - poses[j, :3])
            along = other.T @ own @ row[3:6]
            depth = largest_depth(middle, along, half, reach) if row[3:6].any() else depth_in_box(middle, half)
            total += row[6] * max(float(depth), 0.0) ** 4
    return 0.5 * np.sqrt(total)
