"""Score tests of known numbers: their level under noise, correlated errors and compression, and the bias that they measure."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from risp_torch import Param
from risp_torch.inversion import Unknowns
from risp_torch.inversion.diagnostics.score_tests import FamilyScores, FilmErrors, ScoreTest, score_test
from risp_torch.inversion.problem.linearisation import Linearisation, linearise
from risp_torch.inversion.problem.residual_blocks import BlockOrder
from tests.reference.linear_films import FRAMES, SIDE, LinearLoss, LinearScene, block_errors, compared

UNKNOWNS = Unknowns({"a": Param(1.0, low=-10.0, high=10.0)})
NOISE, COUNT = 0.01, 12
FREE = np.full(COUNT, -3.0), np.full(COUNT, 3.0)


def at_minimum(residual: np.ndarray, column: np.ndarray) -> Linearisation:
    """The best a for a film with a = 1, a column of derivatives and further observations [FRAMES, SIDE]."""
    target = torch.as_tensor(column + residual)
    a = float((column * (column + residual)).sum() / (column**2).sum())
    return linearise(LinearScene(), compared(LinearLoss({"a": torch.as_tensor(column)}, target)), UNKNOWNS, np.array([a]))


def order() -> BlockOrder:
    """Order of the observations of ``at_minimum``."""
    zeros = np.zeros((FRAMES, SIDE))
    return BlockOrder.of(at_minimum(zeros, zeros + 1.0).comparison, torch.device("cpu"))


def with_compressed(variance: float, samples: torch.Tensor) -> FilmErrors:
    """Errors of a film with residuals [n, P] of compressed films."""
    return FilmErrors.of_compression(variance, samples, order(), len(samples))


def drawn(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives by the unknown [FRAMES, SIDE], and by the numbers of a family [P, COUNT]."""
    return random.normal(size=(FRAMES, SIDE)), random.normal(size=(FRAMES * SIDE, COUNT))


def scored(residual: np.ndarray, column: np.ndarray, columns: np.ndarray, errors: FilmErrors, **limits: object) -> ScoreTest:
    return result_of(at_minimum(residual, column), columns, errors, **limits)


def result_of(
    at: Linearisation, columns: np.ndarray, errors: FilmErrors, limits: tuple[np.ndarray, np.ndarray] = FREE
) -> ScoreTest:
    scores = FamilyScores.of(at, torch.as_tensor(columns).to(at.jacobian), errors)
    assert scores is not None
    test = score_test(at, scores, limits, errors)
    assert test is not None
    return test


def test_p_values_of_a_right_scene_are_as_large_as_chance_makes_them_whatever_the_number_of_nuisances() -> None:
    """A score of twelve numbers is twelve times as long as that of one."""
    random = np.random.default_rng(0)
    p_values = []
    for _ in range(60):
        column, columns = drawn(random)
        test = scored(NOISE * random.normal(size=(FRAMES, SIDE)), column, columns, FilmErrors(NOISE**2))
        p_values.append(test.p_value)
        assert test.block_variance_ratio == pytest.approx(1.0, abs=0.9)
    assert 0.3 < np.mean(p_values) < 0.95 and np.mean(np.array(p_values) < 0.05) < 0.1, np.sort(p_values)[:5]


def test_errors_that_are_alike_in_blocks_are_no_evidence() -> None:
    """Without the blocks, each of their 36 equal errors would count."""
    random = np.random.default_rng(1)
    p_values = []
    for _ in range(60):
        column = block_errors(random)
        columns = np.stack([block_errors(random).ravel() for _ in range(2)], axis=1)
        limits = np.full(2, -3.0), np.full(2, 3.0)
        p_values.append(scored(NOISE * block_errors(random), column, columns, FilmErrors(NOISE**2), limits=limits).p_value)
    assert np.mean(np.array(p_values) < 0.01) < 0.05, np.sort(p_values)[:5]


