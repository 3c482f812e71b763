"""Rendering: the forward stages, with the intermediate arrays that the derivatives need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ti_render.arrays import FLAG, LIGHT_KINDS, UNIFORM, Backdrop, Faces, Picture, UniformArrays, bundle_from
from ti_render.backdrop.backdrop import PATTERNS
from ti_render.backdrop.sharing import draw_backdrops
from ti_render.geometry.lens import undistort_pixels
from ti_render.geometry.normals import find_normals
from ti_render.geometry.pose import pose
from ti_render.geometry.project import project
from ti_render.inputs import RenderInputs, check_inputs, with_dummies
from ti_render.raster.antialias import average_samples
from ti_render.raster.binning import bin_faces
from ti_render.raster.coverage import find_contours
from ti_render.raster.dibr import DIBR_STATE_SIZE, rasterise_dibr
from ti_render.raster.softras import STATE_SIZE, rasterise
from ti_render.raster.softras_lanes import rasterise_lanes
from ti_render.raster.tiles import Tiles
from ti_render.settings import RasterSettings
from ti_render.shading.light_view import view_from_lights
from ti_render.shading.surface import SHADINGS
from ti_render.shading.uniforms import gather_uniforms, uniforms_size
from ti_render.topology import MeshTopology
from ti_sim.base.arrays import (
    Array,
    empty_in_same_library,
    in_same_library,
    int_empty_in_same_library,
    ints_in_same_library,
    reals_in_same_library,
    to_numpy,
    zeros_in_same_library,
)
from ti_sim.base.lanes import LANES
from ti_sim.base.parallel import runs_serially
from ti_sim.base.rules import checked
from ti_sim.base.runtime import require, without_cfg_optimisation
from ti_sim.base.tape import refuse_on_tape

# Shadow maps: softness of their depth order, depth of their background and near plane, in radii of the shadowed ball.
SHADOW_GAMMA, SHADOW_FAR, SHADOW_NEAR = 0.02, 70.0, 1.0
# Slope of a face, relative change of the depth per unit of the screen, above which it is treated as nearly edge-on: 3 degrees
# from edge-on in a picture with a field of view of 40 degrees, and in the shadow maps, whose eye is 64 radii away.
EDGE_ON_SLOPE, SHADOW_EDGE_ON_SLOPE = 8.0, 0.35


@dataclass(frozen=True)
class ShapeOnly:
    """Placeholder for an array of which only the shape is needed."""

    shape: tuple[int, ...]


@dataclass(frozen=True)
class Layer:
    """One soft picture of the mesh: seen from the camera, or from the lights for their shadow maps.

    Attributes:
        faces: argument of the rasteriser.
        tiles: the faces of every tile.
        occupied: number of tiles that have faces, at least 1.
        pixel_state: values of the pixels of the occupied tiles that the derivatives read.
        pictures: [M, H, W, 4] (all samples).
        nearest_only: whether the layer is drawn by DIB-R.
        in_lanes: whether neighbouring pixels are visited together (``has_lanes``).
    """

    faces: Faces
    tiles: Tiles
    occupied: int
    pixel_state: Array
    pictures: Array
    nearest_only: bool
    in_lanes: bool


@dataclass(frozen=True)
class RenderResult:
    """Images, and the arrays that their derivatives need.

    Arrays other than the images are as kernels take them (torch tensors on the CPU are numpy arrays here).

    Attributes:
        images: [M, H, W, 4] linear rgb (or depth, or normals) and alpha, in the container of the inputs.
        inputs, settings: of the rendering.
        filled_inputs: the inputs, with dummies in place of None.
        picture: its features and size.
        backdrop: arrays of ground and background.
        shadows: the shadow maps [M L, R, R, 4] of the lights; None without shadows.
        layer: the picture seen from the camera.
    """

    images: Array
    inputs: RenderInputs
    settings: RasterSettings
    filled_inputs: dict[str, Array]
    picture: Picture
    backdrop: Backdrop
    shadows: Layer | None
    layer: Layer

    @property
    def vertices(self) -> Array:
        """[M, V, 3] world [m]."""
        return self.layer.faces.vertices

    @property
    def with_normals(self) -> bool:
        """Whether normals were computed."""
        return self.layer.faces.normals.shape[1] == self.inputs.mesh.normal_count

    def without_pictures(self) -> RenderResult:
        """The result for the derivatives only, without the memory of the pictures, of which they need the shape."""
        layer = replace(self.layer, pictures=ShapeOnly(tuple(self.layer.pictures.shape)))
        return replace(self, images=ShapeOnly(tuple(self.images.shape)), layer=layer)


@checked
@without_cfg_optimisation
def render(inputs: RenderInputs, settings: RasterSettings) -> RenderResult:
    """Render M images.

    Args:
        inputs: arrays of one container. The result refers to them: do not change them before the derivatives are computed.
        settings: size, softness, aggregation, shading.

    Returns:
        The images [M, H, W, 4] in the container of the inputs, and the arrays that ``render_adjoint`` and ``render_jvp`` need.

    Raises:
        UserError: a shape, a number of rows or a number type does not fit, something that the settings need is missing, or a tape
            records (``render_tape`` records pictures).
    """
    require()
    refuse_on_tape("render", recorded_by="render_tape")
    container, inputs = inputs.body_q, check_inputs(inputs, settings)
    mesh, like = inputs.mesh, inputs.body_q
    images, samples_per_side = like.shape[0], settings.antialias
    filled_inputs = with_dummies(inputs, settings)
    flag_values = make_flags(inputs, settings)
    flags = ints_in_same_library(like, np.array(flag_values, dtype=np.int32))
    uniforms = empty_in_same_library(like, (images, uniforms_size(flag_values[FLAG.lights], flag_values[FLAG.materials])))
    picture = Picture(flags, settings.width, settings.height)
    gather_uniforms(runs_serially(images), picture, bundle_from(UniformArrays, filled_inputs), uniforms)
    # Arguments of the picture's kernels, by name.
    arrays = filled_inputs | _geometry(inputs, settings) | {
        "flags": flags, "textures": mesh.textures, "corners": mesh.corners, "uniforms": uniforms,
        "centres": _centres(inputs, settings), "shadow_maps": zeros_in_same_library(like, (1, 1, 1, 4)),
        "shadow_frame": zeros_in_same_library(like, (6,)),
    }  # fmt: skip
    shadows = None
    if draws_shadows(inputs, settings):
        shadows, arrays["shadow_frame"] = _draw_shadows(inputs, settings, arrays)
        arrays["shadow_maps"] = shadows.pictures
    arrays |= {
        "shading": SHADINGS[settings.shaded_quantity], "near": settings.near, "background_depth": settings.background_depth,
        "depth_range": settings.depth_range, "softmax_only": int(settings.composite == "softmax"), "edge_on_slope": EDGE_ON_SLOPE,
        "nearest_only": int(settings.aggregation == "dibr"),
    }  # fmt: skip
    backdrop = bundle_from(Backdrop, arrays)
    pictures = empty_in_same_library(like, (images, samples_per_side * settings.height, samples_per_side * settings.width, 4))
    draw_backdrops(backdrop, inputs, pictures)
    max_sigma, centres = (
        float(to_numpy(filled_inputs["softness"])[:, 0].max()),
        None if inputs.distortion is None else arrays["centres"],
    )
    arrays["contours"] = _contours(mesh, arrays["screen"], settings.near)
    layer = _draw(
        bundle_from(Faces, arrays), settings, pictures, max_sigma, centres, nearest_only=settings.aggregation == "dibr"
    )
    if samples_per_side > 1:
        pictures = empty_in_same_library(like, (images, settings.height, settings.width, 4))
        average_samples(layer.pictures, samples_per_side, pictures)
    return RenderResult(in_same_library(container, pictures), inputs, settings, filled_inputs, picture, backdrop, shadows, layer)


def has_lanes(like: Array, settings: RasterSettings) -> bool:
    """Whether the faces are drawn by ``rasterise_lanes``: on the CPU in single precision, in tiles of at least LANES pixels.

    Args:
        like: an array of the inputs; a ``ti.Ndarray`` has no flat view.
        settings: of the picture.
    """
    runtime = require()
    return (
        isinstance(like, np.ndarray) and runtime.device == "cpu" and runtime.precision == "f32"
        and settings.tile_side(runtime.device) >= LANES
    )  # fmt: skip


def draws_shadows(inputs: RenderInputs, settings: RasterSettings) -> bool:
    """Whether shadow maps are drawn: set in the settings, with directional lights and a lit colour."""
    return (
        settings.shadows is not None and inputs.directional is not None and settings.quantity == "color"
        and settings.shading != "none"
    )  # fmt: skip


def make_flags(inputs: RenderInputs, settings: RasterSettings) -> list[int]:
    """The kernels' flags, see ``FLAG``."""
    lights = {kind: _count(getattr(inputs, kind)) for kind in LIGHT_KINDS}
    shadows = draws_shadows(inputs, settings)
    uses_position = sum(lights.values()) > lights["directional"]  # lights of which the position matters
    flag_values = lights | {
        "lights": sum(lights.values()), "materials": _count(inputs.material), "environment": inputs.environment is not None,
        "shadows": shadows, "two_sided": settings.two_sided,
        "position": settings.shading == "phong" or uses_position or shadows or settings.two_sided,
        "distorted": inputs.distortion is not None, "ground": settings.ground is not None,
        "ground_pattern": PATTERNS.get(settings.ground, 0), "ground_texture": settings.ground_texture,
        "background_image": inputs.background_image is not None,
    }  # fmt: skip
    return [int(flag_values[name]) for name in FLAG.names]


