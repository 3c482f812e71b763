"""Surface attributes of meshes of deformable bodies: colours, texture coordinates, textures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from ti_sim.base.errors import UserError
from ti_sim.shapes.surface import TriangleMesh


@dataclass(frozen=True, eq=False, kw_only=True)
class SurfaceAttributes(ABC):
    """Surface attributes of a mesh; an array is None if the mesh does not have it. F is the number of faces of the surface.

    Attributes:
        vertex_colors: [V, 3] float64 linear RGB in [0, 1].
        face_colors: [F, 3] float64 linear RGB in [0, 1].
        face_groups: [F] int32; the six sides of a box in the order +x, -x, +y, -y, +z, -z; 0 for other meshes.
        uv: [F, 3, 2] float64 texture coordinates of the corners of every face, as in ``TriangleMesh``.
        textures: images [h, w, 3] float64 linear RGB in [0, 1], row 0 at the top.
        face_texture: [F] int32, index of the texture of each face, -1 for none; None if there are no textures.
        name: name of the mesh in error messages.
    """

    vertex_colors: np.ndarray | None = field(default=None, repr=False)
    face_colors: np.ndarray | None = field(default=None, repr=False)
    face_groups: np.ndarray | None = field(default=None, repr=False)
    uv: np.ndarray | None = field(default=None, repr=False)
    textures: tuple[np.ndarray, ...] = field(default=(), repr=False)
    face_texture: np.ndarray | None = field(default=None, repr=False)
    name: str = ""

    @property
    @abstractmethod
    def faces(self) -> np.ndarray:
        """[F, 3] int32 triangles of the surface, as indices of vertices, counter-clockwise seen from outside."""

    def surface(self) -> TriangleMesh:
        """The surface with its attributes; ``vertices`` are all vertices of the mesh, including interior ones."""
        groups = np.zeros(len(self.faces), dtype=np.int32) if self.face_groups is None else self.face_groups
        return TriangleMesh(
            self.vertices, self.faces, groups, vertex_colors=self.vertex_colors, face_colors=self.face_colors,
            uv=self.uv, textures=self.textures, face_texture=self.face_texture,
        ).transformed()  # fmt: skip

    def with_attributes(self, **attributes: Any) -> Self:
        """A copy with other colours, groups, uv or textures.

        Args:
            **attributes: fields of ``SurfaceAttributes``.
        """
        return replace(self, **attributes)

    def _check_attributes(self) -> None:
        """Convert the arrays to their types and check their shapes."""
        vertex_count, face_count = len(self.vertices), len(self.faces)
        self._check_attribute("vertex_colors", (vertex_count, 3), np.float64)
        self._check_attribute("face_colors", (face_count, 3), np.float64)
        self._check_attribute("face_groups", (face_count,), np.int32)
        self._check_attribute("uv", (face_count, 3, 2), np.float64)
        self._check_attribute("face_texture", (face_count,), np.int32)
        if self.face_texture is not None and self.face_texture.max() >= len(self.textures):
            raise UserError(
                f"{self.name}: face_texture names picture {self.face_texture.max()}, and there are {len(self.textures)} textures"
            )

    def _check_attribute(self, attribute: str, shape: tuple[int, ...], dtype: type) -> None:
        value = getattr(self, attribute)
        if value is None:
            return
        array = np.asarray(value)
        if dtype is np.int32 and not ((np.abs(array) < 2**31) & (np.floor(array) == array)).all():
            raise UserError(f"{self.name}: {attribute} has numbers that are not whole: give 32-bit integers")
        array = array.astype(dtype)
        if array.shape != shape:
            raise UserError(
                f"{self.name}: {attribute} has shape {array.shape}, and {shape} is needed: its surface has "
                f"{len(self.faces)} faces, its vertices are {len(self.vertices)}"
            )
        object.__setattr__(self, attribute, array)


def check_mesh_arrays(vertices: Any, indices: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return vertices [V, 3] float64 and indices [E, n] int32 after checking that they fit each other.

    Args:
        vertices: [V, 3] m.
        indices: [E, n] integers.
        name: name of the mesh in error messages.

    Raises:
        UserError: a shape is wrong, a coordinate is not finite, an index is out of range, an element contains a vertex twice, or
            a vertex belongs to no element.
    """
    try:
        vertices, indices = np.array(vertices, dtype=np.float64), np.array(indices)
    except (TypeError, ValueError):
        raise UserError(f"{name}: vertices [V, 3] and indices [E, n] must be arrays of numbers") from None
    if indices.ndim != 2 or not len(indices) or not np.issubdtype(indices.dtype, np.integer):
        raise UserError(f"{name}: its elements have shape {indices.shape} of {indices.dtype}, and [E, n] integers are needed")
    if vertices.ndim != 2 or vertices.shape[1] != 3:
        raise UserError(f"{name}: vertices have shape {vertices.shape}, and [V, 3] is needed")
    is_finite = np.isfinite(vertices).all(axis=1)
    if not is_finite.all():
        raise UserError(f"{name}: vertex {int(np.argmin(is_finite))} is not finite: repair the mesh")
    is_invalid = ((indices < 0) | (indices >= len(vertices))).any(axis=1)
    if is_invalid.any():
        element = int(np.argmax(is_invalid))
        raise UserError(
            f"{name}: element {element} names the vertices {_join(indices[element])}, and there are 0 to {len(vertices) - 1}"
        )
    has_repeated_vertex = (np.diff(np.sort(indices, axis=1), axis=1) == 0).any(axis=1)
    if has_repeated_vertex.any():
        element = int(np.argmax(has_repeated_vertex))
        raise UserError(f"{name}: element {element} names a vertex twice ({_join(indices[element])}): remove it")
    used = np.zeros(len(vertices), dtype=bool)
    used[indices] = True
    if not used.all():
        raise UserError(
            f"{name}: vertex {int(np.argmin(used))} belongs to no element ({int((~used).sum())} of {len(vertices)} do not): "
            "remove such vertices, they would have no mass"
        )
    return vertices, indices.astype(np.int32)


def _join(values: np.ndarray) -> str:
    return ", ".join(str(int(value)) for value in values)
