"""The least-squares problem of wide finite differences: the worlds around a candidate give its loss and its normal equations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from risp_torch.inversion.losses.loss import mean_square
from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.inversion.problem.search_settings import WideSteps
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.least_squares.damping import TrustRegion
from risp_torch.least_squares.equations import NormalEquations
from risp_torch.least_squares.jacobian import central_differences
from risp_torch.least_squares.problem import Equations, LeastSquaresProblem
from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import DivergenceError

REGION = TrustRegion(least=1e-6, most=1e12, rise=4.0)  # in widths of the differences
_MIN_WIDTH = 1e-5  # width of a difference relative to the range


@dataclass(frozen=True)
class Point:
    """The point of a start, and the results of the worlds around it.

    Attributes:
        scaled: the point [K], scaled units.
        loss: mean over the worlds around it, penalty included; infinite if none is finite.
        equations: normal equations along M directions of the mean loss there, penalty included. Their ``radius`` [M] is the
            width of the differences along each direction, relative to the ranges.
        evaluation_key: width and horizon of the worlds: only losses with equal ones are comparable.
        expected_residual: mean squared residual expected after the next step.
    """

    scaled: np.ndarray
    loss: float
    equations: NormalEquations
    evaluation_key: tuple[float, int]
    expected_residual: float = math.inf

    @property
    def widths(self) -> np.ndarray:
        """[M] widths of the differences."""
        return self.equations.radius

    def to_state(self) -> dict[str, Any]:
        """For a checkpoint."""
        equations = {name: getattr(self.equations, name) for name in ("matrix", "gradient", "radius")}
        return vars(self) | {"equations": equations}

    @staticmethod
    def from_state(state: Mapping[str, Any]) -> Point:
        """The point of ``to_state``."""
        equations = NormalEquations(**state["equations"])
        return Point(**{**state, "equations": equations, "evaluation_key": tuple(state["evaluation_key"])})


class WideProblem(LeastSquaresProblem):
    """One film and its unknowns, in scaled coordinates; a point is a ``Point``.

    Attributes:
        number: of the round, which determines the width of the differences and the horizon; ``minimise`` counts from it.
    """

    def __init__(
        self, scene: Scene, comparison: Comparison, unknowns: Unknowns, settings: WideSteps, *, refining: bool = False
    ) -> None:
        self.scene, self.comparison, self.unknowns, self.settings, self.refining = scene, comparison, unknowns, settings, refining
        self.low, self.high = (unknowns.scaled(bound) for bound in unknowns.bounds())
        self.ranges = unknowns.scaled_range()
        self.smooth = unknowns.smoothness.matrix(self.ranges)
        self.directions = directions(unknowns, settings.spacing)
        self.number = 0

    def at_round(self, number: int) -> WideProblem:
        """The problem ``number`` rounds later (``LeastSquaresProblem.at_round``)."""
        later = copy(self)
        later.number += number
        return later

    def linearise(self, points: Sequence[Point]) -> list[NormalEquations]:
        """The normal equations that the points were evaluated with (``LeastSquaresProblem.linearise``)."""
        return [point.equations for point in points]

    def evaluate(
        self, points: Sequence[Point], equations: Equations, steps: Sequence[np.ndarray], before: np.ndarray, *, first: bool
    ) -> tuple[list[list[Point]], np.ndarray, np.ndarray]:
        """Candidates from the worlds around them (``LeastSquaresProblem.evaluate``).

        Settling rounds accept every finite candidate, and so do rounds with other widths or another horizon.
        """
        candidates, compared = [], []
        for point, point_steps in zip(points, steps, strict=True):
            row = [self.point_at(self.moved(point, step), before=point if self.is_settling else None) for step in point_steps]
            comparable = not self.is_settling and row[0].evaluation_key == point.evaluation_key
            candidates.append(row)
            compared.append(point.loss if comparable else math.nan)
        return candidates, np.array([[candidate.loss for candidate in row] for row in candidates]), np.array(compared)

    @property
    def is_settling(self) -> bool:
        """Whether the round is one of the settling rounds, which have a world at each point."""
        return self.number > len(self.settings.widths) - self.settings.settling_rounds

    def point_at(self, scaled: np.ndarray, *, before: Point | None = None) -> Point:
        """A point [K], moved away from the bounds by the width of the round, with the worlds around it.

        Settling rounds also have a world at the point.

        ``before`` is the point that determines the widths of the differences, if the settings require it.
        """
        width = self.settings.widths[min(self.number, len(self.settings.widths) - 1)]
        horizon = self.settings.horizon(self.number, self.comparison.last)
        widths = self._widths(width, before)
        margin = (widths[:, None] * self.directions).max(axis=0) * self.ranges
        center = np.clip(scaled, self.low + margin, self.high - margin)
        count = self.comparison.observation_count_of(self.comparison.frames_up_to(horizon))
        normal, gradient, loss, residual_power = self._equations(center, widths, horizon)
        expected_residual = residual_power - float(gradient @ np.linalg.solve(_damped(normal), gradient))
        relative_center = center / self.ranges
        pull = self.smooth @ relative_center
        prior_matrix = self._prior_matrix(residual_power, count)
        normal = normal + self.directions @ (self.smooth + prior_matrix) @ self.directions.T
        gradient = gradient - self.directions @ (pull + prior_matrix @ self.unknowns.priors.offset(center, self.ranges))
        loss = self._with_priors(loss, center, count) + float(relative_center @ pull)
        return Point(
            center, loss, NormalEquations(normal, gradient, radius=widths), (width, horizon), max(expected_residual, 0.0)
        )

    def next_point(self, point: Point, radius: float) -> np.ndarray:
        """End [K] of the next step, damped until no unknown changes by more than ``radius`` widths."""
        return self.moved(point, REGION.step(point.equations, radius))

    def moved(self, point: Point, step: np.ndarray) -> np.ndarray:
        """The end [K] of a step [M] along the directions, within the bounds."""
        return np.clip(point.scaled + step @ self.directions * self.ranges, self.low, self.high)

    def is_near(self, point: Point, target: np.ndarray) -> bool:
        """Whether the end of a step [K] is within the width of its differences."""
        return bool(np.all(np.abs(target - point.scaled) <= (point.widths[:, None] * self.directions).max(axis=0) * self.ranges))

    def _prior_matrix(self, residual: float, count: float) -> np.ndarray:
        """Part [K, K] of the priors in the normal equations of a mean over ``count`` observations."""
        priors = self.unknowns.priors
        precision = priors.precision(self.ranges)
        return precision * priors.variance(residual) / count if priors and math.isfinite(residual) else 0.0 * precision

    def _with_priors(self, loss: float, point: np.ndarray, count: float) -> float:
        """The loss at a point [K] with the priors (``Priors.penalised``)."""
        rows = torch.as_tensor(point[None])
        return float(self.unknowns.priors.penalised(rows.new_tensor([loss]), rows, count))

    def _widths(self, width: float, before: Point | None) -> np.ndarray:
        """Widths of the differences along each direction [M], in parts of the ranges.

        With a normal matrix N = J^T J / P and a mean squared residual L, a change with d^T N d = L is as large as the residual:
        the directions' widths are sqrt(L (N^-1)_mm), with the other directions free.
        """
        widths = np.full(len(self.directions), width)
        if self.settings.settling_residual_ratio is None or before is None or not math.isfinite(before.expected_residual):
            return widths
        width_ratio = width / max(self.settings.widths[-self.settings.settling_rounds :])
        optimal = (
            self.settings.settling_residual_ratio
            * width_ratio
            * np.sqrt(before.expected_residual * np.diag(np.linalg.inv(_damped(before.equations.matrix))))
        )
        return np.clip(optimal, _MIN_WIDTH, width)

    def _equations(self, center: np.ndarray, widths: np.ndarray, horizon: int) -> tuple[np.ndarray, np.ndarray, float, float]:
        """J^T J / P [M, M] and J^T r / P [M] along M directions, the mean loss on either side, and r^T r / P.

        P is the number of observations that count. The residual r is that of the mean over all worlds around the centre, or, in
        settling rounds, of the centre itself.
        """
        compared_frames = self.comparison.frames_up_to(horizon)
        target, count = self.comparison.target[: len(compared_frames)], self.comparison.observation_count_of(compared_frames)
        comparison, sums, losses, num_finite = self._frozen_comparison(center), 0.0, 0.0, 0

        def observe(points: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
            nonlocal sums, losses, num_finite
            observed, finite = self._observe(comparison, points, horizon)
            sums = sums + observed[finite].sum(dim=0)
            losses += float(mean_square(observed[finite], target, count).sum())
            num_finite += int(finite.sum())
            return observed.flatten(1), finite

        moves, at_once = widths[:, None] * self.directions * self.ranges, max(1, min(32, self.comparison.worlds_at_once) // 2)
        differences, pair_finite = central_differences(observe, center, moves, at_once=at_once)
        is_finite, mean = True, sums / max(num_finite, 1)
        if self.is_settling:
            (mean,), is_finite = self._observe(comparison, center[None], horizon)
        if not num_finite or not is_finite:
            size = len(self.directions)
            return np.zeros((size, size)), np.zeros(size), math.inf, math.inf
        slopes = differences / (2 * torch.as_tensor(widths).to(differences)[:, None])
        jacobian, residual = torch.where(pair_finite[:, None], slopes, torch.zeros_like(slopes)), (target - mean).flatten()
        blocks = zip(jacobian.split(2**16, dim=1), residual.split(2**16), strict=True)  # in double precision, gigabytes together
        equations = NormalEquations.from_rows((columns.double().T, rows) for columns, rows in blocks)
        square = float(residual.double().square().sum())
        return equations.matrix / count, equations.gradient / count, losses / num_finite, square / count

    def _frozen_comparison(self, center: np.ndarray) -> Comparison:
        """The comparison of the worlds around a point."""
        if not self.refining:
            return self.comparison
        rows = torch.as_tensor(center[None], dtype=bridge_dtype(), device=bridge_device())
        try:
            return self.comparison.frozen_at(self.scene, self.unknowns.from_scaled(rows))
        except DivergenceError:
            return self.comparison

    def _observe(self, comparison: Comparison, points: np.ndarray, horizon: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Observations [k, n, ...] of the worlds at points [k, K], and which of them are finite [k]."""
        rows = torch.as_tensor(points, dtype=bridge_dtype(), device=bridge_device())
        try:
            with torch.no_grad():
                return comparison.observe(self.scene, self.unknowns.from_scaled(rows), worlds=len(rows), horizon=horizon)
        except DivergenceError:  # none of these worlds stayed finite
            target = self.comparison.target[: len(self.comparison.frames_up_to(horizon))]
            return target.expand(len(rows), *target.shape), torch.zeros(len(rows), dtype=torch.bool, device=target.device)


def _damped(normal: np.ndarray) -> np.ndarray:
    """Normal equations [M, M] with the least damping."""
    return normal + REGION.least * (np.trace(normal) / len(normal) + 1e-300) * np.eye(len(normal))


def directions(unknowns: Unknowns, spacing: int) -> np.ndarray:
    """Directions [M, K] relative to the ranges: single unknowns, or hat functions over the rows of sequences.

    Args:
        unknowns: arrays are sequences along their first axis.
        spacing: distance of hat centres in rows, or slightly less, so that there is one at both ends.
    """
    blocks = []
    for name in unknowns.groups:
        shape = np.shape(unknowns.params[name].value)
        rows, columns = (shape[0], int(np.prod(shape[1:]))) if shape else (1, 1)
        knots = np.linspace(0, rows - 1, 1 + math.ceil((rows - 1) / spacing))
        hats = np.stack([np.interp(np.arange(rows), knots, unit) for unit in np.eye(len(knots))])
        blocks.append(np.kron(hats, np.eye(columns)))
    matrix = np.zeros((sum(len(block) for block in blocks), len(unknowns.scaled_range())))
    row = column = 0
    for block in blocks:
        matrix[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return matrix
