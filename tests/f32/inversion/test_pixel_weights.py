"""Which pixels and frames of a film count, and what error bars make of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from risp_torch import OptimiseSettings, PerceptualLoss, PixelLoss, PixelWeights, Scene, UserError, write_frames
from risp_torch.inversion import Comparison, Unknowns, linearise, sampled_frames
from risp_torch.inversion.problem.films.multi_film import Films
from risp_torch.inversion.uncertainty.covariance import CovarianceEstimate
from risp_torch.risp.loss import RispLoss
from tests.reference.searches import pictures, quick
from tests.reference.small_scenes import make_scene

DENSITY, VELOCITY = "block.density", "block.velocity[0]"
SETTINGS = OptimiseSettings(iterations=1, learning_rate=1e-6)  # Gauss-Newton alone
SIZE, OCCLUDED = 32, (1, 2, 3)


@pytest.fixture(scope="module")
def scene() -> Scene:
    return make_scene(size=SIZE)


@pytest.fixture(scope="module")
def film(scene: Scene) -> torch.Tensor:
    return pictures(scene)


@pytest.fixture(scope="module")
def occluder(film: torch.Tensor) -> torch.Tensor:
    """[5, H, W] where a hand is before the camera: over a part of the block, in three of the frames."""
    hidden = film.new_zeros(5, SIZE, SIZE)
    hidden[list(OCCLUDED), 14:, 15:] = 1.0
    return hidden


@pytest.mark.usefixtures("undiagnosed")
def test_weights_hide_an_occluder(scene: Scene, film: torch.Tensor, occluder: torch.Tensor, tmp_path: Path) -> None:
    """With weights the truth is found, and without them it is not; the film is said to fit only with them."""
    torch.manual_seed(1)
    noisy = (film + 0.01 * torch.randn(film.shape).to(film)).clamp(0, 1)
    shown = torch.where(occluder[..., None] > 0, film.new_tensor([0.8, 0.6, 0.5]), noisy)
    start, truth = [{DENSITY: 700.0, VELOCITY: 0.45}], {DENSITY: 800.0, VELOCITY: 0.5}
    found = {}
    for name, weights in {"without": None, "with": PixelWeights(1 - occluder)}.items():
        result = quick(scene, shown, list(truth), loss=PixelLoss(weights=weights), starts=start, steps=SETTINGS)
        error = result.scaled_error(truth)
        found[name] = max(abs(error[label]) / result.sd[label] for label in truth), result.fits, abs(error[VELOCITY])
    assert found["with"][0] < 3 and found["with"][1] and found["with"][2] < 0.01
    assert found["without"][1] is False and found["without"][2] > 0.05


def test_error_bars_count_the_pixels_that_count(scene: Scene, film: torch.Tensor, occluder: torch.Tensor) -> None:
    """Loss, noise and covariance are those of the same observations with the others cut out."""
    torch.manual_seed(0)
    noisy = film + 0.01 * torch.randn(film.shape).to(film)
    unknowns, point = Unknowns.of(scene, [DENSITY, VELOCITY]), np.array([800.0, 0.5])
    whole, weighted = (
        linearise(scene, Comparison.of(scene, loss, noisy), unknowns, point)
        for loss in (PixelLoss(), PixelLoss(weights=PixelWeights(1 - occluder)))
    )
    counted = (occluder == 0)[..., None].expand(-1, -1, -1, 3).flatten()
    residual, jacobian = whole.residual[counted].double(), whole.jacobian[counted].double()
    assert weighted.comparison.observation_count == pytest.approx(float(counted.sum()))
    assert weighted.loss == pytest.approx(float(residual.square().mean()), rel=1e-5)
    noise = float(residual.square().sum()) / (len(residual) - 2)
    expected = noise * np.linalg.inv((jacobian.T @ jacobian).numpy(force=True))
    np.testing.assert_allclose(CovarianceEstimate.of(weighted).iid_covariance, expected, rtol=1e-4)
    half = PixelLoss(weights=PixelWeights(0.5 * torch.ones(SIZE, SIZE)))  # counts as half as many observations
    halved = CovarianceEstimate.of(linearise(scene, Comparison.of(scene, half, noisy), unknowns, point))
    np.testing.assert_allclose(halved.iid_covariance, 2 * CovarianceEstimate.of(whole).iid_covariance, rtol=1e-3)


def test_features_of_what_counts(scene: Scene, film: torch.Tensor, occluder: torch.Tensor) -> None:
    """Both films are black where nothing counts, so that an occluder leaves no trace in a network's features."""
    loss = PerceptualLoss(torch.nn.Conv2d(3, 4, 3), weights=PixelWeights(1 - occluder))
    shown = torch.where(occluder[..., None] > 0, torch.rand(film.shape).to(film), film)
    comparison = Comparison.of(scene, loss, shown)
    assert float(comparison.losses(scene, {}, worlds=1)) < 1e-10
    plain = Comparison.of(scene, PerceptualLoss(torch.nn.Conv2d(3, 4, 3)), shown)
    assert float(plain.losses(scene, {}, worlds=1)) > 1e-4


