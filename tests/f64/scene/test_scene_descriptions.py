"""The description by which a film tells whether it shows the same picture."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from risp_torch import AmbientLight, Scene, Surface
from tests.reference.full_scene import FULL_STYLE, camera, make_full_scene, picture
from tests.reference.plain_scene import add, plain_scene

CHANGES: dict[str, Callable[[Scene], object]] = {
    "color": lambda s: s.set("box.color", (0.1, 0.2, 0.3)),
    "texel": lambda s: s.set("box.texture", picture(6, 9, 8)),
    "sigma": lambda s: setattr(s, "sigma", 2e-3),
    "background": lambda s: s.set_background((0.1, 0.1, 0.1)),
    "shadows": lambda s: setattr(s, "shadows", None),
    "light": lambda s: s.add_light(AmbientLight(intensity=0.1, name="other")),
    "camera": lambda s: s.add_camera(camera(12, "second")),
    "size": lambda s: s.resize_camera(10, 10),
    "ground": lambda s: s.set("ground.cell", 0.07),
    "distortion": lambda s: s.set("camera.distortion", np.zeros(5)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_description_tells_pictures_apart(change: str) -> None:
    scene = make_full_scene()
    before = json.dumps(scene.description(), sort_keys=True)
    assert json.dumps(make_full_scene().description(), sort_keys=True) == before
    CHANGES[change](scene)
    assert json.dumps(scene.description(), sort_keys=True) != before


@pytest.mark.parametrize("style", [{"shading": "lambert"}, {"aggregation": "dibr"}, {"antialias": 2}, {"two_sided": True}])
def test_description_tells_styles_apart(style: dict[str, object]) -> None:
    scene = make_full_scene(style=replace(FULL_STYLE, **style))
    assert scene.description()["style"] != make_full_scene().description()["style"]


def test_large_textures_are_described_by_a_checksum() -> None:
    scene = plain_scene()
    add(scene, surface=Surface(texture=picture(64, 64, 0)))
    described = scene.description()["parameters"]["thing.texture"]
    assert described["shape"] == [64, 64, 3] and len(described["sha256"]) == 64
    scene.set("thing.texture", picture(64, 64, 1))
    assert scene.description()["parameters"]["thing.texture"] != described
