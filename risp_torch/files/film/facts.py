"""What a film is, before any picture of it is read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from risp_torch.files.film.clock import Clock
from risp_torch.files.film.colours import Colours
from risp_torch.files.film.placement import Placement, StoredPicture
from ti_sim.base.errors import UserError

__all__ = ["FilmFacts"]


@dataclass(frozen=True, kw_only=True)
class FilmFacts:
    """What a film is.

    Attributes:
        path: of the file or folder.
        container: format of the file, or "folder".
        codec: how its pictures are coded.
        pixel_format: FFmpeg's name of the numbers of a picture.
        bits: of these numbers.
        frames: how many there are.
        stored: size of the pictures, shape of their pixels, and turns.
        placement: of the pictures of a folder in those of the film that they were cut from, where it says so.
        clock: time stamps; None where the film has none.
        colours: what the numbers are.
        bytes_per_pixel: of the video stream, per pixel of a stored frame; of a folder, that of the film that it was cut from;
            None where nothing was compressed, or nothing is known of it.
        remarks: sentences about what was assumed or left out.
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
    clock: Clock | None
    colours: Colours
    bytes_per_pixel: float | None = None
    remarks: tuple[str, ...] = ()
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
