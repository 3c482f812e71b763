"""Error bars beyond the Jacobian: searches that have not arrived, compression, noise, errors that last, starts that scatter."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from risp_torch import Param, PictureLoss
from risp_torch.files.film.curves import linear_to_srgb, srgb_to_linear
from risp_torch.inversion import Uncertainty, Unknowns
from risp_torch.inversion.losses.loss import pixel_blocks
from risp_torch.inversion.losses.whitening import Whitening
from risp_torch.inversion.problem.linearisation import Linearisation, newton_step
from risp_torch.inversion.problem.residual_blocks import block_scores, correlation_frames
from risp_torch.inversion.problem.search_settings import NewtonSteps
from risp_torch.inversion.report.result import remarks_on
from risp_torch.inversion.solvers.film_problem import FilmProblem
from risp_torch.inversion.solvers.refinement import LONGER_STEPS, refinement_policy
from risp_torch.inversion.uncertainty.compression import (
    CompressedFilm,
    compression_moves,
    compression_power,
    compression_quality,
    noise_variance,
    size_of_moves,
)
from risp_torch.inversion.uncertainty.covariance import CovarianceEstimate, widened
from risp_torch.inversion.uncertainty.distance import distance_in_steps, widened_by_distance
from risp_torch.inversion.uncertainty.flatness import flatness
from risp_torch.inversion.uncertainty.misfit import MISFIT_RATIO, doubts_of_misfit, film_noise, widened_by_misfit
from risp_torch.inversion.uncertainty.scatter_of_starts import excess_by_errors, scatter_of_starts
from risp_torch.least_squares.damping import limited
from risp_torch.least_squares.loop import Starts, minimise
from ti_sim.base.errors import UserError

TWO = Unknowns({"a": Param(1.0, low=0.0, high=2.0, unit="m"), "b": Param(1.0, low=0.1, high=10.0, scale="log10")})


def linearised(residual: torch.Tensor, frames: int = 3) -> Linearisation:
    """Observations that answer to two unknowns by two columns at right angles."""
    jacobian = torch.eye(2, dtype=torch.float64).repeat(len(residual) // 2, 1)
    comparison = SimpleNamespace(frames=tuple(range(frames)), observation_count=float(len(residual)))
    return Linearisation(residual.double(), jacobian, np.ones(2), comparison)


# -- a search that has not arrived ----------------------------------------------------------------------------------------


def test_a_long_next_step_is_said_and_covered() -> None:
    bars = Uncertainty(np.array([0.01, 0.02]), np.eye(2), [True, True], [])
    wider, (sentence,) = widened_by_distance(bars, TWO, np.array([0.005, -0.06]))
    assert sentence.startswith("not converged: the next Gauss-Newton step would move b by 0.06 decades, 3 error bars")
    assert (wider.sd >= [0.01, 0.06]).all() and wider.observable == [True, True] and wider.unobservable == []
    farther, _ = widened_by_distance(bars, TWO, np.array([0.005, -0.06]), distance=7.0)
    np.testing.assert_allclose(farther.sd, np.hypot([0.01, 0.02], [0.035, 0.42]))
    widest, _ = widened_by_distance(bars, TWO, np.array([0.0, 1.0]), distance=1e9)
    assert widest.sd[1] == pytest.approx(2.0, rel=1e-3)  # its range
    assert widened_by_distance(bars, TWO, np.array([0.0099, -0.0199])) == (bars, [])
    assert widened_by_distance(bars, TWO, np.array([0.0099, -0.0199]), residual_fraction=0.5)[1][0].endswith("from other starts")


def test_the_way_that_is_left_is_as_long_as_the_loss_is_large() -> None:
    """Residuals of 0.1 of which the columns explain a half: the step would take half of what has to go."""
    at = linearised(torch.tensor([0.1, 0.1, 0.1, -0.1]).repeat(50))
    step = np.array([0.1, 0.0])
    assert distance_in_steps(at, step, 0.0) == pytest.approx(2.0) and distance_in_steps(at, step, 0.004) == pytest.approx(1.2)
    assert distance_in_steps(at, step, 0.009) == distance_in_steps(at, step, None) == 1.0


def test_what_the_film_does_not_show_need_not_arrive() -> None:
    bars = Uncertainty(np.array([0.01, 0.02]), np.eye(2), [True, False], [])
    assert widened_by_distance(bars, TWO, np.array([0.0, 5.0])) == (bars, [])


def test_a_misfit_is_said_with_its_size() -> None:
    assert doubts_of_misfit(MISFIT_RATIO, 1e-3, 2.5e-4, unmoved=False) == []
    (sentence,) = doubts_of_misfit(20.0, 1e-3, 5e-5, unmoved=True)
    assert sentence.startswith("nothing fits this film: the best start, a guess that no step has changed, leaves 20 times what")
    assert "the error bars are widened 4.5 times" in sentence


# -- compression and noise ------------------------------------------------------------------------------------------------


def test_compression_moves_the_estimate_by_what_its_errors_look_like() -> None:
    """Errors that look like a move of both unknowns are read as that move, in films with errors as large as the residual's."""
    at = linearised(torch.full((600,), 0.02))
    move = torch.tensor([0.02, -0.02]).repeat(300).double()
    films = [CompressedFilm(500.0, 0.1 * move.flip(0)), CompressedFilm(200.0, move), CompressedFilm(50.0, 5 * move)]
    np.testing.assert_allclose(compression_moves(at, films), 0.02 * np.array([[1, -1], [-1, 1], [1, -1]]), rtol=1e-4)
    np.testing.assert_allclose(compression_moves(at, films[1:]), 0.02 * np.array([[1, -1], [1, -1]]), rtol=1e-4)
    # The film whose errors are as large as the residual at another place: half as large errors, scaled to the residual.
    elsewhere = compression_moves(at, films, lambda film: [CompressedFilm(200.0, 0.5 * film.residual.flip(0))])
    np.testing.assert_allclose(elsewhere, 0.02 * np.array([[1, -1], [-1, 1], [1, -1], [-1, 1]]), rtol=1e-4)


