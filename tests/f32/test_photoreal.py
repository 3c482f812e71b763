"""Path-traced pictures: the same camera and geometry as the rasteriser's, the light's units, masks, looks, films that resume."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import trimesh
from matplotlib.path import Path as Polygon
from PIL import Image
from scipy.spatial import ConvexHull

import ti_render.photoreal.variant as variants
from risp_torch import load_scene, read_video
from risp_torch.__main__ import main
from tests.reference import small_scenes
from ti_render import RasterSettings, RenderInputs, ShadowSettings, look_at, mesh_topology, pack_camera, render
from ti_render.photoreal import Appearance, MitsubaFilm, MitsubaSettings, choose_variant, draw_appearance
from ti_render.photoreal.appearance import BODY_RANGES, CHOICES, PATTERNS, RANGES, SKIES
from ti_render.photoreal.camera import film_of, undistort
from ti_render.photoreal.film import without_sparkles
from ti_render.photoreal.lights import environment_directions, harmonic_radiance
from ti_render.photoreal.patterns import ground_texels
from ti_render.photoreal.sky import sky_radiance
from ti_sim.base.errors import UserError

needs_mitsuba = pytest.mark.skipif(importlib.util.find_spec("mitsuba") is None, reason="the extra 'photoreal' is not installed")

QUAD = np.array([(-1, 0, -1), (1, 0, -1), (1, 0, 1), (-1, 0, 1)], dtype=float)  # looks along -y
QUAD_FACES = np.array([(0, 1, 2), (0, 2, 3)])
STILL = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)


def made(**arrays: object) -> RenderInputs:
    """Inputs in f32 from arrays, one picture, no light but what is given."""
    filled = {"ambient": np.zeros((1, 3)), "background": np.zeros((1, 2, 3)), "body_q": np.array([[STILL]])} | arrays
    mesh = filled.pop("mesh")
    return RenderInputs(mesh=mesh, **{name: np.asarray(value, dtype=np.float32) for name, value in filled.items()})


def topology(faces: np.ndarray, bodies: Sequence[int], **options: object) -> object:
    return mesh_topology(faces.astype(np.int32), np.asarray(bodies, dtype=np.int32), like=np.zeros(1, np.float32), **options)


def camera_row(
    eye: Sequence[float], target: Sequence[float], intrinsics: Sequence[float], up: Sequence[float] = (0, 0, 1)
) -> np.ndarray:
    return pack_camera(intrinsics, *look_at(eye, target, up))


def front_camera(size: int) -> np.ndarray:
    """A camera 5 m in front of the quad, which fills 80 % of its picture."""
    return camera_row((0, -5, 0), (0, 0, 0), (0.4 * 5 * size, 0.4 * 5 * size, size / 2, size / 2))


def matched(inputs: RenderInputs, settings: RasterSettings, **options: object) -> MitsubaFilm:
    return MitsubaFilm(inputs, settings, options=MitsubaSettings(look="match", variant="scalar_rgb", **options))


# -- the camera -------------------------------------------------------------------------------------------------------------


def projected(camera: np.ndarray, distortion: Sequence[float], points: np.ndarray) -> np.ndarray:
    """Pixels [..., 2] of points [..., 3]: the pinhole and OpenCV's lens, written out."""
    fx, fy, cx, cy = camera[:4]
    eye_frame = points @ camera[4:13].reshape(3, 3).T + camera[13:]
    x, y = eye_frame[..., 0] / eye_frame[..., 2], eye_frame[..., 1] / eye_frame[..., 2]
    k1, k2, p1, p2, k3 = distortion
    r2 = x**2 + y**2
    radial = 1 + k1 * r2 + k2 * r2**2 + k3 * r2**3
    u = fx * (x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x**2)) + cx
    v = fy * (y * radial + p1 * (r2 + 2 * y**2) + 2 * p2 * x * y) + cy
    return np.stack([u, v], axis=-1)


def coverage(outline: np.ndarray, size: int, finer: int = 32) -> np.ndarray:
    """Share of every pixel of a square picture that lies inside an outline [K, 2], by many points in each."""
    u, v = np.meshgrid(*[(np.arange(size * finer) + 0.5) / finer] * 2)
    inside = np.zeros(u.shape, dtype=bool)
    near = (np.abs(u - outline[:, 0].mean()) < 6) & (np.abs(v - outline[:, 1].mean()) < 6)
    inside[near] = Polygon(outline).contains_points(np.column_stack([u[near], v[near]]))
    return inside.reshape(size, finer, size, finer).mean(axis=(1, 3))


def centroid(mask: np.ndarray) -> np.ndarray:
    """Mean place (u, v) of what a mask shows [pixels]."""
    v, u = np.indices(mask.shape) + 0.5
    return np.array([(mask * u).sum(), (mask * v).sum()]) / mask.sum()


