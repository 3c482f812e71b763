"""Figure 7: the mass of tossed objects by gradient descent on films with one colour, with shading, and with texture on top."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from risp_torch import NewtonSteps, OptimiseSettings, Scene, SearchStages, Surface, film, invert
from risp_torch.files.report import figure_file, write_film_strip
from risp_torch.inversion import Comparison
from studies.gradsim.cells import FAILED, Cell, run_cells, without_failures
from studies.gradsim.landscapes.cells import DEEP, FACTOR, Facts, sampled_loss
from studies.gradsim.landscapes.films import frame_losses
from studies.gradsim.landscapes.minima import slope
from studies.gradsim.pages import Page, digits, share
from studies.gradsim.presets import Preset
from studies.gradsim.tosses import MASS, Toss, draw_toss, shaped, toss_scene
from studies.markdown import markdown

LOOKS = {"colour": "only colour", "shading": "shading", "texture": "texture"}
SEARCHES = {"sgd": "gradient descent", "adam": "Adam", "newton": "Levenberg-Marquardt"}
FARTHEST = 5.0  # factor of a start, either way
RATE = 0.1  # of Adam
PLAIN_RATE = 0.5  # of plain gradient descent by log10 of the density, the loss being the mean squared error of a pixel
COLOR = (0.75, 0.3, 0.2)
TEXELS, PATCHES = 8, 2.0  # colours along a side of the texture, and textures along the longest side of a body
REACHED = (0.1, 0.01)  # relative errors


def make(name: str, preset: Preset, folder: Path, *, jobs: int) -> Page:
    """Make the figure's page.

    Args:
        name: "figure-7".
        preset: sizes.
        folder: of all results.
        jobs: processes.

    Returns:
        The page.
    """
    keys = [(search, look, index) for search in SEARCHES for look in LOOKS for index in range(preset.objects)]
    cells = [_cell(preset, search, look, index) for search, look, index in keys]
    results = dict(zip(keys, run_cells(cells, folder, jobs=jobs, title=name), strict=True))
    errors = {
        (search, look): _errors([results[search, look, index] for index in range(preset.objects)])
        for search in SEARCHES for look in LOOKS
    }  # fmt: skip
    pictures = _pictures(folder / "pictures", preset, errors)
    failed = sum(FAILED in result for result in results.values())
    maps = [_map_cell(preset, look, index) for look in LOOKS for index in range(preset.objects)]
    losses = run_cells(maps, folder, jobs=jobs, title=f"{name}: landscapes")
    shapes = [
        [label, *_shape_row(losses[number * preset.objects : (number + 1) * preset.objects])]
        for number, label in enumerate(LOOKS.values())
    ]
    rows = [
        [SEARCHES[search], LOOKS[look], *_row(curves, [results[search, look, index] for index in range(preset.objects)])]
        for (search, look), curves in errors.items()
    ]
    heads = [
        "search", "look", *(f"iterations to {level:.0%} (reached)" for level in REACHED), "mean final error",
        "median final error", "error within 1.96 bars", "seconds of a search",
    ]  # fmt: skip
    shape_heads = [
        "look", f"one minimum deeper than {DEEP:.0%}", "median width of the fall to the truth [decades]",
        "median curvature at the truth", "median slope at 1/2", "at 2",
    ]  # fmt: skip
    text = f"""# Figure 7: only colour, shading, texture

gradSim's figure 7 shows the error of the mass over the iterations of gradient descent, and says that shading and texture speed
up convergence, texture slightly more; it gives no numbers. Here {preset.objects} tosses of seed {preset.seed} (`tosses.py`:
real gravity, a known push, contact of known numbers), films of {preset.small} pixels without loss, the density unknown. The
film and the model have the same look:

- only colour: every face has one colour, whatever the light;
- shading: the same colour, Phong shading with a directional light and ambient light;
- texture: the same shading, and {TEXELS} x {TEXELS} drawn colours that repeat {PATCHES:g} times along the longest side.

