"""Forward derivatives: the images' tangents along K directions in the space of the inputs, all in one pass."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ti_render.arrays import (
    MOVING_COLUMN,
    BackdropArrays,
    FaceArrays,
    FaceTangentWork,
    TangentWork,
    UniformArrays,
    bundle_from,
)
from ti_render.backdrop.backdrop_jvp import draw_backdrop_jvp
from ti_render.geometry.lens import undistort_pixels_jvp
from ti_render.geometry.normals import find_normals_jvp
from ti_render.geometry.pose import pose_jvp
from ti_render.geometry.project import project_jvp
from ti_render.inputs import COLUMN_FLAGS, contiguous, present_inputs
from ti_render.raster.antialias import average_samples
from ti_render.raster.dibr_jvp import rasterise_dibr_jvp
from ti_render.raster.softras_jvp import rasterise_jvp
from ti_render.raster.softras_jvp_lanes import rasterise_jvp_lanes
from ti_render.render import Layer, RenderResult, redraw_backdrop, shadow_backdrop
from ti_render.shading.light_view import view_from_lights_jvp
from ti_render.shading.reflection import SCRATCH
from ti_render.shading.surface import FACE_DOT_SIZE
from ti_render.shading.uniforms import gather_uniforms_jvp
from ti_sim.base.arrays import (
    Array,
    check_array,
    empty_in_same_library,
    flat_view,
    in_same_library,
    ints_in_same_library,
    to_numpy,
    zeros_in_same_library,
)
from ti_sim.base.errors import UserError
from ti_sim.base.lanes import make_lane_array
from ti_sim.base.parallel import iterations_per_task
from ti_sim.base.rules import checked
from ti_sim.base.runtime import require, with_vector_code, without_cfg_optimisation


@checked
@without_cfg_optimisation
def render_jvp(result: RenderResult, tangents: Mapping[str, Array]) -> Array:
    """Tangents of the images: column k is the derivative of the images along the k-th tangents of the inputs.

    Args:
        result: of ``render``.
        tangents: name of a real input -> [K, *shape of the input]; inputs that are left out do not change.

    Returns:
        [M, K, H, W, 4] in the container of the images.

    Raises:
        UserError: no tangent, an unknown name, one of an input that is None, or a shape or number type that does not fit.
    """
    require()
    container, tangents = tangents, {name: contiguous(array) for name, array in tangents.items()}
    columns = _column_count(result, tangents)
    inputs, settings, faces = result.inputs, result.settings, result.layer.faces
    like = result.vertices
    dots = {name: tangents[name] if name in tangents else _no_tangent(result, name, columns) for name in result.filled_inputs}
    column_flags = np.zeros(columns, dtype=np.int32)
    for name in tangents:
        column_flags |= _changing_columns(tangents, columns, (name,)) * COLUMN_FLAGS[name]
    dots |= _geometry_tangents(result, dots, columns, bool((column_flags & MOVING_COLUMN).any()))
    dots["uniforms"] = empty_in_same_library(like, (like.shape[0] * columns, faces.uniforms.shape[1]))
    gather_uniforms_jvp(
        result.picture, inputs.camera, result.filled_inputs["directional"], faces.uniforms, bundle_from(UniformArrays, dots),
        dots["uniforms"],
    )  # fmt: skip
    dots["centres"] = zeros_in_same_library(like, (1, 1, 1, 1, 2))
    if inputs.distortion is not None:
        shape = faces.centres.shape
        dots["centres"] = empty_in_same_library(like, (shape[0], columns, *shape[1:]))
        undistort_pixels_jvp(
            inputs.camera, inputs.distortion, settings.width, settings.height, settings.antialias, faces.centres,
            dots["camera"], dots["distortion"], dots["centres"],
        )  # fmt: skip
    dots["shadow_maps"] = zeros_in_same_library(like, (1, 1, 1, 1, 4))
    if result.shadows is not None:
        is_moving = _changing_columns(tangents, columns, ("vertices_rest", "body_q", "directional"))
        dots["shadow_maps"] = _shadow_tangents(result, result.shadows, dots, is_moving)
    return in_same_library(next(iter(container.values())), _picture_tangents(result, dots, column_flags))


def _column_count(result: RenderResult, tangents: Mapping[str, Array]) -> int:
    """K, the number of columns."""
    names = present_inputs(result.inputs)
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
    shape = list(result.filled_inputs[name].shape)
    if name in ("albedo", "uv", "texels", "background_image"):
        shape[0] = 1
    return zeros_in_same_library(result.vertices, (columns, *shape))


def _changing_columns(tangents: Mapping[str, Array], columns: int, names: tuple[str, ...]) -> np.ndarray:
    """[K] int32: 1 for columns in which one of these inputs changes."""
    is_moving = np.zeros(columns, dtype=np.int32)
    for name in names:
        if name in tangents:
            is_moving |= (to_numpy(tangents[name]).reshape(columns, -1) != 0).any(axis=1).astype(np.int32)
    return is_moving


def _geometry_tangents(result: RenderResult, dots: dict[str, Array], columns: int, is_moving: bool) -> dict[str, Array]:
    """Tangents of the world vertices, the screen vertices and the normals (dummies where nothing moves)."""
    vertices, inputs, settings = result.vertices, result.inputs, result.settings
    dummy = zeros_in_same_library(vertices, (1, 1, 1, 3))
    if not is_moving:
        has_shadows = result.shadows is not None
        zero_tangents = zeros_in_same_library(vertices, (*vertices.shape[:2], columns, 3)) if has_shadows else dummy
        return {"vertices": zero_tangents, "screen": dummy, "normals": dummy}
    vertices_dot = empty_in_same_library(vertices, (*vertices.shape[:2], columns, 3))
    pose_jvp(inputs.vertices_rest, inputs.mesh.vertex_body, inputs.body_q, dots["vertices_rest"], dots["body_q"], vertices_dot)
    screen_dot = empty_in_same_library(vertices, vertices_dot.shape)
    project_jvp(
        vertices, inputs.camera, settings.width, settings.height, result.layer.faces.screen, vertices_dot, dots["camera"],
        screen_dot,
    )  # fmt: skip
    normals_dot = dummy
    if result.with_normals:
        normals_dot = empty_in_same_library(vertices, (vertices.shape[0], inputs.mesh.normal_count, columns, 3))
        find_normals_jvp(vertices, inputs.mesh.normal_rows, vertices_dot, normals_dot)
    return {"vertices": vertices_dot, "screen": screen_dot, "normals": normals_dot}


def _shadow_tangents(result: RenderResult, layer: Layer, dots: dict[str, Array], is_moving: np.ndarray) -> Array:
    """Tangents of the shadow maps [M L, K, R, R, 4]; is_moving [K] is 1 for columns in which they have any."""
    like, columns = result.vertices, len(is_moving)
    maps_dot = zeros_in_same_library(like, (layer.pictures.shape[0], columns, *layer.pictures.shape[1:]))
    if not is_moving.any():
        return maps_dot
    screen_dot = empty_in_same_library(like, (*layer.faces.screen.shape[:2], columns, 3))
    view_from_lights_jvp(
        result.vertices, result.layer.faces.uniforms, result.backdrop.shadow_frame, result.inputs.directional.shape[1],
        layer.faces.screen, dots["vertices"], dots["uniforms"], screen_dot,
    )  # fmt: skip
    uniforms, dummy = layer.faces.uniforms, zeros_in_same_library(like, (1, 1, 1, 3))
    shadow_dots = dots | {
        "screen": screen_dot, "vertices": dummy, "normals": dummy, "centres": zeros_in_same_library(like, (1, 1, 1, 1, 2)),
        "uniforms": zeros_in_same_library(like, (uniforms.shape[0] * columns, uniforms.shape[1])),
    }  # fmt: skip
    _add_face_tangents(layer, shadow_backdrop(layer), bundle_from(FaceArrays, shadow_dots), is_moving * MOVING_COLUMN, maps_dot)
    return maps_dot


def _add_face_tangents(
    layer: Layer, backdrop: Array | None, dots: FaceArrays, column_flags: np.ndarray, pictures_dot: Array
) -> None:
    """Turn the backdrop's tangents in pictures_dot [M, K, H, W, 4] into those of a layer's pictures.

    Args:
        layer: of the pictures.
        backdrop: [M, H, W, 3], for SoftRas.
        dots: tangents of the layer's ``FaceArrays``.
        column_flags: [K] int32, bits of what each column changes.
        pictures_dot: changed in place.
    """
    like, columns, (height, width) = layer.faces.screen, len(column_flags), pictures_dot.shape[2:4]
    entries = layer.occupied * columns * SCRATCH.size
    work = FaceTangentWork(
        ints_in_same_library(like, column_flags), zeros_in_same_library(like, (1 if layer.in_lanes else entries,)),
        empty_in_same_library(like, (layer.occupied * columns * FACE_DOT_SIZE,)),
    )  # fmt: skip
    if layer.nearest_only:
        with flat_view(pictures_dot) as flat_dot:
            rasterise_dibr_jvp(layer.faces, layer.tiles, layer.pixel_state, dots, work, width, height, flat_dot)
        return
    pixel_dot = empty_in_same_library(like, (layer.occupied * layer.tiles.side**2 * columns * 4,))
    state = layer.pixel_state
    with flat_view(pictures_dot) as flat_dot:
        if layer.in_lanes:
            with_vector_code(rasterise_jvp_lanes)(
                layer.faces, layer.tiles, state, state.reshape(-1), backdrop, dots, work, make_lane_array(entries), pixel_dot,
                width, height, flat_dot,
            )  # fmt: skip
        else:
            rasterise_jvp(layer.faces, layer.tiles, state, backdrop, dots, work, pixel_dot, width, height, flat_dot)


def _picture_tangents(result: RenderResult, dots: dict[str, Array], column_flags: np.ndarray) -> Array:
    layer, settings, like, columns = result.layer, result.settings, result.vertices, len(column_flags)
    images, height, width = layer.pictures.shape[:3]
    pictures_dot = empty_in_same_library(like, (images, columns, height, width, 4))
    scratch = zeros_in_same_library(like, (images * height * columns * SCRATCH.size,))
    work = TangentWork(ints_in_same_library(like, column_flags), scratch)
    with flat_view(pictures_dot) as flat_pictures_dot:
        draw_backdrop_jvp(
            result.backdrop, iterations_per_task(images * height), bundle_from(BackdropArrays, dots), work, images, height, width,
            flat_pictures_dot,
        )  # fmt: skip
    backdrop = None if layer.nearest_only else redraw_backdrop(result)
    _add_face_tangents(layer, backdrop, bundle_from(FaceArrays, dots), column_flags, pictures_dot)
    if settings.antialias == 1:
        return pictures_dot
    averaged_tangents = empty_in_same_library(like, (images, columns, settings.height, settings.width, 4))
    average_samples(pictures_dot, settings.antialias, averaged_tangents)
    return averaged_tangents
