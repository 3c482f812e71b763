"""Which steps are evaluated: dampings and lengths, and what becomes of the damping."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from risp_torch.least_squares.damping import KEPT, Damping
from risp_torch.least_squares.equations import NormalEquations
from risp_torch.least_squares.problem import PointwiseProblem

Candidate = tuple[float, float]  # damping and length of a step
SAME_STEP = 0.01  # of the largest change of a coordinate in two steps, up to which they count as one


def distinct_steps(candidates: Sequence[tuple[float, np.ndarray]]) -> list[tuple[float, np.ndarray]]:
    """Candidates (damping and step) without those whose step is that of an earlier one, to ``SAME_STEP``.

    Dampings far below the eigenvalues of a matrix all give its undamped step, and dampings of a limited step differ little.
    """
    distinct: list[tuple[float, np.ndarray]] = []
    for damping, step in candidates:
        tolerance = SAME_STEP * np.abs(step).max(initial=0.0)
        if not any(np.abs(step - other).max(initial=0.0) <= tolerance for _, other in distinct):
            distinct.append((damping, step))
    return distinct


class StepSearch(Protocol):
    """The steps of a round, and the damping of the next one, which is the same unless a search has another rule.

    Attributes:
        first: damping that a start begins with.
    """

    first: float

    def groups(self, damping: float) -> Iterator[Sequence[Candidate]]:
        """Candidates that are evaluated together; later groups are reached only if no step of those before is accepted."""

    def accepted(self, damping: float, used: float) -> float:
        """The damping after a round with this one, in which a step with the damping ``used`` was accepted."""
        return damping

    def rejected(self, damping: float) -> float:
        """The damping after all steps of a round with this one were rejected."""
        return damping


@dataclass(frozen=True)
class FixedSteps(StepSearch):
    """The same dampings in every round, each with several lengths.

    Attributes:
        dampings: of the steps.
        lengths: of each.
        longer: lengths of further steps with the first damping.
        at_once: largest number of steps in a group, those nearest to the length 1 first; None evaluates all at once.
    """

    dampings: Sequence[float]
    lengths: Sequence[float] = (1.0,)
    longer: Sequence[float] = ()
    at_once: int | None = None
    first: ClassVar[float] = 1.0  # has no effect

    def groups(self, damping: float) -> Iterator[Sequence[Candidate]]:
        """The steps (``StepSearch.groups``)."""
        candidates = [(self.dampings[0], length) for length in self.longer]
        candidates += [(fixed_damping, length) for fixed_damping in self.dampings for length in self.lengths]
        if self.at_once is not None:
            candidates.sort(key=lambda candidate: abs(math.log(candidate[1])))
        count = self.at_once or len(candidates)
        for first in range(0, len(candidates), count):
            yield candidates[first : first + count]


@dataclass(frozen=True)
class RelativeDampings(StepSearch):
    """Several dampings relative to that of the last accepted step.

    Attributes:
        factors: of the dampings, ascending.
        first, least, most: damping of a start's first round, and limits of later ones.
        rise: factor after a round without an accepted step.
        longer: lengths of further steps with the least damping, evaluated first.
        at_once: largest number of evaluations in a group, of which the first round holds that of the point itself; None evaluates
            all at once.
    """

    factors: Sequence[float]
    first: float
    least: float
    most: float
    rise: float
    longer: Sequence[float] = ()
    at_once: int | None = None

    def groups(self, damping: float) -> Iterator[Sequence[Candidate]]:
        """Longer steps, then the dampings in ascending order (``StepSearch.groups``)."""
        candidates = [(damping * self.factors[0], length) for length in self.longer]
        candidates += [(damping * factor, 1.0) for factor in self.factors]
        first, count = 0, len(candidates) if self.at_once is None else self.at_once - 1
        while first < len(candidates):
            yield candidates[first : first + count]
            first, count = first + count, self.at_once or 0

    def accepted(self, damping: float, used: float) -> float:
        """That of the step, within the limits (``StepSearch.accepted``)."""
        return float(np.clip(used, self.least, self.most))

    def rejected(self, damping: float) -> float:
        """A larger one (``StepSearch.rejected``)."""
        return min(self.rise * damping, self.most)


@dataclass(frozen=True)
class RisingDamping(StepSearch):
    """One step at a time, with more damping until one is accepted (Levenberg and Marquardt).

    Attributes:
        first, least, most: damping of the first step, and limits.
        rise, fall: factor after a rejected step, and divisor after an accepted one.
        reuses: whether the step by an inverse from an earlier round comes first; it leaves the damping.
    """

    first: float
    least: float
    most: float
    rise: float
    fall: float
    reuses: bool = False

    def groups(self, damping: float) -> Iterator[Sequence[Candidate]]:
        """Single steps with rising damping (``StepSearch.groups``)."""
        if self.reuses:
            yield [(KEPT, 1.0)]
        while damping <= self.most:
            yield [(damping, 1.0)]
            damping *= self.rise

    def accepted(self, damping: float, used: float) -> float:
        """A smaller one than that of the step (``StepSearch.accepted``)."""
        return damping if used == KEPT else max(used / self.fall, self.least)


@dataclass(frozen=True)
class RegionSchedule(StepSearch):
    """One step a round within a trust region (``TrustRegion``), whose radius takes the place of the damping.

    Attributes:
        first: first and largest radius.
        longer, shorter: factors of the radius after an accepted and after a rejected step.
    """

    first: float
    longer: float
    shorter: float

    def groups(self, damping: float) -> Iterator[Sequence[Candidate]]:
        """One step (``StepSearch.groups``)."""
        yield [(damping, 1.0)]

    def accepted(self, damping: float, used: float) -> float:
        """A larger radius (``StepSearch.accepted``)."""
        return min(self.longer * used, self.first)

    def rejected(self, damping: float) -> float:
        """A smaller radius (``StepSearch.rejected``)."""
        return self.shorter * damping


@dataclass(frozen=True)
class ValleySearch:
    """Steps along the least observable direction, each followed by a Gauss-Newton step across it.

    They leave small local minima on the floor of a narrow valley, where other steps are rejected. Each takes a Jacobian, unless
    there is a single coordinate.

    Attributes:
        lengths: along the direction, in both senses.
        damping: of the steps across.
        behind: times the lowest objective of all starts: one with a larger objective takes no such steps.
        most: number of coordinates up to which they are taken.
        at_once: largest number of steps that are evaluated before the first of them may be accepted, shortest first; None
            evaluates all.
    """

    lengths: Sequence[float]
    damping: float
    behind: float
    most: int
    at_once: int | None = None

    def steps(self, problem: PointwiseProblem, damping: Damping, point: np.ndarray, equations: NormalEquations) -> np.ndarray:
        """Steps [M, D] from a point."""
        direction = equations.weakest_direction
        along = np.array([sign * length * direction for length in self.lengths for sign in (1, -1)])
        if len(direction) == 1:  # no coordinate is left for a step across
            return along
        across = []
        for (moved,) in (problem.moved(point, equations, step[None]) for step in along):
            (equations_moved,) = problem.linearise([moved])
            if equations_moved is None or not equations_moved.is_finite:
                across.append(np.zeros(len(direction)))
                continue
            step, weakest = damping.step(equations_moved, self.damping), equations_moved.weakest_direction
            across.append(step - weakest * (step @ weakest))
        return np.array(across) + along
