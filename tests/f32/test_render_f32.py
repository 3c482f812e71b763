"""The renderer in f32 against the f64 numpy reference, and against itself."""

import numpy as np
import pytest

from tests.reference import numpy_renderer, render_scenes
from ti_render import render, render_adjoint

REALS = ("vertices_rest", "body_q", "camera", "albedo", "ambient", "light", "background", "ground")


def in_f32(inputs):
    return render_scenes.convert(inputs, lambda array: array.astype(np.float32) if array.dtype == np.float64 else array)


@pytest.mark.parametrize("composite", ["alpha", "softmax"])
@pytest.mark.parametrize("name", render_scenes.NAMES)
@pytest.mark.parametrize(("sigma", "gamma"), [(4e-3, 5e-3), (1e-4, 1e-3), (1e-4, 1e-4)])
def test_image_agrees_with_the_f64_reference(name, composite, sigma, gamma):
    inputs, settings = render_scenes.scene(name, composite=composite, sigma=sigma, gamma=gamma)
    inputs = in_f32(inputs)
    result = render(inputs, settings)
    assert result.images.dtype == np.float32
    error = np.abs(result.images - numpy_renderer.render(inputs, settings))
    if composite == "alpha":
        assert error.max() < 1e-4
    else:
        # Strict softmax jumps at the cut-off of an edge: a pixel on the jump sees the rounding of its distance.
        assert error.max() < 1e-3 and (error > 1e-4).mean() < 1e-3


@pytest.mark.parametrize("composite", ["alpha", "softmax"])
@pytest.mark.parametrize("name", render_scenes.NAMES)
@pytest.mark.parametrize(("sigma", "gamma"), [(4e-3, 5e-3), (1e-4, 1e-4), (1e-6, 1e-6)])
def test_gradient_is_finite(name, composite, sigma, gamma):
    inputs, settings = render_scenes.scene(name, composite=composite, sigma=sigma, gamma=gamma)
    result = render(in_f32(inputs), settings)
    assert np.isfinite(result.images).all()
    adjoint = render_adjoint(result, np.random.default_rng(0).normal(size=result.images.shape).astype(np.float32))
    for input_name in REALS:
        if input_name != "ground" or settings.ground:
            found = getattr(adjoint, input_name)
            assert found.dtype == np.float32
            assert np.isfinite(found).all(), input_name
