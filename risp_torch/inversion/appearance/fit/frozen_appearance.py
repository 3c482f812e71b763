"""Change of a solved look with a small change of the motion: one linear step, with fixed matrix and robust weights.

Two solves of near motions stop at their tolerance, so that differences of their residuals contain its error. A look that takes
one step from the same start, with the same matrix and the same robust weights, is a smooth function of the motion. The residual
then changes as in Kaufman's projected Jacobian (BIT 15, 1975): by the part that colours, light, plate and exposure cannot absorb.
J^T r is the loss's gradient for any matrix, as the look is at its minimum (envelope theorem).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from risp_torch.inversion.appearance.fit.appearance_system import AppearanceSystem
from risp_torch.inversion.appearance.fit.look import Look
from risp_torch.inversion.appearance.fit.look_equations import LookEquations, LookInverse
from risp_torch.inversion.appearance.fit.objective import Fit, robust_factor
from risp_torch.inversion.appearance.fit.solve import DAMPING
from risp_torch.inversion.appearance.settings import LookSettings

EXPOSURE_STEPS = 3  # steps, as the matrix holds gains and offsets still


@dataclass(frozen=True, eq=False)
class FrozenAppearance:
    """A solved look from which those of near motions are one step away.

    Attributes:
        settings: of the look.
        look: the solved look.
        plate: [H W, 3] background plate of every pixel.
        factor: [n, H W] robust part of the weights of the pixels.
        inverse: inverse of the look's normal matrix, or None: then near motions have the same look.
    """

    settings: LookSettings
    look: Look
    plate: np.ndarray
    factor: np.ndarray
    inverse: LookInverse | None

    @staticmethod
    def of(
        system: AppearanceSystem,
        settings: LookSettings,
        look: Look,
        plate: np.ndarray,
        residual: np.ndarray,
        *,
        follows: bool = True,
    ) -> FrozenAppearance:
        """Freeze a look.

        Args:
            system: the pixels that it was solved for.
            settings: of the look.
            look: it solves these pixels.
            plate: [H W, 3] background plate of every pixel.
            residual: [n, H W, 3] film minus picture, of the whole pictures.
            follows: whether the looks of near motions take a step.
        """
        if not follows:
            return FrozenAppearance(settings, look, plate, np.zeros(residual.shape[:2]), None)
        factor = robust_factor(np.einsum("npc,npc->np", residual, residual), settings.robust_scale) ** 2
        fit = Fit.with_fixed_weight(system, settings, look, system.weight * factor[:, system.active])
        return FrozenAppearance(settings, look, plate, factor, LookEquations(fit).inverse(DAMPING.least))

    def followed(self, system: AppearanceSystem) -> Look:
        """The look for another motion's pixels (same palette and frames): the held one, or a step from it.

        With exposure it takes a few steps.
        """
        look = replace(self.look, plate=self.plate[system.active])
        if self.inverse is None:
            return look
        fit = Fit.with_fixed_weight(system, self.settings, look, system.weight * self.factor[:, system.active])
        for _ in range(EXPOSURE_STEPS if self.settings.exposure else 1):
            fit = fit.after(self.inverse.step(LookEquations(fit).gradient))
        return fit.look
