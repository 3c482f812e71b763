"""Every derivative of the picture, reverse and forward, against central differences and against each other, in f64.

The scenes are small and generic (see ``render_scenes``): no pixel lies within a difference's step of a kink. body_q is seven free
numbers: the rotation is the polynomial I + 2 w [v] + 2 [v][v] of the quaternion, and nothing is normalised.
"""

from dataclasses import replace

import numpy as np
import pytest

from tests.reference import render_scenes
from tests.reference.adjoints import adjoint_report
from tests.reference.dot_product import dot_product_test
from tests.reference.gradients_in_worlds import gradcheck_in_worlds
from ti_render import render, render_adjoint, render_jvp
from ti_sim import GradientError

STEP = 5e-7
STEPS = {"softness": 1e-7, "material": 5e-6}  # sigma and gamma are small numbers; no kink moves with materials


def weights_of(inputs, settings):
    """Fixed random weights [M, H, W, 4] of a loss that sees every pixel and channel."""
    return np.random.default_rng(7).normal(size=(len(inputs.body_q), settings.height, settings.width, 4))


def losses_of(weights, inputs, settings, moved):
    """The weighted sum of the pictures at each of the points of ``render_scenes.side_by_side``, [K]."""
    images = render(render_scenes.side_by_side(inputs, moved), settings).images
    return images.reshape(-1, weights.size) @ weights.ravel()


def seen(name, inputs):
    """The real inputs on which the picture of a scene depends."""
    return [key for key in render_scenes.reals(inputs) if key not in render_scenes.UNSEEN.get(name, ())]


@pytest.mark.parametrize("name", render_scenes.NAMES)
def test_reverse_agrees_with_central_differences(name):
    inputs, settings = render_scenes.scene(name)
    weights = weights_of(inputs, settings)
    adjoint = render_adjoint(render(inputs, settings), weights)
    for key in seen(name, inputs):

        def losses(points, key=key):
            return losses_of(weights, inputs, settings, {key: points})

        report = adjoint_report(
            losses, key, getattr(inputs, key), getattr(adjoint, key), entries=5, directions=1, step=STEPS.get(key, STEP)
        )
        assert report.ok, report.table()


@pytest.mark.parametrize("name", render_scenes.NAMES)
def test_forward_agrees_with_central_differences(name):
    inputs, settings = render_scenes.scene(name)
    weights, keys = weights_of(inputs, settings), seen(name, inputs)
    rng = np.random.default_rng(8)
    tangents = {}
    for k, key in enumerate(keys):  # column k moves input k alone
        x = getattr(inputs, key)
        tangents[key] = np.zeros((len(keys), *x.shape))
        tangents[key][k] = rng.standard_normal(x.shape)
    pushed = render_jvp(render(inputs, settings), tangents)
    assert pushed.shape == (len(inputs.body_q), len(keys), settings.height, settings.width, 4)
    slopes = np.einsum("mijc,mkijc->k", weights, pushed)

    def losses(points):
        moved = {key: [getattr(inputs, key) + at[key] * tangents[key][k] for at in points] for k, key in enumerate(keys)}
        return losses_of(weights, inputs, settings, moved)

    report = gradcheck_in_worlds(
        losses, lambda _: dict(zip(keys, slopes, strict=True)), {key: np.zeros(()) for key in keys}, rtol=1e-5,
        step={key: STEPS.get(key, STEP) for key in keys},
    )  # fmt: skip
    assert report.ok and report.observable == len(keys), report.table()


@pytest.mark.parametrize("name", render_scenes.NAMES)
def test_reverse_is_the_transpose_of_forward(name):
    inputs, settings = render_scenes.scene(name)
    shape = (len(inputs.body_q), settings.height, settings.width, 4)
    keys = seen(name, inputs)

    def jvp(point, tangents):
        pushed = render_jvp(render(replace(inputs, **point), settings), {key: v[None] for key, v in tangents.items()})
        return pushed[:, 0]

    def vjp(point, images_bar):
        return render_scenes.reals(render_adjoint(render(replace(inputs, **point), settings), images_bar))

    for some in [[key] for key in keys] + [keys]:
        report = dot_product_test(jvp, vjp, {key: getattr(inputs, key) for key in some}, shape, seed=9, rtol=1e-8)
        assert report.ok, f"{', '.join(some)}: {report}"


