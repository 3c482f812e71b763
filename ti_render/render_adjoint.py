"""Adjoint of ``render``: the adjoints of its stages in reverse order."""

from __future__ import annotations

from ti_render.arrays import BackdropArrays, FaceArrays, UniformArrays, bundle_from, field_names
from ti_render.backdrop.backdrop_adjoint import draw_backdrop_adjoint
from ti_render.geometry.lens import undistort_pixels_adjoint
from ti_render.geometry.normals import find_normals_adjoint
from ti_render.geometry.pose import pose_adjoint
from ti_render.geometry.project import project_adjoint
from ti_render.inputs import RenderInputs, contiguous, present_inputs
from ti_render.raster.antialias import average_samples_adjoint
from ti_render.raster.dibr_adjoint import rasterise_dibr_adjoint
from ti_render.raster.row_sums import add_part_sums, add_row_sums, add_tile_sums
from ti_render.raster.softras_adjoint import PIXEL_BAR_SIZE, rasterise_adjoint, rasterise_adjoint_in_parts
from ti_render.raster.softras_adjoint_lanes import rasterise_adjoint_lanes
from ti_render.raster.walk import TileParts, divide_tiles
from ti_render.render import Layer, RenderResult, redraw_backdrop, shadow_backdrop
from ti_render.shading.light_view import view_from_lights_adjoint
from ti_render.shading.uniforms import gather_uniforms_adjoint
from ti_sim.base.arrays import Array, check_array, empty_in_same_library, in_same_library, zeros_in_same_library
from ti_sim.base.bundles import with_fields
from ti_sim.base.parallel import iterations_per_task, runs_serially, sums_serially
from ti_sim.base.rules import checked
from ti_sim.base.runtime import require, without_cfg_optimisation


@checked
def render_adjoint(result: RenderResult, images_bar: Array) -> RenderInputs:
    """Adjoint of ``render``: the derivative of sum(images_bar * images) with respect to every real input.

    Args:
        result: of ``render``.
        images_bar: [M, H, W, 4], in the container of the images.

    Returns:
        Adjoints in the shapes and the container of the inputs, None for inputs that are None; the mesh is the input's.

    Raises:
        UserError: images_bar has another shape or number type.
    """
    require()
    container, images_bar = images_bar, contiguous(images_bar)
    settings = result.settings
    check_array(images_bar, "the images' adjoint", (result.layer.pictures.shape[0], settings.height, settings.width, 4))
    names = present_inputs(result.inputs)
    adjoints = {name: _zeros(getattr(result.inputs, name)) for name in names}
    add_render_adjoint(result, images_bar, adjoints)
    return RenderInputs(mesh=result.inputs.mesh, **{name: in_same_library(container, array) for name, array in adjoints.items()})


def _zeros(like: Array) -> Array:
    return zeros_in_same_library(like, tuple(like.shape))


@without_cfg_optimisation
def add_render_adjoint(result: RenderResult, images_bar: Array, adjoints: dict[str, Array]) -> None:
    """Add the adjoints of the real inputs to the arrays of ``adjoints``, which have the shapes of the inputs."""
    inputs, settings, layer = result.inputs, result.settings, result.layer
    # Inputs that are None are represented by dummies, and their adjoints as well.
    bars = {name: adjoints[name] if name in adjoints else _zeros(array) for name, array in result.filled_inputs.items()}
    bars |= {name: _zeros(getattr(layer.faces, name)) for name in field_names(FaceArrays) if name not in bars}
    if settings.antialias > 1:
        samples_bar = empty_in_same_library(images_bar, tuple(layer.pictures.shape))
        average_samples_adjoint(images_bar, settings.antialias, samples_bar)
        images_bar = samples_bar
    _add_picture(result, images_bar, bars)
    if result.shadows is not None:
        _add_shadows(result, result.shadows, bars)
    gather_uniforms_adjoint(
        runs_serially(layer.faces.uniforms.shape[0]), result.picture, inputs.camera, result.filled_inputs["directional"],
        layer.faces.uniforms, bars["uniforms"], bundle_from(UniformArrays, bars),
    )  # fmt: skip
    if inputs.distortion is not None:
        undistort_pixels_adjoint(
            sums_serially(), inputs.camera, inputs.distortion, settings.width, settings.height, settings.antialias,
            layer.faces.centres, bars["centres"], bars["camera"], bars["distortion"],
        )  # fmt: skip
    serial = runs_serially(layer.faces.normals.shape[0] * layer.faces.normals.shape[1])
    if result.with_normals:
        find_normals_adjoint(serial, result.vertices, inputs.mesh.normal_rows, bars["normals"], bars["vertices"])
    project_adjoint(
        serial, result.vertices, inputs.camera, settings.width, settings.height, layer.faces.screen, bars["screen"],
        bars["vertices"], bars["camera"],
    )  # fmt: skip
    pose_adjoint(
        serial, inputs.vertices_rest, inputs.mesh.vertex_body, inputs.body_q, bars["vertices"], bars["vertices_rest"],
        bars["body_q"],
    )  # fmt: skip


