"""Stages of implicit steps: each solves for the end of one linear multistep formula.

States y = (x, v) obey dy/dt = g(y). A stage solves y = y_hat + gamma g(y), with y_hat a combination of two earlier rows:

- backward Euler: y_hat = y_n, gamma = h; first order.
- BDF2: y_hat = 4/3 y_n - 1/3 y_(n-1), gamma = 2/3 h; second order; its first step has two stages (``starting_step``).
- SDIRK2 (Alexander, SIAM J. Numer. Anal. 14, 1977): a stage with gamma = (1 - 1/sqrt 2) h from y_n to Y, and one with the same
  gamma from y_hat = y_n + (1 - gamma / h) / (gamma / h) (Y - y_n), which is the end of the step; second order.

All are L-stable. A mode of angular frequency omega has the relative errors of frequency (omega h)^2 / 3 in BDF2, and
0.0404 (omega h)^2 in SDIRK2 with twice as many stages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ti_sim.rollout.time_steps import ImplicitIntegrator

_SDIRK = 1 - 1 / np.sqrt(2)


def times_of(integrator: ImplicitIntegrator, stages: Sequence[Stage], *, initial_count: int, first_step: int) -> np.ndarray:
    """Times of all rows [rows], in steps since the start of the simulation.

    Args:
        integrator: the formula.
        stages: from ``stages_of``.
        initial_count: as there.
        first_step: steps before the first stage.
    """
    if initial_count == 1:
        history = [(-1, 1.0)]
    elif initial_count == 3:  # the first step of BDF2
        history = [(-1, 0.0), (-1, 2 / 3), (-1, 1.0)]
    else:
        history = [(-1, _SDIRK) if integrator == "sdirk2" else (-2, 1.0), (-1, 1.0)]
    return np.array([first_step + step + time for step, time in (*history, *((stage.step, stage.time) for stage in stages))])


@dataclass(frozen=True)
class Stage:
    """One stage, whose result is a row of the states.

    Attributes:
        step: step that it belongs to.
        row: row of its result.
        gamma: in steps [1].
        rows: the two rows that y_hat combines; the first is the latest known one.
        weights: their weights.
        start: row at the start of the step.
        before: row one step before the result (same stage of the previous step); the first row if there is no such row.
        time: time of the result after the start of the step, in steps [1].
        ends_step: whether the result is the state after the step.
        reach: of the first stage of BDF2, 1 / ``time``: its contact law is the mean over the path from the start to the end of
            the step. Zero in other stages, where it is that of the path around the result.
        corrected: whether x_hat has the correction of ``starting_step``.
    """

    step: int
    row: int
    gamma: float
    rows: tuple[int, int]
    weights: tuple[float, float]
    start: int
    before: int
    time: float
    ends_step: bool
    reach: float = 0.0
    corrected: bool = False

    @property
    def reaches_back(self) -> bool:
        """Whether y_hat holds the start of the step before."""
        return self.rows[1] < self.start


def stages_of(integrator: ImplicitIntegrator, steps: int, *, initial_count: int = 1) -> Iterator[Stage]:
    """Stages of ``steps`` steps, in order.

    Args:
        integrator: the formula.
        steps: number of steps.
        initial_count: rows before that of the first stage, the last of which is the initial state: 1 at the start, more if
            the steps continue another rollout (``ImplicitMotion.history``).
    """
    last, previous = initial_count - 1, 0
    for step in range(steps):
        if integrator == "backward_euler":
            yield Stage(step, last + 1, 1.0, (last, last), (1.0, 0.0), last, last, 1.0, True)
            previous, last = last, last + 1
        elif integrator == "bdf2" and (step > 0 or initial_count > 1):
            yield Stage(step, last + 1, 2 / 3, (last, previous), (4 / 3, -1 / 3), last, last, 1.0, True)
            previous, last = last, last + 1
        elif integrator == "bdf2":
            yield Stage(step, last + 1, 2 / 3, (last, last), (1.0, 0.0), last, last, 2 / 3, False, reach=1.5)
            yield Stage(step, last + 2, 2 / 3, (last + 1, last), (0.5, 0.5), last, last, 1.0, True, corrected=True)
            previous, last = last, last + 2
        else:
            weight = (1 - _SDIRK) / _SDIRK
            yield Stage(step, last + 1, _SDIRK, (last, last), (1.0, 0.0), last, max(last - 1, 0), _SDIRK, False)
            yield Stage(step, last + 2, _SDIRK, (last + 1, last), (weight, 1 - weight), last, last, 1.0, True)
            previous, last = last, last + 2
