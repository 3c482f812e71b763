"""Gauss-Newton steps of colours and light in which the plate follows (Kaufman, BIT 15, 1975), one channel at a time.

With the Jacobian J of the picture in colours and light at a fixed plate, weights w and gain times what is left of the plate beta,
the step solves

    (J^T w J - Y^T D^-1 Y + R) d = J^T w r - R (x - x0),   Y = sum_t beta w J,   D = sum_t w beta^2

with Y and D for each pixel and the regularisation R. Up to ``DIRECT`` colours the matrix is assembled and factorised; beyond, the
conjugate gradients apply it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.linalg import cho_solve, cholesky
from scipy.sparse import diags_array

from risp_torch.inversion.appearance.fit.objective import LIGHT_PULL, PLATE_REGULARISATION, Fit
from risp_torch.inversion.appearance.model.background_plate import plate_solver

DIRECT = 1500  # colours
INNER, INNER_TOLERANCE = 60, 1e-2  # steps of the conjugate gradients, and relative residual at which they end

Step = tuple[np.ndarray, np.ndarray]  # changes of the colours [N, 3] and of the light's last coefficients [L - 1, 3]


class Inverse(Protocol):
    """The inverse of a damped normal matrix."""

    def step(self, right: Step) -> Step:
        """Changes of colours and light for a right side."""

    def colors(self, right: Step) -> np.ndarray:
        """[N, 3] changes of the colours alone."""


class NormalEquations:
    """The projected normal equations at a look, one set for each channel."""

    def __init__(self, fit: Fit) -> None:
        """Linearise at a fit; the matrix is made by ``inverse`` alone."""
        self.system, self.settings = system, settings = fit.system, fit.settings
        look, row = fit.look, fit.system.row
        behind = np.einsum("np,nc->pc", fit.weight * system.left**2, look.gain**2) + PLATE_REGULARISATION  # [P, 3] D
        self.behind = [plate_solver(behind[:, k], system.plate_basis) for k in range(3)]
        self.weight = fit.weight.reshape(-1, 1)[row]  # [R, 1]
        self.gain = look.gain[system.frame]  # [R, 3]
        self.left = system.left.reshape(-1, 1)[row] * self.gain  # [R, 3]
        self.basis = system.basis[:, 1:]  # the first coefficient is 1: colours have the scale
        self.shade, self.color = system.basis @ look.light, look.colors[system.color]  # [C, 3]
        colors, light = self._back(self.weight * fit.residual.reshape(-1, 3)[row])
        colors -= settings.smoothness * (system.stiffness @ look.colors) + settings.pull * (look.colors - system.palette.home)
        light -= LIGHT_PULL * look.light[1:]
        self.right: Step = (colors, light)

    def decrease(self, step: Step) -> float:
        """Decrease of the objective by a step, to second order."""
        return float((self.right[0] * step[0]).sum() + (self.right[1] * step[1]).sum())

    def inverse(self, damping: float) -> Inverse:
        """The inverse of the matrix with ``damping`` times its diagonal added (Marquardt, SIAM J. Appl. Math. 11, 1963)."""
        count = self.system.palette.count
        if count > DIRECT:
            return ConjugateGradients(self, damping)
        return Factors([_factor(matrix, damping) for matrix in self._matrices], count)

    @cached_property
    def _matrices(self) -> list[np.ndarray]:
        """The normal matrices of the channels."""
        return [self._matrix(k) for k in range(3)]

    def _matrix(self, k: int) -> np.ndarray:
        """[N + L - 1, N + L - 1] the normal matrix of a channel."""
        system, settings = self.system, self.settings
        by_color = system.merged(self.shade[:, k])
        by_color = diags_array(self.gain[:, k]) @ by_color
        by_light = self.gain[:, k, None] * (system.matrix @ (self.color[:, k, None] * self.basis))  # [R, L - 1]
        weight, left = self.weight[:, 0], self.left[:, k]
        pixels = system.into_pixels @ diags_array(weight * left)
        color_pixels, light_pixels = self.behind[k].half(pixels @ by_color), self.behind[k].half(pixels @ by_light)
        count = system.palette.count
        matrix = np.empty((count + by_light.shape[1],) * 2)
        colors = by_color.T @ (diags_array(weight) @ by_color) + settings.smoothness * system.stiffness
        absorbed = color_pixels.T @ color_pixels
        if isinstance(absorbed, np.ndarray):
            matrix[:count, :count] = colors.toarray() - absorbed
        else:
            matrix[:count, :count] = (colors - absorbed).toarray()
        matrix[:count, count:] = by_color.T @ (weight[:, None] * by_light) - color_pixels.T @ light_pixels
        matrix[count:, :count] = matrix[:count, count:].T
        matrix[count:, count:] = by_light.T @ (weight[:, None] * by_light) - light_pixels.T @ light_pixels
        matrix.flat[:: len(matrix) + 1] += np.repeat([settings.pull, LIGHT_PULL], [count, len(matrix) - count])
        return matrix

    def times(self, step: Step) -> Step:
        """The normal matrix times a step."""
        system, settings = self.system, self.settings
        columns = step[0][system.color] * self.shade + self.color * (self.basis @ step[1])
        rows = self.gain * (system.matrix @ columns)
        right = system.into_pixels @ (self.weight * self.left * rows)
        behind = np.stack([solver.plate(right[:, k]) for k, solver in enumerate(self.behind)], axis=1)
        colors, light = self._back(self.weight * (rows - self.left * behind[system.pixel]))
        colors += settings.smoothness * (system.stiffness @ step[0]) + settings.pull * step[0]
        return colors, light + LIGHT_PULL * step[1]

    def diagonal(self) -> Step:
        """An upper bound of the diagonal of the normal matrix."""
        system, settings = self.system, self.settings
        power = system.squared @ (self.weight * self.gain**2)
        smooth = settings.smoothness * system.stiffness.diagonal()[:, None]
        colors = system.into_colors @ (power * self.shade**2) + smooth + settings.pull
        return colors, (self.basis**2).T @ (power * self.color**2) + LIGHT_PULL

    def _back(self, values: np.ndarray) -> Step:
        """The transposed Jacobian times rows [R, 3]."""
        columns = self.system.transposed @ (self.gain * values)
        return self.system.into_colors @ (columns * self.shade), self.basis.T @ (columns * self.color)


@dataclass(frozen=True)
class Factors:
    """Lower Cholesky factors of the matrices of the channels, the colours first.

    Attributes:
        lower: [N + L - 1, N + L - 1] of each channel.
        count: N.
    """

    lower: list[np.ndarray]
    count: int

    def step(self, right: Step) -> Step:
        """Changes of colours and light for a right side (``Inverse.step``)."""
        both = np.concatenate(right)
        solved = np.stack([_solved(lower, both[:, k]) for k, lower in enumerate(self.lower)], axis=1)
        return solved[: self.count], solved[self.count :]

    def colors(self, right: Step) -> np.ndarray:
        """Changes of the colours alone: the first rows of a factor are the factor of their block (``Inverse.colors``)."""
        n = self.count
        return np.stack([_solved(lower[:n, :n], right[0][:, k]) for k, lower in enumerate(self.lower)], axis=1)


def _factor(matrix: np.ndarray, damping: float) -> np.ndarray:
    damped = matrix + damping * np.diag(np.diag(matrix))
    return cholesky(damped, lower=True, overwrite_a=True, check_finite=False)


def _solved(lower: np.ndarray, right: np.ndarray) -> np.ndarray:
    return cho_solve((lower, True), right, check_finite=False)


@dataclass(frozen=True)
class ConjugateGradients:
    """Steps by conjugate gradients, preconditioned by the diagonal (Hestenes and Stiefel, 1952); channels are independent.

    Attributes:
        system: the equations, whose matrix is only applied.
        damping: times the diagonal is added.
    """

    system: NormalEquations
    damping: float

    def step(self, right: Step) -> Step:
        """Changes of colours and light for a right side (``Inverse.step``)."""
        return self._solve(right, 1.0)

    def colors(self, right: Step) -> np.ndarray:
        """Changes of the colours alone (``Inverse.colors``)."""
        return self._solve(right, 0.0)[0]

    def _solve(self, residual: Step, light: float) -> Step:
        """The solution; its change of the light is kept at 0 where ``light`` is 0."""
        diagonal = self.system.diagonal()
        solution: Step = (np.zeros_like(residual[0]), np.zeros_like(residual[1]))
        direction: Step = (residual[0] / diagonal[0], light * residual[1] / diagonal[1])
        power = _dot(residual, direction)
        goal = INNER_TOLERANCE**2 * power
        for _ in range(INNER):
            if (power <= goal).all():
                break
            damped = (diagonal[0] * direction[0], diagonal[1] * direction[1])
            image = _plus(self.system.times(direction), self.damping, damped)
            length = power / np.maximum(_dot(direction, image), 1e-300)
            solution, residual = _plus(solution, length, direction), _plus(residual, -length, image)
            ready: Step = (residual[0] / diagonal[0], light * residual[1] / diagonal[1])
            power, before = _dot(residual, ready), power
            direction = _plus(ready, power / np.maximum(before, 1e-300), direction)
        return solution


def _dot(a: Step, b: Step) -> np.ndarray:
    return (a[0] * b[0]).sum(axis=0) + (a[1] * b[1]).sum(axis=0)


def _plus(a: Step, factor: np.ndarray | float, b: Step) -> Step:
    return a[0] + factor * b[0], a[1] + factor * b[1]
