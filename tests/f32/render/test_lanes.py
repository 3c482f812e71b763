"""Neighbouring pixels in the processor's vector lanes: functions of lanes, and pictures that equal those of single pixels."""

import importlib
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.reference import render_scenes
from tests.reference.devices import needs_cpu
from ti_render import look_at, pack_camera, render, render_adjoint, render_jvp
from ti_render.shading.reflection import highlight
from ti_sim.base.lanes import (
    LANES,
    MIN_LANE_EXPONENT,
    LaneNumber,
    LaneVector,
    atan2_lanes,
    constant_lanes,
    exp_lanes,
    load_lanes,
    log_lanes,
    store_lanes,
)
from ti_sim.base.runtime import ti, with_vector_code

pytestmark = needs_cpu("a GPU has no vector lanes")

RENDER = sys.modules["ti_render.render"]


@ti.kernel
def lane_functions(
    x: ti.types.ndarray(), y: ti.types.ndarray(), exponentials: ti.types.ndarray(), logarithms: ti.types.ndarray(),
    angles: ti.types.ndarray(),
):  # fmt: skip
    """exp(x), log(x) and the angle of (x, y) for flat arrays whose length is a multiple of LANES."""
    for block in range(x.shape[0] // LANES):
        a, b = load_lanes(x, block * LANES), load_lanes(y, block * LANES)
        store_lanes(exponentials, block * LANES, exp_lanes(ti.max(ti.min(a, 0.0), MIN_LANE_EXPONENT)))
        store_lanes(logarithms, block * LANES, log_lanes(ti.max(ti.min(a, 1.3), 1e-9)))
        store_lanes(angles, block * LANES, atan2_lanes(b, a))


def test_functions_of_lanes_are_exact_to_rounding():
    rng = np.random.default_rng(0)
    x = np.concatenate([
        rng.uniform(MIN_LANE_EXPONENT, 0.0, 40_000), -(10.0 ** rng.uniform(-8, 1, 20_000)), -np.arange(0.5, 31.5, 0.5),
        np.zeros(10), 10.0 ** rng.uniform(-8, 3, 20_000), rng.uniform(0.5, 1.3, 20_000),
    ]).astype(np.float32)  # fmt: skip
    x = x[: len(x) // LANES * LANES]
    y = (np.abs(x) * 10.0 ** rng.uniform(-6, 6, len(x)) * (rng.uniform(size=len(x)) > 0.05)).astype(np.float32)
    exponentials, logarithms, angles = np.zeros_like(x), np.zeros_like(x), np.zeros_like(x)
    with_vector_code(lane_functions)(x, y, exponentials, logarithms, angles)
    expected_logarithms = np.log(np.clip(x, np.float32(1e-9), np.float32(1.3)).astype(np.float64))
    np.testing.assert_allclose(logarithms, expected_logarithms, rtol=3e-7)
    np.testing.assert_allclose(exponentials, np.exp(np.minimum(x, 0).astype(np.float64)), rtol=5e-7)
    np.testing.assert_allclose(angles, np.arctan2(y.astype(np.float64), x.astype(np.float64)), rtol=0, atol=5e-7)


@ti.kernel
def highlight_derivatives(
    vectors: ti.types.ndarray(), lanes_at_once: ti.template(), values: ti.types.ndarray(), adjoints: ti.types.ndarray(),
    tangents: ti.types.ndarray(),
):  # fmt: skip
    """Highlights of LANES rows (normal, view, light, power), their adjoints and their tangents along (1, 2, 3) in the normal."""
    for _ in range(1):
        if ti.static(lanes_at_once):
            columns = [ti.Vector([vectors[lane, k] for lane in range(LANES)]) for k in range(10)]
            normal, view = LaneVector(columns[0], columns[1], columns[2]), LaneVector(columns[3], columns[4], columns[5])
            at = highlight.linearize(normal, view, LaneVector(columns[6], columns[7], columns[8]), LaneNumber(columns[9]))
            one = constant_lanes(1.0)
            normal_bar, _view_bar, light_bar, power_bar = at.vjp(one)
            tangent = at.jvp((LaneVector(one, one * 2.0, one * 3.0), LaneVector(one, one, one) * 0.0, (0.0, 0.0, 0.0), 0.0))
            value = at.value
            for lane in ti.static(range(LANES)):
                values[lane], tangents[lane], adjoints[lane, 6] = value[lane], tangent[lane], power_bar[lane]
                for k in ti.static(range(3)):
                    adjoints[lane, k], adjoints[lane, 3 + k] = normal_bar[k][lane], light_bar[k][lane]
        else:
            for row in range(LANES):
                normal = ti.math.vec3(vectors[row, 0], vectors[row, 1], vectors[row, 2])
                view = ti.math.vec3(vectors[row, 3], vectors[row, 4], vectors[row, 5])
                light = ti.math.vec3(vectors[row, 6], vectors[row, 7], vectors[row, 8])
                at = highlight.linearize(normal, view, light, vectors[row, 9])
                normal_bar, _view_bar, light_bar, power_bar = at.vjp(1.0)
                values[row], adjoints[row, 6] = at.value, power_bar
                tangents[row] = at.jvp((ti.math.vec3(1.0, 2.0, 3.0), ti.math.vec3(0.0), ti.math.vec3(0.0), 0.0))
                for k in ti.static(range(3)):
                    adjoints[row, k], adjoints[row, 3 + k] = normal_bar[k], light_bar[k]


def test_differentiable_functions_are_the_same_in_lanes():
    """Value, adjoints and tangent of a function with a product, a dot product, a power, a smooth step and selections."""
    rng = np.random.default_rng(4)
    vectors = rng.normal(size=(LANES, 10)) + np.array([0, 0, 2.5, 0, 0, 2.5, 0, 0, 2.5, 0])
    vectors[:, :9] /= np.repeat(np.linalg.norm(vectors[:, :9].reshape(LANES, 3, 3), axis=2), 3, axis=1)
    vectors[:, 9], vectors[0, 6:9] = rng.uniform(2.0, 20.0, LANES), -vectors[0, 6:9]  # one light is behind its surface
    vectors = vectors.astype(np.float32)
    results = []
    for lanes_at_once in (True, False):
        arrays = [np.zeros(shape, dtype=np.float32) for shape in (LANES, (LANES, 7), LANES)]
        compiled = with_vector_code(highlight_derivatives) if lanes_at_once else highlight_derivatives
        compiled(vectors, lanes_at_once, *arrays)
        results.append(arrays)
    assert results[1][0][0] == 0 and (results[1][0][1:] > 0).sum() >= 4 and np.abs(results[1][1]).max() > 0.1
    for found, expected in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)


def pictures_and_adjoints(monkeypatch, inputs, settings, *, lanes):
    """Pictures and the adjoints of the inputs, and whether lanes drew the pictures."""
    drawn = []
    with monkeypatch.context() as patch:
        if not lanes:
            patch.setattr(RENDER, "has_lanes", lambda *_: False)
        kernel = RENDER.rasterise_lanes
        patch.setattr(RENDER, "rasterise_lanes", lambda *arguments: drawn.append(kernel(*arguments)))
        result = render(inputs, settings)
    weights = np.random.default_rng(1).normal(size=result.images.shape).astype(np.float32)
    return result.images, render_scenes.reals(render_adjoint(result, weights)), bool(drawn)


@pytest.mark.parametrize("shading", ["none", "lambert"])
@pytest.mark.parametrize("softness", [(None, None), (1e-3, 1e-2), (1e-4, 1e-4)])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("one_face", {}), ("edge_on", {}), ("intersecting", {"two_sided": True}), ("partly_outside", {}),
        ("many_overlapping", {}), ("textured", {}), ("behind_camera", {"antialias": 2}),
        ("many_overlapping", {"width": 41, "height": 19, "tile": 9}),
    ],
)  # fmt: skip
def test_lanes_draw_the_pictures_of_single_pixels(monkeypatch, name, options, softness, shading):
    changes = {} if softness[0] is None else {"sigma": softness[0], "gamma": softness[1]}
    inputs, settings = render_scenes.scene(name, **changes)
    inputs = render_scenes.convert(inputs, lambda array: array.astype(np.float32))
    settings = replace(settings, aggregation="softras", shading=shading, **options)
    # At a high inverse temperature, rounding of depths is multiplied by it.
    image_tolerance, adjoint_tolerance = (3e-5, 2e-3) if softness[1] == 1e-4 else (3e-6, 1e-4)
    check_lanes(monkeypatch, inputs, settings, image_tolerance, adjoint_tolerance)


