"""Whether starts ended where the film shows what it does not show at the best one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from risp_torch.inversion.problem.linearisation import Linearisation, linearise
from risp_torch.inversion.problem.problem import MOST_LINEARISED, Problem
from risp_torch.inversion.solvers.search import SearchResult
from risp_torch.inversion.uncertainty.covariance import UNSEEN, CovarianceEstimate

AS_GOOD = 1.2  # times the lowest loss: a start that ended with less is as good an answer
MOST_STARTS = 4  # that are looked at


def best_observed(problem: Problem, ends: SearchResult) -> tuple[SearchResult, list[str]]:
    """The ends with a best start at which the film shows most, of those that fit it as well, and a sentence on others.

    The motion decides which parameters are observable: a wheel that rolls hides its friction, one that slips shows it.

    Args:
        problem: the inversion problem.
        ends: the ends of its starts.
    """
    labels = ends.unknowns.labels
    others = [int(s) for s in np.argsort(ends.losses) if s != ends.best and np.isfinite(ends.losses[s])][:MOST_STARTS]
    if not others or len(labels) > MOST_LINEARISED or problem.loss.non_smooth:
        return ends, []
    hidden = _hidden(ends, _at(problem, ends, ends.best))
    if not hidden.any():
        return ends, []
    sentences = []
    for start in others:
        shown = hidden & ~_hidden(ends, _at(problem, ends, start))
        if not shown.any():
            continue
        names = " and ".join(label for label, one in zip(labels, shown, strict=True) if one)
        if ends.losses[start] <= AS_GOOD * ends.losses[ends.best]:
            said = f"start {start + 1} is the estimate, as it fits the film as well as start {ends.best + 1} and shows {names}"
            return replace(ends, best=start), [said]
        sentences.append(f"the film shows {names} at the end of start {start + 1}, which fits it less well")
    return ends, sentences[:1]


def _at(problem: Problem, ends: SearchResult, start: int) -> Linearisation:
    return linearise(problem.scene, ends.comparison, ends.unknowns, ends.final[start])


def _hidden(ends: SearchResult, at: Linearisation) -> np.ndarray:
    """K flags: whether an unknown is a large part of a direction that the film does not show."""
    spread = CovarianceEstimate.of(at)
    weak = np.sqrt(spread.noise / spread.values) > UNSEEN
    return np.abs(spread.vectors[:, weak]).max(axis=1, initial=0.0) >= 0.3
