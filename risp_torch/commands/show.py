"""Show a finished inversion: its doubts, its estimates, and what its error bars are made of."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from risp_torch.commands.closing import print_closing
from ti_sim.base.errors import UserError

MIN_VARIANCE_FRACTION = 0.005  # of a variance: smaller parts are not listed
MAX_ROWS = 40  # unknowns that are listed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """RUN."""
    parser.add_argument("folder", metavar="RUN", help="folder of a finished 'risp invert'")


def run(options: argparse.Namespace) -> int:
    """Print doubts, and tables of estimates and of the parts of their error bars."""
    from risp_torch.files.report import format_table
    from risp_torch.files.run_folder import RunFolder

    record = RunFolder(Path(options.folder), {}).read_result()
    unknowns = record.get("unknowns")
    if not isinstance(unknowns, Mapping) or not all(isinstance(about, Mapping) for about in unknowns.values()):
        raise UserError(f"{options.folder} is no inversion: give the folder of a finished 'risp invert'")
    for sentence in record.get("doubts", []):
        print(sentence)
    shown_rows = dict(list(unknowns.items())[:MAX_ROWS])
    rows = [_estimate(label, about) for label, about in shown_rows.items()]
    print(format_table(rows, ["unknown", "estimate", "error bar", "of its range"]))
    names = list(dict.fromkeys(name for about in shown_rows.values() for name in shares_of(about)))
    if names:
        print("\nparts of the error bars, in percent of their squares:")
        rows = [[label, *(_percent(shares_of(about).get(name, 0.0)) for name in names)] for label, about in shown_rows.items()]
        print(format_table(rows, ["unknown", *names]))
    if len(unknowns) > MAX_ROWS:
        print(f"{len(unknowns) - MAX_ROWS} unknowns more are in {options.folder}/result.json")
    for kind, word in (("unobservable", "not visible in this film"), ("assumptions", "assumption"), ("remarks", "note")):
        for sentence in record.get(kind, []):
            print(f"{word}: {sentence}")
    print_closing(Path(options.folder) / "result.json", following=("risp", "simulate", "SCENE", "--from", options.folder))
    return 0


def shares_of(about: Mapping[str, Any]) -> dict[str, float]:
    """Name of a part -> its share of the squared error bar of an unknown in ``result.json``, the largest first."""
    squares = {name: float(size) ** 2 for name, size in (about.get("parts") or {}).items()}
    total = max(sum(squares.values()), 1e-300)
    shares = {name: square / total for name, square in squares.items() if square > MIN_VARIANCE_FRACTION * total}
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def _estimate(label: str, about: Mapping[str, Any]) -> list[str]:
    """The row of an unknown: value, error bar, and the bar's share of the range."""
    from risp_torch.commands.estimates import bar_of

    logarithmic = about.get("scale") == "log10"
    low, high = (math.log10(bound) if logarithmic else bound for bound in (about["low"], about["high"]))
    sd = math.nan if about.get("sd") is None else float(about["sd"])
    bar = bar_of(sd, logarithmic) if about.get("observable", True) else "not observable"
    return [label, f"{about['value']:.5g} {about.get('unit', '')}".strip(), bar, _percent(sd / (high - low))]


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share == share and share > 0 else "-"
