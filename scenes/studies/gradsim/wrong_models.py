"""Table 4 (left) of gradSim: the mass that is read from films by models that are wrong.

Films have no discrepancy but the one of their row: ground without friction or with perfectly elastic contact is assumed, a rigid
object is taken for a soft one or a soft one for a rigid one, the film is path-traced in a look that the model does not have, or its
camera stands elsewhere. Each film is fitted plainly, as the paper does, and by the rule of ``wrong_checks``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from risp_torch import MaskLoss, MatchedLoss, Scene, read_video
from risp_torch.files.report import figure_file, write_strip
from risp_torch.risp import photoreal_film, write_photoreal_frames
from ti_render.photoreal import MitsubaSettings

from .cells import FAILED, Cell, run_cells, without_failures
from .pages import Page, digits, share
from .presets import Preset
from .tosses import MASS, RANGES
from .wrong_checks import (
    CAMERA_SHIFT,
    CAMERA_TURN,
    NO_EXPLANATION,
    Fit,
    examine,
    far_of,
    fit,
    pictures_of,
)
from .wrong_scenes import (
    DAMPING,
    FRAMES,
    FRICTION,
    KINDS,
    STIFFNESS,
    THICKNESS,
    YOUNG,
    Model,
    Thrown,
    draw_thrown,
    middle,
    scene_of,
)

NAME = "table-4-left"
PERFECT, PHOTOREAL, CAMERA = "perfect", "photoreal", "camera"
SAMPLES = 32  # paths of a pixel of path-traced films
SHORT = 14  # frame intervals where frames cost: in tests, and of path-traced films of the tiny preset
EVERY = 5  # of the objects of a preset, one in so many is filmed for each row and kind
BAR = 1.96  # error bars that hold the truth in 95 of 100 films
PLAIN, EARLY, RULE, SOLVED, MASKS = "plain", "early", "rule", "solved look", "masks"


@dataclass(frozen=True)
class Variant:
    """A row of the table.

    Attributes:
        title: for the table.
        kinds: kinds of objects that are filmed.
        named: what the rule has to name.
        paper: mean relative error of the paper; None where it has no such row.
        asked: mean relative error asked of us.
    """

    title: str
    kinds: tuple[str, ...]
    named: str
    paper: float | None
    asked: float | None


VARIANTS = {
    PERFECT: Variant("perfect model", KINDS, NO_EXPLANATION, 0.1071, 0.002),
    "friction": Variant("unmodelled friction", KINDS, "friction", 0.1866, 0.0933),
    "elasticity": Variant("perfectly elastic", KINDS, "damping", 0.2281, 0.1140),
    "rigid-as-soft": Variant("rigid as deformable", ("rigid",), "kind", 0.3462, 0.1731),
    "soft-as-rigid": Variant("deformable as rigid", ("soft",), "kind", 0.4974, 0.2487),
    PHOTOREAL: Variant("photorealistic target", KINDS, "look", 0.1793, 0.02),
    CAMERA: Variant("wrong camera", KINDS, "camera", None, None),
}


def assumed(variant: str, kind: str) -> Model:
    """What the model of a row takes for known of an object of a kind."""
    if variant == "friction":
        return Model(kind=kind, known={FRICTION: 0.0})
    if variant == "elasticity":
        return Model(kind=kind, known={DAMPING: 0.0})
    if variant == "rigid-as-soft":
        return Model(kind="soft", known={STIFFNESS: middle(STIFFNESS)})
    if variant == "soft-as-rigid":
        return Model(kind="rigid")
    return Model(kind=kind)


def make(name: str, preset: Preset, folder: Path, *, jobs: int) -> Page:
    """Make the table.

    Args:
        name: "table-4-left".
        preset: sizes; of its objects of each kind one in five is filmed for each row.
        folder: of all results.
        jobs: processes at the same time.

    Returns:
        The page.
    """
    cells = cells_of(preset, folder)
    results = run_cells(cells, folder, jobs=jobs, title=name)
    pictures = {}
    for variant in VARIANTS:
        first = next((result for result in without_failures(results) if result["variant"] == variant), None)
        if first is not None:
            pictures[f"{variant}.png"] = Path(first["strip"])
    plot = folder / NAME / "errors.png"
    plot_errors(plot, results)
    pictures["errors.png"] = plot
    return Page(name, text_of(name, preset, results, list(pictures)), pictures)


def cells_of(preset: Preset, folder: Path) -> list[Cell]:
    """One cell for each film: rows, kinds, objects."""
    count = math.ceil(preset.objects / EVERY)
    cells = []
    for variant, row in VARIANTS.items():
        for kind in row.kinds:
            for index in range(count):
                given = {
                    "variant": variant, "kind": kind, "index": index, "seed": preset.seed, "size": preset.small,
                    "frames": SHORT if preset.name == "tiny" else FRAMES, "folder": str(folder / NAME),
                }  # fmt: skip
                cells.append(Cell(f"{NAME}/{variant}-{kind}-{index:03d}", film_cell, given))
    return cells


def film_cell(*, variant: str, kind: str, index: int, seed: int, size: int, frames: int, folder: str) -> dict[str, Any]:
    """Film an object and read its density, plainly and by the rule.

    Args:
        variant: name of the row.
        kind, index, seed: of the object (``draw_thrown``).
        size: side of the pictures [pixels].
        frames: frame intervals.
        folder: where films and strips are written.

    Returns:
        JSON values: truth, start, every estimate with its relative error and error bar, what the rule named and tried.
    """
    thrown, model = draw_thrown(kind, index, seed=seed), assumed(variant, kind)
    true, place = scene_of(thrown, Model(kind=kind), size=size, frames=frames), Path(folder) / f"{variant}-{kind}-{index:03d}"
    place.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng([seed, index, KINDS.index(kind), list(VARIANTS).index(variant)])
    truth, start = true_density(thrown), drawn_density(kind, random)
    if variant == CAMERA:
        move_camera(true, random)
    target = (
        path_traced(true, place, seed=int(random.integers(2**31)))
        if variant == PHOTOREAL
        else pictures_of(true, {}, frames=frames)
    )
    found = examine(thrown, model, target, start, size=size, frames=frames)
    fits = {PLAIN: found.plain, EARLY: found.early, RULE: found.chosen}
    if variant == PHOTOREAL:
        known = scene_of(thrown, model, size=size, frames=frames)
        fits[SOLVED] = fit(known, target, {MASS: start}, loss=MatchedLoss())
        masks = np.asarray(read_video(place / "masks" / "body"))[..., 0]
        fits[MASKS] = fit(known, None, {MASS: start}, loss=MaskLoss(masks))
    strip = place / "strip.png"
    fitted = scene_of(thrown, model, size=size, frames=frames)
    write_strip(strip, target, pictures_of(fitted, found.plain.values, frames=frames), fps=1 / true.frame_dt)
    return {
        "variant": variant, "kind": kind, "index": index, "shape": thrown.toss.shape, "truth": truth, "start": start,
        "fits": {key: estimate_of(each, truth) for key, each in fits.items()},
        "named": found.named, "tried": dict(found.tried), "suspects": list(found.plain.suspects), "strip": str(strip),
    }  # fmt: skip


def estimate_of(each: Fit, truth: float) -> dict[str, Any]:
    """An estimate as JSON values: relative error, error over the error bar (both in decades), and what belongs to it."""
    decades = math.log10(each.density / truth)
    return {
        "density": each.density, "error": abs(each.density / truth - 1), "sd": each.sd, "held": abs(decades) <= BAR * each.sd + 1e-6,
        "over_bar": abs(decades) / max(each.sd, 1e-12), "misfit": each.misfit, "frames": each.frames,
    }  # fmt: skip


def true_density(thrown: Thrown) -> float:
    """kg/m3, of a cloth kg/m2."""
    return thrown.toss.values[MASS] * (THICKNESS if thrown.kind == "cloth" else 1.0)


def drawn_density(kind: str, random: np.random.Generator) -> float:
    """A start: drawn from the densities that objects of a kind may have, whatever the true one is."""
    low, high = RANGES["paper"].density
    return float(np.exp(random.uniform(np.log(low), np.log(high)))) * (THICKNESS if kind == "cloth" else 1.0)


def move_camera(scene: Scene, random: np.random.Generator) -> None:
    """Turn a scene's camera by 1 degree about a drawn axis, and move it by 2 cm for 2 m of distance in a drawn direction."""
    turn, shift = (vector / np.linalg.norm(vector) for vector in random.standard_normal((2, 3)))
    scene.set("camera.turn", CAMERA_TURN * turn)
    scene.set("camera.position", np.asarray(scene.parameters["camera.position"].value) + CAMERA_SHIFT * far_of(scene) * shift)


