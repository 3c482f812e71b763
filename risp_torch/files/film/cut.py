"""A part of a film: a selection of frames, cropped and downsampled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from risp_torch.files.film.facts import FilmFacts
from risp_torch.files.film.placement import Placement
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, FromZero, Rule, checked

__all__ = ["Cut"]

_TIME_TOLERANCE = 1e-6  # s, as the start and end times have few digits
Crop = Annotated[tuple[int, int, int, int], Rule(shape=(4,), exact=True, integer=True, minimum=0)]
Size = Annotated[tuple[int, int], Rule(shape=(2,), exact=True, integer=True, minimum=1)]
Seconds = Annotated[float, Rule(minimum=0)]


@checked
@dataclass(frozen=True, kw_only=True)
class Cut:
    """A part of a film. Fields that are None restrict nothing.

    Attributes:
        first, last: indices of the first and the last frame, both included.
        start, end: times of the first and the last frame, relative to the film's first frame [s].
        every: stride of the selected frames.
        crop: x, y of the upper left corner, width and height of the part of the picture [pixels, as shown].
        size: width and height after downsampling [pixels]; each new pixel is the mean over the area that it covers.
    """

    first: FromZero | None = None
    last: FromZero | None = None
    start: Seconds | None = None
    end: Seconds | None = None
    every: Count = 1
    crop: Crop | None = None
    size: Size | None = None

    def frames(self, facts: FilmFacts) -> list[int]:
        """Indices of the selected frames.

        Raises:
            UserError: no frame is selected, or the film has no times and ``start`` or ``end`` is set.
        """
        if facts.clock is None and (self.start, self.end) != (None, None):
            raise UserError(f"{facts.path} has no times: give frames in place of seconds")
        indices = np.arange(facts.frames)
        in_cut = (indices >= (self.first or 0)) & (indices <= (facts.frames - 1 if self.last is None else self.last))
        if facts.clock is not None:
            times = facts.clock.times
            in_cut &= times >= (0.0 if self.start is None else self.start) - _TIME_TOLERANCE
            in_cut &= times <= (np.inf if self.end is None else self.end) + _TIME_TOLERANCE
        frames = [int(k) for k in indices[in_cut]][:: self.every]
        if not frames:
            span = "" if facts.clock is None else f" within {facts.clock.times[-1]:.6g} s"
            raise UserError(f"no frame of {facts.path} is left: it has frames 0 to {facts.frames - 1}{span}")
        return frames

    def placement(self, uncropped: Placement) -> Placement:
        """Placement of the pixels, from that of the uncropped picture (errors: ``Placement``)."""
        cropped = uncropped if self.crop is None else uncropped.cropped(*(int(number) for number in self.crop))
        return cropped if self.size is None else cropped.resized(*(int(number) for number in self.size))