def _count(rows: Array | None) -> int:
    return 0 if rows is None else rows.shape[1]


def redraw_backdrop(result: RenderResult) -> Array:
    """The backdrop [M, H, W, 3] of all samples, which the pictures no longer contain."""
    shape = tuple(result.layer.pictures.shape[:3])
    pictures = empty_in_same_library(result.vertices, (*shape, 3))
    draw_backdrops(result.backdrop, result.inputs, pictures)
    return pictures


def shadow_backdrop(layer: Layer) -> Array:
    """The backdrop [M L, R, R, 3] of the shadow maps: the depth SHADOW_FAR."""
    return reals_in_same_library(layer.faces.screen, np.full((*layer.pictures.shape[:3], 3), SHADOW_FAR))


def _geometry(inputs: RenderInputs, settings: RasterSettings) -> dict[str, Array]:
    """Vertices in the world and on the screen, and normals."""
    mesh, like = inputs.mesh, inputs.body_q
    images = like.shape[0]
    vertices = empty_in_same_library(like, (images, mesh.vertex_body.shape[0], 3))
    serial = runs_serially(images * mesh.vertex_body.shape[0])
    pose(serial, inputs.vertices_rest, mesh.vertex_body, inputs.body_q, vertices)
    screen = empty_in_same_library(like, vertices.shape)
    project(serial, vertices, inputs.camera, settings.width, settings.height, settings.near, screen)
    normals = zeros_in_same_library(like, (1, 1, 3))
    if settings.shaded_quantity in ("lambert", "phong", "normal"):
        normals = empty_in_same_library(like, (images, mesh.normal_count, 3))
        serial = runs_serially(images * mesh.normal_count)
        find_normals(serial, vertices, mesh.normal_rows, normals)
    return {"vertices": vertices, "screen": screen, "normals": normals}


