"""Gauss-Newton fit of a scene's numbers to many measured motions, each with a start of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from risp_torch.inversion.losses.tracks import point_coordinates
from risp_torch.inversion.unknowns import Unknowns
from risp_torch.inversion.unseen import unseen_directions
from risp_torch.motions.normal import Normal, clustered_covariance
from risp_torch.motions.recording import Window
from risp_torch.motions.result import MotionFit
from risp_torch.motions.settings import MotionFitSettings
from risp_torch.motions.simulate import STARTS, check_scene, measured_points, measured_starts, simulated_poses
from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import UserError

_FAR = 100.0  # residual of a world that diverged, in multiples of the noise
_FIRST_DAMPING, _MOST_DAMPING, _CHANGE = 1e-3, 1e8, 5.0
_ROUNDS, _WIDEST = 3, 30.0
_UNSEEN = 0.25  # of the ranges: error bar from which a combination of unknowns is named


def fit_motions(
    scene: Scene,
    windows: Sequence[Window],
    unknown: Sequence[str],
    settings: MotionFitSettings,
    *,
    bounds: dict[str, tuple] | None = None,
    priors: dict[str, Any] | None = None,
    scale: str | None = None,
    progress: bool = False,
) -> MotionFit:
    """Fit numbers of a scene, the same in all motions, to measured motions.

    Every window is simulated from a start of its own, which is measured up to the settings' standard deviations and estimated
    with the rest. All simulations of a Jacobian, by central differences, run side by side, one world each. Starts are eliminated
    from the normal equations motion by motion; steps are those of Levenberg and Marquardt from the scene's own values. A motion
    that the model cannot follow counts less (``MotionFitSettings.robust``). Error bars come from the scatter of the recordings'
    gradients (``clustered_covariance``).

    Args:
        scene: free rigid bodies, with the recordings' frame time.
        windows: parts of recordings.
        unknown: names of parameters, or of entries.
        settings: noise and search.
        bounds, priors: of unknowns, as of ``invert``.
        scale: parameter that measured lengths are multiples of, where they are not those of the scene.
        progress: whether to show a progress bar.

    Raises:
        UserError: the recordings do not fit the scene, or an unknown has no bounds, or is the start of a body.
    """
    check_scene(scene, windows, scale)
    for name in unknown:
        if any(name.startswith(f"{body.name}.{start}") for body in scene.bodies for start in STARTS):
            raise UserError(f"{name} is the start of a body, and every motion has its own: leave it out")
    unknowns = Unknowns.of(scene, list(unknown), bounds=bounds, priors=priors)
    fit = _Fit(scene, windows, unknowns, settings, scale)
    at = fit.at(fit.first, np.zeros_like(fit.measured))
    costs, converged = [at.cost], False
    damping = _Damping(_FIRST_DAMPING, np.full(len(windows), _FIRST_DAMPING))
    for _ in tqdm(range(settings.iterations), desc="fitting", disable=not progress):
        normal = fit.normal(at)
        after, damping = fit.improved(at, normal, damping)
        if after is None:
            converged = True
            break
        converged = at.cost - after.cost < settings.tolerance * at.cost
        at = after
        costs.append(at.cost)
        if converged:
            break
    return fit.result(at, costs, converged)


@dataclass(frozen=True, eq=False)
class _Point:
    """A point of the search.

    Attributes:
        scaled: [K] shared unknowns.
        moves: [M, N, 12] of the starts from the measured ones.
        residual: [M, T, N, 12] measured minus simulated, in multiples of the noise; 0 where nothing is measured.
        weights: [M, T, N] robust weights.
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


