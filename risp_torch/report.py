"""Pictures and tables that show what a run did and why to believe it.

Drawn with matplotlib's Agg canvas without ``pyplot``: no window, no global state. Colours of pictures are linear in
[0, 1] in memory and sRGB in the files.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from risp_torch.atomic import replacing
from risp_torch.video import linear_to_srgb, srgb_to_linear, write_video
from ti_sim.base.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

__all__ = [
    "comparison_video",
    "format_table",
    "plot_curves",
    "plot_entries",
    "plot_landscape_1d",
    "plot_landscape_2d",
    "plot_losses",
    "plot_parameters",
    "write_strip",
]

_DIFFERENCE_GAIN = 4.0
_MOST_LISTED = 12  # lines that a legend names
_BEST, _TRUTH, _BOUNDS = "#0b6e99", "#c8452f", "#555555"
_OTHERS = ("#8fb8a8", "#d9a777", "#b59ac9", "#d98c8c", "#a3b566", "#8aa4cf", "#b0a090", "#d9c05f")
_MARKS = ("#c8452f", "#0b6e99", "#e0a100", "#5b8c3a", "#7b5aa6")
_STYLE = {
    "figure.dpi": 150,
    "figure.constrained_layout.use": True,
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "grid.color": "#e4e7eb",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.2,
}


def plot_losses(path: Path | str, losses: Any, labels: Sequence[str], *, best: int | None = None) -> None:
    """Plot the loss of every start against the iteration, the best start bold.

    Args:
        path: picture to write (.png, .pdf or .svg).
        losses: [I, S] loss of each start; NaN from where a start has stopped.
        labels: S names of the starts.
        best: index of the best start; None takes the one with the lowest last loss.

    Raises:
        UserError: the shapes do not fit, or the picture cannot be written.
    """
    losses = _matrix(losses, "losses")
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
        if losses.shape[1] <= _MOST_LISTED:
            _legend_beside(axes)


def plot_curves(
    path: Path | str,
    panels: Mapping[str, Mapping[str, Any]],
    *,
    logarithmic: Sequence[str] = (),
    levels: Mapping[str, tuple[str, float]] | None = None,
    along: str = "iteration",
    title: str = "",
) -> None:
    """Plot how runs of several kinds went: for each kind the median of its runs, the span of all of them shaded.

    Args:
        path: picture to write.
        panels: what is plotted upwards -> kind -> [runs, I]; one panel each, side by side.
        logarithmic: panels with a logarithmic axis.
        levels: panel -> label and value of a horizontal line, such as what was asked.
        along: what is counted to the right.
        title: above all panels.

    Raises:
        UserError: a shape does not fit, or the picture cannot be written.
    """
    with figure_file(path, 4.6 * len(panels) + 0.6, 3.6) as figure:
        if title:
            figure.suptitle(title, fontsize=11)
        for (what, kinds), axes in zip(panels.items(), figure.subplots(1, len(panels), squeeze=False)[0], strict=True):
            if what in logarithmic:
                axes.set_yscale("log", nonpositive="mask")
            for (kind, values), color in zip(kinds.items(), _cycled(_MARKS[1:] + _MARKS[:1]), strict=False):
                values = _matrix(values, kind)
                steps, middle = np.arange(values.shape[1]), np.median(values, axis=0)
                axes.plot(steps, middle, color=color, linewidth=2.0, label=kind, marker="o" if len(steps) == 1 else None)
                if len(values) > 1:
                    axes.fill_between(steps, values.min(axis=0), values.max(axis=0), color=color, alpha=0.18, linewidth=0)
            if what in (levels or {}):
                label, level = levels[what]
                axes.axhline(level, color=_BOUNDS, linestyle=":", linewidth=1.2, label=label)
            axes.set_xlabel(along)
            axes.set_ylabel(what)
            axes.set_xlim(left=0)
            axes.legend()


def plot_parameters(
    path: Path | str,
    histories: Mapping[str, Any],
    bounds: Mapping[str, tuple[float | None, float | None] | None],
    units: Mapping[str, str],
    truths: Mapping[str, float | None] | None = None,
    scales: Mapping[str, str] | None = None,
    *,
    best: int | None = None,
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
            history = _matrix(histories[name], name)
            if _is_log((scales or {}).get(name)):
                axes.set_yscale("log", nonpositive="mask")
            _draw_starts(axes, history, best, None)
            _draw_levels(axes, bounds.get(name), (truths or {}).get(name))
            _label_log_axis(axes.yaxis)
            axes.set_title(name)
            axes.set_xlabel("iteration")
            axes.set_ylabel(_with_unit("value", units.get(name, "")))
            axes.set_xlim(left=0)
        for axes in grid.flat[len(histories) :]:
            axes.set_visible(False)
        handles = {
            text: line for axes in grid.flat for line, text in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        if handles:
            figure.legend(handles.values(), handles, loc="outside lower center", ncols=len(handles))


def plot_entries(
    path: Path | str, parameters: Mapping[str, tuple[Any, Any]], units: Mapping[str, str] | None = None
) -> None:
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
            start, estimate = (_numbers(numbers).reshape(len(numbers), -1) for numbers in pair)
            for column, color in zip(range(estimate.shape[1]), _cycled((_BEST, *_OTHERS)), strict=False):
                label = f"[{column}]" if estimate.shape[1] > 1 else "estimate"
                axes.plot(estimate[:, column], color=color, linewidth=1.8, label=label if column < _MOST_LISTED else None)
                axes.plot(start[:, column], color=color, linewidth=0.8, linestyle="--")
            axes.plot([], [], color=_BOUNDS, linewidth=0.8, linestyle="--", label="start")
            axes.set_title(name)
            axes.set_xlabel("entry")
            axes.set_ylabel(_with_unit("value", (units or {}).get(name, "")))
            _legend_beside(axes)


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
    x, loss = _numbers(x), _numbers(loss)
    if x.ndim != 1 or x.shape != loss.shape:
        raise UserError(f"the landscape of {name} has {x.shape} values and {loss.shape} losses: give one loss a value")
    with figure_file(path, 6.4, 3.8) as figure:
        axes = figure.add_subplot()
        if _is_log(scale):
            axes.set_xscale("log")
        if _spans_decades(loss):
            axes.set_yscale("log", nonpositive="mask")
        axes.plot(x, np.where(np.isfinite(loss), loss, np.nan), color="#333333", marker=".", markersize=4)
        for (label, value), color in zip((marks or {}).items(), _cycled(_MARKS), strict=False):
            axes.axvline(value, color=color, linestyle="--", label=f"{label}: {value:.4g}{' ' + unit if unit else ''}")
        _label_log_axis(axes.xaxis)
        axes.set_xlabel(_with_unit(name, unit))
        axes.set_ylabel("loss")
        if marks:
            _legend_beside(axes)


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
    x, y, loss = _numbers(x), _numbers(y), _numbers(loss)
    if loss.shape != (y.size, x.size) or min(loss.shape) < 2:
        raise UserError(
            f"the landscape of {' and '.join(names)} has losses of shape {loss.shape}: "
            f"({y.size}, {x.size}), at least 2 by 2, is needed"
        )
    with figure_file(path, 6.0, 4.4) as figure:
        axes = figure.add_subplot()
        for set_scale, scale in zip((axes.set_xscale, axes.set_yscale), scales, strict=True):
            if _is_log(scale):
                set_scale("log")
        _draw_contours(figure, axes, x, y, loss)
        for (label, point), color in zip((marks or {}).items(), _cycled(_MARKS), strict=False):
            axes.plot(*point, "o", color=color, markeredgecolor="white", markersize=9, label=label, clip_on=False)
        _label_log_axis(axes.xaxis)
        _label_log_axis(axes.yaxis)
        axes.set_xlabel(_with_unit(names[0], units[0]))
        axes.set_ylabel(_with_unit(names[1], units[1]))
        axes.grid(False)
        if marks:
            figure.legend(loc="outside lower center", ncols=len(marks))


def write_strip(
    path: Path | str, target: Any, estimate: Any, *, fps: float | Fraction | None = None, frames: int = 6
) -> None:
    """Write a picture of three rows, target, estimate and four times their difference, at times spread over the video.

    Args:
        path: picture to write.
        target: [T, H, W, 3] linear colour.
        estimate: [T, H, W, 3] linear colour.
        fps: frames per second, for the times above the columns; None writes frame numbers.
        frames: how many columns; the first and the last frame are among them.

    Raises:
        UserError: the videos differ in shape, or the picture cannot be written.
    """
    target, estimate = _same_videos(target, estimate)
    chosen = np.unique(np.linspace(0, len(target) - 1, max(1, frames)).round().astype(int))
    target, estimate = target[chosen], estimate[chosen]
    rows = {
        "target": linear_to_srgb(target),
        "estimate": linear_to_srgb(estimate),
        f"|difference| × {_DIFFERENCE_GAIN:g}": _difference(target, estimate),
    }
    _, height, width, _ = target.shape
    cell = max(1.5, width / height)  # inches; a row below one inch has no room for its label
    with figure_file(path, cell * len(chosen) + 0.35, 3 * cell * height / width + 0.3) as figure:
        figure.get_layout_engine().set(w_pad=0.02, h_pad=0.02, wspace=0, hspace=0)
        grid = figure.subplots(3, len(chosen), squeeze=False)
        for axes_row, (label, pictures) in zip(grid, rows.items(), strict=True):
            for axes, picture in zip(axes_row, pictures, strict=True):
                axes.imshow(picture, interpolation="nearest")
                axes.set(xticks=[], yticks=[])
                axes.spines[:].set_visible(False)
            axes_row[0].set_ylabel(label, fontsize=8)
        for axes, frame in zip(grid[0], chosen, strict=True):
            axes.set_title(_time_label(int(frame), fps), fontsize=8, loc="center", pad=3)


def write_film_strip(path: Path | str, film: Any, *, fps: float | Fraction | None = None, frames: int = 8) -> None:
    """Write a picture of one row: frames spread over a film, with their times.

    Args:
        path: picture to write.
        film: [T, H, W, 3] linear colour.
        fps: frames per second, for the times; None writes frame numbers.
        frames: how many columns; the first and the last frame are among them.

    Raises:
        UserError: the picture cannot be written.
    """
    film = _numbers(film)
    chosen = np.unique(np.linspace(0, len(film) - 1, max(1, frames)).round().astype(int))
    _, height, width, _ = film.shape
    with figure_file(path, 1.5 * len(chosen), 1.5 * height / width + 0.25) as figure:
        figure.get_layout_engine().set(w_pad=0.02, h_pad=0.02, wspace=0, hspace=0)
        for axes, frame in zip(figure.subplots(1, len(chosen), squeeze=False)[0], chosen, strict=True):
            axes.imshow(linear_to_srgb(np.clip(film[frame], 0, 1)), interpolation="nearest")
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
            axes.set_title(_time_label(int(frame), fps), fontsize=8)


def comparison_video(path: Path | str, target: Any, estimate: Any, fps: float | Fraction) -> None:
    """Write target, estimate and four times their difference side by side as an mp4, each pixel drawn 2 by 2.

    Args:
        path: video to write, ending in ``.mp4``.
        target: [T, H, W, 3] linear colour.
        estimate: [T, H, W, 3] linear colour.
        fps: frames per second.

    Raises:
        UserError: the videos differ in shape, or the video cannot be written.
    """
    target, estimate = _same_videos(target, estimate)
    gap = np.ones((*target.shape[:2], 2, 3), dtype=np.float32)
    difference = srgb_to_linear(_difference(target, estimate))
    joined = np.concatenate([target, gap, estimate, gap, difference], axis=2)
    write_video(path, joined.repeat(2, axis=1).repeat(2, axis=2), fps=fps)


def format_table(rows: Sequence[Sequence[Any]], headers: Sequence[str]) -> str:
    """Lay out rows as plain text in aligned columns: numbers to the right, words to the left.

    Args:
        rows: one sequence of cells a row; floats are written with four digits, None and NaN as "-".
        headers: one header a column.

    Returns:
        The table, without a line break at its end.

    Raises:
        ValueError: a row has another length than the headers.
    """
    for row in rows:
        if len(row) != len(headers):
            raise ValueError(f"row {list(row)} has {len(row)} cells for {len(headers)} columns")
    texts = [[_cell(value) for value in row] for row in rows]
    columns = list(zip(headers, *texts, strict=True))
    widths = [max(map(len, column)) for column in columns]
    numeric = [_is_numeric([row[index] for row in rows]) for index in range(len(headers))]

    def line(cells: Sequence[str]) -> str:
        parts = [c.rjust(w) if right else c.ljust(w) for c, w, right in zip(cells, widths, numeric, strict=True)]
        return "  ".join(parts).rstrip()

    return "\n".join([line(list(headers)), line(["-" * width for width in widths]), *map(line, texts)])


@contextmanager
def figure_file(path: Path | str, width: float, height: float) -> Iterator[Figure]:
    """A figure of this size in inches, saved to ``path`` when the block ends well."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    path = Path(path)
    kind = path.suffix.lstrip(".").lower()
    if kind not in ("png", "pdf", "svg"):
        raise UserError(f"{path} is not a picture that can be drawn: give it a name that ends in .png, .pdf or .svg")
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(width, height))
        FigureCanvasAgg(figure)
        yield figure
        with replacing(path) as temporary:
            figure.savefig(temporary, format=kind)


