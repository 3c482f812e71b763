"""Damped Gauss-Newton steps: Levenberg's and Marquardt's damping, a trust region, and the limit of a step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from risp_torch.least_squares.equations import NormalEquations

TINY = 1e-300  # keeps a matrix of zeros regular
MIN_RELATIVE_SCALE = (
    1e-12  # of the largest of Marquardt's scales: regularises coordinates without effect where the residual is zero
)
KEPT = -1.0  # in place of a damping: the step by an inverse from an earlier round (``InverseReuse``)

Limit = np.ndarray | float


class Damping(Protocol):
    """A rule that computes a step from normal equations and a damping."""

    def step(self, equations: Any, damping: float) -> np.ndarray | None:
        """The damped step of a point's equations; None where the rule has none; the next candidate follows."""


@dataclass(frozen=True)
class MarquardtDamping:
    """Damping in the coordinates' own scales, the diagonal of J^T J (Marquardt, SIAM J. Appl. Math. 11, 1963).

    Attributes:
        residual_weight: of the squared residual, which is added to the scales: with 1, a move by a whole unit costs as much as
            the whole residual, so that coordinates that the residuals do not determine stay.
        with_priors: whether the scales include the curvature of priors and penalties.
        truncated: whether directions with eigenvalues at rounding error are left out of a step (pseudoinverse).
    """

    residual_weight: float = 1.0
    with_priors: bool = True
    truncated: bool = False

    def step(self, equations: NormalEquations, damping: float) -> np.ndarray:
        """The damped step [D] (``Damping.step``)."""
        data = None if self.with_priors else equations.data_diagonal
        scales = np.diag(equations.matrix) if data is None else data
        # A residual of zero leaves a share of the largest scale, without which the matrix could be singular.
        scales = np.maximum(scales + self.residual_weight * equations.residual_square, MIN_RELATIVE_SCALE * scales.max() + TINY)
        return solve(equations.matrix + damping * np.diag(scales), equations.gradient, truncated=self.truncated)


@dataclass(frozen=True)
class MeanDiagonalDamping:
    """Equal damping of all coordinates, relative to the mean diagonal of the matrix (Levenberg, Quart. Appl. Math. 2, 1944).

    Attributes:
        below_priors: whether a coordinate with a prior is damped no more than by that: steps then settle it even where the
            residuals do not determine it.
    """

    below_priors: bool = True

    def step(self, equations: NormalEquations, damping: float) -> np.ndarray:
        """The damped step [D] (``Damping.step``)."""
        matrix, prior = equations.matrix, equations.prior_diagonal
        ridge = np.full(len(matrix), damping * np.trace(matrix) / len(matrix) + TINY)
        if self.below_priors and prior is not None:
            ridge = np.where(prior > 0, np.minimum(ridge, prior), ridge)
        return solve(matrix + np.diag(ridge), equations.gradient)


@dataclass(frozen=True)
class TrustRegion:
    """The least mean-diagonal damping whose step changes no coordinate by more than a radius (``NormalEquations.radius``).

    Attributes:
        least, most: dampings, relative to the mean diagonal, that are tried.
        rise: factor from one to the next.
    """

    least: float = 1e-6
    most: float = 1e12
    rise: float = 4.0

    def step(self, equations: NormalEquations, radius: float) -> np.ndarray:
        """The step [D] within a radius (``Damping.step``)."""
        damping, limit = self.least, radius if equations.radius is None else radius * equations.radius
        while True:
            step = MeanDiagonalDamping(below_priors=False).step(equations, damping)
            if np.all(np.abs(step) <= limit) or damping > self.most:
                return step
            damping *= self.rise


def limited(step: np.ndarray, length: float = 1.0, limit: Limit = math.inf) -> np.ndarray:
    """A step times a length, shortened as a whole until no coordinate changes by more than ``limit``, a number or [D].

    The limit holds for a step of length 1: shorter ones are parts of the limited step.
    """
    if isinstance(limit, float) and limit == math.inf:
        return length * step
    step = max(length, 1.0) * step
    share = float((limit / np.maximum(np.abs(step), TINY)).min(initial=math.inf))
    return min(length, 1.0) * step * min(1.0, share)


def solve(matrix: np.ndarray, right: np.ndarray, *, truncated: bool = False) -> np.ndarray:
    """Solution [D] of symmetric equations; the least one where the matrix is singular, or ``truncated``."""
    if not truncated:
        try:
            return np.linalg.solve(matrix, right)
        except np.linalg.LinAlgError:
            pass
    return np.linalg.pinv(matrix, hermitian=True) @ right
