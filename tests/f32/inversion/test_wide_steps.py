"""Searches with differences over wide steps: rough losses, knots of sequences, penalties, several starts, wrong settings."""

from collections.abc import Callable
from copy import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from risp_torch import (
    WIDE_SEARCH,
    OptimiseSettings,
    Param,
    Scene,
    SearchStages,
    StateLoss,
    States,
    UserError,
    WideSteps,
    invert,
    load_scene,
)
from risp_torch.inversion import Comparison, Unknowns
from risp_torch.inversion.losses.whitening import Whitening
from risp_torch.inversion.problem.smoothness import Smoothness
from risp_torch.inversion.solvers.gradient_descent import History, descend
from risp_torch.inversion.solvers.wide_differences import Point, WideProblem, directions
from risp_torch.inversion.solvers.wide_steps import refine_whitened, wide_gauss_newton
from risp_torch.least_squares.termination import Acceptance
from risp_torch.risp import load_task
from risp_torch.scene.numbers import constant
from ti_sim.base.errors import DivergenceError

MASS = 3.0  # kg, the true one of the quadrotor
RIPPLE, WAVES = 0.02, 300.0  # height and radians per unit: slopes of 6 beside the outputs' own slope of 1
STEPS = WideSteps(widths=(0.1, 0.1, 0.05, 0.05, 0.05, 0.05))


class RippledLoss(StateLoss):
    """The true states as a network may read them: with ripples that are low, and steeper than what they lie on."""

    non_smooth = True

    def observe(self, *arguments: object) -> torch.Tensor:
        return rippled(super().observe(*arguments))

    def of_target(self, *arguments: object) -> torch.Tensor:
        return rippled(super().of_target(*arguments))


def rippled(outputs: torch.Tensor) -> torch.Tensor:
    return outputs + RIPPLE * torch.sin(WAVES * outputs)


