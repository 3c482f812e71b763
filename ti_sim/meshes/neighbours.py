"""Pairs of neighbouring elements of a mesh."""

from __future__ import annotations

import numpy as np

from ti_sim.meshes.boundary import ELEMENT_FACES, KINDS

_TRIANGLE_SIDES = ((0, 1), (1, 2), (2, 0))


def element_neighbours(indices: np.ndarray) -> np.ndarray:
    """Pairs of elements that share a face, or of triangles that share an edge.

    Args:
        indices: [E, 3], [E, 4], [E, 8] or [E, 10], nodes in VTK order.

    Returns:
        [M, 2] int64, each pair once, the smaller index first, in ascending order.
    """
    if indices.shape[1] == 3:
        sides = _TRIANGLE_SIDES
    else:
        sides = tuple(sorted({node for nodes in face for node in nodes}) for face in ELEMENT_FACES[KINDS[indices.shape[1]]])
    keys = np.sort(indices[:, np.array(sides)], axis=2).reshape(-1, len(sides[0]))
    _, key, count = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    order = np.argsort(key.reshape(-1), kind="stable")
    key, element = key.reshape(-1)[order], order // len(sides)
    pairs = []
    for offset in range(1, count.max()):  # an edge may have more than two triangles
        is_shared = key[offset:] == key[:-offset]
        pairs.append(np.stack([element[:-offset][is_shared], element[offset:][is_shared]], axis=1))
    if not pairs:
        return np.zeros((0, 2), dtype=np.int64)
    return np.unique(np.sort(np.concatenate(pairs), axis=1), axis=0).astype(np.int64)
