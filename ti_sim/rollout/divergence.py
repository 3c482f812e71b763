"""Worlds that diverge: their later frames and their adjoints are set to NaN."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ti_sim.base.arrays import Array


def mark_diverged_frames(arrays: Iterable[Array], diverged_step: np.ndarray, substeps: int) -> None:
    """Set the frames after the last finite one to NaN, in place.

    Args:
        arrays: [B, frames + 1, ...], or [B, frames + 1, N, ...] for per-body steps.
        diverged_step: [B] or [B, N] first step after which a state is not finite, -1 if there is none.
        substeps: steps per frame.
    """
    for index in np.argwhere(diverged_step >= 0):
        frame = int(diverged_step[tuple(index)] - 1) // substeps + 1
        world, *body = (int(k) for k in index)
        for array in arrays:
            fill_nan(array, (world, slice(frame, None), *body))


def mark_diverged_worlds(arrays: Iterable[Array], diverged: np.ndarray) -> None:
    """Set the adjoints of diverged worlds to NaN, in place: their gradient does not exist, which zeros would hide.

    Args:
        arrays: [B, ...].
        diverged: [B] bool.
    """
    worlds = [int(world) for world in np.flatnonzero(diverged)]
    for array in arrays if worlds else ():
        for world in worlds:
            fill_nan(array, (world,))


def fill_nan(array: Array, index: tuple) -> None:
    """Set a part of an array (any container) to NaN."""
    if hasattr(array, "from_numpy"):
        values = array.to_numpy()
        values[index] = np.nan
        array.from_numpy(values)
    else:
        array[index] = float("nan")
