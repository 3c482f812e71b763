"""Neighbouring pixels in the processor's vector lanes: functions of lanes, and pictures that equal those of single pixels."""

import importlib
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.reference import render_scenes
from ti_render import render, render_adjoint
from ti_sim.base.lanes import LANES, MIN_LANE_EXPONENT, atan2_lanes, exp_lanes, load_lanes, log_lanes, store_lanes
from ti_sim.base.runtime import ti, with_vector_code

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
