"""The search of an inversion: from every start, the configured steps, then Gauss-Newton refinement."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from risp_torch.files.run_folder import RunFolder
from risp_torch.files.search_checkpoint import SearchCheckpoint
from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.inversion.problem.effective_sample_size import design_effect, with_design_effect
from risp_torch.inversion.problem.linearisation import linearise
from risp_torch.inversion.problem.problem import Problem
from risp_torch.inversion.problem.search_settings import NewtonSteps, WideSteps
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.inversion.solvers.cma_es import cma_es_search
from risp_torch.inversion.solvers.gradient_descent import History, descend
from risp_torch.inversion.solvers.levenberg_marquardt import newton_descend
from risp_torch.inversion.solvers.refinement import refined
from risp_torch.inversion.solvers.registration.rounds import needs_registration, registered
from risp_torch.inversion.solvers.wide_steps import refine_whitened, wide_gauss_newton
from ti_sim.base.errors import DivergenceError

# Number of times that the design effect, and with it the weight of the film against priors, is estimated again, and the ratio of
# successive design effects that ends it: far from the minimum, the correlation of residuals is overestimated.
MAX_REWEIGHTINGS, REWEIGHTING_TOLERANCE = 4, 0.7


@dataclass(frozen=True)
class SearchResult:
    """Results of the searches from all starts.

    Attributes:
        final: [S, K] physical values.
        losses: [S] losses over all compared frames; infinite where a world diverged.
        best: index of the start whose end is the estimate.
        comparison: comparison at the end of the search, with whitened observations if settling rounds used them.
        unknowns: the unknowns, their priors with the weight of the errors that the film turned out to have.
        history: history of the search.
    """

    final: np.ndarray
    losses: np.ndarray
    best: int
    comparison: Comparison
    unknowns: Unknowns
    history: History


def search_from(problem: Problem, z: torch.Tensor, *, folder: RunFolder | None = None, progress: bool = True) -> SearchResult:
    """Search from the starts z [S, K] of a problem (unbounded variables).

    Args:
        problem: the inversion problem.
        z: its starts (``Unknowns.unbounded``).
        folder: folder in which the search is saved, and from which it is resumed.
        progress: whether to show progress bars.

    Raises:
        UserError: pycma is not installed.
        DivergenceError: no start could be simulated.
    """
    scene, comparison, unknowns, search = problem.scene, problem.comparison, problem.unknowns, problem.search
    settings = search.steps
    history, best, rounds, coarse = History(), None, search.refine, comparison.coarse()
    checkpoint = partial(SearchCheckpoint, folder)
    if search.warm_start is not None and (folder is None or folder.load_checkpoint() is None):
        z, history = cma_es_search(scene, coarse, unknowns, z, search.warm_start, seed=problem.seed, progress=progress)
    if isinstance(settings, WideSteps):
        final, best, comparison = _wide_search(problem, settings, z, history, folder, progress=progress)
        rounds = 0 if problem.loss.non_smooth else rounds
    elif isinstance(settings, NewtonSteps):
        margin = 12 * comparison.noise_floor(problem.pictures)
        final = newton_descend(
            scene, coarse, unknowns, _physical(problem, z), settings, history, margin=margin, checkpoint=checkpoint("search"),
            progress=progress,
        )  # fmt: skip
    else:
        z, history = descend(
            scene, coarse, unknowns, z, settings, checkpoint=checkpoint("search"), history=history, progress=progress
        )
        final = _physical(problem, z)
    rounds = rounds if problem.is_linearised else 0
    if rounds and needs_registration(comparison, unknowns):
        final = registered(scene, comparison, unknowns, final, history, checkpoint=checkpoint("registration"), progress=progress)
    final, losses = refined(
        scene, comparison, unknowns, final, rounds, history, checkpoint=checkpoint("refinement"), progress=progress
    )
    if not np.isfinite(losses).any():
        scene.rollout(unknowns.physical(z))  # raises an error with body and step
        raise DivergenceError("every start of the inversion diverged: take smaller steps (more substeps)", body="", step=0)
    if best is None or rounds or not np.isfinite(losses[best]):
        best = int(np.argmin(losses))
    for number in range(MAX_REWEIGHTINGS if unknowns.priors and rounds else 0):
        previous_effect, linearisation = unknowns.priors.design_effect, linearise(scene, comparison, unknowns, final[best])
        unknowns = with_design_effect(unknowns, design_effect(linearisation))
        final, losses = refined(
            scene, comparison, unknowns, final, rounds, history, checkpoint=checkpoint(f"reweighted-{number}"), progress=progress
        )
        best = int(np.argmin(losses))
        if unknowns.priors.design_effect > REWEIGHTING_TOLERANCE * previous_effect:
            break
    return SearchResult(final, losses, best, comparison, unknowns, history)


def _wide_search(
    problem: Problem, settings: WideSteps, z: torch.Tensor, history: History, folder: RunFolder | None, *, progress: bool
) -> tuple[np.ndarray, int, Comparison]:
    """Final values [S, K] of wide steps, the best one settled with whitened observations; its number, and the last comparison."""
    scene, comparison, unknowns = problem.scene, problem.comparison, problem.unknowns
    initial = _physical(problem, z)
    final, best = wide_gauss_newton(
        scene, comparison, unknowns, initial, settings, history, checkpoint=SearchCheckpoint(folder, "search"), progress=progress
    )
    final[best], comparison = refine_whitened(
        scene, comparison, unknowns, final[best], settings, history, start=best, seed=problem.seed,
        checkpoint=SearchCheckpoint(folder, "whitened"), progress=progress,
    )  # fmt: skip
    return final, best, comparison


def _physical(problem: Problem, z: torch.Tensor) -> np.ndarray:
    """Physical values [S, K] of the optimiser's variables z [S, K]."""
    return problem.unknowns.physical_vector(z).double().cpu().numpy()
