"""Noise of observations without a stated standard deviation, estimated from the data; and the null model without motion."""

from __future__ import annotations

import numpy as np
import torch

from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.inversion.problem.linearisation import Linearisation
from risp_torch.inversion.uncertainty.misfit import MISFIT_RATIO

DIFFERENCE_ORDER, VARIANCE_FACTOR = 4, 70.0  # of differences in time, and their variance over that of independent errors
NORMAL_MEDIAN = 0.6745  # of the magnitudes of a standard normal distribution
NETWORK_ERROR_FRACTION = 1 / 8  # of the power of the film's changes: errors of a network's outputs that count as explained
MAX_UNEXPLAINED_MOTION = 0.5  # of the power of the film's changes: with a larger residual, an estimate explains no motion


def expected_residual(linearisation: Linearisation) -> float | None:
    """Mean squared residual that errors of the data leave, where neither noise nor compression is known; None without a motion.

    For the outputs of networks it is an eighth of the power of their changes through the film, for other observations the larger
    one of the loss's usual noise and that estimated from differences in time.
    """
    loss = linearisation.comparison.loss
    if loss.needs_film and (loss.temporally_correlated or loss.non_smooth):
        power = change_power(linearisation.comparison)
        return NETWORK_ERROR_FRACTION * power if power > 0 else None
    usual_variance = 0.0 if loss.usual_noise is None else loss.usual_noise**2
    estimated_variance = noise_in_time(linearisation.comparison)
    expected = max(usual_variance, estimated_variance or 0.0, loss.rounding() or 0.0)
    return expected if expected > 0 else None


def noise_in_time(comparison: Comparison) -> float | None:
    """Variance of the target's errors, from fourth differences in time of what is observed in five successive frames; None if
    nothing is.

    Smooth motions leave little of such differences, and a median leaves out impacts.
    """
    rows, frames = comparison.target.flatten(1).double(), np.array(comparison.frames)
    if len(rows) <= DIFFERENCE_ORDER:
        return None
    intervals = np.diff(frames)
    evenly_spaced = [
        k for k in range(len(rows) - DIFFERENCE_ORDER) if (intervals[k : k + DIFFERENCE_ORDER] == intervals[k]).all()
    ]
    if not evenly_spaced:
        return None
    counted = torch.stack(
        [(rows[k : k + DIFFERENCE_ORDER + 1] != 0).all(dim=0) for k in evenly_spaced]
    )  # weights of 0 make observations of 0
    weights = torch.tensor([1.0, -4.0, 6.0, -4.0, 1.0], dtype=rows.dtype, device=rows.device)
    differences = torch.stack([weights @ rows[k : k + DIFFERENCE_ORDER + 1] for k in evenly_spaced])[counted]
    if not differences.numel():
        return None
    return float(differences.abs().median() / NORMAL_MEDIAN) ** 2 / VARIANCE_FACTOR


def change_power(comparison: Comparison) -> float:
    """Mean square of the target's changes about its means over the film, of the observations that count."""
    rows = comparison.target.flatten(1).double()
    counted = rows != 0
    mean = rows.sum(dim=0) / counted.sum(dim=0).clamp(min=1)
    return float((torch.where(counted, rows - mean, torch.zeros_like(rows)) ** 2).sum()) / comparison.observation_count


def doubts_of_motion(linearisation: Linearisation, expected: float | None) -> list[str]:
    """A sentence if a film in which nothing moves would fit nearly as well as the estimate."""
    power = change_power(linearisation.comparison)
    if not power > MISFIT_RATIO * (expected or 0.0) or linearisation.loss <= MAX_UNEXPLAINED_MOTION * power:
        return []
    return [
        f"the estimate does not explain the motion: it leaves {linearisation.loss / power:.2g} times the residual of a film in "
        "which nothing moves (another minimum, another body or camera, or data in other units or axes)"
    ]
