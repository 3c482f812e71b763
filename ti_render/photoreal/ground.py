"""The scene's ground as a polygon with a texture, for pictures that match the soft rasteriser's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ti_render.photoreal.camera import Film, eye_of
from ti_render.photoreal.geometry import row, texture_image

if TYPE_CHECKING:
    from ti_render.inputs import RenderInputs
    from ti_render.settings import RasterSettings

_CHECKER_TEXELS = 512  # side of the image of one period of the checker
_CHECKER_SOFTNESS = 0.05


@dataclass(frozen=True, eq=False)
class Ground:
    """A horizontal polygon.

    Attributes:
        corners: [K, 3] in the world [m], counter-clockwise from above.
        uv: [K, 2] texture coordinates of the corners.
        color: [3] linear rgb, where there is no texture.
        texels: [h, w, 3] linear rgb, row 0 at v = 1, or None.
        repeat: whether the texture repeats.
    """

    corners: np.ndarray
    uv: np.ndarray
    color: np.ndarray
    texels: np.ndarray | None
    repeat: bool


def ground_of(inputs: RenderInputs, settings: RasterSettings, image: int, *, camera: np.ndarray, film: Film) -> Ground | None:
    """The visible ground of one picture, or None.

    Args:
        inputs, settings: of the pictures.
        image: number of the picture.
        camera: [16] its camera row.
        film: of that camera.
    """
    if settings.ground is None:
        return None
    numbers = row(inputs.ground, image, len(inputs.body_q))
    color_a, height, color_b, cell, origin = numbers[:3], numbers[3], numbers[4:7], numbers[7], numbers[8:]
    corners = _visible_corners(camera, film, height, settings.background_depth)
    if len(corners) < 3:
        return None
    texels, repeat, period = None, True, cell
    if settings.ground == "checker":
        texels, period = checker_texels(color_a, color_b), 2 * cell
    elif settings.ground == "texture":
        texels, repeat = texture_image(inputs, image, settings.ground_texture)
        texels = texels * color_a
    uv = np.zeros((len(corners), 2)) if texels is None else (corners[:, :2] - origin) / period
    return Ground(corners, uv, color_a, texels, repeat)


def checker_texels(color_a: np.ndarray, color_b: np.ndarray, texels_per_side: int = _CHECKER_TEXELS) -> np.ndarray:
    """One period (two by two cells) of the soft checker [S, S, 3], row 0 at the top.

    Args:
        color_a: [3] linear rgb of the cell that begins at the origin.
        color_b: [3] of its neighbours.
        texels_per_side: S.
    """
    wave = np.sin(2 * np.pi * (np.arange(texels_per_side) + 0.5) / texels_per_side)
    wave = wave / np.sqrt(wave * wave + _CHECKER_SOFTNESS**2)
    weight_a = 0.5 * (1 + wave[::-1, None] * wave[None, :])
    return color_b + (color_a - color_b) * weight_a[..., None]


def _visible_corners(camera: np.ndarray, film: Film, height: float, depth: float) -> np.ndarray:
    """A polygon [K, 3] of the plane z = height that covers its visible part up to a camera depth [m]."""
    corner_radii = [
        np.hypot((x - film.center[0]) / film.focal, (y - film.center[1]) / film.focal)
        for x in (0, film.width)
        for y in (0, film.height)
    ]
    eye, forward = eye_of(camera), camera[10:13]
    max_distance = 1.1 * depth * float(np.hypot(1.0, max(corner_radii)))
    square = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)]) * max_distance + eye[:2]
    corners = np.column_stack([square, np.full(4, height)])
    depth_margin = depth - (corners - eye) @ forward
    return _clip_polygon(corners, depth_margin)


def _clip_polygon(corners: np.ndarray, depth_margin: np.ndarray) -> np.ndarray:
    """The part of a convex polygon [K, 3] where the linear function with the values ``depth_margin`` [K] is not negative."""
    vertices = []
    for k in range(len(corners)):
        next_corner = (k + 1) % len(corners)
        if depth_margin[k] >= 0:
            vertices.append(corners[k])
        if (depth_margin[k] >= 0) != (depth_margin[next_corner] >= 0):
            fraction = depth_margin[k] / (depth_margin[k] - depth_margin[next_corner])
            vertices.append(corners[k] + fraction * (corners[next_corner] - corners[k]))
    return np.array(vertices).reshape(-1, 3)
