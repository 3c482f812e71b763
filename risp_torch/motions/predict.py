"""Rollouts from the measured start of a recording, and their distance from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from risp_torch.motions.bodies import check_bodies, measured_starts, simulated_poses
from risp_torch.motions.joints import JointMotions
from risp_torch.motions.measured import tensor
from risp_torch.motions.recording import Window, rotation_vector
from risp_torch.motions.settings import JointNoise
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked


@dataclass(frozen=True, eq=False)
class PredictionErrors:
    """Distances of predicted motions from measured ones, in each frame.

    Attributes:
        position: [M, T, N] m; NaN behind the end of a shorter window.
        rotation: [M, T, N] degrees.
        body_q: [M, T, N, 7] predicted poses.
    """

    position: np.ndarray
    rotation: np.ndarray
    body_q: np.ndarray

    def mean(self) -> tuple[np.ndarray, np.ndarray]:
        """Means over the frames of each motion, [M, N] m and degrees."""
        return np.nanmean(self.position, axis=1), np.nanmean(self.rotation, axis=1)

    def last(self) -> tuple[np.ndarray, np.ndarray]:
        """Errors in the last frame of each motion, [M, N] m and degrees."""
        last_frames = np.isfinite(self.position[:, :, 0]).sum(axis=1) - 1
        rows = np.arange(len(last_frames))
        return self.position[rows, last_frames], self.rotation[rows, last_frames]


@checked
def predict_motions(
    scene: Scene, windows: Sequence[Window], values: Mapping[str, Any] | None = None, *, scale: str | None = None
) -> PredictionErrors:
    """Simulate windows from their first measured poses and velocities, and compare all of their frames.

    Args:
        scene: the scene.
        windows: the windows.
        values: parameters that replace the scene's own, the same for all.
        scale: parameter that measured lengths are multiples of.

    Raises:
        UserError: the recordings do not fit the scene (``check_bodies``).
    """
    check_bodies(scene, windows, scale)
    frames = max(window.frames for window in windows)
    tensors = {name: tensor(value) for name, value in (values or {}).items()}
    poses = simulated_poses(scene, tensors, measured_starts(scene, windows), frames, scale=scale).double().cpu().numpy()
    position, rotation = (np.full(poses.shape[:3], np.nan) for _ in range(2))
    for m, window in enumerate(windows):
        measured, simulated = window.body_q, poses[m, : window.frames]
        position[m, : window.frames] = np.linalg.norm(simulated[..., :3] - measured[..., :3], axis=-1)
        rotation[m, : window.frames] = np.degrees(np.linalg.norm(rotation_vector(measured[..., 3:], simulated[..., 3:]), axis=-1))
    return PredictionErrors(position, rotation, poses)


@checked
def predict_joints(
    scene: Scene,
    windows: Sequence[Window],
    values: Mapping[str, Any] | None = None,
    *,
    starts: np.ndarray | None = None,
    encoder_offsets: Sequence[str] | None = None,
    action_offsets: Sequence[str] | None = None,
    action_lag: str | None = None,
) -> np.ndarray:
    """Simulate windows of joint coordinates from their first frames on.

    Args:
        scene: the scene.
        windows: the windows; with actions of their recordings, if they have any.
        values: parameters that replace the scene's own, the same for all.
        starts: [M, 2 D] coordinates and velocities at the first frames [rad or m, rad/s or m/s], for instance from
            ``estimate_starts``; by default those of a parabola fitted to each first frame and its neighbours, two later
            frames included.
        encoder_offsets: parameters: reading of each joint's encoder at coordinate 0.
        action_offsets, action_lag: as of ``fit_motions``.

    Returns:
        [M, T, D] predicted readings of the encoders [rad or m]; NaN behind the end of a shorter window.

    Raises:
        UserError: the recordings do not fit the scene, or the starts have another shape.
    """
    noise = JointNoise(coordinate=1.0, start_coordinate=1.0, start_rate=1.0)  # which a roll-out does not use
    motions = JointMotions(
        scene, windows, noise, encoder_offsets=encoder_offsets, action_offsets=action_offsets, action_lag=action_lag
    )
    tensors = {name: tensor(value) for name, value in (values or {}).items()}
    initial_states = motions.starts if starts is None else np.asarray(starts, dtype=np.float64)
    if initial_states.shape != motions.starts.shape:
        raise UserError(
            f"starts have the shape {initial_states.shape}: give {list(motions.starts.shape)}, coordinates and velocities"
        )
    with torch.no_grad():
        simulated = motions.simulate(tensors, initial_states, np.arange(len(windows)))[..., 0]
    return np.where(np.isfinite(motions.target[..., 0]), simulated, np.nan)
