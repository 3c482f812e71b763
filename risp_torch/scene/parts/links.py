"""A link of an articulated body, and the conversion of its parameters to arrays of the solver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from risp_torch.scene.numbers import Values
from risp_torch.scene.parts.body import Body
from risp_torch.scene.parts.joints import Joint, Spherical
from ti_sim.base.rules import FromZero, Real, checked


@checked
@dataclass(frozen=True)
class JointCoupling:
    """A joint with one axis whose coordinate is ``multiplier * that of another link's joint + offset``.

    Attributes:
        leader: index of the other link among the scene's bodies; its joint is not coupled itself.
        multiplier: 1, m/rad or rad/m.
        offset: coordinate where that of the leader is zero, rad or m.
    """

    leader: FromZero
    multiplier: Real
    offset: Real


@dataclass(frozen=True, eq=False)
class Link(Body):
    """A link: a body that is attached to its parent, or to the world, by a joint.

    The origin of its frame is the joint. ``orientation`` is the orientation of the joint frame in the parent's frame.

    Attributes:
        parent: index among the scene's bodies, -1 for the world.
        joint: joint to the parent.
        parameter_names: joint quantity -> name of its parameter.
        axis: unit vector in the joint frame.
        direction: unit vector in the link frame along its length.
        share: fraction of the length between the joint and the centre of mass.
        at_tip: whether the joint is at the tip of the parent.
        coupling: coupling to another joint, None for a joint that moves freely. A coupled joint has no parameters for its initial
            coordinate and velocity.
    """

    parent: int = -1
    joint: Joint = field(default_factory=lambda: Spherical())
    parameter_names: dict[str, str] = field(default_factory=dict)
    axis: np.ndarray = field(default_factory=lambda: np.array([0.0, 0.0, 1.0]))
    direction: np.ndarray | None = None
    share: float = 0.0
    at_tip: bool = False
    coupling: JointCoupling | None = None

    def tip_offset(self, values: Values) -> torch.Tensor:
        """[B, 3] from the joint to the tip, link frame [m]; zeros for a link without length."""
        if self.direction is None:
            return torch.zeros_like(values[f"{self.name}.center"])
        length = values[f"{self.name}.length"]
        return length[:, None] * length.new_tensor(self.direction)

    def center(self, values: Values) -> torch.Tensor:
        """[B, 3] centre of mass, link frame [m]."""
        return values[f"{self.name}.center"] + self.share * self.tip_offset(values)

    def joint_frame(self, values: Values, parent: Link | None) -> torch.Tensor:
        """[B, 7] pose of the joint in the parent's frame, or in the world."""
        position = values[f"{self.name}.position"]
        if self.at_tip and parent is not None:
            position = position + parent.tip_offset(values)
        return torch.cat([position, position.new_tensor(self.orientation).expand(len(position), 4)], dim=-1)

    def joint_quantity(self, values: Values, key: str) -> torch.Tensor:
        """[B, velocities] values of a joint quantity (zeros if the joint does not have it)."""
        gravity, count = values["gravity"], self.joint.velocities
        if key not in self.parameter_names:
            return gravity.new_zeros(len(gravity), count)
        value = values[self.parameter_names[key]]
        return value if value.ndim == 2 else value[:, None].expand(-1, count)

    def start(self, values: Values, bodies: Sequence[Body]) -> torch.Tensor:
        """[B, coordinates] of the joint at the start (rad, m; quaternions of length one); ``bodies``: of the scene."""
        if self.coupling is not None:
            return self.coupling.multiplier * bodies[self.coupling.leader].start(values, bodies) + self.coupling.offset
        return self.joint.start(self.joint_quantity(values, self.joint.coordinate_name))

    def rate(self, values: Values, bodies: Sequence[Body]) -> torch.Tensor:
        """[B, velocities] of the joint at the start (rad/s, m/s); ``bodies``: of the scene."""
        if self.coupling is not None:
            return self.coupling.multiplier * bodies[self.coupling.leader].rate(values, bodies)
        return self.joint_quantity(values, "rate")


def velocity_slices(bodies: Sequence[Body]) -> list[slice]:
    """Slice of each body's velocities in the joint velocities of the scene."""
    return _slices([body.joint.velocities if isinstance(body, Link) else 6 for body in bodies])


def coordinate_slices(bodies: Sequence[Body]) -> list[slice]:
    """Slice of each body's coordinates in the joint coordinates of the scene."""
    return _slices([body.joint.coordinates if isinstance(body, Link) else 7 for body in bodies])


def joint_labels(bodies: Sequence[Body]) -> tuple[list[str], list[str]]:
    """Names of all joint coordinates and of all joint velocities: the link's name, with a number if its joint has several."""
    return _labels(bodies, coordinate_slices(bodies)), _labels(bodies, velocity_slices(bodies))


def _slices(counts: Sequence[int]) -> list[slice]:
    offsets = np.cumsum([0, *counts])
    return [slice(int(a), int(b)) for a, b in zip(offsets[:-1], offsets[1:], strict=True)]


def _labels(bodies: Sequence[Body], slices: Sequence[slice]) -> list[str]:
    counts = [(body.name, columns.stop - columns.start) for body, columns in zip(bodies, slices, strict=True)]
    return [name if count == 1 else f"{name}[{i}]" for name, count in counts for i in range(count)]
