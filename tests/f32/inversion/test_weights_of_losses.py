"""Weights enter what is compared by their root, so that squares have the weight; depths beyond the camera are left out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from risp_torch import DepthLoss, MaskLoss, PixelWeights
from tests.reference.small_scenes import make_scene

SIZE, FRAMES = 16, 2


@pytest.fixture
def weights() -> torch.Tensor:
    return torch.as_tensor(np.random.default_rng(0).uniform(0.1, 1.0, (FRAMES + 1, SIZE, SIZE)))


def test_masks_have_the_root_of_their_weights(weights: torch.Tensor) -> None:
    masks = np.zeros((FRAMES + 1, SIZE, SIZE))
    masks[:, 4:10, 4:10] = 1.0
    scene, frames = make_scene(size=SIZE, frames=FRAMES), range(FRAMES + 1)
    loss = MaskLoss(masks, weights=PixelWeights(weights))
    loss.check(scene)
    compared = loss.of_target(scene, None, frames)[..., 0]
    np.testing.assert_allclose((compared**2).numpy(), weights.numpy() * masks, rtol=1e-5, atol=1e-7)
    whole = MaskLoss(masks).count(frames, ())
    assert MaskLoss(masks, weights=PixelWeights(0.25 + 0 * weights)).count(frames, ()) == pytest.approx(0.25 * whole)


def test_depths_have_the_root_of_their_weights_and_end_at_the_cameras_far(weights: torch.Tensor) -> None:
    scene, frames = make_scene(size=SIZE, frames=FRAMES), range(FRAMES + 1)
    far = scene.camera.far
    depths = np.full((FRAMES + 1, SIZE, SIZE), 0.5 * far)
    depths[:, :4], depths[:, 4:6], depths[:, 6] = 1.5 * far, np.nan, 0.0
    counts = (np.arange(SIZE) > 6)[:, None] * weights.numpy()
    loss = DepthLoss(depths, weights=PixelWeights(weights))
    loss.check(scene)
    assert loss.count(frames, ()) == pytest.approx(counts.sum(), rel=1e-5)
    compared = loss.of_target(scene, None, frames)
    np.testing.assert_allclose((compared**2).numpy(), counts * (0.5 * far) ** 2, rtol=1e-5)
