"""From the images' adjoint back to every real input: the adjoints of the stages in reverse order."""

from __future__ import annotations

from ti_render.backdrop.backdrop_adjoint import draw_backdrop_adjoint
from ti_render.geometry.lens import undistort_pixels_adjoint
from ti_render.geometry.normals import find_normals_adjoint
from ti_render.geometry.pose import pose_adjoint
from ti_render.geometry.project import project_adjoint
from ti_render.inputs import RenderInputs, contiguous, given_inputs
from ti_render.raster.antialias import spread_samples
from ti_render.raster.dibr_adjoint import rasterise_dibr_adjoint
from ti_render.raster.row_sums import add_row_sums, add_tile_sums
from ti_render.raster.softras import STATE_SIZE
from ti_render.raster.softras_adjoint import PIXEL_BAR_SIZE, rasterise_adjoint
from ti_render.render import (
    RenderResult,
    backdrop_arguments,
    counts,
    draw_backdrop_again,
    layer_arguments,
    mesh_arguments,
    shadow_backdrop,
    shadow_mesh_arguments,
)
from ti_render.shading.light_view import view_from_lights_adjoint
from ti_render.shading.uniforms import gather_uniforms_adjoint
from ti_sim.base.arrays import Array, check_array, empty_like_family, like_family, zeros_like_family
from ti_sim.base.parallel import serial_for, spread_of
from ti_sim.base.runtime import compiled_lightly, require


def render_adjoint(result: RenderResult, images_bar: Array) -> RenderInputs:
    """Adjoint of ``render``: the derivative of sum(images_bar * images) with respect to every real input.

    Args:
        result: what ``render`` returned.
        images_bar: [M, H, W, 4], in the container of the images.

    Returns:
        Adjoints in the shapes and the container of the inputs, None for inputs that are None; the mesh is the input's.

    Raises:
        UserError: images_bar has another shape or number type.
    """
    require()
    given, images_bar = images_bar, contiguous(images_bar)
    settings = result.settings
    check_array(images_bar, "the images' adjoint", (result.layer.pictures.shape[0], settings.height, settings.width, 4))
    names = given_inputs(result.inputs)
    adjoints = {name: _zeros(result, getattr(result.inputs, name)) for name in names}
    add_render_adjoint(result, images_bar, adjoints)
    return RenderInputs(mesh=result.inputs.mesh, **{name: like_family(given, array) for name, array in adjoints.items()})


def _zeros(result: RenderResult, like: Array) -> Array:
    return zeros_like_family(result.vertices_world, tuple(like.shape))


@compiled_lightly
def add_render_adjoint(result: RenderResult, images_bar: Array, adjoints: dict[str, Array]) -> None:
    """Add the adjoints of the real inputs, of shapes of the inputs, to the arrays of ``adjoints`` (see ``render_adjoint``)."""
    inputs, settings, layer = result.inputs, result.settings, result.layer
    # Inputs that are None have dummies, and so have their adjoints.
    bars = {name: adjoints[name] if name in adjoints else _zeros(result, array) for name, array in result.gathered.items()}
    vertices_bar, normals_bar = _zeros(result, result.vertices_world), _zeros(result, result.normals)
    centres_bar, maps_bar = _zeros(result, result.centres), _zeros(result, result.shadows.maps)
    uniforms_bar, screen_bar = _zeros(result, layer.uniforms), _zeros(result, layer.screen)
    if settings.antialias > 1:
        samples_bar = empty_like_family(images_bar, tuple(layer.pictures.shape))
        spread_samples(images_bar, settings.antialias, samples_bar)
        images_bar = samples_bar
    _add_picture(
        result, images_bar, bars, screen_bar, vertices_bar, normals_bar, uniforms_bar, maps_bar, centres_bar
    )
    if result.shadows.layer is not None:
        _add_shadows(result, maps_bar, vertices_bar, uniforms_bar)
    lights = counts(inputs)
    few = serial_for(result.normals.shape[0] * result.normals.shape[1])
    gather_uniforms_adjoint(
        serial_for(uniforms_bar.shape[0]), inputs.camera, result.gathered["ground"], result.gathered["directional"], *lights,
        int(settings.ground is not None),
        settings.width, settings.height, layer.uniforms, uniforms_bar, bars["camera"], bars["softness"], bars["ambient"],
        bars["environment"], bars["ground"], bars["background"], bars["directional"], bars["point"], bars["material"],
    )  # fmt: skip
    if inputs.distortion is not None:
        undistort_pixels_adjoint(
            inputs.camera, inputs.distortion, settings.width, settings.height, settings.antialias, result.centres, centres_bar,
            bars["camera"], bars["distortion"],
        )  # fmt: skip
    if result.normals.shape[1] == inputs.mesh.normal_rows:
        find_normals_adjoint(
            few, result.vertices_world, inputs.mesh.corners, inputs.mesh.group_start, inputs.mesh.group_faces, normals_bar,
            vertices_bar,
        )
    project_adjoint(
        few, result.vertices_world, inputs.camera, settings.width, settings.height, layer.screen, screen_bar, vertices_bar,
        bars["camera"],
    )  # fmt: skip
    pose_adjoint(
        few, inputs.vertices_rest, inputs.mesh.vertex_body, inputs.body_q, vertices_bar, bars["vertices_rest"], bars["body_q"]
    )


