"""Motors in the joints of links."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from risp_torch.scene.adding.rigid import body_index
from risp_torch.scene.arguments import Array, Number
from risp_torch.scene.parameters import ParameterTable
from risp_torch.scene.parts.links import Link, velocity_slices
from risp_torch.scene.parts.motors import Motors, SinePulse
from risp_torch.scene.spec import SceneSpec
from ti_sim.base.errors import UserError
from ti_sim.base.rules import PositiveOrInfinite, checked


@checked
def add_motors(
    scene: SceneSpec,
    name: str,
    *,
    joints: Sequence[str],
    actions: Array | SinePulse = 0.0,
    gain: Number = 1.0,
    limit: PositiveOrInfinite = math.inf,
    targets: Array | None = None,
    servo_stiffness: Number = 0.0,
    servo_damping: Number = 0.0,
    shared: bool = False,
) -> None:
    """Add motors to joints: each has the force clip(gain action + stiffness (target - position) - damping rate, -limit, limit).

    Args:
        scene: the scene.
        name: first part of their parameter names ("<name>.actions", "<name>.gain" and so on).
        joints: names of their links; a spherical joint has three motors.
        actions: [frames, R] commands, each held over a frame interval (or an array that broadcasts to this shape), or a
            ``SinePulse``. R is the number of motors, 1 if they share one command.
        gain: force per unit of action [N, N m].
        limit: largest magnitude of the force including the servo; the gradient of a clipped force is zero.
        targets: [frames, R] target positions of a servo [m, rad]; none by default. For a constant speed, move the target.
        servo_stiffness, servo_damping: stiffness and damping of the servo.
        shared: whether all motors share one command.

    Raises:
        UserError: the joint does not exist or has motors already, a shape does not fit, or a number is invalid.
    """
    velocities = _driven_velocities(scene, name, joints)
    command_count, table = 1 if shared else len(velocities), scene.table
    _add_actions(table, name, actions, shape=(scene.frames, command_count), shared=shared)
    table.add(f"{name}.gain", gain, unit="")
    table.add(f"{name}.servo_stiffness", servo_stiffness, unit="", sign="not negative")
    table.add(f"{name}.servo_damping", servo_damping, unit="", sign="not negative")
    if targets is not None:
        table.add(f"{name}.targets", targets, unit="", shape=(scene.frames, command_count))
    pulse_period = float(actions.period) if isinstance(actions, SinePulse) else None
    scene.motors += (Motors(name, velocities, float(limit), command_count, pulse_period),)


def _driven_velocities(scene: SceneSpec, name: str, joints: Sequence[str]) -> tuple[int, ...]:
    """Indices of the motors' velocities in the joint velocities of the scene."""
    slices, driven_velocities = velocity_slices(scene.bodies), {v for group in scene.motors for v in group.velocities}
    velocity_columns: list[int] = []
    for joint in joints:
        index = body_index(scene, joint)
        if not isinstance(scene.bodies[index], Link):
            raise UserError(f"{name} drives {joint!r}, which is a free rigid body: name links")
        body_columns = range(slices[index].start, slices[index].stop)
        if driven_velocities.intersection(body_columns):
            raise UserError(f"{name} drives the joint of {joint!r}, which has motors already: one group for each joint")
        velocity_columns += body_columns
    if not velocity_columns:
        raise UserError(f"{name} drives no joint that can move: name revolute, prismatic or spherical joints")
    return tuple(velocity_columns)


def _add_actions(table: ParameterTable, name: str, actions: Any, *, shape: tuple[int, int], shared: bool) -> None:
    if isinstance(actions, SinePulse):
        if not shared:
            raise UserError(f"{name} has a pulse for all its joints: make it add_motors(shared=True)")
        table.add(f"{name}.amplitude", actions.amplitude, unit="")
        table.add(f"{name}.delay", actions.delay, unit="frames")
    else:
        table.add(f"{name}.actions", actions, unit="", shape=shape)
