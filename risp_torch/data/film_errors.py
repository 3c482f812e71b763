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

__all__ = ["INTERVAL_SD", "ErrorRow", "estimate_errors", "median_errors"]

INTERVAL_SD = 1.96  # half the width of a 95 % confidence interval, in standard deviations
_EXPECTED_CONTENT = "a result.json of risp invert"


@dataclass(frozen=True)
class ErrorRow:
    """True value and estimate of a quantity of a film.

    Attributes:
        film: name of the film.
        quantity: label of the unknown.
        unit: its unit; "" if unknown.
        truth: true value.
        estimate: estimate; None where there is no result, or the quantity is not among its unknowns.
        sd: standard deviation of the estimate, in decades if ``is_log``; None without one, or if the quantity is unobservable.
        is_log: whether the unknown's scale is logarithmic.
    """

    film: str
    quantity: str
    unit: str
    truth: float
    estimate: float | None = None
    sd: float | None = None
    is_log: bool = False

    @property
    def error(self) -> float | None:
        """(estimate - truth) / |truth| in per cent; None without an estimate, or for a truth of 0."""
        return None if self.estimate is None or self.truth == 0 else 100 * (self.estimate - self.truth) / abs(self.truth)

    @property
    def covers_truth(self) -> bool | None:
        """Whether the truth lies within 1.96 standard deviations of the estimate, in its scale; None without an error bar."""
        if self.estimate is None or self.sd is None:
            return None
        if not self.is_log:
            return abs(self.estimate - self.truth) <= INTERVAL_SD * self.sd
        if self.estimate <= 0 or self.truth <= 0:
            return False
        return abs(math.log10(self.estimate / self.truth)) <= INTERVAL_SD * self.sd


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
        coverage = [row.covers_truth for row in quantity_rows if row.covers_truth is not None]
        medians[quantity] = (statistics.median(errors) if errors else None, sum(coverage), len(coverage))
    return medians


def _rows(film: MeasuredFilm, file: Path) -> list[ErrorRow]:
    """Rows of one film, without estimates if its result does not exist."""
    record = read_json(file, _EXPECTED_CONTENT) if file.is_file() else {"unknowns": {}}
    check_result_schema(record, file)
    estimates = record.get("unknowns")
    if not isinstance(estimates, dict):
        raise UserError(f"{file} has no estimates: give {_EXPECTED_CONTENT}")
    rows = []
    for label, truth in film.truth.items():
        unit = film.units.get(label.partition("[")[0], "")
        row = ErrorRow(film.name, label, unit, truth)
        rows.append(row if label not in estimates else _with_estimate(row, estimates[label], film, file))
    return rows


def _with_estimate(row: ErrorRow, record: Any, film: MeasuredFilm, file: Path) -> ErrorRow:
    """The row with the estimate of its quantity, from the record in a result."""
    try:
        estimate, unit, is_log = float(record["value"]), str(record.get("unit") or ""), record.get("scale") == "log10"
        sd = None if record.get("sd") is None or not record.get("observable", True) else float(record["sd"])
    except (AttributeError, KeyError, TypeError, ValueError):
        raise UserError(f"{file} is damaged ({row.quantity}): give {_EXPECTED_CONTENT}") from None
    if row.unit and row.unit != unit:
        raise UserError(
            f"{film.truth_file} gives {row.quantity} in {row.unit}, and {file} in {unit or 'no unit'}: write the true value in "
            "the unit of the result"
        )
    return ErrorRow(row.film, row.quantity, unit, row.truth, estimate, sd, is_log)
