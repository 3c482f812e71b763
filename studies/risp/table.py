"""Fill tables of RISP's evaluation, all cells or the missing ones, and write their pages."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from risp_torch.programs import number_parser
from studies.risp.tables.plan import ABLATIONS, METHODS, TABLES
from studies.risp.tables.presets import PRESETS
from studies.risp.trials.trial import SCENES
from ti_sim import Count, FromZero, Seed, UserError

if TYPE_CHECKING:
    from studies.risp.tables.plan import TablePlan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """TABLE ..., --preset, --repeats, --scenes, --methods, --processes, --seed, --device, --paper-search, --out, --results."""
    names = ", ".join((*TABLES, *ABLATIONS))
    parser.add_argument("tables", nargs="+", metavar="TABLE", help=f"of the paper, or an ablation: {names}; several together")
    parser.add_argument(
        "--preset", default="quick", metavar="NAME", help=f"sizes of everything: {', '.join(PRESETS)} (default quick)"
    )
    parser.add_argument(
        "--repeats", type=number_parser(Count), default=4, metavar="N", help="films and first guesses of a cell (default 4)"
    )
    parser.add_argument("--scenes", nargs="+", default=list(SCENES), metavar="SCENE", help="default all that the tables have")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), metavar="METHOD", help="default all that the tables have")
    parser.add_argument(
        "--processes", type=number_parser(Count), metavar="N",
        help="number of concurrent workers (default: one for each core; on CUDA, and of each rank under torchrun, 1)",
    )  # fmt: skip
    parser.add_argument(
        "--paper-search", type=number_parser(FromZero), metavar="N",
        help="repeats of the full method that are also run with the paper's optimiser (quick and paper: 4)",
    )  # fmt: skip
    parser.add_argument("--seed", type=number_parser(Seed), default=0, help="seed of all random samples (default 0)")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where everything but Mitsuba runs")
    parser.add_argument("--out", default="runs/tables", metavar="DIR", help="folder of all units of work (default runs/tables)")
    parser.add_argument("--results", metavar="DIR", help="a second folder for the pages and their pictures, such as docs/results")
    parser.add_argument("--pages-only", action="store_true", help="run nothing, write pages of finished work")


def run(options: argparse.Namespace) -> int:
    """Run the missing units of work, then write the pages.

    Returns:
        0; 1 if a worker ended, 2 if a unit could not be done, 3 if one diverged; pages of finished work are written in any case.
    """
    from risp_torch.risp import ranks_from_environment
    from studies.risp.tables.extras import check_extras
    from studies.risp.tables.plan import TablePlan
    from studies.risp.tables.presets import table_preset
    from studies.risp.tables.units import planned
    from studies.risp.tables.work import keep_settings, work

    for page_folder in (options.out, options.results):
        if page_folder is not None and Path(page_folder).exists() and not Path(page_folder).is_dir():
            raise UserError(f"{page_folder} is a file: give a folder for the pages")
    preset = table_preset(options.preset, seed=options.seed)
    if options.paper_search is not None:
        preset = replace(preset, paper_search=options.paper_search)
    names = {name: tuple(dict.fromkeys(getattr(options, name))) for name in ("tables", "scenes", "methods")}
    plan = TablePlan(**names, repeats=options.repeats, preset=preset, out=Path(options.out), device=options.device)
    rank, ranks = ranks_from_environment()
    status = 0
    if options.pages_only:
        keep_settings(plan)
    else:
        check_extras(plan, planned(plan))
        processes = _processes(options.device, ranks) if options.processes is None else options.processes
        outcome = work(plan, processes=processes, rank=rank)
        status = outcome.status
        for sentence in outcome.sentences():
            print(f"python -m studies.risp table: {sentence}", file=sys.stderr)
    if rank == 0:
        _write_pages(plan, [Path(page_folder) for page_folder in (options.out, options.results) if page_folder is not None])
    return status


def is_resumable(options: argparse.Namespace) -> bool:
    """Whether a killed run can be resumed: yes."""
    return True


def _processes(device: str, ranks: int) -> int:
    """Default number of workers: one for each core, but a single one for a GPU or a rank of several."""
    import torch

    if ranks > 1 or device == "cuda" or (device == "auto" and torch.cuda.is_available()):
        return 1
    return len(os.sched_getaffinity(0))


def _write_pages(plan: TablePlan, places: list[Path]) -> None:
    """Write the pages of all tables of a plan into the first folder, copy them to the others, and print their paths."""
    from studies.risp.pages.publish import copy_pages, publish
    from ti_sim import start

    start(device=plan.device, precision="f32")
    pages = publish(plan, places[0])
    for page_folder in places:
        if page_folder != places[0]:
            copy_pages(pages, page_folder)
        print("written:", *(page_folder / page.name for page in pages))
