"""From vertices, poses, camera and lights to pictures: the forward stages, and what their derivatives need."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ti_render.backdrop.backdrop import PATTERNS, draw_backdrop
from ti_render.geometry.lens import DISTORTION_SIZE, undistort_pixels
from ti_render.geometry.normals import find_normals
from ti_render.geometry.pose import pose
from ti_render.geometry.project import project
from ti_render.inputs import RenderInputs, checked
from ti_render.raster.antialias import average_samples
from ti_render.raster.dibr import DIBR_STATE_SIZE, rasterise_dibr
from ti_render.raster.softras import STATE_SIZE, rasterise
from ti_render.raster.tiles import Tiles, bin_faces
from ti_render.settings import RasterSettings
from ti_render.shading.light_view import view_from_lights
from ti_render.shading.surface import FLAG_COUNT, SHADINGS
from ti_render.shading.uniforms import GROUND_SIZE, LIGHT_SIZE, LIGHTS, MATERIAL_SIZE, gather_uniforms, uniforms_size
from ti_sim.base.arrays import (
    Array,
    empty_like_family,
    ints_like_family,
    like_family,
    reals_like_family,
    to_numpy,
    zeros_like_family,
)
from ti_sim.base.parallel import serial_for, spread_of
from ti_sim.base.runtime import compiled_lightly, require

# The soft pictures of shadow maps: softness of their depth order and depth of their background, in radii; no near plane.
SHADOW_GAMMA, SHADOW_FAR, SHADOW_NEAR = 0.02, 70.0, 1.0
# Slope of a face, relative change of the depth per unit of the screen, from which on it counts as nearly edge-on: in a picture
# with a field of view of 40 degrees 3 degrees before it is, and as much in the maps, whose eye is 64 radii away.
STEEPEST, SHADOW_STEEPEST = 8.0, 0.35
# Uniforms that the rasteriser reads for a picture of depths.
SHADOW_UNIFORMS = LIGHTS


@dataclass(frozen=True)
class ShapeOnly:
    """Stands for an array of which only the shape is needed."""

    shape: tuple[int, ...]


@dataclass(frozen=True)
class Layer:
    """One soft picture of the mesh: seen from the camera, or from the lights for their shadow maps.

    Attributes:
        shading: number of what the colour channels hold (``surface``).
        screen: [M, V, 3] (see ``project``).
        uniforms: [M, U].
        tiles: the faces of every tile.
        pixel_state: what the pixels of the occupied tiles keep for the derivatives.
        pictures: [M, H, W, 4] (all samples).
        near, background_depth, depth_range: of the depth order.
        steepest: slope of a face from which on it counts as nearly edge-on (``edge_on``).
        strict: whether the colour is the softmax alone.
        hard: whether the layer is drawn by DIB-R.
    """

    shading: int
    screen: Array
    uniforms: Array
    tiles: Tiles
    pixel_state: Array
    pictures: Array
    near: float
    background_depth: float
    depth_range: float
    steepest: float
    strict: bool
    hard: bool


@dataclass(frozen=True)
class Shadows:
    """The lights' view of the mesh: layer of shadow maps [M L, R, R, 4], and its ball (see ``shadow_lookup``)."""

    layer: Layer | None
    maps: Array
    frame: Array


@dataclass(frozen=True)
class RenderResult:
    """Images, and what their derivatives need.

    Arrays other than the images are as kernels take them (torch tensors on the CPU are numpy arrays here).

    Attributes:
        images: [M, H, W, 4] linear rgb (or depth, or normals) and alpha, in the container of the inputs.
        inputs, settings: what was rendered.
        gathered: the inputs, with dummies in place of None.
        flags: [11] int32 (see ``surface``).
        vertices_world: [M, V, 3] [m].
        normals: [M, G + F, 3].
        centres: [M, H, W, 2] undistorted screen positions of the pixels (a dummy without distortion).
        shadows: the shadow maps.
        layer: the picture seen from the camera.
    """

    images: Array
    inputs: RenderInputs
    settings: RasterSettings
    gathered: dict[str, Array]
    flags: Array
    vertices_world: Array
    normals: Array
    centres: Array
    shadows: Shadows
    layer: Layer

    def without_pictures(self) -> RenderResult:
        """The same for the derivatives only, which need no more of the pictures than their shape: the memory is not held."""
        layer = replace(self.layer, pictures=ShapeOnly(tuple(self.layer.pictures.shape)))
        return replace(self, images=ShapeOnly(tuple(self.images.shape)), layer=layer)


