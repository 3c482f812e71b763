"""Loads: forces on particles of deformable bodies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from risp_torch.scene.numbers import Values
from risp_torch.scene.parts.elements import first_frames


@dataclass(frozen=True, eq=False)
class Load:
    """A force on some particles of a deformable body, in equal parts or one force per particle.

    Attributes:
        name: first part of its parameter name, "<name>.force".
        particles: indices among the particles of the scene.
        direction: [3] unit vector for a scalar parameter, None for a vector parameter.
        limit: largest magnitude of a component [N].
    """

    name: str
    particles: np.ndarray
    direction: np.ndarray | None
    limit: float

    def particle_forces(self, values: Values, frames: int) -> torch.Tensor:
        """[B, frames, K, 3] force on each of the K particles [N].

        Raises:
            UserError: it has fewer frames than are simulated.
        """
        name = f"{self.name}.force"
        count = len(self.particles)
        force = values[name].clamp(-self.limit, self.limit)
        if force.ndim == 4:
            return first_frames(name, force, frames)
        constant_ndim = 1 if self.direction is not None else 2
        if force.ndim == constant_ndim:
            force = force[:, None].expand(-1, frames, *force.shape[1:])
        else:
            force = first_frames(name, force, frames)
        force = force if self.direction is None else force[..., None] * force.new_tensor(self.direction)
        return (force / count)[:, :, None].expand(-1, -1, count, 3)
