"""The scene's lights as Mitsuba's emitters, in its units.

A white, ideally diffuse surface that faces a directional light of intensity 1 has radiance 1, so its irradiance is pi. Facing a
point light of intensity I at the distance r, it has radiance I / r^2, so the radiant intensity is pi I. Ambient light of
intensity A is a radiance of A from all directions. All lights cast shadows here; in the rasteriser only directional lights do,
where shadows are enabled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ti_render.photoreal.geometry import row
from ti_sim.base.arrays import to_numpy

if TYPE_CHECKING:
    from ti_render.inputs import RenderInputs

ENVIRONMENT_SIZE = (64, 128)  # rows and columns of the map of a spherical-harmonics light


def emitters_of(mitsuba: Any, inputs: RenderInputs, image: int) -> dict[str, Any]:
    """Mitsuba's descriptions of the lights of one picture.

    Args:
        mitsuba: the module.
        inputs: of the pictures.
        image: number of the picture.
    """
    images = len(inputs.body_q)
    emitters: dict[str, Any] = {}
    for k, light in enumerate(_rows(inputs.directional, image, images)):
        if light[3:].any():
            irradiance = {"type": "rgb", "value": (np.pi * light[3:]).tolist()}
            emitters[f"sun{k}"] = {"type": "directional", "direction": light[:3].tolist(), "irradiance": irradiance}
    for k, light in enumerate(_rows(inputs.point, image, images)):
        intensity = {"type": "rgb", "value": (np.pi * light[3:]).tolist()}
        emitters[f"lamp{k}"] = {"type": "point", "position": light[:3].tolist(), "intensity": intensity}
    ambient = row(inputs.ambient, image, images)
    if inputs.environment is not None:
        radiance = harmonic_radiance(row(inputs.environment, image, images), environment_directions(*ENVIRONMENT_SIZE))
        # A truncated series can be negative, radiance cannot: it is clamped.
        emitters["sky"] = environment_map(mitsuba, np.maximum(radiance + ambient, 0.0))
    elif ambient.any():
        emitters["sky"] = {"type": "constant", "radiance": {"type": "rgb", "value": ambient.tolist()}}
    return emitters


def environment_directions(height: int, width: int) -> np.ndarray:
    """Unit directions [height, width, 3] of the pixels of an environment map, in the world (z up).

    Row 0 is the zenith; the columns turn about z.
    """
    polar = np.pi * np.arange(height) / (height - 1)  # Mitsuba's first and last rows are the poles themselves
    azimuth = 2 * np.pi * (np.arange(width) + 0.5) / width
    sine, cosine = np.sin(polar)[:, None], np.cos(polar)[:, None]
    return np.stack([sine * np.sin(azimuth), sine * np.cos(azimuth), cosine * np.ones(width)], axis=-1)


def environment_map(mitsuba: Any, radiance: np.ndarray) -> dict[str, Any]:
    """Mitsuba's description of an environment map.

    Args:
        mitsuba: the module.
        radiance: [height, width, 3] in the directions of ``environment_directions``.
    """
    # Mitsuba's map has its poles on y; a quarter turn about x puts them on z.
    z_up_from_y_up = mitsuba.ScalarTransform4f().rotate([1, 0, 0], 90)
    bitmap = mitsuba.Bitmap(np.ascontiguousarray(radiance, dtype=np.float32))
    return {"type": "envmap", "bitmap": bitmap, "to_world": z_up_from_y_up}


def harmonic_radiance(coefficients: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Radiance [..., 3] of nine spherical-harmonics coefficients [9, 3] in unit directions [..., 3].

    The real basis in the order Y00, Y1-1, Y10, Y11, Y2-2, Y2-1, Y20, Y21, Y22 (Ramamoorthi & Hanrahan, 2001).
    """
    x, y, z = np.moveaxis(directions, -1, 0)
    degree0, degree1, degree2_mixed, degree2_zonal, degree2_sectoral = (
        0.5 * np.sqrt(factor / np.pi) for factor in (1.0, 3.0, 15.0, 5.0 / 4.0, 15.0 / 4.0)
    )
    basis = [
        np.full_like(x, degree0), degree1 * y, degree1 * z, degree1 * x,
        degree2_mixed * x * y, degree2_mixed * y * z, degree2_zonal * (3 * z * z - 1), degree2_mixed * x * z,
        degree2_sectoral * (x * x - y * y),
    ]  # fmt: skip
    return np.stack(basis, axis=-1) @ coefficients


def _rows(lights: object, image: int, images: int) -> np.ndarray:
    """Lights [L, 6] of one picture; none for None."""
    return np.zeros((0, 6)) if lights is None or 0 in to_numpy(lights).shape else row(lights, image, images)
