"""Soft bodies driven to goals: from a picture, from the true state, and by random policies, side by side.

Every run has a folder of its own; what is finished is not done again, and a killed run goes on where it was. The table, the
curves and a video for each scene come out of the results of all runs.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from risp_torch import Scene, UserError, load_scene, start
from risp_torch.control import OBJECTIVES, ControlTask, control, load_control, settings_of
from risp_torch.files.report import format_table, plot_curves
from risp_torch.programs import first_difference, number, plain, write_text
from ti_sim import Count

from .exit_status import exit_status

ERROR = "error [parts of the size]"


@dataclass(frozen=True)
class Study:
    """What is asked of a scene.

    Attributes:
        runs: (goal, seed of the policy) of each run.
        asked: error that a run has to come down to, in parts of the size.
        within: iterations that it may take; None for all.
        up: whether the table says how far the body has come upwards.
    """

    runs: tuple[tuple[int, int], ...]
    asked: float
    within: int | None = None
    up: bool = False


STUDIES = {
    "gear": Study(tuple((goal, 0) for goal in range(6)), asked=0.05),
    "walker": Study(tuple((0, seed) for seed in range(5)), asked=0.05, within=20),
    "jellyfish": Study(tuple((0, seed) for seed in range(3)), asked=0.05, up=True),
    "cloth_control": Study(tuple((goal, 0) for goal in range(5)), asked=0.03),
}


def run_scene(name: str, study: Study, objectives: Sequence[str], out: Path, *, plan: str) -> list[list[Any]]:
    """All runs of a scene, its curves and its video.

    Args:
        name: of the scene.
        study: what is asked.
        objectives: that are compared.
        out: folder of all scenes.
        plan: of the solver.

    Returns:
        A row of the table for each objective.
    """
    scene = load_scene(name)
    scene.stepping = replace(scene.stepping, plan=plan)
    task = load_control(name, scene)
    results = {
        objective: [one_run(scene, task, objective, goal, seed, out / name) for goal, seed in study.runs]
        for objective in objectives
    }
    plot_curves(
        out / f"{name}.png", {ERROR: {kind: np.array([curve(r) for r in runs]) for kind, runs in results.items()}},
        levels={ERROR: (f"asked: {study.asked:g}", study.asked)}, title=f"{name}, {len(study.runs)} runs: median and span",
    )  # fmt: skip
    shown = "image" if "image" in results else objectives[0]
    middle = int(np.argsort([result["error"] for result in results[shown]])[len(study.runs) // 2])
    folder = run_path(out / name, shown, *study.runs[middle])
    for file in ("comparison.mp4", "strip.png"):
        if (folder / file).is_file():
            shutil.copyfile(folder / file, out / f"{name}-{file}")
    return [row(scene, task, study, objective, runs) for objective, runs in results.items()]


def one_run(scene: Scene, task: ControlTask, objective: str, goal: int, seed: int, out: Path) -> dict[str, Any]:
    """The result of a run, which is done if it is not there yet.

    Raises:
        UserError: a run that is there has other settings.
    """
    path = run_path(out, objective, goal, seed)
    if not (path / "result.json").is_file():
        print(f"\n{scene.name}: {objective}, goal {goal}, seed {seed}", flush=True)
        control(scene, task, objective=objective, seed=seed, goal=goal, out=path)
    result = json.loads((path / "result.json").read_text(encoding="utf-8"))
    wanted = plain(settings_of(scene, task)) | {"iterations": task.iterations}
    there = {name: result["settings"].get(name) for name in wanted}
    difference = first_difference(there, wanted)
    if difference is not None:
        raise UserError(f"the run in {path} has other settings ({difference}): remove it, or choose another folder")
    return result


def run_path(out: Path, objective: str, goal: int, seed: int) -> Path:
    """Folder of a run."""
    return out / f"{objective}-goal{goal}-seed{seed}"


def curve(result: dict[str, Any]) -> np.ndarray:
    """Error over the iterations; of random policies the least so far."""
    errors = np.array(result["errors"], dtype=np.float64)
    return np.fmin.accumulate(errors) if result["objective"] == "random" else errors


def row(scene: Scene, task: ControlTask, study: Study, objective: str, results: Sequence[dict[str, Any]]) -> list[Any]:
    """One objective of a scene: errors that are kept, and when what is asked was reached first."""
    errors = 100 * np.array([result["error"] for result in results])
    begin = 100 * np.median([result["errors"][0] for result in results])
    last = study.within if study.within is not None else task.iterations
    steps = [np.flatnonzero(curve(result)[: last + 1] <= study.asked) for result in results]
    reached = [int(found[0]) for found in steps if len(found)]
    seconds = min(min(result["iteration_seconds"][:-1]) for result in results)
    cells = [
        scene.name, objective, f"{begin:.1f}", f"{np.median(errors):.1f}", f"{errors.min():.1f}", f"{errors.max():.1f}",
        f"{100 * study.asked:g}", f"{len(reached)} of {len(results)}",
        f"{min(reached)} to {max(reached)}" if reached else "-", f"{seconds:.2f}",
    ]  # fmt: skip
    heights = [result["moved"][2] / task.size for result in results]
    return [*cells, f"{min(heights):.2f} to {max(heights):.2f}" if study.up else ""]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study: 0 where every image run comes to what is asked, 1 if not, 2 for wrong input, 3 for a divergence."""
    parser = argparse.ArgumentParser(prog="python -m scenes.studies.control_study", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scenes", nargs="+", choices=STUDIES, default=list(STUDIES), help="default all")
    parser.add_argument("--objectives", nargs="+", choices=OBJECTIVES, default=list(OBJECTIVES), help="default all")
    parser.add_argument("--runs", type=number(Count), default=None, help="only so many runs of each scene and objective")
    parser.add_argument(
        "--plan", choices=("auto", "world", "element"), default="auto",
        help="of the solver: world needs one core a run, so that several studies can share a machine (default auto)",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, default=Path("runs/control"), help="folder (default runs/control)")
    options = parser.parse_args(arguments)
    return exit_status(parser.prog, lambda: run(options))


def run(options: argparse.Namespace) -> int:
    """All scenes, and their table: 0 where every image run comes to what is asked, 1 if not."""
    start(precision="f32")
    rows = []
    for name in options.scenes:
        study = replace(STUDIES[name], runs=STUDIES[name].runs[: options.runs])
        rows += run_scene(name, study, options.objectives, options.out, plan=options.plan)
    headers = [
        "scene", "objective", "start %", "median %", "least %", "most %", "asked %", "reached", "after", "s/iteration",
        "sizes upwards",
    ]  # fmt: skip
    table = format_table(rows, headers)
    write_text(
        options.out / "control.md",
        "# Soft bodies driven to goals\n\nErrors of the policy that is kept (of lowest loss; of random policies the best one), "
        "in percent of the body's size; \"after\": iterations to what is asked, least and most of the runs that came there.\n\n"
        f"```\n{table}\n```\n",
    )
    print(f"\n{table}\nwritten: {options.out}/control.md")
    asked = [cells for cells in rows if cells[1] == "image"]
    return 0 if all(cells[7].split(" of ")[0] == cells[7].split(" of ")[1] for cells in asked) else 1


if __name__ == "__main__":
    sys.exit(main())
