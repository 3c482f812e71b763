"""Format, size, colours and times of a film, read before its pictures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from risp_torch.files.film.clock import Clock
from risp_torch.files.film.colours import Colours
from risp_torch.files.film.placement import Placement, StoredPicture
from ti_sim.base.errors import UserError

__all__ = ["FilmFacts", "repeats_remarks"]

_MAX_LISTED = 8  # frames that a sentence lists


@dataclass(frozen=True, kw_only=True)
class FilmFacts:
    """Format, size, colours and times of a film.

    Attributes:
        path: of the file or folder.
        container: format of the file, or "folder".
        codec: how its pictures are coded.
        pixel_format: FFmpeg's name of the numbers of a picture.
        bits: of these numbers.
        frames: how many there are.
        stored: size of the pictures, shape of their pixels, and turns.
        placement: of the pictures of a folder in those of the film that they were cut from, where it says so.
        numbers: of a folder's pictures, the numbers of these frames in the film that they were cut from, where it says so.
        frames_of_source: frames of that film.
        clock: time stamps; None where the film has none.
        colours: what the numbers are.
        bytes_per_pixel: of the video stream, per pixel of a stored frame; of a folder, that of the film that it was cut from;
            None where nothing was compressed, or nothing is known of it.
        remarks: sentences about what was assumed.
        left_out: sentences about pictures of the file that are no frames, and about frames that repeat the one before; warnings
            for whoever reads the pictures.
        refusals: why the film cannot be read, as ends of the sentence "video ... is not read: it ...".
    """

    path: Path
    container: str
    codec: str
    pixel_format: str
    bits: int
    frames: int
    stored: StoredPicture
    placement: Placement | None = None
    numbers: tuple[int, ...] | None = None
    frames_of_source: int = 0
    clock: Clock | None
    colours: Colours
    bytes_per_pixel: float | None = None
    remarks: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()

    @property
    def whole(self) -> Placement:
        """Where the pixels of the whole film lie, read in square pixels, in the pictures that its file, or that of the film that
        it was cut from, stores."""
        return self.placement or Placement.shown(self.stored)

    def check_readable(self) -> None:
        """Raise a UserError that names everything for which the film cannot be read."""
        if self.refusals:
            raise UserError(f"video {self.path} {'; it '.join(self.refusals)}")


def repeats_remarks(changes: np.ndarray) -> list[str]:
    """A sentence about frames that show the picture of the one before, between frames that change.

    A frame is named where those around it change ten times as much, and the nearest changes before and after it are half as large
    as those: a scene that comes to rest repeats its picture.

    Args:
        changes: [T - 1] how much each frame differs from the one before, such as the mean difference of its luma.
    """
    if len(changes) < 3:
        return []
    local_change = np.array([np.median(np.delete(changes[max(k - 3, 0) : k + 4], min(k, 3))) for k in range(len(changes))])
    is_repeat = changes < 0.1 * local_change
    repeats = []
    for k in np.flatnonzero(is_repeat):
        sides = changes[:k][~is_repeat[:k]][-1:], changes[k + 1 :][~is_repeat[k + 1 :]][:1]
        if all(len(side) and side[0] > 0.5 * local_change[k] for side in sides):
            repeats.append(int(k) + 1)
    if not repeats:
        return []
    named = ", ".join(map(str, repeats[:_MAX_LISTED])) + (" and others" if len(repeats) > _MAX_LISTED else "")
    subject = f"frames {named} repeat" if len(repeats) > 1 else f"frame {named} repeats"
    return [
        f"{subject} the picture before: unless nothing moves there, a recorder or converter has doubled it, so leave it out "
        "(--sampling list:...)"
    ]
