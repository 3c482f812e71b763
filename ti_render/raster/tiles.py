"""Faces binned into the square tiles of the image that their cut-off distance reaches, roughly from near to far."""

from dataclasses import dataclass

from ti_sim.base.arrays import Array, empty_like_family, int_empty_like_family, to_numpy
from ti_sim.base.parallel import serial_for
from ti_sim.base.runtime import ti

# Cut-off of the coverage: squared distance / sigma beyond which an outside pixel sees nothing of a face, log(1e4 - 1).
CUT_OFF = 9.21
# Depths that the faces of an image are sorted into.
BUCKETS = 256


@dataclass(frozen=True)
class Tiles:
    """The faces of every tile.

    Attributes:
        side: side of a tile [pixels].
        columns, rows: tiles per image side.
        start: [M tiles + 1] int32, first entry of every tile in ``entries`` (the last number is the total).
        slot: [M tiles] int32, place of a tile among the tiles that have faces, -1 for a tile without.
        entries: [total] int32 face ids, roughly from near to far within a tile (one unused entry where there are none).
        occupied: number of tiles that have faces.
    """

    side: int
    columns: int
    rows: int
    start: Array
    slot: Array
    entries: Array
    occupied: int


@ti.func
def _face_tiles(screen: ti.template(), corners: ti.template(), m, f, width, height, side, radius, with_boxes):
    """First and last tile column and row of a face (last < first: it reaches none; all tiles where each has its box)."""
    scale = 0.5 * ti.min(width, height)
    first_column, last_column, first_row, last_row = 0, -1, 0, -1
    i, j, k = corners[f, 0], corners[f, 1], corners[f, 2]
    if ti.min(screen[m, i, 2], screen[m, j, 2], screen[m, k, 2]) > 0:
        left = ti.min(screen[m, i, 0], screen[m, j, 0], screen[m, k, 0])
        right = ti.max(screen[m, i, 0], screen[m, j, 0], screen[m, k, 0])
        top = ti.min(screen[m, i, 1], screen[m, j, 1], screen[m, k, 1])
        bottom = ti.max(screen[m, i, 1], screen[m, j, 1], screen[m, k, 1])
        # Pixel x has its centre at x + 1/2. The thousandth is for rounding: the rasteriser tests every pixel itself.
        middle_x, middle_y, reach = 0.5 * width - 0.5, 0.5 * height - 0.5, radius * scale + 1e-3
        x0, x1 = left * scale + middle_x - reach, right * scale + middle_x + reach
        y0, y1 = top * scale + middle_y - reach, bottom * scale + middle_y + reach
        if with_boxes == 1:
            last_column, last_row = (width - 1) // side, (height - 1) // side
        elif x1 >= 0 and y1 >= 0 and x0 <= width - 1 and y0 <= height - 1:
            first_column = ti.cast(ti.max(x0, 0.0), ti.i32) // side
            last_column = ti.cast(ti.min(x1, width - 1.0), ti.i32) // side
            first_row = ti.cast(ti.max(y0, 0.0), ti.i32) // side
            last_row = ti.cast(ti.min(y1, height - 1.0), ti.i32) // side
    return first_column, last_column, first_row, last_row


@ti.func
def _reaches(screen: ti.template(), corners: ti.template(), m, f, boxes: ti.template(), tile, radius, with_boxes):
    """Whether a face, grown by ``radius``, meets the box of a tile (always where tiles have no boxes)."""
    result = True
    if with_boxes == 1:
        for k in ti.static(range(2)):
            a, b, c = screen[m, corners[f, 0], k], screen[m, corners[f, 1], k], screen[m, corners[f, 2], k]
            if ti.max(a, b, c) + radius < boxes[tile, k] or ti.min(a, b, c) - radius > boxes[tile, 2 + k]:
                result = False
    return result


