"""The loop of damped Gauss-Newton steps on small problems with known minima; no scenes and no kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from risp_torch.least_squares.damping import KEPT, MarquardtDamping, MeanDiagonalDamping, TrustRegion
from risp_torch.least_squares.equations import NormalEquations
from risp_torch.least_squares.horizon import GrowingHorizon
from risp_torch.least_squares.inverse_reuse import InverseReuse, KeptInverse
from risp_torch.least_squares.jacobian import central_differences
from risp_torch.least_squares.loop import Policy, Starts, minimise
from risp_torch.least_squares.problem import BoundedProblem, PointwiseProblem
from risp_torch.least_squares.step_search import FixedSteps, RegionSchedule, RelativeDampings, RisingDamping, ValleySearch
from risp_torch.least_squares.termination import Acceptance, Termination

Predict = Callable[[np.ndarray], np.ndarray]

LEVENBERG = Policy(
    MeanDiagonalDamping(), RisingDamping(first=1e-3, least=1e-12, most=1e8, rise=5.0, fall=5.0), rounds=100,
    termination=Termination(decrease=1e-12),
)  # fmt: skip
MARQUARDT = Policy(
    MarquardtDamping(), RelativeDampings(10.0 ** np.arange(-2, 4), first=1e-2, least=1e-6, most=1e6, rise=30.0), rounds=100,
    limit=0.5, termination=Termination(decrease=1e-12),
)  # fmt: skip
FIXED = Policy(
    MeanDiagonalDamping(), FixedSteps((1e-6, 1e-3, 3e-2), (1.0, 0.3, 0.05)), rounds=200, acceptance=Acceptance(1e-6),
    termination=Termination(decrease=1e-12),
)  # fmt: skip
REGION = Policy(
    TrustRegion(), RegionSchedule(first=1.0, longer=2.0, shorter=0.3), rounds=100, termination=Termination(decrease=None)
)  # fmt: skip
POLICIES = {"Levenberg": LEVENBERG, "Marquardt": MARQUARDT, "fixed": FIXED, "region": REGION}


class Fit(BoundedProblem):
    """Predictions of points [N, K], compared with a target; Jacobians by central differences."""

    def __init__(
        self, predict: Predict, target: np.ndarray, low: Sequence[float], high: Sequence[float],
        prior: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(np.array(low, dtype=float), np.array(high, dtype=float), np.ones(len(low)))
        self.predict, self.target, self.prior = predict, target, prior
        self.evaluated: list[np.ndarray] = []
        self.batches: list[int] = []

    def linearise(self, points: Sequence[np.ndarray]) -> list[NormalEquations | None]:
        found: list[NormalEquations | None] = []
        for point in points:
            step = 1e-6
            rows, finite = central_differences(self._predicted, point, step * np.eye(len(point)))
            residual = torch.as_tensor(self.target - self.predict(point[None])[0])
            equations = NormalEquations.from_columns(rows / (2 * step), residual)
            if self.prior is not None:
                precision, mean = self.prior
                equations = equations.with_prior(np.diag(precision), point - mean)
            found.append(equations if bool(finite.all()) and equations.is_finite else None)
        return found

    def objectives(self, candidates: Sequence[Sequence[np.ndarray]], equations: Sequence[NormalEquations]) -> np.ndarray:
        points = np.concatenate(candidates)
        self.evaluated.extend(points)
        self.batches.append(len(points))
        return self.at(points).reshape(len(candidates), -1)

    def at(self, points: np.ndarray) -> np.ndarray:
        """Objectives [N] of points [N, K]."""
        values = ((self.target - self.predict(np.asarray(points))) ** 2).sum(axis=1)
        if self.prior is not None:
            precision, mean = self.prior
            values = values + ((points - mean) ** 2 * precision).sum(axis=1)
        return np.where(np.isfinite(values), values, np.inf)

    def _predicted(self, points: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        predicted = torch.as_tensor(self.predict(points))
        return predicted, predicted.isfinite().all(dim=1)


def solved(problem: Fit, policy: Policy, *points: Sequence[float], **options: Any) -> Starts:
    rows = [np.array(point, dtype=float) for point in points]
    return minimise(problem, Starts.begin(rows, policy, problem.at(np.array(rows))), policy, **options)


def rosenbrock() -> Fit:
    def predict(points: np.ndarray) -> np.ndarray:
        return np.stack([10 * (points[:, 1] - points[:, 0] ** 2), 1 - points[:, 0]], axis=1)

    return Fit(predict, np.zeros(2), (-3, -3), (3, 3))


TIMES = np.linspace(0.0, 2.0, 40)


def decays(points: np.ndarray) -> np.ndarray:
    """A decay to a constant, whose amplitude, rate and constant are correlated: [N, 40]."""
    a, b, c = points.T[..., None]
    return a * np.exp(-b * TIMES) + c


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_follows_the_valley_of_rosenbrock(name: str) -> None:
    starts = solved(rosenbrock(), POLICIES[name], (-1.2, 1.0))
    np.testing.assert_allclose(starts.points[0], [1.0, 1.0], atol=1e-4)
    assert starts.objectives[0] < 1e-9


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_separates_correlated_unknowns(name: str) -> None:
    true = np.array([1.5, 0.8, -0.7])
    problem = Fit(decays, decays(true[None])[0], (0.0, 0.1, -3.0), (4.0, 3.0, 3.0))
    starts = solved(problem, replace(POLICIES[name], rounds=200), (1.0, 1.5, 0.2), (3.0, 0.4, -2.0))
    for point in starts.points:
        np.testing.assert_allclose(point, true, atol=1e-3)


@pytest.mark.parametrize("name", POLICIES)
def test_candidates_lie_within_the_bounds(name: str) -> None:
    true = np.array([1.5, 0.8, -0.7])
    problem = Fit(decays, decays(true[None])[0], (0.0, 0.1, -0.5), (4.0, 3.0, 3.0))
    starts = solved(problem, POLICIES[name], (1.0, 1.5, 0.2))
    points = np.array(problem.evaluated)
    assert (points >= problem.low).all() and (points <= problem.high).all()
    assert starts.points[0][2] == -0.5
    assert starts.objectives[0] < 0.1 * problem.at(np.array([[1.0, 1.5, 0.2]]))[0]


@pytest.mark.parametrize("name", ["Levenberg", "Marquardt", "fixed"])
def test_priors_enter_as_observations_do(name: str) -> None:
    """The minimum of a linear problem with a prior has a closed form; what is not observed settles at the prior's mean."""
    matrix = np.random.default_rng(0).normal(size=(12, 3))
    matrix[:, 2] = 0.0
    target, precision, mean = matrix @ [0.3, -0.2, 0.0], np.array([0.0, 5.0, 2.0]), np.array([0.0, 0.4, 0.7])
    problem = Fit(lambda points: points @ matrix.T, target, (-2,) * 3, (2,) * 3, prior=(precision, mean))
    starts = solved(problem, replace(POLICIES[name], rounds=300), (0.0, 0.0, 0.0))
    wanted = np.linalg.solve(matrix.T @ matrix + np.diag(precision), matrix.T @ target + precision * mean)
    np.testing.assert_allclose(starts.points[0], wanted, atol=1e-4)


