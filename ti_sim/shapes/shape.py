"""What every shape offers: a mesh about its centre of mass, mass properties and contact points."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ti_sim.shapes.contact_points import balls, patches, placed
from ti_sim.shapes.mass import MassProperties, integrate_surface
from ti_sim.shapes.surface import TriangleMesh, merge_vertices

if TYPE_CHECKING:
    from ti_sim.shapes.distance import DistanceField


class Shape(ABC):
    """Base of all shapes: a closed surface in the shape's own frame, from which all else follows."""

    @abstractmethod
    def surface(self) -> TriangleMesh:
        """The closed mesh in the shape's own frame, vertices in m."""

    def solid(self) -> MassProperties:
        """Volume, centre of mass and inertia per density of the solid that the shape stands for, in its own frame.

        It is the solid inside the triangles, unless a closed form is known (round shapes, whose triangles are inscribed).
        """
        return integrate_surface(self.surface())

    def collision_surface(self) -> TriangleMesh:
        """The collision mesh in the shape's own frame, vertices in m, each used by a face; it need not be closed."""
        return self.surface()

    def corners(self) -> np.ndarray:
        """The merged vertices [P, 3] of the collision mesh, m, in the shape's own frame (``surface.merge_vertices``)."""
        return merge_vertices(self.collision_surface().vertices)[0]

    def local_contact_points(self) -> np.ndarray:
        """Where it touches a plane, rows [P, POINT_SIZE] (see ``contact_points``) in the shape's own frame.

        The merged vertices of its collision mesh, unless the shape is a round one.
        """
        return balls(self.corners())

    def mesh(self) -> TriangleMesh:
        """The render mesh: vertices [V, 3] float64 in m relative to the CENTRE OF MASS, axes of the own frame."""
        return self.surface().transformed(offset=-self.solid().centre_of_mass)

    @cached_property
    def distance_field(self) -> DistanceField:
        """Signed distance to the solid about its centre of mass, made when it is first asked for.

        Raises:
            UserError: the cells are too coarse for the shape.
        """
        from ti_sim.shapes.distance import sample_distance  # scipy.sparse, which most scenes need not import

        (surface, cells), own = self.field_surface(), self.surface()
        return sample_distance(surface.transformed(offset=self.mesh().vertices[0] - own.vertices[0]), cells=cells)

    def field_surface(self) -> tuple[TriangleMesh, int | None]:
        """What the distance field is sampled of, in the shape's own frame, and cells along its longest side, None for any."""
        return self.surface(), None


def mass_properties(shape: Shape) -> MassProperties:
    """Volume (m3), centre of mass ([3] m, own frame) and inertia per density ([3, 3] m5) of a shape.

    They belong to the solid inside a mesh's triangles; spheres, capsules, cylinders and cones have those of the round body,
    however many triangles show it.

    Args:
        shape: any shape.
    """
    return shape.solid()


def contact_points(shape: Shape, *, per_area: bool = False) -> np.ndarray:
    """Where a shape touches a plane.

    Spheres, capsules, cylinders and cones touch as the round bodies that they are; all others with the merged vertices of their
    collision mesh, distinct within 1e-9 of its extent, in the order in which they first appear there.

    Args:
        shape: any shape.
        per_area: whether contact numbers are meant per area. Every shape then touches with the vertices of its collision mesh,
            round ones too, and each stands for its share of the surface.

    Returns:
        [P, POINT_SIZE] float64 rows (module ``ti_sim.shapes.contact_points``), relative to the centre of mass of the solid that
        has the mass (the render mesh).
    """
    rows = patches(shape.collision_surface()) if per_area else shape.local_contact_points()
    return placed(rows, np.eye(3), -mass_properties(shape).centre_of_mass)


def collision_corners(shape: Shape) -> np.ndarray:
    """The merged vertices [P, 3] of a shape's collision mesh relative to the centre of mass [m]: a mesh's corners for others."""
    return shape.corners() - mass_properties(shape).centre_of_mass
