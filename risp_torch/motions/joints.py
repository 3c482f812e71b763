"""Measured coordinates of joints and their simulations: one world for each window, with its start, and its actions if unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from risp_torch.motions.joint_recording import JointRecording
from risp_torch.motions.measured import check_windows, noise_of_windows, tensor
from risp_torch.motions.recorded_actions import RecordedActions, check_instruments
from risp_torch.motions.recording import Window
from risp_torch.motions.settings import JointNoise
from risp_torch.scene.parts.links import Link, coordinate_slices
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import DivergenceError, UserError


class JointMotions:
    """Windows of joint coordinates (``MeasuredMotions``): a group is a joint, with its one coordinate.

    A start holds D coordinates [rad or m] and D velocities [rad/s or m/s]. If actions are unknown, (T - 1) A actions follow,
    frame by frame; if recorded actions have errors, the errors follow (``RecordedActions``). Their measured values are zero.

    Args:
        scene: whose links have the recordings' names, with the recordings' frame time.
        windows: parts of recordings of joints.
        noise: standard deviations of the measurements.
        encoder_offsets: D parameters that are added to simulated coordinates: the encoders' readings at coordinate 0; None for 0.
        action_offsets, action_lag: of recorded actions (``RecordedActions``).

    Raises:
        UserError: the recordings do not fit the scene.
    """

    def __init__(
        self, scene: Scene, windows: Sequence[Window], noise: JointNoise, *, encoder_offsets: Sequence[str] | None,
        action_offsets: Sequence[str] | None = None, action_lag: str | None = None,
    ) -> None:  # fmt: skip
        check_joints(scene, windows, encoder_offsets)
        check_instruments(scene, action_offsets, action_lag)
        self.links = windows[0].recording.links
        self.scene, self.windows, self.encoder_offsets = scene, windows, encoder_offsets
        self.frames = max(window.frames for window in windows)
        bodies = {body.name: k for k, body in enumerate(scene.bodies)}
        self._coordinate_columns = [coordinate_slices(scene.bodies)[bodies[name]].start for name in self.links]
        joints = [scene.bodies[bodies[name]] for name in self.links]
        self._start_parameters = [
            (joint.parameter_names[joint.joint.coordinate_name], joint.parameter_names["rate"]) for joint in joints
        ]
        self.start_names = frozenset(name for names in self._start_parameters for name in names)
        self.target = np.full((len(windows), self.frames, len(self.links), 1), np.nan)
        for row, window in zip(self.target, windows, strict=True):
            row[: window.frames, :, 0] = window.recording.joint_q[window.first : window.first + window.frames]
        num_joints, num_motors = len(self.links), sum(group.command_count for group in scene.motors)
        self.noise = noise_of_windows(windows, self.frames, broadcast_numbers(noise.coordinate, num_joints, "coordinate"))
        start_sd = [
            broadcast_numbers(noise.start_coordinate, num_joints, "start_coordinate"),
            broadcast_numbers(noise.start_rate, num_joints, "start_rate"),
        ]
        self._has_unknown_actions, self._num_motors = noise.action is not None, num_motors
        self._has_action_errors = noise.recorded_action is not None
        has_actions = windows[0].recording.actions is not None
        if not has_actions and (self._has_action_errors or action_offsets is not None or action_lag is not None):
            raise UserError(
                f"{windows[0].recording.name} has no actions: leave out recorded_action, action_offsets and action_lag"
            )
        if noise.action is not None:
            start_sd += [broadcast_numbers(noise.action, num_motors, "action")] * (self.frames - 1)
        self.start_sd, self._recorded_actions = np.tile(np.concatenate(start_sd), (len(windows), 1)), None
        if has_actions and not self._has_unknown_actions:
            self._recorded_actions = RecordedActions(
                scene, windows, self.frames, offsets=action_offsets, lag=action_lag, despike=self._has_action_errors
            )
        if self._has_action_errors:
            error_sd = self._recorded_actions.error_sd(broadcast_numbers(noise.recorded_action, num_motors, "recorded_action"))
            self.start_sd = np.concatenate([self.start_sd, error_sd], axis=1)
        states = np.array([np.concatenate(window.recording.state(window.first)) for window in windows])
        self.starts = np.pad(states, ((0, 0), (0, self.start_sd.shape[1] - states.shape[1])))

    def simulate(self, values: Mapping[str, torch.Tensor], starts: np.ndarray, window_index: np.ndarray) -> np.ndarray:
        """As ``MeasuredMotions.simulate``."""
        num_joints = len(self.links)
        inputs, start_rows = dict(values), tensor(starts)
        encoder_offsets = start_rows.new_zeros(len(start_rows), num_joints)
        if self.encoder_offsets is not None:
            offsets = [tensor(values.get(name, self.scene.table[name].value)) for name in self.encoder_offsets]
            encoder_offsets = torch.stack([offset.expand(len(start_rows)) for offset in offsets], dim=1)
        for k, (coordinate_name, velocity_name) in enumerate(self._start_parameters):
            inputs[coordinate_name] = start_rows[:, k] - encoder_offsets[:, k]
            inputs[velocity_name] = start_rows[:, num_joints + k]
        actions = None
        if self._recorded_actions is not None:
            actions = self._recorded_actions.of(
                values, window_index, start_rows[:, 2 * num_joints :] if self._has_action_errors else None
            )
        elif self._has_unknown_actions:
            actions = start_rows[:, 2 * num_joints :].reshape(len(start_rows), self.frames - 1, self._num_motors)
        try:
            joint_q = self.scene.rollout(inputs, frames=self.frames - 1, actions=actions).joint_q
        except DivergenceError:
            return np.full((len(starts), self.frames, num_joints, 1), np.nan)
        return (joint_q[..., self._coordinate_columns] + encoder_offsets[:, None])[..., None].double().cpu().numpy()

    def actions(self, starts: np.ndarray) -> np.ndarray:
        """Actions [M, T - 1, A] of starts [M, S], where they are unknown; NaN behind the end of a shorter window."""
        actions = starts[:, 2 * len(self.links) :].reshape(len(starts), self.frames - 1, self._num_motors).copy()
        for row, window in zip(actions, self.windows, strict=True):
            row[window.frames - 1 :] = np.nan
        return actions


def broadcast_numbers(number_or_numbers: Any, count: int, name: str) -> np.ndarray:
    """[count] numbers from a scalar or from ``count`` numbers.

    Raises:
        UserError: the shape differs; the message contains ``name``.
    """
    numbers = np.asarray(number_or_numbers, dtype=np.float64)
    if numbers.shape not in ((), (count,)):
        raise UserError(f"JointNoise: {name} has the shape {numbers.shape}: give one number, or {count}")
    return np.broadcast_to(numbers, count).copy()


def check_joints(scene: Scene, windows: Sequence[Window], encoder_offsets: Sequence[str] | None) -> None:
    """Raise a UserError if recordings of joints do not fit the scene (``JointMotions``)."""
    if not windows or not all(isinstance(window.recording, JointRecording) for window in windows):
        raise UserError("coordinates of joints are needed in at least one window, and in no other windows poses")
    links = {body.name: body for body in scene.bodies if isinstance(body, Link)}
    first = windows[0].recording
    motors = sum(group.command_count for group in scene.motors)
    for window in windows:
        recording = window.recording
        if recording.links != first.links or (recording.actions is None) != (first.actions is None):
            raise UserError(f"{recording.name} and {first.name} do not have the same joints, or only one of them has actions")
        if recording.actions is not None and recording.actions.shape[1] != motors:
            raise UserError(f"{recording.name} has {recording.actions.shape[1]} actions, and {scene.name} has {motors} motors")
    for name in first.links:
        if name in links and links[name].coupling is not None:
            raise UserError(f"the joint of link {name!r} of {scene.name} follows another joint: leave it out of the recordings")
        if name not in links or links[name].joint.coordinates != 1:
            raise UserError(
                f"{scene.name} has no link {name!r} with a joint of one coordinate: give its revolute or prismatic links"
            )
    if encoder_offsets is not None and (
        len(encoder_offsets) != len(first.links) or not set(encoder_offsets) <= set(scene.parameters)
    ):
        raise UserError(
            f"encoder_offsets are {list(encoder_offsets)}: name a number of {scene.name} (add_number) for each of "
            f"{list(first.links)}"
        )
    check_windows(scene, windows)
