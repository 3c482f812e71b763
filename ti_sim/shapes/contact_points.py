"""Contact points of bodies with a plane, as rows of numbers for the solvers.

A point is one of three kinds:

- a ball: a vertex (radius 0), the centre of a sphere, the end of a capsule's axis. Its lowest point touches;
- a quarter of a rim: one of four points of a circle (the end of a cylinder or the base of a cone), at the angle of the circle's
  lowest point and 90, 180 and 270 degrees further. A lying cylinder rolls on the lowest points of its ends; a standing one rests
  on the four points of its lower end. The sum over four such points of forces that are linear in depth does not depend on the
  angle, so the force does not jump when the lowest point moves around the rim;
- a patch: a vertex that represents a part of the surface, with the area vector of a third of each adjacent face. If the contact
  parameters are per area, they are multiplied by the part of that area that faces the plane. The sum over a closed surface is the
  integral of the pressure over the submerged part (for the stiffness alone: its volume), independent of the resolution of the
  mesh.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ti_sim.shapes.surface import TriangleMesh, merge_vertices

# Columns of a point's row, and their number in a model with balls only.
POSITION = 0  # 3, relative to the centre of mass, body axes [m]
RADIUS = 3  # of a ball or rim [m]
KIND = 4
VECTOR = 5  # 3, body axes: unit axis of a rim; area vector of a patch [m2], out of the body
POINT_SIZE = 8
BALL_SIZE = 4

# Kinds. The four quarters of a rim are RIM to RIM + 3.
BALL, RIM, PATCH = 0, 1, 5


def balls(centers: np.ndarray, radius: float = 0.0) -> np.ndarray:
    """Rows [P, POINT_SIZE] of vertices, or of balls at ``centers`` [P, 3] m."""
    rows = np.zeros((len(centers), POINT_SIZE))
    rows[:, POSITION : POSITION + 3] = centers
    rows[:, RADIUS] = radius
    return rows


def rim(center: np.ndarray, radius: float, axis: np.ndarray) -> np.ndarray:
    """Rows [4, POINT_SIZE] of a circle about ``center`` [3] m in the plane with unit normal ``axis`` [3]."""
    rows = balls(np.tile(center, (4, 1)), radius)
    rows[:, KIND] = RIM + np.arange(4)
    rows[:, VECTOR:] = axis
    return rows


def patches(surface: TriangleMesh) -> np.ndarray:
    """Rows [P, POINT_SIZE] of a surface's merged vertices, each with a third of the area of every adjacent face.

    Args:
        surface: surface with outward normals; m.
    """
    points, index = merge_vertices(surface.vertices)
    a, b, c = np.moveaxis(surface.vertices[surface.faces], 1, 0)
    area = np.zeros_like(points)
    np.add.at(area, index[surface.faces], (np.cross(b - a, c - a) / 6.0)[:, None])
    rows = balls(points)
    rows[:, KIND] = PATCH
    rows[:, VECTOR:] = area
    return rows[np.unique(index[surface.faces])]


def max_parameter_factor(rows: np.ndarray) -> float:
    """Largest factor of the contact parameters of a body on a plane.

    It is 1 for points; for patches the largest projected area in one of six directions [m2].
    """
    area_vectors = rows[rows[:, KIND] == PATCH, VECTOR:]
    projected_areas = [np.maximum(0.0, sign * area_vectors[:, axis]).sum() for axis in range(3) for sign in (-1.0, 1.0)]
    return float(max(projected_areas)) if len(area_vectors) else 1.0


def placed(rows: np.ndarray, rotation: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """The points rotated by a rotation matrix [3, 3] and then translated by ``offset`` [3] m."""
    placed_rows = rows.copy()
    placed_rows[:, POSITION : POSITION + 3] = rows[:, POSITION : POSITION + 3] @ rotation.T + offset
    placed_rows[:, VECTOR:] = rows[:, VECTOR:] @ rotation.T
    return placed_rows


def point_table(points: tuple[np.ndarray, ...]) -> np.ndarray:
    """Points of several bodies in one table for kernels.

    Args:
        points: for each body [P, 3] positions of vertices, or rows [P, POINT_SIZE].

    Returns:
        [max(P, 1), BALL_SIZE] float64 where all are balls, else [P, POINT_SIZE].
    """
    rows = [np.asarray(cloud, dtype=np.float64).reshape(len(cloud), -1) for cloud in points if len(cloud)]
    table = np.concatenate([balls(cloud) if cloud.shape[1] == 3 else cloud for cloud in rows] or [np.zeros((1, POINT_SIZE))])
    return table if (table[:, KIND] != BALL).any() else np.ascontiguousarray(table[:, :BALL_SIZE])


class WithContactPoints:
    """Part of a model that has contact points.

    Attributes:
        contact_points: rows of the points of each body.
    """

    contact_points: tuple[np.ndarray, ...]

    @cached_property
    def point(self) -> np.ndarray:
        """Table of all contact points, [max(P, 1), 4 or 8] float64, see ``point_table``."""
        return point_table(self.contact_points)

    @cached_property
    def point_reach(self) -> np.ndarray:
        """Radius of the ball about each body's centre that contains its contact points, [N] float64 m; 0 without points."""
        tables = [point_table((points,)) for points in self.contact_points]
        radii = [(np.linalg.norm(table[:, :RADIUS], axis=1) + table[:, RADIUS]).max() for table in tables]
        return np.array(radii or [0.0])

    @property
    def has_rims_or_patches(self) -> bool:
        """Whether the contact points include rims or patches, which depend on the rotation of the body."""
        return self.point.shape[1] > BALL_SIZE
