"""Plots of a loss along one parameter and over two."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from risp_torch.files.report.figure import (
    MARK_COLORS,
    as_numbers,
    cycle_forever,
    figure_file,
    is_log,
    label_log_axis,
    legend_beside,
    spans_decades,
    with_unit,
)
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@checked
def plot_landscape_1d(
    path: Path | str,
    x: Any,
    loss: Any,
    *,
    name: str,
    unit: str = "",
    scale: str = "linear",
    marks: Mapping[str, float] | None = None,
) -> None:
    """Plot the loss along one parameter.

    Args:
        path: picture to write.
        x: [N] values of the parameter.
        loss: [N] loss at each; gaps where it is not finite.
        name: name of the parameter.
        unit: its unit.
        scale: "linear" or "log10".
        marks: label -> value, drawn as vertical lines ("truth", "estimate").

    Raises:
        UserError: the shapes do not fit, or the picture cannot be written.
    """
    x, loss = as_numbers(x), as_numbers(loss)
    if x.ndim != 1 or x.shape != loss.shape:
        raise UserError(f"the landscape of {name} has {x.shape} values and {loss.shape} losses: give one loss a value")
    with figure_file(path, 6.4, 3.8) as figure:
        axes = figure.add_subplot()
        if is_log(scale):
            axes.set_xscale("log")
        if spans_decades(loss):
            axes.set_yscale("log", nonpositive="mask")
        axes.plot(x, np.where(np.isfinite(loss), loss, np.nan), color="#333333", marker=".", markersize=4)
        for (label, value), color in zip((marks or {}).items(), cycle_forever(MARK_COLORS), strict=False):
            axes.axvline(value, color=color, linestyle="--", label=f"{label}: {value:.4g}{' ' + unit if unit else ''}")
        label_log_axis(axes.xaxis)
        axes.set_xlabel(with_unit(name, unit))
        axes.set_ylabel("loss")
        if marks:
            legend_beside(axes)


@checked
def plot_landscape_2d(
    path: Path | str,
    x: Any,
    y: Any,
    loss: Any,
    *,
    names: tuple[str, str],
    units: tuple[str, str] = ("", ""),
    scales: tuple[str, str] = ("linear", "linear"),
    marks: Mapping[str, tuple[float, float]] | None = None,
) -> None:
    """Plot the loss over two parameters as a filled contour map.

    Args:
        path: picture to write.
        x: [Nx] values of the first parameter, to the right.
        y: [Ny] values of the second, upwards.
        loss: [Ny, Nx] loss; white where it is not finite.
        names: names of the two parameters.
        units: their units.
        scales: "linear" or "log10" for each.
        marks: label -> (x, y), drawn as points.

    Raises:
        UserError: the shapes do not fit, or the picture cannot be written.
    """
    x, y, loss = as_numbers(x), as_numbers(y), as_numbers(loss)
    if loss.shape != (y.size, x.size) or min(loss.shape) < 2:
        raise UserError(
            f"the landscape of {' and '.join(names)} has losses of shape {loss.shape}: "
            f"({y.size}, {x.size}), at least 2 by 2, is needed"
        )
    with figure_file(path, 6.0, 4.4) as figure:
        axes = figure.add_subplot()
        for set_scale, scale in zip((axes.set_xscale, axes.set_yscale), scales, strict=True):
            if is_log(scale):
                set_scale("log")
        _draw_contours(figure, axes, x, y, loss)
        for (label, point), color in zip((marks or {}).items(), cycle_forever(MARK_COLORS), strict=False):
            axes.plot(*point, "o", color=color, markeredgecolor="white", markersize=9, label=label, clip_on=False)
        label_log_axis(axes.xaxis)
        label_log_axis(axes.yaxis)
        axes.set_xlabel(with_unit(names[0], units[0]))
        axes.set_ylabel(with_unit(names[1], units[1]))
        axes.grid(False)
        if marks:
            figure.legend(loc="outside lower center", ncols=len(marks))


def _draw_contours(figure: Figure, axes: Axes, x: np.ndarray, y: np.ndarray, loss: np.ndarray) -> None:
    from matplotlib.colors import LogNorm

    finite = loss[np.isfinite(loss)]
    if finite.size == 0:
        raise UserError("the landscape has no finite loss: choose other bounds for the two parameters")
    masked_loss = np.ma.masked_invalid(loss)
    if spans_decades(loss):
        masked_loss = np.ma.masked_less_equal(masked_loss, 0.0)
        positive = finite[finite > 0]
        norm = LogNorm(positive.min(), positive.max())
        levels = np.geomspace(positive.min(), positive.max(), 25)
    else:
        norm = None
        low, high = finite.min(), finite.max()
        levels = np.linspace(low, high if high > low else low + max(abs(low), 1.0), 25)
    filled = axes.contourf(x, y, masked_loss, levels=levels, norm=norm, cmap="viridis", extend="both")
    axes.contour(x, y, masked_loss, levels=levels[::3], colors="white", linewidths=0.4, alpha=0.6)
    bar = figure.colorbar(filled, ax=axes, label="loss", ticks=levels[::6], format="%.2g")
    bar.ax.minorticks_off()
