"""Square tiles of the image and the faces whose cut-off distance reaches them, roughly from near to far, and the kernels that
find them with one thread for each image, for a CPU.

``tiles_parallel`` has those for a GPU, and ``binning`` launches either of them.
"""

from ti_sim.base.bundles import Array, Integer, Number, Static, bundle, kernel
from ti_sim.base.runtime import ti

# Cut-off of D (``fragment``): squared distance / sigma from a face beyond which D is 0, log(1e4 - 1).
CUT_OFF = 9.21
# Number of depth intervals that the faces of an image are sorted into.
DEPTH_BUCKETS = 256


@bundle
class Tiles:
    """The faces of every tile.

    Attributes:
        start: [M tiles + 1] int32, first entry of every tile in ``entries`` (the last number is the total).
        slot: [M tiles] int32, number of a tile among the tiles that have faces, -1 for a tile without.
        entries: [total] int32 face ids, roughly from near to far within a tile (one unused entry where there are none).
        side: side of a tile [pixels].
        iterations_per_tile: loop iterations for each tile, of which the first does the work (see ``walk``).
        tile_of_slot: [M tiles] int32 on a GPU, number of the tile of every slot (of the first even if no tile has faces);
            None on a CPU.
    """

    start: Array
    slot: Array
    entries: Array
    side: Integer
    iterations_per_tile: Integer
    tile_of_slot: Static = None  # not an argument of kernels


@bundle
class Grid:
    """Screen geometry and tile layout that the binning of faces reads.

    Attributes:
        screen: [M, V, 3] (see ``project``).
        corners: [F, 8] int32, the first three columns are vertex numbers.
        boxes: [M tiles, 4] of the pixel centres of every tile (see ``tile_boxes``), where ``with_boxes`` is 1.
        width, height: size of the pictures [pixels].
        side: side of a tile [pixels].
        radius: cut-off distance from a face on the screen, sqrt(CUT_OFF sigma).
    """

    screen: Array
    corners: Array
    boxes: Array
    width: Integer
    height: Integer
    side: Integer
    radius: Number
    with_boxes: Integer


@ti.func
def _corners(grid: ti.template(), m, f, k: ti.template()):
    """One coordinate (x, y, depth) of a face's corners."""
    v0, v1, v2 = grid.corners[f, 0], grid.corners[f, 1], grid.corners[f, 2]
    return grid.screen[m, v0, k], grid.screen[m, v1, k], grid.screen[m, v2, k]


@ti.func
def face_tiles(grid: ti.template(), m, f):
    """First and last tile column and row of a face (last < first: none; all tiles where tiles have boxes)."""
    scale = 0.5 * ti.min(grid.width, grid.height)
    first_column, last_column, first_row, last_row = 0, -1, 0, -1
    depth0, depth1, depth2 = _corners(grid, m, f, 2)
    if ti.min(depth0, depth1, depth2) > 0:
        x_0, x_1, x_2 = _corners(grid, m, f, 0)
        left, right = ti.min(x_0, x_1, x_2), ti.max(x_0, x_1, x_2)
        y_0, y_1, y_2 = _corners(grid, m, f, 1)
        top, bottom = ti.min(y_0, y_1, y_2), ti.max(y_0, y_1, y_2)
        # Pixel x has its centre at x + 1/2. The 1e-3 pixels allow for rounding: the rasteriser tests every pixel.
        centre_x, centre_y, padding = 0.5 * grid.width - 0.5, 0.5 * grid.height - 0.5, grid.radius * scale + 1e-3
        min_x, max_x = left * scale + centre_x - padding, right * scale + centre_x + padding
        min_y, max_y = top * scale + centre_y - padding, bottom * scale + centre_y + padding
        if grid.with_boxes == 1:
            last_column, last_row = (grid.width - 1) // grid.side, (grid.height - 1) // grid.side
        elif max_x >= 0 and max_y >= 0 and min_x <= grid.width - 1 and min_y <= grid.height - 1:
            first_column = ti.cast(ti.max(min_x, 0.0), ti.i32) // grid.side
            last_column = ti.cast(ti.min(max_x, grid.width - 1.0), ti.i32) // grid.side
            first_row = ti.cast(ti.max(min_y, 0.0), ti.i32) // grid.side
            last_row = ti.cast(ti.min(max_y, grid.height - 1.0), ti.i32) // grid.side
    return first_column, last_column, first_row, last_row


@ti.func
def meets_tile(grid: ti.template(), m, f, tile):
    """Whether a face, grown by the cut-off radius, meets the box of a tile (True where tiles have no boxes)."""
    result = True
    if grid.with_boxes == 1:
        for k in ti.static(range(2)):
            a, b, c = _corners(grid, m, f, k)
            if ti.max(a, b, c) + grid.radius < grid.boxes[tile, k] or ti.min(a, b, c) - grid.radius > grid.boxes[tile, 2 + k]:
                result = False
    return result


