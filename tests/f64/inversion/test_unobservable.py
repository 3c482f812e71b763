"""Unobservable directions are reported with their error bars; modes are counted, and averages have their own error bars."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from risp_torch import Param, PixelLoss, Scene
from risp_torch.inversion import Comparison, Uncertainty, Unknowns, error_bars
from risp_torch.inversion.problem.linearisation import Linearisation, newton_step
from risp_torch.inversion.uncertainty.covariance import widened
from risp_torch.inversion.uncertainty.unobservable import describe_direction, unobservable_directions
from studies.films.film_jobs import Measure, _in_modes, _measured

SPEED = Param([1.0, -2.0, 0.5], low=-4.0, high=4.0, unit="m/s")
MASS, STIFFNESS = (Param(1.0, low=0.1, high=10.0, scale="log10", unit=unit) for unit in ("kg", "N/m"))
FEW = Unknowns({"body.velocity": SPEED, "body.mass": MASS, "ground.stiffness": STIFFNESS})


@pytest.mark.parametrize(
    ("direction", "sd", "sentence"),
    [
        ((0, 1, 0, 0, 0), 0.4, "body.velocity[1] leaves no trace in the film at this estimate (error bar ± 3.2 m/s)"),
        ((0, 0, 0, 1, 0), 0.4, "body.mass leaves no trace in the film at this estimate (error bar ± 0.8 decades)"),
        (
            (0, 1, 0, 0, 0),
            400.0,
            "body.velocity[1] leaves no trace in the film at this estimate (error bar above 10 times its range)",
        ),
        ((0, 0, 0, 0.7, 0.7), 2.0, "body.mass, ground.stiffness only up to a common scale (error bar ± 2 times the ranges)"),
        (
            (0.8, 0, 0, 0.6, 0), 0.5, "body.velocity[0], body.mass only in combination (+body.velocity[0], +body.mass together "
            "leave no trace: error bar ± 0.5 times the ranges)",
        ),
    ],
)  # fmt: skip
def test_a_direction_is_named_with_its_error_bar(direction: tuple[float, ...], sd: float, sentence: str) -> None:
    assert describe_direction(np.array(direction, dtype=float), FEW, sd) == sentence


def test_many_directions_and_many_wide_error_bars_take_few_sentences() -> None:
    many = Unknowns({"cloth.velocity": Param(np.zeros((20, 3)), low=-4.0, high=4.0, unit="m/s")})
    sentences = unobservable_directions(np.eye(60)[:, :30], np.linspace(40.0, 0.3, 30), many)
    assert len(sentences) == 13 and sentences[-1].startswith("18 combinations more (error bars ± 0.3 times")
    bars = Uncertainty(np.full(60, 0.1), np.eye(60), [True] * 60, [])
    (sentence,) = widened(bars, many, np.full(60, 2.5), np.zeros(60)).unobservable
    assert sentence == (
        "60 of the 60 numbers of cloth.velocity are hardly fixed: their error bars of ± 2.5 m/s (median) are wider than a "
        "quarter of their ranges"
    )
    (single,) = widened(Uncertainty(np.ones(5), np.eye(5), [True] * 5, []), FEW, np.eye(5)[0] * 3, np.zeros(5)).unobservable[:1]
    assert single == "body.velocity[0] is hardly fixed: its error bar of ± 3.2 m/s is wider than a quarter of its range"


def linearised(prior: float = 0.0) -> tuple[Linearisation, Unknowns]:
    """A film of 4 x 4 pixels and 3 frames that sees the first of two numbers well, the second not at all."""
    unknowns = Unknowns({"a": Param(0.0, low=-1.0, high=1.0), "b": Param(0.0, low=-1.0, high=1.0)})
    generator = torch.Generator().manual_seed(0)
    comparison = Comparison.of_target(torch.zeros(3, 4, 4, 3, dtype=torch.float64))
    assert isinstance(comparison.loss, PixelLoss)
    jacobian = torch.stack([torch.ones(144), torch.zeros(144)], dim=1).double()
    residual = 0.01 * torch.randn(144, generator=generator, dtype=torch.float64)
    return Linearisation(residual, jacobian, np.zeros(2), comparison, prior * np.array([[1.0, -1], [-1, 1]])), unknowns


def test_modes_are_those_of_the_film_and_error_bars_know_of_smoothness() -> None:
    alone, tied = (error_bars(*linearised(prior)) for prior in (0.0, 1e4))
    assert alone.observable_modes == tied.observable_modes == 1
    np.testing.assert_allclose(np.abs(alone.modes), np.eye(2), atol=1e-12)
    assert alone.observable == [True, False] and "b leaves no trace in the film at" in alone.unobservable[0]
    assert tied.observable == [True, True] and tied.unobservable == []
    assert alone.sd[1] > 100 and tied.sd[1] < 0.01
    assert alone.sd[0] == pytest.approx(tied.sd[0], rel=0.3), "what leaves no trace does not widen other error bars"


def test_a_step_follows_the_film_and_smoothness() -> None:
    at, _ = linearised(prior=1e4)
    step = newton_step(at)
    assert step[0] == pytest.approx(step[1], rel=1e-3) and step[0] == pytest.approx(float(at.residual.mean()), rel=1e-3)


def test_errors_of_averages_and_of_what_the_film_tells() -> None:
    unknowns = Unknowns({"v": Param([1.0, 3.0], low=-5.0, high=5.0)})
    bars = Uncertainty(
        np.array([0.2, 0.2]), np.array([[1.0, -0.5], [-0.5, 1.0]]), [True, True], [], np.eye(2), np.array([0.02, 9.0])
    )
    result = SimpleNamespace(unknowns=unknowns, uncertainty=bars, final=np.array([[1.1, 3.4]]), best=0)
    measure = Measure("mean", lambda scene, values: values["v"].mean(), 0.2)
    error, bar = _measured(Scene(frame_dt=0.01, frames=1, substeps=1), result, {"v": np.array([1.0, 3.0])}, measure)
    assert error == pytest.approx(0.25 / 2) and bar == pytest.approx(0.1 / 2)  # variance (0.04 + 0.04 - 2 * 0.02) / 4
    count, error, bar = _in_modes(result, np.array([1.0, 3.0]))
    assert count == 1 and error == pytest.approx(0.1) and bar == pytest.approx(0.02 / 0.1)
