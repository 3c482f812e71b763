"""Plots of per-element parameters: bodies coloured by the values of their elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from risp_torch.files.report.figure import figure_file
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_AZIMUTH, _ELEVATION = np.radians(-68.0), np.radians(22.0)  # of the direction to the viewer
_COLOR_MAP = "viridis"
_MIN_BRIGHTNESS = 0.85  # brightness of faces seen edge-on; facing ones have 1


@dataclass(frozen=True)
class ElementNumbers:
    """Contents of one row of the picture.

    Attributes:
        name: name of the parameter.
        corners: [F, 3, 3] triangles of the body's surface [m].
        element: [F] index of the element of each triangle.
        columns: title -> [E] values of the elements.
        unit: unit of the values.
        logarithmic: whether the colour scale is logarithmic.
    """

    name: str
    corners: np.ndarray
    element: np.ndarray
    columns: Mapping[str, np.ndarray]
    unit: str = ""
    logarithmic: bool = False


@checked
def plot_elements(path: Path | str, rows: Sequence[ElementNumbers]) -> None:
    """Draw bodies in an oblique view from the front (-y) and above, with a colour bar for each row.

    Args:
        path: picture to write.
        rows: a row for each parameter.

    Raises:
        UserError: there is no row, or the picture cannot be written.
    """
    if not rows:
        raise UserError(f"there is no parameter with a number for each element to draw in {path}: choose one that has")
    column_count = max(len(row.columns) for row in rows)
    with figure_file(path, 0.9 + 3.6 * column_count, 0.3 + 1.9 * len(rows)) as figure:
        grid = figure.subplots(len(rows), column_count, squeeze=False)
        for row, panels in zip(rows, grid, strict=True):
            for axes in panels[len(row.columns) :]:
                axes.set_visible(False)
            _draw_row(figure, panels[: len(row.columns)], row)


def _draw_row(figure: Figure, panels: Sequence[Axes], row: ElementNumbers) -> None:
    """One parameter: a body for each column, and their colour bar."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import LogNorm, Normalize

    numbers = np.concatenate([np.ravel(values) for values in row.columns.values()])
    colors = ScalarMappable((LogNorm if row.logarithmic else Normalize)(numbers.min(), numbers.max()), _COLOR_MAP)
    projected, brightness, order = _projected(row.corners)
    for axes, (title, values) in zip(panels, row.columns.items(), strict=True):
        face_colors = colors.to_rgba(np.asarray(values)[row.element])
        face_colors[:, :3] *= brightness[:, None]
        axes.add_collection(PolyCollection(projected[order], facecolors=face_colors[order], edgecolors="face", linewidths=0.3))
        axes.autoscale_view()
        axes.set_aspect("equal")
        axes.set_axis_off()
        axes.set_title(f"{row.name}, {title}")
    figure.colorbar(colors, ax=list(panels), shrink=0.8, pad=0.02).set_label(row.unit)


def _projected(corners: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Orthographic view of triangles [F, 3, 3]: image positions [F, 3, 2], brightness [F], and the order from back to front."""
    view_direction = np.array([np.cos(_ELEVATION) * np.cos(_AZIMUTH), np.cos(_ELEVATION) * np.sin(_AZIMUTH), np.sin(_ELEVATION)])
    right = np.array([-np.sin(_AZIMUTH), np.cos(_AZIMUTH), 0.0])
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    facing = np.abs(normals @ view_direction) / np.maximum(np.linalg.norm(normals, axis=1), 1e-300)
    positions = corners @ np.stack([right, np.cross(view_direction, right)], axis=1)
    return (
        positions,
        _MIN_BRIGHTNESS + (1 - _MIN_BRIGHTNESS) * facing,
        np.argsort((corners @ view_direction).mean(axis=1), kind="stable"),
    )
