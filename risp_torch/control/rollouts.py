"""Rollouts under a policy: open loop in one rollout, or closed loop, one rollout between two observations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch.nn import Module

from risp_torch.control.observers import Observer
from risp_torch.control.policies import FeedbackPolicy
from risp_torch.control.task import ControlTask
from risp_torch.control.windows import Windows, joined_states, timed_parameters
from risp_torch.scene.scene import Scene
from risp_torch.scene.states import States
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, checked
from ti_sim.rollout.adjoint import Checkpoint


@dataclass(frozen=True)
class ControlledRollout:
    """A motion under a policy, and the policy's outputs.

    Attributes:
        states: states of one world.
        outputs: values of the controlled parameter, in its unit and of its shape.
    """

    states: States
    outputs: torch.Tensor


PolicySimulator = Callable[[Module], ControlledRollout]


@checked
def open_loop(scene: Scene, task: ControlTask) -> PolicySimulator:
    """Open-loop control: one rollout, differentiable in the weights.

    Args:
        scene: the scene.
        task: control task of the scene.

    Returns:
        Function: policy -> motion. It raises a UserError if the shape of the policy's output does not fit.
    """

    def simulate_policy(policy: Module) -> ControlledRollout:
        outputs = policy()
        parameter_shape = np.shape(scene.table[task.controlled_parameter].value)
        if tuple(outputs.shape) != parameter_shape:
            raise UserError(
                f"the policy gives numbers of shape {tuple(outputs.shape)}, "
                f"and {task.controlled_parameter} needs {parameter_shape}"
            )
        return ControlledRollout(
            scene.rollout({task.controlled_parameter: outputs}, worlds=1, adjoint=Checkpoint(every=task.checkpoint)), outputs
        )

    return simulate_policy


@checked
def closed_loop(scene: Scene, task: ControlTask, observer: Observer, *, every: Count = 1) -> PolicySimulator:
    """Closed-loop control: an observation, a rollout over ``every`` frames with the policy's outputs, and so on.

    The gradient flows through the whole loop: from the motion through the observations to the outputs of the policy.

    Args:
        scene: the scene.
        task: control task of the scene; the controlled parameter has a row for each time.
        observer: observer of the scene.
        every: frames from one observation to the next.

    Returns:
        Function: policy -> motion. It raises a UserError if the policy's layers do not fit.

    Raises:
        UserError: the controlled parameter has no rows over time, or the scene cannot begin at any frame.
    """
    rows_per_frame = control_rows_per_frame(scene, task)
    if every > scene.frames:
        raise UserError(f"the policy observes the scene every {every} frames: give a number from 1 to {scene.frames}")
    windows = Windows(scene)
    row_shape = np.shape(scene.table[task.controlled_parameter].value)[1:]
    adjoint = Checkpoint(every=min(task.checkpoint, every * scene.stepping.substeps))
    initial = initial_states(scene)

    def simulate_policy(policy: FeedbackPolicy) -> ControlledRollout:
        if policy.observations != observer.size:
            raise UserError(f"the policy takes {policy.observations} numbers, but there are {observer.size} observations")
        memory, segments, output_rows, states = None, [], [], initial
        for first_frame in range(0, scene.frames, every):
            num_frames = min(every, scene.frames - first_frame)
            observation, memory = observer.observe(states, memory)
            output = policy(observation)
            if output.numel() != max(1, int(np.prod(row_shape))):
                raise UserError(
                    f"the policy gives {output.numel()} numbers, and {task.controlled_parameter} needs {row_shape} at a time"
                )
            output_rows.append(output.reshape(1, *row_shape).expand(num_frames * rows_per_frame, *row_shape))
            states = windows.rollout(
                first_frame, num_frames, {task.controlled_parameter: output_rows[-1]}, state=states.last, adjoint=adjoint
            )
            segments.append(states)
        return ControlledRollout(joined_states(segments), torch.cat(output_rows))

    return simulate_policy


def control_rows_per_frame(scene: Scene, task: ControlTask) -> int:
    """Rows of the controlled parameter per frame.

    Raises:
        UserError: see ``check_control_over_time``.
    """
    check_control_over_time(scene, task)
    return timed_parameters(scene)[task.controlled_parameter]


def check_control_over_time(scene: Scene, task: ControlTask) -> None:
    """Raise a UserError unless the controlled parameter has rows over time."""
    if task.controlled_parameter not in timed_parameters(scene):
        shape = np.shape(scene.table[task.controlled_parameter].value)
        raise UserError(
            f"{task.controlled_parameter} of shape {shape} is not a number over time: feedback and replanning need one"
        )


def initial_states(scene: Scene) -> States:
    """States of the first frame of a scene's motion, without gradient; ``last`` is the initial state."""
    with torch.no_grad():
        states = scene.rollout(worlds=1, frames=1)
        return replace(joined_states([states], frames=1), last=scene.state(worlds=1))