def test_a_film_that_hardly_moves_an_estimate_by_chance_is_not_alone() -> None:
    np.testing.assert_allclose(size_of_moves(np.array([[0.0, 3.0], [2.0, 1.0], [-2.0, 1.0]])), [np.sqrt(8 / 3), 3.0])


def test_the_size_of_a_file_tells_how_strongly_it_was_compressed() -> None:
    films = [CompressedFilm(size, torch.full((4,), error)) for size, error in ((800.0, 0.01), (200.0, 0.02), (50.0, 0.08))]
    assert compression_power(films, 200.0) == pytest.approx(4e-4, rel=1e-4)
    assert compression_power(films, 100.0) == pytest.approx(0.02 * 0.08, rel=1e-4)  # half the way, in logarithms
    assert compression_power(films, 9000.0) == pytest.approx(1e-4, rel=1e-4)


def test_the_size_of_a_file_tells_the_quality() -> None:
    films = [CompressedFilm(size, torch.zeros(4), crf=crf) for size, crf in ((800.0, 8), (200.0, 18), (50.0, 28))]
    assert [compression_quality(films, size) for size in (200.0, 100.0, 190.0, 9e3, 1.0)] == [18, 23, 18, 8, 28]


def test_a_film_s_noise_is_that_of_pixels_that_no_body_covers() -> None:
    """A sixth of the mean square of second differences in time, of what stands still in the film of the estimate."""
    random, sigma = np.random.default_rng(0), 0.02
    still = np.full((9, 24, 24, 3), 0.4)
    moving = still.copy()
    moving[::2, :12] += 0.3  # a half that flickers
    film = torch.as_tensor(moving + sigma * random.normal(size=still.shape))
    assert film_noise(film, torch.as_tensor(moving)) == pytest.approx(sigma**2, rel=0.05)
    assert film_noise(film, torch.as_tensor(still)) > 10 * sigma**2  # an estimate in which nothing moves counts the flicker
    drift = torch.as_tensor(still + 0.01 * np.arange(9)[:, None, None, None])  # a slow change is no noise
    assert film_noise(drift, torch.as_tensor(still)) == pytest.approx(0.0, abs=1e-12)
    assert film_noise(film[:2], torch.as_tensor(moving[:2])) is None
    assert film_noise(film, torch.as_tensor(0.5 * random.normal(size=still.shape))) is None


