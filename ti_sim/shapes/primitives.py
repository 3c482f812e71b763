"""Boxes and round shapes as closed triangle meshes. Lengths in m; every axis of revolution is z.

The triangles of round shapes are inscribed and used for rendering. Mass, centre of mass, inertia and contact points are those of
the exact round body.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

import numpy as np

from ti_sim.base.rules import Positive, Rule, checked
from ti_sim.shapes.contact_points import balls, rim
from ti_sim.shapes.mass import MassProperties
from ti_sim.shapes.shape import Shape
from ti_sim.shapes.surface import TriangleMesh, single_group_mesh

if TYPE_CHECKING:
    from ti_sim.shapes.distance import DistanceField

Sections = Annotated[int, Rule(integer=True, minimum=3, maximum=4096)]


class _ParametricShape(Shape):
    """A shape defined by numbers, which are stored as plain floats and integers."""

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            object.__setattr__(self, field.name, int(value) if isinstance(field.default, int) else float(value))


@checked
@dataclass(frozen=True)
class Box(_ParametricShape):
    """A box centred at the origin of its frame.

    Its mesh has 8 vertices and 12 faces, two per side; ``face_groups`` are the sides +x, -x, +y, -y, +z, -z as 0 to 5. A texture
    has three columns and two rows: the sides +x, -x, +y and below them -y, +z, -z, each seen from outside with z upwards (+z and
    -z with y upwards).

    Attributes:
        x: full side length along x, m.
        y: full side length along y, m.
        z: full side length along z, m.
    """

    x: Positive
    y: Positive
    z: Positive

    def surface(self) -> TriangleMesh:
        """The twelve triangles; vertex ``4 i + 2 j + k`` has the signs (i, j, k) of its coordinates."""
        signs = np.array([(i, j, k) for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)], dtype=np.float64)
        quads = [(4, 6, 7, 5), (0, 1, 3, 2), (2, 3, 7, 6), (0, 4, 5, 1), (1, 5, 7, 3), (0, 2, 6, 4)]
        faces = np.array([f for a, b, c, d in quads for f in ((a, b, c), (a, c, d))], dtype=np.int32)
        groups = np.repeat(np.arange(6, dtype=np.int32), 2)
        return TriangleMesh(0.5 * signs * (self.x, self.y, self.z), faces, groups, uv=box_uv(signs[faces], groups))


@checked
@dataclass(frozen=True)
class Sphere(_ParametricShape):
    """An icosphere centred at the origin of its frame, with its vertices on the sphere.

    Attributes:
        radius: radius, m.
        subdivisions: 0 is the icosahedron; each subdivision splits every face into four (2: 162 vertices, 320 faces).

    In a texture, u is the longitude (0 at +x, increasing towards +y), v the latitude (1 at +z). Faces across the meridian u = 0
    extend beyond u = 1, so the texture must repeat.
    """

    radius: Positive
    subdivisions: Annotated[int, Rule(integer=True, minimum=0, maximum=7)] = 2

    def surface(self) -> TriangleMesh:
        """The icosphere."""
        vertices, faces = _icosahedron()
        for _ in range(self.subdivisions):
            vertices, faces = _subdivide(vertices, faces)
        return single_group_mesh(self.radius * vertices, faces, uv=sphere_uv(vertices[faces]))

    def local_contact_points(self) -> np.ndarray:
        """The ball."""
        return balls(np.zeros((1, 3)), self.radius)

    def solid(self) -> MassProperties:
        """The ball: I = 2/5 m r2."""
        volume = 4.0 / 3.0 * math.pi * self.radius**3
        moment = 0.4 * volume * self.radius**2
        return _solid_of_revolution(volume, moment, moment)


@checked
@dataclass(frozen=True)
class Capsule(_ParametricShape):
    """A cylinder with two hemispherical caps, centred at the origin of its frame, axis z, with its vertices on the capsule.

    Attributes:
        radius: radius, m.
        length: length of the cylinder without the caps, m; the capsule is ``length + 2 radius`` long.
        sections: number of vertices around the axis; a cap has ``max(2, sections // 4)`` rings of faces.
    """

    radius: Positive
    length: Positive
    sections: Sections = 16

    def surface(self) -> TriangleMesh:
        """The capsule as a surface of revolution."""
        angles = np.linspace(0.0, 0.5 * np.pi, max(2, self.sections // 4) + 1)
        rho, z = self.radius * np.sin(angles), 0.5 * self.length + self.radius * np.cos(angles)
        return _surface_of_revolution(np.concatenate([rho, rho[::-1]])[1:-1], np.concatenate([-z, z[::-1]]), self.sections)

    def local_contact_points(self) -> np.ndarray:
        """The balls at its two ends."""
        return balls(0.5 * self.length * np.array([(0.0, 0.0, -1.0), (0.0, 0.0, 1.0)]), self.radius)

    def solid(self) -> MassProperties:
        """The capsule: a cylinder, and two hemispheres with their centres of mass 3/8 r beyond its ends."""
        r, h = self.radius, self.length
        tube, caps = math.pi * r**2 * h, 4.0 / 3.0 * math.pi * r**3
        transverse_moment = tube * (3.0 * r**2 + h**2) / 12.0 + caps * (0.4 * r**2 + 0.25 * h**2 + 0.375 * r * h)
        return _solid_of_revolution(tube + caps, transverse_moment, 0.5 * tube * r**2 + 0.4 * caps * r**2)


@checked
@dataclass(frozen=True)
class Cylinder(_ParametricShape):
    """A cylinder centred at the origin of its frame, axis z: a prism over an inscribed regular polygon.

    Attributes:
        radius: radius, m.
        height: height, m.
        sections: number of vertices around the axis.
    """

    radius: Positive
    height: Positive
    sections: Sections = 16

    def surface(self) -> TriangleMesh:
        """The prism; the two ends are fans about their centres."""
        low, high = -0.5 * self.height, 0.5 * self.height
        return _surface_of_revolution(np.full(2, self.radius), np.array([low, low, high, high]), self.sections)

    def local_contact_points(self) -> np.ndarray:
        """The rims of its two ends."""
        cap_centers = 0.5 * self.height * np.array([(0.0, 0.0, -1.0), (0.0, 0.0, 1.0)])
        return np.concatenate([rim(center, self.radius, np.array([0.0, 0.0, 1.0])) for center in cap_centers])

    @cached_property
    def distance_field(self) -> DistanceField:
        """Signed distance field of the round body."""
        r, h = self.radius, 0.5 * self.height
        return _field_of_revolution(np.array([(0.0, -h), (r, -h), (r, h), (0.0, h)]), 0.0)

    def solid(self) -> MassProperties:
        """The cylinder: I = m r2 / 2 about its axis, m (3 r2 + h2) / 12 across."""
        r, h = self.radius, self.height
        volume = math.pi * r**2 * h
        return _solid_of_revolution(volume, volume * (3.0 * r**2 + h**2) / 12.0, 0.5 * volume * r**2)


@checked
@dataclass(frozen=True)
class Cone(_ParametricShape):
    """A cone with its base at z = 0 of its frame and its tip at (0, 0, height).

    Attributes:
        radius: radius of the base, m.
        height: height, m.
        sections: number of vertices around the axis.
    """

    radius: Positive
    height: Positive
    sections: Sections = 16

    def surface(self) -> TriangleMesh:
        """The pyramid over an inscribed regular polygon; the base is a fan about its centre."""
        return _surface_of_revolution(np.full(1, self.radius), np.array([0.0, 0.0, self.height]), self.sections)

    def local_contact_points(self) -> np.ndarray:
        """The rim of its base, and its tip."""
        tip = balls(np.array([(0.0, 0.0, self.height)]))
        return np.concatenate([rim(np.zeros(3), self.radius, np.array([0.0, 0.0, 1.0])), tip])

    @cached_property
    def distance_field(self) -> DistanceField:
        """Signed distance field of the round body, relative to its centre of mass."""
        return _field_of_revolution(np.array([(0.0, 0.0), (self.radius, 0.0), (0.0, self.height)]), 0.25 * self.height)

    def solid(self) -> MassProperties:
        """The cone, its centre of mass a quarter of the height above the base: I = 3/10 m r2 and 3/80 m (4 r2 + h2)."""
        r, h = self.radius, self.height
        volume = math.pi * r**2 * h / 3.0
        return _solid_of_revolution(volume, 0.0375 * volume * (4.0 * r**2 + h**2), 0.3 * volume * r**2, height=0.25 * h)


def _field_of_revolution(profile: np.ndarray, height: float) -> DistanceField:
    """Distance field of a convex solid about the z axis, relative to its centre of mass.

    Args:
        profile: [P, 2] corners (radius, z) of its half section from the lower to the upper end of the axis [m].
        height: z of the centre of mass [m].
    """
    from ti_sim.shapes.distance import sample_field  # deferred, as in ``Shape.distance_field``

    profile = profile - [0.0, height]

    def distance(first: np.ndarray, cell: float, counts: tuple[int, int, int]) -> np.ndarray:
        x, y, z = (first[k] + cell * np.arange(counts[k]) for k in range(3))
        rho = np.hypot(x[:, None, None], y[None, :, None])
        position = np.stack(np.broadcast_arrays(rho, z), axis=-1)
        min_distance, half_plane_distance = np.full(counts, np.inf), np.full(counts, -np.inf)
        for start, stop in itertools.pairwise(profile):
            segment = stop - start
            fraction = np.clip((position - start) @ segment / (segment @ segment), 0.0, 1.0)
            min_distance = np.minimum(min_distance, np.linalg.norm(position - start - fraction[..., None] * segment, axis=-1))
            half_plane_distance = np.maximum(
                half_plane_distance, (position - start) @ (segment[1], -segment[0]) / np.hypot(*segment)
            )
        return np.where(half_plane_distance < 0, -min_distance, min_distance)

    radius, low, high = profile[:, 0].max(), profile[0, 1], profile[-1, 1]
    return sample_field(
        distance, np.array([-radius, -radius, low]), np.array([2 * radius, 2 * radius, high - low]),
        float(np.linalg.norm(profile, axis=1).max()),
    )  # fmt: skip


def _solid_of_revolution(volume: float, transverse_moment: float, axial_moment: float, *, height: float = 0.0) -> MassProperties:
    """Mass properties of a solid about the z axis.

    Args:
        volume: m3.
        transverse_moment: moment per density about an axis through the centre of mass orthogonal to z [m5].
        axial_moment: moment per density about z [m5].
        height: z of the centre of mass [m].
    """
    return MassProperties(volume, np.array([0.0, 0.0, height]), np.diag([transverse_moment, transverse_moment, axial_moment]))


def _surface_of_revolution(radii: np.ndarray, heights: np.ndarray, sections: int) -> TriangleMesh:
    """Surface of revolution about z between two poles.

    Texture coordinates: u is the angle about z (0 at +x, increasing towards +y), v the length along the profile from the bottom
    pole (0) to the top pole (1).

    Args:
        radii: [R] m, radii of the rings from bottom to top, all positive.
        heights: [R + 2] m, heights of the bottom pole, the rings and the top pole.
        sections: number of vertices of a ring.
    """
    angles = 2.0 * np.pi * np.arange(sections) / sections
    circle = np.stack([np.cos(angles), np.sin(angles), np.zeros(sections)], axis=1)
    rings = [r * circle + (0.0, 0.0, z) for r, z in zip(radii, heights[1:-1], strict=True)]
    vertices = np.concatenate([[(0.0, 0.0, heights[0])], *rings, [(0.0, 0.0, heights[-1])]])
    section = np.arange(sections)
    next_section = (section + 1) % sections
    ring_starts = 1 + sections * np.arange(len(radii))
    faces = [np.stack([np.zeros_like(section), ring_starts[0] + next_section, ring_starts[0] + section], axis=1)]
    for low, high in zip(ring_starts[:-1], ring_starts[1:], strict=True):
        faces.append(np.stack([low + section, low + next_section, high + next_section], axis=1))
        faces.append(np.stack([low + section, high + next_section, high + section], axis=1))
    faces.append(
        np.stack([np.full_like(section, len(vertices) - 1), ring_starts[-1] + section, ring_starts[-1] + next_section], axis=1)
    )
    return single_group_mesh(vertices, np.concatenate(faces), uv=_surface_of_revolution_uv(radii, heights, sections))


def _surface_of_revolution_uv(radii: np.ndarray, heights: np.ndarray, sections: int) -> np.ndarray:
    """uv [F, 3, 2] of the faces of ``_surface_of_revolution``; a pole gets the angle of the middle of its face."""
    profile = np.concatenate([[0.0], radii, [0.0]])
    arc_length = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(profile), np.diff(heights)))])
    v = arc_length / arc_length[-1]
    left, right = np.arange(sections) / sections, (1.0 + np.arange(sections)) / sections
    middle = 0.5 * (left + right)

    def corner(u: np.ndarray, row: int) -> np.ndarray:
        return np.stack([u, np.full_like(u, v[row])], axis=1)

    uv = [np.stack([corner(middle, 0), corner(right, 1), corner(left, 1)], axis=1)]
    for row in range(1, len(radii)):
        uv.append(np.stack([corner(left, row), corner(right, row), corner(right, row + 1)], axis=1))
        uv.append(np.stack([corner(left, row), corner(right, row + 1), corner(left, row + 1)], axis=1))
    uv.append(np.stack([corner(middle, -1), corner(left, -2), corner(right, -2)], axis=1))
    return np.concatenate(uv)


def box_uv(signs: np.ndarray, sides: np.ndarray) -> np.ndarray:
    """uv [F, 3, 2] of a box from the signs of its corners [F, 3, 3] and the sides of its faces [F]."""
    right = np.array([(0, 1, 0), (0, -1, 0), (-1, 0, 0), (1, 0, 0), (1, 0, 0), (-1, 0, 0)])
    up = np.array([(0, 0, 1)] * 4 + [(0, 1, 0)] * 2)
    across, along = (0.5 + 0.5 * np.einsum("fki,fi->fk", signs, axes[sides]) for axes in (right, up))
    column, row = (sides % 3)[:, None], (sides // 3)[:, None]
    return np.stack([(column + across) / 3.0, (1 - row + along) / 2.0], axis=-1)


def sphere_uv(corners: np.ndarray) -> np.ndarray:
    """uv [F, 3, 2] of faces with corners [F, 3, 3] on the unit sphere; a pole gets the mean angle of its face."""
    u = np.arctan2(corners[..., 1], corners[..., 0]) / (2.0 * np.pi) % 1.0
    is_pole = np.hypot(corners[..., 0], corners[..., 1]) < 1e-9
    low, high = np.where(is_pole, np.inf, u).min(axis=1), np.where(is_pole, -np.inf, u).max(axis=1)
    u = u + ((high - low > 0.5)[:, None] & (u < 0.5))
    mean = np.where(is_pole, 0.0, u).sum(axis=1) / (~is_pole).sum(axis=1)
    v = 0.5 + np.arcsin(np.clip(corners[..., 2], -1.0, 1.0)) / np.pi
    return np.stack([np.where(is_pole, mean[:, None], u), v], axis=-1)


def _icosahedron() -> tuple[np.ndarray, np.ndarray]:
    """Vertices [12, 3] on the unit sphere and faces [20, 3]: two poles and two rings of five."""
    angles = np.arange(10) * np.pi / 5.0
    height = 1.0 / math.sqrt(5.0)
    rings = np.stack([2 * height * np.cos(angles), 2 * height * np.sin(angles), height * (-1.0) ** np.arange(10)], axis=1)
    vertices = np.concatenate([[(0.0, 0.0, 1.0)], rings, [(0.0, 0.0, -1.0)]])
    faces = []
    for k in range(0, 10, 2):  # even ring vertices are in the upper ring, odd ones in the lower ring
        up, down, next_up, next_down = 1 + k, 2 + k, 1 + (k + 2) % 10, 1 + (k + 3) % 10
        faces += [(0, up, next_up), (up, down, next_up), (next_up, down, next_down), (11, next_down, down)]
    return vertices, np.array(faces)


def _subdivide(vertices: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Split every face of a mesh on the unit sphere into four, with the new vertices on the sphere."""
    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    distinct_edges, index = np.unique(np.sort(edges, axis=1), axis=0, return_inverse=True)
    midpoints = vertices[distinct_edges].sum(axis=1)
    midpoints /= np.linalg.norm(midpoints, axis=1, keepdims=True)
    ab, bc, ca = (len(vertices) + index.reshape(3, -1))[:, :, None]
    a, b, c = faces[:, 0:1], faces[:, 1:2], faces[:, 2:3]
    quarters = [np.hstack(face) for face in ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))]
    return np.concatenate([vertices, midpoints]), np.concatenate(quarters)
