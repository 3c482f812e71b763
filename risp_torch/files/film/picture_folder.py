"""A folder of pictures as a film: numbered PNG or JPEG files, with or without a description of the film."""

from __future__ import annotations

import filecmp
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from risp_torch.files.film.clock import Clock
from risp_torch.files.film.colours import SRGB_COLOURS
from risp_torch.files.film.curves import SRGB, linear_values
from risp_torch.files.film.facts import FilmFacts, repeats_remarks
from risp_torch.files.film.placement import Placement, StoredPicture
from risp_torch.files.pictures import picture_levels
from ti_sim.base.errors import UserError
from ti_sim.base.json_text import parse_json

__all__ = ["DESCRIPTION", "LINEAR", "PictureFolder", "numbered_pictures"]

# File beside the pictures: {fps, width, height, frames}; {"curve": "linear"} if they are not sRGB; "times", "start", "placement"
# and "bytes_per_pixel" if they were cut from a film.
DESCRIPTION, LINEAR = "video.json", "linear"
_FORMATS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG"}


class PictureFolder:
    """A folder of pictures, in the natural order of their names.

    Attributes:
        facts: its format, size, colours and times.
    """

    def __init__(self, folder: Path, *, curve: str | None = None) -> None:
        """Read the description, the names, and the first picture.

        Args:
            folder: the folder.
            curve: name of the transfer curve (``CURVES``) that replaces sRGB or that of the description.

        Raises:
            UserError: the folder has no pictures, too few, or pictures of two formats; the description is invalid.
        """
        self.folder = folder
        self.names = _pictures_of(folder)
        record = _description(folder)
        if len(self.names) < record["frames"]:
            raise UserError(
                f"video {folder} is cut short: {len(self.names)} of the {record['frames']} frames it announces are there; copy "
                "or export it again"
            )
        source_frames, num_source_frames = _source_frames(folder, record["source_frames"], len(self.names))
        first_levels = picture_levels(self.names[0])
        height, width = first_levels.shape[:2]
        self.facts = FilmFacts(
            path=folder, container="folder", codec=_FORMATS[self.names[0].suffix.lower()], pixel_format="rgb",
            bits=8 * first_levels.itemsize, frames=len(self.names),
            stored=StoredPicture(width=width, height=height), placement=_placement(folder, record["placement"], width, height),
            source_frames=source_frames, num_source_frames=num_source_frames,
            clock=_clock(folder, record, len(self.names)),
            bytes_per_pixel=record["bytes_per_pixel"],
            colours=replace(SRGB_COLOURS, curve=curve or (LINEAR if record["curve"] == LINEAR else SRGB)),
            omissions=tuple(repeats_remarks(_differs_from_previous(self.names))),
        )  # fmt: skip

    def pictures(self, frames: Sequence[int], region: tuple[slice, slice]) -> Iterator[np.ndarray]:
        """Linear colour, float32 [h, w, 3], of some frames within a region of rows and columns (``VideoFile.pictures``).

        Raises:
            UserError: a picture is missing between these frames, damaged, or of another size than the first.
        """
        _check_numbers(self.folder, self.names[: frames[-1] + 1] if len(frames) else [])
        stored = self.facts.stored
        for frame in frames:
            levels = picture_levels(self.names[frame])
            if levels.shape[:2] != (stored.height, stored.width):
                raise UserError(
                    f"{self.names[frame]} is {levels.shape[1]}x{levels.shape[0]} pixels, and {stored.width}x{stored.height} are "
                    "needed: scale the video, or change the camera's size"
                )
            yield linear_values(self.facts.colours.curve, 256**levels.itemsize)[levels[region]]


def numbered_pictures(folder: Path) -> list[Path]:
    """The picture files of a folder, in the natural order of their names.

    Raises:
        UserError: there is none, there are several formats, or a number is missing.
    """
    names = _pictures_of(folder)
    _check_numbers(folder, names)
    return names


def _pictures_of(folder: Path) -> list[Path]:
    """The picture files of a folder, all of one format, in the natural order of their names."""
    # Hidden files are not pictures: archives of macOS contain a file of metadata, ._NAME.png, for each picture.
    visible_files = (path for path in folder.iterdir() if not path.name.startswith("."))
    names = sorted((path for path in visible_files if path.suffix.lower() in _FORMATS), key=_natural_order)
    kinds = sorted({_FORMATS[name.suffix.lower()] for name in names})
    if not names:
        raise UserError(f"folder {folder} holds no PNG or JPEG picture: give a video file or a folder of numbered pictures")
    if len(kinds) > 1:
        raise UserError(f"folder {folder} holds {' and '.join(kinds)} pictures: leave only those of the film in it")
    return names


