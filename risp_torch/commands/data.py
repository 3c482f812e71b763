"""List and fetch public data sets by name, and compare estimates with films whose numbers were measured."""

from __future__ import annotations

import argparse
from typing import Any

from risp_torch.commands.next_steps import print_next_steps
from ti_sim.base.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """list; fetch with NAME and --out; errors with FOLDER and --results."""
    parser.add_argument(
        "action", choices=("list", "fetch", "errors"),
        help="the data sets there are; download one; errors of estimates for a folder of films with true values",
    )  # fmt: skip
    parser.add_argument(
        "name_or_folder", nargs="?", metavar="NAME|FOLDER", help="of fetch: a data set; of errors: a folder of films"
    )
    parser.add_argument(
        "--out", metavar="DIR", help="of fetch: make DIR/NAME (default: what RISP_DATA names, or else the user's cache)"
    )
    parser.add_argument("--results", metavar="RUNS", help="of errors: folder with RUNS/FILM/result.json of risp invert")


def run(options: argparse.Namespace) -> int:
    """Print a table of data sets or of errors, or fetch a data set."""
    accepted = {"list": (), "fetch": ("name_or_folder", "out"), "errors": ("name_or_folder", "results")}[options.action]
    for name, argument_text in (("name_or_folder", options.name_or_folder), ("out", "--out"), ("results", "--results")):
        if name not in accepted and getattr(options, name) is not None:
            raise UserError(f"risp data {options.action} takes no {argument_text}: leave it out")
    return {"list": _list, "fetch": _fetch, "errors": _errors}[options.action](options)


def _list(options: argparse.Namespace) -> int:
    from risp_torch.data import DATA_SETS
    from risp_torch.files.report import format_table

    rows = [
        [name, data_set.title, data_set.licence, f"{data_set.size / 1e6:.1f} MB", _folder_text(data_set)]
        for name, data_set in DATA_SETS.items()
    ]
    print(format_table(rows, ["data set", "what it is", "licence", "size", "where"]))
    print_next_steps(next_command=("risp", "data", "fetch", "NAME"))
    return 0


def _folder_text(data_set: Any) -> str:
    """The folder of a data set, or why there is none."""
    from risp_torch.data.locations import complete_folder

    try:
        folder = complete_folder(data_set)
    except UserError as error:
        return str(error)
    return "not here" if folder is None else str(folder)


def _fetch(options: argparse.Namespace) -> int:
    from risp_torch.data import fetch_data_set
    from risp_torch.data.locations import FOLDER_VARIABLE, missing_data_error
    from risp_torch.data.registry import DATA_SETS, find_data_set

    if options.name_or_folder is None:
        raise UserError(f"risp data fetch takes a name: choose one of {', '.join(DATA_SETS)}")
    data_set = find_data_set(options.name_or_folder)
    print(f"{data_set.name}: {data_set.title}")
    for source in data_set.sources:
        print(f"source: github.com/{source.repository} at {source.commit}, {data_set.licence}, {source.copyright}")
    fetched = fetch_data_set(data_set.name, out=options.out)
    licence = fetched.folder / data_set.licence_file
    print(f"licence ({licence}):\n")
    print(licence.read_text(encoding="utf-8"))
    if fetched.unavailable:
        raise missing_data_error(data_set, fetched.folder)
    download_text = (
        f"downloaded: {', '.join(fetched.downloaded)}" if fetched.downloaded else "all files were there, nothing is downloaded"
    )
    print(f"{download_text}\nfolder: {fetched.folder}")
    if options.out:
        print(f"to use it from there: export {FOLDER_VARIABLE}={fetched.folder.parent.resolve()}")
    print_next_steps(licence, fetched.folder)
    return 0


def _errors(options: argparse.Namespace) -> int:
    from risp_torch.data import estimate_errors, median_errors, read_measured_films
    from risp_torch.files.report import format_table

    if options.name_or_folder is None or options.results is None:
        raise UserError("risp data errors takes a folder of films and --results RUNS: give both")
    rows = estimate_errors(read_measured_films(options.name_or_folder), options.results)
    table_rows = [
        [
            row.film, row.quantity, f"{row.truth:.5g} {row.unit}".strip(),
            "-" if row.estimate is None else f"{row.estimate:.5g} {row.unit}".strip(),
            _bar(row), _per_cent(row.error), {None: "-", True: "yes", False: "no"}[row.covers_truth],
        ]
        for row in rows
    ]  # fmt: skip
    for quantity, (median, covered_count, bar_count) in median_errors(rows).items():
        median_text = "-" if median is None else f"{median:.2f} %"
        table_rows.append(
            ["median of |error|", quantity, "", "", "", median_text, f"{covered_count} of {bar_count}" if bar_count else "-"]
        )
    print(format_table(table_rows, ["film", "quantity", "truth", "estimate", "error bar", "error", "bar holds truth"]))
    print_next_steps(next_command=("risp", "show", f"{options.results}/FILM"))
    return 0


def _bar(row: Any) -> str:
    """One standard deviation, as the tables of risp invert show it."""
    if row.sd is None:
        return "-"
    return f"± {100 * (10 ** min(row.sd, 9.0) - 1):.2g} %" if row.is_log else f"± {row.sd:.2g}"


def _per_cent(error: float | None) -> str:
    return "-" if error is None else f"{error:+.2f} %"