def _draw_starts(axes: Axes, values: np.ndarray, best: int | None, labels: Sequence[str] | None) -> None:
    """One line a start, [I, S]; the best in front and bold."""
    iterations = np.arange(len(values))
    for start in range(values.shape[1]):
        front = start == best
        # One iteration is a point, which a line would not show.
        axes.plot(
            iterations,
            np.where(np.isfinite(values[:, start]), values[:, start], np.nan),
            color=_BEST if front else _OTHERS[start % len(_OTHERS)],
            linewidth=2.4 if front else 1.0,
            zorder=3 if front else 2,
            marker="o" if len(values) == 1 else None,
            label=_start_label(start, front, labels),
        )


def _start_label(start: int, best: bool, labels: Sequence[str] | None) -> str | None:
    if labels is None:
        return "best start" if best else None
    return f"{labels[start]} (best)" if best else labels[start]


def _draw_levels(axes: Axes, bounds: tuple[float | None, float | None] | None, truth: float | None) -> None:
    """Horizontal lines at the bounds and at the true value."""
    shown = False
    for bound in bounds or ():
        if bound is not None and math.isfinite(bound):
            axes.axhline(bound, color=_BOUNDS, linestyle=":", linewidth=1.0, label=None if shown else "bounds")
            shown = True
    if truth is not None:
        axes.axhline(truth, color=_TRUTH, linestyle="--", linewidth=1.4, label="truth")


