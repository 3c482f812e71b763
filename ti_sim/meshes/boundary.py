"""Boundary faces of solid elements, and the node orders of elements."""

from __future__ import annotations

import numpy as np

from ti_sim.base.errors import UserError

KINDS = {4: "tet", 8: "hex", 10: "tet10"}  # by nodes per element

# Per kind: the faces of an element, each split into triangles, counter-clockwise seen from outside.
_TET_FACES = ((0, 2, 1), (0, 1, 3), (1, 2, 3), (0, 3, 2))
_HEX_FACES = ((0, 3, 2, 1), (4, 5, 6, 7), (0, 1, 5, 4), (1, 2, 6, 5), (2, 3, 7, 6), (3, 0, 4, 7))
# Middle node of each edge of a ten-node tetrahedron.
_EDGE_MIDDLE = {(0, 1): 4, (1, 2): 5, (0, 2): 6, (0, 3): 7, (1, 3): 8, (2, 3): 9}


def _quarters(a: int, b: int, c: int) -> tuple[tuple[int, int, int], ...]:
    """The four triangles of a face with mid-edge nodes."""
    ab, bc, ca = (_EDGE_MIDDLE[min(pair), max(pair)] for pair in ((a, b), (b, c), (c, a)))
    return ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))


ELEMENT_FACES = {
    "tet": tuple((face,) for face in _TET_FACES),
    "hex": tuple(((a, b, c), (a, c, d)) for a, b, c, d in _HEX_FACES),
    "tet10": tuple(_quarters(*face) for face in _TET_FACES),
}


def boundary_faces(indices: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Triangles of the faces that belong to a single element, in the order of the elements.

    A quadrilateral is split into two along the diagonal from its smallest node, independent of the orientation of its element; a
    face of a ten-node tetrahedron is split into four.

    Args:
        indices: [E, 4], [E, 8] or [E, 10], nodes in VTK order.
        name: name of the mesh in error messages.

    Returns:
        faces: [F, 3] int32, counter-clockwise seen from outside.
        owner: [F] int32, the element of each face.

    Raises:
        UserError: three or more elements share a face.
    """
    kind = KINDS[indices.shape[1]]
    sides = ELEMENT_FACES[kind]
    side_triangles = np.array(sides)  # [sides, triangles, 3]
    corners = np.array(_HEX_FACES if kind == "hex" else _TET_FACES)
    sorted_corners = np.sort(indices[:, corners], axis=2).reshape(-1, corners.shape[1])
    _, inverse, count = np.unique(sorted_corners, axis=0, return_inverse=True, return_counts=True)
    if count.max() > 2:
        element = int(np.argmax(count[inverse.reshape(-1)] > 2)) // len(sides)
        raise UserError(f"{name}: element {element} has a face that belongs to {count.max()} elements: remove those that overlap")
    boundary_sides = np.flatnonzero(count[inverse.reshape(-1)] == 1)
    owner, side = np.divmod(boundary_sides, len(sides))
    if kind == "hex":
        quads = indices[owner[:, None], corners[side]]
        corner_order = (np.argmin(quads, axis=1)[:, None] + np.arange(4)) % 4
        quads = np.take_along_axis(quads, corner_order, axis=1)
        faces = quads[:, [[0, 1, 2], [0, 2, 3]]]
    else:
        faces = indices[owner[:, None, None], side_triangles[side]]
    return faces.reshape(-1, 3).astype(np.int32), np.repeat(owner, side_triangles.shape[1]).astype(np.int32)
