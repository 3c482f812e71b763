"""From a scene's parameters to the renderer's arrays: which parameters each array holds, and the arrays themselves.

The arrays are separate, so that derivatives with respect to a few parameters involve only the arrays that hold them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.numbers import Values, concatenated_rows, constant, unwrapped
from risp_torch.scene.parameters import ParameterTable
from risp_torch.scene.parts.backdrop import Ground, backdrop_names, background_rows
from risp_torch.scene.parts.cameras import Camera, camera_names, camera_rows, distortion_names, distortion_rows
from risp_torch.scene.parts.lights import ARRAYS, Light, light_names, light_rows
from risp_torch.scene.parts.surface import SurfaceMesh
from ti_render import MeshTopology, mesh_topology


@dataclass(frozen=True)
class Field:
    """One array of ``RenderInputs``.

    Attributes:
        names: parameters that it holds.
        make: function from parameter values (shared rows only once) to the array, or None.
    """

    names: tuple[str, ...]
    make: Callable[[Values], torch.Tensor | None]


@dataclass(frozen=True, eq=False)
class PictureArrays:
    """Content of a scene's images, except the poses.

    Attributes:
        table: parameter table of the scene.
        surfaces: surface meshes of the visible bodies, in their order.
        body_indices: index of the body of each; deformable bodies are counted after all others.
        lights: lights of the scene.
        ground: ground of the scene, or None.
        phong: whether surfaces have highlights.
    """

    table: ParameterTable
    surfaces: tuple[SurfaceMesh, ...]
    body_indices: tuple[int, ...]
    lights: tuple[Light, ...]
    ground: Ground | None
    phong: bool

    def fields(self, cameras: Sequence[Camera], worlds: int) -> dict[str, Field]:
        """Every array except meshes and poses.

        Args:
            cameras: cameras of the images.
            worlds: B; several cameras have a row for each world and camera.
        """
        names, table, ground = self._names, self.table, self.ground
        textured = [surface for surface in self.surfaces if surface.textures]
        return {
            "camera": Field(camera_names(cameras), lambda v: camera_rows(cameras, v, worlds)),
            "distortion": Field(distortion_names(cameras), lambda v: distortion_rows(cameras, v, worlds)),
            "albedo": Field(names("color", "vertex_colors", "face_colors"), self._albedo),
            "material": Field(names("specular", "shininess") if self.phong else (), self._reflectance),
            "uv": Field(tuple(f"{surface.name}.uv" for surface in textured if surface.uv is None), self._uv),
            "texels": Field(self._texture_names(), self._texels),
            **{array: self._light_field(array) for array in ARRAYS},
            "background": Field(backdrop_names(table, "background"), background_rows),
            "background_image": Field(("background.image",), lambda v: v.get("background.image")),
            "ground": Field(backdrop_names(table, "ground"), lambda v: None if ground is None else ground.rows(v)),
            "softness": Field(("softness.sigma", "softness.gamma"), softness_rows),
        }

    @cached_property
    def meshes(self) -> tuple[MeshTopology, torch.Tensor]:
        """All bodies' meshes as one and their vertices [V, 3], made once."""
        return _cacheable(self.topology()), self.vertices()

    @cached_property
    def geometry_topology(self) -> MeshTopology:
        """The same meshes without reflectances, textures and smooth normals, made once."""
        return _cacheable(self.topology(geometry_only=True))

    def vertices(self) -> torch.Tensor:
        """[V, 3] vertices of all bodies, each in its body's frame, or relative to its particle [m]."""
        return constant(
            np.concatenate([k.mesh.vertices if k.vertex_particle is None else k.vertex_offset for k in self.surfaces])
        )

    def deformed_vertices(self, vertices: torch.Tensor, particle_q: torch.Tensor) -> torch.Tensor:
        """[M, V, 3] vertices of M images, those of deformable bodies at their particles [m].

        Args:
            vertices: [V, 3] from ``vertices``.
            particle_q: [M, P, 3] positions of the particles [m].
        """
        zero_row = particle_q.shape[1]  # a row of zeros for the vertices of rigid bodies
        particle_indices = [
            np.full(len(k.mesh.vertices), zero_row) if k.vertex_particle is None else k.vertex_particle for k in self.surfaces
        ]
        vertex_particle = torch.as_tensor(np.concatenate(particle_indices).astype(np.int64), device=particle_q.device)
        return vertices + torch.cat([particle_q, particle_q.new_zeros(len(particle_q), 1, 3)], dim=1)[:, vertex_particle]

    def topology(self, *, geometry_only: bool = False) -> MeshTopology:
        """The meshes of all bodies as one, with reflectances, textures and smooth normals; body i has reflectance i.

        ``geometry_only`` omits these.
        """
        offsets = np.cumsum([0] + [len(surface.mesh.vertices) for surface in self.surfaces])[:-1]
        vertex_bodies = [
            np.full(len(surface.mesh.vertices), body) for surface, body in zip(self.surfaces, self.body_indices, strict=True)
        ]
        materials = [np.full(len(surface.mesh.faces), i) for i, surface in enumerate(self.surfaces)]
        textured = bool(self._texture_names()) and not geometry_only
        return mesh_topology(
            np.concatenate([surface.mesh.faces + offset for surface, offset in zip(self.surfaces, offsets, strict=True)]),
            np.concatenate(vertex_bodies),
            face_material=np.concatenate(materials) if self.phong and not geometry_only else None,
            face_texture=self._face_texture() if textured else None,
            corner_normal=None if geometry_only else self._corner_normal(),
            textures=self._texture_table() if textured else None,
            # On the CPU the kernels read numpy arrays, and inside a torch.func transform a tensor cannot be converted to one.
            like=np.zeros(1) if bridge_device().type == "cpu" else constant(np.zeros(1)),
        )

    @property
    def ground_texture(self) -> int:
        """Index of the ground's texture."""
        return sum(len(surface.textures) for surface in self.surfaces)

    def _light_field(self, array: str) -> Field:
        return Field(light_names(self.lights, self.table, array), lambda v: light_rows(self.lights, v, array))

    def _names(self, *kinds: str) -> tuple[str, ...]:
        names = (f"{surface.name}.{kind}" for surface in self.surfaces for kind in kinds)
        return tuple(name for name in names if name in self.table.params)

    def _texture_names(self) -> tuple[str, ...]:
        ground = ("ground.texture",) if "ground.texture" in self.table.params else ()
        return tuple(name for surface in self.surfaces for name in surface.textures) + ground

    def _texture_table(self) -> np.ndarray:
        """[T, 4] first texel, width, height and wrap of every texture."""
        rows, first = [], 0
        wraps = [surface.wrap for surface in self.surfaces for _ in surface.textures]
        wraps += [self.ground.wrap] if "ground.texture" in self._texture_names() else []
        for name, wrap in zip(self._texture_names(), wraps, strict=True):
            height, width, _ = np.shape(self.table[name].value)
            rows.append((first, width, height, int(wrap == "repeat")))
            first += width * height
        return np.array(rows)

    def _face_texture(self) -> np.ndarray:
        rows, first = [], 0
        for surface in self.surfaces:
            rows.append(np.where(surface.face_texture >= 0, surface.face_texture + first, -1))
            first += len(surface.textures)
        return np.concatenate(rows)

    def _corner_normal(self) -> np.ndarray | None:
        rows, first = [], 0
        for surface in self.surfaces:
            rows.append(np.where(surface.corner_normal >= 0, surface.corner_normal + first, -1))
            first += int(surface.corner_normal.max()) + 1
        return np.concatenate(rows) if first else None

    def _albedo(self, values: Values) -> torch.Tensor:
        return concatenated_rows([surface.albedo(values) for surface in self.surfaces], dim=1)

    def _reflectance(self, values: Values) -> torch.Tensor | None:
        return (
            concatenated_rows([surface.reflectance(values)[:, None] for surface in self.surfaces], dim=1) if self.phong else None
        )

    def _uv(self, values: Values) -> torch.Tensor | None:
        if not any(surface.textures for surface in self.surfaces):
            return None
        return concatenated_rows([surface.uv_rows(values) for surface in self.surfaces], dim=1)

    def _texels(self, values: Values) -> torch.Tensor | None:
        names = self._texture_names()
        return concatenated_rows([values[name].flatten(1, 2) for name in names], dim=1) if names else None


def _cacheable(topology: MeshTopology) -> MeshTopology:
    """The topology for later calls, which must not contain wrappers of a torch.func transform around the first call."""
    return replace(topology, **{name: unwrapped(a) for name, a in vars(topology).items() if isinstance(a, torch.Tensor)})


def softness_rows(values: Values) -> torch.Tensor:
    """[1 or B, 2] sigma and gamma."""
    return concatenated_rows([values["softness.sigma"][:, None], values["softness.gamma"][:, None]], dim=1)
