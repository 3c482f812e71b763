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

MAX_VIDEO_FPS = 30.0  # per second, in videos
_SCHEMA = 2  # of result.json
_TOGETHER = 64  # pictures that are rendered together


def write_report(scene: Scene, task: ControlTask, result: Control, folder: RunFolder) -> None:
    """Write curves.png, target.png, strip.png, comparison.mp4, policy.safetensors and, last, result.json.

    Args:
        scene: the scene.
        task: control task of the scene.
        result: of the run.
        folder: folder of the run.
    """
    history, best, path = result.search.history, result.search.best, folder.path
    curves = {"loss": {result.objective: np.array(history.losses)[None]}}
    if np.isfinite(history.errors).any():
        curves = {"error [parts of the size]": {result.objective: history.curve(result.objective)[None]}} | curves
    report.plot_curves(path / "curves.png", curves, logarithmic=("loss",))
    if result.aim.pictures is not None:
        _write_pictures(scene, result, folder)
    save_policy(path / "policy.safetensors", result.search.policy, {"scene": scene.name, "drives": task.drives})
    folder.write_result(
        {
            "schema": _SCHEMA, "scene": scene.name, "version": program_version(), "settings": folder.settings,
            "goal": result.note, "objective": result.objective, "best": best, "error": history.errors[best],
            "loss": history.losses[best], "errors": history.errors, "losses": history.losses,
            "moved": result.aim.displacement(result.search.rollout), "iteration_seconds": history.seconds,
            "seconds": result.seconds,
        }
    )  # fmt: skip


@checked
def film_of(scene: Scene, states: States) -> tuple[np.ndarray, float, list[int]]:
    """A film [T, H, W, 3] (linear rgb) of a motion with at most 30 pictures per second, its rate, and its frame numbers."""
    step = max(1, math.ceil(1 / scene.frame_dt / MAX_VIDEO_FPS - 1e-6))
    last = states.particle_q.shape[1] - 1
    numbers = list(range(last % step, last + 1, step))  # the last one is among them
    with torch.no_grad():
        chunks = [
            scene.render(states, {}, frames=numbers[first : first + _TOGETHER])[0].cpu().numpy()
            for first in range(0, len(numbers), _TOGETHER)
        ]
    return np.concatenate(chunks), 1 / (scene.frame_dt * step), numbers


def _write_pictures(scene: Scene, result: Control, folder: RunFolder) -> None:
    pictures = result.aim.pictures.cpu().numpy()
    write_picture(folder.path / "target.png", pictures[-1])
    film, rate, numbers = film_of(scene, result.search.rollout.states)
    if len(pictures) > 1:  # the aim at the frame, or at the next compared frame
        goal_rows = np.searchsorted(result.aim.frames, numbers)
        pictures = pictures[np.minimum(goal_rows, len(pictures) - 1)]
    target = np.broadcast_to(pictures, film.shape)
    report.write_strip(folder.path / "strip.png", target, film, fps=rate)
    even = film.shape[1] % 2 == 0 and film.shape[2] % 2 == 0
    if even:
        report.comparison_video(folder.path / "comparison.mp4", target, film, rate)