A start is up to {FARTHEST:g} times too heavy or too light, drawn evenly on a logarithmic scale, the same for all looks and
searches. Gradient descent is plain, as gradSim's for table 1, on log10 of the density with a rate of {PLAIN_RATE:g} (its code:
.1 on the mass). Adam has a rate of {RATE:g} with a cosine decay. Both take {preset.updates} steps on the whole film.
Levenberg-Marquardt is this engine's usual search over a growing part of the film, without later refinement. A step of the first
two takes a film and its gradient, a round of the last a film, a Jacobian and several trial films. {failed} of {len(results)}
searches failed.

"Reached" counts tosses whose error falls below a level and stays there; iterations are the median over these. Error bars are
those of the film's residual, which here is rounding where a search has converged, so that "error within 1.96 bars" judges how far
the search went, and not bars of films with noise.

{markdown(heads, rows)}

![Errors](images/{name}-errors.png)

{_order(errors)}

## Why

The landscapes of the same tosses, density over a factor of {FACTOR:g} either way ({preset.points} values); curvature and slopes
are those of the mean squared error by the natural logarithm of the density:

{markdown(shape_heads, shapes)}

Far from the truth plain gradient descent goes as far as the slopes let it, and at the truth the curvature counts. Adam divides by
the gradient's size, and Levenberg-Marquardt by the curvature: what a look does to the loss's scale does not reach them, what it
does to minima does.