@pytest.mark.parametrize("name", sorted(render_scenes.UNSEEN))
def test_what_a_picture_does_not_show_has_no_derivative(name):
    inputs, settings = render_scenes.scene(name)
    result = render(inputs, settings)
    adjoint = render_adjoint(result, weights_of(inputs, settings))
    for key in render_scenes.UNSEEN[name]:
        x = getattr(inputs, key)
        np.testing.assert_array_equal(getattr(adjoint, key), np.zeros(x.shape), err_msg=key)
        assert not render_jvp(result, {key: np.ones((1, *x.shape))}).any(), key


def test_every_input_is_checked_in_some_scene():
    checked = set()
    for name in render_scenes.NAMES:
        inputs, _ = render_scenes.scene(name)
        checked |= set(seen(name, inputs))
    assert checked == {
        "vertices_rest", "body_q", "camera", "albedo", "ambient", "background", "directional", "point", "environment",
        "material", "uv", "texels", "background_image", "ground", "distortion", "softness",
    }  # fmt: skip


@pytest.mark.parametrize("key", ["vertices_rest", "camera", "albedo", "directional"])
def test_an_error_of_one_entry_is_seen(key):
    inputs, settings = render_scenes.scene("one_face")
    weights = weights_of(inputs, settings)
    right = getattr(render_adjoint(render(inputs, settings), weights), key)

    def losses(points):
        return losses_of(weights, inputs, settings, {key: points})

    def report(adjoint, **options):
        return adjoint_report(losses, key, getattr(inputs, key), adjoint, **options)

    planted = right.copy()
    largest = tuple(int(i) for i in np.unravel_index(np.abs(right).argmax(), right.shape))
    planted[largest] *= 1 + 1e-4
    assert report(right, entries=3, directions=1).ok
    statuses = {entry.name: entry.status for entry in report(planted, entries=3, directions=1).entries}
    assert statuses[f"{key}{list(largest)}"] == statuses[f"{key} along direction 0"] == "WRONG"
    with pytest.raises(GradientError, match="WRONG"):
        report(planted, entries=3).raise_if_wrong()

    def jvp(point, tangents):
        return render_jvp(render(replace(inputs, **point), settings), {key: tangents[key][None]})[:, 0]

    found = dot_product_test(
        jvp, lambda point, bar: {key: planted}, {key: getattr(inputs, key)}, weights.shape, rtol=1e-8
    )
    assert not found.ok


def test_columns_that_move_nothing_agree_with_central_differences():
    """The tangents of an evenly lit ground are computed once for a row of pixels, and none where a column leaves it as it is."""
    inputs, settings = render_scenes.scene("many_overlapping")
    weights, rng = weights_of(inputs, settings), np.random.default_rng(11)
    keys = ("albedo", "ambient", "background", "directional", "ground")
    tangents = {key: np.zeros((len(keys), *getattr(inputs, key).shape)) for key in keys}
    for k, key in enumerate(keys):
        tangents[key][k] = rng.standard_normal(getattr(inputs, key).shape)
    tangents["ground"][..., 3:] = 0.0  # its colour only
    pushed = np.einsum("mijc,mkijc->k", weights, render_jvp(render(inputs, settings), tangents))
    for k, key in enumerate(keys):
        ends = [getattr(inputs, key) + sign * STEP * tangents[key][k] for sign in (1, -1)]
        above, below = losses_of(weights, inputs, settings, {key: ends})
        assert pushed[k] == pytest.approx((above - below) / (2 * STEP), rel=1e-5), key
