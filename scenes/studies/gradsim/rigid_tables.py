"""Tables 1 and 2 of gradSim: the mass of a tossed object, and mass, elasticity and friction together, from a film."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from risp_torch.files.report import plot_curves

from ..markdown import markdown
from .black_box import RATES, searched
from .cells import FAILED, Cell, run_cells, without_failures
from .networks import trained
from .pages import Page, digits, share
from .presets import CRF, INSIDE, Preset
from .rigid_cells import FAR, identified, test_tosses
from .tosses import MASS, NUMBERS, draw_toss

TOLD = 0.05  # largest relative error bar of a number that counts as told by a film
KINDS = ("convnet", "convlstm")  # of networks
BOXES = {"black box": "engine", "black box, PyBullet": "bullet"}  # row -> what simulates
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
        """How many errors lie within ``INSIDE`` bars, and of how many, of all films or those whose search has converged."""
        if self.bars is None:
            return None
        chosen = self.converged if converged and self.converged is not None else np.ones(len(self.errors), dtype=bool)
        within = (np.abs(self.errors) <= INSIDE * self.bars)[chosen]
        return int(within.sum()), within.size


def make(name: str, preset: Preset, folder: Path, *, jobs: int) -> Page:
    """Table 1 or 2.

    Args:
        name: "table-1" or "table-2".
        preset: sizes.
        folder: of all results.
        jobs: processes at the same time.
    """
    unknowns = [MASS] if name == "table-1" else list(NUMBERS)
    cells = identification_cells(name, preset, folder, unknowns)
    networks = _network_cell(preset, folder)
    found = run_cells([networks, *(cell for row in cells.values() for cell in row)], folder, jobs=jobs, title=name)
    boxes = {
        row: _black_boxes(row, simulator, name, preset, folder, unknowns, jobs)
        for row, simulator in BOXES.items()
        if simulator == "engine" or name == "table-1"
    }
    readers = {kind: found[0][kind] for kind in KINDS}
    masses = np.array([toss.volume * toss.values[MASS] for toss in _drawn(test_tosses(preset), preset)])
    rows = [*blind_rows(preset, unknowns), *(network_row(k, r, masses, len(unknowns)) for k, r in readers.items())]
    rows += [_row(row, boxed, unknowns, bars=False) for row, (_, boxed) in boxes.items()]
    for row, row_cells in cells.items():
        rows.append(_row(row, [cell.read(folder) for cell in row_cells], unknowns, bars=True))
    pictures = _pictures(name, folder, readers, boxes["black box"][1], unknowns)
    rates = {row: rate for row, (rate, _) in boxes.items()}
    notes = _notes(name, preset, readers, rates, [cell.read(folder) for cell in cells["ours, mp4"]])
    return Page(name, "\n".join([*_head(name, preset), _table(name, rows, unknowns), "", *notes]), pictures)


def identification_cells(name: str, preset: Preset, folder: Path, unknowns: Sequence[str]) -> dict[str, list[Cell]]:
    """Cells of all methods with an engine, by row."""
    rows: dict[str, dict[str, Any]] = {
        "3D supervision": {"source": "states"}, "ours, lossless": {"source": "lossless"}, "ours, mp4": {"source": "mp4"}
    }  # fmt: skip
    if name == "table-1":
        rows |= {
            "ours, lossless, starts over the whole range": {"source": "lossless", "start": "range"},
            "ours, mp4, everyday sizes": {"source": "mp4", "units": "si"},
        }
        if preset.large != preset.size:
            rows[LARGE.format(preset.large)] = {"source": "mp4", "size": preset.large}
    made = {}
    for row, options in rows.items():
        given = {"seed": preset.seed, "units": "paper", "size": preset.size, "frames": preset.frames, "unknowns": list(unknowns)}
        given |= {"start": "far"} | options
        key = row.replace(", ", "-").replace(" ", "-")
        indices = test_tosses(preset)
        made[row] = [Cell(f"{name}/{key}/toss-{index:04d}", identified, {"index": index} | given) for index in indices]
    first = made["ours, mp4"][0]
    made["ours, mp4"][0] = replace(first, given=first.given | {"strip": str(folder / name / "strip.png")})
    return made


def _network_cell(preset: Preset, folder: Path) -> Cell:
    """One training of each kind serves both tables."""
    given = {
        "kinds": list(KINDS), "folder": str(folder / "network-films"), "seed": preset.seed, "units": "paper",
        "size": preset.small, "frames": preset.frames, "count": preset.train, "test": test_tosses(preset),
        "epochs": preset.epochs,
    }  # fmt: skip
    return Cell("networks", trained, given)


def _black_boxes(
    row: str, simulator: str, name: str, preset: Preset, folder: Path, unknowns: Sequence[str], jobs: int
) -> tuple[float, list[dict[str, Any]]]:
    """The rate that is best on training tosses, and the results of the held-out ones with it."""
    tuning = [
        cell
        for rate in RATES
        for cell in _black_box_cells(name, preset, unknowns, range(min(TUNED, preset.train)), rate, simulator)
    ]
    rate = chosen_rate(run_cells(tuning, folder, jobs=jobs, title=f"{name}, {row}, rates"), tuning)
    boxes = _black_box_cells(name, preset, unknowns, test_tosses(preset), rate, simulator)
    return rate, run_cells(boxes, folder, jobs=jobs, title=f"{name}, {row}")


def _black_box_cells(
    name: str, preset: Preset, unknowns: Sequence[str], indices: Sequence[int], rate: float, simulator: str
) -> list[Cell]:
    given = {
        "seed": preset.seed, "units": "paper", "size": preset.small, "frames": preset.frames,
        "unknowns": list(unknowns), "updates": preset.updates, "samples": preset.samples, "rate": rate,
    }  # fmt: skip
    place = "black-box"
    if simulator != "engine":
        given, place = given | {"simulator": simulator}, f"black-box-{simulator}"
    return [Cell(f"{name}/{place}/rate-{rate:g}/toss-{k:04d}", searched, {"index": k} | given) for k in indices]


def chosen_rate(results: Sequence[Mapping[str, Any] | None], cells: Sequence[Cell]) -> float:
    """The rate with the lowest mean absolute error over training tosses."""
    errors: dict[float, list[float]] = {}
    for cell, result in zip(cells, results, strict=True):
        if result is not None and FAILED not in result:
            errors.setdefault(cell.given["rate"], []).append(float(np.mean(np.abs(list(result["error"].values())))))
    return min(errors, key=lambda rate: float(np.mean(errors[rate]))) if errors else RATES[0]


def _drawn(indices: Sequence[int], preset: Preset) -> list[Any]:
    return [draw_toss(index, seed=preset.seed) for index in indices]


def _numbers(toss: Any, unknowns: Sequence[str]) -> np.ndarray:
    """True numbers of a toss, with the mass in kg."""
    return np.array([toss.values[name] * (toss.volume if name == MASS else 1.0) for name in unknowns])


def blind_rows(preset: Preset, unknowns: Sequence[str]) -> list[Row]:
    """The mean of the training tosses, and the numbers of one of them, for every test toss."""
    known = np.array([_numbers(toss, unknowns) for toss in _drawn(range(preset.train), preset)])
    truth = np.array([_numbers(toss, unknowns) for toss in _drawn(test_tosses(preset), preset)])
    masses = np.array([toss.volume * toss.values[MASS] for toss in _drawn(test_tosses(preset), preset)])
    some = known[np.random.default_rng([preset.seed, 3]).integers(len(known), size=len(truth))]
    return [
        Row("average", known.mean(axis=0) / truth - 1, None, masses, None), Row("random", some / truth - 1, None, masses, None)
    ]


def network_row(kind: str, result: Mapping[str, Any], masses: np.ndarray, count: int) -> Row:
    """A network's errors of the first ``count`` numbers; its outputs are logarithms."""
    values, truth = np.array(result["values"]), np.array(result["truth"])
    return Row(kind, np.exp(values - truth)[:, :count] - 1, None, masses, None)