CAMERAS = {
    "square": ((2, -3, 2), (0, 0, 0.2), (0, 0, 1), (50, 50, 24, 24), None),
    "off-centre": ((0.5, -3, 0.5), (0, 0, 0), (0, 0, 1), (45, 45, 15, 33), None),
    "rolled": ((-2, 2, -2), (0, 0, 0), (1, 0.3, 0.2), (48, 48, 22, 27), None),
    "wide pixels": ((2, 3, 1), (0, 0, 0), (0, 0, 1), (66, 44, 25, 20), None),
    "lens": ((1, 3, 1), (0, 0, 0), (0, 0, 1), (44, 41, 23, 26), (-0.3, 0.1, 0.01, -0.02, 0.05)),
}


@needs_mitsuba
@pytest.mark.parametrize("name", CAMERAS)
def test_points_lie_where_the_camera_formula_puts_them(name: str) -> None:
    eye, target, up, intrinsics, lens = CAMERAS[name]
    camera = camera_row(eye, target, intrinsics, up)
    # Chosen so that all four are in the picture of every camera, and none hides another.
    places = np.array([(-0.22, 0.03, -0.33), (-0.46, 0.27, 0.35), (0.52, 0.57, 0.56), (0.62, 0.32, -0.25)])
    right, down, _ = camera[4:13].reshape(3, 3)  # small quads across the line of sight, no edge along the rows of the picture
    outline = QUAD[:, [0]] * (0.11 * right + 0.05 * down) + QUAD[:, [2]] * (0.05 * right - 0.11 * down)
    inputs = made(
        mesh=topology(np.concatenate([QUAD_FACES + 4 * k for k in range(4)]), np.repeat(np.arange(4), 4)),
        vertices_rest=np.tile(outline, (4, 1)), body_q=[[(*place, 0, 0, 0, 1) for place in places]], camera=[camera],
        albedo=np.ones((1, 8, 3, 3)), **({} if lens is None else {"distortion": [lens]}),
    )  # fmt: skip
    settings = RasterSettings(width=48, height=48, near=0.1, far=10.0)
    masks = matched(inputs, settings, samples=1, mask_side=16).picture(0).masks
    share = np.linspace(0, 1, 20, endpoint=False)[:, None]  # edges are curves behind a lens
    for k, place in enumerate(places):
        edge = np.concatenate([a + share * (b - a) for a, b in zip(outline, np.roll(outline, -1, axis=0), strict=True)]) + place
        wanted = coverage(projected(camera, lens or (0,) * 5, edge), 48)
        mask = masks[f"body{k}"]
        assert np.abs(centroid(mask) - centroid(wanted)).max() < 0.02 and abs(mask.sum() - wanted.sum()) < 0.1
        assert wanted.sum() > 5


def test_undistort_inverts_the_lens_formula() -> None:
    lens = (-0.3, 0.1, 0.01, -0.02, 0.05)
    rays = np.random.default_rng(0).uniform(-0.6, 0.6, (50, 2))
    pinhole = np.concatenate([[1, 1, 0, 0], np.eye(3).reshape(-1), np.zeros(3)])
    bent = projected(pinhole, lens, np.column_stack([rays, np.ones(50)]))
    np.testing.assert_allclose(undistort(bent, np.array(lens)), rays, atol=1e-12)
    assert np.abs(bent - rays).max() > 0.02


def test_a_lens_that_folds_the_picture_is_refused() -> None:
    camera = camera_row((0, -3, 0), (0, 0, 0), (20, 20, 24, 24))
    with pytest.raises(UserError, match="distortion bends"):
        film_of(camera, np.array([-2.0, 0, 0, 0, 0]), 48, 48)


# -- light and colour -------------------------------------------------------------------------------------------------------

LIGHTS = {
    "directional": ({"directional": [[[0, 2.0, 0, 0.7, 0.5, 0.3]]]}, (0.7, 0.5, 0.3)),
    "slanting": ({"directional": [[[0, 1.0, -1.0, 0.7, 0.5, 0.3]]]}, np.array((0.7, 0.5, 0.3)) / np.sqrt(2)),
    "from behind": ({"directional": [[[0, -1.0, 0, 0.7, 0.5, 0.3]]]}, (0, 0, 0)),
    "point": ({"point": [[[0, -2.0, 0, 2.0, 1.0, 0.5]]]}, (0.5, 0.25, 0.125)),
    "ambient": ({"ambient": [[0.3, 0.2, 0.6]]}, (0.3, 0.2, 0.6)),
    "harmonics": ({"environment": [[(1, 2, 3), (-0.5, -0.2, 0), *[(0, 0, 0)] * 7]]}, None),
}


