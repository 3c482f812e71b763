"""Figures 4, 11 and 12: loss landscapes of masses and elastic constants, and what a black box sees instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from risp_torch import film
from risp_torch.files.report import figure_file, plot_landscape_2d, write_film_strip

from ..markdown import markdown
from .cells import FAILED, Cell, run_cells, without_failures
from .landscape_cells import (
    DEEP,
    FACTOR,
    Facts,
    reinforce_steps,
    rigid_losses,
    sampled_loss,
    soft_facts,
    soft_losses,
)
from .landscape_films import FLIGHT_FRAMES, LAME, LANDING_FRAMES, rigid_scene, soft_scene
from .minima import local_minima, normalised
from .pages import Page, digits, share
from .presets import Preset
from .surrogate import NOISE, rewards, standardised, surrogate

PAPER_FRAMES = 20  # of the paper's film of the cube
RIGID = {"flight": PAPER_FRAMES, "landing": LANDING_FRAMES}
SOFT = ("beam", "ball")
SAMPLINGS = {"all": "all frames", "first+last": "first and last frame"}
LENGTHS = {"flight": FLIGHT_FRAMES, "landing": LANDING_FRAMES}
RATES = {"all": "30 Hz", "every:2": "15 Hz", "every:5": "6 Hz", "first+last": "first and last frame"}
QUARTERS = (1, 2, 3, 4)  # of the longest film
CENTRES = (0.3, 0.5, 0.75, 1.25, 1.5, 2.0, 3.0, 4.0)  # of the black box's samples, kg a vertex
SHOWN = (0.5, 1.0, 2.0, 4.0)
COLUMNS = ("minima at", f"deeper than {DEEP:.0%}", "falls to the truth from", "curvature", "normalised", "slope at 1/2", "at 2")
WHERE = {"flight": "in flight, no gravity", "landing": "pushed, falls and lands", "beam": "hanging beam", "ball": "falling ball"}


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
    return {"figure-4": _figure_4, "figure-11": _figure_11, "figure-12": _figure_12}[name](name, preset, folder, jobs)


# -- figure 4: the mass of a cube, tosses; cuts along Lame's constants ---------------------------------------------------------


def _figure_4(name: str, preset: Preset, folder: Path, jobs: int) -> Page:
    cubes = {kind: result for kind, result in zip(RIGID, run_cells(_cubes(preset), folder, jobs=jobs, title=name), strict=True)}
    tosses = run_cells(_tosses(preset), folder, jobs=jobs, title=f"{name}: tosses")
    cuts = _run_cuts(preset, folder, jobs, name)
    box = run_cells([_black_box(preset)], folder, jobs=jobs, title=f"{name}: black box")[0]
    pictures = _strips(folder / "pictures", preset)
    pictures["mass.png"] = _mass_figure(folder / "pictures" / "mass.png", cubes)
    pictures["lame.png"] = _cuts_figure(folder / "pictures" / "lame.png", cuts)
    rigid, rows = [], []
    for kind, result in cubes.items():
        for sampling, label in SAMPLINGS.items():
            facts = Facts.of(result["ratio"], sampled_loss(result["losses"], sampling, RIGID[kind]))
            rigid.append((kind, sampling, facts))
            rows.append([f"cube {WHERE[kind]}: mass", label, *_cells(facts)])
    soft = [(kind, lame, sampling, soft_facts(cuts[kind, lame], sampling)) for kind, lame in cuts for sampling in SAMPLINGS]
    rows += [[f"{WHERE[kind]}: {lame[5:]}", SAMPLINGS[sampling], *_cells(facts)] for kind, lame, sampling, facts in soft]
    counts, of_tosses = _toss_rows(tosses, preset.seed)
    every = [(kind, sampling, facts) for kind, sampling, facts in rigid]
    every += [(f"{kind} {lame}", sampling, facts) for kind, lame, sampling, facts in soft] + of_tosses
    text = f"""# Figure 4: loss landscapes

