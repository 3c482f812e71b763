"""Errors of estimates against measured truth."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from risp_torch.data.measured_films import MeasuredFilm, read_json
from risp_torch.files.run_folder import check_result_schema
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked

__all__ = ["INSIDE", "ErrorRow", "estimate_errors", "median_errors"]

INSIDE = 1.96  # standard deviations that are meant to hold the truth in 95 of 100 films
_FORM = "a result.json of risp invert"


@dataclass(frozen=True)
class ErrorRow:
    """A quantity of a film: what is true, and what was found.

    Attributes:
        film: name of the film.
        quantity: label of the unknown.
        unit: its unit; "" where none is known.
        truth: true value.
        estimate: estimate; None where there is no result, or the quantity is not among its unknowns.
        sd: standard deviation of the estimate, in decades if ``log``; None where there is none, or the film does not show it.
        log: whether the unknown is searched for on a logarithmic scale.
    """

    film: str
    quantity: str
    unit: str
    truth: float
    estimate: float | None = None
    sd: float | None = None
    log: bool = False

    @property
    def error(self) -> float | None:
        """(estimate - truth) / |truth| in per cent; None without an estimate, or for a truth of 0."""
        return None if self.estimate is None or self.truth == 0 else 100 * (self.estimate - self.truth) / abs(self.truth)

    @property
    def holds(self) -> bool | None:
        """Whether the truth lies within 1.96 standard deviations of the estimate, in its scale; None without an error bar."""
        if self.estimate is None or self.sd is None:
            return None
        if not self.log:
            return abs(self.estimate - self.truth) <= INSIDE * self.sd
        if self.estimate <= 0 or self.truth <= 0:
            return False
        return abs(math.log10(self.estimate / self.truth)) <= INSIDE * self.sd


@checked
def estimate_errors(films: Sequence[MeasuredFilm], results: str | Path) -> list[ErrorRow]:
    """Compare the estimates of runs with the truth of their films.

    Args:
        films: films with their truth.
        results: folder with RESULTS/NAME/result.json for each film, as ``risp invert ... --out RESULTS/NAME`` writes it.

    Returns:
        A row for each true value of each film, in their order; without an estimate where the result does not exist or has none.

    Raises:
        UserError: no film has a result, a result is damaged or another version's, or its units are not those of the truth.
    """
    results = Path(results)
    files = {film.name: results / film.name / "result.json" for film in films}
    if not any(file.is_file() for file in files.values()):
        first = next(iter(files.values()), results)
        raise UserError(f"{results} has no result of these films: run risp invert for each with --out {first.parent}")
    return [row for film in films for row in _rows(film, files[film.name])]


@checked
def median_errors(rows: Sequence[ErrorRow]) -> dict[str, tuple[float | None, int, int]]:
    """The errors of each quantity over all films.

    Args:
        rows: rows of films.

    Returns:
        Quantity -> median of |error| in per cent (None where no film has an error), number of error bars that hold the truth,
        number of error bars.
    """
    medians = {}
    for quantity in dict.fromkeys(row.quantity for row in rows):
        quantity_rows = [row for row in rows if row.quantity == quantity]
        errors = [abs(row.error) for row in quantity_rows if row.error is not None]
        coverage = [row.holds for row in quantity_rows if row.holds is not None]
        medians[quantity] = (statistics.median(errors) if errors else None, sum(coverage), len(coverage))
    return medians


def _rows(film: MeasuredFilm, file: Path) -> list[ErrorRow]:
    """Rows of one film, whose result need not exist."""
    record = read_json(file, _FORM) if file.is_file() else {"unknowns": {}}
    check_result_schema(record, file)
    estimates = record.get("unknowns")
    if not isinstance(estimates, dict):
        raise UserError(f"{file} has no estimates: give {_FORM}")
    rows = []
    for label, truth in film.truth.items():
        unit = film.units.get(label.partition("[")[0], "")
        row = ErrorRow(film.name, label, unit, truth)
        rows.append(row if label not in estimates else _with_estimate(row, estimates[label], film, file))
    return rows


def _with_estimate(row: ErrorRow, about: Any, film: MeasuredFilm, file: Path) -> ErrorRow:
    """The row with what a result says of its quantity."""
    try:
        estimate, unit, log = float(about["value"]), str(about.get("unit") or ""), about.get("scale") == "log10"
        sd = None if about.get("sd") is None or not about.get("observable", True) else float(about["sd"])
    except (AttributeError, KeyError, TypeError, ValueError):
        raise UserError(f"{file} is damaged ({row.quantity}): give {_FORM}") from None
    if row.unit and row.unit != unit:
        raise UserError(
            f"{film.truth_file} gives {row.quantity} in {row.unit}, and {file} in {unit or 'no unit'}: write the true value in "
            "the unit of the result"
        )
    return ErrorRow(row.film, row.quantity, unit, row.truth, estimate, sd, log)
