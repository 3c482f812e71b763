"""Resampling of a stored picture: rotated, cropped and averaged over the footprint of each pixel."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from risp_torch.files.film.placement import Placement

__all__ = ["average_cells", "place_picture", "stored_region"]


def stored_region(placement: Placement) -> tuple[slice, slice]:
    """Rows and columns of the stored picture that a placement covers; the others need not be converted to colours."""
    corners = placement.stored_points([(0, 0), (placement.width, placement.height)])
    (left, top), (right, bottom) = corners.min(axis=0), corners.max(axis=0)
    return (
        slice(_pixel_edge(top, math.floor, placement.stored.height), _pixel_edge(bottom, math.ceil, placement.stored.height)),
        slice(_pixel_edge(left, math.floor, placement.stored.width), _pixel_edge(right, math.ceil, placement.stored.width)),
    )


def place_picture(region: np.ndarray, placement: Placement) -> np.ndarray:
    """Resample a stored picture.

    Args:
        region: float [h, w, 3], linear colour of the stored picture within ``stored_region``.
        placement: placement of the result in the stored picture.

    Returns:
        float32 [height, width, 3]: each pixel is the mean over its footprint in the stored picture, whose pixels are rectangles
        of one colour.
    """
    rows, columns = stored_region(placement)
    stored, turns = placement.stored, placement.stored.quarter_turns
    left, top = {
        0: (columns.start, rows.start), 1: (stored.height - rows.stop, columns.start),
        2: (stored.width - columns.stop, stored.height - rows.stop), 3: (rows.start, stored.width - columns.stop),
    }[turns]  # fmt: skip
    picture = np.rot90(region, k=-turns)
    picture = average_cells(picture, placement.offset[1] - top, placement.scale[1], placement.height, axis=0)
    picture = average_cells(picture, placement.offset[0] - left, placement.scale[0], placement.width, axis=1)
    return np.ascontiguousarray(picture, dtype=np.float32)


def average_cells(values: np.ndarray, offset: float, scale: float, count: int, axis: int) -> np.ndarray:
    """Means of values that are constant over cells of size 1, along one axis.

    Args:
        values: any shape.
        offset: position at which the first mean begins [cells].
        scale: length of each mean [cells].
        count: number of consecutive means.
        axis: the axis.

    Returns:
        An array with ``count`` entries along the axis; if means coincide with cells, entries of ``values``.
    """
    if scale == 1 and offset == round(offset):
        return np.take(values, range(round(offset), round(offset) + count), axis=axis)
    values = np.moveaxis(values, axis, 0)
    # Sums up to each cell in double precision: a mean is the difference of two of them.
    sums = np.zeros((len(values) + 1, *values.shape[1:]))
    np.cumsum(values, axis=0, dtype=np.float64, out=sums[1:])
    edges = np.clip(offset + scale * np.arange(count + 1), 0, len(values))
    cells = np.minimum(edges.astype(int), len(values) - 1)
    edge_weights = (edges - cells).reshape(-1, *[1] * (values.ndim - 1))
    means = np.diff(sums[cells] + edge_weights * values[cells], axis=0) / scale
    return np.moveaxis(means, 0, axis)


def _pixel_edge(edge: float, rounding: Callable[[float], int], limit: int) -> int:
    """An edge rounded to whole pixels, in 0 to ``limit``; edges within 1e-6 of an integer are rounded to it."""
    nearest = round(edge)
    pixel = nearest if abs(edge - nearest) < 1e-6 else rounding(edge)
    return min(max(pixel, 0), limit)
