"""Parametric meshes centred at the origin: boxes, spheres, gears, sheets. Lengths in m."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from ti_sim.base.errors import UserError
from ti_sim.base.rules import Positive, Rule, checked
from ti_sim.meshes.sheet import SheetMesh
from ti_sim.meshes.solid import SolidMesh, quadratic
from ti_sim.shapes.primitives import Sphere, box_uv, sphere_uv
from ti_sim.shapes.surface import merge_vertices

Lengths = Annotated[Sequence[float], Rule(shape=(3,), exact=True, above=0)]
Cells = Annotated[Sequence[int], Rule(shape=(3,), exact=True, integer=True, minimum=1)]

# The corners of a cell are numbered 4 i + 2 j + k; its five tetrahedra are the inner one and those at the four other corners.
_FIVE_EVEN = ((0, 6, 3, 5), (4, 0, 5, 6), (2, 0, 6, 3), (1, 0, 3, 5), (7, 6, 5, 3))
_FIVE_ODD = ((7, 1, 2, 4), (3, 7, 1, 2), (5, 7, 4, 1), (6, 7, 2, 4), (0, 1, 4, 2))
_HEX = (0, 4, 6, 2, 1, 5, 7, 3)  # VTK order


@checked
def box_tets(size: Lengths, cells: Cells) -> SolidMesh:
    """A box with five tetrahedra per cell.

    Neighbouring cells are mirror images of each other, so their diagonals match, no direction is preferred, and the mesh is
    symmetric along every axis with an even number of cells. The order of vertices and elements is z fastest, then y, then x.
    Linear tetrahedra lock in bending; ``box_hexes`` and ``box_tet10s`` do not.

    Args:
        size: full side lengths along x, y, z, m.
        cells: number of cells along x, y, z.

    Returns:
        ``5 nx ny nz`` tetrahedra; face groups and uv as those of ``ti_sim.shapes.Box``.

    Raises:
        UserError: a length is not finite and positive, or a number of cells is not a positive integer.
    """
    vertices, corners = _grid(size, cells)
    return _with_box_attributes(SolidMesh(vertices, _five_tets(corners, [int(count) for count in cells]), name="box"))


@checked
def box_hexes(size: Lengths, cells: Cells) -> SolidMesh:
    """A box with one hexahedron per cell; vertices, elements, arguments, attributes and errors as in ``box_tets``.

    Args:
        size: full side lengths along x, y, z, m.
        cells: number of cells along x, y, z.
    """
    vertices, corners = _grid(size, cells)
    return _with_box_attributes(SolidMesh(vertices, corners[:, np.array(_HEX)], name="box"))


@checked
def box_tet10s(size: Lengths, cells: Cells) -> SolidMesh:
    """A box with five ten-node tetrahedra per cell: ``box_tets`` made quadratic.

    Args:
        size: full side lengths along x, y, z, m.
        cells: number of cells along x, y, z.
    """
    return quadratic(box_tets(size, cells))


@checked
def sphere_tets(radius: Positive, resolution: Annotated[int, Rule(integer=True, minimum=2, maximum=40)] = 3) -> SolidMesh:
    """A ball of tetrahedra with the outer vertices on the sphere.

    The twenty tetrahedra between the centre and the faces of an icosahedron are divided ``resolution`` times along each edge,
    every layer of vertices is projected onto a sphere, and each octahedron in between is split along its shortest diagonal. The
    innermost two layers are merged into a fan of 80 tetrahedra about the centre.

    Args:
        radius: m.
        resolution: layers from the centre to the surface, at least 2.

    Returns:
        ``20 resolution^3 - 80`` tetrahedra (460 by default) with the uv of ``ti_sim.shapes.Sphere``.

    Raises:
        UserError: the radius is not finite and positive, or the resolution is not an integer from 2 to 40.
    """
    n = int(resolution)
    icosahedron = Sphere(1.0, subdivisions=0).surface()
    triangles = icosahedron.vertices[icosahedron.faces]  # [20, 3, 3]
    lattices = _lattice_tets(n)  # [cells, 4 or 6, 4] integer barycentric coordinates, the first that of the centre
    tets = np.concatenate([_tets_in_ball(lattice, triangles, n) for lattice in lattices if len(lattice)])
    points, index = merge_vertices(tets.reshape(-1, 3))
    indices = index.reshape(-1, 4)
    corners = points[indices]
    is_inverted = np.linalg.det(corners[:, 1:] - corners[:, :1]) < 0
    indices[is_inverted] = indices[is_inverted][:, [1, 0, 2, 3]]
    mesh = SolidMesh(radius * points, indices, name="sphere")
    return mesh.with_attributes(uv=sphere_uv(points[mesh.faces]))


@checked
def gear_tets(
    radii: Lengths, width: Positive, *, teeth: Annotated[int, Rule(integer=True, minimum=3, maximum=1000)] = 12,
    cells: Annotated[Sequence[int], Rule(shape=(4,), exact=True, integer=True, minimum=1)] = (4, 2, 1, 2),
) -> SolidMesh:
    """A gear wheel with a hole, its axis along z, one of its teeth at +x.

    Cells of five tetrahedra in polar coordinates, with the symmetry of ``box_tets``. A tooth takes half a pitch and is narrower
    at its tip.

    Args:
        radii: radii of the hole, of the gaps between the teeth and of their tips, ascending, m.
        width: width along the axis, m.
        teeth: number of teeth, at least 3.
        cells: number of cells around the axis per tooth and gap (even), along the radius in the rim and in the teeth, and along
            the axis.

    Returns:
        ``5 teeth (around rim + around / 2 tooth) axial`` tetrahedra with the four numbers of ``cells``, 1,200 by default.

    Raises:
        UserError: a length is not finite and positive, the radii do not ascend, or a number is not an integer in its range.
    """
    inner, root, tip = (float(radius) for radius in radii)
    if not inner < root < tip:
        raise UserError(f"gear_tets: radii is {radii!r}: give those of the hole, of the gaps and of the tips, ascending")
    cells_around, rim, tooth, axial = (int(count) for count in cells)
    if cells_around % 2:
        raise UserError(f"gear_tets: cells is {cells!r}: give an even number around each tooth, one half for the gap")
    radius = np.concatenate([np.linspace(inner, root, rim + 1), np.linspace(root, tip, tooth + 1)[1:]])
    # Positions around a tooth as fractions of a pitch, the tooth between -1/4 and 1/4; its flanks are inclined.
    position = np.arange(cells_around) / cells_around - 0.25
    radial_factor = np.minimum(1.0, (root / radius) ** 2)[:, None]
    inclined_position = np.where(np.abs(position) <= 0.25, radial_factor * position, position)
    angle = 2 * np.pi / teeth * (np.arange(teeth)[:, None] + inclined_position[:, None, :])
    angle = angle.reshape(len(radius), -1)
    cross_section = radius[:, None, None] * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    height = width * (np.arange(axial + 1) / axial - 0.5)
    vertices = np.concatenate(
        [np.repeat(cross_section[:, :, None], axial + 1, axis=2), np.broadcast_to(height[:, None], (*angle.shape, axial + 1, 1))],
        axis=-1,
    ).reshape(-1, 3)
    vertex_index = np.arange(len(vertices)).reshape(*angle.shape, axial + 1)
    vertex_index = np.concatenate([vertex_index, vertex_index[:, :1]], axis=1)
    counts = (rim + tooth, teeth * cells_around, axial)
    i, j, _ = np.indices(counts)
    in_gear = (i < rim) | (j % cells_around < cells_around // 2)
    tets = _five_tets(_cell_corners(vertex_index), counts).reshape(-1, 5, 4)[in_gear.ravel()].reshape(-1, 4)
    used, indices = np.unique(tets, return_inverse=True)
    return SolidMesh(vertices[used], indices.reshape(-1, 4), name="gear")


@checked
def sheet_grid(
    size: Annotated[Sequence[float], Rule(shape=(2,), exact=True, above=0)],
    cells: Annotated[Sequence[int], Rule(shape=(2,), exact=True, integer=True, minimum=1)],
) -> SheetMesh:
    """A rectangular sheet in the plane z = 0, upper side towards +z, with two triangles per cell.

    The diagonals alternate between cells, so no direction is preferred. The order of vertices is y fastest, then x.

    Args:
        size: full side lengths along x and y, m.
        cells: number of cells along x and y.

    Returns:
        ``2 nx ny`` triangles; uv (0, 0) at the corner of least x and y, (1, 1) at the opposite one.

    Raises:
        UserError: a length is not finite and positive, or a number of cells is not a positive integer.
    """
    lengths = np.asarray(size, dtype=np.float64)
    nx, ny = (int(count) for count in cells)
    u, v = np.meshgrid(np.arange(nx + 1) / nx, np.arange(ny + 1) / ny, indexing="ij")
    uv = np.stack([u.ravel(), v.ravel()], axis=1)
    i, j = (axis.ravel() for axis in np.indices((nx, ny)))
    a = i * (ny + 1) + j
    b, c, d = a + ny + 1, a + ny + 2, a + 1
    even = np.stack([a, b, c, a, c, d], axis=1)
    odd = np.stack([a, b, d, b, c, d], axis=1)
    triangles = np.where(((i + j) % 2 == 1)[:, None], odd, even).reshape(-1, 3)
    vertices = np.concatenate([(uv - 0.5) * lengths, np.zeros((len(uv), 1))], axis=1)
    return SheetMesh(vertices, triangles, uv=uv[triangles], name="sheet")


@checked
def sheet_disk(radius: Positive, resolution: Annotated[int, Rule(integer=True, minimum=1, maximum=1000)] = 8) -> SheetMesh:
    """A circular sheet in the plane z = 0, upper side towards +z, of rings of nearly equilateral triangles.

    Args:
        radius: m.
        resolution: number of rings; ring k has 6 k vertices.

    Returns:
        ``6 resolution^2`` triangles; uv of a square image of side ``2 radius``.

    Raises:
        UserError: the radius is not finite and positive, or the resolution is not a positive integer.
    """
    n = int(resolution)
    rings = np.arange(1, n + 1)
    angles = np.concatenate([2.0 * np.pi * np.arange(6 * ring) / (6 * ring) for ring in rings])
    distance = np.repeat(rings, 6 * rings) / n
    unit_disk = np.concatenate([np.zeros((1, 2)), distance[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)])
    triangles = []
    for ring in range(1, n + 1):
        outer_start, inner_start = 1 + 3 * ring * (ring - 1), 1 + 3 * (ring - 1) * (ring - 2) if ring > 1 else 0
        for sector in range(6):
            outer_ring = [outer_start + (sector * ring + k) % (6 * ring) for k in range(ring + 1)]
            inner_ring = [inner_start + (sector * (ring - 1) + k) % max(1, 6 * (ring - 1)) for k in range(ring)]
            triangles += [(inner_ring[k], outer_ring[k], outer_ring[k + 1]) for k in range(ring)]
            triangles += [(inner_ring[k], outer_ring[k + 1], inner_ring[k + 1]) for k in range(ring - 1)]
    vertices = np.concatenate([radius * unit_disk, np.zeros((len(unit_disk), 1))], axis=1)
    return SheetMesh(vertices, np.array(triangles), uv=(0.5 + 0.5 * unit_disk)[np.array(triangles)], name="disk")


def _grid(size: Sequence[float], cells: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Vertices [V, 3] of a box about the origin, and the eight corners [cells, 8] of each cell, numbered 4 i + 2 j + k."""
    lengths, counts = np.asarray(size, dtype=np.float64), [int(count) for count in cells]
    axes = [length * (np.arange(count + 1) / count - 0.5) for length, count in zip(lengths, counts, strict=True)]
    vertices = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    return vertices, _cell_corners(np.arange(len(vertices)).reshape([count + 1 for count in counts]))