def test_shifts_scatter_as_the_blocks_of_the_residual_do() -> None:
    """By plain numpy, of one number at right angles to the unknown: G blocks with F fitted numbers have G - F degrees.

    Known errors, at least of the residual's size s, are 30 / s^2 degrees beside them.
    """
    random = np.random.default_rng(7)
    column = random.normal(size=(FRAMES, SIDE))
    own = random.normal(size=(FRAMES, SIDE))
    own -= column * (own * column).sum() / (column**2).sum()
    at = at_minimum(NOISE * random.normal(size=(FRAMES, SIDE)), column)
    family = own + 0.5 * column
    columns = family.reshape(-1, 1)
    test = result_of(at, columns, FilmErrors(NOISE**2), (np.array([-3.0]), np.array([3.0])))
    residual = at.residual.reshape(FRAMES, SIDE).cpu().numpy()
    amplitude = (own * residual).sum() / ((own**2).sum() + NOISE**2)
    np.testing.assert_allclose(test.amplitudes, [amplitude], rtol=1e-6)
    np.testing.assert_allclose(20.0 * test.shift, [-0.5 * amplitude], rtol=1e-6)
    places, frames = at.comparison.blocks, np.array(at.comparison.frames) // 4
    scores = np.zeros((frames.max() + 1, places.max() + 1))
    np.add.at(scores, (frames[:, None], places[None]), own * (residual - amplitude * own))
    degrees = scores.size - 2
    known, clustered = NOISE**2 * (own**2).sum(), scores.size / degrees * (scores**2).sum()
    size = max(1.0, clustered / known)
    both = (30.0 / size * known + degrees * clustered) / (30.0 / size**2 + degrees)
    np.testing.assert_allclose(20.0 * test.shift_sd[:, 0], 0.5 * np.sqrt([known, both]) / (own**2).sum(), rtol=1e-5)
    np.testing.assert_allclose(test.freedom[1], 30.0 / size**2 + degrees)
    unknown = result_of(at, columns, FilmErrors(None), (np.array([-3.0]), np.array([3.0])))
    assert unknown.freedom[1] == degrees and 20.0 * unknown.shift_sd[1, 0] == pytest.approx(
        0.5 * np.sqrt(clustered) / (own**2).sum(), rel=1e-4
    )


def test_errors_of_compressed_films_are_no_evidence() -> None:
    """An error that every compressed film of the estimate has is not that of a wrong number."""
    random = np.random.default_rng(2)
    column, columns = drawn(random)
    noise, shape = NOISE * random.normal(size=(FRAMES, SIDE)), 0.05 * columns[:, :1].reshape(FRAMES, SIDE)
    blind = scored(noise + shape, column, columns, FilmErrors(NOISE**2))
    assert blind.p_value < 1e-4 and blind.block_variance_ratio > 3
    sample = torch.as_tensor(1.1 * shape.ravel())
    aware = scored(noise + shape, column, columns, with_compressed(NOISE**2, torch.stack([sample, 0.9 * sample])))
    assert aware.p_value > 0.05 and aware.block_variance_ratio < blind.block_variance_ratio


def test_a_fault_is_seen_beside_errors_that_all_compressed_films_have() -> None:
    """The mean of the films' errors is taken off the residual; it may be wrong by three tenths of itself."""
    random = np.random.default_rng(5)
    column, columns = drawn(random)
    first = columns[:, 0].reshape(FRAMES, SIDE)
    samples = torch.as_tensor(np.array([(first + 0.01 * random.normal(size=(FRAMES, SIDE))).ravel() for _ in range(10)]))
    errors = with_compressed(NOISE**2, samples)
    for fault, least, most in ((0.0, 0.05, 1.0), (1.7, 0.0, 1e-3)):
        residual = (1.0 + fault) * first + 0.01 * random.normal(size=(FRAMES, SIDE))
        test = scored(residual, column, columns[:, :1], errors, limits=(FREE[0][:1], FREE[1][:1]))
        assert least <= test.p_value < most, (fault, test.p_value)
        assert test.amplitudes[0] == pytest.approx(fault, abs=0.02)


