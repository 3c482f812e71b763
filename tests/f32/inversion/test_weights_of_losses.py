"""Weights enter what is compared by their root, so that squares have the weight; depths beyond the camera are left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from risp_torch import DepthLoss, ImageTracksLoss, MaskLoss, PixelWeights, render_masks
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
    np.testing.assert_allclose((compared**2).cpu().numpy(), weights.numpy() * masks, rtol=1e-5, atol=1e-7)
    whole = MaskLoss(masks).count(frames, ())
    assert MaskLoss(masks, weights=PixelWeights(0.25 + 0 * weights)).count(frames, ()) == pytest.approx(0.25 * whole)


def test_simulated_masks_have_the_same_weights(weights: torch.Tensor) -> None:
    """Those of the motion that was simulated fit without a residual, whatever the weights."""
    scene = make_scene(size=SIZE, frames=FRAMES)
    with torch.no_grad():
        states = scene.rollout()
        masks = render_masks(scene, states, union=True)[0, ..., 0]
        loss = MaskLoss(masks, weights=PixelWeights(weights))
        loss.check(scene)
        observed = loss.observe(scene, states, {}, None)[0]
    torch.testing.assert_close(observed, loss.of_target(scene, None, range(FRAMES + 1)), rtol=1e-5, atol=1e-6)
    assert float(observed.max()) > 0.3


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
    np.testing.assert_allclose((compared**2).cpu().numpy(), counts * (0.5 * far) ** 2, rtol=1e-5)


def test_differences_of_depths_end_at_their_limit() -> None:
    """A difference d counts as L tanh(d / L): itself where it is small, and the limit L across a silhouette."""
    scene, limit = make_scene(size=SIZE, frames=FRAMES), 0.04
    with torch.no_grad():
        states = scene.rollout()
        seen = scene.render(states, quantity="depth")[0, ..., 0].cpu().numpy()
    away = np.linspace(-0.2, 0.2, seen.size).reshape(seen.shape)
    loss, near = DepthLoss(seen - away, limit=limit), (seen > away) & (seen - away < scene.camera.far)
    loss.check(scene)
    with torch.no_grad():
        observed = loss.observe(scene, states, {}, None)[0] - loss.of_target(scene, None, range(FRAMES + 1))
    assert near.mean() > 0.3
    np.testing.assert_allclose(observed.cpu().numpy()[near], limit * np.tanh(away[near] / limit), atol=2e-6)


def test_tracks_are_compared_in_their_own_standard_deviations(tmp_path: Path) -> None:
    lines = ["frame,point,u,v,sd,x,y,z", "0,a,4.0,5.0,0.5,0,0,0", "0,b,6.0,7.0,2.0,0.01,0,0", "1,a,4.5,5.5,0.25,0,0,0"]
    (tmp_path / "tracks.csv").write_text("\n".join(lines) + "\n")
    loss, scene = ImageTracksLoss(tmp_path / "tracks.csv"), make_scene(size=SIZE, frames=FRAMES)
    loss.check(scene)
    target = loss.of_target(scene, None, (0, 1)).cpu().numpy()
    np.testing.assert_allclose(target, [[[8, 10], [3, 3.5]], [[18, 22], [0, 0]]])
    assert loss.count((0, 1), ()) == 6 and loss.noise == 1.0
