"""Error bars of residuals that are correlated in space and time: sums of scores, and how often the bars hold the truth."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from risp_torch import Param
from risp_torch.inversion import Unknowns
from risp_torch.inversion.problem.linearisation import Linearisation
from risp_torch.inversion.problem.residual_blocks import BlockOrder, block_scores, block_scores_of, scores_of_sizes
from risp_torch.inversion.uncertainty.compression import beyond_blocks, size_of_moves
from risp_torch.inversion.uncertainty.covariance import CovarianceEstimate, error_bars

FRAMES, SIDE = 24, 32
ONE = Unknowns({"a": Param(1.0, low=-50.0, high=50.0)})


def linear(random: np.random.Generator, errors: np.ndarray, *, correlated: bool = False) -> tuple[Linearisation, float]:
    """The minimum of a linear model with one unknown whose observations [FRAMES, SIDE] have these errors, and its error."""
    column = 1.0 + 0.3 * random.normal(size=(FRAMES, SIDE))
    error = float((column * errors).sum() / (column**2).sum())  # of the estimate
    residual = torch.as_tensor((errors - error * column).ravel())
    comparison = SimpleNamespace(
        frames=tuple(range(FRAMES)), last=FRAMES - 1, blocks=np.arange(SIDE) // 4, observation_count=float(FRAMES * SIDE),
        loss=SimpleNamespace(temporally_correlated=correlated, noise=None),
    )  # fmt: skip
    return Linearisation(residual, torch.as_tensor(100.0 * column.reshape(-1, 1)), np.ones(1), comparison), error


def held(kind: str, count: int = 400) -> tuple[float, float]:
    """How often bars of 1.96 standard deviations hold the truth, and the median ratio of bars to those of the smallest blocks."""
    random, inside, ratios = np.random.default_rng(3), [], []
    for _ in range(count):
        errors = random.normal(size=(FRAMES, SIDE))
        if kind == "frames":  # each frame is off as a whole
            errors = 0.2 * errors + random.normal(size=(FRAMES, 1))
        at, error = linear(random, errors)
        sd = float(error_bars(at, ONE, floor=1e-12).sd[0])
        covariances = CovarianceEstimate.of(at, 1e-12)
        inside.append(abs(error) <= 1.96 * sd)
        variance = max(covariances.iid_covariance[0, 0], covariances.sandwich_covariances[0, 0, 0])
        ratios.append(sd / (100.0 * np.sqrt(variance)))
    return float(np.mean(inside)), float(np.median(ratios))


def test_samples_in_block_order_have_the_scores_of_their_rows() -> None:
    """Blocks of 12, 12 and 8 observations: the last one repeats observations that must not count."""
    random = np.random.default_rng(4)
    at, _error = linear(random, random.normal(size=(FRAMES, SIDE)))
    at.comparison.blocks = np.arange(SIDE) // 12
    rows = torch.as_tensor(random.normal(size=(3, FRAMES * SIDE)))
    samples = BlockOrder.of(at.comparison, rows.device).ordered(rows)
    assert samples.shape == (FRAMES, 3, 3, 12)
    scores = block_scores_of(at, rows, samples)
    products = (rows.numpy().reshape(3, FRAMES, SIDE) * at.jacobian.numpy().reshape(FRAMES, SIDE)).reshape(3, -1, 4, SIDE)
    wanted = np.stack([products[..., block].sum(axis=(2, 3)) for block in (slice(12), slice(12, 24), slice(24, SIDE))], axis=-1)
    for index, row in enumerate(wanted):
        np.testing.assert_allclose(scores[index].reshape(-1, 3), row, atol=1e-11)
        np.testing.assert_allclose(scores[3 + index].reshape(-1, 3), row, atol=1e-11)


def test_bars_hold_where_each_frame_is_off_as_a_whole() -> None:
    share, _ = held("frames")
    assert 0.90 <= share <= 0.99, share


def test_bars_of_independent_errors_hardly_grow() -> None:
    share, ratio = held("pixels")
    assert 0.93 <= share <= 0.995 and ratio < 1.15, (share, ratio)


@pytest.mark.parametrize("common", [0.0, 0.4])
def test_a_shift_that_blocks_contain_is_not_added_again(common: float) -> None:
    """Films with equal errors in each block, and a part that all blocks have in common, whose size differs between films."""
    random, errors_in_bars = np.random.default_rng(5), []

    def errors() -> np.ndarray:
        own = random.normal(size=(FRAMES // 4, SIDE // 4)).repeat(4, axis=0).repeat(4, axis=1)
        return own + common * random.normal()

    for _ in range(300):
        at, error = linear(random, errors())
        sd = 100.0 * np.sqrt(CovarianceEstimate.of(at, 1e-12).variances)
        shift = size_of_moves(np.array([[linear(random, errors())[1]] for _ in range(10)]))
        errors_in_bars.append(abs(error) / np.hypot(sd, beyond_blocks(shift, sd))[0])
    assert np.mean(np.array(errors_in_bars) <= 1.96) >= 0.92
    assert 0.5 <= np.median(errors_in_bars) <= 0.7


def test_scores_of_all_sizes_add_up_to_the_slope() -> None:
    random = np.random.default_rng(1)
    at, _ = linear(random, random.normal(size=(FRAMES, SIDE)))
    at = Linearisation(at.residual + 0.1, at.jacobian, at.scaled, at.comparison)
    slope = float(at.normal_equations[1][0])
    first, frames, bands = scores_of_sizes(at)
    np.testing.assert_array_equal(first, block_scores(at))
    assert [len(first), len(frames), len(bands)] == [8 * 6, FRAMES, 4 * 6]
    for scores, blocks in ((first, None), (frames, FRAMES), (bands, 24)):
        factor = 1.0 if blocks is None else np.sqrt(blocks / (blocks - 1))
        assert scores.sum() == pytest.approx(factor * slope, rel=1e-9)


def test_errors_that_last_have_their_own_blocks_alone() -> None:
    random = np.random.default_rng(2)
    at, _ = linear(random, random.normal(size=(FRAMES, SIDE)), correlated=True)
    assert len(scores_of_sizes(at)) == 1
