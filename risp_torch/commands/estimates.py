"""Printed estimates of an inversion: a table with error bars, unobservable directions, and the end of each start."""

from __future__ import annotations

from typing import Any

from ti_sim.base.rules import checked

MAX_ROWS = 12  # entries of one parameter that the table lists separately
MAX_SHOWN_NUMBERS = 6  # numbers of a start that a row shows
HEADERS = ["unknown", "estimate", "error bar"]
HEADERS_WITH_TRUTH = ["unknown", "truth", "estimate", "error bar", "error"]


@checked
def print_inversion(result: Any, truth: dict[str, float] | None = None) -> None:
    """Print doubts, estimates with error bars (and errors if the truth is known), unobservable directions and starts."""
    from risp_torch.files.report import format_table

    for sentence in result.doubts:
        print(sentence)
    print(format_table(estimate_rows(result, truth), HEADERS if truth is None else HEADERS_WITH_TRUTH))
    for sentence in result.uncertainty.unobservable:
        print(f"not visible in this film: {sentence}")
    for sentence in result.assumptions:
        print(f"assumption: {sentence}")
    for sentence in result.remarks:
        print(f"note: {sentence}")
    starts = [
        [str(i + 1), _numbers_text(result.initial[i]), _numbers_text(result.final[i]), f"{loss:.4e}", status]
        for i, (loss, status) in enumerate(zip(result.losses, result.status, strict=True))
    ]
    print(format_table(starts, ["start", "from", "to", "loss", ""]))
    if result.folder:
        print(f"pictures and numbers: {result.folder} ({result.seconds:.0f} s)")


@checked
def estimate_rows(result: Any, truth: dict[str, float] | None = None) -> list[list[str]]:
    """Rows of the table of estimates, one for each unknown; headers: ``HEADERS``, or ``HEADERS_WITH_TRUTH`` with the truth."""
    unknowns = result.unknowns
    is_log10 = dict(zip(unknowns.labels, (scale == "log10" for scale in unknowns.scales), strict=True))
    errors = result.scaled_error(truth) if truth else {}
    rows = []
    for name, columns in unknowns.groups.items():
        if columns.stop - columns.start > MAX_ROWS:
            rows.append(_summary_row(result, name, columns, truth))
            continue
        for k in range(columns.start, columns.stop):
            label, unit, is_observable = unknowns.labels[k], unknowns.units[k], result.uncertainty.observable[k]
            value = result.values[label]
            bar_text = bar_of(result.sd[label], is_log10[label]) if is_observable else "not observable"
            row = [label, f"{value:.5g} {unit}".strip(), bar_text]
            if truth:
                error = errors[label]
                row[1:1] = [f"{truth[label]:.5g} {unit}".strip()]
                row.append(f"{100 * (10**error - 1):+.2f} % ({error:+.4f} in log10)" if is_log10[label] else f"{error:+.2g}")
            rows.append(row)
    return rows


def _summary_row(result: Any, name: str, columns: slice, truth: dict[str, float] | None) -> list[str]:
    """One row for a large parameter: the range of its values, and the median of their error bars."""
    import numpy as np

    unknowns = result.unknowns
    labels = unknowns.labels[columns]
    values, sds = (np.array([by_label[label] for label in labels]) for by_label in (result.values, result.sd))
    unobservable = len(labels) - sum(result.uncertainty.observable[columns])
    bar_text = bar_of(float(np.median(sds)), unknowns.scales[columns.start] == "log10")
    row = [f"{name} ({len(labels)} numbers)", _range_text(values, unknowns.units[columns.start]), bar_text]
    row[2] += f" (median), {unobservable} not observable" if unobservable else " (median)" if np.isfinite(sds).all() else ""
    if truth:
        true_values = np.array([truth[label] for label in labels])
        row[1:1] = [_range_text(true_values, unknowns.units[columns.start])]
        row.append(f"{np.sqrt(np.mean((values - true_values) ** 2)):.2g} (root mean square)")
    return row


def _range_text(values: Any, unit: str) -> str:
    return f"{min(values):.4g} to {max(values):.4g} {unit}".strip()


def bar_of(sd: float, log: bool) -> str:
    """An error bar in words: percent of the estimate for logarithmic unknowns; "-" if there is none."""
    if sd != sd:
        return "-"
    return f"± {100 * (10 ** min(sd, 9.0) - 1):.2g} %" if log else f"± {sd:.2g}"


def _numbers_text(values: Any) -> str:
    values_text = ", ".join(f"{value:.5g}" for value in values[:MAX_SHOWN_NUMBERS])
    return values_text if len(values) <= MAX_SHOWN_NUMBERS else f"{values_text}, ... ({len(values)} numbers)"
