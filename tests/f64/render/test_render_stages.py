"""The stages before and after the rasterisers by themselves: value, adjoint and tangent of each, in f64.

The adjoint is compared with central differences at every entry, the tangent with the adjoint (``dot_product_test``).
"""

import numpy as np
import pytest

from tests.reference import numpy_renderer, render_scenes
from tests.reference.adjoints import adjoint_report
from tests.reference.dot_product import dot_product_test
from ti_render import mesh_topology
from ti_render.geometry.lens import undistort_pixels, undistort_pixels_adjoint, undistort_pixels_jvp
from ti_render.geometry.normals import find_normals, find_normals_adjoint, find_normals_jvp
from ti_render.geometry.pose import pose, pose_adjoint, pose_jvp
from ti_render.geometry.project import project, project_adjoint, project_jvp
from ti_render.raster.antialias import average_samples, average_samples_adjoint


def assert_derivatives(stage, adjoints, tangent, inputs):
    """Check ``adjoints(result_bar)`` and ``tangent(inputs_dot)``, K = 1, against ``stage(**inputs)``."""
    result = stage(**inputs)
    result_bar = np.random.default_rng(9).normal(size=result.shape)
    for name, found in adjoints(result_bar).items():

        def losses(points, name=name):
            return np.array([np.sum(result_bar * stage(**{**inputs, name: moved})) for moved in points])

        report = adjoint_report(losses, name, inputs[name], found, rtol=1e-6)
        assert report.ok, report.table()
    test = dot_product_test(
        lambda point, dots: tangent({name: dot[None] for name, dot in dots.items()}), lambda point, bar: adjoints(bar),
        inputs, result.shape, rtol=1e-11,
    )  # fmt: skip
    assert test.ok, test


def zeros(inputs):
    """Adjoints to add to."""
    return {name: np.zeros_like(array) for name, array in inputs.items()}


