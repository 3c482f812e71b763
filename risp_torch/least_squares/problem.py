"""The interface of a least-squares problem: it linearises points and evaluates candidates."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from risp_torch.least_squares.equations import LocalModel, NormalEquations

Equations = Sequence[Any]  # what ``linearise`` has made of points: ``LocalModel``, usually ``NormalEquations``


class LeastSquaresProblem(ABC):
    """Problems of G starts that are evaluated in one batch; a point is any object, such as an array or a set of poses.

    A point may hold its normal equations, where worlds that evaluate a candidate also give its Jacobian.

    Attributes:
        reevaluates: whether the objective of a point is evaluated again, because it depends on the round: on the horizon, or on
            what the linearisation froze. A ``PointwiseProblem`` evaluates it with the candidates, unless linearising has
            (``NormalEquations.objective``).
    """

    reevaluates: bool = False

    @abstractmethod
    def linearise(self, points: Sequence[Any]) -> Sequence[LocalModel | None]:
        """Normal equations at G points; None where worlds diverge."""

    @abstractmethod
    def evaluate(
        self, points: Sequence[Any], equations: Equations, steps: Sequence[np.ndarray], before: np.ndarray, *, first: bool
    ) -> tuple[Sequence[Sequence[Any]], np.ndarray, np.ndarray]:
        """Candidates and their objectives.

        Args:
            points: G points.
            equations: of these.
            steps: [M, D] of each.
            before: [G] objectives of the points.
            first: whether these are the first candidates in a round.

        Returns:
            M candidates of each point, their objectives [G, M], infinite where a world diverged, and the objectives [G] of the
            points that they are compared with; NaN accepts every finite one.
        """

    def distance(self, point: Any, other: Any) -> float:
        """Largest difference of two points' coordinates; infinite where points have none to compare."""
        return math.inf

    def at_stage(self, stage: int) -> LeastSquaresProblem:
        """The problem over a stage of a growing horizon (``GrowingHorizon``)."""
        return self

    def at_round(self, number: int) -> LeastSquaresProblem:
        """The problem of a round, counted from 0."""
        return self


class PointwiseProblem(LeastSquaresProblem):
    """A problem whose candidates are made and evaluated in two separate steps."""

    @abstractmethod
    def moved(self, point: Any, equations: NormalEquations, steps: np.ndarray) -> Sequence[Any]:
        """A point after each of M steps [M, D], within the bounds."""

    @abstractmethod
    def objectives(self, candidates: Sequence[Sequence[Any]], equations: Equations) -> np.ndarray:
        """Objectives [G, M] of M candidates of each of G points; infinite where a world diverged."""

    def evaluate(
        self, points: Sequence[Any], equations: Equations, steps: Sequence[np.ndarray], before: np.ndarray, *, first: bool
    ) -> tuple[Sequence[Sequence[Any]], np.ndarray, np.ndarray]:
        """Candidates and their objectives (``LeastSquaresProblem.evaluate``)."""
        candidates = [self.moved(*arguments) for arguments in zip(points, equations, steps, strict=True)]
        if not (first and self.reevaluates):
            return candidates, self.objectives(candidates, equations), before
        known = [point_equations.objective for point_equations in equations]
        if None not in known:
            return candidates, self.objectives(candidates, equations), np.array(known)
        both = [[point, *moved] for point, moved in zip(points, candidates, strict=True)]
        values = self.objectives(both, equations)
        return candidates, values[:, 1:], values[:, 0]


class BoundedProblem(PointwiseProblem):
    """A problem whose points are vectors [K] between bounds, and whose coordinates are the unknowns in their units.

    Candidates are clipped to the bounds. Where correlated unknowns reach a bound, a search may end near the constrained minimum.

    Args:
        low, high: [K] bounds.
        units: [K] change of an unknown by a unit of its coordinate.
    """

    def __init__(self, low: np.ndarray, high: np.ndarray, units: np.ndarray) -> None:
        self.low, self.high, self.units = low, high, units

    def moved(self, point: np.ndarray, equations: NormalEquations, steps: np.ndarray) -> Sequence[np.ndarray]:
        """The point after each step, clipped to the bounds (``PointwiseProblem.moved``)."""
        return np.clip(point + steps * self.units, self.low, self.high)

    def distance(self, point: np.ndarray, other: np.ndarray) -> float:
        """Largest difference of an unknown in its units (``LeastSquaresProblem.distance``)."""
        return float((np.abs(point - other) / self.units).max(initial=0.0))
