"""Faces binned into the square tiles of the image that their cut-off distance reaches, in the order of the faces."""

from dataclasses import dataclass

from ti_sim.base.arrays import Array, int_zeros_like_family, to_numpy
from ti_sim.base.runtime import ti

# Cut-off of the coverage: squared distance / sigma beyond which an outside pixel sees nothing of a face, log(1e4 - 1).
CUT_OFF = 9.21


@dataclass(frozen=True)
class Tiles:
    """The faces of every tile.

    Attributes:
        side: side of a tile [pixels].
        columns, rows: tiles per image side.
        start: [M tiles + 1] int32, first entry of every tile in ``entries`` (the last number is the total).
        slot: [M tiles] int32, place of a tile among the tiles that have faces, -1 for a tile without.
        entries: [total] int32 face ids, ascending within a tile (one unused entry where there are none).
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
def _face_tiles(screen: ti.template(), faces: ti.template(), m, f, width, height, side, radius):
    """First and last tile column and row of a face (last < first: it reaches none)."""
    scale = 0.5 * ti.min(width, height)
    first_column, last_column, first_row, last_row = 0, -1, 0, -1
    i, j, k = faces[f, 0], faces[f, 1], faces[f, 2]
    if ti.min(screen[m, i, 2], screen[m, j, 2], screen[m, k, 2]) > 0:
        left = ti.min(screen[m, i, 0], screen[m, j, 0], screen[m, k, 0])
        right = ti.max(screen[m, i, 0], screen[m, j, 0], screen[m, k, 0])
        top = ti.min(screen[m, i, 1], screen[m, j, 1], screen[m, k, 1])
        bottom = ti.max(screen[m, i, 1], screen[m, j, 1], screen[m, k, 1])
        # Pixel x has its centre at x + 1/2. The thousandth is for rounding: the rasteriser tests every pixel itself.
        middle_x, middle_y, reach = 0.5 * width - 0.5, 0.5 * height - 0.5, radius * scale + 1e-3
        x0, x1 = left * scale + middle_x - reach, right * scale + middle_x + reach
        y0, y1 = top * scale + middle_y - reach, bottom * scale + middle_y + reach
        if x1 >= 0 and y1 >= 0 and x0 <= width - 1 and y0 <= height - 1:
            first_column = ti.cast(ti.max(x0, 0.0), ti.i32) // side
            last_column = ti.cast(ti.min(x1, width - 1.0), ti.i32) // side
            first_row = ti.cast(ti.max(y0, 0.0), ti.i32) // side
            last_row = ti.cast(ti.min(y1, height - 1.0), ti.i32) // side
    return first_column, last_column, first_row, last_row


@ti.kernel
def count_faces(
    screen: ti.types.ndarray(), faces: ti.types.ndarray(), width: int, height: int, side: int, radius: float,
    start: ti.types.ndarray(), slot: ti.types.ndarray(), totals: ti.types.ndarray(),
):  # fmt: skip
    """Count the faces of every tile, and lay the tiles out.

    Reads screen [M, V, 3], faces [F, 3]. Writes start [M tiles + 1], slot [M tiles] (see ``Tiles``) and totals [2] (entries,
    occupied tiles). One thread an image, then one thread for the running sums. No adjoint: integers.
    """
    images = screen.shape[0]
    columns = (width + side - 1) // side
    tiles = columns * ((height + side - 1) // side)
    for m in range(images):
        for tile in range(m * tiles, (m + 1) * tiles):
            slot[tile] = 0
        for f in range(faces.shape[0]):
            first_column, last_column, first_row, last_row = _face_tiles(screen, faces, m, f, width, height, side, radius)
            for row in range(first_row, last_row + 1):
                for column in range(first_column, last_column + 1):
                    tile = m * tiles + row * columns + column
                    slot[tile] = slot[tile] + 1
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
    screen: ti.types.ndarray(), faces: ti.types.ndarray(), width: int, height: int, side: int, radius: float,
    start: ti.types.ndarray(), entries: ti.types.ndarray(),
):  # fmt: skip
    """Write the face ids of every tile.

    Reads screen [M, V, 3], faces [F, 3], start [M tiles + 1]. Writes entries. One thread an image; start serves as the write
    position and is restored at the end (a tile's position ends where the next tile's began). No adjoint: integers.
    """
    images = screen.shape[0]
    columns = (width + side - 1) // side
    tiles = columns * ((height + side - 1) // side)
    for m in range(images):
        for f in range(faces.shape[0]):
            first_column, last_column, first_row, last_row = _face_tiles(screen, faces, m, f, width, height, side, radius)
            for row in range(first_row, last_row + 1):
                for column in range(first_column, last_column + 1):
                    tile = m * tiles + row * columns + column
                    entries[start[tile]] = f
                    start[tile] = start[tile] + 1
    # Now start[tile] is the next tile's first entry: move the numbers back by one tile.
    for _ in range(1):
        for i in range(images * tiles):
            tile = images * tiles - i
            start[tile] = start[tile - 1]
        start[0] = 0


def bin_faces(screen: Array, faces: Array, *, width: int, height: int, side: int, sigma: float) -> Tiles:
    """Bin the faces of every image into tiles.

    Args:
        screen: [M, V, 3] screen vertices (see ``project``).
        faces: [F, 3] int32.
        width, height: size of the images [pixels].
        side: side of a tile [pixels].
        sigma: softness of the edges [squared NDC of the shorter side]; a face reaches sqrt(9.21 sigma) beyond itself.

    Returns:
        The tiles, in the container of ``screen``.
    """
    columns, rows = -(-width // side), -(-height // side)
    tiles = columns * rows * screen.shape[0]
    radius = float((CUT_OFF * sigma) ** 0.5)
    start = int_zeros_like_family(screen, (tiles + 1,))
    slot = int_zeros_like_family(screen, (tiles,))
    totals = int_zeros_like_family(screen, (2,))
    count_faces(screen, faces, width, height, side, radius, start, slot, totals)
    total, occupied = (int(number) for number in to_numpy(totals))
    entries = int_zeros_like_family(screen, (max(total, 1),))
    if total:
        fill_tiles(screen, faces, width, height, side, radius, start, entries)
    return Tiles(side, columns, rows, start, slot, entries, occupied)
