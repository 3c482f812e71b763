"""Levenberg-Marquardt search of shared unknowns and of a start of each of many measured motions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from tqdm import tqdm

from risp_torch.inversion.priors import Priors
from risp_torch.inversion.unknowns import Unknowns
from risp_torch.inversion.unseen import unseen_directions
from risp_torch.motions.measured import Measured, tensor
from risp_torch.motions.normal import SharedNormalEquations, clustered_covariance
from risp_torch.motions.recording import Window
from risp_torch.motions.result import MotionFit
from risp_torch.motions.settings import MotionFitSettings

_FAR = 100.0  # residual of a world that diverged, in multiples of the noise
_FIRST_DAMPING, _MOST_DAMPING, _CHANGE = 1e-3, 1e8, 5.0
_TRIES = 10  # of a motion with shorter and shorter steps
_ROUNDS, _WIDEST = 3, 30.0
_UNSEEN = 0.25  # of the ranges: error bar from which a combination of unknowns is named


class NoUnknowns:
    """In place of ``Unknowns``, where windows share nothing that is unknown."""

    priors = Priors()

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
        """The scene's own parameters, for [R, 0]."""
        return {}


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


@dataclass(frozen=True, eq=False)
class _Damping:
    """Damping of the shared unknowns, and of each motion's start [M]: a motion near an impact needs shorter steps than others."""

    shared: float
    own: np.ndarray


