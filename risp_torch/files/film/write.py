"""Writing of a film, or a part of one, as a folder of PNG pictures with a description of their source."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from risp_torch.files.atomic import atomic_replacement
from risp_torch.files.film.clock import Clock
from risp_torch.files.film.curves import SRGB, linear_to_srgb
from risp_torch.files.film.cut import Cut
from risp_torch.files.film.facts import FilmFacts
from risp_torch.files.film.film import Film, OpenedFilm
from risp_torch.files.film.picture_folder import DESCRIPTION, LINEAR
from risp_torch.files.film.placement import Placement
from risp_torch.files.folders import contains, is_same_path
from risp_torch.files.pictures import png_bytes
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked

__all__ = ["encode_picture", "write_film", "write_folder", "write_part"]

Bits = Literal[8, 16]


@checked
def write_film(folder: Path | str, film: Film, *, bits: Bits = 16) -> None:
    """Write a film as a folder of sRGB PNG pictures ``00000.png ...`` and ``video.json`` with its times and placement.

    Films with linear values, such as masks, are written without a curve. ``read_film`` of the folder returns the same times and
    placement, and the pictures up to rounding to ``bits``.

    Args:
        folder: folder to write; an existing one is replaced if it is empty or holds nothing but another film.
        film: result of ``read_film``.
        bits: bits per component in the files, 8 or 16. Means over areas and films of ten bits have more than eight.

    Raises:
        UserError: the folder cannot be written, or is that of the film itself.
    """
    _check_target(Path(folder), film.facts.path)
    description = _description(film.facts, film.clock, film.placement, film.frames)
    write_folder(Path(folder), film.pictures, description, bits=bits)


def write_part(folder: Path | str, film: OpenedFilm, cut: Cut, *, bits: Bits = 16) -> Placement:
    """Write a part of a film picture by picture, so that only one at a time is in memory (``write_film``).

    Returns:
        Placement of the pixels in the pictures that the film stores.

    Raises:
        UserError: as ``read_film``, or the folder cannot be written.
    """
    _check_target(Path(folder), film.facts.path)
    film.facts.check_readable()
    frames, placement = cut.frames(film.facts), cut.placement(film.full_placement)
    clock = None if film.facts.clock is None else film.facts.clock.select(frames)
    origin = film.origin(placement)
    description = _description(film.facts, clock, origin, frames)
    write_folder(Path(folder), film.pictures(frames, placement), description, bits=bits)
    return origin


def write_folder(folder: Path, pictures: Iterable[np.ndarray], description: Mapping[str, Any], *, bits: Bits) -> None:
    """Write linear pictures [H, W, 3] in [0, 1] as numbered PNG files; the folder is written atomically.

    Args:
        folder: folder to write; an existing one is replaced if it is empty or holds nothing but a film.
        pictures: at least one.
        description: content of ``video.json``; width, height and number of frames are filled in. With the curve "linear" the
            files hold linear light, otherwise sRGB.
        bits: bits per component in the files.

    Raises:
        UserError: the folder cannot be written.
    """
    foreign_files = _foreign_files(folder)
    if foreign_files:
        raise UserError(
            f"{folder} already holds files that are not a video ({', '.join(foreign_files[:3])}): choose an empty or a new folder"
        )
    curve = LINEAR if description.get("curve") == LINEAR else SRGB
    with atomic_replacement(folder) as temporary:
        temporary.mkdir()
        count, shape = 0, (0, 0)
        for count, picture in enumerate(pictures, start=1):
            (temporary / f"{count - 1:05d}.png").write_bytes(png_bytes(encode_picture(picture, bits, curve)))
            shape = picture.shape[:2]
        content = dict(description) | {"width": shape[1], "height": shape[0], "frames": count}
        (temporary / DESCRIPTION).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        if folder.is_dir():
            shutil.rmtree(folder)


def _foreign_files(folder: Path) -> list[str]:
    """Names of files in a folder that do not belong to a film written here; hidden files are ignored."""
    if not folder.is_dir():
        return []
    names = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    is_film = (folder / DESCRIPTION).is_file()
    return [name for name in names if not (is_film and (name == DESCRIPTION or re.fullmatch(r"\d{5,}\.png", name)))]


def _check_target(folder: Path, source: Path) -> None:
    """Refuse a folder whose replacement would change the source film."""
    if is_same_path(folder, source) or contains(folder, source) or source.is_dir() and contains(source, folder):
        raise UserError(f"{folder} is, holds or lies in the film {source} itself, which would change: choose another folder")


def encode_picture(picture: np.ndarray, bits: Bits, curve: str = SRGB) -> np.ndarray:
    """Linear colour, clipped to [0, 1], as levels of 8 or 16 bits, sRGB or linear."""
    dtype = np.uint8 if bits == 8 else np.uint16
    values = np.clip(picture, 0.0, 1.0)
    return np.round((values if curve == LINEAR else linear_to_srgb(values)) * (2.0**bits - 1)).astype(dtype)


def _description(facts: FilmFacts, clock: Clock | None, placement: Placement, frames: Sequence[int]) -> dict[str, Any]:
    """Content of ``video.json`` for a part of a film; films of linear values keep the curve "linear"."""
    content: dict[str, Any] = {"fps": None, "width": None, "height": None, "frames": None, "source": facts.path.name}
    if facts.colours.curve == LINEAR:
        content["curve"] = LINEAR
    if facts.bytes_per_pixel is not None:
        content["bytes_per_pixel"] = facts.bytes_per_pixel
    if clock is not None:
        rate = round(clock.rate, 9) if clock.is_even and clock.rate else None
        content |= {"fps": rate, "start": round(clock.start, 9), "times": clock.times.round(9).tolist()}  # to nanoseconds
    if frames:
        numbers, count = (
            (range(facts.frames), facts.frames) if facts.source_frames is None else (facts.source_frames, facts.num_source_frames)
        )
        content["source_frames"] = {"numbers": [numbers[frame] for frame in frames], "of": count}
    return content | {"placement": placement.to_json()}
