"""Patterns behind the bodies of training pictures: what they are where the renderer can say it, and what they leave alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from risp_torch import Scene
from risp_torch.risp import Batch
from risp_torch.risp.training import background_augmentation as module
from risp_torch.risp.training.background_augmentation import NOISE, PLAIN_SHARE, BackgroundAugmentation, random_patterns
from risp_torch.risp.training.random_numbers import RandomNumbers
from risp_torch.scene.rendering_parameters import Factor, Range, RenderingParameters, image_jacobian
from tests.reference import small_scenes

SIZE, BATCH = 24, 3
SUN = "light.key.intensity"
FLAT = 0.7  # the grey that replaces the drawn ones
HALF = 2e-3  # relative: derivatives are kept in half precision

Patterned = Callable[[Batch], Batch]


@pytest.fixture(scope="module")
def scene() -> Scene:
    """A block above the ground before the background, none of it white."""
    return small_scenes.make_scene(size=SIZE)


def parameters(scene: Scene, surface: str | None) -> RenderingParameters:
    """psi with the brightness of the sun, and with the grey of a surface."""
    greys = {} if surface is None else {surface: Range(0.1, 0.6, tied=True)}
    return RenderingParameters(scene, {SUN: Factor(0.6, 1.2, tied=True)} | greys)


def rendered(scene: Scene, psi: torch.Tensor, names: RenderingParameters) -> Batch:
    poses = scene.simulator.adapter.inputs(scene.table.values(), frames=scene.frames).body_q0.expand(BATCH, -1, -1)
    with torch.no_grad():
        images, columns = image_jacobian(scene, poses, psi, names)
    assert images.max() < 1.0
    return Batch(images.float().cpu(), columns.half().cpu(), torch.zeros(BATCH, 9), psi)


@pytest.fixture
def flat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Patterns of one grey, and no noise."""
    monkeypatch.setattr(module, "NOISE", 0.0)
    monkeypatch.setattr(module, "random_patterns", lambda grey, size, random: torch.full((len(grey), size, size, 3), FLAT))


@pytest.mark.parametrize("surface", ["ground.color", "background.color"])
def test_a_flat_pattern_is_what_the_renderer_makes_of_its_grey(surface: str, scene: Scene, flat: None) -> None:
    names = parameters(scene, surface)
    patterns = BackgroundAugmentation(names)
    column = names.labels.index(surface)
    assert patterns.background_psi_index == column
    psi = names.sample(BATCH, seed=1).float().cpu()
    there = psi.clone()
    there[:, column] = 2 * (FLAT - 0.1) / 0.5 - 1
    before, wanted = rendered(scene, psi, names), rendered(scene, there, names)
    after = patterns(before, seed=(1,))
    assert (before.images - wanted.images).abs().max() > 0.05
    torch.testing.assert_close(after.images, wanted.images, rtol=HALF, atol=HALF)
    assert torch.equal(after.psi, before.psi) and torch.equal(after.outputs, before.outputs)

    sun = 1 - column
    old, new, true = (batch.jacobian[:, sun].float() for batch in (before, after, wanted))
    shown = before.jacobian[:, column].float()  # how much of the surface a pixel shows, and how brightly
    inside = (shown == 0) | (before.images - shown * grey_of(psi[:, column]) * 2 / 0.5).abs().le(1e-3)
    assert 0.5 < inside.float().mean() < 1.0  # the others are edges
    torch.testing.assert_close(new[inside], true[inside], rtol=2 * HALF, atol=2 * HALF)
    # At an edge the body's part of a derivative is scaled like the surface's, too: both lie between the old one and that times
    # the ratio of the greys.
    ratio = FLAT / grey_of(psi[:, column])
    assert ((new - true).abs() <= (ratio - 1).abs() * old.abs() + 4 * HALF).all()
    assert torch.equal(after.jacobian[:, column], before.jacobian[:, column])  # a picture is linear in the colour


def grey_of(psi: torch.Tensor) -> torch.Tensor:
    return (0.1 + 0.5 * 0.5 * (psi + 1))[:, None, None, None]


def test_bodies_are_left_alone(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NOISE", 0.0)
    names = parameters(scene, "ground.color")
    before = rendered(scene, names.sample(BATCH, seed=2).float().cpu(), names)
    after = BackgroundAugmentation(names)(before, seed=(4,))
    outside = before.jacobian[:, names.labels.index("ground.color")] == 0
    assert 0.2 < outside.float().mean() < 0.9
    assert torch.equal(after.images[outside], before.images[outside])
    assert not torch.equal(after.images, before.images)
    assert (after.jacobian[:, 0] == before.jacobian[:, 0])[outside].all()
    assert torch.isfinite(after.jacobian).all() and after.images.min() >= 0 and after.images.max() <= 1


def batch_without_entry(seed: int = 0) -> Batch:
    random = torch.Generator().manual_seed(seed)
    images = 0.2 + 0.5 * torch.rand((64, 16, 16, 3), generator=random)
    return Batch(images, torch.ones(64, 1, 16, 16, 3).half(), torch.zeros(64, 9), torch.zeros(64, 1))


@pytest.mark.parametrize("derivatives", [True, False])
def test_a_scene_without_such_an_entry_gets_noise_only(derivatives: bool, scene: Scene) -> None:
    patterns = BackgroundAugmentation(parameters(scene, None))
    assert patterns.background_psi_index is None
    before = batch_without_entry() if derivatives else replace(batch_without_entry(), jacobian=None)
    after = patterns(before, seed=(0, 1, 2, 3))
    assert after.jacobian is before.jacobian
    noise = (after.images - before.images) / before.images.sqrt()
    level = noise.flatten(1).std(dim=1)
    assert abs(float(noise.mean())) < 1e-3 and 0.3 * NOISE < level.mean() < 0.7 * NOISE and level.max() < 1.1 * NOISE


def test_ranges_that_are_no_grey_are_no_entry(scene: Scene) -> None:
    for spread in (Range(0.1, 0.6), Range(0.1, 0.6, scale="log10", tied=True), Factor(0.5, 1.0, tied=True)):
        names = RenderingParameters(scene, {"ground.color": spread, "background.color": Range(0.2, 0.8, tied=True)})
        assert BackgroundAugmentation(names).background_psi_index == names.labels.index("background.color")


def test_the_same_seed_gives_the_same_pictures(scene: Scene) -> None:
    names = parameters(scene, "ground.color")
    patterns, psi = BackgroundAugmentation(names), torch.zeros(64, 2)
    before = replace(batch_without_entry(), jacobian=0.2 * torch.ones(64, 2, 16, 16, 3).half(), psi=psi)
    one, same, other = (patterns(before, seed=seed) for seed in ((0, 1, 2, 3), (0, 1, 2, 3), (0, 1, 3, 3)))
    assert torch.equal(one.images, same.images) and torch.equal(one.jacobian, same.jacobian)
    assert (one.images != other.images).float().mean() > 0.9


def test_patterns_are_colours_and_some_are_plain() -> None:
    grey = torch.linspace(0.05, 0.95, 400)
    colors = random_patterns(grey, 16, RandomNumbers(0, (0,), count=len(grey), device=grey.device))
    assert colors.shape == (400, 16, 16, 3) and colors.min() >= 0 and colors.max() <= 1
    plain = (colors == grey[:, None, None, None]).flatten(1).all(dim=1).float().mean()
    assert 0.6 * PLAIN_SHARE < plain < 1.6 * PLAIN_SHARE
    assert colors.flatten(1).std(dim=1).median() > 0.05