def test_weights_from_files_and_regions(scene: Scene, occluder: torch.Tensor, tmp_path: Path) -> None:
    """Folders of grey or coloured PNG and arrays; white counts, with no sRGB curve."""
    for frame, picture in enumerate((1 - occluder).numpy(force=True)):
        level = np.round(255 * picture).astype(np.uint8)
        image = Image.fromarray(level) if frame % 2 else Image.fromarray(np.repeat(level[..., None], 3, axis=-1))
        (tmp_path / "weights").mkdir(exist_ok=True)
        image.save(tmp_path / "weights" / f"{frame}.png")
    np.save(tmp_path / "weights.npy", (1 - occluder).numpy(force=True))
    for path in ("weights", "weights.npy"):
        assert torch.equal(PixelWeights.read(tmp_path / path).values, 1 - occluder)
    Image.fromarray(np.full((SIZE, SIZE), 51, dtype=np.uint8)).save(tmp_path / "grey.png")
    np.testing.assert_allclose(PixelWeights.read(tmp_path / "grey.png").values.cpu(), 0.2, rtol=1e-6)
    region = PixelWeights.region(2, 3, 10, 20, camera=scene.camera)
    assert region.values.shape == (1, SIZE, SIZE) and float(region.values.sum()) == 200
    assert region.values[0, 3, 2] == 1 and region.values[0, 2, 2] == 0 and region.values[0, 22, 11] == 1
    both = region * PixelWeights(1 - occluder)
    assert torch.equal(both.values, region.values * (1 - occluder))
    both.check(scene)
    assert both.mean([0]) == pytest.approx(200 / SIZE**2) and PixelLoss(weights=both).to_json() != PixelLoss().to_json()


def test_pixels_near_the_bodies(scene: Scene) -> None:
    """Distances to the nearest covered pixel, counted by hand; frames have their own."""
    with torch.no_grad():
        states = scene.rollout()
        covered = scene.render(states, alpha=True)[0, ..., 3] > 0.01
    near = PixelWeights.near(scene, states, distance=3.0)
    assert near.values.shape == covered.shape and covered.any()
    rows, columns = torch.meshgrid(*[torch.arange(SIZE, device=covered.device)] * 2, indexing="ij")
    for frame, seen in enumerate(covered):
        y, x = seen.nonzero().T
        distance = ((rows[..., None] - y) ** 2 + (columns[..., None] - x) ** 2).min(dim=-1).values.sqrt()
        assert torch.equal(near.values[frame] > 0, distance <= 3.0)
    assert not torch.equal(near.values[0], near.values[-1])
    away = states.placement.clone()
    away[..., 0] += 100.0
    with pytest.raises(UserError, match="no pixel shows a body"):
        PixelWeights.near(scene, away, distance=3.0)
    away[:, 1:] = states.placement[:, 1:]
    partly = PixelWeights.near(scene, away, distance=3.0).values
    assert not partly[0].any() and torch.equal(partly[1:], near.values[1:])


