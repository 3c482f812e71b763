"""Binning of faces into tiles (``tiles.Tiles``)."""

from ti_render.raster.tiles import CUT_OFF, DEPTH_BUCKETS, Grid, Tiles, count_faces, fill_tiles, tile_boxes
from ti_render.raster.tiles_parallel import MAX_FACES, count_faces_in_parallel, fill_tiles_in_parallel, make_workspace
from ti_sim.base.arrays import Array, empty_in_same_library, int_empty_in_same_library, to_numpy
from ti_sim.base.parallel import iterations_per_task, runs_serially
from ti_sim.base.runtime import require


def bin_faces(
    screen: Array, corners: Array, *, width: int, height: int, side: int, sigma: float, centres: Array | None = None,
    parallel: bool | None = None,
) -> tuple[Tiles, int]:  # fmt: skip
    """Bin the faces of every image into tiles.

    Args:
        screen: [M, V, 3] screen vertices (see ``project``).
        corners: [F, 8] int32, the first three columns are vertex numbers.
        width, height: size of the images [pixels].
        side: side of a tile [pixels].
        sigma: greatest softness of the edges of any image [squared NDC of the shorter side]; the cut-off distance is
            sqrt(9.21 sigma).
        centres: [M, H, W, 2] screen positions of the pixels, where they are no regular grid.
        parallel: whether each face and each tile has a separate thread, with the same result; None for a GPU only, and up to
            MAX_FACES faces.

    Returns:
        The tiles, in the container of ``screen``, and the number of tiles that have faces.
    """
    images = screen.shape[0]
    tiles = -(-width // side) * -(-height // side) * images
    boxes = empty_in_same_library(screen, (1 if centres is None else tiles, 4))
    if centres is not None:
        tile_boxes(centres, side, boxes)
    radius = float((CUT_OFF * sigma) ** 0.5)
    grid = Grid(screen, corners, boxes, width, height, side, radius, int(centres is not None))
    if parallel is None:
        parallel = require().device != "cpu" and corners.shape[0] <= MAX_FACES
    return (_bin_in_parallel if parallel else _bin_by_images)(grid, tiles)


def _bin_by_images(grid: Grid, tiles: int) -> tuple[Tiles, int]:
    """``bin_faces`` with a thread for each image."""
    images, serial = grid.screen.shape[0], runs_serially(grid.screen.shape[0])
    start, slot, totals = _layout(grid.screen, tiles)
    buckets = int_empty_in_same_library(grid.screen, (images, DEPTH_BUCKETS + 1))
    order = int_empty_in_same_library(grid.screen, (images, grid.corners.shape[0]))
    count_faces(serial, grid, buckets, order, start, slot, totals)
    total, occupied = (int(number) for number in to_numpy(totals))
    entries = int_empty_in_same_library(grid.screen, (max(total, 1),))
    if total:
        fill_tiles(serial, grid, order, start, entries)
    return Tiles(start, slot, entries, grid.side, iterations_per_task(tiles)), occupied


def _bin_in_parallel(grid: Grid, tiles: int) -> tuple[Tiles, int]:
    """``bin_faces`` with threads for faces and for tiles."""
    start, slot, totals = _layout(grid.screen, tiles)
    tile_of_slot = int_empty_in_same_library(grid.screen, (tiles,))
    work = make_workspace(grid.screen, tiles)
    count_faces_in_parallel(grid, work, start, slot, tile_of_slot, totals)
    total, occupied = (int(number) for number in to_numpy(totals))
    entries = int_empty_in_same_library(grid.screen, (max(total, 1),))
    if total:
        fill_tiles_in_parallel(grid, work, occupied, start, tile_of_slot, entries)
    return Tiles(start, slot, entries, grid.side, iterations_per_task(tiles), tile_of_slot), occupied


def _layout(screen: Array, tiles: int) -> tuple[Array, Array, Array]:
    """Arrays for start, slot, and the numbers of entries and occupied tiles."""
    return tuple(int_empty_in_same_library(screen, (count,)) for count in (tiles + 1, tiles, 2))