{_strip_lines(name)}
"""
    return Page(name, text, pictures)


def mass_search(*, index: int, seed: int, size: int, look: str, search: str, iterations: int) -> dict[str, Any]:
    """The density of a toss from its film.

    Args:
        index, seed: of the toss.
        size: of the pictures [pixels].
        look: of ``LOOKS``.
        search: of ``SEARCHES``.
        iterations: gradient steps of Adam.

    Returns:
        "truth", "start" and "found" [kg/m3]; "history" of the estimates, the start first; "bars": error over the error bar,
        None for gradient descent.
    """
    scene = look_scene(draw_toss(index, seed=seed), look, size=size)
    truth = float(scene.parameters[MASS].value)
    start = truth * start_factor(index, seed=seed)
    with torch.no_grad():
        frames, _ = film(scene, {}, worlds=1, frames=scene.frames)
    if search == "sgd":
        history = plain_descent(scene, frames[0], start, iterations=iterations)
        return {"truth": truth, "start": start, "found": history[-1], "history": history, "bars": None}
    steps = OptimiseSettings(iterations=iterations, learning_rate=RATE) if search == "adam" else NewtonSteps()
    result = invert(scene, frames[0], [MASS], starts=[{MASS: start}], search=SearchStages(steps=steps, refine=0), progress=False)
    mass, sd = result.values[MASS], result.sd[MASS]
    history = [float(values[0, 0]) for values in result.history.values]
    return {
        "truth": truth, "start": start, "found": mass, "history": [start, *history[1:], mass],
        "bars": result.scaled_error({MASS: truth})[MASS] / sd,
    }  # fmt: skip


def plain_descent(scene: Scene, target: torch.Tensor, start: float, *, iterations: int) -> list[float]:
    """Gradient descent on the mean squared error of all pixels by log10 of the density, within its bounds.

    Args:
        scene: of a toss.
        target: [T, H, W, 3] its film.
        start: kg/m3.
        iterations: steps of ``PLAIN_RATE`` times the gradient.

    Returns:
        The density before every step and after the last one [kg/m3].
    """
    comparison, param = Comparison.of_target(target), scene.parameters[MASS]
    low, high = (math.log10(float(bound)) for bound in (param.low, param.high))
    decades = torch.tensor([math.log10(start)], dtype=target.dtype, device=target.device, requires_grad=True)
    history = [start]
    for _ in range(iterations):
        (gradient,) = torch.autograd.grad(comparison.losses(scene, {MASS: 10**decades}, worlds=1).sum(), decades)
        moved = (decades - PLAIN_RATE * gradient).detach().clamp(low, high)
        history.append(10 ** moved.item())
        decades = moved.requires_grad_()
    return history


def look_losses(*, index: int, seed: int, size: int, look: str, points: int) -> dict[str, Any]:
    """Losses of whole films against the density, ``FACTOR`` either way.

    Args:
        index, seed: of the toss.
        size: of the pictures [pixels].
        look: of ``LOOKS``.
        points: densities; one more if even, so that the truth is among them.

    Returns:
        "ratio" of density and truth, and "loss", [N] each.
    """
    scene, ratio = look_scene(draw_toss(index, seed=seed), look, size=size), np.geomspace(1 / FACTOR, FACTOR, points | 1)
    ratio[len(ratio) // 2] = 1.0
    losses = frame_losses(scene, {MASS: ratio * scene.parameters[MASS].value})
    return {"ratio": ratio.tolist(), "loss": sampled_loss(losses, "all").tolist()}


def start_factor(index: int, *, seed: int) -> float:
    """Start of a search over the truth: from 1 / ``FARTHEST`` to ``FARTHEST``, evenly on a logarithmic scale."""
    return float(FARTHEST ** np.random.default_rng([seed, index, 7]).uniform(-1, 1))


def look_scene(toss: Toss, look: str, *, size: int) -> Scene:
    """The scene of a toss in a look.

    Args:
        toss: the toss.
        look: "colour", "shading" or "texture".
        size: side of the pictures [pixels].
    """
    if look == "colour":
        return toss_scene(toss, size=size, shading="none", surface=Surface(color=COLOR))
    if look == "shading":
        return toss_scene(toss, size=size, shading="phong", surface=Surface(color=COLOR))
    texture = np.random.default_rng(7).uniform(0.05, 0.95, (TEXELS, TEXELS, 3))
    surface = Surface(texture=texture, uv=box_uv(toss))
    return toss_scene(toss, size=size, shading="phong", surface=surface)


def box_uv(toss: Toss) -> np.ndarray:
    """Texture coordinates [F, 3, 2] of a toss's mesh: each face's along the two axes that it looks along least."""
    mesh = shaped(toss.shape, toss.sides).mesh()
    corners = mesh.vertices[mesh.faces]
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    along = np.sort(np.argsort(np.abs(normal), axis=1)[:, :2], axis=1)
    side = np.ptp(mesh.vertices, axis=0).max()
    return PATCHES / side * np.take_along_axis(corners, np.broadcast_to(along[:, None], (len(along), 3, 2)), axis=2)


def iterations_to(errors: Sequence[float], level: float) -> int | None:
    """First iteration from which on all errors are below a level; None if the last one is not."""
    above = [number for number, error in enumerate(errors) if not error < level]
    first = above[-1] + 1 if above else 0
    return first if first < len(errors) else None


def _cell(preset: Preset, search: str, look: str, index: int) -> Cell:
    arguments = {
        "index": index, "seed": preset.seed, "size": preset.small, "look": look, "search": search, "iterations": preset.updates
    }
    return Cell(f"looks/{search}-{look}-{index}", mass_search, arguments)


def _map_cell(preset: Preset, look: str, index: int) -> Cell:
    arguments = {"index": index, "seed": preset.seed, "size": preset.small, "look": look, "points": preset.points}
    return Cell(f"looks/landscape-{look}-{index}", look_losses, arguments)


def _shape_row(losses: Sequence[Mapping[str, Any]]) -> list[str]:
    done = without_failures(losses)
    facts = [Facts.of(one["ratio"], one["loss"]) for one in done]
    slopes = [np.median([slope(one["ratio"], one["loss"], ratio) for one in done]) for ratio in (0.5, 2.0)]
    return [
        share(sum(one.deep == 1 for one in facts), len(facts)), digits(float(np.median([one.decades for one in facts]))),
        digits(float(np.median([one.curvature for one in facts]))), *(digits(float(middle)) for middle in slopes),
    ]  # fmt: skip


def _errors(results: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """Relative errors [objects, iterations + 1]; those of searches that end early stay as they end."""
    rows = [np.abs(np.array(one["history"]) / one["truth"] - 1) for one in without_failures(results)]
    longest = max((len(row) for row in rows), default=1)
    return np.array([np.pad(row, (0, longest - len(row)), mode="edge") for row in rows]).reshape(len(rows), longest)


def _row(errors: np.ndarray, results: Sequence[Mapping[str, Any]]) -> list[str]:
    done, cells = without_failures(results), []
    for level in REACHED:
        reached = [first for row in errors if (first := iterations_to(row, level)) is not None]
        cells.append(f"{digits(float(np.median(reached)) if reached else None)} ({share(len(reached), len(done))})")
    bars = [abs(one["bars"]) for one in done if one["bars"] is not None]
    covered = share(sum(bar <= 1.96 for bar in bars), len(bars)) if bars else "-"
    return [
        *cells, *(_percent(middle(errors[:, -1])) for middle in (np.mean, np.median)), covered,
        digits(float(np.mean([one["seconds"] for one in done]))),
    ]  # fmt: skip


def _percent(error: float) -> str:
    return f"{digits(100 * error)} %"


def _order(errors: Mapping[tuple[str, str], np.ndarray]) -> str:
    """Whether texture is faster than shading and shading than only colour, by the error's logarithm over all iterations."""
    sentences = []
    for search, label in SEARCHES.items():
        mean = {look: float(np.log10(np.maximum(errors[search, look], 1e-9)).mean()) for look in LOOKS}
        holds = mean["texture"] < mean["shading"] < mean["colour"]
        numbers = ", ".join(f"{digits(10 ** mean[look])} ({LOOKS[look]})" for look in LOOKS)
        sentences.append(
            f"{label}: the geometric mean of the error over tosses and iterations is {numbers}; the paper's order, texture below "
            f"shading below only colour, {'holds' if holds else 'does not hold'}."
        )
    return " ".join(sentences)


