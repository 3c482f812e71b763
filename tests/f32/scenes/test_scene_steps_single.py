"""Shipped scenes in single precision, frame by frame, equal one rollout to the last bit: one scene of each solver."""

from __future__ import annotations

import pytest
import torch

from tests.reference.stepping import assert_equal_to_the_last_bit, rollout_of, small_scene, steps_of

SCENES = [
    ("cube", {}), ("quadrotor", {}), ("double_pendulum", {}), ("ball_soft", {}), ("rod", {}), ("smoke", {}),
    ("rod", {"integrator": "bdf2", "substeps": 1}), ("strip", {"integrator": "sdirk2"}),
    ("strip", {"integrator": "backward_euler", "substeps": 1}),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*too long")
@pytest.mark.parametrize(("name", "options"), SCENES, ids=str)
def test_steps_in_single_precision_equal_a_rollout_to_the_last_bit(name: str, options: dict) -> None:
    scene, frames = small_scene(name, **options), 3
    with torch.no_grad():
        assert_equal_to_the_last_bit(steps_of(scene, frames), rollout_of(scene, frames))
