"""Settings of fits to measured motions, and standard deviations of the measurements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, Positive, PositiveOrInfinite, Rule, checked

PositiveEach = Annotated[Any, Rule(shape=None, above=0)]  # one for all, or one each


@checked
@dataclass(frozen=True, kw_only=True)
class PoseNoise:
    """Standard deviations of measured poses.

    Attributes:
        coordinate: of a measured coordinate [m].
        start_position: of the position at the start of a window [m].
        start_rotation: of the orientation at the start [rad].
        start_velocity: of the velocity at the start, computed from neighbouring poses [m/s].
        start_spin: of the angular velocity at the start [rad/s].
    """

    coordinate: Positive
    start_position: Positive
    start_rotation: Positive
    start_velocity: Positive
    start_spin: Positive


@checked
@dataclass(frozen=True, kw_only=True)
class JointNoise:
    """Standard deviations of measured coordinates of joints, each for all joints or [D] for each.

    Attributes:
        coordinate: of a measured coordinate [rad or m].
        start_coordinate: of the coordinate at the start of a window [rad or m].
        start_rate: of the velocity at the start, computed from neighbouring coordinates [rad/s or m/s].
        action: of the prior of unknown actions, whose mean is zero [N or N m], for all motors or [A] for each; None where
            actions are those of the recordings or of the scene.
        recorded_action: of the error of the recordings' actions [N or N m], for all motors or [A] for each. The error of every
            interval is then estimated with the start of its window. An outlier is replaced by the median of its neighbours,
            with half of the difference as its standard deviation. None where recorded actions are exact.

    Raises:
        UserError: both ``action`` and ``recorded_action`` are given.
    """

    coordinate: PositiveEach
    start_coordinate: PositiveEach
    start_rate: PositiveEach
    action: PositiveEach | None = None
    recorded_action: PositiveEach | None = None

    def __post_init__(self) -> None:
        if self.action is not None and self.recorded_action is not None:
            raise UserError("JointNoise: actions are either unknown (action) or recorded with errors (recorded_action): give one")


@checked
@dataclass(frozen=True, kw_only=True)
class MotionFitSettings:
    """Settings of a fit of a scene to measured motions.

    Attributes:
        noise: standard deviations of the measurements; its class is that of the recordings.
        robust_scale: residual of a body or joint in a frame, in multiples of the noise (root mean square over its coordinates),
            whose weight is a quarter (Geman and McClure, 1 / (1 + (r / robust_scale)^2)^2); ``inf`` for least squares.
        step: step of finite differences of the shared unknowns, relative to their ranges.
        start_step: step of finite differences of starts, relative to their standard deviations.
        iterations: most Gauss-Newton steps of a fit to windows of one length.
        tolerance: relative change of a motion's cost below which its start has converged. A minimum of the shared unknowns is
            near where the whole cost changes by less than a hundred times as much; they then converge by their error bars.
        worlds: most worlds that are simulated at once.
        first_guesses: points from which ``fit_motions`` begins: the scene's values, and others spread over the bounds.
        shortest_window: least number of frames of the first pieces of ``fit_motions``; their length is doubled until they are
            the windows. None fits the windows only.
        piece_counts: numbers of pieces of each window in consecutive fits; by default ..., 8, 4, 2, 1 for
            ``shortest_window``.

    Raises:
        UserError: a setting is out of its range.
    """

    noise: PoseNoise | JointNoise
    robust_scale: PositiveOrInfinite
    step: Positive = 2e-3
    start_step: Positive = 0.2
    iterations: Count = 20
    tolerance: Positive = 1e-4
    worlds: Count = 4096
    first_guesses: Count = 3
    shortest_window: Annotated[int, Rule(integer=True, minimum=4)] | None = 12
    piece_counts: Annotated[tuple[int, ...], Rule(shape=(None,), exact=True, integer=True, minimum=1)] | None = None
