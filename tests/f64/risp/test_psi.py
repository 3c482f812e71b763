"""Rendering parameters psi: names, ranges, samples, defaults, JSON, and the pictures' derivatives by them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from risp_torch import Param, Scene, UserError, load_scene
from risp_torch.scene import bridge
from risp_torch.scene.bridge.chunks import image_bytes
from risp_torch.scene.parts.lights import ARRAYS
from risp_torch.scene.rendering_parameters import (
    Direction,
    Factor,
    Range,
    RenderingParameters,
    contact_sheet,
    default,
    default_psi,
    image_jacobian,
)
from risp_torch.scene.view.arrays import Field
from risp_torch.scene.view.view import View
from tests.reference.full_scene import camera, make_full_scene
from tests.reference.small_scenes import make_scene

SPREADS = {
    "light.key.direction": Direction((-1.0, 2.0), (0.4, 1.2)),
    "light.key.intensity": Factor(0.5, 1.5, tied=True),
    "light.lamp.position": Range((0.0, -0.15, 0.1), (0.1, -0.05, 0.2)),
    "box.color": Range(0.2, 1.0),
    "ball.vertex_colors": Factor((0.3, 0.4, 0.5), 1.0),
    "ball.shininess": Range(5.0, 60.0, scale="log10"),
    "ground.color": Range(0.1, 0.9, tied=True),
    "camera.distortion": Range(-0.01, 0.01),
    "softness.sigma": Factor(0.5, 2.0, scale="log10"),
}


@pytest.fixture(scope="module")
def scene() -> Scene:
    return make_full_scene()


@pytest.fixture(scope="module")
def poses(scene: Scene) -> torch.Tensor:
    with torch.no_grad():
        return scene.rollout(worlds=2, frames=1).body_q


def numbers(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


# -- the vector -----------------------------------------------------------------------------------------------------------


def test_every_entry_has_a_name(scene: Scene) -> None:
    parameters = RenderingParameters(scene, SPREADS)
    assert parameters.labels == [
        "light.key.direction[azimuth]", "light.key.direction[elevation]", "light.key.intensity[factor]",
        "light.lamp.position[0]", "light.lamp.position[1]", "light.lamp.position[2]", "box.color[0]", "box.color[1]",
        "box.color[2]", "ball.vertex_colors[factor 0]", "ball.vertex_colors[factor 1]", "ball.vertex_colors[factor 2]",
        "ball.shininess", "ground.color", *(f"camera.distortion[{i}]" for i in range(5)), "softness.sigma[factor]",
    ]  # fmt: skip
    assert parameters.size == len(parameters.labels) == len(set(parameters.labels))
    assert parameters.indices(["box.color", "ground.color", "light.key.direction[azimuth]"]) == [6, 7, 8, 13, 0]


def test_ends_and_middle_of_every_range(scene: Scene) -> None:
    parameters = RenderingParameters(scene, SPREADS)
    low, middle, high = (parameters.values(torch.full((parameters.size,), end, dtype=torch.float64)) for end in (-1, 0, 1))
    own = {name: scene.parameters[name].value for name in SPREADS}
    expected = {
        "light.key.direction": [(-1.0, 0.4), (0.5, 0.8), (2.0, 1.2)],
        "light.key.intensity": [f * own["light.key.intensity"] for f in (0.5, 1.0, 1.5)],
        "light.lamp.position": [np.array([0.0, -0.15, 0.1]), np.array([0.05, -0.1, 0.15]), np.array([0.1, -0.05, 0.2])],
        "box.color": [np.full(3, f) for f in (0.2, 0.6, 1.0)],
        "ball.vertex_colors": [own["ball.vertex_colors"] * f for f in (np.array([0.3, 0.4, 0.5]), [0.65, 0.7, 0.75], 1)],
        "ball.shininess": [5.0, math.sqrt(300.0), 60.0],
        "ground.color": [np.full(3, f) for f in (0.1, 0.5, 0.9)],
        "camera.distortion": [np.full(5, f) for f in (-0.01, 0.0, 0.01)],
        "softness.sigma": [f * own["softness.sigma"] for f in (0.5, 1.0, 2.0)],
    }
    for a, e in expected["light.key.direction"]:
        point = -np.array([math.cos(e) * math.cos(a), math.cos(e) * math.sin(a), math.sin(e)])
        assert any(np.allclose(values["light.key.direction"], point) for values in (low, middle, high))
    for name in expected.keys() - {"light.key.direction"}:
        for values, wanted in zip((low, middle, high), expected[name], strict=True):
            assert tuple(values[name].shape) == np.shape(own[name])
            np.testing.assert_allclose(values[name].cpu().numpy(), wanted, rtol=1e-12, atol=1e-15, err_msg=name)


def test_samples_are_uniform_and_repeatable(scene: Scene) -> None:
    parameters = RenderingParameters(scene, SPREADS)
    psi = parameters.sample(4000, seed=7)
    assert psi.shape == (4000, parameters.size) and psi.dtype == torch.float64
    assert float(psi.min()) >= -1 and float(psi.max()) <= 1
    assert psi.mean(dim=0).abs().max() < 0.05 and (psi.var(dim=0) - 1 / 3).abs().max() < 0.03
    assert (torch.corrcoef(psi.T) - torch.eye(parameters.size)).abs().max() < 0.08  # each by itself
    assert torch.equal(psi, parameters.sample(4000, seed=7)) and not torch.equal(psi, parameters.sample(4000, seed=8))
    assert torch.equal(psi[:3], parameters.sample(3, seed=7))
    generator = torch.Generator().manual_seed(7)
    first, second = parameters.sample(2000, seed=generator), parameters.sample(2000, seed=generator)
    assert torch.equal(torch.cat([first, second]), psi)


def test_values_of_worlds_and_their_gradients(scene: Scene) -> None:
    parameters = RenderingParameters(scene, SPREADS)
    psi = parameters.sample(3, seed=1)
    together = parameters.values(psi)
    for k in range(3):
        for name, value in parameters.values(psi[k]).items():
            assert torch.equal(together[name][k], value)
    assert torch.autograd.gradcheck(
        lambda p: tuple(parameters.values(p).values()), (psi.requires_grad_(),), eps=1e-6, atol=1e-8, check_forward_ad=True
    )


def test_own_values_are_those_of_the_time_when_psi_was_made() -> None:
    scene = make_full_scene()
    parameters = RenderingParameters(scene, {"light.key.intensity": Factor(0.5, 1.5, tied=True)})
    before = parameters.values(numbers(0.3))["light.key.intensity"]
    scene.set("light.key.intensity", 0.1)
    assert torch.equal(parameters.values(numbers(0.3))["light.key.intensity"], before)


def test_json_and_back(scene: Scene) -> None:
    parameters = RenderingParameters(scene, SPREADS)
    again = RenderingParameters.from_json(scene, json.loads(json.dumps(parameters.to_json())))
    psi = parameters.sample(2, seed=3)
    assert again.labels == parameters.labels
    for name, value in parameters.values(psi).items():
        assert torch.equal(again.values(psi)[name], value)


# -- the default ----------------------------------------------------------------------------------------------------------


def test_default_of_the_die_is_small_enough_to_train_on() -> None:
    parameters = default_psi(load_scene("cube", size=16))
    assert sorted(parameters.labels) == sorted(
        [
            "light.key.direction[azimuth]", "light.key.direction[elevation]", "light.key.intensity[factor]",
            "light.ambient.intensity[factor]", "die.face_colors[factor 0]", "die.face_colors[factor 1]",
            "die.face_colors[factor 2]", "ground.color", "background.color",
        ]
    )  # fmt: skip


def test_default_of_everything_changes_the_picture_with_every_entry(scene: Scene, poses: torch.Tensor) -> None:
    parameters = default_psi(scene, camera=True)
    families = {label.split("[")[0] for label in parameters.labels}
    assert {"ball.vertex_colors", "box.color", "box.specular", "box.shininess", "camera.position", "camera.turn", "camera.focal",
            "ground.second_color", "background.top", "light.environment.coefficients"} <= families  # fmt: skip
    assert not families & {"softness.sigma", "ground.cell", "box.texture", "light.lamp.position", "camera.distortion"}
    assert not {name for name in default_psi(scene).distributions if name.startswith("camera")}
    psi = parameters.sample(1, seed=2)[0]
    _, columns = image_jacobian(scene, poses[0, 1], psi, parameters)
    unseen = [label for label, column in zip(parameters.labels, columns, strict=True) if column.abs().max() < 1e-6]
    assert unseen == []


def test_default_keeps_to_the_bounds_of_a_param() -> None:
    scene = make_full_scene()
    scene.table.drop("ground.color")
    scene.table.add("ground.color", Param((0.3, 0.3, 0.3), low=0.25, high=0.35), unit="", shape=(3,), sign="color")
    values = default_psi(scene).values(default_psi(scene).sample(50))["ground.color"]
    assert float(values.min()) >= 0.25 and float(values.max()) <= 0.35 and values.shape == (50, 3)


def test_numbers_of_other_lights_do_not_vary_but_for_their_brightness(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new kind of light: one with a direction, and with a number of its own. An array without any rule is refused."""
    spot = Field(("light.key.direction", "light.lamp.intensity", "box.shininess"), lambda values: None)
    monkeypatch.setattr(View, "picture_fields", lambda view, *_, **options: {"spot": spot})
    with pytest.raises(NotImplementedError, match="'spot'"):
        default_psi(scene)
    monkeypatch.setattr(default, "ARRAYS", (*ARRAYS, "spot"))
    assert default_psi(scene).distributions == {"light.lamp.intensity": Factor(*default.BRIGHTNESS_RANGE, tied=True)}


