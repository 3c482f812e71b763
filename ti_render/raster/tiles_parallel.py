"""Binning of faces for a GPU: no loop of a thread grows with the number of images, and with the number of tiles only as its cube
root.

The result is that of the kernels in ``tiles``, to the last bit. Faces are counted by atomic additions; the running sums over the
tiles are those of chunks of tiles, and of groups of as many chunks; and the faces of a tile, which arrive in any order, are
sorted by depth interval and number.
"""

import math

from ti_render.raster.tiles import DEPTH_BUCKETS, Grid, depth_bucket, face_tiles, meets_tile, tile_count
from ti_sim.base.arrays import empty_in_same_library, int_empty_in_same_library
from ti_sim.base.bundles import Array, Integer, bundle, kernel
from ti_sim.base.runtime import ti

# Parts of an image's vertices whose depths a thread looks through.
DEPTH_PARTS = 64
# Number of faces above which depth interval and number do not fit into one key.
MAX_FACES = (2**31 - 1) // DEPTH_BUCKETS
_MIN_CHUNK = 16


@bundle
class Workspace:
    """Intermediate arrays of the binning.

    Attributes:
        part_depths: [M, DEPTH_PARTS, 2] least and greatest depth of each part of the vertices [m].
        depths: [M, 2] least and greatest depth of the vertices in front of the eye [m].
        counts: [M tiles] int32, faces of every tile.
        chunk_sums: [chunks, 2] int32, entries and occupied tiles of every chunk.
        group_sums: [groups, 2] int32, the same of every group of ``chunk`` chunks.
        chunk: tiles of a chunk.
    """

    part_depths: Array
    depths: Array
    counts: Array
    chunk_sums: Array
    group_sums: Array
    chunk: Integer


