"""Figures 4, 11 and 12: loss landscapes of masses and elastic constants, and what a black box sees instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from risp_torch import film
from risp_torch.files.report import figure_file, write_film_strip
from studies.gradsim.cells import Cell, run_cells, without_failures
from studies.gradsim.landscapes.cells import DEEP, FACTOR, Facts, rigid_losses, sampled_loss, soft_losses
from studies.gradsim.landscapes.films import LAME, rigid_scene, soft_scene
from studies.gradsim.landscapes.lengths import lengths_page
from studies.gradsim.landscapes.maps import maps_page
from studies.gradsim.landscapes.minima import normalised
from studies.gradsim.landscapes.pages import (
    COLUMNS,
    PAPER_FRAMES,
    RIGID,
    SAMPLINGS,
    SOFT,
    WHERE,
    black_boxes,
    convergence,
    cubes,
    fact_cells,
    image_lines,
    mark,
    reward_of,
)
from studies.gradsim.landscapes.surrogate import standardised, surrogate
from studies.gradsim.pages import Page, digits, share
from studies.gradsim.presets import Preset
from studies.markdown import markdown

SHOWN = (0.5, 2.0)  # centres of the black box's samples in the figure, kg a vertex
QUARTER = "first quarter of the film"

Landscapes = list[tuple[str, str, Facts]]  # film and number, frames that are compared, what the landscape is like


def make(name: str, preset: Preset, folder: Path, *, jobs: int) -> Page:
    """Make a figure's page.

    Args:
        name: "figure-4", "figure-11" or "figure-12".
        preset: sizes.
        folder: of all results.
        jobs: processes.

    Returns:
        The page.
    """
    (folder / "pictures").mkdir(parents=True, exist_ok=True)
    pages = {"figure-4": _masses_page, "figure-11": maps_page, "figure-12": lengths_page}
    return pages[name](name, preset, folder, jobs=jobs)


def _masses_page(name: str, preset: Preset, folder: Path, *, jobs: int) -> Page:
    rigid = cubes(preset, folder, jobs=jobs, title=name)
    tosses = run_cells(_tosses(preset), folder, jobs=jobs, title=f"{name}: tosses")
    done = without_failures(tosses)
    cuts = _cuts(preset, folder, jobs, name)
    boxes = black_boxes(preset, folder, jobs=jobs, title=f"{name}: black box")
    pictures = _strips(folder / "pictures", preset) | {
        "mass.png": _mass_figure(folder / "pictures" / "mass.png", rigid),
        "lame.png": _cuts_figure(folder / "pictures" / "lame.png", cuts),
    }
    selection = _shown(rigid, cuts)
    rows = [[film_and_number, SAMPLINGS[sampling], *fact_cells(facts)] for film_and_number, sampling, facts in selection]
    of_tosses = [
        (f"toss {index}", sampling, Facts.of(result["ratio"], sampled_loss(result["losses"], sampling)))
        for index, result in enumerate(done) for sampling in SAMPLINGS
    ]  # fmt: skip
    every = selection + of_tosses
    heads = [
        "compared", "one minimum", f"one deeper than {DEEP:.0%}", "median width of the fall to the truth [decades]",
        "median normalised curvature",
    ]  # fmt: skip
    text = f"""# Figure 4: loss landscapes

gradSim's figure 4 shows the mean squared error of all pixels against the mass of a cube of 1 kg a vertex (.1 to 5 kg, known
force), over the film and over its first and last frame, and against Lame's constants of a deformable solid about 1000. The paper
gives no numbers. It says that the landscapes are smooth with one minimum, that the first and last frame give the best gradients,
and that REINFORCE on a black box has several minima and a narrow region of convergence.

## Here

Pictures of {preset.size} pixels without loss. The cube's masses are {preset.points} from .1 to 5 times the truth, all other
numbers as many from 1/{FACTOR:g} to {FACTOR:g} times on a logarithmic scale. Of the cube in flight the first {PAPER_FRAMES}
frames count, as in the paper; all other films have real gravity, and all but the beam's have contact. Minima are counted on the
grid, its ends included, down to rounding; those that are deeper than {DEEP:.0%} of the landscape's span are counted again.
Between three points of which the middle one is the lowest there is a minimum: finer grids find no fewer. "Curvature" is the
second derivative by the natural logarithm of the number, at the truth; "normalised" and the slopes (by the logarithm, at half
and twice the truth) are those of the loss over its largest value.

