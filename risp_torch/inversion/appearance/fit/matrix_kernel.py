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
    at_matrix, at_sum, at_light, count, coefficients, row, gain, row_weight, plate_share,
):  # fmt: skip
    """Add w J^T J of a row to the lower triangles of the matrices, and w beta J to the sums of its pixel.

    All arrays are flat; ``gain`` and ``plate_share`` are vectors of the channels, whose numbers are neighbours in the matrices,
    the sums and the row's derivatives by the light. These begin at ``at_matrix``, ``at_sum`` and ``at_light``; ``count`` and
    ``coefficients`` are the numbers N of colours and L - 1 of the light's coefficients.
    """
    first, stop, size = starts[row], starts[row + 1], count + coefficients
    for a in range(3 * coefficients):
        light[at_light + a] = 0.0
    for i in range(first, stop):
        column, at_basis = 3 * columns[i], coefficients * columns[i]
        scale = weights[i] * gain
        by_light = ti.Vector([scale[k] * column_color[column + k] for k in range(3)])
        for a in range(coefficients):
            shading = basis[at_basis + a]
            for k in ti.static(range(3)):
                light[at_light + 3 * a + k] = light[at_light + 3 * a + k] + by_light[k] * shading
    for i in range(first, stop):
        at_i, scale = color[columns[i]], row_weight * weights[i] * gain
        value = ti.Vector([scale[k] * shade[3 * columns[i] + k] for k in range(3)])
        for k in ti.static(range(3)):
            sums[at_sum + 3 * at_i + k] = sums[at_sum + 3 * at_i + k] + plate_share[k] * value[k]
        scaled = value * gain
        for j in range(first, i + 1):
            at_j, weight = color[columns[j]], weights[j]
            if i != j and at_i == at_j:
                weight *= 2.0
            entry = at_matrix + 3 * (ti.max(at_i, at_j) * size + ti.min(at_i, at_j))
            for k in ti.static(range(3)):
                matrices[entry + k] = matrices[entry + k] + scaled[k] * weight * shade[3 * columns[j] + k]
        for a in range(coefficients):
            entry = at_matrix + 3 * ((count + a) * size + at_i)
            for k in ti.static(range(3)):
                matrices[entry + k] = matrices[entry + k] + value[k] * light[at_light + 3 * a + k]
    for a in range(coefficients):
        at_row = at_matrix + 3 * ((count + a) * size + count)
        weighted = row_weight * ti.Vector([light[at_light + 3 * a + k] for k in range(3)])
        for k in ti.static(range(3)):
            at = at_sum + 3 * (count + a) + k
            sums[at] = sums[at] + plate_share[k] * weighted[k]
        for c in range(a + 1):
            for k in ti.static(range(3)):
                matrices[at_row + 3 * c + k] = matrices[at_row + 3 * c + k] + weighted[k] * light[at_light + 3 * c + k]


@kernel
def sum_normal_matrices(
    iterations_per_block: int, tasks: int, count: int, coefficients: int, row_of_pixel: ti.types.ndarray(),
    starts: ti.types.ndarray(), columns: ti.types.ndarray(), weights: ti.types.ndarray(), color: ti.types.ndarray(),
    shade: ti.types.ndarray(), column_color: ti.types.ndarray(), basis: ti.types.ndarray(), gain: ti.types.ndarray(),
    row_weight: ti.types.ndarray(), plate_share: ti.types.ndarray(), plate_weight: ti.types.ndarray(),
    light: ti.types.ndarray(), sums: ti.types.ndarray(), matrices: ti.types.ndarray(),
):  # fmt: skip
    """Add J^T w J - Y^T D^-1 Y (``look_equations``) of each task's pixels to matrices [tasks M M 3], lower triangles.

    Reads row_of_pixel [n, P] int32, the rows of a sparse matrix (starts [R + 1], columns and weights [entries]), color [C] int32,
    shade and column_color [C 3], basis [C (L - 1)], gain and plate_share [R, 3], row_weight [R], plate_weight [P, 3]; real arrays
    are f64. light [tasks (L - 1) 3] and sums [tasks M 3] are workspace, the latter with zeros. Arrays that inner loops read and
    write are flat: the shape of another would be loaded again after each store. No adjoint.
    """
    for index in range(tasks * iterations_per_block):
        if index % iterations_per_block > 0:
            continue
        task, pixels, size = index // iterations_per_block, row_of_pixel.shape[1], count + coefficients
        at_matrix, at_sum = 3 * task * size * size, 3 * task * size
        for p in range(pixels * task // tasks, pixels * (task + 1) // tasks):
            is_covered = False
            for t in range(row_of_pixel.shape[0]):
                row = row_of_pixel[t, p]
                if row >= 0:
                    is_covered = True
                    _add_row(
                        matrices, sums, light, starts, columns, weights, color, shade, column_color, basis, at_matrix, at_sum,
                        3 * coefficients * task, count, coefficients, row, ti.Vector([gain[row, k] for k in range(3)]),
                        row_weight[row], ti.Vector([plate_share[row, k] for k in range(3)]),
                    )  # fmt: skip
            if is_covered:
                inverse = ti.Vector([1.0 / plate_weight[p, k] for k in range(3)])
                for a in range(size):
                    at_row = at_sum + 3 * a
                    scaled = ti.Vector([inverse[k] * sums[at_row + k] for k in range(3)])
                    if scaled[0] != 0 or scaled[1] != 0 or scaled[2] != 0:
                        for c in range(a + 1):
                            entry = at_matrix + 3 * (a * size + c)
                            for k in ti.static(range(3)):
                                matrices[entry + k] = matrices[entry + k] - scaled[k] * sums[at_sum + 3 * c + k]
                for a in range(3 * size):
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
        iterations_per_task(TASKS), TASKS, count, coefficients, system.row_of_pixel, matrix.indptr.astype(np.int32, copy=False),
        matrix.indices.astype(np.int32, copy=False), matrix.data, system.color.astype(np.int32), shade.reshape(-1),
        column_color.reshape(-1), flat_basis, gain, row_weight, plate_share, plate_weight,
        np.empty(max(3 * TASKS * coefficients, 1)), sums, matrices,
    )  # fmt: skip
    lower = np.ascontiguousarray(matrices.reshape(TASKS, size, size, 3).sum(axis=0).transpose(2, 0, 1))
    return lower + np.tril(lower, -1).transpose(0, 2, 1)
