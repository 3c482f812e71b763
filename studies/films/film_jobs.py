"""Scripted inversions: lists of numbers to be read from films of scenes, and the table of how well they are found.

Every job writes a film of the true scene, starts away from the truth, and finds the numbers again. What is finished is not done
again: the same command resumes where it was.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from risp_torch import (
    Inversion,
    OptimiseSettings,
    Quality,
    Scene,
    SearchStages,
    StateLoss,
    UserError,
    film,
    invert,
    load_scene,
    simulate_video,
    start,
    write_frames,
)
from risp_torch.files.report import format_table
from risp_torch.inversion import write_elements
from risp_torch.programs import number_parser, write_text
from risp_torch.risp import load_task
from ti_sim import Count

MAX_BOUND_FRACTION = 0.98  # of the upper bound, where a start would lie beyond it


@dataclass(frozen=True)
class Asked:
    """Largest allowed error of an estimate.

    Attributes:
        error: the largest one.
        relative: whether it is a part of the truth; else it has the unknown's unit.
    """

    error: float
    relative: bool = True


Numbers = Mapping[str, np.ndarray]  # name of an unknown -> its value


@dataclass(frozen=True)
class Measure:
    """A quantity that is compared with the truth in place of the unknowns themselves: an average, a field.

    Attributes:
        name: for the table.
        of: from the scene, which has the true numbers, and values of the unknowns to the numbers that are compared. The error is
            the root of the sum of their squared differences over that of their squares.
        asked: how near it has to come, as a part of the truth; None where it is only reported.
    """

    name: str
    of: Callable[[Scene, Numbers], np.ndarray]
    asked: float | None


Start = float | tuple[float, ...] | Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Job:
    """One film and its unknowns.

    Attributes:
        name: of the job.
        scene: what is filmed.
        unknowns: name of each number -> how near its estimate has to come; None where a measure says so.
        starts: of each start, what every unknown's truth is multiplied by, or a function of the truth.
        source: what the film is: "mp4" (H.264), "png" (frames without loss), or "states" (no film: the true states).
        truths: seed of drawn truths in [0.3, 1], None for the scene's own values.
        options: of the scene's make_scene.
        measures: what is compared in place of the unknowns.
        modes: whether the error in the modes that the film tells is reported.
        search: stages of the search, whose steps are gradient steps.
        priors: of unknowns (``invert``).
        iterations: gradient steps in place of the command's.
    """

    name: str
    scene: str
    unknowns: dict[str, Asked | None]
    starts: tuple[tuple[Start, ...], ...]
    source: str = "mp4"
    truths: int | None = None
    options: dict[str, Any] = field(default_factory=dict)
    measures: tuple[Measure, ...] = ()
    modes: bool = False
    search: SearchStages = field(default_factory=SearchStages)
    priors: dict[str, Any] = field(default_factory=dict)
    iterations: int | None = None


def run(job: Job, out: Path, *, crf: float, iterations: int) -> list[list[str]]:
    """Film and invert one job.

    Args:
        job: what is read.
        out: folder of the job.
        crf: quality of H.264 films.
        iterations: gradient steps.

    Returns:
        Rows of the table, one for the unknowns that are asked the same, for each measure and for the modes: job, source, largest
        error, error bar, what was asked, whether it is within, starts, seconds.
    """
    scene = load_scene(job.scene, **job.options)
    random = np.random.default_rng(job.truths)
    truth = {}
    for name in job.unknowns:
        if job.truths is not None:
            scene.set(name, random.uniform(0.3, 1.0))
        truth[name] = np.asarray(scene.parameters[name].value)
    starts = [
        {name: _start(scene, name, factor) for name, factor in zip(truth, factors, strict=True)} for factors in job.starts
    ]
    search = replace(job.search, steps=OptimiseSettings(iterations=job.iterations or iterations))
    options = {"starts": starts, "priors": job.priors, "search": search, "out": out / "run"}
    if job.source == "states":
        with torch.no_grad():
            loss = StateLoss(load_task(job.scene, scene).head, scene.rollout())
        result = invert(scene, None, list(truth), loss=loss, **options)
    else:
        result = invert(scene, _film(scene, job.source, out, crf), list(truth), **options)
    true_row = np.concatenate([np.ravel(value) for value in truth.values()])
    write_elements(
        out / "run" / "elements.png", scene, result.unknowns, {"truth": true_row, "estimate": result.final[result.best]}
    )
    converged = sum(status in ("best", "same minimum", "same loss") for status in result.status)
    ending = [f"{converged} of {len(starts)}", f"{result.seconds:.0f}"]
    rows = []
    for asked in dict.fromkeys(asked for asked in job.unknowns.values() if asked is not None):
        names = [name for name in truth if job.unknowns[name] == asked]
        worst, bar = _worst(result, truth, names, asked)
        unit = "of the truth" if asked.relative else scene.parameters[names[0]].unit
        rows.append([
            job.scene, job.name if len(names) > 1 else names[0], job.source, f"{worst:+.1e} {unit}", f"{bar:.0e}",
            f"{asked.error:.1e}", "yes" if abs(worst) <= asked.error else "NO", *ending,
        ])  # fmt: skip
    for measure in job.measures:
        error, bar = _measured(scene, result, truth, measure)
        rows.append([
            job.scene, f"{job.name}: {measure.name}", job.source, f"{error:.1e} of the truth", f"{bar:.0e}",
            "-" if measure.asked is None else f"{measure.asked:.1e}",
            "-" if measure.asked is None else "yes" if error <= measure.asked else "NO", *ending,
        ])  # fmt: skip
    if job.modes:
        count, error, bar = _in_modes(result, true_row)
        name = f"{job.name}: {count} modes of {len(true_row)}"
        rows.append([job.scene, name, job.source, f"{error:.1e} of the truth", f"{bar:.0e}", "-", "-", *ending])
    return rows


def main(jobs: Sequence[Job], arguments: Sequence[str] | None, *, title: str, name: str, about: str) -> int:
    """Run all jobs as a command.

    Args:
        jobs: what is read.
        arguments: of the command line, the process' own by default.
        title: of the table.
        name: of the table's file, and of the folder below runs/.
        about: the command in a sentence.

    Returns:
        0 if every error is within what was asked, 1 if not, 2 for wrong input.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--scenes", nargs="+", choices=sorted({job.scene for job in jobs}), help="default all")
    parser.add_argument("--jobs", nargs="+", choices=sorted({job.name for job in jobs}), help="default all")
    parser.add_argument("--crf", type=number_parser(Quality), default=18.0, help="quality of the films, H.264 (default 18)")
    parser.add_argument("--iterations", type=number_parser(Count), default=50, help="gradient steps (default 50)")
    parser.add_argument("--out", default=f"runs/{name}", help=f"folder (default runs/{name})")
    options = parser.parse_args(arguments)
    chosen = [
        job for job in jobs
        if (options.scenes is None or job.scene in options.scenes) and (options.jobs is None or job.name in options.jobs)
    ]  # fmt: skip
    out = Path(options.out)
    try:
        start(precision="f32")
        rows = []
        for job in chosen:
            folder = out / job.scene / job.name.replace(", ", "-").replace(" ", "-")
            folder.mkdir(parents=True, exist_ok=True)
            print(f"\n{job.scene}: {job.name}", flush=True)
            rows += run(job, folder, crf=options.crf, iterations=options.iterations)
    except UserError as error:
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        return 2
    headers = ["scene", "unknown", "from", "largest error", "error bar", "asked", "within", "starts that found it", "s"]
    table = format_table(rows, headers)
    write_text(
        out / f"{name}.md",
        f"# {title}\n\nFilms as H.264 at crf {options.crf:g} (mp4), as pictures without loss (png), or the true states in place "
        f"of a film; {options.iterations} gradient steps, then Gauss-Newton.\n\n```\n{table}\n```\n",
    )
    print(f"\n{table}\nwritten: {out}/{name}.md")
    return 0 if all(row[6] != "NO" for row in rows) else 1


