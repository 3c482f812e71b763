"""The summary of all tables: who is lowest in each cell, and how that compares with the paper."""

from __future__ import annotations

from pathlib import Path

from risp_torch.atomic import write_text
from risp_torch.tables.pages import in_brackets, markdown_table, number
from risp_torch.tables.plan import TABLES, TablePlan
from risp_torch.tables.results import cells_of, lowest
from risp_torch.tables.why import NAMES


def write_summary(plan: TablePlan, place: Path) -> Path | None:
    """Write summary.md: every cell that there is, who is lowest in it, and how that compares with the paper; None for no cell."""
    rows, won, below, total = [], 0, 0, 0
    for table in TABLES:
        cells = cells_of(plan, table)
        for scene in plan.scenes_of(table):
            full, best = cells.get((scene, "full")), lowest(cells, scene)
            if full is None or best is None or full.paper is None:
                continue
            total, won, below = total + 1, won + (best == "full"), below + (full.mean <= full.paper[0])
            rows.append([
                f"[{table}](table_{table}.md)", scene, f"{number(full.mean)}{in_brackets(cells, scene)}", number(full.paper[0]),
                f"{full.paper[0] / full.mean:.2g}" if full.mean else "", NAMES[best], number(cells[scene, best].mean),
            ])  # fmt: skip
    if not rows:
        return None
    headers = ["table", "scene", "RISP here", "in the paper", "times better", "lowest image-based method", "its error"]
    text = [
        "# Summary", "",
        f"RISP is the lowest image-based method in {won} of {total} cells, and not worse than the paper's in {below}.", "",
        *markdown_table(headers, rows),
    ]  # fmt: skip
    write_text(place / "summary.md", "\n".join(text) + "\n")
    return place / "summary.md"