@pytest.mark.parametrize(
    "name",
    [
        "specular", "shadowed", "shadowed_phong", "several_lights", "only_environment", "distorted_camera", "antialiased",
        "depth", "normal_map", "two_sided", "softmax_composite", "dibr_textured_phong",
    ],
)  # fmt: skip
def test_lanes_draw_every_kind_of_light_and_surface(monkeypatch, name):
    inputs, settings = render_scenes.scene(name)
    inputs = render_scenes.convert(inputs, lambda array: array.astype(np.float32))
    check_lanes(monkeypatch, inputs, replace(settings, aggregation="softras"), 1e-5, 1e-4)


def check_lanes(monkeypatch, inputs, settings, image_tolerance, adjoint_tolerance):
    """Compare pictures and adjoints of lanes with those of single pixels; the latter's tolerance is relative to the largest."""
    images, adjoints, in_lanes = pictures_and_adjoints(monkeypatch, inputs, settings, lanes=True)
    expected, expected_adjoints, in_expected_lanes = pictures_and_adjoints(monkeypatch, inputs, settings, lanes=False)
    assert in_lanes and not in_expected_lanes
    np.testing.assert_allclose(images, expected, rtol=0, atol=image_tolerance)
    for key, adjoint in adjoints.items():
        scale = np.abs(expected_adjoints[key]).max()
        np.testing.assert_allclose(adjoint, expected_adjoints[key], rtol=0, atol=adjoint_tolerance * scale, err_msg=key)


