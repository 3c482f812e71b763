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
        path: path of the file or folder.
        container: format of the file, or "folder".
        codec: name of the codec.
        pixel_format: FFmpeg's name of the pixel format.
        bits: bits per component.
        frames: number of frames.
        stored: size of the stored pictures, aspect of their pixels, and rotation.
        placement: of a folder: placement of its pictures in those of the film that they were cut from; None if unknown.
        source_frames: of a folder: indices of its pictures in the film that they were cut from; None if unknown.
        num_source_frames: number of frames of that film; 0 if unknown.
        clock: time stamps; None if the film has none.
        colours: colour encoding.
        bytes_per_pixel: bytes of the video stream per pixel of a stored frame; of a folder, those of the film that it was cut
            from; None if uncompressed or unknown.
        remarks: sentences about assumptions.
        omissions: sentences about pictures of the file that are omitted, and about frames that repeat the previous one; readers
            of the pictures print them as warnings.
        refusals: reasons why the film cannot be read, as predicates of a sentence about the film.
    """

    path: Path
    container: str
    codec: str
    pixel_format: str
    bits: int
    frames: int
    stored: StoredPicture
    placement: Placement | None = None
    source_frames: tuple[int, ...] | None = None
    num_source_frames: int = 0
    clock: Clock | None
    colours: Colours
    bytes_per_pixel: float | None = None
    remarks: tuple[str, ...] = ()
    omissions: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()

    @property
    def full_placement(self) -> Placement:
        """Where the pixels of the whole film lie, read in square pixels, in the pictures that its file, or that of the film that
        it was cut from, stores."""
        return self.placement or Placement.shown(self.stored)

    def check_readable(self) -> None:
        """Raise a UserError with all ``refusals``, if there are any."""
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
    listed = ", ".join(map(str, repeats[:_MAX_LISTED])) + (" and others" if len(repeats) > _MAX_LISTED else "")
    subject = f"frames {listed} repeat" if len(repeats) > 1 else f"frame {listed} repeats"
    return [
        f"{subject} the picture before: unless nothing moves there, a recorder or converter has doubled it, so leave it out "
        "(--sampling list:...)"
    ]
