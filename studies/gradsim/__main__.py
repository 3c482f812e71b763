"""The tables and figures from the command line: ``python -m studies.gradsim table-1 table-2 --preset quick``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from risp_torch import start
from risp_torch.programs import number_parser, run_with_exit_status, unknown_name_error
from studies.gradsim.cells import write_archive
from studies.gradsim.presets import PRESETS, preset_of
from ti_sim import Count, Seed

# Name of each table or figure -> its module, which has make(name, preset, folder, jobs=...) -> Page.
TABLES = {
    "table-1": "rigid.tables", "table-2": "rigid.tables", "table-3": "deformable.table", "table-4-left": "misspecified.table",
    "table-4-right": "rates", "table-6": "parameters", "figure-4": "landscapes.figures", "figure-5": "control.figures",
    "figure-6": "control.figures", "figure-7": "landscapes.looks", "figure-11": "landscapes.figures",
    "figure-12": "landscapes.figures", "shape": "shape.study", "prediction": "rigid.prediction",
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Make tables and figures; what is done already is not done again.

    Args:
        arguments: of the command line, the process' own by default.

    Returns:
        0; 2 for wrong input, 3 where a simulation diverged that has no place in a table.
    """
    parser = argparse.ArgumentParser(prog="python -m studies.gradsim", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tables", nargs="+", metavar="TABLE", help=f"{', '.join(TABLES)}, or all")
    parser.add_argument("--preset", default="quick", metavar="NAME", help=f"sizes: {', '.join(PRESETS)} (default quick)")
    parser.add_argument("--seed", type=number_parser(Seed), default=0, help="seed of all draws (default 0)")
    parser.add_argument(
        "--jobs", type=number_parser(Count), default=2, metavar="N", help="processes at the same time (default 2)"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/gradsim"), metavar="DIR", help="folder of all results")
    parser.add_argument("--results", type=Path, metavar="DIR", help="a second folder for the pages, such as docs/results/gradsim")
    parser.add_argument(
        "--archive", type=Path, metavar="FILE",
        help="a .tar.xz of all results that are there, from which this command makes the pages again once it is unpacked",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    return run_with_exit_status(parser.prog, lambda: _make(options))


def _make(options: argparse.Namespace) -> int:
    names = list(TABLES) if "all" in options.tables else list(dict.fromkeys(options.tables))
    for name in names:
        if name not in TABLES:
            raise unknown_name_error("table or figure", name, [*TABLES, "all"])
    preset = replace(preset_of(options.preset), seed=options.seed)
    start(precision="f32")
    folder = options.out / preset.name
    for name in names:
        module = import_module(f".{TABLES[name]}", __package__)
        page = module.make(name, preset, folder, jobs=options.jobs)
        for page_folder in (folder / "pages", options.results):
            if page_folder is not None:
                print(f"written: {page.write(page_folder)}", flush=True)
    if options.archive is not None:
        write_archive(options.archive, folder)
        print(f"written: {options.archive}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
