"""Results of the units: cells of tables, with the errors of their repeats."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from risp_torch.programs import RunFolder
from studies.risp.pages.paper import paper_cell
from studies.risp.tables.claims import done
from studies.risp.tables.plan import BLIND, IMAGE_METHODS, PAPER_SEARCH, TABLES, TablePlan
from studies.risp.tables.units import evaluation_name, trial_name

# The paper's outputs of the hand are angles in rad; here they are relative to a range of ± pi / 6.
_ANGLES = math.pi / 6


@dataclass(frozen=True)
class Cell:
    """One method on one scene of one table.

    Attributes:
        table, scene, method: position of the cell.
        mean, sd: of the errors over the repeats (table 1: over the pictures).
        errors: of the repeats.
        unit: of the errors.
        records: results of the repeats, as written by the units.
        guesses: first guesses of a repeat; 0 without a search.
    """

    table: str
    scene: str
    method: str
    mean: float
    sd: float
    errors: list[float]
    unit: str
    records: list[dict[str, Any]]
    guesses: int = 0

    @property
    def paper(self) -> tuple[float, float] | None:
        """Values of the cell in the paper."""
        return paper_cell(self.table, self.scene, "full" if self.method == PAPER_SEARCH else self.method)

    def seconds(self) -> float:
        """Mean time of a repeat (table 1: of the training) [s]."""
        return float(np.mean([record.get("seconds", record.get("training_seconds", 0.0)) for record in self.records]))

    def spread(self) -> float:
        """Of table 1: standard deviation of predictions for a state over appearances, in the unit of the errors."""
        return _factor(self.table, self.scene) * self.records[0]["spread"]["mean"]

    def mean_of(self, key: str) -> float | None:
        """Mean over the repeats of a number in their results; None if one does not have it."""
        values = [record.get(key) for record in self.records]
        return None if not values or any(value is None for value in values) else float(np.mean(values))

    def off(self) -> float | None:
        """Largest distance of an estimate from the truth, in error bars; None if a repeat has none."""
        distances = [record.get("bars_off") for record in self.records]
        return None if not distances or None in distances else max(distances)

    def unseen(self) -> dict[str, float]:
        """Held-out motion -> mean error over the repeats."""
        names = self.records[0].get("unseen") or {} if self.records else {}
        errors_by_name = {name: [(record.get("unseen") or {}).get(name) for record in self.records] for name in names}
        factor = _factor(self.table, self.scene, held_out=True)
        return {name: factor * float(np.mean(errors)) for name, errors in errors_by_name.items() if None not in errors}


Cells = dict[tuple[str, str], Cell]


def cells_of(plan: TablePlan, table: str) -> Cells:
    """(scene, method) -> cell, of all cells of a table that have at least one repeat."""
    cells: Cells = {}
    for scene in plan.scenes_of(table):
        for method in (*plan.methods_of(table), PAPER_SEARCH):
            first = plan.preset.renderers[0]
            cell = _state_cell(plan, scene, method, first) if table == "1" else _cell(plan, table, scene, method)
            if cell is not None:
                cells[scene, method] = cell
    return cells


def _cell(plan: TablePlan, table: str, scene: str, method: str) -> Cell | None:
    folders = [plan.out / trial_name(scene, TABLES[table], method, repeat) for repeat in range(plan.repeats)]
    records = [RunFolder(folder, {}).read_result() for folder in folders if done(folder) is not None]
    if not records:
        return None
    factor = _factor(table, scene)
    errors = [factor * float(record["error"]) for record in records]
    guesses = 0 if method in BLIND else max(len(_settings(folder).get("guesses", ())) for folder in folders)
    mean, sd = float(np.mean(errors)), float(np.std(errors))
    return Cell(table, scene, method, mean, sd, errors, records[0]["unit"], records, guesses)


def _settings(folder: Path) -> dict[str, Any]:
    return RunFolder(folder, {}).read_settings() if (folder / "settings.json").is_file() else {}


def _state_cell(plan: TablePlan, scene: str, method: str, renderer: str) -> Cell | None:
    folder = plan.out / evaluation_name(scene, method, renderer)
    if done(folder) is None:
        return None
    record = RunFolder(folder, {}).read_result()
    mean, sd = (_factor("1", scene) * record["error"][key] for key in ("mean", "sd"))
    return Cell("1", scene, method, mean, sd, [mean], "rad" if scene == "hand" else "", [record])


def state_cells(plan: TablePlan, renderer: str) -> Cells:
    """Cells of table 1 on the test pictures of a renderer."""
    cells = {(s, m): _state_cell(plan, s, m, renderer) for s in plan.scenes_of("1") for m in plan.methods_of("1")}
    return {key: cell for key, cell in cells.items() if cell is not None}


def lowest(cells: Mapping[tuple[str, str], Cell], scene: str, *, but: str = "") -> str | None:
    """The image-based method with the lowest error on a scene, without ``but``; None if there is none."""
    candidates = [cells[scene, method] for method in IMAGE_METHODS if (scene, method) in cells and method != but]
    return min(candidates, key=lambda cell: cell.mean).method if candidates else None


def difference(first: Cell, second: Cell) -> tuple[float, float] | None:
    """Mean of the differences of two methods' errors, repeat by repeat, and its standard error; None for less than two repeats.

    Repeats share film, first guess and initial state between methods, so differences in difficulty between repeats cancel. The
    randomness of training the networks does not.
    """
    if len(first.errors) != len(second.errors) or len(first.errors) < 2:
        return None
    differences = np.subtract(first.errors, second.errors)
    return float(differences.mean()), float(differences.std(ddof=1) / math.sqrt(len(differences)))


def _factor(table: str, scene: str, *, held_out: bool = False) -> float:
    """From errors of normalised outputs to the paper's unit."""
    return _ANGLES if scene == "hand" and (table != "2" or held_out) else 1.0
