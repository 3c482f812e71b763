"""What an inversion found, and the words on each start and on what to doubt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from risp_torch.inversion.misfit import MISFIT
from risp_torch.inversion.optimise import History
from risp_torch.inversion.uncertainty import Uncertainty
from risp_torch.inversion.unknowns import Unknowns

SAME_MINIMUM = 1.05  # a start belongs to the best one's minimum when its loss is at most this many times the lowest
MOST_NAMED = 12  # numbers of one parameter that are named one by one


@dataclass(frozen=True)
class Inversion:
    """What an inversion found.

    Attributes:
        unknowns: what was looked for.
        values: label -> estimate, physical units.
        sd: label -> standard deviation in scaled units (decades for log10); NaN where there is none.
        uncertainty: error bars and unseen directions.
        initial, final: [S, K] physical values of the starts.
        losses: [S] final losses over all frames that count.
        status: per start: "best", "same minimum", "higher loss", "stopped early" or "diverged".
        best: index of the best start.
        converged: whether the next Gauss-Newton step is within the error bars; None where there are none.
        misfit: mean squared residual over what noise and compression explain of it; None where that is not known.
        doubts: sentences that say why the estimate is not to be trusted: the search has not arrived, or nothing fits the film.
        history: of the search.
        remarks: sentences about what else to doubt.
        seconds: wall-clock time.
        folder: where the run was written, or None.
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

    @property
    def fits(self) -> bool | None:
        """Whether noise and compression explain what the estimate leaves of the film; None where that is not known."""
        return None if self.misfit is None else self.misfit <= MISFIT

    def scaled_error(self, truth: Mapping[str, float]) -> dict[str, float]:
        """Estimate minus truth of every label in scaled units (log10 ratio for log10)."""
        row = np.array([truth[label] for label in self.unknowns.labels])
        estimate = np.array([self.values[label] for label in self.unknowns.labels])
        return dict(zip(self.unknowns.labels, self.unknowns.scaled(estimate) - self.unknowns.scaled(row), strict=True))


def status_of_starts(losses: np.ndarray, best: int, stopped: Sequence[int]) -> list[str]:
    """A word for each start (``Inversion.status``) by the losses [S] that they ended with."""
    names = []
    for index, loss in enumerate(losses):
        if index == best:
            names.append("best")
        elif not np.isfinite(loss):
            names.append("diverged")
        elif index in stopped:
            names.append("stopped early")
        else:
            names.append("same minimum" if loss <= SAME_MINIMUM * losses[best] + 1e-9 else "higher loss")
    return names


def remarks_on(unknowns: Unknowns, physical: np.ndarray, status: list[str]) -> list[str]:
    """What to doubt: a minimum that one start alone found, an estimate on its bound.

    Starts that were stopped were not let look for it.
    """
    remarks = []
    others = [name for name in status if name not in ("best", "stopped early")]
    if others and "same minimum" not in others:
        remarks.append(
            f"only 1 of the {len(others) + 1} starts that went on to the end reached the lowest loss: "
            "more starts, or a growing horizon, would tell whether it is the lowest there is"
        )
    low, high = (unknowns.scaled(bound) for bound in unknowns.bounds())
    margin = np.minimum(unknowns.scaled(physical) - low, high - unknowns.scaled(physical)) / (high - low)
    labels = unknowns.labels
    for name, part in unknowns.groups.items():
        bound = [labels[k] for k in range(part.start, part.stop) if margin[k] < 0.005]
        if len(bound) > MOST_NAMED:
            remarks.append(
                f"{len(bound)} of the {part.stop - part.start} numbers of {name} lie on their bounds: widen the bounds"
            )
        else:
            remarks += [f"the estimate of {label} lies on its bound: widen the bounds" for label in bound]
    return remarks
