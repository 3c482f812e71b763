"""The look that fits a film best for one motion: a separable, robust least-squares problem.

With weights W of columns in pixels (``AppearanceSystem``), colours a, light l, shading b, plate p, its visible share beta, gain g
and offset o of a frame, the picture is

    I = g (W (a (b . l)) + beta p) + o.

Plate, gains and offsets follow in closed form (``fit``). Colours and light take Gauss-Newton steps in which the plate follows
(``look_equations``). The normal matrix takes most of a step's time: since looks of near motions are similar, a factorised
matrix is reused for several steps and motions, as long as they converge fast (``InverseReuse``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from risp_torch.inversion.appearance.fit.appearance_system import AppearanceSystem
from risp_torch.inversion.appearance.fit.look import Look
from risp_torch.inversion.appearance.fit.look_equations import LookEquations, LookInverse
from risp_torch.inversion.appearance.fit.objective import Fit
from risp_torch.inversion.appearance.settings import LookSettings
from risp_torch.least_squares.inverse_reuse import InverseReuse, KeptInverse
from risp_torch.least_squares.loop import Policy, Starts, minimise
from risp_torch.least_squares.problem import LeastSquaresProblem
from risp_torch.least_squares.step_search import RisingDamping
from risp_torch.least_squares.termination import Acceptance, Termination

# A step that is not accepted is followed by one with a new matrix. The first steps may be slow because the outliers change, where
# a new matrix does not help.
REUSE = InverseReuse(slow=0.3, young=5)
DAMPING = RisingDamping(first=1e-3, least=1e-5, most=1e3, rise=10.0, fall=10.0, reuses=True)
ACCEPTANCE = Acceptance(gain=0.1)
ENOUGH = 0.5  # of the expected decrease: a step that brings less is followed by one of the colours alone
COLD_START_SCALES = (4.0, 2.0)  # robust scales of a cold start, relative to the last one
COLD_START_TOLERANCE = 1e-2  # tolerance of the solve at each of them


def solve_look(
    system: AppearanceSystem, settings: LookSettings, *, first_look: Look | None = None, inverse: LookInverse | None = None
) -> tuple[Look, LookInverse | None]:
    """The look of least objective.

    Args:
        system: one motion's pixels.
        settings: what is solved.
        first_look: a look to start from (of the same palette and film), grey by default.
        inverse: that of that look's normal matrix.

    Returns:
        The look, and the inverse of a matrix near its own for the next motion.
    """
    if first_look is None:
        first_look, inverse = Look.grey(system), None
        if np.isfinite(settings.robust_scale):  # far from the film all pixels are outliers: begin with the plain sum of squares
            for scale in (np.inf, *(times * settings.robust_scale for times in COLD_START_SCALES)):
                coarse = replace(settings, robust_scale=scale, tolerance=COLD_START_TOLERANCE)
                first_look, _ = _solved(system, coarse, first_look, None)
    return _solved(system, settings, first_look, inverse)


def _solved(
    system: AppearanceSystem, settings: LookSettings, look: Look, inverse: LookInverse | None
) -> tuple[Look, LookInverse | None]:
    """The look at the end of the steps from one, and the inverse that the last step used.

    The last step is one whose expected decrease is small. Derivatives by the motion have errors of the order of the distance from
    the minimum (envelope theorem), the objective of its square.
    """
    problem, fit, tolerance = _LookProblem(inverse), Fit.of(system, settings, look), settings.tolerance
    policy = Policy(
        replace(REUSE, negligible=tolerance), DAMPING, settings.rounds, acceptance=ACCEPTANCE,
        termination=Termination(expected=tolerance),
    )  # fmt: skip
    starts = minimise(problem, Starts.begin([_Point(fit)], policy, np.array([fit.objective])), policy)
    return starts.points[0].fit.look, problem.kept.inverse


@dataclass
class _Point:
    """A point of the search: colours and light, with the plate and exposure that follow them."""

    fit: Fit

    def update_exposure(self) -> float:
        """Solve exposure and plate again, unless that is no better; return the decrease of the objective."""
        before = self.fit
        if before.settings.exposure:
            self.fit = min(before, Fit.of(before.system, before.settings, before.look), key=_objective)
        return before.objective - self.fit.objective


class _LookProblem(LeastSquaresProblem):
    """One motion, and one start, which keeps an inverse."""

    def __init__(self, inverse: LookInverse | None) -> None:
        self.kept = KeptInverse(inverse)

    def linearise(self, points: Sequence[_Point]) -> list[LookEquations]:
        """The normal equations of colours and light (``LeastSquaresProblem.linearise``)."""
        return [LookEquations(points[0].fit, self.kept)]

    def evaluate(
        self, points: Sequence[_Point], equations: Sequence[LookEquations], steps: Sequence[np.ndarray], before: np.ndarray, *,
        first: bool,
    ) -> tuple[list[list[_Point]], np.ndarray, np.ndarray]:  # fmt: skip
        """The fit after a step; where it brings little, with the colours that are best in its light, if that is better.

        Before a step that may be the last one, the exposure follows (``LeastSquaresProblem.evaluate``).
        """
        (point,), (at,), ((step,),) = points, equations, steps
        expected, little = at.decrease(step), point.fit.settings.tolerance * at.objective
        is_last = expected <= little and point.update_exposure() <= little
        if self.kept.is_slow and not is_last:
            return [[point]], np.array([[math.inf]]), np.array([point.fit.objective])
        fit = point.fit.after(step)
        if not is_last and step[len(fit.look.colors) :].any() and point.fit.objective - fit.objective < ENOUGH * expected:
            recolored = fit.after(self.kept.inverse.colors(LookEquations(fit).gradient))
            fit = min(fit, recolored, key=_objective)
        return [[_Point(fit)]], np.array([[fit.objective]]), np.array([point.fit.objective])


def _objective(fit: Fit) -> float:
    return fit.objective
