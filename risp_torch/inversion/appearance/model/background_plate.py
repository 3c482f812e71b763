"""Background plate: any picture, or a smooth one, which a single frame can show behind a body, too."""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True, eq=False)
class SmoothPictures:
    """Products of the first cosines along both sides of a picture, and what keeps their combinations smooth.

    Attributes:
        pictures: [P, K].
        stiffness: [K] weights of the squared coefficients [pixels]: those of a thin plate's bending energy, k^4 for k half waves.
    """

    pictures: np.ndarray
    stiffness: np.ndarray

    @staticmethod
    def of(height: int, width: int, *, count: int, bending: float) -> SmoothPictures:
        """``count`` cosines along each side, at most one for each pixel: pictures [H W, count^2] of mean square 1, orthogonal.

        ``bending`` is the stiffness of one half wave, of the number of pixels.
        """
        count = min(count, height, width)
        rows, columns = (_cosines(side, count) for side in (height, width))
        pictures = np.einsum("ha,wb->hwab", rows, columns).reshape(height * width, count * count)
        squared = np.arange(count) ** 2
        stiffness = bending * len(pictures) * (squared[:, None] + squared).reshape(-1) ** 2.0
        return SmoothPictures(pictures, stiffness)

    def energy(self, plate: np.ndarray) -> float:
        """Bending energy of a plate [P, m] that is a combination of the pictures: sum of stiffness times squared coefficients."""
        coefficients = self.pictures.T @ plate / len(plate)
        return float((self.stiffness[:, None] * coefficients**2).sum())

    def weighted_gram(self, weight: np.ndarray) -> np.ndarray:
        """[K, K] products of the pictures with weights [P]; pixels that share the least weight cost nothing."""
        min_weight = weight.min()
        more = weight > min_weight
        chosen = self.pictures[more]
        orthogonal = min_weight * len(weight) * np.eye(len(self.stiffness))
        return orthogonal + chosen.T @ ((weight[more] - min_weight)[:, None] * chosen)


class SmoothPlate:
    """A combination of a few smooth pictures."""

    def __init__(self, weight: np.ndarray, basis: SmoothPictures) -> None:
        """Weights [P] of the pixels, above 0, and the pictures."""
        self.basis = basis.pictures
        self.lower = cholesky(basis.weighted_gram(weight) + np.diag(basis.stiffness), lower=True)

    def plate(self, right: np.ndarray) -> np.ndarray:
        """See ``PlateSolver.plate``."""
        half = solve_triangular(self.lower, self.basis.T @ right, lower=True)
        return self.basis @ solve_triangular(self.lower, half, lower=True, trans="T")

    def half(self, pixels: np.ndarray | csr_matrix) -> np.ndarray:
        """See ``PlateSolver.half``."""
        projected = self.basis.T @ pixels if isinstance(pixels, np.ndarray) else (pixels.T @ self.basis).T
        return solve_triangular(self.lower, projected, lower=True)


def plate_solver(weight: np.ndarray, basis: SmoothPictures | None) -> PlateSolver:
    """The solver for weights [P] of the pixels, above 0, and the plate's pictures, None for any plate."""
    return AnyPlate(weight) if basis is None else SmoothPlate(weight, basis)


def _cosines(side: int, count: int) -> np.ndarray:
    waves = np.cos(np.pi * (np.arange(side)[:, None] + 0.5) / side * np.arange(count))
    return waves / np.sqrt((waves**2).mean(axis=0))
