"""Area lights of an appearance."""

from __future__ import annotations

from typing import Any

import numpy as np

from ti_render.photoreal.appearance import Appearance, tint

LAMPS = ("key", "fill")


def lamps_of(mitsuba: Any, appearance: Appearance, *, center: np.ndarray, distance: float) -> dict[str, Any]:
    """Mitsuba's descriptions of the lamps: squares that face the scene, with the intensity of the appearance at its centre.

    Args:
        mitsuba: the module.
        appearance: with azimuth, elevation, size, intensity and warmth of each lamp.
        center: [3] of the scene [m].
        distance: of the lamps from it [m].
    """
    return {name: _lamp(mitsuba, appearance, name, center, distance) for name in LAMPS}


def _lamp(mitsuba: Any, appearance: Appearance, name: str, center: np.ndarray, distance: float) -> dict[str, Any]:
    azimuth, elevation, size, intensity, warmth = (
        appearance.numbers[f"{name}.{entry}"] for entry in ("azimuth", "elevation", "size", "intensity", "warmth")
    )
    to_lamp = np.array([np.cos(azimuth) * np.cos(elevation), np.sin(azimuth) * np.cos(elevation), np.sin(elevation)])
    # A small lamp of radiance L and area A gives the irradiance L A / distance^2, and a white surface reflects the radiance L A /
    # (pi distance^2).
    radiance = np.pi * intensity / size**2 * tint(warmth)
    transform = mitsuba.ScalarTransform4f().look_at((center + distance * to_lamp).tolist(), center.tolist(), [0.1, 0.2, 0.97])
    return {
        "type": "rectangle",
        "to_world": transform @ mitsuba.ScalarTransform4f().scale(0.5 * size * distance),
        "emitter": {"type": "area", "radiance": {"type": "rgb", "value": radiance.tolist()}},
    }
