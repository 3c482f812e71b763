"""The pages of tables 1 and 2: rows, the paper's numbers, what was asked, curves, a strip and a video."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from risp_torch import film, write_video
from risp_torch.files.report import plot_curves
from studies.gradsim.cells import FAILED, without_failures
from studies.gradsim.pages import digits, share
from studies.gradsim.presets import CRF, INSIDE, Preset
from studies.gradsim.rigid.black_box import RATES
from studies.gradsim.rigid.cells import FAR, test_tosses
from studies.gradsim.tosses import NUMBERS, draw_toss, toss_scene
from studies.markdown import markdown

TOLD = 0.05  # largest relative error bar of a number that counts as told by a film
LARGE = "ours, mp4, {} pixels"
TUNED = 4  # training tosses that choose the black box's rate
# Mean absolute relative errors of the paper; table 1 has the mass alone.
PAPER = {
    "table-1": {
        "average": (0.1031,), "random": (0.1344,), "convlstm": (0.0094,), "black box, PyBullet": (0.3668,),
        "3D supervision": (5.17e-9,), "ours, lossless": (9.01e-5,),
    },
    "table-2": {
        "average": (1.7713, 3.7145, 2.3410, 4.1157, 0.4463), "random": (10.0007, 4.18, 2.5454, 5.0241, 0.5558),
        "convlstm": (0.029, 0.14, 0.14, 0.17, 0.096), "3D supervision": (1.70e-8, 0.036, 0.0020, 0.0007, 0.0107),
        "ours, lossless": (2.87e-4, 0.4, 0.0026, 0.0017, 0.0073),
    },
}  # fmt: skip
ASKED = {
    "table-1": {"ours, lossless": (1e-5,), "ours, mp4": (2e-3,), LARGE.format(256): (2e-3,)},
    "table-2": {"ours, lossless": (1e-4, 0.03, 1e-3, 7e-4, 1e-3)},
}
PICTURES = {
    "training.png": "Trainings", "black-box.png": "Black box", "strip.png": "A film, the estimate and their difference",
    "film.mp4": "The film and, right of it, the estimate from its mp4",
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A method's results.

    Attributes:
        name: of the method.
        errors: [n, K] estimates over truths minus 1.
        bars: [n, K] relative error bars, one standard deviation; None if the method has none.
        masses: [n] true masses [kg].
        seconds: mean wall-clock time of a film; None where it makes no sense.
        failed: films without result.
        converged: [n] whether the report says that the search has; None where nothing is said.
    """

    name: str
    errors: np.ndarray
    bars: np.ndarray | None
    masses: np.ndarray
    seconds: float | None
    failed: int = 0
    converged: np.ndarray | None = None

    @property
    def told(self) -> np.ndarray:
        """[n, K] whether the film tells the number, by the report alone: a small error bar, of a search that has converged."""
        if self.bars is None:
            return np.ones_like(self.errors, dtype=bool)
        return (self.bars <= TOLD) & (True if self.converged is None else self.converged[:, None])

    def mean(self, k: int, *, told: bool = False) -> float:
        """Mean absolute relative error of number k, of all films or those that tell it."""
        chosen = np.abs(self.errors[:, k])[self.told[:, k] if told else slice(None)]
        return float(chosen.mean()) if len(chosen) else math.nan

    def median(self, k: int) -> float:
        """Median absolute relative error of number k."""
        return float(np.median(np.abs(self.errors[:, k])))

    def mean_kg(self) -> float:
        """Mean absolute error of the mass [kg]."""
        return float((np.abs(self.errors[:, 0]) * self.masses).mean())

    def inside(self, *, converged: bool = False) -> tuple[int, int] | None:
        """Number of errors within ``INSIDE`` bars and of all errors, in all films or in those whose search has converged."""
        if self.bars is None:
            return None
        chosen = self.converged if converged and self.converged is not None else np.ones(len(self.errors), dtype=bool)
        within = (np.abs(self.errors) <= INSIDE * self.bars)[chosen]
        return int(within.sum()), within.size


