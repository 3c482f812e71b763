"""How much of a solid a closed surface that cuts itself counts twice.

Parallel lines on a grid are followed through the surface. Each crossing of a face says how many parts of the solid the line is in
from there on: one inside a surface that does not cut itself, two where parts overlap, less than none where one is inside out.
"""

from __future__ import annotations

import numpy as np

_LINES = 256  # along each side of the grid


def miscounted_volume(points: np.ndarray, triangles: np.ndarray) -> float:
    """Volume by which the parts of a closed surface overlap, and that of parts that are inside out.

    Args:
        points: [V, 3] m, equal ones merged.
        triangles: [F, 3] integers, every edge between two of them (or any even number).

    Returns:
        m3, by lines along the shortest side of the bounding box, 256 times 256 of them: overlaps narrower than a line's distance
        from the next may be missed.
    """
    low, sides = points.min(axis=0), np.ptp(points, axis=0)
    axes = np.argsort(sides)[[2, 1, 0]]
    spacing = sides[axes[:2]] / _LINES
    # In units of the grid; the offset keeps lines from the corners of shapes that are themselves regular.
    place = np.column_stack([(points[:, axes[:2]] - low[axes[:2]]) / spacing - (0.4142, 0.6180), points[:, axes[2]]])
    line, height, step = _crossings(place, triangles)
    if np.linalg.det(np.eye(3)[axes]) < 0:
        step = -step
    order = np.lexsort((height, line))
    line, height, inside = line[order], height[order], np.cumsum(step[order])  # every line ends outside: one sum serves all
    length = np.where(np.diff(line) == 0, np.diff(height), 0.0)
    wrong = np.maximum(inside - 1, 0) + np.maximum(-inside, 0)
    return float((wrong[:-1] * length).sum() * spacing.prod())


def _crossings(place: np.ndarray, triangles: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where the lines through whole numbers x and y cross triangles.

    A row of lines, at one y, meets two edges of a triangle. The place on an edge is computed from its lower end, in both of its
    triangles alike, and intervals are half open, so that no line slips through between two triangles or meets both.

    Args:
        place: [V, 3] vertices.
        triangles: [F, 3].

    Returns:
        (line [n], its height z there [n], 1 where the line enters the solid and -1 where it leaves it [n]).
    """
    order = np.take_along_axis(triangles, np.argsort(place[triangles, 1], axis=1, kind="stable"), axis=1)
    a, b, c = np.moveaxis(place[order], 1, 0)  # from the lowest to the highest y
    first, last = np.ceil(a[:, 1]).astype(np.int64), np.ceil(c[:, 1]).astype(np.int64)
    face = np.repeat(np.arange(len(order)), last - first)
    y = np.arange(len(face)) - np.repeat(np.cumsum(last - first) - last, last - first)
    low, middle, high = a[face], b[face], c[face]
    long = _on_edge(low, high, y)
    upper = (y >= middle[:, 1])[:, None]
    short = _on_edge(np.where(upper, middle, low), np.where(upper, high, middle), y)
    left, right = (np.where((long[:, :1] <= short[:, :1]) == side, long, short) for side in (True, False))
    start, end = np.ceil(left[:, 0]).astype(np.int64), np.ceil(right[:, 0]).astype(np.int64)
    row = np.repeat(np.arange(len(face)), end - start)
    x = np.arange(len(row)) - np.repeat(np.cumsum(end - start) - end, end - start)
    height = left[row, 1] + (x - left[row, 0]) / (right[row, 0] - left[row, 0]) * (right[row, 1] - left[row, 1])
    p, q, r = np.moveaxis(place[triangles][:, :, :2], 1, 0)
    upwards = (q[:, 0] - p[:, 0]) * (r[:, 1] - p[:, 1]) - (q[:, 1] - p[:, 1]) * (r[:, 0] - p[:, 0]) > 0
    return 4 * _LINES * y[row] + x, height, np.where(upwards[face[row]], -1, 1)


def _on_edge(low: np.ndarray, high: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x and z [n, 2] where edges between two points [n, 3] are at y [n]."""
    with np.errstate(divide="ignore", invalid="ignore"):  # of level edges, which the long edge stands for
        share = (y - low[:, 1]) / (high[:, 1] - low[:, 1])
    return low[:, ::2] + share[:, None] * (high[:, ::2] - low[:, ::2])
