"""A rigid body of a scene, and the conversion of its parameters to arrays of the solver and the renderer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from risp_torch.scene.numbers import Values
from risp_torch.scene.parts.contact import CONTACT_FIELDS
from risp_torch.scene.parts.surface import SurfaceMesh
from risp_torch.scene.rotations import quaternion_product, rotation_quaternion
from ti_sim.contact.collision import CollisionShape
from ti_sim.shapes.mass import MassProperties
from ti_sim.shapes.surface import TriangleMesh


@dataclass(frozen=True, eq=False)
class Body:
    """A rigid body.

    Attributes:
        name: the body's part of parameter names.
        surface: render mesh about the centre of mass [m] with its reflectance, None for an invisible body.
        points: rows of contact points relative to the centre of mass (``ti_sim.shapes.contact_points``).
        mass_properties: volume and inertia per density, None if mass and inertia are given.
        orientation: quaternion (x, y, z, w) of the body's axes before the parameter "rotation" is applied.
        contact_name: prefix of its contact parameters ("ground.contact" or "<name>.contact"), None without contact.
        collision: the shape with which it collides with other bodies, centred at the centre of mass; None if it does not collide.
    """

    name: str
    surface: SurfaceMesh | None
    points: np.ndarray
    mass_properties: MassProperties | None
    orientation: np.ndarray
    contact_name: str | None
    collision: CollisionShape | None = None

    @property
    def mesh(self) -> TriangleMesh | None:
        """Render mesh about the centre of mass [m], None for an invisible body."""
        return None if self.surface is None else self.surface.mesh

    def mass(self, values: Values) -> torch.Tensor:
        """[B] kg."""
        mass = values.get(f"{self.name}.mass")
        return mass if mass is not None else values[f"{self.name}.density"] * self.mass_properties.volume

    def inertia(self, values: Values) -> torch.Tensor:
        """[B, 3, 3] kg m2 about the centre of mass, body frame."""
        inertia = values.get(f"{self.name}.inertia")
        if inertia is not None:
            return inertia
        mass = self.mass(values)
        inertia_per_mass = values.get(f"{self.name}.inertia_per_mass")
        if inertia_per_mass is None:
            inertia_per_mass = torch.as_tensor(
                self.mass_properties.inertia_per_density / self.mass_properties.volume, dtype=mass.dtype, device=mass.device
            )
        return mass[:, None, None] * inertia_per_mass

    def pose(self, values: Values) -> torch.Tensor:
        """[B, 7] initial position of the centre of mass [m] and quaternion: "rotation" [rad] applied to ``orientation``."""
        rotation_vector = values[f"{self.name}.rotation"]
        orientation = torch.as_tensor(self.orientation, dtype=rotation_vector.dtype, device=rotation_vector.device)
        return torch.cat(
            [values[f"{self.name}.position"], quaternion_product(rotation_quaternion(rotation_vector), orientation)], dim=-1
        )

    def velocity(self, values: Values) -> torch.Tensor:
        """[B, 6] initial velocity [m/s] and angular velocity [rad/s], world frame."""
        return torch.cat([values[f"{self.name}.velocity"], values[f"{self.name}.angular_velocity"]], dim=-1)

    @property
    def drag_names(self) -> tuple[str, str]:
        """Parameter names of its linear and angular drag, if it has drag."""
        return f"{self.name}.linear_drag", f"{self.name}.angular_drag"

    def drag(self, values: Values) -> torch.Tensor:
        """[B, 2] linear drag [N s/m] and angular drag [N m s]; zeros without drag."""
        zero = values["gravity"].new_zeros(values["gravity"].shape[0])
        return torch.stack([values.get(name, zero) for name in self.drag_names], dim=-1)

    def contact(self, values: Values) -> torch.Tensor:
        """[B, 4] ke, kd, kf, mu; zeros (no force) without contact."""
        if self.contact_name is None:
            return values[f"{self.name}.position"].new_zeros(values[f"{self.name}.position"].shape[0], 4)
        return torch.stack([values[f"{self.contact_name}.{field}"] for field in CONTACT_FIELDS], dim=-1)

    def contact_option(self, values: Values, field: str) -> torch.Tensor:
        """[B] an optional number of its contact ("bristle_stiffness" or "radius"), zeros if it has none."""
        zero = values["gravity"].new_zeros(values["gravity"].shape[0])
        return values.get(f"{self.contact_name}.{field}", zero)