def _centres(inputs: RenderInputs, settings: RasterSettings) -> Array:
    if inputs.distortion is None:
        return zeros_in_same_library(inputs.body_q, (1, 1, 1, 2))
    samples = settings.antialias
    shape = (inputs.body_q.shape[0], samples * settings.height, samples * settings.width, 2)
    centres = empty_in_same_library(inputs.body_q, shape)
    undistort_pixels(inputs.camera, inputs.distortion, settings.width, settings.height, samples, centres)
    return centres


def _contours(mesh: MeshTopology, screen: Array, near: float) -> Array:
    """Orientation and contour edges of the faces on a screen [M, V, 3] (``coverage.find_contours``)."""
    contours = int_empty_in_same_library(screen, (screen.shape[0], mesh.face_count))
    find_contours(runs_serially(screen.shape[0] * mesh.face_count), screen, mesh.corners, mesh.neighbours, near, contours)
    return contours


def _draw_shadows(inputs: RenderInputs, settings: RasterSettings, arrays: Mapping[str, Any]) -> tuple[Layer, Array]:
    """Draw the shadow maps of the directional lights: pictures of depths without lights, distortion or shadows.

    Returns:
        the maps, and their frame (see ``shadow_lookup``).
    """
    like, shadows, lights = inputs.body_q, settings.shadows, inputs.directional.shape[1]
    frame_values = [*shadows.center, shadows.radius, shadows.bias, shadows.width]
    frame = reals_in_same_library(like, np.array(frame_values, dtype=np.float64))
    count, side = like.shape[0] * lights, shadows.resolution
    screen = empty_in_same_library(like, (count, arrays["vertices"].shape[1], 3))
    view_from_lights(arrays["vertices"], arrays["uniforms"], frame, lights, screen)
    uniform_values = np.zeros((count, UNIFORM.lights))
    uniform_values[:, UNIFORM.sigma], uniform_values[:, UNIFORM.gamma] = shadows.sigma, SHADOW_GAMMA
    pictures = np.zeros((count, side, side, 4))
    pictures[..., :3] = SHADOW_FAR
    faces = bundle_from(Faces, arrays | {
        "contours": _contours(inputs.mesh, screen, SHADOW_NEAR), "shading": SHADINGS["depth"],
        "flags": ints_in_same_library(like, np.zeros(FLAG.size, dtype=np.int32)), "screen": screen,
        "uniforms": reals_in_same_library(like, uniform_values), "centres": zeros_in_same_library(like, (1, 1, 1, 2)),
        "near": SHADOW_NEAR, "background_depth": SHADOW_FAR, "depth_range": 1.0, "softmax_only": 1,
        "edge_on_slope": SHADOW_EDGE_ON_SLOPE,
    })  # fmt: skip
    return _draw(faces, settings, reals_in_same_library(like, pictures), shadows.sigma, None, nearest_only=False), frame


