"""The scene's own ground as a polygon with a texture, for pictures that match the soft rasteriser's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ti_render.photoreal.camera import Film, eye_of
from ti_render.photoreal.geometry import row, texels_of

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
    """The ground that one picture shows, or None.

    Args:
        inputs, settings: what the pictures are made of.
        image: number of the picture.
        camera: [16] its camera row.
        film: of that camera.
    """
    if settings.ground is None:
        return None
    numbers = row(inputs.ground, image, len(inputs.body_q))
    color_a, height, color_b, cell, origin = numbers[:3], numbers[3], numbers[4:7], numbers[7], numbers[8:]
    corners = _seen_corners(camera, film, height, settings.background_depth)
    if len(corners) < 3:
        return None
    texels, repeat, period = None, True, cell
    if settings.ground == "checker":
        texels, period = checker_texels(color_a, color_b), 2 * cell
    elif settings.ground == "texture":
        texels, repeat = texels_of(inputs, image, settings.ground_texture)
        texels = texels * color_a
    uv = np.zeros((len(corners), 2)) if texels is None else (corners[:, :2] - origin) / period
    return Ground(corners, uv, color_a, texels, repeat)


def checker_texels(color_a: np.ndarray, color_b: np.ndarray, texels_per_side: int = _CHECKER_TEXELS) -> np.ndarray:
    """One period (two by two cells) of the soft checker [S, S, 3], row 0 at the top.

    Args:
        color_a: [3] linear rgb of the cell that begins at the origin.
        color_b: [3] of its neighbours.
        texels_per_side: texels a side.
    """
    wave = np.sin(2 * np.pi * (np.arange(texels_per_side) + 0.5) / texels_per_side)
    wave = wave / np.sqrt(wave * wave + _CHECKER_SOFTNESS**2)
    second_weight = 0.5 * (1 + wave[::-1, None] * wave[None, :])
    return color_b + (color_a - color_b) * second_weight[..., None]


def _seen_corners(camera: np.ndarray, film: Film, height: float, depth: float) -> np.ndarray:
    """A polygon [K, 3] of the plane z = height that covers what the film shows of it up to a camera depth [m]."""
    edge = [
        np.hypot((x - film.center[0]) / film.focal, (y - film.center[1]) / film.focal)
        for x in (0, film.width)
        for y in (0, film.height)
    ]
    eye, forward = eye_of(camera), camera[10:13]
    max_distance = 1.1 * depth * float(np.hypot(1.0, max(edge)))
    square = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)]) * max_distance + eye[:2]
    corners = np.column_stack([square, np.full(4, height)])
    room = depth - (corners - eye) @ forward  # what is left of the depth at each corner
    return _clipped(corners, room)


def _clipped(corners: np.ndarray, room: np.ndarray) -> np.ndarray:
    """The part of a convex polygon [K, 3] where the linear function with the values ``room`` [K] is not negative."""
    vertices = []
    for k in range(len(corners)):
        next_corner = (k + 1) % len(corners)
        if room[k] >= 0:
            vertices.append(corners[k])
        if (room[k] >= 0) != (room[next_corner] >= 0):
            fraction = room[k] / (room[k] - room[next_corner])
            vertices.append(corners[k] + fraction * (corners[next_corner] - corners[k]))
    return np.array(vertices).reshape(-1, 3)