@pytest.mark.parametrize("name", POLICIES)
def test_a_rank_deficient_jacobian_moves_what_is_determined(name: str) -> None:
    """Only the sum of two unknowns is observed, and a third has no effect: it stays."""
    problem = Fit(lambda points: (points[:, :1] + points[:, 1:2]) * TIMES, 1.2 * TIMES, (-2,) * 3, (2,) * 3)
    (point,) = solved(problem, POLICIES[name], (0.1, 0.3, 0.5)).points
    assert point[0] + point[1] == pytest.approx(1.2, abs=1e-4)
    assert point[0] - point[1] == pytest.approx(-0.2, abs=1e-4) and point[2] == pytest.approx(0.5, abs=1e-9)


def test_a_residual_of_zero_leaves_regular_equations() -> None:
    """Marquardt's scales of a coordinate without effect vanish with the residual; a share of the largest scale remains."""
    equations = NormalEquations(np.diag([4.0, 0.0]), np.array([2.0, 0.0]))
    np.testing.assert_allclose(MarquardtDamping().step(equations, 1e-3), [2.0 / (4.0 * 1.001), 0.0])
    assert np.isfinite(MeanDiagonalDamping().step(NormalEquations(np.zeros((2, 2)), np.zeros(2)), 0.0)).all()


