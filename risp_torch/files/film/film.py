"""Films as players show them: linear colour in square pixels, with times and the placement of the pixels."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from risp_torch.files.film.area import place_picture, stored_region
from risp_torch.files.film.clock import Clock
from risp_torch.files.film.curves import CURVES
from risp_torch.files.film.cut import Cut
from risp_torch.files.film.facts import FilmFacts
from risp_torch.files.film.picture_folder import PictureFolder
from risp_torch.files.film.placement import Placement
from risp_torch.files.film.video_file import VideoFile
from risp_torch.files.folders import check_regular
from risp_torch.files.memory import check_memory
from risp_torch.files.suggest import unknown_name_error
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked
from ti_sim.base.warn import warn

__all__ = ["Film", "film_facts", "open_film", "read_film"]

_PIXEL_BYTES = 4 * 3 + 4 * 3  # memory of a pixel of a film: its colour, and a copy for the engine
_ARRAY_SUFFIXES = (".npz", ".npy", ".csv")


@dataclass(frozen=True, kw_only=True, eq=False)
class Film:
    """A film, or a part of one.

    Attributes:
        pictures: float32 [T, H, W, 3], linear colour in [0, 1] with sRGB's primaries, row 0 at the top.
        clock: times [T] relative to the first of these frames, and its time stamp in the file [s]; None for a film without times.
        placement: placement in the pictures that the file stores (of a folder: in those of the film that it was cut from).
        facts: properties of the whole film.
        frames: indices of these frames in the whole film; () if unknown.
    """

    pictures: np.ndarray
    clock: Clock | None
    placement: Placement
    facts: FilmFacts
    frames: tuple[int, ...] = ()

    @property
    def times(self) -> np.ndarray | None:
        """float64 [T], times of the frames relative to the first of them [s]; None for a film without times."""
        return None if self.clock is None else self.clock.times


@dataclass(frozen=True)
class OpenedFilm:
    """A film whose pictures have not been read.

    Attributes:
        source: the file or folder.
        square: whether pixels are made square.
    """

    source: VideoFile | PictureFolder
    square: bool = True

    @property
    def facts(self) -> FilmFacts:
        """Format, size, colours and times of the film."""
        return self.source.facts

    @property
    def full_placement(self) -> Placement:
        """Placement of the whole picture, as shown, in the picture of the file or folder."""
        return Placement.shown(self.facts.stored) if self.square else Placement.turned(self.facts.stored)

    def origin(self, placement: Placement) -> Placement:
        """A placement in the file's or folder's pictures, as a placement in those of the film that the folder was cut from."""
        return placement if self.facts.placement is None else self.facts.placement.composed(placement)

    def pictures(self, frames: Sequence[int], placement: Placement) -> Iterator[np.ndarray]:
        """Yield pictures float32 [height, width, 3] of some frames (errors: ``read_film``)."""
        for picture in self.source.pictures(frames, stored_region(placement)):
            yield place_picture(picture, placement)


@checked
def open_film(path: Path | str, *, curve: str | None = None, square: bool = True) -> OpenedFilm:
    """Open a film without reading its pictures (arguments and errors: ``read_film``)."""
    path = Path(path)
    if curve is not None and curve not in CURVES:
        raise unknown_name_error("curve", curve, list(CURVES))
    if path.suffix.lower() in _ARRAY_SUFFIXES:
        raise UserError(f"{path} holds numbers and no pictures: states are compared with --loss state --states {path}")
    if not os.path.exists(path):
        raise UserError(f"video {path} does not exist: check the path")
    check_regular(path, f"video {path}")
    return OpenedFilm(PictureFolder(path, curve=curve) if path.is_dir() else VideoFile(path, curve=curve), square)


@checked
def film_facts(path: Path | str) -> FilmFacts:
    """Properties of a film. A video file is decoded once; of a folder, only the first picture is decoded.

    Args:
        path: a video file, or a folder of pictures.

    Raises:
        UserError: it does not exist, is damaged, or holds no pictures.
    """
    return open_film(path).facts


@checked
def read_film(path: Path | str, *, cut: Cut | None = None, curve: str | None = None, square: bool = True) -> Film:
    """Read a film as players show it: rotated, in square pixels, as linear colour.

    Args:
        path: a video file, or a folder of PNG or JPEG pictures.
        cut: the part to read; None for the whole film.
        curve: transfer curve that replaces the film's own: "sRGB", "BT.709", "SMPTE 240M", "gamma 2.2", "gamma 2.8" or "linear".
        square: whether pictures with non-square pixels are resampled to square ones, by averaging along the shorter side.
            Otherwise the focal lengths of the camera differ by ``placement.pixel_aspect``.

    Raises:
        UserError: the film is missing, damaged or truncated; its colours or its display matrix are not supported; a numbered
            picture is missing; the part is outside the film; the film does not fit into memory.
    """
    film, cut = open_film(path, curve=curve, square=square), cut or Cut()
    film.facts.check_readable()
    frames, placement = cut.frames(film.facts), cut.placement(film.full_placement)
    return read_frames(film, frames, placement)


def read_frames(film: OpenedFilm, frames: Sequence[int], placement: Placement) -> Film:
    """Some frames of an opened film (errors: ``read_film``)."""
    height, width = placement.height, placement.width
    check_memory(
        _PIXEL_BYTES * height * width * len(frames),
        f"reading {len(frames)} frames of {width} x {height} pixels of {film.facts.path}",
        "cut the film, or scale it down",
    )
    pictures = np.empty((len(frames), height, width, 3), dtype=np.float32)
    for row, picture in zip(pictures, film.pictures(frames, placement), strict=True):
        row[...] = picture
    for sentence in film.facts.omissions:
        warn(f"video {film.facts.path}: {sentence}")
    clock = None if film.facts.clock is None else film.facts.clock.select(frames)
    return Film(pictures=pictures, clock=clock, placement=film.origin(placement), facts=film.facts, frames=tuple(frames))
