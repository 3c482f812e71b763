"""Roll-outs from the measured start of a recording, and how far they are from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from risp_torch.motions.recording import Window, rotation_vector
from risp_torch.motions.simulate import check_scene, measured_starts, simulated_poses
from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.scene import Scene


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
        ends = np.isfinite(self.position[:, :, 0]).sum(axis=1) - 1
        rows = np.arange(len(ends))
        return self.position[rows, ends], self.rotation[rows, ends]


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
        UserError: the recordings do not fit the scene (``check_scene``).
    """
    check_scene(scene, windows, scale)
    frames = max(window.frames for window in windows)
    given = {
        name: torch.as_tensor(value, dtype=bridge_dtype(), device=bridge_device()) for name, value in (values or {}).items()
    }
    poses = simulated_poses(scene, given, measured_starts(scene, windows), frames, scale=scale).double().cpu().numpy()
    position, rotation = (np.full(poses.shape[:3], np.nan) for _ in range(2))
    for m, window in enumerate(windows):
        measured, own = window.body_q, poses[m, : window.frames]
        position[m, : window.frames] = np.linalg.norm(own[..., :3] - measured[..., :3], axis=-1)
        rotation[m, : window.frames] = np.degrees(np.linalg.norm(rotation_vector(measured[..., 3:], own[..., 3:]), axis=-1))
    return PredictionErrors(position, rotation, poses)