@pytest.mark.parametrize("together", [False, True])
def test_worlds_that_diverge_are_no_candidates(together: bool) -> None:
    """Beyond x = 1.2 worlds are NaN; a start among them ends, and the other reaches the minimum at 1."""
    predict = rosenbrock().predict
    problem = Fit(lambda points: np.where(points[:, :1] > 1.2, np.nan, predict(points)), np.zeros(2), (-3, -3), (3, 3))
    policy = replace(MARQUARDT, in_one_batch=together)
    rows = [np.array([-1.2, 1.0]), np.array([2.0, 2.0])]
    starts = minimise(problem, Starts.begin(rows, policy), policy) if together else solved(problem, policy, *rows)
    assert not starts.active.any() and (starts.points[1] == [2.0, 2.0]).all()
    if not together:
        np.testing.assert_allclose(starts.points[0], [1.0, 1.0], atol=1e-4)


def test_starts_in_one_batch_end_as_they_do_alone() -> None:
    """Alone, equal steps are left out; a batch has equal numbers of candidates."""
    true, begin = np.array([1.5, 0.8, -0.7]), ((1.0, 1.5, 0.2), (3.0, 0.4, -2.0), (2.0, 1.0, 1.0))
    problems = [Fit(decays, decays(true[None])[0], (0.0, 0.1, -3.0), (4.0, 3.0, 3.0)) for _ in range(2)]
    alone = solved(problems[0], MARQUARDT, *begin)
    together = solved(problems[1], replace(MARQUARDT, in_one_batch=True), *begin)
    np.testing.assert_array_equal(alone.points, together.points)
    assert sum(problems[0].batches) <= sum(problems[1].batches) and max(problems[1].batches) == 3 * max(problems[0].batches)


class Truncated(Fit):
    """The first observations only: a horizon of 4, 10, 20 and 40."""

    reevaluates = True

    def at_stage(self, stage: int) -> Fit:
        count = (4, 10, 20, 40)[stage]
        part = Truncated(lambda points: self.predict(points)[:, :count], self.target[:count], self.low, self.high)
        part.evaluated = self.evaluated
        return part


GROWING = replace(MARQUARDT, horizon=GrowingHorizon(stages=4, settled=0.1, behind=4.0))


def waves(points: np.ndarray) -> np.ndarray:
    """A sine [N, 40] whose loss has many minima in the frequency."""
    return points[:, 1:] * np.sin(points[:, :1] * 8 * TIMES)


def test_a_growing_horizon_leaves_local_minima() -> None:
    true, begin = np.array([1.0, 1.0]), np.array([1.6, 0.5])
    problem = Truncated(waves, waves(true[None])[0], (0.2, 0.1), (3.0, 3.0))
    growing = minimise(problem, Starts.begin([begin], GROWING), GROWING)
    np.testing.assert_allclose(growing.points[0], true, atol=1e-4)
    assert np.isfinite(growing.reached[0, :3]).all() and growing.stage[0] == 3
    whole = Fit(waves, problem.target, problem.low, problem.high)
    assert abs(solved(whole, MARQUARDT, begin).points[0][0] - 1.0) > 0.1


