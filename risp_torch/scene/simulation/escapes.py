"""Detection of diverged motions with finite values: a body is farther away than free flight can carry it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch

from risp_torch.scene.numbers import outside_transforms, unwrapped
from risp_torch.scene.parameters import ParameterTable
from risp_torch.scene.spec import SceneSpec
from risp_torch.scene.states import States
from ti_sim.base.errors import DivergenceError
from ti_sim.base.param import Param

MAX_RANGE_RATIO = 1e3  # distance relative to the range of a motion; no intended force of a scene moves a body so far


def without_escapes(
    spec: SceneSpec,
    table: ParameterTable,
    states: States,
    parameters: Mapping[str, torch.Tensor] | None,
    *,
    states_per_interval: int = 1,
) -> States:
    """A motion in which worlds are marked as diverged if a body has left the range of the scene.

    The range is the initial extent of the scene (bodies, particles, cameras) plus the distance of free flight
    in the simulated time T at the largest initial velocity, |v| T + |g| T^2. Too long steps for a contact or an element move
    bodies a thousand times as far within a few steps, long before values are infinite.

    Args:
        spec: spec of the scene; if it has a ``max_distance``, only that is checked.
        table: its parameter table.
        states: its motion.
        parameters: see ``Scene.rollout``.
        states_per_interval: states of the motion per frame interval.

    Raises:
        DivergenceError: every world has diverged.
    """
    if np.isfinite(spec.stepping.solver.max_distance):
        return states
    placement = unwrapped(states.placement.detach())  # joined inside a torch.func transform, then checked outside
    with outside_transforms():
        return _without_escapes(spec, table, states, placement[..., :3], parameters, states_per_interval)


def _without_escapes(
    spec: SceneSpec, table: ParameterTable, states: States, placement: torch.Tensor,
    parameters: Mapping[str, torch.Tensor] | None, states_per_interval: int,
) -> States:  # fmt: skip
    """``without_escapes`` of the positions [B, T, rows, 3]."""
    if placement.shape[1] < 2 or not placement.shape[2]:
        return states
    limit = MAX_RANGE_RATIO * _motion_range(spec, table, states, placement, parameters, spec.frame_dt / states_per_interval)
    distance = (placement - placement[:, :1]).norm(dim=-1)  # NaN after a divergence that is already marked
    escaped = (distance > limit).any(dim=2)
    if not escaped.any():
        return states
    diverged = unwrapped(states.diverged_step)
    steps = spec.stepping.substeps // states_per_interval
    step = torch.where(escaped.any(dim=1), escaped.int().argmax(dim=1) * steps, -1).to(diverged)
    diverged_step = torch.where(diverged < 0, step[:, None], diverged)
    if (diverged_step >= 0).all(dim=1).all():
        _raise_divergence(spec, distance, escaped, limit, states_per_interval)
    return replace(states, diverged_step=diverged_step)


def _raise_divergence(
    spec: SceneSpec, distance: torch.Tensor, escaped: torch.Tensor, limit: float, states_per_interval: int
) -> None:
    world = int(escaped.any(dim=1).int().argmax())
    frame = int(escaped[world].int().argmax())
    row = int(distance[world, frame].nan_to_num(nan=0.0).argmax())
    body_names = [body.name for body in spec.bodies]
    body_names += [deformable.name for deformable in spec.deformables for _ in range(deformable.count)]
    raise DivergenceError(
        f"{body_names[row]!r} flew {distance[world, frame, row]:.3g} m by frame {frame / states_per_interval:g}, but free "
        f"flight goes no farther than {limit / MAX_RANGE_RATIO:.3g} m: take smaller steps (more substeps), or softer contacts "
        "and materials",
        body=body_names[row], step=frame * (spec.stepping.substeps // states_per_interval),
    )  # fmt: skip


def _motion_range(
    spec: SceneSpec,
    table: ParameterTable,
    states: States,
    placement: torch.Tensor,
    parameters: Mapping[str, torch.Tensor] | None,
    interval: float,
) -> float:
    """Range of a motion with states at this interval [s], in m: the scene's extent and free flight."""
    start = placement[:, 0].flatten(0, 1)
    camera_positions = [np.asarray(_param_value(camera.position), dtype=np.float64).reshape(-1) for camera in spec.cameras]
    points = [
        start[torch.isfinite(start).all(dim=1)].double().cpu().numpy(),
        *(np.broadcast_to(camera_position, (1, 3)) for camera_position in camera_positions),
    ]
    extent = np.linalg.norm(np.ptp(np.concatenate(points), axis=0)) if len(np.concatenate(points)) else 0.0
    radii = [np.linalg.norm(body.mesh.vertices, axis=1).max() for body in spec.bodies if body.mesh is not None]
    extent += 2.0 * max(radii, default=0.0)
    speeds = [
        unwrapped(velocities).detach()[:, 0, ..., :3]
        for velocities in (states.body_qd, states.particle_qd)
        if velocities is not None
    ]
    max_speed = max((float(speed.norm(dim=-1).nan_to_num(nan=0.0).max()) for speed in speeds if speed.numel()), default=0.0)
    gravity = (parameters or {}).get("gravity", table["gravity"].value)
    if isinstance(gravity, torch.Tensor):
        gravity = unwrapped(gravity).detach().cpu().numpy()
    gravity_bound = float(np.abs(gravity).max()) * np.sqrt(3.0)
    duration = interval * (placement.shape[1] - 1)
    return float((extent or 1.0) + max_speed * duration + gravity_bound * duration**2)


def _param_value(value: object) -> object:
    return value.value if isinstance(value, Param) else value
