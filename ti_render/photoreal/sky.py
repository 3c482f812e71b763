"""Procedural environment maps: skies and studios."""

from __future__ import annotations

import numpy as np

from ti_render.photoreal.appearance import Appearance, generator_for, tint
from ti_render.photoreal.lights import environment_directions

SKY_SIZE = (129, 256)
_HAZE_HEIGHT = 0.25  # height above the horizon over which a day's sky loses its haze
_GLOW_SHARPNESS = 12.0  # sharpness of the glow about the sun
_SOFTBOXES = 4


def sky_radiance(appearance: Appearance) -> np.ndarray:
    """Radiance [rows, columns, 3] of the sky of an appearance, for ``environment_map``.

    It is scaled so that an unoccluded white surface that faces upwards has the radiance "sky.intensity".

    Args:
        appearance: with the kind of sky, its intensity, warmth and azimuth.
    """
    directions = environment_directions(*SKY_SIZE)
    azimuth = appearance.numbers["sky.azimuth"]
    sky_function = {"day": _day, "overcast": _overcast, "studio": _studio}[appearance.choices["sky.kind"]]
    radiance = sky_function(directions, azimuth, generator_for(appearance.seed, "sky.texture"))
    radiance = radiance * tint(appearance.numbers["sky.warmth"])
    return radiance * (appearance.numbers["sky.intensity"] / upward_irradiance_over_pi(radiance))


def upward_irradiance_over_pi(radiance: np.ndarray) -> float:
    """Radiance of a white diffuse surface that faces upwards under a map, mean of the three channels: irradiance / pi."""
    height, width, _ = radiance.shape
    polar = np.pi * np.arange(height) / (height - 1)
    weight = np.maximum(np.cos(polar), 0.0) * np.sin(polar) * (np.pi / (height - 1)) * (2 * np.pi / width)
    return float((radiance.mean(axis=-1) * weight[:, None]).sum() / np.pi)


def _day(directions: np.ndarray, azimuth: float, _rng: np.random.Generator) -> np.ndarray:
    """Blue above, haze at the horizon, a wide glow on one side, brownish below."""
    height = directions[..., 2]
    clearness = 1 - np.exp(-np.maximum(height, 0) / _HAZE_HEIGHT)
    sky_colour = (1 - clearness)[..., None] * np.array([0.95, 0.95, 0.9]) + clearness[..., None] * np.array([0.25, 0.45, 0.85])
    sun = np.array([np.cos(azimuth) * np.cos(0.6), np.sin(azimuth) * np.cos(0.6), np.sin(0.6)])
    glow = np.exp(_GLOW_SHARPNESS * (directions @ sun - 1))[..., None] * np.array([5.0, 4.2, 3.0])
    return np.where(height[..., None] >= 0, sky_colour + glow, np.array([0.3, 0.27, 0.23]))


def _overcast(directions: np.ndarray, azimuth: float, rng: np.random.Generator) -> np.ndarray:
    """The CIE standard overcast sky, three times brighter at the zenith than at the horizon, with faint clouds."""
    height = directions[..., 2]
    angle = np.arctan2(directions[..., 1], directions[..., 0]) - azimuth
    clouds = sum(
        np.sin((k + 1) * angle + phase) * np.sin((k + 2) * np.pi * height + height_phase) / (k + 1)
        for k, (phase, height_phase) in enumerate(rng.uniform(0, 2 * np.pi, (4, 2)))
    )
    sky_colour = (1 + 2 * np.maximum(height, 0)) / 3 * (1 + 0.12 * clouds)
    grey = np.where(height >= 0, sky_colour, 0.25)
    return grey[..., None] * np.array([0.97, 1.0, 1.04])


def _studio(directions: np.ndarray, azimuth: float, rng: np.random.Generator) -> np.ndarray:
    """A dim room with bright rectangles on its walls."""
    height = directions[..., 2]
    angle = np.arctan2(directions[..., 1], directions[..., 0])
    room = (0.25 + 0.1 * height)[..., None] * np.ones(3)
    for k in range(_SOFTBOXES):
        box_azimuth = azimuth + 2 * np.pi * (k + rng.uniform(-0.3, 0.3)) / _SOFTBOXES
        bottom, half_width, box_height = rng.uniform(0.2, 0.5), rng.uniform(0.2, 0.5), rng.uniform(0.2, 0.4)
        in_azimuth = np.abs(np.angle(np.exp(1j * (angle - box_azimuth)))) < half_width
        is_box = in_azimuth & (np.abs(height - bottom - 0.5 * box_height) < 0.5 * box_height)
        room[is_box] = rng.uniform(2.0, 5.0) * tint(rng.uniform(-0.5, 0.5))
    return room
