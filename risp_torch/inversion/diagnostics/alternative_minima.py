"""Starts with a loss near the lowest, at whose estimates more unknowns are observable than at the best start's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from risp_torch.inversion.problem.linearisation import Linearisation, linearise
from risp_torch.inversion.problem.problem import Problem
from risp_torch.inversion.problem.search_stages import MAX_LINEARISED
from risp_torch.inversion.solvers.search import SearchResult
from risp_torch.inversion.uncertainty.covariance import UNOBSERVABLE, CovarianceEstimate

MAX_LOSS_RATIO = 1.2  # times the lowest loss: a start with a smaller final loss fits the film as well as the best one
MAX_ALTERNATIVES = 4  # other starts that are compared


def best_observed(problem: Problem, search: SearchResult) -> tuple[SearchResult, list[str]]:
    """The search result, with the best start replaced by one that fits as well and makes more unknowns observable; and remarks.

    The motion decides which parameters are observable: a wheel that rolls hides its friction, one that slips shows it.

    Args:
        problem: the inversion problem.
        search: the ends of its starts.
    """
    labels = search.unknowns.labels
    candidates = [int(s) for s in np.argsort(search.losses) if s != search.best and np.isfinite(search.losses[s])][
        :MAX_ALTERNATIVES
    ]
    if not candidates or len(labels) > MAX_LINEARISED or problem.loss.non_smooth:
        return search, []
    unobservable = _unobservable(search, _linearised(problem, search, search.best))
    if not unobservable.any():
        return search, []
    sentences = []
    for start in candidates:
        newly_observable = unobservable & ~_unobservable(search, _linearised(problem, search, start))
        if not newly_observable.any():
            continue
        names = " and ".join(label for label, flag in zip(labels, newly_observable, strict=True) if flag)
        if search.losses[start] <= MAX_LOSS_RATIO * search.losses[search.best]:
            sentence = (
                f"start {start + 1} is the estimate, as it fits the film as well as start {search.best + 1} and shows {names}"
            )
            return replace(search, best=start), [sentence]
        sentences.append(f"the film shows {names} at the end of start {start + 1}, which fits it less well")
    return search, sentences[:1]


def _linearised(problem: Problem, search: SearchResult, start: int) -> Linearisation:
    return linearise(problem.scene, search.comparison, search.unknowns, search.final[start])


def _unobservable(search: SearchResult, linearisation: Linearisation) -> np.ndarray:
    """K flags: whether an unknown is a large part of a direction that the film does not show."""
    covariances = CovarianceEstimate.of(linearisation)
    weak = np.sqrt(covariances.noise / covariances.values) > UNOBSERVABLE
    return np.abs(covariances.vectors[:, weak]).max(axis=1, initial=0.0) >= 0.3
