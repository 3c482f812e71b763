"""The loop of damped Gauss-Newton steps from several starts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

import numpy as np

from risp_torch.least_squares.damping import Damping, Limit, limited
from risp_torch.least_squares.equations import LocalModel
from risp_torch.least_squares.horizon import GrowingHorizon
from risp_torch.least_squares.problem import LeastSquaresProblem
from risp_torch.least_squares.step_search import StepSearch, ValleySearch, distinct_steps
from risp_torch.least_squares.termination import Acceptance, Termination


@dataclass(frozen=True)
class Policy:
    """The exchangeable parts of a search.

    Attributes:
        damping: from normal equations to steps; ``InverseReuse`` keeps an inverse for several rounds.
        search: which steps are evaluated.
        rounds: largest number of rounds.
        limit: largest change of each coordinate in a step of length 1.
        acceptance, termination: of steps, and of starts.
        horizon: of problems over a growing horizon, or None.
        valley: steps where no other is accepted, or None.
        meeting: distance (``LeastSquaresProblem.distance``) within which starts are in one minimum: only the one with the longest
            horizon, or else the best of them continues, and all end where it ends. 0 keeps all.
        in_one_batch: whether candidates of all starts are evaluated in one batch; otherwise start by start, each with the
            objectives that those before it have reached.
    """

    damping: Damping
    search: StepSearch
    rounds: int
    limit: Limit = math.inf
    acceptance: Acceptance = field(default_factory=Acceptance)
    termination: Termination = field(default_factory=Termination)
    horizon: GrowingHorizon | None = None
    valley: ValleySearch | None = None
    meeting: float = 0.0
    in_one_batch: bool = False


@dataclass
class Starts:
    """State of S starts, modified in place.

    Attributes:
        points: S points.
        objectives: [S]; NaN before the first evaluation.
        damping: [S] of the next steps.
        stage: [S] index of the horizon.
        reached: [S, H] objectives with which the starts reached the next horizon; infinite before that.
        active: [S] whether a start takes steps.
        stopped: [S] whether a start was stopped for being far behind another one.
        joined: [S] another start that a start has met and ends with; -1 if none.
    """

    points: list[Any]
    objectives: np.ndarray
    damping: np.ndarray
    stage: np.ndarray
    reached: np.ndarray
    active: np.ndarray
    stopped: np.ndarray
    joined: np.ndarray

    @staticmethod
    def begin(points: Sequence[Any], policy: Policy, objectives: np.ndarray | None = None) -> Starts:
        """Starts at points; without objectives for problems that evaluate them in each round (``reevaluates``).

        Starts whose objectives are not finite are not active.
        """
        count, stages = len(points), 1 if policy.horizon is None else policy.horizon.stages
        values = np.full(count, np.nan) if objectives is None else np.array(objectives, dtype=np.float64)
        active = np.ones(count, dtype=bool) if objectives is None else np.isfinite(values)
        return Starts(
            list(points), values, np.full(count, policy.search.first), np.zeros(count, dtype=np.int64),
            np.full((count, stages), np.inf), active, np.zeros(count, dtype=bool), np.full(count, -1),
        )  # fmt: skip

    @property
    def ends(self) -> np.ndarray:
        """[S] the start that each one ends with, itself if it has met none."""
        ends = np.arange(len(self.points))
        while (self.joined[ends] >= 0).any():
            ends = np.where(self.joined[ends] >= 0, self.joined[ends], ends)
        return ends

    def copy(self) -> Starts:
        """An independent copy; the points, which are not modified, are shared."""
        return Starts(list(self.points), *(getattr(self, column.name).copy() for column in fields(self)[1:]))

    def to_arrays(self) -> dict[str, np.ndarray]:
        """All arrays by their names, for a checkpoint; an array of objects where points are objects."""
        return {column.name: np.array(getattr(self, column.name)) for column in fields(self)}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Load what ``to_arrays`` made."""
        for column in fields(self):
            array = np.array(arrays[column.name])
            setattr(self, column.name, list(array) if column.name == "points" else array)


class Checkpoint(Protocol):
    """Where a search is saved, and resumed from."""

    def load(self) -> dict[str, Any] | None:
        """The last state; None if there is none."""

    def save(self, state: dict[str, Any]) -> None:
        """Save a state: arrays, numbers, lists and dicts of these."""


AfterRound = Callable[[Starts, Starts], None]
_Group = tuple[Sequence[float], np.ndarray]  # dampings and steps [M, D] of M candidates that are evaluated together


