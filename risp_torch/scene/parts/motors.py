"""Motors of a scene's joints: their actions and targets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from risp_torch.scene.arguments import Number
from risp_torch.scene.numbers import Values
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Positive, checked


@checked
@dataclass(frozen=True, kw_only=True)
class SinePulse:
    """A single sine pulse: amplitude sin(2 pi clip((t - delay) / period, 0, 1)) of frame t (RISP, ICLR 2022, B.1.4).

    The corners of the clip are rounded over the first and the last frame of the pulse, so that the derivative in the delay is
    continuous: the corner at 0 is x^2 (2 - x) for 0 < x = t - delay < 1. Delays and periods of whole frames give exactly the
    actions of the formula.

    Attributes:
        amplitude: amplitude in the unit of the actions.
        delay: time before it begins [frames].
        period: its length [frames].
    """

    amplitude: Number
    delay: Number
    period: Positive = 40.0


@dataclass(frozen=True)
class Motors:
    """A group of motors, one on each velocity of its joints: clip(gain action + servo, -limit, limit).

    Attributes:
        name: first part of their parameter names.
        velocities: D indices into the joint velocities of the scene.
        limit: largest magnitude of the force [N or N m].
        command_count: commands per frame interval: one for all motors of the group, or one each.
        pulse_period: period of a ``SinePulse`` [frames], None if the actions are given per frame.
    """

    name: str
    velocities: tuple[int, ...]
    limit: float
    command_count: int
    pulse_period: float | None

    def actions(self, values: Values, frames: int) -> torch.Tensor:
        """[B, frames, command_count] from the scene's parameters.

        Raises:
            UserError: there are actions for fewer frames than are simulated.
        """
        if self.pulse_period is None:
            actions = values[f"{self.name}.actions"]
            if actions.shape[1] < frames:
                raise UserError(
                    f"there are actions of {self.name} for {actions.shape[1]} frame intervals, and {frames} are simulated: give "
                    "more rows of actions, or simulate fewer frames"
                )
            return actions[:, :frames]
        amplitude, delay = values[f"{self.name}.amplitude"], values[f"{self.name}.delay"]
        time = torch.arange(frames, dtype=delay.dtype, device=delay.device)
        elapsed = self.pulse_period - _ramp(self.pulse_period - _ramp(time - delay[:, None]))  # from 0 to the period
        return (amplitude[:, None] * torch.sin(2.0 * math.pi * elapsed / self.pulse_period))[..., None]

    def targets(self, values: Values, frames: int) -> torch.Tensor | None:
        """[B, frames, command_count] target positions of the servo, None without a servo."""
        targets = values.get(f"{self.name}.targets")
        return None if targets is None else targets[:, :frames]


def _ramp(x: torch.Tensor) -> torch.Tensor:
    """max(0, x) with its corner rounded in 0 < x < 1: C1, and equal at integers."""
    corner = x.clamp(0.0, 1.0)
    return torch.where(x < 1.0, corner * corner * (2.0 - corner), x)


def split_actions(groups: Sequence[Motors], actions: torch.Tensor, *, worlds: int, frames: int) -> list[torch.Tensor]:
    """Actions [B or 1, F, A] of all groups, concatenated, as one [B, frames, command_count] for each group.

    Raises:
        UserError: the shape does not fit, a number is not finite, or there are fewer frame intervals.
    """
    counts = [group.command_count for group in groups]
    if actions.ndim != 3 or actions.shape[0] not in (1, worlds) or actions.shape[2] != sum(counts):
        raise UserError(
            f"the actions have shape {tuple(actions.shape)}, and [{worlds}, frames, {sum(counts)}] is needed "
            "(worlds, frame intervals, motors)"
        )
    if not torch.isfinite(actions.detach()).all():
        raise UserError("the actions have values that are not finite: give finite numbers")
    if actions.shape[1] < frames:
        raise UserError(
            f"there are actions for {actions.shape[1]} frame intervals, and {frames} are simulated: give more rows of actions, "
            "or simulate fewer frames"
        )
    return list(actions[:, :frames].expand(worlds, -1, -1).split(counts, dim=2))
