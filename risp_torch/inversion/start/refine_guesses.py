"""Losses of many guesses of a film's start, and Levenberg-Marquardt steps of several of them side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from risp_torch.inversion.problem.comparison import Comparison, film_losses
from risp_torch.inversion.problem.linearisation import predict
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.least_squares.damping import MarquardtDamping
from risp_torch.least_squares.equations import NormalEquations
from risp_torch.least_squares.loop import Policy, Starts, minimise
from risp_torch.least_squares.problem import Equations, PointwiseProblem
from risp_torch.least_squares.step_search import FixedSteps
from risp_torch.least_squares.termination import Termination
from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import DivergenceError

_MAX_WORLDS = 64  # worlds that are simulated together
_STEP = 3e-3  # of differences, in parts of the range
POLICY = Policy(
    MarquardtDamping(), FixedSteps(10.0 ** np.arange(-3, 2)), rounds=8, limit=0.15, termination=Termination(decrease=1e-3),
    in_one_batch=True,
)  # fmt: skip


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
        film_loss = film_losses(self.scene, values, self.comparison, worlds=len(rows), most=_MAX_WORLDS)
        return self.unknowns.penalised_at(film_loss, rows, self.comparison.observation_count).double().cpu().numpy()

    def refined(self, points: np.ndarray, unknown_indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points after Levenberg-Marquardt steps of the unknowns at ``unknown_indices``, and their losses.

        Args:
            points: [M, K].
            unknown_indices: [A] indices of the unknowns that move.
        """
        starts = Starts.begin(list(points), POLICY, self.losses(points))
        minimise(StartProblem(self, unknown_indices), starts, POLICY)
        return np.array(starts.points), starts.objectives


class StartProblem(PointwiseProblem):
    """The problem of some unknowns, with others that differ between the starts; candidates of all starts are one batch.

    Args:
        steps: the first pictures of the film.
        unknown_indices: [A] indices of the unknowns that move.
    """

    def __init__(self, steps: StartSteps, unknown_indices: np.ndarray) -> None:
        self.steps, self.unknown_indices = steps, unknown_indices
        self.low, self.high = (steps.unknowns.scaled(bound) for bound in steps.unknowns.bounds())

    def linearise(self, points: Sequence[np.ndarray]) -> list[NormalEquations | None]:
        """Normal equations by central differences (``LeastSquaresProblem.linearise``)."""
        return [self._linearised(point) for point in points]

    def moved(self, point: np.ndarray, equations: NormalEquations, steps: np.ndarray) -> np.ndarray:
        """The point after steps of the unknowns that move (``PointwiseProblem.moved``)."""
        points = np.repeat(point[None], len(steps), axis=0)
        points[:, self.unknown_indices] += (self.high - self.low)[self.unknown_indices] * steps
        return np.clip(points, self.low, self.high)

    def objectives(self, candidates: Sequence[np.ndarray], equations: Equations) -> np.ndarray:
        """Losses of the candidates of all starts (``PointwiseProblem.objectives``)."""
        return self.steps.losses(np.concatenate(candidates)).reshape(len(candidates), -1)

    def _linearised(self, point: np.ndarray) -> NormalEquations | None:
        """Normal equations at a point [K]; None where worlds about it diverge."""
        scene, comparison, unknowns = self.steps.scene, self.steps.comparison, self.steps.unknowns
        count, ranges = len(self.unknown_indices), (self.high - self.low)[self.unknown_indices]
        moves = np.zeros((count, len(point)))
        moves[np.arange(count), self.unknown_indices] = _STEP * ranges
        points = np.concatenate([point[None], point + moves, point - moves])
        try:
            observed, finite = predict(scene, comparison, unknowns, points)
        except DivergenceError:
            return None
        if not finite.all():
            return None
        columns = ((observed[1 : 1 + count] - observed[1 + count :]) / (2 * _STEP)).double()
        residual = (comparison.target.flatten() - observed[0]).double()
        return self.with_priors(NormalEquations.from_columns(columns, residual), point, comparison.observation_count)

    def with_priors(self, equations: NormalEquations, point: np.ndarray, count: float) -> NormalEquations:
        """Normal equations at a point [K] with the priors of the unknowns that move.

        Args:
            equations: those of the film.
            point: [K].
            count: number of observations that count.
        """
        priors, ranges = self.steps.unknowns.priors, self.high - self.low
        if not priors:
            return equations
        variance = priors.variance(equations.residual_square / count)
        prior_matrix = variance * priors.precision(ranges)[np.ix_(self.unknown_indices, self.unknown_indices)]
        return equations.with_prior(prior_matrix, priors.offset(point, ranges)[self.unknown_indices])