def _add_picture(result: RenderResult, pictures_bar: Array, bars: dict[str, Array]) -> None:
    """Adjoint of the picture seen from the camera: faces, then backdrop."""
    layer = result.layer
    images, height, width = layer.pictures.shape[:3]
    columns = layer.faces.uniforms.shape[1]
    if layer.nearest_only:
        backdrop_bar = empty_in_same_library(pictures_bar, (images, height, width, 3))
    else:
        backdrop_bar = redraw_backdrop(result)
    parts = _parts(layer)
    tile_bars = _tile_bars(layer, parts)
    _add_faces(layer, parts, pictures_bar, backdrop_bar, bundle_from(FaceArrays, bars | {"uniforms": tile_bars}))
    if parts is None:
        add_tile_sums(runs_serially(images * columns), tile_bars, layer.tiles.slot, bars["uniforms"])
    else:
        add_part_sums(parts, layer.tiles.slot.shape[0] // images, tile_bars, bars["uniforms"])
    row_bars = zeros_in_same_library(pictures_bar, (images * height, columns))
    draw_backdrop_adjoint(
        sums_serially(), result.backdrop, iterations_per_task(images * height), backdrop_bar,
        bundle_from(BackdropArrays, bars | {"uniforms": row_bars}),
    )  # fmt: skip
    add_row_sums(runs_serially(images * columns), row_bars, bars["uniforms"])


def _parts(layer: Layer) -> TileParts | None:
    """Parts of the tiles of a layer that threads of a GPU take; None where a thread takes a tile."""
    if layer.nearest_only or layer.in_lanes or layer.tiles.tile_of_slot is None:
        return None
    return divide_tiles(layer.tiles.tile_of_slot, layer.occupied, layer.tiles.side)


def _tile_bars(layer: Layer, parts: TileParts | None) -> Array:
    """Zeros for the adjoints of the uniforms: a row for each tile that has faces, or for each part of it."""
    uniforms = layer.faces.uniforms
    return zeros_in_same_library(uniforms, (layer.occupied * (1 if parts is None else parts.count), uniforms.shape[1]))


def _add_faces(layer: Layer, parts: TileParts | None, pictures_bar: Array, backdrop_bar: Array, bars: FaceArrays) -> None:
    """Adjoint of the faces of a layer."""
    if layer.nearest_only:
        rasterise_dibr_adjoint(sums_serially(), layer.faces, layer.tiles, layer.pixel_state, pictures_bar, backdrop_bar, bars)
        return
    side = layer.tiles.side
    pixel_bar = empty_in_same_library(pictures_bar, (layer.occupied * side, PIXEL_BAR_SIZE, side))
    arrays = (layer.faces, layer.tiles, layer.pixel_state, pixel_bar)
    if layer.in_lanes:
        rasterise_adjoint_lanes(
            sums_serially(), *arrays, layer.pixel_state.reshape(-1), pixel_bar.reshape(-1), pictures_bar, backdrop_bar, bars
        )
    elif parts is not None:
        rasterise_adjoint_in_parts(layer.faces, layer.tiles, parts, *arrays[2:], pictures_bar, backdrop_bar, bars)
    else:
        rasterise_adjoint(sums_serially(), *arrays, pictures_bar, backdrop_bar, bars)


def _add_shadows(result: RenderResult, layer: Layer, bars: dict[str, Array]) -> None:
    """Adjoint of the shadow maps: adds to the adjoints of the vertices and of the lights."""
    face_bars = FaceArrays(*[_zeros(getattr(layer.faces, name)) for name in field_names(FaceArrays)])
    parts = _parts(layer)
    tile_bars = _tile_bars(layer, parts)
    _add_faces(layer, parts, bars["shadow_maps"], shadow_backdrop(layer), with_fields(face_bars, uniforms=tile_bars))
    view_from_lights_adjoint(
        sums_serially(), result.vertices, result.layer.faces.uniforms, result.backdrop.shadow_frame,
        result.inputs.directional.shape[1], layer.faces.screen, face_bars.screen, bars["vertices"], bars["uniforms"],
    )  # fmt: skip
