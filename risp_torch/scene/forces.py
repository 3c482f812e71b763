"""Contact and joint forces of a scene at states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Self

import torch


@dataclass(frozen=True, kw_only=True)
class Forces:
    """Contact and joint forces at the states of B worlds; with T states, arrays are [B, T, ...]. ``Scene.forces`` makes it.

    A wrench is a force [N] and a torque about the centre of mass of its body [N m], world axes. Arrays that a scene does not have
    are None. Worlds that diverged are NaN.

    Attributes:
        body_contact: [B, N, 6] wrench of all contacts on each rigid body or link.
        contact: [B, C, 6] wrench of each contact of ``contacts`` on its first body.
        joint_motor: [B, D] forces of motors at the joint velocities, servos included [N, N m].
        joint_passive: [B, D] forces of springs and dampers of joints [N, N m].
        joint_friction: [B, D] dry friction of joints [N, N m].
        joint_limit: [B, D] forces of the limits of joints [N, N m].
        particle_contact: [B, P, 3] force of all contacts on each particle of the deformable bodies [N].
        contacts: C pairs of names: a body, and "ground", another body, or a deformable body.
    """

    body_contact: torch.Tensor | None = None
    contact: torch.Tensor | None = None
    joint_motor: torch.Tensor | None = None
    joint_passive: torch.Tensor | None = None
    joint_friction: torch.Tensor | None = None
    joint_limit: torch.Tensor | None = None
    particle_contact: torch.Tensor | None = None
    contacts: tuple[tuple[str, str], ...] = ()

    def arrays(self) -> dict[str, torch.Tensor]:
        """The arrays by name."""
        names = (field.name for field in fields(self) if field.name != "contacts")
        return {name: array for name in names if (array := getattr(self, name)) is not None}

    @property
    def joint(self) -> torch.Tensor | None:
        """[B, D] sum of the joint forces, those of motors included [N, N m]; None without joints."""
        if self.joint_motor is None:
            return None
        return self.joint_motor + self.joint_passive + self.joint_friction + self.joint_limit

    def map(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Self:
        """The forces with every array changed."""
        return replace(self, **{name: change(array) for name, array in self.arrays().items()})
