"""Meshes of solids: linear tetrahedra, hexahedra or ten-node tetrahedra."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked
from ti_sim.meshes.attributes import SurfaceAttributes, check_mesh_arrays
from ti_sim.meshes.boundary import KINDS, boundary_faces

FLAT = 1e-9  # of the cubed longest side of an element: a smaller volume is roundoff
_EDGES = ((0, 1), (1, 2), (0, 2), (0, 3), (1, 3), (2, 3))  # edges of a tetrahedron, in the order of their middle nodes
_HEX_CORNERS = (  # a corner, and its neighbours in the order of a right-handed frame
    (0, 1, 3, 4), (1, 2, 0, 5), (2, 3, 1, 6), (3, 0, 2, 7), (4, 7, 5, 0), (5, 4, 6, 1), (6, 5, 7, 2), (7, 6, 4, 3),
)  # fmt: skip


@checked
@dataclass(frozen=True, eq=False)
class SolidMesh(SurfaceAttributes):
    """A solid mesh with elements of one kind, nodes in VTK order.

    Tetrahedron: nodes 0, 1, 2 are counter-clockwise seen from node 3, so the volume ``(x1 - x0) x (x2 - x0) . (x3 - x0) / 6`` is
    positive. Hexahedron: the bottom quadrilateral, counter-clockwise seen from above, then the top one. Ten-node tetrahedron: the
    four corners, then the middles of the edges 01, 12, 02, 03, 13, 23.

    Attributes:
        vertices: [V, 3] float64, m; every one belongs to an element.
        indices: [E, 4], [E, 8] or [E, 10] int32.

    Raises:
        UserError: the arrays do not fit each other, an element is inverted or flat (the message contains its index), or more than
            two elements share a face.
    """

    vertices: np.ndarray
    indices: np.ndarray

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or "solid mesh")
        vertices, indices = check_mesh_arrays(self.vertices, self.indices, self.name)
        nodes = indices.shape[1]
        if nodes not in KINDS:
            raise UserError(
                f"{self.name}: its elements have {nodes} nodes: give tetrahedra (4), hexahedra (8) or ten-node tetrahedra"
            )
        object.__setattr__(self, "vertices", vertices)
        object.__setattr__(self, "indices", indices)
        self._check_elements()
        self._check_attributes()

    @property
    def kind(self) -> str:
        """Kind of the elements: "tet", "hex" or "tet10"."""
        return KINDS[self.indices.shape[1]]

    @property
    def faces(self) -> np.ndarray:
        """[F, 3] int32 triangles of the surface, indices of ``vertices``, counter-clockwise seen from outside."""
        return self._boundary[0]

    @property
    def owner(self) -> np.ndarray:
        """[F] int32, the element to which each face of the surface belongs."""
        return self._boundary[1]

    @cached_property
    def _boundary(self) -> tuple[np.ndarray, np.ndarray]:
        """Faces of the surface and their elements, computed once."""
        return boundary_faces(self.indices, self.name)

    def _check_elements(self) -> None:
        min_jacobian = jacobians(self.vertices, self.indices).min(axis=1)
        corners = self.vertices[self.indices]
        limit = FLAT * np.ptp(corners, axis=1).max(axis=1) ** 3
        for is_invalid, defect, advice in (
            (min_jacobian < -limit, "inverted", "its nodes are in the wrong order, or it is folded over"),
            (min_jacobian <= limit, "flat", "its volume vanishes: move its nodes apart or remove it"),
        ):
            if is_invalid.any():
                raise UserError(
                    f"{self.name}: element {int(np.argmax(is_invalid))} is {defect} "
                    f"({int(is_invalid.sum())} of {len(is_invalid)} elements are): {advice}"
                )


def jacobians(vertices: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Jacobian determinants of elements at the points that decide whether they are valid.

    Args:
        vertices: [V, 3] m.
        indices: [E, 4], [E, 8] or [E, 10], nodes in VTK order.

    Returns:
        [E, points] m3: six times the volume of a tetrahedron; that of the tetrahedron at each corner of a hexahedron; for
        ten-node tetrahedra at the nodes and at the four Gauss points.
    """
    x = vertices[indices]
    kind = KINDS[indices.shape[1]]
    if kind == "tet":
        return np.linalg.det(x[:, 1:] - x[:, :1])[:, None]
    if kind == "hex":
        corner = np.array(_HEX_CORNERS)
        return np.linalg.det(x[:, corner[:, 1:]] - x[:, corner[:, :1]])
    return np.linalg.det(np.einsum("pnk,enc->epkc", _tet10_derivatives(), x))


def _tet10_derivatives() -> np.ndarray:
    """Derivatives [14, 10, 3] of the ten shape functions with respect to the barycentric coordinates 1 to 3, at nodes and Gauss
    points.
    """
    corners = np.eye(4)
    middles = [0.5 * (corners[a] + corners[b]) for a, b in _EDGES]
    gauss_coordinate = (5.0 - np.sqrt(5.0)) / 20.0
    gauss = gauss_coordinate + (1.0 - 4.0 * gauss_coordinate) * corners
    points = np.concatenate([corners, middles, gauss])
    derivatives = np.zeros((len(points), 10, 4))
    for a in range(4):
        derivatives[:, a, a] = 4.0 * points[:, a] - 1.0
    for node, (a, b) in enumerate(_EDGES, start=4):
        derivatives[:, node, a], derivatives[:, node, b] = 4.0 * points[:, b], 4.0 * points[:, a]
    return derivatives[:, :, 1:] - derivatives[:, :, :1]  # coordinate 0 is one minus the sum of the others


@checked
def quadratic(mesh: SolidMesh) -> SolidMesh:
    """Ten-node tetrahedra from a mesh of linear ones: the same straight elements with a node in the middle of every edge.

    Vertex colours are interpolated; face colours, groups, uv and textures are copied to the four parts of each face.

    Args:
        mesh: mesh of linear tetrahedra.

    Raises:
        UserError: the elements are of another kind.
    """
    if mesh.kind != "tet":
        raise UserError(f"{mesh.name}: ten-node tetrahedra are made of linear ones, and its elements are of kind {mesh.kind!r}")
    edges = np.sort(mesh.indices[:, np.array(_EDGES)], axis=2)
    distinct_edges, edge_index = np.unique(edges.reshape(-1, 2), axis=0, return_inverse=True)
    vertices = np.concatenate([mesh.vertices, mesh.vertices[distinct_edges].mean(axis=1)])
    indices = np.concatenate([mesh.indices, len(mesh.vertices) + edge_index.reshape(-1, 6)], axis=1)
    colors, uv = mesh.vertex_colors, mesh.uv
    if colors is not None:
        colors = np.concatenate([colors, colors[distinct_edges].mean(axis=1)])
    if uv is not None:
        middle = 0.5 * (uv + np.roll(uv, -1, axis=1))  # of the edges 01, 12, 20
        a, b, c = np.moveaxis(uv, 1, 0)
        ab, bc, ca = np.moveaxis(middle, 1, 0)
        quarters = ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))
        uv = np.stack([np.stack(quarter, axis=1) for quarter in quarters], axis=1).reshape(-1, 3, 2)

    def repeated(values: np.ndarray | None) -> np.ndarray | None:
        return None if values is None else np.repeat(values, 4, axis=0)

    return SolidMesh(
        vertices, indices, vertex_colors=colors, face_colors=repeated(mesh.face_colors), face_groups=repeated(mesh.face_groups),
        uv=uv, textures=mesh.textures, face_texture=repeated(mesh.face_texture), name=mesh.name,
    )  # fmt: skip
