"""Levenberg-Marquardt search of shared unknowns and of a start of each of many measured motions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
from risp_torch.motions.measured import Measured, tensor
from risp_torch.motions.normal import SharedNormalEquations, clustered_covariance
from risp_torch.motions.recording import Window
from risp_torch.motions.result import MotionFit
from risp_torch.motions.settings import MotionFitSettings

_FAR = 100.0  # residual of a world that diverged, in multiples of the noise
DAMPING = RisingDamping(first=1e-3, least=0.0, most=1e8, rise=5.0, fall=5.0)
_MIN_DAMPING = 1e-9
_TRIES = 10  # of a motion with shorter and shorter steps
_ROUNDS, _WIDEST = 3, 30.0
_NARROWER = 5.0  # times: a finite difference that becomes narrower by this factor is taken again
EXPLAINED = 1.7  # mean squared residual in multiples of the noise: more is a misfit
_MANY = 4  # clusters for each unknown, whose scatter is used in any case
_LINEAR = 3.0  # multiples of the noise: change of all coordinates of a window over a finite difference
_TOLD_BY = 30  # degrees of freedom
_REMAINING = 0.5  # error bars: next step of a fit that has not converged
_UNSEEN = 0.25  # of the ranges: error bar from which a combination of unknowns is named


class NoUnknowns:
    """In place of ``Unknowns``, where windows share nothing that is unknown.

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
        moves: [M, S] of the starts from the measured ones.
        residual: [M, T, G, P] measured minus simulated, in multiples of the noise; 0 where nothing is measured.
        weights: [M, T, G] robust weights.
        costs: [M] of the motions and their starts.
        cost: mean cost of a coordinate, priors included.
    """

    scaled: np.ndarray
    moves: np.ndarray
    residual: np.ndarray
    weights: np.ndarray
    costs: np.ndarray
    cost: float


class MotionSearch:
    """The problem, and steps in it.

    Args:
        motions: the windows as ``Measured``.
        windows: the windows.
        unknowns: shared unknowns.
        settings: noise and search.
        pieces: whether windows are pieces of few recordings, which count as separate clusters where noise does not explain
            their residuals.
    """

    def __init__(
        self, motions: Measured, windows: Sequence[Window], unknowns: Unknowns | NoUnknowns, settings: MotionFitSettings, *,
        pieces: bool = False,
    ) -> None:  # fmt: skip
        self.motions, self.windows, self.unknowns, self.settings = motions, windows, unknowns, settings
        self.own_sd = np.broadcast_to(motions.start_sd, motions.starts.shape)
        self.known = np.isfinite(motions.target)
        self.first, self.ranges = unknowns.scaled(unknowns.current()), unknowns.scaled_range()
        self.low, self.high = (unknowns.scaled(bound) for bound in unknowns.bounds())
        recordings = list(dict.fromkeys(id(window.recording) for window in windows))
        self.clusters = np.array([recordings.index(id(window.recording)) for window in windows])
        self.pieces = pieces
        self.steps, self.start_steps = np.full(len(self.first), settings.step), np.full(self.own_sd.shape, settings.start_step)

    def run(
        self, *, progress: bool, scaled: np.ndarray | None = None, moves: np.ndarray | None = None
    ) -> tuple[Point, list[float], bool]:
        """Steps of Levenberg and Marquardt until the cost no longer falls.

        Args:
            progress: whether to show a progress bar.
            scaled: [K] first guess of the shared unknowns; the scene's values by default.
            moves: [M, S] first guess of the moves of the starts from the measured ones; none by default.

        Returns:
            (the last point; the costs of all points; whether the last step changed the cost by less than the tolerance, that of
            each motion where nothing is shared, or no step lowers it).
        """
        first_point = self.at(
            self.first if scaled is None else scaled, np.zeros_like(self.motions.starts) if moves is None else moves
        )
        problem, costs = _MotionProblem(self), [first_point.cost]
        # Where nothing is shared, each motion has a termination of its own (``after_round``).
        termination = Termination(decrease=self.settings.tolerance if len(first_point.scaled) else None)
        policy = Policy(_BlockDamping(problem), DAMPING, self.settings.iterations, termination=termination)
        bar = tqdm(total=self.settings.iterations, desc="fitting", disable=not progress)

        def after_round(before: Starts, after: Starts) -> None:
            old, new = before.points[0], after.points[0]
            if new is not old:
                costs.append(new.cost)
            if not len(new.scaled):
                after.active[0] = bool((old.costs - new.costs > self.settings.tolerance * old.costs).any())
            bar.update()

        starts = minimise(
            problem, Starts.begin([first_point], policy, np.array([first_point.cost])), policy, after_round=after_round
        )
        bar.close()
        return starts.points[0], costs, not starts.active[0]

    def points(self, scaled: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Coordinates [R, T, G, P] of simulations with unknowns [R, K] from starts [R, S], of the windows in turn."""
        motion, batches = np.arange(len(scaled)) % len(self.windows), []
        for first in range(0, len(scaled), self.settings.worlds):
            batch = slice(first, first + self.settings.worlds)
            with torch.no_grad():
                values = self.unknowns.from_scaled(tensor(scaled[batch]))
                batches.append(self.motions.simulate(values, starts[batch], motion[batch]))
        return np.concatenate(batches)

    def at(self, scaled: np.ndarray, moves: np.ndarray) -> Point:
        """The residuals at a point."""
        points = self.points(np.tile(scaled, (len(moves), 1)), self.motions.starts + moves)
        residual = np.where(self.known, (self.motions.target - points) / self.motions.noise, 0.0)
        residual = np.where(np.isfinite(residual), residual, _FAR)
        square = (residual**2).mean(axis=-1)
        robust_weight = 1.0 / (1.0 + square / self.settings.robust**2)
        costs = (residual.shape[-1] * square * robust_weight).sum(axis=(1, 2)) + ((moves / self.own_sd) ** 2).sum(axis=1)
        return self._point(scaled, moves, residual, robust_weight**2, costs)

    def profile(self, scaled: np.ndarray, moves: np.ndarray) -> float:
        """Cost of all coordinates and priors at shared unknowns [K], with the best starts, searched from moves [M, S]."""
        fixed = NoUnknowns(self.unknowns.from_scaled(tensor(scaled[None])))
        point, *_ = MotionSearch(self.motions, self.windows, fixed, self.settings).run(progress=False, moves=moves)
        away = self.unknowns.priors.offset(scaled, self.ranges)
        return float(point.costs.sum() + away @ self.unknowns.priors.precision(self.ranges) @ away)

    def _point(
        self, scaled: np.ndarray, moves: np.ndarray, residual: np.ndarray, weights: np.ndarray, costs: np.ndarray
    ) -> Point:
        away = self.unknowns.priors.offset(scaled, self.ranges)
        prior = away @ self.unknowns.priors.precision(self.ranges) @ away
        return Point(scaled, moves, residual, weights, costs, float((costs.sum() + prior) / self.known.sum()))

    def better_of(self, first_point: Point, second_point: Point) -> tuple[Point, np.ndarray]:
        """Of two points with the same shared unknowns the better start of each motion; and which are those of the first [M]."""
        first = first_point.costs <= second_point.costs
        rows = first[:, None, None]
        return self._point(
            first_point.scaled, np.where(first[:, None], first_point.moves, second_point.moves),
            np.where(rows[..., None], first_point.residual, second_point.residual),
            np.where(rows, first_point.weights, second_point.weights),
            np.where(first, first_point.costs, second_point.costs),
        ), first  # fmt: skip

    def normal(self, point: Point) -> SharedNormalEquations:
        """Normal equations at a point, with finite differences over which simulations change by a few multiples of the noise.

        A long window may respond to a small part of a range by more than it is linear in.
        """
        for _ in range(_ROUNDS):
            normal = self._normal(point)
            steps, start_steps = self.steps, self.start_steps
            shared = np.einsum("mkk->mk", normal.shared).max(axis=0, initial=0.0)
            own_diagonal = np.einsum("mqq->mq", normal.own) - 1.0  # without the priors of starts
            self.steps = np.minimum(self.settings.step, _LINEAR / np.sqrt(np.maximum(shared, 1e-30)))
            self.start_steps = np.minimum(self.settings.start_step, _LINEAR / np.sqrt(np.maximum(own_diagonal, 1e-30)))
            if (self.steps > steps / _NARROWER).all() and (self.start_steps > start_steps / _NARROWER).all():
                break
        return normal

    def _normal(self, point: Point, moves: np.ndarray | None = None) -> SharedNormalEquations:
        """Normal equations at a point; shared unknowns relative to their ranges, starts to their standard deviations.

        Args:
            point: the point.
            moves: [K, K] orthogonal rows along which the shared unknowns are differentiated, relative to their ranges; by default
                along each of them.
        """
        motions, num_own = self.motions.starts.shape
        shared = len(point.scaled)
        jacobian = np.empty((motions, self.motions.target[0].size, num_own + shared))
        starts, tiled = self.motions.starts + point.moves, np.tile(point.scaled, (motions, 1))
        for k in range(num_own):
            move = np.zeros_like(starts)
            move[:, k] = self.start_steps[:, k] * self.own_sd[:, k]
            jacobian[..., k] = self._derivative(tiled, tiled, starts + move, starts - move, self.start_steps[:, k])
        moves = np.diag(self.steps) if moves is None else moves
        for k, move in enumerate(moves):
            up = np.clip(point.scaled + self.ranges * move, self.low, self.high)
            down = np.clip(point.scaled - self.ranges * move, self.low, self.high)
            size = np.linalg.norm(move)
            half = 0.5 * float((up - down) / self.ranges @ move) / size  # less at a bound
            jacobian[..., num_own + k] = self._derivative(
                np.tile(up, (motions, 1)), np.tile(down, (motions, 1)), starts, starts, half
            )
        jacobian[..., num_own:] = jacobian[..., num_own:] @ (moves / np.linalg.norm(moves, axis=1, keepdims=True))
        weights = np.repeat(point.weights[..., None], point.residual.shape[-1], axis=-1).reshape(motions, -1)
        normal = SharedNormalEquations.of(jacobian, weights, point.residual.reshape(motions, -1), num_own)
        normal.own[:, range(num_own), range(num_own)] += 1.0
        normal.own_gradient[:] -= point.moves / self.own_sd
        return normal

    def _derivative(
        self, up: np.ndarray, down: np.ndarray, ahead: np.ndarray, behind: np.ndarray, half: float | np.ndarray
    ) -> np.ndarray:
        """Central difference [M, P] of the points in multiples of the noise, 0 where a world diverged."""
        both = self.points(np.concatenate([up, down]), np.concatenate([ahead, behind]))
        half = np.reshape(half, (-1, 1, 1, 1))
        derivative = (both[: len(up)] - both[len(up) :]) / (2 * half * self.motions.noise)
        return np.where(self.known & np.isfinite(derivative), derivative, 0.0).reshape(len(up), -1)

    def tried(
        self, point: Point, normal: SharedNormalEquations, shared: np.ndarray, own_step: np.ndarray, damping: np.ndarray
    ) -> tuple[Point, np.ndarray]:
        """The point after a step of the shared unknowns [K] and the starts [M, S], and the next dampings [M] of the starts.

        A start stays where it is when its step does not lower the cost of its motion.
        """
        scaled = np.clip(point.scaled + self.ranges * shared, self.low, self.high)
        after, moved = self.better_of(self.at(scaled, point.moves + own_step * self.own_sd), self.at(scaled, point.moves))
        damping = _own_damping(np.where(moved, damping / DAMPING.fall, damping * DAMPING.rise))
        if not len(shared):  # then each motion is a problem of its own, and none waits for the others
            after, damping = self._retried(after, normal, damping, moved)
        return after, damping

    def pull(self, point: Point) -> np.ndarray:
        """[K] of the priors of the shared unknowns."""
        return -self.unknowns.priors.precision(self.ranges) @ self.unknowns.priors.offset(point.scaled, self.ranges)

    def _retried(
        self, point: Point, normal: SharedNormalEquations, damping: np.ndarray, moved: np.ndarray
    ) -> tuple[Point, np.ndarray]:
        """Shorter steps of the motions that have not moved [M], until each has, or has nothing to gain; and their damping [M]."""
        gain = np.einsum("mq,mq->m", normal.own_gradient, np.linalg.solve(normal.own, normal.own_gradient[..., None])[..., 0])
        waiting = ~moved & (gain > self.settings.tolerance * point.costs)
        for _ in range(_TRIES):
            if not waiting.any():
                break
            _, own_step = normal.damped(0.0, damping).step(np.zeros((0, 0)), np.zeros(0))
            moves = point.moves + waiting[:, None] * own_step * self.own_sd
            point, better = self.better_of(self.at(point.scaled, moves), point)
            waiting &= ~better
            damping = _own_damping(np.where(waiting, damping * DAMPING.rise, damping))
        return point, damping

    def result(self, point: Point, costs: list[float], converged: bool) -> MotionFit:
        """The fit at the last point."""
        normal, precision = self._normal_along_eigenvectors(point), self.unknowns.priors.precision(self.ranges)
        information = normal.eliminated.sum(0) + precision
        misfit, free = self.misfit(point, normal)
        # The residuals of few observations say little of the noise; many that are smaller than the stated noise replace it.
        noise = misfit if misfit > 1.0 or (misfit < 1 / EXPLAINED and free > _TOLD_BY) else 1.0
        covariance = self._covariance(normal, information, precision, noise)
        step = self._remaining(point, normal, precision)
        bars = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
        converged = converged and bool((np.abs(step) < _REMAINING * bars).all())
        residual = self.residual_sizes(point)
        frames = self.known.any(axis=-1)
        weights = (point.weights * frames).sum(axis=(1, 2)) / frames.sum(axis=(1, 2))
        scale = np.outer(self.ranges, self.ranges)
        return MotionFit(
            self.unknowns, point.scaled, (covariance + np.outer(step, step)) * scale, self.windows,
            self.motions.starts + point.moves, self.start_sd(normal), residual, weights, point.cost, costs, converged,
            self._unobservable(information, covariance),
            chi_square=point.cost * float(self.known.sum()), misfit=misfit,
            start_distance=float(np.sqrt(np.mean(np.square(point.moves / self.own_sd)))),
        )  # fmt: skip

    def misfit(self, point: Point, normal: SharedNormalEquations) -> tuple[float, float]:
        """Mean squared residual in multiples of the noise, 1 where the noise explains it, and its degrees of freedom: coordinates
        by robust weights, without as many as all that is estimated takes."""
        weights = np.where(self.known, point.weights[..., None], 0.0)
        observations = weights.sum()
        starts = normal.own.shape[0] * normal.own.shape[1] - np.trace(np.linalg.inv(normal.own), axis1=1, axis2=2).sum()
        free = observations - starts - len(point.scaled)
        return float((weights * point.residual**2).sum() / max(free, 1.0)), float(free)

    def _covariance(
        self, normal: SharedNormalEquations, information: np.ndarray, precision: np.ndarray, noise: float
    ) -> np.ndarray:
        """[K, K] from the scatter of the clusters' gradients, or of few clusters from their residuals as independent noise.

        K unknowns absorb part of the scatter of G clusters, so that the variance is multiplied by (G - 1) / (G - K). Few
        clusters have a scatter that is itself uncertain: it is used only where noise does not explain the residuals, and never
        that of fewer clusters than unknowns, which have none in some direction.
        """
        clusters = np.arange(len(self.windows)) if self.pieces else self.clusters
        count, unknowns = len(np.unique(clusters)), len(information)
        if count > (_MANY * unknowns if noise <= EXPLAINED else unknowns):
            scatter = clustered_covariance(information, normal.scores, clusters, precision)
            return scatter * (count - 1) / (count - unknowns)
        return np.linalg.pinv((information - precision) / noise + precision, rcond=1e-12, hermitian=True)

    def _remaining(self, point: Point, normal: SharedNormalEquations, precision: np.ndarray) -> np.ndarray:
        """[K] the next Gauss-Newton step without damping, within the bounds, relative to the ranges."""
        pull = self.pull(point)
        information = normal.eliminated.sum(0) + precision
        step = np.linalg.pinv(information, rcond=1e-9, hermitian=True) @ (normal.scores.sum(0) + pull)
        return (np.clip(point.scaled + self.ranges * step, self.low, self.high) - point.scaled) / self.ranges

    def residual_sizes(self, point: Point) -> np.ndarray:
        """[M] root mean square residuals of the windows, in the unit of the coordinates."""
        counts = np.maximum(self.known.sum(axis=(1, 2, 3)), 1)
        return np.sqrt(((self.motions.noise * point.residual) ** 2).sum(axis=(1, 2, 3)) / counts)

    def start_sd(self, normal: SharedNormalEquations) -> np.ndarray:
        """[M, S] standard deviations of the starts at these shared unknowns, if what is left is noise of the given size."""
        return self.own_sd * np.sqrt(np.diagonal(np.linalg.inv(normal.own), axis1=1, axis2=2))

    def _normal_along_eigenvectors(self, point: Point) -> SharedNormalEquations:
        """Normal equations whose Jacobian is measured along its own principal directions, with longer steps along weaker ones.

        Differences have relative errors. Where the responses to several unknowns cancel, the errors remain, and the direction
        seems to be seen (``inversion.linearisation.jacobian_along_eigenvectors``).
        """
        normal = self.normal(point)
        for _ in range(_ROUNDS if len(point.scaled) > 1 else 0):
            values, vectors = np.linalg.eigh(normal.eliminated.sum(0))
            response = np.sqrt(np.maximum(values, 1e-30 * values.max()))
            largest = np.einsum("km,wkl,lm->wm", vectors, normal.shared, vectors).max(axis=0)
            linear = np.maximum(_LINEAR / np.sqrt(np.maximum(largest, 1e-30)), self.steps.min())
            steps = np.minimum(self.settings.step * np.clip(response.max() / response, 1.0, _WIDEST), linear)
            normal = self._normal(point, (steps * vectors).T)
        return normal

    def _unobservable(self, information: np.ndarray, covariance: np.ndarray) -> list[str]:
        """Sentences on weakly identifiable combinations, with error bars scaled by the information."""
        values, vectors = np.linalg.eigh(information)
        values = np.maximum(values, 1e-12 * values.max())
        observable = values > 1e-9 * values.max()
        amount = np.sqrt(np.median([vectors[:, k] @ covariance @ vectors[:, k] * values[k] for k in np.flatnonzero(observable)]))
        sd = amount / np.sqrt(values)
        weak = np.flatnonzero(sd > _UNSEEN)
        return unobservable_directions(vectors[:, weak], sd[weak], self.unknowns)


