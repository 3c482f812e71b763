"""Edge cases, rows, containers, tiles, orientation and the Tape, in f64."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.reference import render_scenes
from ti_render import RasterSettings, RenderInputs, check_topology, look_at, render, render_adjoint, render_tape
from ti_render.camera import intrinsics_from_fov, pack_camera
from ti_sim.base.errors import UserError
from ti_sim.base.runtime import ti

REALS = ("vertices_rest", "body_q", "camera", "albedo", "ambient", "light", "background", "ground")


def everything_finite(inputs, settings):
    """Render and differentiate; True when every number is finite."""
    result = render(inputs, settings)
    adjoint = render_adjoint(result, np.random.default_rng(0).normal(size=result.images.shape))
    adjoints = [getattr(adjoint, name) for name in REALS if name != "ground" or settings.ground]
    return all(np.isfinite(array).all() for array in (result.images, *adjoints))


def with_triangle(points, **options):
    """The box scene with one more static triangle at ``points``."""
    inputs, settings = render_scenes.scene("box", **options)
    vertices = np.concatenate([inputs.vertices_rest, np.array(points, dtype=np.float64)])
    faces = np.concatenate([inputs.faces, [[8, 9, 10]]]).astype(np.int32)
    albedo = np.concatenate([inputs.albedo, np.full((1, 1, 3, 3), 0.5)], axis=1)
    body = np.concatenate([inputs.vertex_body, [-1] * 3]).astype(np.int32)
    return replace(inputs, vertices_rest=vertices, faces=faces, albedo=albedo, vertex_body=body), settings


EYE, TARGET = np.array([1.9, -2.7, 1.4]), np.array([0.05, 0.02, 0.3])


@pytest.mark.parametrize("composite", ["alpha", "softmax"])
@pytest.mark.parametrize("sigma", [1e-2, 1e-5])
@pytest.mark.parametrize(
    "points",
    [
        pytest.param([EYE + 2 * (TARGET - EYE) / 3, TARGET, TARGET + [0.1, 0.3, 0.5]], id="edge-on"),
        pytest.param([TARGET, TARGET, TARGET + [0.1, 0.2, 0.3]], id="no edge"),
        pytest.param([TARGET] * 3, id="a point"),
        pytest.param([TARGET, TARGET + [0, 0, 0.2], TARGET + [0, 0, 0.4]], id="a line"),
        pytest.param([EYE + 0.1, EYE + [0.5, -1.0, 0.2], EYE - 1], id="behind"),
        pytest.param([EYE, TARGET, TARGET + [0.1, 0.3, 0.5]], id="through the eye"),
        pytest.param([EYE * 1.0001, TARGET, TARGET + [0.1, 0.3, 0.5]], id="through the camera plane"),
        pytest.param([[1e9, 1e9, 0.1], TARGET, TARGET + [0.1, 0.3, 0.5]], id="far away"),
        pytest.param([EYE + [-0.2, 0.301, 0.0], TARGET + [300, 300, 0], TARGET + [-300, 200, 90]], id="over the whole image"),
    ],
)
def test_bad_triangles_leave_everything_finite(points, sigma, composite):
    assert everything_finite(*with_triangle(points, sigma=sigma, composite=composite))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_vertices_that_are_not_finite_are_not_drawn(bad):
    points = [[bad, 0, 0], TARGET, TARGET + [0.1, 0.3, 0.5]]
    inputs, settings = with_triangle(points)
    result = render(inputs, settings)
    expected = render(*render_scenes.scene("box")).images
    np.testing.assert_array_equal(result.images, expected)
    adjoint = render_adjoint(result, np.ones_like(expected))
    for name in REALS:
        assert np.isfinite(getattr(adjoint, name)).all()


def test_a_diverged_body_leaves_the_others_alone():
    inputs, settings = render_scenes.scene("batch_one")
    body_q = inputs.body_q.copy()
    body_q[1, 0] = np.nan
    result = render(replace(inputs, body_q=body_q), settings)
    expected = render(inputs, settings)
    np.testing.assert_array_equal(result.images[[0, 2, 3]], expected.images[[0, 2, 3]])
    assert np.isfinite(result.images).all()
    adjoint = render_adjoint(result, np.ones_like(result.images))
    for name in REALS:
        assert np.isfinite(getattr(adjoint, name)).all(), name


@pytest.mark.parametrize("ground", [True, False])
def test_no_face_in_view_shows_the_backdrop(ground):
    inputs, settings = render_scenes.scene("box")
    inputs = replace(inputs, body_q=inputs.body_q + np.array([0, 0, 50.0, 0, 0, 0, 0]))
    settings = replace(settings, ground=ground)
    result = render(inputs, settings)
    assert (result.images[..., 3] == 0).all()
    assert everything_finite(inputs, settings)
    if not ground:
        np.testing.assert_array_equal(result.images[..., :3], np.broadcast_to(inputs.background[0], (1, 18, 22, 3)))


def test_a_camera_in_the_ground_plane_sees_no_ground():
    inputs, settings = render_scenes.scene("box")
    camera = np.zeros((1, 16))
    camera[0, :4] = [20, 20, 11, 9]
    camera[0, 4:13] = np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]], dtype=float).ravel()
    inputs = replace(inputs, camera=camera, ground=np.array([[0.5, 0.5, 0.5, 0.0]]))
    assert everything_finite(inputs, settings)


def test_white_lambert_face_under_unit_light_shows_one():
    vertices = np.array([[-1.0, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]])
    rotation = np.diag([1.0, -1.0, -1.0])
    inputs = RenderInputs(
        vertices_rest=vertices, body_q=np.array([[[0, 0, 0, 0, 0, 0, 1.0]]]),
        faces=np.array([[0, 1, 2], [0, 2, 3]], dtype=np.int32),
        vertex_body=np.full(4, -1, dtype=np.int32),
        camera=pack_camera((16, 16, 8.1, 8.2), rotation, -rotation @ np.array([0, 0, 3.0]))[None],
        albedo=np.ones((1, 2, 3, 3)), ambient=np.zeros((1, 3)), light=np.array([[0, 0, -3.0, 1, 1, 1]]),
        background=np.zeros((1, 3)),
    )  # fmt: skip
    settings = RasterSettings(width=16, height=16, near=0.1, far=10.0)
    image = render(inputs, settings).images[0]
    # A pixel away from the square's diagonal, where two half-covering faces let 1/4 of the backdrop through.
    np.testing.assert_allclose(image[9, 9], 1.0, atol=1e-12)
    # Lit from below it is black, and as solid as before.
    dark = render(replace(inputs, light=np.array([[0, 0, 1.0, 1, 1, 1]])), settings)
    np.testing.assert_allclose(dark.images[0, 9, 9], [0, 0, 0, 1], atol=1e-12)


def test_orientation_x_is_right_and_z_is_up():
    vertices, faces = render_scenes.box_mesh(0.3)
    count = len(faces)
    both = np.concatenate([vertices + [0.5, 0, 0], vertices + [0, 0, 0.8]])
    albedo = np.zeros((1, 2 * count, 3, 3))
    albedo[:, :count, :, 0] = 1  # red on +x
    albedo[:, count:, :, 2] = 1  # blue on +z
    camera = pack_camera(intrinsics_from_fov(vertical_fov=0.8, width=48, height=32), *look_at((0, -4, 0.0), (0, 0, 0)))[None]
    inputs = RenderInputs(
        vertices_rest=both, body_q=np.array([[[0, 0, 0, 0, 0, 0, 1.0]]]),
        faces=np.concatenate([faces, faces + 8]).astype(np.int32),
        vertex_body=np.zeros(16, dtype=np.int32), camera=camera, albedo=albedo, ambient=np.ones((1, 3)),
        light=np.array([[0, 0, -1.0, 0, 0, 0]]), background=np.zeros((1, 3)),
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


def test_rows_serve_their_images():
    inputs, settings = render_scenes.scene("batch_worlds")
    images = render(inputs, settings).images
    for m in range(4):
        row = m * 2 // 4
        own = {name: getattr(inputs, name)[row : row + 1] for name in REALS if name not in ("body_q", "ground")}
        single = replace(inputs, **own, ground=inputs.ground[row : row + 1], body_q=inputs.body_q[m : m + 1])
        np.testing.assert_allclose(render(single, settings).images[0], images[m], atol=1e-13, rtol=0)


def test_containers_agree():
    inputs, settings = render_scenes.scene("batch_worlds")
    result = render(inputs, settings)
    images_bar = np.random.default_rng(1).normal(size=result.images.shape)
    adjoint = render_adjoint(result, images_bar)

    def to_ti(array):
        copy = ti.ndarray(dtype=ti.i32 if array.dtype == np.int32 else ti.f64, shape=array.shape)
        copy.from_numpy(array)
        return copy

    for convert, back in ((torch.tensor, lambda a: a.numpy()), (to_ti, lambda a: a.to_numpy())):
        other = render(render_scenes.convert(inputs, convert), settings)
        assert type(other.images) is type(convert(images_bar))
        np.testing.assert_array_equal(back(other.images), result.images)
        other_adjoint = render_adjoint(other, convert(images_bar))
        for name in REALS:
            # Sums over tiles are in another order from run to run.
            np.testing.assert_allclose(back(getattr(other_adjoint, name)), getattr(adjoint, name), atol=1e-11, rtol=1e-11)


def test_torch_inputs_with_graph_or_strides_are_taken():
    inputs, settings = render_scenes.scene("box")
    expected = render(inputs, settings).images
    tensors = render_scenes.convert(inputs, torch.tensor)
    odd = replace(
        tensors,
        vertices_rest=tensors.vertices_rest.T.contiguous().T.requires_grad_(),
        albedo=tensors.albedo.clone().requires_grad_(),
    )
    result = render(odd, settings)
    np.testing.assert_array_equal(result.images.numpy(), expected)
    assert odd.albedo.grad is None
    render_adjoint(result, torch.ones(4, 1, 1, 1, dtype=torch.float64).expand(4, 18, 22, 1).permute(3, 1, 2, 0))


def test_adjoint_can_be_asked_for_twice():
    inputs, settings = render_scenes.scene("box")
    result = render(inputs, settings)
    images = result.images.copy()
    bars = np.random.default_rng(1).normal(size=(2, *images.shape))
    first = render_adjoint(result, bars[0])
    render_adjoint(result, bars[1])
    again = render_adjoint(result, bars[0])
    np.testing.assert_allclose(again.body_q, first.body_q, rtol=1e-12)
    np.testing.assert_array_equal(result.images, images)


@pytest.mark.parametrize("composite", ["alpha", "softmax"])
@pytest.mark.parametrize("name", ["outside", "sphere", "batch_all"])
def test_tile_side_changes_nothing(name, composite):
    inputs, settings = render_scenes.scene(name, composite=composite)
    settings = replace(settings, sigma=5e-4)
    images_bar = None
    for side in (1, 3, 8, 64):
        result = render(inputs, replace(settings, tile=side))
        if images_bar is None:
            images_bar = np.random.default_rng(1).normal(size=result.images.shape)
            first, first_adjoint = result, render_adjoint(result, images_bar)
        np.testing.assert_allclose(result.images, first.images, atol=1e-12, rtol=0)
        adjoint = render_adjoint(result, images_bar)
        for real in REALS:
            expected = getattr(first_adjoint, real)
            np.testing.assert_allclose(getattr(adjoint, real), expected, atol=1e-11 * np.abs(expected).max(), rtol=0)


def test_image_is_continuous_at_the_cut_off():
    # A triangle that moves over a pixel's cut-off: the image's steps shrink with the step.
    inputs, settings = render_scenes.scene("triangle", sigma=1e-3)

    def largest_jump(steps):
        moves = np.linspace(0, 0.05, steps)[:, None, None] * np.array([1.0, 0.3, 0, 0, 0, 0, 0])
        images = render(replace(inputs, body_q=inputs.body_q + moves), settings).images
        return np.abs(np.diff(images, axis=0)).max()

    assert largest_jump(801) < 0.6 * largest_jump(401) < 0.36 * largest_jump(201)


@ti.kernel
def weighted_sum(images: ti.types.ndarray(), weights: ti.types.ndarray(), loss: ti.types.ndarray()):
    for m, y, x, k in ti.ndrange(images.shape[0], images.shape[1], images.shape[2], images.shape[3]):
        loss[0] += images[m, y, x, k] * weights[m, y, x, k]


def test_tape_gives_the_adjoint_every_time():
    inputs, settings = render_scenes.scene("batch_worlds")
    result = render(inputs, settings)
    images_bar = np.random.default_rng(1).normal(size=result.images.shape)
    expected = render_adjoint(result, images_bar)

    def to_ti(array, grad=True):
        real = array.dtype != np.int32
        copy = ti.ndarray(dtype=ti.f64 if real else ti.i32, shape=array.shape, needs_grad=real and grad)
        copy.from_numpy(array)
        return copy

    arrays = render_scenes.convert(inputs, to_ti)
    images, loss = to_ti(np.zeros_like(images_bar)), to_ti(np.zeros(1))
    weights = to_ti(images_bar, grad=False)
    for _ in range(3):
        for array in (*(getattr(arrays, name) for name in REALS), images, loss):
            array.grad.fill(0)
        with ti.ad.Tape(loss):
            render_tape(arrays, settings, images)
            weighted_sum(images, weights, loss)
        np.testing.assert_array_equal(images.to_numpy(), result.images)
        for name in REALS:
            np.testing.assert_allclose(
                getattr(arrays, name).grad.to_numpy(), getattr(expected, name), rtol=1e-10, atol=1e-11, err_msg=name
            )


def test_tape_leaves_out_inputs_without_grad():
    inputs, settings = render_scenes.scene("box")

    def to_ti(array):
        wanted = array.shape == inputs.body_q.shape
        copy = ti.ndarray(dtype=ti.i32 if array.dtype == np.int32 else ti.f64, shape=array.shape, needs_grad=wanted)
        copy.from_numpy(array)
        return copy

    arrays = render_scenes.convert(inputs, to_ti)
    images = ti.ndarray(dtype=ti.f64, shape=(1, 18, 22, 4), needs_grad=True)
    loss = ti.ndarray(dtype=ti.f64, shape=(1,), needs_grad=True)
    weights = ti.ndarray(dtype=ti.f64, shape=(1, 18, 22, 4))
    weights.fill(1.0)
    with ti.ad.Tape(loss):
        render_tape(arrays, settings, images)
        weighted_sum(images, weights, loss)
    expected = render_adjoint(render(inputs, settings), np.ones((1, 18, 22, 4))).body_q
    np.testing.assert_allclose(arrays.body_q.grad.to_numpy(), expected, rtol=1e-10, atol=1e-11)
    with pytest.raises(UserError, match="ti.ndarrays"):
        render_tape(inputs, settings, np.zeros((1, 18, 22, 4)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0}, "at least 1"),
        ({"height": 0}, "at least 1"),
        ({"sigma": 0.0}, "sigma is 0.0"),
        ({"sigma": float("nan")}, "sigma is nan"),
        ({"gamma": -1.0}, "gamma is -1.0"),
        ({"near": 0.0}, "0 < near < far"),
        ({"near": 5.0, "far": 5.0}, "0 < near < far"),
        ({"composite": "over"}, "choose one of alpha, softmax"),
        ({"tile": 0}, "at least 1 pixel"),
    ],
)
def test_settings_are_checked(options, message):
    with pytest.raises(UserError, match=message):
        RasterSettings(**{"width": 8, "height": 8, **options})


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("camera", lambda a: np.repeat(a, 3, axis=0), "camera has 3 rows for 4 images"),
        ("light", lambda a: a[:, :5], "light has shape"),
        ("albedo", lambda a: a.astype(np.float32), "albedo is float32"),
        ("faces", lambda a: a.astype(np.int64), "faces is int64"),
        ("body_q", lambda a: a[:, :0], "body_q has shape"),
        ("ground", lambda a: None, "ground is None"),
        ("vertices_rest", lambda a: a[:-1], "vertices_rest has shape"),
    ],
)
def test_inputs_are_checked(name, change, message):
    inputs, settings = render_scenes.scene("batch_one")
    with pytest.raises(UserError, match=message):
        render(replace(inputs, **{name: change(getattr(inputs, name))}), settings)


def test_images_adjoint_is_checked():
    result = render(*render_scenes.scene("box"))
    with pytest.raises(UserError, match="the images' adjoint has shape"):
        render_adjoint(result, np.zeros((1, 2, 2, 4)))


def test_topology_is_checked():
    inputs, _ = render_scenes.scene("box")
    check_topology(inputs)
    with pytest.raises(UserError, match="faces name vertices 0 to 8"):
        check_topology(replace(inputs, faces=np.array([[0, 1, 8]], dtype=np.int32)))
    with pytest.raises(UserError, match="vertex_body names bodies"):
        check_topology(replace(inputs, vertex_body=np.full(8, 1, dtype=np.int32)))


def test_camera_errors():
    with pytest.raises(UserError, match="coincide"):
        look_at((1, 1, 1), (1, 1, 1))
    with pytest.raises(UserError, match="along up"):
        look_at((0, 0, 1), (0, 0, 0))
    with pytest.raises(UserError, match="angle of view"):
        intrinsics_from_fov(vertical_fov=3.5, width=4, height=4)


def test_importing_starts_nothing():
    code = (
        "import sys, ti_render; from ti_sim.base.runtime import ti; "
        "assert 'torch' not in sys.modules; assert ti.lang.impl.get_runtime().prog is None"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
