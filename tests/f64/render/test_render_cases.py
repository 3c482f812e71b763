"""Edge cases: bad triangles, cameras in the ground's plane, lenses that fold; brightness and orientation; in f64."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from tests.reference import render_scenes
from tests.reference.numpy_renderer import topology
from tests.reference.render_scenes import EYE, STILL, TARGET, random_tangents
from ti_render import RasterSettings, RenderInputs, look_at, mesh_topology, render, render_adjoint, render_jvp
from ti_render.camera import intrinsics_from_fov, pack_camera


def everything_finite(inputs, settings):
    """Render and differentiate both ways; True when every number is finite."""
    result = render(inputs, settings)
    adjoint = render_adjoint(result, np.random.default_rng(0).normal(size=result.images.shape))
    pushed = render_jvp(result, random_tangents(inputs))
    return all(np.isfinite(array).all() for array in (result.images, pushed, *render_scenes.reals(adjoint).values()))


def with_triangle(points, **options):
    """A lit, textureless scene with a box and one more static triangle at ``points``."""
    inputs, settings = render_scenes.scene("several_lights", **options)
    mesh = topology(inputs.mesh)
    faces = np.concatenate([mesh.faces, [[8, 9, 10]]]).astype(np.int32)
    body = np.concatenate([mesh.vertex_body, [-1] * 3]).astype(np.int32)
    return replace(
        inputs,
        mesh=mesh_topology(faces, body, like=inputs.body_q),
        vertices_rest=np.concatenate([inputs.vertices_rest, np.array(points, dtype=np.float64)]),
        albedo=np.concatenate([inputs.albedo, np.full((1, 1, 3, 3), 0.5)], axis=1),
    ), settings


BAD_TRIANGLES = [
    pytest.param([EYE + 2 * (TARGET - EYE) / 3, TARGET, TARGET + [0.1, 0.3, 0.5]], id="edge-on"),
    pytest.param([TARGET, TARGET, TARGET + [0.1, 0.2, 0.3]], id="no edge"),
    pytest.param([TARGET] * 3, id="a point"),
    pytest.param([TARGET, TARGET + [0, 0, 0.2], TARGET + [0, 0, 0.4]], id="a line"),
    pytest.param([EYE + 0.1, EYE + [0.5, -1.0, 0.2], EYE - 1], id="behind"),
    pytest.param([EYE, TARGET, TARGET + [0.1, 0.3, 0.5]], id="through the eye"),
    pytest.param([EYE * 1.0001, TARGET, TARGET + [0.1, 0.3, 0.5]], id="through the camera plane"),
    pytest.param([[1e9, 1e9, 0.1], TARGET, TARGET + [0.1, 0.3, 0.5]], id="far away"),
    pytest.param([EYE + [-0.2, 0.301, 0.0], TARGET + [300, 300, 0], TARGET + [-300, 200, 90]], id="over the whole image"),
]


@pytest.mark.parametrize(
    "options",
    [
        {"composite": "alpha"},
        {"composite": "softmax"},
        {"aggregation": "dibr"},
        {"quantity": "normal"},
        {"shadows": render_scenes.shadow_settings(), "two_sided": True},
    ],
    ids=lambda options: " ".join(options),
)
@pytest.mark.parametrize("sigma", [1e-2, 1e-5])
@pytest.mark.parametrize("points", BAD_TRIANGLES)
def test_bad_triangles_leave_everything_finite(points, sigma, options):
    assert everything_finite(*with_triangle(points, sigma=sigma, **options))


@pytest.mark.parametrize("points", BAD_TRIANGLES[1:4])
def test_bad_triangles_of_a_smooth_shiny_body_leave_everything_finite(points):
    inputs, settings = with_triangle(points, shading="phong", shadows=render_scenes.shadow_settings())
    mesh = render_scenes.mesh_with(inputs.mesh, corner_normal=topology(inputs.mesh).faces, like=inputs.body_q)
    assert everything_finite(replace(inputs, mesh=mesh, material=np.full((1, 1, 4), 0.5)), settings)


@pytest.mark.parametrize("shadows", [None, render_scenes.shadow_settings()])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_vertices_that_are_not_finite_are_not_drawn(bad, shadows):
    inputs, settings = with_triangle([[bad, 0, 0], TARGET, TARGET + [0.1, 0.3, 0.5]], shadows=shadows)
    result = render(inputs, settings)
    expected = render(*render_scenes.scene("several_lights", shadows=shadows)).images
    np.testing.assert_array_equal(result.images, expected)
    for name, adjoint in render_scenes.reals(render_adjoint(result, np.ones_like(expected))).items():
        assert np.isfinite(adjoint).all(), name


def test_a_diverged_body_leaves_the_other_pictures_alone():
    inputs, settings = render_scenes.scene("batch")
    body_q = inputs.body_q.copy()
    body_q[1, 0] = np.nan
    result = render(replace(inputs, body_q=body_q), settings)
    expected = render(inputs, settings)
    np.testing.assert_array_equal(result.images[[0, 2, 3]], expected.images[[0, 2, 3]])
    assert np.isfinite(result.images).all()
    for name, adjoint in render_scenes.reals(render_adjoint(result, np.ones_like(result.images))).items():
        assert np.isfinite(adjoint).all(), name


@pytest.mark.parametrize("aggregation", ["softras", "dibr"])
@pytest.mark.parametrize("ground", ["plain", None])
def test_no_face_in_view_shows_what_is_behind(ground, aggregation):
    inputs, settings = render_scenes.scene("intersecting", ground=ground, aggregation=aggregation)
    inputs = replace(inputs, body_q=inputs.body_q + np.array([0, 0, 50.0, 0, 0, 0, 0]))
    result = render(inputs, settings)
    assert (result.images[..., 3] == 0).all()
    assert everything_finite(inputs, settings)
    if ground is None:
        fraction = (np.arange(settings.height) + 0.5)[:, None, None] / settings.height
        top, bottom = inputs.background[0]
        expected = np.broadcast_to(top + (bottom - top) * fraction, result.images[0, ..., :3].shape)
        np.testing.assert_allclose(result.images[0, ..., :3], expected, atol=1e-14)


@pytest.mark.parametrize("aggregation", ["softras", "dibr"])
@pytest.mark.parametrize("ground", ["plain", "checker"])
def test_a_camera_in_the_ground_plane_sees_no_ground(ground, aggregation):
    inputs, settings = render_scenes.scene("checker_ground", ground=ground, aggregation=aggregation)
    camera = np.zeros((1, 16))
    camera[0, :4] = [20, 20, 7.5, 6.5]  # the middle row looks along the plane
    camera[0, 4:13] = np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]], dtype=float).ravel()
    row = inputs.ground.copy()
    row[0, 3] = 0.0
    inputs = replace(inputs, camera=camera, ground=row)
    assert everything_finite(inputs, settings)
    above = replace(inputs, ground=row - np.eye(10)[3])
    assert np.abs(render(inputs, settings).images - render(above, settings).images).max() > 0.1


@pytest.mark.parametrize("aggregation", ["softras", "dibr"])
def test_a_lens_that_folds_within_the_picture_leaves_everything_finite(aggregation):
    # Beyond the fold no point of the plane is seen by the pixel.
    inputs, settings = render_scenes.scene("distorted_camera", aggregation=aggregation)
    assert everything_finite(replace(inputs, distortion=np.array([[-3.0, 0.0, 0.01, 0.02, 0.0]])), settings)


def test_white_lambert_face_under_unit_light_shows_one():
    vertices = np.array([[-1.0, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]])
    rotation = np.diag([1.0, -1.0, -1.0])
    inputs = RenderInputs(
        mesh=mesh_topology(np.array([[0, 1, 2], [0, 2, 3]]), np.full(4, -1), like=vertices),
        vertices_rest=vertices, body_q=STILL, camera=pack_camera((16, 16, 8.1, 8.2), rotation, -rotation @ [0, 0, 3.0])[None],
        albedo=np.ones((1, 2, 3, 3)), ambient=np.zeros((1, 3)), directional=np.array([[[0, 0, -3.0, 1, 1, 1]]]),
        background=np.zeros((1, 2, 3)),
    )  # fmt: skip
    settings = RasterSettings(width=16, height=16, near=0.1, far=10.0)
    # A pixel away from the square's diagonal, where two half-covering faces let 1/4 of the background through.
    np.testing.assert_allclose(render(inputs, settings).images[0, 9, 9], 1.0, atol=1e-12)
    # Lit from below it is black, and as solid as before; two-sided faces turn towards the eye, not towards the light.
    dark = replace(inputs, directional=np.array([[[0, 0, 1.0, 1, 1, 1]]]))
    for two_sided in (False, True):
        picture = render(dark, replace(settings, two_sided=two_sided)).images[0]
        np.testing.assert_allclose(picture[9, 9], [0, 0, 0, 1], atol=1e-12)
    # A point light of intensity 4 is as bright 2 m above.
    u, v = 9.5, 9.5
    above = [(u - 8.1) / 16 * 3, -(v - 8.2) / 16 * 3, 2.0]
    lamp = replace(inputs, directional=None, point=np.array([[[*above, 4, 4, 4]]]))
    np.testing.assert_allclose(render(lamp, settings).images[0, 9, 9], 1.0, atol=1e-12)
    # An environment of radiance 1 from everywhere (its constant coefficient is sqrt(4 pi)) shows the albedo.
    sky = np.zeros((1, 9, 3))
    sky[0, 0] = np.sqrt(4 * np.pi)
    outdoors = replace(inputs, directional=None, environment=sky)
    np.testing.assert_allclose(render(outdoors, settings).images[0, 9, 9], 1.0, atol=1e-7)


def test_orientation_x_is_right_and_z_is_up():
    box = render_scenes.box_mesh(0.3)
    vertices, faces, _ = render_scenes.join(box, box)
    count = len(box[1])
    albedo = np.zeros((1, 2 * count, 3, 3))
    albedo[:, :count, :, 0] = 1  # red on +x
    albedo[:, count:, :, 2] = 1  # blue on +z
    camera = pack_camera(intrinsics_from_fov(vertical_fov=0.8, width=48, height=32), *look_at((0, -4, 0.0), (0, 0, 0)))[None]
    inputs = RenderInputs(
        mesh=mesh_topology(faces, np.zeros(16, dtype=np.int32), like=STILL),
        vertices_rest=vertices + np.repeat([[0.5, 0, 0], [0, 0, 0.8]], 8, axis=0), body_q=STILL, camera=camera, albedo=albedo,
        ambient=np.ones((1, 3)), background=np.zeros((1, 2, 3)),
    )  # fmt: skip
    image = render(inputs, RasterSettings(width=48, height=32, near=0.1, far=20.0)).images[0]
    rows, columns = np.mgrid[:32, :48] + 0.5
    for channel, point in ((0, (0.5, 0, 0)), (2, (0, 0, 0.8))):
        weight = image[..., channel]
        rotation, translation = camera[0, 4:13].reshape(3, 3), camera[0, 13:]
        x, y, z = rotation @ point + translation
        u, v = camera[0, 0] * x / z + camera[0, 2], camera[0, 1] * y / z + camera[0, 3]
        assert abs((weight * columns).sum() / weight.sum() - u) < 0.3
        assert abs((weight * rows).sum() / weight.sum() - v) < 0.3
    red, blue = image[..., 0] > 0.5, image[..., 2] > 0.5
    assert columns[red].min() > 24 and rows[blue].max() < 16


def test_importing_starts_nothing():
    code = (
        "import sys, ti_render; from ti_sim.base.runtime import ti; "
        "assert 'torch' not in sys.modules; assert ti.lang.impl.get_runtime().prog is None"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
