"""Errors of an estimate: parameters, motion, final state, and held-out motions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from risp_torch.risp import load_task
from risp_torch.scene.bridge import bridge_device, bridge_dtype

if TYPE_CHECKING:
    from risp_torch import Scene, States
    from risp_torch.risp import RispTask
    from studies.risp.trials.trial import Trial, Values


def single_world(values: Values) -> dict[str, torch.Tensor]:
    """Values [1, *shape] of one world, in the precision and on the device of the runtime."""
    numbers = {name: np.asarray(value, dtype=np.float64) for name, value in values.items()}
    return {name: torch.as_tensor(x, dtype=bridge_dtype(), device=bridge_device())[None] for name, x in numbers.items()}


def outputs_of(scene: Scene, task: RispTask, values: Values) -> torch.Tensor:
    """Outputs [T, S] of the state head along the motion with these values in place of the scene's own."""
    with torch.no_grad():
        motion = scene.rollout(single_world(values), worlds=1)
        return task.head.outputs(scene, motion.placement[0])


def trial_error(trial: Trial, scene: Scene, task: RispTask, motion: States, values: Values) -> float:
    """The error of an estimate in the measure of the trial.

    Args:
        trial: the trial.
        scene: scene of the estimate, with the random initial state if there is one.
        task: RISP task, whose outputs are compared.
        motion: motion of the truth.
        values: of all unknowns.
    """
    if trial.measure == "parameter":
        return float(np.concatenate([np.ravel(_distance(trial, name, values[name])) for name in trial.unknowns]).mean())
    true = task.head.outputs(scene, motion.placement[0])
    frame_errors = (outputs_of(scene, task, values) - true).abs().mean(dim=1)
    return float(frame_errors.sum() if trial.measure == "motion" else frame_errors[-1])


def unseen_errors(name: str, trial: Trial, values: Values, *, fitted: int) -> dict[str, float]:
    """Name of each held-out motion -> mean L1 distance of its outputs from the truth's.

    Args:
        name: of the scene.
        trial: trial with the true scenes.
        values: the estimate.
        fitted: frame intervals of the film that was fitted: in a longer one only later frames are compared.
    """
    errors = {}
    for label, scene in (trial.unseen() if trial.unseen else {}).items():
        task = load_task(name, scene)
        true = {unknown: value for unknown, value in trial.truth.items() if trial.measure == "parameter"}
        difference = (outputs_of(scene, task, values) - outputs_of(scene, task, true)).abs().mean(dim=1)
        errors[label] = float(difference[fitted + 1 if scene.frames > fitted else 0 :].mean())
    return errors


def _distance(trial: Trial, name: str, value: object) -> np.ndarray:
    value, truth = (np.asarray(v, dtype=np.float64) for v in (value, trial.truth[name]))
    return np.abs(np.log10(value / truth) if trial.log else value - truth)
