"""Plots of error bars: relative to the ranges, with correlations, and divided into components."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from risp_torch.files.report.figure import BEST_COLOR, BOUNDS_COLOR, OTHER_COLORS, as_numbers, figure_file, legend_beside
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Positive, checked

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MIN_SHARE = 0.005  # of a squared error bar: smaller components are not drawn
_MAX_WIDTH, _MIN_WIDTH = 10.0, 1e-7  # relative to the range: widths of bars are clipped to these


@checked
def plot_observability(
    path: Path | str, labels: Sequence[str], shares: np.ndarray, alone: np.ndarray, correlation: np.ndarray, *,
    limit: Positive = 0.25,
) -> None:  # fmt: skip
    """Draw the error bars of the unknowns, and beside them their correlation matrix.

    Args:
        path: picture to write.
        labels: K names.
        shares: [K] error bars relative to the ranges.
        alone: [K] conditional error bars, with all other unknowns known, relative to the ranges.
        correlation: [K, K] correlation matrix.
        limit: relative error bar above which an unknown counts as unobservable.
    """
    count = len(labels)
    side = max(2.2, 0.28 * count)
    with figure_file(path, 7.2 + side, 1.2 + side) as figure:
        bars, matrix = figure.subplots(1, 2, width_ratios=[4.2, side])
        _draw_bars(bars, labels, np.asarray(shares), np.asarray(alone), limit)
        _draw_matrix(figure, matrix, np.asarray(correlation), count)


@checked
def plot_error_bars(path: Path | str, labels: Sequence[str], bar_shares: Mapping[str, np.ndarray]) -> None:
    """Draw the components of the error bars of K unknowns: a row for each, divided by the components' shares of the variance.

    Args:
        path: picture to write.
        labels: K names.
        bar_shares: name of a component -> [K] its standard deviations.

    Raises:
        UserError: the numbers of standard deviations and names differ, or the picture cannot be written.
    """
    squares = {name: np.nan_to_num(as_numbers(sds)) ** 2 for name, sds in bar_shares.items()}
    if any(square.shape != (len(labels),) for square in squares.values()) or not len(labels):
        raise UserError(f"plot_error_bars: there are {len(labels)} labels: give as many standard deviations of each part")
    total = np.maximum(sum(squares.values()), 1e-300)
    percentages = {name: 100 * square / total for name, square in squares.items() if (square > _MIN_SHARE * total).any()}
    rows, cumulative = np.arange(len(labels)), np.zeros(len(labels))
    with figure_file(path, 7.2, 1.2 + max(1.2, 0.32 * len(labels))) as figure:
        axes = figure.add_subplot()
        for index, (name, percentage) in enumerate(percentages.items()):
            axes.barh(
                rows,
                percentage,
                left=cumulative,
                height=0.7,
                color=(BEST_COLOR, *OTHER_COLORS)[index % (1 + len(OTHER_COLORS))],
                label=name,
            )
            cumulative += percentage
        axes.set_yticks(rows, labels)
        axes.invert_yaxis()
        axes.set_xlim(0, 100)
        axes.grid(False, axis="y")
        axes.set_xlabel("percent of the squared error bar")
        legend_beside(axes)


def _draw_bars(axes: Axes, labels: Sequence[str], joint_sds: np.ndarray, conditional_sds: np.ndarray, limit: float) -> None:
    rows = np.arange(len(labels))
    joint_bars, conditional_bars = (
        np.clip(np.nan_to_num(widths, posinf=_MAX_WIDTH), _MIN_WIDTH, _MAX_WIDTH) for widths in (joint_sds, conditional_sds)
    )
    axes.barh(rows, joint_bars, height=0.7, color=[BEST_COLOR if share <= limit else OTHER_COLORS[3] for share in joint_bars])
    axes.barh(rows, conditional_bars, height=0.3, color=OTHER_COLORS[1], label="all other unknowns known")
    axes.axvline(limit, color=BOUNDS_COLOR, linestyle="--", linewidth=1.0)
    axes.set_xscale("log")
    axes.set_xlim(0.3 * min(conditional_bars.min(), joint_bars.min()), 2 * max(1.0, joint_bars.max()))
    axes.set_yticks(rows, labels)
    axes.invert_yaxis()
    axes.grid(False, axis="y")
    axes.set_xlabel("error bar / range")
    axes.set_title("identifiability (left of the dashed line: observable)")
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.08), borderaxespad=0.0, ncols=2)


def _draw_matrix(figure: Figure, axes: Axes, correlation: np.ndarray, count: int) -> None:
    picture = axes.imshow(correlation, cmap="RdBu_r", vmin=-1, vmax=1)
    axes.set_xticks(range(count), [str(k + 1) for k in range(count)])
    axes.set_yticks(range(count), [str(k + 1) for k in range(count)])
    axes.grid(False)
    axes.set_title("correlation")
    if count <= 10:
        for i in range(count):
            for j in range(count):
                is_dark = abs(correlation[i, j]) > 0.6
                axes.text(j, i, f"{correlation[i, j]:.2f}", ha="center", va="center", fontsize=7, color="w" if is_dark else "k")
    figure.colorbar(picture, ax=axes, fraction=0.05)
