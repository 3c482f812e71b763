"""Signed distance to a closed surface, sampled on a regular grid and interpolated by a smooth spline.

The distance at the nodes of the grid is exact: an octree over the nodes is traversed with the triangles that may be closest to a
block, selected by their distances from its centre. The sign is that of the angle-weighted normal of the closest face, edge or
vertex (J. A. Baerentzen and H. Aanaes, Signed distance computation using the angle weighted pseudonormal, IEEE TVCG 2005). Closed
parts of a surface are processed separately and united; parts with inward normals are cavities.

Between the nodes the field is a quadratic B-spline with continuous gradient. Its coefficients, the values minus an eighth of
their second differences, make it exact for quadratic fields. Near edges and corners it rounds the distance by about a tenth of a
cell. ``distance_kernels`` evaluates it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from ti_sim.base.errors import UserError
from ti_sim.shapes.surface import TriangleMesh, enclosed_volume, merge_vertices

_CELLS = 32  # cells along the longest side, unless the shape is thin
_THIN_CELLS = 6  # cells along the shortest side, if the number of nodes allows it
_MAX_NODES = 64**3
_MARGIN = 2  # nodes beyond the bounding box on every side
_BLOCK_NODES = 16  # nodes along a side of the initial blocks of the search
_MAX_PAIRS = 1 << 17  # pairs of points and triangles processed together


@dataclass(frozen=True, eq=False)
class DistanceField:
    """Signed distance in and around a solid, negative inside.

    Attributes:
        coefficients: [X, Y, Z] float64 coefficients of the quadratic B-splines at the nodes, m.
        low: [3] float64, first node, m.
        cell: distance between neighbouring nodes [m].
        bounding_radius: radius of the bounding sphere about the origin [m].
    """

    coefficients: np.ndarray
    low: np.ndarray
    cell: float
    bounding_radius: float


def sample_distance(surface: TriangleMesh, *, cells: int | None = None) -> DistanceField:
    """Sample the signed distance to a closed surface.

    Args:
        surface: closed surface with outward normals, m.
        cells: cells of the grid along the longest side of the bounding box; None uses 32 and, for thin solids, at least 6 along
            the shortest side if that needs no more than 64^3 nodes.

    Raises:
        UserError: the cells are too coarse for the solid: no node is inside.
    """
    vertices, faces = surface.vertices, surface.faces
    used_vertices = vertices[np.unique(faces)]

    def distance(first: np.ndarray, cell: float, counts: tuple[int, int, int]) -> np.ndarray:
        return signed_distance(vertices, faces, first, cell, counts)

    bounding_radius = float(np.linalg.norm(used_vertices, axis=1).max())
    return sample_field(distance, used_vertices.min(axis=0), np.ptp(used_vertices, axis=0), bounding_radius, cells=cells)


def sample_field(
    distance: Callable[[np.ndarray, float, tuple[int, int, int]], np.ndarray], low: np.ndarray, sides: np.ndarray,
    bounding_radius: float, *, cells: int | None = None,
) -> DistanceField:  # fmt: skip
    """Sample a signed distance on a grid about a box.

    Args:
        distance: [X, Y, Z] distances [m] at the nodes of a grid, of its first node, cell and number of nodes.
        low: [3] lowest corner of the box [m].
        sides: [3] its sides [m].
        bounding_radius: radius of the bounding sphere about the origin [m].
        cells: as of ``sample_distance``.
    """
    cell = _cell_size(sides) if cells is None else float(sides.max() / cells)
    counts = np.ceil(sides / cell).astype(int) + 1 + 2 * _MARGIN
    first_node = low + 0.5 * sides - 0.5 * cell * (counts - 1)
    values = distance(first_node - cell, cell, tuple(counts + 2))  # one more node for the differences
    if not (values < 0).any():
        raise UserError(
            f"the distance field of a mesh of {sides[0]:.3g} x {sides[1]:.3g} x {sides[2]:.3g} m with cells of {cell:.3g} m has "
            "no node inside it: use more cells (Mesh(field_cells=...)), or give it a simpler collision shape"
        )
    inner = (slice(1, -1),) * 3
    coefficients = values[inner].copy()
    for axis in range(3):
        coefficients -= np.diff(values, n=2, axis=axis)[tuple(slice(None) if k == axis else slice(1, -1) for k in range(3))] / 8
    return DistanceField(coefficients, first_node, cell, bounding_radius)


def _cell_size(sides: np.ndarray) -> float:
    """Size of a cell [m] for a bounding box with these sides [m]."""
    cell = min(sides.max() / _CELLS, sides.min() / _THIN_CELLS)
    while np.prod(np.ceil(sides / cell) + 1 + 2 * _MARGIN) > _MAX_NODES:
        cell *= 1.05
    return float(cell)


def signed_distance(
    vertices: np.ndarray, faces: np.ndarray, low: np.ndarray, cell: float, counts: tuple[int, int, int]
) -> np.ndarray:
    """Exact signed distance at the nodes of a grid.

    Args:
        vertices: [V, 3] m.
        faces: [F, 3] faces of a closed surface; equal vertices may be split.
        low: [3] first node, m.
        cell: distance between neighbouring nodes [m].
        counts: nodes along x, y, z.

    Returns:
        [X, Y, Z] m, negative inside.
    """
    points, index = merge_vertices(vertices)
    triangles = index[faces]
    edges = triangles[:, [0, 1, 1, 2]].reshape(-1, 2)
    graph = coo_matrix((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(len(points),) * 2)
    component = connected_components(graph, directed=False)[1][triangles[:, 0]]
    solid, cavity = np.full(counts, np.inf), np.full(counts, -np.inf)
    for label in np.unique(component):
        component_triangles = triangles[component == label]
        distance = _distance_to_part(points, component_triangles, low, cell, counts)
        if enclosed_volume(points, component_triangles) > 0:
            solid = np.minimum(solid, distance)
        else:
            cavity = np.maximum(cavity, distance)
    return np.maximum(solid, cavity)


def _distance_to_part(
    points: np.ndarray, triangles: np.ndarray, low: np.ndarray, cell: float, counts: tuple[int, int, int]
) -> np.ndarray:
    """``signed_distance`` of one connected part of a surface with merged vertices."""
    corners, normals = points[triangles], _pseudonormals(points, triangles)
    centers = corners.mean(axis=1)
    radii = np.linalg.norm(corners - centers[:, None], axis=2).max(axis=1)
    result = np.empty(counts)
    for start in np.ndindex(*(-(-n // _BLOCK_NODES) for n in counts)):
        nodes, first, candidates = _near_triangles(centers, radii, low, cell, counts, _BLOCK_NODES * np.array(start))
        position = low + cell * nodes
        node_index = np.repeat(np.arange(len(nodes)), np.diff(first))
        distance = np.empty(len(node_index))
        for row in range(0, len(node_index), _MAX_PAIRS):
            rows = slice(row, row + _MAX_PAIRS)
            distance[rows] = np.linalg.norm(_offset(position[node_index[rows]], corners[candidates[rows]])[0], axis=1)
        min_distance = np.minimum.reduceat(distance, first[:-1])
        closest_pairs = np.flatnonzero(distance == min_distance[node_index])
        closest = candidates[closest_pairs[np.searchsorted(node_index[closest_pairs], np.arange(len(nodes)))]]
        offsets, weights = _offset(position, corners[closest])
        on_border = weights == 0
        feature = np.choose(on_border.sum(axis=1), [0, 1 + on_border.argmax(axis=1), 4 + weights.argmax(axis=1)])
        outwards = _dot(offsets, normals[closest, feature])
        result[tuple(nodes.T)] = np.where(outwards < 0, -min_distance, min_distance)
    return result


def _near_triangles(
    centers: np.ndarray, radii: np.ndarray, low: np.ndarray, cell: float, counts: tuple[int, int, int], start: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Triangles that may be closest to the nodes of a block.

    Args:
        centers: [F, 3] centres of the triangles [m].
        radii: [F] radii of the bounding spheres at these centres [m].
        low: [3] first node [m].
        cell: distance between neighbouring nodes [m].
        counts: nodes along x, y, z.
        start: [3] first node of the first block.

    Returns:
        (nodes [n, 3], first triangle of each node [n + 1], triangles).
    """
    octants = np.array(list(np.ndindex(2, 2, 2)))
    blocks, block_size = start[None], _BLOCK_NODES
    first, candidates = np.array([0, len(centers)]), np.arange(len(centers))
    while True:
        block_index = np.repeat(np.arange(len(blocks)), np.diff(first))
        block_centers = low + cell * (blocks + 0.5 * (block_size - 1))
        centre_offset = block_centers[block_index] - centers[candidates]
        distance = np.sqrt(_dot(centre_offset, centre_offset))
        # The closest triangle of a node is farther from the centre of the block than the closest one of the centre by at most
        # twice the radius of the block.
        max_distance = np.minimum.reduceat(distance, first[:-1]) * (1 + 1e-12) + np.sqrt(3.0) * cell * (block_size - 1)
        within_reach = distance - radii[candidates] <= max_distance[block_index]
        block_index, candidates = block_index[within_reach], candidates[within_reach]
        first = np.searchsorted(block_index, np.arange(len(blocks) + 1))
        if block_size == 1:
            return blocks, first, candidates
        block_size //= 2
        children = (blocks[:, None] + block_size * octants).reshape(-1, 3)
        is_inside = (children < counts).all(axis=1)
        parent = np.repeat(np.arange(len(blocks)), 8)[is_inside]
        lengths = np.diff(first)[parent]
        stops = np.cumsum(lengths)
        candidates = candidates[np.arange(stops[-1]) + np.repeat(first[parent] - stops + lengths, lengths)]
        blocks, first = children[is_inside], np.concatenate([[0], stops])


