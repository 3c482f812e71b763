"""Measured poses of free rigid bodies, and windows of recordings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from risp_torch.motions.joint_recording import JointRecording
from risp_torch.motions.settings import PositiveEach
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, FromZero, NotNegative, Positive, checked

_END_FRAMES = 5  # frames to which the parabola for the velocity at an end of a recording is fitted
_QUATERNION_TOLERANCE = 1e-3  # largest deviation of a quaternion's length from 1


@checked
@dataclass(frozen=True, eq=False)
class Recording:
    """Measured poses of the bodies of a scene at equal time steps.

    Attributes:
        name: name of the recording.
        body_q: [T, N, 7] float64, positions of the centres of mass [m] and unit quaternions (x, y, z, w); at least 3 frames.
        dt: time between two frames [s].

    Raises:
        UserError: the poses have another shape, are not finite, or have quaternions whose length is not 1.
    """

    name: str
    body_q: np.ndarray
    dt: Positive

    def __post_init__(self) -> None:
        object.__setattr__(self, "body_q", np.asarray(self.body_q, dtype=np.float64))
        shape = self.body_q.shape
        if len(shape) != 3 or shape[0] < 3 or shape[2] != 7:
            raise UserError(f"the recording {self.name} has poses of shape {shape}: give [T, N, 7] with at least 3 frames")
        lengths = np.linalg.norm(self.body_q[..., 3:], axis=-1)
        if not np.isfinite(self.body_q).all() or (np.abs(lengths - 1) > _QUATERNION_TOLERANCE).any():
            raise UserError(f"the recording {self.name} has poses that are not finite, or quaternions that are not of length 1")

    def __len__(self) -> int:
        return len(self.body_q)

    @property
    def count(self) -> int:
        """Number of bodies."""
        return self.body_q.shape[1]

    def state(self, frame: int) -> tuple[np.ndarray, np.ndarray]:
        """Pose [N, 7] and velocity [N, 6] (m/s, rad/s, world frame) at a frame.

        Velocities are central differences of the poses. At both ends of the recording, where differences would be one-sided and
        noisy, they are the slopes of parabolas fitted to the ``_END_FRAMES`` first or last poses.
        """
        is_interior = 0 < frame < len(self) - 1
        count = min(_END_FRAMES, len(self))
        fit_frames = (
            np.arange(frame - 1, frame + 2)
            if is_interior
            else np.arange(count)
            if frame == 0
            else len(self) - 1 - np.arange(count)
        )
        times = (fit_frames - frame) * self.dt
        derivative_weights = np.linalg.pinv(np.stack([np.ones_like(times), times, times**2], axis=1))[1]
        rotations = np.stack([rotation_vector(self.body_q[frame, :, 3:], self.body_q[k, :, 3:]) for k in fit_frames])
        velocity = [
            np.einsum("t,tnk->nk", derivative_weights, coordinates) for coordinates in (self.body_q[fit_frames, :, :3], rotations)
        ]
        return self.body_q[frame], np.concatenate(velocity, axis=-1)

    def displacement(self, first: int, last: int) -> float:
        """Largest distance between the positions of a body in two frames [m]."""
        return float(np.linalg.norm(self.body_q[last, :, :3] - self.body_q[first, :, :3], axis=-1).max())


@checked
@dataclass(frozen=True, eq=False)
class Window:
    """Consecutive frames of a recording, compared with a simulation that starts at the first of them.

    Attributes:
        recording: the recording.
        first: index of its first frame in the recording.
        frames: number of frames.
        noise: standard deviation of a coordinate in each frame [m or rad], [frames], or [frames, G] of each body or joint, above
            zero; it may include errors of the model. None for that of the settings.

    Raises:
        UserError: the noise has another shape, or a number that is not finite and above zero.
    """

    recording: Recording | JointRecording
    first: FromZero
    frames: Count
    noise: PositiveEach | None = None

    def __post_init__(self) -> None:
        if self.noise is None:
            return
        object.__setattr__(self, "noise", np.asarray(self.noise, dtype=np.float64))
        full_shape = (self.frames, self.recording.count)
        if self.noise.shape not in (full_shape, full_shape[:1]):
            raise UserError(
                f"Window: noise has shape {self.noise.shape}: give {full_shape[:1]}, or {full_shape} of each body or joint"
            )

    @property
    def body_q(self) -> np.ndarray:
        """[frames, N, 7] measured poses, of a recording of poses."""
        return self.recording.body_q[self.first : self.first + self.frames]


@checked
def windows(
    recordings: Sequence[Recording | JointRecording], *, frames: Count, stride: Count, least_motion: NotNegative
) -> list[Window]:
    """Windows of equal length over all recordings, without those in which nothing moves.

    The first window of a recording begins at its second frame, where velocities are more accurate than at the first. A motion
    with many impacts is sensitive to initial conditions: each impact amplifies errors. A short window, which starts from the
    measured state, contains one or two impacts, and all impacts of a recording have the same weight.

    Args:
        recordings: the recordings.
        frames: length of a window, at least 3.
        stride: frames from the start of one to the start of the next.
        least_motion: least distance between the positions of a moving body at both ends [m]; for joints, least change of a
            coordinate [rad or m].

    Raises:
        UserError: nothing moves in any window.
    """
    selected = []
    for recording in recordings:
        for first in range(1, len(recording) - frames + 1, stride):
            window = Window(recording, first, frames)
            if recording.displacement(first, first + frames - 1) >= least_motion:
                selected.append(window)
    if not selected:
        raise UserError(f"nothing moves within {frames} frames of the {len(recordings)} recordings: take fewer frames")
    return selected


@checked
def whole_recordings(recordings: Sequence[Recording | JointRecording], *, first: FromZero = 1) -> list[Window]:
    """One window for each recording, from the frame ``first`` to its end."""
    return [Window(recording, first, len(recording) - first) for recording in recordings]


def rotation_vector(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """World-frame rotation vectors [..., 3] rad, at most half a turn, that turn quaternion ``first`` into ``second`` [..., 4]."""
    first_vector, first_scalar, second_vector, second_scalar = first[..., :3], first[..., 3:], second[..., :3], second[..., 3:]
    vector = first_scalar * second_vector - second_scalar * first_vector - np.cross(second_vector, first_vector)
    scalar = second_scalar * first_scalar + (second_vector * first_vector).sum(-1, keepdims=True)
    vector, scalar = np.where(scalar < 0, -vector, vector), np.abs(scalar)
    norm = np.linalg.norm(vector, axis=-1, keepdims=True)
    return vector * np.where(norm > 1e-12, 2 * np.arctan2(norm, scalar) / np.maximum(norm, 1e-12), 2.0)
