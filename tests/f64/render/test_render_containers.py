"""Derivatives by rows, containers, columns, tiles and the Tape: each agrees with that of the whole batch in numpy; in f64."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.reference import render_scenes
from tests.reference.devices import taichi_gradients
from tests.reference.render_scenes import random_tangents
from tests.reference.taichi_arrays import as_numpy, taichi_array, taichi_zeros, weighted_sum
from ti_render import render, render_adjoint, render_jvp, render_tape
from ti_sim.base.errors import UserError
from ti_sim.base.runtime import ti


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


@taichi_gradients
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


@taichi_gradients
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
    with pytest.raises(UserError, match="render cannot be recorded on a tape: use render_tape"), ti.ad.Tape(loss):
        render(arrays, settings)
