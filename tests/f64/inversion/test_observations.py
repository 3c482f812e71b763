"""Derivatives of every loss of an inversion by physical, starting and rendering parameters, against central differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from risp_torch import Loss, LuminanceLoss, PerceptualLoss, PixelLoss, RispLoss, Scene, StateLoss, film
from risp_torch.files.film.curves import linear_to_srgb
from risp_torch.inversion import Comparison, Unknowns, linearise
from risp_torch.inversion.diagnostics.gradient_check import check_torch
from risp_torch.inversion.losses.perceptual.loss import MEAN, STD, srgb_of
from risp_torch.inversion.solvers.film_problem import FilmProblem
from risp_torch.risp import RasteriserDomain, RigidPoseHead
from risp_torch.scene.rendering_parameters import Range, RenderingParameters
from risp_torch.scene.state_heads.rigid_pose import quaternion_of
from tests.reference import small_scenes

UNKNOWN = ["block.density", "ground.contact.friction", "block.velocity", "psi"]
HEAD = RigidPoseHead("block", low=(-0.05, -0.05, 0.0), high=(0.05, 0.05, 0.05))


class Reader(torch.nn.Module):
    """A smooth network of five outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(3, 6, 5, stride=2), torch.nn.SiLU(), torch.nn.Conv2d(6, 4, 3, stride=2), torch.nn.SiLU(),
            torch.nn.Flatten(), torch.nn.LazyLinear(5),
        )  # fmt: skip

    def read(self, pictures: torch.Tensor) -> torch.Tensor:
        """[..., 5] of [..., H, W, 3]."""
        rows = pictures.reshape(-1, *pictures.shape[-3:]).permute(0, 3, 1, 2)
        return self.layers(rows).reshape(*pictures.shape[:-3], 5)


