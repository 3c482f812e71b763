"""Steps by an inverse that serves in several rounds: chord steps, corrected by secants.

Where most of a round's time goes into the normal matrix and its factors, those of a near point serve again as long as steps by
them converge fast (modified Newton: Shamanskii, Ukr. Math. J. 19, 1967).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from risp_torch.least_squares.damping import KEPT
from risp_torch.least_squares.equations import LocalModel
from risp_torch.least_squares.secants import Inverse, Secants


@dataclass
class KeptInverse:
    """The inverse that a start keeps, modified in place.

    Attributes:
        inverse: of the last normal matrix that was made; None before the first.
        secants: of the steps since then.
        expected: decrease that the last step promised.
        age: number of steps by the inverse after the one that it was made for.
        is_slow: whether the last step was by a slow inverse: it has steps only where they are negligible.
    """

    inverse: Inverse | None = None
    secants: Secants = field(default_factory=Secants)
    expected: float = math.inf
    age: int = 0
    is_slow: bool = False


class InvertibleModel(LocalModel, Protocol):
    """Normal equations whose matrix is only made on demand.

    Attributes:
        point: coordinates.
        gradient: as in ``NormalEquations``.
        objective: of the point.
        kept: of the start.
    """

    point: np.ndarray
    gradient: np.ndarray
    objective: float
    kept: KeptInverse

    def inverse(self, damping: float) -> Inverse:
        """The inverse of the damped normal matrix."""


@dataclass(frozen=True)
class InverseReuse:
    """Steps by the inverse that is kept (damping ``KEPT``), or by one that is made and kept from then on (any other damping).

    ``RisingDamping`` with ``reuses`` begins each round with the former.

    Attributes:
        slow: ratio of a step's expected decrease to that of the last one, beyond which the kept inverse has no step.
        young: number of steps in which it has one even so.
        negligible: expected decrease relative to the objective, up to which it has one, too.
    """

    slow: float
    young: int
    negligible: float = 0.0

    def step(self, equations: InvertibleModel, damping: float) -> np.ndarray | None:
        """The step; None where there is no kept inverse, or where it converges slowly (``Damping.step``)."""
        kept, gradient = equations.kept, equations.gradient
        kept.secants.note(equations.point, gradient)
        if damping != KEPT:
            kept.inverse, kept.age = equations.inverse(damping), 0
            kept.secants.forget()
        elif kept.inverse is None:
            return None
        step = kept.secants.step(kept.inverse, gradient)
        expected = float(np.vdot(gradient, step))
        kept.age += damping == KEPT
        kept.is_slow = kept.age > self.young and expected > self.slow * kept.expected
        if kept.is_slow and expected > self.negligible * equations.objective:
            return None
        kept.expected = expected
        return step
