"""Normal equations of many motions with shared unknowns: each motion's own numbers are eliminated (Schur complement)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np

from ti_sim.base.errors import UserError
from ti_sim.base.rules import Rule, checked

Matrix = Annotated[np.ndarray, Rule(shape=(None, None), exact=True)]
Numbering = Annotated[np.ndarray, Rule(shape=(None,), exact=True, integer=True, minimum=0)]


@dataclass(frozen=True, eq=False)
class SharedNormalEquations:
    """Normal equations of M motions, each with Q numbers of its own, and K shared unknowns.

    Attributes:
        own: [M, Q, Q] J^T W J of the own numbers, with their priors.
        mixed: [M, Q, K] of own and shared numbers.
        shared: [M, K, K] of the shared unknowns.
        own_gradient: [M, Q] J^T W r, with the priors' pull.
        shared_gradient: [M, K] the same.
    """

    own: np.ndarray
    mixed: np.ndarray
    shared: np.ndarray
    own_gradient: np.ndarray
    shared_gradient: np.ndarray

    @property
    def is_finite(self) -> bool:
        """Whether all sums are finite, which they are if residuals and Jacobians are."""
        return all(np.isfinite(sums).all() for sums in (self.own, self.shared, self.own_gradient, self.shared_gradient))

    @staticmethod
    def of(jacobian: np.ndarray, weights: np.ndarray, residual: np.ndarray, num_own: int) -> SharedNormalEquations:
        """From Jacobians [M, P, Q + K], weights [M, P] and residuals [M, P] (measured minus simulated)."""
        weighted = jacobian * weights[..., None]
        full, gradient = np.swapaxes(weighted, 1, 2) @ jacobian, np.einsum("mpk,mp->mk", weighted, residual)
        blocks = full[:, :num_own, :num_own], full[:, :num_own, num_own:], full[:, num_own:, num_own:]
        return SharedNormalEquations(*blocks, gradient[:, :num_own], gradient[:, num_own:])

    def damped(self, damping: float, own_damping: np.ndarray) -> SharedNormalEquations:
        """With diagonals that are larger by the factor 1 + damping (Marquardt), each motion's own block by its factor [M]."""
        damped_own = self.own + own_damping[:, None, None] * np.eye(self.own.shape[1]) * self.own
        shared = self.shared + damping * np.eye(self.shared.shape[1]) * self.shared
        return SharedNormalEquations(damped_own, self.mixed, shared, self.own_gradient, self.shared_gradient)

    @cached_property
    def _share(self) -> np.ndarray:
        """[M, K, Q] mixed^T own^-1."""
        return np.swapaxes(np.linalg.solve(self.own, self.mixed), 1, 2)

    @cached_property
    def eliminated(self) -> np.ndarray:
        """[M, K, K] information of each motion on the shared unknowns when its own numbers are free."""
        return self.shared - self._share @ self.mixed

    @cached_property
    def scores(self) -> np.ndarray:
        """[M, K] gradient of each motion with respect to the shared unknowns when its own numbers follow."""
        return self.shared_gradient - np.einsum("mkq,mq->mk", self._share, self.own_gradient)

    def step(self, precision: np.ndarray, pull: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gauss-Newton step: of the shared unknowns [K] and of the own numbers [M, Q].

        Args:
            precision: [K, K] of the priors of shared unknowns.
            pull: [K] of these priors.
        """
        shared = pull  # nothing, where nothing is shared
        if len(pull):
            shared = np.linalg.lstsq(self.eliminated.sum(0) + precision, self.scores.sum(0) + pull, rcond=1e-12)[0]
        own_step = np.linalg.solve(self.own, (self.own_gradient - self.mixed @ shared)[..., None])[..., 0]
        return shared, own_step


@checked
def clustered_covariance(information: Matrix, scores: Matrix, clusters: Numbering, precision: Matrix) -> np.ndarray:
    """Covariance [K, K] of estimates whose residuals are correlated within clusters (sandwich; Liang and Zeger, 1986).

    Residuals of a motion are model errors rather than noise, and windows of a recording share them. So the scatter of the
    clusters' gradients takes the place of the noise.

    Args:
        information: [K, K] J^T W J of all motions and the priors.
        scores: [M, K] gradients of the motions at the estimate.
        clusters: [M] number of the cluster of each motion.
        precision: [K, K] inverse covariance of the priors.

    Raises:
        UserError: an array is not finite, or the shapes do not fit each other.
    """
    information, scores, clusters, precision = map(np.asarray, (information, scores, clusters, precision))
    motions, unknowns = scores.shape
    if information.shape != 2 * (unknowns,) or precision.shape != 2 * (unknowns,) or clusters.shape != (motions,):
        shapes = ", ".join(str(array.shape) for array in (information, scores, clusters, precision))
        raise UserError(f"clustered_covariance: the arrays have shapes {shapes}: give [K, K], [M, K], [M] and [K, K]")
    sums = np.zeros((clusters.max() + 1, scores.shape[1]))
    np.add.at(sums, clusters, scores - scores.mean(axis=0))
    count = len(np.unique(clusters))
    bread = np.linalg.pinv(information, rcond=1e-12, hermitian=True)
    return bread @ (sums.T @ sums * (count / max(count - 1, 1)) + precision) @ bread