@pytest.mark.parametrize("rest_rows", [None, 1, 2, 4])
def test_pose(rest_rows):
    rng = np.random.default_rng(1)
    vertex_body = np.array([0] * 40 + [-1] * 3 + [1] * 30 + [0] * 7, dtype=np.int32)
    rest = rng.normal(size=(80, 3) if rest_rows is None else (rest_rows, 80, 3))
    inputs = {"rest": rest, "body_q": rng.normal(size=(4, 2, 7))}  # the polynomial holds for any four numbers

    def stage(rest, body_q):
        world = np.empty((4, 80, 3))
        pose(True, rest, vertex_body, body_q, world)
        return world

    def adjoints(bar):
        found = zeros(inputs)
        pose_adjoint(True, rest, vertex_body, inputs["body_q"], bar, *found.values())
        return found

    def tangent(dots):
        world_dot = np.empty((4, 80, 1, 3))
        pose_jvp(rest, vertex_body, inputs["body_q"], dots["rest"], dots["body_q"], world_dot)
        return world_dot[:, :, 0]

    for m in range(4):
        mine = rest if rest_rows is None else rest[m * rest_rows // 4]
        expected = numpy_renderer.world_vertices(mine, vertex_body, inputs["body_q"][m])
        np.testing.assert_allclose(stage(**inputs)[m], expected, atol=1e-13)
    assert_derivatives(stage, adjoints, tangent, inputs)


@pytest.mark.parametrize("rows", [1, 2, 4])
def test_project(rows):
    rng = np.random.default_rng(2)
    cameras = np.concatenate([render_scenes.camera(20, 14, eye=(2 + 0.1 * k, -2.5, 1.5)) for k in range(rows)])
    inputs = {"world": 0.4 * rng.normal(size=(4, 70, 3)), "camera": cameras}

    def stage(world, camera):
        screen = np.empty(world.shape)
        project(True, world, camera, 20, 14, 0.1, screen)
        return screen

    def adjoints(bar):
        found = zeros(inputs)
        project_adjoint(True, *inputs.values(), 20, 14, stage(**inputs), bar, *found.values())
        return found

    def tangent(dots):
        screen_dot = np.empty((4, 70, 1, 3))
        world_dot = np.ascontiguousarray(np.moveaxis(dots["world"], 0, 2))
        project_jvp(*inputs.values(), 20, 14, stage(**inputs), world_dot, dots["camera"], screen_dot)
        return screen_dot[:, :, 0]

    assert_derivatives(stage, adjoints, tangent, inputs)


def test_normals():
    rng = np.random.default_rng(3)
    vertices, faces = render_scenes.icosahedron_mesh()
    # Faces 0 to 9 are smooth at their vertices, the others flat; and one group of two far faces.
    groups = np.where(np.arange(20)[:, None] < 10, faces, -1)
    groups[15, 0] = groups[18, 2] = 12
    mesh = mesh_topology(faces, np.zeros(12, dtype=np.int32), corner_normal=groups, like=vertices)
    inputs = {"world": vertices + 0.1 * rng.normal(size=(3, 12, 3))}
    arguments = (mesh.corners, mesh.group_start, mesh.group_faces)

    def stage(world):
        normals = np.empty((3, mesh.normal_count, 3))
        find_normals(True, world, *arguments, normals)
        return normals

    def adjoints(bar):
        found = zeros(inputs)
        find_normals_adjoint(True, inputs["world"], *arguments, bar, found["world"])
        return found

    def tangent(dots):
        normals_dot = np.empty((3, mesh.normal_count, 1, 3))
        find_normals_jvp(inputs["world"], *arguments, np.ascontiguousarray(np.moveaxis(dots["world"], 0, 2)), normals_dot)
        return normals_dot[:, :, 0]

    # By hand: the sum over the faces of a group, and a face's own.
    world, found = inputs["world"][1], stage(**inputs)[1]
    area = np.cross(world[faces[:, 1]] - world[faces[:, 0]], world[faces[:, 2]] - world[faces[:, 0]])
    shared = area[15] + area[18]
    np.testing.assert_allclose(found[12], shared / np.linalg.norm(shared), atol=1e-14)
    np.testing.assert_allclose(found[13:], area / np.linalg.norm(area, axis=1)[:, None], atol=1e-14)
    assert_derivatives(stage, adjoints, tangent, inputs)


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("samples", [1, 2])
def test_lens(samples, rows):
    inputs = {
        "camera": np.concatenate([render_scenes.camera(9, 7, eye=(2 + 0.1 * k, -2.5, 1.5)) for k in range(2)]),
        "distortion": render_scenes.LENS * np.array([[1.0], [0.7]])[:rows],
    }

    def stage(camera, distortion):
        centres = np.empty((2, 7 * samples, 9 * samples, 2))
        undistort_pixels(camera, distortion, 9, 7, samples, centres)
        return centres

    def adjoints(bar):
        found = zeros(inputs)
        undistort_pixels_adjoint(False, *inputs.values(), 9, 7, samples, stage(**inputs), bar, *found.values())
        return found

    def tangent(dots):
        centres_dot = np.empty((2, 1, 7 * samples, 9 * samples, 2))
        undistort_pixels_jvp(*inputs.values(), 9, 7, samples, stage(**inputs), *dots.values(), centres_dot)
        return centres_dot[:, 0]

    assert_derivatives(stage, adjoints, tangent, inputs)


def test_lens_without_distortion_leaves_the_pixels_where_they_are():
    centres = np.empty((1, 7, 9, 2))
    undistort_pixels(render_scenes.camera(9, 7), np.zeros((1, 5)), 9, 7, 1, centres)
    rows, columns = np.mgrid[:7, :9] + 0.5
    np.testing.assert_allclose(centres[0], np.stack([columns - 4.5, rows - 3.5], axis=-1) * 2 / 7, atol=1e-14)


def test_samples():
    side, inputs = 3, {"samples": np.random.default_rng(4).normal(size=(2, 6, 9, 4))}

    def stage(samples):
        pictures = np.empty((2, 2, 3, 4))
        average_samples(samples, side, pictures)
        return pictures

    def adjoints(bar):
        found = zeros(inputs)
        average_samples_adjoint(bar, side, found["samples"])
        return found

    def tangent(dots):
        pictures_dot = np.empty((2, 1, 2, 3, 4))
        average_samples(np.ascontiguousarray(np.moveaxis(dots["samples"], 0, 1)), side, pictures_dot)
        return pictures_dot[:, 0]

    expected = inputs["samples"].reshape(2, 2, 3, 3, 3, 4).mean(axis=(2, 4))
    np.testing.assert_allclose(stage(**inputs), expected, atol=1e-15)
    assert_derivatives(stage, adjoints, tangent, inputs)
