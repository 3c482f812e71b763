"""The page of the study of wrong models: its table, what it misses and why, the plot of all errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from risp_torch.files.report import figure_file
from studies.gradsim.cells import FAILED, without_failures
from studies.gradsim.misspecified.checks import MISFIT, NO_EXPLANATION
from studies.gradsim.misspecified.films import (
    EARLY,
    MASKS,
    PHOTOREAL,
    PLAIN,
    ROUNDED,
    RULE,
    SAMPLES,
    SOLVED,
    SOURCES,
    VARIANTS,
    Variant,
)
from studies.gradsim.misspecified.scenes import STIFFNESS, YOUNG, middle
from studies.gradsim.pages import digits, share
from studies.gradsim.presets import CRF, Preset

TITLES = {"lossless": "Films without loss", "mp4": f"Films as H.264, crf {CRF:g}"}


def summary(results: Sequence[Mapping[str, Any]], variant: str, source: str, key: str) -> dict[str, Any] | None:
    """Of the films of a row, by one way to fit: how many, mean and median error, how many bars hold; None without films."""
    chosen = [result["fits"][key] for result in films_of(results, variant, source) if key in result["fits"]]
    if not chosen:
        return None
    errors = np.array([film_result["error"] for film_result in chosen])
    return {
        "count": len(chosen), "mean": float(errors.mean()), "median": float(np.median(errors)),
        "held": sum(film_result["held"] for film_result in chosen),
    }  # fmt: skip


def films_of(results: Sequence[Mapping[str, Any]], variant: str, source: str) -> list[Mapping[str, Any]]:
    """The films of a row that have a result."""
    return [result for result in without_failures(results) if (result["variant"], result["source"]) == (variant, source)]


def named_rightly(results: Sequence[Mapping[str, Any]], variant: str, source: str) -> tuple[int, int]:
    """In how many films of a row the rule named what is wrong, and of how many."""
    chosen = films_of(results, variant, source)
    return sum(result["named"] == VARIANTS[variant].named for result in chosen), len(chosen)


def text_of(name: str, preset: Preset, results: Sequence[Mapping[str, Any]], pictures: Sequence[str]) -> str:
    """The page in Markdown."""
    lines = ["# Table 4 (left): the mass by wrong models", "", *_introduction(name, preset)]
    for source in SOURCES:
        lines += ["", f"## {TITLES[source]}", "", *_table(results, source)]
        wrong = [named_rightly(results, variant, source) for variant, row in VARIANTS.items() if row.named != NO_EXPLANATION]
        right, total = (sum(column) for column in zip(*wrong, strict=True))
        lines += ["", f"Of the wrong models, the rule names what is wrong in {share(right, total)} films (asked: 80 %).", ""]
    lines += _remarks(results)
    lines += ["", "![Relative errors of all films](images/" + f"{name}-errors.png)", ""]
    for picture in pictures:
        if picture != "errors.png":
            title = VARIANTS[picture.removesuffix(".png")].title
            lines += [f"{title}, target and plain fit:", "", f"![{title}](images/{name}-{picture})", ""]
    lines += ["## All films", "", *_films_table(results)]
    return "\n".join(lines)


def _table(results: Sequence[Mapping[str, Any]], source: str) -> list[str]:
    """The rows of the films of one source; numbers are mean relative errors of the density."""
    lines = [
        "| model | films | paper | plain, ours | until it departs | by the rule | asked | met | named rightly "
        "| bars that hold: plain, rule |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for variant, row in VARIANTS.items():
        plain, early, rule = (summary(results, variant, source, key) for key in (PLAIN, EARLY, RULE))
        if plain is None or early is None or rule is None:
            lines.append(f"| {row.title} | 0 | {digits(row.paper)} | - | - | - | {digits(row.asked)} | - | - | - |")
            continue
        met = "-" if row.asked is None else "yes" if rule["mean"] <= row.asked else "NO"
        right, total = named_rightly(results, variant, source)
        lines.append(
            f"| {row.title} | {total} | {digits(row.paper)} | {digits(plain['mean'])} | {digits(early['mean'])} | "
            f"{digits(rule['mean'])} | {digits(row.asked)} | {met} | {share(right, total)} | "
            f"{share(plain['held'], total)}, {share(rule['held'], total)} |"
        )
    alone = {SOLVED: "photorealistic, solved look alone", MASKS: "photorealistic, masks of the body alone"}
    for key, title in alone.items():
        only = summary(results, PHOTOREAL, source, key)
        if only is not None:
            limit = VARIANTS[PHOTOREAL].asked if key == SOLVED else None
            met = "-" if limit is None else "yes" if only["mean"] <= limit else "NO"
            lines.append(
                f"| {title} | {only['count']} | - | - | - | {digits(only['mean'])} | {digits(limit)} | {met} | - | "
                f"-, {share(only['held'], only['count'])} |"
            )
    return lines


def _introduction(name: str, preset: Preset) -> list[str]:
    return [
        f"`python -m studies.gradsim {name} --preset {preset.name} --seed {preset.seed}`", "",
        "A rigid object, a soft one (boxes of drawn sides: tetrahedra of the other objects have slivers, whose stable steps are "
        "too short) or a cloth is pushed in flight by a known impulse, falls and lands. The density is unknown, "
        "and the search starts at one that is drawn from all that objects may have, whatever the true one is (up to 6 times "
        f"off). Films are pictures of {preset.small} x {preset.small} pixels; the photorealistic ones are "
        f"path-traced with {SAMPLES} paths a pixel in a look that is drawn, as 8-bit pictures. A soft object has a Young's "
        f"modulus from {YOUNG[0]:g} to {YOUNG[1]:g} Pa; a rigid one is modelled as soft with {middle(STIFFNESS):.3g} Pa.", "",
        "\"Plain\" is the paper's way: pixels of the whole film by the wrong model. \"Until it departs\" is the fit of the part "
        "before the residual departs from that of the first frames. \"By the rule\": a model that fits is believed (at most "
        f"{MISFIT:g} times what noise explains is left); else "
        "friction and damping of the ground, the other kind of body, the camera (with a prior of 1 degree and 1 % of the "
        "distance) and the look are freed one after the other, until the film is fitted; if nothing fits, the one that leaves "
        "the least counts if that is at most half; else the part until it departs. The truth is not used. "
        "Numbers are mean relative errors of the density.", "",
        "The list of explanations contains what is wrong, so that the rule's errors are mostly those of a right model with one "
        "more unknown; the column before it shows what is left where a list does not contain it. Only the path-traced films "
        "cannot be drawn by any model of the list. A film without noise has bars of no less than "
        f"{ROUNDED:g} decades, the rounding of single precision.",
    ]  # fmt: skip


def _remarks(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Sentences on what failed and on misses, in measured terms."""
    lines = []
    failed = [result for result in results if FAILED in result]
    if failed:
        lines.append(f"{len(failed)} films have no result: {'; '.join(sorted({result[FAILED] for result in failed}))}.")
    for source, (variant, row) in product(SOURCES, VARIANTS.items()):
        lines += _remarks_on_row(results, variant, source, row)
    named = [result for result in without_failures(results) if result["suspects"]]
    lines.append(
        f"The inversion's own test of families names something in {len(named)} films: "
        + "; ".join(sorted({f"{result['variant']} {result['kind']}: {', '.join(result['suspects'])}" for result in named})) + "."
        if named else "The inversion's own test of families names nothing in these films."
    )  # fmt: skip
    return [f"- {line}" for line in lines]