def _row(name: str, results: Sequence[Mapping[str, Any] | None], unknowns: Sequence[str], *, bars: bool) -> Row:
    """A row of results of cells."""
    whole = without_failures([result for result in results if result is not None])
    errors, sizes = (
        np.array([[r[key][n] for n in unknowns] for r in whole], dtype=float).reshape(len(whole), len(unknowns))
        for key in ("error", "bar" if bars else "error")
    )
    masses = np.array([r["volume"] * r["truth"][MASS] for r in whole])
    seconds = float(np.mean([r["seconds"] for r in whole])) if whole else None
    converged = np.array([bool(r["converged"]) for r in whole], dtype=bool) if bars else None
    return Row(name, errors, sizes if bars else None, masses, seconds, len(results) - len(whole), converged)


def _head(name: str, preset: Preset) -> list[str]:
    what = "the mass" if name == "table-1" else "mass, damping kd, stiffness ke, friction stiffness kf and friction mu together"
    return [
        f"# gradSim, table {name[-1]}: {what} of a tossed object from its film", "",
        f"`python -m scenes.studies.gradsim {name} --preset {preset.name} --seed {preset.seed}`", "",
        f"{preset.test} held-out tosses of 14 objects, {preset.train} for training; films of {preset.frames + 1} frames, "
        f"{preset.size} pixels wide ({preset.small} for networks and the black box). Gravity is real and the objects land; the "
        f"impulse, the pose and the velocity at the start are known. First guesses are wrong by up to {FAR:g} times, evenly in "
        f"the logarithm; the paper's lie in the range of the truths. mp4: H.264, crf {CRF:g}, of which "
        "luminance is compared. Errors are means of absolute "
        "values, relative to the truth.", "",
    ]  # fmt: skip


