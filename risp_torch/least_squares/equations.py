"""Gauss-Newton normal equations at a point."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch


class LocalModel(Protocol):
    """A problem near a point, as the loop reads it. Damping rules read more: usually ``NormalEquations``.

    Coordinates may have any shape, which is that of the steps.
    """

    @property
    def is_finite(self) -> bool:
        """Whether steps can be computed; a start ends where they cannot."""

    def decrease(self, step: np.ndarray) -> float:
        """Expected decrease of the objective by a step; read where acceptance or termination depends on it."""


@dataclass(frozen=True)
class NormalEquations:
    """Normal equations of D coordinates at a point: ``matrix`` times the undamped step is ``gradient``.

    Attributes:
        matrix: [D, D] J^T J plus the curvature of priors and penalties, float64.
        gradient: [D] J^T r plus their pull: minus half the gradient of the objective, float64.
        residual_square: r^T r, without priors and penalties.
        data_diagonal: [D] diagonal of J^T J alone; that of ``matrix`` if None.
        prior_diagonal: [D] curvature of the priors along each coordinate, 0 where there is none; None without priors.
        context: what the problem keeps for evaluations near the point.
        radius: [D] length along each coordinate that corresponds to a unit of a trust region's radius; 1 if None.
        objective: of the point, where linearising evaluates it; None elsewhere.
    """

    matrix: np.ndarray
    gradient: np.ndarray
    residual_square: float = 0.0
    data_diagonal: np.ndarray | None = None
    prior_diagonal: np.ndarray | None = None
    context: Any = None
    radius: np.ndarray | None = None
    objective: float | None = None

    @staticmethod
    def from_columns(columns: torch.Tensor, residual: torch.Tensor) -> NormalEquations:
        """From the columns of a Jacobian.

        Args:
            columns: [D, P] derivatives of P predictions with respect to each coordinate.
            residual: [P] observed minus predicted.
        """
        columns, residual = columns.double(), residual.double()
        return NormalEquations(
            (columns @ columns.T).cpu().numpy(), (columns @ residual).cpu().numpy(), float(residual @ residual)
        )  # fmt: skip

    @staticmethod
    def from_rows(rows: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> NormalEquations:
        """From blocks of rows of a Jacobian, summed in double precision, so that no copy of the whole is needed.

        Args:
            rows: Jacobian [p, D] and residual [p] of successive blocks, at least one.
        """
        matrix = gradient = square = None
        for jacobian, residual in rows:
            jacobian, residual = jacobian.double(), residual.double()
            if matrix is None:
                matrix, gradient = jacobian.new_zeros((jacobian.shape[1],) * 2), jacobian.new_zeros(jacobian.shape[1])
                square = residual.new_zeros(())
            matrix += jacobian.T @ jacobian
            gradient += jacobian.T @ residual
            square += residual @ residual
        if matrix is None:
            raise ValueError("normal equations need at least one block of rows")
        return NormalEquations(matrix.cpu().numpy(), gradient.cpu().numpy(), float(square))

    def with_prior(self, curvature: np.ndarray, offset: np.ndarray) -> NormalEquations:
        """With a normal prior.

        Args:
            curvature: [D, D] the observations' variance times the inverse covariance of the prior.
            offset: [D] the point minus the prior's mean.
        """
        diagonal = np.diag(curvature) + (0.0 if self.prior_diagonal is None else self.prior_diagonal)
        data = np.diag(self.matrix) if self.data_diagonal is None else self.data_diagonal
        return replace(
            self, matrix=self.matrix + curvature, gradient=self.gradient - curvature @ offset, data_diagonal=data.copy(),
            prior_diagonal=diagonal,
        )  # fmt: skip

    @property
    def is_finite(self) -> bool:
        """Whether all sums are finite, which they are if residual and Jacobian are."""
        return bool(np.isfinite(self.matrix).all() and np.isfinite(self.gradient).all())

    @property
    def weakest_direction(self) -> np.ndarray:
        """[D] unit vector along which the objective changes least: the least observable direction."""
        return np.linalg.eigh(self.matrix)[1][:, 0]

    def decrease(self, step: np.ndarray) -> float:
        """Expected decrease of the objective by a step [D], to second order."""
        return float(step @ (2 * self.gradient - self.matrix @ step))