def test_starts_far_behind_stop() -> None:
    horizon = GrowingHorizon(stages=3, settled=0.1, behind=4.0)
    reached, active = np.full((3, 3), np.inf), np.ones(3, dtype=bool)
    reached[0, :2], reached[1, 0] = [1.0, 2.0], 4.1
    assert horizon.stopped(reached, active).tolist() == [False, True, False]
    assert not replace(horizon, margin=0.2).stopped(reached, active).any()
    assert not horizon.stopped(reached, np.array([True, False, True])).any()


class Incomparable(Fit):
    """Objectives of odd rounds cannot be compared with those of the round before."""

    def at_round(self, number: int) -> Incomparable:
        later = copy(self)
        later.number = number
        return later

    def evaluate(self, *arguments: Any, **options: Any) -> tuple[Any, np.ndarray, np.ndarray]:
        candidates, objectives, before = super().evaluate(*arguments, **options)
        return candidates, objectives, np.full_like(before, np.nan) if self.number % 2 else before


def test_steps_that_cannot_be_compared_are_taken_and_leave_the_damping() -> None:
    """At the minimum no step lowers the objective: even rounds reject theirs, and shorten the radius."""
    predict, policy, radii, moved = rosenbrock().predict, replace(REGION, rounds=6), [], []
    problem = Incomparable(predict, np.zeros(2), (-3, -3), (3, 3))

    def record(before: Starts, after: Starts) -> None:
        radii.append(after.damping[0] / before.damping[0])
        moved.append(after.points[0] is not before.points[0])

    minimise(problem, Starts.begin([np.ones(2)], policy, np.zeros(1)), policy, after_round=record)
    assert moved == [False, True] * 3 and radii == pytest.approx([0.3, 1.0] * 3)


class Killed(Exception):
    pass


class Memory:
    """A checkpoint in memory that interrupts the search at one of its saves."""

    def __init__(self, die_at: int | None = None) -> None:
        self.state: dict[str, Any] | None = None
        self.die_at, self.saves = die_at, 0

    def load(self) -> dict[str, Any] | None:
        return self.state

    def save(self, state: dict[str, Any]) -> None:
        self.state, self.saves = state, self.saves + 1
        if self.saves == self.die_at:
            raise Killed


@pytest.mark.parametrize("die_at", [1, 3, 6])
def test_a_resumed_search_equals_an_uninterrupted_one_to_the_byte(die_at: int) -> None:
    target = waves(np.array([[1.0, 1.0]]))[0]
    begin = [np.array(point) for point in ([1.6, 0.5], [2.6, 2.0], [0.4, 1.5])]

    def searched(checkpoint: Memory | None) -> dict[str, np.ndarray]:
        problem = Truncated(waves, target, (0.2, 0.1), (3.0, 3.0))
        return minimise(problem, Starts.begin(begin, GROWING), GROWING, checkpoint=checkpoint).to_arrays()

    memory = Memory(die_at)
    with pytest.raises(Killed):
        searched(memory)
    resumed, straight = searched(memory), searched(None)
    assert {name: array.tobytes() for name, array in resumed.items()} == {
        name: array.tobytes() for name, array in straight.items()
    }


def test_rounds_are_reported_with_the_objectives_of_their_horizon() -> None:
    noise = 0.05 * np.random.default_rng(0).normal(size=40)
    problem = Truncated(waves, waves(np.array([[1.0, 1.0]]))[0] + noise, (0.2, 0.1), (3.0, 3.0))
    seen: list[tuple[float, float]] = []
    minimise(
        problem, Starts.begin([np.array([1.6, 0.5])], GROWING), GROWING,
        after_round=lambda before, after: seen.append((before.objectives[0], after.objectives[0])),
    )  # fmt: skip
    assert all(after <= before for before, after in seen)
    assert any(following > after for (_, after), (following, _) in pairwise(seen))


