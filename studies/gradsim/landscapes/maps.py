"""Figure 11: maps of the loss over both of Lame's constants, and the surrogate of REINFORCE as its samples move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from risp_torch.files.report import figure_file, plot_landscape_2d
from studies.gradsim.cells import Cell, run_cells
from studies.gradsim.landscapes.cells import DEEP, FACTOR, soft_losses
from studies.gradsim.landscapes.films import LAME, TRUE_LAME
from studies.gradsim.landscapes.minima import local_minima
from studies.gradsim.landscapes.pages import (
    CENTRES,
    PAPER_FRAMES,
    RIGID,
    SAMPLINGS,
    SOFT,
    WHERE,
    black_boxes,
    convergence,
    cubes,
    image_lines,
    listed,
    mark,
    reward_of,
)
from studies.gradsim.landscapes.surrogate import NOISE, standardised, surrogate
from studies.gradsim.pages import Page, digits, share
from studies.gradsim.presets import Preset
from studies.markdown import markdown

SHOWN = (0.5, 1.0, 2.0, 4.0)  # centres in the figure, kg a vertex


def maps_page(name: str, preset: Preset, folder: Path, *, jobs: int) -> Page:
    """The page of figure 11 (arguments: ``figures.make``)."""
    side = max(3, preset.points // 2 | 1)
    cells = [
        Cell(f"landscapes/{kind}-map", soft_losses, {"kind": kind, "size": preset.small, "points": side, "names": list(LAME)})
        for kind in SOFT
    ]
    maps = dict(zip(SOFT, run_cells(cells, folder, jobs=jobs, title=name), strict=True))
    rigid = cubes(preset, folder, jobs=jobs, title=f"{name}: cube")
    boxes = black_boxes(preset, folder, jobs=jobs, title=f"{name}: black box")
    pictures, rows, single = {}, [], 0
    for kind, result in maps.items():
        for sampling, label in SAMPLINGS.items():
            loss = np.asarray(result[sampling], dtype=np.float64)
            key = f"{kind}-{sampling.replace('+', '-')}"
            pictures[f"{key}.png"] = folder / "pictures" / f"map-{key}.png"
            _draw_map(pictures[f"{key}.png"], result["ratio"], loss)
            deep = local_minima(loss, depth=DEEP)
            single += len(deep) == 1
            axis = TRUE_LAME * np.asarray(result["ratio"])
            rows.append([
                WHERE[kind], label, listed([f"{axis[i]:.0f}, {axis[j]:.0f}" for i, j in deep], "; "),
                str(len(local_minima(loss)) - len(deep)), digits(valley(result["ratio"], loss)),
            ])  # fmt: skip
    keys = [key.removesuffix(".png") for key in pictures]
    pictures["black-box.png"] = _black_box_figure(folder / "pictures" / "black-box.png", rigid)
    heads = [
        "film", "compared", f"minima deeper than {DEEP:.0%} at mu, lambda [Pa]", "shallower ones", "least over largest curvature"
    ]
    centre_heads = ["centre of the samples [kg]"]
    for kind in RIGID:
        centre_heads += [f"{WHERE[kind]}: minima of the surrogate [kg]", "steps towards the truth"]
    text = f"""# Figure 11: Lame's constants; the landscape of a black box

## 11 a: mu and lambda together

The paper shows one dominant minimum at 1000. Here {side} x {side} values, from 1/{FACTOR:g} to {FACTOR:g} times the truth, of
films of {preset.small} pixels. {share(single, len(rows))} maps have one minimum that is deeper than {DEEP:.0%} of their span.
Shallower ones may be the grid's: a narrow valley that runs askew between its points looks like a row of pits. The last column
tells how long the valley is: the curvature along the direction in which the loss rises least, over that in which it rises most
(parabola through the truth and its eight neighbours, by logarithms). Where it is small, mu and lambda trade for each other, and
gradient descent is slow however smooth the map is.

{markdown(heads, rows)}