@ti.func
def tile_count(grid: ti.template()):
    """Columns of tiles, and tiles of an image."""
    columns = (grid.width + grid.side - 1) // grid.side
    return columns, columns * ((grid.height + grid.side - 1) // grid.side)


@ti.func
def depth_bucket(grid: ti.template(), m, f, min_depth, buckets_per_metre):
    """Depth interval of a face: 0 to DEPTH_BUCKETS - 1."""
    a, b, c = _corners(grid, m, f, 2)
    return ti.max(ti.min(ti.cast(((a + b + c) / 3.0 - min_depth) * buckets_per_metre, ti.i32), DEPTH_BUCKETS - 1), 0)


@ti.kernel
def tile_boxes(centres: ti.types.ndarray(), side: int, boxes: ti.types.ndarray()):
    """Write the box of the pixel centres of every tile: reads centres [M, H, W, 2], writes boxes [M tiles, 4] (min x,
    min y, max x, max y). No adjoint: boxes only select faces."""
    height, width = centres.shape[1], centres.shape[2]
    columns = (width + side - 1) // side
    tiles = columns * ((height + side - 1) // side)
    for tile in range(boxes.shape[0]):
        m, x0, y0 = tile // tiles, tile % tiles % columns * side, tile % tiles // columns * side
        for k in ti.static(range(2)):
            minimum, maximum = centres[m, y0, x0, k], centres[m, y0, x0, k]
            for y in range(y0, ti.min(y0 + side, height)):
                for x in range(x0, ti.min(x0 + side, width)):
                    minimum, maximum = ti.min(minimum, centres[m, y, x, k]), ti.max(maximum, centres[m, y, x, k])
            boxes[tile, k] = minimum - 1e-4
            boxes[tile, 2 + k] = maximum + 1e-4


@ti.func
def _order_faces(grid: ti.template(), buckets: ti.template(), order: ti.template(), m):
    """Write the faces of an image roughly from near to far: sorted into buckets of equal depth. The sums over faces do not depend
    on the order, but colours of occluded faces are then skipped earlier."""
    min_depth, max_depth = 1e30, 0.0
    for v in range(grid.screen.shape[1]):
        z = grid.screen[m, v, 2]
        if z > 0:
            min_depth, max_depth = ti.min(min_depth, z), ti.max(max_depth, z)
    buckets_per_metre = DEPTH_BUCKETS / ti.max(max_depth - min_depth, 1e-30)
    for k in range(DEPTH_BUCKETS + 1):
        buckets[m, k] = 0
    for f in range(grid.corners.shape[0]):
        k = depth_bucket(grid, m, f, min_depth, buckets_per_metre) + 1
        buckets[m, k] = buckets[m, k] + 1
    for k in range(DEPTH_BUCKETS):
        buckets[m, k + 1] = buckets[m, k + 1] + buckets[m, k]
    for f in range(grid.corners.shape[0]):
        k = depth_bucket(grid, m, f, min_depth, buckets_per_metre)
        order[m, buckets[m, k]] = f
        buckets[m, k] = buckets[m, k] + 1


@kernel
def count_faces(
    serial: ti.template(), grid: Grid, buckets: ti.types.ndarray(), order: ti.types.ndarray(), start: ti.types.ndarray(),
    slot: ti.types.ndarray(), totals: ti.types.ndarray(),
):  # fmt: skip
    """Order the faces of every image by depth, count those of every tile, and lay the tiles out.

    Writes order [M, F], buckets [M, DEPTH_BUCKETS + 1] (workspace), start [M tiles + 1], slot [M tiles] (see ``Tiles``) and
    totals [2] (entries, occupied tiles). One thread an image, then one thread for the running sums. No adjoint: integers.
    """
    images = grid.screen.shape[0]
    columns, tiles = tile_count(grid)
    ti.loop_config(serialize=serial)
    for m in range(images):
        _order_faces(grid, buckets, order, m)
        for tile in range(m * tiles, (m + 1) * tiles):
            slot[tile] = 0
        for f in range(grid.corners.shape[0]):
            first_column, last_column, first_row, last_row = face_tiles(grid, m, f)
            for row in range(first_row, last_row + 1):
                for column in range(first_column, last_column + 1):
                    tile = m * tiles + row * columns + column
                    if meets_tile(grid, m, f, tile):
                        slot[tile] = slot[tile] + 1
    ti.loop_config(serialize=serial)
    for _ in range(1):
        entries, occupied = 0, 0
        for tile in range(images * tiles):
            count = slot[tile]
            start[tile] = entries
            slot[tile] = -1
            if count > 0:
                slot[tile] = occupied
                occupied += 1
            entries += count
        start[images * tiles] = entries
        totals[0] = entries
        totals[1] = occupied


@kernel
def fill_tiles(
    serial: ti.template(), grid: Grid, order: ti.types.ndarray(), start: ti.types.ndarray(), entries: ti.types.ndarray()
):
    """Write the face ids of every tile.

    Reads order [M, F], start [M tiles + 1]. Writes entries. One thread an image; start serves as the write position and is
    restored at the end (a tile's position ends where the next tile's began). No adjoint: integers.
    """
    images = grid.screen.shape[0]
    columns, tiles = tile_count(grid)
    ti.loop_config(serialize=serial)
    for m in range(images):
        for rank in range(grid.corners.shape[0]):
            f = order[m, rank]
            first_column, last_column, first_row, last_row = face_tiles(grid, m, f)
            for row in range(first_row, last_row + 1):
                for column in range(first_column, last_column + 1):
                    tile = m * tiles + row * columns + column
                    if meets_tile(grid, m, f, tile):
                        entries[start[tile]] = f
                        start[tile] = start[tile] + 1
    # Now start[tile] is the next tile's first entry: move the numbers back by one tile.
    ti.loop_config(serialize=serial)
    for _ in range(1):
        for i in range(images * tiles):
            tile = images * tiles - i
            start[tile] = start[tile - 1]
        start[0] = 0
