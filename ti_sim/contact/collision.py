"""Collision shapes of links, the pairs of links that may collide, and their tables for the kernels."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np

from ti_sim.base.errors import UserError
from ti_sim.base.rows import Row
from ti_sim.base.rules import checked
from ti_sim.contact.surface_points import box_features, rim_features, surface_features
from ti_sim.shapes.contact_points import BALL, KIND, POINT_SIZE, POSITION, RIM
from ti_sim.shapes.distance import DistanceField
from ti_sim.shapes.mesh import Mesh
from ti_sim.shapes.shape import Shape, collision_corners, contact_points, mass_properties
from ti_sim.shapes.surface import TriangleMesh

ShapeKind = Literal["sphere", "capsule", "box", "mesh"]

# Sizes of each kind.
_SIZES = {
    "sphere": "(radius,)", "capsule": "(radius, half length)", "box": "(half size x, half size y, half size z)", "mesh": "()",
}  # fmt: skip
_SIZE_COUNT = {"sphere": 1, "capsule": 2, "box": 3, "mesh": 0}

SHAPE = Row(  # columns of the table of shapes
    position=3,  # in the link frame
    quaternion=4,  # unit
    half_size=3,  # of a box; else zero
    radius=1,  # of a sphere or capsule; else zero
    half_length=1,  # of a capsule; else zero
    bounding_radius=1,  # radius of the bounding sphere about the centre; negative for a link without shape
    max_displacement=1,  # distance that the centre may move before the list of near pairs is rebuilt [m]
    grid_low=3,  # first node of a mesh's distance field
    grid_cell=1,  # distance between nodes
    min_half_extent=1,  # half the smallest extent of the shape, or its radius
    revolved=1,  # 1 for a cylinder or cone, whose surface does not change as it spins about z of the shape's frame; else zero
)

# Columns of the table of meshes: first coefficient and nodes along x, y, z of the distance field (zero for other shapes), first
# number of the features of a box or mesh (``surface_points``). All these numbers are in one array (``WorldArrays.mesh_data``).
MESH = Row(first_coefficient=1, nodes=3, first_feature=1)

# Columns of the table of pairs. In a pair, spheres and capsules come before other shapes. The contacts of a round shape are
# numbered; those of boxes and meshes are the features of both shapes.
PAIR = Row(first_link=1, second_link=1, contact_kind=1, contacts=1, first_features=1, second_features=1)

# Kinds of contact of a pair: a line with a radius and any shape; features of each shape with the other.
ROUND, SURFACES = range(2)

# Bits of the kinds of pairs that kernels are compiled for.
WITH_ROUND, WITH_SURFACES = 1, 2

# Columns of the list of near pairs of a world: their number (negative before the first list), the number of shape tests and of
# lists built since the start, the first pair that contact could not resolve (negative for none), the reason, the step, the pairs.
NEAR = Row(count=1, tests=1, lists=1, faulty_pair=1, fault=1, fault_step=1, first_pair=1)

# Reasons why contact cannot resolve a pair: it overlaps deeper than half of the smallest half size of both, or moves that far in
# a step.
TOO_DEEP, TOO_FAST = range(2)

_INSCRIBED_SCALE, _PRISM_SIDES = 0.98, 16  # radius over that of a cylinder or cone, and sides, of the prism or pyramid inside
_DISPLACEMENT_FRACTION = 0.5  # fraction of the bounding radius of a shape


@checked
@dataclass(frozen=True)
class CollisionShape:
    """Shape with which a link collides with other links; fixed to the link and equal in every world.

    Attributes:
        kind: "sphere", "capsule" (along z of the shape's frame), "box" or "mesh" (see ``mesh_shape``).
        size: m; (radius,), (radius, half length of the straight part), the three half sizes, or () for a mesh.
        position: centre in the link frame [m].
        quaternion: (x, y, z, w) of the shape's frame in the link frame; any length above zero.
        distance: distance field of a mesh, in the shape's frame; None for the other kinds.
        surface: surface of a mesh, in the shape's frame [m]; None for the other kinds.
        corners: [V, 3] points of a mesh that are always contact points [m]; None for the other kinds.
        rims: [R, POINT_SIZE] round rims of a mesh, see ``surface_points.rim_features``.
    """

    kind: ShapeKind
    size: tuple[float, ...]
    position: tuple[float, float, float] = (0.0, 0.0, 0.0)
    quaternion: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 1.0)
    distance: DistanceField | None = None
    corners: np.ndarray | None = field(default=None, repr=False, compare=False)
    surface: TriangleMesh | None = field(default=None, repr=False, compare=False)
    rims: np.ndarray = field(default_factory=lambda: np.zeros((0, POINT_SIZE)), repr=False, compare=False)

    def __post_init__(self) -> None:
        if np.shape(self.size) != (_SIZE_COUNT[self.kind],) or not all(0 < x < np.inf for x in self.size):
            raise UserError(
                f"the size of a {self.kind} is {_SIZES[self.kind]}, all above zero and finite: {self.size!r} does not fit"
            )
        has_table = [table is not None for table in (self.distance, self.corners, self.surface)]
        if (self.kind == "mesh" and not all(has_table)) or (self.kind != "mesh" and any(has_table)):
            raise UserError(
                "a collision shape has a distance field, corners and a surface if it is a mesh, and only then: use mesh_shape"
            )
        if np.shape(self.position) != (3,) or not np.isfinite(self.position).all():
            raise UserError(f"the position of a collision shape is three finite numbers in m: {self.position!r} does not fit")
        if np.shape(self.quaternion) != (4,) or not 0 < np.linalg.norm(self.quaternion) < np.inf:
            raise UserError(
                f"the quaternion of a collision shape is four finite numbers, not all zero: {self.quaternion!r} does not fit"
            )

    @property
    def bounding_radius(self) -> float:
        """Radius of the bounding sphere about the centre [m]."""
        if self.kind == "mesh":
            return max(self.distance.bounding_radius, float(np.linalg.norm(self._points, axis=1).max()))
        return float(np.linalg.norm(self.size) if self.kind == "box" else np.sum(self.size))

    @property
    def min_half_extent(self) -> float:
        """Half the smallest extent along the axes of the shape's frame [m]; the radius of a round shape."""
        if self.kind == "mesh":
            return 0.5 * float(np.ptp(self._points, axis=0).min())
        return float(min(self.size) if self.kind == "box" else self.size[0])

    @property
    def _points(self) -> np.ndarray:
        """Corners of a mesh and vertices of its surface [n, 3] m."""
        return np.concatenate([self.corners, self.surface.vertices])

    @cached_property
    def features(self) -> np.ndarray:
        """Features [F, FEATURE_SIZE] of a box or mesh, see ``surface_points``."""
        if self.kind == "box":
            return box_features(np.array(self.size))
        rows = [surface_features(self.corners, self.surface)] + ([rim_features(self.rims)] if len(self.rims) else [])
        return np.concatenate([*rows[1:], rows[0]])

    def row(self) -> np.ndarray:
        """Row of the table of shapes, without ``max_displacement``, [SHAPE.size] float64."""
        row = np.zeros(SHAPE.size)
        row[SHAPE.position : SHAPE.position + 3] = self.position
        row[SHAPE.quaternion : SHAPE.quaternion + 4] = np.asarray(self.quaternion, dtype=float) / np.linalg.norm(self.quaternion)
        if self.kind == "box":
            row[SHAPE.half_size : SHAPE.half_size + 3] = self.size
        elif self.kind == "mesh":
            row[SHAPE.grid_low : SHAPE.grid_low + 3] = self.distance.low
            row[SHAPE.grid_cell] = self.distance.cell
            row[SHAPE.revolved] = len(self.rims) > 0
        else:
            row[SHAPE.radius : SHAPE.radius + len(self.size)] = self.size
        row[SHAPE.bounding_radius] = self.bounding_radius
        row[SHAPE.min_half_extent] = self.min_half_extent
        return row


@checked
def mesh_shape(shape: Shape, *, position: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> CollisionShape:
    """Collision shape of kind "mesh" from any shape, placed by its centre of mass; samples its distance field.

    Args:
        shape: other shapes collide with its distance field (``Shape.distance_field``); its own contact points are its collision
            vertices, and points of the large faces and sharp edges of the field's surface.
        position: centre of mass in the link frame [m].

    Raises:
        UserError: the cells of the distance field are too coarse.
    """
    solid = shape.collision if isinstance(shape, Mesh) and isinstance(shape.collision, Shape) else shape
    rows, corners = contact_points(shape), collision_corners(shape)
    rims = rows[rows[:, KIND] == RIM]
    if len(rims):  # a cylinder or cone: a prism or pyramid inside, which touches with its edges where its rims do not
        corners = rows[rows[:, KIND] == BALL, POSITION : POSITION + 3]
        solid = replace(solid, radius=_INSCRIBED_SCALE * solid.radius, sections=_PRISM_SIDES)
    surface = solid.surface().transformed(offset=-mass_properties(shape).centre_of_mass)
    return CollisionShape("mesh", (), position, distance=shape.distance_field, corners=corners, surface=surface, rims=rims)


def check_shapes(
    names: tuple[str, ...], shapes: tuple[CollisionShape | None, ...], pairs: tuple[tuple[int, int], ...] | None
) -> None:
    """Raise a UserError if shapes or pairs do not fit the links."""
    n = len(names)
    if shapes and len(shapes) != n:
        raise UserError(f"collision_shape holds {len(shapes)} entries for {n} links: give one per link (None for none), or ()")
    checked_pairs: set[frozenset[int]] = set()
    for pair in pairs or ():
        if len(pair) != 2 or not all(0 <= i < n for i in pair) or pair[0] == pair[1]:
            raise UserError(f"collision_pairs holds {pair!r}: a pair is two different links out of 0 to {n - 1}")
        if frozenset(pair) in checked_pairs:
            raise UserError(f"collision_pairs holds {names[pair[0]]!r} and {names[pair[1]]!r} twice: list each pair once")
        checked_pairs.add(frozenset(pair))
        for i in pair:
            if not shapes or shapes[i] is None:
                raise UserError(f"collision_pairs names link {names[i]!r}, which has no collision_shape: give it one")


def possible_pairs(
    parents: tuple[int, ...], joint_types: tuple[str, ...], shapes: tuple[CollisionShape | None, ...]
) -> list[tuple[int, int]]:
    """Pairs of links with shapes that may collide.

    Excluded are links that are fixed to each other (connected by fixed joints, or both fixed to the world), and links with one
    joint between them: a link and its parent, including the links fixed to either of them.
    """
    fixed_root = list(range(len(parents)))  # first of the links that are connected to a link by fixed joints
    for i, (parent, kind) in enumerate(zip(parents, joint_types, strict=True)):
        if kind == "fixed" and parent >= 0:
            fixed_root[i] = fixed_root[parent]
    is_fixed = [parents[i] < 0 and joint_types[i] == "fixed" for i in fixed_root]
    parent_root = [fixed_root[parents[i]] if parents[i] >= 0 else -1 for i in fixed_root]
    links_with_shape = [i for i, shape in enumerate(shapes) if shape is not None]
    return [
        (i, j)
        for k, i in enumerate(links_with_shape)
        for j in links_with_shape[k + 1 :]
        if fixed_root[i] != fixed_root[j]
        and parent_root[i] != fixed_root[j]
        and parent_root[j] != fixed_root[i]
        and not (is_fixed[i] and is_fixed[j])
    ]


def shape_rows(shapes: tuple[CollisionShape | None, ...], moves: np.ndarray) -> np.ndarray:
    """Table of shapes, one row per link, [max(N, 1), SHAPE.size] float64.

    ``moves`` [N] says which shapes can move. ``max_displacement`` of a shape is half its bounding radius, at most the median
    bounding radius of all shapes; zero for a shape that cannot move.
    """
    rows = np.zeros((max(len(shapes), 1), SHAPE.size))
    rows[:, SHAPE.bounding_radius] = -1
    for i, shape in enumerate(shapes):
        if shape is not None:
            rows[i] = shape.row()
    radii = rows[rows[:, SHAPE.bounding_radius] > 0, SHAPE.bounding_radius]
    for i in range(len(shapes)):
        if shapes[i] is not None and moves[i]:
            max_radius = 2 * float(np.median(radii))
            rows[i, SHAPE.max_displacement] = _DISPLACEMENT_FRACTION * min(rows[i, SHAPE.bounding_radius], max_radius)
    return rows


def mesh_rows(shapes: tuple[CollisionShape | None, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Tables of boxes and meshes: (one row per link [max(N, 1), MESH.size] int32, all coefficients and features, float64).

    An array shared by several links is stored once.
    """
    rows, table_parts, first_number, table_size = np.zeros((max(len(shapes), 1), MESH.size), dtype=np.int32), [np.zeros(1)], {}, 1
    for i, shape in enumerate(shapes):
        if shape is not None and shape.kind in ("mesh", "box"):
            arrays = {MESH.first_feature: shape.features}
            if shape.kind == "mesh":
                rows[i, MESH.nodes : MESH.nodes + 3] = shape.distance.coefficients.shape
                arrays[MESH.first_coefficient] = shape.distance.coefficients
            for column, array in arrays.items():
                if id(array) not in first_number:
                    first_number[id(array)] = table_size
                    table_parts.append(array.ravel())
                    table_size += array.size
                rows[i, column] = first_number[id(array)]
    return rows, np.concatenate(table_parts)


def pair_rows(shapes: tuple[CollisionShape | None, ...], pairs: list[tuple[int, int]]) -> np.ndarray:
    """Table of pairs, [max(P, 1), 6] int32, with the columns of ``PAIR``."""
    order = ("sphere", "capsule", "box", "mesh")
    rows = []
    for pair in pairs:
        i, j = sorted(pair, key=lambda link: max(order.index(shapes[link].kind), 1))
        first, second = shapes[i], shapes[j]
        if first.kind in ("box", "mesh"):
            rows.append((i, j, SURFACES, 0, len(first.features), len(second.features)))
        else:
            rows.append((i, j, ROUND, 3 if first.kind == "capsule" and second.kind in ("box", "mesh") else 1, 0, 0))
    return np.array(rows or [(0,) * 6], dtype=np.int32)
