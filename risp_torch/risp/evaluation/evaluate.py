"""Networks and baselines on a test set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch

from risp_torch.risp.evaluation.baselines import baselines
from risp_torch.risp.evaluation.errors import StateErrors, state_errors
from ti_sim.base.rules import Seed, checked

if TYPE_CHECKING:
    from risp_torch.risp.evaluation.test_set import TestSet
    from risp_torch.risp.task import RispTask
    from risp_torch.scene.scene import Scene

_BATCH_SIZE = 100  # pictures per call of a network


class Reader(Protocol):
    """A predictor of outputs from pictures, such as a network."""

    def read(self, images: torch.Tensor) -> torch.Tensor:
        """Outputs [..., S] of pictures [..., H, W, 3], linear rgb in [0, 1]."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Predictions and errors of all predictors on a test set.

    Attributes:
        predicted: name -> [n, S] normalised outputs.
        errors: name -> errors, baselines first.
    """

    predicted: Mapping[str, torch.Tensor]
    errors: Mapping[str, StateErrors]

    def to_json(self) -> dict[str, Any]:
        """Errors by predictor as JSON values."""
        return {name: errors.to_json() for name, errors in self.errors.items()}


@checked
def evaluate(scene: Scene, task: RispTask, readers: Mapping[str, Reader], test_set: TestSet, *, seed: Seed = 0) -> Evaluation:
    """Evaluate baselines and networks on a test set.

    Args:
        scene, task: scene and task of the test set.
        readers: name -> network.
        test_set: pictures and their states.
        seed: seed of the random baselines.

    Raises:
        UserError: a network has another picture size or number of outputs, or its outputs are not finite.
    """
    images = test_set.images
    predicted = baselines(scene, task, test_set, seed=seed)
    for name, reader in readers.items():
        with torch.no_grad():
            predicted[name] = torch.cat([reader.read(batch).cpu() for batch in images.split(_BATCH_SIZE)])
    return Evaluation(predicted, {name: state_errors(p, test_set, task.head) for name, p in predicted.items()})
