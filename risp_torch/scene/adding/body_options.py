"""Options common to rigid bodies and links: shape, mass, contact and surface."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from risp_torch.scene.parameters import ParameterTable
from risp_torch.scene.parts.contact import Contact, add_contact, is_per_area
from risp_torch.scene.parts.surface import Surface, make_surface_mesh
from risp_torch.scene.spec import SceneSpec
from ti_sim.base.errors import UserError
from ti_sim.base.param import Param
from ti_sim.base.warn import warn
from ti_sim.contact.collision import CollisionShape, mesh_shape
from ti_sim.shapes.contact_points import balls
from ti_sim.shapes.mass import MassProperties, check_inertia
from ti_sim.shapes.mesh import Mesh
from ti_sim.shapes.primitives import Box, Capsule, Sphere
from ti_sim.shapes.shape import Shape, contact_points, mass_properties
from ti_sim.shapes.surface import TriangleMesh

_IGNORED_OVERLAP = 1e-3  # of the volume: smaller overlaps are ignored


@dataclass(frozen=True, eq=False)
class BodyGeometry:
    """Surface, contact points and mass properties of a body.

    Attributes:
        mesh: render mesh about the centre of mass [m], None for an invisible body.
        points: rows of contact points relative to the centre of mass (``ti_sim.shapes.contact_points``).
        mass_properties: volume and inertia per density, None if mass and inertia are given.
    """

    mesh: TriangleMesh | None
    points: np.ndarray
    mass_properties: MassProperties | None


@dataclass(frozen=True, kw_only=True)
class BodyOptions:
    """Options of a rigid body or a link (``Scene.add_rigid``).

    Attributes:
        shape: shape, or geometry from a robot file.
        density, mass, inertia, inertia_per_mass, contact, collision, surface: see ``Scene.add_rigid``.
        may_be_massless: whether its mass may be zero, as of a link to which others are attached.
    """

    shape: Shape | BodyGeometry
    density: Any = None
    mass: Any = None
    inertia: Any = None
    inertia_per_mass: Any = None
    contact: Contact | None = None
    collision: bool = False
    surface: Surface | None = None
    may_be_massless: bool = False

    def check(self, scene: SceneSpec, name: str) -> None:
        """Raise a UserError for options that contradict each other or the scene, before any parameter is added."""
        self._check_mass(name)
        self._check_contact(scene, name)

    def add_mass(self, table: ParameterTable, name: str) -> None:
        """Add mass or density, and the inertia if it is given; the mass may be zero if ``may_be_massless``."""
        if self.density is not None:
            table.add(f"{name}.density", self.density, unit="kg/m3", sign="positive")
        else:
            table.add(f"{name}.mass", self.mass, unit="kg", sign="not negative" if self.may_be_massless else "positive")
        for kind, value, unit in (("inertia", self.inertia, "kg m2"), ("inertia_per_mass", self.inertia_per_mass, "m2")):
            if value is not None:
                check_inertia(
                    value.value if isinstance(value, Param) else value, f"{name}.{kind}", solid=not self.may_be_massless
                )
                table.add(f"{name}.{kind}", value, unit=unit, shape=(3, 3))

    def add_to(self, scene: SceneSpec, name: str) -> dict[str, Any]:
        """Add the parameters of contact and surface, and return the attributes of the ``Body`` that follow from these options."""
        has_ground = scene.ground is not None
        geometry = geometry_of(
            self.shape, has_ground=has_ground, per_area=is_per_area(scene.table, self.contact, has_ground=has_ground)
        )
        self._warn_of_overlap(name)
        if self.contact is not None:
            add_contact(scene.table, f"{name}.contact", self.contact)
        phong, surface = scene.style.shading == "phong", self.surface or Surface()
        mesh = geometry.mesh
        return {
            "surface": None if mesh is None else make_surface_mesh(scene.table, name, mesh, surface, phong=phong),
            "points": geometry.points, "mass_properties": geometry.mass_properties,
            "contact_name": f"{name}.contact" if self.contact is not None else "ground.contact" if has_ground else None,
            "collision": collision_shape(name, self.shape) if self.collision else None,
        }  # fmt: skip

    def _check_mass(self, name: str) -> None:
        if (self.density is None) == (self.mass is None):
            raise UserError(f"{name} needs its density or its mass: give exactly one of the two")
        if self.inertia is not None and self.mass is None:
            raise UserError(f"{name} has an inertia and a density: give its mass with the inertia instead")
        if self.inertia is not None and self.inertia_per_mass is not None:
            raise UserError(f"{name} has an inertia and an inertia_per_mass: give one of the two")

    def _check_contact(self, scene: SceneSpec, name: str) -> None:
        """Raise a UserError for unused contact parameters, and for colliding bodies with none or with parameters per area."""
        has_ground = scene.ground is not None
        if self.collision and is_per_area(scene.table, self.contact, has_ground=has_ground):
            raise UserError(
                f"{name} collides with other bodies, at points, and its contact parameters are per area: give a Contact per point"
            )
        if self.contact is not None and not has_ground and not self.collision:
            raise UserError(f"{name} has a Contact and the scene has no ground: call add_ground first")
        if self.collision and self.contact is None and not has_ground:
            raise UserError(
                f"{name} collides with other bodies and has no contact parameters: give it a Contact, or the scene a ground"
            )

    def _warn_of_overlap(self, name: str) -> None:
        """Warn if mass or inertia are computed from a mesh that intersects itself."""
        has_inertia = self.mass is not None and (self.inertia is not None or self.inertia_per_mass is not None)
        if isinstance(self.shape, Mesh) and not has_inertia and self.shape.miscounted_share > _IGNORED_OVERLAP:
            warn(
                f"the mesh of {name} intersects itself, or has parts that overlap or are inside out: "
                f"{100 * self.shape.miscounted_share:.2g} % of its volume is wrong in mass and inertia: unite its parts in "
                "a mesh editor, or give both numbers",
            )


def geometry_of(shape: Shape | BodyGeometry, *, has_ground: bool, per_area: bool) -> BodyGeometry:
    """The geometry of a shape, or the given geometry; without contact points in a scene without a ground.

    Args:
        shape: shape or geometry of the body.
        has_ground: whether the scene has a ground.
        per_area: whether its contact parameters are per area.
    """
    no_points = balls(np.zeros((0, 3)))
    if isinstance(shape, BodyGeometry):
        return shape if has_ground else replace(shape, points=no_points)
    points = contact_points(shape, per_area=per_area) if has_ground else no_points
    return BodyGeometry(shape.mesh(), points, mass_properties(shape))


def collision_shape(name: str, shape: Shape | BodyGeometry) -> CollisionShape:
    """The shape with which a body collides with others, centred at its centre of mass: box, sphere, capsule, or a distance field.

    Raises:
        UserError: the shape is unknown, or the grid of its distance field is too coarse.
    """
    if isinstance(shape, Sphere):
        return CollisionShape("sphere", (shape.radius,))
    if isinstance(shape, Capsule):
        return CollisionShape("capsule", (shape.radius, 0.5 * shape.length))
    if isinstance(shape, Box):
        return CollisionShape("box", (0.5 * shape.x, 0.5 * shape.y, 0.5 * shape.z))
    if isinstance(shape, BodyGeometry):
        raise UserError(
            f"{name} is made of several shapes and collides with no other bodies: leave collision out, or give it one Shape"
        )
    return mesh_shape(shape)
