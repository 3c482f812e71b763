"""The integers of a mesh: which vertices, bodies, materials, textures and smooth normals its faces use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ti_render.geometry.normals import NormalRows
from ti_sim.base.arrays import Array, ints_in_same_library, kernel_view, to_numpy
from ti_sim.base.errors import UserError
from ti_sim.base.rules import checked


@dataclass(frozen=True, eq=False)
class MeshTopology:
    """Result of ``mesh_topology``; int32 arrays as kernels take them.

    Attributes:
        corners: [F, 8] the faces' three vertices (counter-clockwise from outside), material, texture (-1: none), and the rows of
            the normals that their corners use (groups first, then faces).
        neighbours: [F, 3] the face on the other side of the edge opposite to each corner; -1 for an edge of one face alone, of
            more than two, or of two faces of opposite orientation.
        vertex_body: [V] body of every vertex, -1 for vertices that do not move.
        group_start: [G + 1] first entry of every smooth group in ``group_faces``.
        group_faces: faces of the groups (one unused entry where there are none).
        textures: [T, 4] first texel, width, height, wrap (1) or clamp (0) of every texture.
        texel_count: number of texels that the textures need.
        material_count: number of materials that the faces refer to.
        has_textures: whether any face has a texture.
        body_count: number of bodies that the vertices refer to.
    """

    corners: Array
    neighbours: Array
    vertex_body: Array
    group_start: Array
    group_faces: Array
    textures: Array
    texel_count: int
    material_count: int
    has_textures: bool
    body_count: int

    @property
    def face_count(self) -> int:
        """F."""
        return self.corners.shape[0]

    @property
    def normal_rows(self) -> NormalRows:
        """Faces of each row of the normals."""
        return NormalRows(self.corners, self.group_start, self.group_faces)

    @property
    def normal_count(self) -> int:
        """Number of rows of the normals: smooth groups and faces."""
        return self.group_start.shape[0] - 1 + self.corners.shape[0]


@checked
def mesh_topology(
    faces: Array,
    vertex_body: Array,
    *,
    like: Array,
    face_material: Array | None = None,
    face_texture: Array | None = None,
    corner_normal: Array | None = None,
    textures: Array | None = None,
) -> MeshTopology:
    """Check the integers of a mesh and lay them out for the kernels; needed once for a mesh.

    Args:
        faces: [F, 3] vertex numbers, counter-clockwise seen from outside.
        vertex_body: [V] body of every vertex, -1 for vertices that do not move.
        like: an array of the container and device that the inputs will have.
        face_material: [F] row of ``RenderInputs.material``; 0 by default.
        face_texture: [F] number of a texture, -1 for none (default).
        corner_normal: [F, 3] smooth group of every corner, -1 for the face's own normal (default).
        textures: [T, 4] first texel, width, height, wrap (1) or clamp (0).

    Raises:
        UserError: a shape or a number does not fit; the message names it.
    """
    faces, vertex_body = _integers(faces, "faces", (None, 3)), _integers(vertex_body, "vertex_body", (None,))
    count, vertices = len(faces), len(vertex_body)
    if vertices < 1 or count < 1:
        raise UserError(f"there are {vertices} vertices and {count} faces: give a mesh with at least one face")
    _check_range(faces, "faces name vertices", 0, vertices)
    _check_range(vertex_body, "vertex_body names bodies", -1, None)
    material = _column(face_material, "face_material", count, 0)
    _check_range(material, "face_material names materials", 0, None)
    texture_table = np.zeros((0, 4), np.int64) if textures is None else _integers(textures, "textures", (None, 4))
    _check_textures(texture_table)
    texture = _column(face_texture, "face_texture", count, -1)
    _check_range(texture, "face_texture names textures", -1, len(texture_table))
    groups = np.full((count, 3), -1) if corner_normal is None else _integers(corner_normal, "corner_normal", (count, 3))
    _check_range(groups, "corner_normal names groups", -1, None)
    group_count = int(groups.max()) + 1
    normal_rows = np.where(groups >= 0, groups, group_count + np.arange(count)[:, None])
    group_start, group_faces = _group_members(groups, group_count)
    like = kernel_view(like)
    corners = np.concatenate([faces, material[:, None], texture[:, None], normal_rows], axis=1)
    return MeshTopology(
        corners=ints_in_same_library(like, corners),
        neighbours=ints_in_same_library(like, _neighbours(faces)),
        vertex_body=ints_in_same_library(like, vertex_body),
        group_start=ints_in_same_library(like, group_start),
        group_faces=ints_in_same_library(like, group_faces if len(group_faces) else np.zeros(1, np.int64)),
        textures=ints_in_same_library(like, texture_table if len(texture_table) else np.array([[0, 1, 1, 0]])),
        texel_count=int((texture_table[:, 0] + texture_table[:, 1] * texture_table[:, 2]).max()) if len(texture_table) else 0,
        material_count=int(material.max()) + 1,
        has_textures=bool((texture >= 0).any()),
        body_count=int(vertex_body.max()) + 1,
    )


def _neighbours(faces: np.ndarray) -> np.ndarray:
    """[F, 3] see ``MeshTopology``."""
    edge_starts, edge_ends = (
        faces[:, [1, 2, 0]].ravel(),
        faces[:, [2, 0, 1]].ravel(),
    )  # ends of the edges opposite to corners 0, 1, 2
    low, high = np.minimum(edge_starts, edge_ends), np.maximum(edge_starts, edge_ends)
    order = np.lexsort((high, low))
    is_new_edge = (low[order][1:] != low[order][:-1]) | (high[order][1:] != high[order][:-1])
    run_starts = np.flatnonzero(np.concatenate([[True], is_new_edge]))
    pair_starts = run_starts[np.diff(np.append(run_starts, len(order))) == 2]
    a, b = order[pair_starts], order[pair_starts + 1]
    opposite = edge_starts[a] == edge_ends[b]
    a, b = a[opposite & (low[a] != high[a])], b[opposite & (low[a] != high[a])]
    neighbours = np.full(faces.size, -1)
    neighbours[a], neighbours[b] = b // 3, a // 3
    return neighbours.reshape(-1, 3)


def _group_members(groups: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Start of every group and the faces in it, each once."""
    pairs = np.unique(
        np.stack([groups.reshape(-1), np.repeat(np.arange(len(groups)), 3)], axis=1)[groups.reshape(-1) >= 0], axis=0
    )
    return np.searchsorted(pairs[:, 0], np.arange(count + 1)), pairs[:, 1]