class LinearFilm:
    """Stands for a comparison: one frame, whose observations are linear in the unknown x; where x is bad, the world diverges."""

    last, worlds_at_once = 1, 6  # so few that the directions come in several batches

    def __init__(self, matrix: np.ndarray, truth: np.ndarray, bad: Callable[[torch.Tensor], torch.Tensor] | None = None) -> None:
        self.matrix = constant(matrix)
        self.target = (self.matrix @ constant(np.ravel(truth)))[None]
        self.bad = bad or (lambda rows: torch.zeros(len(rows), dtype=torch.bool, device=rows.device))

    def frames_up_to(self, horizon: int) -> tuple[int, ...]:
        return (0,)

    def observation_count_of(self, frames: tuple[int, ...]) -> float:
        return float(self.target.numel())

    def observe(
        self, scene: None, values: dict[str, torch.Tensor], *, worlds: int, horizon: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        rows = values["x"].reshape(worlds, -1)
        bad = self.bad(rows)
        return torch.where(bad[:, None, None], torch.nan, (rows @ self.matrix.T)[:, None]), ~bad


class RaisingFilm(LinearFilm):
    """Raises where all worlds of a batch diverge, as ``Scene.rollout`` does."""

    def observe(self, *arguments: object, **keywords: object) -> tuple[torch.Tensor, torch.Tensor]:
        observations, finite = super().observe(*arguments, **keywords)
        if not finite.any():
            raise DivergenceError("every world diverged", body="x", step=3)
        return observations, finite


def sequence(rows: int, columns: int, weight: float = 0.0) -> Unknowns:
    """Numbers x [rows, columns] from -1 to 3, with a penalty on changes from row to row."""
    unknowns = Unknowns({"x": Param(np.zeros((rows, columns)), low=-1.0, high=3.0)})
    numbers = np.arange(rows * columns).reshape(rows, columns)
    near = np.stack([numbers[1:].ravel(), numbers[:-1].ravel()], axis=1)
    return Unknowns(unknowns.params, None, Smoothness(near, np.full(len(near), weight), {"x": weight}))


def searched(film: LinearFilm, unknowns: Unknowns, starts: np.ndarray, **settings: object) -> tuple[np.ndarray, History]:
    history = History()
    ends, best = wide_gauss_newton(None, film, unknowns, starts, WideSteps(**settings), history, progress=False)
    assert ends.shape == starts.shape
    return ends[best], history


@pytest.mark.parametrize("guess", [2.7, 3.3])
def test_ripples_of_the_loss_stop_narrow_derivatives_and_not_wide_ones(guess: float) -> None:
    scene = load_scene("quadrotor", size=16, frames=24)
    with torch.no_grad():
        motion = scene.rollout()
    comparison = Comparison.of(scene, RippledLoss(load_task("quadrotor", scene).head, motion), None)
    unknowns, start = Unknowns.of(scene, ["quadrotor.mass"]), np.array([[guess]])
    (wide,), best = wide_gauss_newton(scene, comparison, unknowns, start, STEPS, History(), progress=False)
    assert best == 0
    settings = OptimiseSettings(iterations=30)
    z, _ = descend(scene, comparison, unknowns, unknowns.unbounded(start), settings, progress=False)
    narrow = unknowns.physical_vector(z).double().numpy(force=True)
    assert abs(wide[0] - MASS) < 0.005
    assert abs(narrow[0, 0] - MASS) > 0.1


def test_an_inversion_takes_wide_steps_where_the_loss_is_rough() -> None:
    """By default, from several starts, and without narrow steps afterwards."""
    scene = load_scene("quadrotor", size=16, frames=24)
    with torch.no_grad():
        motion = scene.rollout()
    loss = RippledLoss(load_task("quadrotor", scene).head, motion)
    found = invert(scene, None, ["quadrotor.mass"], loss=loss, starts=3, search=SearchStages(refine=3), progress=False)
    assert abs(found.values["quadrotor.mass"] - MASS) < 0.005
    assert found.status.count("best") == 1 and found.status.count("stopped early") == 2
    assert len(found.history.losses) == len(WIDE_SEARCH.widths) + 1  # nothing after them


def test_settling_ends_at_the_mean_of_where_the_last_steps_lead() -> None:
    """On a linear film every step leads to the truth, also from a point whose loss is no lower."""
    matrix, truth = np.random.default_rng(5).normal(size=(9, 3)), np.array([[0.4, 1.1, -0.3]])
    film, starts = LinearFilm(matrix, truth), np.zeros((1, 3))
    found, history = searched(film, sequence(1, 3), starts, widths=(0.1,) * 4, trust_radius=10.0, settling_rounds=3)
    np.testing.assert_allclose(found, truth[0], atol=1e-4)
    assert len(history.losses) == 5


class BentFilm(LinearFilm):
    """What is observed bends upwards along every unknown."""

    def observe(self, *arguments: object, **keywords: object) -> tuple[torch.Tensor, torch.Tensor]:
        observations, finite = super().observe(*arguments, **keywords)
        return torch.exp(observations), finite


def test_settling_ends_at_the_truth_where_observations_bend() -> None:
    """Points on either side of the truth show more than the truth does: their mean leads to where less is seen."""
    matrix, truth = np.random.default_rng(5).uniform(0.2, 0.6, size=(9, 2)), np.array([[0.4, 1.1]])
    film = BentFilm(matrix, truth)
    film.target = torch.exp(film.target)
    ends = {}
    for settling in (0, 3):
        ends[settling], _ = searched(
            film, sequence(1, 2), np.zeros((1, 2)), widths=(0.1,) * 12, trust_radius=10.0, settling_rounds=settling
        )
    np.testing.assert_allclose(ends[3], truth[0], atol=1e-3)
    assert np.abs(ends[0] - truth[0]).max() > 0.01


def test_narrow_settling_is_as_wide_as_what_the_fit_leaves() -> None:
    """Two directions of unlike response and a residual that no x explains: widths are sqrt(L (N^-1)_mm) of the range of 4."""
    matrix = np.array([[1.0, 0.0], [0.0, 3.0], [0.0, 0.0]])
    film = LinearFilm(matrix, np.array([0.5, 0.7]))
    film.target[0, 2] += 0.06
    settings = WideSteps(widths=(0.1, 0.1, 0.05), settling_rounds=2, settling_residual_ratio=1.0)
    problem = WideProblem(None, film, sequence(1, 2), settings)
    wide = problem.point_at(np.array([0.2, 0.2]))
    assert wide.expected_residual == pytest.approx(0.06**2 / 3, rel=2e-3) and wide.widths.tolist() == [0.1, 0.1]
    narrow, halved = (problem.at_round(number).point_at(np.array([0.5, 0.7]), before=wide) for number in (1, 2))
    np.testing.assert_allclose(narrow.widths, [0.06 / 4, 0.06 / 12], rtol=2e-3)
    np.testing.assert_allclose(halved.widths, 0.5 * narrow.widths)
    np.testing.assert_allclose(problem.next_point(narrow, 3.0), [0.5, 0.7], atol=1e-5)
    film.target[0, 2] += 9.0
    far = problem.point_at(np.array([0.5, 0.7]))
    assert (problem.at_round(1).point_at(far.scaled, before=far).widths <= 0.1).all()


@pytest.mark.parametrize("times", [1, 4])
def test_narrow_settling_ends_alike_within_narrow_and_wide_bounds(times: int) -> None:
    """Steps on the way do not count in the mean, however far the wide rounds have left the search from the truth."""
    matrix, truth = np.random.default_rng(5).uniform(0.2, 0.6, size=(9, 1)), np.array([[0.4]])
    film = BentFilm(matrix, truth)
    film.target = torch.exp(film.target) + 0.01 * torch.linspace(-1, 1, 9).to(film.target)
    unknowns = Unknowns({"x": Param(np.zeros((1, 1)), low=1.0 - 2.0 * times, high=1.0 + 2.0 * times)})
    grid = np.linspace(0.3, 0.5, 20001)
    least = grid[((film.target.numpy(force=True) - np.exp(grid[:, None] * matrix[:, 0])) ** 2).sum(axis=1).argmin()]
    errors = {}
    for ratio in (None, 1.0):
        found, _ = searched(
            film, unknowns, np.full((1, 1), 2.5), widths=(0.2,) * 2 + (0.15,) * 6, settling_rounds=6,
            settling_residual_ratio=ratio,
        )  # fmt: skip
        errors[ratio] = abs(float(found[0]) - least)
    assert errors[1.0] < 2e-4
    assert times == 1 or errors[None] > 20 * errors[1.0]


class MisreadLoss(StateLoss):
    """The true states as a network may read them in another look: off by the same in all frames, which is known beforehand."""

    non_smooth, off = True, 0.03

    def observe(self, *arguments: object) -> torch.Tensor:
        return self.weighed(super().observe(*arguments))

    def of_target(self, *arguments: object) -> torch.Tensor:
        plain = super().of_target(*arguments)
        return self.weighed(plain + self.off * torch.linspace(-1, 1, plain.shape[-1]).to(plain))

    def weighed(self, outputs: torch.Tensor) -> torch.Tensor:
        return outputs if self.whitening is None else self.whitening(outputs)

    def whitened(
        self, scene: Scene, states: States, values: dict[str, torch.Tensor], frames: tuple[int, ...], *, seed: int = 0
    ) -> StateLoss:
        assert states.placement.shape[0] == 1 and list(values) == ["quadrotor.mass"]
        random, found = torch.Generator().manual_seed(seed), copy(self)
        offsets = self.off * torch.randn((64, 1, self.head.size), generator=random)
        single = 0.002 * torch.randn((64, len(frames), self.head.size), generator=random)
        found.whitening = Whitening.of(offsets + single)
        return found


def test_whitened_rounds_leave_out_what_all_frames_misread_together() -> None:
    """The same search with the settling rounds taken once more; error bars and status are of the same start."""
    scene = load_scene("quadrotor", size=16, frames=24)
    with torch.no_grad():
        loss = MisreadLoss(load_task("quadrotor", scene).head, scene.rollout())
    settings = WideSteps(widths=(0.1,) * 5, settling_rounds=3)
    errors = {}
    for whiten in (False, True):
        asked = replace(settings, whiten=whiten)
        found = invert(scene, None, ["quadrotor.mass"], loss=loss, starts=2, search=asked, progress=False)
        errors[whiten] = abs(found.values["quadrotor.mass"] - MASS)
        history = torch.stack(found.history.losses)
        assert len(history) == 6 + 4 * whiten and history[6:].isnan().all()
        shown = torch.stack(found.history.values)[6:, :, 0]
        assert shown[:, found.best].isfinite().all() and shown[:, 1 - found.best].isnan().all()
        assert found.status[found.best] == "best" and found.losses[found.best] > 0
    assert errors[True] < 0.4 * errors[False], errors
    assert loss.whitening is None, "the given loss stays as it was"


def test_losses_that_know_nothing_of_their_errors_settle_once() -> None:
    scene = load_scene("quadrotor", size=16, frames=4)
    with torch.no_grad():
        loss = StateLoss(load_task("quadrotor", scene).head, scene.rollout())
    comparison, unknowns = Comparison.of(scene, loss, None), Unknowns.of(scene, ["quadrotor.mass"])
    end = np.array([2.9])
    found, same = refine_whitened(scene, comparison, unknowns, end, WIDE_SEARCH, History(), progress=False)
    assert found is end and same is comparison


class NoisyFilm(LinearFilm):
    """Reads the same world otherwise every time it is asked."""

    def observe(self, *arguments: object, **keywords: object) -> tuple[torch.Tensor, torch.Tensor]:
        observations, finite = super().observe(*arguments, **keywords)
        self.random = getattr(self, "random", None) or torch.Generator().manual_seed(self.seed)
        return observations + 0.1 * torch.randn(observations.shape, generator=self.random).to(observations), finite


def test_settling_averages_over_what_the_last_points_read() -> None:
    matrix, truth = np.random.default_rng(5).normal(size=(9, 1)), np.array([[0.4]])
    errors: dict[int, list[float]] = {0: [], 8: []}
    for seed in range(20):
        for settling, found in errors.items():
            film = NoisyFilm(matrix, truth)
            film.seed = seed
            end, _ = searched(film, sequence(1, 1), np.zeros((1, 1)), widths=(0.2,) * 12, settling_rounds=settling)
            found.append(abs(float(end[0]) - 0.4))
    assert np.mean(errors[8]) < 0.6 * np.mean(errors[0])


def test_single_unknowns_are_directions_of_their_own() -> None:
    unknowns = Unknowns({"x": Param(np.zeros((5, 2)), low=0.0, high=1.0), "y": Param(1.0, low=0.0, high=9.0)})
    np.testing.assert_array_equal(directions(unknowns, 1), np.eye(11))


@pytest.mark.parametrize(("rows", "knots"), [(1, 1), (2, 2), (9, 3), (10, 4)])
def test_hats_of_a_sequence_add_up_to_one(rows: int, knots: int) -> None:
    """Sequences of one and of two columns with a single number between them."""
    unknowns = Unknowns({
        "x": Param(np.zeros(rows), low=0.0, high=1.0), "y": Param(1.0, low=0.0, high=9.0),
        "z": Param(np.zeros((rows, 2)), low=-2.0, high=2.0),
    })  # fmt: skip
    whole = directions(unknowns, 4)
    assert whole.shape == (3 * knots + 1, 3 * rows + 1)
    np.testing.assert_allclose(whole.sum(axis=0), 1.0, atol=1e-12)
    x, y, z = np.split(whole, [rows, rows + 1], axis=1)
    np.testing.assert_array_equal(y[:, 0], np.eye(3 * knots + 1)[knots])
    assert not x[knots:].any() and not z[: knots + 1].any()
    hats = z[knots + 1 :].reshape(knots, 2, rows, 2)
    assert not hats[:, 0, :, 1].any() and not hats[:, 1, :, 0].any(), "columns change by themselves"
    for column in (hats[:, 0, :, 0], hats[:, 1, :, 1], x[:knots]):
        np.testing.assert_allclose(column.sum(axis=0), 1.0, atol=1e-12)
        assert column[0, 0] == column[-1, -1] == 1.0 and (column.argmax(axis=1)[1:] - column.argmax(axis=1)[:-1] <= 4).all()


@pytest.mark.parametrize("spacing", [1, 2])
def test_linear_films_with_a_penalty_end_where_the_normal_equations_say(spacing: int) -> None:
    """Fewer observations than unknowns: the penalty decides about half of them, and a pull the wrong way would show."""
    random = np.random.default_rng(5)
    matrix, weight = random.normal(size=(5, 10)), 0.03
    truth, start = random.uniform(0.0, 2.0, 10), random.uniform(0.0, 2.0, 10)
    unknowns = sequence(5, 2, weight)
    found, history = searched(
        LinearFilm(matrix, truth), unknowns, start[None], widths=(0.1,) * 8, trust_radius=4.0, spacing=spacing
    )
    near = np.sqrt(weight) * (np.eye(10)[2:] - np.eye(10)[:-2])  # rows of two columns: neighbours are two numbers apart
    whole = np.concatenate([matrix / np.sqrt(5), near])
    wanted = np.concatenate([matrix @ truth / np.sqrt(5), np.zeros(8)]) - whole @ start
    hats = directions(unknowns, spacing)
    along = np.linalg.lstsq(whole @ hats.T, wanted, rcond=None)[0]
    least = start + along @ hats
    assert np.all((least > -0.6) & (least < 2.6)), "no bound is in the way"
    np.testing.assert_allclose(found, least, atol=2e-3)
    assert np.abs(found - start).max() > 0.3 and np.abs(least - truth).max() > 0.1
    # What the mean of the losses has beside that at the point: the squared differences over the widths.
    spread = ((0.4 * matrix @ hats.T) ** 2).mean()
    assert float(history.losses[-1][0]) == pytest.approx(((whole @ least - whole @ start - wanted) ** 2).sum() + spread, rel=1e-3)


def test_a_penalty_keeps_its_share_of_a_whitened_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Observations of which all have ten times the size are the same film: the whitened rounds end where the plain ones did."""

    def losses(scene: None, values: dict[str, torch.Tensor], film: LinearFilm, *, worlds: int) -> torch.Tensor:
        return (film.observe(scene, values, worlds=worlds, horizon=1)[0] - film.target).square().flatten(1).mean(dim=1)

    random = np.random.default_rng(5)
    matrix, truth, unknowns = random.normal(size=(5, 10)), random.uniform(0.0, 2.0, 10), sequence(5, 2, 0.3)
    film, settings = LinearFilm(matrix, truth), {"widths": (0.1,) * 4, "trust_radius": 9.0, "settling_rounds": 3}
    film.whitened = lambda scene, values, *, seed: LinearFilm(10.0 * matrix, truth)
    end, _ = searched(film, unknowns, np.full((1, 10), 0.5), **settings)
    monkeypatch.setattr("risp_torch.inversion.solvers.wide_steps.film_losses", losses)
    history = History(values=[torch.zeros(1, 10)], losses=[torch.zeros(1)])
    again, _ = refine_whitened(None, film, unknowns, end, WideSteps(**settings, whiten=True), history, progress=False)
    np.testing.assert_allclose(again, end, atol=2e-3)
    light, _ = searched(LinearFilm(10.0 * matrix, truth), unknowns, end[None], **settings)
    assert np.abs(light - end).max() > 0.05, "a penalty of the same weight would have less of a share"


def test_the_best_of_several_starts_goes_on() -> None:
    truth, starts = np.array([1.0, 1.2]), np.array([(-0.4, 2.4), (1.3, 0.8), (2.4, 2.4)])
    found, history = searched(
        LinearFilm(np.eye(2), truth), sequence(2, 1), starts, widths=(0.05,) * 10, trust_radius=1.0, trial_rounds=2
    )
    losses = torch.stack(history.losses).numpy(force=True)
    assert history.stopped == [0, 2] and losses.shape == (11, 3)
    assert np.isfinite(losses[:2]).all() and (losses[1] < losses[0]).all(), "each takes the rounds of the trial"
    assert np.isnan(losses[2:, [0, 2]]).all() and np.isfinite(losses[:, 1]).all()
    np.testing.assert_allclose(found, truth, atol=1e-3)


def test_a_start_that_diverges_is_passed_over() -> None:
    truth = np.array([1.0, 1.2])
    film = LinearFilm(np.eye(2), truth, bad=lambda rows: rows[:, 0] < 0)
    starts = np.array([(-0.5, 1.2), (2.0, 0.2)])
    found, history = searched(film, sequence(2, 1), starts, widths=(0.05,) * 8, trial_rounds=1)
    assert history.losses[0].isinf().tolist() == [True, False] and history.stopped == [0]
    np.testing.assert_allclose(found, truth, atol=1e-3)
    with pytest.raises(DivergenceError, match="every start of the search diverged"):
        searched(film, sequence(2, 1), starts[:1], widths=(0.05,) * 8)


def test_a_start_whose_worlds_all_raise_is_passed_over() -> None:
    truth, starts = np.array([1.0, 1.2]), np.array([(-0.5, 1.2), (2.0, 0.2)])
    film = RaisingFilm(np.eye(2), truth, bad=lambda rows: rows[:, 0] < 0)
    found, history = searched(film, sequence(2, 1), starts, widths=(0.05,) * 8, trial_rounds=1)
    assert history.stopped == [0]
    np.testing.assert_allclose(found, truth, atol=1e-3)


def test_one_world_that_diverges_takes_only_its_own_difference_away() -> None:
    """On the edge of what can be simulated the other directions still lead on."""
    film = LinearFilm(np.eye(2), np.array([1.0, 1.2]), bad=lambda rows: rows[:, 0] < 0)
    problem = WideProblem(None, film, sequence(2, 1), WideSteps(widths=(0.1,)))
    point = problem.point_at(np.array([0.1, 0.2]))  # the world 0.4 below has x[0] < 0
    assert np.isfinite(point.loss) and point.equations.is_finite
    assert point.equations.gradient[0] == 0 < point.equations.gradient[1]
    step = problem.next_point(point, 9.0) - point.scaled
    assert step[0] == pytest.approx(0.0, abs=1e-9) and step[1] > 0.5


def test_a_centre_that_diverges_counts_as_diverged_though_the_worlds_about_it_do_not() -> None:
    film = LinearFilm(np.eye(2), np.array([1.0, 1.2]), bad=lambda rows: (rows - 0.5).abs().max(dim=1).values < 0.1)
    problem = WideProblem(None, film, sequence(2, 1), WideSteps(widths=(0.1,), settling_rounds=1))
    sides, centre = (problem.at_round(number).point_at(np.array([0.5, 0.5])) for number in (0, 1))
    assert np.isfinite(sides.loss) and np.isinf(centre.loss)


def test_a_diverged_point_replaces_no_other_one_however_wide_its_differences() -> None:
    film = LinearFilm(np.eye(2), np.array([1.0, 1.2]), bad=lambda rows: rows[:, 0] < 0)
    problem = WideProblem(None, film, sequence(2, 1), WideSteps(widths=(0.1, 0.05), trust_radius=3.0))
    point = problem.point_at(np.array([1.0, 0.2]))
    (loss,), before = evaluated(problem.at_round(1), point, [-1.8, 0.0])
    assert np.isinf(loss) and not Acceptance().accepts(before, loss)


def evaluated(problem: WideProblem, point: Point, move: list[float]) -> tuple[np.ndarray, float]:
    """Objectives of a candidate, and the one that it is compared with."""
    step = np.array([move]) / problem.ranges
    _, objectives, before = problem.evaluate([point], [point.equations], [step], np.array([np.nan]), first=True)
    return objectives[0], float(before[0])


def test_the_penalty_is_that_of_the_numbers_where_neighbours_have_other_bounds() -> None:
    params = {"x": Param(np.zeros((2, 1)), low=np.array([[-1.0], [-3.0]]), high=np.array([[1.0], [5.0]]))}
    unknowns = Unknowns(params, None, Smoothness(np.array([[0, 1]]), np.ones(1), {"x": 1.0}))
    film = LinearFilm(np.eye(2), np.array([0.5, 0.5]))
    problem = WideProblem(None, film, unknowns, WideSteps(widths=(0.1,)))
    alike, apart = problem.point_at(np.array([0.5, 0.5])), problem.point_at(np.array([0.5, 1.0]))
    np.testing.assert_allclose(alike.equations.gradient, 0.0, atol=1e-5)  # neither film nor penalty pulls
    assert apart.loss - alike.loss == pytest.approx(0.5**2 + 0.5**2 / 2, rel=1e-4)  # penalty, and mean over two observations


def test_only_losses_of_equal_widths_and_horizons_are_compared() -> None:
    """Round 1 is like round 0, the differences of round 2 are narrower, and settling rounds take every finite candidate."""
    film = LinearFilm(np.eye(2), np.array([2.8, 1.2]))
    problem = WideProblem(None, film, sequence(2, 1), WideSteps(widths=(0.1, 0.1, 0.05, 0.05), settling_rounds=1))
    point = problem.point_at(np.array([0.5, 0.5]))
    compared = {number: evaluated(problem.at_round(number), point, [0.1, 0.0])[1] for number in (1, 2, 4)}
    assert compared[1] == point.loss and np.isnan([compared[2], compared[4]]).all()
    wide = replace(problem.settings, widths=(0.1,) * 4, first_frames=1, growth=1.0)
    film.last = 3
    grown = WideProblem(None, film, sequence(2, 1), wide)
    point = grown.point_at(np.array([0.5, 0.5]))
    assert np.isnan(evaluated(grown.at_round(2), point, [0.1, 0.0])[1])


def test_no_unknown_moves_by_more_than_the_reach() -> None:
    problem = WideProblem(None, LinearFilm(np.eye(2), np.array([2.8, 1.2])), sequence(2, 1), WideSteps(widths=(0.1, 0.1)))
    point = problem.point_at(np.array([0.5, 0.5]))
    lengths = [np.abs(problem.next_point(point, reach) - point.scaled).max() / 4 for reach in (3.0, 0.9)]  # in parts of the range
    assert 0 < lengths[1] <= 0.09 + 1e-12 < lengths[0] <= 0.3 + 1e-12


def test_points_keep_their_distance_from_the_bounds() -> None:
    """Differences are taken within the allowed range, and no step leaves it."""
    seen = []
    film = LinearFilm(np.eye(2), np.array([3.2, 1.2]), bad=lambda rows: (seen.append(rows), rows[:, 0] > 9)[1])
    found, _ = searched(film, sequence(2, 1), np.array([[-1.0, 3.0]]), widths=(0.1,) * 10)
    everywhere = torch.cat(seen)
    assert everywhere.min() >= -1 - 1e-6 and everywhere.max() <= 3 + 1e-6
    np.testing.assert_allclose(found, [2.6, 1.2], atol=1e-3)


def test_the_horizon_grows_to_the_whole_film() -> None:
    settings = WideSteps(widths=(0.1,) * 8, first_frames=10)
    assert [settings.horizon(number, 40) for number in (0, 1, 2, 4, 8)] == [10, 18, 25, 40, 40]
    assert settings.horizon(0, 6) == 6 and WideSteps(widths=(0.1,)).horizon(0, 40) == 40


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"settling_rounds": 3}, "settling_rounds is 3: give at most as many rounds as there are widths"),
        ({"whiten": True}, "whiten and settling_residual_ratio are for the settling rounds: give settling_rounds of at least 1"),
        ({"settling_residual_ratio": 1.0}, "whiten and settling_residual_ratio are for the settling rounds"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, object], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        WideSteps(**{"widths": (0.1,)} | wrong)
