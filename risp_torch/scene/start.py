"""The initial state of a body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from risp_torch.scene.arguments import UPRIGHT, Array, Quaternion, Vector
from risp_torch.scene.parameters import ParameterTable
from ti_sim.base.rules import Rule, checked

Gradient = Annotated[Any, Rule(shape=(3, 3), param=True)]


@checked
@dataclass(frozen=True, kw_only=True)
class Start:
    """Initial state of a body, world frame.

    Attributes:
        position: centre of mass of a rigid body, or origin of a deformable body's mesh [m].
        orientation: quaternion (x, y, z, w) of the body's axes, of any length.
        rotation: rotation vector [rad], applied after ``orientation``; the unknown part of the orientation.
        velocity: m/s; for a deformable body one for all particles, or [V, 3].
        angular_velocity: about ``position`` [rad/s].
        velocity_gradient: G [1/s], (3, 3), of deformable bodies: adds the velocity G r to a particle at r from ``position``, so
            that with the velocity the field is affine with 12 parameters.
    """

    position: Vector = (0.0, 0.0, 0.0)
    orientation: Quaternion = UPRIGHT
    rotation: Vector = (0.0, 0.0, 0.0)
    velocity: Array = (0.0, 0.0, 0.0)
    angular_velocity: Vector = (0.0, 0.0, 0.0)
    velocity_gradient: Gradient = 0.0

    def add_to(self, table: ParameterTable, name: str, *, velocity_shape: tuple[int, ...] = (3,)) -> None:
        """Add position, rotation and velocities of the body ``name`` to a table (errors: ``ParameterTable.add``)."""
        table.add(f"{name}.position", self.position, unit="m", shape=(3,))
        table.add(f"{name}.rotation", self.rotation, unit="rad", shape=(3,))
        table.add(f"{name}.velocity", self.velocity, unit="m/s", shape=velocity_shape)
        table.add(f"{name}.angular_velocity", self.angular_velocity, unit="rad/s", shape=(3,))


AT_REST = Start()
