"""One run of visuomotor control: a soft body driven towards a goal, taught by pictures, by states, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from risp_torch import Scene, load_scene
from risp_torch.control import ControlledRollout, ControlTask, Goal, GoalLoss, load_control, open_loop, search
from studies.gradsim.cells import Cell

SHOWN = 4  # moments of a motion that are kept for strips, evenly over it


@dataclass(frozen=True)
class Way:
    """By what a policy is taught.

    Attributes:
        objective: of the search.
        changes: of the scene's task: what is compared, and when.
    """

    objective: str
    changes: Mapping[str, Any]


_CENTRE = {"measure": "center", "direction": None}
WAYS = {
    "pixels": Way("image", {}),
    "state": Way("state", {}),
    "centre at each step": Way("state", _CENTRE | {"frames": "all"}),
    "centre at the end": Way("state", _CENTRE | {"frames": "last"}),
    "random policies": Way("random", {}),
}


class JudgedGoalLoss(GoalLoss):
    """A goal loss with the errors of the scene's task and the loss of another task."""

    def __init__(self, scene: Scene, task: ControlTask, goal: Goal, *, judge: ControlTask, render_goal: bool) -> None:
        """Make a goal loss.

        Args:
            scene: the scene.
            task: what the search compares.
            goal: of both.
            judge: what errors are measured by.
            render_goal: whether to render the goal's pictures; they are otherwise not compared.
        """
        super().__init__(scene, task, goal, render_goal=render_goal)
        self.judge = GoalLoss(scene, judge, goal, render_goal=False)

    def error(self, rollout: ControlledRollout) -> float:
        """The judge's measure at the last frame, relative to the size."""
        return self.judge.error(rollout)


def control_cell(name: str, *, scene: str, options: Mapping[str, Any], way: str, goal: int, seed: int, steps: int | None) -> Cell:
    """The cell of a run (other arguments: ``run_control``)."""
    record = {"scene": scene, "options": dict(options), "way": way, "goal": goal, "seed": seed, "steps": steps}
    return Cell(name, run_control, record)


def run_control(*, scene: str, options: Mapping[str, Any], way: str, goal: int, seed: int, steps: int | None) -> dict[str, Any]:
    """Search for a policy.

    Args:
        scene: its name.
        options: of its make_scene.
        way: name of ``WAYS``.
        goal: number of the goal.
        seed: of the policy.
        steps: gradient steps, or random policies after the first; the task's own if None.

    Returns:
        "errors" in parts of the body's size, before every step and at the end; "kept", the error of the policy that is kept;
        "moved", the way of the centre of mass in sizes; "step_seconds"; and for "pixels" the "places" at ``SHOWN`` frames and the
        "target".
    """
    loaded_scene, task = scene_and_task(scene, options)
    taught = replace(task, **WAYS[way].changes)
    target, objective = task.goal(loaded_scene, goal), WAYS[way].objective
    goal_loss = JudgedGoalLoss(loaded_scene, taught, target, judge=task, render_goal=objective == "image")
    trained = search(
        lambda number: task.policy(loaded_scene, number), open_loop(loaded_scene, task), goal_loss, objective=objective,
        task=taught, iterations=task.iterations if steps is None else steps, seed=seed, progress=False,
    )  # fmt: skip
    result = {
        "errors": trained.history.curve(objective).tolist(), "kept": trained.history.errors[trained.best], "note": target.note,
        "moved": [way / task.size for way in goal_loss.displacement(trained.rollout)],
        "step_seconds": float(np.median(trained.history.seconds)),
    }  # fmt: skip
    if way == "pixels":
        frames = np.linspace(0, loaded_scene.frames, SHOWN).round().astype(int)
        places = trained.rollout.states.particle_q[0, frames.tolist()]
        result |= {"places": places.double().cpu().numpy().round(4).tolist()}
        result |= {"target": np.asarray(target.placement, dtype=np.float64)[-1].round(4).tolist()}
    return result


def scene_and_task(scene: str, options: Mapping[str, Any]) -> tuple[Scene, ControlTask]:
    """A scene and its control task (arguments: ``run_control``)."""
    tuples = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    loaded_scene = load_scene(scene, **tuples)
    return loaded_scene, load_control(scene, loaded_scene)


def pictures_of(scene: str, options: Mapping[str, Any], result: Mapping[str, Any]) -> np.ndarray:
    """[1 + SHOWN, H, W, 3] linear pictures of a result of "pixels": the target, and the motion that is kept."""
    loaded_scene, _ = scene_and_task(scene, options)
    places = torch.tensor([result["target"], *result["places"]], dtype=torch.float32)
    with torch.no_grad():
        return loaded_scene.render(places[None])[0].cpu().numpy()
