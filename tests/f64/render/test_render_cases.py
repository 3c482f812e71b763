"""Edge cases, rows, containers, tiles, orientation, the Tape and bad input, in f64."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import brentq

from tests.reference import render_scenes
from tests.reference.numpy_renderer import topology, world_vertices
from tests.reference.taichi_arrays import as_numpy, taichi_array, taichi_zeros, weighted_sum
from ti_render import (
    RasterSettings,
    RenderInputs,
    ShadowSettings,
    look_at,
    mesh_topology,
    render,
    render_adjoint,
    render_jvp,
    render_tape,
)
from ti_render.camera import intrinsics_from_fov, pack_camera
from ti_sim.base.errors import UserError
from ti_sim.base.runtime import ti

EYE, TARGET = render_scenes.EYE, render_scenes.TARGET
STILL = np.array([[[0, 0, 0, 0, 0, 0, 1.0]]])


def random_tangents(inputs, columns=2):
    """Tangents of every real input."""
    rng = np.random.default_rng(1)
    return {name: rng.normal(size=(columns, *array.shape)) for name, array in render_scenes.reals(inputs).items()}


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


def test_rows_serve_their_images():
    inputs, settings = render_scenes.scene("batch")
    settings = replace(settings, shadows=render_scenes.shadow_settings())
    result = render(inputs, settings)
    weights = np.random.default_rng(3).normal(size=result.images.shape)
    adjoint = render_adjoint(result, weights)
    sums = {name: np.zeros(array.shape) for name, array in render_scenes.reals(inputs).items()}
    for m in range(4):
        rows = {name: slice(m * len(x) // 4, m * len(x) // 4 + 1) for name, x in render_scenes.reals(inputs).items()}
        own = replace(inputs, **{name: getattr(inputs, name)[row] for name, row in rows.items()})
        single = render(own, settings)
        np.testing.assert_allclose(single.images[0], result.images[m], atol=1e-13, rtol=0)
        for name, part in render_scenes.reals(render_adjoint(single, weights[m : m + 1])).items():
            sums[name][rows[name]] += part
    for name, expected in sums.items():
        scale = np.abs(expected).max()
        np.testing.assert_allclose(getattr(adjoint, name), expected, atol=1e-11 * scale, rtol=0, err_msg=name)


@pytest.mark.parametrize("name", ["batch", "batch_shadowed", "dibr_textured_phong"])
@pytest.mark.parametrize("convert", [torch.tensor, taichi_array], ids=["torch", "ti.ndarray"])
def test_containers_agree(convert, name):
    inputs, settings = render_scenes.scene(name)
    result = render(inputs, settings)
    images_bar = np.random.default_rng(1).normal(size=result.images.shape)
    adjoint = render_adjoint(result, images_bar)
    tangents = random_tangents(inputs)
    other = render(render_scenes.convert(inputs, convert), settings)
    assert type(other.images) is type(convert(images_bar))
    np.testing.assert_array_equal(as_numpy(other.images), result.images)
    other_adjoint = render_adjoint(other, convert(images_bar))
    for key, found in render_scenes.reals(other_adjoint).items():
        expected = getattr(adjoint, key)  # sums over tiles are in another order from run to run
        np.testing.assert_allclose(as_numpy(found), expected, atol=1e-11 * np.abs(expected).max(), rtol=0, err_msg=key)
    pushed = render_jvp(other, {key: convert(tangent) for key, tangent in tangents.items()})
    expected = render_jvp(result, tangents)
    np.testing.assert_allclose(as_numpy(pushed), expected, atol=1e-12 * np.abs(expected).max(), rtol=0)


def test_torch_inputs_with_graph_or_strides_are_taken():
    inputs, settings = render_scenes.scene("one_face")
    result = render(inputs, settings)
    tensors = render_scenes.convert(inputs, torch.tensor)
    odd = replace(
        tensors,
        vertices_rest=tensors.vertices_rest.T.contiguous().T.requires_grad_(),
        albedo=tensors.albedo.clone().requires_grad_(),
    )
    other = render(odd, settings)
    np.testing.assert_array_equal(other.images.cpu().numpy(), result.images)
    bar = torch.arange(4, dtype=torch.float64).expand(1, settings.width, settings.height, 4).transpose(1, 2)
    assert not bar.is_contiguous()
    found, expected = render_adjoint(other, bar), render_adjoint(result, bar.cpu().numpy())
    np.testing.assert_allclose(found.albedo.cpu().numpy(), expected.albedo, rtol=1e-12, atol=1e-14)
    assert odd.albedo.grad is None


def test_adjoint_can_be_asked_for_twice():
    inputs, settings = render_scenes.scene("shadowed")
    result = render(inputs, settings)
    images = result.images.copy()
    bars = np.random.default_rng(1).normal(size=(2, *images.shape))
    first = render_adjoint(result, bars[0])
    render_jvp(result, random_tangents(inputs))
    render_adjoint(result, bars[1])
    again = render_adjoint(result, bars[0])
    for name, expected in render_scenes.reals(first).items():
        found = getattr(again, name)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max(), err_msg=name)
    np.testing.assert_array_equal(result.images, images)


@pytest.mark.parametrize("name", ["batch", "batch_shadowed"])
def test_columns_of_a_forward_derivative_are_independent(name):
    inputs, settings = render_scenes.scene(name)
    result = render(inputs, settings)
    tangents = random_tangents(inputs, columns=5)
    together = render_jvp(result, tangents)
    assert together.shape == (len(inputs.body_q), 5, settings.height, settings.width, 4)
    for k in range(5):
        alone = render_jvp(result, {name: tangent[k : k + 1] for name, tangent in tangents.items()})
        np.testing.assert_allclose(alone[:, 0], together[:, k], atol=1e-12 * np.abs(together).max(), rtol=0)
    parts = sum(render_jvp(result, {name: tangent}) for name, tangent in tangents.items())
    np.testing.assert_allclose(parts, together, atol=1e-11 * np.abs(together).max(), rtol=0)


@pytest.mark.parametrize("options", [{}, {"composite": "softmax"}, {"aggregation": "dibr"}], ids=str)
@pytest.mark.parametrize("name", ["partly_outside", "many_overlapping", "batch"])
def test_tile_side_changes_nothing(name, options):
    inputs, settings = render_scenes.scene(name, sigma=5e-4, **options)
    tangents = random_tangents(inputs)
    first = None
    for side in (1, 3, 8, 64):
        result = render(inputs, replace(settings, tile=side))
        if first is None:
            images_bar = np.random.default_rng(1).normal(size=result.images.shape)
            first, first_adjoint, first_pushed = result, render_adjoint(result, images_bar), render_jvp(result, tangents)
        np.testing.assert_allclose(result.images, first.images, atol=1e-12, rtol=0)
        adjoint = render_adjoint(result, images_bar)
        for key, expected in render_scenes.reals(first_adjoint).items():
            np.testing.assert_allclose(getattr(adjoint, key), expected, atol=1e-11 * np.abs(expected).max(), rtol=0)
        pushed = render_jvp(result, tangents)
        np.testing.assert_allclose(pushed, first_pushed, atol=1e-11 * np.abs(first_pushed).max(), rtol=0)


def largest_jump(inputs, settings, moves):
    """Largest change of a pixel from one pose to the next."""
    images = render(replace(inputs, body_q=inputs.body_q + moves), settings).images
    return np.abs(np.diff(images, axis=0)).max()


def test_image_is_continuous_at_the_cut_off():
    # A triangle that moves over a pixel's cut-off: the image's steps shrink with the step.
    inputs, settings = render_scenes.scene("one_face", sigma=1e-3)
    along = np.array([1.0, 0.3, 0, 0, 0, 0, 0])
    jumps = [largest_jump(inputs, settings, np.linspace(0, 0.05, n)[:, None, None] * along) for n in (201, 401, 801)]
    assert jumps[2] < 0.6 * jumps[1] < 0.36 * jumps[0]


AXIS = np.array([0.3, -0.5, 0.8]) / np.linalg.norm([0.3, -0.5, 0.8])


def turned(angles):
    """Poses [M, 1, 7] of a body in the origin that is turned about ``AXIS``, and their derivatives by the angle."""
    half = np.asarray(angles)[:, None, None] / 2
    still = np.zeros((*half.shape[:2], 3))
    poses = np.concatenate([still, np.sin(half) * AXIS, np.cos(half)], axis=-1)
    return poses, np.concatenate([still, np.cos(half) * AXIS / 2, -np.sin(half) / 2], axis=-1)


def turning_sphere():
    """A sphere of 80 faces of different colours, with edges as soft and a depth order as hard as in shipped scenes."""
    settings = render_scenes.settings_of(32, 32, sigma=1.6e-3, gamma=1e-3, near=0.5, far=6.0)
    vertices, faces = render_scenes.sphere_mesh()
    rng = np.random.default_rng(0)
    colours = np.repeat(rng.uniform(0.2, 0.9, (1, 80, 1, 3)), 3, axis=2)
    row = render_scenes.camera(32, 32, eye=np.array([1.9, -1.7, 1.0]), target=np.zeros(3))
    mesh = render_scenes.join((vertices, faces))
    return render_scenes.inputs_of(rng, mesh, STILL, settings, cameras=row, softness=False, albedo=colours), settings


def test_faces_that_turn_through_their_edge_do_not_jump():
    inputs, settings = turning_sphere()
    row, faces = inputs.camera[0], topology(inputs.mesh).faces
    eye = -row[4:13].reshape(3, 3).T @ row[13:]

    def facing(angle):
        corners = world_vertices(inputs.vertices_rest, np.zeros(len(inputs.vertices_rest)), turned([angle])[0][0])[faces]
        normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        return (normals * (eye - corners[:, 0])).sum(1)

    ends = facing(0.0), facing(0.4)
    moments = [brentq(lambda angle, f=f: facing(angle)[f], 0.0, 0.4, xtol=1e-14) for f in np.nonzero(ends[0] * ends[1] < 0)[0]]
    assert len(moments) > 1
    for moment in moments:
        images = render(replace(inputs, body_q=turned([moment - 1e-9, moment + 1e-9])[0]), settings).images
        assert np.abs(images[1] - images[0]).max() < 1e-6


def test_the_adjoint_of_a_turn_integrates_to_what_the_loss_changes():
    inputs, settings = turning_sphere()
    angles = np.linspace(0, 0.4, 401)
    poses, moves = turned(angles)
    wanted = render(replace(inputs, body_q=turned([0.9])[0]), settings).images
    result = render(replace(inputs, body_q=poses), settings)
    error = (result.images - wanted) / wanted.size
    loss = (wanted.size * error**2).sum(axis=(1, 2, 3))
    slope = (render_adjoint(result, 2 * error).body_q * moves).sum(axis=(1, 2))
    assert abs(np.trapezoid(slope, angles) - (loss[-1] - loss[0])) < 5e-3 * abs(loss[-1] - loss[0])


@pytest.mark.parametrize("aggregation", ["softras", "dibr"])
def test_alpha_is_continuous_at_the_near_plane(aggregation):
    # A face of which one corner comes through the near plane, within the picture: it fades out before.
    settings = render_scenes.settings_of(aggregation=aggregation)
    row = render_scenes.camera(15, 13)[0]
    points = render_scenes.from_camera(row, [[0.02, 0.01, 0.45], [0.5, 0.2, 1.4], [-0.3, 0.4, 1.6]])
    rng = np.random.default_rng(2)
    inputs = render_scenes.inputs_of(rng, (points, np.array([[0, 1, 2]]), np.zeros(3, dtype=np.int32)), STILL, settings)
    nearer = np.concatenate([-row[4:13].reshape(3, 3)[2], np.zeros(4)])
    assert render(inputs, settings).images[..., 3].max() > 0.3
    jumps = []
    for n in (201, 401, 801):
        moves = np.linspace(0, 0.06, n)[:, None, None] * nearer
        images = render(replace(inputs, body_q=STILL + moves), settings).images[..., 3]
        assert images[-1].max() == 0
        jumps.append(np.abs(np.diff(images, axis=0)).max())
    assert jumps[2] < 0.6 * jumps[1] < 0.36 * jumps[0]


@pytest.mark.parametrize("name", ["batch", "shadowed_phong"])
def test_tape_gives_the_adjoint_every_time(name):
    inputs, settings = render_scenes.scene(name)
    result = render(inputs, settings)
    images_bar = np.random.default_rng(1).normal(size=result.images.shape)
    expected = render_scenes.reals(render_adjoint(result, images_bar))
    arrays = render_scenes.convert(inputs, lambda array: taichi_array(array, needs_grad=True))
    images, loss = taichi_zeros(*images_bar.shape), taichi_zeros(1)
    weights = taichi_array(images_bar)
    for _ in range(3):
        for array in (*render_scenes.reals(arrays).values(), images, loss):
            array.grad.fill(0)
        with ti.ad.Tape(loss):
            render_tape(arrays, settings, images)
            weighted_sum(images, weights, loss)
        np.testing.assert_array_equal(images.to_numpy(), result.images)
        for key, adjoint in expected.items():
            found = getattr(arrays, key).grad.to_numpy()
            np.testing.assert_allclose(found, adjoint, rtol=0, atol=1e-11 * np.abs(adjoint).max(), err_msg=key)


def test_tape_leaves_out_inputs_without_grad():
    inputs, settings = render_scenes.scene("one_face")
    shape = (1, settings.height, settings.width, 4)
    arrays = replace(render_scenes.convert(inputs, taichi_array), body_q=taichi_array(inputs.body_q, needs_grad=True))
    images, loss, weights = taichi_zeros(*shape), taichi_zeros(1), taichi_array(np.ones(shape))
    with ti.ad.Tape(loss):
        render_tape(arrays, settings, images)
        weighted_sum(images, weights, loss)
    expected = render_adjoint(render(inputs, settings), np.ones(shape)).body_q
    np.testing.assert_allclose(arrays.body_q.grad.to_numpy(), expected, rtol=1e-10, atol=1e-11)
    with pytest.raises(UserError, match="ti.ndarrays"):
        render_tape(inputs, settings, np.zeros(shape))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0}, "at least 1"),
        ({"height": 0}, "at least 1"),
        ({"sigma": 0.0}, "sigma is 0.0"),
        ({"sigma": float("nan")}, "sigma is nan"),
        ({"gamma": -1.0}, "gamma is -1.0"),
        ({"near": 0.0}, "near is 0.0: give a finite number above zero"),
        ({"near": 5.0, "far": 5.0}, "near < far is needed"),
        ({"far": np.inf}, "far is inf: give a finite number above zero"),
        ({"composite": "over"}, "composite 'over' is unknown: choose .*'alpha'"),
        ({"aggregation": "hard"}, "aggregation 'hard' is unknown: choose .*'softras'"),
        ({"shading": "gouraud"}, "shading 'gouraud' is unknown: choose .*'phong'"),
        ({"quantity": "albedo"}, "quantity 'albedo' is unknown: choose .*'depth'"),
        ({"ground": "grass"}, "ground 'grass' is unknown: choose .*'checker'"),
        ({"background_weight": 1.0}, "background_weight is 1.0"),
        ({"antialias": 0}, "antialias is 0"),
        ({"tile": 0}, "tile is 0: give a whole number of at least 1"),
    ],
)
def test_settings_are_checked(options, message):
    with pytest.raises(UserError, match=message):
        RasterSettings(**{"width": 8, "height": 8, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"radius": 0.0}, "radius is 0.0"),
        ({"resolution": 1}, "resolution is 1: give a whole number from 2"),
        ({"bias": -0.1}, "bias is -0.1"),
        ({"sigma": -1e-3}, "sigma is -0.001"),
        ({"width": 0.0}, "width is 0.0"),
        ({"center": (0.0, 0.0)}, "center"),
        ({"center": (0.0, 0.0, float("nan"))}, "center"),
    ],
)
def test_shadow_settings_are_checked(options, message):
    with pytest.raises(UserError, match=message):
        ShadowSettings(**{"center": (0.0, 0.0, 0.0), "radius": 1.0, **options})


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("camera", lambda a: np.repeat(a, 3, axis=0)[:3], "camera has 3 rows for 4 images"),
        ("directional", lambda a: a[..., :5], "directional has shape"),
        ("point", lambda a: a[:, 0], "point has shape"),
        ("environment", lambda a: a[:, :8], "environment has shape"),
        ("albedo", lambda a: a.astype(np.float32), "albedo is float32"),
        ("albedo", lambda a: a[:, :-1], "albedo has shape"),
        ("background", lambda a: a[:, 0], "background has shape"),
        ("body_q", lambda a: a[:, :0], "body_q has shape"),
        ("vertices_rest", lambda a: a[:, :-1], "vertices_rest has shape"),
        ("distortion", lambda a: a[:, :4], "distortion has shape"),
        ("softness", lambda a: np.repeat(a, 3, axis=0), "softness has 3 rows for 4 images"),
        ("softness", lambda a: a[:, :1], "softness has shape"),
        ("ground", lambda a: a[:, :4], "ground has shape"),
        ("ground", lambda a: None, "ground is None"),
        ("material", lambda a: None, "material"),
        ("material", lambda a: a[:, :1], "material"),
        ("uv", lambda a: None, "uv"),
        ("uv", lambda a: a[:, :-1], "uv has shape"),
        ("texels", lambda a: None, "texels"),
        ("texels", lambda a: a[:, :-1], "texels"),
    ],
)
def test_inputs_are_checked(name, change, message):
    inputs, settings = render_scenes.scene("batch")
    with pytest.raises(UserError, match=message):
        render(replace(inputs, **{name: change(getattr(inputs, name))}), settings)


@pytest.mark.parametrize("number", [-1, 2])
def test_a_ground_texture_must_exist(number):
    inputs, settings = render_scenes.scene("textured_ground")
    with pytest.raises(UserError, match=f"ground_texture is {number}"):
        render(inputs, replace(settings, ground_texture=number))


@pytest.mark.parametrize("name", ["checker_ground", "textured_ground"])
def test_a_cell_of_the_ground_must_have_a_size(name):
    inputs, settings = render_scenes.scene(name)
    with pytest.raises(UserError, match="cell of the ground is 0.0 m"):
        render(replace(inputs, ground=inputs.ground * (np.arange(10) != 7)), settings)


@pytest.mark.parametrize("sigma_gamma", [(0.0, 1e-2), (1e-3, -1.0), (np.nan, 1e-2)])
def test_softness_must_be_positive(sigma_gamma):
    inputs, settings = render_scenes.scene("intersecting")
    with pytest.raises(UserError, match="softness"):
        render(replace(inputs, softness=np.array([sigma_gamma])), settings)


def test_derivatives_are_asked_for_in_the_right_shape():
    inputs, settings = render_scenes.scene("one_face")
    result = render(inputs, settings)
    with pytest.raises(UserError, match="the images' adjoint has shape"):
        render_adjoint(result, np.zeros((1, 2, 2, 4)))
    with pytest.raises(UserError, match="camera"):
        render_jvp(result, {"camera": np.zeros((2, 1, 15))})
    with pytest.raises(UserError, match="camera|albedo"):
        render_jvp(result, {"camera": np.zeros((2, 1, 16)), "albedo": np.zeros((3, *inputs.albedo.shape))})
    with pytest.raises(UserError, match="camra"):
        render_jvp(result, {"camra": np.zeros((2, 1, 16))})
    with pytest.raises(UserError, match="point"):
        render_jvp(result, {"point": np.zeros((2, 1, 1, 6))})


FACES, BODY = np.array([[0, 1, 2], [0, 2, 3]]), np.zeros(4, dtype=np.int32)
TEXTURES = np.array([[0, 2, 2, 0], [4, 3, 1, 1]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"faces": np.array([[0, 1, 4], [0, 2, 3]])}, "faces name vertices 0 to 4"),
        ({"faces": np.array([[-1, 1, 2], [0, 2, 3]])}, "faces name vertices -1 to 3"),
        ({"faces": np.zeros((0, 3), dtype=np.int32)}, "face"),
        ({"faces": np.zeros((2, 4), dtype=np.int32)}, "faces"),
        ({"vertex_body": np.array([0, 0, 0, -2])}, "vertex_body names bodies -2 to 0"),
        ({"face_material": np.array([0, -1])}, "face_material"),
        ({"face_material": np.array([0])}, "face_material"),
        ({"face_texture": np.array([0, 2])}, "face_texture"),
        ({"face_texture": np.array([0, -2])}, "face_texture"),
        ({"face_texture": np.array([0, 0]), "textures": None}, "face_texture names textures 0 to 0"),
        ({"corner_normal": np.array([[0, 0, 0]])}, "corner_normal"),
        ({"corner_normal": np.array([[0, 0, -2], [0, 0, 0]])}, "corner_normal"),
        ({"textures": np.array([[0, 2, 2, 0], [4, 3, 0, 1]])}, "texture 1 is .*height 0"),
        ({"textures": np.array([[0, 2, 2, 2], [4, 3, 1, 1]])}, "texture 0 is .*wrap 2"),
        ({"textures": np.array([[-1, 2, 2, 0], [4, 3, 1, 1]])}, "texture 0 is .*first texel -1"),
        ({"textures": np.array([[0, 2, 2]])}, "textures is"),
    ],
)
def test_meshes_are_checked(change, message):
    good = {
        "faces": FACES, "vertex_body": BODY, "face_material": np.array([0, 1]), "face_texture": np.array([-1, 1]),
        "corner_normal": np.array([[0, 1, 2], [-1, -1, -1]]), "textures": TEXTURES,
    }  # fmt: skip
    assert mesh_topology(**good, like=STILL) is not None
    with pytest.raises(UserError, match=message):
        mesh_topology(**{**good, **change}, like=STILL)


def test_bodies_of_the_mesh_must_exist():
    inputs, settings = render_scenes.scene("one_face")
    mesh = render_scenes.mesh_with(inputs.mesh, vertex_body=np.full(3, 1), like=STILL)
    with pytest.raises(UserError, match="the mesh names 2 bodies and body_q has 1"):
        render(replace(inputs, mesh=mesh), settings)


def test_materials_of_the_mesh_must_exist():
    inputs, settings = render_scenes.scene("specular")
    mesh = render_scenes.mesh_with(inputs.mesh, face_material=np.full(20, 2), like=STILL)
    with pytest.raises(UserError, match="material"):
        render(replace(inputs, mesh=mesh), settings)


def test_camera_errors():
    with pytest.raises(UserError, match="coincide"):
        look_at((1, 1, 1), (1, 1, 1))
    with pytest.raises(UserError, match="along up"):
        look_at((0, 0, 1), (0, 0, 0))
    with pytest.raises(UserError, match="vertical_fov is 3.5: give a finite number above zero and below"):
        intrinsics_from_fov(vertical_fov=3.5, width=4, height=4)


def test_importing_starts_nothing():
    code = (
        "import sys, ti_render; from ti_sim.base.runtime import ti; "
        "assert 'torch' not in sys.modules; assert ti.lang.impl.get_runtime().prog is None"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