@needs_mitsuba
@pytest.mark.parametrize("name", LIGHTS)
def test_light_has_the_units_of_the_rasteriser(name: str) -> None:
    lights, wanted = LIGHTS[name]
    albedo = np.array((0.9, 0.8, 0.5))
    if wanted is None:  # the quad looks along -y: 0.2820948 and 2/3 of -0.4886025 times the coefficients
        wanted = 0.2820948 * np.array((1, 2, 3)) + (2 / 3) * 0.4886025 * np.array((0.5, 0.2, 0))
    inputs = made(
        mesh=topology(QUAD_FACES, [0] * 4), vertices_rest=0.02 * QUAD, albedo=np.broadcast_to(albedo, (1, 2, 3, 3)),
        camera=[camera_row((0, -0.3, 0), (0, 0, 0), (90, 90, 4, 4))], **lights,
    )  # fmt: skip
    settings = RasterSettings(width=8, height=8, near=0.1, far=10.0, shading="lambert")
    seen = matched(inputs, settings, samples=400).picture(0).color[2:6, 2:6].mean(axis=(0, 1))
    np.testing.assert_allclose(seen, albedo * wanted, rtol=0.02, atol=1e-6)


def test_harmonics_are_orthonormal() -> None:
    directions = environment_directions(201, 400)
    weight = np.sin(np.pi * np.arange(201) / 200) * (np.pi / 200) * (2 * np.pi / 400)
    basis = np.stack([harmonic_radiance(np.eye(9)[:, [k] * 3], directions)[..., 0] for k in range(9)], axis=-1)
    np.testing.assert_allclose(np.einsum("hwi,hwj,h->ij", basis, basis, weight), np.eye(9), atol=1e-3)


@needs_mitsuba
@pytest.mark.parametrize("repeat", [False, True])
def test_textures_lie_as_in_the_rasteriser(repeat: bool) -> None:
    random = np.random.default_rng(3)
    image = random.uniform(0.1, 0.9, (4, 5, 3))
    uv = (0.5 * (QUAD[:, [0, 2]] + 1) * (1.4, 1.6) - 0.2)[QUAD_FACES]
    tint = np.array((0.8, 0.9, 0.7))
    textures = np.array([(2, 5, 4, int(repeat))], np.int32)
    inputs = made(
        mesh=topology(QUAD_FACES, [0] * 4, face_texture=np.zeros(2, np.int32), textures=textures),
        vertices_rest=QUAD, camera=[front_camera(20)], albedo=np.broadcast_to(tint, (1, 2, 3, 3)), ambient=[[1, 1, 1]], uv=[uv],
        texels=np.concatenate([np.zeros((2, 3)), image.reshape(-1, 3)])[None],
    )  # fmt: skip
    settings = RasterSettings(width=20, height=20, near=0.1, far=10.0, antialias=8, sigma=1e-6)
    mine = render(inputs, settings).images[0, :, :, :3]
    theirs = matched(inputs, settings, samples=256).picture(0).color
    inside = np.s_[3:17, 3:17]
    assert np.abs(theirs - mine)[inside].mean() < 0.01 and np.abs(theirs - mine)[inside].max() < 0.05
    assert mine[inside].std() > 0.1


@needs_mitsuba
def test_a_textured_triangle_of_several_colours_is_refused() -> None:
    albedo = np.broadcast_to(np.array([(1, 0, 0), (0, 1, 0), (0, 0, 1)]), (1, 2, 3, 3))
    inputs = made(
        mesh=topology(QUAD_FACES, [0] * 4, face_texture=np.zeros(2, np.int32), textures=np.array([(0, 1, 1, 0)], np.int32)),
        vertices_rest=QUAD, camera=[front_camera(8)], albedo=albedo, ambient=[[1, 1, 1]], uv=np.zeros((1, 2, 3, 2)),
        texels=np.ones((1, 1, 3)),
    )  # fmt: skip
    with pytest.raises(UserError, match="one colour"):
        matched(inputs, RasterSettings(width=8, height=8), samples=1).picture(0)


@needs_mitsuba
@pytest.mark.parametrize("pattern", ["plain", "checker", "texture"])
def test_the_ground_and_the_background_are_the_rasterisers(pattern: str) -> None:
    """A camera that sees the ground, the horizon and a background in two colours, and a small quad far to the side."""
    random = np.random.default_rng(4)
    inputs = made(
        mesh=topology(QUAD_FACES, [0] * 4, textures=np.array([(0, 3, 2, 1)], np.int32)),
        vertices_rest=0.05 * QUAD + (0.4, 0, 0.2),
        camera=[camera_row((0.1, -2, 0.6), (0, 0, 0.3), (40, 40, 16, 16))], albedo=np.full((1, 2, 3, 3), 0.5),
        background=[[(0.2, 0.4, 0.9), (0.9, 0.8, 0.7)]], directional=[[[0.3, 0.5, -1, 0.9, 0.8, 0.7]]],
        ground=[(0.8, 0.5, 0.3, -0.1, 0.1, 0.2, 0.3, 0.8, 0.05, 0.1)], texels=random.uniform(0.2, 1, (1, 6, 3)),
    )  # fmt: skip
    settings = RasterSettings(width=32, height=32, near=0.1, far=20.0, antialias=8, sigma=1e-6, ground=pattern, ground_texture=0)
    mine = render(inputs, settings).images[0, :, :, :3]
    theirs = matched(inputs, settings, samples=256).picture(0).color
    assert np.abs(theirs - mine).mean() < 0.01 * mine.mean()
    assert np.abs(theirs[:4] - mine[:4]).max() < 1e-3  # the sky
    assert mine[-8:].std() > (0.02 if pattern == "plain" else 0.1)


