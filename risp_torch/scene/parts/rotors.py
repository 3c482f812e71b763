"""Rotors of a scene, and the conversion of their actions to wrenches on bodies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from risp_torch.scene.numbers import Values
from risp_torch.scene.rotations import matrix_product
from ti_sim.base.errors import UserError


@dataclass(frozen=True)
class Rotors:
    """A group of rotors on one body, all with the same axis.

    Attributes:
        name: first part of their parameter names.
        body: index of the body.
        axis: unit vector of the thrust, body frame.
        limit: largest magnitude of the thrust [N]; actions are clipped to it.
        count: R, the number of rotors.
    """

    name: str
    body: int
    axis: tuple[float, float, float]
    limit: float
    count: int

    def wrench(self, values: Values, actions: torch.Tensor) -> torch.Tensor:
        """Force [N] and torque [N m] about the centre of mass, body frame, [B, F, 6] of actions [B, F, R] in N.

        The gradient of a clipped action is zero.
        """
        positions, reaction = values[f"{self.name}.positions"], values[f"{self.name}.yaw_reaction"]
        axis = actions.new_tensor(self.axis).expand_as(positions)
        torque = torch.linalg.cross(positions, axis) + reaction[..., None] * axis
        thrust = actions.clamp(-self.limit, self.limit)
        return matrix_product(thrust, torch.cat([axis, torque], dim=-1))


def group_actions(groups: Sequence[Rotors], values: Values, actions: torch.Tensor | None, frames: int) -> list[torch.Tensor]:
    """Actions [B, frames, R] of every group.

    Args:
        groups: all rotors of a scene.
        values: parameters [B, ...].
        actions: [B or 1, F, A] in place of the parameters', rotors of all groups concatenated; or None.
        frames: number of frame intervals; the first ones are used.

    Raises:
        UserError: the shape does not fit, a number is not finite, or there are fewer frame intervals.
    """
    if actions is None:
        thrusts = [values[f"{group.name}.actions"] for group in groups]
    else:
        rotors, worlds = [group.count for group in groups], values["gravity"].shape[0]
        if actions.ndim != 3 or actions.shape[0] not in (1, worlds) or actions.shape[2] != sum(rotors):
            raise UserError(
                f"the actions have shape {tuple(actions.shape)}, and [{worlds}, frames, {sum(rotors)}] is needed "
                "(worlds, frame intervals, rotors)"
            )
        if not torch.isfinite(actions.detach()).all():
            raise UserError("the actions have values that are not finite: give finite numbers")
        thrusts = list(actions.expand(worlds, -1, -1).split(rotors, dim=2))
    if thrusts and thrusts[0].shape[1] < frames:
        raise UserError(
            f"there are actions for {thrusts[0].shape[1]} frame intervals, and {frames} are simulated: "
            "give more rows of actions, or simulate fewer frames"
        )
    return [rows[:, :frames] for rows in thrusts]


def body_wrench(
    groups: Sequence[Rotors], values: Values, actions: Sequence[torch.Tensor], *, bodies: int, frames: int
) -> torch.Tensor:
    """Wrenches [B, frames, N, 6] of all groups on the bodies, N and N m, body frame.

    Args:
        groups, actions: rotors and their actions [B, frames, R].
        values: parameters [B, ...].
        bodies: N.
        frames: frame intervals.
    """
    gravity = values["gravity"]
    wrenches = [gravity.new_zeros(gravity.shape[0], frames, 6) for _ in range(bodies)]
    for group, thrusts in zip(groups, actions, strict=True):
        wrenches[group.body] = wrenches[group.body] + group.wrench(values, thrusts)
    return torch.stack(wrenches, dim=2)
