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

_AT_ONCE = 100  # pictures that a network reads in one call


class Reader(Protocol):
    """What reads outputs from pictures: a network, or something in its place."""

    def read(self, images: torch.Tensor) -> torch.Tensor:
        """Outputs [..., S] of pictures [..., H, W, 3], linear rgb in [0, 1]."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What all readers made of a test set.

    Attributes:
        predicted: name -> [n, S] normalised outputs.
        errors: name -> errors, baselines first.
    """

    predicted: Mapping[str, torch.Tensor]
    errors: Mapping[str, StateErrors]

    def to_json(self) -> dict[str, Any]:
        """Errors by reader in values that JSON can hold."""
        return {name: errors.to_json() for name, errors in self.errors.items()}


@checked
def evaluate(scene: Scene, task: RispTask, readers: Mapping[str, Reader], test_set: TestSet, *, seed: Seed = 0) -> Evaluation:
    """Read a test set with baselines and networks.

    Args:
        scene, task: whose states the pictures show.
        readers: name -> network.
        test_set: pictures and their states.
        seed: of the random baselines.

    Raises:
        UserError: a network reads pictures of another size, has another number of outputs, or gives numbers that are not finite.
    """
    images = test_set.images
    predicted = baselines(scene, task, test_set, seed=seed)
    for name, reader in readers.items():
        with torch.no_grad():
            predicted[name] = torch.cat([reader.read(some).cpu() for some in images.split(_AT_ONCE)])
    return Evaluation(predicted, {name: state_errors(p, test_set, task.head) for name, p in predicted.items()})