def test_steps_along_the_valley_leave_small_minima() -> None:
    """The floor of the valley x + y = 1 has ripples, in which every Gauss-Newton step is rejected."""

    def predict(points: np.ndarray) -> np.ndarray:
        total, along = points.sum(axis=1) - 1, points[:, 0] - points[:, 1]
        return np.stack([10 * total, 0.1 * along + 0.02 * np.sin(40 * along)], axis=1)

    problem, begin = Fit(predict, np.zeros(2), (-2, -2), (2, 2)), (1.0, 0.0)
    valley = ValleySearch(lengths=(0.01, 0.03, 0.1, 0.3), damping=1e-6, behind=1.2, most=40)
    stuck, free = solved(problem, FIXED, begin), solved(problem, replace(FIXED, valley=valley), begin)
    assert free.objectives[0] < 0.1 * stuck.objectives[0]
    two = replace(FIXED, valley=replace(valley, behind=0.5))
    np.testing.assert_array_equal(solved(problem, two, begin).points[0], stuck.points[0])  # a start that is behind
    few = replace(FIXED, valley=replace(valley, most=1))
    np.testing.assert_array_equal(solved(problem, few, begin).points[0], stuck.points[0])


def test_a_valley_of_one_coordinate_takes_no_jacobians(monkeypatch: pytest.MonkeyPatch) -> None:
    """No coordinate is left for a step across: the steps are those along it, in both senses."""
    problem = Fit(lambda points: 0.1 * points + 0.02 * np.sin(40 * points), np.zeros(1), (-2,), (2,))
    valley, point = ValleySearch(lengths=(0.1, 0.3), damping=1e-6, behind=1.2, most=40), np.array([1.0])
    (equations,) = problem.linearise([point])
    monkeypatch.delattr(Fit, "linearise")
    steps = valley.steps(problem, MeanDiagonalDamping(), point, equations)
    np.testing.assert_array_equal(np.sort(steps[:, 0]), [-0.3, -0.1, 0.1, 0.3])


def test_starts_that_meet_continue_as_one() -> None:
    """The second start comes to where the first one is, and ends with it; a third one ends elsewhere."""
    problem = Fit(lambda points: np.concatenate([points**2 - 1, 0 * points + 0.5], axis=1), np.zeros(2), (-2,), (2,))
    valley = ValleySearch(lengths=(0.01, 0.1), damping=1e-6, behind=np.inf, most=40)
    policy, begin = replace(FIXED, valley=valley, meeting=1e-2), ((0.8,), (1.3,), (-1.4,))
    ends = solved(problem, policy, *begin)
    np.testing.assert_allclose(np.array(ends.points)[:, 0], [1.0, 1.0, -1.0], atol=3e-4)
    assert ends.points[0] is ends.points[1] and ends.objectives[0] == ends.objectives[1]
    np.testing.assert_array_equal(np.sort(ends.ends), [0, 0, 2] if ends.joined[0] < 0 else [1, 1, 2])
    count, apart = len(problem.evaluated), Fit(problem.predict, problem.target, (-2,), (2,))
    solved(apart, replace(policy, meeting=0.0), *begin)
    assert count < 0.9 * len(apart.evaluated)


def test_a_start_stops_with_the_one_that_it_has_met() -> None:
    """A start that has met one which later falls far behind another is stopped with it."""
    true = np.array([1.0, 1.0])
    problem = Truncated(waves, waves(true[None])[0], (0.2, 0.1), (3.0, 3.0))
    starts = Starts.begin([np.array([2.5, 2.0]), np.array([2.5, 2.0]), true], GROWING)
    starts.joined[1], starts.active[1], starts.reached[2, 0], starts.reached[0, 0] = 0, False, 1e-9, 1.0
    minimise(problem, starts, replace(GROWING, rounds=1))
    assert starts.stopped.tolist() == [True, True, False]


