"""Path-traced pictures that match the rasteriser's: the same camera, lens, light, colours, shadows and masks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import trimesh
from matplotlib.path import Path as Polygon
from scipy.spatial import ConvexHull

from tests.reference.photoreal_inputs import (
    QUAD,
    QUAD_FACES,
    camera_row,
    front_camera,
    made,
    matched,
    needs_mitsuba,
    topology,
    two_boxes,
)
from ti_render import RasterSettings, ShadowSettings, render
from ti_render.photoreal import MitsubaRenderer, MitsubaSettings, choose_variant
from ti_render.photoreal.camera import film_of, undistort
from ti_render.photoreal.lights import environment_directions, harmonic_radiance
from ti_render.photoreal.variant import load_mitsuba
from ti_sim.base.errors import UserError


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


def coverage(outline: np.ndarray, size: int, supersampling: int = 32) -> np.ndarray:
    """Fraction of every pixel of a square picture that lies inside an outline [K, 2], by many points in each."""
    u, v = np.meshgrid(*[(np.arange(size * supersampling) + 0.5) / supersampling] * 2)
    inside = np.zeros(u.shape, dtype=bool)
    near = (np.abs(u - outline[:, 0].mean()) < 6) & (np.abs(v - outline[:, 1].mean()) < 6)
    inside[near] = Polygon(outline).contains_points(np.column_stack([u[near], v[near]]))
    return inside.reshape(size, supersampling, size, supersampling).mean(axis=(1, 3))


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


@needs_mitsuba
def test_masks_show_what_is_seen_of_every_body() -> None:
    settings = RasterSettings(width=40, height=32, near=0.1, far=10.0, sigma=1e-6, antialias=8)
    options = MitsubaSettings(look="match", samples=4, mask_side=8, variant="scalar_rgb")
    film = MitsubaRenderer(two_boxes(), settings, options=options, bodies=("front", "back"))
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


@needs_mitsuba
@pytest.mark.parametrize("variant", ["scalar_rgb", "llvm_ad_rgb"])
def test_masks_are_the_same_beside_another_scene(variant: str) -> None:
    if variant != "scalar_rgb" and choose_variant("auto").name == "scalar_rgb":
        pytest.skip("no LLVM library that the vectorised variant could use")
    settings = RasterSettings(width=20, height=16, near=0.1, far=10.0)
    alone, beside = (
        MitsubaRenderer(two_boxes(), settings, options=MitsubaSettings(samples=4, look="match", variant=variant))
        for _ in range(2)
    )
    wanted = alone.picture(0).masks
    alone._scene.close()  # its numbers go to the other scene, and those of the next stage begin after them
    other = load_mitsuba(alone.variant).load_dict({"type": "scene", "first": {"type": "sphere"}, "second": {"type": "sphere"}})
    found = beside.picture(0).masks
    assert len(other.shapes()) == 2 and sum(mask.max() == 1 for mask in wanted.values()) >= 2
    for name, mask in wanted.items():
        np.testing.assert_array_equal(found[name], mask)
