"""A picture of what a film could tell: error bars relative to the ranges, and correlations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from risp_torch.files.report.figure import BEST, BOUNDS, OTHERS, figure_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDEST, _NARROWEST = 10.0, 1e-7  # of the range: bars that are drawn in full


def plot_observability(
    path: Path | str, labels: Sequence[str], shares: np.ndarray, alone: np.ndarray, correlation: np.ndarray, *,
    limit: float = 0.25,
) -> None:  # fmt: skip
    """Draw bars of the unknowns and the matrix of their correlations beside each other.

    Args:
        path: picture to write.
        labels: K names.
        shares: [K] error bars relative to the ranges.
        alone: [K] the same where all other unknowns are known.
        correlation: [K, K].
        limit: share above which an unknown counts as not observable.
    """
    count = len(labels)
    side = max(2.2, 0.28 * count)
    with figure_file(path, 7.2 + side, 1.2 + side) as figure:
        bars, matrix = figure.subplots(1, 2, width_ratios=[4.2, side])
        _draw_bars(bars, labels, np.asarray(shares), np.asarray(alone), limit)
        _draw_matrix(figure, matrix, np.asarray(correlation), count)


def _draw_bars(axes: Axes, labels: Sequence[str], shares: np.ndarray, alone: np.ndarray, limit: float) -> None:
    rows = np.arange(len(labels))
    together, single = (np.clip(np.nan_to_num(part, posinf=_WIDEST), _NARROWEST, _WIDEST) for part in (shares, alone))
    axes.barh(rows, together, height=0.7, color=[BEST if share <= limit else OTHERS[3] for share in together])
    axes.barh(rows, single, height=0.3, color=OTHERS[1], label="all other unknowns known")
    axes.axvline(limit, color=BOUNDS, linestyle="--", linewidth=1.0)
    axes.set_xscale("log")
    axes.set_xlim(0.3 * min(single.min(), together.min()), 2 * max(1.0, together.max()))
    axes.set_yticks(rows, labels)
    axes.invert_yaxis()
    axes.grid(False, axis="y")
    axes.set_xlabel("error bar / range")
    axes.set_title("what the film can tell (left of the dashed line: observable)")
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
                dark = abs(correlation[i, j]) > 0.6
                axes.text(j, i, f"{correlation[i, j]:.2f}", ha="center", va="center", fontsize=7, color="w" if dark else "k")
    figure.colorbar(picture, ax=axes, fraction=0.05)