def test_listed_frames() -> None:
    assert sampled_frames("list:0,3,7", 10) == (0, 3, 7) and sampled_frames("list:8-10, 2,9", 10) == (2, 8, 9, 10)
    for text in ("list:", "list:11", "list:5-3", "list:a", "list:1,,2"):
        with pytest.raises(UserError, match="takes frames of a film of 10 intervals"):
            sampled_frames(text, 10)


def test_weights_that_do_not_fit(scene: Scene, film: torch.Tensor, tmp_path: Path) -> None:
    ones = torch.ones(SIZE, SIZE)
    for values, message in {
        (2, 3): "weights of pixels are 3 x 2 pixels, and the camera's pictures are 32 x 32",
        (3, SIZE, SIZE): "weights of pixels have 3 pictures, and the scene has 5 frames: give one for each frame, or one for all",
        (SIZE,): "have shape",
    }.items():
        with pytest.raises(UserError, match=message):
            PixelLoss(weights=PixelWeights(torch.ones(values))).check(scene)
    with pytest.raises(UserError, match="no pixel counts: all weights are zero"):
        PixelLoss(weights=PixelWeights(0 * ones)).check(scene)
    with pytest.raises(UserError, match="no numbers from 0 to 1"):
        PixelWeights(2 * ones)
    with pytest.raises(UserError, match="region 30,0,8,8 is not within pictures of 32 x 32 pixels"):
        PixelWeights.region(30, 0, 8, 8, camera=scene.camera)
    with pytest.raises(UserError, match="give them for one film"):
        PixelWeights(ones) * PixelWeights(torch.ones(4, 4))
    with pytest.raises(UserError, match="does not exist"):
        PixelWeights.read(tmp_path / "missing.png")
    risp = RispLoss(Reader())
    risp.weights = PixelWeights(ones)
    with pytest.raises(UserError, match="a RISP network reads whole pictures"):
        risp.check(scene)
    perceptual = PerceptualLoss(torch.nn.Conv2d(3, 4, 3), weights=PixelWeights(ones))
    films = Films(scene, 2, per_film=["block.velocity"])
    with pytest.raises(UserError, match="weights of pixels belong to one film with the perceptual loss"):
        quick(films, [film, film], [DENSITY], loss=perceptual)


class Reader(torch.nn.Module):
    def read(self, pictures: torch.Tensor) -> torch.Tensor:
        return pictures.mean((-3, -2))


def test_the_command_line_takes_weights(
    command_line: Callable[..., tuple[int, str, str]], film: torch.Tensor, occluder: torch.Tensor, tmp_path: Path
) -> None:
    scene = Path(__file__).parents[2] / "reference" / "small_scenes.py"
    shown = torch.where(occluder[..., None] > 0, film.new_tensor([0.8, 0.6, 0.5]), film)
    write_frames(tmp_path / "film", shown, fps=200)
    (tmp_path / "weights").mkdir()
    for frame, picture in enumerate((1 - occluder).numpy(force=True)):
        Image.fromarray(np.round(255 * picture).astype(np.uint8)).save(tmp_path / "weights" / f"{frame}.png")
    common = ["invert", scene, "--size", SIZE, "--unknown", VELOCITY, "--video", tmp_path / "film", "--starts", "scene"]
    weights = ["--pixel-weights", tmp_path / "weights", "1,0,31,32", "--sampling", "list:0-2,4"]
    status, out, _ = command_line(*common, *weights, "--solver", "refine=2", "--strict", "--out", tmp_path / "run")
    assert status == 0, out
    status, _, err = command_line(*common, "--pixel-weights", "1,0,31,32", "0,0,4,4")
    assert status == 2 and "--pixel-weights takes one PATH and one part X,Y,W,H" in err
    state = ["--unknown", VELOCITY, "--loss", "state", "--states", "x.npz"]
    status, _, err = command_line(*common[:4], *state, "--pixel-weights", "0,0,4,4")
    assert status == 2 and "--pixel-weights belongs to losses that compare pictures" in err
