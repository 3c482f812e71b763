"""An unlit picture is its fragment weights times the corner colours; what they leave of it shows the backdrop."""

from dataclasses import replace

import numpy as np
import pytest

import ti_render.raster.fragment_weights as module
from tests.reference import render_scenes
from ti_render import RasterSettings, RenderInputs, fragment_weights, mesh_topology, render
from ti_sim.base.errors import UserError

SIZE = (17, 14)


def unlit(seed=0, images=3, **options):
    """Two bodies that cover each other, in random colours, over black."""
    rng = np.random.default_rng(seed)
    vertices, faces, bodies = render_scenes.join(render_scenes.sphere_mesh(), render_scenes.box_mesh())
    settings = RasterSettings(
        width=SIZE[0], height=SIZE[1], **({"sigma": 4e-3, "gamma": 1e-2, "near": 0.4, "far": 9.0, "shading": "none"} | options)
    )
    inputs = RenderInputs(
        mesh=mesh_topology(faces, bodies, like=vertices), vertices_rest=vertices,
        body_q=render_scenes.poses(rng, (0.2, 0.1, 0.4), (-0.2, 0.2, 0.1), images=images), camera=render_scenes.camera(*SIZE),
        albedo=rng.uniform(0.1, 1.0, (images, len(faces), 3, 3)), ambient=np.zeros((1, 3)), background=np.zeros((1, 2, 3)),
    )  # fmt: skip
    return inputs, settings


def summed(inputs, settings):
    """The picture [M, H, W, 3] that the weights make of the colours."""
    found = fragment_weights(render(inputs, settings))
    assert (np.diff(found.image) >= 0).all()
    picture = np.zeros((len(inputs.body_q), SIZE[0] * SIZE[1], 3))
    colors = np.einsum("nk,nkc->nc", found.weight, np.asarray(inputs.albedo)[found.image, found.face])
    np.add.at(picture, (found.image, found.pixel), colors)
    return picture.reshape(-1, SIZE[1], SIZE[0], 3)


@pytest.mark.parametrize("options", [{}, {"antialias": 2}, {"composite": "softmax"}, {"tile": 4}], ids=str)
def test_weights_make_the_picture(options):
    """The sum of weights times colours is the rendered picture, but for the weights that are left out."""
    inputs, settings = unlit(**options)
    pictures = render(inputs, settings).images
    assert pictures[..., :3].max() > 0.3
    np.testing.assert_allclose(summed(inputs, settings), pictures[..., :3], atol=2e-5)


def test_what_is_left_shows_the_backdrop():
    """A white background behind black bodies shows with weight 1 - (sum of all weights)."""
    inputs, settings = unlit(1)
    found = fragment_weights(render(inputs, settings))
    covered = np.zeros((len(inputs.body_q), SIZE[0] * SIZE[1]))
    np.add.at(covered, (found.image, found.pixel), found.weight.sum(axis=1))
    white = replace(inputs, albedo=np.zeros_like(inputs.albedo), background=np.ones((1, 2, 3)))
    np.testing.assert_allclose(1 - covered.reshape(-1, SIZE[1], SIZE[0]), render(white, settings).images[..., 0], atol=2e-5)


def test_counted_fragments_are_the_same(monkeypatch):
    """Fragments that are counted before, where there may be many, and those that are not: equal to the last bit."""
    inputs, settings = unlit(4, antialias=2)
    found = fragment_weights(render(inputs, settings))
    monkeypatch.setattr(module, "MAX_UNCOUNTED", 0)
    counted = fragment_weights(render(inputs, settings))
    for name in ("image", "pixel", "face", "weight"):
        np.testing.assert_array_equal(getattr(found, name), getattr(counted, name))


def test_no_face_in_the_picture():
    """Bodies behind the camera have no weights."""
    inputs, settings = unlit(2)
    away = np.array(inputs.body_q)
    away[..., :3] = render_scenes.EYE + (render_scenes.EYE - render_scenes.TARGET)
    found = fragment_weights(render(replace(inputs, body_q=away), settings))
    assert len(found.face) == len(found.weight) == 0


def test_dibr_is_refused():
    inputs, settings = unlit(3, aggregation="dibr")
    with pytest.raises(UserError, match="soft rasteriser"):
        fragment_weights(render(inputs, settings))
