"""Pictures of several frames of films, and comparison videos.

Colours are linear in [0, 1] in memory and sRGB in the files.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from risp_torch.files.film.curves import linear_to_srgb, srgb_to_linear
from risp_torch.files.report.figure import as_numbers, figure_file
from risp_torch.files.video import write_video
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, Positive, checked

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DIFFERENCE_GAIN = 4.0


@checked
def write_strip(path: Path | str, target: Any, estimate: Any, *, fps: Positive | None = None, frames: Count = 6) -> None:
    """Write a picture of three rows, target, estimate and four times their difference, at equally spaced frames of the video.

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
    columns = np.unique(np.linspace(0, len(target) - 1, frames).round().astype(int))
    target, estimate = target[columns], estimate[columns]
    rows = {
        "target": linear_to_srgb(target),
        "estimate": linear_to_srgb(estimate),
        f"|difference| × {_DIFFERENCE_GAIN:g}": _difference(target, estimate),
    }
    _, height, width, _ = target.shape
    cell = max(1.5, width / height)  # inches; a row below one inch has no room for its label
    with figure_file(path, cell * len(columns) + 0.35, 3 * cell * height / width + 0.3) as figure:
        _draw_grid(figure, list(rows.values()), list(rows), [_time_label(int(frame), fps) for frame in columns])


@checked
def write_film_strip(path: Path | str, film: Any, *, fps: Positive | None = None, frames: Count = 8) -> None:
    """Write a picture of one row: equally spaced frames of a film, with their times.

    Args:
        path: picture to write.
        film: [T, H, W, 3] linear colour.
        fps: frames per second, for the times; None writes frame numbers.
        frames: how many columns; the first and the last frame are among them.

    Raises:
        UserError: the picture cannot be written.
    """
    film = as_numbers(film)
    columns = np.unique(np.linspace(0, len(film) - 1, frames).round().astype(int))
    _, height, width, _ = film.shape
    with figure_file(path, 1.5 * len(columns), 1.5 * height / width + 0.25) as figure:
        pictures = linear_to_srgb(np.clip(film[columns], 0, 1))
        _draw_grid(figure, [pictures], [""], [_time_label(int(frame), fps) for frame in columns])


@checked
def comparison_video(path: Path | str, target: Any, estimate: Any, fps: Positive) -> None:
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
    separator = np.ones((*target.shape[:2], 2, 3), dtype=np.float32)
    difference = srgb_to_linear(_difference(target, estimate))
    panels = np.concatenate([target, separator, estimate, separator, difference], axis=2)
    write_video(path, panels.repeat(2, axis=1).repeat(2, axis=2), fps=fps)


def _draw_grid(figure: Figure, rows: list[np.ndarray], row_labels: list[str], column_labels: list[str]) -> None:
    """Draw rows of sRGB pictures [T, H, W, 3] with narrow white gaps, as one image: an image for each would be slow."""
    _, height, width, _ = rows[0].shape
    gap = max(1, round(0.02 * width))
    framed_rows = [np.pad(row, ((0, 0), (0, gap), (0, gap), (0, 0)), constant_values=1.0) for row in rows]
    image = np.concatenate([np.concatenate(list(row), axis=1) for row in framed_rows])[:-gap, :-gap]
    figure.get_layout_engine().set(w_pad=0.02, h_pad=0.02, wspace=0, hspace=0)
    axes = figure.subplots()
    axes.imshow(image, interpolation="nearest")
    axes.grid(False)
    axes.spines[:].set_visible(False)
    axes.xaxis.tick_top()
    axes.tick_params(length=0, labelsize=8, pad=3)
    axes.set_xticks((width + gap) * np.arange(len(column_labels)) + (width - 1) / 2, column_labels)
    axes.set_yticks((height + gap) * np.arange(len(rows)) + (height - 1) / 2, row_labels, rotation=90, va="center")


def _time_label(frame: int, fps: Positive | None) -> str:
    return f"frame {frame}" if fps is None else f"{frame / float(fps):.3f} s"


def _same_videos(target: Any, estimate: Any) -> tuple[np.ndarray, np.ndarray]:
    """Both videos as float32 in [0, 1], after a check that their shapes agree."""
    first, second = (as_numbers(video).astype(np.float32) for video in (target, estimate))
    if first.shape != second.shape or first.ndim != 4 or first.shape[-1] != 3 or first.size == 0:
        raise UserError(
            f"the target has shape {first.shape} and the estimate {second.shape}: both need the same [frames, height, width, 3]"
        )
    return np.nan_to_num(first).clip(0.0, 1.0), np.nan_to_num(second).clip(0.0, 1.0)


def _difference(target: np.ndarray, estimate: np.ndarray) -> np.ndarray:
    """Four times the absolute difference of the sRGB values, which are perceptually more uniform; sRGB in [0, 1]."""
    return (_DIFFERENCE_GAIN * np.abs(linear_to_srgb(target) - linear_to_srgb(estimate))).clip(0.0, 1.0)
