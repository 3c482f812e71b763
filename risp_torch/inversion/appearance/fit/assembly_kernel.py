"""The sparse matrix of a motion's pixels, from the weights of its fragments: frame by frame, in sorted rows."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from ti_sim.base.bundles import kernel
from ti_sim.base.parallel import iterations_per_task
from ti_sim.base.runtime import compiled_in_double, ti


@kernel
def mark_entries(
    iterations_per_frame: int, bounds: ti.types.ndarray(), image: ti.types.ndarray(), pixel: ti.types.ndarray(),
    face: ti.types.ndarray(), offset: ti.types.ndarray(), pixels: int, faces: int, places: int, is_row: ti.types.ndarray(),
    is_column: ti.types.ndarray(), counts: ti.types.ndarray(),
):  # fmt: skip
    """Mark the pixels and the columns that have entries, and count the entries of each pixel.

    Reads the entries of frame t from bounds[t] to bounds[t + 1] (image, pixel and face [n]) and the places in a face of their
    weights, offset [n or 1, K]. Writes is_row and counts [n frames, P], is_column [images faces places], zero before. Images of
    different frames differ, so that frames write to different numbers.
    """
    for index in range((bounds.shape[0] - 1) * iterations_per_frame):
        if index % iterations_per_frame > 0:
            continue
        t = index // iterations_per_frame
        for e in range(bounds[t], bounds[t + 1]):
            p, first = ti.cast(pixel[e], ti.i32), ti.cast((image[e] * faces + face[e]) * places, ti.i32)
            is_row[t, p] = 1
            counts[t, p] = counts[t, p] + offset.shape[1]
            for k in range(offset.shape[1]):
                is_column[first + ti.cast(offset[e % offset.shape[0], k], ti.i32)] = 1


@kernel
def insert_entries(
    iterations_per_frame: int, bounds: ti.types.ndarray(), image: ti.types.ndarray(), pixel: ti.types.ndarray(),
    face: ti.types.ndarray(), offset: ti.types.ndarray(), weight: ti.types.ndarray(), faces: int, places: int,
    row_of_pixel: ti.types.ndarray(), column_rank: ti.types.ndarray(), starts: ti.types.ndarray(), lengths: ti.types.ndarray(),
    columns: ti.types.ndarray(), weights: ti.types.ndarray(),
):  # fmt: skip
    """Insert the entries into their rows by column; weights of one column are summed.

    Reads the entries of ``mark_entries``, their weights [n, K], row_of_pixel [n frames, P], column_rank [images faces places]
    and starts [R + 1], from which on a row has room for all of its entries. Writes lengths [R], zero before, of the rows, and
    their columns and weights (f64).
    """
    for index in range((bounds.shape[0] - 1) * iterations_per_frame):
        if index % iterations_per_frame > 0:
            continue
        t = index // iterations_per_frame
        for e in range(bounds[t], bounds[t + 1]):
            row = row_of_pixel[t, ti.cast(pixel[e], ti.i32)]
            first, begin = ti.cast((image[e] * faces + face[e]) * places, ti.i32), starts[row]
            for k in range(offset.shape[1]):
                column = column_rank[first + ti.cast(offset[e % offset.shape[0], k], ti.i32)]
                at = begin + lengths[row]
                while at > begin and columns[at - 1] > column:
                    at -= 1
                if at > begin and columns[at - 1] == column:
                    weights[at - 1] = weights[at - 1] + weight[e, k]
                else:
                    j = begin + lengths[row]
                    while j > at:
                        columns[j], weights[j] = columns[j - 1], weights[j - 1]
                        j -= 1
                    columns[at], weights[at] = column, ti.cast(weight[e, k], float)
                    lengths[row] = lengths[row] + 1


@kernel
def compact_rows(
    starts: ti.types.ndarray(), columns: ti.types.ndarray(), weights: ti.types.ndarray(), stops: ti.types.ndarray(),
    compact_columns: ti.types.ndarray(), compact_weights: ti.types.ndarray(),
):  # fmt: skip
    """Copy the rows that ``insert_entries`` has written to places without gaps; row r begins at stops[r], [R + 1]."""
    for row in range(stops.shape[0] - 1):
        for i in range(stops[row + 1] - stops[row]):
            compact_columns[stops[row] + i] = columns[starts[row] + i]
            compact_weights[stops[row] + i] = weights[starts[row] + i]


@dataclass(frozen=True, eq=False)
class Assembly:
    """The sparse matrix of a motion's pixels.

    Attributes:
        matrix: [R, C] in float64.
        frame_and_pixel: [R] frame times the number of pixels plus pixel of each row.
        column: [C] number of each column: (image times faces plus face) times places plus place.
    """

    matrix: csr_matrix
    frame_and_pixel: np.ndarray
    column: np.ndarray


@compiled_in_double
def assembled(
    image: np.ndarray, pixel: np.ndarray, face: np.ndarray, offset: np.ndarray, weight: np.ndarray, *, frames: int, moments: int,
    pixels: int, faces: int, places: int,
) -> Assembly:  # fmt: skip
    """The matrix of n entries.

    Args:
        image, pixel, face: [n], the images ascending.
        offset: [n or 1, K] places in a face of the weights of an entry.
        weight: [n, K].
        frames, moments: number of frames, and of images of each.
        pixels: in an image.
        faces: in an image.
        places: in a face.
    """
    bounds = np.searchsorted(image, np.arange(frames + 1) * moments).astype(np.int32)
    is_row, counts = np.zeros((frames, pixels), dtype=np.int32), np.zeros((frames, pixels), dtype=np.int32)
    is_column = np.zeros(frames * moments * faces * places, dtype=np.int32)
    offset, iterations = np.ascontiguousarray(offset), iterations_per_task(frames)
    entries = image, pixel, face, offset
    mark_entries(iterations, bounds, *entries, pixels, faces, places, is_row, is_column, counts)
    frame_and_pixel, column = np.flatnonzero(is_row), np.flatnonzero(is_column)
    row_of_pixel = (np.cumsum(is_row, dtype=np.int32) - 1).reshape(frames, pixels)
    starts = np.concatenate([[0], np.cumsum(counts.reshape(-1)[frame_and_pixel])]).astype(np.int32)
    lengths, columns = np.zeros(len(frame_and_pixel), dtype=np.int32), np.empty(starts[-1], dtype=np.int32)
    weights = np.empty(starts[-1])
    insert_entries(
        iterations, bounds, *entries, np.ascontiguousarray(weight), faces, places, row_of_pixel,
        np.cumsum(is_column, dtype=np.int32) - 1, starts, lengths, columns, weights,
    )  # fmt: skip
    stops = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    compact_columns, compact_weights = np.empty(stops[-1], dtype=np.int32), np.empty(stops[-1])
    compact_rows(starts, columns, weights, stops, compact_columns, compact_weights)
    matrix = csr_matrix((compact_weights, compact_columns, stops), shape=(len(frame_and_pixel), len(column)))
    return Assembly(matrix, frame_and_pixel, column)
