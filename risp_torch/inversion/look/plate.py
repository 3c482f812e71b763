"""What stands behind the bodies: any picture, or a smooth one, which a single frame can show behind a body, too."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.sparse import csr_matrix, diags_array


class PlateSolver(Protocol):
    """The least-squares plate of one channel, for weights of its pixels."""

    def plate(self, right: np.ndarray) -> np.ndarray:
        """[P] the plate for a right side [P], the weighted sum of what the frames show behind."""

    def half(self, pixels: np.ndarray | csr_matrix) -> np.ndarray | csr_matrix:
        """Z with Z^T Z = Y^T D^-1 Y for the columns of Y [P, m]: what the plate absorbs of changes of a picture."""


class AnyPlate:
    """Each pixel for itself: D is diagonal."""

    def __init__(self, weight: np.ndarray) -> None:
        """Weights [P] of the pixels, above 0."""
        self.weight = weight

    def plate(self, right: np.ndarray) -> np.ndarray:
        """See ``PlateSolver.plate``."""
        return right / self.weight

    def half(self, pixels: np.ndarray | csr_matrix) -> np.ndarray | csr_matrix:
        """See ``PlateSolver.half``."""
        root = 1.0 / np.sqrt(self.weight)
        return root[:, None] * pixels if isinstance(pixels, np.ndarray) else (diags_array(root) @ pixels).tocsr()


class SmoothPlate:
    """A combination of a few smooth pictures."""

    def __init__(self, weight: np.ndarray, basis: np.ndarray) -> None:
        """Weights [P] of the pixels, above 0, and the pictures [P, K]."""
        self.basis = basis
        self.lower = cholesky(basis.T @ (weight[:, None] * basis), lower=True)

    def plate(self, right: np.ndarray) -> np.ndarray:
        """See ``PlateSolver.plate``."""
        half = solve_triangular(self.lower, self.basis.T @ right, lower=True)
        return self.basis @ solve_triangular(self.lower, half, lower=True, trans="T")

    def half(self, pixels: np.ndarray | csr_matrix) -> np.ndarray:
        """See ``PlateSolver.half``."""
        projected = self.basis.T @ pixels if isinstance(pixels, np.ndarray) else (pixels.T @ self.basis).T
        return solve_triangular(self.lower, projected, lower=True)


def plate_solver(weight: np.ndarray, basis: np.ndarray | None) -> PlateSolver:
    """The solver for weights [P] of the pixels, above 0, and the plate's pictures [P, K], None for any plate."""
    return AnyPlate(weight) if basis is None else SmoothPlate(weight, basis)


def smooth_pictures(height: int, width: int, count: int) -> np.ndarray:
    """[H W, count^2] products of the first cosines along both sides of a picture, orthogonal, of mean square 1."""
    rows, columns = (_cosines(side, count) for side in (height, width))
    return np.einsum("ha,wb->hwab", rows, columns).reshape(height * width, count * count)


def _cosines(side: int, count: int) -> np.ndarray:
    waves = np.cos(np.pi * (np.arange(side)[:, None] + 0.5) / side * np.arange(count))
    return waves / np.sqrt((waves**2).mean(axis=0))
