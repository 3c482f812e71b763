"""A control run: goal, policy, search, and the run folder."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch.nn import Module

from risp_torch.control.objectives import GoalLoss
from risp_torch.control.observers import Observer, RispObserver, StateObserver
from risp_torch.control.optimise import search
from risp_torch.control.policies import FeedbackPolicy
from risp_torch.control.result import Control
from risp_torch.control.rollouts import PolicySimulator, check_control_over_time, closed_loop, open_loop
from risp_torch.control.task import ControlTask, Objective
from risp_torch.files.run_folder import RunFolder
from risp_torch.files.video import read_video
from risp_torch.risp.network.file import check_network, load_network
from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.pictures import read_picture
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, FromZero, Seed, checked

FeedbackKind = Literal["none", "state", "risp"]
_PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg")


@checked
def control(
    scene: Scene,
    task: ControlTask,
    *,
    objective: Objective = "image",
    seed: Seed = 0,
    goal: FromZero | None = None,
    target: str | Path | torch.Tensor | np.ndarray | None = None,
    iterations: Count | None = None,
    feedback: FeedbackKind = "none",
    network: str | Path | None = None,
    every: Count | None = None,
    out: str | Path | None = None,
    progress: bool = True,
) -> Control:
    """Search for a policy that brings a scene to a goal.

    Args:
        scene: the scene.
        task: control task of the scene.
        objective: "image", "state" or "random".
        seed: seed of the policy's weights.
        goal: index of the task's goal. None means goal 0, or, if a target is given, no goal state: errors are then not computed.
        target: target picture or video in place of the goal's own: a picture file, a video, a folder of PNG frames, or
            pictures [1 or frames + 1, H, W, 3] (linear rgb).
        iterations: gradient steps, or random policies after the first; the task's by default.
        feedback: observation of the policy: none, the state, or the predictions of a RISP network.
        network: file of the RISP network.
        every: frames from one observation to the next; the task's by default.
        out: folder for settings, result, curves, pictures, video and weights; an unfinished run in it is resumed.
        progress: whether to show a progress bar.

    Raises:
        UserError: the task has no such objective, or a policy, goal, target or network does not fit.
        DivergenceError: a motion diverged.
    """
    start_time = time.perf_counter()
    task.check_objective(objective, scene.name)
    iterations = task.iterations if iterations is None else iterations
    goal_index = 0 if goal is None and target is None else goal
    goal_state = None if goal_index is None else task.goal(scene, goal_index)
    if objective == "state" and goal_state is None:
        raise UserError("the state objective needs a goal whose state is known: give its number, or choose the image objective")
    pictures = None if target is None else load_pictures(scene, target)
    goal_loss = GoalLoss(scene, task, goal_state, pictures=pictures, render_goal=scene.camera is not None or objective == "image")
    simulate_policy, make_policy, controller_settings = _controller(
        scene, task, goal_loss, feedback=feedback, network=network, every=every
    )
    folder = None
    if out is not None:
        settings = settings_of(scene, task) | {
            "objective": objective, "seed": seed, "goal": goal_index, "iterations": iterations, **controller_settings,
            "policy_sha256": _checksum(_parameters_and_buffers(make_policy(seed))),
            "goal_position_statistics": None if goal_state is None else _position_statistics(goal_state.placement),
            "target": None if pictures is None else sha256(pictures.float().cpu().numpy().tobytes()).hexdigest(),
        }  # fmt: skip
        folder = RunFolder.open_or_create(out, settings)
    search_result = search(
        make_policy, simulate_policy, goal_loss, objective=objective, task=task, iterations=iterations, seed=seed, folder=folder,
        progress=progress,
    )  # fmt: skip
    note = goal_state.note if goal_state is not None else "a given target"
    result = Control(objective, note, search_result, goal_loss, time.perf_counter() - start_time, folder.path if folder else None)
    if folder is not None:
        from risp_torch.control.report import write_report

        write_report(scene, task, result, folder)
    return result


def load_pictures(scene: Scene, target: str | Path | torch.Tensor | np.ndarray) -> torch.Tensor:
    """Pictures [1 or frames + 1, H, W, 3] (linear rgb, working precision) of a target.

    Args:
        scene: scene whose camera must fit.
        target: see ``control``.

    Raises:
        UserError: the file cannot be read, or its size, rate or length is not the scene's.
    """
    camera = scene.camera
    if camera is None:
        raise UserError("the scene has no camera, and the target is a picture: add one with add_camera")
    if not isinstance(target, str | Path):
        return torch.as_tensor(target, dtype=bridge_dtype(), device=bridge_device())
    if Path(target).suffix.lower() not in _PICTURE_SUFFIXES:
        size = (camera.height, camera.width)
        film = read_video(target, fps=1 / scene.frame_dt, size=size, frames=scene.frames + 1)
        return torch.as_tensor(film, dtype=bridge_dtype(), device=bridge_device())
    picture = read_picture(target, "target")
    if picture.shape[:2] != (camera.height, camera.width):
        raise UserError(
            f"the target {target} is {picture.shape[1]}x{picture.shape[0]} pixels, and {camera.width}x{camera.height} are "
            "needed: scale it, or change the size of the scene's pictures"
        )
    return torch.as_tensor(picture[None], dtype=bridge_dtype(), device=bridge_device())


@checked
def settings_of(scene: Scene, task: ControlTask) -> dict[str, Any]:
    """Properties of a scene and its task that determine a run, for settings.json."""
    names = (
        "controlled_parameter", "size", "measure", "direction", "frames", "blur", "penalty", "learning_rate", "checkpoint",
        "feedback",
    )  # fmt: skip
    return {"scene": scene.description(), "task": {name: getattr(task, name) for name in names}, "precision": str(bridge_dtype())}


def _parameters_and_buffers(policy: Module) -> list[torch.Tensor]:
    """Weights and buffers of a policy, which identify it."""
    return [*policy.parameters(), *policy.buffers()]


def _checksum(tensors: Sequence[torch.Tensor]) -> str:
    """SHA-256 of shapes and of numbers rounded to six decimals."""
    checksum = sha256()
    for tensor in tensors:
        checksum.update(str(tuple(tensor.shape)).encode())
        checksum.update((tensor.detach().double().cpu() * 1e6).round().to(torch.int64).numpy().tobytes())
    return checksum.hexdigest()


def _position_statistics(placement: Any) -> list[list[float]]:
    """Mean and standard deviation of positions along each axis [m], rounded to 0.1 mm, which is far above rounding errors."""
    positions = torch.as_tensor(placement).double().flatten(0, -2)
    return [statistic.cpu().numpy().round(4).tolist() for statistic in (positions.mean(dim=0), positions.std(dim=0))]


def _controller(
    scene: Scene, task: ControlTask, goal_loss: GoalLoss, *, feedback: FeedbackKind, network: str | Path | None, every: int | None
) -> tuple[PolicySimulator, Callable[[int], Module], dict[str, Any]]:
    """Functions that simulate the scene under a policy and make policies, and their entry in settings.json."""
    if (feedback == "risp") != (network is not None):
        raise UserError("a network belongs to feedback 'risp', and is needed there: give --network with --feedback risp only")
    if feedback == "none":
        if every is not None:
            raise UserError("a number of frames between observations belongs to feedback 'state' or 'risp': leave it out")
        return open_loop(scene, task), lambda seed: task.policy(scene, seed), {"feedback": "none"}
    if task.feedback is None:
        raise UserError(f"the scene {scene.name} has no feedback control: leave --feedback out")
    check_control_over_time(scene, task)
    every = task.feedback.every if every is None else every
    controller_settings = {"feedback": feedback, "every": every}
    if feedback == "state":
        observer: Observer = _state_observer(scene, task, goal_loss)
    else:
        observer = _risp_observer(scene, goal_loss, network)
        controller_settings["network_sha256"] = sha256(Path(network).read_bytes()).hexdigest()
    feedback_settings = task.feedback
    num_outputs = math.prod(np.shape(scene.table[task.controlled_parameter].value)[1:])

    def make_policy(seed: int) -> Module:
        return FeedbackPolicy(
            observer.size, num_outputs, hidden=feedback_settings.hidden, limit=feedback_settings.limit, seed=seed
        )

    return closed_loop(scene, task, observer, every=every), make_policy, controller_settings


def _state_observer(scene: Scene, task: ControlTask, goal_loss: GoalLoss) -> StateObserver:
    if goal_loss.target_positions is None:
        raise UserError("feedback 'state' needs a goal whose state is known: give its number")
    return StateObserver(scene, task, goal_loss.target_positions[-1])


def _risp_observer(scene: Scene, goal_loss: GoalLoss, path: str | Path) -> RispObserver:
    """An observer with the network of a file (UserError: it is one of another scene or size)."""
    network, record = load_network(path)
    camera = scene.camera
    if camera is None or goal_loss.pictures is None:
        raise UserError("feedback 'risp' needs pictures, but the scene has no camera: add one with add_camera")
    check_network(network, record, scene=scene.name, outputs=network.settings.outputs, size=camera.width, path=str(path))
    return RispObserver(scene, network.to(device=bridge_device(), dtype=bridge_dtype()), goal_loss.pictures[-1])
