"""The renderer in f32 against the f64 numpy reference, and its derivatives against each other."""

import numpy as np
import pytest

from tests.reference import numpy_renderer, render_scenes
from ti_render import render, render_adjoint, render_jvp
from ti_sim.base.runtime import require

# Several threads render these scenes, with separately compiled kernels: shadows, textures, and depth pictures.
THREADED = ("shadowed_phong", "textured_ground_clamped", "depth")
NAMES = [pytest.param(name, marks=pytest.mark.threads) if name in THREADED else name for name in render_scenes.NAMES]
SOFTNESS = [(None, None), (1e-4, 1e-3), (1e-4, 1e-4)]


def scene_in_f32(name, sigma=None, gamma=None):
    """A scene with f32 arrays, by default with its own softness."""
    changes = {} if sigma is None else {"sigma": sigma, "gamma": gamma}
    inputs, settings = render_scenes.scene(name, **changes)
    return render_scenes.convert(inputs, lambda array: array.astype(np.float32)), settings


def skip_tangents_of_lights(settings):
    """Skip the rest of a test on Vulkan, whose software driver crashes as it compiles the tangents of blended, lit faces."""
    is_lit = settings.aggregation != "dibr" and settings.shaded_quantity in ("lambert", "phong")
    if require().device == "vulkan" and is_lit:
        pytest.skip("Mesa's software driver crashes as it compiles the tangents of blended, lit faces")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("sigma", "gamma"), SOFTNESS)
def test_image_agrees_with_the_f64_reference(name, sigma, gamma):
    inputs, settings = scene_in_f32(name, sigma, gamma)
    result = render(inputs, settings)
    assert result.images.dtype == np.float32
    expected = numpy_renderer.render(inputs, settings)
    error = np.abs(result.images - expected)
    if settings.aggregation == "dibr" or settings.composite == "softmax":
        # These jump at an edge: a pixel on the jump sees the rounding of its distance.
        assert error.max() < 1e-3 and (error > 1e-4).mean() < 1e-3
    else:
        assert error.max() < 1e-4 * max(1.0, expected.max())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("sigma", "gamma"), [(None, None), (1e-4, 1e-4), (1e-6, 1e-6)])
def test_derivatives_are_finite(name, sigma, gamma):
    inputs, settings = scene_in_f32(name, sigma, gamma)
    rng = np.random.default_rng(0)
    result = render(inputs, settings)
    assert np.isfinite(result.images).all()
    adjoint = render_adjoint(result, rng.normal(size=result.images.shape).astype(np.float32))
    for key, found in render_scenes.reals(adjoint).items():
        assert found.dtype == np.float32
        assert np.isfinite(found).all(), key
    skip_tangents_of_lights(settings)
    tangents = {key: rng.normal(size=(2, *x.shape)).astype(np.float32) for key, x in render_scenes.reals(inputs).items()}
    pushed = render_jvp(result, tangents)
    assert pushed.dtype == np.float32 and np.isfinite(pushed).all()


@pytest.mark.parametrize("name", NAMES)
def test_reverse_is_the_transpose_of_forward(name):
    inputs, settings = scene_in_f32(name)
    skip_tangents_of_lights(settings)
    rng = np.random.default_rng(1)
    result = render(inputs, settings)
    weights = rng.normal(size=result.images.shape).astype(np.float32)
    adjoint = render_adjoint(result, weights)
    tangents = {key: rng.normal(size=(1, *x.shape)).astype(np.float32) for key, x in render_scenes.reals(inputs).items()}
    pushed = render_jvp(result, tangents)[:, 0]
    parts = [np.sum(np.float64(getattr(adjoint, key)) * tangent[0]) for key, tangent in tangents.items()]
    forward = np.sum(np.float64(weights) * pushed)
    assert forward == pytest.approx(sum(parts), abs=2e-4 * np.abs(parts).max())
