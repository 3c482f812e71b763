"""Surfaces of bodies: colours, textures, reflectance, and their arrays in the renderer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from risp_torch.scene.arguments import Array, Number, Picture, Vector, Wrap
from risp_torch.scene.numbers import Values, concatenated_rows, constant
from risp_torch.scene.parameters import ParameterTable
from risp_torch.scene.pictures import add_picture
from ti_sim.base.errors import UserError
from ti_sim.base.param import Param
from ti_sim.base.rules import Real, checked
from ti_sim.shapes.surface import TriangleMesh, smooth_groups

GREY, WHITE = (0.6, 0.6, 0.6), (1.0, 1.0, 1.0)
SPECULAR, SHININESS = 0.2, 20.0  # defaults of bodies in a scene with Phong shading


@checked
@dataclass(frozen=True, kw_only=True)
class Surface:
    """Colour, texture and reflectance of a mesh. Colours are linear rgb in [0, 1].

    Attributes:
        color: one colour for all, or None.
        face_colors: one colour for each side of a box (six rows: +x, -x, +y, -y, +z, -z), or one for each face, or None.
        vertex_colors: one colour for each vertex [V, 3], or None.
        texture: an image that multiplies the colour: path of an image file (sRGB), or linear rgb [h, w, 3], row 0 at the top.
        wrap: wrap mode of the texture: "repeat", as in mesh files, or "clamp".
        uv: texture coordinates of every face's corners [F, 3, 2] or of every vertex [V, 2]; the mesh's own by default.
        specular: specular reflectance, linear rgb or one number (needs a scene with PictureStyle(shading="phong")).
        shininess: exponent of the highlight (needs a scene with PictureStyle(shading="phong")).
        smooth: whether normals are interpolated across edges (smooth shading) instead of constant on each face.
        crease_angle: with ``smooth``, edges with a larger angle between the face normals stay sharp [rad]; None: no edge does.

    At most one of the three kinds of colour is given. With none of them and no texture, the texture or colours of the mesh
    file are used, or grey. With a texture alone, the colour is white.
    """

    color: Vector | None = None
    face_colors: Array | None = None
    vertex_colors: Array | None = None
    texture: Picture | None = None
    wrap: Wrap = "repeat"
    uv: Array | None = None
    specular: Vector | None = None
    shininess: Number | None = None
    smooth: bool = False
    crease_angle: Real | None = None

    def __post_init__(self) -> None:
        if sum(colors is not None for colors in (self.color, self.face_colors, self.vertex_colors)) > 1:
            raise UserError("a Surface takes one of color, face_colors and vertex_colors: leave the others out")
        if self.crease_angle is not None and not (self.smooth and 0 <= self.crease_angle <= math.pi):
            raise UserError(
                f"a Surface has the crease angle {self.crease_angle} and smooth={self.smooth}: give an angle from 0 to pi rad, "
                "with smooth=True"
            )


@dataclass(frozen=True, eq=False)
class SurfaceMesh:
    """Render mesh of a body with its textures and normals.

    Attributes:
        name: the body's part of parameter names.
        mesh: render mesh.
        textures: parameter names of its textures.
        face_texture: [F] int32 index of each face's texture, -1 for none.
        wrap: wrap mode of the textures.
        uv: [F, 3, 2] the mesh's own texture coordinates, or None if the surface has no texture or its own coordinates.
        corner_normal: [F, 3] int32 groups of corners that share a normal, -1 for flat faces.
        vertex_particle: [V] index in the scene of the particle that moves each vertex; None for a rigid body.
        vertex_offset: [V, 3] offsets of the vertices from these particles [m].
    """

    name: str
    mesh: TriangleMesh
    textures: tuple[str, ...]
    face_texture: np.ndarray
    wrap: Wrap
    uv: np.ndarray | None
    corner_normal: np.ndarray
    vertex_particle: np.ndarray | None = None
    vertex_offset: np.ndarray | None = None

    def color_name(self, values: Any) -> str:
        """The parameter of the body's colour in ``values``, one of three possible names."""
        return next(n for kind in ("color", "vertex_colors", "face_colors") if (n := f"{self.name}.{kind}") in values)

    def albedo(self, values: Values) -> torch.Tensor:
        """[n, F, 3, 3] linear rgb of every face's corners (a factor on the texture if a face has one)."""
        name = self.color_name(values)
        colors, count = values[name], len(self.mesh.faces)
        if name.endswith(".color"):
            return colors[:, None, None, :].expand(-1, count, 3, 3)
        if name.endswith(".vertex_colors"):
            return colors[:, _indices(self.mesh.faces, colors)]
        if colors.shape[1] != count:
            colors = colors[:, _indices(self.mesh.face_groups, colors)]
        return colors[:, :, None, :].expand(-1, -1, 3, 3)

    def reflectance(self, values: Values) -> torch.Tensor:
        """[n, 4] specular rgb and shininess."""
        return concatenated_rows([values[f"{self.name}.specular"], values[f"{self.name}.shininess"][:, None]], dim=1)

    def uv_rows(self, values: Values) -> torch.Tensor:
        """[n, F, 3, 2] texture coordinates; zeros without texture."""
        uv = values.get(f"{self.name}.uv")
        if uv is not None:
            return uv if uv.ndim == 4 else uv[:, _indices(self.mesh.faces, uv)]
        return constant(np.zeros((1, len(self.mesh.faces), 3, 2)) if self.uv is None else np.nan_to_num(self.uv)[None])


