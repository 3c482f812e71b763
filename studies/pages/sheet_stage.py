"""The scene of the renderer's contact sheets: a ball and a box on a ground, and pictures made of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from risp_torch import AmbientLight, Box, Camera, Contact, DirectionalLight, Scene, Sphere, Start, Surface, srgb_to_linear

SIX_COLORS = [(0.8, 0.1, 0.1), (0.1, 0.5, 0.75), (0.95, 0.75, 0.1), (0.15, 0.6, 0.2), (0.9, 0.9, 0.85), (0.45, 0.15, 0.6)]
ORANGE, TEAL, WHITE, SKY = (0.85, 0.35, 0.1), (0.1, 0.45, 0.5), (0.9, 0.9, 0.9), (0.75, 0.85, 0.95)
# Directions in which lights travel, named by where they come from: the camera looks along +y, x is to its right.
FROM_LEFT, FROM_RIGHT = (1.0, 0.5, -1.0), (-1.0, 0.5, -1.0)
CONTACT = Contact(stiffness=1e3, damping=1.0, friction_stiffness=10.0, friction=0.5)
BALL_RADIUS, BOX_SIDE = 0.035, 0.05
BALL_PLACE, BOX_PLACE, BOX_TURN = (-0.03, 0.03, BALL_RADIUS), (0.028, -0.025, 0.5 * BOX_SIDE), 0.5  # m, m, rad about z


def empty_stage(
    size: int, *, ground: Mapping[str, Any] | None = None, camera: Mapping[str, Any] | None = None, **options: Any
) -> Scene:
    """A scene with a ground and a camera, without bodies and lights.

    Args:
        size: of the square picture [pixels].
        ground: options of ``Scene.add_ground``.
        camera: options of ``Camera.look_at`` in place of the usual ones.
        options: of ``Scene``.
    """
    defaults = {"sigma": 1e-4 * (128 / size) ** 2, "gamma": 1e-3}  # edges as soft, in pixels, at every size
    scene = Scene(frame_dt=0.01, frames=1, substeps=20, **(defaults | options))
    scene.add_ground(contact=CONTACT, **({"color": (0.5, 0.48, 0.45)} | dict(ground or {})))
    view = {"eye": (0.0, -0.5, 0.26), "target": (0.0, 0.0, 0.03), "vertical_fov": 18.0, "near": 0.2, "far": 1.5}
    scene.add_camera(Camera.look_at(width=size, height=size, **(view | dict(camera or {}))))
    scene.set_background(SKY)
    return scene


def stage(
    size: int,
    *,
    ball: Surface | None = None,
    box: Surface | None = None,
    lights: Sequence[Any] | None = None,
    subdivisions: int = 3,
    **options: Any,
) -> Scene:
    """A ball on the left and, nearer, a box on the right.

    Args:
        size: of the square picture [pixels].
        ball, box: their surfaces.
        lights: of the scene; by default one from the left and ambient light.
        subdivisions: of the ball.
        options: of ``empty_stage``.
    """
    scene = empty_stage(size, **options)
    scene.add_rigid(
        "ball", shape=Sphere(BALL_RADIUS, subdivisions), density=1e3, start=Start(position=BALL_PLACE),
        surface=ball or Surface(color=ORANGE, smooth=True),
    )  # fmt: skip
    scene.add_rigid(
        "box", shape=Box(BOX_SIDE, BOX_SIDE, BOX_SIDE), density=1e3,
        start=Start(position=BOX_PLACE, orientation=(0.0, 0.0, math.sin(0.5 * BOX_TURN), math.cos(0.5 * BOX_TURN))),
        surface=box or Surface(color=TEAL),
    )  # fmt: skip
    default_lights = [DirectionalLight(direction=FROM_LEFT, intensity=0.8), AmbientLight(intensity=0.25)]
    for light in default_lights if lights is None else lights:
        scene.add_light(light)
    return scene


def with_shadows(scene: Scene, **settings: Any) -> Scene:
    """The scene with shadows of its directional lights."""
    scene.set_shadows(**({"center": (0.0, 0.0, 0.03), "radius": 0.14} | settings))
    return scene


def start_of(scene: Scene) -> torch.Tensor:
    """Poses [1, 1, N, 7] of the scene's bodies at its start."""
    return scene.start_poses(scene.table.values())[:, None]


def shot(scene: Scene, **options: Any) -> np.ndarray:
    """The scene's start as its first camera sees it, [H, W, C] (options: ``Scene.render``)."""
    with torch.no_grad():
        return scene.render(start_of(scene), **options)[0, 0].cpu().numpy()


def grey(values: np.ndarray) -> np.ndarray:
    """Numbers [H, W] in [0, 1] as a picture in which equal steps of the number are equal steps of grey in the file."""
    return srgb_to_linear(np.clip(values, 0.0, 1.0))[..., None].repeat(3, axis=-1)


def letters(words: Sequence[str], *, columns: int, side: int = 48) -> np.ndarray:
    """A picture [h, w, 3] of words, each on a square of its own colour, which shows what is mirrored or turned."""
    from PIL import Image, ImageDraw, ImageFont

    rows = -(-len(words) // columns)
    picture = Image.new("RGB", (columns * side, rows * side))
    draw, font = ImageDraw.Draw(picture), ImageFont.load_default(size=0.5 * side)
    for k, word in enumerate(words):
        x, y = k % columns * side, k // columns * side
        draw.rectangle((x, y, x + side - 1, y + side - 1), fill=tuple(int(255 * c**0.45) for c in SIX_COLORS[k % 6]))
        ink = "black" if k % 6 in (2, 4) else "white"
        draw.text((x + side / 2, y + side / 2), word, fill=ink, font=font, anchor="mm")
        draw.rectangle((x + side / 4, y + 0.84 * side, x + 3 * side / 4, y + 0.88 * side), fill=ink)
    return srgb_to_linear(np.asarray(picture, dtype=np.float64) / 255.0)
