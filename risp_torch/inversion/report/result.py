"""Result of an inversion, with the status of each start and remarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.inversion.solvers.gradient_descent import History
from risp_torch.inversion.uncertainty.covariance import Uncertainty
from risp_torch.inversion.uncertainty.misfit import MISFIT_RATIO, Residual

SAME_MINIMUM_RATIO = 1.05  # a start belongs to the best one's minimum when its loss is at most this many times the lowest
MAX_MINIMUM_DISTANCE = 0.02  # of the ranges: starts that end farther apart are not in one minimum
MAX_LISTED = 12  # entries of one parameter that are listed separately


@dataclass(frozen=True)
class Inversion:
    """Result of an inversion.

    Attributes:
        unknowns: the unknowns.
        values: label -> estimate, physical units.
        sd: label -> standard deviation in scaled units (decades for log10); NaN if not available.
        uncertainty: error bars and unobservable directions.
        initial, final: [S, K] physical values of the starts.
        losses: [S] final losses over all compared frames.
        status: per start: "best", "same minimum", "same loss" (elsewhere), "higher loss", "stopped early" or "diverged".
        best: index of the best start.
        converged: whether the next Gauss-Newton step is within the error bars; None without error bars.
        misfit: mean squared residual divided by the part explained by noise and compression; None if unknown.
        doubts: sentences on why the estimate may be wrong: the search has not converged, or nothing fits the film.
        history: history of the search.
        remarks: further sentences about the reliability of the result.
        seconds: wall-clock time.
        folder: folder of the run, or None.
        residual: size of the residual, and the part that the film's own noise explains; None without error bars.
        misspecifications: families of numbers that were taken for known and are likely wrong: the share of the residual that each
            explains, its changes, and the shifts of the unknowns.
        block_variance_ratio: power of the residual in blocks, divided by that of the film's errors: about 1 for noise; None if
            unknown.
        assumptions: sentences on known numbers that the film does not determine, and that the estimates depend on.
    """

    unknowns: Unknowns
    values: dict[str, float]
    sd: dict[str, float]
    uncertainty: Uncertainty
    initial: np.ndarray
    final: np.ndarray
    losses: np.ndarray
    status: list[str]
    best: int
    converged: bool | None
    misfit: float | None
    doubts: list[str]
    history: History
    remarks: list[str]
    seconds: float
    folder: Path | None
    residual: Residual | None = None
    misspecifications: list[dict[str, Any]] = field(default_factory=list)
    block_variance_ratio: float | None = None
    assumptions: list[str] = field(default_factory=list)

    @property
    def fits(self) -> bool | None:
        """Whether noise and compression explain the residual; None if unknown."""
        return None if self.misfit is None else self.misfit <= MISFIT_RATIO

    def scaled_error(self, truth: Mapping[str, float]) -> dict[str, float]:
        """Estimate minus truth of every label in scaled units (log10 ratio for log10)."""
        true_values = np.array([truth[label] for label in self.unknowns.labels])
        estimate = np.array([self.values[label] for label in self.unknowns.labels])
        return dict(zip(self.unknowns.labels, self.unknowns.scaled(estimate) - self.unknowns.scaled(true_values), strict=True))


def status_of_starts(
    losses: np.ndarray, best: int, stopped: Sequence[int], final_positions: np.ndarray, excess: float | None = None
) -> list[str]:
    """The status of each start (``Inversion.status``).

    Args:
        losses: [S] that the starts ended with.
        best: index of the best start.
        stopped: indices of those that were stopped early.
        final_positions: [S, K] their ends, in ranges.
        excess: loss beyond the best one's up to which starts that end elsewhere have the same loss; if None, a twentieth of it.
    """
    same_minimum_loss = SAME_MINIMUM_RATIO * losses[best] + 1e-9
    same_loss = same_minimum_loss if excess is None else losses[best] + excess
    statuses = []
    for index, loss in enumerate(losses):
        if index == best:
            statuses.append("best")
        elif not np.isfinite(loss):
            statuses.append("diverged")
        elif index in stopped:
            statuses.append("stopped early")
        else:
            is_close = np.abs(final_positions[index] - final_positions[best]).max() <= MAX_MINIMUM_DISTANCE
            is_low = loss <= (max(same_minimum_loss, same_loss) if is_close else same_loss)
            statuses.append(("same minimum" if is_close else "same loss") if is_low else "higher loss")
    return statuses


def remarks_on(unknowns: Unknowns, physical: np.ndarray, status: list[str]) -> list[str]:
    """Remarks on the reliability: a minimum that only one start reached, an estimate on its bound.

    Stopped starts are not counted.
    """
    remarks = []
    completed = [name for name in status if name not in ("best", "stopped early")]
    if "same loss" in completed:
        remarks.append(
            f"{completed.count('same loss') + 1} starts end with the same loss at different estimates, between which the film "
            "does not decide"
        )
    elif completed and "same minimum" not in completed:
        remarks.append(
            f"only 1 of the {len(completed) + 1} starts that ran to the end reached the lowest loss: "
            "more starts, or a growing horizon, would tell whether it is the lowest there is"
        )
    low, high = (unknowns.scaled(bound) for bound in unknowns.bounds())
    margin = np.minimum(unknowns.scaled(physical) - low, high - unknowns.scaled(physical)) / (high - low)
    labels = unknowns.labels
    for name, group in unknowns.groups.items():
        labels_on_bounds = [labels[k] for k in range(group.start, group.stop) if margin[k] < 0.005]
        if len(labels_on_bounds) > MAX_LISTED:
            remarks.append(
                f"{len(labels_on_bounds)} of the {group.stop - group.start} numbers of {name} lie on their bounds: widen the "
                "bounds"
            )
        else:
            remarks += [f"the estimate of {label} lies on its bound: widen the bounds" for label in labels_on_bounds]
    return remarks
