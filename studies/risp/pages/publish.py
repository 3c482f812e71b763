"""All pages and pictures of a plan."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from risp_torch.programs import RunFolder, atomic_replacement, write_text
from studies.risp.pages.figures import plot_cells, write_small_png
from studies.risp.pages.films import write_films
from studies.risp.pages.summary import write_summary
from studies.risp.pages.table_pages import how, number, write_table_page
from studies.risp.tables.claims import done
from studies.risp.tables.plan import ABLATIONS, TABLES, TablePlan
from studies.risp.tables.results import Cells, cells_of
from studies.risp.tables.units import planned

FIGURES = "figures"


def publish(plan: TablePlan, page_folder: Path) -> list[Path]:
    """Write the pages of a plan's tables, their pictures below "figures", and the summary of all existing tables.

    Returns:
        The pages.
    """
    pages = []
    for table in plan.numbered:
        cells = cells_of(plan, table)
        if cells:
            pages.append(write_table_page(plan, table, cells, page_folder, _figures(plan, table, cells, page_folder / FIGURES)))
    for name in plan.tables:
        if name in ABLATIONS:
            pages += _ablation(plan, name, page_folder)
    summary = write_summary(plan, page_folder)
    return pages if summary is None else [*pages, summary]


def _figures(plan: TablePlan, table: str, cells: Cells, folder: Path) -> list[str]:
    """Make the plot of a table, and the strip and video of each scene: their names."""
    scenes = list(dict.fromkeys(scene for scene, _ in cells))
    names = [f"table_{table}.png"]
    units = {scene: next(cell.unit for (name, _), cell in cells.items() if name == scene) for scene in scenes}
    plot_cells(folder / names[0], cells, scenes, {s: f"error [{unit}]" if unit else "error" for s, unit in units.items()})
    write_small_png(folder / names[0])
    if TABLES[table] != "state":
        for scene in scenes:
            names += write_films(plan, table, scene, cells, folder, number=number)
    return names


def _ablation(plan: TablePlan, name: str, page_folder: Path) -> list[Path]:
    """Write the page and the plot of an ablation: the page, or nothing if none of its units is done."""
    from studies.risp.pages import ablations as ablation_pages

    results: dict[str, Any] = {
        unit.name.partition("/")[2]: RunFolder(plan.out / unit.name, {}).read_result()
        for unit in planned(plan).values()
        if unit.name.startswith(f"{name}/") and done(plan.out / unit.name) is not None
    }
    if not results:
        return []
    plot, markdown = ablation_pages.PAGES[name]
    plot(page_folder / FIGURES / f"{name}.png", results)
    text = markdown(results)
    page = page_folder / f"{name}.md"
    write_text(page, "\n".join([text.rstrip(), "", f"![{name}]({FIGURES}/{name}.png)", "", *how(plan, name)]) + "\n")
    return [page]


def copy_pages(pages: list[Path], page_folder: Path) -> None:
    """Copy pages, and the pictures that they show, to another folder."""
    for page in pages:
        text = page.read_text(encoding="utf-8")
        write_text(page_folder / page.name, text)
        for figure in (page.parent / FIGURES).glob("*.*"):
            if f"({FIGURES}/{figure.name})" in text:
                with atomic_replacement(page_folder / FIGURES / figure.name) as temporary:
                    shutil.copyfile(figure, temporary)