def test_rounded_films_have_no_errors_in_common() -> None:
    """The mean of samples of rounding is chance: nothing is taken off the residual, and their mean square is the variance."""
    random = np.random.default_rng(8)
    values = [random.normal(size=FRAMES * SIDE) for _ in range(3)]
    samples = torch.as_tensor(np.array(values))
    rounded, compressed = FilmErrors.of_rounding(1.0, samples, order()), with_compressed(1.0, samples)
    *scatter, bias_error = rounded.scatter(values)
    assert rounded.bias == 0.0 and np.array_equal(scatter, values) and not bias_error.any()
    *scatter, bias_error = compressed.scatter(values)
    assert torch.allclose(compressed.bias, samples.mean(dim=0))
    np.testing.assert_allclose(bias_error, 2 * 0.3 * sum(values) / 3)
    np.testing.assert_allclose(scatter, np.sqrt(4 / 2 * 4 / 3) * (np.array(values) - sum(values) / 3))


def test_scores_of_some_numbers_are_those_of_all() -> None:
    random = np.random.default_rng(9)
    column, columns = drawn(random)
    at = at_minimum(NOISE * random.normal(size=(FRAMES, SIDE)), column)
    samples = torch.as_tensor(np.array([NOISE * block_errors(random).ravel() for _ in range(4)]))
    errors = replace(with_compressed(NOISE**2, samples), relative_variance=torch.rand(FRAMES * SIDE))
    scores = FamilyScores.of(at, torch.as_tensor(columns).to(at.jacobian), errors)
    assert scores is not None
    limits = FREE[0][:2], FREE[1][:2]
    of_all, alone = score_test(at, scores.subset([7, 2]), limits, errors), result_of(at, columns[:, [7, 2]], errors, limits)
    for name in ("amplitudes", "shift", "shift_sd", "unit_shift", "visible", "statistics", "freedom"):
        np.testing.assert_allclose(getattr(of_all, name), getattr(alone, name), rtol=1e-9, err_msg=name)
    np.testing.assert_allclose(of_all.block_variance_ratio, alone.block_variance_ratio, rtol=1e-9)


def test_many_numbers_are_tested_by_few_compressed_films() -> None:
    """The covariance of twelve scores is not that of ten films alone: chance makes p-values as small as it should."""
    random = np.random.default_rng(6)
    p_values = []
    for _ in range(40):
        column, columns = drawn(random)
        errors = [NOISE * block_errors(random) for _ in range(11)]
        samples = torch.as_tensor(np.array([each.ravel() for each in errors[1:]]))
        p_values.append(scored(errors[0], column, columns, with_compressed((0.1 * NOISE) ** 2, samples)).p_value)
    assert np.mean(np.array(p_values) < 0.05) <= 0.1 and np.mean(p_values) > 0.3, np.sort(p_values)[:5]


def test_the_shift_is_the_bias_of_what_was_left_out() -> None:
    random = np.random.default_rng(3)
    column, columns = drawn(random)
    columns[:, 0] += 0.5 * column.ravel()
    residual = 0.4 * columns[:, 0].reshape(FRAMES, SIDE) + NOISE * random.normal(size=(FRAMES, SIDE))
    at = at_minimum(residual, column)
    test = result_of(at, columns, FilmErrors(NOISE**2))
    assert test.amplitudes[0] == pytest.approx(0.4, abs=5e-3)
    assert at.scaled[0] + 20.0 * test.shift[0] == pytest.approx(1.0, abs=5e-3) and abs(20.0 * test.shift[0]) > 0.1
    assert 20.0 * test.shift_sd[0] < 5e-3 and test.shift_p_values[0] < 1e-4
    assert test.residual_decrease == pytest.approx(float((at.residual**2).sum()), rel=0.05)
    assert 20.0 * test.unit_shift[0, 0] == pytest.approx(-0.5, abs=0.1) and test.visible[0] == pytest.approx(1700, rel=0.1)


def test_a_number_on_its_limit_does_not_leave_it() -> None:
    """A film that a negative drag would explain shows no drag."""
    random = np.random.default_rng(4)
    column, columns = drawn(random)
    residual = -0.4 * columns[:, 0].reshape(FRAMES, SIDE) + NOISE * random.normal(size=(FRAMES, SIDE))
    low = FREE[0].copy()
    low[0] = 0.0
    assert scored(residual, column, columns, FilmErrors(NOISE**2)).amplitudes[0] == pytest.approx(-0.4, abs=5e-3)
    assert scored(residual, column, columns, FilmErrors(NOISE**2), limits=(low, FREE[1])).amplitudes[0] == 0.0
