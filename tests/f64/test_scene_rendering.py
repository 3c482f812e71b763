"""How scenes look: every item in the parameter table and in the picture, cameras, textures, quantities, errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from risp_torch import Box, Mesh, Param, Sphere, UserError, bridge, check_torch, load_scene
from risp_torch.bridge.chunks import image_bytes
from risp_torch.scene import (
    AmbientLight,
    Camera,
    DirectionalLight,
    EnvironmentLight,
    PointLight,
    Scene,
    Surface,
)
from risp_torch.video import srgb_to_linear
from tests.reference.full_scene import BALL, CONTACT, camera, make_full_scene, picture

VARIANTS = {
    "phong": {},
    "pictures": {"pictures": True},
    "dibr": {"aggregation": "dibr", "shading": "lambert"},
    "unlit": {"shading": "none", "composite": "softmax", "antialias": 2},
}


def poses_of(scene: Scene, worlds: int = 1, frames: int = 1) -> torch.Tensor:
    """Poses [worlds, frames + 1, N, 7] of a short film."""
    with torch.no_grad():
        return scene.rollout(worlds=worlds, frames=frames).body_q


def plain_scene(*, size: int = 12, ground: bool = True, **style: object) -> Scene:
    """Ground, a camera and a light; the caller adds bodies."""
    scene = Scene(**({"frame_dt": 5e-3, "frames": 2, "substeps": 4, "sigma": 1e-3, "gamma": 2e-3, "name": "plain"} | style))
    if ground:
        scene.add_ground(contact=CONTACT)
    scene.add_camera(replace(camera(size), distortion=None))
    scene.add_light(DirectionalLight(direction=(-0.4, 0.5, -1.0), intensity=0.7))
    scene.add_light(AmbientLight(intensity=0.2))
    return scene


def add(scene: Scene, **options: object) -> None:
    scene.add_rigid("thing", **({"shape": Box(0.05, 0.04, 0.03), "density": 800.0, "position": (0, 0, 0.03)} | options))


def shot(scene: Scene, **options: object) -> torch.Tensor:
    """The first frame of the first world."""
    with torch.no_grad():
        return scene.render(poses_of(scene), **options)[0, 0]


# -- gradients ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_gradient_of_every_number_in_the_picture(variant: str) -> None:
    scene = make_full_scene(**VARIANTS[variant])
    poses = poses_of(scene)[:, 1:]
    names = scene.picture_parameters
    units = {n: np.maximum(np.abs(scene.parameters[n].value), 1e-6 if n.startswith("softness") else 1e-2) for n in names}
    weight = torch.randn((1, 1, 12, 12, 4), generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def loss(at: dict[str, torch.Tensor]) -> torch.Tensor:
        given = {n: torch.as_tensor(scene.parameters[n].value) + torch.as_tensor(units[n]) * at[n] for n in names}
        return (weight * scene.render(poses, given, alpha=True)).sum()

    point = {n: np.zeros(np.shape(scene.parameters[n].value)) for n in names}
    report = check_torch(loss, point, max_entries=4, step=1e-6, floor=1e-3)  # the loss is of the order of 10
    report.raise_if_wrong()
    seen = {entry.name for entry in report.entries if abs(entry.adjoint) > 1e-9}
    lit = {n for n in names if n.startswith("light.")} if VARIANTS[variant].get("shading") == "none" else set()
    assert set(names) - seen == lit | ({"softness.gamma"} if variant == "dibr" else set())


def test_picture_parameters_are_all_numbers_that_do_not_move_anything() -> None:
    scene = make_full_scene()
    looks = scene.picture_parameters
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
    assert {"background.image", "ground.texture"} <= set(make_full_scene(pictures=True).picture_parameters)


# -- batches and cameras --------------------------------------------------------------------------------------------------


def two_cameras(size: int = 10) -> Scene:
    scene = make_full_scene(size=size, cameras=False)
    scene.add_camera(camera(size, "left", (-0.1, -0.25, 0.09)))
    scene.add_camera(replace(camera(size, "right", (0.1, -0.22, 0.1)), distortion=None))
    return scene


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
    inputs = scene.render_inputs(values, poses_of(scene, worlds=3))
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
    weight = torch.randn((2, 2, 12, 12, 3), generator=torch.Generator().manual_seed(2), dtype=torch.float64)
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


# -- surfaces -------------------------------------------------------------------------------------------------------------


def textured_box(folder: Path, *, image: str = "tex.png", write: bool = True) -> Path:
    """An OBJ file of a box with uv and a material whose texture is a random PNG."""
    surface = Box(0.05, 0.04, 0.03).surface()
    lines = ["mtllib box.mtl", "usemtl skin"]
    lines += [f"v {x} {y} {z}" for x, y, z in surface.vertices]
    lines += [f"vt {u} {v}" for u, v in surface.uv.reshape(-1, 2)]
    lines += [
        "f " + " ".join(f"{vertex + 1}/{3 * f + k + 1}" for k, vertex in enumerate(face)) for f, face in enumerate(surface.faces)
    ]
    (folder / "box.obj").write_text("\n".join(lines) + "\n")
    (folder / "box.mtl").write_text(f"newmtl skin\nKd 1 1 1\nmap_Kd {image}\n")
    if write:
        pixels = np.random.default_rng(0).integers(20, 240, (6, 9, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / image)
    return folder / "box.obj"


def test_a_texture_is_the_same_from_a_file_an_array_and_the_mesh_file(tmp_path: Path) -> None:
    path = textured_box(tmp_path)
    texels = srgb_to_linear(np.asarray(Image.open(tmp_path / "tex.png"), dtype=np.float64) / 255)
    films = []
    for shape, surface in (
        (Mesh(path), None),
        (Mesh(path), Surface(texture=tmp_path / "tex.png")),
        (Box(0.05, 0.04, 0.03), Surface(texture=str(tmp_path / "tex.png"))),
        (Box(0.05, 0.04, 0.03), Surface(texture=texels)),
        (Box(0.05, 0.04, 0.03), Surface(texture=Param(texels, low=0.0, high=1.0), uv=Box(0.05, 0.04, 0.03).mesh().uv)),
    ):
        scene = plain_scene(size=16)
        add(scene, shape=shape, surface=surface)
        np.testing.assert_allclose(scene.parameters["thing.texture"].value, texels, atol=1e-12)
        films.append(shot(scene))
    for film in films[1:]:
        torch.testing.assert_close(film, films[0], rtol=0, atol=1e-9)
    scene = plain_scene(size=16)
    add(scene)
    assert (films[0] - shot(scene)).abs().max() > 0.1
    # The scene's author may paint over it, and tint it.
    scene = plain_scene(size=16)
    add(scene, shape=Mesh(path), surface=Surface(color=(0.6, 0.6, 0.6)))
    assert "thing.texture" not in scene.parameters
    for tint in (1.0, 0.5):
        scene = plain_scene(size=16)
        add(scene, shape=Mesh(path), surface=Surface(color=(tint,) * 3, texture=np.full((2, 2, 3), 0.8)))
        wanted = plain_scene(size=16)
        add(wanted, surface=Surface(color=(0.8 * tint,) * 3))
        torch.testing.assert_close(shot(scene), shot(wanted), rtol=0, atol=1e-9)


def test_several_textures_of_one_file_and_the_grounds_are_kept_apart(tmp_path: Path) -> None:
    import trimesh

    parts, shown = trimesh.Scene(), Box(0.03, 0.03, 0.03).surface()
    for k, grey in enumerate((60, 200)):
        visual = trimesh.visual.TextureVisuals(
            uv=np.full((8, 2), 0.5), image=Image.fromarray(np.full((2 + k, 3, 3), grey, dtype=np.uint8))
        )
        part = trimesh.Trimesh(shown.vertices + (0.05 * k - 0.025, 0, 0), shown.faces, visual=visual, process=False)
        parts.add_geometry(part)
    parts.export(tmp_path / "two.glb")

    greys = {(2, 3, 3): 60, (3, 3, 3): 200}  # by the pictures' sizes
    order: list[float] = []

    def film(surface: Surface | None, texture: np.ndarray) -> torch.Tensor:
        scene = plain_scene(size=16, ground=False, shading="none")
        scene.add_ground(contact=CONTACT, pattern="texture", texture=texture, cell=0.05)
        scene.add_rigid("pair", shape=Mesh(tmp_path / "two.glb"), density=800.0, position=(0, 0, 0.03), surface=surface)
        if surface is None:
            order[:] = [greys[scene.parameters[f"pair.texture.{k}"].value.shape] for k in range(2)]
        return shot(scene)

    ground = picture(3, 2, 6)
    textured = film(None, ground)
    linear = srgb_to_linear(np.array(order) / 255)
    painted = Surface(face_colors=np.repeat(linear[:, None], 3, axis=1).repeat(12, axis=0))
    torch.testing.assert_close(textured, film(painted, ground), rtol=0, atol=1e-9)
    assert (film(None, ground) - film(None, ground[::-1])).abs().max() > 0.01


def test_smooth_shading_and_creases() -> None:
    def normals(**options: object) -> torch.Tensor:
        scene = plain_scene(size=24, ground=False, sigma=1e-5)
        add(scene, shape=Sphere(0.03, subdivisions=1), surface=Surface(color=(0.5, 0.5, 0.5), **options))
        depth = shot(scene, quantity="normal", alpha=True)
        return torch.where(depth[..., 3:] > 0.99, depth[..., :3], torch.zeros(3, dtype=torch.float64))

    flat, smooth = normals(), normals(smooth=True)
    inside = smooth.norm(dim=-1) > 0.5
    # On a sphere the smooth normal is the direction from the centre: it changes steadily from pixel to pixel.
    step = lambda n: (n[:, 1:] - n[:, :-1]).norm(dim=-1)[inside[:, 1:] & inside[:, :-1]].max()  # noqa: E731
    assert step(smooth) < 0.7 * step(flat)
    torch.testing.assert_close(normals(smooth=True, crease_angle=0.0), flat, rtol=0, atol=1e-9)
    torch.testing.assert_close(normals(smooth=True, crease_angle=3.0), smooth, rtol=0, atol=1e-9)


def test_highlights_follow_specular_and_shininess() -> None:
    def film(**options: object) -> torch.Tensor:
        scene = plain_scene(size=24, shading="phong")
        add(scene, shape=BALL, surface=Surface(color=(0.3, 0.3, 0.3), smooth=True, **options))
        return shot(scene)

    dull, bright, sharp = film(specular=0.0), film(specular=(0.6, 0.0, 0.0)), film(specular=(0.6, 0.0, 0.0), shininess=200.0)
    assert (bright - dull)[..., 0].max() > 0.1 and (bright - dull)[..., 1:].abs().max() < 1e-12
    assert ((sharp - dull)[..., 0] > 0.02).sum() < ((bright - dull)[..., 0] > 0.02).sum()
    matt = plain_scene(size=24)
    add(matt, shape=BALL, surface=Surface(color=(0.3, 0.3, 0.3), smooth=True))
    torch.testing.assert_close(dull, shot(matt), rtol=0, atol=1e-12)


# -- ground, background, lights, shadows ----------------------------------------------------------------------------------


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
    add(scene, position=(0, 0, -5.0))  # out of sight
    scene.set_background(top=(0.0, 0.0, 0.0), bottom=(1.0, 1.0, 1.0))
    rows = (np.arange(16) + 0.5) / 16
    np.testing.assert_allclose(shot(scene)[..., 0].numpy(), np.tile(rows[:, None], (1, 16)), atol=1e-12)
    image = np.zeros((16, 16, 3))
    image[2, 5] = (0.9, 0.5, 0.1)
    scene.set_background(image=image)
    assert [n for n in scene.parameters if n.startswith("background")] == ["background.image"]
    np.testing.assert_allclose(shot(scene).numpy(), image, atol=1e-12)


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
        for list_of_kind in (scene.lights.ambient, scene.lights.directional):
            list_of_kind.clear()
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
    add(scene, position=(0.0, 0.0, 0.05))
    lit = shot(scene)
    scene.set_shadows(center=(0, 0, 0.02), radius=0.2)
    dark = shot(scene)
    assert (lit - dark).max() > 0.1 and (dark - lit).max() < 1e-9
    scene.shadows = None
    assert torch.equal(shot(scene), lit)


def test_quantities() -> None:
    scene = plain_scene(size=17, ground=False, sigma=1e-8)
    add(scene, shape=Box(0.02, 0.02, 0.02), position=(0, 0, 0.02), orientation=(0, 0, 0, 1))
    target = np.array([0.0, 0.0, 0.02])
    away = np.asarray(scene.camera.position) - target
    depth = shot(scene, quantity="depth", alpha=True)
    assert depth.shape == (17, 17, 2) and shot(scene, quantity="depth").shape == (17, 17, 1)
    # The middle ray meets the box's front side y = -0.01 (the camera is in front of it, a little to the right and above).
    distance = np.linalg.norm(away) * (1 - 0.01 / -away[1])
    assert float(depth[8, 8, 1]) == pytest.approx(1.0, abs=1e-6)
    assert float(depth[8, 8, 0]) == pytest.approx(distance, rel=1e-3)
    normal = shot(scene, quantity="normal")
    np.testing.assert_allclose(normal[8, 8].numpy(), [0, -1, 0], atol=1e-3)
    dark = Scene(frame_dt=5e-3, frames=1, substeps=1)  # neither quantity needs a light
    dark.add_camera(replace(camera(12), distortion=None))
    add(dark)
    assert shot(dark, quantity="normal").abs().max() > 0.5
    with pytest.raises(UserError, match="no light"):
        shot(dark)


def test_colours_without_shading_are_the_colours() -> None:
    scene = Scene(frame_dt=5e-3, frames=1, substeps=1, shading="none", sigma=1e-4)
    scene.add_camera(replace(camera(13), distortion=None))
    add(scene, shape=Box(0.3, 0.3, 0.01), position=(0, 0, 0.0), surface=Surface(color=(0.2, 0.4, 0.6)))
    np.testing.assert_allclose(shot(scene)[6, 6].numpy(), [0.2, 0.4, 0.6], atol=1e-4)


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
    with pytest.raises(UserError, match="differ between worlds"):
        scene.render(poses_of(scene, worlds=2), {"softness.sigma": torch.tensor([1e-3, 2e-3], dtype=torch.float64)})


# -- films in parts -------------------------------------------------------------------------------------------------------


def test_a_film_under_a_memory_limit_is_the_film() -> None:
    scene = two_cameras(size=8)
    names = ("box.texture", "camera.left.position", "light.key.direction", "softness.sigma")
    with torch.no_grad():
        states = scene.rollout(worlds=2, frames=3)
    inputs = scene.render_inputs(scene.table.values(worlds=2), states.body_q, camera="all")
    one = image_bytes(inputs, scene.raster_settings())
    weight = torch.randn((2, 4, 2, 8, 8, 3), generator=torch.Generator().manual_seed(0), dtype=torch.float64)

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


# -- the fingerprint of a film --------------------------------------------------------------------------------------------

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
    assert make_full_scene(**style).description()["style"] != make_full_scene().description()["style"]


def test_large_textures_are_described_by_a_checksum() -> None:
    scene = plain_scene()
    add(scene, surface=Surface(texture=picture(64, 64, 0)))
    described = scene.description()["parameters"]["thing.texture"]
    assert described["shape"] == [64, 64, 3] and len(described["sha256"]) == 64
    scene.set("thing.texture", picture(64, 64, 1))
    assert scene.description()["parameters"]["thing.texture"] != described


# -- bad input ------------------------------------------------------------------------------------------------------------

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
        (lambda s: add(s, surface=Surface(uv=np.zeros((12, 3, 2)))), "thing has uv and no texture"),
        (lambda s: add(s, surface=Surface(texture=WHITE, uv=np.zeros((5, 2)))), r"thing.uv has shape \(5, 2\)"),
        (lambda s: add(s, surface=Surface(specular=0.5)), "thing has a specular and .*phong"),
        (lambda s: add(s, surface=Surface(shininess=5.0)), "thing has a shininess and .*phong"),
        (lambda s: Surface(texture="a.png", wrap="mirror"), "wrap 'mirror': choose clamp or repeat"),
        (lambda s: Surface(crease_angle=0.5), "crease angle 0.5 and smooth=False"),
        (lambda s: Surface(smooth=True, crease_angle=40.0), "crease angle 40.0"),
        (lambda s: s.set_background(), "a background is a color, or top and bottom, or an image"),
        (lambda s: s.set_background((1, 1, 1), top=(1, 1, 1)), "a background is a color"),
        (lambda s: s.set_background(image="sky.png"), "background.image: picture sky.png does not exist"),
        (lambda s: s.set_background((2, 1, 1)), r"background.color is \[2. 1. 1.\]"),
        (lambda s: s.add_ground(contact=CONTACT), "'ground.contact.stiffness' is in the scene already"),
        (lambda s: s.add_light(AmbientLight(intensity=1.0, name="key")), "a light 'key' already"),
        (lambda s: s.add_light(PointLight(position=(0, 0), name="p")), r"light.p.position has shape \(2,\)"),
        (lambda s: s.add_light(EnvironmentLight(coefficients=np.ones((4, 3)))), r"light.environment.coefficients has shape"),
        (lambda s: s.add_light(DirectionalLight(direction=(0, 0, 0), name="d")), "light 'd' has direction"),
        (lambda s: s.add_light("sun"), "str is no light"),
        (lambda s: s.add_camera(camera(12)), "a camera without a name already"),
        (lambda s: (s.add_camera(camera(12, "a")), s.add_camera(camera(12, "a"))), "a camera 'a' already"),
        (lambda s: s.add_camera(camera(12, "all")), "a camera is called 'all'"),
        (lambda s: s.add_camera(camera(12, "a.b")), "a camera is called 'a.b'"),
        (lambda s: camera(0), "the camera takes pictures of 0 x 0 pixels"),
        (lambda s: s.resize_camera(0, 5), "the camera takes pictures of 0 x 5 pixels"),
        (lambda s: (add(s), s.add_camera(camera(12, "left")), shot(s, camera="lift")), "unknown camera 'lift': .* 'left'"),
        (lambda s: (add(s), s.add_camera(camera(9, "left")), shot(s, camera="all")), "the cameras have width 9, 12"),
        (lambda s: (add(s), s.render(torch.zeros(1, 2, 3, 7))), r"this scene needs \[worlds, frames, 1, 7\]"),
        (lambda s: s.set_shadows(center=(0, 0, 0), radius=0.0), "radius"),
        (lambda s: plain_scene(shading="toon"), "shading"),
        (lambda s: plain_scene(aggregation="hard"), "aggregation"),
        (lambda s: plain_scene(antialias=0), "antialias"),
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
        ({"pattern": "stripes"}, "the ground's pattern is 'stripes': choose one of plain, checker, texture"),
        ({"pattern": "texture"}, "the pattern 'texture' and no texture"),
        ({"texture": np.ones((2, 2, 3))}, "the pattern 'plain' and a texture"),
        ({"second_color": (1, 1, 1)}, "a second colour and the pattern 'plain'"),
        ({"pattern": "checker", "cell": 0.0}, "ground.cell is 0.0 m: give a number above zero"),
        ({"pattern": "texture", "texture": "no.jpg"}, "ground.texture: picture no.jpg does not exist"),
        ({"wrap": "mirror"}, "the ground has wrap 'mirror'"),
    ],
)
def test_errors_of_the_ground(options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        plain_scene(ground=False).add_ground(contact=CONTACT, **options)


def test_textures_that_cannot_be_read_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "noise.png").write_bytes(b"not a picture")
    with pytest.raises(UserError, match=r"thing.texture: picture .*noise.png cannot be read .*save it again"):
        add(plain_scene(), surface=Surface(texture=tmp_path / "noise.png"))
    missing = Mesh(textured_box(tmp_path, image="lost.png", write=False))
    with pytest.raises(UserError, match=r"thing: a mesh file has a texture .*lost.png does not exist: mend that, or give"):
        add(plain_scene(), shape=missing)
    add(plain_scene(), shape=missing, surface=Surface(color=(0.5, 0.5, 0.5)))
    (tmp_path / "lost.png").write_bytes(b"\x89PNG half")
    with pytest.raises(UserError, match=r"lost.png is damaged, cut short or no picture"):
        add(plain_scene(), shape=Mesh(tmp_path / "box.obj"))


def test_shipped_scenes_look_as_before_their_new_options() -> None:
    """Lambert shading, a plain ground and a plain background are what a scene gets that asks for nothing."""
    scene = load_scene("cube", size=16)
    settings = scene.raster_settings()
    assert (settings.shading, settings.aggregation, settings.composite, settings.antialias) == ("lambert", "softras", "alpha", 1)
    assert settings.ground == "plain" and settings.shadows is None and settings.quantity == "color"
    inputs = scene.render_inputs(scene.table.values(), poses_of(scene))
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
