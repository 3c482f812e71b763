"""Baselines that do not use the picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from risp_torch.risp.evaluation.test_set import sampled_states
from ti_sim.base.rules import Seed, checked

if TYPE_CHECKING:
    from risp_torch.risp.evaluation.test_set import TestSet
    from risp_torch.risp.task import RispTask
    from risp_torch.scene.scene import Scene

SAMPLES = 2000  # states for the mean of the training distribution
_STREAM = 78  # random stream, different from that of the test set


@checked
def baselines(scene: Scene, task: RispTask, test_set: TestSet, *, seed: Seed = 0) -> dict[str, torch.Tensor]:
    """Predictions [n, S] of RISP's two weak baselines; the second in two variants, because the paper does not specify it.

    Args:
        scene, task: scene and task of the states.
        test_set: the test set.
        seed: seed of the random numbers.

    Returns:
        "average": the mean outputs of the training distribution, always. "random, normal": standard normal numbers, which give
        the error in the paper. "random state": the outputs of a random state of the training distribution.
    """
    random = np.random.default_rng([seed, _STREAM])
    outputs = task.head.outputs(scene, sampled_states(scene, task, max(SAMPLES, len(test_set)), random)).float().cpu()
    return {
        "average": outputs.mean(dim=0).expand_as(test_set.outputs),
        "random, normal": torch.from_numpy(random.standard_normal(test_set.outputs.shape)).float(),
        "random state": outputs[: len(test_set)],
    }
