"""Colours of a mesh: which unknown colour each place of a face shows, and which colours are neighbours."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from risp_torch.inversion.appearance.model.lattice import Lattice

GREY = 0.5
CREASE = np.cos(np.radians(30.0))  # cosine of the angle between two faces from which on they share no colour
SAME_PLACE = 1e-6  # of the mesh's extent: vertices nearer than that are one


@dataclass(frozen=True)
class Palette:
    """N unknown colours of a mesh.

    Attributes:
        corner: [F, T] number of the colour at each place of the lattice; of its three corners for one division.
        count: N.
        neighbours: [P, 2] pairs of colours that are pulled together.
        lattice: places of the colours in a face.
        shadows: number of the last colours that are no body's but what a shadow adds to the plate (``with_shadows``).
    """

    corner: np.ndarray
    count: int
    neighbours: np.ndarray
    lattice: Lattice = Lattice(1)
    shadows: int = 0

    @staticmethod
    def of(faces: np.ndarray, vertices: np.ndarray, vertex_body: np.ndarray, colors: str, *, texels: int = 4) -> Palette:
        """The colours of a mesh.

        Args:
            faces: [F, 3] vertices.
            vertices: [V, 3] in the frame of their body [m].
            vertex_body: [V] body of every vertex.
            colors: "texel", "vertex", "face" or "body" (``LookSettings``).
            texels: divisions of an edge, of "texel".
        """
        arrays = (np.ascontiguousarray(array) for array in (faces, vertices, vertex_body))
        return _palette_of(colors, texels, *((array.tobytes(), array.dtype.str, array.shape) for array in arrays))

    def with_shadows(self, shadows: int) -> Palette:
        """The same colours, followed by those of ``shadows`` shadows."""
        return replace(self, count=self.count + shadows, shadows=shadows)

    @property
    def bodies(self) -> int:
        """Number of colours of bodies, which come first."""
        return self.count - self.shadows

    @property
    def regularisation_target(self) -> np.ndarray:
        """[N, 1] colours to which the regularisation draws: grey, and 0 for shadows."""
        return np.where(np.arange(self.count) < self.bodies, GREY, 0.0)[:, None]


@lru_cache(maxsize=8)  # a search solves many looks of one mesh
def _palette_of(colors: str, texels: int, *contents: tuple[bytes, str, tuple[int, ...]]) -> Palette:
    """``Palette.of`` of arrays by their bytes, types and shapes."""
    faces, vertices, vertex_body = (np.frombuffer(data, dtype).reshape(shape) for data, dtype, shape in contents)
    if colors == "body":
        _, body = np.unique(vertex_body[faces[:, 0]], return_inverse=True)
        return Palette(np.repeat(body[:, None], 3, axis=1), int(body.max()) + 1, np.zeros((0, 2), dtype=np.int64))
    pairs, shared_corners = _shared_edges(_places(vertices, vertex_body)[faces])
    if colors == "face":
        number = np.arange(len(faces))
        return Palette(np.repeat(number[:, None], 3, axis=1), len(faces), pairs)
    normals = _normals(vertices[faces])
    smooth = (normals[pairs[:, 0]] * normals[pairs[:, 1]]).sum(axis=1) > CREASE
    lattice = Lattice(texels if colors == "texel" else 1)
    links = _links(shared_corners[smooth], lattice)
    size = len(faces) * len(lattice.places)
    graph = coo_matrix((np.ones(len(links)), links.T), shape=(size, size))
    count, label = connected_components(graph, directed=False)
    corner = label.reshape(len(faces), -1).astype(np.int64)
    edges = np.sort(corner[:, lattice.neighbours].reshape(-1, 2), axis=1)
    return Palette(corner, count, np.unique(edges[edges[:, 0] != edges[:, 1]], axis=0), lattice)


def _places(vertices: np.ndarray, vertex_body: np.ndarray) -> np.ndarray:
    """[V] equal numbers for vertices of one body at one place."""
    grid = np.round(vertices / (SAME_PLACE * max(float(np.ptp(vertices, axis=0).max()), 1e-30))).astype(np.int64)
    return np.unique(np.column_stack([vertex_body, grid]), axis=0, return_inverse=True)[1].reshape(-1)


def _shared_edges(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of faces [P, 2] that share an edge, and the corners [P, 2, 2] (numbered 3 face + k) that meet at its two ends."""
    first = np.arange(positions.size)
    second = first - first % 3 + (first + 1) % 3
    flat = positions.reshape(-1)
    swap = flat[first] > flat[second]
    low, high = np.where(swap, second, first), np.where(swap, first, second)
    order = np.lexsort((flat[high], flat[low]))
    low, high = low[order], high[order]
    same = (flat[low][1:] == flat[low][:-1]) & (flat[high][1:] == flat[high][:-1])
    shared_corners = np.stack([np.stack([low[:-1], low[1:]], axis=1), np.stack([high[:-1], high[1:]], axis=1)], axis=1)[same]
    return shared_corners[:, 0] // 3, shared_corners


def _links(shared_corners: np.ndarray, lattice: Lattice) -> np.ndarray:
    """[L, 2] places (numbered T face + k) of a lattice that meet at edges with these corners [P, 2, 2] (``_shared_edges``)."""
    face, corner = shared_corners // 3, shared_corners % 3
    sides = (len(lattice.places) * face[:, :1, side] + lattice.along(corner[:, 0, side], corner[:, 1, side]) for side in range(2))
    return np.stack([side.reshape(-1) for side in sides], axis=1)


def _normals(corners: np.ndarray) -> np.ndarray:
    """[F, 3] unit normals of faces with corners [F, 3, 3]."""
    across = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    return across / np.maximum(np.linalg.norm(across, axis=1, keepdims=True), 1e-30)