class _Fit:
    """The problem, and steps in it."""

    def __init__(
        self, scene: Scene, windows: Sequence[Window], unknowns: Unknowns, settings: MotionFitSettings, scale: str | None
    ) -> None:
        self.scene, self.windows, self.unknowns, self.settings, self.scale = scene, windows, unknowns, settings, scale
        self.frames = max(window.frames for window in windows)
        self.target = measured_points(scene, windows, self.frames)
        self.known = np.isfinite(self.target)
        self.measured = measured_starts(scene, windows)
        self.noise = np.full((len(windows), self.frames, 1, 1), settings.noise)
        for row, window in zip(self.noise, windows, strict=True):
            if window.noise is not None:
                row[: window.frames, 0, 0] = window.noise
        self.start_sd = np.repeat(
            [settings.position_sd, settings.rotation_sd, settings.velocity_sd, settings.spin_sd], 3
        )  # fmt: skip
        self.first, self.ranges = unknowns.scaled(unknowns.current()), unknowns.scaled_range()
        low, high = (unknowns.scaled(bound) for bound in unknowns.bounds())
        self.low, self.high = low, high
        recordings = list(dict.fromkeys(id(window.recording) for window in windows))
        self.clusters = np.array([recordings.index(id(window.recording)) for window in windows])

    def points(self, scaled: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Points [R, T, N, 12] of simulations with unknowns [R, K] from starts [R, N, 12]."""
        parts = []
        for first in range(0, len(scaled), self.settings.worlds):
            some = slice(first, first + self.settings.worlds)
            rows = torch.as_tensor(scaled[some], dtype=bridge_dtype(), device=bridge_device())
            with torch.no_grad():
                values = self.unknowns.from_scaled(rows)
                poses = simulated_poses(self.scene, values, starts[some], self.frames, scale=self.scale)
                points = point_coordinates(self.scene, poses)
            parts.append(points.double().cpu().numpy().reshape(*poses.shape[:3], 12))
        return np.concatenate(parts)

    def at(self, scaled: np.ndarray, moves: np.ndarray) -> _Point:
        """The residuals at a point."""
        points = self.points(np.tile(scaled, (len(moves), 1)), self.measured + moves)
        residual = np.where(self.known, (self.target - points) / self.noise, 0.0)
        residual = np.where(np.isfinite(residual), residual, _FAR)
        square = (residual**2).mean(axis=-1)
        share = 1.0 / (1.0 + square / self.settings.robust**2)
        costs = (12 * square * share).sum(axis=(1, 2)) + ((moves / self.start_sd) ** 2).sum(axis=(1, 2))
        return self._point(scaled, moves, residual, share**2, costs)

    def _point(
        self, scaled: np.ndarray, moves: np.ndarray, residual: np.ndarray, weights: np.ndarray, costs: np.ndarray
    ) -> _Point:
        away = self.unknowns.priors.offset(scaled, self.ranges)
        prior = away @ self.unknowns.priors.precision(self.ranges) @ away
        return _Point(scaled, moves, residual, weights, costs, float((costs.sum() + prior) / self.known.sum()))

    def better_of(self, one: _Point, other: _Point) -> tuple[_Point, np.ndarray]:
        """Of two points with the same shared unknowns the better start of each motion; and which are those of the first [M]."""
        first = one.costs <= other.costs
        rows = first[:, None, None]
        return self._point(
            one.scaled, np.where(rows, one.moves, other.moves),
            np.where(rows[..., None], one.residual, other.residual), np.where(rows, one.weights, other.weights),
            np.where(first, one.costs, other.costs),
        ), first  # fmt: skip

    def normal(self, at: _Point, moves: np.ndarray | None = None) -> Normal:
        """Normal equations at a point; shared unknowns relative to their ranges, starts to their standard deviations.

        Args:
            at: the point.
            moves: [K, K] orthogonal rows along which the shared unknowns are differentiated, relative to their ranges; by default
                along each of them.
        """
        motions, bodies = self.measured.shape[:2]
        own, shared = 12 * bodies, len(at.scaled)
        jacobian = np.empty((motions, self.target[0].size, own + shared))
        starts, tiled = self.measured + at.moves, np.tile(at.scaled, (motions, 1))
        for k in range(own):
            move = np.zeros((bodies, 12))
            move.flat[k] = self.settings.start_step * self.start_sd[k % 12]
            jacobian[..., k] = self._slope(tiled, tiled, starts + move, starts - move, self.settings.start_step)
        moves = self.settings.step * np.eye(shared) if moves is None else moves
        for k, move in enumerate(moves):
            up = np.clip(at.scaled + self.ranges * move, self.low, self.high)
            down = np.clip(at.scaled - self.ranges * move, self.low, self.high)
            size = np.linalg.norm(move)
            half = 0.5 * float((up - down) / self.ranges @ move) / size  # less at a bound
            jacobian[..., own + k] = self._slope(np.tile(up, (motions, 1)), np.tile(down, (motions, 1)), starts, starts, half)
        jacobian[..., own:] = jacobian[..., own:] @ (moves / np.linalg.norm(moves, axis=1, keepdims=True))
        weights = np.repeat(at.weights[..., None], 12, axis=-1).reshape(motions, -1)
        normal = Normal.of(jacobian, weights, at.residual.reshape(motions, -1), own)
        normal.own[:, range(own), range(own)] += 1.0
        normal.own_gradient[:] -= (at.moves / self.start_sd).reshape(motions, -1)
        return normal

    def _slope(self, up: np.ndarray, down: np.ndarray, ahead: np.ndarray, behind: np.ndarray, half: float) -> np.ndarray:
        """Central difference [M, P] of the points in multiples of the noise, 0 where a world diverged."""
        both = self.points(np.concatenate([up, down]), np.concatenate([ahead, behind]))
        slope = (both[: len(up)] - both[len(up) :]) / (2 * half * self.noise)
        return np.where(self.known & np.isfinite(slope), slope, 0.0).reshape(len(up), -1)

    def improved(self, at: _Point, normal: Normal, damping: _Damping) -> tuple[_Point | None, _Damping]:
        """The point after a step that lowers the cost, and the next damping; None if no step does.

        A start stays where it is when its step does not lower the cost of its motion.
        """
        priors = self.unknowns.priors
        precision = priors.precision(self.ranges)
        pull = -precision @ priors.offset(at.scaled, self.ranges)
        while damping.shared < _MOST_DAMPING:
            shared, own = normal.damped(damping.shared, damping.own).step(precision, pull)
            scaled = np.clip(at.scaled + self.ranges * shared, self.low, self.high)
            moves = at.moves + own.reshape(at.moves.shape) * self.start_sd
            after, moved = self.better_of(self.at(scaled, moves), self.at(scaled, at.moves))
            own_damping = np.where(moved, damping.own / _CHANGE, damping.own * _CHANGE).clip(1e-9, _MOST_DAMPING)
            if after.cost < at.cost:
                return after, _Damping(damping.shared / _CHANGE, own_damping)
            damping = _Damping(damping.shared * _CHANGE, own_damping)
        return None, damping

    def result(self, at: _Point, costs: list[float], converged: bool) -> MotionFit:
        """The fit at the last point."""
        normal, precision = self._along_weak_directions(at), self.unknowns.priors.precision(self.ranges)
        information = normal.eliminated.sum(0) + precision
        covariance = clustered_covariance(information, normal.scores, self.clusters, precision)
        own = np.maximum(self.known.sum(axis=(1, 2, 3)), 1)
        residual = np.sqrt(((self.noise * at.residual) ** 2).sum(axis=(1, 2, 3)) / own)
        frames = self.known.any(axis=-1)
        weights = (at.weights * frames).sum(axis=(1, 2)) / frames.sum(axis=(1, 2))
        scale = np.outer(self.ranges, self.ranges)
        return MotionFit(
            self.unknowns, at.scaled, covariance * scale, self.windows, self.measured + at.moves, residual, weights, at.cost,
            costs, converged, self._unseen(information, covariance),
        )  # fmt: skip

    def _along_weak_directions(self, at: _Point) -> Normal:
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
