"""Shapes of bodies: meshes, mass properties and contact points (SI units, float64, numpy only)."""

from ti_sim.shapes.mass import MassProperties, check_inertia, check_mass
from ti_sim.shapes.mesh import Mesh
from ti_sim.shapes.primitives import Box, Capsule, Cone, Cylinder, Sphere
from ti_sim.shapes.shape import Shape, collision_corners, contact_points, mass_properties
from ti_sim.shapes.surface import TriangleMesh

__all__ = [
    "Box",
    "Capsule",
    "Cone",
    "Cylinder",
    "MassProperties",
    "Mesh",
    "Shape",
    "Sphere",
    "TriangleMesh",
    "check_inertia",
    "check_mass",
    "collision_corners",
    "contact_points",
    "mass_properties",
]
