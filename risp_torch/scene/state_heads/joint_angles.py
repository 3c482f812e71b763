"""The state head of an articulated body: the angles of its revolute joints (RISP, ICLR 2022, B.1.3)."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from risp_torch.files.suggest import unknown_name_error
from risp_torch.scene.state_heads.head import StateHead
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Real, checked

if TYPE_CHECKING:
    from risp_torch.scene.scene import Scene


@checked
@dataclass(frozen=True)
class JointAngleHead(StateHead, kind="joint_angles"):
    """One output for each joint: its angle, mapped from its range to [-1, 1].

    Attributes:
        joints: names of their links.
        low, high: ends of the angles' range [rad], within half a turn either way; states are sampled uniformly between them.
    """

    joints: tuple[str, ...]
    low: Real
    high: Real

    def __post_init__(self) -> None:
        object.__setattr__(self, "joints", tuple(self.joints))
        if not self.joints:
            raise UserError("the state head reads no joints: name some")
        if not -math.pi <= self.low < self.high <= math.pi:
            raise UserError(
                f"the state head's angles range from {self.low} to {self.high} rad: give ends within half a turn, low first"
            )

    @property
    def labels(self) -> list[str]:
        """The joints (``StateHead.labels``)."""
        return list(self.joints)

    def check(self, scene: Scene) -> None:
        """The joints must exist and be revolute (``StateHead.check``)."""
        self._link_indices(scene)

    def sample(self, scene: Scene, random: np.random.Generator) -> torch.Tensor:
        """Poses with uniformly sampled angles; other joints have their initial coordinates (``StateHead.sample``)."""
        from risp_torch.scene.parts.links import coordinate_slices

        values, links = scene.table.values(), scene.simulator.links
        joint_q = links.inputs(values, frames=1).joint_q0.detach().clone()
        slices = coordinate_slices(scene.bodies)
        for index in self._link_indices(scene):
            joint_q[0, slices[index]] = float(random.uniform(self.low, self.high))
        return links.poses_of_joints(values, joint_q)[0]

    def outputs(self, scene: Scene, body_q: torch.Tensor) -> torch.Tensor:
        """The angles of each set of poses (``StateHead.outputs``)."""
        from risp_torch.scene.rotations import quaternion_product

        angles = []
        for index in self._link_indices(scene):
            link = scene.bodies[index]
            parent_rotation = body_q.new_tensor(link.orientation).expand(*body_q.shape[:-2], 4)
            frame = parent_rotation if link.parent < 0 else quaternion_product(body_q[..., link.parent, 3:], parent_rotation)
            joint_rotation = quaternion_product(frame * frame.new_tensor([-1.0, -1.0, -1.0, 1.0]), body_q[..., index, 3:])
            axis_component = (joint_rotation[..., :3] * joint_rotation.new_tensor(link.axis)).sum(-1)
            # Twice the half angle, whose sign is arbitrary: the angle is within half a turn.
            sign = torch.where(joint_rotation[..., 3] < 0, -1.0, 1.0)
            angles.append(2.0 * torch.atan2(sign * axis_component, sign * joint_rotation[..., 3]))
        stacked = torch.stack(angles, dim=-1)
        return (2.0 * stacked - (self.low + self.high)) / (self.high - self.low)

    def physical(self, outputs: torch.Tensor) -> dict[str, torch.Tensor]:
        """The joints' angles [..., S], rad (``StateHead.physical``)."""
        return {"angles [rad]": 0.5 * (self.low + self.high + outputs * (self.high - self.low))}

    def to_json(self) -> dict[str, Any]:
        """The head's entries (``StateHead.to_json``)."""
        return {"kind": self.kind, **asdict(self)}

    def _link_indices(self, scene: Scene) -> list[int]:
        names = [body.name for body in scene.bodies]
        indices = []
        for joint in self.joints:
            if joint not in names:
                raise unknown_name_error("joint", joint, names)
            index = names.index(joint)
            if getattr(getattr(scene.bodies[index], "joint", None), "kind", None) != "revolute":
                raise UserError(f"the state head reads the angle of {joint!r}, which has no revolute joint: name others")
            indices.append(index)
        return indices
