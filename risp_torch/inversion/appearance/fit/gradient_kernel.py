"""Sums of the film's rows by columns of the matrix, frame by frame: a column belongs to one frame."""

import numpy as np

from risp_torch.inversion.appearance.fit.appearance_system import AppearanceSystem
from ti_sim.base.bundles import kernel
from ti_sim.base.parallel import iterations_per_task
from ti_sim.base.runtime import compiled_in_double, ti


@kernel
def sum_columns(
    iterations_per_frame: int, row_of_pixel: ti.types.ndarray(), starts: ti.types.ndarray(), columns: ti.types.ndarray(),
    weights: ti.types.ndarray(), pixel_weight: ti.types.ndarray(), residual: ti.types.ndarray(), gain: ti.types.ndarray(),
    sums: ti.types.ndarray(),
):  # fmt: skip
    """Add the rows' residuals, times their weights, to the columns that they contain.

    Reads row_of_pixel [n, P] int32 (-1 where there is no row), the rows of a sparse matrix (starts [R + 1], columns and weights
    [entries]), pixel_weight [n, P], residual [n, P, 3] and gain [n, 3]; real arrays are f64. Adds to sums [3 C], zero before. A
    thread owns a frame, whose columns belong to no other one. No adjoint.
    """
    for index in range(row_of_pixel.shape[0] * iterations_per_frame):
        if index % iterations_per_frame > 0:
            continue
        t = index // iterations_per_frame
        for p in range(row_of_pixel.shape[1]):
            row = row_of_pixel[t, p]
            if row >= 0:
                weight = pixel_weight[t, p]
                red, green, blue = (
                    weight * gain[t, 0] * residual[t, p, 0], weight * gain[t, 1] * residual[t, p, 1],
                    weight * gain[t, 2] * residual[t, p, 2],
                )  # fmt: skip
                for i in range(starts[row], starts[row + 1]):
                    column = 3 * columns[i]
                    sums[column] = sums[column] + weights[i] * red
                    sums[column + 1] = sums[column + 1] + weights[i] * green
                    sums[column + 2] = sums[column + 2] + weights[i] * blue


@compiled_in_double
def column_sums(system: AppearanceSystem, pixel_weight: np.ndarray, residual: np.ndarray, gain: np.ndarray) -> np.ndarray:
    """W^T w g r [C, 3] with the matrix W of a system without shadows, whose columns belong to all frames.

    Args:
        system: one motion's pixels.
        pixel_weight: [n, P] w.
        residual: [n, P, 3] r.
        gain: [n, 3] g.
    """
    matrix, sums = system.matrix, np.zeros((len(system.color), 3))
    if len(system.row):  # kernels take no empty array
        sum_columns(
            iterations_per_task(system.frames), system.row_of_pixel, matrix.indptr, matrix.indices, matrix.data,
            np.ascontiguousarray(pixel_weight), np.ascontiguousarray(residual), np.ascontiguousarray(gain), sums.reshape(-1),
        )  # fmt: skip
    return sums