def head_of(name: str, preset: Preset) -> list[str]:
    """Title, command and what was filmed, as lines of Markdown."""
    sought = "the mass" if name == "table-1" else "mass, damping kd, stiffness ke, friction stiffness kf and friction mu together"
    return [
        f"# gradSim, table {name[-1]}: {sought} of a tossed object from its film", "",
        f"`python -m studies.gradsim {name} --preset {preset.name} --seed {preset.seed}`", "",
        f"{preset.test} held-out tosses of 14 objects, {preset.train} for training; films of {preset.frames + 1} frames, "
        f"{preset.size} pixels wide ({preset.small} for networks and the black box). Gravity is real and the objects land; the "
        f"impulse, the pose and the velocity at the start are known. First guesses are wrong by up to {FAR:g} times, evenly in "
        f"the logarithm; the paper's lie in the range of the truths. mp4: H.264, crf {CRF:g}, of which "
        "luminance is compared. Errors are means of absolute values, relative to the truth.", "",
    ]  # fmt: skip


def table_of(name: str, rows: Sequence[Row], unknowns: Sequence[str]) -> str:
    """The table in Markdown: a line for each method."""
    single = len(unknowns) == 1
    head = ["method"]
    if single:
        head += ["kg", "relative", "median", "the paper", "asked"]
    else:
        head += [f"{NUMBERS[n]}: all films; told; median" for n in unknowns] + ["the paper", "asked", "told"]
    head += [f"within {INSIDE} bars", "of converged searches", "s a film", "failed"]
    lines = []
    for row in rows:
        paper, target = (" ".join(map(digits, table[name].get(row.name, ()))) or "-" for table in (PAPER, ASKED))
        inside, sure = row.inside(), row.inside(converged=True)
        line = [row.name]
        if single:
            line += [digits(row.mean_kg()), digits(row.mean(0)), digits(row.median(0)), paper, target]
        else:
            for k in range(len(unknowns)):
                told = "" if row.bars is None else f"; {digits(row.mean(k, told=True))}; {digits(row.median(k))}"
                line.append(digits(row.mean(k)) + told)
            counts = " ".join(str(int(row.told[:, k].sum())) for k in range(len(unknowns)))
            line += [paper, target, "-" if row.bars is None else f"{counts} of {len(row.errors)}"]
        line += ["-" if pair is None else share(*pair) for pair in (inside, sure)]
        line += ["-" if row.seconds is None else f"{row.seconds:.1f}", str(row.failed)]
        lines.append(line)
    return markdown(head, lines)


def notes_of(
    name: str, preset: Preset, readers: Mapping[str, Mapping[str, Any]], chosen: Mapping[str, float],
    films: Sequence[Mapping[str, Any] | None], exact: Sequence[Mapping[str, Any] | None], row_names: Collection[str],
) -> list[str]:  # fmt: skip
    """Sentences below the table.

    Args:
        name, preset: of the page.
        readers: results of the networks, by name.
        chosen: rate of each black box.
        films, exact: results of mp4 films, and of films without loss.
        row_names: pictures and videos that there are (``PICTURES``).
    """
    rates = ", ".join(f"{learning_rate:g}" for learning_rate in RATES)
    best = " and ".join(f"{rate:g} ({row})" for row, rate in chosen.items())
    notes = [
        f"The black box takes {preset.updates} updates of {preset.samples} films (the paper's table 5: 125 of 5, noise .05, "
        "decay .925), through this engine's forward pass or PyBullet, from a start in the drawn range. The paper names no "
        f"optimiser; of Adam's rates {rates}, {best} was best on {min(TUNED, preset.train)} training tosses. PyBullet has the "
        "same mass, inertia, push and friction, convex hulls of the objects, and its own contact: four points at most share the "
        "springs of half of the vertices.", "",
        *(
            f"{kind}: {result['parameters']:,} weights, {preset.epochs} epochs of Adam at 1e-4, of which a tenth of the training "
            f"films chose number {result['epoch'] + 1}; {result['early']} passes while films were still made; "
            f"{result['seconds']:.0f} s."
            for kind, result in readers.items()
        ), "",
        *(line for key, title in PICTURES.items() if key in row_names
          for line in (f"{'' if key.endswith('.mp4') else '!'}[{title}](images/{name}-{key})", "")),
    ]  # fmt: skip
    if name == "table-2":
        notes += [
            f"A number counts as told by a film where the search has converged, by its own report, and the error bar is at most "
            f"{100 * TOLD:g} %; the truth is not used. What films do not tell:", "", *_untold(films), "",
            "The largest errors of films without loss that tell the number:", "", *_worst(exact),
        ]  # fmt: skip
    return notes


