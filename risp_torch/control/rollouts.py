"""A policy drives a scene: open loop in one rollout, or closed loop from one observation to the next."""

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
    """A motion and the driving outputs.

    Attributes:
        states: of one world.
        outputs: value of the driven parameter, in its unit and of its shape.
    """

    states: States
    outputs: torch.Tensor


Drive = Callable[[Module], ControlledRollout]


@checked
def open_loop(scene: Scene, task: ControlTask) -> Drive:
    """Open-loop control: one rollout, differentiable in the weights.

    Args:
        scene: the scene.
        task: control task of the scene.

    Returns:
        A function from a policy to the motion; a UserError where the policy's output does not fit.
    """

    def drive(policy: Module) -> ControlledRollout:
        outputs = policy()
        row_shape = np.shape(scene.table[task.drives].value)
        if tuple(outputs.shape) != row_shape:
            raise UserError(f"the policy gives numbers of shape {tuple(outputs.shape)}, and {task.drives} needs {row_shape}")
        return ControlledRollout(
            scene.rollout({task.drives: outputs}, worlds=1, adjoint=Checkpoint(every=task.checkpoint)), outputs
        )

    return drive


@checked
def closed_loop(scene: Scene, task: ControlTask, observer: Observer, *, every: Count = 1) -> Drive:
    """Closed-loop control: an observation, some frames with the policy's outputs, and so on.

    The gradient flows through the whole loop: from the motion through the observations to the outputs of the policy.

    Args:
        scene: the scene.
        task: of the scene; the driven parameter has a row for each time.
        observer: of the scene.
        every: frames from one observation to the next.

    Returns:
        A function from a policy to the motion; a UserError where the policy's layers do not fit.

    Raises:
        UserError: the driven parameter has no rows over time, or the scene cannot begin at any frame.
    """
    per_frame = driven_rows(scene, task)
    if every > scene.frames:
        raise UserError(f"the policy observes the scene every {every} frames: give a number from 1 to {scene.frames}")
    windows = Windows(scene)
    columns = np.shape(scene.table[task.drives].value)[1:]
    adjoint = Checkpoint(every=min(task.checkpoint, every * scene.stepping.substeps))
    start = at_start(scene)

    def drive(policy: FeedbackPolicy) -> ControlledRollout:
        if policy.observations != observer.size:
            raise UserError(f"the policy takes {policy.observations} numbers, but there are {observer.size} observations")
        memory, intervals, rows, states = None, [], [], start
        for first in range(0, scene.frames, every):
            count = min(every, scene.frames - first)
            observation, memory = observer.observe(states, memory)
            answer = policy(observation)
            if answer.numel() != max(1, int(np.prod(columns))):
                raise UserError(f"the policy gives {answer.numel()} numbers, and {task.drives} needs {columns} at a time")
            rows.append(answer.reshape(1, *columns).expand(count * per_frame, *columns))
            states = windows.rollout(first, count, {task.drives: rows[-1]}, state=states.last, adjoint=adjoint)
            intervals.append(states)
        return ControlledRollout(joined_states(intervals), torch.cat(rows))

    return drive


def driven_rows(scene: Scene, task: ControlTask) -> int:
    """Rows of the driven parameter per frame.

    Raises:
        UserError: it is not a number over time.
    """
    timed = timed_parameters(scene)
    if task.drives not in timed:
        shape = np.shape(scene.table[task.drives].value)
        raise UserError(f"{task.drives} of shape {shape} is not a number over time: feedback and replanning need one")
    return timed[task.drives]


def at_start(scene: Scene) -> States:
    """The first frame of a scene's motion, without gradient, with the state there."""
    with torch.no_grad():
        states = scene.rollout(worlds=1, frames=1)
        return replace(joined_states([states], frames=1), last=scene.state(worlds=1))