@ti.kernel
def tile_boxes(centres: ti.types.ndarray(), side: int, boxes: ti.types.ndarray()):
    """Write the box of the pixel centres of every tile: reads centres [M, H, W, 2], writes boxes [M tiles, 4] (least x, y, most
    x, y). No adjoint: it decides only which faces are looked at."""
    height, width = centres.shape[1], centres.shape[2]
    columns = (width + side - 1) // side
    tiles = columns * ((height + side - 1) // side)
    for tile in range(boxes.shape[0]):
        m, x0, y0 = tile // tiles, tile % tiles % columns * side, tile % tiles // columns * side
        for k in ti.static(range(2)):
            least, most = centres[m, y0, x0, k], centres[m, y0, x0, k]
            for y in range(y0, ti.min(y0 + side, height)):
                for x in range(x0, ti.min(x0 + side, width)):
                    least, most = ti.min(least, centres[m, y, x, k]), ti.max(most, centres[m, y, x, k])
            boxes[tile, k] = least - 1e-4
            boxes[tile, 2 + k] = most + 1e-4


@ti.func
def _bucket(screen: ti.template(), corners: ti.template(), m, f, least, scale):
    a, b, c = screen[m, corners[f, 0], 2], screen[m, corners[f, 1], 2], screen[m, corners[f, 2], 2]
    return ti.max(ti.min(ti.cast(((a + b + c) / 3.0 - least) * scale, ti.i32), BUCKETS - 1), 0)


@ti.func
def _order_faces(
    screen: ti.template(), corners: ti.template(), buckets: ti.template(), order: ti.template(), m
):
    """Write the faces of an image roughly from near to far: sorted into buckets of equal depth. The sums over faces do not depend
    on the order, but faces behind others are then passed over sooner."""
    least, most = 1e30, 0.0
    for v in range(screen.shape[1]):
        z = screen[m, v, 2]
        if z > 0:
            least, most = ti.min(least, z), ti.max(most, z)
    scale = BUCKETS / ti.max(most - least, 1e-30)
    for k in range(BUCKETS + 1):
        buckets[m, k] = 0
    for f in range(corners.shape[0]):
        k = _bucket(screen, corners, m, f, least, scale) + 1
        buckets[m, k] = buckets[m, k] + 1
    for k in range(BUCKETS):
        buckets[m, k + 1] = buckets[m, k + 1] + buckets[m, k]
    for f in range(corners.shape[0]):
        k = _bucket(screen, corners, m, f, least, scale)
        order[m, buckets[m, k]] = f
        buckets[m, k] = buckets[m, k] + 1


@ti.kernel
def count_faces(
    serial: ti.template(), screen: ti.types.ndarray(), corners: ti.types.ndarray(), width: int, height: int, side: int,
    radius: float, with_boxes: int, boxes: ti.types.ndarray(), buckets: ti.types.ndarray(), order: ti.types.ndarray(),
    start: ti.types.ndarray(), slot: ti.types.ndarray(), totals: ti.types.ndarray(),
):  # fmt: skip
    """Order the faces of every image by depth, count those of every tile, and lay the tiles out.

    Reads screen [M, V, 3], corners [F, 8]. Writes order [M, F], buckets [M, BUCKETS + 1] (workspace), start
    [M tiles + 1], slot [M tiles] (see ``Tiles``) and totals [2] (entries,
    occupied tiles). One thread an image, then one thread for the running sums. No adjoint: integers.
    """
    images = screen.shape[0]
    columns = (width + side - 1) // side
    tiles = columns * ((height + side - 1) // side)
    ti.loop_config(serialize=serial)
    for m in range(images):
        _order_faces(screen, corners, buckets, order, m)
        for tile in range(m * tiles, (m + 1) * tiles):
            slot[tile] = 0
        for f in range(corners.shape[0]):
            first_column, last_column, first_row, last_row = _face_tiles(
                screen, corners, m, f, width, height, side, radius, with_boxes
            )
            for row in range(first_row, last_row + 1):
                for column in range(first_column, last_column + 1):
                    tile = m * tiles + row * columns + column
                    if _reaches(screen, corners, m, f, boxes, tile, radius, with_boxes):
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


@ti.kernel
def fill_tiles(
    serial: ti.template(), screen: ti.types.ndarray(), corners: ti.types.ndarray(), width: int, height: int, side: int,
    radius: float, with_boxes: int, boxes: ti.types.ndarray(), order: ti.types.ndarray(), start: ti.types.ndarray(),
    entries: ti.types.ndarray(),
):  # fmt: skip
    """Write the face ids of every tile.

    Reads screen [M, V, 3], corners [F, 8], order [M, F], start [M tiles + 1]. Writes entries. One thread an image; start
    serves as the write position and is restored at the end (a tile's position ends where the next tile's began). No adjoint:
    integers.
    """
    images = screen.shape[0]
    columns = (width + side - 1) // side
    tiles = columns * ((height + side - 1) // side)
    ti.loop_config(serialize=serial)
    for m in range(images):
        for rank in range(corners.shape[0]):
            f = order[m, rank]
            first_column, last_column, first_row, last_row = _face_tiles(
                screen, corners, m, f, width, height, side, radius, with_boxes
            )
            for row in range(first_row, last_row + 1):
                for column in range(first_column, last_column + 1):
                    tile = m * tiles + row * columns + column
                    if _reaches(screen, corners, m, f, boxes, tile, radius, with_boxes):
                        entries[start[tile]] = f
                        start[tile] = start[tile] + 1
    # Now start[tile] is the next tile's first entry: move the numbers back by one tile.
    ti.loop_config(serialize=serial)
    for _ in range(1):
        for i in range(images * tiles):
            tile = images * tiles - i
            start[tile] = start[tile - 1]
        start[0] = 0


def bin_faces(
    screen: Array, corners: Array, *, width: int, height: int, side: int, sigma: float, centres: Array | None = None
) -> Tiles:
    """Bin the faces of every image into tiles.

    Args:
        screen: [M, V, 3] screen vertices (see ``project``).
        corners: [F, 8] int32, the first three columns are vertex numbers.
        width, height: size of the images [pixels].
        side: side of a tile [pixels].
        sigma: greatest softness of the edges of any image [squared NDC of the shorter side]; a face reaches sqrt(9.21 sigma)
            beyond itself.
        centres: [M, H, W, 2] screen positions of the pixels, where they are no regular grid.

    Returns:
        The tiles, in the container of ``screen``.
    """
    columns, rows = -(-width // side), -(-height // side)
    tiles = columns * rows * screen.shape[0]
    radius = float((CUT_OFF * sigma) ** 0.5)
    start = int_empty_like_family(screen, (tiles + 1,))
    slot = int_empty_like_family(screen, (tiles,))
    totals = int_empty_like_family(screen, (2,))
    boxes = empty_like_family(screen, (1 if centres is None else tiles, 4))
    if centres is not None:
        tile_boxes(centres, side, boxes)
    where = (width, height, side, radius, int(centres is not None), boxes)
    few = serial_for(screen.shape[0])
    order = int_empty_like_family(screen, (screen.shape[0], corners.shape[0]))
    count_faces(
        few, screen, corners, *where, int_empty_like_family(screen, (screen.shape[0], BUCKETS + 1)), order, start, slot, totals
    )
    total, occupied = (int(number) for number in to_numpy(totals))
    entries = int_empty_like_family(screen, (max(total, 1),))
    if total:
        fill_tiles(few, screen, corners, *where, order, start, entries)
    return Tiles(side, columns, rows, start, slot, entries, occupied)
