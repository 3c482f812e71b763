"""Pictures are continuous in poses, and adjoints integrate to what a loss changes; in f64."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq

from tests.reference import render_scenes
from tests.reference.numpy_renderer import topology, world_vertices
from tests.reference.render_scenes import STILL
from ti_render import render, render_adjoint


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
