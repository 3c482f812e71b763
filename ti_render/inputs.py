"""Input arrays of the renderer, and their checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any

import numpy as np

from ti_render.arrays import ALBEDO_COLUMN, BACKDROP_COLUMN, GROUND, LIGHT, LIT_COLUMN, MATERIAL, MOVING_COLUMN
from ti_render.camera import CAMERA_SIZE
from ti_render.geometry.lens import DISTORTION_SIZE
from ti_render.settings import RasterSettings, check_softness
from ti_render.topology import MeshTopology
from ti_sim.base.arrays import Array, check_array, kernel_view, reals_in_same_library, to_numpy, zeros_in_same_library
from ti_sim.base.errors import UserError
from ti_sim.base.runtime import ti

ANY, FACES = "any", "faces"  # sizes of axes: any number above zero, or that of the mesh's faces


def real_array(*row: int | str, column_flags: int = 0, default: Any = MISSING) -> Any:
    """A field of ``RenderInputs``.

    Args:
        row: sizes of its axes after the first one, which has rows for images.
        column_flags: flags of a column of tangents in which it changes: bits of MOVING_COLUMN, LIT_COLUMN, ALBEDO_COLUMN and
            BACKDROP_COLUMN.
        default: None for an array that may be left out.
    """
    return field(default=default, metadata={"row": row, "column_flags": column_flags})


@dataclass(frozen=True, kw_only=True)
class RenderInputs:
    """Input arrays of a rendering. All arrays are of one container (numpy, torch, ti.ndarray) and the working precision.

    M is the number of images. An array marked [n, ...] has n rows, where n divides M, and serves image m with row m n // M:
    n = 1 is the same for all, n = M one each, and with M = B T images of B worlds, n = B is one for each world. None means
    absent.

    Attributes:
        mesh: integers of the mesh (``mesh_topology``): F faces, V vertices.
        vertices_rest: [V, 3] or [n, V, 3] vertices in their body's frame [m].
        body_q: [M, N, 7] position [m] and unit quaternion (x, y, z, w) of every body; N >= 1.
        camera: [n, 16] fx, fy, cx, cy [pixels], R (row-major), t [m] (see ``camera``).
        albedo: [n, F, 3, 3] linear rgb of every face's corners; it tints the texture of faces that have one.
        ambient: [n, 3] ambient light, linear rgb.
        background: [n, 2, 3] linear rgb at the picture's top and bottom edge.
        directional: [n, L, 6] direction in which each light travels (any length), intensity rgb.
        point: [n, P, 6] position [m] and intensity rgb of each light, which falls as 1 / r^2.
        environment: [n, 9, 3] spherical-harmonics coefficients of the incoming radiance (see ``shading.reflection``).
        material: [n, Q, 4] specular rgb and shininess; needed by shading "phong".
        uv: [n, F, 3, 2] texture coordinates of every face's corners; needed where a face has a texture.
        texels: [n, X, 3] linear rgb of all textures; needed where there is a texture.
        background_image: [n, h, w, 3] linear rgb, stretched over the picture, in place of ``background``.
        ground: [n, 10] albedo rgb, height z [m], second albedo rgb, cell [m], origin x, y [m] of the ground plane; needed where
            the settings have a ground.
        distortion: [n, 5] k1, k2, p1, p2, k3 of the lens.
        softness: [n, 2] sigma and gamma, in place of the settings' and with derivatives.
    """

    mesh: MeshTopology
    vertices_rest: Array = real_array(ANY, 3, column_flags=MOVING_COLUMN | LIT_COLUMN)
    body_q: Array = real_array(ANY, 7, column_flags=MOVING_COLUMN | LIT_COLUMN)
    camera: Array = real_array(CAMERA_SIZE, column_flags=MOVING_COLUMN | LIT_COLUMN | BACKDROP_COLUMN)
    albedo: Array = real_array(FACES, 3, 3, column_flags=ALBEDO_COLUMN)
    ambient: Array = real_array(3, column_flags=LIT_COLUMN | BACKDROP_COLUMN)
    background: Array = real_array(2, 3, column_flags=BACKDROP_COLUMN)
    directional: Array | None = real_array(ANY, LIGHT.size, column_flags=LIT_COLUMN | BACKDROP_COLUMN, default=None)
    point: Array | None = real_array(ANY, LIGHT.size, column_flags=LIT_COLUMN | BACKDROP_COLUMN, default=None)
    environment: Array | None = real_array(9, 3, column_flags=LIT_COLUMN | BACKDROP_COLUMN, default=None)
    material: Array | None = real_array(ANY, MATERIAL.size, column_flags=LIT_COLUMN, default=None)
    uv: Array | None = real_array(FACES, 3, 2, column_flags=ALBEDO_COLUMN, default=None)
    texels: Array | None = real_array(ANY, 3, column_flags=ALBEDO_COLUMN | BACKDROP_COLUMN, default=None)
    background_image: Array | None = real_array(ANY, ANY, 3, column_flags=BACKDROP_COLUMN, default=None)
    ground: Array | None = real_array(GROUND.size, column_flags=LIT_COLUMN | ALBEDO_COLUMN | BACKDROP_COLUMN, default=None)
    distortion: Array | None = real_array(
        DISTORTION_SIZE, column_flags=MOVING_COLUMN | LIT_COLUMN | BACKDROP_COLUMN, default=None
    )
    softness: Array | None = real_array(2, column_flags=MOVING_COLUMN | LIT_COLUMN | BACKDROP_COLUMN, default=None)


_INPUT_METADATA = {input_field.name: input_field.metadata for input_field in fields(RenderInputs) if input_field.metadata}
REAL_INPUTS = tuple(_INPUT_METADATA)
# Shapes of the zero arrays in place of inputs that are None.
_DUMMY_SHAPES = {
    name: (1, *(1 if size in (ANY, FACES) else size for size in metadata["row"])) for name, metadata in _INPUT_METADATA.items()
}
# Flags of a column of tangents in which an input changes.
COLUMN_FLAGS = {name: metadata["column_flags"] for name, metadata in _INPUT_METADATA.items()}


def present_inputs(inputs: RenderInputs) -> list[str]:
    """Names of the real inputs that are not None."""
    return [name for name in REAL_INPUTS if getattr(inputs, name) is not None]


def contiguous(array: Array) -> Array:
    """``array`` in C order and without a torch graph, as kernels take it (``kernel_view``)."""
    if isinstance(array, np.ndarray):
        return np.ascontiguousarray(array)
    if isinstance(array, ti.Ndarray):
        return array
    return kernel_view(array.contiguous()) if array.is_cpu else array.detach().contiguous()


def check_inputs(inputs: RenderInputs, settings: RasterSettings) -> RenderInputs:
    """The inputs in C order, as kernels take them.

    Raises:
        UserError: a shape, a number of rows or a number type does not fit, or something is missing.
    """
    arrays = {name: contiguous(getattr(inputs, name)) for name in present_inputs(inputs)}
    inputs = replace(inputs, **arrays)
    if len(inputs.body_q.shape) != 3 or inputs.body_q.shape[0] < 1 or inputs.body_q.shape[1] < 1:
        raise UserError(f"body_q has shape {tuple(inputs.body_q.shape)}, and [images, bodies, 7] is needed, at least one of each")
    check_array(inputs.body_q, "body_q", (*inputs.body_q.shape[:2], 7))
    mesh = inputs.mesh
    if mesh.body_count > inputs.body_q.shape[1]:
        raise UserError(f"the mesh names {mesh.body_count} bodies and body_q has {inputs.body_q.shape[1]}: give all of them")
    _check_required(inputs, settings)
    images, vertex_count = inputs.body_q.shape[0], mesh.vertex_body.shape[0]
    if len(inputs.vertices_rest.shape) == 2:
        check_array(inputs.vertices_rest, "vertices_rest", (vertex_count, 3))
    else:
        _check_rows("vertices_rest", inputs.vertices_rest, images, (vertex_count, 3))
    axis_sizes = {ANY: None, FACES: mesh.face_count}
    for name, array in arrays.items():
        if name not in ("vertices_rest", "body_q"):
            _check_rows(name, array, images, [axis_sizes.get(size, size) for size in _INPUT_METADATA[name]["row"]])
    if inputs.softness is not None:
        for sigma, gamma in to_numpy(inputs.softness).tolist():
            check_softness(sigma, gamma)
    _check_counts(inputs, settings)
    return inputs


def with_dummies(inputs: RenderInputs, settings: RasterSettings) -> dict[str, Array]:
    """The inputs by name, with small zero arrays in place of those that are None (softness: the settings')."""
    filled_inputs = {name: getattr(inputs, name) for name in REAL_INPUTS}
    if inputs.softness is None:
        filled_inputs["softness"] = reals_in_same_library(inputs.body_q, np.array([[settings.sigma, settings.gamma]]))
    for name, shape in _DUMMY_SHAPES.items():
        if filled_inputs[name] is None:
            filled_inputs[name] = zeros_in_same_library(inputs.body_q, shape)
    return filled_inputs


def _check_required(inputs: RenderInputs, settings: RasterSettings) -> None:
    has_texture = inputs.mesh.has_textures or settings.ground == "texture"
    if inputs.mesh.has_textures and inputs.uv is None:
        raise UserError("faces of the mesh have a texture and RenderInputs.uv is None: give [n, F, 3, 2], or no texture")
    if has_texture and inputs.texels is None:
        raise UserError("there is a texture and RenderInputs.texels is None: give [n, X, 3], or no texture")
    if settings.shading == "phong" and settings.quantity == "color" and inputs.material is None:
        raise UserError("shading is 'phong' and RenderInputs.material is None: give [n, Q, 4], specular rgb and shininess")
    if settings.ground is not None and inputs.ground is None:
        raise UserError("the settings ask for a ground and RenderInputs.ground is None: give [n, 10], or ground=None")


def _check_counts(inputs: RenderInputs, settings: RasterSettings) -> None:
    mesh = inputs.mesh
    if inputs.material is not None and inputs.material.shape[1] < mesh.material_count:
        raise UserError(f"the mesh names {mesh.material_count} materials and material has {inputs.material.shape[1]}: give all")
    if inputs.texels is not None and inputs.texels.shape[1] < mesh.texel_count:
        raise UserError(f"the textures need {mesh.texel_count} texels and texels has {inputs.texels.shape[1]}: give all of them")
    if settings.ground == "texture" and (mesh.texel_count == 0 or not 0 <= settings.ground_texture < mesh.textures.shape[0]):
        count = mesh.textures.shape[0] if mesh.texel_count else 0
        raise UserError(f"ground_texture is {settings.ground_texture} and the mesh has {count} textures: name one of them")
    if inputs.ground is not None and settings.ground in ("checker", "texture"):
        cells = to_numpy(inputs.ground)[:, 7]
        if not (cells > 0).all():
            raise UserError(f"a cell of the ground is {cells.min()} m: give a size above zero")


def _check_rows(name: str, array: Array, images: int, row_shape: Sequence[int | None]) -> None:
    shape = tuple(array.shape)
    rows = shape[0] if shape else 0
    if rows < 1 or images % rows:
        raise UserError(f"{name} has {rows} rows for {images} images: the number of rows must divide the number of images")
    if len(shape) != 1 + len(row_shape):
        raise UserError(f"{name} has shape {shape}, and [n, {', '.join(str(x or 'any') for x in row_shape)}] is needed")
    expected = [given if size is None else size for given, size in zip(shape[1:], row_shape, strict=True)]
    if 0 in expected:
        raise UserError(f"{name} has shape {shape}: give None where there is nothing")
    check_array(array, name, (rows, *expected))