def _cell_corners(vertex_index: np.ndarray) -> np.ndarray:
    """The eight corners [cells, 8] of each cell of a grid of vertices with these indices [nx + 1, ny + 1, nz + 1]."""
    nx, ny, nz = (count - 1 for count in vertex_index.shape)
    corners = [vertex_index[i : nx + i, j : ny + j, k : nz + k].ravel() for i in (0, 1) for j in (0, 1) for k in (0, 1)]
    return np.stack(corners, axis=1)


def _five_tets(corners: np.ndarray, counts: Sequence[int]) -> np.ndarray:
    """Five tetrahedra [5 cells, 4] for each cell of a grid of ``counts``, from its corners [cells, 8]."""
    is_odd = (np.indices(counts).sum(axis=0).reshape(-1) % 2 == 1)[:, None, None]
    return np.where(is_odd, corners[:, np.array(_FIVE_ODD)], corners[:, np.array(_FIVE_EVEN)]).reshape(-1, 4)


def _with_box_attributes(mesh: SolidMesh) -> SolidMesh:
    """The mesh of a box with its sides as face groups, and their uv."""
    corners = mesh.vertices[mesh.faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    axis = np.argmax(np.abs(normals), axis=1)
    sides = 2 * axis + (np.take_along_axis(normals, axis[:, None], axis=1)[:, 0] < 0)
    return mesh.with_attributes(face_groups=sides, uv=box_uv(corners / mesh.vertices.max(axis=0), sides))


def _lattice_tets(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Cells of a tetrahedron divided n times along each edge, without the innermost two layers, which are one fan.

    Returns:
        Barycentric coordinates times n: tetrahedra [T, 4, 4] and octahedra [O, 6, 4] (three pairs of opposite corners).
    """
    unit = np.eye(4, dtype=np.int64)
    tets, octahedra = [], []
    for total, corners, cells in (
        (n - 1, [unit[k] for k in range(4)], tets),
        (n - 2, [unit[a] + unit[b] for a, b in ((0, 1), (2, 3), (0, 2), (1, 3), (0, 3), (1, 2))], octahedra),
        (n - 3, [1 - unit[k] for k in range(4)], tets),
    ):
        bases = [
            (a, b, c, total - a - b - c) for a in range(n - 2) for b in range(total + 1 - a) for c in range(total + 1 - a - b)
        ]  # a < n - 2: the lowest corner is at least two layers from the centre
        cells += [np.array(base) + np.array(corners) for base in bases]
    centre = n * unit[0]
    layer = [(2, 0, 0), (1, 1, 0), (1, 0, 1), (0, 2, 0), (0, 1, 1), (0, 0, 2)]
    for face in ((0, 1, 2), (1, 3, 4), (2, 4, 5), (1, 4, 2)):
        tets.append(np.array([centre] + [(n - 2, *layer[k]) for k in face]))
    return np.array(tets), np.array(octahedra).reshape(-1, 6, 4)


def _tets_in_ball(lattice: np.ndarray, triangles: np.ndarray, n: int) -> np.ndarray:
    """Corners [T, 4, 3] of tetrahedra in the unit ball, from lattice cells between the centre and triangles [20, 3, 3]."""
    direction = np.einsum("cpk,fkx->fcpx", lattice[..., 1:].astype(np.float64), triangles)
    norm = np.linalg.norm(direction, axis=-1, keepdims=True)
    points = direction / np.maximum(norm, 1e-300) * ((n - lattice[..., :1]) / n)
    points = points.reshape(-1, *points.shape[2:])
    if points.shape[1] == 4:
        return points
    diagonals = np.linalg.norm(points[:, 0::2] - points[:, 1::2], axis=-1)
    shortest = np.argmin(np.round(diagonals, 9), axis=1)  # rounded, so that roundoff does not decide between equal ones
    tets = []
    for k in range(3):
        a, b = 2 * k, 2 * k + 1
        c, d, e, f = (m for m in range(6) if m not in (a, b))
        ring = (c, e, d, f)  # opposite corners are not adjacent on it
        octahedra = points[shortest == k]
        tets += [octahedra[:, [a, b, ring[m], ring[(m + 1) % 4]]] for m in range(4)]
    return np.concatenate(tets)
