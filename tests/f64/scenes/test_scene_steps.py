"""Every shipped scene, frame by frame, equals one rollout to the last bit, with every integrator that its file offers."""

from __future__ import annotations

import pytest
import torch

from risp_torch import scene_names
from tests.reference.stepping import INTEGRATORS, assert_equal_to_the_last_bit, rollout_of, small_scene, steps_of

VARIANTS = [(name, {}) for name in scene_names()]
VARIANTS += [
    (name, {"integrator": integrator, "substeps": substeps})
    for name, integrators in INTEGRATORS.items() for integrator in integrators for substeps in (1, 2)
    if (name, integrator) != ("strip", "semi_implicit")
]  # fmt: skip
VARIANTS += [("smoke", {"advection": advection}) for advection in ("semi_lagrangian", "cubic", "maccormack")]


@pytest.mark.filterwarnings("ignore:.*too long")
@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=str)
def test_steps_equal_a_rollout_to_the_last_bit(name: str, options: dict) -> None:
    scene, frames = small_scene(name, **options), 3
    with torch.no_grad():
        assert_equal_to_the_last_bit(steps_of(scene, frames), rollout_of(scene, frames))
