"""Levenberg-Marquardt search for shared unknowns and for the start of each of many measured motions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from tqdm import tqdm

from risp_torch.inversion.problem.priors import Priors
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.inversion.uncertainty.unobservable import unobservable_directions
from risp_torch.least_squares.loop import Policy, Starts, minimise
from risp_torch.least_squares.problem import PointwiseProblem
from risp_torch.least_squares.step_search import RisingDamping
from risp_torch.least_squares.termination import Termination
from risp_torch.motions.measured import MeasuredMotions, SelectedMotions, tensor
from risp_torch.motions.normal_equations import SharedNormalEquations, clustered_covariance
from risp_torch.motions.recording import Window
from risp_torch.motions.result import MotionFit
from risp_torch.motions.settings import MotionFitSettings

_DIVERGED_RESIDUAL = 100.0  # residual of a world that diverged, in multiples of the noise
DAMPING = RisingDamping(first=1e-3, least=0.0, most=1e8, rise=5.0, fall=5.0)
_MIN_LOCAL_DAMPING = 1e-9
_MAX_RETRIES = 10  # shorter steps of a motion whose step was rejected
_NEAR_MINIMUM = 100.0  # multiples of the tolerance: a smaller relative decrease of the cost means that the minimum is near
_PROJECTED_DAMPING = 0.04  # of the shared unknowns' first step near the minimum, relative to the diagonal of their information
_MAX_START_ROUNDS = 10  # of the starts alone, at each candidate near the minimum
_SETTLED_STEP = 0.1  # in error bars: the search ends after a shorter step of the shared unknowns
_JACOBIAN_ROUNDS, _MAX_STEP_RATIO = 3, 30.0  # refinements of finite differences; longest step relative to the settings' step
_REPEAT_RATIO = 5.0  # a finite difference is repeated if its step shrinks by at least this factor
EXPLAINED = 1.7  # mean squared residual in multiples of the noise's variance: noise explains smaller ones
_CLUSTERS_PER_UNKNOWN = 4  # with more clusters, error bars always come from the clusters' scatter
_MAX_RESPONSE = 3.0  # multiples of the noise: change of all coordinates of a window over a finite difference
_MIN_DEGREES_OF_FREEDOM = 30  # with fewer, residuals below the stated noise do not replace it
_MAX_REMAINING_STEP = 0.5  # in error bars: the next step of a fit that has converged is shorter
_UNOBSERVABLE_SD = 0.25  # relative to the ranges: combinations of unknowns with larger error bars are reported


class NoUnknowns:
    """Replaces ``Unknowns`` where windows share no unknowns.

    Args:
        values: parameters [1, *shape] that replace the scene's own.
    """

    priors = Priors()

    def __init__(self, values: Mapping[str, torch.Tensor] | None = None) -> None:
        self.values = dict(values or {})

    def current(self) -> np.ndarray:
        """No value, [0]."""
        return np.zeros(0)

    def scaled(self, values: np.ndarray) -> np.ndarray:
        """The same, [0]."""
        return values

    def scaled_range(self) -> np.ndarray:
        """No range, [0]."""
        return np.zeros(0)

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """No bounds, two of [0]."""
        return np.zeros(0), np.zeros(0)

    def from_scaled(self, scaled: torch.Tensor) -> dict[str, torch.Tensor]:
        """The known values, for [R, 0]."""
        return {name: value.expand(len(scaled), *value.shape[1:]) for name, value in self.values.items()}


@dataclass(frozen=True, eq=False)
class Point:
    """A point of the search.

    Attributes:
        scaled: [K] shared unknowns.
        start_offsets: [M, S] estimated minus measured starts.
        residual: [M, T, G, P] measured minus simulated, in multiples of the noise; 0 where nothing is measured.
        weights: [M, T, G] robust weights.
        costs: [M] costs of the motions and of the priors of their starts.
        cost: mean cost of a coordinate, priors included.
    """

    scaled: np.ndarray
    start_offsets: np.ndarray
    residual: np.ndarray
    weights: np.ndarray
    costs: np.ndarray
    cost: float


@dataclass(frozen=True, eq=False)
class _Difference:
    """A central difference by one coordinate.

    Attributes:
        upper, lower: shared unknowns [K] and starts [M, S] of both sides.
        half_widths: [M] half the distance of the sides, relative to the range or to the standard deviation of the coordinate.
    """

    upper: tuple[np.ndarray, np.ndarray]
    lower: tuple[np.ndarray, np.ndarray]
    half_widths: np.ndarray


class MotionSearch:
    """Least-squares problem of measured motions, and its search.

    Args:
        motions: the windows as ``MeasuredMotions``.
        windows: the windows.
        unknowns: shared unknowns.
        settings: noise and search.
        windows_are_clusters: whether each window is a separate cluster in the error bars; by default each recording is one.
    """

    def __init__(
        self, motions: MeasuredMotions, windows: Sequence[Window], unknowns: Unknowns | NoUnknowns, settings: MotionFitSettings,
        *, windows_are_clusters: bool = False,
    ) -> None:  # fmt: skip
        self.motions, self.windows, self.unknowns, self.settings = motions, windows, unknowns, settings
        self.start_prior_sd = np.broadcast_to(motions.start_sd, motions.starts.shape)
        self.is_measured = np.isfinite(motions.target)
        self.initial_scaled, self.ranges = unknowns.scaled(unknowns.current()), unknowns.scaled_range()
        self.low, self.high = (unknowns.scaled(bound) for bound in unknowns.bounds())
        recording_ids = list(dict.fromkeys(id(window.recording) for window in windows))
        self.clusters = np.array([recording_ids.index(id(window.recording)) for window in windows])
        self.windows_are_clusters = windows_are_clusters
        self.difference_steps, self.start_difference_steps = (
            np.full(len(self.initial_scaled), settings.step),
            np.full(self.start_prior_sd.shape, settings.start_step),
        )

    def run(
        self, *, progress: bool, scaled: np.ndarray | None = None, start_offsets: np.ndarray | None = None
    ) -> tuple[Point, list[float], bool]:
        """Steps of Levenberg and Marquardt until the shared unknowns have settled, or the cost no longer falls.

        At first a step moves shared unknowns and starts together. The cost of a window with friction and impacts has several
        minima over its start, and its linear model holds over short steps only, so that single windows soon reject their steps.
        Near the minimum the starts are therefore minimised at each candidate (variable projection): a step of the shared
        unknowns is judged by the cost that remains. The shared unknowns have settled where the longest step that lowers this cost
        is shorter than a tenth of their error bars, whichever minima the starts are in.

        Args:
            progress: whether to show a progress bar.
            scaled: [K] first guess of the shared unknowns; the scene's values by default.
            start_offsets: [M, S] first guess of estimated minus measured starts; zero by default.

        Returns:
            The last point, the costs of all points, and whether the search has ended before the largest number of steps: the
            shared unknowns have settled, the last step changed the cost of no motion by more than the tolerance, where nothing is
            shared, or no step lowers the cost.
        """
        first_point = self.evaluate(
            self.initial_scaled if scaled is None else scaled,
            np.zeros_like(self.motions.starts) if start_offsets is None else start_offsets,
        )
        problem, costs = _MotionProblem(self), [first_point.cost]
        # Motions that share no unknown end when all have converged (``after_round``).
        termination = Termination(decrease=0.0 if len(first_point.scaled) else None)
        policy = Policy(_BlockDamping(problem), DAMPING, self.settings.iterations, termination=termination)
        progress_bar = tqdm(total=self.settings.iterations, desc="fitting", disable=not progress)

        def after_round(before: Starts, after: Starts) -> None:
            old, new = before.points[0], after.points[0]
            if not len(new.scaled):
                after.active[0] = bool((old.costs - new.costs > self.settings.tolerance * old.costs).any())
            elif problem.minimises_starts:
                after.active[0] &= not problem.is_settled((new.scaled - old.scaled) / self.ranges)
            elif old.cost - new.cost <= _NEAR_MINIMUM * self.settings.tolerance * old.cost:
                after.active[0] = not problem.is_settled(problem.remaining_step)
                if after.active[0]:
                    after.points[0] = new = problem.begin_minimising_starts(new)
                    after.objectives[0], after.damping[0] = new.cost, _PROJECTED_DAMPING
            if new is not old:
                costs.append(new.cost)
            progress_bar.update()

        solution = minimise(
            problem, Starts.begin([first_point], policy, np.array([first_point.cost])), policy, after_round=after_round
        )
        progress_bar.close()
        return solution.points[0], costs, not solution.active[0]

    def simulate(self, scaled: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Coordinates [R, T, G, P] of simulations with unknowns [R, K] from starts [R, S]; row r belongs to window r modulo M."""
        window_index, batches = np.arange(len(scaled)) % len(self.windows), []
        for first in range(0, len(scaled), self.settings.worlds):
            batch = slice(first, first + self.settings.worlds)
            with torch.no_grad():
                values = self.unknowns.from_scaled(tensor(scaled[batch]))
                batches.append(self.motions.simulate(values, starts[batch], window_index[batch]))
        return np.concatenate(batches)

    def evaluate(self, scaled: np.ndarray, start_offsets: np.ndarray) -> Point:
        """The residuals at a point."""
        coordinates = self.simulate(np.tile(scaled, (len(start_offsets), 1)), self.motions.starts + start_offsets)
        residual = np.where(self.is_measured, (self.motions.target - coordinates) / self.motions.noise, 0.0)
        residual = np.where(np.isfinite(residual), residual, _DIVERGED_RESIDUAL)
        mean_square = (residual**2).mean(axis=-1)
        cost_weight = 1.0 / (1.0 + mean_square / self.settings.robust_scale**2)
        costs = (residual.shape[-1] * mean_square * cost_weight).sum(axis=(1, 2)) + (
            (start_offsets / self.start_prior_sd) ** 2
        ).sum(axis=1)
        return self._point(scaled, start_offsets, residual, cost_weight**2, costs)

    def minimise_starts(self, point: Point, rows: np.ndarray) -> Point:
        """The point after rounds of the starts of some motions, with fixed shared unknowns.

        A motion takes part while its cost falls by more than the tolerance.

        Args:
            point: the point.
            rows: indices of the motions.
        """
        fixed = NoUnknowns(self.unknowns.from_scaled(tensor(point.scaled[None])))
        one_round = replace(self.settings, iterations=1)
        for _ in range(_MAX_START_ROUNDS):
            if not len(rows):
                break
            search = MotionSearch(SelectedMotions(self.motions, rows), [self.windows[row] for row in rows], fixed, one_round)
            search.start_difference_steps = self.start_difference_steps[rows]
            after, *_ = search.run(progress=False, start_offsets=point.start_offsets[rows])
            previous_costs = point.costs[rows]
            point = self._with_starts(point, rows, after)
            rows = rows[previous_costs - after.costs > self.settings.tolerance * previous_costs]
        return point

    def profile_cost(self, scaled: np.ndarray, start_offsets: np.ndarray) -> float:
        """Cost of all coordinates and priors at shared unknowns [K], minimised over starts from initial offsets [M, S]."""
        fixed = NoUnknowns(self.unknowns.from_scaled(tensor(scaled[None])))
        point, *_ = MotionSearch(self.motions, self.windows, fixed, self.settings).run(
            progress=False, start_offsets=start_offsets
        )
        offset = self.unknowns.priors.offset(scaled, self.ranges)
        return float(point.costs.sum() + offset @ self.unknowns.priors.precision(self.ranges) @ offset)

    def _point(
        self, scaled: np.ndarray, start_offsets: np.ndarray, residual: np.ndarray, weights: np.ndarray, costs: np.ndarray
    ) -> Point:
        offset = self.unknowns.priors.offset(scaled, self.ranges)
        prior_cost = offset @ self.unknowns.priors.precision(self.ranges) @ offset
        return Point(scaled, start_offsets, residual, weights, costs, float((costs.sum() + prior_cost) / self.is_measured.sum()))

    def _with_starts(self, point: Point, rows: np.ndarray, starts: Point) -> Point:
        """The point with the starts of some motions, as indices, from another point of these motions alone."""
        arrays = []
        for name in ("start_offsets", "residual", "weights", "costs"):
            array = getattr(point, name).copy()
            array[rows] = getattr(starts, name)
            arrays.append(array)
        return self._point(point.scaled, *arrays)

    def select_better_starts(self, first_point: Point, second_point: Point) -> tuple[Point, np.ndarray]:
        """The better start of each motion, of two points with the same shared unknowns; and [M] whether it is the first's."""
        takes_first = first_point.costs <= second_point.costs
        rows = takes_first[:, None, None]
        return self._point(
            first_point.scaled, np.where(takes_first[:, None], first_point.start_offsets, second_point.start_offsets),
            np.where(rows[..., None], first_point.residual, second_point.residual),
            np.where(rows, first_point.weights, second_point.weights),
            np.where(takes_first, first_point.costs, second_point.costs),
        ), takes_first  # fmt: skip

    def normal_equations(self, point: Point) -> SharedNormalEquations:
        """Normal equations at a point, with finite differences over which simulations change by a few multiples of the noise.

        The response of a long window may be nonlinear over a small part of an unknown's range.
        """
        for _ in range(_JACOBIAN_ROUNDS):
            equations = self._normal_equations(point)
            previous_steps, previous_start_steps = self.difference_steps, self.start_difference_steps
            shared_diagonal = np.einsum("mkk->mk", equations.shared).max(axis=0, initial=0.0)
            local_diagonal = np.einsum("mqq->mq", equations.local) - 1.0  # without the priors of starts
            self.difference_steps = np.minimum(self.settings.step, _MAX_RESPONSE / np.sqrt(np.maximum(shared_diagonal, 1e-30)))
            self.start_difference_steps = np.minimum(
                self.settings.start_step, _MAX_RESPONSE / np.sqrt(np.maximum(local_diagonal, 1e-30))
            )
            if (self.difference_steps > previous_steps / _REPEAT_RATIO).all() and (
                self.start_difference_steps > previous_start_steps / _REPEAT_RATIO
            ).all():
                break
        return equations

    def _normal_equations(self, point: Point, directions: np.ndarray | None = None) -> SharedNormalEquations:
        """Normal equations at a point; shared unknowns relative to their ranges, starts to their standard deviations.

        Args:
            point: the point.
            directions: [K, K] orthogonal rows: steps of the shared unknowns' finite differences, relative to their ranges; by
                default along each unknown.
        """
        num_motions, num_local = self.motions.starts.shape
        starts, differences = self.motions.starts + point.start_offsets, []
        for k in range(num_local):
            direction = np.zeros_like(starts)
            direction[:, k] = self.start_difference_steps[:, k] * self.start_prior_sd[:, k]
            sides = (point.scaled, starts + direction), (point.scaled, starts - direction)
            differences.append(_Difference(*sides, self.start_difference_steps[:, k]))
        directions = np.diag(self.difference_steps) if directions is None else directions
        for direction in directions:
            upper = np.clip(point.scaled + self.ranges * direction, self.low, self.high)
            lower = np.clip(point.scaled - self.ranges * direction, self.low, self.high)
            length = np.linalg.norm(direction)
            half_width = 0.5 * float((upper - lower) / self.ranges @ direction) / length  # smaller at a bound
            differences.append(_Difference((upper, starts), (lower, starts), np.full(num_motions, half_width)))
        jacobian = np.empty((num_motions, self.motions.target[0].size, len(differences)))
        group_size = max(self.settings.worlds // (2 * num_motions), 1)
        for first in range(0, len(differences), group_size):
            group = slice(first, first + group_size)
            jacobian[..., group] = self._derivatives(differences[group])
        jacobian[..., num_local:] = jacobian[..., num_local:] @ (directions / np.linalg.norm(directions, axis=1, keepdims=True))
        weights = np.repeat(point.weights[..., None], point.residual.shape[-1], axis=-1).reshape(num_motions, -1)
        equations = SharedNormalEquations.of(jacobian, weights, point.residual.reshape(num_motions, -1), num_local)
        equations.local[:, range(num_local), range(num_local)] += 1.0
        equations.local_gradient[:] -= point.start_offsets / self.start_prior_sd
        return equations

    def _derivatives(self, differences: Sequence[_Difference]) -> np.ndarray:
        """Central differences [M, P, D] of the coordinates, in multiples of the noise, all of them simulated at once.

        They are 0 where a world diverged, and in all coordinates if all worlds of a difference diverged.
        """
        num_motions, sides = len(self.windows), [side for each in differences for side in (each.upper, each.lower)]
        scaled = np.repeat([shared for shared, _ in sides], num_motions, axis=0)
        coordinates = self.simulate(scaled, np.concatenate([starts for _, starts in sides]))
        coordinates = coordinates.reshape(len(differences), 2, num_motions, *coordinates.shape[1:])
        half_widths = np.array([each.half_widths for each in differences])[..., None, None, None]
        derivatives = (coordinates[:, 0] - coordinates[:, 1]) / (2 * half_widths * self.motions.noise)
        has_finite_end = np.isfinite(coordinates[:, :, :, -1]).all(axis=(-1, -2)).any(axis=(1, 2))
        counts = self.is_measured & np.isfinite(derivatives) & has_finite_end.reshape(-1, 1, 1, 1, 1)
        return np.moveaxis(np.where(counts, derivatives, 0.0).reshape(len(differences), num_motions, -1), 0, -1)

    def take_step(
        self,
        point: Point,
        equations: SharedNormalEquations,
        shared_step: np.ndarray,
        local_step: np.ndarray,
        local_damping: np.ndarray,
        *,
        minimises_starts: bool = False,
    ) -> tuple[Point, np.ndarray]:
        """The point after a step of the shared unknowns [K] and the starts [M, S], and the next dampings [M] of the starts.

        A start is unchanged if its step does not lower the cost of its motion. If ``minimises_starts``, ``minimise_starts``
        then minimises the starts of the motions whose costs exceed those of the linear model.
        """
        scaled = np.clip(point.scaled + self.ranges * shared_step, self.low, self.high)
        after, has_moved = self.select_better_starts(
            self.evaluate(scaled, point.start_offsets + local_step * self.start_prior_sd),
            self.evaluate(scaled, point.start_offsets),
        )
        if minimises_starts:
            decreases = equations.decreases((scaled - point.scaled) / self.ranges, local_step)
            is_behind = after.costs > point.costs - decreases + self.settings.tolerance * point.costs
            return self.minimise_starts(after, np.flatnonzero(is_behind)), local_damping
        local_damping = _clipped_damping(np.where(has_moved, local_damping / DAMPING.fall, local_damping * DAMPING.rise))
        if not len(shared_step):  # then the motions are independent problems, and none waits for the others
            after, local_damping = self._retry(after, equations, local_damping, has_moved)
        return after, local_damping

    def prior_gradient(self, point: Point) -> np.ndarray:
        """[K] negative gradient of half the priors' cost with respect to the shared unknowns."""
        return -self.unknowns.priors.precision(self.ranges) @ self.unknowns.priors.offset(point.scaled, self.ranges)

    def _retry(
        self, point: Point, equations: SharedNormalEquations, local_damping: np.ndarray, has_moved: np.ndarray
    ) -> tuple[Point, np.ndarray]:
        """Retry rejected motions with shorter steps while a step is expected to lower the cost; the point and dampings [M]."""
        expected_decrease = np.einsum(
            "mq,mq->m", equations.local_gradient, np.linalg.solve(equations.local, equations.local_gradient[..., None])[..., 0]
        )
        is_waiting = ~has_moved & (expected_decrease > self.settings.tolerance * point.costs)
        for _ in range(_MAX_RETRIES):
            if not is_waiting.any():
                break
            _, local_step = equations.damped(0.0, local_damping).step(np.zeros((0, 0)), np.zeros(0))
            start_offsets = point.start_offsets + is_waiting[:, None] * local_step * self.start_prior_sd
            point, is_better = self.select_better_starts(self.evaluate(point.scaled, start_offsets), point)
            is_waiting &= ~is_better
            local_damping = _clipped_damping(np.where(is_waiting, local_damping * DAMPING.rise, local_damping))
        return point, local_damping

    def result(self, point: Point, costs: list[float], converged: bool) -> MotionFit:
        """The fit at the last point."""
        equations = self.normal_along_eigenvectors(point)
        information, covariance, misfit = self.uncertainty(point, equations)
        remaining_step = self.remaining_step(point, equations)
        relative_length = _relative_length(remaining_step, covariance)
        if converged and relative_length > _MAX_REMAINING_STEP:
            shorter_step = _MAX_REMAINING_STEP / relative_length * remaining_step
            if self._is_beyond_minimum(point, equations, shorter_step):
                remaining_step, relative_length = shorter_step, _MAX_REMAINING_STEP
        converged = converged and relative_length <= _MAX_REMAINING_STEP
        residual = self.residual_rms(point)
        is_measured = self.is_measured.any(axis=-1)
        weights = (point.weights * is_measured).sum(axis=(1, 2)) / is_measured.sum(axis=(1, 2))
        range_products = np.outer(self.ranges, self.ranges)
        return MotionFit(
            self.unknowns, point.scaled, (covariance + np.outer(remaining_step, remaining_step)) * range_products, self.windows,
            self.motions.starts + point.start_offsets, self.start_sd(equations), residual, weights, point.cost, costs, converged,
            self._unobservable(information, covariance),
            chi_square=point.cost * float(self.is_measured.sum()), misfit=misfit,
            start_distance=float(np.sqrt(np.mean(np.square(point.start_offsets / self.start_prior_sd)))),
        )  # fmt: skip

    def _is_beyond_minimum(self, point: Point, equations: SharedNormalEquations, step: np.ndarray) -> bool:
        """Whether the cost, with minimised starts, is no lower after a step [K] of the shared unknowns, relative to the ranges.

        Where the response of some windows jumps, finite differences expect steps that do not lower the cost: the minimum along
        such a step is then nearer than its end.
        """
        local_step = np.linalg.solve(equations.local, -(equations.cross @ step)[..., None])[..., 0]
        after, _ = self.take_step(point, equations, step, local_step, np.zeros(len(self.windows)), minimises_starts=True)
        return after.cost >= point.cost

    def uncertainty(self, point: Point, equations: SharedNormalEquations) -> tuple[np.ndarray, np.ndarray, float]:
        """Information and covariance [K, K] of the shared unknowns, relative to their ranges, and ``misfit``."""
        precision = self.unknowns.priors.precision(self.ranges)
        information = equations.schur_complement.sum(0) + precision
        misfit, degrees_of_freedom = self.misfit(point, equations)
        # Few residuals do not determine the noise; many residuals below the stated noise replace it.
        variance_factor = (
            misfit if misfit > 1.0 or (misfit < 1 / EXPLAINED and degrees_of_freedom > _MIN_DEGREES_OF_FREEDOM) else 1.0
        )
        return information, self._covariance(equations, information, precision, variance_factor), misfit

    def misfit(self, point: Point, equations: SharedNormalEquations) -> tuple[float, float]:
        """Mean squared residual in multiples of the noise's variance (reduced chi-square), and its degrees of freedom: the sum of
        the coordinates' robust weights minus the effective number of estimated parameters."""
        weights = np.where(self.is_measured, point.weights[..., None], 0.0)
        observations = weights.sum()
        start_parameters = (
            equations.local.shape[0] * equations.local.shape[1] - np.trace(np.linalg.inv(equations.local), axis1=1, axis2=2).sum()
        )
        degrees_of_freedom = observations - start_parameters - len(point.scaled)
        return float((weights * point.residual**2).sum() / max(degrees_of_freedom, 1.0)), float(degrees_of_freedom)

    def _covariance(
        self, equations: SharedNormalEquations, information: np.ndarray, precision: np.ndarray, variance_factor: float
    ) -> np.ndarray:
        """[K, K] from the scatter of the clusters' gradients, or of few clusters from their residuals as independent noise.

        K unknowns absorb part of the scatter of G clusters, so that the variance is multiplied by (G - 1) / (G - K). The
        scatter of few clusters is uncertain: it is used only where noise does not explain the residuals, and never if there
        are no more clusters than unknowns, as it is then zero in some direction.
        """
        clusters = np.arange(len(self.windows)) if self.windows_are_clusters else self.clusters
        num_clusters, num_unknowns = len(np.unique(clusters)), len(information)
        if num_clusters > (_CLUSTERS_PER_UNKNOWN * num_unknowns if variance_factor <= EXPLAINED else num_unknowns):
            scatter = clustered_covariance(information, equations.scores, clusters, precision)
            return scatter * (num_clusters - 1) / (num_clusters - num_unknowns)
        return np.linalg.pinv((information - precision) / variance_factor + precision, rcond=1e-12, hermitian=True)

    def remaining_step(self, point: Point, equations: SharedNormalEquations) -> np.ndarray:
        """[K] the next Gauss-Newton step without damping, within the bounds, relative to the ranges."""
        prior_gradient = self.prior_gradient(point)
        information = equations.schur_complement.sum(0) + self.unknowns.priors.precision(self.ranges)
        step = np.linalg.pinv(information, rcond=1e-9, hermitian=True) @ (equations.scores.sum(0) + prior_gradient)
        return (np.clip(point.scaled + self.ranges * step, self.low, self.high) - point.scaled) / self.ranges

    def residual_rms(self, point: Point) -> np.ndarray:
        """[M] root mean square residuals of the windows, in the unit of the coordinates."""
        counts = np.maximum(self.is_measured.sum(axis=(1, 2, 3)), 1)
        return np.sqrt(((self.motions.noise * point.residual) ** 2).sum(axis=(1, 2, 3)) / counts)

    def start_sd(self, equations: SharedNormalEquations) -> np.ndarray:
        """[M, S] standard deviations of the starts at fixed shared unknowns, with the noise of the settings."""
        return self.start_prior_sd * np.sqrt(np.diagonal(np.linalg.inv(equations.local), axis1=1, axis2=2))

    def normal_along_eigenvectors(self, point: Point) -> SharedNormalEquations:
        """Normal equations with finite differences along the eigenvectors of the information, longer along weaker ones.

        Finite differences have relative errors. Where the responses to several unknowns cancel, the errors remain, and an
        unobservable direction seems observable (``jacobian_along_eigenvectors``).
        """
        equations = self.normal_equations(point)
        for _ in range(_JACOBIAN_ROUNDS if len(point.scaled) > 1 else 0):
            values, vectors = np.linalg.eigh(equations.schur_complement.sum(0))
            response = np.sqrt(np.maximum(values, 1e-30 * values.max()))
            largest_response = np.einsum("km,wkl,lm->wm", vectors, equations.shared, vectors).max(axis=0)
            max_steps = np.maximum(_MAX_RESPONSE / np.sqrt(np.maximum(largest_response, 1e-30)), self.difference_steps.min())
            difference_steps = np.minimum(
                self.settings.step * np.clip(response.max() / response, 1.0, _MAX_STEP_RATIO), max_steps
            )
            equations = self._normal_equations(point, (difference_steps * vectors).T)
        return equations

    def _unobservable(self, information: np.ndarray, covariance: np.ndarray) -> list[str]:
        """Sentences on weakly identifiable combinations; error bars are scaled to the median of the observable directions."""
        values, vectors = np.linalg.eigh(information)
        values = np.maximum(values, 1e-12 * values.max())
        observable = values > 1e-9 * values.max()
        sd_scale = np.sqrt(
            np.median([vectors[:, k] @ covariance @ vectors[:, k] * values[k] for k in np.flatnonzero(observable)])
        )
        sd = sd_scale / np.sqrt(values)
        weak_indices = np.flatnonzero(sd > _UNOBSERVABLE_SD)
        return unobservable_directions(vectors[:, weak_indices], sd[weak_indices], self.unknowns)


def _clipped_damping(damping: np.ndarray) -> np.ndarray:
    """Dampings [M] of starts, within their limits."""
    return damping.clip(_MIN_LOCAL_DAMPING, DAMPING.most)


def _relative_length(step: np.ndarray, covariance: np.ndarray) -> float:
    """The largest component of a step [K], in standard deviations by a covariance [K, K]."""
    return float((np.abs(step) / np.sqrt(np.maximum(np.diag(covariance), 1e-300))).max(initial=0.0))


class _MotionProblem(PointwiseProblem):
    """All motions as one problem of the least-squares loop; its point is a ``Point``.

    Attributes:
        local_damping: [M] damping of each motion's start: a motion near an impact needs shorter steps than others.
        minimises_starts: whether starts are minimised at each candidate.
        remaining_step: [K] the undamped step at the last linearised point (``MotionSearch.remaining_step``), infinite before the
            first finite linearisation.
        covariance: [K, K] of the shared unknowns at that point, relative to their ranges.
    """

    def __init__(self, search: MotionSearch) -> None:
        self.search, self.local_damping = search, np.full(len(search.windows), DAMPING.first)
        self.minimises_starts = False
        num_shared = len(search.initial_scaled)
        self.remaining_step, self.covariance = np.full(num_shared, np.inf), np.eye(num_shared)

    def begin_minimising_starts(self, point: Point) -> Point:
        """Minimise the starts of a point, and from now on those of each candidate; starts are then eliminated undamped."""
        self.minimises_starts = True
        return self.search.minimise_starts(point, np.arange(len(self.local_damping)))

    def linearise(self, points: Sequence[Point]) -> list[SharedNormalEquations]:
        """Normal equations with eliminated starts (``LeastSquaresProblem.linearise``)."""
        (self.point,) = points
        search = self.search
        linearise = search.normal_along_eigenvectors if self.minimises_starts else search.normal_equations
        equations = linearise(self.point)
        if len(self.point.scaled) and equations.is_finite:
            self.remaining_step = search.remaining_step(self.point, equations)
            self.covariance = search.uncertainty(self.point, equations)[1]
        return [equations]

    def is_settled(self, step: np.ndarray) -> bool:
        """Whether a step [K] of the shared unknowns, relative to the ranges, is shorter than ``_SETTLED_STEP`` error bars."""
        return _relative_length(step, self.covariance) < _SETTLED_STEP

    def step(self, equations: SharedNormalEquations, damping: float) -> np.ndarray:
        """[K + M S] the damped step of the shared unknowns and of all starts."""
        search = self.search
        precision, prior_gradient = search.unknowns.priors.precision(search.ranges), search.prior_gradient(self.point)
        if self.minimises_starts:
            shared_step, local_step = equations.step(precision, prior_gradient, damping=damping)
        else:
            shared_step, local_step = equations.damped(damping, self.local_damping).step(precision, prior_gradient)
        return np.concatenate([shared_step, local_step.ravel()])

    def moved(self, point: Point, equations: SharedNormalEquations, steps: np.ndarray) -> list[Point]:
        """The points after steps; a start moves only if that lowers its motion's cost (``PointwiseProblem.moved``)."""
        points, (num_shared,) = [], point.scaled.shape
        for step in steps:
            local_step = step[num_shared:].reshape(point.start_offsets.shape)
            after, self.local_damping = self.search.take_step(
                point, equations, step[:num_shared], local_step, self.local_damping, minimises_starts=self.minimises_starts
            )
            points.append(after)
        return points

    def objectives(self, candidates: Sequence[Sequence[Point]], equations: Sequence[SharedNormalEquations]) -> np.ndarray:
        """Costs of the points (``PointwiseProblem.objectives``)."""
        return np.array([[point.cost for point in row] for row in candidates])


@dataclass(frozen=True, eq=False)
class _BlockDamping:
    """Marquardt's damping, one number for the shared unknowns and one for each motion's start."""

    problem: _MotionProblem

    def step(self, equations: SharedNormalEquations, damping: float) -> np.ndarray:
        """The damped step (``Damping.step``)."""
        return self.problem.step(equations, damping)
