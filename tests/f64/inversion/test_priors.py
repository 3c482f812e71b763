"""Priors of unknowns: how they are read, their part in loss, Gauss-Newton equations and error bars, and whether these hold."""

from typing import Any

import numpy as np
import pytest
import torch

from risp_torch import UserError
from risp_torch.inversion import Unknowns, error_bars, linearise
from risp_torch.inversion.problem.effective_sample_size import block_size, design_effect, with_design_effect
from risp_torch.inversion.problem.linearisation import Linearisation, losses_at, newton_step
from risp_torch.inversion.problem.priors import Prior, Priors, read_priors
from risp_torch.inversion.solvers.gradient_descent import History
from risp_torch.inversion.solvers.refinement import refined
from risp_torch.inversion.uncertainty.unobservable import far_from_priors
from tests.reference.linear_films import FRAMES, SIDE, LinearLoss, LinearScene, block_errors, compared
from tests.reference.small_scenes import make_scene
from ti_sim import Param

NAMES = ("a", "b", "c")  # b and c have priors
LIMITS = {"a": (-20.0, 20.0), "b": (-2.0, 2.0), "c": (-3.0, 3.0)}
SD = {"b": 0.2, "c": 0.3}


def unknowns_of(sd: dict[str, float], *, num_correlated: float = 1.0, floor: float = 1e-12) -> Unknowns:
    params = {name: Param(0.0, low=low, high=high) for name, (low, high) in LIMITS.items()}
    priors = Priors.of(params, {name: Prior(np.zeros(()), np.array(size)) for name, size in sd.items()})
    return with_design_effect(Unknowns(params, priors=priors), num_correlated, floor)


def columns(random: np.random.Generator) -> dict[str, torch.Tensor]:
    """Smooth patterns; that of b is nearly that of a, so that a film hardly tells the two."""
    time, place = np.meshgrid(np.linspace(0, 1, FRAMES), np.linspace(0, 1, SIDE), indexing="ij")
    a = np.sin(3 * place + time)
    b = a + 0.03 * random.normal(size=a.shape)
    c = np.cos(9 * place - 2 * time)
    return {name: torch.as_tensor(each) for name, each in zip(NAMES, (a, b, c), strict=True)}


# -- what users give ------------------------------------------------------------------------------------------------------


def test_priors_are_standard_deviations_about_the_values_of_the_scene() -> None:
    scene = make_scene()
    names = ["camera.turn", "camera.focal", "block.density", "block.velocity[1]"]
    unknowns = Unknowns.of(
        scene, names,
        priors={
            "camera.turn": (0.01, [0.1, 0.2, 0.3]), "camera.focal": "10%", "block.density": (700, 50), "block.velocity[1]": 0.3
        },
    )  # fmt: skip
    focal, priors = scene.parameters["camera.focal"].value, unknowns.priors
    assert priors.indices.tolist() == list(range(7))
    np.testing.assert_allclose(priors.mean, [0.01, 0.01, 0.01, *focal, np.log10(700), 0.1])
    np.testing.assert_allclose(priors.sd, [0.1, 0.2, 0.3, *0.1 * focal, 50 / 700 / np.log(10), 0.3])
    low, high = unknowns.bounds()
    np.testing.assert_allclose(low[:5], [-0.49, -0.99, -1.49, *0.5 * focal])
    np.testing.assert_allclose(high[:5], [0.51, 1.01, 1.51, *1.5 * focal])
    assert (low[5:].tolist(), high[5:].tolist()) == ([80.0, -2.0], [8000.0, 2.0]), "bounds of the scene stay"
    assert priors.specification["block.density"] == {"mean": 700.0, "sd": 50.0}


def test_an_entry_may_have_a_prior_of_its_own() -> None:
    scene = make_scene()
    unknowns = Unknowns.of(scene, ["block.velocity"], priors={"block.velocity[2]": 0.1})
    assert unknowns.priors.indices.tolist() == [2] and unknowns.priors.mean.tolist() == [-0.8]
    assert unknowns.priors.specification == {"block.velocity": {"mean": [0.5, 0.1, -0.8], "sd": [None, None, 0.1]}}
    both = Unknowns.of(scene, ["block.velocity"], priors={"block.velocity[2]": (0.0, 0.1), "block.velocity": 1.0})
    assert both.priors.mean.tolist() == [0.5, 0.1, 0.0] and both.priors.sd.tolist() == [1.0, 1.0, 0.1]


def test_bounds_from_a_prior_keep_the_sign() -> None:
    low, high = Unknowns.of(make_scene(), ["camera.focal"], priors={"camera.focal": "50%"}).bounds()
    focal = make_scene().parameters["camera.focal"].value
    np.testing.assert_allclose([low, high], [0.01 * focal, 3.5 * focal])


