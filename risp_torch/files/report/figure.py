"""Figures that are written to a file; style, colours, axes and conversion of numbers for all plots.

Drawn with matplotlib's Agg canvas without ``pyplot``: no window, no global state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from risp_torch.files.atomic import atomic_replacement
from ti_sim.base.errors import UserError
from ti_sim.base.numbers import format_value
from ti_sim.base.rules import Positive, checked

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

BEST_COLOR, TRUTH_COLOR, BOUNDS_COLOR = "#0b6e99", "#c8452f", "#555555"
OTHER_COLORS = ("#8fb8a8", "#d9a777", "#b59ac9", "#d98c8c", "#a3b566", "#8aa4cf", "#b0a090", "#d9c05f")
MARK_COLORS = ("#c8452f", "#0b6e99", "#e0a100", "#5b8c3a", "#7b5aa6")
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


@checked
@contextmanager
def figure_file(path: Path | str, width: Positive, height: Positive) -> Iterator[Figure]:
    """A figure of this size [inches], saved to ``path`` if the block succeeds."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    path = Path(path)
    file_format = path.suffix.lstrip(".").lower()
    if file_format not in ("png", "pdf", "svg"):
        raise UserError(f"{path} is not a picture that can be drawn: give it a name that ends in .png, .pdf or .svg")
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(width, height))
        FigureCanvasAgg(figure)
        yield figure
        _lay_out(figure)
        with atomic_replacement(path) as temporary:
            figure.savefig(temporary, format=file_format)


def _lay_out(figure: Figure) -> None:
    """Compute the layout once and keep it: ``savefig`` would draw a figure that has a layout engine twice."""
    if (engine := figure.get_layout_engine()) is not None:
        engine.execute(figure)
        figure.set_layout_engine("none")


def label_log_axis(axis: Axis) -> None:
    """Label a log axis of few decades with 300, 1000, 2000 ..., since matplotlib's default labels would overlap."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    if axis.get_scale() != "log" or low <= 0 or high > 1e3 * low:
        return
    digits = (1, 2, 3, 5) if high < 20 * low else (1, 2, 5)
    axis.set_major_locator(LogLocator(subs=digits))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))
    axis.set_minor_formatter(NullFormatter())


def legend_beside(axes: Axes) -> None:
    """Add a legend to the right of the axes."""
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def as_matrix(values: Any, name: str) -> np.ndarray:
    """Convert an array or tensor [iterations, starts] to float64.

    Raises:
        UserError: the array is not two-dimensional, or is empty.
    """
    values = as_numbers(values)
    if values.ndim != 2 or values.size == 0:
        raise UserError(f"{name} has shape {values.shape}: [iterations, starts] with at least one of each is needed")
    return values


def as_numbers(values: Any) -> np.ndarray:
    """Convert an array or tensor to float64.

    Raises:
        UserError: the values are not an array of numbers.
    """
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise UserError(f"numbers to draw are {format_value(values)}: give an array of numbers") from None


def spans_decades(loss: np.ndarray) -> bool:
    """Whether all finite losses are positive and span a factor of more than 30, so that a log axis is used."""
    finite = loss[np.isfinite(loss)]
    positive = finite[finite > 0]
    return bool(positive.size > 1 and positive.size == finite.size and positive.max() > 30.0 * positive.min())


def is_log(scale: str | None) -> bool:
    """Whether a parameter of this scale has a logarithmic axis."""
    return scale is not None and scale.startswith("log")


def with_unit(name: str, unit: str) -> str:
    """The label of an axis, "name [unit]"; the name alone if the unit is ""."""
    return f"{name} [{unit}]" if unit else name


def cycle_forever(values: Sequence[str]) -> Iterator[str]:
    """Repeat colours endlessly."""
    while True:
        yield from values