def _draw_contours(figure: Figure, axes: Axes, x: np.ndarray, y: np.ndarray, loss: np.ndarray) -> None:
    from matplotlib.colors import LogNorm

    finite = loss[np.isfinite(loss)]
    if finite.size == 0:
        raise UserError("the landscape has no finite loss: choose other bounds for the two parameters")
    shown = np.ma.masked_invalid(loss)
    if _spans_decades(loss):
        shown = np.ma.masked_less_equal(shown, 0.0)
        positive = finite[finite > 0]
        norm = LogNorm(positive.min(), positive.max())
        levels = np.geomspace(positive.min(), positive.max(), 25)
    else:
        norm = None
        low, high = finite.min(), finite.max()
        levels = np.linspace(low, high if high > low else low + max(abs(low), 1.0), 25)
    filled = axes.contourf(x, y, shown, levels=levels, norm=norm, cmap="viridis", extend="both")
    axes.contour(x, y, shown, levels=levels[::3], colors="white", linewidths=0.4, alpha=0.6)
    bar = figure.colorbar(filled, ax=axes, label="loss", ticks=levels[::6], format="%.2g")
    bar.ax.minorticks_off()


def _label_log_axis(axis: Axis) -> None:
    """Write 300, 1000, 2000 ... along a log axis of few decades, where matplotlib's own labels run into each other."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    if axis.get_scale() != "log" or low <= 0 or high > 1e3 * low:
        return
    digits = (1, 2, 3, 5) if high < 20 * low else (1, 2, 5)
    axis.set_major_locator(LogLocator(subs=digits))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))
    axis.set_minor_formatter(NullFormatter())


def _legend_beside(axes: Axes) -> None:
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _matrix(values: Any, name: str) -> np.ndarray:
    values = _numbers(values)
    if values.ndim != 2 or values.size == 0:
        raise UserError(f"{name} has shape {values.shape}: [iterations, starts] with at least one of each is needed")
    return values


def _numbers(values: Any) -> np.ndarray:
    """numpy or torch as float64."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    return np.asarray(values, dtype=np.float64)


