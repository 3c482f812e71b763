"""Table 3 of gradSim: numbers of deformable bodies, from films and from 3D positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from risp_torch import film, srgb_to_linear, write_video
from risp_torch.files.report import figure_file
from studies.gradsim.cells import FAILED, Cell, run_cells
from studies.gradsim.deformable.cells import PRIOR_MASS, PRIOR_SPEED, SOURCES, TOLD, baselines, estimate_drawn
from studies.gradsim.deformable.scenes import BEYOND, KINDS, OFF, deformable_scene, draw
from studies.gradsim.pages import Page, digits, share
from studies.gradsim.presets import CRF, INSIDE, Preset

# The paper's table 3: DiffPhysics (3D supervision), gradSim; and what is asked of ours.
PAPER = {"m": (0.032, 0.048), "mu": (0.0025, 0.0054), "lambda": (0.0024, 0.0056), "v": (0.127, 0.026)}
ASKED = {"m": 0.01, "mu": 0.002, "lambda": 0.002, "v": 0.01}
SHOWN = ("ball", "bar", "beam", "mass", "affine", "velocity")
OTHERS = 100  # draws that the average baseline knows
COLUMNS = 6  # of a strip
VIDEO_RATE = 30  # pictures a second, of videos on the page, whatever the film's own rate


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of the table: one number of one kind of body, from one source.

    Attributes:
        kind, source, number: their names.
        errors, bars: relative, of each body that has a result.
        ratios: |error| / bar, of every unknown of every body.
        fits: bodies whose film the estimate explains; None where that is not known.
        failed: bodies without result.
        seconds: of each body.
        average, random: mean errors of the baselines.
    """

    kind: str
    source: str
    number: str
    errors: Sequence[float]
    bars: Sequence[float]
    ratios: Sequence[float]
    fits: int | None
    failed: int
    seconds: Sequence[float]
    average: float
    random: float

    @property
    def error(self) -> float:
        """Mean over bodies."""
        return float(np.mean(self.errors)) if self.errors else float("nan")

    @property
    def paper(self) -> float:
        """The paper's error with the same supervision."""
        return PAPER[self.number][self.source != "states"]

    @property
    def held(self) -> int:
        """Number of error bars that hold the truth."""
        return int((np.array(self.ratios) <= INSIDE).sum())


def make(name: str, preset: Preset, folder: Path, *, jobs: int) -> Page:
    """Make table 3.

    Args:
        name: of the page.
        preset: sizes.
        folder: of all results.
        jobs: processes at the same time.
    """
    places = places_of(preset)
    cells = [cell_of(kind, source, index, preset) for kind, source, index in places]
    results = dict(zip(places, run_cells(cells, folder, jobs=jobs, title=name), strict=True))
    pictures = {}
    for kind in SHOWN:
        strip = folder / name / f"{kind}-{preset.seed}.png"
        video = strip.with_suffix(".mp4")
        if not (strip.is_file() and video.is_file()) and FAILED not in results[kind, "mp4", 0]:
            films = three_films(kind, results[kind, "mp4", 0], preset)
            write_three_rows(strip, films, frame_dt=deformable_scene(draw(kind, 0, seed=preset.seed), size=8).frame_dt)
            write_video(video, np.concatenate(list(films.values()), axis=2), fps=VIDEO_RATE, crf=CRF)
        if strip.is_file():
            pictures |= {f"{kind}.png": strip, f"{kind}.mp4": video}
    return Page(name=name, text=text_of(name, preset, results, pictures), pictures=pictures)


def places_of(preset: Preset) -> list[tuple[str, str, int]]:
    """Kind, source and index of all cells, the first body of every kind before the second ones."""
    most = max(count_of(kind, preset) for kind in SHOWN)
    return [
        (kind, source, index) for index in range(most) for kind in SHOWN for source in SOURCES if index < count_of(kind, preset)
    ]


def count_of(kind: str, preset: Preset) -> int:
    """Bodies of a kind: fewer of those with unknowns of each particle, whose searches take minutes."""
    return preset.fields if KINDS[kind].coarse else preset.bodies


def size_of(kind: str, preset: Preset) -> int:
    """Side of a kind's pictures [pixels]."""
    return preset.small if KINDS[kind].coarse else preset.side


def cell_of(kind: str, source: str, index: int, preset: Preset) -> Cell:
    """The cell of one body from one source."""
    arguments = {
        "kind": kind, "index": index, "seed": preset.seed, "source": source, "size": size_of(kind, preset),
        "rounds": preset.rounds,
    }  # fmt: skip
    return Cell(f"table-3/{kind}-{source}-{preset.seed}-{index}", estimate_drawn, arguments)