def _differs_from_previous(names: Sequence[Path]) -> np.ndarray:
    """For each file but the first: 0 if its bytes equal those of the previous file, else 1."""
    sizes = [name.stat().st_size for name in names]
    pairs = zip(names, names[1:], sizes, sizes[1:], strict=False)
    return np.array(
        [
            float(size != next_size or not filecmp.cmp(path, next_path, shallow=False))
            for path, next_path, size, next_size in pairs
        ]
    )


def _description(folder: Path) -> dict[str, Any]:
    """Content of ``video.json``; empty without one."""
    path = folder / DESCRIPTION
    try:
        record = parse_json(path.read_text(encoding="utf-8")) if path.is_file() else {}
        times = record.get("times")
        size = record.get("bytes_per_pixel")
        return {
            "bytes_per_pixel": None if size is None else _positive(float(size)),
            "fps": None if record.get("fps") is None else float(record["fps"]), "frames": int(record.get("frames") or 0),
            "curve": record.get("curve"), "start": float(record.get("start") or 0.0), "placement": record.get("placement"),
            "source_frames": record.get("source_frames"),
            "times": None if times is None else np.array(times, dtype=np.float64),
        }  # fmt: skip
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise _no_description(path) from error


def _positive(number: float) -> float:
    """The number (ValueError: it is not above 0 and finite)."""
    if not 0 < number < math.inf:
        raise ValueError(number)
    return number


def _no_description(path: Path) -> UserError:
    return UserError(f"{path} is not a description of a video: mend it, or remove it to read the pictures without a frame rate")


def _clock(folder: Path, record: dict[str, Any], frames: int) -> Clock | None:
    """Time stamps of the description, or those of its rate; None where it has neither."""
    if record["times"] is None:
        return None if record["fps"] is None else Clock.regular(frames, record["fps"])
    if record["times"].shape != (frames,) or not np.isfinite(record["times"]).all() or (np.diff(record["times"]) <= 0).any():
        raise UserError(
            f"{folder / DESCRIPTION} has times of shape {list(record['times'].shape)} for {frames} pictures: there must be one "
            "for each, and they must grow"
        )
    return Clock(record["times"] - record["times"][0], record["start"], named_rate=record["fps"])


def _placement(folder: Path, record: Any, width: int, height: int) -> Placement | None:
    """Placement of the pictures in those of the film that they were cut from."""
    try:
        return None if record is None else Placement.from_json(record, width, height)
    except (ValueError, TypeError, KeyError, IndexError, ZeroDivisionError) as error:
        raise _no_description(folder / DESCRIPTION) from error


def _source_frames(folder: Path, record: Any, frames: int) -> tuple[tuple[int, ...] | None, int]:
    """Indices of the pictures in the film that they were cut from, and that film's number of frames."""
    if record is None:
        return None, 0
    try:
        numbers, count = tuple(int(number) for number in record["numbers"]), int(record["of"])
    except (ValueError, TypeError, KeyError) as error:
        raise _no_description(folder / DESCRIPTION) from error
    if len(numbers) != frames or not all(0 <= number < count for number in numbers):
        raise _no_description(folder / DESCRIPTION)
    return numbers, count


def _natural_order(path: Path) -> list[tuple[int, str]]:
    """Sort key under which frame_2 comes before frame_10."""
    tokens = re.split(r"(\d+)", path.name)
    return [(int(token), "") if token.isdigit() else (-1, token) for token in tokens]


def _check_numbers(folder: Path, names: Sequence[Path]) -> None:
    """Refuse numbered pictures with a missing number.

    The names of a film's pictures differ in one number only, which grows in equal steps. If steps are not multiples of the
    smallest step, the numbers are no frame numbers (but times, for instance).
    """
    rows = [[int(token) if token.isdigit() else token for token in re.split(r"(\d+)", name.stem)] for name in names]
    differing_tokens = {k for row in rows if len(row) == len(rows[0]) for k, token in enumerate(row) if token != rows[0][k]}
    if len(differing_tokens) != 1 or any(len(row) != len(rows[0]) for row in rows):
        return
    column = differing_tokens.pop()
    numbers = [row[column] for row in rows]
    if not all(isinstance(number, int) for number in numbers):
        return
    steps = [following - preceding for preceding, following in zip(numbers, numbers[1:], strict=False)]
    min_step = min(steps)
    if min_step > 0 and all(step % min_step == 0 for step in steps):
        gap = next((k for k, step in enumerate(steps) if step > min_step), None)
        if gap is not None:
            raise UserError(
                f"folder {folder} lacks picture {numbers[gap] + min_step}, between {names[gap].name} and {names[gap + 1].name}: "
                "add it, or number the pictures without a gap"
            )
