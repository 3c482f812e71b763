"""Skies and studios: maps of the light from everywhere, made by formulas and random numbers."""

from __future__ import annotations

import numpy as np

from ti_render.photoreal.appearance import Appearance, generator, tint
from ti_render.photoreal.lights import environment_directions

SKY_SIZE = (129, 256)
_HAZE = 0.25  # height above the horizon over which a day's sky loses its haze
_GLOW = 12.0  # sharpness of the glow about the sun
_SOFTBOXES = 4


def sky_radiance(look: Appearance) -> np.ndarray:
    """Radiance [rows, columns, 3] of the sky of a look, for ``environment_map``.

    It is scaled so that an unshaded white surface that looks upwards shows "sky.intensity".

    Args:
        look: gives the kind of sky, its intensity, warmth and azimuth.
    """
    directions = environment_directions(*SKY_SIZE)
    azimuth = look.numbers["sky.azimuth"]
    make = {"day": _day, "overcast": _overcast, "studio": _studio}[look.choices["sky.kind"]]
    radiance = make(directions, azimuth, generator(look.seed, "sky.texture")) * tint(look.numbers["sky.warmth"])
    return radiance * (look.numbers["sky.intensity"] / shown_upwards(radiance))


def shown_upwards(radiance: np.ndarray) -> float:
    """What a white diffuse surface that looks upwards shows under a map, mean of the three channels: irradiance / pi."""
    height, width, _ = radiance.shape
    polar = np.pi * np.arange(height) / (height - 1)
    weight = np.maximum(np.cos(polar), 0.0) * np.sin(polar) * (np.pi / (height - 1)) * (2 * np.pi / width)
    return float((radiance.mean(axis=-1) * weight[:, None]).sum() / np.pi)


def _day(directions: np.ndarray, azimuth: float, _random: np.random.Generator) -> np.ndarray:
    """Blue above, haze at the horizon, a wide glow on one side, brownish below."""
    height = directions[..., 2]
    clear = 1 - np.exp(-np.maximum(height, 0) / _HAZE)
    sky_colour = (1 - clear)[..., None] * np.array([0.95, 0.95, 0.9]) + clear[..., None] * np.array([0.25, 0.45, 0.85])
    sun = np.array([np.cos(azimuth) * np.cos(0.6), np.sin(azimuth) * np.cos(0.6), np.sin(0.6)])
    glow = np.exp(_GLOW * (directions @ sun - 1))[..., None] * np.array([5.0, 4.2, 3.0])
    return np.where(height[..., None] >= 0, sky_colour + glow, np.array([0.3, 0.27, 0.23]))


def _overcast(directions: np.ndarray, azimuth: float, random: np.random.Generator) -> np.ndarray:
    """The sky of CIE's standard overcast day, three times brighter above than at the horizon, with faint clouds."""
    height = directions[..., 2]
    angle = np.arctan2(directions[..., 1], directions[..., 0]) - azimuth
    clouds = sum(
        np.sin((k + 1) * angle + phase) * np.sin((k + 2) * np.pi * height + height_phase) / (k + 1)
        for k, (phase, height_phase) in enumerate(random.uniform(0, 2 * np.pi, (4, 2)))
    )
    sky_colour = (1 + 2 * np.maximum(height, 0)) / 3 * (1 + 0.12 * clouds)
    grey = np.where(height >= 0, sky_colour, 0.25)
    return grey[..., None] * np.array([0.97, 1.0, 1.04])


def _studio(directions: np.ndarray, azimuth: float, random: np.random.Generator) -> np.ndarray:
    """A dim room with bright rectangles on its walls."""
    height = directions[..., 2]
    angle = np.arctan2(directions[..., 1], directions[..., 0])
    room = (0.25 + 0.1 * height)[..., None] * np.ones(3)
    for k in range(_SOFTBOXES):
        middle = azimuth + 2 * np.pi * (k + random.uniform(-0.3, 0.3)) / _SOFTBOXES
        low, wide, tall = random.uniform(0.2, 0.5), random.uniform(0.2, 0.5), random.uniform(0.2, 0.4)
        is_lit = np.abs(np.angle(np.exp(1j * (angle - middle)))) < wide
        box = is_lit & (np.abs(height - low - 0.5 * tall) < 0.5 * tall)
        room[box] = random.uniform(2.0, 5.0) * tint(random.uniform(-0.5, 0.5))
    return room
