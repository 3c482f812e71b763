"""How far the estimate of an inversion is to be trusted: error bars, the way that is left to the minimum, and the misfit."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from risp_torch.inversion.comparison import Comparison
from risp_torch.inversion.compression import CompressedFilm, compressed_films, compression_moves, size_of_moves
from risp_torch.inversion.film import film_at
from risp_torch.inversion.flatness import flatness
from risp_torch.inversion.linearisation import Linearisation, along_weak_directions, linearise, newton_step
from risp_torch.inversion.losses.loss import PictureLoss
from risp_torch.inversion.losses.pixel import PixelLoss
from risp_torch.inversion.misfit import doubts_of_misfit, explained_residual, widened_by_misfit
from risp_torch.inversion.problem import MOST_LINEARISED, Problem
from risp_torch.inversion.search import Ends
from risp_torch.inversion.target import is_file
from risp_torch.inversion.uncertainty import Spread, Uncertainty, reach, uncertainty, unfinished, widened
from risp_torch.inversion.unknowns import Unknowns
from risp_torch.scene.scene import Scene

WIDE_STEP = 1e-2  # of the range: step of the differences for error bars of more unknowns than MOST_LINEARISED
ROUGH_STEP = 4e-2  # of the range: step of the differences that tell whether a search on a rough loss has arrived
UNMOVED = 1e-5  # of the range: what rounding moves a guess by


@dataclass(frozen=True)
class Judgement:
    """Of an estimate.

    Attributes:
        bars: error bars.
        misfit: mean squared residual over what noise and compression explain of it; None where that is not known.
        doubts: sentences that say why the estimate is not to be trusted.
    """

    bars: Uncertainty
    misfit: float | None
    doubts: list[str]


def judge(problem: Problem, ends: Ends) -> Judgement:
    """Error bars at the end of the best start, and doubts in the estimate.

    Args:
        problem: what was looked for.
        ends: where its starts have come to.
    """
    scene, unknowns, comparison = problem.scene, problem.unknowns, ends.comparison
    loss, values, ranges = comparison.loss, ends.final[ends.best], unknowns.scaled_range()
    at = _linearised(scene, comparison, unknowns, values)
    estimate = film_at(scene, unknowns, values, loss) if isinstance(loss, PictureLoss) else None
    floor = comparison.floor(estimate)
    films = _films_through_the_encoder(problem, at, estimate)
    moves = compression_moves(at, films) if films else np.zeros((1, len(values)))
    # Twelve times the variance of rounding is the square of a whole step, a grey level of 255 for pixels.
    scatter = scatter_of_starts(unknowns, ends.final, ends.losses, ends.best, near=12 * floor)
    flat = estimate is not None and not loss.rough and len(values) <= MOST_LINEARISED
    bars, own = _bars(scene, unknowns, at, floor=floor, moves=moves, scatter=scatter, flat=flat)
    explained = explained_residual(at, estimate, problem.pictures, films, problem.video, floor)
    # Near the minimum of a rough loss its slopes are those of dents, which wide differences average over.
    rough = linearise(scene, comparison, unknowns, values, step=ROUGH_STEP) if loss.rough else at
    step = newton_step(rough)
    fit = min(1.0, explained / max(at.loss, 1e-300)) ** 0.5 if explained is not None and loss.needs_film else 1.0
    way = reach(rough, step, explained)
    bars, doubts = unfinished(bars, unknowns, step * ranges, own=own, times=way, fit=fit)
    if not isinstance(loss, PixelLoss):
        return Judgement(bars, None, doubts)
    misfit = max(0.0, at.loss - 12 * floor) / explained
    moved = np.abs(unknowns.scaled(values) - unknowns.scaled(problem.initial[ends.best])) / ranges
    doubts += doubts_of_misfit(misfit, at.loss, explained, unmoved=bool(moved.max() < UNMOVED))
    return Judgement(widened_by_misfit(bars, misfit, ranges), misfit, doubts)


def _linearised(scene: Scene, comparison: Comparison, unknowns: Unknowns, values: np.ndarray) -> Linearisation:
    """The observations near an estimate [K]."""
    if len(unknowns.labels) <= MOST_LINEARISED:
        return along_weak_directions(scene, unknowns, linearise(scene, comparison, unknowns, values))
    # Rounds along weak directions would each take as long as the Jacobian; wider steps lift weak responses above rounding, too.
    return linearise(scene, comparison, unknowns, values, step=WIDE_STEP)


def _films_through_the_encoder(problem: Problem, at: Linearisation, estimate: torch.Tensor | None) -> list[CompressedFilm]:
    """The film of the estimate as video compression returns it, where the target is such a file and can tell; else none."""
    even = estimate is not None and estimate.shape[1] % 2 == 0 and estimate.shape[2] % 2 == 0  # what 4:2:0 colour can hold
    if even and is_file(problem.video) and not at.comparison.loss.lasting:
        return compressed_films(at, estimate, fps=1 / problem.scene.frame_dt)
    return []


def _bars(
    scene: Scene, unknowns: Unknowns, at: Linearisation, *, floor: float, moves: np.ndarray, scatter: np.ndarray, flat: bool
) -> tuple[Uncertainty, Uncertainty]:
    """Error bars of the estimate, and those of the Gauss-Newton model, by which the length of its next step is measured.

    Args:
        scene, unknowns: of the inversion.
        at: the observations near the estimate.
        floor: variance of an observation below which no target is exact.
        moves: [M, K] of the estimate by compression, in parts of the ranges.
        scatter: [K] of the starts, scaled units.
        flat: whether the loss is looked at along the principal directions, where it may be flatter than its model.
    """
    spread, ranges = Spread.of(at, floor), unknowns.scaled_range()
    bars = uncertainty(at, unknowns, floor=floor, spread=spread)
    own, model = (
        widened(bars, unknowns, other, size_of_moves(moves) * ranges) for other in (np.zeros(len(ranges)), scatter)
    )  # fmt: skip
    # A scatter of starts none of which has arrived hides unknowns: there the bars without it tell how long a step is.
    own = replace(own, sd=np.where(model.observable, model.sd, own.sd))
    if flat:
        times = flatness(scene, unknowns, at, spread, np.hypot(spread.sizes, size_of_moves(moves @ spread.vectors)))
        bars = uncertainty(at, unknowns, floor=floor, spread=spread.stretched(times))
        moves = moves @ spread.stretch(times)
    return widened(bars, unknowns, scatter, size_of_moves(moves) * ranges), own


def scatter_of_starts(
    unknowns: Unknowns, final: np.ndarray, losses: np.ndarray, best: int, *, near: float = (1 / 255) ** 2
) -> np.ndarray:
    """Standard deviation [K] (scaled units) of the starts that ended about as well as the best.

    That is within a fifth of its loss or ``near`` (a grey level of 255, squared), which the simplest flaw of a scene outweighs.
    The floor of a flat valley has dents (contacts that slip or stick, edges that pass behind others), and where the starts were
    caught in them shows how much that matters, which no local Jacobian can.
    """
    together = losses <= 1.2 * losses[best] + near
    if together.sum() < 2:
        return np.zeros(final.shape[1])
    return unknowns.scaled(final[together]).std(axis=0, ddof=1)
