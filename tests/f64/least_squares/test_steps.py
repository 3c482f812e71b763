"""Normal equations, damped steps and step searches in closed form."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from risp_torch.least_squares.damping import KEPT, MarquardtDamping, MeanDiagonalDamping, TrustRegion, limited
from risp_torch.least_squares.equations import NormalEquations
from risp_torch.least_squares.jacobian import adjoint_rows, central_differences
from risp_torch.least_squares.step_search import FixedSteps, RegionSchedule, RelativeDampings, RisingDamping, distinct_steps

RANDOM = np.random.default_rng(1)
JACOBIAN, RESIDUAL = RANDOM.normal(size=(12, 3)), RANDOM.normal(size=12)
NORMAL, GRADIENT = JACOBIAN.T @ JACOBIAN, JACOBIAN.T @ RESIDUAL
EQUATIONS = NormalEquations.from_columns(torch.as_tensor(JACOBIAN.T), torch.as_tensor(RESIDUAL))
CURVATURE, OFFSET = np.diag([0.0, 40.0, 0.1]), np.array([0.0, 0.1, -0.4])


def test_columns_and_blocks_of_rows_give_the_same_equations() -> None:
    blocks = zip(torch.as_tensor(JACOBIAN).split(5), torch.as_tensor(RESIDUAL).split(5), strict=True)
    for equations in (EQUATIONS, NormalEquations.from_rows(blocks)):
        np.testing.assert_allclose(equations.matrix, NORMAL, rtol=1e-12)
        np.testing.assert_allclose(equations.gradient, GRADIENT, rtol=1e-12)
        assert equations.residual_square == pytest.approx(RESIDUAL @ RESIDUAL, rel=1e-12) and equations.is_finite
    with pytest.raises(ValueError, match="at least one block"):
        NormalEquations.from_rows([])


def test_jacobians_by_differences_and_by_reverse_mode_agree() -> None:
    point = np.array([0.3, -0.2, 0.5])

    def predict(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(torch.as_tensor(JACOBIAN) @ x) + x[..., :1] ** 2

    def predicted(points: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        rows = torch.stack([predict(torch.as_tensor(each)) for each in points])
        return rows, torch.ones(len(points), dtype=torch.bool)

    blocks = list(adjoint_rows(predict, torch.as_tensor(point), block=5))
    assert [len(rows) for rows, _ in blocks] == [5, 5, 2]
    rows = torch.cat([rows for rows, _ in blocks])
    torch.testing.assert_close(torch.cat([values for _, values in blocks]), predict(torch.as_tensor(point)))
    for at_once in (None, 2):
        columns, finite = central_differences(predicted, point, 1e-6 * np.eye(3), at_once=at_once)
        torch.testing.assert_close(columns.T / 2e-6, rows, rtol=1e-7, atol=1e-8)
        assert finite.all()


def test_differences_of_worlds_that_diverge_are_marked() -> None:
    def predicted(points: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        rows = torch.as_tensor(np.where(points[:, :1] > 0, np.nan, points))
        return rows, torch.as_tensor(points[:, 0] <= 0)

    _, finite = central_differences(predicted, np.zeros(2), np.eye(2))
    assert finite.tolist() == [False, True]
    with pytest.raises(ValueError, match="at least one move"):
        central_differences(predicted, np.zeros(2), np.zeros((0, 2)))


def test_priors_add_curvature_and_pull() -> None:
    prior = EQUATIONS.with_prior(CURVATURE, OFFSET)
    np.testing.assert_allclose(prior.matrix, NORMAL + CURVATURE)
    np.testing.assert_allclose(prior.gradient, GRADIENT - CURVATURE @ OFFSET)
    np.testing.assert_allclose(prior.prior_diagonal, np.diag(CURVATURE))
    np.testing.assert_allclose(prior.data_diagonal, np.diag(NORMAL))
    twice = prior.with_prior(CURVATURE, OFFSET)
    np.testing.assert_allclose(twice.prior_diagonal, 2 * np.diag(CURVATURE))
    np.testing.assert_allclose(twice.data_diagonal, np.diag(NORMAL))


def test_an_undamped_step_and_its_expected_decrease() -> None:
    step = np.linalg.solve(NORMAL, GRADIENT)
    for damping in (MarquardtDamping(), MarquardtDamping(truncated=True), MeanDiagonalDamping()):
        np.testing.assert_allclose(damping.step(EQUATIONS, 0.0), step, rtol=1e-9)
    fall = RESIDUAL @ RESIDUAL - np.sum((RESIDUAL - JACOBIAN @ step) ** 2)
    assert EQUATIONS.decrease(step) == pytest.approx(fall, rel=1e-9)
    assert abs(EQUATIONS.weakest_direction @ np.linalg.eigh(NORMAL)[1][:, 0]) == pytest.approx(1.0)


def test_the_scales_of_dampings() -> None:
    prior, size = EQUATIONS.with_prior(CURVATURE, OFFSET), RESIDUAL @ RESIDUAL
    matrix, gradient = NORMAL + CURVATURE, GRADIENT - CURVATURE @ OFFSET
    for damping, scales in (
        (MarquardtDamping(), np.diag(matrix) + size),
        (MarquardtDamping(residual_weight=0.0), np.diag(matrix)),
        (MarquardtDamping(residual_weight=0.0, with_priors=False), np.diag(NORMAL)),
        (MeanDiagonalDamping(below_priors=False), np.full(3, np.trace(matrix) / 3)),
    ):
        step = np.linalg.solve(matrix + 0.3 * np.diag(scales), gradient)
        np.testing.assert_allclose(damping.step(prior, 0.3), step, rtol=1e-9)
    ridge = 0.3 * np.trace(matrix) / 3
    capped = np.diag([ridge, min(ridge, 40.0), min(ridge, 0.1)])  # no more than by a prior
    np.testing.assert_allclose(MeanDiagonalDamping().step(prior, 0.3), np.linalg.solve(matrix + capped, gradient), rtol=1e-9)


def test_singular_equations_have_the_least_step() -> None:
    equations = NormalEquations(np.ones((2, 2)), np.ones(2))
    np.testing.assert_allclose(MarquardtDamping(residual_weight=0.0).step(equations, 0.0), [0.5, 0.5])


def test_a_trust_region_raises_the_damping_until_the_step_is_within() -> None:
    region, undamped = TrustRegion(), np.linalg.solve(NORMAL, GRADIENT)
    np.testing.assert_allclose(region.step(EQUATIONS, 10.0), undamped, rtol=1e-3)
    radius = 0.3 * np.abs(undamped).max()
    step = region.step(EQUATIONS, radius)
    assert 0.3 * radius < np.abs(step).max() <= radius
    assert (np.abs(region.step(EQUATIONS, np.array([1.0, 1e-3, 1.0]))) <= [1.0, 1e-3, 1.0]).all()


def test_a_step_is_limited_as_a_whole() -> None:
    step = np.array([0.4, -0.1])
    np.testing.assert_allclose(limited(step), step)
    np.testing.assert_allclose(limited(step, 1.0, 0.2), 0.5 * step)
    np.testing.assert_allclose(limited(step, 0.5, 0.2), 0.25 * step)  # a part of the limited step
    np.testing.assert_allclose(limited(step, 8.0, 0.2), 0.5 * step)  # no longer than the limit
    np.testing.assert_allclose(limited(step, 1.0, np.array([1.0, 0.05])), 0.5 * step)
    np.testing.assert_allclose(limited(np.zeros(2), 1.0, 0.2), 0.0)


def test_equal_steps_are_one_candidate() -> None:
    steps = [(1e-8, np.array([0.1, -0.05])), (1e-6, np.array([0.1, -0.0505])), (1e-2, np.array([0.1, -0.04])), (1.0, np.zeros(2))]
    assert [damping for damping, _ in distinct_steps(steps)] == [1e-8, 1e-2, 1.0]
    assert [damping for damping, _ in distinct_steps([(1.0, np.zeros(2)), (2.0, np.zeros(2))])] == [1.0]


def test_the_candidates_of_searches() -> None:
    assert list(FixedSteps((1.0, 2.0), (1.0, 0.5)).groups(9.0)) == [[(1.0, 1.0), (1.0, 0.5), (2.0, 1.0), (2.0, 0.5)]]
    search = RelativeDampings((0.1, 1.0, 10.0), first=1.0, least=0.1, most=50.0, rise=30.0, longer=(8.0, 2.0), at_once=3)
    assert [list(group) for group in search.groups(1.0)] == [
        [(0.1, 8.0), (0.1, 2.0)], [(0.1, 1.0), (1.0, 1.0), (10.0, 1.0)]
    ]  # fmt: skip
    assert search.accepted(1.0, 1e-9) == 0.1 and search.accepted(1.0, 3.0) == 3.0 and search.rejected(1.0) == 30.0
    assert search.rejected(10.0) == 50.0
    rising = RisingDamping(first=1.0, least=0.5, most=30.0, rise=5.0, fall=5.0)
    assert list(rising.groups(1.0)) == [[(1.0, 1.0)], [(5.0, 1.0)], [(25.0, 1.0)]]
    assert rising.accepted(1.0, 25.0) == 5.0 and rising.accepted(1.0, 1.0) == 0.5 and rising.rejected(1.0) == 1.0
    reusing = replace(rising, reuses=True)
    assert list(reusing.groups(20.0)) == [[(KEPT, 1.0)], [(20.0, 1.0)]]
    assert reusing.accepted(20.0, KEPT) == 20.0 and reusing.accepted(20.0, 20.0) == 4.0
    region = RegionSchedule(first=3.0, longer=2.0, shorter=0.3)
    assert region.accepted(1.0, 1.0) == 2.0 and region.accepted(2.0, 2.0) == 3.0 and region.rejected(1.0) == 0.3
