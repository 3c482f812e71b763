"""Ratio of the error bars of the loss to those of its Gauss-Newton model.

The Gauss-Newton model of the loss omits r · f'', residual times second derivative of the observations. This is negligible if
the residual r is independent noise. But compression blurs edges, and the residual of a blur resembles the second
derivative of an image with respect to a motion of its edges: at constant rate factor 18, the curvature of the loss is about half
that of the model, so errors move the estimate twice as far. The same holds if the loss has local minima (contacts that begin,
end, slip or stick) and the estimate is in one of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from risp_torch.inversion.problem.linearisation import Linearisation, predict
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.inversion.uncertainty.covariance import CovarianceEstimate
from risp_torch.scene.scene import Scene

LENGTHS = (2.0, 4.0, 8.0)  # lengths of the moves, in error bars of the Gauss-Newton model
EXTENDED_LENGTHS = (16.0, 32.0, 64.0, 128.0)  # lengths of further moves while the loss stays flat
FLAT_LIMIT = 3.0  # x c(x) up to which longer moves are tried
MIN_MOVE, MAX_RELATIVE_LENGTH = 1e-3, 1.5  # error bars, and lengths: a move that bounds make shorter, or longer, says nothing
MIN_SIZE = 1e-5  # of the range: shorter moves are below rounding


def flatness(
    scene: Scene, unknowns: Unknowns, linearisation: Linearisation, covariances: CovarianceEstimate, sizes: np.ndarray
) -> np.ndarray:
    """Ratio [K] of the error bars of the loss to those of the model along the principal directions, at least 1.

    Errors of the film tilt the loss. A tilt that moves the model's minimum by one error bar b lets the loss L of the residual
    fall until its rise takes it back: at a move x b where c(x) = (rise of L by that move) / (rise of the model) is 2 / x. That is
    2 b in the model, and 2 b / c where the loss is a parabola with c times the curvature. The longest of the moves
    with c(x) <= 2 / x determines the ratio: error bars are 1 / c times as wide, but not wider than the move. The slope at the
    estimate is subtracted from the rise.

    Args:
        scene, unknowns: those of the inversion.
        linearisation: linearisation at the estimate, the origin of the moves.
        covariances: of the model.
        sizes: [K] the model's error bars along the principal directions (``CovarianceEstimate.sizes``), with those of
            compression.
    """
    relative_point, ranges = linearisation.scaled / unknowns.scaled_range(), unknowns.scaled_range()
    low, high = (unknowns.scaled(bound) / ranges for bound in unknowns.bounds())
    model = (covariances.vectors * covariances.values) @ covariances.vectors.T
    # The loss itself, whose solved look may differ from that of the linearisation.
    reference = predict(scene, linearisation.comparison, unknowns, linearisation.scaled[None])[0][0]

    def ratios_at(length: float, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The ratios from moves of one length along some directions, and the directions that need longer moves."""
        steps = length * np.maximum(sizes[indices], MIN_SIZE)
        planned = np.concatenate([sign * (steps * covariances.vectors[:, indices]).T for sign in (1, -1)])
        moves = (
            np.clip(relative_point + planned, low, high) - relative_point
        )  # an unknown on its bound stays there, and the others move
        inside = np.isclose(moves, planned, atol=1e-12).all(axis=1).reshape(2, len(indices))
        rises = np.array(list(_rises(scene, unknowns, linearisation, reference, moves))).reshape(2, len(indices))
        expected = np.einsum("mk,kl,ml->m", moves, model, moves).reshape(2, len(indices))
        bars = np.sqrt(expected / covariances.values[indices]) / np.maximum(sizes[indices], 1e-300)
        with np.errstate(divide="ignore", invalid="ignore"):
            rise_ratios = rises / expected
            wider = np.minimum(bars, np.where(rise_ratios > 0, 1 / rise_ratios, np.inf))
        is_valid = (bars > MIN_MOVE) & (bars < MAX_RELATIVE_LENGTH * length)
        flat = ((rise_ratios * bars <= FLAT_LIMIT) & is_valid & inside).any(axis=0)
        return np.where((rise_ratios * bars <= 2.0) & is_valid, wider, 1.0).max(axis=0), indices[flat]

    ratios, flat = np.ones(len(sizes)), np.arange(len(sizes))
    for length in LENGTHS + EXTENDED_LENGTHS:
        direction_indices = flat if length in EXTENDED_LENGTHS else np.arange(len(sizes))
        if len(direction_indices):
            wider, flat = ratios_at(length, direction_indices)
            ratios[direction_indices] = np.maximum(ratios[direction_indices], wider)
    return ratios


def _rises(
    scene: Scene, unknowns: Unknowns, linearisation: Linearisation, reference: torch.Tensor, moves: np.ndarray
) -> Iterator[float]:  # fmt: skip
    """Rise of the summed squared residual, smoothness included, by moves [M, K] (parts of the ranges), without its slope.

    ``reference`` [P] are the observations at the estimate. Infinite where a world diverges.
    """
    gradient, prior = linearisation.normal_equations[1], np.zeros((moves.shape[1],) * 2) + linearisation.prior_matrix
    residual = (linearisation.comparison.target.flatten() - reference).double()
    for first in range(0, len(moves), linearisation.comparison.worlds_at_once):
        batch = moves[first : first + linearisation.comparison.worlds_at_once]
        observed, finite = predict(
            scene, linearisation.comparison, unknowns, linearisation.scaled + batch * unknowns.scaled_range()
        )
        for row, move, is_finite in zip(observed, batch, finite.tolist(), strict=True):
            change = (row - reference).double()
            rise = float((change * (change - 2 * residual)).sum())
            yield rise + 2 * float(gradient @ move) + float(move @ prior @ move) if is_finite else np.inf
