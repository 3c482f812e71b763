"""How much farther the loss lets an estimate be moved than its Gauss-Newton model does.

Gauss-Newton's model of the loss leaves out r · f'', residual times second derivative of the observations. That is no matter where
the residual r is independent noise. Compression blurs edges, though, and what a blur leaves of a picture looks like its second
derivative as the edges move: films at constant rate factor 18 have a loss about half as curved as the model's, so that their
errors move the estimate twice as far. The same holds where the floor of the loss is dented (contacts that begin, end, slip or
stick) and the estimate lies in one dent of several.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from risp_torch.inversion.linearisation import Linearisation, observed_at
from risp_torch.inversion.uncertainty import Spread
from risp_torch.inversion.unknowns import Unknowns
from risp_torch.scene.scene import Scene

LENGTHS = (2.0, 4.0, 8.0)  # of the moves, in error bars of the Gauss-Newton model
FARTHER = (16.0, 32.0, 64.0, 128.0)  # of those that follow as long as the loss stays flat
GOING = 3.0  # x c(x) up to which a longer look follows: a bump may end
NARROWEST = 1e-5  # of the range: shorter moves drown in rounding


def flatness(scene: Scene, unknowns: Unknowns, at: Linearisation, spread: Spread, sizes: np.ndarray) -> np.ndarray:
    """How many times the model's error bars those of the loss itself are along the principal directions, [K], at least 1.

    Errors of the film tilt the loss. A tilt that moves the model's minimum by one error bar b lets the loss L of the residual
    fall until its rise takes it back: at a move x b where c(x) = (rise of L by that move) / (rise of the model) is 2 / x. That is
    2 b in the model, and 2 b / c where the loss is a parabola with c times the curvature. So the farthest of the moves
    with c(x) <= 2 / x decides: error bars are 1 / c times as wide there, and not wider than the move. The slope at the estimate
    is taken out of the rise: it belongs to the search.

    Args:
        scene, unknowns: of the inversion.
        at: linearisation at the estimate, where the moves begin.
        spread: by the model.
        sizes: [K] the model's error bars along the principal directions (``Spread.sizes``), with what compression adds.
    """
    ranges = unknowns.scaled_range()
    low, high = (unknowns.scaled(bound) for bound in unknowns.bounds())
    room = np.maximum(np.minimum(at.scaled - low, high - at.scaled) / ranges, 0.0)
    longest = (room[:, None] / np.maximum(np.abs(spread.vectors), 1e-12)).min(axis=0)

    def look(length: float, of: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The answer by moves of one length along some of the directions, and which of these are worth a longer look."""
        steps = np.minimum(length * np.maximum(sizes[of], NARROWEST), longest[of])
        moves = np.concatenate([sign * (steps * spread.vectors[:, of]).T for sign in (1, -1)])
        rises = np.array(list(_rises(scene, unknowns, at, moves))).reshape(2, len(of))
        bars = steps / np.maximum(sizes[of], 1e-300)
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = rises / (steps**2 * spread.values[of])
            wider = np.minimum(bars, np.where(parts > 0, 1 / parts, np.inf))
        free = steps > 0
        return np.where((parts * bars <= 2.0) & free, wider, 1.0).max(axis=0), of[((parts * bars <= GOING) & free).any(axis=0)]

    found, going = np.ones(len(sizes)), np.arange(len(sizes))
    for length in LENGTHS + FARTHER:
        looked = going if length in FARTHER else np.arange(len(sizes))
        if len(looked):
            wider, going = look(length, looked)
            found[looked] = np.maximum(found[looked], wider)
    return found


def _rises(scene: Scene, unknowns: Unknowns, at: Linearisation, moves: np.ndarray) -> Iterator[float]:
    """Rise of the summed squared residual, smoothness included, by moves [M, K] (parts of the ranges), its slope taken out.

    Infinite where a world diverges.
    """
    gradient, prior = at.normal_equations[1], np.zeros((moves.shape[1],) * 2) + at.prior
    own, _ = observed_at(scene, at.comparison, unknowns, at.scaled[None])
    for first in range(0, len(moves), at.comparison.worlds_at_once):
        some = moves[first : first + at.comparison.worlds_at_once]
        observed, finite = observed_at(scene, at.comparison, unknowns, at.scaled + some * unknowns.scaled_range())
        for row, move, whole in zip(observed, some, finite.tolist(), strict=True):
            change = (row - own[0]).double()
            rise = float((change * (change - 2 * at.residual.double())).sum())
            yield rise + 2 * float(gradient @ move) + float(move @ prior @ move) if whole else np.inf
