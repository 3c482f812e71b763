"""The normal matrices of colours and light behind which any plate follows, for few colours, in one pass over the film's rows."""

import numpy as np

from risp_torch.inversion.appearance.fit.appearance_system import AppearanceSystem
from ti_sim.base.bundles import kernel
from ti_sim.base.parallel import iterations_per_task
from ti_sim.base.runtime import compiled_in_double, ti

TASKS = 32  # tasks of a sum: each adds to a separate part of the workspace
MAX_COLUMNS = 128  # colours and coefficients of the light: of more, a sparse product takes less time


@ti.func
def _add_row(
    matrices: ti.template(), sums: ti.template(), light: ti.template(), starts: ti.template(), columns: ti.template(),
    weights: ti.template(), color: ti.template(), shade: ti.template(), column_color: ti.template(), basis: ti.template(),
    at_matrix, at_sum, at_light, count, coefficients, row, k, gain, row_weight, plate_share,
):  # fmt: skip
    """Add w J^T J of a row of channel k to the lower triangle of a matrix, and w beta J to the sums of its pixel.

    All arrays are flat. The matrix, the sums and the row's derivatives by the light begin at ``at_matrix``, ``at_sum`` and
    ``at_light``; ``count`` and ``coefficients`` are the numbers N of colours and L - 1 of the light's coefficients.
    """
    first, stop, size = starts[row], starts[row + 1], count + coefficients
    for a in range(coefficients):
        light[at_light + a] = 0.0
    for i in range(first, stop):
        column = columns[i]
        by_light = gain * weights[i] * column_color[3 * column + k]
        for a in range(coefficients):
            light[at_light + a] = light[at_light + a] + by_light * basis[coefficients * column + a]
    for i in range(first, stop):
        at_i, value = color[columns[i]], row_weight * gain * weights[i] * shade[3 * columns[i] + k]
        sums[at_sum + at_i] = sums[at_sum + at_i] + plate_share * value
        for j in range(first, i + 1):
            at_j, product = color[columns[j]], value * gain * weights[j] * shade[3 * columns[j] + k]
            if i != j and at_i == at_j:
                product *= 2.0
            entry = at_matrix + ti.max(at_i, at_j) * size + ti.min(at_i, at_j)
            matrices[entry] = matrices[entry] + product
        for a in range(coefficients):
            entry = at_matrix + (count + a) * size + at_i
            matrices[entry] = matrices[entry] + value * light[at_light + a]
    for a in range(coefficients):
        weighted, at_row = row_weight * light[at_light + a], at_matrix + (count + a) * size + count
        sums[at_sum + count + a] = sums[at_sum + count + a] + plate_share * weighted
        for c in range(a + 1):
            matrices[at_row + c] = matrices[at_row + c] + weighted * light[at_light + c]


@kernel
def sum_normal_matrices(
    iterations_per_block: int, tasks: int, count: int, coefficients: int, row_of_pixel: ti.types.ndarray(),
    starts: ti.types.ndarray(), columns: ti.types.ndarray(), weights: ti.types.ndarray(), color: ti.types.ndarray(),
    shade: ti.types.ndarray(), column_color: ti.types.ndarray(), basis: ti.types.ndarray(), gain: ti.types.ndarray(),
    row_weight: ti.types.ndarray(), plate_share: ti.types.ndarray(), plate_weight: ti.types.ndarray(),
    light: ti.types.ndarray(), sums: ti.types.ndarray(), matrices: ti.types.ndarray(),
):  # fmt: skip
    """Add J^T w J - Y^T D^-1 Y (``look_equations``) of each task's pixels to matrices [tasks 3 M M], lower triangles.

    Reads row_of_pixel [n, P] int32, the rows of a sparse matrix (starts [R + 1], columns and weights [entries]), color [C] int32,
    shade and column_color [C 3], basis [C (L - 1)], gain and plate_share [R, 3], row_weight [R], plate_weight [P, 3]; real arrays
    are f64. light [tasks (L - 1)] and sums [tasks 3 M] are workspace, the latter with zeros. Arrays that inner loops read and
    write are flat: the shape of another would be loaded again after each store. No adjoint.
    """
    for index in range(tasks * iterations_per_block):
        if index % iterations_per_block > 0:
            continue
        task, pixels, size = index // iterations_per_block, row_of_pixel.shape[1], count + coefficients
        for p in range(pixels * task // tasks, pixels * (task + 1) // tasks):
            for k in range(3):
                is_covered, at_sum, at_matrix = False, (3 * task + k) * size, (3 * task + k) * size * size
                for t in range(row_of_pixel.shape[0]):
                    row = row_of_pixel[t, p]
                    if row >= 0:
                        is_covered = True
                        _add_row(
                            matrices, sums, light, starts, columns, weights, color, shade, column_color, basis, at_matrix, at_sum,
                            coefficients * task, count, coefficients, row, k, gain[row, k], row_weight[row], plate_share[row, k],
                        )  # fmt: skip
                if is_covered:
                    inverse = 1.0 / plate_weight[p, k]
                    for a in range(size):
                        scaled = inverse * sums[at_sum + a]
                        if scaled != 0:
                            for c in range(a + 1):
                                entry = at_matrix + a * size + c
                                matrices[entry] = matrices[entry] - scaled * sums[at_sum + c]
                    for a in range(size):
                        sums[at_sum + a] = 0.0


@compiled_in_double
def normal_matrices(
    system: AppearanceSystem, shade: np.ndarray, column_color: np.ndarray, basis: np.ndarray, gain: np.ndarray,
    row_weight: np.ndarray, plate_share: np.ndarray, plate_weight: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """J^T w J - Y^T D^-1 Y of the three channels, [3, M, M] with M = N + L - 1, without regularisation.

    Args:
        system: one motion's pixels.
        shade: [C, 3] brightness of the columns.
        column_color: [C, 3] their colours.
        basis: [C, L - 1] shading by the last coefficients of the light.
        gain: [R, 3] of the rows.
        row_weight: [R].
        plate_share: [R, 3] gain times visible share of the plate.
        plate_weight: [P, 3] D.
    """
    count, coefficients, matrix = system.palette.count, basis.shape[1], system.matrix
    size = count + coefficients
    flat_basis = np.ascontiguousarray(basis).reshape(-1) if coefficients else np.zeros(1)  # kernels take no empty array
    matrices, sums = np.zeros(TASKS * 3 * size * size), np.zeros(TASKS * 3 * size)
    sum_normal_matrices(
        iterations_per_task(TASKS), TASKS, count, coefficients, system.row_of_pixel, matrix.indptr.astype(np.int32),
        matrix.indices.astype(np.int32), matrix.data, system.color.astype(np.int32), shade.reshape(-1),
        column_color.reshape(-1), flat_basis, gain, row_weight, plate_share, plate_weight,
        np.empty(max(TASKS * coefficients, 1)), sums, matrices,
    )  # fmt: skip
    lower = matrices.reshape(TASKS, 3, size, size).sum(axis=0)
    return lower + np.tril(lower, -1).transpose(0, 2, 1)
