"""Tables of pages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from risp_torch.programs import write_text
from ti_sim import UserError

ROOT = Path(__file__).parents[1]


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def write_into_page(page: str, module: str, text: str) -> None:
    """Replace what a page shows between ``<!-- printed by MODULE -->`` and ``<!-- end -->``.

    Args:
        page: path relative to the root of the repository.
        module: of the program that printed the text.
        text: ends with a line's end.

    Raises:
        UserError: the page has no such comments.
    """
    path, first, last = ROOT / page, f"<!-- printed by {module} -->\n", "<!-- end -->"
    before, mark, rest = path.read_text(encoding="utf-8").partition(first)
    if not mark or last not in rest:
        raise UserError(f"{page} lacks the lines {first.strip()} and {last}, between which the table stands: add them")
    write_text(path, before + first + text + rest[rest.index(last) :])