def minimise(
    problem: LeastSquaresProblem, starts: Starts, policy: Policy, *, checkpoint: Checkpoint | None = None,
    after_round: AfterRound | None = None,
) -> Starts:  # fmt: skip
    """Rounds of every active start, until none is left.

    A round linearises the problem at the start's point, evaluates the steps of the search until one is accepted, and takes the
    best. Starts whose worlds diverge end.

    Args:
        problem: the problem.
        starts: modified in place.
        policy: the parts of the search.
        checkpoint: saves the state after every round; a saved state is resumed.
        after_round: called after every round with the starts before and after it; the objectives of the former are those over the
            horizon of the round. It may change the latter.

    Returns:
        The starts.
    """
    first = 0
    if checkpoint is not None and (saved := checkpoint.load()) is not None:
        starts.restore(saved["starts"])
        first = int(saved["rounds"])
    for number in range(first, policy.rounds):
        _join(problem, policy, starts)
        if not starts.active.any():
            break
        before, rows = starts.copy(), np.flatnonzero(starts.active)
        for batch in [rows] if policy.in_one_batch else rows[:, None]:
            staged = problem.at_round(number)
            staged = staged if policy.horizon is None else staged.at_stage(int(starts.stage[batch[0]]))
            models = staged.linearise([starts.points[row] for row in batch])
            _advance(staged, policy, starts, before, dict(zip(batch.tolist(), models, strict=True)))
        if policy.horizon is not None:
            stopped = policy.horizon.stopped(starts.reached, starts.active)
            starts.active &= ~stopped
            starts.stopped |= stopped
            starts.stopped |= starts.stopped[starts.ends]
        if after_round is not None:
            after_round(before, starts)
        if checkpoint is not None:
            checkpoint.save({"starts": starts.to_arrays(), "rounds": number + 1})
    starts.points, starts.objectives = [starts.points[end] for end in starts.ends], starts.objectives[starts.ends]
    return starts


def _join(problem: LeastSquaresProblem, policy: Policy, starts: Starts) -> None:
    """End every start that has met another one over the same or a later horizon; over the same one, a better one."""
    order = np.lexsort((starts.objectives, -starts.stage))
    order = [row for row in order if np.isfinite(starts.objectives[row]) and not starts.stopped[row]]
    for number, row in enumerate(order if policy.meeting else ()):
        for other in order[:number]:
            if not starts.active[row] or starts.joined[other] >= 0:
                continue
            if problem.distance(starts.points[row], starts.points[other]) <= policy.meeting:
                starts.active[row], starts.joined[row] = False, other


@dataclass
class _Round:
    """One start in a round.

    Attributes:
        point, equations: where it stands.
        groups: candidates that are still to be evaluated.
        before: objective of the point.
        best, after: the best candidate, and its objective; the point itself before one is accepted.
        damping: of the best candidate; None before one is accepted.
        used: of the last candidate.
        longest: largest change of a coordinate in a step of length 1.
        is_last: whether the start ends after the last candidate.
    """

    point: Any
    equations: LocalModel
    groups: Iterator[_Group]
    before: float
    best: Any
    after: float
    damping: float | None = None
    used: float = 0.0
    longest: float = 0.0
    is_last: bool = False


def _advance(
    problem: LeastSquaresProblem, policy: Policy, starts: Starts, before: Starts, models: Mapping[int, LocalModel | None]
) -> None:
    """One round of the starts whose rows have ``models`` of the problem at their points, in one batch."""
    lowest = float(np.min(starts.objectives, where=np.isfinite(starts.objectives), initial=np.inf))
    rounds: dict[int, _Round] = {}
    for row, equations in models.items():
        if equations is None or not equations.is_finite:
            starts.active[row] = False
            if problem.reevaluates:
                starts.objectives[row] = before.objectives[row] = np.nan
            continue
        point, objective = starts.points[row], float(starts.objectives[row])
        rounds[row] = start_round = _Round(point, equations, iter(()), objective, point, objective)
        start_round.groups = _groups(policy, start_round, starts.damping[row])
    _search(problem, policy, rounds)
    for row, start_round in rounds.items():
        if start_round.damping is None and policy.valley is not None:
            _search_valley(problem, policy, policy.valley, start_round, lowest)
        _conclude(policy, starts, row, start_round, lowest)
        before.objectives[row] = start_round.before