def test_fitted_numbers_take_degrees_of_freedom_from_the_noise() -> None:
    """The variance of errors of which K unknowns explain a part is the sum of squares divided by n - K."""
    residual = torch.tensor([0.1, -0.1, 0.2, 0.0, -0.2, 0.1], dtype=torch.float64)
    comparison = SimpleNamespace(
        frames=(0, 1, 2), observation_count=6.0, blocks=np.zeros(2, dtype=int),
        loss=SimpleNamespace(temporally_correlated=False, noise=None),
    )  # fmt: skip
    at = Linearisation(residual, torch.eye(2, dtype=torch.float64).repeat(3, 1), np.ones(2), comparison)
    assert CovarianceEstimate.of(at, 1e-12).noise == pytest.approx(float((residual**2).sum()) / (6 - 2))


def test_the_parts_of_a_bar_add_up_to_it() -> None:
    bars = Uncertainty(np.array([0.03, 0.04]), np.eye(2), [True, True], [], components={"noise": np.array([0.03, 0.04])})
    bars = widened(bars, TWO, np.array([0.01, 0.0]), np.array([0.0, 0.02]))
    bars, _ = widened_by_distance(bars, TWO, np.array([0.1, 0.0]))
    bars = widened_by_misfit(bars, 9.0, np.array([2.0, 0.1]))
    assert list(bars.components) == ["noise", "starts", "compression", "distance", "misfit"]
    np.testing.assert_allclose(np.sqrt(sum(size**2 for size in bars.components.values())), bars.sd)
    assert bars.components["distance"][0] == pytest.approx(0.1) and bars.components["misfit"][1] > 0


def test_noise_is_told_from_bodies_out_of_place() -> None:
    random = np.random.default_rng(0)
    for sigma in (0.003, 0.03):
        pictures = sigma * random.normal(size=(3, 48, 48, 3))
        pictures[:, 10:26, 12:30] += 0.4  # a body that the simulation has elsewhere
        assert noise_variance(torch.as_tensor(pictures)) == pytest.approx(sigma**2, rel=0.25)
    assert noise_variance(torch.zeros(3, 2, 48, 3)) == 0.0


# -- a loss that is flatter than its model --------------------------------------------------------------------------------


