"""Files of a control run."""

from __future__ import annotations

import math

import numpy as np
import torch

from risp_torch.control.files import save_policy
from risp_torch.control.result import Control
from risp_torch.control.task import ControlTask
from risp_torch.files import report
from risp_torch.files.run_folder import RunFolder, program_version
from risp_torch.files.video import write_picture
from risp_torch.scene.scene import Scene
from risp_torch.scene.states import States
from ti_sim.base.rules import checked

MAX_VIDEO_FPS = 30.0
_SCHEMA = 3  # of result.json
_BATCH_SIZE = 64  # pictures in one rendering


def write_report(scene: Scene, task: ControlTask, result: Control, folder: RunFolder) -> None:
    """Write curves.png, target.png, strip.png, comparison.mp4, policy.safetensors and, last, result.json.

    Args:
        scene: the scene.
        task: control task of the scene.
        result: result of the run.
        folder: folder of the run.
    """
    history, best, path = result.search.history, result.search.best, folder.path
    curves = {"loss": {result.objective: np.array(history.losses)[None]}}
    if np.isfinite(history.errors).any():
        curves = {"error [parts of the size]": {result.objective: history.curve(result.objective)[None]}} | curves
    report.plot_curves(path / "curves.png", curves, logarithmic=("loss",))
    if result.goal_loss.pictures is not None:
        _write_pictures(scene, result, folder)
    save_policy(
        path / "policy.safetensors", result.search.policy,
        {"scene": scene.name, "controlled_parameter": task.controlled_parameter},
    )  # fmt: skip
    folder.write_result(
        {
            "schema": _SCHEMA, "scene": scene.name, "version": program_version(), "settings": folder.settings,
            "goal": result.note, "objective": result.objective, "best": best, "error": history.errors[best],
            "loss": history.losses[best], "errors": history.errors, "losses": history.losses,
            "moved": result.goal_loss.displacement(result.search.rollout), "iteration_seconds": history.seconds,
            "seconds": result.seconds,
        }
    )  # fmt: skip


@checked
def film_of(scene: Scene, states: States) -> tuple[np.ndarray, float, list[int]]:
    """A film [T, H, W, 3] (linear rgb) of a motion with at most 30 pictures per second, its rate [1/s], and its frame indices."""
    frame_stride = max(1, math.ceil(1 / scene.frame_dt / MAX_VIDEO_FPS - 1e-6))
    last_frame = states.particle_q.shape[1] - 1
    frame_indices = list(range(last_frame % frame_stride, last_frame + 1, frame_stride))  # the last one is among them
    with torch.no_grad():
        batches = [
            scene.render(states, {}, frames=frame_indices[first_picture : first_picture + _BATCH_SIZE])[0].cpu().numpy()
            for first_picture in range(0, len(frame_indices), _BATCH_SIZE)
        ]
    return np.concatenate(batches), 1 / (scene.frame_dt * frame_stride), frame_indices


def _write_pictures(scene: Scene, result: Control, folder: RunFolder) -> None:
    pictures = result.goal_loss.pictures.cpu().numpy()
    write_picture(folder.path / "target.png", pictures[-1])
    film, fps, frame_indices = film_of(scene, result.search.rollout.states)
    if len(pictures) > 1:  # the target at the frame, or at the next compared frame
        goal_rows = np.searchsorted(result.goal_loss.frames, frame_indices)
        pictures = pictures[np.minimum(goal_rows, len(pictures) - 1)]
    target = np.broadcast_to(pictures, film.shape)
    report.write_strip(folder.path / "strip.png", target, film, fps=fps)
    has_even_size = film.shape[1] % 2 == 0 and film.shape[2] % 2 == 0
    if has_even_size:
        report.comparison_video(folder.path / "comparison.mp4", target, film, fps)
