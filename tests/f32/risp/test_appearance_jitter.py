"""Training pictures moved along dI/dpsi: what the renderer makes of the same appearances, and what is left alone."""

import pytest
import torch

from risp_torch import Scene
from risp_torch.risp import Batch
from risp_torch.risp.training.appearance_jitter import MAX_DIRECTION_STEP, PSI_BOUND, UNCHANGED_SHARE, AppearanceJitter
from risp_torch.scene.rendering_parameters import Direction, Factor, RenderingParameters, image_jacobian
from tests.reference import small_scenes

SUN = {"light.key.intensity": Factor(0.6, 1.2, tied=True)}
AIM = {"light.key.direction": Direction(azimuth=(-3.0, 3.0), elevation=(0.4, 1.3))}


@pytest.fixture(scope="module")
def scene() -> Scene:
    return small_scenes.make_scene(size=16)


def rendered(scene: Scene, psi: torch.Tensor, parameters: RenderingParameters) -> Batch:
    poses = scene.simulator.adapter.inputs(scene.table.values(), frames=scene.frames).body_q0.expand(len(psi), -1, -1)
    with torch.no_grad():
        images, columns = image_jacobian(scene, poses, psi, parameters)
    return Batch(images.clamp(0.0, 1.0).float().cpu(), columns.half().cpu(), torch.zeros(len(psi), 9), psi)


def sampled(parameters: RenderingParameters, count: int, *, seed: int) -> torch.Tensor:
    """Appearances [count, K] in single precision, on the CPU as those of training pictures."""
    return parameters.sample(count, seed=seed).float().cpu()


def test_a_brighter_sun_is_what_the_renderer_makes_of_it(scene: Scene) -> None:
    """Pictures are linear in the brightness: the first order is all there is."""
    parameters = RenderingParameters(scene, SUN)
    psi = sampled(parameters, 6, seed=1)
    batch, moves = rendered(scene, psi, parameters), AppearanceJitter(parameters, 1.0)
    moved, steps = moves(batch, seed=(1, 2)), moves.steps(psi, seed=(1, 2))
    wanted = rendered(scene, psi + steps, parameters)
    assert batch.images.max() < 1.0 and wanted.images.max() < 1.0  # no kink
    assert (moved.images - batch.images).abs().max() > 0.05
    torch.testing.assert_close(moved.images, wanted.images, rtol=2e-3, atol=1e-3)  # derivatives are kept in half precision


def test_states_psi_and_derivatives_are_left_alone(scene: Scene) -> None:
    parameters = RenderingParameters(scene, SUN | AIM)
    batch = rendered(scene, sampled(parameters, 4, seed=3), parameters)
    moved = AppearanceJitter(parameters, 0.5)(batch, seed=(0,))
    assert moved.psi is batch.psi and moved.jacobian is batch.jacobian and moved.outputs is batch.outputs
    assert moved.images.min() >= 0.0 and moved.images.max() <= 1.0


def test_steps_go_towards_drawn_appearances_and_lights_turn_little(scene: Scene) -> None:
    parameters = RenderingParameters(scene, SUN | AIM)
    psi = sampled(parameters, 2000, seed=4)
    whole, half = (AppearanceJitter(parameters, share).steps(psi, seed=(5,)) for share in (1.0, 0.5))
    torch.testing.assert_close(half, 0.5 * whole)
    still = (whole == 0).all(dim=1)
    assert 0.8 * UNCHANGED_SHARE < still.float().mean() < 1.2 * UNCHANGED_SHARE
    turning = torch.tensor(["direction" in label for label in parameters.labels])
    assert turning.sum() == 2
    assert 0.9 * MAX_DIRECTION_STEP < whole[:, turning].abs().max() <= MAX_DIRECTION_STEP
    ends = (psi + whole)[~still][:, ~turning]
    assert 0.95 * PSI_BOUND < ends.abs().max() <= PSI_BOUND + 1e-6


def test_the_entry_with_patterns_is_not_moved(scene: Scene) -> None:
    parameters = RenderingParameters(scene, SUN | AIM)
    steps = AppearanceJitter(parameters, 1.0, fixed_psi_index=1).steps(sampled(parameters, 50, seed=6), seed=(7,))
    assert (steps[:, 1] == 0).all() and (steps[:, [0, 2]] != 0).any(dim=0).all()


def test_the_same_seed_gives_the_same_steps(scene: Scene) -> None:
    parameters = RenderingParameters(scene, SUN)
    psi, moves = sampled(parameters, 20, seed=8), AppearanceJitter(parameters, 1.0)
    one, same, other = (moves.steps(psi, seed=seed) for seed in ((0, 1), (0, 1), (0, 2)))
    assert torch.equal(one, same) and not torch.equal(one, other)