def _start(scene: Scene, name: str, start: Start) -> np.ndarray:
    """A multiple of the truth, or what a function makes of it, within the parameter's bounds."""
    param = scene.parameters[name]
    truth = np.asarray(param.value)
    return np.minimum(start(truth) if callable(start) else truth * start, MAX_BOUND_FRACTION * np.asarray(param.high))


def _film(scene: Scene, source: str, out: Path, crf: float) -> Path:
    """The film of the scene with its own numbers, made where it is not there yet."""
    if source == "mp4":
        path = out / "target.mp4"
        return path if path.is_file() else simulate_video(scene, path, crf=crf)
    folder = out / "target"
    if not folder.is_dir():
        with torch.no_grad():
            pictures, _ = film(scene, {}, worlds=1, frames=scene.frames)
        write_frames(folder, pictures[0].cpu().numpy(), fps=1 / scene.frame_dt)
    return folder


def _worst(result: Inversion, truth: Numbers, names: Sequence[str], asked: Asked) -> tuple[float, float]:
    """The largest error of some unknowns, and the error bar (one standard deviation) of that estimate."""
    rows = []
    for name in names:
        size = truth[name] if asked.relative else 1.0
        # Error bars of numbers on a logarithmic scale are in decades.
        logarithmic = result.unknowns.params[name].scale == "log10"
        bar = result.sd[name] * (math.log(10) * result.values[name] if logarithmic else 1.0)
        rows.append(((result.values[name] - truth[name]) / size, bar / abs(size)))
    return max(rows, key=lambda row: abs(row[0]))


def _measured(scene: Scene, result: Inversion, truth: Numbers, measure: Measure) -> tuple[float, float]:
    """Error of a measure and its error bar (one standard deviation), both as parts of the truth."""
    unknowns = result.unknowns

    def at(scaled: np.ndarray) -> np.ndarray:
        row = unknowns.physical_values(scaled)
        values = {name: row[group].reshape(np.shape(truth[name])) for name, group in unknowns.groups.items()}
        return np.ravel(measure.of(scene, values))

    true, point = np.ravel(measure.of(scene, truth)), unknowns.scaled(result.final[result.best])
    steps = np.diag(1e-3 * unknowns.scaled_range())
    slopes = np.array([(at(point + step) - at(point - step)) / (2 * step.sum()) for step in steps])
    variance = np.einsum("ki,kl,li->", slopes, result.uncertainty.covariance, slopes)
    size = np.linalg.norm(true)
    return float(np.linalg.norm(at(point) - true) / size), float(np.sqrt(max(variance, 0.0)) / size)


def _in_modes(result: Inversion, true_row: np.ndarray) -> tuple[int, float, float]:
    """Number of identifiable modes, and error and error bar within these modes, both as fractions of the truth."""
    unknowns, bars = result.unknowns, result.uncertainty
    count = bars.observable_modes or 0
    modes, ranges = bars.modes[:, :count], unknowns.scaled_range()
    true, estimate = (modes.T @ (unknowns.scaled(row) / ranges) for row in (true_row, result.final[result.best]))
    size = np.linalg.norm(true)
    return count, float(np.linalg.norm(estimate - true) / size), float(np.linalg.norm(bars.mode_sd[:count]) / size)
