"""What a scene's pictures refuse, in one sentence each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from risp_torch import (
    AmbientLight,
    Box,
    DirectionalLight,
    EnvironmentLight,
    Mesh,
    PictureStyle,
    PointLight,
    Scene,
    Surface,
    UserError,
)
from tests.reference.full_scene import CONTACT, camera
from tests.reference.plain_scene import add, plain_scene, shot

WHITE = np.ones((2, 2, 3))
UNWRAPPED = Mesh(vertices=Box(1, 1, 1).surface().vertices * 0.05, faces=Box(1, 1, 1).surface().faces)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda s: add(s, surface=Surface(texture="no.png")), r"thing.texture: picture no.png does not exist .looked for /"),
        (lambda s: add(s, shape=UNWRAPPED, surface=Surface(texture=WHITE)), "thing has a texture, and 12 of .* have no uv"),
        (lambda s: add(s, surface=Surface(texture=np.ones((2, 2)))), r"thing.texture has shape \(2, 2\)"),
        (lambda s: add(s, surface=Surface(texture=np.ones((0, 2, 3)))), r"thing.texture has shape \(0, 2, 3\)"),
        (lambda s: add(s, surface=Surface(texture=np.full((9, 9, 3), 255.0))), "thing.texture is an array with numbers from 255"),
        (lambda s: add(s, surface=Surface(uv=np.zeros((12, 3, 2)))), "thing has uv but no texture"),
        (lambda s: add(s, surface=Surface(texture=WHITE, uv=np.zeros((5, 2)))), r"thing.uv has shape \(5, 2\)"),
        (lambda s: add(s, surface=Surface(specular=0.5)), "thing has a specular and .*phong"),
        (lambda s: add(s, surface=Surface(shininess=5.0)), "thing has a shininess and .*phong"),
        (lambda s: Surface(texture="a.png", wrap="mirror"), "wrap 'mirror' is unknown: choose 'clamp' or 'repeat'"),
        (lambda s: Surface(crease_angle=0.5), "crease angle 0.5 and smooth=False"),
        (lambda s: Surface(smooth=True, crease_angle=40.0), "crease angle 40.0"),
        (lambda s: s.set_background(), "a background is a color, or top and bottom, or an image"),
        (lambda s: s.set_background((1, 1, 1), top=(1, 1, 1)), "a background is a color"),
        (lambda s: s.set_background(image="sky.png"), "background.image: picture sky.png does not exist"),
        (lambda s: s.set_background((2, 1, 1)), r"background.color is \[2. 1. 1.\]"),
        (lambda s: s.add_ground(contact=CONTACT), "'ground.contact.stiffness' is in the scene already"),
        (lambda s: s.add_light(AmbientLight(intensity=1.0, name="key")), "a light 'key' already"),
        (lambda s: s.add_light(PointLight(position=(0, 0), name="p")), r"PointLight: position has shape \(2,\)"),
        (lambda s: s.add_light(EnvironmentLight(coefficients=np.ones((4, 3)))), "EnvironmentLight: coefficients has shape"),
        (lambda s: s.add_light(DirectionalLight(direction=(0, 0, 0), name="d")), "light 'd' has direction"),
        (lambda s: s.add_light("sun"), "add_light: light is 'sun': give a DirectionalLight or a PointLight"),
        (lambda s: s.add_camera(camera(12)), "a camera without a name already"),
        (lambda s: (s.add_camera(camera(12, "a")), s.add_camera(camera(12, "a"))), "a camera 'a' already"),
        (lambda s: s.add_camera(camera(12, "all")), "a camera is called 'all'"),
        (lambda s: s.add_camera(camera(12, "a.b")), "a camera is called 'a.b'"),
        (lambda s: camera(0), "look_at: width is 0: give a whole number"),
        (lambda s: s.resize_camera(0, 5), "resize_camera: width is 0: give a whole number"),
        (lambda s: (add(s), s.add_camera(camera(12, "left")), shot(s, camera="lift")), "unknown camera 'lift': .* 'left'"),
        (lambda s: (add(s), s.add_camera(camera(9, "left")), shot(s, camera="all")), "the cameras have width 9, 12"),
        (lambda s: (add(s), s.render(torch.zeros(1, 2, 3, 7))), r"this scene needs \[worlds, frames, 1, 7\]"),
        (lambda s: s.set_shadows(center=(0, 0, 0), radius=0.0), "radius"),
        (lambda s: plain_scene(style=PictureStyle(shading="toon")), "shading"),
        (lambda s: plain_scene(style=PictureStyle(aggregation="hard")), "aggregation"),
        (lambda s: plain_scene(style=PictureStyle(antialias=0)), "antialias"),
        (lambda s: plain_scene(sigma=0.0), "softness.sigma is 0.0: give a number above zero"),
        (lambda s: plain_scene(gamma=-1.0), "softness.gamma is -1.0: give a number above zero"),
    ],
)
def test_errors(build: Callable[[Scene], object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        build(plain_scene())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pattern": "stripes"}, "pattern 'stripes' is unknown: choose 'plain', 'checker' or 'texture'"),
        ({"pattern": "texture"}, "the pattern 'texture' and no texture"),
        ({"texture": np.ones((2, 2, 3))}, "the pattern 'plain' and a texture"),
        ({"second_color": (1, 1, 1)}, "a second colour and the pattern 'plain'"),
        ({"pattern": "checker", "cell": 0.0}, "ground.cell is 0.0 m: give a number above zero"),
        ({"pattern": "texture", "texture": "no.jpg"}, "ground.texture: picture no.jpg does not exist"),
        ({"wrap": "mirror"}, "wrap 'mirror' is unknown"),
    ],
)
def test_errors_of_the_ground(options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        plain_scene(ground=False).add_ground(contact=CONTACT, **options)