def _add_picture(
    result: RenderResult, pictures_bar: Array, bars: dict[str, Array], screen_bar: Array, vertices_bar: Array,
    normals_bar: Array, uniforms_bar: Array, maps_bar: Array, centres_bar: Array,
) -> None:  # fmt: skip
    """Adjoint of the picture seen from the camera: faces, then backdrop."""
    layer = result.layer
    images, height, width = layer.pictures.shape[:3]
    columns = layer.uniforms.shape[1]
    tile_bars = zeros_like_family(pictures_bar, (max(layer.tiles.occupied, 1), columns))
    arguments = mesh_arguments(
        layer.shading, result.flags, result.inputs, layer.screen, result.vertices_world, result.normals, result.gathered,
        layer.uniforms, result.shadows, result.centres, layer.tiles,
    )  # fmt: skip
    if layer.hard:
        backdrop_bar = empty_like_family(pictures_bar, (images, height, width, 3))
    else:
        backdrop_bar = draw_backdrop_again(result)
    outputs = (
        pictures_bar, backdrop_bar, screen_bar, vertices_bar, normals_bar, bars["albedo"], bars["uv"], bars["texels"], tile_bars,
        maps_bar, centres_bar,
    )  # fmt: skip
    if layer.hard:
        rasterise_dibr_adjoint(*arguments, *layer_arguments(layer), layer.pixel_state, *outputs)
    else:
        pixel_bar = empty_like_family(pictures_bar, (layer.pixel_state.shape[0] // STATE_SIZE * PIXEL_BAR_SIZE,))
        rasterise_adjoint(*arguments, *layer_arguments(layer), layer.pixel_state, pixel_bar, *outputs)
    few = serial_for(uniforms_bar.shape[0] * columns)
    add_tile_sums(few, tile_bars, layer.tiles.slot, uniforms_bar)
    row_bars = zeros_like_family(pictures_bar, (images * height, columns))
    draw_backdrop_adjoint(
        *backdrop_arguments(result), spread_of(images * height), backdrop_bar, row_bars, bars["texels"], maps_bar,
        bars["background_image"], centres_bar,
    )  # fmt: skip
    add_row_sums(few, row_bars, uniforms_bar)


def _add_shadows(result: RenderResult, maps_bar: Array, vertices_bar: Array, uniforms_bar: Array) -> None:
    """Adjoint of the shadow maps: adds to the adjoints of the vertices and of the lights."""
    layer, inputs = result.shadows.layer, result.inputs
    screen_bar = _zeros(result, layer.screen)
    dummies = {name: _zeros(result, result.gathered[name]) for name in ("albedo", "uv", "texels")}
    rasterise_adjoint(
        *shadow_mesh_arguments(inputs, layer, result.vertices_world, result.normals, result.gathered), *layer_arguments(layer),
        layer.pixel_state, empty_like_family(maps_bar, (layer.pixel_state.shape[0] // STATE_SIZE * PIXEL_BAR_SIZE,)), maps_bar,
        shadow_backdrop(layer), screen_bar, _zeros(result, result.vertices_world),
        _zeros(result, result.normals), dummies["albedo"], dummies["uv"], dummies["texels"],
        zeros_like_family(maps_bar, (max(layer.tiles.occupied, 1), layer.uniforms.shape[1])),
        zeros_like_family(maps_bar, (1, 1, 1, 4)), zeros_like_family(maps_bar, (1, 1, 1, 2)),
    )  # fmt: skip
    view_from_lights_adjoint(
        result.vertices_world, result.layer.uniforms, result.shadows.frame, inputs.directional.shape[1], layer.screen,
        screen_bar, vertices_bar, uniforms_bar,
    )  # fmt: skip
