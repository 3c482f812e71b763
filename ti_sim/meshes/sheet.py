"""Meshes of cloth and plane bodies: triangles that share vertices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked
from ti_sim.meshes.attributes import SurfaceAttributes, check_mesh_arrays

FLAT = 1e-9  # of the squared longest side of a triangle: a smaller area is roundoff


@checked
@dataclass(frozen=True, eq=False)
class SheetMesh(SurfaceAttributes):
    """A sheet of triangles.

    Attributes:
        vertices: [V, 3] float64, m; every one belongs to a triangle.
        triangles: [T, 3] int32, counter-clockwise seen from the upper side.

    Raises:
        UserError: the arrays do not fit each other, or a triangle is flat (the message contains its index).
    """

    vertices: np.ndarray
    triangles: np.ndarray

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or "sheet mesh")
        vertices, triangles = check_mesh_arrays(self.vertices, self.triangles, self.name)
        if triangles.shape[1] != 3:
            raise UserError(f"{self.name}: its elements have {triangles.shape[1]} nodes: give triangles (3)")
        object.__setattr__(self, "vertices", vertices)
        object.__setattr__(self, "triangles", triangles)
        a, b, c = np.moveaxis(vertices[triangles], 1, 0)
        longest_side = np.ptp(vertices[triangles], axis=1).max(axis=1)
        is_flat = np.linalg.norm(np.cross(b - a, c - a), axis=1) <= FLAT * longest_side**2
        if is_flat.any():
            raise UserError(
                f"{self.name}: element {int(np.argmax(is_flat))} is flat ({int(is_flat.sum())} of {len(is_flat)} elements are): "
                "its area vanishes: move its corners apart or remove it"
            )
        self._check_attributes()

    @property
    def faces(self) -> np.ndarray:
        """The triangles."""
        return self.triangles
