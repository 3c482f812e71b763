"""``python -m benchmarks rigid raster``: print the tables, and write a page for each benchmark with ``--out``."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.machine import describe, load_text
from ti_sim.base.errors import UserError
from ti_sim.base.runtime import start

NAMES = (
    "rigid", "articulated", "fem", "cloth", "self-contact", "control", "raster", "risp_data", "risp_train",
    "risp_invert", "matched", "motions", "smoke", "implicit", "gpu",
)  # fmt: skip

PREFACE = """# {title}

Written by `{command}`. Times are wall times, the least of several calls after one to warm up, f32, on torch
tensors; M and G are powers of 1000. Nothing is asserted: speed depends on the machine and on what else runs there. Other
simulators are measured where they are installed: MuJoCo with the extra `robots`, Newton with the extra `peers`
(`pip install -e '.[peers]'`) or in the Python interpreter that the environment variable NEWTON_PYTHON names, which needs the
packages newton and warp-lang only.
"""

LOAD_REMARK = """This program alone makes a load of one to the number of cores; above that, other jobs took part of the
machine, and what needs every core (batches, pictures) is faster than shown."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run benchmarks; return 0, or 2 for a device that does not answer."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure speed and memory of the engine.")
    parser.add_argument("names", nargs="+", choices=NAMES, metavar="NAME", help=f"one or more of {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and repeats: a look, not a measurement")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where kernels run")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="write a Markdown page FOLDER/NAME.md for each benchmark, too")
    options = parser.parse_args(arguments)
    try:
        start(device=options.device, precision="f32")
    except UserError as error:
        print(f"python -m benchmarks: error: {error}", file=sys.stderr)
        return 2
    flags = [*(["--quick"] if options.quick else []), *([] if options.device == "auto" else ["--device", options.device])]
    for name in dict.fromkeys(options.names):
        page = _page(name, flags, quick=options.quick)
        if options.out:
            options.out.mkdir(parents=True, exist_ok=True)
            path = options.out / f"{name}.md"
            path.write_text(page, encoding="utf-8")
            print(f"written: {path}")
    return 0


def _page(name: str, flags: Sequence[str], *, quick: bool) -> str:
    """Run a benchmark, print its tables as they are made, and return its page.

    Args:
        name: one of ``NAMES``.
        flags: options of the command that the page names.
        quick: whether to measure fewer sizes and repeats.
    """
    benchmark = importlib.import_module(f"benchmarks.{name.replace('-', '_')}")
    command = " ".join(["python -m benchmarks", name, *flags])
    sections = [_printed(PREFACE.format(title=benchmark.TITLE, command=command) + "\n" + describe())]
    sections += [_printed(table.markdown()) for table in benchmark.tables(quick=quick)]
    sections.append(_printed(f"Load after the end: {load_text()}. {LOAD_REMARK}"))
    return "\n".join(sections).rstrip() + "\n"


def _printed(text: str) -> str:
    print(text, flush=True)
    return text


if __name__ == "__main__":
    sys.exit(main())