def _draw(
    faces: Faces, settings: RasterSettings, pictures: Array, max_sigma: float, centres: Array | None, *, nearest_only: bool
) -> Layer:
    """Draw faces into pictures [M, H, W, 4] that hold the backdrop.

    Args:
        faces: to draw.
        settings: of the picture.
        pictures: written.
        max_sigma: greatest softness of the edges.
        centres: [M, H, W, 2] screen positions of the pixels, where they are no regular grid.
        nearest_only: whether by DIB-R.
    """
    _images, height, width, _channels = pictures.shape
    tile_side = settings.tile_side(require().device)
    tiles, occupied = bin_faces(
        faces.screen, faces.corners, width=width, height=height, side=tile_side, sigma=max_sigma, centres=centres
    )
    rows = max(occupied, 1) * tiles.side
    in_lanes = not nearest_only and has_lanes(faces.screen, settings)
    if nearest_only:
        pixel_state = empty_in_same_library(faces.screen, (rows * tiles.side * DIBR_STATE_SIZE,))
        rasterise_dibr(faces, tiles, pixel_state, pictures)
    else:
        pixel_state = empty_in_same_library(faces.screen, (rows, STATE_SIZE, tiles.side))
        if in_lanes:
            rasterise_lanes(faces, tiles, pixel_state, pixel_state.reshape(-1), pictures)
        else:
            rasterise(faces, tiles, pixel_state, pictures)
    return Layer(faces, tiles, max(occupied, 1), pixel_state, pictures, nearest_only, in_lanes)
