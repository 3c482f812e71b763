"""A look and its residual, with plate and exposure in closed form.

For given colours and light, the plate follows in closed form (variable projection: Golub and Pereyra, SIAM J. Numer. Anal. 10,
1973), as do gains and offsets of a frame. Outliers count less: the objective is the sum of rho(|r|) = |r|^2 / (1 + |r|^2 / s^2)
over the pixels (Geman and McClure, 1987), minimised by iteratively reweighted least squares.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from risp_torch.inversion.appearance.fit.appearance_system import AppearanceSystem
from risp_torch.inversion.appearance.fit.look import Look
from risp_torch.inversion.appearance.fit.plate_kernel import PlateFit, fit_plate
from risp_torch.inversion.appearance.model.background_plate import plate_solver
from risp_torch.inversion.appearance.model.palette import GREY
from risp_torch.inversion.appearance.settings import LookSettings

PLATE_REGULARISATION = 1e-4  # pixels: weight of the squared difference of the plate from grey
LIGHT_REGULARISATION = 1.0  # pixels: weight of the squared directional coefficients of the light
FIXED_WEIGHT_SWEEPS = 3  # alternations of plate and exposure at fixed weights
EXPOSURE_REGULARISATION = 1e-3  # of a frame's pixels: weight of (gain - 1)^2 + offset^2


@dataclass(frozen=True, eq=False)
class Fit:
    """A look on one motion's pixels.

    Attributes:
        system: the pixels.
        settings: of the look.
        look: its plate and exposure are the best for its colours and light.
        residual: [n, P, 3] film minus picture.
        fixed_weight: [n, P] weights of the pixels in place of those of the residual, or None.
        plate_fit: of ``fit_plate``, or None where the exposure or the plate's pictures do not allow it.
    """

    system: AppearanceSystem
    settings: LookSettings
    look: Look
    residual: np.ndarray
    fixed_weight: np.ndarray | None = None
    plate_fit: PlateFit | None = None

    @staticmethod
    def of(system: AppearanceSystem, settings: LookSettings, look: Look) -> Fit:
        """The fit of a look with plate (and exposure) solved for its colours and light, and its objective."""
        bodies = look.bodies(system)
        if _has_free_plate(system, settings, look):
            return Fit._of_plate(system, settings, look, bodies, None, reweights=True)
        return Fit._following(system, settings, look, bodies, step_weight(system, settings, _residual(system, look, bodies)))

    @staticmethod
    def with_fixed_weight(system: AppearanceSystem, settings: LookSettings, look: Look, weight: np.ndarray) -> Fit:
        """The fit of a look with plate (and exposure) solved at fixed weights [n, P], which later steps keep."""
        bodies = look.bodies(system)
        if _has_free_plate(system, settings, look):
            return replace(
                Fit._of_plate(system, settings, look, bodies, weight, reweights=False), fixed_weight=weight
            )
        for _ in range(FIXED_WEIGHT_SWEEPS if settings.exposure else 1):
            fit = Fit._following(system, settings, look, bodies, weight)
            look = fit.look
        return replace(fit, fixed_weight=weight)

    def after(self, step: np.ndarray) -> Fit:
        """The fit after a step [N + L - 1, 3] of the colours and the light.

        The plate follows first with the weights from before: those of the new colours before the old plate would hold it back.
        """
        look = self.look.moved(self.system, step)
        if self.fixed_weight is not None:
            return Fit.with_fixed_weight(self.system, self.settings, look, self.fixed_weight)
        bodies = look.bodies(self.system)
        if _has_free_plate(self.system, self.settings, look):
            return Fit._of_plate(self.system, self.settings, look, bodies, self.weight, reweights=True)
        look = replace(look, plate=_plate(self.system, look, bodies, self.weight))
        weight = step_weight(self.system, self.settings, _residual(self.system, look, bodies))
        return Fit._following(self.system, self.settings, look, bodies, weight)

    @staticmethod
    def _of_plate(
        system: AppearanceSystem, settings: LookSettings, look: Look, bodies: np.ndarray, weight: np.ndarray | None, *,
        reweights: bool,
    ) -> Fit:  # fmt: skip
        plate_fit = fit_plate(
            system, bodies, look.plate, weight, reweights=reweights, robust_scale=settings.robust_scale,
            regularisation=PLATE_REGULARISATION, grey=GREY,
        )  # fmt: skip
        look = replace(look, plate=plate_fit.plate)
        penalty = _penalty(system, settings, look)
        look = replace(look, objective=plate_fit.objective + penalty, penalty=penalty)
        return Fit(system, settings, look, plate_fit.residual, plate_fit=plate_fit)

    @staticmethod
    def _following(system: AppearanceSystem, settings: LookSettings, look: Look, bodies: np.ndarray, weight: np.ndarray) -> Fit:
        look = replace(look, plate=_plate(system, look, bodies, weight))
        if settings.exposure:
            gain, offset = _exposure(system, look, bodies, weight)
            look = replace(look, gain=gain, offset=offset)
            look = replace(look, plate=_plate(system, look, bodies, weight))
        residual = _residual(system, look, bodies)
        square = np.einsum("npc,npc->np", residual, residual)
        penalty = _penalty(system, settings, look)
        objective = float((system.weight * robust_factor(square, settings.robust_scale) * square).sum()) + penalty
        return Fit(system, settings, replace(look, objective=objective, penalty=penalty), residual)

    @property
    def objective(self) -> float:
        """The sum that the look minimises."""
        return self.look.objective

    @cached_property
    def weight(self) -> np.ndarray:
        """[n, P] weights of the pixels in a step from here."""
        if self.fixed_weight is not None:
            return self.fixed_weight
        if self.plate_fit is not None:
            return self.plate_fit.weight
        return step_weight(self.system, self.settings, self.residual)


def _has_free_plate(system: AppearanceSystem, settings: LookSettings, look: Look) -> bool:
    """Whether each pixel of the plate follows from its frames alone."""
    return system.plate_basis is None and not settings.exposure and look.is_evenly_exposed


def robust_factor(square: np.ndarray, scale: float) -> np.ndarray:
    """1 / (1 + |r|^2 / s^2) for squared residuals |r|^2: rho = factor |r|^2, and the weights of the steps are its square."""
    return 1.0 / (1.0 + square / scale**2)


def step_weight(system: AppearanceSystem, settings: LookSettings, residual: np.ndarray) -> np.ndarray:
    """[n, P] weights of the pixels in a step: those given, times the robust ones of residuals [n, P, 3]."""
    return system.weight * robust_factor(np.einsum("npc,npc->np", residual, residual), settings.robust_scale) ** 2


def _residual(system: AppearanceSystem, look: Look, bodies: np.ndarray) -> np.ndarray:
    """[n, P, 3] film minus picture, where the bodies [R, 3] are known."""
    pictures = look.composed(system, bodies)
    return np.subtract(system.film, pictures, out=pictures)


def _plate(system: AppearanceSystem, look: Look, bodies: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """[P, 3] the plate that fits best."""
    through = weight * system.plate_share
    at_bodies = through.reshape(-1, 1)[system.row]
    if look.is_evenly_exposed:
        total = np.einsum("np,npc->pc", through, system.film)
        total -= system.into_pixels @ (bodies * at_bodies)
        weights = np.einsum("np,np->p", through, system.plate_share)[:, None].repeat(3, axis=1) + PLATE_REGULARISATION
    else:
        total = np.einsum("np,nc,npc->pc", through, look.gain, system.film - look.offset[:, None])
        total -= system.into_pixels @ (bodies * (at_bodies * look.gain[system.frame] ** 2))
        weights = np.einsum("np,nc->pc", through * system.plate_share, look.gain**2) + PLATE_REGULARISATION
    total += PLATE_REGULARISATION * GREY
    if system.plate_basis is None:
        return total / weights
    return np.stack([plate_solver(weights[:, k], system.plate_basis).plate(total[:, k]) for k in range(3)], axis=1)


def _exposure(system: AppearanceSystem, look: Look, bodies: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gain and offset [n, 3] of every frame that fit best, with mean 1 and 0: colours and plate have the film's mean exposure."""
    bare = replace(look, gain=np.ones_like(look.gain), offset=np.zeros_like(look.offset)).composed(system, bodies)
    regularisation, weight = _exposure_regularisation(system), weight[..., None]
    x = (weight * bare).sum(axis=1)
    normal = np.stack(
        [(weight * bare * bare).sum(axis=1) + regularisation, x, x, weight.sum(axis=1) + regularisation + 0 * x], axis=-1
    )
    right = np.stack([(weight * bare * system.film).sum(axis=1) + regularisation, (weight * system.film).sum(axis=1)], axis=-1)
    inverse = np.linalg.inv(normal.reshape(*x.shape, 2, 2))
    free = (inverse @ right[..., None]).sum(axis=0)
    missing = len(look.gain) * np.array([[1.0], [0.0]]) - free
    gain_and_offset = inverse @ (right[..., None] + np.linalg.solve(inverse.sum(axis=0), missing))
    return gain_and_offset[..., 0, 0], gain_and_offset[..., 1, 0]


def _exposure_regularisation(system: AppearanceSystem) -> float:
    return EXPOSURE_REGULARISATION * system.plate_share.shape[1]


def _penalty(system: AppearanceSystem, settings: LookSettings, look: Look) -> float:
    smooth = settings.smoothness * float((look.colors * (system.stiffness @ look.colors)).sum())
    smooth += settings.color_regularisation * float(((look.colors - system.palette.regularisation_target) ** 2).sum())
    smooth += LIGHT_REGULARISATION * float((look.light[1:] ** 2).sum())
    exposure = float(((look.gain - 1) ** 2).sum()) + float((look.offset**2).sum())
    bending = 0.0 if system.plate_basis is None else system.plate_basis.energy(look.plate)
    plate = PLATE_REGULARISATION * float(((look.plate - GREY) ** 2).sum())
    return smooth + plate + bending + _exposure_regularisation(system) * exposure