def path_traced(scene: Scene, folder: Path, *, seed: int) -> torch.Tensor:
    """The film [frames + 1, H, W, 3] of a scene in a drawn look, of 8-bit pictures; masks of its body lie in the folder."""
    with torch.no_grad():
        states = scene.rollout()
    shown = photoreal_film(scene, states, options=MitsubaSettings(samples=SAMPLES, seed=seed))
    write_photoreal_frames(folder, shown, fps=1 / scene.frame_dt)
    return torch.as_tensor(np.asarray(read_video(folder / "frames")), dtype=torch.float32)


def summary(results: Sequence[Mapping[str, Any]], variant: str, key: str) -> dict[str, Any] | None:
    """Of the films of a row, by one way to fit: how many, mean and median error, how many bars hold; None without films."""
    chosen = [
        result["fits"][key] for result in without_failures(results) if result["variant"] == variant and key in result["fits"]
    ]
    if not chosen:
        return None
    errors = np.array([each["error"] for each in chosen])
    return {
        "count": len(chosen), "mean": float(errors.mean()), "median": float(np.median(errors)),
        "held": sum(each["held"] for each in chosen),
    }  # fmt: skip


def named_rightly(results: Sequence[Mapping[str, Any]], variant: str) -> tuple[int, int]:
    """In how many films of a row the rule named what is wrong, and of how many."""
    chosen = [result for result in without_failures(results) if result["variant"] == variant]
    return sum(result["named"] == VARIANTS[variant].named for result in chosen), len(chosen)