def test_a_round_without_any_step_evaluates_the_point_alone() -> None:
    """Where nothing depends on the coordinate, all dampings give the same step, none."""
    problem = Fit(lambda points: 0 * points + 1.0, np.zeros(1), (-2,), (2,))
    solved(problem, replace(MARQUARDT, rounds=1), (0.5,))
    assert problem.batches == [1]


def test_longer_steps_are_tried_beside_the_others() -> None:
    """Residuals that change by steps: derivatives that see a part of the steps only are steeper than the trend."""

    def predict(points: np.ndarray) -> np.ndarray:
        return points + 0.15 * np.sin(20 * points)  # between slopes of 4 and -2, the trend has 1

    problem = Fit(predict, np.zeros(1), (-2,), (2,))
    whole, longer = FixedSteps((1e-6,), (1.0, 0.3, 0.05)), FixedSteps((1e-6,), (1.0, 0.3, 0.05), longer=(8.0, 2.5))
    assert list(longer.groups(1.0)) == [[(1e-6, 8.0), (1e-6, 2.5), (1e-6, 1.0), (1e-6, 0.3), (1e-6, 0.05)]]
    one = replace(FIXED, rounds=1)
    short_end, long_end = (solved(problem, replace(one, search=search), (1.257,)) for search in (whole, longer))
    assert long_end.objectives[0] < 0.5 * short_end.objectives[0]


def test_a_few_steps_at_once_begin_with_the_usual_length() -> None:
    steps = FixedSteps((1e-6,), (1.0, 0.3, 0.05), longer=(8.0, 2.5), at_once=3)
    assert [[length for _, length in group] for group in steps.groups(1.0)] == [[1.0, 2.5, 0.3], [8.0, 0.05]]


def test_steps_along_a_valley_a_few_at_a_time() -> None:
    """The shortest are accepted before longer ones are evaluated; without a lower objective all of them are."""
    problem = Fit(lambda points: 0.1 * points + 0.02 * np.sin(40 * points), np.zeros(1), (-2,), (2,))
    valley = ValleySearch(lengths=(0.01, 0.02, 0.1, 0.3), damping=1e-6, behind=1.2, most=40, at_once=4)
    policy = replace(FIXED, valley=valley, acceptance=Acceptance(np.inf), rounds=1)  # every other step is rejected
    ends = solved(problem, policy, (0.94,))
    assert problem.batches == [6, 4] and ends.objectives[0] < problem.at(np.array([[0.94]]))[0]
    problem.batches.clear()
    solved(problem, policy, (0.0,))
    assert problem.batches[1:] == [4, 4]


@dataclass(frozen=True)
class KeepingPoint:
    """A point, its objective, and the inverse that its start keeps."""

    vector: np.ndarray
    objective: float
    kept: KeptInverse


@dataclass(frozen=True)
class DenseInverse:
    """An inverse [K, K] as a matrix."""

    matrix: np.ndarray

    def step(self, right: np.ndarray) -> np.ndarray:
        return self.matrix @ right


@dataclass(frozen=True)
class KeepingModel:
    """Normal equations at a point, whose matrices are recorded in ``made`` when they are inverted."""

    equations: NormalEquations
    point: np.ndarray
    objective: float
    kept: KeptInverse
    made: list[np.ndarray]
    is_finite: bool = True

    @property
    def gradient(self) -> np.ndarray:
        return self.equations.gradient

    def decrease(self, step: np.ndarray) -> float:
        return float(self.gradient @ step)

    def inverse(self, damping: float) -> DenseInverse:
        matrix = self.equations.matrix + damping * np.diag(np.diag(self.equations.matrix))
        self.made.append(matrix)
        return DenseInverse(np.linalg.inv(matrix))


