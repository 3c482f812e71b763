"""Triangle surfaces: arrays, merging of equal vertices, and the check that a surface encloses a solid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from ti_sim.base.errors import UserError

MERGE_TOLERANCE = 1e-9  # of the longest side of the bounding box: closer vertices are merged
_ZERO_AREA = 1e-14  # of the extent squared: about the roundoff of a cross product in float64
_ZERO_VOLUME = 1e-12  # of the extent cubed


@dataclass(frozen=True, eq=False)
class TriangleMesh:
    """A triangle mesh, counter-clockwise seen from outside.

    Attributes:
        vertices: [V, 3] float64, m.
        faces: [F, 3] int32, indices of vertices.
        face_groups: [F] int32; the six sides of a Box in the order +x, -x, +y, -y, +z, -z; 0 for other meshes.
        vertex_colors: [V, 3] float64 linear RGB in [0, 1], or None.
        face_colors: [F, 3] float64 linear RGB in [0, 1], or None.
        uv: [F, 3, 2] float64 texture coordinates of the corners of every face, u to the right, v upwards in the image, (0, 0) and
            (1, 1) its lower left and upper right corners; NaN for faces without any; None if no face has any.
        textures: images [h, w, 3] float64 linear RGB in [0, 1] of the mesh, row 0 at the top.
        face_texture: [F] int32, index of the texture of each face, -1 for none; None if there are no textures.
        texture_fault: reason why a texture of the mesh could not be read, "" for none.
    """

    vertices: np.ndarray
    faces: np.ndarray
    face_groups: np.ndarray
    vertex_colors: np.ndarray | None = None
    face_colors: np.ndarray | None = None
    uv: np.ndarray | None = None
    textures: tuple[np.ndarray, ...] = ()
    face_texture: np.ndarray | None = None
    texture_fault: str = ""

    def transformed(self, *, scale: float = 1.0, offset: np.ndarray | float = 0.0) -> TriangleMesh:
        """A copy with new arrays and vertices ``scale * vertices + offset``.

        Args:
            scale: positive factor.
            offset: [3] m, added after scaling.
        """

        def copied(array: np.ndarray | None) -> np.ndarray | None:
            return None if array is None else array.copy()

        return TriangleMesh(
            vertices=scale * self.vertices + offset,
            faces=self.faces.copy(),
            face_groups=self.face_groups.copy(),
            vertex_colors=copied(self.vertex_colors),
            face_colors=copied(self.face_colors),
            uv=copied(self.uv),
            textures=tuple(picture.copy() for picture in self.textures),
            face_texture=copied(self.face_texture),
            texture_fault=self.texture_fault,
        )


def single_group_mesh(vertices: np.ndarray, faces: np.ndarray, **attributes: Any) -> TriangleMesh:
    """A TriangleMesh with one face group; converts the arrays to the types of TriangleMesh.

    Args:
        vertices: [V, 3] m.
        faces: [F, 3] integers.
        **attributes: colours, uv and textures, as in TriangleMesh.
    """
    faces = np.ascontiguousarray(faces, dtype=np.int32)
    groups = np.zeros(len(faces), dtype=np.int32)
    return TriangleMesh(np.ascontiguousarray(vertices, dtype=np.float64), faces, groups, **attributes)


def extent(vertices: np.ndarray) -> float:
    """Longest side of the bounding box of ``vertices`` [V, 3], in m."""
    return float(np.ptp(vertices, axis=0).max())


def merge_vertices(vertices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Merge vertices that lie within ``MERGE_TOLERANCE`` of the extent of each other.

    Each coordinate is sorted and split where a gap is wider than the tolerance, so no pair is separated by the border of a
    rounding grid.

    Args:
        vertices: [V, 3] m.

    Returns:
        The distinct points [P, 3] m in the order of their first appearance, and for each vertex its point [V] int64.
    """
    tolerance = MERGE_TOLERANCE * extent(vertices)
    first_equal, group = _merge_equal(vertices)
    distinct = vertices[first_equal]
    cell_index = np.zeros(len(distinct), dtype=np.int64)  # index of the cell, over the axes so far
    for axis in range(3):
        order = np.argsort(distinct[:, axis])
        interval = np.empty_like(cell_index)
        interval[order] = np.concatenate([[0], np.cumsum(np.diff(distinct[order, axis]) > tolerance)])
        cell_index = np.unique(cell_index * (interval.max() + 1) + interval, return_inverse=True)[1]
    first = np.full(cell_index.max() + 1, len(vertices))
    np.minimum.at(first, cell_index, first_equal)
    order_of_appearance = np.argsort(first)
    rank = np.empty_like(order_of_appearance)
    rank[order_of_appearance] = np.arange(len(first))
    return vertices[first[order_of_appearance]], rank[cell_index][group]


