"""A deformable body of a scene, and the conversion of its parameters to particles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from risp_torch.scene.numbers import Values, constant
from risp_torch.scene.parts.contact import CONTACT_FIELDS
from risp_torch.scene.parts.elements import Elements, first_frames, lumped_masses
from risp_torch.scene.parts.materials import element_rows
from risp_torch.scene.parts.surface import SurfaceMesh
from risp_torch.scene.rotations import matrix_vector, rotation_matrix, rotation_quaternion


@dataclass(frozen=True, eq=False)
class Deformable:
    """A deformable body.

    Attributes:
        name: the body's part of parameter names.
        first_particle: index of its first particle in the scene.
        vertices: [V, 3] vertices of its mesh [m].
        rest: [V, 3] the same in the axes of the world, before the body's parameter "rotation" is applied [m].
        elements: elements between its particles.
        fixed: indices within the body of particles that never move; the next two also index within the body.
        prescribed: particles with prescribed velocity.
        surface_particles: particles of its surface, which touch the ground and bodies with collision.
        contact_name: prefix of its contact parameters ("ground.contact" or "<name>.contact"), None without contact.
        surface: its surface mesh, None for an invisible body.
        thickness: twice the distance at which its particles touch bodies with collision [m].
        area: [V] surface area of each particle [m2], which multiplies contact parameters per area; None if they are per point.
    """

    name: str
    first_particle: int
    vertices: np.ndarray
    rest: np.ndarray
    elements: Elements
    fixed: np.ndarray
    prescribed: np.ndarray
    surface_particles: np.ndarray
    contact_name: str | None
    surface: SurfaceMesh | None
    thickness: float = 0.0
    area: np.ndarray | None = None

    @property
    def count(self) -> int:
        """V, the number of its particles."""
        return len(self.rest)

    def start(self, values: Values) -> torch.Tensor:
        """[B, V, 3] initial positions [m]."""
        return values[f"{self.name}.position"][:, None] + self._offsets(values)

    def start_velocity(self, values: Values) -> torch.Tensor:
        """[B, V, 3] initial velocities [m/s]; zero for fixed particles."""
        velocity, angular_velocity = values[f"{self.name}.velocity"], values[f"{self.name}.angular_velocity"]
        velocity = velocity if velocity.ndim == 3 else velocity[:, None]
        offsets = self._offsets(values)
        rotation_velocity = torch.linalg.cross(angular_velocity[:, None].expand_as(offsets), offsets)
        particle_velocity = (
            velocity + rotation_velocity + matrix_vector(values[f"{self.name}.velocity_gradient"][:, None], offsets)
        )
        is_free = np.ones((self.count, 1))
        is_free[self.fixed] = 0.0
        return particle_velocity * constant(is_free)

    def mass(self, values: Values) -> torch.Tensor:
        """[B, V] kg."""
        mass = values.get(f"{self.name}.mass")
        if mass is not None:
            return element_rows(mass, self.count)
        return lumped_masses(element_rows(values[f"{self.name}.density"], len(self.elements.indices)), self.elements, self.count)

    def contact(self, values: Values) -> torch.Tensor:
        """[B, V, 4] ke, kd, kf, mu of every particle; zeros without contact."""
        if self.contact_name is None:
            return values["gravity"].new_zeros(len(values["gravity"]), self.count, 4)
        row = torch.stack([values[f"{self.contact_name}.{field}"] for field in CONTACT_FIELDS], dim=-1)
        if self.area is None:
            return row[:, None].expand(-1, self.count, 4)
        return row[:, None] * constant(np.stack([self.area, self.area, self.area, np.ones(self.count)], axis=1))

    def prescribed_velocity(self, values: Values, frames: int) -> torch.Tensor:
        """[B, frames, K, 3] m/s."""
        count = len(self.prescribed)
        if not count:
            return values["gravity"].new_zeros(len(values["gravity"]), frames, 0, 3)
        name = f"{self.name}.prescribed_velocity"
        velocity = values[name]
        if velocity.ndim == 2:
            return velocity[:, None, None].expand(-1, frames, count, 3)
        velocity = first_frames(name, velocity, frames)
        return velocity if velocity.ndim == 4 else velocity[:, :, None].expand(-1, -1, count, 3)

    def _offsets(self, values: Values) -> torch.Tensor:
        """[B, V, 3] initial offsets of its particles from its position [m]."""
        rotation = rotation_matrix(rotation_quaternion(values[f"{self.name}.rotation"]))
        return matrix_vector(rotation[:, None], constant(self.rest))
