"""Features of a surface by which it touches others: corners, points on large faces, and sharp edges, each with a weight."""

import numpy as np

from ti_sim.shapes.contact_points import POSITION, RADIUS
from ti_sim.shapes.surface import TriangleMesh, merge_vertices

# Columns of a feature's row: position of a point or of the middle of an edge [m], half vector of an edge (zeros for a point) [m],
# weight [1].
FEATURE_VECTOR = 3
FEATURE_WEIGHT = 6
FEATURE_SIZE = 7

_PATCHES_PER_SURFACE = 48  # a triangle larger than 1 / 48 of the surface gets additional points
_SHARP_COSINE = np.cos(np.radians(20.0))  # cosine of the angle between two face normals below which their edge is sharp
_MAX_TOTAL_CORNER_WEIGHT = 192  # largest total weight of the corners
_FACE_POINT_POSITION = 2 / 3  # position of a point on the face of a box, in half sides


def surface_features(corners: np.ndarray, surface: TriangleMesh) -> np.ndarray:
    """Points and edges of a closed surface, with the weights of ``ti_sim.articulated.surface_contact``.

    A corner has the weight 1, or 192 over the number of corners where there are more. A triangle larger than 1/48 of the surface
    is divided into k^2 equal ones of at most that size, whose centres are points that share the weight 4. Convex edges are sharp
    if the normals of their faces differ by more than 20 degrees; those longer than the side of a square of 1/48 of the surface
    have the weight 1. A rectangular face with its border then has the total weight 16.

    Args:
        corners: [V, 3] points that are always included [m].
        surface: the surface, in the frame of the corners.

    Returns:
        [F, FEATURE_SIZE] rows, points first.
    """
    points, index = merge_vertices(surface.vertices)
    faces = index[surface.faces]
    a, b, c = np.moveaxis(points[faces], 1, 0)
    normals = np.cross(b - a, c - a)
    double_area = np.linalg.norm(normals, axis=1)
    patch_area = 0.5 * double_area.sum() / _PATCHES_PER_SURFACE
    normals /= double_area[:, None]
    rows = [_rows(corners, weight=min(1.0, _MAX_TOTAL_CORNER_WEIGHT / max(len(corners), 1)))]
    for face in np.flatnonzero(0.5 * double_area > (1 + 1e-9) * patch_area):
        divisions = int(np.ceil(np.sqrt(0.5 * double_area[face] / patch_area) - 1e-9))
        rows.append(_rows(_subtriangle_centres(divisions) @ points[faces[face]], weight=4 / divisions**2))
    edge_middles, half_vectors = _sharp_edges(points, faces, normals, np.sqrt(patch_area))
    return np.concatenate([*rows, _rows(edge_middles, half_vectors)])


def rim_features(rims: np.ndarray) -> np.ndarray:
    """Features of round rims: 256 points with the total weight 32, and 16 points on the face inside with the total weight 8.

    The points of a rim are so close that a body rolls on them as on a circle.

    Args:
        rims: [R, POINT_SIZE] contact points of kind ``RIM`` (``ti_sim.shapes.contact_points``), one per rim, with axes along z.
    """
    rows = []
    for row in rims:
        for count, radius, weight in ((256, row[RADIUS], 32.0), (16, 0.8 * row[RADIUS], 8.0)):
            angle = 2 * np.pi * np.arange(count) / count
            circle = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
            rows.append(_rows(row[POSITION : POSITION + 3] + radius * circle, weight=weight / count))
    return np.concatenate(rows)


def box_features(half_size: np.ndarray) -> np.ndarray:
    """Features of a box with half sizes ``half_size`` [3] m: 8 corners, 4 points of weight 2 on each face, and 12 edges."""
    signs = np.array(list(np.ndindex(2, 2, 2))) * 2.0 - 1.0
    face_points, edge_middles, half_vectors = [], [], []
    for axis in range(3):
        face_points.append(np.where(np.arange(3) == axis, 1.0, _FACE_POINT_POSITION) * signs)
        edge_middles.append(np.where(np.arange(3) == axis, 0.0, 1.0) * signs[signs[:, axis] > 0])
        half_vectors.append(np.tile(np.eye(3)[axis], (4, 1)))
    edges = _rows(half_size * np.concatenate(edge_middles), half_size * np.concatenate(half_vectors))
    return np.concatenate([_rows(half_size * signs), _rows(half_size * np.concatenate(face_points), weight=2.0), edges])


def _rows(positions: np.ndarray, half_vectors: np.ndarray | float = 0.0, *, weight: float = 1.0) -> np.ndarray:
    """Rows of features at positions [n, 3] with half vectors [n, 3]."""
    rows = np.full((len(positions), FEATURE_SIZE), weight)
    rows[:, :FEATURE_VECTOR] = positions
    rows[:, FEATURE_VECTOR:FEATURE_WEIGHT] = half_vectors
    return rows


def _subtriangle_centres(divisions: int) -> np.ndarray:
    """Barycentric coordinates [divisions^2, 3] of the centres of the equal triangles into which a triangle is divided by lines
    parallel to its sides.
    """
    upward_centres = [(i + 1 / 3, j + 1 / 3) for i in range(divisions) for j in range(divisions - i)]
    downward_centres = [(i + 2 / 3, j + 2 / 3) for i in range(divisions - 1) for j in range(divisions - 1 - i)]
    first_weight, second_weight = np.array(upward_centres + downward_centres).T / divisions
    return np.stack([first_weight, second_weight, 1 - first_weight - second_weight], axis=1)


def _sharp_edges(points: np.ndarray, faces: np.ndarray, normals: np.ndarray, min_length: float) -> tuple[np.ndarray, np.ndarray]:
    """Middles and half vectors, each [E, 3] m, of the convex sharp edges longer than ``min_length`` [m]."""
    half_edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    face_of_edge, opposite_vertex = np.tile(np.arange(len(faces)), 3), np.concatenate([faces[:, 2], faces[:, 0], faces[:, 1]])
    order = np.lexsort(np.sort(half_edges, axis=1).T)
    first, second = order[:-1], order[1:]
    is_shared = (np.sort(half_edges[first], axis=1) == np.sort(half_edges[second], axis=1)).all(axis=1)
    first, second = first[is_shared], second[is_shared]
    start, stop = points[half_edges[first, 0]], points[half_edges[first, 1]]
    is_sharp = np.einsum("ek,ek->e", normals[face_of_edge[first]], normals[face_of_edge[second]]) < _SHARP_COSINE
    is_convex = np.einsum("ek,ek->e", normals[face_of_edge[first]], points[opposite_vertex[second]] - start) < 0
    is_feature = is_sharp & is_convex & (np.linalg.norm(stop - start, axis=1) > min_length)
    return 0.5 * (start + stop)[is_feature], 0.5 * (stop - start)[is_feature]