def make_surface_mesh(table: ParameterTable, name: str, mesh: TriangleMesh, surface: Surface, *, phong: bool) -> SurfaceMesh:
    """Add the parameters of a body's surface to the table.

    Args:
        table: table of the scene.
        name: name of the body.
        mesh: its render mesh.
        surface: the surface in the scene's description.
        phong: whether the scene's shading has highlights.

    Raises:
        UserError: an image cannot be read, uv are missing, an array has a wrong shape, or highlights without Phong shading.
    """
    textures, face_texture = _add_textures(table, name, mesh, surface)
    if surface.uv is not None:
        shape = np.shape(surface.uv.value if isinstance(surface.uv, Param) else surface.uv)
        if shape not in ((len(mesh.faces), 3, 2), (len(mesh.vertices), 2)):
            raise UserError(
                f"{name}.uv has shape {shape}: give {(len(mesh.faces), 3, 2)} (the corners of every face) or "
                f"{(len(mesh.vertices), 2)} (every vertex)"
            )
        table.add(f"{name}.uv", surface.uv, unit="", shape=shape)
    _add_colors(table, name, mesh, surface, textured=bool(textures))
    _add_reflectance(table, name, surface, phong=phong)
    groups = np.full(mesh.faces.shape, -1, dtype=np.int32)
    if surface.smooth:
        groups = smooth_groups(mesh.vertices, mesh.faces, crease_angle=surface.crease_angle)
    uv = mesh.uv if textures and surface.uv is None else None
    return SurfaceMesh(name, mesh, textures, face_texture, surface.wrap, uv, groups)


def _add_textures(table: ParameterTable, name: str, mesh: TriangleMesh, surface: Surface) -> tuple[tuple[str, ...], np.ndarray]:
    """Parameter names of the textures, and the texture index of each face."""
    untextured = np.full(len(mesh.faces), -1, dtype=np.int32)
    if surface.texture is not None:
        faces_without_uv = np.isnan(mesh.uv).any(axis=(1, 2)).sum() if mesh.uv is not None else len(mesh.faces)
        if surface.uv is None and faces_without_uv:
            raise UserError(
                f"{name} has a texture, and {faces_without_uv} of its mesh's {len(mesh.faces)} faces have no uv: "
                "unwrap the mesh in a mesh editor, or give Surface(uv=...)"
            )
        add_picture(table, f"{name}.texture", surface.texture)
        return (f"{name}.texture",), np.zeros_like(untextured)
    has_colors = any(colors is not None for colors in (surface.color, surface.face_colors, surface.vertex_colors))
    if not has_colors and mesh.texture_fault:
        raise UserError(
            f"{name}: a mesh file has a texture that cannot be used: {mesh.texture_fault}: fix it, or give the body a "
            "Surface with a color or a texture"
        )
    if has_colors or not mesh.textures:
        if surface.uv is not None:
            raise UserError(f"{name} has uv but no texture: give Surface(texture=...) too")
        return (), untextured
    suffixes = [""] if len(mesh.textures) == 1 else [f".{k}" for k in range(len(mesh.textures))]
    names = tuple(f"{name}.texture{suffix}" for suffix in suffixes)
    for parameter, picture in zip(names, mesh.textures, strict=True):
        add_picture(table, parameter, picture)
    return names, mesh.face_texture


def _add_colors(table: ParameterTable, name: str, mesh: TriangleMesh, surface: Surface, *, textured: bool) -> None:
    def add(kind: str, colors: Any, shape: tuple[int, ...]) -> None:
        table.add(f"{name}.{kind}", colors, unit="", shape=shape, sign="color")

    if surface.vertex_colors is not None:
        add("vertex_colors", surface.vertex_colors, (len(mesh.vertices), 3))
    elif surface.face_colors is not None:
        colors, groups = surface.face_colors, int(mesh.face_groups.max()) + 1
        rows = len(colors.value if isinstance(colors, Param) else colors)
        if rows not in (groups, len(mesh.faces)):
            raise UserError(f"{name} has {rows} face colours: give {groups} (one a side) or {len(mesh.faces)} (one a face)")
        add("face_colors", colors, (rows, 3))
    elif surface.color is not None:
        add("color", surface.color, (3,))
    elif textured and mesh.face_colors is None:
        add("color", WHITE, (3,))
    elif mesh.vertex_colors is not None:
        add("vertex_colors", mesh.vertex_colors, mesh.vertex_colors.shape)
    elif mesh.face_colors is not None:
        add("face_colors", mesh.face_colors, mesh.face_colors.shape)
    else:
        add("color", GREY, (3,))


def _add_reflectance(table: ParameterTable, name: str, surface: Surface, *, phong: bool) -> None:
    for kind, value, default in (("specular", surface.specular, SPECULAR), ("shininess", surface.shininess, SHININESS)):
        if value is not None and not phong:
            sentence = f"{name} has a {kind} and the scene's shading has no highlights"
            raise UserError(f"{sentence}: give the Scene style=PictureStyle(shading='phong')")
        if phong:
            shape, sign = ((3,), "color") if kind == "specular" else ((), "positive")
            table.add(f"{name}.{kind}", default if value is None else value, unit="", shape=shape, sign=sign)


def _indices(numbers: np.ndarray, like: torch.Tensor) -> torch.Tensor:
    return torch.as_tensor(numbers.astype(np.int64), device=like.device)