@needs_mitsuba
def test_a_sphere_and_its_shadow_under_one_light_agree_with_the_rasteriser() -> None:
    ball = trimesh.creation.icosphere(4, 0.4)
    faces = np.asarray(ball.faces)
    inputs = made(
        mesh=topology(faces, [0] * len(ball.vertices), corner_normal=faces.astype(np.int32)), vertices_rest=ball.vertices,
        body_q=[[(0, 0, 0.5, 0, 0, 0, 1)]], camera=[camera_row((0.5, -3, 1.6), (0.1, 0, 0.25), (110, 110, 32, 32))],
        albedo=np.broadcast_to((0.9, 0.5, 0.2), (1, len(faces), 3, 3)), directional=[[[0.5, 0.4, -1, 0.9, 0.9, 0.9]]],
        background=[[(0.3, 0.4, 0.5)] * 2], ground=[(0.6, 0.6, 0.5, 0, 0, 0, 0, 1, 0, 0)],
    )  # fmt: skip
    shadows = ShadowSettings(center=(0, 0, 0.5), radius=0.5, resolution=256, sigma=2e-5, bias=0.02, width=0.002)
    settings = RasterSettings(
        width=64, height=64, near=0.5, far=10.0, sigma=1e-6, gamma=1e-5, ground="plain", antialias=4, shadows=shadows
    )
    mine = render(inputs, settings).images[0, :, :, :3]
    theirs = matched(inputs, settings, samples=64).picture(0).color
    assert np.abs(theirs - mine).mean() < 0.02 * theirs.mean()
    lit = render(inputs, RasterSettings(**{**vars(settings), "shadows": None})).images[0, :, :, :3]
    assert np.abs(lit - mine).mean() > 0.04 * theirs.mean()  # the shadow is large enough to fail by


# -- masks ------------------------------------------------------------------------------------------------------------------


def two_boxes() -> RenderInputs:
    """A box in front of another one, both above a ground, and a fixed one at the side."""
    box = trimesh.creation.box((0.4, 0.4, 0.4))
    faces, count = np.asarray(box.faces), len(box.vertices)
    return made(
        mesh=topology(np.concatenate([faces, faces + count, faces + 2 * count]), np.repeat([0, 1, -1], count)),
        vertices_rest=np.concatenate([box.vertices, box.vertices, 0.4 * box.vertices + (0.7, 0, 0.4)]),
        body_q=[[(0, 0, 0.3, 0, 0, 0, 1), (-0.1, 0.6, 0.45, 0, 0, 0.2, 0.98)]],
        camera=[camera_row((0, -3, 0.8), (0, 0, 0.3), (50, 50, 20, 16))], albedo=np.full((1, 36, 3, 3), 0.6),
        ambient=[[0.4, 0.4, 0.4]], ground=[(0.5, 0.5, 0.5, 0, 0, 0, 0, 1, 0, 0)],
    )  # fmt: skip


@needs_mitsuba
def test_masks_show_what_is_seen_of_every_body() -> None:
    settings = RasterSettings(width=40, height=32, near=0.1, far=10.0, sigma=1e-6, antialias=8)
    options = MitsubaSettings(look="match", samples=4, mask_side=8, variant="scalar_rgb")
    film = MitsubaFilm(two_boxes(), settings, options=options, bodies=("front", "back"))
    masks = film.picture(0).masks
    assert list(masks) == film.bodies == ["front", "back", "static"]
    total = sum(masks.values())
    assert total.max() <= 1 + 1e-6
    alpha = render(two_boxes(), settings).images[0, :, :, 3]
    assert np.abs(total - alpha).mean() < 2e-3 and np.abs(total - alpha).max() < 0.15
    box = trimesh.creation.box((0.4, 0.4, 0.4)).vertices + (0, 0, 0.3)
    hull = projected(film.inputs.camera[0].astype(float), (0,) * 5, box)
    area = ConvexHull(hull).volume  # of a flat hull, its area
    assert abs(masks["front"].sum() - area) < 0.01 * area
    behind = masks["front"] == 1
    assert behind.sum() > 20 and masks["back"][behind].max() == 0 and masks["back"].sum() > 10


# -- looks ------------------------------------------------------------------------------------------------------------------


def test_a_look_is_drawn_again_and_read_again() -> None:
    look = draw_appearance(["a", "b"], seed=7)
    assert look == draw_appearance(["a", "b"], seed=7) and look != draw_appearance(["a", "b"], seed=8)
    assert Appearance.from_json(look.to_json()) == look
    assert json.loads(look.to_json())["numbers"]["a.roughness"] == look.numbers["a.roughness"]
    assert set(look.numbers) == {*RANGES, *(f"{body}.{name}" for body in "ab" for name in BODY_RANGES)}
    assert {"roughness", "metallic", "specular"} <= set(look.body("b"))


