"""Volume of a solid that is counted twice because its closed surface intersects itself.

Parallel lines on a grid are traced through the surface. Each crossing of a face changes the number of parts of the solid that
contain the line: one inside a surface without self-intersection, two where parts overlap, negative where a part is inside out.
"""

from __future__ import annotations

import numpy as np

_LINES = 256  # lines along each side of the grid


def miscounted_volume(points: np.ndarray, triangles: np.ndarray) -> float:
    """Volume of the overlap of the parts of a closed surface, plus that of parts that are inside out.

    Args:
        points: [V, 3] m, equal ones merged.
        triangles: [F, 3] integers, every edge between two of them (or any even number).

    Returns:
        m3, from 256 x 256 lines along the shortest side of the bounding box; overlaps narrower than the distance between lines
        may be missed.
    """
    low, sides = points.min(axis=0), np.ptp(points, axis=0)
    axes = np.argsort(sides)[[2, 1, 0]]
    spacing = sides[axes[:2]] / _LINES
    # In units of the grid; the offset moves lines away from the corners of regular shapes.
    position = np.column_stack([(points[:, axes[:2]] - low[axes[:2]]) / spacing - (0.4142, 0.6180), points[:, axes[2]]])
    line, height, sign = _crossings(position, triangles)
    if np.linalg.det(np.eye(3)[axes]) < 0:
        sign = -sign
    order = np.lexsort((height, line))
    line, height, part_count = line[order], height[order], np.cumsum(sign[order])  # one sum: lines end outside
    length = np.where(np.diff(line) == 0, np.diff(height), 0.0)
    miscount = np.maximum(part_count - 1, 0) + np.maximum(-part_count, 0)
    return float((miscount[:-1] * length).sum() * spacing.prod())


def _crossings(position: np.ndarray, triangles: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Crossings of triangles with the lines through integer x and y.

    A row of lines at one y crosses two edges of a triangle. The position on an edge is computed from its lower end, equally in
    both of its triangles, and intervals are half open, so no line passes between two triangles or crosses both.

    Args:
        position: [V, 3] vertices.
        triangles: [F, 3].

    Returns:
        (index of the line [n], height z of the crossing [n], 1 where the line enters the solid and -1 where it leaves it [n]).
    """
    order = np.take_along_axis(triangles, np.argsort(position[triangles, 1], axis=1, kind="stable"), axis=1)
    a, b, c = np.moveaxis(position[order], 1, 0)  # from the lowest to the highest y
    first_y, last_y = np.ceil(a[:, 1]).astype(np.int64), np.ceil(c[:, 1]).astype(np.int64)
    face = np.repeat(np.arange(len(order)), last_y - first_y)
    y = np.arange(len(face)) - np.repeat(np.cumsum(last_y - first_y) - last_y, last_y - first_y)
    low, middle, high = a[face], b[face], c[face]
    long_edge = _on_edge(low, high, y)
    is_upper = (y >= middle[:, 1])[:, None]
    short_edge = _on_edge(np.where(is_upper, middle, low), np.where(is_upper, high, middle), y)
    left, right = (
        np.where((long_edge[:, :1] <= short_edge[:, :1]) == is_left, long_edge, short_edge) for is_left in (True, False)
    )
    start, stop = np.ceil(left[:, 0]).astype(np.int64), np.ceil(right[:, 0]).astype(np.int64)
    row = np.repeat(np.arange(len(face)), stop - start)
    x = np.arange(len(row)) - np.repeat(np.cumsum(stop - start) - stop, stop - start)
    height = left[row, 1] + (x - left[row, 0]) / (right[row, 0] - left[row, 0]) * (right[row, 1] - left[row, 1])
    p, q, r = np.moveaxis(position[triangles][:, :, :2], 1, 0)
    faces_up = (q[:, 0] - p[:, 0]) * (r[:, 1] - p[:, 1]) - (q[:, 1] - p[:, 1]) * (r[:, 0] - p[:, 0]) > 0
    return 4 * _LINES * y[row] + x, height, np.where(faces_up[face[row]], -1, 1)


def _on_edge(low: np.ndarray, high: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x and z [n, 2] of edges between two points [n, 3] at y [n]."""
    with np.errstate(divide="ignore", invalid="ignore"):  # of horizontal edges, which are replaced by the long edge
        fraction = (y - low[:, 1]) / (high[:, 1] - low[:, 1])
    return low[:, ::2] + fraction[:, None] * (high[:, ::2] - low[:, ::2])