def _integers(array: Array, name: str, shape: tuple[int | None, ...]) -> np.ndarray:
    values = np.asarray(to_numpy(array))
    fits = values.ndim == len(shape) and all(n is None or n == m for n, m in zip(shape, values.shape, strict=False))
    if not fits or not np.issubdtype(values.dtype, np.integer):
        expected = tuple("any" if n is None else n for n in shape)
        raise UserError(f"{name} is {values.dtype} of shape {values.shape}, and integers of shape {expected} are needed")
    return values.astype(np.int64)


def _column(array: Array | None, name: str, count: int, default: int) -> np.ndarray:
    return np.full(count, default) if array is None else _integers(array, name, (count,))


def _check_range(values: np.ndarray, name: str, low: int, upper_limit: int | None) -> None:
    if values.size and (values.min() < low or (upper_limit is not None and values.max() >= upper_limit)):
        limit = f"{low} or more" if upper_limit is None else f"{low} to {upper_limit - 1}"
        raise UserError(f"{name} {values.min()} to {values.max()}, and {limit} are allowed: mend the mesh")


def _check_textures(table: np.ndarray) -> None:
    for t, (first, width, height, wrap) in enumerate(table):
        if first < 0 or width < 1 or height < 1 or wrap not in (0, 1):
            raise UserError(
                f"texture {t} is (first texel {first}, width {width}, height {height}, wrap {wrap}): give a first texel of at "
                "least 0, sides of at least 1 and wrap 0 or 1"
            )
