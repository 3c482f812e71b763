"""A figure that is written to a file, and what all plots share: style, colours, axes, numbers.

Drawn with matplotlib's Agg canvas without ``pyplot``: no window, no global state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from risp_torch.files.atomic import replacing
from ti_sim.base.errors import UserError
from ti_sim.base.numbers import format_value
from ti_sim.base.rules import Positive, checked

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

BEST, TRUTH, BOUNDS = "#0b6e99", "#c8452f", "#555555"
OTHERS = ("#8fb8a8", "#d9a777", "#b59ac9", "#d98c8c", "#a3b566", "#8aa4cf", "#b0a090", "#d9c05f")
MARKS = ("#c8452f", "#0b6e99", "#e0a100", "#5b8c3a", "#7b5aa6")
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


def label_log_axis(axis: Axis) -> None:
    """Write 300, 1000, 2000 ... along a log axis of few decades, where matplotlib's own labels run into each other."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    if axis.get_scale() != "log" or low <= 0 or high > 1e3 * low:
        return
    digits = (1, 2, 3, 5) if high < 20 * low else (1, 2, 5)
    axis.set_major_locator(LogLocator(subs=digits))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))
    axis.set_minor_formatter(NullFormatter())


def legend_beside(axes: Axes) -> None:
    """A legend to the right of the axes, where it hides nothing."""
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def as_matrix(values: Any, name: str) -> np.ndarray:
    """numpy or torch as float64, [iterations, starts].

    Raises:
        UserError: it is no matrix, or there is nothing in it.
    """
    values = as_numbers(values)
    if values.ndim != 2 or values.size == 0:
        raise UserError(f"{name} has shape {values.shape}: [iterations, starts] with at least one of each is needed")
    return values


def as_numbers(values: Any) -> np.ndarray:
    """numpy or torch as float64.

    Raises:
        UserError: they are no array of numbers.
    """
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise UserError(f"numbers to draw are {format_value(values)}: give an array of numbers") from None


def spans_decades(loss: np.ndarray) -> bool:
    """Whether a log axis shows more of these losses than a linear one."""
    finite = loss[np.isfinite(loss)]
    positive = finite[finite > 0]
    return bool(positive.size > 1 and positive.size == finite.size and positive.max() > 30.0 * positive.min())


def is_log(scale: str | None) -> bool:
    """Whether a parameter of this scale has a logarithmic axis."""
    return scale is not None and scale.startswith("log")


def with_unit(name: str, unit: str) -> str:
    """The label of an axis; "" for a plain number."""
    return f"{name} [{unit}]" if unit else name


def cycled(values: Sequence[str]) -> Iterator[str]:
    """Colours, again and again."""
    while True:
        yield from values
