"""How scenes look: gradients of every number in the picture, batches, cameras, softness, films in parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from risp_torch import AmbientLight, Box, Camera, Param, PictureStyle, Scene, UserError, load_scene
from risp_torch.scene import bridge
from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.bridge.chunks import image_bytes
from tests.reference.full_scene import camera, make_full_scene
from tests.reference.gradients_in_worlds import check_torch_in_worlds
from tests.reference.plain_scene import add, plain_scene, poses_of, shot, two_cameras

VARIANTS = {
    "phong": {},
    "pictures": {"pictures": True},
    "dibr": {"style": PictureStyle(aggregation="dibr", shading="lambert")},
    "unlit": {"style": PictureStyle(shading="none", composite="softmax", antialias=2)},
}


# -- gradients ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_gradient_of_every_number_in_the_picture(variant: str) -> None:
    scene = make_full_scene(**VARIANTS[variant])
    poses = poses_of(scene)[:, 1:]
    names = scene.view.picture_parameters
    units = {n: np.maximum(np.abs(scene.parameters[n].value), 1e-6 if n.startswith("softness") else 1e-2) for n in names}
    weight = torch.randn((1, 1, 12, 12, 4), generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(bridge_device())

    def losses(at: dict[str, torch.Tensor]) -> torch.Tensor:
        given = {n: torch.as_tensor(scene.parameters[n].value) + torch.as_tensor(units[n]) * at[n] for n in names}
        worlds = poses.expand(len(at[names[0]]), *poses.shape[1:])
        return (weight * scene.render(worlds, given, alpha=True)).flatten(1).sum(dim=1)

    point = {n: np.zeros(np.shape(scene.parameters[n].value)) for n in names}
    report = check_torch_in_worlds(losses, point, max_entries=4, step=1e-6, floor=1e-3)  # the loss is of the order of 10
    report.raise_if_wrong()
    seen = {entry.name for entry in report.entries if abs(entry.adjoint) > 1e-9}
    lit = {n for n in names if n.startswith("light.")} if scene.style.shading == "none" else set()
    assert set(names) - seen == lit | ({"softness.gamma"} if variant == "dibr" else set())


def test_picture_parameters_are_all_numbers_that_do_not_move_anything() -> None:
    scene = make_full_scene()
    looks = scene.view.picture_parameters
    moves = [name for name in scene.parameters if name not in looks]
    expected = {
        "softness.sigma", "softness.gamma", "background.top", "background.bottom", "ground.color", "ground.second_color",
        "ground.cell", "ground.origin", "box.texture", "box.color", "box.specular", "box.shininess", "ball.vertex_colors",
        "ball.specular", "ball.shininess", "camera.position", "camera.turn", "camera.focal", "camera.center",
        "camera.distortion", "light.key.direction", "light.key.intensity", "light.fill.direction", "light.fill.intensity",
        "light.lamp.position", "light.lamp.intensity", "light.environment.coefficients", "light.ambient.intensity",
    }  # fmt: skip
    assert set(looks) == expected and len(looks) == len(expected)
    assert all(n == "gravity" or n.startswith(("box.", "ball.", "ground.contact.")) for n in moves)
    states = poses_of(scene)
    moved = {name: torch.as_tensor(scene.parameters[name].value) * 1.01 for name in looks}
    with torch.no_grad():
        assert torch.equal(scene.rollout(moved, frames=1).body_q, states)
    assert {"background.image", "ground.texture"} <= set(make_full_scene(pictures=True).view.picture_parameters)


# -- batches and cameras --------------------------------------------------------------------------------------------------


def test_worlds_frames_and_cameras_in_one_call() -> None:
    scene = two_cameras()
    generator = torch.Generator().manual_seed(1)
    given = {
        "box.color": 0.3 + 0.6 * torch.rand((3, 3), generator=generator, dtype=torch.float64),
        "camera.right.turn": 0.05 * torch.randn((3, 3), generator=generator, dtype=torch.float64),
        "light.lamp.intensity": 0.01 * torch.rand((3, 3), generator=generator, dtype=torch.float64),
    }
    poses = poses_of(scene, worlds=3)
    with torch.no_grad():
        together = scene.render(poses, given, camera="all", alpha=True)
        assert together.shape == (3, 2, 2, 10, 10, 4)
        for c, name in enumerate(("left", "right")):
            alone = scene.render(poses, given, camera=name, alpha=True)
            assert alone.shape == (3, 2, 10, 10, 4)
            torch.testing.assert_close(together[:, :, c], alone, rtol=0, atol=1e-12)
            for b in range(3):
                world = {n: value[b] for n, value in given.items()}
                for t in range(2):
                    one = scene.render(poses[b : b + 1, t : t + 1], world, camera=name, alpha=True)
                    torch.testing.assert_close(alone[b, t], one[0, 0], rtol=0, atol=1e-12)
        first = scene.render(poses, given)  # the first camera, where none is named
        torch.testing.assert_close(first, together[:, :, 0, ..., :3], rtol=0, atol=1e-12)
    assert (together[:, :, 0] - together[:, :, 1]).abs().max() > 0.1


def test_rows_that_worlds_share_are_stored_once() -> None:
    scene = make_full_scene()
    values = scene.table.values({"box.color": torch.rand(3, 3)}, worlds=3)
    inputs = scene.view.render_inputs(values, poses_of(scene, worlds=3))
    assert inputs.albedo.shape[0] == 3
    assert {n: getattr(inputs, n).shape[0] for n in ("texels", "camera", "directional", "ground", "ambient")} == {
        "texels": 1, "camera": 1, "directional": 1, "ground": 1, "ambient": 1,
    }  # fmt: skip


def test_a_value_for_all_worlds_and_one_for_each_have_the_same_gradient() -> None:
    scene = make_full_scene()
    poses = poses_of(scene, worlds=2)
    shared = torch.tensor(scene.parameters["light.key.intensity"].value, requires_grad=True)
    each = shared.detach().expand(2, 3).clone().requires_grad_()
    repeated = shared.detach().expand(2, 3).requires_grad_()  # a leaf whose rows lie on one another
    weight = torch.randn((2, 2, 12, 12, 3), generator=torch.Generator().manual_seed(2), dtype=torch.float64).to(bridge_device())
    for tensor in (shared, each, repeated):
        (scene.render(poses, {"light.key.intensity": tensor}) * weight).sum().backward()
    torch.testing.assert_close(shared.grad, each.grad.sum(0), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(repeated.grad, each.grad, rtol=1e-10, atol=1e-12)
    assert (each.grad[0] - each.grad[1]).abs().max() > 1e-6


@dataclass(frozen=True)
class Record:
    """What an importer of camera files returns."""

    name: str
    width: int
    height: int
    intrinsics: np.ndarray
    rotation: np.ndarray
    translation: np.ndarray
    distortion: np.ndarray


def test_camera_from_a_record_of_a_file() -> None:
    own = camera(12)
    translation = -own.rotation @ np.asarray(own.position)
    record = Record("a/b 1.jpg", 12, 12, np.array([*own.focal, *own.center]), own.rotation, translation, np.array(own.distortion))
    made = Camera.from_record(record, near=0.05, far=1.0)
    assert made.name == "a_b_1_jpg" and (made.width, made.height) == (12, 12)
    np.testing.assert_allclose(made.position, own.position, atol=1e-15)
    scene = make_full_scene(cameras=False)
    scene.add_camera(made)
    torch.testing.assert_close(shot(scene), shot(make_full_scene()), rtol=0, atol=1e-10)
    plain = Camera.from_record(replace(record, distortion=np.zeros(5)), name="plain")
    assert plain.distortion is None and plain.name == "plain"


def test_a_resized_camera_shows_the_same_view() -> None:
    scene = make_full_scene(size=36)
    scene.resize_camera(12, 12)
    torch.testing.assert_close(shot(scene), shot(make_full_scene(size=12)), rtol=0, atol=1e-10)
    scene.set("camera.focal", scene.parameters["camera.focal"].value * 1.1)
    focal = scene.parameters["camera.focal"].value
    scene.resize_camera(24, 6)
    np.testing.assert_allclose(scene.parameters["camera.focal"].value, focal * (2.0, 0.5))
    assert shot(scene).shape == (6, 24, 3)
    bounded = plain_scene()
    bounded.table.drop("camera.focal")
    bounded.table.add("camera.focal", Param(20.0, low=10.0, high=40.0), unit="px", shape=(2,))
    bounded.resize_camera(24, 24)
    param = bounded.parameters["camera.focal"]
    assert param.value.tolist() == [40, 40] and np.all(param.low == 20) and np.all(param.high == 80)


# -- softness -------------------------------------------------------------------------------------------------------------


def test_softness_is_a_parameter() -> None:
    scene = plain_scene(sigma=Param(1e-3, low=1e-4, high=1e-2, scale="log10"))
    add(scene)
    assert "softness.sigma" in scene.unknowns and scene.sigma == 1e-3 and scene.gamma == 2e-3
    sharp = shot(scene)
    scene.sigma *= 4
    assert scene.parameters["softness.sigma"].value == 4e-3 and (shot(scene) - sharp).abs().max() > 0.01
    with torch.no_grad():
        given = scene.render(poses_of(scene), {"softness.sigma": torch.tensor(1e-3, dtype=torch.float64)})[0, 0]
    assert torch.equal(given, sharp)
    with pytest.raises(UserError, match=r"^softness.sigma: .*outside its bounds \[0.0001, 0.01\]"):
        scene.sigma = 1.0
    with pytest.raises(UserError, match="softness.gamma is 0.0: give a number above zero"):
        scene.gamma = 0.0


def test_worlds_have_their_own_softness_and_gradient() -> None:
    scene = plain_scene()
    add(scene)
    poses = poses_of(scene, worlds=3)
    weight = torch.randn(shot(scene).shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(bridge_device())

    def gradients(**softness: list[float]) -> tuple[torch.Tensor, torch.Tensor, list[torch.Tensor]]:
        given = {f"softness.{n}": torch.tensor(v, dtype=torch.float64, requires_grad=True) for n, v in softness.items()}
        film = scene.render(poses[: len(given["softness.sigma"])], given)
        return film.detach(), *torch.autograd.grad((film * weight).sum(), list(given.values()))

    sigma, gamma = [1e-3, 1e-3, 4e-3], [2e-3, 2e-3, 1e-2]  # the first two worlds are equal
    together = gradients(sigma=sigma, gamma=gamma)
    for world in range(3):
        alone = gradients(sigma=sigma[world : world + 1], gamma=gamma[world : world + 1])
        for both, own in zip(together, alone, strict=True):
            assert (both[world] - own[0]).abs().max() <= 1e-11 * own.abs().max() and own.abs().max() > 0


# -- films in parts -------------------------------------------------------------------------------------------------------


def test_a_film_under_a_memory_limit_is_the_film(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = two_cameras(size=8)
    names = ("box.texture", "camera.left.position", "light.key.direction", "softness.sigma")
    with torch.no_grad():
        states = scene.rollout(worlds=2, frames=3)
    inputs = scene.view.render_inputs(scene.table.values(worlds=2), states.body_q, camera="all")
    one = image_bytes(inputs, scene.view.raster_settings())
    weight = torch.randn((2, 4, 2, 8, 8, 3), generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(bridge_device())

    def run(limit: int | None) -> list[torch.Tensor]:
        given = {n: torch.tensor(scene.parameters[n].value, dtype=torch.float64, requires_grad=True) for n in names}
        body_q = states.body_q.clone().requires_grad_()
        film = scene.render(replace(states, body_q=body_q), given, camera="all", memory_limit=limit)
        return [film.detach(), *torch.autograd.grad((film * weight).sum(), [body_q, *given.values()])]

    wanted = run(None)
    for images in (1, 3, 7):
        for a, w in zip(run(images * one), wanted, strict=True):
            assert (a - w).abs().max() <= 1e-10 * w.abs().max()
    with pytest.raises(UserError, match="memory limit is 1000 bytes, and one picture of 8 x 8 pixels needs"):
        run(1000)
    # Without a limit the machine's memory is one: of all of it what the finished pictures take, and half of the rest at a time.
    finished = 16 * 8 * 8 * 4 * 8
    monkeypatch.setattr("risp_torch.scene.bridge.chunks.UNCHECKED_BYTES", 0)
    monkeypatch.setattr("risp_torch.scene.bridge.chunks.available_bytes", lambda: finished + 6 * one)
    for a, w in zip(run(None), wanted, strict=True):
        assert (a - w).abs().max() <= 1e-10 * w.abs().max()
    monkeypatch.setattr("risp_torch.scene.bridge.chunks.available_bytes", lambda: finished)
    with pytest.raises(UserError, match="^16 pictures of 8 x 8 pixels would take about .* are free: take fewer or smaller ones"):
        run(None)


def test_shipped_scenes_look_as_before_their_new_options() -> None:
    """Lambert shading, a plain ground and a plain background are what a scene gets that asks for nothing."""
    scene = load_scene("cube", size=16)
    settings = scene.view.raster_settings()
    assert (settings.shading, settings.aggregation, settings.composite, settings.antialias) == ("lambert", "softras", "alpha", 1)
    assert settings.ground == "plain" and settings.shadows is None and settings.quantity == "color"
    inputs = scene.view.render_inputs(scene.table.values(), poses_of(scene))
    absent = ("point", "environment", "material", "uv", "texels", "background_image", "distortion")
    assert all(getattr(inputs, name) is None for name in absent)
    assert bridge.bridge_dtype() == torch.float64


def test_a_first_picture_within_a_transform() -> None:
    """A scene that makes its meshes within a transform of torch.func keeps nothing of it."""

    def film(warm: bool) -> Callable[[torch.Tensor], torch.Tensor]:
        scene = Scene(frame_dt=0.02, frames=1, substeps=1)
        scene.add_rigid("box", shape=Box(0.4, 0.3, 0.1), mass=1.0)
        scene.add_camera(Camera.look_at(eye=(0, -2, 1), target=(0, 0, 0), vertical_fov=30, width=8, height=8, near=0.5, far=4))
        scene.add_light(AmbientLight(intensity=0.8))
        poses = torch.tensor([0.0, 0, 0, 0, 0, 0, 1], dtype=torch.float64).reshape(1, 1, 1, 7)
        if warm:
            scene.render(poses)
        return lambda color: scene.render(poses, {"box.color": color})

    color, along = torch.tensor([0.2, 0.5, 0.7], dtype=torch.float64), torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    cold, warm = film(False), film(True)
    for first, second in zip(torch.func.jvp(cold, (color,), (along,)), torch.func.jvp(warm, (color,), (along,)), strict=True):
        assert torch.equal(first, second) and first.abs().max() > 0
    assert torch.equal(cold(color), warm(color))  # after the transform
    assert torch.equal(torch.func.jacfwd(film(False))(color), torch.func.jacfwd(warm)(color))
