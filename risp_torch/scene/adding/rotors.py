"""Rotors on rigid bodies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from risp_torch.scene.adding.rigid import body_index
from risp_torch.scene.arguments import Array, Direction
from risp_torch.scene.parts.rotors import Rotors
from risp_torch.scene.spec import SceneSpec
from ti_sim.base.errors import UserError
from ti_sim.base.param import Param
from ti_sim.base.rules import Positive, checked


@checked
def add_rotors(
    scene: SceneSpec,
    name: str,
    *,
    body: str,
    positions: Array,
    actions: Array,
    axis: Direction = (0.0, 0.0, 1.0),
    yaw_reaction: Array = 0.0,
    limit: Positive = 500.0,
) -> None:
    """Add rotors to a body, with thrusts along a common axis.

    Args:
        scene: the scene.
        name: first part of their parameter names ("<name>.positions", "<name>.yaw_reaction" and "<name>.actions").
        body: name of the body.
        positions: [R, 3] relative to the centre of mass, body frame [m].
        actions: [frames, R] thrusts [N], each held over a frame interval (or an array that broadcasts to this shape).
        axis: axis of the thrust, body frame, of any length.
        yaw_reaction: [R] torque about the axis per newton of thrust [m].
        limit: largest magnitude of the thrust [N]. Actions are clipped to it; the gradient of a clipped action is zero, so an
            optimiser cannot leave this range.

    Raises:
        UserError: the body does not exist, a shape does not fit, or a number is invalid.
    """
    index, table = body_index(scene, body), scene.table
    shape = np.shape(positions.value if isinstance(positions, Param) else positions)
    if len(shape) != 2 or shape[0] < 1 or shape[1] != 3:
        raise UserError(f"{name}.positions has shape {shape}: give one row (x, y, z) in m for each rotor")
    direction = np.asarray(axis, dtype=np.float64)
    if not np.linalg.norm(direction) > 0:
        raise UserError(f"{name} has the axis {axis}: give three numbers that are not all zero")
    count = shape[0]
    table.add(f"{name}.positions", positions, unit="m", shape=(count, 3))
    table.add(f"{name}.yaw_reaction", yaw_reaction, unit="m", shape=(count,))
    thrusts = actions.value if isinstance(actions, Param) else actions
    if np.shape(thrusts) == (count,):  # one row for all frames
        rows = np.tile(np.asarray(thrusts), (scene.frames, 1))
        actions = replace(actions, value=rows) if isinstance(actions, Param) else rows
    table.add(f"{name}.actions", actions, unit="N", shape=(scene.frames, count))
    unit_axis = direction / np.linalg.norm(direction)
    group = Rotors(name, index, (float(unit_axis[0]), float(unit_axis[1]), float(unit_axis[2])), float(limit), count)
    scene.rotors += (group,)