def _offset(position: np.ndarray, corners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points [n, 3] minus the closest points of triangles [n, 3, 3], and the barycentric coordinates of those, [n, 3]."""
    weights = _barycentric(position, corners)
    return position - np.einsum("nk,nki->ni", weights, corners), weights


def _barycentric(position: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Barycentric coordinates of the closest points of triangles, [n, 3], exactly zero for points on an edge or a corner.

    The regions are those of C. Ericson, Real-Time Collision Detection, 2005, ch. 5.1.5.
    """
    ab, ac = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    offset = position - corners[:, 0]
    (d1, d2), bb, bc, cc = (_dot(ab, offset), _dot(ac, offset)), _dot(ab, ab), _dot(ab, ac), _dot(ac, ac)
    d3, d4, d5, d6 = d1 - bb, d2 - bc, d1 - bc, d2 - cc
    va, vb, vc = d3 * d6 - d5 * d4, d5 * d2 - d1 * d6, d1 * d4 - d3 * d2
    zero, one = np.zeros_like(d1), np.ones_like(d1)
    with np.errstate(divide="ignore", invalid="ignore"):  # of regions that are not selected
        on_ab, on_ac, on_bc = d1 / (d1 - d3), d2 / (d2 - d6), (d4 - d3) / (d4 - d3 + d5 - d6)
        inner_b, inner_c = vb / (va + vb + vc), vc / (va + vb + vc)
    regions = [
        (d1 <= 0) & (d2 <= 0), (d3 >= 0) & (d4 <= d3), (d6 >= 0) & (d5 <= d6),
        (vc <= 0) & (d1 >= 0) & (d3 <= 0), (vb <= 0) & (d2 >= 0) & (d6 <= 0), (va <= 0) & (d4 >= d3) & (d5 >= d6),
    ]  # fmt: skip
    weight_b = np.select(regions, [zero, one, zero, on_ab, zero, 1 - on_bc], inner_b)
    weight_c = np.select(regions, [zero, zero, one, zero, on_ac, on_bc], inner_c)
    weight_a = np.select(regions, [one, zero, zero, 1 - on_ab, 1 - on_ac, zero], 1 - inner_b - inner_c)
    return np.stack([weight_a, weight_b, weight_c], axis=1)


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.einsum("ni,ni->n", a, b)


def _pseudonormals(points: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """Normals of a closed surface's features, [F, 7, 3]: of the face, of the edges opposite its corners, of the corners."""
    corners = points[triangles]
    sides = np.roll(corners, -1, axis=1) - corners
    face_normals = np.cross(sides[:, 0], sides[:, 1])
    face_normals /= np.linalg.norm(face_normals, axis=1, keepdims=True)
    sides /= np.linalg.norm(sides, axis=2, keepdims=True)
    angles = np.arccos(np.clip(-np.einsum("fki,fki->fk", sides, np.roll(sides, 1, axis=1)), -1.0, 1.0))
    vertex_normals = np.zeros_like(points)
    np.add.at(vertex_normals, triangles, angles[:, :, None] * face_normals[:, None])
    edges = np.sort(np.stack([np.roll(triangles, -1, axis=1), np.roll(triangles, -2, axis=1)], axis=2), axis=2)
    _, edge_index = np.unique(edges.reshape(-1, 2), axis=0, return_inverse=True)
    edge_index = edge_index.reshape(triangles.shape)
    edge_normals = np.zeros((edge_index.max() + 1, 3))
    np.add.at(edge_normals, edge_index, np.repeat(face_normals[:, None], 3, axis=1))
    return np.concatenate([face_normals[:, None], edge_normals[edge_index], vertex_normals[triangles]], axis=1)