def test_another_body_changes_no_other_number() -> None:
    few, many = draw_appearance(["a"], seed=3), draw_appearance(["z", "a"], seed=3)
    assert {name: many.numbers[name] for name in few.numbers} == few.numbers and few.choices == many.choices


def test_draws_fill_their_ranges() -> None:
    looks = [draw_appearance(["a"], seed=seed) for seed in range(200)]
    for name, (low, high) in {**RANGES, **{f"a.{entry}": span for entry, span in BODY_RANGES.items()}}.items():
        drawn = np.array([look.numbers[name] for look in looks])
        assert low <= drawn.min() < low + 0.05 * (high - low) and high - 0.05 * (high - low) < drawn.max() <= high, name
    assert {look.choices["sky.kind"] for look in looks} == set(SKIES)
    assert {look.choices["ground.pattern"] for look in looks} == set(PATTERNS)
    fixed = draw_appearance(["a", "b"], seed=0, ranges={"roughness": (0.2, 0.2), "b.roughness": (0.9, 0.9)})
    assert (fixed.numbers["a.roughness"], fixed.numbers["b.roughness"]) == (0.2, 0.9)


@pytest.mark.parametrize(
    ("ranges", "seed", "culprit"),
    [
        ({"a.roughnes": (0, 1)}, 0, "'a.roughnes': did you mean 'a.roughness'"),
        ({"a.roughness": (1, 0)}, 0, "'a.roughness' is 1 to 0"),
        ({"key.size": (0, np.inf)}, 0, "'key.size' is 0 to inf"),
        ({}, -1, "seed is -1"),
    ],
)
def test_wrong_ranges_are_refused(ranges: dict[str, tuple[float, float]], seed: int, culprit: str) -> None:
    with pytest.raises(UserError, match=culprit):
        draw_appearance(["a"], seed=seed, ranges=ranges)


@pytest.mark.parametrize(
    ("change", "culprit"),
    [
        (lambda content: content.pop("numbers"), "is no drawn look"),
        (lambda content: content["numbers"].pop("key.size"), "has no number 'key.size'"),
        (lambda content: content["numbers"].pop("a.roughness"), "has no number 'a.roughness'"),
        (lambda content: content["choices"].update({"sky.kind": "night"}), "has sky.kind 'night': choose one of day"),
        (lambda content: content.update(schema=9), "has schema 9"),
        (lambda content: content.update(colors="none"), "has colors 'none'"),
    ],
)
def test_a_wrong_look_is_refused(change: Callable[[dict], object], culprit: str) -> None:
    content = json.loads(draw_appearance(["a"], seed=0).to_json())
    change(content)
    with pytest.raises(UserError, match=culprit):
        Appearance.from_json(json.dumps(content))


@pytest.mark.parametrize("kind", SKIES)
def test_the_sky_gives_the_light_that_is_asked_for(kind: str) -> None:
    look = draw_appearance(["a"], seed=1)
    look = Appearance(look.seed, look.numbers, {**look.choices, "sky.kind": kind})
    sky = sky_radiance(look)
    direction = environment_directions(*sky.shape[:2])
    weight = np.sin(np.pi * np.arange(len(sky)) / (len(sky) - 1)) * (np.pi / (len(sky) - 1)) * (2 * np.pi / sky.shape[1])
    upwards = (sky.mean(axis=-1) * np.maximum(direction[..., 2], 0) * weight[:, None]).sum() / np.pi
    assert upwards == pytest.approx(look.numbers["sky.intensity"], rel=1e-6) and sky.min() >= 0 and sky.std() > 0


@pytest.mark.parametrize("pattern", PATTERNS)
def test_ground_textures_have_no_seam(pattern: str) -> None:
    look = draw_appearance(["a"], seed=2)
    texels = ground_texels(Appearance(look.seed, look.numbers, {**look.choices, "ground.pattern": pattern}))
    assert texels.min() >= 0.02 and texels.max() <= 0.9 and texels.std() > 0.01
    for axis in (0, 1):
        steps = np.abs(np.diff(texels, axis=axis, append=texels.take([0], axis=axis))).mean(axis=(1 - axis, 2))
        assert steps[-1] <= 1.2 * steps.max() and steps[-1] <= max(steps[:-1])


def test_single_bright_renderings_are_cut() -> None:
    passes = np.full((4, 2), 0.3)
    passes[2, 1] = 80.0
    np.testing.assert_allclose(without_sparkles(passes), [0.3, (3 * 0.3 + 0.7) / 4])


