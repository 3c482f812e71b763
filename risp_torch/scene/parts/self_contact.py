"""Contact of the surfaces of a scene's deformable bodies with themselves and with one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from scipy.spatial import cKDTree

from risp_torch.scene.numbers import Values
from risp_torch.scene.parts.contact import CONTACT_FIELDS
from risp_torch.scene.parts.deformable import Deformable
from ti_sim.base.errors import UserError
from ti_sim.deformable.self_contact_layout import triangle_rings

PREFIX = "self_contact"  # of the parameter names
_MIN_INITIAL_GAP = 1e-3  # of the thickness: nearer to a triangle, a vertex has no well-defined contact normal


@dataclass(frozen=True, eq=False)
class SelfContact:
    """Surfaces with self-contact.

    Attributes:
        bodies: names of the bodies.
        triangles: [S, 3] indices of particles of the scene.
        thickness: distance at which they touch [m].
    """

    bodies: tuple[str, ...]
    triangles: np.ndarray
    thickness: float


def self_contact_rows(values: Values) -> torch.Tensor:
    """[B, 4] ke, kd, kf, mu; zeros without self-contact."""
    gravity = values["gravity"]
    if f"{PREFIX}.stiffness" not in values:
        return gravity.new_zeros(len(gravity), 4)
    return torch.stack([values[f"{PREFIX}.{field}"] for field in CONTACT_FIELDS], dim=-1)


def near_pairs(points: np.ndarray, triangles: np.ndarray, distance: float) -> list[tuple[float, int, int]]:
    """Pairs of a vertex and a triangle that are nearer than ``distance`` and not joined by an edge, as (distance, vertex,
    triangle).

    Args:
        points: [P, 3] m.
        triangles: [S, 3] points.
        distance: m.
    """
    vertices = np.unique(triangles)
    corners = points[triangles]
    centroids = corners.mean(axis=1)
    radius = np.linalg.norm(corners - centroids[:, None], axis=2).max(axis=1)
    rings = triangle_rings(triangles)
    pairs = []
    for triangle, neighbours in enumerate(cKDTree(points[vertices]).query_ball_point(centroids, radius + distance)):
        candidates = np.setdiff1d(vertices[neighbours], rings[triangle])
        if len(candidates):
            distances = _distances(points[candidates], corners[triangle])
            pairs += [(float(d), int(v), triangle) for d, v in zip(distances, candidates, strict=True) if d < distance]
    return sorted(pairs)


def _distances(points: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Distances [N] of points [N, 3] to a triangle with corners [3, 3]."""
    edge_distances = []
    for a, b in pairwise([*corners, corners[0]]):
        fraction = np.clip((points - a) @ (b - a) / ((b - a) @ (b - a)), 0.0, 1.0)
        edge_distances.append(np.linalg.norm(points - a - fraction[:, None] * (b - a), axis=1))
    normal = np.cross(corners[1] - corners[0], corners[2] - corners[0])
    projects_inside = np.ones(len(points), dtype=bool)
    for a, b in pairwise([*corners, corners[0]]):
        projects_inside &= np.cross(b - a, points - a) @ normal >= 0
    plane_distance = np.abs((points - corners[0]) @ normal) / np.linalg.norm(normal)
    return np.where(projects_inside, plane_distance, np.min(edge_distances, axis=0))


def check_start(self_contact: SelfContact, bodies: Sequence[Deformable], values: Values) -> None:
    """Raise a UserError where a vertex starts on a triangle.

    Args:
        self_contact: surfaces that touch.
        bodies: all deformable bodies of the scene.
        values: its parameters; only the first world is checked.
    """
    triangles = self_contact.triangles
    start = torch.cat([body.start(values) for body in bodies], dim=1)[0].detach().cpu().double().numpy()
    for distance, vertex, triangle in near_pairs(start, triangles, _MIN_INITIAL_GAP * self_contact.thickness)[:1]:
        vertex_body, triangle_body = (
            next(body for body in bodies if body.first_particle <= p < body.first_particle + body.count)
            for p in (vertex, triangles[triangle, 0])
        )
        raise UserError(
            f"vertex {vertex - vertex_body.first_particle} of {vertex_body.name!r} starts {distance:.3g} m from triangle "
            f"{(triangles[triangle] - triangle_body.first_particle).tolist()} of {triangle_body.name!r}, so self-contact has "
            "no direction to separate them: start with some distance between them"
        )
