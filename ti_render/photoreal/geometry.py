"""From the renderer's arrays to the triangles of one picture: world positions, normals, colours and uv of every corner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ti_sim.base.arrays import to_numpy
from ti_sim.base.errors import UserError

if TYPE_CHECKING:
    from ti_render.inputs import RenderInputs


@dataclass(frozen=True, eq=False)
class Submesh:
    """Triangles of one body that share a texture (or have none). Corners are not shared between triangles.

    Attributes:
        body: number of the body, -1 for static vertices.
        positions: [K, 3, 3] corners in the world [m].
        normals: [K, 3, 3] unit normals of the corners, or None where all triangles are flat.
        colors: [K, 3, 3] linear rgb of the corners; all equal for a textured submesh: the tint of the texture.
        uv: [K, 3, 2] texture coordinates, or None.
        texture: number of the texture, -1 for none.
    """

    body: int
    positions: np.ndarray
    normals: np.ndarray | None
    colors: np.ndarray
    uv: np.ndarray | None
    texture: int


def row(array: object, image: int, images: int) -> np.ndarray:
    """Row of an input [n, ...] that serves one of ``images`` pictures, as float64."""
    rows = to_numpy(array)
    return np.asarray(rows[image * len(rows) // images], dtype=np.float64)


def world_vertices(inputs: RenderInputs, image: int) -> np.ndarray:
    """Vertices [V, 3] of one picture in the world [m].

    The rotation of a body is I + 2 w [v]x + 2 [v]x^2 of its quaternion (v, w), as in the rasteriser: nothing is normalised.

    Args:
        inputs: of the pictures.
        image: number of the picture.
    """
    body_q = np.asarray(to_numpy(inputs.body_q), dtype=np.float64)
    rest_vertices = to_numpy(inputs.vertices_rest)
    rest_vertices = (
        np.asarray(rest_vertices, dtype=np.float64) if rest_vertices.ndim == 2 else row(rest_vertices, image, len(body_q))
    )
    body = to_numpy(inputs.mesh.vertex_body).astype(np.int64)
    pose = body_q[image][np.maximum(body, 0)]
    cross = np.cross(pose[:, 3:6], rest_vertices)
    world = rest_vertices + 2 * pose[:, 6:] * cross + 2 * np.cross(pose[:, 3:6], cross) + pose[:, :3]
    return np.where(body[:, None] >= 0, world, rest_vertices)


def submeshes_of(inputs: RenderInputs, image: int) -> list[Submesh]:
    """The triangles of one picture, by body and texture. Triangles without an area are left out.

    Args:
        inputs: of the pictures.
        image: number of the picture.

    Raises:
        UserError: a vertex is not finite, a texture has no uv, or a textured triangle has corners of different colours.
    """
    mesh = inputs.mesh
    corners = to_numpy(mesh.corners).astype(np.int64)
    faces, texture = corners[:, :3], corners[:, 4]
    vertices = world_vertices(inputs, image)
    if not np.isfinite(vertices).all():
        first = int(np.argmin(np.isfinite(vertices).all(axis=1)))
        raise UserError(f"vertex {first} of picture {image} is not finite: look at the simulation that made the motion")
    positions = vertices[faces]
    group_count = len(to_numpy(mesh.group_start)) - 1  # later rows of normals are those of faces
    normals = corner_normals(positions, np.where(corners[:, 5:] < group_count, corners[:, 5:], -1))
    colors = row(inputs.albedo, image, len(inputs.body_q))
    uv = None if inputs.uv is None else row(inputs.uv, image, len(inputs.body_q))
    non_degenerate = np.linalg.norm(np.cross(positions[:, 1] - positions[:, 0], positions[:, 2] - positions[:, 0]), axis=1) > 0
    body = to_numpy(mesh.vertex_body).astype(np.int64)[faces[:, 0]]
    submeshes = []
    for body_index in np.unique(body):
        for texture_index in np.unique(texture[non_degenerate & (body == body_index)]):
            face_indices = np.flatnonzero(non_degenerate & (body == body_index) & (texture == texture_index))
            for submesh_faces in _by_tint(face_indices, colors) if texture_index >= 0 else [face_indices]:
                submeshes.append(
                    Submesh(
                        int(body_index),
                        positions[submesh_faces],
                        None if normals is None else normals[submesh_faces],
                        colors[submesh_faces],
                        _uv_of(uv, submesh_faces, int(texture_index)),
                        int(texture_index),
                    )  # fmt: skip
                )
    return submeshes


def corner_normals(positions: np.ndarray, groups: np.ndarray) -> np.ndarray | None:
    """Unit normals [F, 3, 3] of the corners, or None where every corner is flat.

    Args:
        positions: [F, 3, 3] corners [m].
        groups: [F, 3] smooth-normal group of each corner, -1 for flat. The normal of a group is the normalised sum of the
            area-area_vectors normals of all triangles with a corner in it.
    """
    if not (groups >= 0).any():
        return None
    area_vectors = np.cross(positions[:, 1] - positions[:, 0], positions[:, 2] - positions[:, 0])
    group_sums = np.zeros((int(groups.max()) + 1, 3))
    # A triangle counts once in a group, even where two of its corners are in it.
    pairs = np.unique(np.stack([groups.reshape(-1), np.repeat(np.arange(len(groups)), 3)], axis=1), axis=0)
    pairs = pairs[pairs[:, 0] >= 0]
    np.add.at(group_sums, pairs[:, 0], area_vectors[pairs[:, 1]])
    normals = np.where((groups >= 0)[..., None], group_sums[np.maximum(groups, 0)], area_vectors[:, None, :])
    length = np.linalg.norm(normals, axis=-1, keepdims=True)
    return normals / np.where(length > 0, length, 1.0)


def bounding_ball(inputs: RenderInputs) -> tuple[np.ndarray, float]:
    """Centre [3] and radius [m] of a ball that contains all bodies in all pictures.

    Args:
        inputs: of the pictures; pictures with numbers that are not finite are ignored.
    """
    vertices = [world_vertices(inputs, image) for image in range(len(inputs.body_q))]
    corners = np.concatenate([np.stack([v.min(axis=0), v.max(axis=0)]) for v in vertices if np.isfinite(v).all()])
    low, high = corners.min(axis=0), corners.max(axis=0)
    return 0.5 * (low + high), float(0.5 * np.linalg.norm(high - low))


def texture_image(inputs: RenderInputs, image: int, texture: int) -> tuple[np.ndarray, bool]:
    """One texture of one picture.

    Args:
        inputs: of the pictures.
        image: number of the picture.
        texture: number of the texture.

    Returns:
        [h, w, 3] linear rgb, row 0 at the top (v = 1), and whether the texture repeats.
    """
    first, width, height, wrap = (int(number) for number in to_numpy(inputs.mesh.textures)[texture])
    texels = row(inputs.texels, image, len(inputs.body_q))
    return texels[first : first + width * height].reshape(height, width, 3), wrap == 1


def body_name(number: int, names: Sequence[str]) -> str:
    """Name of a body: "static" for -1, the name in ``names``, or "body<number>"."""
    if number < 0:
        return "static"
    return names[number] if number < len(names) else f"body{number}"


def present_bodies(inputs: RenderInputs) -> list[int]:
    """Numbers of the bodies that have vertices, and -1 at the end where some vertices belong to none."""
    numbers = np.unique(to_numpy(inputs.mesh.vertex_body).astype(np.int64)).tolist()
    return [number for number in numbers if number >= 0] + ([-1] if -1 in numbers else [])


def _by_tint(face_indices: np.ndarray, colors: np.ndarray) -> list[np.ndarray]:
    """Triangles grouped by their colour, which multiplies the texture and so must be the same at the three corners."""
    tints = colors[face_indices]
    if np.ptp(tints, axis=1).max(initial=0.0) > 1e-6:
        raise UserError(
            "a textured triangle has corners of different colours, which Mitsuba cannot multiply with its texture: "
            "give textured bodies one colour"
        )
    _, tint_index = np.unique(tints[:, 0], axis=0, return_inverse=True)
    return [face_indices[tint_index.reshape(-1) == tint] for tint in range(int(tint_index.max(initial=-1)) + 1)]


def _uv_of(uv: np.ndarray | None, face_indices: np.ndarray, texture: int) -> np.ndarray | None:
    if texture < 0:
        return None
    if uv is None:
        raise UserError(f"texture {texture} is used and the mesh has no uv coordinates: give RenderInputs.uv")
    return uv[face_indices]
