"""The state head of one rigid body: position, and sines and cosines of yaw, pitch and roll (RISP, Eq. 18)."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import torch

from risp_torch.files.suggest import unknown_name_error
from risp_torch.scene.state_heads.head import StateHead
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Rule, checked

if TYPE_CHECKING:
    from risp_torch.scene.scene import Scene

Position = Annotated[tuple[float, float, float], Rule(shape=(3,), exact=True)]
AngleRange = Annotated[tuple[float, float], Rule(shape=(2,), exact=True)]
_MIN_PITCH_COSINE = 1e-6  # cosine of the pitch below which yaw and roll have the same axis


@checked
@dataclass(frozen=True)
class RigidPoseHead(StateHead, kind="rigid_pose"):
    """Nine outputs: x, y, z, each mapped from its range to [-1, 1], then sin yaw, pitch, roll and cos yaw, pitch, roll.

    The rotation is Rz(yaw) Ry(pitch) Rx(roll), with the pitch within a quarter turn in both directions, which makes it unique.

    Attributes:
        body: name of the body.
        low, high: ends of the positions' ranges [3], m.
        yaw, pitch, roll: ends of the angles' ranges, rad; states are sampled uniformly between them.
    """

    body: str
    low: Position
    high: Position
    yaw: AngleRange = (-math.pi, math.pi)
    pitch: AngleRange = (-math.pi / 2, math.pi / 2)
    roll: AngleRange = (-math.pi, math.pi)

    def __post_init__(self) -> None:
        for name in ("low", "high", "yaw", "pitch", "roll"):
            object.__setattr__(self, name, tuple(float(x) for x in getattr(self, name)))
        ranges = {"position": (self.low, self.high)} | {n: getattr(self, n) for n in ("yaw", "pitch", "roll")}
        for name, (low, high) in ranges.items():
            if not np.all(np.less(low, high)):
                raise UserError(f"the state head's {name} ranges from {low} to {high}: give the low end first")
        if max(-self.pitch[0], self.pitch[1]) > math.pi / 2 + 1e-9:
            raise UserError(f"the state head's pitch ranges over {self.pitch}: give ends within a quarter turn, in rad")

    @property
    def labels(self) -> list[str]:
        """x, y, z, sines, cosines (``StateHead.labels``)."""
        return ["x", "y", "z", *(f"{f} {a}" for f in ("sin", "cos") for a in ("yaw", "pitch", "roll"))]

    def check(self, scene: Scene) -> None:
        """The body must exist (``StateHead.check``)."""
        self._index(scene)

    def sample(self, scene: Scene, random: np.random.Generator) -> torch.Tensor:
        """A uniformly sampled pose of the body; the others have their initial poses (``StateHead.sample``)."""
        from risp_torch.scene.numbers import constant

        position = random.uniform(self.low, self.high)
        angles = np.array([random.uniform(*limits) for limits in (self.yaw, self.pitch, self.roll)])
        body_q = scene.start_poses(scene.table.values())[0].detach().clone()
        body_q[self._index(scene)] = constant(np.concatenate([position, quaternion_of(angles)]))
        return body_q

    def outputs(self, scene: Scene, body_q: torch.Tensor) -> torch.Tensor:
        """Nine numbers of each pose (``StateHead.outputs``)."""
        pose = body_q[..., self._index(scene), :]
        low, high = (pose.new_tensor(limit) for limit in (self.low, self.high))
        position = (2.0 * pose[..., :3] - (low + high)) / (high - low)
        x, y, z, w = pose[..., 3:].unbind(-1)
        forward_x, forward_y = 1 - 2 * (y * y + z * z), 2 * (x * y + w * z)
        cos_pitch = (forward_x**2 + forward_y**2).clamp_min(_MIN_PITCH_COSINE**2).sqrt()
        sines = forward_y / cos_pitch, 2 * (w * y - x * z), 2 * (y * z + w * x) / cos_pitch
        cosines = forward_x / cos_pitch, cos_pitch, (1 - 2 * (x * x + y * y)) / cos_pitch
        return torch.cat([position, torch.stack([*sines, *cosines], dim=-1)], dim=-1)

    def physical(self, outputs: torch.Tensor) -> dict[str, torch.Tensor]:
        """Position [..., 3], m, and yaw, pitch, roll [...], rad, by atan2 (``StateHead.physical``)."""
        low, high = (outputs.new_tensor(limit) for limit in (self.low, self.high))
        angles = torch.atan2(outputs[..., 3:6], outputs[..., 6:9])
        names = ("yaw", "pitch", "roll")
        return {"position": 0.5 * (low + high + outputs[..., :3] * (high - low))} | dict(
            zip(names, angles.unbind(-1), strict=True)
        )

    def beyond(self, outputs: torch.Tensor) -> dict[str, float]:
        """Positions and angles beyond their ranges (``StateHead.beyond``)."""
        outside, angles = super().beyond(outputs), self.physical(outputs)
        for name in ("yaw", "pitch", "roll"):
            low, high = getattr(self, name)
            deviation = angles[name] - 0.5 * (low + high)
            deviation = torch.atan2(deviation.sin(), deviation.cos()).abs().max()  # the nearest modulo a full turn
            if (excess := float(deviation) / (0.5 * (high - low)) - 1.0) > 1e-4:
                outside[name] = excess
        return outside

    def to_json(self) -> dict[str, Any]:
        """The head's entries (``StateHead.to_json``)."""
        return {"kind": self.kind, **asdict(self)}

    def _index(self, scene: Scene) -> int:
        names = [body.name for body in scene.bodies]
        if self.body not in names:
            raise unknown_name_error("body", self.body, names)
        return names.index(self.body)


def quaternion_of(angles: np.ndarray) -> np.ndarray:
    """Unit quaternion (x, y, z, w) of Rz(yaw) Ry(pitch) Rx(roll), from [yaw, pitch, roll] in rad."""
    from scipy.spatial.transform import Rotation

    return Rotation.from_euler("ZYX", angles).as_quat()
