"""Measured coordinates of joints, by encoders or from a film."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ti_sim.base.errors import UserError
from ti_sim.base.rules import Positive, checked

_FIT_FRAMES = 2  # frames on each side of a frame to which the parabola for its velocity is fitted


@checked
@dataclass(frozen=True, eq=False)
class JointRecording:
    """Measured coordinates of joints with one degree of freedom, at equal time steps.

    Attributes:
        name: name of the recording.
        links: the D links whose joints were measured.
        joint_q: [T, D] float64, coordinates [rad or m]; at least 3 frames.
        dt: time between two frames [s].
        actions: [T - 1, A] float64, actions of all motors of the scene between frames, as ``Scene.rollout`` takes them: forces
            [N or N m] of motors with gain 1, up to their limits; None for those of the scene.

    Raises:
        UserError: arrays have other shapes or are not finite.
    """

    name: str
    links: tuple[str, ...]
    joint_q: np.ndarray
    dt: Positive
    actions: np.ndarray | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "joint_q", np.asarray(self.joint_q, dtype=np.float64))
        if self.actions is not None:
            object.__setattr__(self, "actions", np.asarray(self.actions, dtype=np.float64))
        shape = self.joint_q.shape
        if len(shape) != 2 or shape[0] < 3 or shape[1] != len(self.links):
            raise UserError(
                f"the recording {self.name} has coordinates of shape {shape}: give [T, {len(self.links)}] with at least 3 frames"
            )
        if self.actions is not None and (np.ndim(self.actions) != 2 or len(self.actions) != shape[0] - 1):
            raise UserError(
                f"the recording {self.name} has actions of shape {np.shape(self.actions)}: give [{shape[0] - 1}, A], one row for "
                "each interval between frames"
            )
        if not np.isfinite(self.joint_q).all() or (self.actions is not None and not np.isfinite(self.actions).all()):
            raise UserError(f"the recording {self.name} has coordinates or actions that are not finite")

    def __len__(self) -> int:
        return len(self.joint_q)

    @property
    def count(self) -> int:
        """Number of joints."""
        return self.joint_q.shape[1]

    def state(self, frame: int) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates [D] rad or m, and velocities [D] rad/s or m/s, by parabolas fitted to a frame and its neighbours."""
        fit_frames = np.arange(max(frame - _FIT_FRAMES, 0), min(frame + _FIT_FRAMES + 1, len(self)))
        times = (fit_frames - frame) * self.dt
        coordinates, velocities, _ = np.polynomial.polynomial.polyfit(times / self.dt, self.joint_q[fit_frames], 2)
        return (coordinates, velocities / self.dt) if len(fit_frames) > 3 else (self.joint_q[frame], velocities / self.dt)

    def displacement(self, first: int, last: int) -> float:
        """Largest change of a coordinate between two frames [rad or m]."""
        return float(np.abs(self.joint_q[last] - self.joint_q[first]).max())
