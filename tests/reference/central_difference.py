"""Derivatives by central differences, for the tests."""

import numpy as np


def gradient(function, x, *, step=1e-6, entries=None):
    """Derivative of a scalar function of an array, entry by entry.

    Args:
        function: takes an array of the shape of ``x``, returns a number.
        x: float64 array.
        step: half the distance of the two evaluations.
        entries: flat indices to differentiate; None takes all.

    Returns:
        The derivatives [len(entries)].
    """
    entries = range(x.size) if entries is None else entries
    result = []
    for entry in entries:
        values = []
        for sign in (1, -1):
            moved = x.copy()
            moved.reshape(-1)[entry] += sign * step
            values.append(function(moved))
        result.append((values[0] - values[1]) / (2 * step))
    return np.array(result)


def relative_error(found, expected):
    """Largest difference over the largest expected entry."""
    return float(np.max(np.abs(found - expected)) / max(np.max(np.abs(expected)), 1e-12))
