"""The loss of luminance: what it reads, its rounding and noise, and films whose colours are compressed."""

import numpy as np
import pytest
import torch

from risp_torch import LuminanceLoss, PixelLoss, film, load_scene, read_video, write_video
from risp_torch.inversion import Comparison, Unknowns
from risp_torch.inversion.problem.linearisation import linearise, newton_step
from risp_torch.inversion.uncertainty.covariance import error_bars
from risp_torch.inversion.uncertainty.misfit import explained_residual

WEIGHTS = np.array([0.2126, 0.7152, 0.0722])


def test_luminance_is_the_weighted_sum_of_linear_colours():
    pictures = torch.rand(2, 3, 4, 5, 3)
    read = LuminanceLoss().read(pictures)
    assert read.shape == (2, 3, 4, 5, 1)
    np.testing.assert_allclose(read[..., 0].cpu().numpy(), pictures.cpu().numpy() @ WEIGHTS, rtol=1e-5)
    grey, green = torch.tensor([0.3, 0.3, 0.3]), torch.tensor([0.0, 0.3 / 0.7152, 0.0])  # alike
    assert torch.allclose(LuminanceLoss().read(grey), LuminanceLoss().read(green))


def test_rounding_of_colours_leaves_as_much_of_luminance_as_its_floor_says():
    colours = np.random.default_rng(0).uniform(0, 1, (200_000, 3))
    rounded = np.round(255 * colours) / 255  # even steps, as ``PixelLoss.noise_floor`` counts them
    left = np.mean(((rounded - colours) @ WEIGHTS) ** 2)
    assert LuminanceLoss().noise_floor(torch.zeros(0, 0, 0, 3)) == pytest.approx(left, rel=0.02)


def test_noise_of_colours_explains_less_of_luminance():
    estimate = torch.full((4, 32, 32, 3), 0.5)
    noisy = estimate + 0.02 * torch.randn(estimate.shape, generator=torch.Generator().manual_seed(0))
    for loss, variance in ((PixelLoss(), 4e-4), (LuminanceLoss(), 4e-4 * float(WEIGHTS @ WEIGHTS))):
        count = loss.count(tuple(range(4)), estimate.shape[1:])
        at = type("At", (), {"comparison": type("C", (), {"loss": loss, "frames": range(4), "observation_count": count})})
        assert explained_residual(at, estimate, noisy, [], None, 0.0) == pytest.approx(variance, rel=0.1)


def test_compressed_colours_move_an_estimate_by_luminance_less_than_by_pixels(tmp_path):
    """The Gauss-Newton step from the truth of a toss's compressed film is one draw of the errors that error bars describe.

    Colours are stored for 2 x 2 pixels, so their errors are larger than those of luminance. Bars go with the roots of the powers
    of the residuals over those of the Jacobians, .33 and .31 for the two unknowns, but for the correlation of errors in blocks.
    """
    scene = load_scene("toss", size=64)
    with torch.no_grad():
        true = film(scene, {}, worlds=1, frames=scene.frames)[0][0]
    write_video(tmp_path / "v.mp4", true, fps=scene.fps, crf=1)
    seen = torch.as_tensor(read_video(tmp_path / "v.mp4")).to(true)
    unknowns, bars, independent = Unknowns.of(scene, ["body.density", "ground.contact.friction"]), {}, {}
    for loss in (PixelLoss(), LuminanceLoss()):
        at = linearise(scene, Comparison.of(scene, loss, seen), unknowns, unknowns.current())
        jacobian = at.jacobian.double().cpu().numpy()
        bars[loss.kind] = error_bars(at, unknowns, floor=1e-12).sd / unknowns.scaled_range()
        independent[loss.kind] = np.sqrt(at.loss * np.diag(np.linalg.inv(jacobian.T @ jacobian)))
        assert (np.abs(newton_step(at)) < 3 * bars[loss.kind]).all(), (newton_step(at), bars)
    ratio, expected = (each["luminance"] / each["pixel"] for each in (bars, independent))
    assert (expected < 0.5).all()
    np.testing.assert_allclose(ratio, expected, rtol=0.25)  # blocks of luminance and of colours are correlated alike