def text_of(name: str, preset: Preset, results: Sequence[Mapping[str, Any]], pictures: Sequence[str]) -> str:
    """The page in Markdown."""
    lines = [
        "# Table 4 (left): the mass by wrong models", "", *(_introduction(preset)), "",
        "| model | films | paper | plain, ours | until it departs | by the rule | asked | | named rightly | bars that hold: plain, rule |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for variant, row in VARIANTS.items():
        plain, early, rule = (summary(results, variant, key) for key in (PLAIN, EARLY, RULE))
        if plain is None or early is None or rule is None:
            lines.append(f"| {row.title} | 0 | {digits(row.paper)} | - | - | - | {digits(row.asked)} | - | - | - |")
            continue
        met = "-" if row.asked is None else "yes" if rule["mean"] <= row.asked else "NO"
        right, of = named_rightly(results, variant)
        lines.append(
            f"| {row.title} | {of} | {digits(row.paper)} | {digits(plain['mean'])} | {digits(early['mean'])} | "
            f"{digits(rule['mean'])} | {digits(row.asked)} | {met} | {share(right, of)} | "
            f"{share(plain['held'], of)}, {share(rule['held'], of)} |"
        )
    for key, title in ((SOLVED, "photorealistic, look solved at once"), (MASKS, "photorealistic, masks of the body alone")):
        only = summary(results, PHOTOREAL, key)
        if only is not None:
            met = ("yes" if only["mean"] <= 0.02 else "NO") if key == SOLVED else "-"
            asked = "0.02" if key == SOLVED else "-"
            lines.append(
                f"| {title} | {only['count']} | - | - | - | {digits(only['mean'])} | {asked} | {met} | - | "
                f"-, {share(only['held'], only['count'])} |"
            )
    right, of = (sum(column) for column in zip(*(named_rightly(results, variant) for variant in VARIANTS), strict=True))
    lines += ["", "Numbers are mean relative errors of the density. " + f"The rule names what is wrong in {share(right, of)} films, "
              "those of the perfect model among them, in which it has to name nothing (asked: 80 %).", ""]  # fmt: skip
    lines += _remarks(results)
    lines += ["", "![Relative errors of all films](images/" + f"{name}-errors.png)", ""]
    for picture in pictures:
        if picture != "errors.png":
            title = VARIANTS[picture.removesuffix(".png")].title
            lines += [f"{title}, target and plain fit:", "", f"![{title}](images/{name}-{picture})", ""]
    lines += ["## All films", "", *_films_table(results)]
    return "\n".join(lines)


def _introduction(preset: Preset) -> list[str]:
    return [
        f"`python -m scenes.studies.gradsim {NAME} --preset {preset.name} --seed {preset.seed}`", "",
        "A rigid object, a soft one or a cloth is pushed in flight by a known impulse, falls and lands. The density is unknown, and the "
        "search starts at one that is drawn from all that objects may have, whatever the true one is (up to 6 times off). Films "
        f"are pictures of {preset.small} x {preset.small} pixels without loss; the photorealistic ones are path-traced with "
        f"{SAMPLES} paths a pixel in a look that is drawn, as 8-bit pictures. A soft object has a Young's modulus from {YOUNG[0]:g} "
        f"to {YOUNG[1]:g} Pa; a rigid one is modelled as soft with {middle(STIFFNESS):.3g} Pa.", "",
        "\"Plain\" is the paper's way, pixels of the whole film by the wrong model. \"Until it departs\" is the fit of the part before "
        "the residual departs from that of the first frames. \"By the rule\": a model that fits is believed; else friction and damping "
        "of the ground, the other kind of body, the camera (with a prior of 1 degree and 1 % of the distance) and the look are "
        "freed one after the other, until the film is fitted; if nothing fits, the one that leaves the least counts if that is at most "
        "half; else the part until it departs. The truth is not used. Where a freed number makes the model right, the rule's "
        "errors are those of a right model: the list of explanations contains what is wrong. The column before it shows what is "
        "left where the list does not. Only the photorealistic rows have a truth that no model of the list can draw.",
    ]  # fmt: skip


def _remarks(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Sentences on what failed and on misses, in measured terms."""
    lines = []
    failed = [result for result in results if FAILED in result]
    if failed:
        lines.append(f"{len(failed)} films have no result: {'; '.join(sorted({result[FAILED] for result in failed}))}.")
    for variant, row in VARIANTS.items():
        plain, rule = summary(results, variant, PLAIN), summary(results, variant, RULE)
        if plain is None or rule is None:
            continue
        chosen = [result for result in without_failures(results) if result["variant"] == variant]
        wrong = [result for result in chosen if result["named"] != row.named]
        for result in wrong:
            residuals = ", ".join(f"{key} {digits(value)}" for key, value in result["tried"].items())
            lines.append(
                f"{row.title}, {result['kind']} {result['shape']}: named {result['named']} in place of {row.named} (mean squared "
                f"residuals: {residuals or 'the model fits as it is'}; misfit of the plain fit "
                f"{digits(result['fits'][PLAIN]['misfit'])})."
            )
        worst = max(chosen, key=lambda result: result["fits"][RULE]["error"])
        if row.asked is not None and rule["mean"] > row.asked:
            lines.append(
                f"{row.title} misses what was asked: {digits(rule['mean'])} against {digits(row.asked)}; the worst film is that of "
                f"{worst['kind']} {worst['shape']} with {digits(worst['fits'][RULE]['error'])} "
                f"({digits(worst['fits'][RULE]['over_bar'])} error bars)."
            )
        if row.paper is not None and plain["mean"] > row.paper:
            median = digits(plain["median"])
            lines.append(f"{row.title}: the plain fit is worse than the paper's on average; its median is {median}.")
    named = [result for result in without_failures(results) if result["suspects"]]
    lines.append(
        f"The inversion's own test of families names something in {len(named)} films: "
        + "; ".join(sorted({f"{result['variant']} {result['kind']}: {', '.join(result['suspects'])}" for result in named})) + "."
        if named else "The inversion's own test of families names nothing in these films."
    )  # fmt: skip
    return [f"- {line}" for line in lines]


def _films_table(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """A row for each film."""
    lines = [
        "| row | object | start / truth | plain | until it departs (frames) | rule | error / bar | named | others | s |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for each in without_failures(results):
        fits = each["fits"]
        others = ", ".join(f"{key} {digits(fits[key]['error'])}" for key in (SOLVED, MASKS) if key in fits) or "-"
        lines.append(
            f"| {each['variant']} | {each['kind']} {each['shape']} | {digits(each['start'] / each['truth'])} | "
            f"{digits(fits[PLAIN]['error'])} | {digits(fits[EARLY]['error'])} ({fits[EARLY]['frames']}) | {digits(fits[RULE]['error'])} | "
            f"{digits(fits[RULE]['over_bar'])} | {each['named']} | {others} | {each['seconds']:.0f} |"
        )
    return lines


def plot_errors(path: Path, results: Sequence[Mapping[str, Any]]) -> None:
    """Plot the relative errors of all films, and the paper's means, row by row."""
    path.parent.mkdir(parents=True, exist_ok=True)
    ways = {PLAIN: "plain", EARLY: "until it departs", RULE: "rule"}
    with figure_file(path, 7.5, 3.6) as figure:
        axes = figure.subplots()
        for place, (variant, row) in enumerate(VARIANTS.items()):
            for shift, key in enumerate(ways):
                errors = [each["fits"][key]["error"] for each in without_failures(results) if each["variant"] == variant]
                x = np.full(len(errors), place + 0.2 * (shift - 1))
                axes.plot(
                    x, np.maximum(errors, 1e-8), "o", ms=4, alpha=0.7, color=f"C{shift}", label=ways[key] if not place else None
                )
            if row.paper is not None:
                axes.plot(
                    [place - 0.35, place + 0.35], [row.paper] * 2, color="black", lw=1.5, label=None if place else "paper, mean"
                )
        axes.set(yscale="log", ylabel="relative error of the density", xticks=range(len(VARIANTS)))
        axes.set_xticklabels([row.title for row in VARIANTS.values()], rotation=20, ha="right", fontsize=8)
        axes.legend(loc="lower right", fontsize=8)
