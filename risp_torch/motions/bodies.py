"""Measured poses of free rigid bodies and their simulations: one world for each window, with its start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from risp_torch.inversion.losses.trajectories import point_coordinates
from risp_torch.motions.measured import check_windows, noise_of_windows, tensor
from risp_torch.motions.recording import Recording, Window, rotation_vector
from risp_torch.motions.settings import PoseNoise
from risp_torch.scene.parts.links import Link
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import DivergenceError, UserError

START_PARAMETERS = ("position", "rotation", "velocity", "angular_velocity")


class BodyMotions:
    """Windows of poses (``MeasuredMotions``): a group is a body, with the 12 coordinates of ``point_coordinates``.

    A start is position [m], rotation vector from the scene's orientation [rad], velocity [m/s] and angular velocity [rad/s] of
    each body, in measured units.

    Args:
        scene: free rigid bodies, with the recordings' frame time.
        windows: parts of recordings of poses.
        noise: standard deviations of the measurements.
        scale: parameter that measured lengths are multiples of; None for 1.

    Raises:
        UserError: the recordings do not fit the scene.
    """

    def __init__(self, scene: Scene, windows: Sequence[Window], noise: PoseNoise, *, scale: str | None) -> None:
        check_bodies(scene, windows, scale)
        self.scene, self.windows, self.scale = scene, windows, scale
        self.frames = max(window.frames for window in windows)
        self.target = measured_points(scene, windows, self.frames)
        self.noise = noise_of_windows(windows, self.frames, np.full(len(scene.bodies), noise.coordinate))
        self.starts = measured_starts(scene, windows).reshape(len(windows), -1)
        sd_of_body = np.repeat([noise.start_position, noise.start_rotation, noise.start_velocity, noise.start_spin], 3)
        self.start_sd = np.tile(sd_of_body, len(scene.bodies))
        self.start_names = frozenset(f"{body.name}.{name}" for body in scene.bodies for name in START_PARAMETERS)

    def simulate(self, values: Mapping[str, torch.Tensor], starts: np.ndarray, window_index: np.ndarray) -> np.ndarray:
        """As ``MeasuredMotions.simulate``."""
        start_states = starts.reshape(len(starts), -1, 12)
        poses = simulated_poses(self.scene, values, start_states, self.frames, scale=self.scale)
        return point_coordinates(self.scene, poses).double().cpu().numpy().reshape(*poses.shape[:3], 12)


def check_bodies(scene: Scene, windows: Sequence[Window], scale: str | None) -> None:
    """Raise a UserError if recordings of poses do not fit the scene.

    Args:
        scene: the scene.
        windows: the windows.
        scale: parameter that measured positions are multiples of, or None.
    """
    if scene.particle_count or not scene.bodies or any(isinstance(body, Link) for body in scene.bodies):
        raise UserError(f"measured poses are those of free rigid bodies, and {scene.name} has links or deformable bodies")
    if scale is not None and scale not in scene.parameters:
        raise UserError(f"{scene.name} has no parameter {scale!r}: add it with add_number, or leave scale out")
    for window in windows:
        recording = window.recording
        if not isinstance(recording, Recording):
            raise UserError(f"{recording.name} has joint coordinates, and the first recording has poses: fit one kind at a time")
        if recording.body_q.shape[1] != len(scene.bodies):
            raise UserError(f"{recording.name} has {recording.body_q.shape[1]} bodies, and {scene.name} {len(scene.bodies)}")
    check_windows(scene, windows)


def measured_starts(scene: Scene, windows: Sequence[Window]) -> np.ndarray:
    """States at the beginnings of the windows, [M, N, 12] (``BodyMotions``)."""
    states = []
    for window in windows:
        pose, velocity = window.recording.state(window.first)
        scene_orientations = np.array([body.orientation for body in scene.bodies])
        states.append(np.concatenate([pose[:, :3], rotation_vector(scene_orientations, pose[:, 3:]), velocity], axis=-1))
    return np.array(states)


def measured_points(scene: Scene, windows: Sequence[Window], frames: int) -> np.ndarray:
    """Points (``point_coordinates``) of the measured poses, [M, frames, N, 12] m; NaN behind the end of a shorter window."""
    points = np.full((len(windows), frames, len(scene.bodies), 12), np.nan)
    for window_points, window in zip(points, windows, strict=True):
        poses = torch.as_tensor(window.body_q)
        window_points[: window.frames] = point_coordinates(scene, poses).reshape(window.frames, -1, 12).numpy()
    return points


def simulated_poses(
    scene: Scene, values: Mapping[str, torch.Tensor], starts: np.ndarray, frames: int, *, scale: str | None
) -> torch.Tensor:
    """Poses [M, frames, N, 7] of simulations, in measured units; NaN where a world diverged.

    Args:
        scene: the scene.
        values: parameters that replace the scene's own, with M rows or none.
        starts: [M, N, 12] (``BodyMotions``).
        frames: frames of the result, the start included.
        scale: parameter that measured lengths are multiples of; None for 1.
    """
    scale_value = tensor(np.ones(())) if scale is None else tensor(values.get(scale, scene.table[scale].value))
    scale_value = scale_value.expand(len(starts))
    inputs = dict(values)
    for n, body in enumerate(scene.bodies):
        for k, name in enumerate(START_PARAMETERS):
            columns = tensor(starts[:, n, 3 * k : 3 * k + 3])
            inputs[f"{body.name}.{name}"] = columns / scale_value[:, None] if name in ("position", "velocity") else columns
    try:
        body_q = scene.rollout(inputs, frames=frames - 1).body_q
    except DivergenceError:
        return tensor(np.full((len(starts), frames, len(scene.bodies), 7), np.nan))
    return torch.cat([scale_value[:, None, None, None] * body_q[..., :3], body_q[..., 3:]], dim=-1)
