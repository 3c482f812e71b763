"""Tables 1 and 2 of gradSim: the mass of a tossed object, and mass, elasticity and friction together, from a film."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from studies.gradsim.cells import FAILED, Cell, run_cells, without_failures
from studies.gradsim.pages import Page
from studies.gradsim.presets import Preset
from studies.gradsim.rigid.black_box import RATES, searched
from studies.gradsim.rigid.cells import identified, test_tosses
from studies.gradsim.rigid.networks import trained
from studies.gradsim.rigid.page import LARGE, TUNED, Row, head_of, notes_of, pictures_of, table_of
from studies.gradsim.tosses import MASS, NUMBERS, draw_toss

KINDS = ("convnet", "convlstm")  # of networks
BOXES = {"black box": "engine", "black box, PyBullet": "bullet"}  # row -> what simulates

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
    results = run_cells([networks, *(cell for row in cells.values() for cell in row)], folder, jobs=jobs, title=name)
    boxes = {
        row: _black_boxes(row, simulator, name, preset, folder, unknowns, jobs)
        for row, simulator in BOXES.items()
        if simulator == "engine" or name == "table-1"
    }
    readers = {kind: results[0][kind] for kind in KINDS}
    masses = np.array([toss.volume * toss.values[MASS] for toss in _drawn(test_tosses(preset), preset)])
    rows = [*blind_rows(preset, unknowns), *(network_row(k, r, masses, len(unknowns)) for k, r in readers.items())]
    rows += [_row(row, boxed, unknowns, bars=False) for row, (_, boxed) in boxes.items()]
    for row, row_cells in cells.items():
        rows.append(_row(row, [cell.read(folder) for cell in row_cells], unknowns, bars=True))
    films = [cell.read(folder) for cell in cells["ours, mp4"]]
    pictures = pictures_of(name, preset, folder, readers, boxes["black box"][1], films[0], unknowns)
    rates = {row: rate for row, (rate, _) in boxes.items()}
    exact = [cell.read(folder) for cell in cells["ours, lossless"]]
    notes = notes_of(name, preset, readers, rates, films, exact, pictures)
    return Page(name, "\n".join([*head_of(name, preset), table_of(name, rows, unknowns), "", *notes]), pictures)


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
    cells = {}
    for row, options in rows.items():
        inputs = {"seed": preset.seed, "units": "paper", "size": preset.size, "frames": preset.frames, "unknowns": list(unknowns)}
        inputs |= {"start": "far"} | options
        key = row.replace(", ", "-").replace(" ", "-")
        indices = test_tosses(preset)
        cells[row] = [Cell(f"{name}/{key}/toss-{index:04d}", identified, {"index": index} | inputs) for index in indices]
    first = cells["ours, mp4"][0]
    cells["ours, mp4"][0] = replace(first, given=first.given | {"strip": str(folder / name / "strip.png")})
    return cells


def _network_cell(preset: Preset, folder: Path) -> Cell:
    """One training of each kind serves both tables."""
    arguments = {
        "kinds": list(KINDS), "folder": str(folder / "network-films"), "seed": preset.seed, "units": "paper",
        "size": preset.small, "frames": preset.frames, "count": preset.train, "test": test_tosses(preset),
        "epochs": preset.epochs,
    }  # fmt: skip
    return Cell("networks", trained, arguments)


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
    arguments = {
        "seed": preset.seed, "units": "paper", "size": preset.small, "frames": preset.frames,
        "unknowns": list(unknowns), "updates": preset.updates, "samples": preset.samples, "rate": rate,
    }  # fmt: skip
    cell_folder = "black-box"
    if simulator != "engine":
        arguments, cell_folder = arguments | {"simulator": simulator}, f"black-box-{simulator}"
    return [Cell(f"{name}/{cell_folder}/rate-{rate:g}/toss-{k:04d}", searched, {"index": k} | arguments) for k in indices]


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
    drawn = np.array([_numbers(toss, unknowns) for toss in _drawn(range(preset.train), preset)])
    truth = np.array([_numbers(toss, unknowns) for toss in _drawn(test_tosses(preset), preset)])
    masses = np.array([toss.volume * toss.values[MASS] for toss in _drawn(test_tosses(preset), preset)])
    guesses = drawn[np.random.default_rng([preset.seed, 3]).integers(len(drawn), size=len(truth))]
    return [
        Row("average", drawn.mean(axis=0) / truth - 1, None, masses, None), Row("random", guesses / truth - 1, None, masses, None)
    ]


def network_row(kind: str, result: Mapping[str, Any], masses: np.ndarray, count: int) -> Row:
    """A network's errors of the first ``count`` numbers; its outputs are logarithms."""
    values, truth = np.array(result["values"]), np.array(result["truth"])
    return Row(kind, np.exp(values - truth)[:, :count] - 1, None, masses, None)


def _row(name: str, results: Sequence[Mapping[str, Any] | None], unknowns: Sequence[str], *, bars: bool) -> Row:
    """A row of results of cells."""
    completed = without_failures([result for result in results if result is not None])
    errors, sizes = (
        np.array([[r[key][n] for n in unknowns] for r in completed], dtype=float).reshape(len(completed), len(unknowns))
        for key in ("error", "bar" if bars else "error")
    )
    masses = np.array([r["volume"] * r["truth"][MASS] for r in completed])
    seconds = float(np.mean([r["seconds"] for r in completed])) if completed else None
    converged = np.array([bool(r["converged"]) for r in completed], dtype=bool) if bars else None
    return Row(name, errors, sizes if bars else None, masses, seconds, len(results) - len(completed), converged)
