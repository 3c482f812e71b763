"""From a scene's numbers to the renderer's arrays: which parameters each array holds, and the arrays themselves.

The arrays are kept apart, so that derivatives with respect to a few parameters touch the few arrays that hold them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.numbers import Values, constant, joined, plain
from risp_torch.scene.parameters import ParameterTable
from risp_torch.scene.parts.backdrop import Ground, backdrop_names, background_rows
from risp_torch.scene.parts.cameras import Camera, camera_names, camera_rows, distortion_names, distortion_rows
from risp_torch.scene.parts.lights import ARRAYS, Light, light_names, light_rows
from risp_torch.scene.parts.look import Look
from ti_render import MeshTopology, mesh_topology


@dataclass(frozen=True)
class Field:
    """One array of ``RenderInputs``.

    Attributes:
        names: parameters that it holds.
        make: the array from parameter values (with rows that worlds share only once), or None.
    """

    names: tuple[str, ...]
    make: Callable[[Values], torch.Tensor | None]


@dataclass(frozen=True, eq=False)
class PictureArrays:
    """What a picture of a scene shows, besides the poses.

    Attributes:
        table: of the scene's numbers.
        looks: of the bodies that are seen, in their order.
        bodies: which body each of them belongs to; deformable bodies count after all others.
        lights: of the scene.
        ground: of the scene, or None.
        phong: whether surfaces have highlights.
    """

    table: ParameterTable
    looks: tuple[Look, ...]
    bodies: tuple[int, ...]
    lights: tuple[Light, ...]
    ground: Ground | None
    phong: bool

    def fields(self, cameras: Sequence[Camera], worlds: int) -> dict[str, Field]:
        """Every array besides meshes and poses.

        Args:
            cameras: that take the pictures.
            worlds: B; several cameras have a row for each world and camera.
        """
        names, table, ground = self._names, self.table, self.ground
        textured = [look for look in self.looks if look.textures]
        return {
            "camera": Field(camera_names(cameras), lambda v: camera_rows(cameras, v, worlds)),
            "distortion": Field(distortion_names(cameras), lambda v: distortion_rows(cameras, v, worlds)),
            "albedo": Field(names("color", "vertex_colors", "face_colors"), self._albedo),
            "material": Field(names("specular", "shininess") if self.phong else (), self._material),
            "uv": Field(tuple(f"{look.name}.uv" for look in textured if look.uv is None), self._uv),
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
        topology = self.topology()
        # Kept for later calls, so that a first one within a transform of torch.func must not leave its wrappers in it.
        arrays = {name: plain(array) for name, array in vars(topology).items() if isinstance(array, torch.Tensor)}
        return replace(topology, **arrays), self.vertices()

    def vertices(self) -> torch.Tensor:
        """[V, 3] vertices of all bodies, each in its body's frame, or relative to the particle that it moves with [m]."""
        return constant(np.concatenate([look.mesh.vertices if look.carrier is None else look.offset for look in self.looks]))

    def moved(self, vertices: torch.Tensor, particle_q: torch.Tensor) -> torch.Tensor:
        """[M, V, 3] vertices of M pictures, those of deformable bodies where their particles are [m].

        Args:
            vertices: [V, 3] from ``vertices``.
            particle_q: [M, P, 3] positions of the particles [m].
        """
        none = particle_q.shape[1]  # a row of zeros, with which the vertices of rigid bodies go
        carriers = [np.full(len(k.mesh.vertices), none) if k.carrier is None else k.carrier for k in self.looks]
        carrier = torch.as_tensor(np.concatenate(carriers).astype(np.int64), device=particle_q.device)
        return vertices + torch.cat([particle_q, particle_q.new_zeros(len(particle_q), 1, 3)], dim=1)[:, carrier]

    def topology(self) -> MeshTopology:
        """All bodies' meshes as one, with their materials, textures and smooth normals; the i-th look has the i-th material."""
        offsets = np.cumsum([0] + [len(look.mesh.vertices) for look in self.looks])[:-1]
        owners = [np.full(len(look.mesh.vertices), body) for look, body in zip(self.looks, self.bodies, strict=True)]
        materials = [np.full(len(look.mesh.faces), i) for i, look in enumerate(self.looks)]
        textured = bool(self._texture_names())
        return mesh_topology(
            np.concatenate([look.mesh.faces + offset for look, offset in zip(self.looks, offsets, strict=True)]),
            np.concatenate(owners),
            face_material=np.concatenate(materials) if self.phong else None,
            face_texture=self._face_texture() if textured else None,
            corner_normal=self._corner_normal(),
            textures=self._texture_table() if textured else None,
            # On the CPU the kernels read numpy arrays, and within a transform of torch.func no tensor becomes one.
            like=np.zeros(1) if bridge_device().type == "cpu" else constant(np.zeros(1)),
        )

    @property
    def ground_texture(self) -> int:
        """Number of the ground's texture among all."""
        return sum(len(look.textures) for look in self.looks)

    def _light_field(self, array: str) -> Field:
        return Field(light_names(self.lights, self.table, array), lambda v: light_rows(self.lights, v, array))

    def _names(self, *kinds: str) -> tuple[str, ...]:
        names = (f"{look.name}.{kind}" for look in self.looks for kind in kinds)
        return tuple(name for name in names if name in self.table.params)

    def _texture_names(self) -> tuple[str, ...]:
        ground = ("ground.texture",) if "ground.texture" in self.table.params else ()
        return tuple(name for look in self.looks for name in look.textures) + ground

    def _texture_table(self) -> np.ndarray:
        """[T, 4] first texel, width, height and wrap of every texture."""
        rows, first = [], 0
        wraps = [look.wrap for look in self.looks for _ in look.textures]
        wraps += [self.ground.wrap] if "ground.texture" in self._texture_names() else []
        for name, wrap in zip(self._texture_names(), wraps, strict=True):
            height, width, _ = np.shape(self.table[name].value)
            rows.append((first, width, height, int(wrap == "repeat")))
            first += width * height
        return np.array(rows)

    def _face_texture(self) -> np.ndarray:
        parts, first = [], 0
        for look in self.looks:
            parts.append(np.where(look.face_texture >= 0, look.face_texture + first, -1))
            first += len(look.textures)
        return np.concatenate(parts)

    def _corner_normal(self) -> np.ndarray | None:
        parts, first = [], 0
        for look in self.looks:
            parts.append(np.where(look.corner_normal >= 0, look.corner_normal + first, -1))
            first += int(look.corner_normal.max()) + 1
        return np.concatenate(parts) if first else None

    def _albedo(self, values: Values) -> torch.Tensor:
        return joined([look.albedo(values) for look in self.looks], dim=1)

    def _material(self, values: Values) -> torch.Tensor | None:
        return joined([look.material(values)[:, None] for look in self.looks], dim=1) if self.phong else None

    def _uv(self, values: Values) -> torch.Tensor | None:
        if not any(look.textures for look in self.looks):
            return None
        return joined([look.uv_rows(values) for look in self.looks], dim=1)

    def _texels(self, values: Values) -> torch.Tensor | None:
        names = self._texture_names()
        return joined([values[name].flatten(1, 2) for name in names], dim=1) if names else None


def softness_rows(values: Values) -> torch.Tensor:
    """[1 or B, 2] sigma and gamma."""
    return joined([values["softness.sigma"][:, None], values["softness.gamma"][:, None]], dim=1)
