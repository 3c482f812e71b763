"""Losses of many guesses of a film's start, and Levenberg-Marquardt steps of several of them side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from risp_torch.inversion.problem.comparison import Comparison, film_losses
from risp_torch.inversion.problem.linearisation import observed_at
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import DivergenceError

_TOGETHER = 64  # worlds that are simulated together
_STEP = 3e-3  # of differences, in parts of the range
_DAMPINGS = 10.0 ** np.arange(-3, 2)
_LONGEST = 0.15  # largest change of an unknown in one step, in parts of the range
_DONE = 1e-3  # relative decrease of a loss below which its steps end


@dataclass(frozen=True)
class StartSteps:
    """The first pictures of a film, and all its unknowns in scaled coordinates.

    Attributes:
        scene, comparison, unknowns: those of the inversion, the comparison of the first pictures alone.
    """

    scene: Scene
    comparison: Comparison
    unknowns: Unknowns

    def losses(self, points: np.ndarray) -> np.ndarray:
        """Losses [N] at points [N, K], priors included; infinite where a world diverged."""
        rows = torch.as_tensor(points, dtype=bridge_dtype(), device=bridge_device())
        values = self.unknowns.from_scaled(rows)
        films = film_losses(self.scene, values, self.comparison, worlds=len(rows), most=_TOGETHER)
        return self.unknowns.penalised_at(films, rows, self.comparison.count).double().cpu().numpy()

    def refined(self, points: np.ndarray, places: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
        """Points after at most so many steps of the unknowns at ``places``, and their losses.

        Args:
            points: [M, K].
            places: [A] indices of the unknowns that move.
            most: largest number of steps.
        """
        points, losses = points.copy(), self.losses(points)
        going = np.isfinite(losses)
        for _ in range(most):
            rows = np.flatnonzero(going)
            if not len(rows):
                break
            moved, found = self._stepped(points[rows], losses[rows], places)
            going[rows] = losses[rows] - found > _DONE * losses[rows]
            points[rows], losses[rows] = moved, found
        return points, losses

    def _stepped(self, points: np.ndarray, losses: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Each point after the best step of several dampings, or as it was."""
        low, high = (self.unknowns.scaled(bound) for bound in self.unknowns.bounds())
        tries = np.repeat(points[:, None], len(_DAMPINGS), axis=1)
        for row, point in enumerate(points):
            move = self._moves(point, losses[row], places, low, high)
            if move is not None:
                tries[row][:, places] += move
        tries = np.clip(tries, low, high)
        found = np.c_[losses, self.losses(tries.reshape(-1, points.shape[1])).reshape(len(points), -1)]
        best = found.argmin(axis=1)
        rows = np.arange(len(points))
        return np.concatenate([points[:, None], tries], axis=1)[rows, best], found[rows, best]

    def _moves(
        self, point: np.ndarray, loss: float, places: np.ndarray, low: np.ndarray, high: np.ndarray
    ) -> np.ndarray | None:
        """Steps [dampings, A] from a point [K]; None where worlds about it diverge."""
        ranges = (high - low)[places]
        offsets = np.zeros((2 * len(places), len(point)))
        offsets[np.arange(len(places)), places] = _STEP * ranges
        offsets[len(places) + np.arange(len(places)), places] = -_STEP * ranges
        try:
            observed, finite = observed_at(self.scene, self.comparison, self.unknowns, np.concatenate([[point], point + offsets]))
        except DivergenceError:
            return None
        if not (finite.all() and torch.isfinite(observed).all()):
            return None
        columns = ((observed[1 : 1 + len(places)] - observed[1 + len(places) :]) / (2 * _STEP)).double()
        residual = (self.comparison.target.flatten() - observed[0]).double()
        normal, gradient = (columns @ columns.T).cpu().numpy(), (columns @ residual).cpu().numpy()
        known, pull = self._prior(point, loss, places, high - low)
        normal, gradient = normal + known, gradient + pull
        ridge = np.diag(normal) + loss * self.comparison.count + 1e-300
        steps = np.stack([np.linalg.solve(normal + damping * np.diag(ridge), gradient) for damping in _DAMPINGS])
        return ranges * steps * np.minimum(1.0, _LONGEST / np.maximum(np.abs(steps).max(axis=1, keepdims=True), 1e-300))

    def _prior(self, point: np.ndarray, loss: float, places: np.ndarray, ranges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Parts [A, A] and [A] of the priors in the normal equations."""
        priors = self.unknowns.priors
        if not priors:
            return np.zeros((len(places), len(places))), np.zeros(len(places))
        known = priors.variance(loss) * priors.precision(ranges)[np.ix_(places, places)]
        return known, -known @ priors.offset(point, ranges)[places]