# -- derivatives ----------------------------------------------------------------------------------------------------------


def five_point(function: Callable[[torch.Tensor], torch.Tensor], psi: torch.Tensor, k: int, step: float) -> torch.Tensor:
    """Central difference of fourth order along entry k of psi."""
    e = torch.zeros(psi.shape[-1], dtype=psi.dtype)
    e[k] = step
    near, far = function(psi + e) - function(psi - e), function(psi + 2 * e) - function(psi - 2 * e)
    return (8 * near - far) / (12 * step)


@pytest.mark.parametrize("quantity", ["color", "depth"])
def test_columns_are_the_derivatives(scene: Scene, poses: torch.Tensor, quantity: str) -> None:
    parameters = RenderingParameters(scene, SPREADS)
    psi = parameters.sample(2, seed=5)

    def pictures(at: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return scene.render(poses[:, 1:], parameters.values(at) | same, quantity=quantity, alpha=True)

    same = {"softness.sigma": torch.tensor(scene.sigma, dtype=torch.float64)}  # it is one number for all worlds
    columns = [name for name in SPREADS if name != "softness.sigma"]
    subset = RenderingParameters(scene, {name: SPREADS[name] for name in columns})
    psi = psi[:, : subset.size]
    images, jacobian = image_jacobian(scene, poses[:, 1:], psi, subset, quantity=quantity, alpha=True)
    parameters = subset
    channels = 4 if quantity == "color" else 2
    assert images.shape == (2, 1, 12, 12, channels) and jacobian.shape == (2, 1, subset.size, 12, 12, channels)
    assert torch.equal(images, pictures(psi)) or (images - pictures(psi)).abs().max() < 1e-13
    for k, label in enumerate(subset.labels):
        difference = five_point(pictures, psi, k, 1e-4)
        # A kink of the picture between the points of a difference is named by the smaller step.
        wrong = (jacobian[:, :, k] - difference).abs() > 1e-6 * jacobian[:, :, k].abs().max() + 1e-9
        if wrong.any():
            difference = five_point(pictures, psi, k, 1e-6)
            assert (jacobian[:, :, k] - difference).abs().max() <= 1e-5 * jacobian[:, :, k].abs().max() + 1e-7, label


def test_forward_and_reverse_agree(scene: Scene, poses: torch.Tensor) -> None:
    """<u, J v> = <J^T u, v>, J by image_jacobian, J^T by backward through render."""
    parameters = RenderingParameters(scene, SPREADS)
    psi = parameters.sample(1, seed=6)[0]
    inputs = scene.view.render_inputs(scene.table.values(worlds=2), poses)
    limit = 3 * image_bytes(inputs, scene.view.raster_settings(), columns=parameters.size)
    images, jacobian = image_jacobian(scene, poses, psi, parameters, memory_limit=limit)
    weight = torch.randn(images.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    leaf = psi.clone().requires_grad_()
    (scene.render(poses, parameters.values(leaf)) * weight).sum().backward()
    forward = torch.einsum("btkhwc,bthwc->k", jacobian, weight)
    torch.testing.assert_close(forward, leaf.grad, rtol=1e-8, atol=1e-10 * float(leaf.grad.abs().max()))
    assert not images.requires_grad and not jacobian.requires_grad


def test_torch_func_jvp_goes_through_a_scene(scene: Scene, poses: torch.Tensor) -> None:
    parameters = RenderingParameters(scene, SPREADS)
    psi = parameters.sample(1, seed=6)[0]
    along = torch.randn(parameters.size, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    images, tangent = torch.func.jvp(lambda p: scene.render(poses, parameters.values(p)), (psi,), (along,))
    wanted, jacobian = image_jacobian(scene, poses, psi, parameters)
    torch.testing.assert_close(images, wanted, rtol=0, atol=1e-13)
    torch.testing.assert_close(tangent, torch.einsum("btkhwc,k->bthwc", jacobian, along), rtol=1e-9, atol=1e-10)


def test_some_columns_of_all(scene: Scene, poses: torch.Tensor) -> None:
    parameters = RenderingParameters(scene, SPREADS)
    psi = parameters.sample(1, seed=8)[0]
    images, every = image_jacobian(scene, poses, psi, parameters)
    wanted = ["ground.color", "light.key.direction[elevation]", "box.color"]
    same, some = image_jacobian(scene, poses, psi, parameters, columns=wanted)
    torch.testing.assert_close(same, images, rtol=0, atol=1e-13)
    torch.testing.assert_close(some, every[:, :, parameters.indices(wanted)], rtol=0, atol=1e-12)
    changed, _ = image_jacobian(scene, poses, psi, parameters, parameter_values={"light.fill.intensity": numbers(0.9, 0.1, 0.1)})
    assert (changed - images).abs().max() > 0.05


def test_shapes_follow_the_poses(scene: Scene, poses: torch.Tensor) -> None:
    parameters = RenderingParameters(scene, {"box.color": Range(0.2, 1.0), "ground.color": Range(0.1, 0.9, tied=True)})
    one, three = parameters.sample(1)[0], parameters.sample(3)
    for given, psi, batch in (
        (poses, one, (2, 2)), (poses, three[:2], (2, 2)), (poses[:, 0], one, (2,)), (poses[0, 0], one, ()),
        (poses[0, 0], three, (3,)), (poses[:1], three, (3, 2)),
    ):  # fmt: skip
        images, jacobian = image_jacobian(scene, given, psi, parameters)
        assert images.shape == (*batch, 12, 12, 3) and jacobian.shape == (*batch, 4, 12, 12, 3)
    both = make_full_scene(size=6, cameras=False)
    both.add_camera(camera(6, "a"))
    both.add_camera(camera(6, "b", (-0.1, -0.2, 0.1)))
    images, jacobian = image_jacobian(both, poses, three[:2], parameters, camera="all")
    assert images.shape == (2, 2, 2, 6, 6, 3) and jacobian.shape == (2, 2, 2, 4, 6, 6, 3)
    for c, name in enumerate("ab"):
        alone = image_jacobian(both, poses, three[:2], parameters, camera=name)
        torch.testing.assert_close(images[:, :, c], alone[0], rtol=0, atol=1e-12)
        torch.testing.assert_close(jacobian[:, :, c], alone[1], rtol=0, atol=1e-10)


def test_one_pass_for_all_columns(scene: Scene, poses: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    from risp_torch.scene.bridge import pictures

    calls = []
    for name in ("render_arrays", "render_jvp"):
        original = getattr(pictures, name)
        monkeypatch.setattr(pictures, name, lambda *a, n=name, f=original: calls.append(n) or f(*a))
    parameters = RenderingParameters(scene, SPREADS)
    image_jacobian(scene, poses, parameters.sample(1)[0], parameters)
    assert calls == ["render_arrays", "render_jvp"]
    calls.clear()
    inputs = scene.view.render_inputs(scene.table.values(worlds=2), poses)
    limit = image_bytes(inputs, scene.view.raster_settings(), columns=parameters.size)
    image_jacobian(scene, poses, parameters.sample(1)[0], parameters, memory_limit=limit)
    assert calls == ["render_arrays", "render_jvp"] * 4


# -- bad input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("distributions", "message"),
    [
        ({}, "there are no rendering parameters"),
        ({"light.kee.intensity": Range(0, 1)}, "unknown rendering parameter 'light.kee.intensity': .*'light.key.intensity'"),
        ({"box.density": Range(1, 2)}, "box.density affects the motion, not the appearance"),
        ({"box.color": Range(0.9, 0.2)}, "box.color ranges from 0.9 to 0.2: the low end must be below the high end"),
        ({"box.color": Range(0.5, 0.5)}, "box.color ranges from 0.5 to 0.5: the low end"),
        ({"box.color": Range((0.1, 0.2), 0.9)}, r"box.color ranges from \(0.1, 0.2\) to 0.9: .*shape \(3,\)"),
        ({"box.color": Range(0.1, 1.5)}, r"box.color would reach 1.5 , outside its bounds \[0, 1\]: narrow its range"),
        ({"box.color": Factor(0.5, 1.5)}, "box.color would reach .*outside its bounds"),
        ({"box.color": Factor(-0.5, 0.5)}, "the factor of box.color has the low end -0.5"),
        ({"box.color": Factor(1.0, 0.5)}, "the factor of box.color ranges from 1.0 to 0.5: the low end"),
        ({"box.color": Range(0.0, 1.0, scale="log10")}, "box.color ranges from 0.0 on the scale log10: give numbers above zero"),
        ({"box.shininess": Range(0.0, 10.0)}, "box.shininess would reach 0 , outside its bounds"),
        ({"light.key.intensity": Range(-1.0, 1.0)}, "light.key.intensity would reach -1 , outside its bounds"),
        ({"box.color": Direction((0, 1), (0, 1))}, "box.color is not the direction of a light"),
        ({"light.key.direction": Direction((1, 0), (0, 1))}, "the azimuth of light.key.direction ranges from 1 to 0"),
    ],
)
def test_bad_ranges(scene: Scene, distributions: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        RenderingParameters(scene, distributions)


def test_an_unknown_scale() -> None:
    with pytest.raises(UserError, match="scale 'log' is unknown: choose 'linear' or 'log10'"):
        Range(0.1, 1.0, scale="log")


def test_bounds_of_a_param_hold() -> None:
    scene = make_full_scene()
    scene.table.drop("box.color")
    scene.table.add("box.color", Param((0.5, 0.5, 0.5), low=0.4, high=0.6), unit="", shape=(3,), sign="color")
    RenderingParameters(scene, {"box.color": Range(0.4, 0.6)})
    with pytest.raises(UserError, match=r"box.color would reach 0.3 , outside its bounds \[0.4, 0.6\]"):
        RenderingParameters(scene, {"box.color": Range(0.3, 0.6)})


def test_bad_vectors_and_columns(scene: Scene, poses: torch.Tensor) -> None:
    parameters = RenderingParameters(scene, {"box.color": Range(0.2, 1.0)})
    for psi in (torch.zeros(4), torch.zeros(2, 2), torch.zeros(1, 1, 3)):
        with pytest.raises(UserError, match=r"psi has shape .*give \[3\] or \[worlds, 3\]"):
            parameters.values(psi)
    with pytest.raises(UserError, match="unknown entry of psi 'box.colour': did you mean 'box.color'"):
        image_jacobian(scene, poses, numbers(0, 0, 0), parameters, columns=["box.colour"])
    with pytest.raises(UserError, match="psi has 3 rows and the poses are of 2 worlds"):
        image_jacobian(scene, poses, torch.zeros(3, 3, dtype=torch.float64), parameters)
    with pytest.raises(UserError, match="the poses have shape"):
        image_jacobian(scene, poses[0, 0, 0], numbers(0, 0, 0), parameters)


def test_bad_json(scene: Scene) -> None:
    for data, message in (
        ({"box.color": {"kind": "gauss"}}, "box.color varies by 'gauss': the kinds are range, factor, direction"),
        ({"box.color": {"kind": "range", "low": 0.1}}, "box.color does not describe a range"),
        ({"box.color": {"kind": "range", "low": 0.1, "high": 0.2, "mid": 0}}, "box.color does not describe a range"),
    ):
        with pytest.raises(UserError, match=message):
            RenderingParameters.from_json(scene, data)


# -- contact sheets -------------------------------------------------------------------------------------------------------


def test_a_sheet_shows_every_picture_over_its_caption(tmp_path: Path) -> None:
    pictures = torch.linspace(0, 1, 5, dtype=torch.float64)[:, None, None, None].expand(5, 6, 8, 3)
    contact_sheet(tmp_path / "sheet.png", pictures, [f"number {k}" for k in range(5)], columns=3)
    sheet = np.asarray(Image.open(tmp_path / "sheet.png"))
    zoom = 32  # 6 pixels become at least 192
    assert sheet.shape[1] == 3 * (8 * zoom + 8) + 8
    height, width = 6 * zoom, 8 * zoom
    for k in range(5):
        top, left = 8 + (k // 3) * (sheet.shape[0] - 8) // 2, 8 + (k % 3) * (width + 8)
        grey = sheet[top : top + height, left : left + width]
        value = k / 4
        expected = 12.92 * value if value <= 0.0031308 else 1.055 * value ** (1 / 2.4) - 0.055
        assert np.all(grey == round(255 * expected)), k
        assert sheet[top + height : top + height + 18, left : left + width].min() < 100  # letters


def test_bad_sheets(tmp_path: Path) -> None:
    for path, shape, captions, message in (
        ("sheet.jpg", (1, 4, 4, 3), ["a"], "is not a .png file"),
        ("sheet.png", (2, 4, 4, 3), ["a"], r"1 captions for pictures of shape \(2, 4, 4, 3\)"),
        ("sheet.png", (1, 4, 4), ["a"], "1 captions for pictures of shape"),
    ):
        with pytest.raises(UserError, match=message):
            contact_sheet(tmp_path / path, np.zeros(shape), captions)
    assert not list(tmp_path.iterdir())


def test_default_works_in_a_scene_of_the_command_line() -> None:
    scene = make_scene()
    parameters = default_psi(scene)
    assert "block.face_colors" in parameters.distributions and bridge.bridge_dtype() == torch.float64
    values = parameters.values(parameters.sample(20))
    for name, value in values.items():
        scene.table.values({name: value})
        if scene.table.signs.get(name) == "color":
            assert float(value.min()) >= 0 and float(value.max()) <= 1
