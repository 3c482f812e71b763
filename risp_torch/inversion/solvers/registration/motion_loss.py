"""A loss by known placements, with separate coordinates and weights for each frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from risp_torch.inversion.losses.loss import Loss
from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.inversion.solvers.registration.tangent import Tangent
from risp_torch.scene.scene import Scene
from risp_torch.scene.states import States


@dataclass(frozen=True, eq=False)
class Reference:
    """A motion, and the coordinates of changes from it that are observed.

    Attributes:
        placement: [n, rows, columns] at the compared frames.
        tangent: coordinates of changes.
        frames: n frame numbers.
        count: number of observations that the loss is a mean over.
        weight: [n, R, D] of the D changes in the R observations of each frame; None for the changes themselves.
    """

    placement: torch.Tensor
    tangent: Tangent
    frames: tuple[int, ...]
    count: float
    weight: torch.Tensor | None = None

    def observed(self, placement: torch.Tensor) -> torch.Tensor:
        """[B, n, R] weighted changes from the reference to placements [B, n, rows, columns]."""
        change = self.tangent.between(self.placement, placement)
        return change if self.weight is None else torch.einsum("nrd,bnd->bnr", self.weight, change)

    def comparison(self, target: torch.Tensor) -> Comparison:
        """The comparison with target observations [n, R]."""
        loss = MotionLoss(self, target)
        return Comparison(loss, target, self.frames, loss.blocks(target.shape[1:], (0, 0)))


class MotionLoss(Loss):
    """Sum of squared differences between weighted changes of a motion and target ones, over the count of the reference."""

    kind = "motion"
    needs_film = False

    def __init__(self, reference: Reference, target: torch.Tensor) -> None:
        """A loss for target observations [n, R] (``Reference``)."""
        self.reference, self.target = reference, target

    def check(self, scene: Scene) -> None:
        """Nothing to check: references are made of a scene's own motion."""

    def observe(
        self, scene: Scene, states: States, values: Mapping[str, torch.Tensor], frames: Sequence[int] | None
    ) -> torch.Tensor:
        """Weighted changes [B, n, R] from the reference (``Loss.observe``; all its frames, whatever ``frames``)."""
        return self.reference.observed(states.placement[:, list(self.reference.frames)])

    def of_target(self, scene: Scene, video: torch.Tensor | None, frames: Sequence[int]) -> torch.Tensor:
        """The target observations (``Loss.of_target``)."""
        return self.target

    def count(self, frames: Sequence[int], shape: Sequence[int]) -> float:
        """That of the reference (``Loss.count``)."""
        return self.reference.count

    def to_json(self) -> dict[str, Any]:
        """Its kind (``Loss.to_json``)."""
        return {"kind": self.kind}
