"""Show a finished inversion: its doubts, its estimates, and what its error bars are made of."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from risp_torch.commands.next_steps import print_next_steps
from ti_sim.base.errors import UserError

MIN_VARIANCE_FRACTION = 0.005  # components with a smaller fraction of an unknown's variance are not listed
MAX_ROWS = 40  # unknowns that are listed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the argument RUN."""
    parser.add_argument("folder", metavar="RUN", help="folder of a finished 'risp invert'")


def run(options: argparse.Namespace) -> int:
    """Print doubts, and tables of estimates and of the parts of their error bars."""
    from risp_torch.files.report import format_table
    from risp_torch.files.run_folder import RunFolder

    record = RunFolder(Path(options.folder), {}).read_result()
    unknowns = record.get("unknowns")
    if not isinstance(unknowns, Mapping) or not all(isinstance(entry, Mapping) for entry in unknowns.values()):
        raise UserError(f"{options.folder} is no inversion: give the folder of a finished 'risp invert'")
    for sentence in record.get("doubts", []):
        print(sentence)
    shown_rows = dict(list(unknowns.items())[:MAX_ROWS])
    rows = [_estimate(label, entry) for label, entry in shown_rows.items()]
    print(format_table(rows, ["unknown", "estimate", "error bar", "of its range"]))
    names = list(dict.fromkeys(name for entry in shown_rows.values() for name in shares_of(entry)))
    if names:
        print("\nparts of the error bars, in percent of their squares:")
        rows = [[label, *(_percent(shares_of(entry).get(name, 0.0)) for name in names)] for label, entry in shown_rows.items()]
        print(format_table(rows, ["unknown", *names]))
    if len(unknowns) > MAX_ROWS:
        print(f"{len(unknowns) - MAX_ROWS} unknowns more are in {options.folder}/result.json")
    for kind, title in (("unobservable", "not visible in this film"), ("assumptions", "assumption"), ("remarks", "note")):
        for sentence in record.get(kind, []):
            print(f"{title}: {sentence}")
    print_next_steps(Path(options.folder) / "result.json", next_command=("risp", "simulate", "SCENE", "--from", options.folder))
    return 0


def shares_of(entry: Mapping[str, Any]) -> dict[str, float]:
    """Name of a part -> its share of the squared error bar of an unknown in ``result.json``, the largest first, without those
    of at most MIN_VARIANCE_FRACTION.
    """
    squares = {name: float(component) ** 2 for name, component in (entry.get("parts") or {}).items()}
    total = max(sum(squares.values()), 1e-300)
    shares = {name: square / total for name, square in squares.items() if square > MIN_VARIANCE_FRACTION * total}
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def _estimate(label: str, entry: Mapping[str, Any]) -> list[str]:
    """The row of an unknown: value, error bar, and the bar's share of the range."""
    from risp_torch.commands.estimates import bar_of

    logarithmic = entry.get("scale") == "log10"
    low, high = (math.log10(bound) if logarithmic else bound for bound in (entry["low"], entry["high"]))
    sd = math.nan if entry.get("sd") is None else float(entry["sd"])
    bar_text = bar_of(sd, logarithmic) if entry.get("observable", True) else "not observable"
    return [label, f"{entry['value']:.5g} {entry.get('unit', '')}".strip(), bar_text, _percent(sd / (high - low))]


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share == share and share > 0 else "-"
