"""Gauss-Newton steps of colours and light in which the plate follows (Kaufman, BIT 15, 1975), one channel at a time.

With the Jacobian J of the picture in colours and light at a fixed plate, weights w, and beta, the gain times the visible share of
the plate, the step solves

    (J^T w J - Y^T D^-1 Y + R) d = J^T w r - R (x - x0),   Y = sum_t beta w J,   D = sum_t w beta^2

with Y and D for each pixel and the regularisation R. Up to ``MAX_DIRECT_COLORS`` colours the matrix is assembled and factorised;
beyond, conjugate gradients apply it. Steps and gradients are [N + L - 1, 3]: N colours, and the last coefficients of the light.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.linalg import cho_solve, cholesky
from scipy.sparse import csr_matrix

from risp_torch.inversion.appearance.fit.gradient_kernel import column_sums
from risp_torch.inversion.appearance.fit.matrix_kernel import MAX_COLUMNS, normal_matrices
from risp_torch.inversion.appearance.fit.objective import LIGHT_REGULARISATION, PLATE_REGULARISATION, Fit
from risp_torch.inversion.appearance.model.background_plate import PlateSolver, plate_solver
from risp_torch.least_squares.inverse_reuse import KeptInverse
from risp_torch.least_squares.secants import Inverse

MAX_DIRECT_COLORS = 1500  # colours
MAX_CG_STEPS, CG_TOLERANCE = 60, 1e-2  # steps of the conjugate gradients, and relative residual at which they end


class LookInverse(Inverse, Protocol):
    """The inverse of a damped normal matrix."""

    def colors(self, right: np.ndarray) -> np.ndarray:
        """Changes of the colours alone for a right side: a step that leaves the light."""


class LookEquations:
    """The projected normal equations at a look, one set for each channel (``InvertibleModel``).

    The matrix is made by ``inverse`` alone.

    Args:
        fit: where they are linear.
        kept: of the steps to this fit.
    """

    def __init__(self, fit: Fit, kept: KeptInverse | None = None) -> None:
        self.kept, self.objective = kept or KeptInverse(), fit.objective
        self.system, self.settings = system, settings = fit.system, fit.settings
        self.look, look, self.fit = fit.look, fit.look, fit
        self.basis = system.basis[:, 1:]  # the first coefficient is 1: colours have the scale
        self.shade, self.color = system.basis @ look.light, look.colors[system.color]  # [C, 3]
        self.point = np.concatenate([look.colors, look.light[1:]])
        if system.palette.shadows:
            self.gradient = self._back(self.weight * fit.residual.reshape(-1, 3)[system.row])
        else:
            self.gradient = self._of_columns(column_sums(system, fit.weight, fit.residual, look.gain))
        color_offset = look.colors - system.palette.regularisation_target
        color_gradient = settings.smoothness * (system.stiffness @ look.colors) + settings.color_regularisation * color_offset
        self.gradient -= np.concatenate([color_gradient, LIGHT_REGULARISATION * look.light[1:]])

    @cached_property
    def plate_weight(self) -> np.ndarray:
        """[P, 3] D."""
        return _plate_weights(self.fit)

    @cached_property
    def behind(self) -> list[PlateSolver]:
        """Solver of the plate of each channel."""
        return [plate_solver(weight, self.system.plate_basis) for weight in self.plate_weight.T]

    @cached_property
    def weight(self) -> np.ndarray:
        """[R, 1] weights of the rows."""
        return self.fit.weight.reshape(-1, 1)[self.system.row]

    @cached_property
    def gain(self) -> np.ndarray:
        """[R, 3] gain of the rows."""
        return self.look.gain[self.system.frame]

    @cached_property
    def plate_share(self) -> np.ndarray:
        """[R, 3] beta of the rows."""
        return self.system.plate_share.reshape(-1, 1)[self.system.row] * self.gain

    @property
    def is_finite(self) -> bool:
        """Whether the gradient is finite (``LocalModel.is_finite``)."""
        return bool(np.isfinite(self.gradient).all())

    def decrease(self, step: np.ndarray) -> float:
        """Decrease of the objective by a step, to second order (``LocalModel.decrease``)."""
        return float(np.vdot(self.gradient, step))

    def inverse(self, damping: float) -> LookInverse:
        """The inverse of the matrix with ``damping`` times its diagonal added (Marquardt, SIAM J. Appl. Math. 11, 1963)."""
        if self.system.palette.count > MAX_DIRECT_COLORS:
            return ConjugateGradients(self, damping)
        return Factors([_factor(matrix, damping) for matrix in self._matrices], self.system.palette.count)

    @cached_property
    def _matrices(self) -> list[np.ndarray]:
        """[N + L - 1, N + L - 1] the normal matrices of the channels."""
        system, settings, count = self.system, self.settings, self.system.palette.count
        size = count + self.basis.shape[1]
        if system.plate_basis is None and size <= MAX_COLUMNS:
            matrices = list(normal_matrices(
                system, self.shade, self.color, self.basis, self.gain, self.weight[:, 0], self.plate_share, self.plate_weight
            ))  # fmt: skip
        else:
            matrices = [self._matrix(k) for k in range(3)]
        for matrix in matrices:
            matrix[:count, :count] += settings.smoothness * system.stiffness.toarray()
            matrix.flat[:: size + 1] += np.repeat(
                [settings.color_regularisation, LIGHT_REGULARISATION], [count, size - count]
            )
        return matrices

    def _matrix(self, k: int) -> np.ndarray:
        """The normal matrix of a channel without regularisation, by sparse products."""
        system = self.system
        by_color = _scaled_rows(system.merged(self.shade[:, k]), self.gain[:, k])
        by_light = self.gain[:, k, None] * (system.matrix @ (self.color[:, k, None] * self.basis))  # [R, L - 1]
        weight, plate_share = self.weight[:, 0], self.plate_share[:, k]
        color_pixels = self.behind[k].half(system.into_pixels @ _scaled_rows(by_color, weight * plate_share))
        light_pixels = self.behind[k].half(system.into_pixels @ ((weight * plate_share)[:, None] * by_light))
        count = system.palette.count
        matrix = np.empty((count + by_light.shape[1],) * 2)
        colors = by_color.T @ _scaled_rows(by_color, weight)
        absorbed = color_pixels.T @ color_pixels
        if isinstance(absorbed, np.ndarray):
            matrix[:count, :count] = colors.toarray() - absorbed
        else:
            matrix[:count, :count] = (colors - absorbed).toarray()
        matrix[:count, count:] = by_color.T @ (weight[:, None] * by_light) - color_pixels.T @ light_pixels
        matrix[count:, :count] = matrix[:count, count:].T
        matrix[count:, count:] = by_light.T @ (weight[:, None] * by_light) - light_pixels.T @ light_pixels
        return matrix

    def times(self, step: np.ndarray) -> np.ndarray:
        """The normal matrix times a step."""
        system, settings = self.system, self.settings
        colors, light = step[: system.palette.count], step[system.palette.count :]
        columns = colors[system.color] * self.shade + self.color * (self.basis @ light)
        rows = self.gain * (system.matrix @ columns)
        right = system.into_pixels @ (self.weight * self.plate_share * rows)
        behind = np.stack([solver.plate(right[:, k]) for k, solver in enumerate(self.behind)], axis=1)
        color_gradient = settings.smoothness * (system.stiffness @ colors) + settings.color_regularisation * colors
        image = self._back(self.weight * (rows - self.plate_share * behind[system.pixel]))
        return image + np.concatenate([color_gradient, LIGHT_REGULARISATION * light])

    def diagonal(self) -> np.ndarray:
        """An upper bound of the diagonal of the normal matrix, [N + L - 1, 3]."""
        system, settings = self.system, self.settings
        power = system.squared @ (self.weight * self.gain**2)
        smooth = settings.smoothness * system.stiffness.diagonal()[:, None]
        colors = system.into_colors @ (power * self.shade**2) + smooth + settings.color_regularisation
        return np.concatenate([colors, (self.basis**2).T @ (power * self.color**2) + LIGHT_REGULARISATION])

    def _back(self, values: np.ndarray) -> np.ndarray:
        """The transposed Jacobian times rows [R, 3]."""
        return self._of_columns(self.system.transposed @ (values if self.look.is_evenly_exposed else self.gain * values))

    def _of_columns(self, columns: np.ndarray) -> np.ndarray:
        """Colours and light of sums [C, 3] over the rows of each column."""
        return np.concatenate([self.system.into_colors @ (columns * self.shade), self.basis.T @ (columns * self.color)])


def _plate_weights(fit: Fit) -> np.ndarray:
    """[P, 3] D, regularisation included."""
    if fit.plate_fit is not None:
        return fit.plate_fit.plate_weight[:, None].repeat(3, axis=1)
    return np.einsum("np,nc->pc", fit.weight * fit.system.plate_share**2, fit.look.gain**2) + PLATE_REGULARISATION


@dataclass(frozen=True)
class Factors:
    """Lower Cholesky factors of the matrices of the channels, the colours first.

    Attributes:
        lower: [N + L - 1, N + L - 1] of each channel.
        count: N.
    """

    lower: list[np.ndarray]
    count: int

    def step(self, right: np.ndarray) -> np.ndarray:
        """Changes of colours and light (``Inverse.step``)."""
        return np.stack([_solved(lower, right[:, k]) for k, lower in enumerate(self.lower)], axis=1)

    def colors(self, right: np.ndarray) -> np.ndarray:
        """By the first rows of the factors, which are factors of their block (``LookInverse.colors``)."""
        n, step = self.count, np.zeros_like(right)
        step[:n] = np.stack([_solved(lower[:n, :n], right[:n, k]) for k, lower in enumerate(self.lower)], axis=1)
        return step


def _scaled_rows(matrix: csr_matrix, factors: np.ndarray) -> csr_matrix:
    """A matrix [R, C] whose rows are multiplied by factors [R]; a product with a diagonal matrix takes longer."""
    data = matrix.data * np.repeat(factors, np.diff(matrix.indptr))
    return csr_matrix((data, matrix.indices, matrix.indptr), shape=matrix.shape)


def _factor(matrix: np.ndarray, damping: float) -> np.ndarray:
    damped = matrix + damping * np.diag(np.diag(matrix))
    return cholesky(damped, lower=True, overwrite_a=True, check_finite=False)


def _solved(lower: np.ndarray, right: np.ndarray) -> np.ndarray:
    return cho_solve((lower, True), right, check_finite=False)


@dataclass(frozen=True)
class ConjugateGradients:
    """Steps by conjugate gradients, preconditioned by the diagonal (Hestenes and Stiefel, 1952); channels are independent.

    Attributes:
        equations: their matrix is only applied.
        damping: times the diagonal is added.
    """

    equations: LookEquations
    damping: float

    def step(self, right: np.ndarray) -> np.ndarray:
        """Changes of colours and light (``Inverse.step``)."""
        return self._solve(right, 1.0)

    def colors(self, right: np.ndarray) -> np.ndarray:
        """With the light's changes kept at 0 (``LookInverse.colors``)."""
        return self._solve(right, 0.0)

    def _solve(self, residual: np.ndarray, light: float) -> np.ndarray:
        """The solution; its change of the light is kept at 0 where ``light`` is 0."""
        diagonal, count = self.equations.diagonal(), self.equations.system.palette.count
        inverse_diagonal = np.concatenate([1.0 / diagonal[:count], light / diagonal[count:]])
        solution, direction = np.zeros_like(residual), inverse_diagonal * residual
        power = (residual * direction).sum(axis=0)
        goal = CG_TOLERANCE**2 * power
        for _ in range(MAX_CG_STEPS):
            if (power <= goal).all():
                break
            image = self.equations.times(direction) + self.damping * diagonal * direction
            length = power / np.maximum((direction * image).sum(axis=0), 1e-300)
            solution, residual = solution + length * direction, residual - length * image
            ready = inverse_diagonal * residual
            power, before = (residual * ready).sum(axis=0), power
            direction = ready + power / np.maximum(before, 1e-300) * direction
        return solution
