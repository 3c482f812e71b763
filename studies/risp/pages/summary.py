"""The summary of all tables: lowest method in each cell, and comparison with the paper."""

from __future__ import annotations

from pathlib import Path

from risp_torch.programs import write_text
from studies.risp.pages.table_pages import in_brackets, markdown_table, number
from studies.risp.pages.why import NAMES
from studies.risp.tables.plan import TABLES, TablePlan
from studies.risp.tables.results import Cells, cells_of, difference, lowest


def write_summary(plan: TablePlan, page_folder: Path) -> Path | None:
    """Write summary.md: every existing cell, its lowest method, and comparison with the paper; None without cells."""
    rows, won, below, total, clear = [], 0, 0, 0, 0
    for table in TABLES:
        cells = cells_of(plan, table)
        for scene in plan.scenes_of(table):
            full, best = cells.get((scene, "full")), lowest(cells, scene)
            if full is None or best is None or full.paper is None:
                continue
            total, won, below = total + 1, won + (best == "full"), below + (full.mean <= full.paper[0])
            apart = _apart(plan, cells, scene)
            clear += apart is not None and abs(apart[0]) > 2 * apart[1]
            rows.append([
                f"[{table}](table_{table}.md)", scene, f"{number(full.mean)}{in_brackets(cells, scene)}", number(full.paper[0]),
                f"{full.paper[0] / full.mean:.2g}" if full.mean else "", NAMES[best], number(cells[scene, best].mean),
                "" if apart is None else f"{number(apart[0])} ± {number(apart[1])}",
            ])  # fmt: skip
    if not rows:
        return None
    headers = [
        "table", "scene", "RISP here", "in the paper", "times better", "lowest image-based method", "its error",
        "RISP - best other",
    ]  # fmt: skip
    text = [
        "# Summary", "",
        f"RISP is the lowest image-based method in {won} of {total} cells, and not worse than the paper's in {below}.", "",
        "RISP - best other: RISP's error less that of the best of the other image-based methods, a mean over the repeats, which "
        f"share their films and guesses, and its standard error. It is more than two of them in {clear} cells. Each method has "
        "one network: how another training of it would do is not in that error.", "",
        *markdown_table(headers, rows),
    ]  # fmt: skip
    write_text(page_folder / "summary.md", "\n".join(text) + "\n")
    return page_folder / "summary.md"


def _apart(plan: TablePlan, cells: Cells, scene: str) -> tuple[float, float] | None:
    """RISP's error less that of the best of the other image-based methods, and its standard error; None without all repeats."""
    best_other = lowest(cells, scene, but="full")
    if best_other is None or any(len(cells[scene, method].errors) < plan.repeats for method in ("full", best_other)):
        return None
    return difference(cells[scene, "full"], cells[scene, best_other])