def _merge_equal(vertices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Merge bit-wise equal vertices [V, 3]: the index of the first vertex of each group, and the group of each vertex.

    Files with separate triangles repeat every vertex six times. One sort of a hash of the bits finds them; if two different
    vertices have the same hash, nothing is merged.
    """
    bits = (np.ascontiguousarray(vertices, dtype=np.float64) + 0.0).view(np.int64)  # + 0.0 removes the sign of zeros
    bits = bits ^ (bits >> 29)  # the last bits of short decimals are zeros, which the products below would preserve
    hashes = bits[:, 0] * 0x1E3779B97F4A7C15 + bits[:, 1] * 0x32B2AE3D27D4EB4F + bits[:, 2] * 0x165667B19E3779F9
    _, first, group = np.unique(hashes, return_index=True, return_inverse=True)
    if (vertices[first][group] != vertices).any():
        first = group = np.arange(len(vertices))
    return first, group


def vertex_areas(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """[V] m2: a third of the area of all triangles adjacent to a vertex.

    Args:
        vertices: [V, 3] m.
        faces: [F, 3] integers.
    """
    a, b, c = np.moveaxis(vertices[faces], 1, 0)
    third_area = np.linalg.norm(np.cross(b - a, c - a), axis=1) / 6.0
    return np.bincount(faces.ravel(), weights=np.repeat(third_area, 3), minlength=len(vertices))


def smooth_groups(vertices: np.ndarray, faces: np.ndarray, *, crease_angle: float | None = None) -> np.ndarray:
    """Groups of corners of a mesh that share a normal in smooth shading.

    Corners at one point (merged as in ``merge_vertices``) share a normal if they are connected by a chain of adjacent faces about
    the point, without a crease between any two of them.

    Args:
        vertices: [V, 3] m.
        faces: [F, 3] integers.
        crease_angle: edges whose face normals differ by more than this angle [rad] are creases; with None there are no creases,
            and all corners at a point share one normal.

    Returns:
        [F, 3] int32 indices of the groups.
    """
    _, index = merge_vertices(vertices)
    corners = index[faces]
    if crease_angle is None:
        return np.unique(corners, return_inverse=True)[1].reshape(corners.shape).astype(np.int32)
    a, b, c = np.moveaxis(vertices[faces], 1, 0)
    normals = np.cross(b - a, c - a)
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-300)
    face, neighbour, face_corners, neighbour_corners = _edge_neighbours(corners)
    is_smooth = np.einsum("ni,ni->n", normals[face], normals[neighbour]) >= np.cos(crease_angle) - 1e-12
    face, neighbour = face[is_smooth], neighbour[is_smooth]
    face_corners, neighbour_corners = face_corners[is_smooth], neighbour_corners[is_smooth]
    rows, columns = [], []
    for k, m in np.ndindex(2, 2):
        is_shared = corners[face, face_corners[:, k]] == corners[neighbour, neighbour_corners[:, m]]
        rows.append((3 * face + face_corners[:, k])[is_shared])
        columns.append((3 * neighbour + neighbour_corners[:, m])[is_shared])
    links = np.concatenate(rows), np.concatenate(columns)
    graph = coo_matrix((np.ones(len(links[0])), links), shape=(corners.size, corners.size))
    return connected_components(graph, directed=False)[1].reshape(corners.shape).astype(np.int32)


def _edge_neighbours(corners: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of faces that share an edge: face [n], neighbour [n], and the two corners [n, 2] of the edge in each."""
    edge_corners = np.array([(0, 1), (1, 2), (2, 0)])
    edges = np.sort(np.concatenate([corners[:, pair] for pair in edge_corners]), axis=1)
    order = np.lexsort((edges[:, 1], edges[:, 0]))
    is_shared = (np.diff(edges[order], axis=0) == 0).all(axis=1)
    face, neighbour = order[:-1][is_shared], order[1:][is_shared]
    count = len(corners)
    return face % count, neighbour % count, edge_corners[face // count], edge_corners[neighbour // count]


def enclosed_volume(vertices: np.ndarray, faces: np.ndarray) -> float:
    """Signed volume in m3 of a closed surface (divergence theorem); positive for outward normals."""
    centre = 0.5 * (vertices.min(axis=0) + vertices.max(axis=0))  # keeps the terms small far from the origin
    a, b, c = np.moveaxis(vertices[faces] - centre, 1, 0)
    return float(np.einsum("fi,fi->", a, np.cross(b, c)) / 6.0)


def check_arrays(vertices: np.ndarray, faces: np.ndarray, name: str) -> None:
    """Raise a UserError unless the arrays describe triangles: shapes, finite numbers, indices in range, at least one face.

    Args:
        vertices: [V, 3] m.
        faces: [F, 3] integers.
        name: name of the mesh in error messages.
    """
    if faces.size == 0:
        raise UserError(f"{name} has no faces: a triangle mesh is needed, not points or lines")
    if vertices.ndim != 2 or vertices.shape[1] != 3:
        raise UserError(f"{name}: vertices have shape {vertices.shape}, and [V, 3] is needed")
    if faces.ndim != 2 or faces.shape[1] != 3 or not np.issubdtype(faces.dtype, np.integer):
        raise UserError(f"{name}: faces have shape {faces.shape} of {faces.dtype}, and [F, 3] integers are needed")
    if not np.isfinite(vertices).all():
        raise UserError(f"{name}: vertex {int(np.argmax(~np.isfinite(vertices).all(axis=1)))} is not finite: repair the mesh")
    if faces.min() < 0 or faces.max() >= len(vertices):
        raise UserError(f"{name}: faces name vertices {faces.min()} to {faces.max()}, and there are 0 to {len(vertices) - 1}")


def check_solid(vertices: np.ndarray, faces: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Raise a UserError unless the surface is closed and consistently wound, with outward normals and without degenerate
    triangles.

    Equal vertices are merged first, so a mesh may be split along its edges. Self-intersections are not checked here (see
    ``overlap``).

    Args:
        vertices: [V, 3] m.
        faces: [F, 3] integers.
        name: name of the mesh in error messages.

    Returns:
        The merged vertices [P, 3] m, and their triangles [F, 3].
    """
    check_arrays(vertices, faces, name)
    points, index = merge_vertices(vertices)
    triangles = index[faces]
    mesh_extent = extent(vertices)
    a, b, c = np.moveaxis(points[triangles], 1, 0)
    has_no_area = np.linalg.norm(np.cross(b - a, c - a), axis=1) <= _ZERO_AREA * mesh_extent**2
    if has_no_area.any():
        raise UserError(
            f"{name} is degenerate: {int(has_no_area.sum())} of its {len(faces)} faces have no area (the first is face "
            f"{int(np.argmax(has_no_area))}): remove them in a mesh editor"
        )
    _check_edges(triangles, name)
    volume = enclosed_volume(points, triangles)
    if abs(volume) <= _ZERO_VOLUME * mesh_extent**3:
        raise UserError(f"{name} is degenerate: it encloses no volume: give it a thickness")
    if volume < 0:
        raise UserError(f"{name} is inside-out (volume {volume:.3g} m3): reverse the vertex order of every face")
    _check_parts(points, triangles, name)
    return points, triangles


def _check_parts(points: np.ndarray, triangles: np.ndarray, name: str) -> None:
    """Raise a UserError if a part of the surface is inside out and is not the wall of a cavity in another part."""
    _, component = connected_parts(triangles, len(points))
    count = int(component.max()) + 1
    if count == 1:
        return
    centre = 0.5 * (points.min(axis=0) + points.max(axis=0))
    a, b, c = np.moveaxis(points[triangles] - centre, 1, 0)
    volumes = np.bincount(component, weights=np.einsum("fi,fi->f", a, np.cross(b, c)) / 6.0)
    for inverted_part in np.flatnonzero(volumes < 0):
        faces = np.flatnonzero(component == inverted_part)
        if _winding_number(points[triangles[faces[0], 0]], points[triangles[component != inverted_part]]) < 0.5:
            raise UserError(
                f"{name} has a part that is inside-out (of its {count} parts, the one of {len(faces)} faces from face {faces[0]} "
                f"on; volume {volumes[inverted_part]:.3g} m3): reverse the vertex order of its faces"
            )


def connected_parts(indices: np.ndarray, count: int) -> tuple[int, np.ndarray]:
    """Parts of a mesh that share no vertices.

    Args:
        indices: [E, n] vertices of each face or element.
        count: number of vertices.

    Returns:
        Number of parts, and the part of each face or element [E] (in the order of their first ones).
    """
    rows = np.repeat(indices[:, 0], indices.shape[1] - 1)
    graph = coo_matrix((np.ones(len(rows), dtype=bool), (rows, indices[:, 1:].ravel())), shape=(count, count))
    label = connected_components(graph, directed=False)[1][indices[:, 0]]
    _, first, inverse = np.unique(label, return_index=True, return_inverse=True)
    return len(first), np.argsort(np.argsort(first))[inverse]


def _winding_number(point: np.ndarray, corners: np.ndarray) -> float:
    """Winding number of a closed surface about a point, from the solid angles of its triangles [F, 3, 3] (Van Oosterom and
    Strackee, IEEE Transactions on Biomedical Engineering 30, 1983).
    """
    a, b, c = np.moveaxis(corners - point, 1, 0)
    la, lb, lc = (np.linalg.norm(side, axis=1) for side in (a, b, c))
    determinant = np.einsum("fi,fi->f", a, np.cross(b, c))
    denominator = (
        la * lb * lc + np.einsum("fi,fi->f", a, b) * lc + np.einsum("fi,fi->f", b, c) * la + np.einsum("fi,fi->f", c, a) * lb
    )
    return float(2 * np.arctan2(determinant, denominator).sum() / (4 * np.pi))


def without_slivers(mesh: TriangleMesh) -> TriangleMesh:
    """A mesh without triangles of zero area, which result from dividing polygons that have a vertex on an edge.

    The vertex in the middle of such a triangle's longest edge divides the other triangle at this edge instead. Triangles of two
    equal vertices stay.
    """
    points, index = merge_vertices(mesh.vertices)
    triangles = index[mesh.faces]
    a, b, c = np.moveaxis(points[triangles], 1, 0)
    is_flat = np.linalg.norm(np.cross(b - a, c - a), axis=1) <= _ZERO_AREA * extent(points) ** 2
    is_flat &= (triangles != np.roll(triangles, 1, axis=1)).all(axis=1)
    if not is_flat.any():
        return mesh
    mesh = mesh.transformed()  # a copy, whose arrays change below
    corners, slivers = index[mesh.faces], set(np.flatnonzero(is_flat).tolist())
    owner = {(int(row[k]), int(row[(k + 1) % 3])): face for face, row in enumerate(corners) for k in range(3)}
    has_progress = True
    while slivers and has_progress:
        has_progress = False
        for face in sorted(slivers):
            row = corners[face]
            lengths = np.linalg.norm(points[row] - points[np.roll(row, -1)], axis=1)
            longest = int(np.argmax(lengths))  # from corner `longest` to the next corner; the third corner lies between them
            start, stop, middle = (int(row[(longest + k) % 3]) for k in range(3))
            neighbour = owner.get((stop, start))
            if neighbour is None or neighbour in slivers:
                continue
            _divide(mesh, corners, face, neighbour, (start, stop, middle), (longest + 2) % 3, points)
            for changed in (face, neighbour):
                owner |= {(int(corners[changed][k]), int(corners[changed][(k + 1) % 3])): changed for k in range(3)}
            slivers.discard(face)
            has_progress = True
    return mesh


def _divide(
    mesh: TriangleMesh, corners: np.ndarray, face: int, neighbour: int, edge: tuple[int, int, int], middle_corner: int,
    points: np.ndarray,
) -> None:  # fmt: skip
    """Divide the triangle ``neighbour`` at the middle point of its edge; ``face``, without area, becomes one of the halves.

    Args:
        mesh: mesh whose faces, colours, groups and texture coordinates are modified.
        corners: [F, 3] merged vertices of the faces, also modified.
        face, neighbour: indices of the two triangles.
        edge: start, stop and middle vertex of the edge of ``face``; ``neighbour`` has it from stop to start.
        middle_corner: corner (0 to 2) of ``face`` between the other two.
        points: [P, 3] merged vertices.
    """
    start, stop, middle = edge
    k = int(np.flatnonzero(corners[neighbour] == stop)[0])  # order of its corners: stop, start, tip
    order = [k, (k + 1) % 3, (k + 2) % 3]
    vertices, tip = mesh.faces[neighbour][order], int(corners[neighbour][order[2]])
    middle_vertex = mesh.faces[face][middle_corner]
    corners[neighbour], corners[face] = (stop, middle, tip), (middle, start, tip)
    mesh.faces[neighbour], mesh.faces[face] = (vertices[0], middle_vertex, vertices[2]), (middle_vertex, vertices[1], vertices[2])
    if mesh.uv is not None:
        uv_stop, uv_start, uv_tip = mesh.uv[neighbour][order]
        length = np.linalg.norm(points[start] - points[stop])
        fraction = np.linalg.norm(points[middle] - points[stop]) / length
        uv_middle = uv_stop + fraction * (uv_start - uv_stop)
        mesh.uv[neighbour], mesh.uv[face] = (uv_stop, uv_middle, uv_tip), (uv_middle, uv_start, uv_tip)
    for attribute in (mesh.face_groups, mesh.face_colors, mesh.face_texture):
        if attribute is not None:
            attribute[face] = attribute[neighbour]


def _check_edges(triangles: np.ndarray, name: str) -> None:
    """Every edge must be shared by two faces with opposite directions along it."""
    edges = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]])
    low, high = edges.min(axis=1).astype(np.int64), edges.max(axis=1)
    _, index, count = np.unique(low * (high.max() + 1) + high, return_inverse=True, return_counts=True)
    balance = np.bincount(index, weights=np.where(edges[:, 0] == low, 1.0, -1.0))
    # An edge at which two closed parts touch has an even number of faces; each part must be closed.
    open_edges = int((count % 2 == 1).sum())
    if open_edges:
        raise UserError(
            f"{name} is not watertight: {open_edges} edges belong to an odd number of faces: close its holes in a mesh editor"
        )
    inconsistent_edges = int((balance != 0).sum())
    if inconsistent_edges:
        raise UserError(
            f"{name} has faces of opposite winding: the two faces at {inconsistent_edges} edges disagree about the outside: "
            "make the normals consistent in a mesh editor (or trimesh.repair.fix_normals) and save it"
        )