class MotionSearch:
    """The problem, and steps in it."""

    def __init__(
        self, motions: Measured, windows: Sequence[Window], unknowns: Unknowns | NoUnknowns, settings: MotionFitSettings
    ) -> None:
        self.motions, self.windows, self.unknowns, self.settings = motions, windows, unknowns, settings
        self.known = np.isfinite(motions.target)
        self.first, self.ranges = unknowns.scaled(unknowns.current()), unknowns.scaled_range()
        self.low, self.high = (unknowns.scaled(bound) for bound in unknowns.bounds())
        recordings = list(dict.fromkeys(id(window.recording) for window in windows))
        self.clusters = np.array([recordings.index(id(window.recording)) for window in windows])

    def run(self, *, progress: bool) -> tuple[Point, list[float], bool]:
        """Steps of Levenberg and Marquardt until the cost no longer falls.

        Returns:
            (the last point; the costs of all points; whether the last step changed the cost by less than the tolerance, that of
            each motion where nothing is shared, or no step lowers it).
        """
        at = self.at(self.first, np.zeros_like(self.motions.starts))
        costs, converged = [at.cost], False
        damping = _Damping(_FIRST_DAMPING, np.full(len(self.windows), _FIRST_DAMPING))
        for _ in tqdm(range(self.settings.iterations), desc="fitting", disable=not progress):
            normal = self.normal(at)
            after, damping = self.improved(at, normal, damping)
            if after is None:
                converged = True
                break
            fall, whole = (at.cost - after.cost, at.cost) if len(at.scaled) else (at.costs - after.costs, at.costs)
            converged = bool(np.all(fall <= self.settings.tolerance * whole))
            at = after
            costs.append(at.cost)
            if converged:
                break
        return at, costs, converged

    def points(self, scaled: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Coordinates [R, T, G, P] of simulations with unknowns [R, K] from starts [R, S], of the windows in turn."""
        motion, parts = np.arange(len(scaled)) % len(self.windows), []
        for first in range(0, len(scaled), self.settings.worlds):
            some = slice(first, first + self.settings.worlds)
            with torch.no_grad():
                values = self.unknowns.from_scaled(tensor(scaled[some]))
                parts.append(self.motions.simulate(values, starts[some], motion[some]))
        return np.concatenate(parts)

    def at(self, scaled: np.ndarray, moves: np.ndarray) -> Point:
        """The residuals at a point."""
        points = self.points(np.tile(scaled, (len(moves), 1)), self.motions.starts + moves)
        residual = np.where(self.known, (self.motions.target - points) / self.motions.noise, 0.0)
        residual = np.where(np.isfinite(residual), residual, _FAR)
        square = (residual**2).mean(axis=-1)
        share = 1.0 / (1.0 + square / self.settings.robust**2)
        costs = (residual.shape[-1] * square * share).sum(axis=(1, 2)) + ((moves / self.motions.start_sd) ** 2).sum(axis=1)
        return self._point(scaled, moves, residual, share**2, costs)

    def _point(
        self, scaled: np.ndarray, moves: np.ndarray, residual: np.ndarray, weights: np.ndarray, costs: np.ndarray
    ) -> Point:
        away = self.unknowns.priors.offset(scaled, self.ranges)
        prior = away @ self.unknowns.priors.precision(self.ranges) @ away
        return Point(scaled, moves, residual, weights, costs, float((costs.sum() + prior) / self.known.sum()))

    def better_of(self, one: Point, other: Point) -> tuple[Point, np.ndarray]:
        """Of two points with the same shared unknowns the better start of each motion; and which are those of the first [M]."""
        first = one.costs <= other.costs
        rows = first[:, None, None]
        return self._point(
            one.scaled, np.where(first[:, None], one.moves, other.moves),
            np.where(rows[..., None], one.residual, other.residual), np.where(rows, one.weights, other.weights),
            np.where(first, one.costs, other.costs),
        ), first  # fmt: skip

    def normal(self, at: Point, moves: np.ndarray | None = None) -> SharedNormalEquations:
        """Normal equations at a point; shared unknowns relative to their ranges, starts to their standard deviations.

        Args:
            at: the point.
            moves: [K, K] orthogonal rows along which the shared unknowns are differentiated, relative to their ranges; by default
                along each of them.
        """
        motions, own = self.motions.starts.shape
        shared = len(at.scaled)
        jacobian = np.empty((motions, self.motions.target[0].size, own + shared))
        starts, tiled = self.motions.starts + at.moves, np.tile(at.scaled, (motions, 1))
        for k in range(own):
            move = np.zeros(own)
            move[k] = self.settings.start_step * self.motions.start_sd[k]
            jacobian[..., k] = self._slope(tiled, tiled, starts + move, starts - move, self.settings.start_step)
        moves = self.settings.step * np.eye(shared) if moves is None else moves
        for k, move in enumerate(moves):
            up = np.clip(at.scaled + self.ranges * move, self.low, self.high)
            down = np.clip(at.scaled - self.ranges * move, self.low, self.high)
            size = np.linalg.norm(move)
            half = 0.5 * float((up - down) / self.ranges @ move) / size  # less at a bound
            jacobian[..., own + k] = self._slope(np.tile(up, (motions, 1)), np.tile(down, (motions, 1)), starts, starts, half)
        jacobian[..., own:] = jacobian[..., own:] @ (moves / np.linalg.norm(moves, axis=1, keepdims=True))
        weights = np.repeat(at.weights[..., None], at.residual.shape[-1], axis=-1).reshape(motions, -1)
        normal = SharedNormalEquations.of(jacobian, weights, at.residual.reshape(motions, -1), own)
        normal.own[:, range(own), range(own)] += 1.0
        normal.own_gradient[:] -= at.moves / self.motions.start_sd
        return normal

    def _slope(self, up: np.ndarray, down: np.ndarray, ahead: np.ndarray, behind: np.ndarray, half: float) -> np.ndarray:
        """Central difference [M, P] of the points in multiples of the noise, 0 where a world diverged."""
        both = self.points(np.concatenate([up, down]), np.concatenate([ahead, behind]))
        slope = (both[: len(up)] - both[len(up) :]) / (2 * half * self.motions.noise)
        return np.where(self.known & np.isfinite(slope), slope, 0.0).reshape(len(up), -1)

    def improved(self, at: Point, normal: SharedNormalEquations, damping: _Damping) -> tuple[Point | None, _Damping]:
        """The point after a step that lowers the cost, and the next damping; None if no step does.

        A start stays where it is when its step does not lower the cost of its motion.
        """
        priors = self.unknowns.priors
        precision = priors.precision(self.ranges)
        pull = -precision @ priors.offset(at.scaled, self.ranges)
        while damping.shared < _MOST_DAMPING:
            shared, own = normal.damped(damping.shared, damping.own).step(precision, pull)
            scaled = np.clip(at.scaled + self.ranges * shared, self.low, self.high)
            moves = at.moves + own * self.motions.start_sd
            after, moved = self.better_of(self.at(scaled, moves), self.at(scaled, at.moves))
            own_damping = np.where(moved, damping.own / _CHANGE, damping.own * _CHANGE).clip(1e-9, _MOST_DAMPING)
            if not len(shared):  # then each motion is a problem of its own, and none waits for the others
                after, own_damping = self._retried(after, normal, own_damping, moved)
            if after.cost < at.cost:
                return after, _Damping(damping.shared / _CHANGE, own_damping)
            damping = _Damping(damping.shared * _CHANGE, own_damping)
        return None, damping

    def _retried(
        self, at: Point, normal: SharedNormalEquations, damping: np.ndarray, moved: np.ndarray
    ) -> tuple[Point, np.ndarray]:
        """Shorter steps of the motions that have not moved [M], until each has, or has nothing to gain; and their damping [M]."""
        gain = np.einsum("mq,mq->m", normal.own_gradient, np.linalg.solve(normal.own, normal.own_gradient[..., None])[..., 0])
        waiting = ~moved & (gain > self.settings.tolerance * at.costs)
        for _ in range(_TRIES):
            if not waiting.any():
                break
            _, own = normal.damped(0.0, damping).step(np.zeros((0, 0)), np.zeros(0))
            moves = at.moves + waiting[:, None] * own * self.motions.start_sd
            at, better = self.better_of(self.at(at.scaled, moves), at)
            waiting &= ~better
            damping = np.where(waiting, damping * _CHANGE, damping).clip(1e-9, _MOST_DAMPING)
        return at, damping

    def result(self, at: Point, costs: list[float], converged: bool) -> MotionFit:
        """The fit at the last point."""
        normal, precision = self._along_weak_directions(at), self.unknowns.priors.precision(self.ranges)
        information = normal.eliminated.sum(0) + precision
        covariance = self._covariance(at, normal, information, precision)
        residual = self.residual_sizes(at)
        frames = self.known.any(axis=-1)
        weights = (at.weights * frames).sum(axis=(1, 2)) / frames.sum(axis=(1, 2))
        scale = np.outer(self.ranges, self.ranges)
        return MotionFit(
            self.unknowns, at.scaled, covariance * scale, self.windows, self.motions.starts + at.moves, self.start_sd(normal),
            residual, weights, at.cost, costs, converged, self._unseen(information, covariance),
        )  # fmt: skip

    def _covariance(self, at: Point, normal: SharedNormalEquations, information: np.ndarray, precision: np.ndarray) -> np.ndarray:
        """[K, K] from the scatter of the recordings' gradients; of fewer recordings than unknowns, which have no scatter in some
        direction, from what is left of them as noise, independent from frame to frame."""
        if len(np.unique(self.clusters)) > len(at.scaled):
            return clustered_covariance(information, normal.scores, self.clusters, precision)
        weights = np.where(self.known, at.weights[..., None], 0.0)
        noise = max(float((weights * at.residual**2).sum() / weights.sum()), 1.0)
        return np.linalg.pinv((information - precision) / noise + precision, rcond=1e-12, hermitian=True)

    def residual_sizes(self, at: Point) -> np.ndarray:
        """[M] root mean square residuals of the windows, in the unit of the coordinates."""
        own = np.maximum(self.known.sum(axis=(1, 2, 3)), 1)
        return np.sqrt(((self.motions.noise * at.residual) ** 2).sum(axis=(1, 2, 3)) / own)

    def start_sd(self, normal: SharedNormalEquations) -> np.ndarray:
        """[M, S] standard deviations of the starts at these shared unknowns, if what is left is noise of the given size."""
        return self.motions.start_sd * np.sqrt(np.diagonal(np.linalg.inv(normal.own), axis1=1, axis2=2))

    def _along_weak_directions(self, at: Point) -> SharedNormalEquations:
        """Normal equations whose Jacobian is measured along its own principal directions, with longer steps along weaker ones.

        Differences have relative errors. Where the responses to several unknowns cancel, the errors remain, and the direction
        seems to be seen (``inversion.linearisation.along_weak_directions``).
        """
        normal = self.normal(at)
        for _ in range(_ROUNDS if len(at.scaled) > 1 else 0):
            values, vectors = np.linalg.eigh(normal.eliminated.sum(0))
            response = np.sqrt(np.maximum(values, 1e-30 * values.max()))
            steps = self.settings.step * np.clip(response.max() / response, 1.0, _WIDEST)
            normal = self.normal(at, (steps * vectors).T)
        return normal

    def _unseen(self, information: np.ndarray, covariance: np.ndarray) -> list[str]:
        """Sentences on combinations that the motions hardly tell, with error bars scaled by the information."""
        values, vectors = np.linalg.eigh(information)
        values = np.maximum(values, 1e-12 * values.max())
        seen = values > 1e-9 * values.max()
        amount = np.sqrt(np.median([vectors[:, k] @ covariance @ vectors[:, k] * values[k] for k in np.flatnonzero(seen)]))
        sd = amount / np.sqrt(values)
        weak = np.flatnonzero(sd > _UNSEEN)
        return unseen_directions(vectors[:, weak], sd[weak], self.unknowns)
