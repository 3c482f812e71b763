"""The quadrotor's trials, for the tests of what is done with trials."""

from typing import Any

import torch

from studies.risp import load_trials
from studies.risp.trials.trial import true_scene

SIDE = 64  # pixels


def quadrotor_trials() -> dict[str, tuple[Any, ...]]:
    """Kind -> (trial, true scene, task, true motion)."""
    made = {}
    for kind, trial in load_trials("quadrotor").items():
        scene, task = true_scene("quadrotor", trial, SIDE)
        with torch.no_grad():
            made[kind] = (trial, scene, task, scene.rollout())
    return made
