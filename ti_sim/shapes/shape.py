"""Interface of all shapes: a mesh relative to the centre of mass, mass properties and contact points."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ti_sim.base.rules import checked
from ti_sim.shapes.contact_points import balls, patches, placed
from ti_sim.shapes.mass import MassProperties, integrate_surface
from ti_sim.shapes.surface import TriangleMesh, merge_vertices

if TYPE_CHECKING:
    from ti_sim.shapes.distance import DistanceField


class Shape(ABC):
    """Base class of all shapes: a closed surface in the shape's frame, from which all other properties follow."""

    @abstractmethod
    def surface(self) -> TriangleMesh:
        """The closed mesh in the shape's frame, vertices in m."""

    def solid(self) -> MassProperties:
        """Volume, centre of mass and inertia per density of the solid, in the shape's frame.

        The solid is the inside of the triangles; for round shapes, whose triangles are inscribed, it is the exact round body.
        """
        return integrate_surface(self.surface())

    def collision_surface(self) -> TriangleMesh:
        """The collision mesh in the shape's frame, vertices in m, each used by a face; not necessarily closed."""
        return self.surface()

    def corners(self) -> np.ndarray:
        """The merged vertices [P, 3] of the collision mesh, m, in the shape's frame (``surface.merge_vertices``)."""
        return merge_vertices(self.collision_surface().vertices)[0]

    def local_contact_points(self) -> np.ndarray:
        """Contact points with a plane in the shape's frame, rows [P, POINT_SIZE] (see ``contact_points``).

        These are the merged vertices of the collision mesh, unless the shape is round.
        """
        return balls(self.corners())

    def mesh(self) -> TriangleMesh:
        """The render mesh: vertices [V, 3] float64 in m relative to the CENTRE OF MASS, axes of the shape's frame."""
        return self.surface().transformed(offset=-self.solid().centre_of_mass)

    @cached_property
    def distance_field(self) -> DistanceField:
        """Signed distance field relative to the centre of mass, computed at the first call.

        Raises:
            UserError: the cells are too coarse for the shape.
        """
        from ti_sim.shapes.distance import sample_distance  # deferred: imports scipy.sparse, which most scenes do not need

        (surface, cells), own_surface = self.field_surface(), self.surface()
        return sample_distance(surface.transformed(offset=self.mesh().vertices[0] - own_surface.vertices[0]), cells=cells)

    def field_surface(self) -> tuple[TriangleMesh, int | None]:
        """Surface of the distance field in the shape's frame, and number of cells along its longest side, None for the default.
        """
        return self.surface(), None


@checked
def mass_properties(shape: Shape) -> MassProperties:
    """Volume (m3), centre of mass ([3] m, shape's frame) and inertia per density ([3, 3] m5) of a shape.

    For a mesh they are those of the solid inside its triangles; for spheres, capsules, cylinders and cones those of the exact
    round body, independent of the number of triangles.

    Args:
        shape: any shape.
    """
    return shape.solid()


@checked
def contact_points(shape: Shape, *, per_area: bool = False) -> np.ndarray:
    """Contact points of a shape with a plane.

    Spheres, capsules, cylinders and cones have the contact points of exact round bodies; other shapes those of the merged
    vertices of their collision mesh (within 1e-9 of its extent), in the order of their first appearance.

    Args:
        shape: any shape.
        per_area: whether contact parameters are per area. All shapes, also round ones, then have the vertices of their collision
            mesh as contact points, each with its share of the surface.

    Returns:
        [P, POINT_SIZE] float64 rows (module ``ti_sim.shapes.contact_points``), relative to the centre of mass of the solid of the
        render mesh.
    """
    rows = patches(shape.collision_surface()) if per_area else shape.local_contact_points()
    return placed(rows, np.eye(3), -mass_properties(shape).centre_of_mass)


def collision_corners(shape: Shape) -> np.ndarray:
    """The merged vertices [P, 3] of a shape's collision mesh relative to the centre of mass [m]: corners of a collision mesh."""
    return shape.corners() - mass_properties(shape).centre_of_mass
