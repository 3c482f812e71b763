"""The state in which a body starts."""

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
    """State of a body at the start, world frame.

    Attributes:
        position: of a rigid body's centre of mass, or of the origin of a deformable body's mesh [m].
        orientation: quaternion (x, y, z, w) of the body's axes, of any length.
        rotation: rotation vector [rad], applied after ``orientation``; the unknown part of the orientation.
        velocity: m/s; of a deformable body's particles all together, or one for each [V, 3].
        angular_velocity: about ``position`` [rad/s].
        velocity_gradient: G [1/s], (3, 3), of deformable bodies: a particle at r from ``position`` moves by G r more, so that
            with the velocity it has an affine field of 12 numbers.
    """

    position: Vector = (0.0, 0.0, 0.0)
    orientation: Quaternion = UPRIGHT
    rotation: Vector = (0.0, 0.0, 0.0)
    velocity: Array = (0.0, 0.0, 0.0)
    angular_velocity: Vector = (0.0, 0.0, 0.0)
    velocity_gradient: Gradient = 0.0

    def add_to(self, table: ParameterTable, name: str, *, velocity_shape: tuple[int, ...] = (3,)) -> None:
        """Name position, rotation and velocities of the body ``name`` in a table (errors: ``ParameterTable.add``)."""
        table.add(f"{name}.position", self.position, unit="m", shape=(3,))
        table.add(f"{name}.rotation", self.rotation, unit="rad", shape=(3,))
        table.add(f"{name}.velocity", self.velocity, unit="m/s", shape=velocity_shape)
        table.add(f"{name}.angular_velocity", self.angular_velocity, unit="rad/s", shape=(3,))


AT_REST = Start()