def _own_damping(damping: np.ndarray) -> np.ndarray:
    """Dampings [M] of starts, within their limits."""
    return damping.clip(_MIN_DAMPING, DAMPING.most)


class _MotionProblem(PointwiseProblem):
    """The motions as one start of the loop, whose point is a ``Point``.

    Attributes:
        own_damping: [M] of each motion's start: a motion near an impact needs shorter steps than others.
    """

    def __init__(self, search: MotionSearch) -> None:
        self.search, self.own_damping = search, np.full(len(search.windows), DAMPING.first)

    def linearise(self, points: Sequence[Point]) -> list[SharedNormalEquations]:
        """Normal equations with eliminated starts (``LeastSquaresProblem.linearise``)."""
        (self.point,) = points
        return [self.search.normal(self.point)]

    def step(self, equations: SharedNormalEquations, damping: float) -> np.ndarray:
        """[K + M S] the damped step of the shared unknowns and of all starts."""
        search = self.search
        precision = search.unknowns.priors.precision(search.ranges)
        shared, own_step = equations.damped(damping, self.own_damping).step(precision, search.pull(self.point))
        return np.concatenate([shared, own_step.ravel()])

    def moved(self, point: Point, equations: SharedNormalEquations, steps: np.ndarray) -> list[Point]:
        """The point after steps, of which each start takes its own if that lowers its cost (``PointwiseProblem.moved``)."""
        points, (count,) = [], point.scaled.shape
        for step in steps:
            own_step = step[count:].reshape(point.moves.shape)
            after, self.own_damping = self.search.tried(point, equations, step[:count], own_step, self.own_damping)
            points.append(after)
        return points

    def objectives(self, candidates: Sequence[Sequence[Point]], equations: Sequence[SharedNormalEquations]) -> np.ndarray:
        """Costs of the points (``PointwiseProblem.objectives``)."""
        return np.array([[point.cost for point in row] for row in candidates])


@dataclass(frozen=True, eq=False)
class _BlockDamping:
    """Marquardt's damping, with one for the shared unknowns and one for each motion's start."""

    problem: _MotionProblem

    def step(self, equations: SharedNormalEquations, damping: float) -> np.ndarray:
        """The damped step (``Damping.step``)."""
        return self.problem.step(equations, damping)
