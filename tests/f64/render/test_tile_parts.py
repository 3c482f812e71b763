"""The adjoint of a GPU, whose threads share tiles, is that of one thread for each tile."""

import sys
from functools import partial

import numpy as np
import pytest

from tests.reference import render_scenes
from ti_render import render, render_adjoint
from ti_render.raster import walk
from ti_render.raster.binning import bin_faces


@pytest.mark.parametrize("threads", [1, 700, 1 << 17], ids=["whole_tiles", "few_parts", "a_pixel_each"])
@pytest.mark.parametrize("name", ["batch", "partly_outside", "shadowed_phong", "distorted_camera", "textured_ground_clamped"])
def test_parts_of_tiles_change_nothing(name: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, settings = render_scenes.scene(name)
    result = render(inputs, settings)
    images_bar = np.random.default_rng(1).normal(size=result.images.shape)
    expected = render_scenes.reals(render_adjoint(result, images_bar))
    monkeypatch.setattr(sys.modules["ti_render.render"], "bin_faces", partial(bin_faces, parallel=True))
    monkeypatch.setattr(walk, "_GPU_THREADS", threads)
    divided = render(inputs, settings)
    np.testing.assert_array_equal(divided.images, result.images)
    found = render_adjoint(divided, images_bar)
    for key, adjoint in expected.items():
        np.testing.assert_allclose(getattr(found, key), adjoint, rtol=0, atol=1e-11 * np.abs(adjoint).max(), err_msg=key)
