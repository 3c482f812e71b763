"""A "film" whose observations are a linear function of two or three numbers: an inversion of it has a closed form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from risp_torch import Loss, Scene
from risp_torch.inversion import Comparison
from risp_torch.scene.bridge.checks import bridge_device

FRAMES, SIDE, BLOCKS = 8, 36, 6  # frames, observations of one, blocks of these


class LinearScene(Scene):
    """A scene without bodies, whose motion is its parameters."""

    def __init__(self) -> None:
        super().__init__(frame_dt=0.01, frames=FRAMES - 1, substeps=1)

    def rollout(self, parameters: Mapping[str, torch.Tensor] | None = None, **options: Any) -> SimpleNamespace:
        """The parameters."""
        rows = len(next(iter(parameters.values())))
        return SimpleNamespace(values=parameters, finite=torch.ones(rows, dtype=torch.bool, device=bridge_device()))


class LinearLoss(Loss):
    """Observations: columns times numbers, one column for each."""

    kind = "linear"
    needs_film = False

    def __init__(self, columns: Mapping[str, torch.Tensor], target: torch.Tensor, floor: float = 1e-12) -> None:
        """Columns [FRAMES, SIDE] by the number's name, and what is observed."""
        self.columns, self.target, self.least = columns, target, floor

    def check(self, scene: Scene) -> None:
        """Every scene fits."""

    def observe(
        self, scene: Scene, states: Any, values: Mapping[str, torch.Tensor], frames: Sequence[int] | None
    ) -> torch.Tensor:
        """Sum of the columns of the given numbers; the others are zero (``Loss.observe``)."""
        given = {name: column for name, column in self.columns.items() if name in values}
        whole = sum(values[name][:, None, None] * column.to(values[name]) for name, column in given.items())
        return whole if frames is None else whole[:, list(frames)]

    def of_target(self, scene: Scene, video: torch.Tensor | None, frames: Sequence[int]) -> torch.Tensor:
        """The target (``Loss.of_target``)."""
        return self.target[list(frames)]

    def blocks(self, shape: Sequence[int], size: tuple[int, int]) -> np.ndarray:
        """Runs of six observations (``Loss.blocks``)."""
        return np.arange(SIDE) // (SIDE // BLOCKS)

    def noise_floor(self, pictures: torch.Tensor) -> float:
        """The given one (``Loss.noise_floor``)."""
        return self.least

    def to_json(self) -> dict[str, Any]:
        """Its kind (``Loss.to_json``)."""
        return {"kind": self.kind}


def compared(loss: LinearLoss) -> Comparison:
    """The comparison of all frames."""
    return Comparison.of(LinearScene(), loss, None)


def block_errors(random: np.random.Generator) -> np.ndarray:
    """Errors [FRAMES, SIDE] of unit variance that are equal within a block and four frames."""
    each = random.normal(size=(FRAMES // 4, BLOCKS))
    return np.repeat(np.repeat(each, 4, axis=0), SIDE // BLOCKS, axis=1)
