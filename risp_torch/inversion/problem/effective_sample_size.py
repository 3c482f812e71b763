"""How many observations count as one independent observation, because their errors are similar."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.inversion.problem.linearisation import Linearisation
from risp_torch.inversion.problem.residual_blocks import BLOCK_FRAMES, block_scores, correlation_frames
from risp_torch.inversion.problem.unknowns import Unknowns


def block_size(comparison: Comparison) -> float:
    """Largest number of observations with similar errors: those of a block, or of the film if errors are correlated in time."""
    frames = len(comparison.frames)
    num_intervals = 1 if comparison.loss.temporally_correlated else len({frame // BLOCK_FRAMES for frame in comparison.frames})
    return max(1.0, frames * len(comparison.blocks) / ((int(comparison.blocks.max()) + 1) * num_intervals))


def design_effect(linearisation: Linearisation) -> float:
    """Ratio of the covariance of an estimate for errors that are correlated within blocks to that for independent errors.

    It is the mean over the directions that the film determines better than the priors: tr(A^-1 V) / (v tr(A^-1 J^T J)), with V
    the sum of outer products of block scores J_c^T r_c, A the normal equations with priors and v the mean squared residual.

    Returns:
        A number between 1 and ``block_size``.
    """
    film_matrix, _ = linearisation.normal_equations
    scores = block_scores(linearisation)
    inverse = np.linalg.pinv(film_matrix + linearisation.prior_matrix, hermitian=True)
    independent = linearisation.loss * float(np.trace(inverse @ film_matrix))
    ratio = float(np.trace(inverse @ (scores.T @ scores))) / max(independent, 1e-300)
    if linearisation.comparison.loss.temporally_correlated:
        ratio = max(ratio, correlation_frames(linearisation))
    return float(np.clip(ratio, 1.0, block_size(linearisation.comparison)))


def with_design_effect(unknowns: Unknowns, design_effect: float, floor: float | None = None) -> Unknowns:
    """Unknowns whose priors count that many observations as one, and take errors to have at least the variance ``floor``."""
    floor = unknowns.priors.floor if floor is None else floor
    return replace(unknowns, priors=replace(unknowns.priors, design_effect=design_effect, floor=floor))
