"""Limited-memory BFGS updates of a kept inverse (Nocedal, Math. Comput. 35, 1980; Liu and Nocedal, Math. Program. 45, 1989).

The Gauss-Newton matrix of a robust sum counts its outliers as fixed and is too stiff where they become fewer, and a matrix that
is kept belongs to another motion. The changes of the right side along the last steps approximate its curvature there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from risp_torch.inversion.appearance.fit.normal_equations import Inverse, Step

KEPT = 6  # steps
MIN_CURVATURE_COSINE = 1e-8  # cosine between a step and the change of the right side: below it, the pair is left out


@dataclass
class Secants:
    """The last steps and the changes of the right side along them, from which an inverse is corrected.

    Attributes:
        pairs: step, change of the right side against it, and their product, oldest first.
        last: point and right side of the last call of ``note``; None before the first.
    """

    pairs: list[tuple[Step, Step, float]] = field(default_factory=list)
    last: tuple[Step, Step] | None = None

    def forget(self) -> None:
        """Forget all steps so far: a new matrix contains their information."""
        self.pairs = []

    def note(self, point: Step, right: Step) -> None:
        """Remember the step from the last point to this one.

        Args:
            point: colours [N, 3] and last coefficients of the light [L - 1, 3].
            right: minus half of the objective's gradient there.
        """
        if self.last is not None:
            step, bent = _minus(point, self.last[0]), _minus(self.last[1], right)
            curvature = _dot(step, bent)
            if curvature > MIN_CURVATURE_COSINE * (_dot(step, step) * _dot(bent, bent)) ** 0.5:
                self.pairs = [*self.pairs, (step, bent, curvature)][-KEPT:]
        self.last = point, right

    def step(self, inverse: Inverse, right: Step) -> Step:
        """The corrected inverse times a right side (two-loop recursion)."""
        factors: list[float] = []
        for step, bent, curvature in reversed(self.pairs):
            factors.append(_dot(step, right) / curvature)
            right = _plus(right, -factors[-1], bent)
        step_of_inverse = inverse.step(right)
        for (step, bent, curvature), factor in zip(self.pairs, reversed(factors), strict=True):
            step_of_inverse = _plus(step_of_inverse, factor - _dot(bent, step_of_inverse) / curvature, step)
        return step_of_inverse


def _dot(a: Step, b: Step) -> float:
    return float(sum((x * y).sum() for x, y in zip(a, b, strict=True)))


def _plus(a: Step, factor: float, b: Step) -> Step:
    return a[0] + factor * b[0], a[1] + factor * b[1]


def _minus(a: Step, b: Step) -> Step:
    return _plus(a, -1.0, b)
