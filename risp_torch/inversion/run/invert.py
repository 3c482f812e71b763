"""The inversion: starts, search, Gauss-Newton refinement, error bars, and the run folder."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from risp_torch.files.run_folder import RunFolder
from risp_torch.inversion.diagnostics.alternative_minima import best_observed
from risp_torch.inversion.diagnostics.observability import verdict_before_search
from risp_torch.inversion.losses.loss import Loss
from risp_torch.inversion.problem.films.target import Video
from risp_torch.inversion.problem.priors import PriorsGiven
from risp_torch.inversion.problem.problem import Problem
from risp_torch.inversion.problem.search_stages import Search, SearchStages
from risp_torch.inversion.problem.unknowns import Bounds, UnknownNames
from risp_torch.inversion.report.result import Inversion, remarks_on, status_of_starts
from risp_torch.inversion.report.write_report import write_report
from risp_torch.inversion.run.assessment import assess
from risp_torch.inversion.run.loss_sequence import best_of_run, refinement_settings, split_losses
from risp_torch.inversion.solvers.search import SearchResult, search_from
from risp_torch.inversion.start.find_start import check_start, found_starts
from risp_torch.inversion.uncertainty.unobservable import far_from_priors
from risp_torch.scene.scene import Scene
from ti_sim.base.rules import Count, Seed, checked


@checked
def invert(
    scene: Scene,
    video: Video | Sequence[Video] | None,
    unknown: UnknownNames,
    *,
    loss: Loss | Sequence[Loss] | None = None,
    sampling: str = "all",
    bounds: Bounds | None = None,
    priors: PriorsGiven | None = None,
    starts: Count | list[Mapping[str, Any]] | tuple[Mapping[str, Any], ...] = 4,
    search: Search | None = None,
    seed: Seed = 0,
    out: str | Path | None = None,
    progress: bool = True,
) -> Inversion:
    """Estimate unknown parameters of a scene from a film.

    Levenberg-Marquardt searches and error bars use finite-difference Jacobians, computed in batches of worlds. Gradient searches
    (``OptimiseSettings``), the default beyond 40 unknowns, use the adjoints of simulation and rendering.

    Args:
        scene: the scene; its own values of the unknowns are not used. For several films, the ``Films`` of a scene, with their
            cameras and the parameters that differ between them.
        video: an .mp4, a folder of PNG frames, or linear frames [T, H, W, 3]; None for a loss that needs no film. Several films,
            in a list, are inverted together.
        unknown: parameter names with bounds; and rendering parameters (``RenderingParameters``, or "psi" for ``default_psi``).
        loss: the loss, ``PixelLoss()`` by default. Several, in a list, follow each other: each but the first starts where the
            best start of the one before it ended, with its usual search from the whole film.
        sampling: compared frames: "all", "last", "first+last", "first+middle" or "every:K".
        bounds: name -> (low, high) of unknowns, in place of those in the scene.
        priors: name -> standard deviation in the unknown's unit, or a tuple (mean, standard deviation); the mean is the scene's
            value by default, and "5%" stands for 5 percent of the mean. Normal, of the logarithm for log10 (sd / (mean ln 10)
            decades). An unknown with a prior and without bounds gets those at five standard deviations. ``SmoothnessPrior`` for
            unknowns with a value per element of a solid or sheet.
        starts: number of guesses spread over the allowed ranges (``Unknowns.starts``), or the guesses (name -> value; parameters
            missing in a guess have the scene's value).
        search: the steps of the first search, such as ``NewtonSteps(first_frames=6)``, or all of its stages
            (``SearchStages``); ``usual_search`` by default.
        seed: seed of the starts.
        out: folder for settings, result, plots, strip and video; an unfinished run in it is resumed.
            Runs of losses before the last one are in its folders "1-risp" and so on.
        progress: whether to show progress bars.

    Returns:
        Estimates with error bars (NaN beyond ``SearchStages.linearise_up_to``).

    Raises:
        UserError: a name, start, video, loss or prior is invalid, or pycma is not installed.
        DivergenceError: no start could be simulated.
    """
    common_arguments: dict[str, Any] = {"sampling": sampling, "bounds": bounds, "priors": priors, "seed": seed}
    search = SearchStages.of(search)
    earlier_losses, loss = split_losses(loss)
    for number, (current_loss, next_loss) in enumerate(pairwise([*earlier_losses, loss]), start=1):
        phase_folder = None if out is None else Path(out) / f"{number}-{current_loss.kind}"
        problem = Problem.of(
            scene, video, unknown, loss=current_loss, starts=starts, search=search, is_intermediate=True, **common_arguments
        )
        starts = best_of_run(partial(_run, problem, phase_folder, sampling, progress=progress), phase_folder)
        steps = refinement_settings(next_loss, starts[0], frames=scene.frames)
        search = replace(search, steps=steps, find_start=None, warm_start=None)
    problem = Problem.of(scene, video, unknown, loss=loss, starts=starts, search=search, **common_arguments)
    return _run(problem, out, sampling, progress=progress)


def _run(problem: Problem, out: str | Path | None, sampling: str, *, progress: bool) -> Inversion:
    """The inversion of one loss: search, error bars, and the report in the folder ``out``, if given."""
    start_time = time.perf_counter()
    check_start(problem)
    folder = None if out is None else RunFolder.open_or_create(out, problem.to_json(sampling))
    if progress and (verdict := verdict_before_search(problem)) is not None:
        tqdm.write(f"before the search: {verdict}", file=sys.stderr)
    initial = found_starts(problem, folder=folder, progress=progress)
    z = problem.unknowns.unbounded(initial)
    search_result = search_from(problem, z, folder=folder, progress=progress)
    if progress:
        tqdm.write("error bars, plots and videos ...", file=sys.stderr)
    result = _result(problem, initial, search_result, start_time, folder)
    if folder is not None:
        write_report(problem.scene, problem.pictures, result, folder, seed=problem.seed, loss=problem.loss)
    return result


def _result(
    problem: Problem, initial: np.ndarray, search: SearchResult, start_time: float, folder: RunFolder | None
) -> Inversion:
    """The result of the search from the starts [S, K], with error bars unless there are too many unknowns."""
    search, choice_remarks = best_observed(problem, search) if problem.is_linearised else (search, [])
    unknowns, best = search.unknowns, search.best
    relative_ends = unknowns.scaled(search.final) / unknowns.scaled_range()
    assessment = assess(problem, search)
    status = status_of_starts(search.losses, best, search.history.stopped, relative_ends, assessment.excess)
    remarks = remarks_on(unknowns, search.final[best], status) + far_from_priors(search.final[best], unknowns) + choice_remarks
    if not problem.is_linearised:
        count, max_unknowns = len(unknowns.labels), problem.max_linearised
        remarks.insert(0, f"{count} unknowns: no Gauss-Newton steps, no error bars (linearise_up_to is {max_unknowns})")
    return Inversion(
        unknowns=unknowns,
        values=dict(zip(unknowns.labels, search.final[best].tolist(), strict=True)),
        sd=dict(zip(unknowns.labels, assessment.bars.sd.tolist(), strict=True)),
        uncertainty=assessment.bars, initial=initial, final=search.final, losses=search.losses, status=status, best=best,
        converged=assessment.converged, misfit=assessment.misfit, doubts=assessment.doubts, history=search.history,
        remarks=remarks, seconds=time.perf_counter() - start_time, folder=folder.path if folder else None,
        residual=assessment.residual, misspecifications=assessment.misspecifications,
        block_variance_ratio=assessment.block_variance_ratio, assumptions=assessment.assumptions,
    )  # fmt: skip
