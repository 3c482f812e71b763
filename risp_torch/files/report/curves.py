"""Plots of the progress of runs: losses, curves of groups of runs, parameters, entries of long parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from risp_torch.files.report.figure import (
    BEST_COLOR,
    BOUNDS_COLOR,
    MARK_COLORS,
    OTHER_COLORS,
    TRUTH_COLOR,
    as_matrix,
    as_numbers,
    cycle_forever,
    figure_file,
    is_log,
    label_log_axis,
    legend_beside,
    with_unit,
)
from ti_sim.base.errors import UserError
from ti_sim.base.rules import FromZero, checked

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MAX_LISTED = 12  # lines that a legend names


@checked
def plot_losses(path: Path | str, losses: Any, labels: Sequence[str], *, best: FromZero | None = None) -> None:
    """Plot the loss of every start against the iteration, the best start bold.

    Args:
        path: picture to write (.png, .pdf or .svg).
        losses: [I, S] loss of each start; NaN after a start has stopped.
        labels: S names of the starts.
        best: index of the best start; None takes the one with the lowest last loss.

    Raises:
        UserError: the shapes do not fit, or the picture cannot be written.
    """
    losses = as_matrix(losses, "losses")
    if len(labels) != losses.shape[1]:
        raise UserError(f"{len(labels)} labels for {losses.shape[1]} starts: give one label for each start")
    best = _best_start(losses) if best is None else best
    with figure_file(path, 6.4, 3.8) as figure:
        axes = figure.add_subplot()
        if (losses[np.isfinite(losses)] > 0).any():
            axes.set_yscale("log", nonpositive="mask")
        _draw_starts(axes, losses, best, labels)
        axes.set_xlabel("iteration")
        axes.set_ylabel("loss")
        axes.set_xlim(left=0)
        if losses.shape[1] <= _MAX_LISTED:
            legend_beside(axes)


@checked
def plot_curves(
    path: Path | str,
    panels: Mapping[str, Mapping[str, Any]],
    *,
    logarithmic: Sequence[str] = (),
    levels: Mapping[str, tuple[str, float]] | None = None,
    x_label: str = "iteration",
    title: str = "",
) -> None:
    """Plot the progress of groups of runs: for each group the median of its runs, with the range of all runs shaded.

    Args:
        path: picture to write.
        panels: label of the vertical axis -> name of the group -> [runs, I]; one panel each, side by side.
        logarithmic: panels with a logarithmic vertical axis.
        levels: panel -> label and value of a horizontal line, such as a target.
        x_label: label of the horizontal axis.
        title: title above all panels.

    Raises:
        UserError: a shape does not fit, or the picture cannot be written.
    """
    with figure_file(path, 4.6 * len(panels) + 0.6, 3.6) as figure:
        if title:
            figure.suptitle(title, fontsize=11)
        for (panel, kinds), axes in zip(panels.items(), figure.subplots(1, len(panels), squeeze=False)[0], strict=True):
            if panel in logarithmic:
                axes.set_yscale("log", nonpositive="mask")
            for (kind, values), color in zip(kinds.items(), cycle_forever(MARK_COLORS[1:] + MARK_COLORS[:1]), strict=False):
                values = as_matrix(values, kind)
                steps, median = np.arange(values.shape[1]), np.median(values, axis=0)
                axes.plot(steps, median, color=color, linewidth=2.0, label=kind, marker="o" if len(steps) == 1 else None)
                if len(values) > 1:
                    axes.fill_between(steps, values.min(axis=0), values.max(axis=0), color=color, alpha=0.18, linewidth=0)
            if panel in (levels or {}):
                label, level = levels[panel]
                axes.axhline(level, color=BOUNDS_COLOR, linestyle=":", linewidth=1.2, label=label)
            axes.set_xlabel(x_label)
            axes.set_ylabel(panel)
            axes.set_xlim(left=0)
            axes.legend()


@checked
def plot_parameters(
    path: Path | str,
    histories: Mapping[str, Any],
    bounds: Mapping[str, tuple[float | None, float | None] | None],
    units: Mapping[str, str],
    truths: Mapping[str, float | None] | None = None,
    scales: Mapping[str, str] | None = None,
    *,
    best: FromZero | None = None,
) -> None:
    """Plot each parameter of every start against the iteration, with its bounds and, where known, its true value.

    Args:
        path: picture to write.
        histories: name -> [I, S] physical values.
        bounds: name -> (low, high) in the same unit; a missing name or None draws none.
        units: name -> unit; "" or a missing name for a plain number.
        truths: name -> true value; None when nothing is known.
        scales: name -> "linear" or "log10".
        best: index of the start to draw bold; None draws all alike.

    Raises:
        UserError: there is no parameter, a shape does not fit, or the picture cannot be written.
    """
    if not histories:
        raise UserError(f"there is no parameter to plot in {path}: choose at least one unknown")
    columns = min(len(histories), 2)
    rows = math.ceil(len(histories) / columns)
    with figure_file(path, 5.0 * columns, 2.7 * rows + 0.4) as figure:
        grid = figure.subplots(rows, columns, squeeze=False)
        for name, axes in zip(histories, grid.flat, strict=False):
            history = as_matrix(histories[name], name)
            if is_log((scales or {}).get(name)):
                axes.set_yscale("log", nonpositive="mask")
            _draw_starts(axes, history, best, None)
            _draw_levels(axes, bounds.get(name), (truths or {}).get(name))
            label_log_axis(axes.yaxis)
            axes.set_title(name)
            axes.set_xlabel("iteration")
            axes.set_ylabel(with_unit("value", units.get(name, "")))
            axes.set_xlim(left=0)
        for axes in grid.flat[len(histories) :]:
            axes.set_visible(False)
        handles = {text: line for axes in grid.flat for line, text in zip(*axes.get_legend_handles_labels(), strict=True)}
        if handles:
            figure.legend(handles.values(), handles, loc="outside lower center", ncols=len(handles))


@checked
def plot_entries(path: Path | str, parameters: Mapping[str, tuple[Any, Any]], units: Mapping[str, str] | None = None) -> None:
    """Plot the numbers of long parameters (a sequence of actions) before and after a search, one panel a parameter.

    Args:
        path: picture to write.
        parameters: name -> (start, estimate), each [N] or [N, R]; every column is one line along the first axis, thin and
            dashed at the start.
        units: name -> unit.

    Raises:
        UserError: there is no parameter, or the picture cannot be written.
    """
    if not parameters:
        raise UserError(f"there is no parameter to plot in {path}: choose at least one unknown")
    with figure_file(path, 7.4, 2.9 * len(parameters) + 0.3) as figure:
        for (name, pair), axes in zip(parameters.items(), figure.subplots(len(parameters), 1, squeeze=False).flat, strict=True):
            start, estimate = (as_numbers(numbers).reshape(len(numbers), -1) for numbers in pair)
            for column, color in zip(range(estimate.shape[1]), cycle_forever((BEST_COLOR, *OTHER_COLORS)), strict=False):
                label = f"[{column}]" if estimate.shape[1] > 1 else "estimate"
                axes.plot(estimate[:, column], color=color, linewidth=1.8, label=label if column < _MAX_LISTED else None)
                axes.plot(start[:, column], color=color, linewidth=0.8, linestyle="--")
            axes.plot([], [], color=BOUNDS_COLOR, linewidth=0.8, linestyle="--", label="start")
            axes.set_title(name)
            axes.set_xlabel("entry")
            axes.set_ylabel(with_unit("value", (units or {}).get(name, "")))
            legend_beside(axes)


def _draw_starts(axes: Axes, values: np.ndarray, best: int | None, labels: Sequence[str] | None) -> None:
    """One line a start, [I, S]; the best in front and bold."""
    iterations = np.arange(len(values))
    for start in range(values.shape[1]):
        is_best = start == best
        # One iteration is a point, which a line would not show.
        axes.plot(
            iterations,
            np.where(np.isfinite(values[:, start]), values[:, start], np.nan),
            color=BEST_COLOR if is_best else OTHER_COLORS[start % len(OTHER_COLORS)],
            linewidth=2.4 if is_best else 1.0,
            zorder=3 if is_best else 2,
            marker="o" if len(values) == 1 else None,
            label=_start_label(start, is_best, labels),
        )


def _start_label(start: int, best: bool, labels: Sequence[str] | None) -> str | None:
    if labels is None:
        return "best start" if best else None
    return f"{labels[start]} (best)" if best else labels[start]


def _draw_levels(axes: Axes, bounds: tuple[float | None, float | None] | None, truth: float | None) -> None:
    """Horizontal lines at the bounds and at the true value."""
    has_levels = False
    for bound in bounds or ():
        if bound is not None and math.isfinite(bound):
            axes.axhline(bound, color=BOUNDS_COLOR, linestyle=":", linewidth=1.0, label=None if has_levels else "bounds")
            has_levels = True
    if truth is not None:
        axes.axhline(truth, color=TRUTH_COLOR, linestyle="--", linewidth=1.4, label="truth")


def _best_start(losses: np.ndarray) -> int | None:
    """The start with the lowest last loss, among those whose last loss is finite."""
    last_losses = losses[-1]
    return int(np.nanargmin(np.where(np.isfinite(last_losses), last_losses, np.nan))) if np.isfinite(last_losses).any() else None