def _search(problem: LeastSquaresProblem, policy: Policy, rounds: Mapping[int, _Round]) -> None:
    """Evaluate groups of candidates until one of each start is accepted."""
    waiting, first = list(rounds.values()), True
    while waiting:
        following = [(start_round, next(start_round.groups, None)) for start_round in waiting]
        requests = [(start_round, group) for start_round, group in following if group is not None]
        if not requests:
            break
        candidates, objectives, before = problem.evaluate(
            [start_round.point for start_round, _ in requests], [start_round.equations for start_round, _ in requests],
            [steps for _, (_, steps) in requests], np.array([start_round.before for start_round, _ in requests]), first=first,
        )  # fmt: skip
        for (start_round, group), moved, values, reference in zip(requests, candidates, objectives, before, strict=True):
            _choose(policy, start_round, group, moved, values, float(reference))
        waiting = [start_round for start_round, _ in requests if start_round.damping is None and not start_round.is_last]
        first = False


def _choose(
    policy: Policy, start_round: _Round, group: _Group, moved: Sequence[Any], values: np.ndarray, reference: float
) -> None:
    """Accept the best candidate of a group, or none; they are compared with the objective ``reference``."""
    pick = int(np.where(np.isnan(values), np.inf, values).argmin())
    (dampings, steps), expected = group, 0.0
    start_round.used = dampings[pick]
    if policy.acceptance.gain or policy.termination.expected is not None:
        expected = start_round.equations.decrease(steps[pick])
        change = max(expected, start_round.before - reference)
        start_round.is_last = policy.termination.is_last(start_round.before, change)
    start_round.before = start_round.after = reference
    if policy.acceptance.accepts(reference, values[pick], 0.0 if start_round.is_last else expected):
        start_round.best, start_round.after, start_round.damping = moved[pick], float(values[pick]), start_round.used


def _groups(policy: Policy, start_round: _Round, damping: float) -> Iterator[_Group]:
    """The groups of a search, without equal steps, and without candidates of which the damping rule has no step."""
    for group in policy.search.groups(damping):
        steps = {used: policy.damping.step(start_round.equations, used) for used in dict.fromkeys(used for used, _ in group)}
        steps = {used: step for used, step in steps.items() if step is not None}
        candidates = [(used, limited(steps[used], length, policy.limit)) for used, length in group if used in steps]
        stays = bool(candidates) and not (policy.in_one_batch or any(step.any() for _, step in candidates))
        if candidates:
            if policy.termination.step:
                whole = [limited(step, 1.0, policy.limit) for step in steps.values()]
                start_round.longest = max(float(np.abs(step).max(initial=0.0)) for step in whole)
            if not policy.in_one_batch:  # a batch has equal numbers of candidates of all starts
                candidates = distinct_steps(candidates)
            yield [used for used, _ in candidates], np.array([step for _, step in candidates])
        if stays:  # so does every other step: nothing depends on the coordinates
            return


def _search_valley(
    problem: LeastSquaresProblem, policy: Policy, valley: ValleySearch, start_round: _Round, lowest: float
) -> None:
    """Evaluate steps along the least observable direction of a start, unless it is behind others."""
    if len(start_round.equations.gradient) > valley.most or not start_round.before <= valley.behind * lowest:
        return
    steps = valley.steps(problem, policy.damping, start_round.point, start_round.equations)
    count = valley.at_once or len(steps)
    for first in range(0, len(steps), count):
        (moved,), (values,), _ = problem.evaluate(
            [start_round.point], [start_round.equations], [steps[first : first + count]], np.array([start_round.before]),
            first=False,
        )  # fmt: skip
        pick = int(np.where(np.isnan(values), np.inf, values).argmin())
        if Acceptance().accepts(start_round.before, values[pick]):
            start_round.best, start_round.after, start_round.damping = moved[pick], float(values[pick]), start_round.used
            break


def _conclude(policy: Policy, starts: Starts, row: int, start_round: _Round, lowest: float) -> None:
    """Move a start to its best candidate, and decide whether it continues."""
    accepted = start_round.damping is not None
    search, damping = policy.search, starts.damping[row]
    starts.points[row], starts.objectives[row] = start_round.best, start_round.after
    if not accepted:
        starts.damping[row] = search.rejected(damping)
    elif not math.isnan(start_round.before):  # a step that was compared with nothing says nothing about the damping
        starts.damping[row] = search.accepted(damping, start_round.damping)
    horizon = policy.horizon
    if horizon is not None and starts.stage[row] < horizon.stages - 1:
        if start_round.before - start_round.after <= horizon.settled * start_round.before:
            starts.reached[row, starts.stage[row]] = start_round.after
            starts.stage[row] += 1
            starts.damping[row] = min(starts.damping[row], search.first)
        return
    starts.active[row] = not start_round.is_last and policy.termination.continues(
        start_round.before, start_round.after, lowest=lowest, longest=start_round.longest
    )