@needs_mitsuba
def test_photoreal_pictures_differ_in_look_and_agree_in_geometry() -> None:
    settings = RasterSettings(width=40, height=32, near=0.1, far=10.0, ground="plain")
    options = [MitsubaSettings(samples=8, seed=seed, variant="scalar_rgb") for seed in (0, 0, 1)]
    first, again, other = (MitsubaFilm(two_boxes(), settings, options=option).picture(0) for option in options)
    np.testing.assert_array_equal(first.color, again.color)
    assert np.isfinite(other.color).all() and np.abs(first.color - other.color).mean() > 0.05
    assert 0.05 < first.color.mean() < 1.2 and 0.05 < other.color.mean() < 1.2
    for name in first.masks:
        np.testing.assert_array_equal(first.masks[name], again.masks[name])
        assert np.abs(first.masks[name] - other.masks[name]).max() < 0.6  # only the places of the samples differ


@needs_mitsuba
def test_drawn_colours_replace_or_tint_those_of_the_scene() -> None:
    settings = RasterSettings(width=40, height=32, near=0.1, far=10.0)
    ranges = {"body0.red": (0.9, 0.9), "body0.green": (0.05, 0.05), "body0.blue": (0.05, 0.05), "metallic": (0, 0)}
    seen = []
    for colors in ("keep", "tint", "draw"):
        look = draw_appearance(["body0", "body1", "static"], seed=0, ranges=ranges, colors=colors)
        options = MitsubaSettings(samples=8, variant="scalar_rgb")
        picture = MitsubaFilm(two_boxes(), settings, options=options, look=look).picture(0)
        seen.append(picture.color[picture.masks["body0"] == 1].mean(axis=0))
    own, tinted, drawn = seen
    assert drawn[0] > 3 * drawn[1] and own[0] < 2 * own[1]
    # What the surface mirrors keeps the light's colour.
    assert tinted[0] > 3 * tinted[1] and tinted[0] < 1.02 * own[0]


@needs_mitsuba
def test_a_floor_lies_below_a_scene_without_ground() -> None:
    """A small quad in the middle of the picture, and a camera that looks down a little: what is below the quad is the floor."""
    inputs = made(
        mesh=topology(QUAD_FACES, [0] * 4), vertices_rest=0.5 * QUAD, albedo=np.full((1, 2, 3, 3), 0.5),
        camera=[camera_row((0, -4, 1.5), (0, 0, 0), (18, 18, 8, 8))],
    )  # fmt: skip
    settings = RasterSettings(width=16, height=16, near=0.1, far=10.0)
    look = draw_appearance(["body0"], seed=0, ranges={"ground.depth": (1.2, 1.2)})
    look = Appearance(look.seed, look.numbers, {**look.choices, "ground.pattern": "checker"})
    pictures = []
    for floor in (False, True):
        options = MitsubaSettings(samples=16, floor=floor, variant="scalar_rgb")
        pictures.append(MitsubaFilm(inputs, settings, options=options, look=look).picture(0))
    without, with_floor = pictures
    below = np.s_[-4:]
    assert np.abs(with_floor.color[below] - without.color[below]).mean() > 0.05
    assert with_floor.color[below].std(axis=(0, 1)).mean() > 2 * without.color[below].std(axis=(0, 1)).mean()
    np.testing.assert_array_equal(with_floor.masks["body0"], without.masks["body0"])
    assert with_floor.masks["body0"].max() == 1 and with_floor.masks["body0"][below].max() == 0, "the floor hides nothing"


# -- which variant ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "version"),
    [
        ("/usr/lib/x86_64-linux-gnu/libLLVM.so.19.1", 19),
        ("/usr/lib/x86_64-linux-gnu/libLLVM-17.so.1", 17),
        ("/usr/lib/llvm-18/lib/libLLVM.so", 18),
        ("/opt/homebrew/opt/llvm@20/lib/libLLVM.dylib", 20),
        ("/usr/lib/libLLVM-14.0.6.so.1", 14),
        ("/usr/lib/libLLVM.so", 0),
    ],
)
def test_versions_in_file_names(path: str, version: int) -> None:
    assert variants._version_in(path) == version


def test_old_libraries_are_never_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("libLLVM-15.so.1", "libLLVM-16.so.1", "libLLVM.so", "libLLVM-18.so.1", "libLLVM.so.19.1"):
        (tmp_path / name).write_bytes(b"not a library")
    monkeypatch.setattr(variants, "_PLACES", (f"{tmp_path}/libLLVM*",))
    monkeypatch.setattr("ctypes.util.find_library", lambda name: None)
    assert [Path(path).name for path in variants._candidates()] == ["libLLVM.so.19.1", "libLLVM-18.so.1"]


@needs_mitsuba
def test_a_library_that_does_not_work_is_not_loaded_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = tmp_path / "libLLVM.so.19.1"
    bad.write_bytes(b"not a library")
    monkeypatch.setenv("DRJIT_LIBLLVM_PATH", str(bad))
    monkeypatch.setattr(variants, "_loaded_llvm", lambda: None)
    variants.find_llvm.cache_clear()
    assert variants.find_llvm() is None
    assert choose_variant("auto").name == "scalar_rgb" and "LLVM 17" in str(choose_variant("auto"))
    with pytest.raises(UserError, match="llvm_ad_rgb needs an LLVM library of version 17 or newer.*scalar_rgb"):
        choose_variant("llvm_ad_rgb")
    variants.find_llvm.cache_clear()


