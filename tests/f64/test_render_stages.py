"""Every stage's hand-written adjoint against central differences of the stage, in f64, every entry of every input.

Positions are generic (fixed seeds), so that no clipped cosine, edge or medial axis lies within the step.
"""

from dataclasses import replace

import numpy as np
import pytest

from tests.reference import render_scenes
from tests.reference.adjoints import adjoint_report
from ti_render import render, render_adjoint
from ti_render.backdrop import backdrop, backdrop_adjoint
from ti_render.pose import pose, pose_adjoint
from ti_render.project import project, project_adjoint
from ti_render.rasterise import rasterise, rasterise_adjoint
from ti_render.shade import shade, shade_adjoint

INPUTS = ("vertices_rest", "body_q", "camera", "albedo", "ambient", "light", "background", "ground")


def reports(stage, inputs, result_shape, adjoints, *, rtol=1e-6):
    """gradcheck of ``adjoints(result_bar)`` (a dict) against ``stage(**inputs)``, one report for each named input."""
    result_bar = np.random.default_rng(9).normal(size=result_shape)
    for name, found in adjoints(result_bar).items():
        def loss(moved, name=name):
            return float(np.sum(result_bar * stage(**{**inputs, name: moved})))

        yield adjoint_report(loss, name, inputs[name], found, rtol=rtol)


@pytest.mark.parametrize("rest_rows", [None, 1, 2, 4])
def test_pose(rest_rows):
    inputs, _ = render_scenes.scene("batch_one")
    rest = inputs.vertices_rest
    if rest_rows:
        rest = rest + 0.1 * np.random.default_rng(1).normal(size=(rest_rows, *rest.shape))
    shape = (4, rest.shape[-2], 3)

    def stage(rest, body_q):
        world = np.empty(shape)
        pose(rest, inputs.vertex_body, body_q, world)
        return world

    def adjoints(bar):
        found = {"rest": np.zeros_like(rest), "body_q": np.zeros_like(inputs.body_q)}
        pose_adjoint(rest, inputs.vertex_body, inputs.body_q, bar, *found.values())
        return found

    for report in reports(stage, {"rest": rest, "body_q": inputs.body_q}, shape, adjoints):
        assert report.ok, report.table()


@pytest.mark.parametrize("rows", [1, 2, 4])
def test_project(rows):
    rng = np.random.default_rng(2)
    world = 0.4 * rng.normal(size=(4, 70, 3))
    cameras = np.concatenate([render_scenes.camera(20, 14, eye=(2 + 0.1 * k, -2.5, 1.5)) for k in range(rows)])

    def stage(world, camera):
        screen = np.empty(world.shape)
        project(world, camera, 20, 14, 0.1, screen)
        return screen

    def adjoints(bar):
        found = {"world": np.zeros_like(world), "camera": np.zeros_like(cameras)}
        project_adjoint(world, cameras, 20, 14, stage(world, cameras), bar, *found.values())
        return found

    for report in reports(stage, {"world": world, "camera": cameras}, world.shape, adjoints):
        assert report.ok, report.table()


@pytest.mark.parametrize("rows", [1, 2, 4])
def test_shade(rows):
    rng = np.random.default_rng(3)
    inputs, _ = render_scenes.scene("batch_all")
    world = rng.normal(size=(4, 19, 3))
    arrays = {
        "albedo": inputs.albedo[:rows], "ambient": inputs.ambient[:rows], "light": inputs.light[:rows],
    }  # fmt: skip
    shape = (4, len(inputs.faces), 3, 3)

    def stage(world, albedo, ambient, light):
        lit = np.empty(shape)
        shade(world, inputs.faces, albedo, ambient, light, lit)
        return lit

    def adjoints(bar):
        found = {name: np.zeros_like(array) for name, array in {"world": world, **arrays}.items()}
        shade_adjoint(world, inputs.faces, *arrays.values(), bar, *found.values())
        return found

    for report in reports(stage, {"world": world, **arrays}, shape, adjoints):
        assert report.ok, report.table()


@pytest.mark.parametrize("rows", [1, 2, 4])
def test_backdrop(rows):
    inputs, settings = render_scenes.scene("batch_all")
    names = ("camera", "ambient", "light", "background", "ground")
    arrays = {name: getattr(inputs, name)[:rows] for name in names}

    def stage(**arrays):
        result = np.empty((4, 9))
        backdrop(*(arrays[name] for name in names), 1, settings.width, settings.height, result)
        return result

    def adjoints(bar):
        found = {name: np.zeros_like(array) for name, array in arrays.items()}
        backdrop_adjoint(*arrays.values(), 1, settings.width, settings.height, bar, *found.values())
        return found

    for report in reports(stage, arrays, (4, 9), adjoints):
        assert report.ok, report.table()


@pytest.mark.parametrize("strict", [0, 1])
@pytest.mark.parametrize("name", ["box", "intersecting", "outside", "batch_worlds"])
def test_rasterise(name, strict):
    inputs, settings = render_scenes.scene(name)
    result = render(inputs, settings)
    tiles = result.tiles
    numbers = (
        tiles.start, tiles.slot, tiles.entries, 1, settings.width, settings.height, tiles.side, strict,
        settings.sigma, settings.near, settings.background_depth, settings.depth_rate,
    )  # fmt: skip
    # At the far cut-off a moved vertex reaches no other tile by the step: the tiles' boxes are a little too wide.
    arrays = {"screen": result.screen, "lit": result.lit, "backdrop": result.backdrop}

    def stage(screen, lit, backdrop):
        images = np.empty(result.images.shape)
        rasterise(screen, inputs.faces, lit, backdrop, *numbers, np.empty(result.pixel_state.shape), images)
        return images

    def adjoints(bar):
        state = np.empty(result.pixel_state.shape)
        rasterise(*_arrays(arrays, inputs), *numbers, state, np.empty(result.images.shape))
        found = {name: np.zeros_like(array) for name, array in arrays.items()}
        rasterise_adjoint(*_arrays(arrays, inputs), *numbers, state, bar, *found.values())
        return found

    for report in reports(stage, arrays, result.images.shape, adjoints, rtol=1e-5):
        assert report.ok, report.table()


def _arrays(arrays, inputs):
    return arrays["screen"], inputs.faces, arrays["lit"], arrays["backdrop"]


@pytest.mark.parametrize("composite", ["alpha", "softmax"])
@pytest.mark.parametrize("name", render_scenes.NAMES)
def test_whole(name, composite):
    inputs, settings = render_scenes.scene(name, composite=composite)
    result = render(inputs, settings)
    images_bar = np.random.default_rng(4).normal(size=result.images.shape)
    adjoint = render_adjoint(result, images_bar)
    for input_name in INPUTS:
        if input_name == "ground" and not settings.ground:
            continue
        x = getattr(inputs, input_name)

        def loss(moved, input_name=input_name):
            return float(np.sum(images_bar * render(replace(inputs, **{input_name: moved}), settings).images))

        some = None if x.size <= 128 else 64
        report = adjoint_report(loss, input_name, x, getattr(adjoint, input_name), rtol=1e-5, max_entries=some, seed=6)
        assert report.ok, report.table()
