"""Figures 5 and 6: visuomotor control of soft bodies, by one picture of the goal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from risp_torch.files.report import figure_file
from studies.gradsim.cells import FAILED, Cell, run_cells
from studies.gradsim.control.runs import SHOWN, control_cell, pictures_of, scene_and_task
from studies.gradsim.pages import Page, digits, share
from studies.gradsim.presets import Preset
from studies.markdown import markdown


@dataclass(frozen=True)
class Study:
    """Goals and required error of a scene of figure 5.

    Attributes:
        runs: (goal, seed of the policy) of each run.
        asked: error that a run has to come down to, in parts of the size.
        within: steps that it may take; None for all.
    """

    runs: tuple[tuple[int, int], ...]
    asked: float
    within: int | None = None


STUDIES = {
    "walker": Study(tuple((0, seed) for seed in range(5)), asked=0.05, within=20),
    "gear": Study(tuple((goal, 0) for goal in range(6)), asked=0.05),
    "cloth_control": Study(tuple((goal, 0) for goal in range(5)), asked=0.03),
    "jellyfish": Study(tuple((0, seed) for seed in range(3)), asked=0.05),
}
TAUGHT = ("pixels", "state", "random policies")  # by what, in figure 5
COMPARED = ("pixels", "centre at each step", "centre at the end", "random policies")  # in figure 6
# Name of a part of figure 6 -> scene, goals, error that is asked in parts of the size.
PARTS = {"control-fem": ("gear", 6, 0.05), "control-cloth": ("cloth_control", 5, 0.03)}
TIMES = {"control-fem": 1, "control-cloth": 3}  # steps over those of the preset: figure 5's cloth arrives after 29 to 40
CELLS = (6, 32)  # along each side of a cloth: 72 to 2,048 triangles
_LINE = {
    "pixels": "tab:blue", "centre at each step": "tab:orange", "centre at the end": "tab:red", "random policies": "tab:gray",
}  # fmt: skip

Found = list[tuple[Mapping[str, Any], Mapping[str, Any]]]


def make(name: str, preset: Preset, folder: Path, *, jobs: int) -> Page:
    """The page of figure 5 or 6.

    Args:
        name: "figure-5" or "figure-6".
        preset: sizes.
        folder: of all results.
        jobs: processes at the same time.
    """
    cells = figure_5_cells(preset) if name == "figure-5" else figure_6_cells(preset)
    results = run_cells(cells, folder, jobs=jobs, title=name)
    runs = [(cell.given, result) for cell, result in zip(cells, results, strict=True) if FAILED not in result]
    failed = [result[FAILED] for result in results if FAILED in result]
    (folder / "control").mkdir(parents=True, exist_ok=True)
    picture = folder / "control" / f"{name}.png"
    if name == "figure-5":
        draw_strips(picture, runs)
        text = figure_5_text(name, runs)
    else:
        draw_convergence(picture, runs)
        text = figure_6_text(name, runs)
    text += f"\n{len(failed)} of {len(cells)} runs have no result{': ' + failed[0] if failed else ''}.\n"
    return Page(name, text, {"runs.png": picture})


def figure_5_cells(preset: Preset) -> list[Cell]:
    """A cell for each scene, run and way of teaching."""
    return [
        control_cell(
            f"control/{scene}-goal{goal}-seed{seed}-{way.replace(' ', '-')}", scene=scene, options=shortened(preset), way=way,
            goal=goal, seed=seed, steps=preset.control_steps,
        )
        for scene, study in STUDIES.items()
        for goal, seed in study.runs[: preset.control_runs]
        for way in TAUGHT
    ]  # fmt: skip


def figure_6_cells(preset: Preset) -> list[Cell]:
    """A cell for each part, goal and way of teaching."""
    return [
        control_cell(
            f"control-goals/{key}-{goal}-{way.replace(' ', '-')}", scene=scene, options=options_of(scene, goal, preset), way=way,
            goal=goal, seed=goal, steps=TIMES[key] * preset.goal_steps,
        )
        for key, (scene, goals, _) in PARTS.items()
        for goal in range(min(goals, preset.goals))
        for way in COMPARED
    ]  # fmt: skip


def options_of(scene: str, goal: int, preset: Preset) -> dict[str, Any]:
    """Options of a scene of figure 6: of a cloth, the cells along its sides, drawn."""
    if scene != "cloth_control":
        return shortened(preset)
    cells = int(np.random.default_rng([preset.seed, goal]).integers(CELLS[0], CELLS[1] + 1))
    return shortened(preset) | {"cells": [cells, cells]}


def shortened(preset: Preset) -> dict[str, Any]:
    """Options of a scene that the preset makes shorter."""
    return {} if preset.control_frames is None else {"frames": preset.control_frames}


def chosen(runs: Found, scene: str, way: str) -> list[Mapping[str, Any]]:
    """Results of a scene that one way taught."""
    return [result for arguments, result in runs if arguments["scene"] == scene and arguments["way"] == way]


def draw_strips(path: Path, runs: Found) -> None:
    """A row for the first run of each scene by pixels: target, and the motion from start to end."""
    by_scene = {arguments["scene"]: (arguments, result) for arguments, result in reversed(runs) if arguments["way"] == "pixels"}
    titles = ("target", *(f"{part:.0%} of the time" for part in np.linspace(0, 1, SHOWN)))
    with figure_file(path, 1.9 * len(titles), 1.95 * max(1, len(by_scene))) as figure:
        grid = figure.subplots(max(1, len(by_scene)), len(titles), squeeze=False)
        for row, (scene, (arguments, result)) in zip(grid, reversed(by_scene.items()), strict=False):
            for axes, picture in zip(row, pictures_of(scene, arguments["options"], result), strict=True):
                axes.imshow(np.clip(picture, 0, 1) ** (1 / 2.2), interpolation="nearest")
                axes.set(xticks=[], yticks=[])
                axes.spines[:].set_visible(False)
            row[0].set_ylabel(Path(scene).stem, fontsize=9)
        for axes, title in zip(grid[0], titles, strict=True):
            axes.set_title(title, fontsize=8, loc="center")


def figure_5_text(name: str, runs: Found) -> str:
    """The page of figure 5."""
    head = (
        "scene", "taught by", "start %", "kept, median %", "least %", "most %", "asked %", "reached", "after", "sizes upwards",
        "s a step",
    )  # fmt: skip
    return f"""# Figure 5: visuomotor control

