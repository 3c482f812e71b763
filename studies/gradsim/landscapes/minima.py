"""Properties of a loss landscape: its minima, the basin of the truth, its slope."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from risp_torch import UserError

ROUNDING = 1e-6  # of the span of a landscape: single precision makes shallower minima


def local_minima(loss: Any, *, depth: float = ROUNDING) -> list[tuple[int, ...]]:
    """Places of the minima of a loss on a grid, the lowest first.

    The grid is flooded from below. A minimum is a basin that is as deep as ``depth`` times the landscape's span when its water
    meets that of a lower one (its persistence). SearchResult of the grid count, as a bounded search stays there.

    Args:
        loss: on a grid of any dimensions, neighbours also along diagonals; places that are not finite are outside.
        depth: least depth, as a part of the span.

    Returns:
        Indices on the grid.

    Raises:
        UserError: nothing is finite.
    """
    loss = np.asarray(loss, dtype=np.float64)
    finite = [tuple(int(i) for i in index) for index in np.argwhere(np.isfinite(loss))]
    if not finite:
        raise UserError("a landscape without a finite loss has no minima")
    finite.sort(key=lambda index: loss[index])
    least = depth * (loss[finite[-1]] - loss[finite[0]])
    steps = [step for step in product((-1, 0, 1), repeat=loss.ndim) if any(step)]
    parent: dict[tuple[int, ...], tuple[int, ...]] = {}  # of a flooded place, towards its basin's lowest

    def lowest(index: tuple[int, ...]) -> tuple[int, ...]:
        while parent[index] != index:
            parent[index] = index = parent[parent[index]]
        return index

    minima = [finite[0]]
    for index in finite:
        parent[index] = index
        neighbours = (tuple(a + b for a, b in zip(index, step, strict=True)) for step in steps)
        basins = sorted({lowest(point) for point in neighbours if point in parent}, key=lambda point: loss[point])
        for basin in basins[1:]:
            if loss[index] - loss[basin] > least:
                minima.append(basin)
        for basin in basins[1:]:
            parent[basin] = basins[0]
        if basins:
            parent[index] = basins[0]
    return sorted(minima, key=lambda point: loss[point])


def reach(x: np.ndarray, loss: np.ndarray, truth: float) -> tuple[float, float]:
    """The interval about the truth in which the loss falls towards it from both sides.

    Args:
        x: [N] values, ascending.
        loss: [N].
        truth: one of the values, or between two.

    Returns:
        Its ends, values of the grid.
    """
    x, loss = np.asarray(x), np.asarray(loss)
    nearest = int(np.argmin(np.abs(x - truth)))
    low = high = nearest
    while low > 0 and loss[low - 1] > loss[low]:
        low -= 1
    while high < len(x) - 1 and loss[high + 1] > loss[high]:
        high += 1
    return float(x[low]), float(x[high])


def curvature(x: np.ndarray, loss: np.ndarray, truth: float) -> float:
    """Second derivative of the loss by ln x at the truth: that of the parabola through the three nearest points."""
    x, loss = np.asarray(x, dtype=np.float64), np.asarray(loss, dtype=np.float64)
    middle = int(np.clip(np.argmin(np.abs(x - truth)), 1, len(x) - 2))
    window = slice(middle - 1, middle + 2)
    return float(2 * np.polyfit(np.log(x[window] / truth), loss[window], 2)[0])


def slope(x: np.ndarray, loss: np.ndarray, point: float) -> float:
    """Derivative of the loss by ln x: that of the line through the two points about ``point``."""
    x, loss = np.asarray(x, dtype=np.float64), np.asarray(loss, dtype=np.float64)
    above = int(np.clip(np.searchsorted(x, point), 1, len(x) - 1))
    return float((loss[above] - loss[above - 1]) / np.log(x[above] / x[above - 1]))


def normalised(loss: Any) -> np.ndarray:
    """The loss over its largest finite value, as the paper plots it."""
    loss = np.asarray(loss, dtype=np.float64)
    return loss / loss[np.isfinite(loss)].max()