def judged(
    law: Callable[[torch.Tensor], torch.Tensor], residual: torch.Tensor, monkeypatch: pytest.MonkeyPatch, first: float = 1.0
) -> np.ndarray:
    """Flatness of a film whose observations [M, 600] are a law of moves [M, 2] (parts of the ranges); bars are 1 %."""
    here = TWO.scaled(np.array([first, 1.0]))
    target = residual + law(torch.zeros(1, 2, dtype=torch.float64))[0]
    comparison = SimpleNamespace(worlds_at_once=5, target=target)
    at = Linearisation(residual, torch.eye(2, dtype=torch.float64).repeat(300, 1), here, comparison)
    at.__dict__["normal_equations"] = (at.jacobian.T @ at.jacobian).cpu().numpy(), (at.jacobian.T @ residual).cpu().numpy()

    def observed(scene: object, comparison: object, unknowns: Unknowns, scaled: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        moves = torch.as_tensor((scaled - at.scaled) / unknowns.scaled_range())
        return law(moves), (moves.abs() < 0.07).all(dim=1)  # farther away worlds diverge

    monkeypatch.setattr("risp_torch.inversion.uncertainty.flatness.predict", observed)
    covariance = np.eye(2) * 1e-4
    spread = CovarianceEstimate(np.array([300.0, 300.0]), np.eye(2), 1.0, covariance, covariance[None])
    return flatness(None, TWO, at, spread, spread.sizes)


def test_bars_are_as_wide_as_the_loss_is_flat(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a residual r along the second derivative takes from the curvature J^T J = 300, r . f'' = 180, makes bars 2.5 times as
    wide; noise takes nothing, a slope is not flatness, and a steeper loss makes no bar narrower."""
    random = torch.Generator().manual_seed(0)
    residual = 0.3 * torch.randn(600, generator=random, dtype=torch.float64)
    bend = residual / (residual @ residual)  # r . bend = 1

    def law(*curvatures: float) -> Callable[[torch.Tensor], torch.Tensor]:
        half = 0.5 * torch.tensor(curvatures, dtype=torch.float64)
        return lambda moves: moves.repeat(1, 300) + (moves**2 @ half)[:, None] * bend

    np.testing.assert_allclose(judged(law(180.0, 0.0), residual, monkeypatch), [2.5, 1.0], rtol=2e-2)
    np.testing.assert_allclose(judged(law(-100.0, 180.0), residual + 0.3, monkeypatch)[0], 1.0, rtol=1e-6)
    assert judged(law(600.0, 0.0), residual, monkeypatch)[0] == pytest.approx(4.0)  # as far as it was looked: 8 diverges


def test_an_unknown_on_its_bound_hides_no_flatness(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two unknowns, one at its upper bound: the loss is flat along the other, and along itself towards the inside."""
    random = torch.Generator().manual_seed(0)
    residual = 0.3 * torch.randn(600, generator=random, dtype=torch.float64)
    bend = 0.5 * residual / (residual @ residual)

    def law(moves: torch.Tensor) -> torch.Tensor:
        assert (moves[:, 0] <= 1e-12).all()
        return moves.repeat(1, 300) + 180.0 * (moves**2).sum(dim=1)[:, None] * bend

    np.testing.assert_allclose(judged(law, residual, monkeypatch, first=2.0), [2.5, 2.5], rtol=2e-2)


def test_a_dent_beside_the_estimate_widens_its_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Residuals that another dent, three error bars away, leaves no larger: the bar reaches it."""
    residual = torch.full((600,), 0.1, dtype=torch.float64)

    def dented(moves: torch.Tensor) -> torch.Tensor:
        beyond = torch.where(moves[:, :1] > 0.03, moves[:, :1] - 0.04, moves[:, :1])
        return torch.cat([beyond, moves[:, 1:]], dim=1).repeat(1, 300)

    level = torch.tensor([0.1, -0.1, -0.1, 0.1], dtype=torch.float64).repeat(150)
    np.testing.assert_allclose(judged(dented, level, monkeypatch), [4.0, 1.0], rtol=1e-6)
    assert judged(lambda moves: moves.repeat(1, 300), residual, monkeypatch).tolist() == pytest.approx([1.0, 1.0])


def test_a_stretched_spread_is_wider_along_its_directions() -> None:
    turned = np.array([[0.8, -0.6], [0.6, 0.8]])
    plain, robust = (turned @ np.diag(sizes) @ turned.T for sizes in ([0.01, 0.04], [0.09, 0.01]))
    spread = CovarianceEstimate(np.array([1.0, 2.0]), turned, 1.0, plain, robust[None])
    np.testing.assert_allclose(spread.sizes, [0.3, 0.2])
    wider = spread.stretched(np.array([2.0, 1.0]))
    np.testing.assert_allclose(wider.sizes, [0.6, 0.2])
    np.testing.assert_allclose(wider.values, [0.25, 2.0])
    np.testing.assert_allclose(turned[:, 0] @ spread.stretch(np.array([2.0, 1.0])), 2 * turned[:, 0])


def test_what_does_not_fit_widens_error_bars_up_to_the_range() -> None:
    bars = Uncertainty(np.array([0.01, 0.9]), np.eye(2), [True, True], [])
    assert widened_by_misfit(bars, MISFIT_RATIO, np.array([2.0, 2.0])) is bars
    np.testing.assert_allclose(widened_by_misfit(bars, 9.0, np.array([2.0, 2.0])).sd, [0.03, 2.0])
    np.testing.assert_allclose(widened_by_misfit(bars, 9.0, np.array([2.0, 0.5])).sd, [0.03, 0.9])


# -- errors that last -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("frames", [1, 4, 10])
def test_an_error_that_stays_counts_once(frames: int) -> None:
    """The same error in n frames is one measurement; independent errors are n."""
    assert correlation_frames(linearised(torch.ones(6 * frames), frames)) == pytest.approx(frames)
    signs = torch.tensor([1.0, -1.0]).repeat(frames)[:frames].repeat_interleave(6)
    assert correlation_frames(linearised(signs, frames)) == pytest.approx(1.0)


def test_errors_that_fade_count_by_their_correlation() -> None:
    """c_k = a^k: 1 + 2 sum c_k = (1 + a) / (1 - a)."""
    random, memory, frames, outputs = np.random.default_rng(1), 0.6, 4000, 40
    rows = [random.normal(size=outputs)]
    for _ in range(frames - 1):
        rows.append(memory * rows[-1] + np.sqrt(1 - memory**2) * random.normal(size=outputs))
    counted = correlation_frames(linearised(torch.as_tensor(np.ravel(rows)), frames))
    assert counted == pytest.approx((1 + memory) / (1 - memory), rel=0.05)


def test_whitening_is_not_transposed() -> None:
    """Frames from the left, outputs from the right, neither transposed: their factors are not symmetric."""
    random = np.random.default_rng(4)
    mixed = np.array([[1.0, 0.0, 0.0], [0.9, 0.3, 0.0], [-0.5, 0.8, 0.2]])
    errors = torch.as_tensor(random.normal(size=(400, 5, 3)) @ mixed.T)
    whitening = Whitening.of(errors)
    frames, outputs = whitening.frames.cpu().numpy(), whitening.outputs.cpu().numpy()
    expected = np.einsum("st,ntd,ed->nse", frames, errors.cpu().numpy(), outputs)
    np.testing.assert_allclose(whitening(errors).cpu().numpy(), expected, atol=1e-12)


@pytest.mark.parametrize(("height", "width", "stride"), [(16, 16, 1), (40, 48, 1), (12, 9, 4)])
def test_every_macroblock_has_its_number(height: int, width: int, stride: int) -> None:
    """Places share a number exactly where they lie over the same 16 x 16 pixels."""
    blocks = pixel_blocks(height, width, stride)
    assert blocks.shape == (height, width) and blocks.min() == 0
    named: dict[tuple[int, int], set[int]] = {}
    for row in range(height):
        for column in range(width):
            named.setdefault((row * stride // 16, column * stride // 16), set()).add(int(blocks[row, column]))
    assert all(len(numbers) == 1 for numbers in named.values())
    assert len(set.union(*named.values())) == len(named) == blocks.max() + 1


def test_scores_are_summed_over_macroblocks_and_four_frames() -> None:
    """J^T r of each block of pixels over frames 0 to 3, 4 to 7 and so on, also where some frames do not count."""
    random, blocks, frames = np.random.default_rng(6), np.array([0, 1, 1, 2, 0]), (0, 3, 4, 7, 9)
    residual, jacobian = random.normal(size=25), random.normal(size=(25, 2))
    at = Linearisation(
        torch.as_tensor(residual), torch.as_tensor(jacobian), np.ones(2), SimpleNamespace(frames=frames, last=9, blocks=blocks)
    )
    wanted = np.zeros((3, 3, 2))
    for k, frame in enumerate(frames):
        for place, block in enumerate(blocks):
            wanted[frame // 4, block] += jacobian[5 * k + place] * residual[5 * k + place]
    np.testing.assert_allclose(block_scores(at), wanted.reshape(9, 2), atol=1e-12)


class Dark(PictureLoss):
    """Pictures as they are."""

    kind = "dark"

    def read(self, pictures: torch.Tensor) -> torch.Tensor:
        return pictures

    def blocks(self, shape: object, size: object) -> np.ndarray:
        return np.zeros(1, dtype=int)

    def to_json(self) -> dict:
        return {}


def test_pictures_are_rounded_in_srgb() -> None:
    """A step of 1/255 in sRGB is a smaller one of linear colour where pictures are dark: its slope there times 1/255."""
    dark = torch.as_tensor(srgb_to_linear(np.random.default_rng(0).uniform(0.1, 0.12, (2, 64, 64, 3))))
    slope = (srgb_to_linear(np.array(0.111)) - srgb_to_linear(np.array(0.109))) / 0.002
    assert Dark().noise_floor(dark) == pytest.approx((slope / 255) ** 2 / 12, rel=0.1)
    assert linear_to_srgb(srgb_to_linear(np.array(0.11))) == pytest.approx(0.11)


# -- starts ---------------------------------------------------------------------------------------------------------------


def test_starts_scatter_about_the_best_one() -> None:
    """Those with no larger excess count, relative to the best one, which after wide steps need not have the lowest loss."""
    final = np.array([[1.0, 1.0], [1.1, 1.0], [1.5, 1.0], [0.2, 1.0]])
    losses = np.array([1.0, 1.19, 1.21, np.inf])
    np.testing.assert_allclose(scatter_of_starts(TWO, final, losses, 0, 0.2), [np.std([1.0, 1.1], ddof=1), 0.0])
    np.testing.assert_allclose(scatter_of_starts(TWO, final, losses, 1, 0.1), [np.std([1.0, 1.1, 1.5], ddof=1), 0.0])
    np.testing.assert_allclose(scatter_of_starts(TWO, final, losses, 0, 0.1), 0.0)


@pytest.mark.parametrize("together", [1, 5])
def test_the_truth_has_no_larger_excess_than_errors_explain(together: int) -> None:
    """A linear film whose errors come in groups that are equal: its loss at the truth is beyond that at the minimum by less than
    the limit in 99 of 100 films, and by less than half the limit not that often."""
    random, inside, nearer = np.random.default_rng(4), [], []
    jacobian = random.normal(size=(200, 2)).repeat(together, axis=0)
    comparison = SimpleNamespace(
        frames=(0,), last=0, blocks=np.arange(200).repeat(together), observation_count=200.0 * together,
        loss=SimpleNamespace(temporally_correlated=False, noise=None),
    )  # fmt: skip
    for _ in range(400):
        errors = random.normal(size=200).repeat(together)
        step, *_ = np.linalg.lstsq(jacobian, errors, rcond=None)
        left = errors - jacobian @ step
        spread = CovarianceEstimate.of(
            Linearisation(torch.as_tensor(left), torch.as_tensor(jacobian), np.ones(2), comparison), 1e-9
        )
        limit, excess = excess_by_errors(spread.values, spread.sizes, 1e-9), errors @ errors - left @ left
        inside.append(excess <= limit)
        nearer.append(excess <= 0.5 * limit)
    assert 0.97 <= np.mean(inside) and np.mean(nearer) <= 0.96, (np.mean(inside), np.mean(nearer))


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (["best", "stopped early", "stopped early"], None),  # nothing is known of where these would have come to
        (["best"], None),
        (["best", "same minimum", "higher loss"], None),
        (["best", "higher loss", "stopped early", "diverged"], "only 1 of the 3 starts that ran to the end"),
    ],
)
def test_only_starts_that_went_on_count(status: list[str], words: str | None) -> None:
    remarks = remarks_on(TWO, np.array([1.0, 1.0]), status)
    assert (remarks == []) if words is None else remarks[0].startswith(words)


# -- the usual search -----------------------------------------------------------------------------------------------------


def test_horizons_grow_to_the_whole_film() -> None:
    assert NewtonSteps().horizons(35) == [6, 8, 10, 12, 15, 19, 24, 30, 35]
    assert NewtonSteps(first_frames=3, growth=2).horizons(10) == [3, 6, 10]
    assert NewtonSteps().horizons(1) == [1] and NewtonSteps(first_frames=50).horizons(4) == [4]
    for wrong in ({"rounds": 0}, {"first_frames": 0}, {"growth": 1.0}):
        with pytest.raises(UserError, match=next(iter(wrong))):
            NewtonSteps(**wrong)


def test_a_step_goes_where_residuals_and_smoothness_lead() -> None:
    """(J^T J + H) step = J^T r - H x for a penalty x^T H x; what is undamped and short is taken whole."""
    random = np.random.default_rng(3)
    root, place = random.normal(size=(2, 2)), 0.1 * random.normal(size=2)
    prior = 40.0 * root @ root.T
    at = replace(linearised(torch.as_tensor(0.1 * random.normal(size=12))), prior_matrix=prior, prior_gradient=-prior @ place)
    jacobian, residual = at.jacobian.cpu().numpy(), at.residual.cpu().numpy()
    wanted = np.linalg.solve(jacobian.T @ jacobian + prior, jacobian.T @ residual - prior @ place)
    assert np.abs(wanted).max() < 0.15 and np.abs(prior @ place).max() > np.abs(jacobian.T @ residual).max()
    policy = NewtonSteps().policy(stages=3, margin=0.0, implicit=False)

    def step(at: Linearisation, damping: float, length: float) -> np.ndarray:
        return limited(policy.damping.step(at.equations, damping), length, policy.limit)

    np.testing.assert_allclose(step(at, 1e-12, 1.0), wanted, rtol=1e-6)
    np.testing.assert_allclose(newton_step(at, damping=1e-12), wanted, rtol=1e-6)
    normal = jacobian.T @ jacobian + prior
    ridge = 0.3 * np.diag(np.diag(normal) + residual @ residual)  # a move over a range costs as much as the whole residual
    np.testing.assert_allclose(step(at, 0.3, 1.0), np.linalg.solve(normal + ridge, normal @ wanted), rtol=1e-9)
    np.testing.assert_allclose(step(at, 0.3, 1.5), 1.5 * step(at, 0.3, 1.0), rtol=1e-12)
    long = replace(at, prior_gradient=-100 * prior @ place)
    assert np.abs(step(long, 1e-12, 1.0)).max() == pytest.approx(0.15)


@pytest.mark.parametrize(("implicit", "length", "batches"), [(False, 1.0, [2]), (True, 8.0, [4])])
def test_where_worlds_cost_time_longer_steps_are_tried_first(
    implicit: bool, length: float, batches: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At edges the residual gives the direction, and the Jacobian, which is as wide as the edges, a step that is far too short.
    Damped steps that are equal are one candidate."""
    at = linearised(0.01 * torch.as_tensor(np.random.default_rng(3).normal(size=12)))
    way, start, evaluated = newton_step(at, damping=1e-12), np.array([1.0, 0.0]), []

    def away(points: np.ndarray) -> np.ndarray:
        evaluated.append(len(points))
        return np.linalg.norm(points - start - 20 * way * TWO.scaled_range(), axis=-1)

    monkeypatch.setattr("risp_torch.inversion.solvers.film_problem.linearise", lambda *_: at)
    losses = "risp_torch.inversion.solvers.film_problem.losses_at"
    monkeypatch.setattr(losses, lambda _scene, _film, _unknowns, points: away(points))
    policy = replace(NewtonSteps(rounds=1).policy(stages=1, margin=0.0, implicit=implicit), horizon=None)
    problem = FilmProblem(None, None, TWO)
    problem.reevaluates = True
    starts = Starts.begin([start], policy)
    starts.damping[:] = 1e-6
    minimise(problem, starts, policy)
    np.testing.assert_allclose(starts.points[0], start + length * way * TWO.scaled_range(), rtol=1e-4)
    assert evaluated == batches and starts.damping[0] == 1e-6 and starts.objectives[0] == away(starts.points[0])


def test_where_worlds_cost_time_refinement_takes_one_damping_and_no_valley() -> None:
    explicit, implicit, last = (
        refinement_policy(2, 3, thorough=thorough, longer=True, implicit=slow)
        for thorough, slow in ((True, False), (True, True), (False, False))
    )
    assert len(explicit.search.dampings) == 3 and explicit.valley is not None
    for policy in (implicit, last):
        assert policy.search.dampings == (1e-3,) and policy.valley is None
    assert implicit.termination.hopeless_rounds == 10.0 and last.termination.hopeless_rounds is None
    assert refinement_policy(41, 3, thorough=True, longer=True, implicit=False).search.lengths[0] == 30.0


def test_refinement_tries_longer_steps_where_edges_make_gauss_newton_steps_short() -> None:
    """Not with implicit steps, nor of motions; the damped steps of one unknown are the same but for their lengths."""
    longer = {
        (longer, implicit): refinement_policy(2, 3, thorough=True, longer=longer, implicit=implicit).search.longer
        for longer in (True, False)
        for implicit in (True, False)
    }
    assert longer == {(True, False): LONGER_STEPS, (True, True): (), (False, True): (), (False, False): ()}
    assert min(LONGER_STEPS) > 1.0
    assert refinement_policy(1, 3, thorough=True, longer=True, implicit=False).search.dampings == (1e-6,)
