"""Settings of a search with wide finite differences, and the default."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, FromZero, Positive, Rule, Share, checked


@checked
@dataclass(frozen=True, kw_only=True)
class WideSteps:
    """Settings of the search.

    Attributes:
        widths: widths of the differences of each round, relative to the allowed ranges.
        reach: step limit: largest change of an unknown in one round, in widths; smaller after rejected steps.
        first_frames: frame intervals of the film that the search begins with; None begins with the whole film.
        growth: fraction of the rounds over which the horizon grows from ``first_frames`` to the whole film.
        spacing: rows of a sequence (such as actions) from one knot to the next: changes of sequences are piecewise linear
            between knots, which needs fewer worlds than separate rows (1).
        trial_rounds: rounds of every start; then only the best one continues.
        settling: number of last rounds, in which every step is accepted; the estimate is the mean of their ends:
            near the minimum, differences of the loss are due to small local minima. Their residuals are those
            of the point itself. 0 ends at the lowest loss.
        narrow: widths of the settling rounds relative to the film instead of the allowed range. A direction has the width that
            changes the observations by this many times the residual (root mean squares), at most ``widths``;
            rounds differ from each other as ``widths`` do, and rounds before a step longer than its width do not
            contribute to the mean. None keeps widths relative to the range.
        whiten: whether to repeat the settling rounds with whitened observations (``settle_whitened``), if the loss
            can whiten them.

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
        """The settings with fewer rounds and another initial horizon; None keeps either."""
        widths, first = self.widths[:rounds], self.first_frames if first_frames is None else first_frames
        return replace(self, widths=widths, first_frames=first, settling=min(self.settling, len(widths)))

    def last_rounds(self) -> WideSteps:
        """The settling rounds alone, over the whole film."""
        return replace(self, widths=self.widths[-self.settling :], first_frames=None, trial_rounds=1, whiten=False)

    def horizon(self, number: int, frames: int) -> int:
        """Horizon of round ``number``, frame intervals."""
        first = min(self.first_frames or frames, frames)
        return first + round((frames - first) * min(1.0, number / max(1.0, self.growth * len(self.widths))))


# The default search: the estimate is the mean end of the last seven rounds, first plain, then whitened, with widths that
# follow the film: fractions of wide bounds would be too wide.
WIDE_SEARCH = WideSteps(widths=(0.1,) * 3 + (0.08, 0.07, 0.06, 0.05, 0.05, 0.04, 0.04), settling=7, narrow=1.0, whiten=True)
