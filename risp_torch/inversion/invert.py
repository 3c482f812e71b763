"""The whole inversion: starts, search, Gauss-Newton refinement, error bars, and the folder that holds them."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from risp_torch.files.run_folder import RunFolder
from risp_torch.inversion.error_bars import Judgement, judge
from risp_torch.inversion.losses.loss import Loss
from risp_torch.inversion.newton_steps import NewtonSteps
from risp_torch.inversion.optimise import OptimiseSettings
from risp_torch.inversion.problem import Problem
from risp_torch.inversion.report import write_report
from risp_torch.inversion.result import Inversion, remarks_on, status_of_starts
from risp_torch.inversion.search import Ends, search_from
from risp_torch.inversion.smoothness import Weights
from risp_torch.inversion.target import Video
from risp_torch.inversion.uncertainty import without_error_bars
from risp_torch.inversion.unknowns import Bounds
from risp_torch.inversion.warm_start import CmaSettings
from risp_torch.inversion.wide_settings import WideSteps
from risp_torch.risp.psi import RenderingParameters
from risp_torch.scene.scene import Scene
from ti_sim.base.rules import Count, FromZero, Seed, checked
from ti_sim.rollout.adjoint import Adjoint


@checked
def invert(
    scene: Scene,
    video: Video | Sequence[Video] | None,
    unknown: Sequence[str],
    *,
    cameras: Sequence[str] = (),
    per_film: Sequence[str] = (),
    loss: Loss | None = None,
    sampling: str = "all",
    bounds: Bounds | None = None,
    psi: RenderingParameters | None = None,
    smooth: Weights | None = None,
    starts: Count | list[Mapping[str, Any]] | tuple[Mapping[str, Any], ...] = 4,
    settings: NewtonSteps | OptimiseSettings | WideSteps | None = None,
    warm_start: CmaSettings | None = None,
    refine: FromZero = 15,
    linearise_up_to: Count | None = None,
    adjoint: Adjoint | None = None,
    seed: Seed = 0,
    out: str | Path | None = None,
    progress: bool = True,
) -> Inversion:
    """Find the unknown numbers of a scene from a film of it.

    Args:
        scene: the scene, or several films of one (``Films``); its own values of the unknowns are not used.
        video: an .mp4, a folder of PNG frames, or linear frames [T, H, W, 3]; None for a loss that needs no film. Several films,
            in a list, are searched together.
        unknown: parameter names with bounds, and "psi" for all rendering parameters together.
        cameras: names of the cameras of several films, one for each; the scene's first camera filmed all where none is named.
        per_film: of several films, parameters that each has of its own, such as velocities at the start. Unknown or known, that
            of the second film is called "body.velocity@2", in bounds and results, too; all other numbers are shared.
        loss: what films are compared by, ``PixelLoss()`` by default.
        sampling: frames that count: "all", "last", "first+last", "first+middle" or "every:K".
        bounds: name -> (low, high) of unknowns that have none in the scene, or others.
        psi: what the unknown "psi" stands for, the scene's usual appearances by default.
        smooth: name -> weight, of unknowns with a number for each element of a solid or sheet: what is added to the loss is the
            weight times the mean over elements that share a face (triangles: an edge) of the squared difference of their scaled
            values (decades for log10).
        starts: how many guesses spread over the allowed ranges, or the guesses themselves (name -> value; what a guess leaves out
            has the scene's value).
        settings: of the search; by default ``usual_search``. Wide steps take no checkpoints: a killed run makes them again.
        warm_start: a search without gradients from every start, at whose ends the search begins.
        refine: Gauss-Newton steps after the search, taken while they lower the loss; none after wide steps on a rough loss, whose
            dents would catch them.
        linearise_up_to: number of unknowns up to which there are Gauss-Newton steps and error bars, each of which takes two films
            for every unknown; 40 by default, and 400 for losses that need no film.
        adjoint: how rollouts keep states.
        seed: of the starts' pairing.
        out: folder for settings, result, plots, strip and video; an unfinished run in it goes on where it was killed.
        progress: whether bars are shown.

    Returns:
        Estimates with error bars (NaN beyond ``linearise_up_to``).

    Raises:
        UserError: a name, start, video, loss or smoothness is not usable, or pycma is missing.
        DivergenceError: no start could be simulated.
    """
    began = time.perf_counter()
    problem = Problem.of(
        scene, video, unknown, cameras=cameras, per_film=per_film, loss=loss, sampling=sampling, bounds=bounds, psi=psi,
        smooth=smooth, starts=starts, settings=settings, warm_start=warm_start, refine=refine,
        linearise_up_to=linearise_up_to, seed=seed,
    )  # fmt: skip
    z = problem.unknowns.unbounded(problem.initial)
    folder = None if out is None else RunFolder.open_or_create(out, problem.to_json(sampling))
    ends = search_from(problem, z, folder=folder, adjoint=adjoint, progress=progress)
    if progress:
        tqdm.write("error bars, plots and videos ...", file=sys.stderr)
    result = _result(problem, ends, began, folder)
    if folder is not None:
        pictures = problem.loss.pictures(problem.scene) if problem.pictures is None else problem.pictures
        write_report(problem.scene, pictures, result, folder, seed=seed, loss=problem.loss)
    return result


def _result(problem: Problem, ends: Ends, began: float, folder: RunFolder | None) -> Inversion:
    """What the starts' ends say, with error bars where there are not too many unknowns for them."""
    unknowns, best = problem.unknowns, ends.best
    status = status_of_starts(ends.losses, best, ends.history.stopped)
    judged = judge(problem, ends) if problem.linear else Judgement(without_error_bars(len(unknowns.labels)), None, [])
    remarks = remarks_on(unknowns, ends.final[best], status)
    if not problem.linear:
        count, most = len(unknowns.labels), problem.most_linearised
        remarks.insert(0, f"{count} unknowns: no Gauss-Newton steps, no error bars (--linearise-up-to is {most})")
    arrived = not any(sentence.startswith("not converged") for sentence in judged.doubts)
    return Inversion(
        unknowns=unknowns,
        values=dict(zip(unknowns.labels, ends.final[best].tolist(), strict=True)),
        sd=dict(zip(unknowns.labels, judged.bars.sd.tolist(), strict=True)),
        uncertainty=judged.bars, initial=problem.initial, final=ends.final, losses=ends.losses, status=status, best=best,
        converged=arrived if problem.linear else None,
        misfit=judged.misfit, doubts=judged.doubts, history=ends.history, remarks=remarks,
        seconds=time.perf_counter() - began, folder=folder.path if folder else None,
    )  # fmt: skip