class Keeping(PointwiseProblem):
    """A problem whose starts each keep an inverse."""

    def __init__(self, fit: Fit) -> None:
        self.fit, self.made = fit, []

    def linearise(self, points: Sequence[KeepingPoint]) -> list[KeepingModel]:
        equations = self.fit.linearise([point.vector for point in points])
        return [
            KeepingModel(each, point.vector, point.objective, point.kept, self.made)
            for each, point in zip(equations, points, strict=True)
        ]

    def moved(self, point: KeepingPoint, equations: KeepingModel, steps: np.ndarray) -> list[KeepingPoint]:
        return [self.point(point.vector + step, point.kept) for step in steps]

    def objectives(self, candidates: Sequence[Sequence[KeepingPoint]], equations: Sequence[KeepingModel]) -> np.ndarray:
        return np.array([[point.objective for point in row] for row in candidates])

    def point(self, vector: np.ndarray, kept: KeptInverse) -> KeepingPoint:
        return KeepingPoint(vector, float(self.fit.at(vector[None])[0]), kept)

    def solved(self, policy: Policy, *vectors: Sequence[float]) -> Starts:
        points = [self.point(np.array(vector), KeptInverse()) for vector in vectors]
        return minimise(self, Starts.begin(points, policy, np.array([point.objective for point in points])), policy)


REUSING = Policy(
    InverseReuse(slow=0.3, young=3, negligible=1e-14), replace(LEVENBERG.search, reuses=True), rounds=200,
    acceptance=Acceptance(gain=0.1), termination=Termination(expected=1e-14),
)  # fmt: skip
DECAYS = (1.0, 1.5, 0.2), (3.0, 0.4, -2.0)


def noisy_decays() -> Keeping:
    target = decays(np.array([[1.5, 0.8, -0.7]]))[0] + 0.05 * np.random.default_rng(0).normal(size=40)
    return Keeping(Fit(decays, target, (0.0, 0.1, -3.0), (4.0, 3.0, 3.0)))


def test_an_inverse_serves_in_several_rounds() -> None:
    """The minimum is that of a matrix in every round, from fewer matrices than rounds."""
    keeping, rounds = noisy_decays(), []
    policy = replace(REUSING, in_one_batch=True)
    points = [keeping.point(np.array(DECAYS[0]), KeptInverse())]
    starts = Starts.begin(points, policy, np.array([points[0].objective]))
    minimise(keeping, starts, policy, after_round=lambda before, after: rounds.append(after.objectives[0]))
    anew = solved(keeping.fit, LEVENBERG, DECAYS[0])
    np.testing.assert_allclose(starts.points[0].vector, anew.points[0], atol=1e-6)
    assert 1 < len(keeping.made) < 0.6 * len(rounds) and rounds == sorted(rounds, reverse=True)


def test_an_inverse_of_a_near_problem_serves_from_the_first_round() -> None:
    keeping = noisy_decays()
    (end,) = keeping.solved(REUSING, DECAYS[0]).points
    made = len(keeping.made)
    near = keeping.point(end.vector + 1e-3, KeptInverse(end.kept.inverse))
    starts = minimise(keeping, Starts.begin([near], REUSING, np.array([near.objective])), REUSING)
    np.testing.assert_allclose(starts.points[0].vector, end.vector, atol=1e-6)
    assert len(keeping.made) == made


def test_each_start_keeps_an_inverse_of_its_own() -> None:
    alone = [noisy_decays().solved(REUSING, begin).points[0] for begin in DECAYS]
    together = noisy_decays().solved(replace(REUSING, in_one_batch=True), *DECAYS).points
    np.testing.assert_array_equal([point.vector for point in alone], [point.vector for point in together])
    np.testing.assert_allclose(alone[0].vector, alone[1].vector, atol=1e-6)
    assert together[0].kept.inverse is not together[1].kept.inverse