gradSim's figure 4 shows the mean squared error of all pixels against the mass of a cube of 1 kg a vertex (.1 to 5 kg, known force),
over the film and over its first and last frame, and against Lame's constants of a deformable solid about 1000. The paper gives no
numbers; its statements are that the landscapes are smooth with one minimum, that the first and last frame give the best gradients,
and that REINFORCE on a black box has several minima and a narrow region of convergence.

## Here

Pictures of {preset.size} pixels without loss. The cube's masses are {preset.points} from .1 to 5 times the truth, all others from
1/{FACTOR:g} to {FACTOR:g} times on a logarithmic scale. Of the cube in flight the first {PAPER_FRAMES} frames count, as in the
paper; the other films have real gravity, and contact but for the beam. Minima are counted on the grid, its ends included, down to
rounding; those that are deeper than {DEEP:.0%} of the landscape's span are counted again. Curvature is that by the natural logarithm
of the number, at the truth; "normalised" and slopes (by the logarithm, at half and twice the truth) are those of the loss over its
largest value.

{markdown(["film and number", "compared", *COLUMNS], rows)}

![Mass](images/{name}-mass.png)

![Lame's constants](images/{name}-lame.png)

## Random tosses

{len(without_failures(tosses))} tosses of seed {preset.seed} (`tosses.py`), density over a factor of {FACTOR:g} either way
({sum(FAILED in result for result in tosses)} failed):

{markdown(["compared", "one minimum", f"one deeper than {DEEP:.0%}", "falls to the truth from everywhere", "median reach [decades]",
"median normalised curvature"], counts)}

## The paper's statements

{_one_minimum(every)}

{_best_frames(every)}

{_narrow(cubes["flight"], box)} The other landscapes of the black box are on the page of figure 11.

## Films

{_images(name, pictures, ("flight", "landing", "beam", "ball"))}
"""
    return Page(name, text, pictures)


def _cubes(preset: Preset) -> list[Cell]:
    return [
        Cell(
            f"landscapes/{kind}", rigid_losses, {"kind": kind, "size": preset.size, "points": preset.points, "scale": "linear"}
        )
        for kind in RIGID
    ]  # fmt: skip


def _tosses(preset: Preset) -> list[Cell]:
    return [
        Cell(
            f"landscapes/toss-{preset.seed}-{index}", rigid_losses,
            {"kind": f"toss {index} {preset.seed}", "size": preset.size, "points": preset.points, "scale": "log10"},
        )
        for index in range(preset.test)
    ]  # fmt: skip


def _run_cuts(preset: Preset, folder: Path, jobs: int, name: str) -> dict[tuple[str, str], Mapping[str, Any]]:
    keys = [(kind, lame) for kind in SOFT for lame in LAME]
    cells = [
        Cell(
            f"landscapes/{kind}-{lame}", soft_losses,
            {"kind": kind, "size": preset.size, "points": preset.points, "names": [lame]},
        )
        for kind, lame in keys
    ]  # fmt: skip
    return dict(zip(keys, run_cells(cells, folder, jobs=jobs, title=f"{name}: Lame"), strict=True))


def _toss_rows(tosses: Sequence[Mapping[str, Any]], seed: int) -> tuple[list[list[str]], list[tuple[str, str, Facts]]]:
    """Rows of the table of tosses, and what each landscape is like."""
    rows, found = [], []
    done = without_failures(tosses)
    for sampling, label in SAMPLINGS.items():
        facts = [Facts.of(result["ratio"], sampled_loss(result["losses"], sampling)) for result in done]
        whole = sum(one.decades > 2 * np.log10(FACTOR) - 1e-6 for one in facts)
        rows.append([
            label, share(sum(len(one.minima) == 1 for one in facts), len(facts)),
            share(sum(one.deep == 1 for one in facts), len(facts)), share(whole, len(facts)),
            digits(float(np.median([one.decades for one in facts]))), digits(float(np.median([one.sharpness for one in facts]))),
        ])  # fmt: skip
        found += [(f"toss {seed} {index}", sampling, one) for index, one in enumerate(facts)]
    return rows, found


def _one_minimum(every: Sequence[tuple[str, str, Facts]]) -> str:
    parts = []
    for sampling, label in SAMPLINGS.items():
        facts = [one for _, chosen, one in every if chosen == sampling]
        single, deep = sum(len(one.minima) == 1 for one in facts), sum(one.deep == 1 for one in facts)
        parts.append(f"with {label} {share(single, len(facts))} landscapes have one minimum, {share(deep, len(facts))} one that "
                     f"is deeper than {DEEP:.0%}")  # fmt: skip
    facts = [one for _, _, one in every]
    holds = all(one.deep == 1 for one in facts)
    return f"\"Smooth, with one minimum\" {'holds' if holds else 'does not hold'} here in general: {'; '.join(parts)}."


def _best_frames(every: Sequence[tuple[str, str, Facts]]) -> str:
    whole = {key: one for key, sampling, one in every if sampling == "all"}
    pairs = [(whole[key], one) for key, sampling, one in every if sampling == "first+last"]
    wider = sum(one.decades > of_all.decades + 1e-6 for of_all, one in pairs)
    narrower = sum(one.decades < of_all.decades - 1e-6 for of_all, one in pairs)
    sharper = sum(one.curvature > of_all.curvature for of_all, one in pairs)
    relative = sum(one.sharpness > of_all.sharpness for of_all, one in pairs)
    holds = wider >= narrower and sharper > len(pairs) / 2
    return (
        f"\"The first and last frame give the best gradients\" {'holds' if holds else 'does not hold'} here: against the whole "
        f"film, in {len(pairs)} films, the loss of these two frames is more curved at the truth in {sharper} (over its largest "
        f"value in {relative}), but the interval from which it falls towards the truth is wider in {wider} and narrower in "
        f"{narrower}."
    )


# -- figure 11: a map over both of Lame's constants; the black box --------------------------------------------------------------


def _figure_11(name: str, preset: Preset, folder: Path, jobs: int) -> Page:
    side = max(3, preset.points // 2 | 1)
    cells = [
        Cell(f"landscapes/{kind}-map", soft_losses, {"kind": kind, "size": preset.small, "points": side, "names": list(LAME)})
        for kind in SOFT
    ]
    maps = dict(zip(SOFT, run_cells(cells, folder, jobs=jobs, title=name), strict=True))
    flight = run_cells(_cubes(preset)[:1], folder, jobs=jobs, title=f"{name}: cube")[0]
    box = run_cells([_black_box(preset)], folder, jobs=jobs, title=f"{name}: black box")[0]
    pictures, rows = {}, []
    for kind, result in maps.items():
        axis = 1000 * np.asarray(result["ratio"])
        for sampling, label in SAMPLINGS.items():
            loss = np.asarray(result[sampling])
            key = f"{kind}-{sampling.replace('+', '-')}.png"
            pictures[key] = folder / "pictures" / f"map-{key}"
            plot_landscape_2d(
                pictures[key], axis, axis, np.where(loss > 0, loss, np.nan).T, names=("mu", "lambda"), units=("Pa", "Pa"),
                scales=("log10", "log10"), marks={"truth": (1000.0, 1000.0)},
            )  # fmt: skip
            places = local_minima(loss)
            rows.append([
                WHERE[kind], label, "; ".join(f"{digits(axis[i])}, {digits(axis[j])}" for i, j in places),
                str(len(local_minima(loss, depth=DEEP))), digits(_flattest(result["ratio"], loss)),
            ])  # fmt: skip
    masses, reward = _reward(flight)
    pictures["black-box.png"] = _black_box_figure(folder / "pictures" / "black-box.png", masses, reward)
    single = sum(row[3] == "1" for row in rows)
    text = f"""# Figure 11: Lame's constants; the landscape of a black box

## 11 a: mu and lambda together

The paper shows one dominant minimum at 1000. Here {side} x {side} values, from 1/{FACTOR:g} to {FACTOR:g} times the truth, of films
of {preset.small} pixels. {share(single, len(rows))} maps have one minimum that is deeper than {DEEP:.0%} of their span. The last
column tells how long the valley is: the curvature along the direction in which the loss rises least, over that in which it rises
most (parabola through the truth and its eight neighbours, by logarithms). Where it is small, mu and lambda trade for each other, and
gradient descent is slow however smooth the map is.

{markdown(["film", "compared", "minima at mu, lambda [Pa]", f"deeper than {DEEP:.0%}", "least over largest curvature"], rows)}

{_images(name, pictures, [key[:-4] for key in pictures if key != "black-box.png"])}

## 11 b: the black box

REINFORCE as the paper describes it (H.1): the reward of a mass is minus the summed errors of its frames, standardised, times minus
the logarithm of the density of the sample, whose standard deviation is {NOISE:g} kg a vertex (table 5). Simulator and film are ours,
{PAPER_FRAMES} frames of the cube in flight, where the paper's black box is PyBullet: what differs from the gradient of figure 4 is
the estimator alone.

{markdown(["centre of the samples [kg]", "minima of the surrogate [kg]", "steps towards the truth"], _centre_rows(flight, box))}

![Black box](images/{name}-black-box.png)

{_narrow(flight, box)} The surrogate has minima that move with the centre, as the paper says; they are no estimates of the mass.
The last column counts {preset.updates} steps of {preset.samples} samples each at that centre.
"""
    return Page(name, text, pictures)


def _black_box(preset: Preset) -> Cell:
    return Cell(
        "landscapes/black-box", reinforce_steps,
        {
            "kind": "flight", "size": preset.small, "frames": PAPER_FRAMES, "centres": list(CENTRES),
            "samples": preset.samples, "draws": preset.updates, "seed": preset.seed,
        },
    )  # fmt: skip


def _reward(flight: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(flight["ratio"]), rewards(np.asarray(flight["losses"])[:, : PAPER_FRAMES + 1])


def _centre_rows(flight: Mapping[str, Any], box: Mapping[str, Any]) -> list[list[str]]:
    masses, reward = _reward(flight)
    rows = []
    for centre, right in zip(CENTRES, box["right"], strict=True):
        minima = sorted(masses[i] for (i,) in local_minima(surrogate(masses, reward, centre)))
        rows.append([digits(centre), ", ".join(digits(mass) for mass in minima), f"{right:.0%}"])
    return rows


def _narrow(flight: Mapping[str, Any], box: Mapping[str, Any]) -> str:
    masses, reward = _reward(flight)
    low, high = Facts.of(masses, -reward).reach
    several = sum(len(local_minima(surrogate(masses, reward, centre))) > 1 for centre in CENTRES)
    best, worst = max(box["right"]), min(box["right"])
    return (
        f"The derivative of the pixels' error points to the truth from {digits(low)} to {digits(high)} kg a vertex; REINFORCE's "
        f"surrogate has more than one minimum at {share(several, len(CENTRES))} centres, and a step of it goes towards the truth "
        f"in {worst:.0%} to {best:.0%} of all draws, by centre (half would be chance)."
    )


def _flattest(ratio: Sequence[float], loss: np.ndarray) -> float:
    """Smallest over largest curvature of the loss [N, N] at the truth, which is in the middle, by logarithms."""
    middle, logs = len(ratio) // 2, np.log(np.asarray(ratio))
    part = slice(middle - 1, middle + 2)
    a, b = (grid.ravel() for grid in np.meshgrid(logs[part], logs[part], indexing="ij"))
    terms = np.stack([np.ones_like(a), a, b, a**2 / 2, a * b, b**2 / 2], axis=1)
    *_, aa, ab, bb = np.linalg.lstsq(terms, np.asarray(loss)[part, part].ravel(), rcond=None)[0]
    least, most = np.linalg.eigvalsh([[aa, ab], [ab, bb]])
    return float(least / most)


# -- figure 12: lengths and frame rates -----------------------------------------------------------------------------------------


def _figure_12(name: str, preset: Preset, folder: Path, jobs: int) -> Page:
    cubes = dict(zip(RIGID, run_cells(_cubes(preset), folder, jobs=jobs, title=name), strict=True))
    rows, facts = [], {}
    for kind, longest in LENGTHS.items():
        for quarter in QUARTERS:
            frames = longest * quarter // 4
            for rate, label in RATES.items():
                one = Facts.of(cubes[kind]["ratio"], sampled_loss(cubes[kind]["losses"], rate, frames))
                facts[kind, quarter, rate] = one
                rows.append([f"cube {WHERE[kind]}", f"{frames / 30:.2f}", label, *_cells(one)])
    picture = _lengths_figure(folder / "pictures" / "lengths.png", cubes)
    text = f"""# Figure 12: lengths of videos and frame rates

The paper says that shorter videos (down to the first and last frame) have steeper landscapes, that the frame rate has an effect,
and that all are smooth with the same minimum. Here the mass of the cubes of figure 4, films of {preset.size} pixels, of a quarter to
the whole of their length; columns as on the page of figure 4.

{markdown(["film", "length [s]", "compared", *COLUMNS], rows)}

![Lengths](images/{name}-lengths.png)

{_steeper(facts)}

{_rates(facts)}

{_same_minimum(facts)}
"""
    return Page(name, text, {"lengths.png": picture})


def _steeper(facts: Mapping[tuple[str, int, str], Facts]) -> str:
    """Whether curvature falls with the length, over neighbouring lengths of equal films and rates."""
    pairs = [
        (facts[kind, quarter, rate], facts[kind, quarter + 1, rate])
        for kind, quarter, rate in facts if quarter < QUARTERS[-1]
    ]  # fmt: skip
    raw = sum(short.curvature > long.curvature for short, long in pairs)
    shares = sum(short.sharpness > long.sharpness for short, long in pairs)
    holds = raw > len(pairs) / 2
    return (
        f"\"Shorter videos are steeper\" {'holds' if holds else 'does not hold'} here: of {len(pairs)} pairs of lengths that "
        f"follow each other, the shorter film has the larger curvature at the truth in {raw} (of the loss over its largest "
        f"value in {shares}). The effect of a mass on where the body is grows with time, and so does the mean error of a frame."
    )


def _rates(facts: Mapping[tuple[str, int, str], Facts]) -> str:
    ratios = [
        facts[kind, quarter, rate].curvature / facts[kind, quarter, "all"].curvature
        for kind, quarter, rate in facts if rate.startswith("every")
    ]  # fmt: skip
    ends = [one.curvature / facts[kind, quarter, "all"].curvature for (kind, quarter, rate), one in facts.items()
            if rate == "first+last"]  # fmt: skip
    return (
        f"A lower frame rate multiplies the curvature by {digits(min(ratios))} to {digits(max(ratios))}, the first and last frame "
        f"alone by {digits(min(ends))} to {digits(max(ends))}."
    )


def _same_minimum(facts: Mapping[tuple[str, int, str], Facts]) -> str:
    lowest = sum(abs(one.minima[0] - 1) < 1e-9 for one in facts.values())
    single = sum(one.deep == 1 for one in facts.values())
    many = [one for (_, _, rate), one in facts.items() if rate != "first+last"]
    return (
        f"The lowest minimum is the truth in {share(lowest, len(facts))}. {share(single, len(facts))} have one minimum deeper than "
        f"{DEEP:.0%} of the span; of those with more than two frames {share(sum(one.deep == 1 for one in many), len(many))}."
    )


# -- what the pages share -------------------------------------------------------------------------------------------------------


def _cells(facts: Facts) -> list[str]:
    listed = ", ".join(digits(value) for value in facts.minima[:4])
    if len(facts.minima) > 4:
        listed += f" and {len(facts.minima) - 4} more"
    return [
        listed, str(facts.deep), f"{digits(facts.reach[0])} to {digits(facts.reach[1])}", digits(facts.curvature),
        digits(facts.sharpness), digits(facts.slope_below), digits(facts.slope_above),
    ]  # fmt: skip


def _images(name: str, pictures: Mapping[str, Path], keys: Sequence[str]) -> str:
    return "\n\n".join(f"![{key}](images/{name}-{key}.png)" for key in keys if f"{key}.png" in pictures)


def _strips(folder: Path, preset: Preset) -> dict[str, Path]:
    """Films of the cube, the beam and the ball."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {}
    for kind in (*RIGID, *SOFT):
        scene = (rigid_scene if kind in RIGID else soft_scene)(kind, size=preset.size)
        with torch.no_grad():
            frames, _ = film(scene, {}, worlds=1, frames=RIGID.get(kind, scene.frames))
        pictures[f"{kind}.png"] = folder / f"landscape-{kind}.png"
        write_film_strip(pictures[f"{kind}.png"], frames[0], fps=1 / scene.frame_dt)
    return pictures


def _mass_figure(path: Path, cubes: Mapping[str, Mapping[str, Any]]) -> Path:
    """Normalised losses of both cubes, and the black box's reward and surrogate."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with figure_file(path, 13.0, 3.6) as figure:
        *plain, last = figure.subplots(1, 3)
        for (kind, result), axes in zip(cubes.items(), plain, strict=True):
            for sampling, label in SAMPLINGS.items():
                loss = sampled_loss(result["losses"], sampling, RIGID[kind])
                axes.plot(result["ratio"], normalised(loss), label=label)
            _mark(axes, f"cube {WHERE[kind]}", "mass of a vertex [kg]", "MSE over its largest value")
        masses, reward = _reward(cubes["flight"])
        last.plot(masses, standardised(reward) / np.abs(standardised(reward)).max(), color="#333333", label="reward")
        for centre in SHOWN[::2]:
            loss = surrogate(masses, reward, centre)
            last.plot(masses, loss / np.abs(loss).max(), label=f"surrogate, centre {centre:g}")
        _mark(last, "black box, in flight", "mass of a vertex [kg]", "over the largest size")
    return path


def _cuts_figure(path: Path, cuts: Mapping[tuple[str, str], Mapping[str, Any]]) -> Path:
    with figure_file(path, 9.0, 3.6) as figure:
        for kind, axes in zip(SOFT, figure.subplots(1, 2), strict=True):
            for lame in LAME:
                result = cuts[kind, lame]
                for sampling, label in SAMPLINGS.items():
                    style = "-" if sampling == "all" else "--"
                    color = "#c8452f" if lame == LAME[0] else "#0b6e99"
                    axes.plot(result["ratio"], normalised(result[sampling]), style, color=color, label=f"{lame[5:]}, {label}")
            axes.set_xscale("log")
            _mark(axes, WHERE[kind], "constant over its truth", "MSE over its largest value")
    return path


def _black_box_figure(path: Path, masses: np.ndarray, reward: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with figure_file(path, 9.0, 3.6) as figure:
        left, right = figure.subplots(1, 2)
        left.plot(masses, standardised(reward), color="#333333")
        _mark(left, "standardised reward", "mass of a vertex [kg]", "reward", legend=False)
        for centre in SHOWN:
            right.plot(masses, surrogate(masses, reward, centre), label=f"centre {centre:g} kg")
        right.set_yscale("symlog", linthresh=10.0)
        _mark(right, "surrogate", "mass of a vertex [kg]", "loss")
    return path


def _lengths_figure(path: Path, cubes: Mapping[str, Mapping[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with figure_file(path, 9.0, 6.6) as figure:
        for (kind, longest), row in zip(LENGTHS.items(), figure.subplots(2, 2), strict=True):
            result = cubes[kind]
            for quarter in QUARTERS:
                frames = longest * quarter // 4
                row[0].plot(result["ratio"], sampled_loss(result["losses"], "all", frames), label=f"{frames / 30:.2f} s")
            for rate, label in RATES.items():
                row[1].plot(result["ratio"], sampled_loss(result["losses"], rate, longest), label=label)
            _mark(row[0], f"{WHERE[kind]}: lengths", "mass of a vertex [kg]", "MSE")
            _mark(row[1], f"{WHERE[kind]}: frame rates", "mass of a vertex [kg]", "MSE")
    return path


def _mark(axes: Any, title: str, along: str, up: str, *, legend: bool = True) -> None:
    axes.axvline(1.0, color="#555555", linestyle=":", linewidth=1.0)
    axes.set(title=title, xlabel=along, ylabel=up)
    if legend:
        axes.legend(fontsize=8)