@needs_mitsuba
@pytest.mark.parametrize(
    ("loaded", "wanted"), [((15, 0, 6), "scalar_rgb"), ((19, 1, 7), "llvm_ad_rgb"), ((-1, -1, -1), "scalar_rgb")]
)
def test_a_loaded_llvm_decides(monkeypatch: pytest.MonkeyPatch, loaded: tuple[int, ...], wanted: str) -> None:
    monkeypatch.setattr(variants, "_loaded_llvm", lambda: loaded)
    monkeypatch.setattr(variants, "find_llvm", lambda: pytest.fail("a library was looked for"))
    assert choose_variant("auto").name == wanted


@pytest.mark.parametrize(
    ("setting", "culprit"),
    [
        ({"look": "nice"}, "look 'nice'"),
        ({"variant": "cuda"}, "variant 'cuda'"),
        ({"samples": 0}, "samples is 0"),
        ({"mask_side": 0}, "mask_side is 0"),
        ({"depth": 1}, "depth is 1"),
        ({"look": "match", "floor": True}, "a floor was asked for in pictures that match the scene"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_wrong_settings_are_refused(setting: dict[str, object], culprit: str) -> None:
    with pytest.raises(UserError, match=culprit):
        MitsubaSettings(**setting)


@needs_mitsuba
@pytest.mark.parametrize(
    ("quantity", "options", "culprit"),
    [
        ("depth", MitsubaSettings(), "quantity 'depth'"),
        ("color", MitsubaSettings(look="match"), "leave it out"),
        ("color", MitsubaSettings(variant="scalar_rgb"), "no number 'body1.roughness'"),
    ],
)
def test_a_film_that_cannot_be_made_is_refused(quantity: str, options: MitsubaSettings, culprit: str) -> None:
    settings = RasterSettings(width=8, height=8, quantity=quantity)
    with pytest.raises(UserError, match=culprit):
        MitsubaFilm(two_boxes(), settings, options=options, look=draw_appearance(["body0", "static"], seed=0))


# -- the command line -------------------------------------------------------------------------------------------------------

Risp = Callable[..., tuple[int, str, str]]
FILM = ["simulate", "small.py", "--renderer", "mitsuba", "--spp", "4", "--variant", "scalar_rgb", "--out", "run"]


@pytest.fixture
def risp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Risp:
    """Runs the command line in a folder with the scene file small.py: exit status, stdout, stderr."""
    shutil.copy(small_scenes.__file__, tmp_path / "small.py")
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


@needs_mitsuba
def test_a_film_resumes_frame_by_frame(risp: Risp, tmp_path: Path) -> None:
    status, out, err = risp(*FILM)
    assert status == 0, err
    assert "scalar_rgb" in out and "5 frames in" in out
    run = tmp_path / "run"
    names = [f"{k:05d}.png" for k in range(5)]
    assert sorted(path.name for path in (run / "frames").iterdir()) == [*names, "video.json"]
    assert sorted(path.name for path in (run / "masks" / "block").iterdir()) == names
    assert read_video(run / "frames", fps=200, size=(16, 16)).shape == (5, 16, 16, 3) == read_video(run / "video.mp4").shape
    assert Image.open(run / "masks" / "block" / names[0]).mode == "L"
    look = Appearance.from_json((run / "appearance.json").read_text())
    assert look == draw_appearance(["block"], seed=0)

    # As if it had been killed: no result, frames and a mask missing, a picture cut short.
    files = [run / "frames" / name for name in names] + [run / "masks" / "block" / name for name in names]
    before = {path: path.read_bytes() for path in files}
    (run / "result.json").unlink()
    files[1].unlink()
    files[7].unlink()
    files[4].write_bytes(before[files[4]][:200])
    stamps = {path: path.stat().st_mtime_ns for path in files if path.exists()}
    assert risp(*FILM)[0] == 0
    assert {path: path.read_bytes() for path in files} == before
    untouched = [files[0], files[3], files[5], files[8]]
    assert [path.stat().st_mtime_ns for path in untouched] == [stamps[path] for path in untouched]
    assert json.loads((run / "result.json").read_text())["rendered"] == 3

    (run / "result.json").unlink()
    status, _, err = risp(*FILM, "--seed", 1)
    assert status == 2 and "other settings (renderer.seed is 0 there and 1 here)" in err
    assert {path: path.read_bytes() for path in files} == before


@needs_mitsuba
def test_a_look_is_taken_from_a_file(risp: Risp, tmp_path: Path) -> None:
    ranges = {name: (0.31, 0.31) for name in BODY_RANGES}
    (tmp_path / "look.json").write_text(draw_appearance(["block"], seed=5, ranges=ranges, colors="draw").to_json())
    assert risp(*FILM, "--frames", 1, "--appearance", "look.json")[0] == 0
    settings = json.loads((tmp_path / "run" / "settings.json").read_text())
    assert settings["renderer"]["appearance"]["numbers"]["block.roughness"] == 0.31
    assert (tmp_path / "run" / "appearance.json").read_text() == (tmp_path / "look.json").read_text()
    (tmp_path / "other.json").write_text(draw_appearance(["cube"], seed=5).to_json())
    wrong = {"other.json": "'block.roughness'", "none.json": "none.json cannot be read", "small.py": "no drawn look"}
    for name, culprit in wrong.items():
        status, _, err = risp(*FILM[:-1], "new", "--appearance", name)
        assert status == 2 and culprit in err and not (tmp_path / "new").exists()


@needs_mitsuba
def test_a_matching_film_has_the_colours_of_the_scene(risp: Risp, tmp_path: Path) -> None:
    assert risp(*FILM, "--look", "match", "--frames", 1, "--spp", 64, "--set", "height=0.1")[0] == 0
    assert not (tmp_path / "run" / "appearance.json").exists()
    theirs = read_video(tmp_path / "run" / "frames")
    scene = small_scenes.make_scene(height=0.1)
    mine = scene.render(scene.rollout(frames=1))[0].numpy()
    assert np.abs(theirs - mine).mean() < 0.05  # soft edges, no shadow and no light that the ground takes from the block


@needs_mitsuba
def test_a_film_is_taken_with_the_camera_of_a_name(risp: Risp, tmp_path: Path) -> None:
    """Two cameras; the second has another size of picture and sees the block from above."""
    source = (tmp_path / "small.py").read_text()
    second = (
        "    from dataclasses import replace\n"
        "    eye = Camera.look_at(eye=(0, -0.01, 0.4), target=(0, 0, 0.03), vertical_fov=30.0, width=24, height=20, near=0.05)\n"
        '    scene.add_camera(replace(eye, name="above"))\n    return scene\n'
    )
    (tmp_path / "small.py").write_text(source.replace("    return scene\n", second))
    assert risp(*FILM, "--frames", 1, "--camera", "above")[0] == 0
    assert read_video(tmp_path / "run" / "frames").shape == (2, 20, 24, 3)
    mask = np.asarray(Image.open(tmp_path / "run" / "masks" / "block" / "00000.png")) / 255
    scene = load_scene(str(tmp_path / "small.py"))
    alpha = scene.render(scene.rollout(frames=1), camera="above", alpha=True)[0, 0, ..., 3].numpy()
    assert np.abs(mask - alpha).mean() < 0.05 and mask.sum() > 10
    status, _, err = risp(*FILM[:-1], "new", "--camera", "abov")
    assert status == 2 and "'abov': did you mean 'above'" in err and not (tmp_path / "new").exists()


def test_mitsuba_is_not_installed(risp: Risp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None)
    status, _, err = risp(*FILM)
    assert status == 2 and len(err.strip().splitlines()) == 1
    assert "Mitsuba is not installed" in err and "pip install 'risp-taichi[photoreal]'" in err
    assert not (tmp_path / "run").exists()


def test_mitsuba_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mitsuba", None)
    with pytest.raises(UserError, match=r"Mitsuba is not installed .*risp-taichi\[photoreal\]"):
        variants.load_mitsuba(variants.Variant("scalar_rgb", None, ""))


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        (["--spp", 4], "--spp is an option of Mitsuba: add --renderer mitsuba"),
        (["--renderer", "soft", "--seed", 4], "--seed is an option of Mitsuba"),
        (["--renderer", "mitsuba", "--look", "match", "--colors", "draw"], "--colors has no effect with --look match"),
        (["--renderer", "mitsuba", "--colors", "draw", "--appearance", "a.json"], "leave --colors out"),
        (["--renderer", "mitsuba", "--size", 17], "even sides"),
    ],
)
def test_options_that_do_not_fit_are_refused(risp: Risp, tmp_path: Path, arguments: list[object], culprit: str) -> None:
    status, _, err = risp("simulate", "small.py", *arguments, "--out", "new")
    assert status == 2 and culprit in err and not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("arguments", "culprit"), [(["--seed", -1], "-1 is out of range"), (["--spp", 0], "0 is too small"), (["--seed", "x"], "'x'")]
)
def test_numbers_out_of_range_are_refused(
    risp: Risp, capsys: pytest.CaptureFixture[str], arguments: list[object], culprit: str
) -> None:
    with pytest.raises(SystemExit) as stop:
        risp(*FILM, *arguments)
    assert stop.value.code == 2 and culprit in capsys.readouterr().err


def test_every_choice_is_a_choice() -> None:
    assert CHOICES["sky.kind"] == SKIES and CHOICES["ground.pattern"] == PATTERNS
