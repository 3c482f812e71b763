"""Gauss-Newton steps of colours and light in which the plate follows (Kaufman, BIT 15, 1975), one channel at a time.

With the Jacobian J of the picture in colours and light at a fixed plate, weights w and gain times what is left of the plate beta,
the step solves

    (J^T w J - Y^T D^-1 Y + R) d = J^T w r - R (x - x0),   Y = sum_t beta w J,   D = sum_t w beta^2

with Y and D for each pixel and the regularisation R. Up to ``DIRECT`` colours the matrix is assembled and factorised; beyond, the
conjugate gradients apply it.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import diags_array

from risp_torch.inversion.look.footage import Footage
from risp_torch.inversion.look.look import GREY, Look
from risp_torch.inversion.look.settings import LookSettings

LEAST_LEFT = 1e-4  # pixels: weight of the pull of the plate towards grey
LIGHT_PULL = 0.1  # pixels: weight of the pull of the light towards an even one
DIRECT = 1500  # colours
INNER, INNER_TOLERANCE = 60, 1e-2  # steps of the conjugate gradients, and relative residual at which they end

Step = tuple[np.ndarray, np.ndarray]  # changes of the colours [N, 3] and of the light's last coefficients [L - 1, 3]


class NormalEquations:
    """The projected normal equations at a look; steps may be damped (Marquardt, SIAM J. Appl. Math. 11, 1963)."""

    def __init__(self, footage: Footage, settings: LookSettings, look: Look, weight: np.ndarray) -> None:
        """Linearise.

        Args:
            footage: one motion's pixels.
            settings: regularisation.
            look: where the step begins.
            weight: [n, P, 1] of the pixels.
        """
        self.footage, self.settings = footage, settings
        left = footage.left[..., None] * look.gain[:, None]
        self.inverse = 1.0 / ((weight * left**2).sum(axis=0) + LEAST_LEFT)  # [P, 3]
        self.weight = weight.reshape(-1, 1)[footage.row]  # [R, 1]
        self.left = left.reshape(-1, 3)[footage.row]  # [R, 3]
        self.gain = look.gain[footage.row // footage.left.shape[1]]  # [R, 3]
        self.basis = footage.basis[:, 1:]  # the first coefficient is 1: colours have the scale
        self.shade, self.color = footage.basis @ look.light, look.colors[footage.color]  # [C, 3]
        residual = (footage.film - look.picture(footage)).reshape(-1, 3)[footage.row]
        colors, light = self._back(self.weight * residual)
        colors -= settings.smoothness * (footage.stiffness @ look.colors) + settings.pull * (look.colors - GREY)
        light -= LIGHT_PULL * look.light[1:]
        self.right: Step = (colors, light)

    def colors(self) -> np.ndarray:
        """[N, 3] changes of the colours that are best in the present light."""
        count = self.footage.palette.count
        if count > DIRECT:
            return conjugate_gradients(self, 0.0, lit=False)[0]
        steps = [_solved(m[:count, :count], right) for m, right in zip(self._matrices, self.right[0].T, strict=True)]
        return np.stack(steps, axis=1)

    def step(self, damping: float) -> Step:
        """Changes of colours and light; ``damping`` times the diagonal is added to the normal matrix."""
        if self.footage.palette.count > DIRECT:
            return conjugate_gradients(self, damping)
        colors, light = np.empty_like(self.right[0]), np.empty_like(self.right[1])
        for k, matrix in enumerate(self._matrices):
            damped = matrix + damping * np.diag(np.diag(matrix))
            right = np.concatenate([self.right[0][:, k], self.right[1][:, k]])
            step = _solved(damped, right)
            colors[:, k], light[:, k] = step[: len(colors)], step[len(colors) :]
        return colors, light

    @cached_property
    def _matrices(self) -> list[np.ndarray]:
        """The normal matrices of the channels."""
        return [self._matrix(k) for k in range(3)]

    def _matrix(self, k: int) -> np.ndarray:
        """[N + L - 1, N + L - 1] the normal matrix of a channel."""
        footage, settings = self.footage, self.settings
        by_color = footage.merged(self.shade[:, k])
        by_color = diags_array(self.gain[:, k]) @ by_color
        by_light = self.gain[:, k, None] * (footage.matrix @ (self.color[:, k, None] * self.basis))  # [R, L - 1]
        weight, left = self.weight[:, 0], self.left[:, k]
        behind = np.sqrt(self.inverse[:, k, None])
        pixels = footage.into_pixels @ diags_array(weight * left)
        color_pixels = (diags_array(behind[:, 0]) @ (pixels @ by_color)).tocsr()
        light_pixels = behind * (pixels @ by_light)
        count = footage.palette.count
        matrix = np.empty((count + by_light.shape[1],) * 2)
        colors = by_color.T @ (diags_array(weight) @ by_color) - color_pixels.T @ color_pixels
        matrix[:count, :count] = (colors + settings.smoothness * footage.stiffness).toarray()
        matrix[:count, count:] = by_color.T @ (weight[:, None] * by_light) - color_pixels.T @ light_pixels
        matrix[count:, :count] = matrix[:count, count:].T
        matrix[count:, count:] = by_light.T @ (weight[:, None] * by_light) - light_pixels.T @ light_pixels
        matrix.flat[:: len(matrix) + 1] += np.repeat([settings.pull, LIGHT_PULL], [count, len(matrix) - count])
        return matrix

    def times(self, step: Step) -> Step:
        """The normal matrix times a step."""
        footage, settings = self.footage, self.settings
        columns = step[0][footage.color] * self.shade + self.color * (self.basis @ step[1])
        rows = self.gain * (footage.matrix @ columns)
        behind = (footage.into_pixels @ (self.weight * self.left * rows)) * self.inverse
        colors, light = self._back(self.weight * (rows - self.left * behind[footage.pixel]))
        colors += settings.smoothness * (footage.stiffness @ step[0]) + settings.pull * step[0]
        return colors, light + LIGHT_PULL * step[1]

    def diagonal(self) -> Step:
        """An upper bound of the diagonal of the normal matrix."""
        footage, settings = self.footage, self.settings
        power = footage.squared @ (self.weight * self.gain**2)
        smooth = settings.smoothness * footage.stiffness.diagonal()[:, None]
        colors = footage.into_colors @ (power * self.shade**2) + smooth + settings.pull
        return colors, (self.basis**2).T @ (power * self.color**2) + LIGHT_PULL

    def _back(self, values: np.ndarray) -> Step:
        """The transposed Jacobian times rows [R, 3]."""
        columns = self.footage.transposed @ (self.gain * values)
        return self.footage.into_colors @ (columns * self.shade), self.basis.T @ (columns * self.color)


def _solved(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    return cho_solve(cho_factor(matrix, lower=True, check_finite=False), right, check_finite=False)


def conjugate_gradients(system: NormalEquations, damping: float, *, lit: bool = True) -> Step:
    """Solve the system, preconditioned by its diagonal (Hestenes and Stiefel, 1952); the channels are independent.

    Args:
        system: the equations.
        damping: times the diagonal is added.
        lit: whether the light changes, too.
    """
    light = float(lit)

    def dot(a: Step, b: Step) -> np.ndarray:
        return (a[0] * b[0]).sum(axis=0) + (a[1] * b[1]).sum(axis=0)

    def plus(a: Step, share: np.ndarray | float, b: Step) -> Step:
        return a[0] + share * b[0], a[1] + share * b[1]

    diagonal, residual = system.diagonal(), system.right
    solution: Step = (np.zeros_like(residual[0]), np.zeros_like(residual[1]))
    direction: Step = (residual[0] / diagonal[0], light * residual[1] / diagonal[1])
    power = dot(residual, direction)
    goal = INNER_TOLERANCE**2 * power
    for _ in range(INNER):
        if (power <= goal).all():
            break
        image = plus(system.times(direction), damping, (diagonal[0] * direction[0], diagonal[1] * direction[1]))
        length = power / np.maximum(dot(direction, image), 1e-300)
        solution, residual = plus(solution, length, direction), plus(residual, -length, image)
        ready: Step = (residual[0] / diagonal[0], light * residual[1] / diagonal[1])
        power, before = dot(residual, ready), power
        direction = plus(ready, power / np.maximum(before, 1e-300), direction)
    return solution
