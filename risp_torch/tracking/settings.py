"""Settings of tracking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ti_sim.base.rules import Count, NotNegative, Positive, Rule, checked


@checked
@dataclass(frozen=True, kw_only=True)
class TrackSettings:
    """Settings of the fit of poses to the pictures of a frame.

    Attributes:
        samples: samples along each side of a pixel; coverage by a body is their mean; at most 16.
        robust_scale: residual [linear colour] at which a pixel's weight is a quarter (Geman and McClure, 1987).
        smoothness: weight of the squared difference of neighbouring colours of a body, in pixels.
        temporal_smoothness: weight of the squared difference of a colour from its value in the neighbouring frame, in pixels; in
            the first frame, from grey.
        blur: standard deviation of the Gaussian that smooths pictures in the first steps [pixels].
        first_steps: steps with smoothed pictures, from each initial pose.
        steps: most steps with sharp pictures, from the initial pose whose cost is the lowest after two sharp steps.
        tilt: angle of the rotations about the world's axes that give further initial poses of the first frame [rad].
        tolerance: length of the step that ends the search [pixels].
    """

    samples: Annotated[int, Rule(integer=True, minimum=1, maximum=16)] = 4
    robust_scale: Positive = 0.06
    smoothness: NotNegative = 0.3
    temporal_smoothness: Positive = 0.3
    blur: Positive = 1.5
    first_steps: Count = 2
    steps: Count = 8
    tilt: Positive = 0.08
    tolerance: Positive = 5e-3
