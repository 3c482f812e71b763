"""The search of a trial: wide or gradient steps from the first guesses, then Gauss-Newton rounds if the loss is smooth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from risp_torch import CmaSettings, WideSteps
from risp_torch.files.search_checkpoint import SearchCheckpoint
from risp_torch.inversion import Comparison, Unknowns, film_losses
from risp_torch.inversion.problem.smoothness import Smoothness
from risp_torch.inversion.solvers.cma_es import cma_es_search
from risp_torch.inversion.solvers.gradient_descent import History, descend
from risp_torch.inversion.solvers.refinement import refined
from risp_torch.inversion.solvers.registration.rounds import needs_registration, registered
from risp_torch.inversion.solvers.wide_steps import refine_whitened, wide_gauss_newton
from studies.risp.trials.paper_search import paper_unknowns
from ti_sim import DivergenceError

if TYPE_CHECKING:
    from risp_torch import OptimiseSettings, Scene
    from risp_torch.programs import RunFolder
    from studies.risp.trials.trial import Trial, Values

NARROWER, KNOT_ROUNDS = 0.2, 3  # of the widths of a search's last rounds, and their number, for one that continues
LAST_ROUNDS = 5  # times the rounds of a search from guesses, for one that continues from an estimate


@dataclass(frozen=True)
class Found:
    """Result of a search.

    Attributes:
        values: name -> estimate.
        loss: at the estimate, over the whole film, without the penalty.
        iterations: number of gradient steps and Gauss-Newton rounds.
        comparison: the comparison of the loss, or None.
    """

    values: dict[str, np.ndarray]
    loss: float
    iterations: int
    comparison: Comparison | None = None


def search(
    scene: Scene, comparison: Comparison, trial: Trial, guesses: Sequence[Values], settings: OptimiseSettings | WideSteps,
    *, refine: int, begin: Values | None = None, paper: bool = False, warm: CmaSettings | None = None, seed: int = 0,
    folder: RunFolder | None = None, progress: bool = True,
) -> Found:  # fmt: skip
    """Estimate the unknowns of a trial.

    Args:
        scene: the scene, with the random initial state if there is one.
        comparison: loss and target.
        trial: the trial.
        guesses: the first guesses; the one with the lowest final loss is used.
        settings: settings of the wide or the gradient steps.
        refine: largest number of Gauss-Newton rounds with narrow differences; none if the loss is locally non-smooth.
        begin: an estimate from which the search continues, in place of other steps from the guesses: by rounds of registration
            (``registered``) where these suit, otherwise by Gauss-Newton rounds, first with the loss of the search
            (``Loss.coarse``), then, ``LAST_ROUNDS`` times as many, with its own.
        paper: whether the unknowns are optimised as in the paper (``paper_unknowns``), without a penalty on changes of actions.
        warm: settings of a gradient-free search from every guess, before the other steps.
        seed: seed of its candidates.
        folder: folder in which the search is saved, and from which a killed one is resumed.
        progress: whether to show progress bars.

    Raises:
        UserError: pycma is not installed.
        DivergenceError: no guess could be simulated.
    """
    unknowns, wider = Unknowns.of(scene, trial.unknowns), comparison.coarse()
    rows = np.array([trial.row(guess) for guess in guesses])
    if paper:
        unknowns = paper_unknowns(unknowns, trial.measure)
    else:
        unknowns = penalised(scene, comparison, unknowns, rows[0], trial.smooth)
    z, history = unknowns.unbounded(rows), History()
    if begin is not None:
        ends = trial.row(begin)[None]
        if needs_registration(comparison, unknowns):
            ends = registered(scene, comparison, unknowns, ends, history, progress=progress)
            return _best_of(scene, comparison, trial, unknowns, ends, 0, history, progress=progress)
        for part in (wider, comparison) if isinstance(settings, WideSteps) and settings.spacing > 1 else ():
            ends, _ = wide_gauss_newton(
                scene, part, unknowns, ends, _narrower(settings), history, refining=True, progress=progress
            )
        ends, _ = refined(scene, wider, unknowns, ends, refine, history, thorough=False, progress=progress)
        return _best_of(scene, comparison, trial, unknowns, ends, LAST_ROUNDS * refine, history, progress=progress)
    if warm is not None and (folder is None or folder.load_checkpoint() is None):
        z, history = cma_es_search(scene, wider, unknowns, z, warm, seed=seed, progress=progress)
    if isinstance(settings, WideSteps):
        begin = unknowns.physical_vector(z).double().cpu().numpy()
        ends, best = wide_gauss_newton(scene, wider, unknowns, begin, settings, history, progress=progress)
        settled, comparison = refine_whitened(
            scene, comparison, unknowns, ends[best], settings, history, start=best, seed=seed, progress=progress
        )
        ends, history.stopped = settled[None], []
    else:
        checkpoint = SearchCheckpoint(folder, "search")
        z, history = descend(scene, wider, unknowns, z, settings, checkpoint=checkpoint, history=history, progress=progress)
        ends = unknowns.physical_vector(z).double().cpu().numpy()
    rounds = 0 if comparison.loss.non_smooth else refine
    return _best_of(scene, comparison, trial, unknowns, ends, rounds, history, progress=progress)


def _narrower(settings: WideSteps) -> WideSteps:
    """Rounds for a sequence that is nearly known, still from knot to knot, which takes far fewer films than single rows."""
    widths = tuple(NARROWER * width for width in settings.widths[-KNOT_ROUNDS:])
    return replace(
        settings, widths=widths, trial_rounds=1, settling_rounds=0, settling_residual_ratio=None, whiten=False, first_frames=None
    )


def _best_of(
    scene: Scene, comparison: Comparison, trial: Trial, unknowns: Unknowns, estimates: np.ndarray, rounds: int, history: History,
    *, progress: bool,
) -> Found:  # fmt: skip
    """The end [S, K] of the lowest loss after Gauss-Newton rounds."""
    estimates, losses = refined(scene, comparison, unknowns, estimates, rounds, history, thorough=False, progress=progress)
    if not np.isfinite(losses).any():
        raise DivergenceError("every start of the search diverged: take smaller steps (more substeps)", body="", step=0)
    best = estimates[int(np.argmin(losses))]
    values = {name: best[group].reshape(np.shape(unknowns.params[name].value)) for name, group in unknowns.groups.items()}
    return Found(values, _loss(scene, comparison, unknowns, best), len(history.losses), comparison)


def penalised(scene: Scene, comparison: Comparison, unknowns: Unknowns, first: np.ndarray, weight: float) -> Unknowns:
    """The unknowns with a penalty on changes of sequences from frame to frame.

    Otherwise errors of the loss in single frames affect the actions of these frames. The penalty is the weight times the
    loss at the first guess times the mean squared change from one frame to the next, relative to the allowed range, so one
    weight suits losses of any size.

    Args:
        scene, comparison: those of the search.
        unknowns: those with a row for each frame get the penalty.
        first: [K] the first guess.
        weight: weight of the trial, 0 for none.
    """
    if weight == 0:
        return unknowns
    scale = weight * _loss(scene, comparison, unknowns, first)
    ranges, pairs, weights, by_name = unknowns.scaled_range(), [], [], {}
    for name, group in unknowns.groups.items():
        shape = np.shape(unknowns.params[name].value)
        if not shape:
            continue
        numbers = np.arange(group.start, group.stop).reshape(shape)
        adjacent = np.stack([numbers[1:].ravel(), numbers[:-1].ravel()], axis=1)
        pairs.append(adjacent)
        weights.append(scale / (len(adjacent) * ranges[adjacent[:, 0]] ** 2))
        by_name[name] = weight
    if not pairs:
        return unknowns
    return replace(unknowns, smoothness=Smoothness(np.concatenate(pairs), np.concatenate(weights), by_name))


def _loss(scene: Scene, comparison: Comparison, unknowns: Unknowns, physical: np.ndarray) -> float:
    """Loss at a point [K], without the penalty."""
    row = torch.as_tensor(unknowns.scaled(physical)[None]).to(comparison.target)
    return float(film_losses(scene, unknowns.from_scaled(row), comparison, worlds=1)[0])
