"""When a step is accepted, and when a search ends."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Acceptance:
    """Condition for a step.

    Attributes:
        decrease: relative decrease of the objective that a step must exceed.
        gain: share of the expected decrease that a step must bring (gain ratio).
        every: whether every finite step is accepted.
    """

    decrease: float = 0.0
    gain: float = 0.0
    every: bool = False

    def accepts(self, before: float, after: float, expected: float = 0.0) -> bool:
        """Whether a step from an objective to another is accepted.

        Args:
            before, after: the objectives. NaN before it accepts every finite objective.
            expected: decrease by the linear model.
        """
        if self.every or math.isnan(before):
            return math.isfinite(after)
        if not (math.isfinite(after) and after < before * (1 - self.decrease)):
            return False
        return not self.gain or before - after >= self.gain * expected


@dataclass(frozen=True)
class Termination:
    """Conditions for the end of a start.

    Attributes:
        decrease: relative decrease of the objective in a round at or below which a start ends; None continues after
            rejected steps.
        hopeless_rounds: a start ends if this many rounds like its last one would not reach the lowest objective of all starts;
            None continues.
        step: largest change of a coordinate in a step, below which a start ends after that step; 0 continues.
        expected: relative decrease of the objective by the linear model, at or below which a start ends after that step, which is
            then accepted for any decrease; None continues. It also continues if its own objective, evaluated again, fell by more.
    """

    decrease: float | None = 0.0
    hopeless_rounds: float | None = None
    step: float = 0.0
    expected: float | None = None

    def is_last(self, before: float, expected: float) -> bool:
        """Whether a start ends after a step from an objective, with this expected decrease."""
        return self.expected is not None and expected <= self.expected * before

    def continues(self, before: float, after: float, *, lowest: float, longest: float) -> bool:
        """Whether a start continues after a round.

        Args:
            before, after: its objectives.
            lowest: of all starts before the round.
            longest: largest change of a coordinate in its step.
        """
        fall = before - after
        if self.decrease is not None and not fall > self.decrease * before:
            return False
        if self.hopeless_rounds is not None and not after - self.hopeless_rounds * fall <= lowest:
            return False
        return longest >= self.step
