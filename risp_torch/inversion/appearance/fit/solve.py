"""The look that fits a film best for one motion: a separable, robust least-squares problem.

With weights W of columns in pixels (``AppearanceSystem``), colours a, light l, shading b, plate p, its visible share beta, gain g
and offset o of a frame, the picture is

    I = g (W (a (b . l)) + beta p) + o.

Plate, gains and offsets follow in closed form (``fit``). Colours and light take Gauss-Newton steps in which the plate follows
(``steps``). Most of a step's time would go into its normal matrix: as looks of near motions are alike, a factorised matrix serves
for several steps and motions, as long as they converge fast, and is corrected by secants of the last steps (``secants``). The
loop of ``risp_torch.least_squares`` linearises in every round, so that only its damping and acceptance serve here.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from risp_torch.inversion.appearance.fit.appearance_system import AppearanceSystem
from risp_torch.inversion.appearance.fit.look import Look
from risp_torch.inversion.appearance.fit.normal_equations import Inverse, NormalEquations, Step
from risp_torch.inversion.appearance.fit.objective import Fit
from risp_torch.inversion.appearance.fit.secants import Secants
from risp_torch.inversion.appearance.settings import LookSettings
from risp_torch.least_squares.step_search import RisingDamping
from risp_torch.least_squares.termination import Acceptance

DAMPING = RisingDamping(first=1e-3, least=1e-5, most=1e3, rise=10.0, fall=10.0)  # of the next matrix
ACCEPTANCE = Acceptance(gain=0.1)  # after a step that is not accepted, the matrix is made anew
ENOUGH = 0.5  # of the expected decrease: a step that brings less is followed by one of the colours alone
SLOW = 0.3  # ratio of one step's expected decrease to that of the last one: beyond it, the matrix is made anew
YOUNG = 5  # steps in which a matrix is kept even so: outliers are found again in every step, and this may be what is slow
WIDER, ROUGH_TOLERANCE = (4.0, 2.0), 1e-2  # robust scales of a cold start, relative to the last one; when each ends


def solve_look(
    system: AppearanceSystem, settings: LookSettings, *, first_look: Look | None = None, inverse: Inverse | None = None
) -> tuple[Look, Inverse | None]:
    """The look of least objective.

    Args:
        system: one motion's pixels.
        settings: what is solved.
        first_look: a look to start from (of the same palette and film), grey by default.
        inverse: factors of that look's normal matrix.

    Returns:
        The look, and factors of a matrix near its own for the next motion.
    """
    if first_look is None:
        first_look, inverse = Look.grey(system), None
        if np.isfinite(settings.robust):  # far from the film all pixels are outliers: begin with the plain sum of squares
            for scale in (np.inf, *(times * settings.robust for times in WIDER)):
                coarse = replace(settings, robust=scale, tolerance=ROUGH_TOLERANCE)
                first_look = _Descent(Fit.of(system, coarse, first_look), None).end()[0]
    return _Descent(Fit.of(system, settings, first_look), inverse).end()


class _Descent:
    """Damped Gauss-Newton steps until the expected decrease of the objective is small."""

    def __init__(self, fit: Fit, inverse: Inverse | None) -> None:
        self.fit, self.inverse = fit, inverse  # where it stands, and factors of a normal matrix, None before there is one
        self.last, self.age = np.inf, 0  # the last step's expected decrease, and steps with the present matrix
        self.damping, self.secants = DAMPING.first, Secants()  # curvature along the last steps

    def end(self) -> tuple[Look, Inverse | None]:
        """The last look, and the factors that its last step used."""
        rounds = 1
        while self._round() and rounds < self.fit.settings.rounds:
            rounds += 1
        return replace(self.fit.look, rounds=rounds), self.inverse

    def _round(self) -> bool:
        """Move by one step; return whether others may lower the objective."""
        equations, little = NormalEquations(self.fit), self.fit.settings.tolerance * self.fit.objective
        self.secants.note((self.fit.look.colors, self.fit.look.light[1:]), equations.right)
        if self.inverse is not None:
            step = self.secants.step(self.inverse, equations.right)
            expected = equations.decrease(step)
            if expected <= little and self._exposed() <= little:
                return self._finish(step)
            self.age += 1
            if (expected <= SLOW * self.last or self.age <= YOUNG) and self._moves(step, expected):
                return True
        for ((damping, _),) in DAMPING.groups(self.damping):
            self.damping, self.inverse = damping, equations.inverse(damping)
            self.secants.forget()
            step = self.inverse.step(equations.right)
            expected = equations.decrease(step)
            if expected <= little and self._exposed() <= little:
                return self._finish(step)
            if self._moves(step, expected):
                self.age = 0
                self.damping = DAMPING.accepted(damping)
                return True
        return False

    def _finish(self, step: Step) -> bool:
        """Take the last step, unless it raises the objective; return that no others follow.

        Derivatives by the motion have errors of the order of the distance from the minimum (envelope theorem), the objective
        of its square.
        """
        self.fit = min(self.fit, self.fit.after(*step), key=lambda candidate: candidate.objective)
        return False

    def _exposed(self) -> float:
        """Let exposure and plate follow each other once more; return how much the objective fell."""
        fit = self.fit
        if fit.settings.exposure:
            refitted = Fit.of(fit.system, fit.settings, fit.look)
            self.fit = min(fit, refitted, key=lambda candidate: candidate.objective)
        return fit.objective - self.fit.objective

    def _moves(self, step: Step, expected: float) -> bool:
        """Take a step if it brings a share of what is expected."""
        self.last = expected
        tried = self._tried(step, expected)
        if not ACCEPTANCE.accepts(self.fit.objective, tried.objective, expected):
            return False
        self.fit = tried
        return True

    def _tried(self, step: Step, expected: float) -> Fit:
        """The fit after a step; where it brings little, with the colours that are best in its light, if that is better."""
        moved = self.fit.after(*step)
        if not step[1].any() or self.fit.objective - moved.objective >= ENOUGH * expected:
            return moved
        settled = moved.after(self.inverse.colors(NormalEquations(moved).right), np.zeros_like(step[1]))
        return min(moved, settled, key=lambda candidate: candidate.objective)
