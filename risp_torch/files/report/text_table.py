"""Tables as plain text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ti_sim.base.rules import checked


@checked
def format_table(rows: Sequence[Sequence[Any]], headers: Sequence[str]) -> str:
    """Format rows as plain text in aligned columns: numbers to the right, words to the left.

    Args:
        rows: a sequence of cells for each row; floats are written with four digits, None and NaN as "-".
        headers: a header for each column.

    Returns:
        The table, without a line break at its end.

    Raises:
        ValueError: a row has another length than the headers.
    """
    for row in rows:
        if len(row) != len(headers):
            raise ValueError(f"row {list(row)} has {len(row)} cells for {len(headers)} columns")
    texts = [[_cell(value) for value in row] for row in rows]
    columns = list(zip(headers, *texts, strict=True))
    widths = [max(map(len, column)) for column in columns]
    numeric = [_is_numeric([row[index] for row in rows]) for index in range(len(headers))]

    def line(cells: Sequence[str]) -> str:
        padded = [c.rjust(w) if right else c.ljust(w) for c, w, right in zip(cells, widths, numeric, strict=True)]
        return "  ".join(padded).rstrip()

    return "\n".join([line(list(headers)), line(["-" * width for width in widths]), *map(line, texts)])


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float | np.floating):
        return "-" if math.isnan(value) else f"{value:.4g}"
    return str(value)


def _is_numeric(values: Sequence[Any]) -> bool:
    """Whether a column holds numbers only (missing ones aside)."""
    present = [value for value in values if value is not None]
    return bool(present) and all(isinstance(v, int | float | np.number) and not isinstance(v, bool) for v in present)
