"""Comparison with the first pictures of a film, by a loss that distinguishes poses in a single picture."""

from __future__ import annotations

from dataclasses import replace

import torch

from risp_torch.inversion.appearance.matched_loss import MatchedFilms, MatchedLoss
from risp_torch.inversion.losses.masks import MaskLoss
from risp_torch.inversion.losses.plate_masks import even_exposures, masks_by_difference
from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.inversion.problem.problem import Problem
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, checked

COARSE_EDGE, COARSE_SAMPLES = 0.3, 2  # of the masks of candidates: coarser than those of estimates, and faster


def check_first_picture(comparison: Comparison) -> None:
    """Raise a UserError if the first picture of the film is not compared, or by the solved looks of several films."""
    if isinstance(comparison.loss, MatchedFilms):
        raise UserError(
            "the start of several films is looked for by pixels, not by solved looks: compare pixels, or leave out "
            "--warm-start pictures (find_start)"
        )
    if comparison.frames[0] != 0:
        raise UserError(
            f"the start is looked for in the first picture, and number {comparison.frames[0]} is the first to be compared: "
            "compare it, too, or leave out --warm-start pictures (find_start)"
        )


def start_comparisons(problem: Problem) -> tuple[Comparison, Comparison]:
    """The comparisons of the many candidates for the start, and of the few that are refined.

    A look that is solved of one picture fits it with any pose: the solved background would show the body. So the matched loss is
    replaced by silhouettes that differ from the median of the film, in which exposures are equal. Masks of many candidates are
    coarse: they are faster, but too large.

    Raises:
        UserError: nothing in the film differs from its median.
    """
    comparison, loss = problem.comparison.coarse(), problem.comparison.loss
    if isinstance(loss, MatchedLoss):
        loss = _silhouettes(problem.scene, loss, problem.pictures)
        sampling = "list:" + ",".join(map(str, comparison.frames))
        comparison = Comparison.of(problem.scene, loss, problem.pictures, sampling)
    if isinstance(loss, MaskLoss):
        return replace(comparison, loss=loss.with_edges(edge=COARSE_EDGE, samples=COARSE_SAMPLES)), comparison
    return comparison, comparison


@checked
def first_frames(comparison: Comparison, count: Count) -> Comparison:
    """The comparison of the first ``count`` frames that are compared."""
    frames = comparison.frames[:count]
    return replace(comparison, target=comparison.target[: len(frames)], frames=frames)


def _silhouettes(scene: Scene, loss: MatchedLoss, film: torch.Tensor) -> MaskLoss:
    """The loss of the silhouettes in a film."""
    is_compared = None if loss.weights is None else loss.weights.values[: scene.frames + 1] > 0.5
    evened_film = even_exposures(film, is_compared)
    return MaskLoss(masks_by_difference(evened_film, evened_film.median(dim=0).values), weights=loss.weights)