{image_lines(name, keys)}

## 11 b: the black box

REINFORCE as the paper describes it (appendix H.1): the reward of a mass is minus the summed errors of its frames, standardised,
times minus the logarithm of the density of the sample, whose standard deviation is {NOISE:g} kg a vertex (table 5). Simulator
and films are ours, {PAPER_FRAMES} frames in flight and {RIGID["landing"]} of the landing, where the paper's black box is
PyBullet: what differs from the gradient of figure 4 is the estimator alone. Minima are those deeper than {DEEP:.0%} of the
surrogate's span. Steps: {preset.updates} of {preset.samples} samples each at a centre, of films of {preset.small} pixels.

{markdown(centre_heads, _centre_rows(rigid, boxes))}

![Black box](images/{name}-black-box.png)

{convergence("flight", rigid["flight"], boxes["flight"])} {convergence("landing", rigid["landing"], boxes["landing"])}

The surrogate's minima move with the centre, as the paper says, and are no estimates of the mass. But a step follows its slope
at the samples, not its minima: where the reward is smooth over the width of the samples, steps have the right sign.
"""
    return Page(name, text, pictures)


def valley(ratio: Sequence[float], loss: np.ndarray) -> float:
    """Smallest over largest curvature of a loss by logarithms at the middle of a grid, where the truth is.

    Args:
        ratio: [N] values along both axes over the truth, N odd.
        loss: [N, N].
    """
    middle, logs = len(ratio) // 2, np.log(np.asarray(ratio))
    window = slice(middle - 1, middle + 2)
    a, b = (grid.ravel() for grid in np.meshgrid(logs[window], logs[window], indexing="ij"))
    terms = np.stack([np.ones_like(a), a, b, a**2 / 2, a * b, b**2 / 2], axis=1)
    *_, aa, ab, bb = np.linalg.lstsq(terms, np.asarray(loss)[window, window].ravel(), rcond=None)[0]
    least, most = np.linalg.eigvalsh([[aa, ab], [ab, bb]])
    return float(least / most)


def _draw_map(path: Path, ratio: Sequence[float], loss: np.ndarray) -> None:
    """A map whose colours begin at the second lowest loss: that of the truth is rounding alone."""
    axis = TRUE_LAME * np.asarray(ratio)
    second = np.partition(loss[np.isfinite(loss)], 1)[1]
    plot_landscape_2d(
        path, axis, axis, np.maximum(loss, second).T, names=("mu", "lambda"), units=("Pa", "Pa"), scales=("log10", "log10"),
        marks={"truth": (TRUE_LAME, TRUE_LAME)},
    )  # fmt: skip


def _centre_rows(rigid: Mapping[str, Mapping[str, Any]], boxes: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    rows = []
    for number, centre in enumerate(CENTRES):
        row = [digits(centre)]
        for kind in RIGID:
            masses, reward = reward_of(kind, rigid[kind])
            minima = sorted(masses[i] for (i,) in local_minima(surrogate(masses, reward, centre), depth=DEEP))
            row += [listed([digits(mass) for mass in minima]), f"{boxes[kind]['right'][number]:.0%}"]
        rows.append(row)
    return rows


def _black_box_figure(path: Path, rigid: Mapping[str, Mapping[str, Any]]) -> Path:
    with figure_file(path, 10.0, 6.6) as figure:
        for kind, (left, right) in zip(RIGID, figure.subplots(2, 2), strict=True):
            masses, reward = reward_of(kind, rigid[kind])
            left.plot(masses, standardised(reward), color="#333333")
            mark(left, f"{WHERE[kind]}: standardised reward", "mass of a vertex [kg]", "reward", legend=False)
            for centre in SHOWN:
                right.plot(masses, surrogate(masses, reward, centre), label=f"centre {centre:g} kg")
            right.set_yscale("symlog", linthresh=10.0)
            mark(right, f"{WHERE[kind]}: surrogate", "mass of a vertex [kg]", "loss")
    return path
