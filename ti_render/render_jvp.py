"""Forward derivatives: the images' tangents along K directions in the space of the inputs, all in one pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ti_render.backdrop.backdrop_jvp import draw_backdrop_jvp
from ti_render.geometry.lens import undistort_pixels_jvp
from ti_render.geometry.normals import find_normals_jvp
from ti_render.geometry.pose import pose_jvp
from ti_render.geometry.project import project_jvp
from ti_render.inputs import contiguous, given_inputs
from ti_render.raster.antialias import average_columns
from ti_render.raster.dibr_jvp import rasterise_dibr_jvp
from ti_render.raster.softras import STATE_SIZE
from ti_render.raster.softras_jvp import rasterise_jvp
from ti_render.render import (
    UNIFORM_INPUTS,
    Layer,
    RenderResult,
    backdrop_arguments,
    counts,
    draw_backdrop_again,
    layer_arguments,
    mesh_arguments,
    shadow_backdrop,
    shadow_mesh_arguments,
)
from ti_render.shading.light_view import view_from_lights_jvp
from ti_render.shading.lighting import ALBEDO_COLUMN, LIT_COLUMN, MOVING_COLUMN, SCRATCH_SIZE
from ti_render.shading.surface import FACE_DOT_SIZE
from ti_render.shading.uniforms import gather_uniforms_jvp
from ti_sim.base.arrays import (
    Array,
    check_array,
    empty_like_family,
    ints_like_family,
    like_family,
    to_numpy,
    zeros_like_family,
)
from ti_sim.base.errors import UserError
from ti_sim.base.parallel import spread_of
from ti_sim.base.runtime import compiled_lightly, require

# Inputs that change which part of which face a pixel sees, and how much of it.
GEOMETRY = ("vertices_rest", "body_q", "camera", "distortion", "softness")
# Inputs that change the light on surfaces (the ground moves under it), and those that change the surfaces' own colour.
LIGHT = ("ambient", "environment", "directional", "point", "material", "ground")
ALBEDO = ("albedo", "uv", "texels", "ground")


@compiled_lightly
def render_jvp(result: RenderResult, tangents: Mapping[str, Array]) -> Array:
    """Tangents of the images: column k is the derivative of the images along the k-th tangents of the inputs.

    Args:
        result: what ``render`` returned.
        tangents: name of a real input -> [K, *shape of the input]; inputs that are left out do not change.

    Returns:
        [M, K, H, W, 4] in the container of the images.

    Raises:
        UserError: no tangent, an unknown name, one of an input that is None, or a shape or number type that does not fit.
    """
    require()
    given, tangents = tangents, {name: contiguous(array) for name, array in tangents.items()}
    columns = _columns(result, tangents)
    inputs, settings, like = result.inputs, result.settings, result.vertices_world
    dots = {name: tangents[name] if name in tangents else _no_tangent(result, name, columns) for name in result.gathered}
    moves = _moving(tangents, columns, GEOMETRY)
    active = moves * (MOVING_COLUMN | LIT_COLUMN) | _moving(tangents, columns, LIGHT) * LIT_COLUMN
    active |= _moving(tangents, columns, ALBEDO) * ALBEDO_COLUMN
    vertices_dot, screen_dot, normals_dot = _geometry(result, dots, columns, bool(moves.any()))
    uniforms_dot = empty_like_family(like, (like.shape[0] * columns, result.layer.uniforms.shape[1]))
    gather_uniforms_jvp(
        inputs.camera, result.gathered["directional"], *counts(inputs), int(settings.ground is not None), settings.width,
        settings.height, result.layer.uniforms, *(dots[name] for name in UNIFORM_INPUTS), uniforms_dot,
    )  # fmt: skip
    centres_dot = zeros_like_family(like, (1, 1, 1, 1, 2))
    if inputs.distortion is not None:
        shape = result.centres.shape
        centres_dot = empty_like_family(like, (shape[0], columns, *shape[1:]))
        undistort_pixels_jvp(
            inputs.camera, inputs.distortion, settings.width, settings.height, settings.antialias, result.centres,
            dots["camera"], dots["distortion"], centres_dot,
        )  # fmt: skip
    maps_dot = _shadow_tangents(result, dots, tangents, columns, vertices_dot, uniforms_dot)
    pictures_dot = _picture_tangents(
        result, dots, columns, active, vertices_dot, screen_dot, normals_dot, uniforms_dot, maps_dot, centres_dot
    )
    return like_family(next(iter(given.values())), pictures_dot)


def _columns(result: RenderResult, tangents: Mapping[str, Array]) -> int:
    """K, the number of columns."""
    names = given_inputs(result.inputs)
    if not tangents:
        raise UserError("render_jvp was given no tangent: give at least one of " + ", ".join(names))
    columns = next(iter(tangents.values())).shape[0]
    for name, array in tangents.items():
        if name not in names:
            raise UserError(f"a tangent of {name!r} was given, and the inputs are {', '.join(names)}: name one of them")
        check_array(array, f"the tangent of {name}", (columns, *getattr(result.inputs, name).shape))
    return columns


def _no_tangent(result: RenderResult, name: str, columns: int) -> Array:
    """Zeros for an input that does not change; for the large ones, one row serves all images."""
    shape = list(result.gathered[name].shape)
    if name in ("albedo", "uv", "texels", "background_image"):
        shape[0] = 1
    return zeros_like_family(result.vertices_world, (columns, *shape))


def _moving(tangents: Mapping[str, Array], columns: int, names: tuple[str, ...]) -> np.ndarray:
    """[K] int32: 1 for columns in which one of these inputs changes."""
    moves = np.zeros(columns, dtype=np.int32)
    for name in names:
        if name in tangents:
            moves |= (to_numpy(tangents[name]).reshape(columns, -1) != 0).any(axis=1).astype(np.int32)
    return moves


def _geometry(result: RenderResult, dots: dict[str, Array], columns: int, moves: bool) -> tuple[Array, Array, Array]:
    """Tangents of the world vertices, the screen vertices and the normals (dummies where nothing moves)."""
    like, inputs, settings = result.vertices_world, result.inputs, result.settings
    dummy = zeros_like_family(like, (1, 1, 1, 3))
    if not moves:
        shadowed = result.shadows.layer is not None
        still = zeros_like_family(like, (*like.shape[:2], columns, 3)) if shadowed else dummy
        return still, dummy, dummy
    vertices_dot = empty_like_family(like, (*like.shape[:2], columns, 3))
    pose_jvp(
        inputs.vertices_rest, inputs.mesh.vertex_body, inputs.body_q, dots["vertices_rest"], dots["body_q"], vertices_dot
    )
    screen_dot = empty_like_family(like, vertices_dot.shape)
    project_jvp(
        like, inputs.camera, settings.width, settings.height, result.layer.screen, vertices_dot, dots["camera"], screen_dot
    )
    normals_dot = dummy
    if result.normals.shape[1] == inputs.mesh.normal_rows:
        normals_dot = empty_like_family(like, (like.shape[0], inputs.mesh.normal_rows, columns, 3))
        find_normals_jvp(
            like, inputs.mesh.corners, inputs.mesh.group_start, inputs.mesh.group_faces, vertices_dot, normals_dot
        )
    return vertices_dot, screen_dot, normals_dot


def _shadow_tangents(
    result: RenderResult, dots: dict[str, Array], tangents: Mapping[str, Array], columns: int, vertices_dot: Array,
    uniforms_dot: Array,
) -> Array:  # fmt: skip
    """Tangents of the shadow maps [M L, K, R, R, 4]."""
    layer, inputs, like = result.shadows.layer, result.inputs, result.vertices_world
    if layer is None:
        return zeros_like_family(like, (1, 1, 1, 1, 4))
    maps_dot = zeros_like_family(like, (layer.pictures.shape[0], columns, *layer.pictures.shape[1:]))
    moves = _moving(tangents, columns, ("vertices_rest", "body_q", "directional"))
    if not moves.any():
        return maps_dot
    screen_dot = empty_like_family(like, (*layer.screen.shape[:2], columns, 3))
    view_from_lights_jvp(
        like, result.layer.uniforms, result.shadows.frame, inputs.directional.shape[1], layer.screen, vertices_dot,
        uniforms_dot, screen_dot,
    )  # fmt: skip
    constants_dot = zeros_like_family(like, (layer.uniforms.shape[0] * columns, layer.uniforms.shape[1]))
    dummy = zeros_like_family(like, (1, 1, 1, 3))
    rasterise_jvp(
        *shadow_mesh_arguments(inputs, layer, like, result.normals, result.gathered), *layer_arguments(layer),
        layer.pixel_state, shadow_backdrop(layer), ints_like_family(like, moves * MOVING_COLUMN), screen_dot, dummy, dummy,
        dots["albedo"], dots["uv"], dots["texels"], constants_dot, zeros_like_family(like, (1, 1, 1, 1, 4)),
        zeros_like_family(like, (1, 1, 1, 1, 2)), *_workspace(layer, columns), maps_dot,
    )  # fmt: skip
    return maps_dot


def _workspace(layer: Layer, columns: int) -> tuple[Array, ...]:
    """Workspace of the occupied tiles: of a fragment (zero at first), of a face, and (softras) of the pixels."""
    like, occupied = layer.screen, max(layer.tiles.occupied, 1)
    fragment_dot = zeros_like_family(like, (occupied * columns * SCRATCH_SIZE,))
    face_dot = empty_like_family(like, (occupied * columns * FACE_DOT_SIZE,))
    if layer.hard:
        return fragment_dot, face_dot
    return fragment_dot, face_dot, empty_like_family(like, (layer.pixel_state.shape[0] // STATE_SIZE * columns * 4,))


def _picture_tangents(
    result: RenderResult, dots: dict[str, Array], columns: int, active: np.ndarray, vertices_dot: Array, screen_dot: Array,
    normals_dot: Array, uniforms_dot: Array, maps_dot: Array, centres_dot: Array,
) -> Array:  # fmt: skip
    layer, settings, like = result.layer, result.settings, result.vertices_world
    images, height, width = layer.pictures.shape[:3]
    pictures_dot = empty_like_family(like, (images, columns, height, width, 4))
    columns_active = ints_like_family(like, active)
    draw_backdrop_jvp(
        *backdrop_arguments(result), spread_of(images * height), columns_active, dots["texels"], uniforms_dot, maps_dot,
        dots["background_image"], centres_dot, zeros_like_family(like, (images * height * columns * SCRATCH_SIZE,)), pictures_dot,
    )  # fmt: skip
    arguments: tuple[Any, ...] = mesh_arguments(
        layer.shading, result.flags, result.inputs, layer.screen, result.vertices_world, result.normals, result.gathered,
        layer.uniforms, result.shadows, result.centres, layer.tiles,
    )  # fmt: skip
    kernel = rasterise_dibr_jvp if layer.hard else rasterise_jvp
    behind = () if layer.hard else (draw_backdrop_again(result),)
    kernel(
        *arguments, *layer_arguments(layer), layer.pixel_state, *behind, columns_active, screen_dot, vertices_dot,
        normals_dot, dots["albedo"], dots["uv"], dots["texels"], uniforms_dot, maps_dot, centres_dot,
        *_workspace(layer, columns), pictures_dot,
    )  # fmt: skip
    if settings.antialias == 1:
        return pictures_dot
    averaged = empty_like_family(like, (images, columns, settings.height, settings.width, 4))
    average_columns(pictures_dot, settings.antialias, averaged)
    return averaged