@compiled_lightly
def render(inputs: RenderInputs, settings: RasterSettings) -> RenderResult:
    """Render M images.

    Args:
        inputs: arrays of one container. They are read, and kept by the result for the derivatives: do not change them in between.
        settings: size, softness, aggregation, shading.

    Returns:
        The images [M, H, W, 4] in the container of the inputs, and what ``render_adjoint`` and ``render_jvp`` need.

    Raises:
        UserError: a shape, a number of rows or a number type does not fit, or something that the settings need is missing.
    """
    require()
    given, inputs = inputs.body_q, checked(inputs, settings)
    mesh, like = inputs.mesh, inputs.body_q
    images = like.shape[0]
    gathered = gather_dummies(inputs, settings)
    vertices_world = empty_like_family(like, (images, mesh.vertex_body.shape[0], 3))
    few = serial_for(images * mesh.vertex_body.shape[0])
    pose(few, inputs.vertices_rest, mesh.vertex_body, inputs.body_q, vertices_world)
    screen = empty_like_family(like, vertices_world.shape)
    project(few, vertices_world, inputs.camera, settings.width, settings.height, settings.near, screen)
    normals = _normals(inputs, settings, vertices_world)
    lights = counts(inputs)
    uniforms = empty_like_family(like, (images, uniforms_size(*lights)))
    gather_uniforms(
        serial_for(images), *(gathered[name] for name in UNIFORM_INPUTS), *lights, int(settings.ground is not None),
        settings.width, settings.height, uniforms,
    )  # fmt: skip
    flags = ints_like_family(like, make_flags(inputs, settings))
    centres = _centres(inputs, settings)
    shadows = draw_shadows(inputs, settings, flags, vertices_world, normals, uniforms, gathered)
    layer = _draw(inputs, settings, gathered, flags, vertices_world, normals, centres, shadows, screen, uniforms)
    pictures = layer.pictures
    if settings.antialias > 1:
        pictures = empty_like_family(like, (images, settings.height, settings.width, 4))
        average_samples(layer.pictures, settings.antialias, pictures)
    return RenderResult(
        like_family(given, pictures), inputs, settings, gathered, flags, vertices_world, normals, centres, shadows, layer
    )


UNIFORM_INPUTS = (
    "camera", "softness", "ambient", "environment", "ground", "background", "directional", "point", "material",
)  # fmt: skip


def counts(inputs: RenderInputs) -> tuple[int, int, int]:
    """Numbers of directional lights, point lights and materials."""
    return tuple(0 if array is None else array.shape[1] for array in (inputs.directional, inputs.point, inputs.material))


def shadows_on(inputs: RenderInputs, settings: RasterSettings) -> bool:
    """Whether shadow maps are drawn: asked for, with a light that casts them and colours that show them."""
    return (
        settings.shadows is not None and inputs.directional is not None and settings.quantity == "color"
        and settings.shading != "none"
    )  # fmt: skip


def make_flags(inputs: RenderInputs, settings: RasterSettings) -> np.ndarray:
    """The kernels' flags [11] (see ``surface``)."""
    directional, point, _materials = counts(inputs)
    shadows = shadows_on(inputs, settings)
    position = settings.shading == "phong" or point > 0 or shadows or settings.two_sided
    flags = [
        directional, point, inputs.environment is not None, shadows, settings.two_sided, position,
        inputs.distortion is not None, settings.ground is not None, settings.ground_texture,
        PATTERNS.get(settings.ground, 0), inputs.background_image is not None,
    ]  # fmt: skip
    assert len(flags) == FLAG_COUNT
    return np.array(flags, dtype=np.int32)


