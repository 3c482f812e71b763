"""Plots of the tables, and strips and videos of target, start and the estimate of each method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np

from risp_torch import linear_to_srgb, srgb_to_linear, write_video
from risp_torch.files.report import figure_file
from risp_torch.programs import atomic_replacement
from studies.risp.pages.why import NAMES
from studies.risp.tables.plan import PAPER_SEARCH
from studies.risp.tables.results import Cells

SHORT = {
    "average": "average", "random": "random", "pixel": "pixels", "perceptual": "perceptual", "matched": "matched",
    "no-grad": "no-grad", "full": "full", "chain": "full,\nmatched", PAPER_SEARCH: "full,\nRMSProp", "state": "oracle",
}  # fmt: skip
_OURS, _PAPERS = "#0b6e99", "#c8452f"
_COLUMNS = 7  # frames of a strip
_LETTERS = 12  # height of a video's labels [pixels]
_CRF = 28


def plot_cells(path: Path, cells: Cells, scenes: Sequence[str], labels: Mapping[str, str]) -> None:
    """Plot the errors of a table, one panel a scene: every repeat, the mean, and the paper's mean.

    Args:
        path: picture to write.
        cells: of one table.
        scenes: one panel each.
        labels: scene -> label of the y axis.
    """
    with figure_file(path, 3.1 * len(scenes) + 0.4, 3.4) as figure:
        for scene, axes in zip(scenes, figure.subplots(1, len(scenes), squeeze=False)[0], strict=True):
            scene_cells = [cell for (name, _), cell in cells.items() if name == scene]
            for x, cell in enumerate(scene_cells):
                axes.plot([x] * len(cell.errors), cell.errors, "o", color=_OURS, alpha=0.35, markersize=4, markeredgewidth=0)
                axes.plot(x, cell.mean, "_", color=_OURS, markersize=16, markeredgewidth=2.5, label="mean here")
                if cell.paper is not None and cell.method != PAPER_SEARCH:
                    axes.plot(x, cell.paper[0], "D", color=_PAPERS, fillstyle="none", markersize=6, label="mean in the paper")
            if any(cell.mean > 0 for cell in scene_cells):
                axes.set_yscale("log", nonpositive="mask")
            axes.set_xticks(range(len(scene_cells)), [SHORT[cell.method] for cell in scene_cells], rotation=90, fontsize=8)
            axes.set_title(scene)
            axes.set_ylabel(labels[scene])
        handles = {t: h for axes in figure.axes for h, t in zip(*axes.get_legend_handles_labels(), strict=True)}
        figure.legend(handles.values(), handles, loc="outside lower center", ncols=len(handles))


def write_rows(path: Path, rows: Mapping[str, np.ndarray], *, frame_dt: float, last: Sequence[str] = ()) -> None:
    """Write a picture with one film per row, at times spread over the films.

    Args:
        path: picture to write.
        rows: label -> [T, H, W, 3] linear colour, or [1, H, W, 3] for those in ``last``.
        frame_dt: time between frames [s].
        last: labels of rows that have one picture, the one of the last frame.
    """
    length, height, width, _ = max((film.shape for film in rows.values()), key=lambda shape: shape[0])
    chosen = np.unique(np.linspace(0, length - 1, _COLUMNS).round().astype(int))
    cell = 1.05
    with figure_file(path, cell * len(chosen) + 1.45, cell * height / width * len(rows) + 0.25) as figure:
        figure.get_layout_engine().set(w_pad=0.02, h_pad=0.01, wspace=0, hspace=0)
        grid = figure.subplots(len(rows), len(chosen), squeeze=False)
        for axes_row, (label, film) in zip(grid, rows.items(), strict=True):
            for axes, frame in zip(axes_row, chosen, strict=True):
                axes.set(xticks=[], yticks=[])
                axes.spines[:].set_visible(False)
                picture = film[-1 if label in last else frame]
                if label in last and frame != chosen[-1]:
                    picture = np.ones_like(picture)  # white, of the size of the others
                axes.imshow(linear_to_srgb(np.clip(picture, 0, 1)), interpolation="nearest")
            axes_row[0].set_ylabel(label, fontsize=7, rotation=0, ha="right", va="center")
        for axes, frame in zip(grid[0], chosen, strict=True):
            axes.set_title(f"{frame * frame_dt:.2f} s", fontsize=7, loc="center", pad=2)


def write_columns(path: Path, columns: Mapping[str, np.ndarray], *, frame_dt: float) -> None:
    """Write a video with one film per column, each below its label.

    Args:
        path: video to write.
        columns: label -> [T, H, W, 3] linear colour; a shorter film holds its last picture.
        frame_dt: time between frames [s]; played slower where that is less than 1/25 s.
    """
    length = max(len(film) for film in columns.values())
    rows = []
    for label, film in columns.items():
        padded = np.concatenate([film, np.repeat(film[-1:], length - len(film), axis=0)]).clip(0, 1)
        double = padded.repeat(2, axis=1).repeat(2, axis=2).astype(np.float32)
        heading = np.broadcast_to(_heading(label, double.shape[2]), (length, 2 * _LETTERS, double.shape[2], 3))
        rows += [np.concatenate([heading, double], axis=1), np.ones((length, double.shape[1] + 2 * _LETTERS, 4, 3), np.float32)]
    joined = np.concatenate(rows[:-1], axis=2)
    write_video(path, joined, fps=Fraction(min(25.0, 1 / frame_dt)).limit_denominator(1000), crf=_CRF)


def _heading(label: str, width: int) -> np.ndarray:
    """Dark letters on white, [2 _LETTERS, width, 3] linear colour."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (width, 2 * _LETTERS), "white")
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(size=_LETTERS)
    draw.text((width / 2, _LETTERS), label, fill="black", font=font, anchor="mm")
    return srgb_to_linear(np.asarray(image) / 255.0).astype(np.float32)


def write_small_png(path: Path) -> None:
    """Write a PNG again with a palette of 256 colours, which has a third of the size."""
    from PIL import Image

    with Image.open(path) as image, atomic_replacement(path) as temporary:
        image.convert("RGB").quantize(256, method=Image.Quantize.MEDIANCUT).save(temporary, format="PNG", optimize=True)


def strip_label(method: str, error: str) -> str:
    """Label of a row: the method and its error."""
    name = NAMES[method].replace(", ", "\n").replace(" (", "\n(")
    return f"{name}\n{error}"
