"""Clock of a film: time stamps of its pictures, exposure, and line-by-line read-out (rolling shutter)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import torch

from risp_torch.scene.numbers import Values
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, Rule, checked

START, RATE, EXPOSURE, LINE_TIME = "film.start", "film.rate", "film.exposure", "film.line_time"
NUMBERS = (START, RATE, EXPOSURE, LINE_TIME)
Times = Annotated[Sequence[float] | np.ndarray, Rule(shape=(None,), exact=True)]
Samples = Annotated[int, Rule(integer=True, minimum=2, maximum=1024)]
Readout = Literal["down", "up", "right", "left"]


@checked
@dataclass(frozen=True, kw_only=True)
class FilmClock:
    """Clock of a film. Its numbers are parameters of the scene: film.start, film.rate, film.exposure, film.line_time.

    The first line of a picture with the time stamp tau begins its exposure at the scene time rate (tau - start), line l begins
    line_time l later, and each collects light for the exposure. The scene begins at scene time 0.

    Attributes:
        times: time stamps of the pictures [s of the film], ascending; None for one at every frame of the scene.
        samples: moments at which a picture with an exposure or a line time is rendered.
        states_per_interval: states per frame interval of the scene, between which motions are interpolated.
        readout: direction in the picture in which lines are read: the first line is the top row for "down".

    Raises:
        UserError: the times do not ascend, or a number is not in its range.
    """

    times: Times | None = None
    samples: Samples = 8
    states_per_interval: Count = 1
    readout: Readout = "down"

    def __post_init__(self) -> None:
        if self.times is None:
            return
        times = np.asarray(self.times, dtype=np.float64)
        not_ascending = np.flatnonzero(np.diff(times) <= 0)
        if len(not_ascending):
            time, next_time = times[not_ascending[0]], times[not_ascending[0] + 1]
            raise UserError(f"the film's times do not ascend: {next_time:g} s follows {time:g} s; give each picture a later time")
        object.__setattr__(self, "times", tuple(times.tolist()))

    def stamps(self, frames: int, frame_dt: float) -> np.ndarray:
        """[frames + 1] time stamps of the first pictures [s of the film].

        Args:
            frames: frame intervals of the film.
            frame_dt: time between two frames of the scene [s], for a film without times.

        Raises:
            UserError: the film has fewer time stamps.
        """
        if self.times is None:
            return np.arange(frames + 1) * frame_dt
        if len(self.times) <= frames:
            raise UserError(f"the film has {len(self.times)} time stamps, and {frames + 1} pictures are wanted: give more times")
        return np.array(self.times[: frames + 1])

    def scene_times(self, values: Values, stamps: np.ndarray) -> torch.Tensor:
        """[B, T] scene times at which the pictures' first lines begin their exposures [s], in double precision; differentiable.

        Args:
            values: parameters [B, ...].
            stamps: [T] (``stamps``).
        """
        start, rate = values[START].double()[:, None], values[RATE].double()[:, None]
        return rate * (torch.as_tensor(stamps, dtype=torch.float64, device=start.device) - start)

    def lines(self, *, height: int, width: int) -> int:
        """Number of lines of a picture: its rows, or its columns where the read-out moves sideways."""
        return height if self.readout in ("down", "up") else width

    def to_json(self) -> dict[str, Any]:
        """The clock, without the numbers that are parameters, as JSON values."""
        times = None if self.times is None else list(self.times)
        return {"times": times, "samples": self.samples, "states_per_interval": self.states_per_interval, "readout": self.readout}