def _untold(films: Sequence[Mapping[str, Any] | None]) -> list[str]:
    """Number of mp4 films in which each unknown is not identifiable, with examples of the report's sentences."""
    completed = without_failures([film for film in films if film is not None])
    lines = []
    for name, short in NUMBERS.items():
        loose = [film for film in completed if film["bar"][name] > TOLD or not film["converged"]]
        said = next((sentence for film in loose for sentence in film["unseen"] if name in sentence), None)
        lines.append(f"- {short}: {share(len(loose), len(completed))} mp4 films" + (f'; for example "{said}"' if said else ""))
    return lines


def _worst(films: Sequence[Mapping[str, Any] | None]) -> list[str]:
    """Of each number the told film with the largest error, its bar, and the mean error without it."""
    completed, lines = without_failures([film for film in films if film is not None]), []
    for name, short in NUMBERS.items():
        told = [film for film in completed if film["bar"][name] <= TOLD and film["converged"]]
        told.sort(key=lambda film: abs(film["error"][name]))
        if len(told) > 1:
            worst, rest = told[-1], float(np.mean([abs(film["error"][name]) for film in told[:-1]]))
            lines.append(
                f"- {short}: {digits(abs(worst['error'][name]))} of the {worst['shape']}, with a bar of "
                f"{digits(worst['bar'][name])}; mean of the others {digits(rest)}"
            )
    return lines


def pictures_of(
    name: str, preset: Preset, folder: Path, readers: Mapping[str, Mapping[str, Any]], boxed: Sequence[Mapping[str, Any]],
    network_result: Mapping[str, Any] | None, unknowns: Sequence[str],
) -> dict[str, Path]:  # fmt: skip
    """Curves of trainings and of the black box, the strip, and a video of the first mp4 film beside what was found of it."""
    picture_folder = folder / name
    picture_folder.mkdir(parents=True, exist_ok=True)
    curves = {kind: np.array(result["curve"]).T for kind, result in readers.items()}
    panels = {"mean squared error": {f"{kind}, {split}": rows[k][None] for kind, rows in curves.items()
                                     for k, split in enumerate(("training", "held out"))}}  # fmt: skip
    plot_curves(picture_folder / "training.png", panels, logarithmic=list(panels), x_label="epoch")
    completed = without_failures(boxed)
    errors = {f"error of {NUMBERS[n]}": {"black box": np.abs([r["curve"][n] for r in completed])} for n in unknowns}
    plot_curves(picture_folder / "black-box.png", errors, logarithmic=list(errors), x_label="update")
    if network_result is not None and FAILED not in network_result:
        write_pair(picture_folder / "film.mp4", preset, network_result["values"])
    return {key: picture_folder / key for key in PICTURES if (picture_folder / key).is_file()}


def write_pair(path: Path, preset: Preset, values: Mapping[str, float]) -> None:
    """Write the film of the first held-out toss, and right of it that of other numbers of it.

    Args:
        path: of the mp4.
        preset: sizes.
        values: name -> value.
    """
    toss, films = draw_toss(test_tosses(preset)[0], seed=preset.seed), []
    for thrown in (toss, toss.with_values(values)):
        scene = toss_scene(thrown, size=preset.size, frames=preset.frames)
        with torch.no_grad():
            films.append(film(scene, {}, worlds=1, frames=scene.frames)[0][0])
    write_video(path, torch.cat(films, dim=2), fps=scene.fps, crf=CRF)
