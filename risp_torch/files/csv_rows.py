"""Rows of a CSV file as strings."""

from __future__ import annotations

import csv
import re
from pathlib import Path

from risp_torch.files.folders import check_regular
from ti_sim.base.errors import UserError

_SEPARATORS = (",", ";", "\t")
_DECIMAL_COMMA = re.compile(r"^(\s*[-+]?\d*),(\d+(?:[eE][-+]?\d+)?\s*)$")


def read_csv_rows(path: Path) -> list[list[str]]:
    """Read the rows of a CSV file (UTF-8) as strings, without empty rows.

    The separator is the most frequent of comma, semicolon and tabulator in the first row. With semicolons and tabulators,
    numbers may have a decimal comma.

    Raises:
        UserError: the file cannot be read.
    """
    check_regular(path, f"the table {path}")
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            text = file.read()
        first_line = next((line for line in text.splitlines() if line.strip()), "")
        separator = max(_SEPARATORS, key=first_line.count)
        rows = [row for row in csv.reader(text.splitlines(), delimiter=separator) if any(cell.strip() for cell in row)]
        return rows if separator == "," else [[_DECIMAL_COMMA.sub(r"\1.\2", cell) for cell in row] for row in rows]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"the table {path} cannot be read ({error}): give a CSV file") from error