A network (of the cloth, its velocity at the start) drives a soft body to where one picture shows it. "pixels" lowers the blurred
difference of the last frame from that picture, "state" the true distance, "random policies" nothing.

![runs](images/{name}-runs.png)

First run of each scene by pixels: the target, and the motion with the policy that is kept.

{markdown(head, [row for scene in STUDIES for row in study_rows(scene, runs)])}

Errors of the last frame in per cent of the body's size: of the first policy (median of the runs), and of the one that is kept (of
lowest loss; of random policies the best one). "After" counts steps to what is asked, the least and the most of the runs. The
paper's figure shows one motion for each of its tasks and says that the walker arrives within three iterations; it prints no
errors.
"""


def study_rows(scene: str, runs: Found) -> list[tuple[str, ...]]:
    """A row of figure 5's table for each way of teaching."""
    study, rows = STUDIES[scene], []
    for way in TAUGHT:
        results = chosen(runs, scene, way)
        if not results:
            continue
        percent = 100 * np.array([result["kept"] for result in results])
        counts = [first_within(result["errors"], study.asked, study.within) for result in results]
        after = [count for count in counts if count is not None]
        heights = [result["moved"][2] for result in results]
        rows.append(
            (
                Path(scene).stem, way, f"{100 * np.median([r['errors'][0] for r in results]):.1f}", f"{np.median(percent):.1f}",
                f"{percent.min():.1f}", f"{percent.max():.1f}", f"{100 * study.asked:g}", share(len(after), len(results)),
                f"{min(after)} to {max(after)}" if after else "-", f"{min(heights):.2f} to {max(heights):.2f}",
                f"{np.median([r['step_seconds'] for r in results]):.2f}",
            )
        )  # fmt: skip
    return rows


def first_within(errors: Sequence[float], threshold: float, within: int | None) -> int | None:
    """After how many steps errors come to what is asked first; None if not within so many steps."""
    last = len(errors) if within is None else within + 1
    reached = np.flatnonzero(np.array(errors[:last]) <= threshold)
    return int(reached[0]) if len(reached) else None