def _pictures(folder: Path, preset: Preset, errors: Mapping[tuple[str, str], np.ndarray]) -> dict[str, Path]:
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {"errors.png": folder / "looks-errors.png"}
    with figure_file(pictures["errors.png"], 12.0, 9.6) as figure:
        for (search, label), row in zip(SEARCHES.items(), figure.subplots(3, 3), strict=True):
            _draw(row[0], errors, search, f"{label}: mean", np.mean)
            _draw(row[1], errors, search, f"{label}: mean", np.mean, logarithmic=True)
            _draw(row[2], errors, search, f"{label}: median", np.median, logarithmic=True)
    for look in LOOKS:
        scene = look_scene(draw_toss(0, seed=preset.seed), look, size=preset.size)
        with torch.no_grad():
            frames, _ = film(scene, {}, worlds=1, frames=scene.frames)
        pictures[f"{look}.png"] = folder / f"looks-{look}.png"
        write_film_strip(pictures[f"{look}.png"], frames[0], fps=1 / scene.frame_dt)
    return pictures


def _draw(
    axes: Any, errors: Mapping[tuple[str, str], np.ndarray], search: str, title: str, middle: Callable[..., np.ndarray],
    *, logarithmic: bool = False,
) -> None:  # fmt: skip
    for look, label in LOOKS.items():
        axes.plot(middle(errors[search, look], axis=0), label=label)
    if logarithmic:
        axes.set_yscale("log", nonpositive="mask")
    axes.set(title=title, xlabel="round" if search == "newton" else "iteration", ylabel="relative error of the mass")
    axes.legend()


def _strip_lines(name: str) -> str:
    return "\n\n".join(f"![{label}](images/{name}-{look}.png)" for look, label in LOOKS.items())
