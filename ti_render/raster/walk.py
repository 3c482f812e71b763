"""Traversal by the rasterisers' kernels: tiles, the faces of a tile, and the pixels within the cut-off distance of a face.

A thread owns a tile: it walks over the tile's faces, and for each face over the pixels of its grown box, so that a pixel is
visited by the faces near it only. The passes (forward, adjoint, tangent, weights; of SoftRas and of DIB-R) differ in their
steps: each is a ``TilePass``, a bundle of the kernel's arrays with one method for each step, and ``walk`` calls the steps.

On a GPU, several threads share a tile in passes whose faces are independent of each other (``walk_pixel_parts``, then
``walk_face_parts``).

Taichi's CPU scheduler gives at least 512 iterations of a loop to a thread at a time, whatever the loop's settings say. The loop
over the tiles therefore runs ``Tiles.iterations_per_tile`` iterations for each tile, of which the first does the work.
"""

from typing import Any

from ti_render.arrays import FLAG, UNIFORM
from ti_render.backdrop.backdrop import inverse_temperature, pixel_centre
from ti_render.raster.fragment import Triangle, near_fade_gradient, triangle_setup, vec2
from ti_render.raster.tiles import CUT_OFF
from ti_sim.base.bundles import Array, Integer, bundle, with_fields
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3

# Fragments with D (``fragment``) at or below this are skipped (its square must stay above the least f32).
MIN_PROBABILITY = 1e-17
# Threads of a GPU that parts of tiles occupy, if there are fewer tiles with faces.
_GPU_THREADS = 1 << 17


@bundle
class Tile:
    """A tile, while a kernel is compiled.

    Attributes:
        image: number m of the image.
        width, height: size of the picture [pixels].
        x0, y0, x1, y1: first and last column and row of the tile's pixels.
        slot: number of the tile among those that have faces, -1 for a tile without.
        row: row of the thread in arrays of sums over a tile: the slot, or that of a part of the tile (``TileParts``).
        side: side of a whole tile [pixels].
        inverse_sigma: 1 / sigma.
        radius: cut-off distance from a face on the screen, sqrt(CUT_OFF sigma).
        inverse_temperature: of the softmax over depths, 1 / (gamma (far - near)) [1/m].
        state: variables of the pass for the tile (``TilePass.begin_tile``).
    """

    image: Any
    width: Any
    height: Any
    x0: Any
    y0: Any
    x1: Any
    y1: Any
    slot: Any
    row: Any
    side: Any
    inverse_sigma: Any
    radius: Any
    inverse_temperature: Any
    state: Any = None


@bundle
class Face:
    """A face of a tile, while a kernel is compiled.

    Attributes:
        number: number f of the face.
        triangle: its ``Triangle``.
        code: its code in ``Faces.contours``.
        fade, log_fade_gradient: its near fade, and the derivatives of its logarithm by the depths (``near_fade_gradient``).
        state: variables of the pass for the face (``TilePass.begin_face``).
    """

    number: Any
    triangle: Any
    code: Any
    fade: Any
    log_fade_gradient: Any
    state: Any = None


@bundle
class Pixel:
    """A pixel of a tile, while a kernel is compiled.

    Attributes:
        x, y: column and row in the picture.
        index: number of the pixel in arrays that exist for the tiles with faces: slot side^2 + row side + column in the tile.
        row, column: slot side + row in the tile, and column in the tile.
        centre: screen position of its centre.
    """

    x: Any
    y: Any
    index: Any
    row: Any
    column: Any
    centre: Any


@bundle
class TileParts:
    """Division of the pixels and the faces of each tile between threads: part p of n takes every nth, from p on.

    Attributes:
        tile_of_slot: number of the tile of every slot (see ``Tiles``).
        occupied: number of tiles that have faces, at least 1.
        count: parts of a tile.
    """

    tile_of_slot: Array
    occupied: Integer
    count: Integer