{markdown(["film and number", "compared", *COLUMNS], rows)}

![Mass](images/{name}-mass.png)

![Lame's constants](images/{name}-lame.png)

## Random tosses

{len(done)} tosses of seed {preset.seed} (`tosses.py`), the density over a factor of {FACTOR:g} either way, that is
{digits(2 * np.log10(FACTOR))} decades ({len(tosses) - len(done)} failed):

{markdown(heads, _toss_rows(done))}

In the first quarter (half a second) bodies have been pushed and fall, or have just landed. That is why the usual search of this
engine begins with a sixth of the film.

## The paper's statements

{_one_minimum(every)}

{_best_frames(every)}

"A very narrow region of convergence" of REINFORCE {_narrow(boxes)}. {convergence("flight", rigid["flight"], boxes["flight"])}
{convergence("landing", rigid["landing"], boxes["landing"])} More on the page of figure 11.

## Films

{image_lines(name, [*RIGID, *SOFT])}
"""
    return Page(name, text, pictures)


def _tosses(preset: Preset) -> list[Cell]:
    return [
        Cell(
            f"landscapes/toss-{preset.seed}-{index}", rigid_losses,
            {"kind": f"toss {index} {preset.seed}", "size": preset.size, "points": preset.points, "scale": "log10"},
        )
        for index in range(preset.test)
    ]  # fmt: skip


def _cuts(preset: Preset, folder: Path, jobs: int, name: str) -> dict[tuple[str, str], Mapping[str, Any]]:
    keys = [(kind, lame) for kind in SOFT for lame in LAME]
    cells = [
        Cell(
            f"landscapes/{kind}-{lame}", soft_losses,
            {"kind": kind, "size": preset.size, "points": preset.points, "names": [lame]},
        )
        for kind, lame in keys
    ]  # fmt: skip
    return dict(zip(keys, run_cells(cells, folder, jobs=jobs, title=f"{name}: Lame"), strict=True))


def _shown(rigid: Mapping[str, Mapping[str, Any]], cuts: Mapping[tuple[str, str], Mapping[str, Any]]) -> Landscapes:
    """Landscapes of the cubes' masses, and cuts along Lame's constants."""
    examples = [
        (f"cube {WHERE[kind]}: mass", sampling, Facts.of(one["ratio"], sampled_loss(one["losses"], sampling, RIGID[kind])))
        for kind, one in rigid.items() for sampling in SAMPLINGS
    ]  # fmt: skip
    return examples + [
        (f"{WHERE[kind]}: {lame.rpartition('.')[2]}", sampling, Facts.of(one["ratio"], one[sampling]))
        for (kind, lame), one in cuts.items() for sampling in SAMPLINGS
    ]  # fmt: skip


def _toss_rows(tosses: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    rows = []
    for label, sampling, step in (*((label, key, 1) for key, label in SAMPLINGS.items()), (QUARTER, "all", 4)):
        facts = [
            Facts.of(one["ratio"], sampled_loss(one["losses"], sampling, (len(one["losses"][0]) - 1) // step)) for one in tosses
        ]
        rows.append([
            label, share(sum(len(one.minima) == 1 for one in facts), len(facts)),
            share(sum(one.deep == 1 for one in facts), len(facts)), digits(float(np.median([one.decades for one in facts]))),
            digits(float(np.median([one.sharpness for one in facts]))),
        ])  # fmt: skip
    return rows


def _one_minimum(every: Landscapes) -> str:
    parts = []
    for sampling, label in SAMPLINGS.items():
        facts = [one for _, chosen, one in every if chosen == sampling]
        single, deep = sum(len(one.minima) == 1 for one in facts), sum(one.deep == 1 for one in facts)
        parts.append(
            f"of {label}, {share(single, len(facts))} landscapes have one minimum, {share(deep, len(facts))} one that is "
            f"deeper than {DEEP:.0%}"
        )
    holds = all(one.deep == 1 for _, _, one in every)
    return f'"Smooth, with one minimum" {"holds" if holds else "does not hold in general"}: {"; ".join(parts)}.'


def _best_frames(every: Landscapes) -> str:
    all_frames = {key: one for key, sampling, one in every if sampling == "all"}
    pairs = [(all_frames[key], one) for key, sampling, one in every if sampling == "first+last"]
    wider = sum(one.decades > of_all.decades + 1e-6 for of_all, one in pairs)
    narrower = sum(one.decades < of_all.decades - 1e-6 for of_all, one in pairs)
    sharper = sum(one.curvature > of_all.curvature for of_all, one in pairs)
    relative = sum(one.sharpness > of_all.sharpness for of_all, one in pairs)
    holds = wider >= narrower and sharper > len(pairs) / 2
    return (
        f'"The first and last frame give the best gradients" {"holds" if holds else "does not hold"}: of {len(pairs)} '
        f"landscapes, that of these two frames is more curved at the truth than that of all frames in {sharper} (over its "
        f"largest value in {relative}), and the interval from which it falls towards the truth is wider in {wider} and narrower "
        f"in {narrower}."
    )


def _narrow(boxes: Mapping[str, Mapping[str, Any]]) -> str:
    """Whether REINFORCE's steps lose their way at any centre."""
    lost = sum(right <= 0.5 for box in boxes.values() for right in box["right"])
    count = sum(len(box["right"]) for box in boxes.values())
    word = "holds" if lost > count / 2 else "does not hold"
    return f"{word}: at {share(lost, count)} centres no more than half of its steps go towards the truth"


def _strips(folder: Path, preset: Preset) -> dict[str, Path]:
    """Films of the cube, the beam and the ball."""
    pictures = {}
    for kind in (*RIGID, *SOFT):
        scene = (rigid_scene if kind in RIGID else soft_scene)(kind, size=preset.size)
        with torch.no_grad():
            frames, _ = film(scene, {}, worlds=1, frames=RIGID.get(kind, scene.frames))
        pictures[f"{kind}.png"] = folder / f"landscape-{kind}.png"
        write_film_strip(pictures[f"{kind}.png"], frames[0], fps=1 / scene.frame_dt)
    return pictures


def _mass_figure(path: Path, rigid: Mapping[str, Mapping[str, Any]]) -> Path:
    """Normalised losses of both cubes, and the black box's reward and surrogate."""
    with figure_file(path, 13.0, 3.6) as figure:
        *plain, last = figure.subplots(1, 3)
        for (kind, result), axes in zip(rigid.items(), plain, strict=True):
            for sampling, label in SAMPLINGS.items():
                axes.plot(result["ratio"], normalised(sampled_loss(result["losses"], sampling, RIGID[kind])), label=label)
            mark(axes, f"cube {WHERE[kind]}", "mass of a vertex [kg]", "MSE over its largest value")
        masses, reward = reward_of("flight", rigid["flight"])
        curves = {"reward": standardised(reward)}
        curves |= {f"surrogate, centre {centre:g} kg": surrogate(masses, reward, centre) for centre in SHOWN}
        for label, values in curves.items():
            last.plot(masses, values / np.abs(values).max(), label=label)
        mark(last, f"black box, {WHERE['flight']}", "mass of a vertex [kg]", "over the largest size")
    return path


def _cuts_figure(path: Path, cuts: Mapping[tuple[str, str], Mapping[str, Any]]) -> Path:
    with figure_file(path, 10.0, 4.0) as figure:
        for kind, axes in zip(SOFT, figure.subplots(1, 2), strict=True):
            for lame, color in zip(LAME, ("#c8452f", "#0b6e99"), strict=True):
                result = cuts[kind, lame]
                for (sampling, label), style in zip(SAMPLINGS.items(), ("-", "--"), strict=True):
                    title = f"{lame.rpartition('.')[2]}, {label}"
                    axes.plot(result["ratio"], normalised(result[sampling]), style, color=color, label=title)
            axes.set_xscale("log")
            ticks = (0.2, 0.5, 1.0, 2.0, 5.0)
            axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            axes.set_xticks([], minor=True)
            mark(axes, WHERE[kind], "constant over its truth", "MSE over its largest value", legend=False)
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=8)
    return path
