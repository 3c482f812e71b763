"""Closed surfaces as tensors: spheres, their mass properties by the vertices, and distances between two of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from scipy.spatial import cKDTree

_NEAR = 24  # triangles that a point is compared with first


@dataclass(frozen=True, eq=False)
class SolidOf:
    """Mass properties of the solid inside a surface, differentiable in its vertices.

    Attributes:
        volume: [] m3.
        centre: [3] centre of mass [m].
        inertia: [3, 3] m2, inertia about the centre of mass divided by the mass, along the axes of the vertices' frame.
    """

    volume: torch.Tensor
    centre: torch.Tensor
    inertia: torch.Tensor


def solid_of(vertices: torch.Tensor, faces: torch.Tensor) -> SolidOf:
    """Mass properties of a homogeneous solid: the sum of the signed tetrahedra between its faces and the mean vertex.

    The tetrahedron (0, a, b, c) has the volume det(a b c) / 6, the centre (a + b + c) / 4 and the second moment
    det(a b c) / 120 (s s^T + a a^T + b b^T + c c^T), s = a + b + c.

    Args:
        vertices: [V, 3] m.
        faces: [F, 3] int64, counter-clockwise seen from outside.
    """
    origin = vertices.detach().mean(dim=0)
    corners = (vertices - origin)[faces]
    determinant = (corners[:, 0] * torch.linalg.cross(corners[:, 1], corners[:, 2])).sum(dim=1)
    total = corners.sum(dim=1)
    volume = determinant.sum() / 6
    centre = determinant @ total / (24 * volume)
    second = torch.einsum("f,fi,fj->ij", determinant, total, total)
    second = (second + torch.einsum("f,fki,fkj->ij", determinant, corners, corners)) / (120 * volume)
    second = second - torch.outer(centre, centre)
    inertia = torch.trace(second) * torch.eye(3, dtype=second.dtype) - second
    return SolidOf(volume, origin + centre, inertia)


@cache
def sphere(divisions: int) -> tuple[np.ndarray, np.ndarray]:
    """Vertices [V, 3] on the unit sphere and faces [F, 3]: an icosahedron whose triangles are divided into four, repeatedly."""
    golden = (1 + 5**0.5) / 2
    points = [point for a in (1.0, -1.0) for b in (golden, -golden) for point in ((0.0, a, b), (a, b, 0.0), (b, 0.0, a))]
    vertices = np.array(points) / np.hypot(1, golden)
    is_adjacent = np.linalg.norm(vertices[:, None] - vertices, axis=2) < 1.2  # an edge is 1.05 long
    triples = [
        (i, j, k) for i in range(12) for j in range(i) for k in range(j)
        if is_adjacent[i, j] and is_adjacent[j, k] and is_adjacent[i, k]
    ]  # fmt: skip
    faces = np.array([t if np.linalg.det(vertices[list(t)]) > 0 else t[::-1] for t in triples])
    for _ in range(divisions):
        vertices, faces = _divided(vertices, faces)
    return vertices, faces


def _divided(vertices: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    sides = np.sort(faces[:, [[0, 1], [1, 2], [2, 0]]], axis=2)
    edges, number = np.unique(sides.reshape(-1, 2), axis=0, return_inverse=True)
    middle = vertices[edges].sum(axis=1)
    middle /= np.linalg.norm(middle, axis=1, keepdims=True)
    ab, bc, ca = (number.reshape(-1, 3) + len(vertices)).T
    a, b, c = faces.T
    triangles = [np.stack(corners, axis=1) for corners in ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))]
    return np.concatenate([vertices, middle]), np.concatenate(triangles)


def surface_distance(first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray]) -> float:
    """Mean distance of two surfaces, each one's area-weighted triangle centres to the other's nearest point, averaged [m].

    Args:
        first, second: vertices [V, 3] and faces [F, 3].
    """
    return 0.5 * (_one_sided(first, second) + _one_sided(second, first))


def _one_sided(source: tuple[np.ndarray, np.ndarray], target: tuple[np.ndarray, np.ndarray]) -> float:
    vertices, faces = source
    corners = vertices[faces]
    area = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1)
    return float(area @ distances_to(corners.mean(axis=1), *target) / area.sum())


def distances_to(points: np.ndarray, vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """[P] distances of points [P, 3] from the nearest point of a surface [m]; exact."""
    corners = vertices[faces]
    centres = corners.mean(axis=1)
    reach = np.linalg.norm(corners - centres[:, None], axis=2).max()  # of a triangle from its centre
    count = min(_NEAR, len(faces))
    away, nearest_triangles = cKDTree(centres).query(points, count)
    nearest = _to_triangles(points[:, None], corners[nearest_triangles.reshape(len(points), count)]).min(axis=1)
    farthest = away.reshape(len(points), count)[:, -1]  # other triangles are no nearer than this less the reach
    doubtful = (nearest > farthest - reach) & (count < len(faces))
    for number in np.flatnonzero(doubtful):
        nearest[number] = _to_triangles(points[number, None, None], corners[None]).min()
    return nearest


def _to_triangles(points: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Distances of points [P, 1, 3] from triangles [P or 1, F, 3, 3]: to the plane inside, else to the nearest of three edges."""
    a, ab, ac = corners[:, :, 0], corners[:, :, 1] - corners[:, :, 0], corners[:, :, 2] - corners[:, :, 0]
    normal = np.cross(ab, ac)
    squared = (normal**2).sum(axis=-1)
    from_a = points - a
    v = (np.cross(from_a, ac) * normal).sum(axis=-1) / squared
    w = (np.cross(ab, from_a) * normal).sum(axis=-1) / squared
    plane = np.abs((from_a * normal).sum(axis=-1)) / np.sqrt(squared)
    sides = [_to_edge(points, corners[:, :, k], corners[:, :, (k + 1) % 3]) for k in range(3)]
    return np.where((v >= 0) & (w >= 0) & (v + w <= 1), plane, np.min(sides, axis=0))


def _to_edge(points: np.ndarray, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
    way, offset = stop - start, points - start
    along = np.clip((offset * way).sum(axis=-1) / (way**2).sum(axis=-1), 0, 1)
    return np.linalg.norm(offset - along[..., None] * way, axis=-1)
