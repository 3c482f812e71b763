"""Coordinates in which all directions move the scene alike: sequences of actions are found in few steps there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
import torch

from risp_torch.inversion.unknowns import Unknowns

if TYPE_CHECKING:
    from risp_torch.scene import Scene
    from risp_torch.task import RispTask

STEP = 0.05  # of the differences, in the unbounded unit-scale variables
DAMPING = 1e-4  # of the largest response: directions that move the scene less do not get longer steps
_AT_ONCE = 64  # worlds


@dataclass(frozen=True, kw_only=True)
class WhitenedUnknowns(Unknowns):
    """Unknowns whose optimiser's variables w stand for z = origin + matrix w.

    Attributes:
        origin: [K].
        matrix: [K, K], invertible.
    """

    origin: torch.Tensor
    matrix: torch.Tensor

    def physical(self, z: torch.Tensor) -> dict[str, torch.Tensor]:
        """As ``Unknowns.physical``."""
        return super().physical(self._plain(z))

    def vector(self, z: torch.Tensor) -> torch.Tensor:
        """As ``Unknowns.vector``."""
        return super().vector(self._plain(z))

    def penalty(self, z: torch.Tensor) -> torch.Tensor:
        """As ``Unknowns.penalty``."""
        return super().penalty(self._plain(z))

    def unbounded(self, physical: np.ndarray) -> torch.Tensor:
        """As ``Unknowns.unbounded``."""
        return torch.linalg.solve(self.matrix, (super().unbounded(physical) - self.origin).T).T

    def _plain(self, w: torch.Tensor) -> torch.Tensor:
        return self.origin + w @ self.matrix.T


def whitened(scene: Scene, task: RispTask, unknowns: Unknowns, first: np.ndarray, frames: Sequence[int]) -> WhitenedUnknowns:
    """The unknowns in coordinates in which the mean square of the state head's outputs is about as curved everywhere.

    The Jacobian of the outputs is taken by differences at the first guess; nothing is rendered, and the target is not looked at.

    Args:
        scene, task: what moves, and which outputs count.
        unknowns: of the search.
        first: [K] the first guess, physical units.
        frames: that count.
    """
    origin = unknowns.unbounded(first[None])[0]
    jacobian = _jacobian(scene, task, unknowns, origin, frames).double()
    values, vectors = torch.linalg.eigh(jacobian @ jacobian.T / jacobian.shape[1])
    lengths = (values.clamp_min(0.0) + DAMPING * values.max()).rsqrt()
    matrix = ((vectors * lengths) @ vectors.T).to(origin)
    return WhitenedUnknowns(**{f.name: getattr(unknowns, f.name) for f in fields(unknowns)}, origin=origin, matrix=matrix)


def _jacobian(scene: Scene, task: RispTask, unknowns: Unknowns, origin: torch.Tensor, frames: Sequence[int]) -> torch.Tensor:
    """Derivative [K, P] of all outputs in the unbounded variables, by one-sided differences."""
    rows = torch.cat([origin[None], origin + STEP * torch.eye(len(origin)).to(origin)])
    outputs = []
    with torch.no_grad():
        for some in rows.split(_AT_ONCE):
            motion = scene.rollout(unknowns.physical(some), worlds=len(some), frames=frames[-1])
            outputs.append(task.head.outputs(scene, motion.placement[:, list(frames)]).flatten(1))
    moved = torch.cat(outputs)
    return (moved[1:] - moved[0]) / STEP
