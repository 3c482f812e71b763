"""The walk of the rasterisers' kernels: over the tiles, over the faces of a tile, and over the pixels that a face reaches.

A thread owns a tile: it walks over the tile's faces, and for each face over the pixels of its grown box, so that a pixel is
visited by the faces near it only. The passes (forward, adjoint, tangent, weights; of SoftRas and of DIB-R) differ in their steps
on the way: each is a ``TilePass``, a bundle of the kernel's arrays with one method for each step, and ``walk`` calls the steps.

Taichi's CPU scheduler gives at least 512 iterations of a loop to a thread at a time, whatever the loop's settings say. The loop
over the tiles therefore counts ``Tiles.iterations`` iterations for each tile, of which the first does the work.
"""

from typing import Any

from ti_render.arrays import FLAG, UNIFORM
from ti_render.backdrop.backdrop import depth_rate, pixel_centre
from ti_render.raster.fragment import Triangle, near_fade_rates, setup, vec2
from ti_render.raster.tiles import CUT_OFF
from ti_sim.base.bundles import bundle, with_fields
from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3

# A coverage below this is none (its square must stay above the least f32).
NO_COVERAGE = 1e-17


@bundle
class Tile:
    """A tile, while a kernel is compiled.

    Attributes:
        image: m.
        width, height: size of the picture [pixels].
        x0, y0, x1, y1: first and last column and row of the tile's pixels.
        slot: number of the tile among those that have faces, -1 for a tile without.
        side: side of a whole tile [pixels].
        inverse_sigma: 1 / sigma.
        radius: how far a face reaches beyond itself on the screen, sqrt(CUT_OFF sigma).
        depth_rate: 1 / (gamma (far - near)) [1/m].
        state: what the pass holds for the tile (``TilePass.begin_tile``).
    """

    image: Any
    width: Any
    height: Any
    x0: Any
    y0: Any
    x1: Any
    y1: Any
    slot: Any
    side: Any
    inverse_sigma: Any
    radius: Any
    depth_rate: Any
    state: Any = None


@bundle
class Face:
    """A face of a tile, while a kernel is compiled.

    Attributes:
        number: f.
        triangle: its ``Triangle``.
        code: its code in ``Faces.contours``.
        fade, fade_rates: its near fade, and the fade's derivatives by the depths over itself (``near_fade_rates``).
        state: what the pass holds for the face (``TilePass.begin_face``).
    """

    number: Any
    triangle: Any
    code: Any
    fade: Any
    fade_rates: Any
    state: Any = None


@bundle
class Pixel:
    """A pixel of a tile, while a kernel is compiled.

    Attributes:
        x, y: column and row in the picture.
        index: number of the pixel in arrays that exist for the tiles with faces: slot side^2 + row side + column in the tile.
        centre: screen position of its centre.
    """

    x: Any
    y: Any
    index: Any
    centre: Any


@bundle
class TilePass:
    """What a kernel does on the walk: the steps that it needs override these, which do nothing.

    ``empty_tiles``: whether tiles without faces are visited, too (as far as ``begin_pixel``). ``silhouettes_only``: whether faces
    none of whose edges counts in the coverage are passed over.
    """

    empty_tiles = False
    silhouettes_only = False

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
        """For every pixel in the face's box, grown by its reach."""

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
    inverse_depth_scale = depth_rate(faces, m)
    return Tile(m, width, height, x0, y0, x1, y1, slot, side, inverse_sigma, radius, inverse_depth_scale)


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
    inverse_area, inverse_squared, to_distance = setup(a0, a1, a2)
    return Triangle(a0, a1, a2, depths, inverse_depths, inverse_area, inverse_squared, to_distance)


@ti.func
def _face(faces: ti.template(), m, f):
    triangle = screen_triangle(faces, m, f)
    fade, fade_rates = near_fade_rates(triangle.depths, 1.0 / faces.near)
    code = faces.contours[m, f]
    return Face(f, triangle, code, fade, fade_rates)


@ti.func
def _pixel(faces: ti.template(), tile: ti.template(), x, y):
    centre = pixel_centre(faces, tile.image, x, y, tile.width, tile.height)
    index = tile.slot * tile.side * tile.side + (y - tile.y0) * tile.side + x - tile.x0
    return Pixel(x, y, index, centre)


@ti.func
def _pixel_range(faces: ti.template(), a, b, c, radius, half, axis_length, first, last):
    """Pixels of [first, last] whose centres lie within ``radius`` of the range of a, b, c, on an axis of ``axis_length`` pixels
    (all of them where the lens distorts); ``half`` is half of the picture's shorter side."""
    middle = 0.5 * axis_length - 0.5
    first_inside, last_inside = first, last
    if faces.flags[FLAG.distorted] == 0:
        first_inside = ti.cast(ti.max(ti.ceil((ti.min(a, b, c) - radius) * half + middle), first), ti.i32)
        last_inside = ti.cast(ti.min(ti.floor((ti.max(a, b, c) + radius) * half + middle), last), ti.i32)
    return first_inside, last_inside


@ti.func
def _walk_face(faces: ti.template(), tile: ti.template(), f, tile_pass: ti.template()):
    """The steps of a face and of the pixels that it reaches."""
    bare = _face(faces, tile.image, f)
    face = with_fields(bare, state=tile_pass.begin_face(tile, bare))
    a0, a1, a2 = face.triangle.a0, face.triangle.a1, face.triangle.a2
    half = 0.5 * ti.min(tile.width, tile.height)
    first_x, last_x = _pixel_range(faces, a0[0], a1[0], a2[0], tile.radius, half, tile.width, tile.x0, tile.x1)
    first_y, last_y = _pixel_range(faces, a0[1], a1[1], a2[1], tile.radius, half, tile.height, tile.y0, tile.y1)
    for y in range(first_y, last_y + 1):
        for x in range(first_x, last_x + 1):
            pixel = _pixel(faces, tile, x, y)
            tile_pass.visit(tile, face, pixel)
    tile_pass.end_face(tile, face)


@ti.func
def walk(faces: ti.template(), tiles: ti.template(), width, height, tile_pass: ti.template()):
    """Walk over all tiles, in parallel, with the steps of ``tile_pass``: the loop of a kernel, which calls it at its top level.

    Args:
        faces, tiles: ``Faces`` and their ``Tiles``.
        width, height: size of the pictures [pixels].
        tile_pass: a ``TilePass``.
    """
    for index in range(tiles.slot.shape[0] * tiles.iterations):
        if index % tiles.iterations > 0:
            continue
        if ti.static(not tile_pass.empty_tiles):
            if tiles.slot[index // tiles.iterations] < 0:
                continue
        bare = _tile(faces, tiles, index // tiles.iterations, width, height)
        tile = with_fields(bare, state=tile_pass.begin_tile(bare))
        for y in range(tile.y0, tile.y1 + 1):
            for x in range(tile.x0, tile.x1 + 1):
                pixel = _pixel(faces, tile, x, y)
                tile_pass.begin_pixel(tile, pixel)
        if tile.slot >= 0:
            for entry in range(tiles.start[index // tiles.iterations], tiles.start[index // tiles.iterations + 1]):
                f = tiles.entries[entry]
                if ti.static(tile_pass.silhouettes_only):
                    if ti.abs(faces.contours[tile.image, f]) & 7 == 0:
                        continue
                _walk_face(faces, tile, f, tile_pass)
            for y in range(tile.y0, tile.y1 + 1):
                for x in range(tile.x0, tile.x1 + 1):
                    pixel = _pixel(faces, tile, x, y)
                    tile_pass.end_pixel(tile, pixel)
            tile_pass.end_tile(tile)
