"""Colours of a mesh: which unknown colour each face corner shows, and which colours are neighbours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

CREASE = np.cos(np.radians(30.0))  # cosine of the angle between two faces from which on they share no colour
SAME_PLACE = 1e-6  # of the mesh's extent: vertices nearer than that are one


@dataclass(frozen=True)
class Palette:
    """N unknown colours of a mesh.

    Attributes:
        corner: [F, 3] number of the colour at each corner.
        count: N.
        neighbours: [P, 2] pairs of colours that are pulled together.
    """

    corner: np.ndarray
    count: int
    neighbours: np.ndarray

    @staticmethod
    def of(faces: np.ndarray, vertices: np.ndarray, vertex_body: np.ndarray, colors: str) -> Palette:
        """The colours of a mesh.

        Args:
            faces: [F, 3] vertices.
            vertices: [V, 3] in the frame of their body [m].
            vertex_body: [V] body of every vertex.
            colors: "vertex", "face" or "body" (``LookSettings``).
        """
        if colors == "body":
            _, body = np.unique(vertex_body[faces[:, 0]], return_inverse=True)
            return Palette(np.repeat(body[:, None], 3, axis=1), int(body.max()) + 1, np.zeros((0, 2), dtype=np.int64))
        pairs, ends = _shared_edges(_places(vertices, vertex_body)[faces])
        if colors == "face":
            number = np.arange(len(faces))
            return Palette(np.repeat(number[:, None], 3, axis=1), len(faces), pairs)
        normals = _normals(vertices[faces])
        smooth = (normals[pairs[:, 0]] * normals[pairs[:, 1]]).sum(axis=1) > CREASE
        links = ends[smooth].reshape(-1, 2)
        graph = coo_matrix((np.ones(len(links)), links.T), shape=(faces.size, faces.size))
        count, label = connected_components(graph, directed=False)
        corner = label.reshape(faces.shape).astype(np.int64)
        edges = np.sort(corner[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
        return Palette(corner, count, np.unique(edges[edges[:, 0] != edges[:, 1]], axis=0))


def _places(vertices: np.ndarray, vertex_body: np.ndarray) -> np.ndarray:
    """[V] equal numbers for vertices of one body at one place."""
    grid = np.round(vertices / (SAME_PLACE * max(float(np.ptp(vertices, axis=0).max()), 1e-30))).astype(np.int64)
    return np.unique(np.column_stack([vertex_body, grid]), axis=0, return_inverse=True)[1].reshape(-1)


def _shared_edges(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of faces [P, 2] that share an edge, and the corners [P, 2, 2] (numbered 3 face + k) that meet at its two ends."""
    first = np.arange(places.size)
    second = first - first % 3 + (first + 1) % 3
    flat = places.reshape(-1)
    swap = flat[first] > flat[second]
    low, high = np.where(swap, second, first), np.where(swap, first, second)
    order = np.lexsort((flat[high], flat[low]))
    low, high = low[order], high[order]
    same = (flat[low][1:] == flat[low][:-1]) & (flat[high][1:] == flat[high][:-1])
    ends = np.stack([np.stack([low[:-1], low[1:]], axis=1), np.stack([high[:-1], high[1:]], axis=1)], axis=1)[same]
    return ends[:, 0] // 3, ends


def _normals(corners: np.ndarray) -> np.ndarray:
    """[F, 3] unit normals of faces with corners [F, 3, 3]."""
    across = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    return across / np.maximum(np.linalg.norm(across, axis=1, keepdims=True), 1e-30)