def _table(name: str, rows: Sequence[Row], unknowns: Sequence[str]) -> str:
    single = len(unknowns) == 1
    head = ["method"]
    if single:
        head += ["kg", "relative", "median", "the paper", "asked"]
    else:
        head += [f"{NUMBERS[n]}: all films; told; median" for n in unknowns] + ["the paper", "asked", "told"]
    head += [f"within {INSIDE} bars", "of converged searches", "s a film", "failed"]
    lines = []
    for row in rows:
        paper, asked = (" ".join(map(digits, table[name].get(row.name, ()))) or "-" for table in (PAPER, ASKED))
        inside, sure = row.inside(), row.inside(converged=True)
        line = [row.name]
        if single:
            line += [digits(row.mean_kg()), digits(row.mean(0)), digits(row.median(0)), paper, asked]
        else:
            for k in range(len(unknowns)):
                told = "" if row.bars is None else f"; {digits(row.mean(k, told=True))}; {digits(row.median(k))}"
                line.append(digits(row.mean(k)) + told)
            counts = " ".join(str(int(row.told[:, k].sum())) for k in range(len(unknowns)))
            line += [paper, asked, "-" if row.bars is None else f"{counts} of {len(row.errors)}"]
        line += ["-" if each is None else share(*each) for each in (inside, sure)]
        line += ["-" if row.seconds is None else f"{row.seconds:.1f}", str(row.failed)]
        lines.append(line)
    return markdown(head, lines)


def _notes(
    name: str, preset: Preset, readers: Mapping[str, Mapping[str, Any]], chosen: Mapping[str, float],
    films: Sequence[Mapping[str, Any] | None],
) -> list[str]:  # fmt: skip
    """Sentences below the table."""
    rates = ", ".join(f"{each:g}" for each in RATES)
    best = " and ".join(f"{rate:g} ({row})" for row, rate in chosen.items())
    notes = [
        f"The black box takes {preset.updates} updates of {preset.samples} films (the paper's table 5: 125 of 5, noise .05, "
        "decay .925), through this engine's forward pass or PyBullet, from a start in the drawn range. The paper names no "
        f"optimiser; of Adam's rates {rates}, {best} was best on {min(TUNED, preset.train)} training tosses. PyBullet has the "
        "same mass, inertia, push and friction, convex hulls of the objects, and its own contact.", "",
        *(
            f"{kind}: {result['parameters']:,} weights, {preset.epochs} epochs of Adam at 1e-4, of which a tenth of the training "
            f"films chose number {result['epoch'] + 1}; {result['early']} passes while films were still made; "
            f"{result['seconds']:.0f} s."
            for kind, result in readers.items()
        ), "",
        f"![Trainings](images/{name}-training.png)", "", f"![Black box](images/{name}-black-box.png)", "",
        f"![A film, the estimate and their difference](images/{name}-strip.png)", "",
    ]  # fmt: skip
    if name == "table-2":
        notes += [
            f"A number counts as told by a film where the search has converged, by its own report, and the error bar is at most "
            f"{100 * TOLD:g} %; the truth is not used. What films do not tell:", "", *_untold(films),
        ]  # fmt: skip
    return notes


def _untold(films: Sequence[Mapping[str, Any] | None]) -> list[str]:
    """How often each number is not told by the mp4 films, with examples of what the report says."""
    whole = without_failures([film for film in films if film is not None])
    lines = []
    for name, short in NUMBERS.items():
        loose = [film for film in whole if film["bar"][name] > TOLD or not film["converged"]]
        said = next((sentence for film in loose for sentence in film["unseen"] if name in sentence), None)
        lines.append(f"- {short}: {share(len(loose), len(whole))} mp4 films" + (f'; for example "{said}"' if said else ""))
    return lines


def _pictures(
    name: str, folder: Path, readers: Mapping[str, Mapping[str, Any]], boxed: Sequence[Mapping[str, Any]], unknowns: Sequence[str]
) -> dict[str, Path]:
    """Curves of trainings and of the black box, and the strip."""
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    curves = {kind: np.array(result["curve"]).T for kind, result in readers.items()}
    panels = {"mean squared error": {f"{kind}, {part}": rows[k][None] for kind, rows in curves.items()
                                     for k, part in enumerate(("training", "held out"))}}  # fmt: skip
    plot_curves(place / "training.png", panels, logarithmic=list(panels), along="epoch")
    whole = without_failures(boxed)
    errors = {f"error of {NUMBERS[n]}": {"black box": np.abs([r["curve"][n] for r in whole])} for n in unknowns}
    plot_curves(place / "black-box.png", errors, logarithmic=list(errors), along="update")
    return {key: place / key for key in ("training.png", "black-box.png", "strip.png") if (place / key).is_file()}
