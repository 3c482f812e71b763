"""How a search by differences over wide steps goes, and the usual one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, FromZero, Positive, Rule, Share, checked


@checked
@dataclass(frozen=True, kw_only=True)
class WideSteps:
    """How the search goes.

    Attributes:
        widths: of the differences of each round, in parts of the allowed ranges.
        reach: longest change of an unknown in one round, in widths; shorter after steps that were taken back.
        first_frames: frame intervals of the film that the search begins with; None begins with the whole film.
        growth: part of the rounds over which the horizon grows from ``first_frames`` to the whole film.
        spacing: rows of a sequence (actions of so many frames) from one knot to the next: sequences change by straight lines
            between knots, which takes fewer worlds than if every row changed by itself (1).
        trial_rounds: rounds that every start takes; then the best one goes on alone.
        settling: last rounds, each of whose steps is taken whatever its loss, and the mean of where these lead is the estimate:
            near the minimum the dents decide which loss is lower, and they differ from point to point. Their residuals are those
            of the point itself. 0 ends at the lowest loss.
        narrow: of the settling rounds: their widths follow the film in place of the allowed range. A direction is as wide as
            changes the observations by so many times what the fit leaves of them (root mean squares), never wider than ``widths``
            say; rounds differ from each other as ``widths`` do, and those before a step that is longer than its width do not
            count in the mean. None leaves them parts of the range.
        whiten: whether the settling rounds are taken once more with whitened observations (``settle_whitened``), where the loss
            knows how to whiten them.

    Raises:
        UserError: there are no widths, or a setting is out of its range.
    """

    widths: Annotated[tuple[float, ...], Rule(shape=(None,), exact=True, above=0, most=0.5)]
    reach: Positive = 3.0
    first_frames: Count | None = None
    growth: Share = 0.5
    spacing: Count = 1
    trial_rounds: Count = 2
    settling: FromZero = 0
    narrow: Positive | None = None
    whiten: bool = False

    def __post_init__(self) -> None:
        if self.settling > len(self.widths):
            raise UserError(f"settling is {self.settling}: give at most as many rounds as there are widths ({len(self.widths)})")
        if (self.whiten or self.narrow is not None) and not self.settling:
            raise UserError("whiten and narrow are for the settling rounds: give settling of at least 1, or leave them out")

    def shortened(self, rounds: int | None, first_frames: int | None) -> WideSteps:
        """The first so many rounds, and another horizon to begin with; None leaves either as it is."""
        widths, first = self.widths[:rounds], self.first_frames if first_frames is None else first_frames
        return replace(self, widths=widths, first_frames=first, settling=min(self.settling, len(widths)))

    def last_rounds(self) -> WideSteps:
        """The settling rounds alone, over the whole film."""
        return replace(self, widths=self.widths[-self.settling :], first_frames=None, trial_rounds=1, whiten=False)

    def horizon(self, number: int, frames: int) -> int:
        """Frame intervals that round ``number`` sees."""
        first = min(self.first_frames or frames, frames)
        return first + round((frames - first) * min(1.0, number / max(1.0, self.growth * len(self.widths))))


# The usual search: the last seven rounds settle on the mean of where they lead, first plain, then whitened, with widths that
# follow what the film tells: where bounds are wide, parts of them would be too wide for the film.
WIDE_SEARCH = WideSteps(widths=(0.1,) * 3 + (0.08, 0.07, 0.06, 0.05, 0.05, 0.04, 0.04), settling=7, narrow=1.0, whiten=True)
