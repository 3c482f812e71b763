"""Ground, background, lights and shadows of scenes, and the quantities of a picture."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from risp_torch import (
    AmbientLight,
    Box,
    DirectionalLight,
    EnvironmentLight,
    PictureStyle,
    PointLight,
    Scene,
    Start,
    Surface,
    UserError,
)
from tests.reference.full_scene import CONTACT, camera
from tests.reference.plain_scene import add, plain_scene, shot


def test_equal_backgrounds_and_grounds_in_other_words() -> None:
    def film(background: dict[str, object], ground: dict[str, object], **style: object) -> torch.Tensor:
        scene = plain_scene(size=16, ground=False, **style)
        scene.set_background(**background)
        scene.add_ground(contact=CONTACT, **ground)
        add(scene)
        return shot(scene)

    color, other = (0.2, 0.5, 0.7), (0.7, 0.2, 0.1)
    wanted = film({"color": color}, {"color": other})
    same = [
        ({"top": color, "bottom": color}, {"color": other}),
        ({"image": np.full((3, 5, 3), color)}, {"color": other}),
        ({"color": color}, {"color": other, "pattern": "checker", "second_color": other, "cell": 0.02}),
        ({"color": color}, {"color": other, "pattern": "texture", "texture": np.ones((2, 3, 3))}),
        ({"color": color}, {"pattern": "texture", "texture": np.full((2, 3, 3), other), "wrap": "clamp"}),
    ]
    for background, ground in same:
        torch.testing.assert_close(film(background, ground), wanted, rtol=0, atol=1e-9)
    checker = film({"color": color}, {"color": other, "pattern": "checker", "cell": 0.05, "second_color": (0.1, 0.1, 0.9)})
    assert (checker - wanted).abs().max() > 0.3


def test_a_gradient_runs_from_top_to_bottom_and_an_image_is_upright() -> None:
    scene = plain_scene(size=16, ground=False)
    add(scene, start=Start(position=(0, 0, -5.0)))  # out of sight
    scene.set_background(top=(0.0, 0.0, 0.0), bottom=(1.0, 1.0, 1.0))
    rows = (np.arange(16) + 0.5) / 16
    np.testing.assert_allclose(shot(scene)[..., 0].cpu().numpy(), np.tile(rows[:, None], (1, 16)), atol=1e-12)
    image = np.zeros((16, 16, 3))
    image[2, 5] = (0.9, 0.5, 0.1)
    scene.set_background(image=image)
    assert [n for n in scene.parameters if n.startswith("background")] == ["background.image"]
    np.testing.assert_allclose(shot(scene).cpu().numpy(), image, atol=1e-12)


def test_many_lights_add_up() -> None:
    lights = {
        "key": DirectionalLight(direction=(-0.4, 0.5, -1.0), intensity=0.3),
        "fill": DirectionalLight(direction=(0.4, 0.5, -1.0), intensity=0.2, name="fill"),
        "lamp": PointLight(position=(0.1, -0.1, 0.2), intensity=0.01),
        "spot": PointLight(position=(-0.1, -0.1, 0.2), intensity=0.02, name="spot"),
        "sky": EnvironmentLight(coefficients=np.eye(9, 3) * 0.5, name="sky"),
        "ambient": AmbientLight(intensity=0.05),
        "more": AmbientLight(intensity=(0.01, 0.02, 0.03), name="more"),
    }

    def film(*names: str) -> torch.Tensor:
        scene = plain_scene(size=12)
        scene.lights = ()
        scene.table.drop(*(n for n in scene.parameters if n.startswith("light.")))
        for name in names:
            scene.add_light(lights[name])
        scene.set_background((0.0, 0.0, 0.0))
        add(scene)
        return shot(scene)

    torch.testing.assert_close(film(*lights), sum(film(name) for name in lights), rtol=0, atol=1e-12)
    one = film("ambient")
    lights["uniform"] = EnvironmentLight(coefficients=np.eye(9, 1) * 0.05 * np.sqrt(4 * np.pi) * np.ones(3))
    torch.testing.assert_close(film("uniform"), one, rtol=0, atol=1e-9)  # as the docstring says


def test_shadows_fall_on_the_ground_and_can_be_taken_away() -> None:
    scene = plain_scene(size=24)
    add(scene, start=Start(position=(0.0, 0.0, 0.05)))
    lit = shot(scene)
    scene.set_shadows(center=(0, 0, 0.02), radius=0.2)
    dark = shot(scene)
    assert (lit - dark).max() > 0.1 and (dark - lit).max() < 1e-9
    scene.shadows = None
    assert torch.equal(shot(scene), lit)


def test_quantities() -> None:
    scene = plain_scene(size=17, ground=False, sigma=1e-8)
    add(scene, shape=Box(0.02, 0.02, 0.02), start=Start(position=(0, 0, 0.02)))
    target = np.array([0.0, 0.0, 0.02])
    away = np.asarray(scene.camera.position) - target
    depth = shot(scene, quantity="depth", alpha=True)
    assert depth.shape == (17, 17, 2) and shot(scene, quantity="depth").shape == (17, 17, 1)
    # The middle ray meets the box's front side y = -0.01 (the camera is in front of it, a little to the right and above).
    distance = np.linalg.norm(away) * (1 - 0.01 / -away[1])
    assert float(depth[8, 8, 1]) == pytest.approx(1.0, abs=1e-6)
    assert float(depth[8, 8, 0]) == pytest.approx(distance, rel=1e-3)
    normal = shot(scene, quantity="normal")
    np.testing.assert_allclose(normal[8, 8].cpu().numpy(), [0, -1, 0], atol=1e-3)
    dark = Scene(frame_dt=5e-3, frames=1, substeps=1)  # neither quantity needs a light
    dark.add_camera(replace(camera(12), distortion=None))
    add(dark)
    assert shot(dark, quantity="normal").abs().max() > 0.5
    with pytest.raises(UserError, match="no light"):
        shot(dark)


def test_colours_without_shading_are_the_colours() -> None:
    scene = Scene(frame_dt=5e-3, frames=1, substeps=1, style=PictureStyle(shading="none"), sigma=1e-4)
    scene.add_camera(replace(camera(13), distortion=None))
    add(scene, shape=Box(0.3, 0.3, 0.01), start=Start(), surface=Surface(color=(0.2, 0.4, 0.6)))
    np.testing.assert_allclose(shot(scene)[6, 6].cpu().numpy(), [0.2, 0.4, 0.6], atol=1e-4)