def rows_of(preset: Preset, results: Mapping[tuple[str, str, int], Mapping[str, Any]]) -> list[Row]:
    """Rows of the table: of every number of every kind and source."""
    rows = []
    for kind in SHOWN:
        guesses = [baselines(kind, index, seed=preset.seed, others=OTHERS) for index in range(count_of(kind, preset))]
        for source in SOURCES:
            every = [results[kind, source, index] for index in range(count_of(kind, preset))]
            good = [result for result in every if FAILED not in result]
            fits = [result["fits"] for result in good]
            rows += [
                Row(
                    kind=kind, source=source, number=number, errors=[result["errors"][number] for result in good],
                    bars=[result["bars"][number] for result in good if number in result["bars"]],
                    ratios=[ratio for result in good for ratio in result["ratios"]],
                    fits=None if None in fits else sum(fits), failed=len(every) - len(good),
                    seconds=[result["seconds"] for result in every],
                    **{key: float(np.mean([guess[key][number] for guess in guesses])) for key in ("average", "random")},
                )
                for number in guesses[0]["average"]
            ]  # fmt: skip
    return rows


def text_of(
    name: str, preset: Preset, results: Mapping[tuple[str, str, int], Mapping[str, Any]], pictures: Mapping[str, Path]
) -> str:  # fmt: skip
    """The page."""
    rows = rows_of(preset, results)
    counts = {kind: count_of(kind, preset) for kind in SHOWN}
    return "\n".join([
        "# Table 3: parameter estimation of deformable bodies", "", *_about(preset, counts), "",
        "Means over bodies of the relative absolute error. The paper's number is that of the same supervision: "
        "\"DiffPhysics\" for 3D positions, gradSim for films. It is one for all kinds of bodies.", "",
        *_table(rows), "", "All kinds with unknown Lamé constants together:", "", *_pooled(rows), "",
        "## Modes", "", *_modes(preset, results), "", "## What misses", "", *_misses(rows), "", "## Films", "", *(
            line for kind in SHOWN if f"{kind}.png" in pictures
            for line in (f"{KINDS[kind].title}, from mp4:", "", f"![{KINDS[kind].title}](images/{name}-{kind}.png)", "",
                         f"[Video: target, start, estimate](images/{name}-{kind}.mp4)", "")
        ),
        "## How", "", f"`python -m studies.gradsim {name} --preset {preset.name} --seed {preset.seed}`: "
        f"{sum(result['seconds'] for result in results.values()) / 60:.1f} minutes in all cells together.",
    ])  # fmt: skip


def three_films(kind: str, result: Mapping[str, Any], preset: Preset) -> dict[str, np.ndarray]:
    """Target, start and estimate of body 0 of a kind: linear pictures [T, H, W, 3].

    Args:
        kind: of the body.
        result: of its cell.
        preset: sizes.
    """
    drawn, films = draw(kind, 0, seed=preset.seed), {}
    for label, values in {"target": drawn.values, "start": result["start"], "estimate": result["estimate"]}.items():
        scene = deformable_scene(drawn.with_values(values), size=size_of(kind, preset))
        with torch.no_grad():
            films[label] = film(scene, {}, worlds=1, frames=scene.frames)[0][0].cpu().numpy()
    return films


