"""A table and its remarks as Markdown that also reads well on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Table:
    """Rows of results.

    Attributes:
        title: one line.
        header: names of the columns, with units.
        rows: cells as text, one for each column.
        remarks: sentences below the table.
    """

    title: str
    header: Sequence[str]
    rows: list[list[str]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def add(self, *cells: object) -> None:
        """Append a row."""
        self.rows.append([str(cell) for cell in cells])

    def markdown(self) -> str:
        """The table, columns aligned."""
        cells = [list(self.header), *self.rows]
        widths = [max(len(row[column]) for row in cells) for column in range(len(self.header))]
        lines = [_line(row, widths) for row in cells]
        rule = "|" + "|".join("-" * (width + 1) + (":" if column else "-") for column, width in enumerate(widths)) + "|"
        remarks = "".join(f"\n{remark}\n" for remark in self.remarks)
        return "\n".join([f"## {self.title}\n", lines[0], rule, *lines[1:], remarks])


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = (cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True)))
    return "| " + " | ".join([first, *others]) + " |"


def format_number(value: float, digits: int = 3) -> str:
    """A number with about ``digits`` digits and thousands separators."""
    if value == 0 or not abs(value) < float("inf"):
        return f"{value:g}"
    rounded = float(f"{value:.{digits}g}")
    if abs(rounded) >= 1e-3:
        decimals = max(0, digits - len(str(int(abs(rounded)))) if abs(rounded) >= 1 else digits + _zeros(abs(rounded)))
        return f"{rounded:,.{decimals}f}"
    return f"{value:.{digits - 1}e}"


def _zeros(value: float) -> int:
    """Zeros between the point and the first digit of a number below 1."""
    return int(f"{value:e}".split("e-")[1]) - 1


def format_ratio(ratio: float) -> str:
    """A ratio as text: "12 x"."""
    return f"{format_number(ratio, 2)} x"
