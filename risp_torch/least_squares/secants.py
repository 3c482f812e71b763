"""Limited-memory BFGS updates of a kept inverse (Nocedal, Math. Comput. 35, 1980; Liu and Nocedal, Math. Program. 45, 1989).

The Gauss-Newton matrix of a robust sum counts its outliers as fixed and is too stiff where they become fewer, and a matrix that
is kept belongs to another point. The changes of the gradient along the last steps approximate the curvature there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

KEPT_PAIRS = 6  # steps
MIN_CURVATURE_COSINE = 1e-8  # cosine between a step and the change of the gradient: below it, the pair is left out


class Inverse(Protocol):
    """The inverse of a damped normal matrix: its factors, or a way to apply it."""

    def step(self, right: np.ndarray) -> np.ndarray:
        """The inverse times a right side; both have the shape of the coordinates."""


@dataclass
class Secants:
    """The last steps and the changes of the gradient along them, from which an inverse is corrected.

    Attributes:
        pairs: step, change of the gradient against it, and their product, oldest first.
        last: point and gradient of the last call of ``note``; None before the first.
    """

    pairs: list[tuple[np.ndarray, np.ndarray, float]] = field(default_factory=list)
    last: tuple[np.ndarray, np.ndarray] | None = None

    def forget(self) -> None:
        """Forget all steps so far: a new matrix contains their information."""
        self.pairs = []

    def note(self, point: np.ndarray, gradient: np.ndarray) -> None:
        """Remember the step from the last point to this one.

        Args:
            point: coordinates.
            gradient: minus half of the objective's gradient there, as in ``NormalEquations``.
        """
        if self.last is not None:
            step, change = point - self.last[0], self.last[1] - gradient
            curvature = _dot(step, change)
            if curvature > MIN_CURVATURE_COSINE * (_dot(step, step) * _dot(change, change)) ** 0.5:
                self.pairs = [*self.pairs, (step, change, curvature)][-KEPT_PAIRS:]
        self.last = point, gradient

    def step(self, inverse: Inverse, gradient: np.ndarray) -> np.ndarray:
        """The corrected inverse times a gradient (two-loop recursion)."""
        factors: list[float] = []
        for step, change, curvature in reversed(self.pairs):
            factors.append(_dot(step, gradient) / curvature)
            gradient = gradient - factors[-1] * change
        corrected = inverse.step(gradient)
        for (step, change, curvature), factor in zip(self.pairs, reversed(factors), strict=True):
            corrected = corrected + (factor - _dot(change, corrected) / curvature) * step
        return corrected


def _dot(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.vdot(a, b))
