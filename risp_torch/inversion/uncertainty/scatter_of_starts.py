"""Scatter of starts that ended in minima between which the film does not decide."""

from __future__ import annotations

import numpy as np

from risp_torch.inversion.problem.unknowns import Unknowns

SIGNIFICANCE_LEVEL = 0.01  # of the likelihood ratio test: probability that the true minimum is rejected


def excess_by_errors(curvatures: np.ndarray, sizes: np.ndarray, variance: float) -> float:
    """Excess of a summed squared residual over the lowest one up to which errors of the film explain it.

    The summed squared residual at the truth exceeds the lowest one by sum_k l_k chi2_1. For independent errors, l_k is their
    variance; for others, l_k are the eigenvalues of A^-1 B, with the curvature A of the loss and the covariance B of its slope
    (Kent, Biometrika 69, 1982): curvature times squared error bar along each principal direction. The distribution of the sum is
    nearly that of chi2_K times the mean of l_k (Rao and Scott, J. Am. Stat. Assoc. 76, 1981).

    Args:
        curvatures: [K] of half the summed squared residual along the principal directions.
        sizes: [K] error bars along them, with the shift by compression.
        variance: least variance of the noise.
    """
    from scipy.stats import chi2  # takes most of a second

    return float(np.maximum(curvatures * sizes**2, variance).mean() * chi2.isf(SIGNIFICANCE_LEVEL, len(sizes)))


def scatter_of_starts(unknowns: Unknowns, final: np.ndarray, losses: np.ndarray, best: int, excess: float) -> np.ndarray:
    """Standard deviation [K] (scaled units) of the starts whose loss exceeds that of the best one by at most ``excess``.

    The floor of a flat valley has local minima (contacts that slip or stick, edges that become occluded). Those that fit the film
    as well as the best one, to within its errors, show their effect on the estimate, which a local Jacobian cannot. A start that
    ended with a larger loss is in a minimum that the film excludes.

    Args:
        unknowns: unknowns of the inversion.
        final: [S, K] ends of the starts, physical units.
        losses: [S] their losses.
        best: the start whose end is the estimate; after wide steps it need not have the lowest loss.
        excess: of a loss (``excess_by_errors``, divided by the number of observations).
    """
    is_equally_good = losses <= losses[best] + excess
    if is_equally_good.sum() < 2:
        return np.zeros(final.shape[1])
    return unknowns.scaled(final[is_equally_good]).std(axis=0, ddof=1)