@pytest.mark.parametrize("name", ["specular", "shadowed", "textured", "several_lights", "two_sided", "intersecting", "edge_on"])
def test_adjoints_of_lanes_are_those_of_central_differences(name):
    """Differences of fourth order of the pictures that lanes draw, along one random direction of each input."""
    inputs, settings = render_scenes.scene(name)
    settings = replace(settings, aggregation="softras")
    inputs = render_scenes.convert(inputs, lambda array: array.astype(np.float32))
    result = render(inputs, settings)
    assert result.layer.in_lanes
    weights = np.random.default_rng(1).normal(size=result.images.shape)
    adjoints = render_scenes.reals(render_adjoint(result, weights.astype(np.float32)))
    for key, value in render_scenes.reals(replace(inputs, ground=None)).items():  # lanes do not draw the ground
        direction = np.random.default_rng(2).normal(size=value.shape)
        direction *= np.maximum(np.abs(value), 0.1) if key == "camera" else np.abs(value) if key == "softness" else 1.0
        step = 1e-2 if key == "softness" else 1e-3 / np.linalg.norm(direction)

        def total(factor, key=key, value=value, direction=direction, step=step):
            moved = (value + factor * step * direction).astype(np.float32)
            return float((render(replace(inputs, **{key: moved}), settings).images.astype(np.float64) * weights).sum())

        difference = (8 * (total(1) - total(-1)) - (total(2) - total(-2))) / (12 * step)
        terms = adjoints[key].astype(np.float64) * direction
        scale = max(abs(terms.sum()), 0.3 * np.linalg.norm(terms))
        assert abs(difference - terms.sum()) < 0.02 * scale, (key, difference, terms.sum(), scale)


@pytest.mark.parametrize(
    "name",
    [
        "edge_on", "behind_camera", "textured", "specular", "several_lights", "only_environment", "shadowed_phong", "two_sided",
        "distorted_camera", "softmax_composite", "antialiased", "depth", "normal_map",
    ],
)  # fmt: skip
def test_tangents_of_lanes_are_transposes_of_their_adjoints(name):
    inputs, settings = render_scenes.scene(name)
    inputs = render_scenes.convert(inputs, lambda array: array.astype(np.float32))
    result = render(inputs, replace(settings, aggregation="softras"))
    assert result.layer.in_lanes
    weights = np.random.default_rng(1).normal(size=result.images.shape)
    adjoints = render_scenes.reals(render_adjoint(result, weights.astype(np.float32)))
    directions = {key: direction.astype(np.float32) for key, direction in render_scenes.random_tangents(inputs).items()}
    expected = {key: (adjoints[key].astype(np.float64) * direction).reshape(2, -1) for key, direction in directions.items()}
    expected["all"] = np.concatenate(list(expected.values()), axis=1)
    for key, terms in expected.items():
        pushed = render_jvp(result, directions if key == "all" else {key: directions[key]}).astype(np.float64)
        found, scale = (weights[:, None] * pushed).sum(axis=(0, 2, 3, 4)), np.linalg.norm(terms, axis=1)
        assert (np.abs(found - terms.sum(axis=1)) <= 1e-3 * scale).all(), (key, found, terms.sum(axis=1), scale)


@pytest.mark.parametrize(("side", "cells"), [(50, 10), (61, 20), (97, 12), (100, 30)])
def test_no_pixel_on_a_common_edge_lies_in_neither_face(side, cells):
    """A sheet whose lattice passes through pixel centres, seen from above: rounding differs from column to column."""
    lattice = np.unique(np.arange(-2, cells + 3) * (side / cells) // 1 + 0.5 - 0.5 * side) / side
    count = len(lattice)
    x, y = (values.ravel() for values in np.meshgrid(lattice, lattice, indexing="ij"))
    corner = (np.arange(count - 1)[:, None] * count + np.arange(count - 1)).ravel()[:, None]
    faces = np.concatenate([corner + [0, count, count + 1], corner + [0, count + 1, 1]]).astype(np.int32)
    camera = pack_camera((side, side, side / 2, side / 2), *look_at((0.0, 0.0, 1.0), (0.0, 0.0, 0.0), up=(0.0, 1.0, 0.0)))
    settings = render_scenes.settings_of(side, side, sigma=1e-4, gamma=1e-3, shading="none")
    mesh = np.stack([x, y, 0 * x], axis=1), faces, np.zeros(len(x), dtype=np.int32)
    inputs = render_scenes.inputs_of(
        np.random.default_rng(0), mesh, np.array([[[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]]]), settings, cameras=camera[None]
    )
    result = render(render_scenes.convert(inputs, lambda array: array.astype(np.float32)), settings)
    assert result.layer.in_lanes
    np.testing.assert_allclose(result.images[0, ..., 3], 1.0, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["toss", "hand", "cloth"])
def test_lanes_draw_the_films_of_scenes(monkeypatch, name):
    scene = importlib.import_module(f"scenes.{name}").make_scene()
    with torch.no_grad():
        states = scene.rollout(frames=4)
        film = scene.render(states)
        monkeypatch.setattr(RENDER, "has_lanes", lambda *_: False)
        expected = scene.render(states)
    assert (film - expected).abs().max() < 1e-5
    assert not torch.equal(film, expected)  # other rounding: lanes drew the film
