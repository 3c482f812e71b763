"""Transfer of colours and texture coordinates from one surface to another close to it."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist

from ti_sim.meshes.solid import SolidMesh
from ti_sim.shapes.surface import TriangleMesh, merge_vertices

_MAX_PAIRS = 1 << 22  # maximum number of point-face distances in memory
_SEAM_TOLERANCE = 2.0  # of the size of a face in the texture: a corner farther from its expected uv is across a seam


def with_transferred_attributes(mesh: SolidMesh, surface: TriangleMesh) -> SolidMesh:
    """The mesh with the attributes of a surface: each face gets those of the closest face, each corner those of the closest
    point.

    Texture coordinates have seams, where adjacent faces show different parts of the texture. All corners of a face stay on the
    same side of a seam: if the closest point of a corner is on another chart of the texture, or beyond the seam of a closed
    chart, the corner gets coordinates extrapolated from the plane of the closest face.

    Args:
        mesh: mesh whose surface is close to ``surface``.
        surface: surface with the attributes.
    """
    corners = surface.vertices[surface.faces]
    faces = mesh.faces
    source_face, _ = closest_faces(mesh.vertices[faces].mean(axis=1), corners)
    used_vertices, inverse = np.unique(faces, return_inverse=True)
    colors = uv = None
    if surface.vertex_colors is not None or surface.uv is not None:
        vertex_face, closest_points = closest_faces(mesh.vertices[used_vertices], corners)
        weights = _plane_coordinates(closest_points, corners[vertex_face])
    if surface.vertex_colors is not None:
        colors = np.zeros((len(mesh.vertices), 3))  # black inside, which is not visible
        blended = np.einsum("nk,nkc->nc", weights, surface.vertex_colors[surface.faces[vertex_face]])
        colors[used_vertices] = np.clip(blended, 0.0, 1.0)
    if surface.uv is not None:
        closest_uv = np.einsum("nk,nkc->nc", weights, surface.uv[vertex_face])[inverse.reshape(faces.shape)]
        points = mesh.vertices[faces].reshape(-1, 3)
        plane_weights = _plane_coordinates(points, np.repeat(corners[source_face], 3, axis=0)).reshape(-1, 3, 3)
        expected_uv = np.einsum("fpk,fkc->fpc", plane_weights, surface.uv[source_face])
        uv_size = np.linalg.norm(expected_uv - expected_uv.mean(axis=1, keepdims=True), axis=2).max(axis=1)
        chart = _charts(surface)
        is_same_chart = chart[vertex_face][inverse.reshape(faces.shape)] == chart[source_face][:, None]
        is_beyond = ~(
            is_same_chart & (np.linalg.norm(closest_uv - expected_uv, axis=2) <= _SEAM_TOLERANCE * uv_size[:, None] + 1e-9)
        )  # NaN is beyond, too
        uv = np.where(is_beyond[..., None], expected_uv, closest_uv)
    return mesh.with_attributes(
        vertex_colors=colors, face_colors=None if surface.face_colors is None else surface.face_colors[source_face],
        face_groups=surface.face_groups[source_face], uv=uv, textures=surface.textures,
        face_texture=None if surface.face_texture is None else surface.face_texture[source_face],
    )  # fmt: skip


def closest_faces(points: np.ndarray, corners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The closest triangle of each point.

    Args:
        points: [n, 3] m.
        corners: [F, 3, 3] corners of the triangles [m].

    Returns:
        Indices of the triangles [n], and the closest points on them [n, 3] m.
    """
    from trimesh.triangles import closest_point  # deferred: this import takes half a second

    centers = corners.mean(axis=1)
    radii = np.linalg.norm(corners - centers[:, None], axis=2).max(axis=1)
    face_indices, face_points = np.empty(len(points), dtype=np.int64), np.empty((len(points), 3))
    rows = max(1, _MAX_PAIRS // len(corners))
    for start in range(0, len(points), rows):
        chunk = points[start : start + rows]
        distance = cdist(chunk, centers)
        # A triangle is within its radius of its centre, and the closest one is not farther away than the closest centre.
        point, face = np.nonzero(distance - radii <= distance.min(axis=1, keepdims=True))
        closest_points = closest_point(corners[face], chunk[point])
        distances = np.linalg.norm(closest_points - chunk[point], axis=1)
        order = np.lexsort((distances, point))
        first_pairs = order[np.searchsorted(point[order], np.arange(len(chunk)))]
        face_indices[start : start + rows], face_points[start : start + rows] = face[first_pairs], closest_points[first_pairs]
    return face_indices, face_points


def _charts(surface: TriangleMesh) -> np.ndarray:
    """Index [F] of the chart of each face: connected faces that share vertices with equal texture coordinates."""
    _, point = merge_vertices(surface.vertices)
    corner_keys = np.concatenate([point[surface.faces][..., None], np.nan_to_num(surface.uv, nan=-np.inf)], axis=2)
    _, node = np.unique(corner_keys.reshape(-1, 3), axis=0, return_inverse=True)
    links = node.reshape(-1, 3)[:, [0, 1, 1, 2]].reshape(-1, 2)
    graph = coo_matrix((np.ones(len(links)), (links[:, 0], links[:, 1])), shape=(node.max() + 1,) * 2)
    return connected_components(graph, directed=False)[1][node.reshape(-1, 3)[:, 0]]


def _plane_coordinates(points: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Barycentric coordinates [n, 3] of points [n, 3], projected onto the planes of triangles [n, 3, 3]."""
    first, second, offset = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0], points - corners[:, 0]
    normal = np.cross(first, second)
    normal_squared = np.einsum("ni,ni->n", normal, normal)
    b = np.einsum("ni,ni->n", np.cross(offset, second), normal) / normal_squared
    c = np.einsum("ni,ni->n", np.cross(first, offset), normal) / normal_squared
    return np.stack([1.0 - b - c, b, c], axis=1)