def write_three_rows(path: Path, films: Mapping[str, np.ndarray], *, frame_dt: float) -> None:
    """Write a picture with a row for each film, at times spread over it.

    Args:
        path: of the picture.
        films: label -> [T, H, W, 3] linear.
        frame_dt: s.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with figure_file(path, 1.5 * COLUMNS + 0.35, 4.6) as figure:
        grid = figure.subplots(len(films), COLUMNS, squeeze=False)
        for axes_row, (label, pictures) in zip(grid, films.items(), strict=True):
            for axes, frame in zip(axes_row, np.linspace(0, len(pictures) - 1, COLUMNS).round().astype(int), strict=True):
                axes.imshow(_srgb(pictures[frame]), interpolation="nearest")
                axes.set(xticks=[], yticks=[])
                axes.set_title(f"{frame * frame_dt:.2f} s" if label == "target" else "", fontsize=8)
            axes_row[0].set_ylabel(label, fontsize=8)


def _srgb(linear: np.ndarray) -> np.ndarray:
    """Colours for the screen: the inverse of ``srgb_to_linear`` by interpolation."""
    levels = np.linspace(0.0, 1.0, 1024)
    return np.interp(np.clip(linear, 0, 1), srgb_to_linear(levels), levels)


def _about(preset: Preset, counts: Mapping[str, int]) -> list[str]:
    few = ", ".join(f"{count} of {KINDS[kind].title}" for kind, count in counts.items())
    return [
        f"Bodies: {few}; the paper has 100 in all, and fewer are here to save time. "
        f"Pictures of {preset.side} pixels, {preset.small} where each particle has "
        "unknowns. Every body is drawn from the seed (`deformable_scenes.py`); the paper gives no ranges. Scales are drawn over "
        f"a decade and may be found within {BEYOND:g} times its ends. Starts do not know the truth: {OFF:g} times the least and "
        f"1/{OFF:g} of the most that is drawn, so that they are up to {OFF:g} times off, and no velocity at all for cloths. "
        "Masses and velocities of each particle start from one density and one affine field, found from the same film first.",
        "",
        "What each particle's mass is made of: `Scene.add_solid` takes a density for each element, or a mass for each particle. "
        "80 tetrahedra give their mass to 43 particles, so that their densities cannot be told apart by any motion; the unknowns "
        "are the masses of the particles, as in the paper. From compressed films they have a prior about the one density that "
        f"was found first, with a standard deviation of {100 * PRIOR_MASS:g} %, and velocities of particles one of "
        f"{PRIOR_SPEED:g} m/s about the affine field.",
        "",
        "The public code of gradSim starts its masses 2 % from the truth (the truth plus noise), which is nearer than the error "
        "of 4.8 % in its table; it has no code for Lamé constants of table 3.",
    ]


def _table(rows: Sequence[Row]) -> list[str]:
    lines = [
        "| body | from | number | paper | asked | **ours** | largest | within | average | random | error bar | bars hold | s |",
        "|" + "---|" * 13,
    ]
    for row in rows:
        within = sum(error <= ASKED[row.number] for error in row.errors)
        lines.append(
            f"| {KINDS[row.kind].title} | {SOURCES[row.source]} | {row.number} | {row.paper:g} | {ASKED[row.number]:g} | "
            f"**{digits(row.error)}** | {digits(max(row.errors, default=None))} | "
            f"{share(within, len(row.errors) + row.failed)} | {digits(row.average)} | {digits(row.random)} | "
            f"{digits(float(np.mean(row.bars)) if row.bars else None)} | {share(row.held, len(row.ratios))} | "
            f"{np.mean(row.seconds):.0f} |"
        )
    return [
        *lines, "", f"\"bars hold\": truths within {INSIDE:g} error bars, of all unknowns that the film tells. \"average\" "
        f"guesses the mean of {OTHERS} other draws, \"random\" another draw. Of compressed films luminance is compared.",
    ]  # fmt: skip


def _pooled(rows: Sequence[Row]) -> list[str]:
    lines = ["| number | from | paper | asked | ours, mean | median | within |", "|" + "---|" * 7]
    for number in ("mu", "lambda"):
        for source, title in SOURCES.items():
            group = [row for row in rows if row.number == number and row.source == source]
            errors = [error for row in group for error in row.errors]
            if errors:
                within = sum(error <= ASKED[number] for error in errors)
                lines.append(
                    f"| {number} | {title} | {group[0].paper:g} | {ASKED[number]:g} | {digits(float(np.mean(errors)))} | "
                    f"{digits(float(np.median(errors)))} | {share(within, len(errors) + sum(row.failed for row in group))} |"
                )
    return lines


def _modes(preset: Preset, results: Mapping[tuple[str, str, int], Mapping[str, Any]]) -> list[str]:
    lines = [
        "A film tells combinations of the particles' numbers, not each. A mode is a unit vector of them whose amplitude has an "
        "error bar of its own; \"seen\" are those known to better than a quarter of the allowed range, \"told\" those with a bar "
        f"of at most {TOLD:g} of a particle's mass, or of the typical velocity. The held particles of a cloth leave six modes "
        "without any effect. The error of each particle is in the table above.", "",
        "| body | from | modes | seen | error in these | told | error in these | their bar |", "|" + "---|" * 8,
    ]  # fmt: skip
    for kind in (kind for kind in SHOWN if KINDS[kind].coarse):
        for source, title in SOURCES.items():
            every = [results[kind, source, index] for index in range(count_of(kind, preset))]
            modes = [result["modes"] for result in every if result.get("modes")]
            if modes:
                mean = {key: _mean([mode[key] for mode in modes]) for key in modes[0]}
                lines.append(
                    f"| {KINDS[kind].title} | {title} | {mean['of']:g} | {mean['seen']:.1f} | {digits(mean['error'])} | "
                    f"{mean['told']:.1f} | {digits(mean['told_error'])} | {digits(mean['told_bar'])} |"
                )
    return lines


def _misses(rows: Sequence[Row]) -> list[str]:
    lines = []
    for row in rows:
        beaten = [
            name for name, value in (
                ("the asked", ASKED[row.number]), ("the paper's", row.paper), ("the average's", row.average),
                ("the random guess'", row.random),
            ) if not row.error <= value
        ]  # fmt: skip
        if beaten:
            lines.append(f"- {KINDS[row.kind].title}, {row.number}, {SOURCES[row.source]}: {_reason(row, beaten)}")
    return lines or ["Nothing: every mean error is below what is asked, the paper's and the baselines'."]


def _reason(row: Row, beaten: Sequence[str]) -> str:
    if not row.errors:
        return f"all {row.failed} searches failed."
    sentence = f"the mean error of {digits(row.error)} is above {', '.join(beaten)}."
    if row.fits is not None and row.fits < len(row.errors):
        median = digits(float(np.median(row.errors)))
        missed = len(row.errors) - row.fits
        return f"{sentence} {missed} of {len(row.errors)} estimates do not explain their film: another minimum. Median {median}."
    if row.bars:
        bar = float(np.mean(row.bars))
        sentence += f" The mean error bar is {digits(bar)} of the truth"
        sentence += ": the film tells no more." if row.error <= INSIDE * bar else ", so that the bar is too narrow."
    return sentence


def _mean(numbers: Sequence[float | None]) -> float | None:
    defined = [number for number in numbers if number is not None]
    return float(np.mean(defined)) if defined else None
