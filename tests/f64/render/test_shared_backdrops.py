"""Images with the same backdrop, which is drawn once, equal those that are rendered alone to the last bit; in f64."""

from dataclasses import replace

import numpy as np
import pytest

from tests.reference import render_scenes
from ti_render import render
from ti_render.backdrop.sharing import source_images

SCENES = (
    "batch", "batch_shadowed", "checker_ground", "textured_ground", "distorted_camera", "background_image", "antialiased", "dibr",
)  # fmt: skip


def rows_of_image(inputs, image):
    """The inputs of one image."""
    images = len(inputs.body_q)
    arrays = {name: x for name, x in render_scenes.reals(inputs).items() if name != "vertices_rest" or x.ndim == 3}
    rows = {name: image * len(x) // images for name, x in arrays.items()}
    return replace(inputs, **{name: x[rows[name] : rows[name] + 1] for name, x in arrays.items()})


def pair_of(first, changed):
    """Inputs of two images: the first, and the same with other rows ``changed``."""
    arrays = {name: np.concatenate([getattr(first, name), x]) for name, x in changed.items()}
    return replace(first, **{"body_q": np.concatenate([first.body_q] * 2), **arrays})


@pytest.mark.parametrize("name", SCENES)
def test_each_input_alone_makes_another_backdrop(name):
    inputs, settings = render_scenes.scene(name)
    first = rows_of_image(inputs, 0)
    rng = np.random.default_rng(5)
    for field, x in render_scenes.reals(first).items():
        if field == "vertices_rest":
            continue
        second = {field: x * (1 + 1e-3 * rng.uniform(size=x.shape))}
        both = render(pair_of(first, second), settings)
        for image, alone in enumerate((first, replace(first, **second))):
            np.testing.assert_array_equal(both.images[image], render(alone, settings).images[0], err_msg=f"{field} {image}")
        shared = len(np.unique(source_images(both.backdrop, both.inputs))) == 1
        assert shared == (field in ("body_q", "albedo", "uv") and settings.shadows is None), field


def test_moving_bodies_share_a_backdrop():
    inputs, settings = render_scenes.scene("batch")
    first = rows_of_image(inputs, 0)
    poses = np.repeat(first.body_q, 5, axis=0)
    poses[:, :, 0] += np.linspace(0, 0.02, 5)[:, None]
    result = render(replace(first, body_q=poses), settings)
    np.testing.assert_array_equal(source_images(result.backdrop, result.inputs), 0)
    for image in range(5):
        alone = render(replace(first, body_q=poses[image : image + 1]), settings)
        np.testing.assert_array_equal(result.images[image], alone.images[0])
