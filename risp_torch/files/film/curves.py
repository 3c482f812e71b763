"""Transfer curves between the encoded values of a film and linear light.

Sources: IEC 61966-2-1 (sRGB); ITU-T H.273, table 3 (the other curves; "camera" curves are inverted, so that linear values are
scene light, scaled to [0, 1]).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from ti_sim.base.rules import checked

__all__ = ["CURVES", "SRGB", "linear_to_srgb", "linear_values", "srgb_to_linear"]

SRGB = "sRGB"


@checked
def linear_to_srgb(linear: np.ndarray) -> np.ndarray:
    """Encode linear colour as sRGB, with the exact piecewise curve of IEC 61966-2-1.

    Args:
        linear: linear colour, any shape; [0, 1] is the range of a display, values outside are not clipped.

    Returns:
        sRGB of the same shape and float type, [0, 1] for [0, 1].
    """
    linear = np.asarray(linear)
    curve = 1.055 * np.maximum(linear, 0.0031308) ** (1 / 2.4) - 0.055
    return np.where(linear <= 0.0031308, 12.92 * linear, curve)


@checked
def srgb_to_linear(srgb: np.ndarray) -> np.ndarray:
    """Decode sRGB to linear colour, with the exact piecewise curve of IEC 61966-2-1.

    Args:
        srgb: sRGB colour, any shape; values outside [0, 1] are not clipped.

    Returns:
        Linear colour of the same shape and float type, [0, 1] for [0, 1].
    """
    srgb = np.asarray(srgb)
    curve = ((np.maximum(srgb, 0.04045) + 0.055) / 1.055) ** 2.4
    return np.where(srgb <= 0.04045, srgb / 12.92, curve)


def _camera(alpha: float, beta: float, slope: float) -> Callable[[np.ndarray], np.ndarray]:
    """Inverse of V = slope L below beta, and alpha L^0.45 - (alpha - 1) above."""
    return lambda values: np.where(
        values < slope * beta, values / slope, ((np.maximum(values, slope * beta) + alpha - 1) / alpha) ** (1 / 0.45)
    )


# From numbers in [0, 1] to linear light in [0, 1].
CURVES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    SRGB: srgb_to_linear,
    "BT.709": _camera(1.09929682680944, 0.018053968510807, 4.5),
    "SMPTE 240M": _camera(1.1115, 0.0228, 4.0),
    "gamma 2.2": lambda values: np.asarray(values) ** 2.2,
    "gamma 2.8": lambda values: np.asarray(values) ** 2.8,
    "linear": np.asarray,
}


@lru_cache(maxsize=16)
def linear_values(curve: str, levels: int) -> np.ndarray:
    """Linear light of the numbers 0, 1, ..., levels - 1, the last of which is white; float32 [levels], not to be changed."""
    values = np.asarray(CURVES[curve](np.arange(levels) / (levels - 1.0)), dtype=np.float32)
    values.flags.writeable = False
    return values
