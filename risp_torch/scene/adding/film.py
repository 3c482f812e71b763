"""The clock of the film that a scene makes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from risp_torch.scene.arguments import Number
from risp_torch.scene.parts.clock import EXPOSURE, LINE_TIME, RATE, START, FilmClock, Readout, Samples, Times
from risp_torch.scene.spec import SceneSpec
from risp_torch.scene.time_stepping import TimeStepping
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, checked


@checked
def set_film(
    scene: SceneSpec,
    *,
    times: Times | None = None,
    start: Number = 0.0,
    rate: Number = 1.0,
    exposure: Number = 0.0,
    line_time: Number = 0.0,
    samples: Samples = 8,
    states_per_interval: Count | None = None,
    readout: Readout = "down",
) -> None:
    """Set the times at which the pictures of the film are taken; by default there is one at every frame of the scene.

    A picture with the time stamp tau begins its exposure at the scene time rate (tau - start).

    Args:
        scene: the scene; with ``times`` its number of frames becomes that of the film.
        times: [T] time stamps of the film's pictures [s], ascending; by default the multiples of ``frame_dt``.
        start: "film.start", time stamp at which the scene begins [s]; a film whose first picture is late has a negative one.
        rate: "film.rate", seconds of the scene in a second of the film: 0.1 for slow motion by ten.
        exposure: "film.exposure", time over which a picture collects light [s of the scene].
        line_time: "film.line_time", time from one line of the picture to the next (rolling shutter) [s of the scene].
        samples: pictures rendered for one of the film, where it has an exposure or a line time (``exposures``).
        states_per_interval: states per frame interval between which the motion is interpolated, a divisor of ``substeps``; by
            default up to 5 (``default_states_per_interval``). More states resolve contacts that are short compared with
            ``frame_dt``.
        readout: direction in which lines are read: "down" begins with the top row, "right" with the left column.

    Raises:
        UserError: the scene has a film already, the times do not ascend, or ``states_per_interval`` does not divide the substeps.
    """
    if scene.clock is not None:
        raise UserError("the scene has a film already: call set_film once, or set the parameters film.start, film.rate and so on")
    stepping = scene.stepping
    states_per_interval = default_states_per_interval(stepping) if states_per_interval is None else states_per_interval
    clock = FilmClock(times=times, samples=samples, states_per_interval=states_per_interval, readout=readout)
    if stepping.substeps % states_per_interval:
        raise UserError(
            f"states_per_interval={states_per_interval} and substeps={stepping.substeps}: give a number that divides the substeps"
        )
    if stepping.solver.adaptive and states_per_interval > 1:
        raise UserError("an adaptive scene chooses its own steps: leave states_per_interval out, or adaptive")
    scene.table.add(START, start, unit="s")
    scene.table.add(RATE, rate, unit="", sign="positive")
    scene.table.add(EXPOSURE, exposure, unit="s", sign="not negative")
    scene.table.add(LINE_TIME, line_time, unit="s", sign="not negative")
    _set_clock(scene, clock)


@checked
def change_film(scene: SceneSpec, *, times: Times | None = None, samples: Samples | None = None) -> None:
    """Give the film other time stamps or another number of samples; a scene without a film gets one first (``set_film``).

    Args:
        scene: the scene; with ``times`` its number of frames becomes that of the film.
        times: [T] time stamps [s], ascending; None leaves them as they are.
        samples: pictures rendered for one of the film; None leaves the number as it is.

    Raises:
        UserError: the times do not ascend.
    """
    if scene.clock is None:
        set_film(scene)
    changes = {name: value for name, value in (("times", times), ("samples", samples)) if value is not None}
    _set_clock(scene, replace(scene.clock, **changes))


def default_states_per_interval(stepping: TimeStepping) -> int:
    """States per frame interval: the largest divisor of the substeps up to 5 that fits the control rows; 1 if adaptive."""
    if stepping.solver.adaptive:
        return 1
    fits = [n for n in range(1, 6) if stepping.controls % n == 0 or n % stepping.controls == 0]
    return max((n for n in fits if stepping.substeps % n == 0), default=1)


def _set_clock(scene: SceneSpec, clock: FilmClock) -> None:
    scene.clock = clock
    if clock.times is not None:
        if len(clock.times) < 2:
            raise UserError(f"the film has {np.size(clock.times)} time stamp: give at least two")
        scene.frames = len(clock.times) - 1
