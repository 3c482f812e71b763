"""The rows of a CSV file as texts."""

from __future__ import annotations

import csv
from pathlib import Path

from ti_sim.base.errors import UserError


def read_csv_rows(path: Path) -> list[list[str]]:
    """The rows of a CSV file (UTF-8) that have any text, as texts.

    Raises:
        UserError: the file cannot be read.
    """
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            return [row for row in csv.reader(file) if any(cell.strip() for cell in row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"the table {path} cannot be read ({error}): give a CSV file") from error
