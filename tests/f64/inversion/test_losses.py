"""Losses of masks, image tracks and depths, and mixes: their values, and derivatives against central differences."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from risp_torch import (
    DepthLoss,
    ImageTracksLoss,
    Loss,
    MaskLoss,
    MixedLoss,
    MixedPart,
    PixelLoss,
    PixelWeights,
    Scene,
    check_torch,
    film,
    render_masks,
)
from risp_torch.inversion import Comparison, Unknowns, linearise
from risp_torch.inversion.losses.masks import edge_lengths
from risp_torch.inversion.uncertainty.covariance import CovarianceEstimate
from risp_torch.scene.projection import project_points
from risp_torch.scene.rotations import rotation_matrix
from tests.reference import small_scenes
from tests.reference.full_scene import make_full_scene
from ti_render.camera_files import CameraRecord

UNKNOWN = ["block.density", "ground.contact.friction", "block.velocity", "camera.turn"]
POINTS = {"corner": (0.025, 0.02, 0.015), "side": (-0.025, 0.0, 0.0), "top": (0.0, 0.0, 0.015)}
KINDS = ("mask", "image-tracks", "depth", "mixed")


def make_scene() -> Scene:
    return small_scenes.make_scene(size=12, frames=2)


def tracks_of(scene: Scene, folder: Path, *, shift: float = 0.0) -> Path:
    """A table of the points' places in the scene's own motion; one of them is not seen in frame 1."""
    with torch.no_grad():
        poses = scene.rollout().body_q[:, :, 0]
        local = torch.tensor(list(POINTS.values()), dtype=poses.dtype)
        places = poses[:, :, None, :3] + (rotation_matrix(poses[:, :, None, 3:]) @ local[..., None])[..., 0]
        pixels = (project_points(scene, scene.table.values(None, worlds=1), places)[0][0] + shift).tolist()
    lines = ["frame,point,u,v,seen,x,y,z"]
    for frame, row in enumerate(pixels):
        for (name, (x, y, z)), (u, v) in zip(POINTS.items(), row, strict=True):
            seen = int(frame != 1 or name != "side")
            lines.append(f"{frame},{name},{u!r},{v!r},{seen},{x},{y},{z}")
    path = folder / "tracks.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def make(kind: str, scene: Scene, folder: Path) -> Loss:
    """A loss whose target is the scene's own motion with the camera turned a little."""
    weights = PixelWeights(torch.rand(12, 12, generator=torch.Generator().manual_seed(0)))
    turned = {"camera.turn": torch.tensor([[0.02, -0.01, 0.03]], dtype=torch.float64)}
    with torch.no_grad():
        states = scene.rollout()
        masks = render_masks(scene, states, turned)[0, ..., 0]
        depths = scene.render(states, turned, quantity="depth")[0, ..., 0]
    depths[1, :4] = torch.nan
    if kind == "mask":
        return MaskLoss({"block": masks}, weights=weights)
    if kind == "depth":
        return DepthLoss(depths, weights=weights)
    if kind == "image-tracks":
        return ImageTracksLoss(tracks_of(scene, folder, shift=0.3))
    parts = [make(part, scene, folder) for part in KINDS[:3]]
    return MixedLoss(PixelLoss(weights=weights), *parts[:2], MixedPart(loss=parts[2], noise=0.01, weight=2.0))


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_of_losses(kind: str, tmp_path: Path) -> None:
    """Of the loss by density, friction, initial velocity and the camera's turn."""
    scene = make_scene()
    loss = make(kind, scene, tmp_path)
    with torch.no_grad():
        video = film(scene, {"block.density": torch.tensor([700.0], dtype=torch.float64)}, worlds=1, frames=2)[0][0]
    comparison = Comparison.of(scene, loss, video)
    bounds = {"camera.turn": ((-0.1,) * 3, (0.1,) * 3)}
    unknowns = Unknowns.of(scene, UNKNOWN, bounds=bounds)
    point = np.array([800.0, 0.3, 0.5, 0.1, -0.8, 0.0, 0.0, 0.0])

    def value(at: dict[str, torch.Tensor]) -> torch.Tensor:
        return comparison.losses(scene, unknowns.from_scaled(at["x"][None]), worlds=1)[0]

    report = check_torch(value, {"x": unknowns.scaled(point)}, rtol=2e-4, step=1e-6, order=4, allow_kinks=True, min_observable=6)
    assert report.ok, [entry for entry in report.entries if not entry.ok]