def _best_start(losses: np.ndarray) -> int | None:
    """The start with the lowest last loss, among those whose last loss is finite."""
    last = losses[-1]
    return int(np.nanargmin(np.where(np.isfinite(last), last, np.nan))) if np.isfinite(last).any() else None


def _spans_decades(loss: np.ndarray) -> bool:
    """Whether a log axis shows more of these losses than a linear one."""
    finite = loss[np.isfinite(loss)]
    positive = finite[finite > 0]
    return bool(positive.size > 1 and positive.size == finite.size and positive.max() > 30.0 * positive.min())


def _is_log(scale: str | None) -> bool:
    return scale is not None and scale.startswith("log")


def _with_unit(name: str, unit: str) -> str:
    return f"{name} [{unit}]" if unit else name


def _cycled(values: Sequence[str]) -> Iterator[str]:
    while True:
        yield from values


def _time_label(frame: int, fps: float | Fraction | None) -> str:
    return f"frame {frame}" if fps is None else f"{frame / float(fps):.3f} s"


def _same_videos(target: Any, estimate: Any) -> tuple[np.ndarray, np.ndarray]:
    """Both videos as float32 in [0, 1], after a check that their shapes agree."""
    first, second = (_numbers(video).astype(np.float32) for video in (target, estimate))
    if first.shape != second.shape or first.ndim != 4 or first.shape[-1] != 3 or first.size == 0:
        raise UserError(
            f"the target has shape {first.shape} and the estimate {second.shape}: "
            "both need the same [frames, height, width, 3]"
        )
    return np.nan_to_num(first).clip(0.0, 1.0), np.nan_to_num(second).clip(0.0, 1.0)


def _difference(target: np.ndarray, estimate: np.ndarray) -> np.ndarray:
    """Four times the absolute difference of the sRGB values, as the eye compares the two pictures; sRGB in [0, 1]."""
    return (_DIFFERENCE_GAIN * np.abs(linear_to_srgb(target) - linear_to_srgb(estimate))).clip(0.0, 1.0)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float | np.floating):
        return "-" if math.isnan(value) else f"{value:.4g}"
    return str(value)


def _is_numeric(values: Sequence[Any]) -> bool:
    """Whether a column holds numbers only (missing ones aside)."""
    present = [value for value in values if value is not None]
    return bool(present) and all(isinstance(v, int | float | np.number) and not isinstance(v, bool) for v in present)