def test_a_slow_inverse_has_negligible_steps_only() -> None:
    keeping = noisy_decays()
    (equations,) = keeping.linearise([keeping.point(np.array(DECAYS[0]), KeptInverse())])
    rule = InverseReuse(slow=0.3, young=0)
    assert rule.step(equations, KEPT) is None  # nothing is kept yet
    step = rule.step(equations, 1e-3)
    np.testing.assert_allclose(keeping.made[0] @ step, equations.gradient)
    assert rule.step(equations, KEPT) is None and equations.kept.is_slow  # it promises no less than the last one
    np.testing.assert_allclose(replace(rule, young=9).step(equations, KEPT), step)
    np.testing.assert_allclose(replace(rule, negligible=np.inf).step(equations, KEPT), step)
    assert len(keeping.made) == 1


class Falling(Fit):
    """Objectives that are lower by 1 than those of the point, when it is evaluated again in some rounds."""

    falls = 0

    def evaluate(
        self, points: Any, equations: Any, steps: Any, before: np.ndarray, *, first: bool
    ) -> tuple[Any, np.ndarray, np.ndarray]:
        candidates, objectives, before = super().evaluate(points, equations, steps, before, first=first)
        self.falls, fall = self.falls - 1, 1.0 * (self.falls > 0)
        return candidates, objectives - fall, before - fall


@pytest.mark.parametrize("falls", [0, 2])
def test_a_start_ends_after_a_step_of_little_promise(falls: int) -> None:
    """Such a step is accepted for any decrease. While its point's objective falls by being evaluated again, a start goes on."""
    fit, begin, rounds = rosenbrock(), np.array([-1.2, 1.0]), []
    problem = Falling(fit.predict, fit.target, fit.low, fit.high)
    problem.falls = falls
    termination = Termination(None, expected=1e-3)
    policy = replace(FIXED, search=FixedSteps((1e6,)), acceptance=Acceptance(gain=10.0), termination=termination)
    starts = Starts.begin([begin], policy, fit.at(begin[None]))
    minimise(problem, starts, policy, after_round=lambda before, after: rounds.append(before.points[0] is not after.points[0]))
    assert rounds == [False] * falls + [falls == 0] and not starts.active.any()


def test_every_finite_step_is_accepted_where_the_policy_says_so() -> None:
    """Undamped steps climb before they reach the minimum of Rosenbrock's valley."""
    policy = replace(FIXED, search=FixedSteps((0.0,)), rounds=2, acceptance=Acceptance(every=True))
    starts = solved(rosenbrock(), replace(policy, termination=Termination(decrease=None)), (-1.2, 1.0))
    np.testing.assert_allclose(starts.points[0], [1.0, 1.0], atol=1e-6)
    assert not Acceptance(every=True).accepts(1.0, np.inf)


def test_a_start_that_cannot_reach_the_best_ends() -> None:
    ends = Termination(decrease=1e-6, hopeless_rounds=10.0)
    assert ends.continues(2.0, 1.9, lowest=1.0, longest=1.0) and not ends.continues(2.0, 1.95, lowest=1.0, longest=1.0)
    assert not ends.continues(2.0, 2.0 - 1e-7, lowest=2.0, longest=1.0)
    assert not Termination(step=0.1).continues(2.0, 1.0, lowest=1.0, longest=0.05)
    assert Termination(decrease=None).continues(1.0, 1.0, lowest=1.0, longest=0.0)


def test_a_step_has_to_bring_its_share_of_the_expected_decrease() -> None:
    assert Acceptance(gain=0.1).accepts(1.0, 0.9, expected=0.5) and not Acceptance(gain=0.1).accepts(1.0, 0.97, expected=0.5)
    assert Acceptance(decrease=1e-3).accepts(1.0, 0.9) and not Acceptance(decrease=1e-3).accepts(1.0, 0.9995)
    assert not Acceptance().accepts(1.0, np.nan) and Acceptance().accepts(np.inf, 1.0) and not Acceptance().accepts(1.0, 1.0)