def test_projection_is_that_of_the_renderer() -> None:
    """With a distorting lens: the record's projection in plain numpy, and the middle of a small ball in the picture."""
    scene = make_full_scene(size=96)
    camera = scene.camera
    record = CameraRecord(
        name="one", width=96, height=96, intrinsics=[*camera.focal, *camera.center], rotation=camera.rotation,
        translation=-camera.rotation @ np.asarray(camera.position), distortion=camera.distortion,
    )  # fmt: skip
    with torch.no_grad():
        states = scene.rollout(frames=2)
        places = states.body_q[..., :3]
        values = scene.table.values(None, worlds=1)
        pixels, depth = project_points(scene, values, places)
        np.testing.assert_allclose(pixels[0].cpu().numpy(), record.project(places[0].cpu().numpy()), rtol=1e-9)
        ball = render_masks(scene, states, bodies=["ball"])[0, :, :, :, 0]
        centres = torch.arange(96, dtype=torch.float64) + 0.5
        sums = torch.stack([(ball.sum(-2) * centres).sum(-1), (ball.sum(-1) * centres).sum(-1)], -1)
        middle = sums / ball.sum((-1, -2))[:, None]
    np.testing.assert_allclose(middle.cpu().numpy(), pixels[0, :, 1].cpu().numpy(), atol=0.3)
    assert (depth > 0).all()


def test_edges_have_the_length_of_silhouettes() -> None:
    square = torch.zeros(1, 20, 20, 1)
    square[:, 5:15, 4:16] = 1.0
    assert float(edge_lengths(square).sum()) == pytest.approx(2 * 10 + 2 * 12, rel=0.15)
    assert float(edge_lengths(torch.ones(1, 20, 20, 1)).sum()) == 0


def test_a_mix_is_the_sum_over_noise(tmp_path: Path) -> None:
    """Its squares are those of the parts over their noise; normal equations add up; a part without a frame adds nothing there."""
    scene = make_scene()
    mask, tracks = make("mask", scene, tmp_path), make("image-tracks", scene, tmp_path)
    path = Path(tracks.path)
    path.write_text("\n".join(line for line in path.read_text().splitlines() if not line.startswith("1,")) + "\n")
    tracks = ImageTracksLoss(path)
    mixed = MixedLoss(MixedPart(loss=mask, noise=0.1), MixedPart(loss=tracks, noise=0.5, weight=3.0))
    unknowns, point = Unknowns.of(scene, ["block.velocity[0]", "block.density"]), np.array([0.45, 800.0])
    whole, one, two = (linearise(scene, Comparison.of(scene, loss, None), unknowns, point) for loss in (mixed, mask, tracks))
    assert two.comparison.frames == (0, 2) and whole.comparison.frames == (0, 1, 2) and mixed.kind == "mask+image-tracks"
    for ours, first, second in zip(whole.normal_equations, one.normal_equations, two.normal_equations, strict=True):
        np.testing.assert_allclose(ours, first / 0.1**2 + 3 * second / 0.5**2, rtol=1e-9)
    assert whole.comparison.observation_count == pytest.approx(
        one.comparison.observation_count + two.comparison.observation_count
    )
    counts = [len(np.unique(at.comparison.blocks)) for at in (whole, one, two)]
    assert counts[0] == counts[1] + counts[2]
    seen = Comparison.of(scene, mixed, None)
    early, _ = seen.observe(scene, {}, worlds=2, horizon=1)
    assert early.shape[:2] == (2, 2)
    mixed = seen.loss
    assert not mixed.doubts(0 * whole.residual.reshape(3, -1), (0, 1, 2))
    assert "the mask part leaves" in mixed.doubts(whole.residual.reshape(3, -1) + 10, (0, 1, 2))[0]


def test_a_stated_noise_is_the_least_one(tmp_path: Path) -> None:
    """Error bars of a perfect fit are those of the stated noise, and they are larger where the residual is."""
    scene = make_scene()
    unknowns, point = Unknowns.of(scene, ["block.velocity[0]"]), np.array([0.5])
    losses = (ImageTracksLoss(tracks_of(scene, tmp_path, shift=shift), noise=0.2) for shift in (0.0, 2.0))
    exact, noisy = (linearise(scene, Comparison.of(scene, loss, None), unknowns, point) for loss in losses)
    normal = exact.normal_equations[0]
    np.testing.assert_allclose(CovarianceEstimate.of(exact).iid_covariance, 0.2**2 / normal, rtol=1e-6)
    assert CovarianceEstimate.of(noisy).iid_covariance[0, 0] > 10 * CovarianceEstimate.of(exact).iid_covariance[0, 0]
