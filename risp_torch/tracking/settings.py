"""Settings of tracking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ti_sim.base.rules import Count, NotNegative, Positive, Rule, checked


@checked
@dataclass(frozen=True, kw_only=True)
class TrackSettings:
    """How poses are fitted to the pictures of a frame.

    Attributes:
        samples: along each side of a pixel, whose coverage by a body is their mean; at most 16.
        robust: residual [linear colour] at which a pixel counts for a quarter (Geman and McClure, 1987).
        smoothness: weight of the squared difference of neighbouring colours, in pixels that show them.
        memory: weight of the squared difference of a colour from that of the frame beside it, in pixels; in the first frame
            from grey.
        blur: standard deviation of the Gaussian that pictures are smoothed by in the first steps [pixels].
        first_steps: steps with smoothed pictures, from each start.
        steps: most steps with sharp pictures, from the best of the starts, which is chosen after two from each.
        tilt: angle by which further starts of the first frame are turned about the axes of the world [rad].
        tolerance: step that ends the search, in pixels.
    """

    samples: Annotated[int, Rule(integer=True, minimum=1, maximum=16)] = 4
    robust: Positive = 0.06
    smoothness: NotNegative = 0.3
    memory: Positive = 0.3
    blur: Positive = 1.5
    first_steps: Count = 2
    steps: Count = 8
    tilt: Positive = 0.08
    tolerance: Positive = 5e-3
