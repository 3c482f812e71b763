"""Settings of fits to measured motions."""

from __future__ import annotations

from dataclasses import dataclass

from ti_sim.base.rules import Count, Positive, PositiveOrInfinite, checked


@checked
@dataclass(frozen=True, kw_only=True)
class MotionFitSettings:
    """How a scene is fitted to measured motions.

    Attributes:
        noise: standard deviation of a measured coordinate [m].
        robust: residual of a body in a frame, in multiples of the noise (root mean square over its coordinates), at which it
            counts for a quarter (weights of Geman and McClure, 1 / (1 + (r / robust)^2)^2); ``inf`` for least squares.
        position_sd: standard deviation of the measured start [m].
        rotation_sd: of its orientation [rad].
        velocity_sd: of the velocity that the poses about it give [m/s].
        spin_sd: of the angular velocity [rad/s].
        step: of finite differences, for the shared unknowns in parts of their ranges.
        start_step: the same for starts, in parts of their standard deviations.
        iterations: most Gauss-Newton steps.
        tolerance: relative change of the cost below which the fit has converged.
        worlds: most worlds that are simulated at once.
    """

    noise: Positive
    robust: PositiveOrInfinite
    position_sd: Positive
    rotation_sd: Positive
    velocity_sd: Positive
    spin_sd: Positive
    step: Positive = 2e-3
    start_step: Positive = 0.2
    iterations: Count = 20
    tolerance: Positive = 1e-4
    worlds: Count = 4096
