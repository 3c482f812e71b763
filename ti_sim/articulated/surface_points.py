"""Contact points and edges of a surface: corners, points on large faces and long edges, sharp edges."""

import numpy as np

from ti_sim.shapes.surface import TriangleMesh, merge_vertices

_PATCHES = 48  # a triangle larger than 1 / 48 of the surface gets additional points
_SHARP = np.cos(np.radians(20.0))  # cosine of the angle between two face normals below which their edge is sharp


def surface_points(corners: np.ndarray, surface: TriangleMesh) -> tuple[np.ndarray, np.ndarray]:
    """Points and edges of a closed surface.

    A triangle larger than 1/48 of the surface is divided into k^2 equal ones of at most that size, whose centres become points.
    Convex edges are sharp if the normals of their faces differ by more than 20 degrees, and used if they are longer than the side
    of a square of 1/48 of the surface; the middles of their segments, about two such sides long, become points, too.

    Args:
        corners: [V, 3] points that are always included [m].
        surface: the surface, in the frame of the corners.

    Returns:
        (points [P, 6], the corners first: position [m], and the outward unit normal for points within faces, else zeros; edges
        [E, 6]: middle and half vector, m).
    """
    points, index = merge_vertices(surface.vertices)
    faces = index[surface.faces]
    a, b, c = np.moveaxis(points[faces], 1, 0)
    normals = np.cross(b - a, c - a)
    double_area = np.linalg.norm(normals, axis=1)
    patch = 0.5 * double_area.sum() / _PATCHES
    inner = [_with_normal(corners, np.zeros(3))]
    normals /= double_area[:, None]
    for face in np.flatnonzero(0.5 * double_area > (1 + 1e-9) * patch):
        cuts = int(np.ceil(np.sqrt(0.5 * double_area[face] / patch) - 1e-9))
        inner.append(_with_normal(_middles(cuts) @ points[faces[face]], normals[face]))
    edges = _sharp_edges(points, faces, normals, np.sqrt(patch))
    for edge in edges:
        cuts = max(round(float(np.linalg.norm(edge[3:]) / np.sqrt(patch))), 1)
        inner.append(_with_normal(edge[:3] + ((2 * np.arange(cuts) + 1) / cuts - 1)[:, None] * edge[3:], np.zeros(3)))
    return np.concatenate(inner), edges


def _with_normal(places: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """Positions [n, 3] joined with a normal [3]: [n, 6]."""
    return np.concatenate([places, np.tile(normal, (len(places), 1))], axis=1)


def _middles(cuts: int) -> np.ndarray:
    """Barycentric coordinates [cuts^2, 3] of the centres of the triangles into which lines parallel to its sides divide a
    triangle.
    """
    up = [(i + 1 / 3, j + 1 / 3) for i in range(cuts) for j in range(cuts - i)]
    down = [(i + 2 / 3, j + 2 / 3) for i in range(cuts - 1) for j in range(cuts - 1 - i)]
    first, second = np.array(up + down).T / cuts
    return np.stack([first, second, 1 - first - second], axis=1)


def _sharp_edges(points: np.ndarray, faces: np.ndarray, normals: np.ndarray, longer: float) -> np.ndarray:
    """Middles and half vectors [E, 6] of the convex sharp edges longer than a given length."""
    ends = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    owner, third = np.tile(np.arange(len(faces)), 3), np.concatenate([faces[:, 2], faces[:, 0], faces[:, 1]])
    order = np.lexsort(np.sort(ends, axis=1).T)
    one, other = order[:-1], order[1:]
    same = (np.sort(ends[one], axis=1) == np.sort(ends[other], axis=1)).all(axis=1)
    one, other = one[same], other[same]
    start, end = points[ends[one, 0]], points[ends[one, 1]]
    sharp = np.einsum("ek,ek->e", normals[owner[one]], normals[owner[other]]) < _SHARP
    convex = np.einsum("ek,ek->e", normals[owner[one]], points[third[other]] - start) < 0
    kept = sharp & convex & (np.linalg.norm(end - start, axis=1) > longer)
    return np.concatenate([0.5 * (start + end), 0.5 * (end - start)], axis=1)[kept]