def draw_convergence(path: Path, runs: Found) -> None:
    """Errors over the steps for each way of teaching: mean of the goals, and a standard deviation to both sides."""
    with figure_file(path, 12.0, 4.2) as figure:
        panels = figure.subplots(1, len(PARTS), squeeze=False)[0]
        for axes, (label, (scene, _, threshold)) in zip(panels, PARTS.items(), strict=True):
            for way in COMPARED:
                results = chosen(runs, scene, way)
                curves = [100 * np.array(result["errors"]) for result in results]
                if not curves:
                    continue
                mean, spread = np.mean(curves, axis=0), np.std(curves, axis=0)
                steps = np.arange(len(mean))
                axes.plot(steps, mean, color=_LINE[way], linewidth=2.0, label=way)
                axes.fill_between(steps, mean - spread, mean + spread, color=_LINE[way], alpha=0.15, linewidth=0)
            axes.axhline(100 * threshold, color="black", linestyle=":", linewidth=1.0, label=f"{100 * threshold:g} %")
            axes.set(xlabel="step", ylabel="error of the last frame [% of the size]", ylim=(0, None))
            axes.set_title(label)
            axes.legend()


def figure_6_text(name: str, runs: Found) -> str:
    """The page of figure 6."""
    rows = [row for label in PARTS for row in part_rows(label, runs)]
    head = (
        "task", "taught by", "goals", "first policy %", "last step: mean %", "standard deviation", "kept: mean %", "most %",
        "reached", "s a step", "s a goal",
    )  # fmt: skip
    options = {arguments["goal"]: arguments["options"] for arguments, _ in runs}
    cloths = {goal: 2 * values["cells"][0] ** 2 for goal, values in options.items() if "cells" in values}
    steps = {arguments["steps"] for arguments, _ in runs}
    return f"""# Figure 6: convergence of visuomotor control

Soft gear (goals between 0 and 5 m ahead) and cloth (of {", ".join(f"{count:,}" for count in cloths.values())} triangles, velocity
at the start unknown), {" or ".join(map(str, sorted(steps)))} steps of Adam. Every goal has its own start of the search.

![runs](images/{name}-runs.png)

Mean over the goals and a standard deviation to both sides; of random policies the least error so far.

{markdown(head, rows)}

Errors are the scene's own, whatever teaches: of the gear the distance of the centres of mass at the last frame, of the cloth the
mean distance of its vertices, in per cent of the size (gear {_size("gear")} m, cloth {_size("cloth_control")} m). "Reached":
goals whose kept policy comes within 5 % (gear) or 3 % (cloth). "Pixels" sees one picture of the goal, the last frame's. "Centre
at each step" is the paper's 3D supervision: the mean square distance of the centre of mass from the goal over all frames;
"centre at the end" that of the last frame.

The paper's figure has the same three kinds of curves and no table: there 3D supervision takes the gear to its goal in the fewest
steps and one picture in more, and of the cloth the centre of mass does not tell the pose while one picture does.

{_verdict(runs)}
"""


def _size(scene: str) -> str:
    return digits(scene_and_task(scene, {})[1].size)


def part_rows(label: str, runs: Found) -> list[tuple[str, ...]]:
    """A row of figure 6's table for each way of teaching."""
    scene, _, threshold = PARTS[label]
    rows = []
    for way in COMPARED:
        results = chosen(runs, scene, way)
        if not results:
            continue
        first, last = (100 * np.array([result["errors"][k] for result in results]) for k in (0, -1))
        percent = 100 * np.array([result["kept"] for result in results])
        rows.append(
            (
                label, way, str(len(results)), f"{first.mean():.1f}", f"{last.mean():.1f}", f"{last.std():.1f}",
                f"{percent.mean():.1f}", f"{percent.max():.1f}", share(int((percent <= 100 * threshold).sum()), len(results)),
                f"{np.median([r['step_seconds'] for r in results]):.2f}", f"{np.median([r['seconds'] for r in results]):.0f}",
            )
        )  # fmt: skip
    return rows


def _verdict(runs: Found) -> str:
    """Who is nearer at the last step, by the numbers."""
    sentences = []
    for label, (scene, _, _) in PARTS.items():
        means = {}
        for way in COMPARED:
            final_errors = [100 * result["errors"][-1] for result in chosen(runs, scene, way)]
            if final_errors:
                means[way] = float(np.mean(final_errors))
        order = sorted(means, key=lambda way: means[way])
        final_errors = ", ".join(f"{way} {means[way]:.1f} %" for way in order)
        sentences.append(f"- {label} after the last step, mean of the goals: {final_errors}.")
    return "\n".join(sentences)