def _remarks_on_row(results: Sequence[Mapping[str, Any]], variant: str, source: str, row: Variant) -> list[str]:
    """Wrong and missed explanations of a row, and films in which the plain fit is worse than the paper's."""
    plain, rule = summary(results, variant, source, PLAIN), summary(results, variant, source, RULE)
    if plain is None or rule is None:
        return []
    title, chosen, lines = f"{row.title}, {source}", films_of(results, variant, source), []
    for result in (result for result in chosen if result["named"] != row.named):
        residuals = ", ".join(f"{key} {digits(value)}" for key, value in result["tried"].items())
        lines.append(
            f"{title}, {result['kind']} {result['shape']}: named {result['named']} in place of {row.named} (mean squared "
            f"residuals: {residuals or 'the model fits as it is'}; misfit of the plain fit "
            f"{digits(result['fits'][PLAIN]['misfit'])})."
        )
    worst = max(chosen, key=lambda result: result["fits"][RULE]["error"])
    if row.asked is not None and rule["mean"] > row.asked:
        lines.append(
            f"{title} misses what was asked: {digits(rule['mean'])} against {digits(row.asked)}; the worst film is of "
            f"{worst['kind']} {worst['shape']} with {digits(worst['fits'][RULE]['error'])} "
            f"({digits(worst['fits'][RULE]['over_bar'])} error bars)."
        )
    if row.paper is not None and plain["mean"] > row.paper:
        lines.append(f"{title}: the plain fit is worse than the paper's on average; its median is {digits(plain['median'])}.")
    return lines


def _films_table(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """A row for each film."""
    lines = [
        "| row | film | object | start / truth | plain | until it departs (frames) | rule | error / bar | named | others | s |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for result in without_failures(results):
        fits = result["fits"]
        other_errors = ", ".join(f"{key} {digits(fits[key]['error'])}" for key in (SOLVED, MASKS) if key in fits) or "-"
        lines.append(
            f"| {result['variant']} | {result['source']} | {result['kind']} {result['shape']} | "
            f"{digits(result['start'] / result['truth'])} | "
            f"{digits(fits[PLAIN]['error'])} | {digits(fits[EARLY]['error'])} ({fits[EARLY]['frames']}) | "
            f"{digits(fits[RULE]['error'])} | "
            f"{digits(fits[RULE]['over_bar'])} | {result['named']} | {other_errors} | {result['seconds']:.0f} |"
        )
    return lines


def plot_errors(path: Path, results: Sequence[Mapping[str, Any]]) -> None:
    """Plot the relative errors of all films, and the paper's means, row by row."""
    path.parent.mkdir(parents=True, exist_ok=True)
    ways = {PLAIN: "plain", EARLY: "until it departs", RULE: "rule"}
    with figure_file(path, 7.5, 3.6) as figure:
        axes = figure.subplots()
        for column, (variant, row) in enumerate(VARIANTS.items()):
            for shift, key in enumerate(ways):
                errors = [result["fits"][key]["error"] for result in without_failures(results) if result["variant"] == variant]
                x = np.full(len(errors), column + 0.2 * (shift - 1))
                axes.plot(
                    x, np.maximum(errors, 1e-8), "o", ms=4, alpha=0.7, color=f"C{shift}", label=ways[key] if not column else None
                )
            if row.paper is not None:
                label = None if column else "paper, mean"
                axes.plot([column - 0.35, column + 0.35], [row.paper] * 2, color="black", lw=1.5, label=label)
        axes.set(yscale="log", ylabel="relative error of the density", xticks=range(len(VARIANTS)))
        axes.set_xticklabels([row.title for row in VARIANTS.values()], rotation=20, ha="right", fontsize=8)
        axes.legend(loc="lower right", fontsize=8)
