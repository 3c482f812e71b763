"""Small changes of a placement: translations and turns of bodies, displacements of particles, all in metres."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from risp_torch.scene.rotations import quaternion_product, rotation_quaternion
from risp_torch.scene.scene import Scene
from risp_torch.scene.states import States, joined_placement, split_placement

MIN_RADIUS = 1e-3  # m, of bodies without extent


@dataclass(frozen=True)
class Tangent:
    """Coordinates of changes of a placement, D = 6 N + 3 P: three of translation and three of turning for each body, then three
    for each particle.

    Attributes:
        bodies, particles: N and P.
        radius: [N] m: root mean square distance of a body's vertices from its centre of mass; turns are multiplied by it.
    """

    bodies: int
    particles: int
    radius: torch.Tensor

    @staticmethod
    def of(scene: Scene, like: torch.Tensor) -> Tangent:
        """The coordinates of a scene, on the device and of the dtype of a tensor."""
        vertices = [None if body.surface is None else body.surface.mesh.vertices for body in scene.bodies]
        radii = [0.0 if v is None else float((v**2).sum(axis=1).mean()) ** 0.5 for v in vertices]
        radius = torch.tensor(radii, dtype=like.dtype, device=like.device).clamp_min(MIN_RADIUS)
        return Tangent(len(scene.bodies), scene.particle_count, radius)

    @property
    def count(self) -> int:
        """D."""
        return 6 * self.bodies + 3 * self.particles

    def extent(self, placement: torch.Tensor) -> float:
        """Size [m] of the largest body, or of all particles, in a placement [rows, columns]: root mean square distances."""
        _, particle_q = split_placement(placement, bodies=self.bodies, particles=self.particles)
        largest = float(self.radius.max()) if self.bodies else 0.0
        if particle_q is None:
            return largest
        return max(largest, float((particle_q - particle_q.mean(dim=0)).norm(dim=-1).square().mean().sqrt()))

    def moved(self, placement: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
        """The placement [..., rows, columns] after a change [..., D]; shapes broadcast before the last two and the last axis."""
        body_q, particle_q = split_placement(placement, bodies=self.bodies, particles=self.particles)
        body_change, particle_change = change.to(placement).split([6 * self.bodies, 3 * self.particles], dim=-1)
        shift, rotation = body_change.unflatten(-1, (self.bodies, 6)).split(3, dim=-1)
        rotated = quaternion_product(rotation_quaternion(rotation / self.radius[:, None]), body_q[..., 3:])
        body_q = torch.cat([body_q[..., :3] + shift, rotated], dim=-1)
        if particle_q is not None:
            particle_q = particle_q + particle_change.unflatten(-1, (self.particles, 3))
        return joined_placement(body_q, particle_q)

    def between(self, first: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
        """The change [..., D] that leads from one placement [..., rows, columns] to another, to second order in the turns."""
        body_q, particle_q = split_placement(first, bodies=self.bodies, particles=self.particles)
        other_q, other_particles = split_placement(last, bodies=self.bodies, particles=self.particles)
        inverse_rotation = torch.cat([-body_q[..., 3:6], body_q[..., 6:]], dim=-1)
        rotation = quaternion_product(other_q[..., 3:], inverse_rotation)
        rotation = 2.0 * rotation[..., :3] * torch.where(rotation[..., 3:] < 0, -1.0, 1.0) * self.radius[:, None]
        change = torch.cat([other_q[..., :3] - body_q[..., :3], rotation], dim=-1).flatten(-2)
        return change if particle_q is None else torch.cat([change, (other_particles - particle_q).flatten(-2)], dim=-1)


def with_placement(states: States, placement: torch.Tensor, tangent: Tangent) -> States:
    """The states of one world at other placements [B, T, rows, columns], for pictures; velocities are those of that world."""
    body_q, particle_q = split_placement(placement, bodies=tangent.bodies, particles=tangent.particles)
    worlds = len(placement)

    def repeated(array: torch.Tensor | None) -> torch.Tensor | None:
        return None if array is None else array[:1].expand(worlds, *array.shape[1:])

    unchanged = {name: repeated(getattr(states, name)) for name in ("body_qd", "diverged_step", "particle_qd", "moment")}
    return replace(states, body_q=body_q, particle_q=particle_q, joint_q=None, joint_qd=None, **unchanged)
