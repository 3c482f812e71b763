"""Normal equations of many motions with shared unknowns: each motion's local unknowns are eliminated (Schur complement)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np

from ti_sim.base.errors import UserError
from ti_sim.base.rules import Rule, checked

Matrix = Annotated[np.ndarray, Rule(shape=(None, None), exact=True)]
ClusterIndices = Annotated[np.ndarray, Rule(shape=(None,), exact=True, integer=True, minimum=0)]


@dataclass(frozen=True, eq=False)
class SharedNormalEquations:
    """Normal equations of M motions, each with Q local unknowns, and K shared unknowns.

    Attributes:
        local: [M, Q, Q] block J^T W J of the local unknowns, with their priors.
        cross: [M, Q, K] block of local and shared unknowns.
        shared: [M, K, K] block of the shared unknowns.
        local_gradient: [M, Q] J^T W r of the local unknowns, with their priors.
        shared_gradient: [M, K] J^T W r of the shared unknowns.
    """

    local: np.ndarray
    cross: np.ndarray
    shared: np.ndarray
    local_gradient: np.ndarray
    shared_gradient: np.ndarray

    @property
    def is_finite(self) -> bool:
        """Whether matrices and gradients are finite; they are, if residuals and Jacobians are."""
        return all(np.isfinite(sums).all() for sums in (self.local, self.shared, self.local_gradient, self.shared_gradient))

    @staticmethod
    def of(jacobian: np.ndarray, weights: np.ndarray, residual: np.ndarray, num_local: int) -> SharedNormalEquations:
        """From Jacobians [M, P, Q + K], weights [M, P] and residuals [M, P] (measured minus simulated)."""
        weighted = jacobian * weights[..., None]
        matrices, gradient = np.swapaxes(weighted, 1, 2) @ jacobian, np.einsum("mpk,mp->mk", weighted, residual)
        blocks = matrices[:, :num_local, :num_local], matrices[:, :num_local, num_local:], matrices[:, num_local:, num_local:]
        return SharedNormalEquations(*blocks, gradient[:, :num_local], gradient[:, num_local:])

    def damped(self, damping: float, local_damping: np.ndarray) -> SharedNormalEquations:
        """Multiply diagonals by 1 + damping (Marquardt); the local blocks have a damping [M] for each motion."""
        damped_local = self.local + local_damping[:, None, None] * np.eye(self.local.shape[1]) * self.local
        shared = self.shared + damping * np.eye(self.shared.shape[1]) * self.shared
        return SharedNormalEquations(damped_local, self.cross, shared, self.local_gradient, self.shared_gradient)

    @cached_property
    def _elimination(self) -> np.ndarray:
        """[M, K, Q] mixed^T own^-1."""
        return np.swapaxes(np.linalg.solve(self.local, self.cross), 1, 2)

    @cached_property
    def schur_complement(self) -> np.ndarray:
        """[M, K, K] information of each motion about the shared unknowns, its local unknowns being free."""
        return self.shared - self._elimination @ self.cross

    @cached_property
    def scores(self) -> np.ndarray:
        """[M, K] gradient of each motion with respect to the shared unknowns, its local unknowns being optimal."""
        return self.shared_gradient - np.einsum("mkq,mq->mk", self._elimination, self.local_gradient)

    def decreases(self, shared_step: np.ndarray, local_steps: np.ndarray) -> np.ndarray:
        """[M] decreases of the motions' costs by steps [K] and [M, Q], by the linear model."""
        gradient = self.shared_gradient @ shared_step + np.einsum("mq,mq->m", self.local_gradient, local_steps)
        curvature = np.einsum("k,mkl,l->m", shared_step, self.shared, shared_step)
        curvature += 2 * np.einsum("mq,mqk,k->m", local_steps, self.cross, shared_step)
        return 2 * gradient - curvature - np.einsum("mq,mqr,mr->m", local_steps, self.local, local_steps)

    def step(
        self, precision: np.ndarray, prior_gradient: np.ndarray, *, damping: float = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Gauss-Newton step of the shared unknowns [K] and of the local unknowns [M, Q].

        Args:
            precision: [K, K] inverse covariance of the priors of shared unknowns.
            prior_gradient: [K] -precision times the distance from the priors' means.
            damping: of the shared unknowns, relative to the diagonal of their information, which is smaller than that of
                ``shared`` if local unknowns make up for most of a step.
        """
        shared = prior_gradient  # [0], if no unknown is shared
        if len(prior_gradient):
            information = self.schur_complement.sum(0)
            matrix = information + damping * np.diag(np.diag(information)) + precision
            shared = np.linalg.lstsq(matrix, self.scores.sum(0) + prior_gradient, rcond=1e-12)[0]
        local_step = np.linalg.solve(self.local, (self.local_gradient - self.cross @ shared)[..., None])[..., 0]
        return shared, local_step


@checked
def clustered_covariance(information: Matrix, scores: Matrix, clusters: ClusterIndices, precision: Matrix) -> np.ndarray:
    """Covariance [K, K] of estimates whose residuals are correlated within clusters (sandwich; Liang and Zeger, 1986).

    Residuals of a motion are mostly model errors, which windows of the same recording share. So the scatter of the clusters'
    gradients replaces the noise.

    Args:
        information: [K, K] J^T W J of all motions and the priors.
        scores: [M, K] gradients of the motions at the estimate.
        clusters: [M] index of the cluster of each motion.
        precision: [K, K] inverse covariance of the priors.

    Raises:
        UserError: an array is not finite, or the shapes do not fit each other.
    """
    information, scores, clusters, precision = map(np.asarray, (information, scores, clusters, precision))
    num_motions, num_unknowns = scores.shape
    if information.shape != 2 * (num_unknowns,) or precision.shape != 2 * (num_unknowns,) or clusters.shape != (num_motions,):
        shapes = ", ".join(str(array.shape) for array in (information, scores, clusters, precision))
        raise UserError(f"clustered_covariance: the arrays have shapes {shapes}: give [K, K], [M, K], [M] and [K, K]")
    cluster_sums = np.zeros((clusters.max() + 1, scores.shape[1]))
    np.add.at(cluster_sums, clusters, scores - scores.mean(axis=0))
    num_clusters = len(np.unique(clusters))
    inverse = np.linalg.pinv(information, rcond=1e-12, hermitian=True)
    return inverse @ (cluster_sums.T @ cluster_sums * (num_clusters / max(num_clusters - 1, 1)) + precision) @ inverse
