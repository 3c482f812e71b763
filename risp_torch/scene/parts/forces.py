"""Forces on rigid bodies."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from risp_torch.scene.numbers import Values


@dataclass(frozen=True)
class AppliedForce:
    """A constant force at a point of a body over some physics steps.

    Attributes:
        name: first part of its parameter names.
        body: index of the body.
        first_step, end_step: it acts in steps first_step <= step < end_step.
        kind: "force" [N] or "impulse" [N s], its parameter.
        scale: factor from the parameter to a force.
    """

    name: str
    body: int
    first_step: int
    end_step: int
    kind: str
    scale: float

    def force(self, values: Values) -> torch.Tensor:
        """[B, 3] N, world frame."""
        return values[f"{self.name}.{self.kind}"] * self.scale

    def point(self, values: Values) -> torch.Tensor:
        """[B, 3] point of application relative to the centre of mass, body frame [m]."""
        return values[f"{self.name}.point"]
