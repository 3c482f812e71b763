"""Background of the pixels that never show a body: their mean over the film, in which outliers count less."""

from __future__ import annotations

import numpy as np

from risp_torch.inversion.appearance.fit.objective import PLATE_REGULARISATION, robust_factor
from risp_torch.inversion.appearance.model.palette import GREY
from risp_torch.inversion.appearance.settings import LookSettings

ROUNDS = 20


def still_plate(film: np.ndarray, weight: np.ndarray, settings: LookSettings) -> np.ndarray:
    """[P, 3] the plate of a film without bodies, as ``solve_look`` has it (iteratively reweighted from the median).

    Args:
        film: [n, P, 3] linear colour.
        weight: [n, P] of the pixels.
        settings: scale of the outliers.
    """
    plate = np.median(film, axis=0)
    if not np.isfinite(settings.robust_scale):
        return _mean(film, weight)
    for _ in range(ROUNDS):
        residual = film - plate
        square = np.einsum("npc,npc->np", residual, residual)
        plate = _mean(film, weight * robust_factor(square, settings.robust_scale) ** 2)
    return plate


def _mean(film: np.ndarray, weight: np.ndarray) -> np.ndarray:
    total = np.einsum("np,npc->pc", weight, film) + PLATE_REGULARISATION * GREY
    return total / (weight.sum(axis=0)[:, None] + PLATE_REGULARISATION)
