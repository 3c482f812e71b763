"""The look that fits a film best for one motion: a separable, robust least-squares problem.

With weights W of columns in pixels (``Footage``), colours a, light l, shading b, plate p, what is left of it beta, gain g and
offset o of a frame, the picture is

    I = g (W (a (b . l)) + beta p) + o.

The plate follows in closed form from all else (variable projection: Golub and Pereyra, SIAM J. Numer. Anal. 10, 1973), as do
gains and offsets of a frame. Colours and light take Gauss-Newton steps in which the plate follows (``steps``). Outliers count
less: the objective is the sum of rho(|r|) = |r|^2 / (1 + |r|^2 / s^2) over the pixels (Geman and McClure, 1987), minimised by
weights that are found again in every step.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from risp_torch.inversion.look.footage import Footage
from risp_torch.inversion.look.look import GREY, Look
from risp_torch.inversion.look.settings import LookSettings
from risp_torch.inversion.look.steps import LEAST_LEFT, LIGHT_PULL, NormalEquations

EXPOSURE_PULL = 1e-3  # of a frame's pixels: weight of the pull of its gain towards 1 and of its offset towards 0
FIRST_DAMPING, LEAST_DAMPING, MOST_DAMPING, EASIER, HARDER = 1e-3, 1e-9, 1e3, 10.0, 10.0
WIDER, ROUGH_TOLERANCE = (4.0, 2.0), 1e-2  # robust scales of a cold start, relative to the last one; when each ends


def solve_look(footage: Footage, settings: LookSettings, *, begin: Look | None = None) -> Look:
    """The look of least objective.

    Args:
        footage: one motion's pixels.
        settings: what is solved.
        begin: a look to start from (of the same palette and film), grey by default.
    """
    if begin is not None:
        return _descended(footage, settings, begin)
    look = Look.grey(footage)
    if np.isfinite(settings.robust):  # far from the film all pixels are outliers: begin with the plain sum of squares
        for scale in (np.inf, *(times * settings.robust for times in WIDER)):
            look = _descended(footage, replace(settings, robust=scale, tolerance=ROUGH_TOLERANCE), look)
    return _descended(footage, settings, look)


def _descended(footage: Footage, settings: LookSettings, look: Look) -> Look:
    """The look after damped Gauss-Newton steps until the objective hardly falls."""
    look, damping = _settled(footage, settings, look), FIRST_DAMPING
    for number in range(1, settings.rounds + 1):
        equations = NormalEquations(footage, settings, look, _step_weights(footage, settings, look))
        better, damping = _better(footage, settings, look, equations, damping)
        if better is None:
            break
        decrease, look = look.objective - better.objective, replace(better, rounds=number)
        if decrease <= settings.tolerance * look.objective:
            break
    return look


def _better(
    footage: Footage, settings: LookSettings, look: Look, equations: NormalEquations, damping: float
) -> tuple[Look | None, float]:
    """The first look of a lower objective, as the damping grows, and the damping of the next step; None if there is none."""
    while damping <= MOST_DAMPING:
        tried = _tried(footage, settings, look, *equations.step(damping))
        if tried.objective < look.objective:
            return tried, max(damping / EASIER, LEAST_DAMPING)
        damping *= HARDER
    return None, damping


def _tried(footage: Footage, settings: LookSettings, look: Look, colors: np.ndarray, light: np.ndarray) -> Look:
    """The look after a step of the light, with the colours that are best in it: they have no part in the steps' curvature."""
    moved = _settled(footage, settings, look.moved(colors, light))
    if not light.any():
        return moved
    equations = NormalEquations(footage, settings, moved, _step_weights(footage, settings, moved))
    settled = _settled(footage, settings, moved.moved(equations.colors(), np.zeros_like(light)))
    return min(moved, settled, key=lambda each: each.objective)


def robust_factor(residual: np.ndarray, scale: float) -> np.ndarray:
    """1 / (1 + |r|^2 / s^2) of residuals [..., 3], [...]: rho = factor |r|^2, and the weights of the steps are its square."""
    return 1.0 / (1.0 + (residual * residual).sum(axis=-1) / scale**2)


def _settled(footage: Footage, settings: LookSettings, look: Look) -> Look:
    """The look with plate (and exposure) that fit its colours, and its objective."""
    weight = _step_weights(footage, settings, look)
    look = replace(look, plate=_plate(footage, look, weight))
    if settings.exposure:
        gain, offset = _exposure(footage, look, weight)
        look = replace(look, gain=gain, offset=offset)
        look = replace(look, plate=_plate(footage, look, weight))
    residual = footage.film - look.picture(footage)
    rho = footage.weight * robust_factor(residual, settings.robust) * (residual * residual).sum(axis=-1)
    penalty = _penalty(footage, settings, look)
    return replace(look, objective=float(rho.sum()) + penalty, penalty=penalty)


def _step_weights(footage: Footage, settings: LookSettings, look: Look) -> np.ndarray:
    """[n, P, 1] weights of the pixels in a step: those given, times the robust ones."""
    residual = footage.film - look.picture(footage)
    return (footage.weight * robust_factor(residual, settings.robust) ** 2)[..., None]


def _plate(footage: Footage, look: Look, weight: np.ndarray) -> np.ndarray:
    """[P, 3] the plate that fits best, in closed form."""
    left = footage.left[..., None] * look.gain[:, None]
    rest = footage.film - look.offset[:, None]
    total = (weight * left * rest).sum(axis=0)
    row, pixels = footage.row, footage.left.shape[1]
    bodies = look.bodies(footage) * (weight * left * look.gain[:, None]).reshape(-1, 3)[row]
    total -= footage.into_pixels @ bodies
    return (total + LEAST_LEFT * GREY) / ((weight * left**2).sum(axis=0).reshape(pixels, -1) + LEAST_LEFT)


def _exposure(footage: Footage, look: Look, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gain and offset [n, 3] of every frame that fit best, with mean 1 and 0: colours and plate have the film's mean exposure."""
    bare = replace(look, gain=np.ones_like(look.gain), offset=np.zeros_like(look.offset)).picture(footage)
    pull = _exposure_pull(footage)
    x = (weight * bare).sum(axis=1)
    normal = np.stack([(weight * bare * bare).sum(axis=1) + pull, x, x, weight.sum(axis=1) + pull + 0 * x], axis=-1)
    right = np.stack([(weight * bare * footage.film).sum(axis=1) + pull, (weight * footage.film).sum(axis=1)], axis=-1)
    inverse = np.linalg.inv(normal.reshape(*x.shape, 2, 2))
    free = (inverse @ right[..., None]).sum(axis=0)
    missing = len(look.gain) * np.array([[1.0], [0.0]]) - free
    found = inverse @ (right[..., None] + np.linalg.solve(inverse.sum(axis=0), missing))
    return found[..., 0, 0], found[..., 1, 0]


def _exposure_pull(footage: Footage) -> float:
    return EXPOSURE_PULL * footage.left.shape[1]


def _penalty(footage: Footage, settings: LookSettings, look: Look) -> float:
    smooth = settings.smoothness * float((look.colors * (footage.stiffness @ look.colors)).sum())
    smooth += settings.pull * float(((look.colors - GREY) ** 2).sum()) + LIGHT_PULL * float((look.light[1:] ** 2).sum())
    exposure = float(((look.gain - 1) ** 2).sum()) + float((look.offset**2).sum())
    return smooth + LEAST_LEFT * float(((look.plate - GREY) ** 2).sum()) + _exposure_pull(footage) * exposure
