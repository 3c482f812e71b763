"""Base of all state heads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from ti_sim.base.warn import warn

if TYPE_CHECKING:
    from risp_torch.scene.scene import Scene

_ROUNDING = 1e-4  # of outputs


class StateHead(ABC):
    """The outputs of a RISP network for a scene: numbers of order one, computed from its state and convertible to it.

    A new kind of head derives from this class with ``kind=`` its name in files, as a frozen dataclass of plain values.
    """

    kind: ClassVar[str]

    def __init_subclass__(cls, *, kind: str) -> None:
        cls.kind = kind

    @property
    @abstractmethod
    def labels(self) -> list[str]:
        """S names of the outputs."""

    @property
    def size(self) -> int:
        """S, the number of outputs."""
        return len(self.labels)

    @abstractmethod
    def check(self, scene: Scene) -> None:
        """Raise a UserError if the scene does not have the quantities of the head."""

    @abstractmethod
    def sample(self, scene: Scene, random: np.random.Generator) -> torch.Tensor:
        """Sample one state of the training distribution: poses [N, 7] of the scene's bodies (m, unit quaternions).

        With deformable bodies, a placement as from ``Scene.poses`` for one world and frame.
        """

    @abstractmethod
    def outputs(self, scene: Scene, body_q: torch.Tensor) -> torch.Tensor:
        """Normalised outputs [..., S] of poses [..., N, 7] (``sample``); differentiable."""

    @abstractmethod
    def physical(self, outputs: torch.Tensor) -> dict[str, torch.Tensor]:
        """Physical values of outputs [..., S] by name: for the table of a run (m, rad)."""

    def beyond(self, outputs: torch.Tensor) -> dict[str, float]:
        """Outputs [..., S] outside the range of training: label -> largest distance, in half ranges."""
        excess = (outputs.reshape(-1, self.size).abs().amax(dim=0) - 1.0).tolist()
        return {label: distance for label, distance in zip(self.labels, excess, strict=True) if distance > _ROUNDING}

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The head as JSON values, with its kind."""


def warn_of_states_beyond(head: StateHead, scene: Scene) -> None:
    """Warn if the scene's own motion leaves the training distribution of the head."""
    with torch.no_grad():
        states = scene.rollout(worlds=1)
        outside = head.beyond(head.outputs(scene, states.placement[0]))
    if outside:
        named = ", ".join(f"{label} by {distance:.2g}" for label, distance in outside.items())
        warn(
            f"the scene's own motion leaves the ranges of its state head ({named} of half a range): networks are not trained on "
            "such states; widen the ranges in make_task",
        )
