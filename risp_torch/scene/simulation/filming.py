"""States of a scene at the time stamps of a film with a clock."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import torch

from risp_torch.scene.numbers import Values, unwrapped
from risp_torch.scene.parts.clock import FilmClock
from risp_torch.scene.simulation.dense_output import Moments, placement_at, states_at
from risp_torch.scene.simulation.exposure import exposures, is_instant
from risp_torch.scene.simulation.simulator import Simulator
from risp_torch.scene.simulation.solver_adapter import action_rows
from risp_torch.scene.spec import SceneSpec
from risp_torch.scene.states import ExposureMotion, States
from ti_sim.base.errors import UserError
from ti_sim.rollout.adjoint import Adjoint

TIME_TOLERANCE = 1e-4  # frame intervals by which rounding may move a time
SEARCH_TOLERANCE = 0.05  # frame intervals by which the differences of a search may go beyond a bound


def filmed(
    spec: SceneSpec,
    simulator: Simulator,
    parameters: Mapping[str, torch.Tensor] | None,
    *,
    frames: int,
    worlds: int | None = None,
    actions: torch.Tensor | None = None,
    adjoint: Adjoint | None = None,
) -> States:
    """The states of a scene at the time stamps of the first ``frames + 1`` pictures of its film.

    The scene is simulated from its start until the last exposure ends. Within a frame interval before its start the motion is
    continued backwards, with the acceleration after the start.

    Args:
        spec: spec of the scene, with a clock.
        simulator: its simulator.
        parameters, frames, worlds, actions, adjoint: see ``Scene.rollout``.

    Raises:
        UserError: a picture is taken earlier, or see ``Scene.rollout``.
        DivergenceError: as there.
    """
    clock, frame_dt = spec.clock, spec.frame_dt
    actions, worlds = action_rows(actions, worlds)
    values = spec.table.values(parameters, worlds=worlds)
    times = clock.scene_times(values, clock.stamps(frames, frame_dt))
    exposure = _exposures(spec, values)
    check_earliest(times, frame_dt, tolerance=SEARCH_TOLERANCE)
    latest = float(unwrapped(times.detach()).max()) + (0.0 if exposure is None else float(unwrapped(exposure[0].detach()).max()))
    intervals = max(1, math.ceil(latest / frame_dt - TIME_TOLERANCE))
    states = simulator.rollout(
        spec.table,
        parameters,
        frames=intervals,
        worlds=worlds,
        actions=actions,
        adjoint=adjoint,
        states_per_interval=clock.states_per_interval,
    )

    def moments(instants: torch.Tensor) -> Moments:
        count = clock.states_per_interval
        return Moments.of(instants, frame_dt / count, intervals * count, states.body_q.dtype)

    film = replace(states_at(states, moments(times)), moment=times)
    if exposure is None:
        return film
    offsets, weights = exposure
    exposure_times = (times[..., None] + offsets[:, None]).flatten(1)
    placement = placement_at(states, moments(exposure_times)).unflatten(1, (times.shape[1], clock.samples))
    return replace(film, exposed=ExposureMotion(placement, weights.to(placement.dtype), reads_columns(clock)))


def check_earliest(times: torch.Tensor, frame_dt: float, *, tolerance: float = TIME_TOLERANCE) -> None:
    """Raise a UserError if a scene time [s] is more than one frame interval of this length before the scene's start."""
    first = float(unwrapped(times.detach()).min())
    if first < -frame_dt * (1.0 + tolerance):
        raise UserError(
            f"the film's first picture is taken {-first:.4g} s before the scene begins, and motions are continued backwards for "
            f"one frame interval of {frame_dt:g} s at most: give a smaller film.start (or upper bound of it)"
        )


def reads_columns(clock: FilmClock) -> bool:
    """Whether the lines that are read one after the other are columns of the picture."""
    return clock.readout in ("right", "left")


def _exposures(spec: SceneSpec, values: Values) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Moments and weights of the lines (``exposures``); None where all lines of a picture are exposed at one moment."""
    if spec.camera is None or is_instant(values):
        return None
    return exposures(spec.clock, values, spec.clock.lines(height=spec.camera.height, width=spec.camera.width))