def gather_dummies(inputs: RenderInputs, settings: RasterSettings) -> dict[str, Array]:
    """The inputs by name, with small zero arrays in place of those that are None (softness: the settings')."""
    shapes = {
        "directional": (1, 1, LIGHT_SIZE), "point": (1, 1, LIGHT_SIZE), "environment": (1, 9, 3),
        "material": (1, 1, MATERIAL_SIZE), "uv": (1, 1, 3, 2), "texels": (1, 1, 3), "background_image": (1, 1, 1, 3),
        "ground": (1, GROUND_SIZE), "distortion": (1, DISTORTION_SIZE), "softness": (1, 2),
    }  # fmt: skip
    gathered = {}
    for name in (
        "vertices_rest", "body_q", "camera", "albedo", "ambient", "background", *shapes,
    ):  # fmt: skip
        array = getattr(inputs, name)
        if array is None and name == "softness":
            array = reals_like_family(inputs.body_q, np.array([[settings.sigma, settings.gamma]]))
        gathered[name] = zeros_like_family(inputs.body_q, shapes[name]) if array is None else array
    return gathered


def mesh_arguments(
    shading: int, flags: Array, inputs: RenderInputs, layer_screen: Array, vertices: Array, normals: Array,
    gathered: dict[str, Array], uniforms: Array, shadows: Shadows, centres: Array, tiles: Tiles,
) -> tuple[Any, ...]:  # fmt: skip
    """Arguments that every rasteriser kernel begins with."""
    mesh = inputs.mesh
    return (
        shading, flags, layer_screen, mesh.corners, vertices, normals, gathered["albedo"], gathered["uv"], gathered["texels"],
        mesh.textures, uniforms, shadows.maps, shadows.frame, centres, tiles.start, tiles.slot, tiles.entries,
        spread_of(tiles.slot.shape[0]), tiles.side,
    )  # fmt: skip


def layer_arguments(layer: Layer) -> tuple[Any, ...]:
    """Scalar arguments of a rasteriser kernel after those of the mesh."""
    if layer.hard:
        return (layer.near,)
    return (int(layer.strict), layer.near, layer.background_depth, layer.depth_range, layer.steepest)


def backdrop_arguments(result: RenderResult) -> tuple[Any, ...]:
    """Arguments that every backdrop kernel begins with."""
    layer, gathered = result.layer, result.gathered
    return (
        layer.shading, result.flags, gathered["texels"], result.inputs.mesh.textures, layer.uniforms, result.shadows.maps,
        result.shadows.frame, gathered["background_image"], result.centres, int(layer.hard), layer.near,
        layer.background_depth, layer.depth_range,
    )  # fmt: skip


def draw_backdrop_again(result: RenderResult) -> Array:
    """The backdrop [M, H, W, 3] of all samples, which the pictures no longer hold."""
    shape = tuple(result.layer.pictures.shape[:3])
    backdrop = empty_like_family(result.vertices_world, (*shape, 3))
    draw_backdrop(*backdrop_arguments(result), spread_of(shape[0] * shape[1]), backdrop)
    return backdrop


def shadow_backdrop(layer: Layer) -> Array:
    """The backdrop [M L, R, R, 3] of the shadow maps: the depth of nothing."""
    return reals_like_family(layer.screen, np.full((*layer.pictures.shape[:3], 3), layer.background_depth))


def _normals(inputs: RenderInputs, settings: RasterSettings, vertices_world: Array) -> Array:
    if settings.shown not in ("lambert", "phong", "normal"):
        return zeros_like_family(vertices_world, (1, 1, 3))
    mesh = inputs.mesh
    normals = empty_like_family(vertices_world, (vertices_world.shape[0], mesh.normal_rows, 3))
    few = serial_for(vertices_world.shape[0] * mesh.normal_rows)
    find_normals(few, vertices_world, mesh.corners, mesh.group_start, mesh.group_faces, normals)
    return normals


def _centres(inputs: RenderInputs, settings: RasterSettings) -> Array:
    if inputs.distortion is None:
        return zeros_like_family(inputs.body_q, (1, 1, 1, 2))
    samples = settings.antialias
    shape = (inputs.body_q.shape[0], samples * settings.height, samples * settings.width, 2)
    centres = empty_like_family(inputs.body_q, shape)
    undistort_pixels(inputs.camera, inputs.distortion, settings.width, settings.height, samples, centres)
    return centres


def no_shadows(like: Array) -> Shadows:
    """Dummies for pictures without shadows."""
    return Shadows(None, zeros_like_family(like, (1, 1, 1, 4)), zeros_like_family(like, (6,)))


