"""A default distribution of appearances: lights, colours and highlights vary as in RISP's training images."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from risp_torch.scene.parts.lights import ARRAYS
from risp_torch.scene.rendering_parameters.parameters import RenderingParameters
from risp_torch.scene.rendering_parameters.ranges import Direction, Distribution, Factor, Range
from ti_sim.base.param import Param
from ti_sim.base.rules import checked

if TYPE_CHECKING:
    from risp_torch.scene.scene import Scene

# Ranges of the training domain: the light's elevation [rad] and brightness, tints, grey values, and the highlight.
ELEVATION_RANGE = (0.35, 1.4)
BRIGHTNESS_RANGE, AMBIENT_RANGE = (0.6, 1.6), (0.4, 1.8)
TINT_RANGE, GREY_RANGE = (0.3, 1.0), (0.05, 0.95)
SPECULAR_RANGE, SHININESS_RANGE = (0.0, 0.6), (5.0, 60.0)
# Variation of cameras: relative to the distance from the world's origin and to the focal length, and rad.
MAX_CAMERA_SHIFT, MAX_CAMERA_TURN, CAMERA_ZOOM_RANGE = 0.05, 0.03, (0.95, 1.05)

# Arrays of the renderer that do not vary.
_CONSTANT_ARRAYS = ("softness", "uv", "texels", "background_image", "distortion")


@checked
def default_psi(scene: Scene, *, camera: bool = False) -> RenderingParameters:
    """Rendering parameters of a scene with default ranges.

    A parameter with bounds (a ``Param`` with low and high) varies between these. Otherwise: directional lights come from
    all sides, 20 to 80 degrees above the horizon; lights vary in brightness, bodies in tint; ground and background
    vary in grey value (textures and images do not); highlights in strength and size. Geometry and textures do not vary.

    Args:
        scene: the scene.
        camera: whether position, turn and focal lengths of the cameras also vary a little.

    Raises:
        UserError: the scene has no parameter that can vary.
    """
    distributions = {}
    for array, field in scene.view.picture_fields().items():
        for name in field.names:
            if name in scene.parameters and (distribution := _default_distribution(scene, array, name, camera=camera)):
                distributions[name] = distribution
    return RenderingParameters(scene, distributions)


def _default_distribution(scene: Scene, array: str, name: str, *, camera: bool) -> Distribution | None:
    """Default variation of a parameter in the renderer's ``array``."""
    param, suffix = scene.parameters[name], name.rpartition(".")[2]
    if array in _CONSTANT_ARRAYS or suffix in ("cell", "origin") or (array == "camera" and not camera):
        return None
    if param.low is not None and param.high is not None:
        return Range(param.low, param.high, scale=param.scale)
    if array in ARRAYS:
        return _light_distribution(array, suffix, param)
    if array == "camera":
        return _camera_distribution(suffix, param)
    if array == "material":
        return Range(*SPECULAR_RANGE, tied=True) if suffix == "specular" else Range(*SHININESS_RANGE, scale="log10")
    if array == "ground" and "ground.texture" in scene.parameters:
        return Factor(*TINT_RANGE, tied=True)
    if array in ("ground", "background"):
        return Range(*GREY_RANGE, tied=True)
    if array == "albedo":
        return Range(*TINT_RANGE) if suffix == "color" else Factor(*TINT_RANGE)
    raise NotImplementedError(f"{name} is in the renderer's array {array!r}, which has no default variation: add one here")


def _light_distribution(array: str, suffix: str, param: Param) -> Distribution | None:
    """Directions of directional lights and brightness of all lights; their other parameters do not vary."""
    if array == "directional" and suffix == "direction":
        return Direction((-math.pi, math.pi), ELEVATION_RANGE)
    if suffix in ("intensity", "coefficients") and np.any(param.value):
        return Factor(*(AMBIENT_RANGE if array == "ambient" else BRIGHTNESS_RANGE), tied=True)
    return None


def _camera_distribution(suffix: str, param: Param) -> Distribution | None:
    if suffix == "position":
        max_shift = MAX_CAMERA_SHIFT * np.linalg.norm(param.value)
        return Range(param.value - max_shift, param.value + max_shift)
    if suffix == "turn":
        return Range(param.value - MAX_CAMERA_TURN, param.value + MAX_CAMERA_TURN)
    return Factor(*CAMERA_ZOOM_RANGE, tied=True) if suffix == "focal" else None