def divide_tiles(tile_of_slot: Array, occupied: int, side: int) -> TileParts:
    """The ``TileParts`` of tiles of ``side`` pixels: at most one part for each pixel."""
    return TileParts(tile_of_slot, occupied, min(max(_GPU_THREADS // occupied, 1), side * side))


@bundle
class TilePass:
    """Steps of a kernel during the traversal: a pass overrides those that it needs; the default steps do nothing.

    ``empty_tiles``: whether tiles without faces are visited, too (up to ``begin_pixel``). ``silhouettes_only``: whether faces
    without an edge on the contour (``find_contours``) are skipped. ``by_rows``: whether ``visit_row`` takes the
    place of ``visit``.
    """

    empty_tiles = False
    silhouettes_only = False
    by_rows = False

    @ti.func
    def begin_tile(self, tile: ti.template()):
        """Before a tile's pixels; returns a bundle of variables that the pass reads as ``tile.state``."""

    @ti.func
    def begin_pixel(self, tile: ti.template(), pixel: ti.template()):
        """For every pixel of the tile, before its faces."""

    @ti.func
    def begin_face(self, tile: ti.template(), face: ti.template()):
        """Before a face's pixels; returns a bundle of variables that the pass reads as ``face.state``."""

    @ti.func
    def visit(self, tile: ti.template(), face: ti.template(), pixel: ti.template()):
        """For every pixel in the face's bounding box, grown by the cut-off radius."""

    @ti.func
    def visit_row(self, tile: ti.template(), face: ti.template(), y, first_x, last_x):
        """For the pixels of row ``y`` in the face's bounding box, grown by the cut-off radius: columns first_x to last_x."""

    @ti.func
    def end_face(self, tile: ti.template(), face: ti.template()):
        """After a face's pixels."""

    @ti.func
    def end_pixel(self, tile: ti.template(), pixel: ti.template()):
        """For every pixel of the tile, after its faces."""

    @ti.func
    def end_tile(self, tile: ti.template()):
        """After all steps of a tile that has faces."""


@ti.func
def _tile(faces: ti.template(), tiles: ti.template(), number, width, height):
    """The ``Tile`` with this number."""
    side = tiles.side
    columns = (width + side - 1) // side
    tiles_per_image = columns * ((height + side - 1) // side)
    m = number // tiles_per_image
    x0, y0 = (number % tiles_per_image) % columns * side, (number % tiles_per_image) // columns * side
    x1, y1 = ti.min(x0 + side, width) - 1, ti.min(y0 + side, height) - 1
    slot = tiles.slot[number]
    inverse_sigma = 1.0 / faces.uniforms[m, UNIFORM.sigma]
    radius = ti.sqrt(CUT_OFF * faces.uniforms[m, UNIFORM.sigma])
    beta = inverse_temperature(faces, m)
    return Tile(m, width, height, x0, y0, x1, y1, slot, slot, side, inverse_sigma, radius, beta)


@ti.func
def _screen_vertex(screen: ti.template(), m, v):
    return vec2(screen[m, v, 0], screen[m, v, 1])


@ti.func
def screen_triangle(faces: ti.template(), m, f):
    """The ``Triangle`` of face f in image m."""
    v0, v1, v2 = faces.corners[f, 0], faces.corners[f, 1], faces.corners[f, 2]
    a0, a1, a2 = _screen_vertex(faces.screen, m, v0), _screen_vertex(faces.screen, m, v1), _screen_vertex(faces.screen, m, v2)
    depths = vec3(faces.screen[m, v0, 2], faces.screen[m, v1, 2], faces.screen[m, v2, 2])
    inverse_depths = 1.0 / depths
    inverse_area, inverse_squared_lengths, distance_scales = triangle_setup(a0, a1, a2)
    return Triangle(a0, a1, a2, depths, inverse_depths, inverse_area, inverse_squared_lengths, distance_scales)


@ti.func
def _face(faces: ti.template(), m, f):
    triangle = screen_triangle(faces, m, f)
    fade, log_fade_gradient = near_fade_gradient(triangle.depths, 1.0 / faces.near)
    code = faces.contours[m, f]
    return Face(f, triangle, code, fade, log_fade_gradient)


@ti.func
def pixel_at(faces: ti.template(), tile: ti.template(), x, y):
    """The ``Pixel`` of a tile at this column and row of the picture."""
    centre = pixel_centre(faces, tile.image, x, y, tile.width, tile.height)
    row, column = tile.slot * tile.side + y - tile.y0, x - tile.x0
    return Pixel(x, y, row * tile.side + column, row, column, centre)


@ti.func
def _pixel_range(faces: ti.template(), a, b, c, radius, pixels_per_unit, axis_length, first, last):
    """Pixels of [first, last] whose centres lie within ``radius`` of the range of a, b, c, on an axis of ``axis_length`` pixels
    (all of them where the lens distorts); ``pixels_per_unit`` is half of the picture's shorter side."""
    centre_pixel = 0.5 * axis_length - 0.5
    first_inside, last_inside = first, last
    if faces.flags[FLAG.distorted] == 0:
        first_inside = ti.cast(ti.max(ti.ceil((ti.min(a, b, c) - radius) * pixels_per_unit + centre_pixel), first), ti.i32)
        last_inside = ti.cast(ti.min(ti.floor((ti.max(a, b, c) + radius) * pixels_per_unit + centre_pixel), last), ti.i32)
    return first_inside, last_inside


@ti.func
def _walk_face(faces: ti.template(), tile: ti.template(), f, tile_pass: ti.template()):
    """The steps of a face and of the pixels within the cut-off distance."""
    stateless_face = _face(faces, tile.image, f)
    face = with_fields(stateless_face, state=tile_pass.begin_face(tile, stateless_face))
    a0, a1, a2 = face.triangle.a0, face.triangle.a1, face.triangle.a2
    pixels_per_unit = 0.5 * ti.min(tile.width, tile.height)
    first_x, last_x = _pixel_range(faces, a0[0], a1[0], a2[0], tile.radius, pixels_per_unit, tile.width, tile.x0, tile.x1)
    first_y, last_y = _pixel_range(faces, a0[1], a1[1], a2[1], tile.radius, pixels_per_unit, tile.height, tile.y0, tile.y1)
    if first_x <= last_x:
        for y in range(first_y, last_y + 1):
            if ti.static(tile_pass.by_rows):
                tile_pass.visit_row(tile, face, y, first_x, last_x)
            else:
                for x in range(first_x, last_x + 1):
                    pixel = pixel_at(faces, tile, x, y)
                    tile_pass.visit(tile, face, pixel)
    tile_pass.end_face(tile, face)


@ti.func
def walk(faces: ti.template(), tiles: ti.template(), width, height, tile_pass: ti.template()):
    """Traverse all tiles in parallel with the steps of ``tile_pass``; a kernel calls it at its top level.

    Args:
        faces, tiles: ``Faces`` and their ``Tiles``.
        width, height: size of the pictures [pixels].
        tile_pass: a ``TilePass``.
    """
    for index in range(tiles.slot.shape[0] * tiles.iterations_per_tile):
        if index % tiles.iterations_per_tile > 0:
            continue
        if ti.static(not tile_pass.empty_tiles):
            if tiles.slot[index // tiles.iterations_per_tile] < 0:
                continue
        stateless_tile = _tile(faces, tiles, index // tiles.iterations_per_tile, width, height)
        tile = with_fields(stateless_tile, state=tile_pass.begin_tile(stateless_tile))
        for y in range(tile.y0, tile.y1 + 1):
            for x in range(tile.x0, tile.x1 + 1):
                pixel = pixel_at(faces, tile, x, y)
                tile_pass.begin_pixel(tile, pixel)
        if tile.slot >= 0:
            for entry in range(
                tiles.start[index // tiles.iterations_per_tile], tiles.start[index // tiles.iterations_per_tile + 1]
            ):
                f = tiles.entries[entry]
                if ti.static(tile_pass.silhouettes_only):
                    if ti.abs(faces.contours[tile.image, f]) & 7 == 0:
                        continue
                _walk_face(faces, tile, f, tile_pass)
            for y in range(tile.y0, tile.y1 + 1):
                for x in range(tile.x0, tile.x1 + 1):
                    pixel = pixel_at(faces, tile, x, y)
                    tile_pass.end_pixel(tile, pixel)
            tile_pass.end_tile(tile)


@ti.func
def walk_pixel_parts(
    faces: ti.template(), tiles: ti.template(), parts: ti.template(), width, height, tile_pass: ti.template()
):
    """``begin_pixel`` for all pixels, by parts of tiles; arguments of ``walk``, and the ``TileParts``."""
    side = tiles.side
    for index in range(tiles.slot.shape[0] * parts.count):
        part = index % parts.count
        whole_tile = _tile(faces, tiles, index // parts.count, width, height)
        stateless_tile = with_fields(whole_tile, row=whole_tile.slot * parts.count + part)
        tile = with_fields(stateless_tile, state=tile_pass.begin_tile(stateless_tile))
        for i in range((side * side - part + parts.count - 1) // parts.count):
            x, y = tile.x0 + (part + i * parts.count) % side, tile.y0 + (part + i * parts.count) // side
            if x <= tile.x1 and y <= tile.y1:
                pixel = pixel_at(faces, tile, x, y)
                tile_pass.begin_pixel(tile, pixel)
        if tile.slot >= 0:
            tile_pass.end_tile(tile)


@ti.func
def walk_face_parts(
    faces: ti.template(), tiles: ti.template(), parts: ti.template(), width, height, tile_pass: ti.template()
):
    """The steps of all faces, by parts of the tiles that have faces; arguments as above."""
    for index in range(parts.occupied * parts.count):
        part, number = index % parts.count, parts.tile_of_slot[index // parts.count]
        whole_tile = _tile(faces, tiles, number, width, height)
        stateless_tile = with_fields(whole_tile, row=index)
        tile = with_fields(stateless_tile, state=tile_pass.begin_tile(stateless_tile))
        first = tiles.start[number] + part
        for i in range((tiles.start[number + 1] - first + parts.count - 1) // parts.count):
            _walk_face(faces, tile, tiles.entries[first + i * parts.count], tile_pass)
        tile_pass.end_tile(tile)
