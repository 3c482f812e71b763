"""Table 4 (left) of gradSim: the mass that is read from films by models that are wrong."""

from __future__ import annotations

from itertools import product
from pathlib import Path

from studies.gradsim.cells import Cell, run_cells, without_failures
from studies.gradsim.misspecified.films import SOURCES, VARIANTS, film_cell
from studies.gradsim.misspecified.page import plot_errors, text_of
from studies.gradsim.misspecified.scenes import FRAMES, KINDS
from studies.gradsim.pages import Page
from studies.gradsim.presets import Preset

NAME = "table-4-left"
SHORT = 12  # frame intervals of the tiny preset's films


def make(name: str, preset: Preset, folder: Path, *, jobs: int) -> Page:
    """Make the table.

    Args:
        name: "table-4-left".
        preset: sizes.
        folder: of all results.
        jobs: processes at the same time.

    Returns:
        The page.
    """
    cells = cells_of(preset, folder)
    results = run_cells(cells, folder, jobs=jobs, title=name)
    pictures = {}
    for variant in VARIANTS:
        first = next((result for result in without_failures(results) if result["variant"] == variant), None)
        if first is not None:
            pictures[f"{variant}.png"] = Path(first["strip"])
    plot = folder / NAME / "errors.png"
    plot_errors(plot, results)
    pictures["errors.png"] = plot
    return Page(name, text_of(name, preset, results, list(pictures)), pictures)


def cells_of(preset: Preset, folder: Path) -> list[Cell]:
    """One cell for each film: objects, rows, kinds, without and with loss. The tiny preset has short ones of one kind."""
    frames, kinds = (SHORT, 1) if preset.name == "tiny" else (FRAMES, len(KINDS))
    cells = []
    for index in range(preset.wrong):
        for variant, row in VARIANTS.items():
            for kind, source in product(row.kinds[:kinds], SOURCES):
                arguments = {
                    "variant": variant, "kind": kind, "source": source, "index": index, "seed": preset.seed,
                    "size": preset.small, "frames": frames, "folder": str(folder / NAME),
                }  # fmt: skip
                cells.append(Cell(f"{NAME}/{variant}-{kind}-{source}-{index:03d}", film_cell, arguments))
    return cells
