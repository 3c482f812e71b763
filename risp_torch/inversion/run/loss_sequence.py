"""Losses that follow each other: each inversion starts where the one before it ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from risp_torch.files.run_folder import FinishedError, RunFolder
from risp_torch.inversion.losses.loss import Loss
from risp_torch.inversion.problem.search_settings import NewtonSteps, SearchSettings
from risp_torch.inversion.problem.search_stages import usual_search
from risp_torch.inversion.report.result import Inversion
from ti_sim.base.errors import UserError
from ti_sim.base.numbers import format_value


def split_losses(loss: Loss | Sequence[Loss] | None) -> tuple[list[Loss], Loss | None]:
    """The losses before the last one, and the last one.

    Raises:
        UserError: there is none in the list, or something else than a loss.
    """
    if loss is None or isinstance(loss, Loss):
        return [], loss
    if not isinstance(loss, list | tuple) or not all(isinstance(item, Loss) for item in loss):
        raise UserError(f"loss is {format_value(loss)}: give a loss such as PixelLoss(), or a list of them")
    if not loss:
        raise UserError("the list of losses is empty: give one loss, or leave it out")
    return list(loss[:-1]), loss[-1]


def refinement_settings(loss: Loss, start: dict[str, float], *, frames: int) -> SearchSettings | None:
    """Settings of a search from where another loss ended: the usual ones, but with the whole film from the beginning.

    A growing horizon is for guesses. Its first frames show least of the unknowns, and would lead away from an estimate.

    Args:
        loss: of the search.
        start: label -> value of every unknown.
        frames: frame intervals of the film.
    """
    defaults = usual_search(loss, len(start))
    return replace(defaults, first_frames=frames) if isinstance(defaults, NewtonSteps) else None


def best_of_run(search: Callable[[], Inversion], folder: Path | None) -> list[dict[str, float]]:
    """Where an inversion's best start ends: label -> value, as the only start of the next one.

    Args:
        search: runs the inversion; one that is finished in the folder is only read.
        folder: its folder, or None.
    """
    try:
        return [dict(search().values)]
    except FinishedError:
        unknowns = RunFolder(folder, {}).read_result()["unknowns"]
        return [{label: float(entry["value"]) for label, entry in unknowns.items()}]
