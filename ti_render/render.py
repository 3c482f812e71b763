"""From vertices, poses, camera and lights to images, and from the images' adjoint back to all of them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ti_render.backdrop import BACKDROP_SIZE, backdrop, backdrop_adjoint
from ti_render.camera import CAMERA_SIZE
from ti_render.pose import pose, pose_adjoint
from ti_render.project import project, project_adjoint
from ti_render.rasterise import STATE_SIZE, rasterise, rasterise_adjoint
from ti_render.settings import RasterSettings
from ti_render.shade import shade, shade_adjoint
from ti_render.tiles import Tiles, bin_faces
from ti_sim.base.arrays import Array, check_array, empty_like_family, to_numpy, zeros_like_family
from ti_sim.base.errors import UserError
from ti_sim.base.parallel import spread_of
from ti_sim.base.runtime import require, ti


@dataclass(frozen=True, kw_only=True)
class RenderInputs:
    """What a picture is made of. All arrays are of one container (numpy, torch, ti.ndarray) and the working precision.

    M is the number of images. An array marked [n, ...] has n rows, where n divides M, and serves image m with row m n // M:
    n = 1 is the same for all, n = M one each, and with M = B T images of B worlds, n = B is one for each world.

    Attributes:
        vertices_rest: [V, 3] or [n, V, 3] vertices in their body's frame [m].
        body_q: [M, N, 7] position [m] and unit quaternion (x, y, z, w) of every body; N >= 1.
        faces: [F, 3] int32 vertex numbers, counter-clockwise seen from outside.
        vertex_body: [V] int32, the body of every vertex, -1 for vertices that do not move.
        camera: [n, 16] fx, fy, cx, cy [pixels], R (row-major), t [m] (see ``camera``).
        albedo: [n, F, 3, 3] linear rgb of every face's corners.
        ambient: [n, 3] ambient light, linear rgb.
        light: [n, 6] direction in which the light travels (any length), intensity rgb.
        background: [n, 3] linear rgb.
        ground: [n, 4] albedo rgb and height z [m] of the ground plane; None where the settings have no ground.
    """

    vertices_rest: Array
    body_q: Array
    faces: Array
    vertex_body: Array
    camera: Array
    albedo: Array
    ambient: Array
    light: Array
    background: Array
    ground: Array | None = None


REAL_INPUTS = ("vertices_rest", "body_q", "camera", "albedo", "ambient", "light", "background", "ground")


@dataclass(frozen=True)
class RenderResult:
    """Images, and what their adjoint needs.

    Attributes:
        images: [M, H, W, 4] linear rgb and alpha.
        inputs, settings: what was rendered.
        vertices_world: [M, V, 3] [m].
        screen: [M, V, 3] (see ``project``).
        lit: [M, F, 3, 3] lit corner colours.
        backdrop: [M, 9] (see ``backdrop``).
        tiles: the faces of every tile.
        pixel_state: [occupied side^2, 10] (see ``rasterise``); the adjoint uses columns 6-9 as its workspace.
    """

    images: Array
    inputs: RenderInputs
    settings: RasterSettings
    vertices_world: Array
    screen: Array
    lit: Array
    backdrop: Array
    tiles: Tiles
    pixel_state: Array


def render(inputs: RenderInputs, settings: RasterSettings) -> RenderResult:
    """Render M images.

    Args:
        inputs: arrays of one container. They are read, and kept by the result for the adjoint: do not change them in between.
        settings: size, softness, composition.

    Returns:
        The images [M, H, W, 4] in the container of the inputs, and what ``render_adjoint`` needs.

    Raises:
        UserError: a shape, a number of rows or a number type does not fit.
    """
    require()
    inputs = _plain(inputs, settings)
    _check(inputs, settings)
    like = inputs.body_q
    images = like.shape[0]
    vertices_world = empty_like_family(like, (images, inputs.vertex_body.shape[0], 3))
    screen = empty_like_family(like, vertices_world.shape)
    lit = empty_like_family(like, (images, inputs.faces.shape[0], 3, 3))
    behind = empty_like_family(like, (images, BACKDROP_SIZE))
    pose(inputs.vertices_rest, inputs.vertex_body, inputs.body_q, vertices_world)
    project(vertices_world, inputs.camera, settings.width, settings.height, settings.near, screen)
    shade(vertices_world, inputs.faces, inputs.albedo, inputs.ambient, inputs.light, lit)
    backdrop(*_backdrop_arguments(inputs, settings), behind)
    tiles = bin_faces(
        screen, inputs.faces, width=settings.width, height=settings.height,
        side=settings.tile_side(require().device), sigma=settings.sigma,
    )  # fmt: skip
    pixel_state = empty_like_family(like, (max(tiles.occupied, 1) * tiles.side**2, STATE_SIZE))
    pictures = empty_like_family(like, (images, settings.height, settings.width, 4))
    rasterise(screen, inputs.faces, lit, behind, *_tile_arguments(tiles, settings), pixel_state, pictures)
    return RenderResult(pictures, inputs, settings, vertices_world, screen, lit, behind, tiles, pixel_state)


def render_adjoint(result: RenderResult, images_bar: Array) -> RenderInputs:
    """Adjoint of ``render``: the derivative of sum(images_bar * images) with respect to every real input.

    Args:
        result: what ``render`` returned.
        images_bar: [M, H, W, 4], in the container of the images.

    Returns:
        Adjoints in the shapes and the container of the inputs (faces and vertex_body: None; ground: None where the
        settings have no ground). The softness settings have no adjoint.

    Raises:
        UserError: images_bar has another shape or number type.
    """
    require()
    images_bar = _contiguous(images_bar)
    check_array(images_bar, "the images' adjoint", tuple(result.images.shape))
    like = result.images
    adjoints = {
        name: zeros_like_family(like, tuple(getattr(result.inputs, name).shape)) for name in REAL_INPUTS
    }
    add_render_adjoint(result, images_bar, adjoints)
    if not result.settings.ground:
        adjoints["ground"] = None
    return RenderInputs(faces=None, vertex_body=None, **adjoints)


def add_render_adjoint(result: RenderResult, images_bar: Array, adjoints: dict[str, Array]) -> None:
    """Add the adjoints of the real inputs, of shapes of the inputs, to the arrays of ``adjoints`` (see ``render_adjoint``)."""
    inputs, settings, tiles = result.inputs, result.settings, result.tiles
    screen_bar = zeros_like_family(result.images, tuple(result.screen.shape))
    lit_bar = zeros_like_family(result.images, tuple(result.lit.shape))
    backdrop_bar = zeros_like_family(result.images, tuple(result.backdrop.shape))
    vertices_world_bar = zeros_like_family(result.images, tuple(result.vertices_world.shape))
    rasterise_adjoint(
        result.screen, inputs.faces, result.lit, result.backdrop, *_tile_arguments(tiles, settings), result.pixel_state,
        images_bar, screen_bar, lit_bar, backdrop_bar,
    )  # fmt: skip
    backdrop_adjoint(
        *_backdrop_arguments(inputs, settings), backdrop_bar,
        adjoints["camera"], adjoints["ambient"], adjoints["light"], adjoints["background"], adjoints["ground"],
    )  # fmt: skip
    shade_adjoint(
        result.vertices_world, inputs.faces, inputs.albedo, inputs.ambient, inputs.light, lit_bar,
        vertices_world_bar, adjoints["albedo"], adjoints["ambient"], adjoints["light"],
    )  # fmt: skip
    project_adjoint(
        result.vertices_world, inputs.camera, settings.width, settings.height, result.screen, screen_bar,
        vertices_world_bar, adjoints["camera"],
    )  # fmt: skip
    pose_adjoint(
        inputs.vertices_rest, inputs.vertex_body, inputs.body_q, vertices_world_bar,
        adjoints["vertices_rest"], adjoints["body_q"],
    )  # fmt: skip


def check_topology(inputs: RenderInputs) -> None:
    """Raise a UserError unless the faces name vertices that exist and the vertices name bodies that exist.

    ``render`` does not look into these arrays; call this once for a new mesh.
    """
    vertices, bodies = inputs.vertex_body.shape[0], inputs.body_q.shape[1]
    faces, vertex_body = to_numpy(inputs.faces), to_numpy(inputs.vertex_body)
    if faces.size and (faces.min() < 0 or faces.max() >= vertices):
        raise UserError(f"faces name vertices {faces.min()} to {faces.max()}, and there are {vertices}: mend the mesh")
    if vertex_body.size and (vertex_body.min() < -1 or vertex_body.max() >= bodies):
        raise UserError(
            f"vertex_body names bodies {vertex_body.min()} to {vertex_body.max()}, and there are {bodies} (-1 is no body)"
        )


def _backdrop_arguments(inputs: RenderInputs, settings: RasterSettings) -> tuple[Any, ...]:
    return (
        inputs.camera, inputs.ambient, inputs.light, inputs.background, inputs.ground,
        int(settings.ground), settings.width, settings.height,
    )  # fmt: skip


def _tile_arguments(tiles: Tiles, settings: RasterSettings) -> tuple[Any, ...]:
    return (
        tiles.start, tiles.slot, tiles.entries, spread_of(tiles.slot.shape[0]), settings.width, settings.height, tiles.side,
        int(settings.composite == "softmax"), settings.sigma, settings.near, settings.background_depth, settings.depth_rate,
    )  # fmt: skip


def _contiguous(array: Array) -> Array:
    """``array`` without a torch graph, in C order."""
    if isinstance(array, np.ndarray):
        return np.ascontiguousarray(array)
    if isinstance(array, ti.Ndarray):
        return array
    return array.detach().contiguous()


def _plain(inputs: RenderInputs, settings: RasterSettings) -> RenderInputs:
    arrays = {field.name: getattr(inputs, field.name) for field in fields(inputs)}
    if arrays["ground"] is None:
        if settings.ground:
            raise UserError("the settings ask for a ground and RenderInputs.ground is None: give [n, 4], albedo rgb and height")
        arrays["ground"] = zeros_like_family(inputs.background, (1, 4))
    return RenderInputs(**{name: _contiguous(array) for name, array in arrays.items()})


def _check(inputs: RenderInputs, settings: RasterSettings) -> None:
    vertices, count = inputs.vertex_body.shape[0], inputs.faces.shape[0]
    if len(inputs.body_q.shape) != 3 or inputs.body_q.shape[0] < 1 or inputs.body_q.shape[1] < 1:
        raise UserError(f"body_q has shape {tuple(inputs.body_q.shape)}, and [images, bodies, 7] is needed, at least one of each")
    if vertices < 1 or count < 1:
        raise UserError(f"there are {vertices} vertices and {count} faces: give at least one of each")
    check_array(inputs.body_q, "body_q", (*inputs.body_q.shape[:2], 7))
    if len(inputs.vertices_rest.shape) == 2:
        check_array(inputs.vertices_rest, "vertices_rest", (vertices, 3))
    else:
        _check_rows(inputs, "vertices_rest", (vertices, 3))
    _check_rows(inputs, "camera", (CAMERA_SIZE,))
    _check_rows(inputs, "albedo", (count, 3, 3))
    _check_rows(inputs, "ambient", (3,))
    _check_rows(inputs, "light", (6,))
    _check_rows(inputs, "background", (3,))
    _check_rows(inputs, "ground", (4,))
    for name, shape in (("faces", (count, 3)), ("vertex_body", (vertices,))):
        array = getattr(inputs, name)
        if tuple(array.shape) != shape or not str(array.dtype).endswith(("int32", "i32")):
            raise UserError(f"{name} is {array.dtype} of shape {tuple(array.shape)}, and int32 of shape {shape} is needed")


def _check_rows(inputs: RenderInputs, name: str, row: tuple[int, ...]) -> None:
    array, images = getattr(inputs, name), inputs.body_q.shape[0]
    rows = array.shape[0] if len(array.shape) else 0
    if rows < 1 or images % rows:
        raise UserError(f"{name} has {rows} rows for {images} images: the number of rows must divide the number of images")
    check_array(array, name, (rows, *row))