def draw_shadows(
    inputs: RenderInputs, settings: RasterSettings, flags: Array, vertices_world: Array, normals: Array, uniforms: Array,
    gathered: dict[str, Array],
) -> Shadows:  # fmt: skip
    """Draw the shadow maps of the directional lights."""
    like = inputs.body_q
    if not shadows_on(inputs, settings):
        return no_shadows(like)
    asked, lights = settings.shadows, inputs.directional.shape[1]
    frame = reals_like_family(like, np.array([*asked.center, asked.radius, asked.bias, asked.width], dtype=np.float64))
    count, side = like.shape[0] * lights, asked.resolution
    screen = empty_like_family(like, (count, vertices_world.shape[1], 3))
    view_from_lights(vertices_world, uniforms, frame, lights, screen)
    constants = np.zeros((count, SHADOW_UNIFORMS))
    constants[:, 15:17] = asked.sigma, SHADOW_GAMMA
    pictures = np.zeros((count, side, side, 4))
    pictures[..., :3] = SHADOW_FAR
    tiles = bin_faces(
        screen, inputs.mesh.corners, width=side, height=side, side=settings.tile_side(require().device), sigma=asked.sigma
    )
    layer = Layer(
        SHADINGS["depth"], screen, reals_like_family(like, constants), tiles,
        empty_like_family(like, (max(tiles.occupied, 1) * tiles.side**2 * STATE_SIZE,)), reals_like_family(like, pictures),
        SHADOW_NEAR, SHADOW_FAR, 1.0, SHADOW_STEEPEST, True, False,
    )  # fmt: skip
    rasterise(
        *shadow_mesh_arguments(inputs, layer, vertices_world, normals, gathered), *layer_arguments(layer), layer.pixel_state,
        layer.pictures,
    )  # fmt: skip
    return Shadows(layer, layer.pictures, frame)


def shadow_mesh_arguments(
    inputs: RenderInputs, layer: Layer, vertices_world: Array, normals: Array, gathered: dict[str, Array]
) -> tuple[Any, ...]:
    """``mesh_arguments`` for the shadow maps: a picture of depths without lights, distortion or shadows."""
    flags = ints_like_family(vertices_world, np.zeros(FLAG_COUNT, dtype=np.int32))
    dummy = zeros_like_family(vertices_world, (1, 1, 1, 2))
    return mesh_arguments(
        layer.shading, flags, inputs, layer.screen, vertices_world, normals, gathered, layer.uniforms,
        no_shadows(vertices_world), dummy, layer.tiles,
    )  # fmt: skip


def _draw(
    inputs: RenderInputs, settings: RasterSettings, gathered: dict[str, Array], flags: Array, vertices_world: Array,
    normals: Array, centres: Array, shadows: Shadows, screen: Array, uniforms: Array,
) -> Layer:  # fmt: skip
    like, samples = inputs.body_q, settings.antialias
    width, height = samples * settings.width, samples * settings.height
    pictures = empty_like_family(like, (like.shape[0], height, width, 4))
    hard = settings.aggregation == "dibr"
    shading = SHADINGS[settings.shown]
    draw_backdrop(
        shading, flags, gathered["texels"], inputs.mesh.textures, uniforms, shadows.maps, shadows.frame,
        gathered["background_image"], centres, int(hard), settings.near, settings.background_depth, settings.depth_range,
        spread_of(like.shape[0] * height), pictures,
    )  # fmt: skip
    tiles = bin_faces(
        screen, inputs.mesh.corners, width=width, height=height, side=settings.tile_side(require().device),
        sigma=float(to_numpy(gathered["softness"])[:, 0].max()), centres=None if inputs.distortion is None else centres,
    )  # fmt: skip
    state_size = DIBR_STATE_SIZE if hard else STATE_SIZE
    layer = Layer(
        shading, screen, uniforms, tiles, empty_like_family(like, (max(tiles.occupied, 1) * tiles.side**2 * state_size,)),
        pictures, settings.near, settings.background_depth, settings.depth_range, STEEPEST, settings.composite == "softmax", hard,
    )  # fmt: skip
    kernel = rasterise_dibr if hard else rasterise
    kernel(
        *mesh_arguments(
            shading, flags, inputs, screen, vertices_world, normals, gathered, uniforms, shadows, centres, tiles
        ),
        *layer_arguments(layer), layer.pixel_state, pictures,
    )  # fmt: skip
    return layer
