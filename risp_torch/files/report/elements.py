"""A picture of numbers that every element of a body has: bodies coloured by them, beside one another."""

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

_AZIMUTH, _ELEVATION = np.radians(-68.0), np.radians(22.0)  # of the eye
_COLORS = "viridis"
_DARKEST = 0.85  # brightness of faces that look along the picture, which shows the body's form


@dataclass(frozen=True)
class ElementNumbers:
    """Contents of one row of the picture.

    Attributes:
        name: of the parameter.
        corners: [F, 3, 3] the triangles of the body's surface [m].
        owner: [F] the element of each.
        columns: title -> [E] numbers.
        unit: of these.
        logarithmic: whether colours follow their logarithm.
    """

    name: str
    corners: np.ndarray
    owner: np.ndarray
    columns: Mapping[str, np.ndarray]
    unit: str = ""
    logarithmic: bool = False


@checked
def plot_elements(path: Path | str, rows: Sequence[ElementNumbers]) -> None:
    """Draw bodies seen obliquely from the front (-y) and above, with one colour bar for each row.

    Args:
        path: picture to write.
        rows: one parameter each.

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
    colors = ScalarMappable((LogNorm if row.logarithmic else Normalize)(numbers.min(), numbers.max()), _COLORS)
    projected, brightness, order = _projected(row.corners)
    for axes, (title, values) in zip(panels, row.columns.items(), strict=True):
        paint = colors.to_rgba(np.asarray(values)[row.owner])
        paint[:, :3] *= brightness[:, None]
        axes.add_collection(PolyCollection(projected[order], facecolors=paint[order], edgecolors="face", linewidths=0.3))
        axes.autoscale_view()
        axes.set_aspect("equal")
        axes.set_axis_off()
        axes.set_title(f"{row.name}, {title}")
    figure.colorbar(colors, ax=list(panels), shrink=0.8, pad=0.02).set_label(row.unit)


def _projected(corners: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Triangles [F, 3, 3] from a far eye: image positions [F, 3, 2], brightness [F], and the order from back to front."""
    to_eye = np.array([np.cos(_ELEVATION) * np.cos(_AZIMUTH), np.cos(_ELEVATION) * np.sin(_AZIMUTH), np.sin(_ELEVATION)])
    right = np.array([-np.sin(_AZIMUTH), np.cos(_AZIMUTH), 0.0])
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    facing = np.abs(normals @ to_eye) / np.maximum(np.linalg.norm(normals, axis=1), 1e-300)
    positions = corners @ np.stack([right, np.cross(to_eye, right)], axis=1)
    return positions, _DARKEST + (1 - _DARKEST) * facing, np.argsort((corners @ to_eye).mean(axis=1), kind="stable")
