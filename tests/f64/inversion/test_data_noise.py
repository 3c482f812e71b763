"""Data without stated noise: differences in time, films in which nothing moves, bodies that miss their data, starts."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from risp_torch import MaskLoss, Param
from risp_torch.inversion import Unknowns
from risp_torch.inversion.diagnostics.alternative_minima import best_observed
from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.inversion.problem.linearisation import Linearisation
from risp_torch.inversion.report.result import remarks_on, status_of_starts
from risp_torch.inversion.uncertainty.noise_floor import change_power, doubts_of_motion, expected_residual, noise_in_time
from tests.reference.linear_films import LinearLoss

TIMES = np.linspace(0.0, 1.0, 60)[:, None]
PATHS = 40.0 * TIMES + 300.0 * (TIMES - 0.4) ** 2 * np.array([[1.0, -0.5, 0.0]])  # pixels


def compared(target: np.ndarray, frames: range | None = None, **loss: object) -> Comparison:
    """A comparison with tracks [n, D]."""
    options = dict.fromkeys(("temporally_correlated", "non_smooth", "needs_film"), False) | dict.fromkeys(
        ("noise", "usual_noise"), None
    )
    options["rounding"] = lambda: None
    frames = tuple(frames or range(len(target)))
    count = float((target != 0).sum())
    return SimpleNamespace(
        loss=SimpleNamespace(**{**options, **loss}), target=torch.as_tensor(target), frames=frames, observation_count=count
    )


def at(target: np.ndarray, residual: np.ndarray, **loss: object) -> Linearisation:
    columns = torch.zeros(residual.size, 1)
    return Linearisation(torch.as_tensor(residual).flatten(), columns, np.zeros(1), compared(target, **loss))


def test_noise_is_what_varies_fast_along_smooth_paths() -> None:
    noise = 0.3 * np.random.default_rng(0).normal(size=PATHS.shape)
    assert noise_in_time(compared(PATHS + noise)) == pytest.approx(0.09, rel=0.25)
    bounce = PATHS + noise
    bounce[30:] -= 60.0 * (TIMES[30:] - TIMES[30])  # an impact is not noise
    hidden = bounce.copy()
    hidden[20:24] = 0.0  # not seen
    assert noise_in_time(compared(hidden)) == pytest.approx(0.09, rel=0.3)
    assert noise_in_time(compared(PATHS)) < 1e-4
    assert noise_in_time(compared(bounce[:4])) is None and noise_in_time(compared(bounce[:4], (0, 3, 4, 9))) is None


def test_usual_errors_and_those_of_the_data_are_expected_whichever_are_larger() -> None:
    noise = 0.3 * np.random.default_rng(0).normal(size=PATHS.shape)
    assert expected_residual(at(PATHS + noise, noise)) == pytest.approx(0.09, rel=0.25)
    assert expected_residual(at(PATHS + noise, noise, usual_noise=1.0)) == 1.0
    assert expected_residual(at(PATHS, noise, usual_noise=0.2, rounding=lambda: 1 / 12)) == pytest.approx(1 / 12)
    network = at(PATHS, noise, needs_film=True, temporally_correlated=True)
    assert expected_residual(network) == pytest.approx(change_power(network.comparison) / 8)
    assert expected_residual(at(np.full((9, 2), 0.5), np.zeros((9, 2)), needs_film=True, temporally_correlated=True)) is None


def test_a_film_in_which_nothing_moves_fits_no_worse() -> None:
    power = np.mean((PATHS - PATHS.mean(axis=0)) ** 2)
    assert change_power(compared(PATHS + 1.0)) == pytest.approx(power, rel=1e-6)
    wrong = np.full(PATHS.shape, 0.9 * power**0.5)
    (sentence,) = doubts_of_motion(at(PATHS + 1.0, wrong), 1.0)
    assert sentence.startswith("the estimate does not explain the motion: it leaves 0.81 times the residual of a film in which")
    assert doubts_of_motion(at(PATHS + 1.0, 0.1 * wrong), 1.0) == []
    assert doubts_of_motion(at(PATHS + 1.0, wrong), power) == []  # motions below the noise are not seen


def test_a_body_that_never_meets_its_mask_is_said() -> None:
    masks = np.zeros((4, 16, 16))
    masks[:, 2:6, 2:6] = 1.0
    loss, frames = MaskLoss(masks), range(4)
    beside = np.roll(masks, 8, axis=2)
    (sentence,) = loss.doubts(torch.as_tensor(masks - beside).flatten(1), frames)
    assert sentence.startswith("the bodies never meets the mask")
    assert loss.doubts(torch.as_tensor(masks - np.roll(masks, 2, axis=2)).flatten(1), frames) == []
    assert len(loss.doubts(torch.as_tensor(masks).flatten(1), frames)) == 1  # the body is nowhere in the picture


def test_starts_with_one_loss_at_different_places_are_not_one_minimum() -> None:
    places = np.array([[0.119, 0.5], [0.289, 0.5], [0.121, 0.5], [0.119, 0.5]])
    status = status_of_starts(np.array([1.0, 1.01, 1.02, 2.0]), 0, [], places)
    assert status == ["best", "same loss", "same minimum", "higher loss"]
    # With errors of the film that explain an excess of half a percent, the film decides against the second place.
    status_of_film = status_of_starts(np.array([1.0, 1.01, 1.02, 2.0]), 0, [], places, 0.005)
    assert status_of_film == ["best", "higher loss", "same minimum", "higher loss"]
    assert status_of_starts(np.array([1.0, 1.2]), 0, [], places, 0.3) == ["best", "same loss"]
    unknowns = Unknowns({"a": Param(1.0, low=0.0, high=2.0)})
    (remark,) = remarks_on(unknowns, np.array([1.0]), status)
    assert remark.startswith("2 starts end with the same loss at different estimates")


def test_a_start_at_which_the_film_shows_more_is_preferred(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the first start the film does not show b, at the second it does, and at the third it fits worse."""
    unknowns = Unknowns({"a": Param(1.0, low=0.0, high=2.0), "b": Param(1.0, low=0.0, high=2.0)})
    final = np.array([[1.0, 0.5], [1.0, 1.0], [1.0, 1.5]])

    def linearised(_scene: object, _comparison: object, _unknowns: object, place: np.ndarray) -> Linearisation:
        columns = torch.eye(2, dtype=torch.float64).repeat(8, 1)
        columns[:, 1] *= 0.0 if place[1] < 0.9 else 1.0
        comparison = SimpleNamespace(
            loss=LinearLoss({}, torch.zeros(2)), frames=(0, 1), observation_count=16.0, blocks=np.zeros(8, dtype=int)
        )
        return Linearisation(0.01 * torch.ones(16, dtype=torch.float64), columns, place, comparison)

    monkeypatch.setattr("risp_torch.inversion.diagnostics.alternative_minima.linearise", linearised)
    problem = SimpleNamespace(scene=None, loss=SimpleNamespace(non_smooth=False))

    def chosen(*losses: float) -> tuple[int, list[str]]:
        ends = SimpleNamespace(unknowns=unknowns, losses=np.array(losses), best=0, final=final, comparison=None)
        replaced = "risp_torch.inversion.diagnostics.alternative_minima.replace"
        monkeypatch.setattr(replaced, lambda ends, best: SimpleNamespace(best=best))
        ends, sentences = best_observed(problem, ends)
        return ends.best, sentences

    best, (sentence,) = chosen(1.0, 1.1, 1.5)
    assert best == 1 and sentence.startswith("start 2 is the estimate, as it fits the film as well as start 1 and shows b")
    best, (sentence,) = chosen(1.0, 1.5, 1.4)
    assert best == 0 and sentence == "the film shows b at the end of start 3, which fits it less well"