class Features(torch.nn.Module):
    """Two smooth feature maps."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(3, 4, 3), torch.nn.Conv2d(4, 5, 3, stride=2)

    def forward(self, pictures: torch.Tensor) -> list[torch.Tensor]:
        """[n, 4, h, w] and [n, 5, h', w']."""
        first = torch.tanh(self.first(pictures))
        return [first, torch.tanh(self.second(first))]


def appearance(scene: Scene) -> RenderingParameters:
    ambient = Range(0.1, 0.5, tied=True)
    return RenderingParameters(scene, {"ground.color": Range(0.2, 0.6, tied=True), "light.ambient.intensity": ambient})


def make(kind: str, scene: Scene) -> Loss:
    torch.manual_seed(0)
    if kind == "state":
        with torch.no_grad():
            return StateLoss(HEAD, scene.rollout(worlds=1))
    if kind == "risp":
        reader = Reader().double()
        reader.read(torch.zeros(1, 16, 16, 3, dtype=torch.float64))
        return RispLoss(reader, loop=RasteriserDomain(appearance(scene), (0.5, -0.5)))
    if kind == "luminance":
        return LuminanceLoss()
    return PerceptualLoss(Features()) if kind == "perceptual" else PixelLoss()


def moved(scene: Scene) -> Scene:
    """The same scene with other numbers: where the losses have slopes."""
    scene.set("block.density", 900.0)
    scene.set("ground.contact.friction", 0.25)
    scene.set("block.velocity", (0.45, 0.15, -0.75))
    return scene


@pytest.mark.parametrize("sampling", ["all", "every:3"])
@pytest.mark.parametrize("kind", ["pixel", "luminance", "perceptual", "risp", "state"])
def test_the_gradient_of_every_loss(kind: str, sampling: str) -> None:
    scene = small_scenes.make_scene()
    with torch.no_grad():
        target = film(scene, {}, worlds=1, frames=4)[0][0]
    loss = make(kind, scene)
    comparison = Comparison.of(scene, loss, target, sampling)
    unknowns = Unknowns.of(moved(scene), UNKNOWN, psi=appearance(scene))

    def value(rows: dict[str, torch.Tensor]) -> torch.Tensor:
        z = unknowns.unbounded(unknowns.current()[None]) + rows["z"]
        return comparison.losses(scene, unknowns.physical(z[None] if z.ndim == 1 else z), worlds=1).sum()

    report = check_torch(value, {"z": np.zeros(len(unknowns.labels))}, step=1e-6, order=4, min_observable=0)
    largest = max(abs(entry.difference) for entry in report.entries)
    assert largest > 1e-7
    for entry in report.entries:
        assert abs(entry.adjoint - entry.difference) < 1e-6 * largest + 1e-12, (kind, entry)
    silent = [entry for entry in report.entries[-2:] if abs(entry.difference) < 1e-12]
    assert len(silent) == (2 if kind == "state" else 0)  # a state has no appearance


@pytest.mark.parametrize("kind", ["perceptual", "risp", "state"])
def test_the_linearisation_of_observations(kind: str) -> None:
    scene = small_scenes.make_scene()
    with torch.no_grad():
        target = film(scene, {}, worlds=1, frames=4)[0][0]
    comparison = Comparison.of(scene, make(kind, scene), target, "all")
    unknowns = Unknowns.of(moved(scene), ["block.density", "block.velocity"])
    at = linearise(scene, comparison, unknowns, unknowns.current(), step=1e-5)
    scaled = torch.tensor(unknowns.scaled(unknowns.current())[None], requires_grad=True)
    loss = comparison.losses(scene, unknowns.from_scaled(scaled), worlds=1)
    assert at.loss == pytest.approx(float(loss.detach()), rel=1e-9)
    (equations,) = FilmProblem(scene, comparison, unknowns).linearise([scaled.detach().numpy()[0]])
    assert equations.objective == pytest.approx(at.loss, rel=1e-9)
    (gradient,) = torch.autograd.grad(loss.sum(), scaled)
    expected = -2.0 * (at.jacobian.T @ at.residual) / len(at.residual)
    np.testing.assert_allclose(gradient[0].cpu().numpy() * unknowns.scaled_range(), expected.cpu().numpy(), rtol=2e-3, atol=1e-9)


def test_long_films_are_read_in_parts_with_the_same_gradient() -> None:
    from risp_torch.inversion.losses.loss import in_batches

    torch.manual_seed(1)
    pictures, features = torch.rand(2, 3, 8, 8, 3, dtype=torch.float64, requires_grad=True), Features().double()

    def read(rows: torch.Tensor) -> torch.Tensor:
        return features(rows.permute(0, 3, 1, 2))[1].flatten(1)

    for most in (6, 4):
        outputs = in_batches(read, pictures, most=most)
        gradient = torch.autograd.grad((outputs**2).sum(), pictures)[0]
        if most == 6:
            whole, expected = outputs.detach(), gradient
    assert outputs.shape == (2, 3, *whole.shape[2:])
    torch.testing.assert_close(outputs, whole)
    torch.testing.assert_close(gradient, expected)


def test_the_curve_of_srgb_and_its_slope() -> None:
    linear = torch.tensor([0.0, 0.001, 0.0031308, 0.2, 1.0], dtype=torch.float64, requires_grad=True)
    srgb = srgb_of(linear)
    np.testing.assert_allclose(srgb.detach().cpu().numpy(), linear_to_srgb(linear.detach().cpu().numpy()), atol=1e-12)
    (slope,) = torch.autograd.grad(srgb.sum(), linear)
    assert torch.isfinite(slope).all() and float(slope[0]) == pytest.approx(12.92)


class Shown(torch.nn.Module):
    """What it is given, and a part of it at half the size."""

    def forward(self, pictures: torch.Tensor) -> list[torch.Tensor]:
        """[n, 3, h, w] and [n, 2, h / 2, w / 2]."""
        return [pictures, 2.0 * pictures[:, :2, ::2, ::2]]


def test_features_are_of_normalised_srgb_and_layers_weigh_alike() -> None:
    loss, linear = PerceptualLoss(Shown()), np.random.default_rng(0).uniform(size=(2, 48, 32, 3))
    given = ((linear_to_srgb(linear) - MEAN) / STD).transpose(0, 3, 1, 2)  # what networks for ImageNet take
    read = loss.read(torch.as_tensor(linear)).cpu().numpy()
    first, second = read[:, : given[0].size], read[:, given[0].size :]
    np.testing.assert_allclose(first / first[0, 0], given.reshape(2, -1) / given.flat[0], rtol=1e-9)
    np.testing.assert_allclose(second / second[0, 0], given[:, :2, ::2, ::2].reshape(2, -1) / given.flat[0], rtol=1e-9)
    means = (given**2).mean(), 4 * (given[:, :2, ::2, ::2] ** 2).mean()
    assert (read**2).mean() == pytest.approx(np.mean(means))
    block = np.arange(48)[:, None] // 16 * 2 + np.arange(32) // 16  # three rows of two macroblocks
    expected = np.concatenate([np.tile(block.ravel(), 3), np.tile(block[::2, ::2].ravel(), 2)])
    np.testing.assert_array_equal(loss.blocks(read.shape[1:], (48, 32)), expected)


def test_outputs_of_a_pose_are_sines_and_cosines_of_its_angles() -> None:
    """Rz(yaw) Ry(pitch) Rx(roll) of scipy, each sign and each angle; the angles come back."""
    scene = small_scenes.make_scene()
    random = np.random.default_rng(0)
    angles = random.uniform(-1, 1, size=(40, 3)) * [np.pi, 1.4, np.pi]
    positions = random.uniform(HEAD.low, HEAD.high, size=(40, 3))
    poses = torch.as_tensor(np.concatenate([positions, quaternion_of(angles)], axis=1))[:, None]
    outputs = HEAD.outputs(scene, poses)
    np.testing.assert_allclose(outputs[:, 3:6], np.sin(angles), atol=1e-12)
    np.testing.assert_allclose(outputs[:, 6:9], np.cos(angles), atol=1e-12)
    read = HEAD.physical(outputs)
    np.testing.assert_allclose(torch.stack([read[name] for name in ("yaw", "pitch", "roll")], dim=1), angles, atol=1e-12)
    np.testing.assert_allclose(read["position"], positions, atol=1e-12)