def make_workspace(screen: Array, tiles: int) -> Workspace:
    """The workspace for all tiles of screen [M, V, 3]."""
    images, chunk = screen.shape[0], max(math.ceil(tiles ** (1 / 3)), _MIN_CHUNK)
    chunks = -(-tiles // chunk)
    return Workspace(
        empty_in_same_library(screen, (images, DEPTH_PARTS, 2)), empty_in_same_library(screen, (images, 2)),
        int_empty_in_same_library(screen, (tiles,)), int_empty_in_same_library(screen, (chunks, 2)),
        int_empty_in_same_library(screen, (-(-chunks // chunk), 2)), chunk,
    )  # fmt: skip


@ti.func
def _part_depths(grid: ti.template(), work: ti.template(), index):
    """Write the least and the greatest depth of a part of an image's vertices."""
    m, part = index // DEPTH_PARTS, index % DEPTH_PARTS
    min_depth, max_depth = 1e30, 0.0
    vertices = grid.screen.shape[1]
    for i in range((vertices - part + DEPTH_PARTS - 1) // DEPTH_PARTS):
        z = grid.screen[m, part + i * DEPTH_PARTS, 2]
        if z > 0:
            min_depth, max_depth = ti.min(min_depth, z), ti.max(max_depth, z)
    work.part_depths[m, part, 0] = min_depth
    work.part_depths[m, part, 1] = max_depth


@ti.func
def _join_depths(work: ti.template(), m):
    """Write the least and the greatest depth of an image's vertices."""
    min_depth, max_depth = 1e30, 0.0
    for part in range(DEPTH_PARTS):
        min_depth = ti.min(min_depth, work.part_depths[m, part, 0])
        max_depth = ti.max(max_depth, work.part_depths[m, part, 1])
    work.depths[m, 0] = min_depth
    work.depths[m, 1] = max_depth


@ti.func
def _count_face(grid: ti.template(), work: ti.template(), columns, tiles, m, f):
    """Count a face in its tiles."""
    first_column, last_column, first_row, last_row = face_tiles(grid, m, f)
    for row in range(first_row, last_row + 1):
        for column in range(first_column, last_column + 1):
            tile = m * tiles + row * columns + column
            if meets_tile(grid, m, f, tile):
                ti.atomic_add(work.counts[tile], 1)


@ti.func
def _sum_chunk(work: ti.template(), c):
    """Write the sums of a chunk, and add them to those of its group."""
    entries, occupied = 0, 0
    for tile in range(c * work.chunk, ti.min((c + 1) * work.chunk, work.counts.shape[0])):
        count = work.counts[tile]
        entries += count
        if count > 0:
            occupied += 1
    work.chunk_sums[c, 0] = entries
    work.chunk_sums[c, 1] = occupied
    ti.atomic_add(work.group_sums[c // work.chunk, 0], entries)
    ti.atomic_add(work.group_sums[c // work.chunk, 1], occupied)


@ti.func
def _sums_before(work: ti.template(), c):
    """Entries and occupied tiles of all chunks before chunk c."""
    entries, occupied, group = 0, 0, c // work.chunk
    for g in range(group):
        entries += work.group_sums[g, 0]
        occupied += work.group_sums[g, 1]
    for previous in range(group * work.chunk, c):
        entries += work.chunk_sums[previous, 0]
        occupied += work.chunk_sums[previous, 1]
    return entries, occupied


@kernel
def count_faces_in_parallel(
    grid: Grid, work: Workspace, start: ti.types.ndarray(), slot: ti.types.ndarray(), tile_of_slot: ti.types.ndarray(),
    totals: ti.types.ndarray(),
):  # fmt: skip
    """Count the faces of every tile, and lay the tiles out.

    Writes the workspace, start [M tiles + 1], slot and tile_of_slot [M tiles] (see ``Tiles``) and totals [2] (entries, occupied
    tiles). No adjoint: integers.
    """
    images, faces = grid.screen.shape[0], grid.corners.shape[0]
    columns, tiles = tile_count(grid)
    for index in range(ti.max(images * tiles, images * DEPTH_PARTS)):
        if index < images * tiles:
            work.counts[index] = 0
        if index == 0:
            tile_of_slot[0] = 0  # a slot for pictures without faces
        if index < work.group_sums.shape[0]:
            work.group_sums[index, 0] = 0
            work.group_sums[index, 1] = 0
        if index < images * DEPTH_PARTS:
            _part_depths(grid, work, index)
    for index in range(images * ti.max(faces, 1)):
        if index < images:
            _join_depths(work, index)
        if faces > 0:
            _count_face(grid, work, columns, tiles, index // faces, index % faces)
    for c in range(work.chunk_sums.shape[0]):
        _sum_chunk(work, c)
    for c in range(work.chunk_sums.shape[0]):
        entries, occupied = _sums_before(work, c)
        for tile in range(c * work.chunk, ti.min((c + 1) * work.chunk, images * tiles)):
            start[tile] = entries
            slot[tile] = -1
            if work.counts[tile] > 0:
                slot[tile] = occupied
                tile_of_slot[occupied] = tile
                occupied += 1
            entries += work.counts[tile]
        if c == work.chunk_sums.shape[0] - 1:
            start[images * tiles] = entries
            totals[0] = entries
            totals[1] = occupied


@ti.func
def _sort(entries: ti.template(), first, count):
    """Sort ``count`` entries in place (Shell's sort with the gaps 1, 4, 13, ..., a third of the entries)."""
    gap = 1
    while 3 * gap < count:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(first + gap, first + count):
            key, j, searching = entries[i], i, True
            while searching:
                searching = False
                if j >= first + gap:
                    if entries[j - gap] > key:
                        entries[j] = entries[j - gap]
                        j -= gap
                        searching = True
            entries[j] = key
        gap = gap // 3


@kernel
def fill_tiles_in_parallel(
    grid: Grid, work: Workspace, occupied: int, start: ti.types.ndarray(), tile_of_slot: ti.types.ndarray(),
    entries: ti.types.ndarray(),
):  # fmt: skip
    """Write the face ids of every tile.

    Reads the workspace, start [M tiles + 1] and tile_of_slot [M tiles]. Writes entries; counts become zero. No adjoint: integers.
    """
    images, faces = grid.screen.shape[0], grid.corners.shape[0]
    columns, tiles = tile_count(grid)
    for index in range(images * faces):
        m, f = index // faces, index % faces
        first_column, last_column, first_row, last_row = face_tiles(grid, m, f)
        if first_row <= last_row:
            min_depth, max_depth = work.depths[m, 0], work.depths[m, 1]
            key = depth_bucket(grid, m, f, min_depth, DEPTH_BUCKETS / ti.max(max_depth - min_depth, 1e-30)) * faces + f
            for row in range(first_row, last_row + 1):
                for column in range(first_column, last_column + 1):
                    tile = m * tiles + row * columns + column
                    if meets_tile(grid, m, f, tile):
                        entries[start[tile] + ti.atomic_sub(work.counts[tile], 1) - 1] = key
    for s in range(occupied):
        first, last = start[tile_of_slot[s]], start[tile_of_slot[s] + 1]
        _sort(entries, first, last - first)
        for entry in range(first, last):
            entries[entry] = entries[entry] % faces