@pytest.mark.parametrize(
    ("priors", "sentence"),
    [
        ({"camera.position": 0.1}, "unknown with a prior 'camera.position'"),
        ({"camera.turn": 0.0}, "standard deviation 0: give one above zero"),
        ({"camera.turn": [0.1, 0.1]}, r"give one finite number, or those of shape \(3,\)"),
        ({"camera.turn": (0.0, float("nan"))}, "standard deviation nan"),
        ({"camera.turn": (0.0, 0.1, 0.2)}, "a tuple of mean and that"),
        ({"camera.turn": "five"}, "as a number, or as 5% of the mean"),
        ({"camera.turn": "5%"}, "standard deviation 0: give one above zero"),
        ({"camera.turn[3]": 0.1, "camera.turn": 0.1}, r"camera.turn has shape \(3,\), so it has no such entry"),
        ({"camera.turn[0]": 0.1}, "camera.turn has no bounds"),
        ({"camera.turn": 0.1, "block.density": (-1.0, 10.0)}, "has the mean -1, outside the bounds"),
        ({"camera.turn": 0.1, "block.density": (9e3, 10.0)}, "has the mean 9000, outside the bounds from 80 to 8000"),
    ],
)
def test_what_is_refused(priors: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        Unknowns.of(make_scene(), ["camera.turn", "block.density"], priors=priors)


def test_guesses_are_means_of_the_priors_or_equally_probable_parts_of_them() -> None:
    starts = unknowns_of(SD).starts(400, 0)
    np.testing.assert_allclose(np.sort(starts[:, 0]), np.linspace(-19.95, 19.95, 400))
    assert not starts[:, 1:].any()
    starts = unknowns_of({"a": 2.0} | SD).starts(400, 0)
    np.testing.assert_allclose(starts.std(axis=0), [2.0, 0.2, 0.3], rtol=0.01)
    assert abs(starts[:, 1]).max() < 0.7


# -- their part in the loss -----------------------------------------------------------------------------------------------


def test_the_penalised_loss_has_the_posterior_of_an_unknown_variance() -> None:
    """N psi(M) = N psi(L) + Q on both sides of the floor and across it."""
    priors = unknowns_of(SD, num_correlated=3.0, floor=0.01).priors

    def psi(loss: torch.Tensor) -> torch.Tensor:
        return torch.where(loss > 0.01, torch.log(loss / 0.01), loss / 0.01 - 1)

    losses = torch.tensor([0.5, 0.02, 0.009, 0.002, 0.009, 0.5], dtype=torch.float64)
    scaled = torch.tensor([[1.0, 0.4, 0.3], [0, 0.1, 0.0], [0, 1.0, 0.3], [0, 0.2, 0.2], [3, 0, 0.1], [5, 0, 0]]).double()
    distance = (scaled[:, 1] / 0.2) ** 2 + (scaled[:, 2] / 0.3) ** 2
    torch.testing.assert_close(priors.squared_distance(scaled), distance)
    torch.testing.assert_close(psi(priors.penalised(losses, scaled, 60)), psi(losses) + distance * 3 / 60)
    assert priors.penalised(losses, scaled, 60)[-1] == losses[-1]
    leaves = losses.requires_grad_(), scaled.requires_grad_()
    assert torch.autograd.gradcheck(lambda losses, scaled: priors.penalised(losses, scaled, 60), leaves)
    diverged = priors.penalised(torch.tensor([torch.inf, torch.nan]), scaled[:2].detach().float(), 60)
    assert torch.isinf(diverged[0]) and torch.isnan(diverged[1])


def found(loss: LinearLoss, unknowns: Unknowns, start: np.ndarray) -> tuple[Linearisation, np.ndarray]:
    """Where Gauss-Newton rounds end, and the linearisation there."""
    values, _ = refined(LinearScene(), compared(loss), unknowns, start[None], 30, History(), thorough=False, progress=False)
    return linearise(LinearScene(), compared(loss), unknowns, values[0]), values[0]


@pytest.mark.parametrize("floor", [1e-12, 0.3])
def test_gauss_newton_steps_end_where_the_penalised_loss_is_least(floor: float) -> None:
    random = np.random.default_rng(3)
    patterns = columns(random)
    target = 2.0 * patterns["a"] + 0.1 * patterns["c"] + torch.as_tensor(0.2 * block_errors(random))
    loss, unknowns = LinearLoss(patterns, target, floor), unknowns_of(SD, num_correlated=10.0, floor=floor)
    at, end = found(loss, unknowns, np.array([1.0, 0.1, 0.0]))
    variance = 10 * max(at.loss, floor)
    assert at.observation_variance == pytest.approx(variance)
    step = newton_step(at, damping=1e-12)
    assert np.abs(step).max() < 1e-3
    moves = np.concatenate([end + sign * 2e-3 * np.eye(3) for sign in (1, -1)])
    losses = losses_at(LinearScene(), compared(loss), unknowns, np.concatenate([end[None], moves]))
    assert (losses[0] < losses[1:]).all()
    stack = torch.stack([patterns[name].flatten() for name in NAMES], dim=1).cpu().numpy()
    normal = stack.T @ stack / variance + np.diag([0.0, 1 / 0.2**2, 1 / 0.3**2])
    expected = np.linalg.solve(normal, stack.T @ target.cpu().numpy().ravel() / variance)
    np.testing.assert_allclose(end, expected, atol=2e-3)
    bars = error_bars(at, unknowns, floor=floor)
    plain = np.sqrt(np.diag(np.linalg.inv(normal)))
    assert (bars.sd >= 0.999 * plain).all() and (bars.sd[1:] <= [0.2, 0.3]).all()


def test_what_the_film_does_not_show_keeps_the_bar_of_its_prior() -> None:
    patterns = columns(np.random.default_rng(0)) | {"b": torch.zeros(FRAMES, SIDE, dtype=torch.float64)}
    unknowns = unknowns_of({"b": 0.2})
    target = patterns["a"] + 0.01 * torch.as_tensor(block_errors(np.random.default_rng(1)))
    at, end = found(LinearLoss(patterns, target), unknowns, np.array([0.5, 0.6, 0.1]))
    bars = error_bars(at, unknowns, floor=1e-12)
    assert end[1] == pytest.approx(0.0, abs=5e-3) and bars.sd[1] == pytest.approx(0.2, rel=0.02) and bars.observable[1]
    assert bars.unobservable == ["b is known from its prior only (± 0.2)"]
    assert far_from_priors(np.array([1.0, 0.9, 0.0]), unknowns)[0].startswith("the estimate of b lies 4.5 standard deviations")
    widest = unknowns.priors.max_error_bars(np.array([0, 0.3, 0]), unknowns.scaled_range())
    np.testing.assert_allclose(widest, [40, np.hypot(0.2, 0.3), 6])


# -- whether error bars hold ----------------------------------------------------------------------------------------------


def coverage(kind: str, count: int = 80) -> tuple[float, np.ndarray]:
    """Fraction of the two-sigma error bars that contain the truth, and the mean bars [3]; truths are drawn from the priors."""
    random, held, bars = np.random.default_rng(7), [], []
    patterns = columns(random)
    for _ in range(count):
        truth = np.array([random.uniform(-3, 3), 0.2 * random.normal(), 0.3 * random.normal()])
        errors = block_errors(random) if kind == "blocks" else random.normal(size=(FRAMES, SIDE))
        target = sum(number * patterns[name] for name, number in zip(NAMES, truth, strict=True)) + torch.as_tensor(0.3 * errors)
        loss = LinearLoss(patterns, target)
        unknowns = with_design_effect(unknowns_of(SD), block_size(compared(loss)))
        at, end = found(loss, unknowns, np.zeros(3))
        unknowns = with_design_effect(unknowns, design_effect(at))
        at, end = found(loss, unknowns, end)
        sd = error_bars(at, unknowns, floor=1e-12).sd
        held.append(np.abs(end - truth) <= 2 * sd)
        bars.append(sd)
    return float(np.mean(held)), np.mean(bars, axis=0)


def test_errors_that_hang_together_count_less_and_bars_hold() -> None:
    alone, narrow = coverage("pixels")
    blocks, wide = coverage("blocks")
    assert 0.93 <= alone <= 1.0 and 0.9 <= blocks <= 0.99, (alone, blocks)
    assert (wide[[0, 2]] > 1.1 * narrow[[0, 2]]).all() and (wide[1:] <= [0.2, 0.3]).all()


def test_errors_together_are_counted() -> None:
    random = np.random.default_rng(5)
    patterns, size = columns(random), 4 * SIDE / 6
    ratios = {}
    for kind in ("pixels", "blocks"):
        each = []
        for _ in range(40):
            errors = block_errors(random) if kind == "blocks" else random.normal(size=(FRAMES, SIDE))
            loss = LinearLoss(patterns, torch.as_tensor(errors))
            assert block_size(compared(loss)) == size
            at, _ = found(loss, unknowns_of(SD, num_correlated=size), np.zeros(3))
            each.append(design_effect(at))
        ratios[kind] = float(np.mean(each))
    assert 1.0 <= ratios["pixels"] < 2.5 and 0.3 * size < ratios["blocks"] <= size, ratios


def test_priors_of_nothing_change_nothing() -> None:
    unknowns = unknowns_of({})
    losses = torch.tensor([0.1, 0.2])
    assert not unknowns.priors and read_priors(unknowns.params, None) == {}
    assert unknowns.priors.penalised(losses, torch.zeros(2, 3), 10) is losses
