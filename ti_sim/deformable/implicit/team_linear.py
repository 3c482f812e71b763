"""Linear systems of a stage by the threads of a team, with all iterations in one launch: on a GPU.

BiCGStab (van der Vorst, SIAM J. Sci. Stat. Comput. 13, 1992) with the inverses of the diagonal 3x3 blocks as preconditioner. It
takes matrices that are neither symmetric nor definite. All threads of a group sum the same numbers in the same order.
"""

from threading import Lock

import numpy as np

from ti_sim.base.arrays import device_array
from ti_sim.base.bundles import Array, bundle, kernel
from ti_sim.base.launcher import Launcher
from ti_sim.base.parallel import thread_count
from ti_sim.base.runtime import compiled_in_double, require, ti, without_cfg_optimisation
from ti_sim.base.teams import (
    Team,
    block_team,
    cpu_team,
    grid_team,
    group_of,
    lane_of,
    lane_share,
    raise_if_timed_out,
    reset_arrivals,
    takes_part,
    team_barrier,
    team_iterations,
)
from ti_sim.base.vecmath import mat3, vec3, vec4

LAUNCH_LOCK = Lock()  # Taichi runs one kernel at a time
_MAX_ITERATIONS = 1000  # in thin bodies, whose systems take more, a factor is faster
_BLOCK_DIM, _GRID_BLOCK_DIM = 512, 128  # threads of a GPU block
_LOADS = 16  # numbers that a thread loads at a time: a GPU waits for all of them together
_SUMS = 128  # numbers that every thread adds up, after the others have been added up to them
# Right-hand side, solution, residual; direction, preconditioned, and its product; preconditioned residual, and its product.
_RHS, _SOLUTION, _RESIDUAL, _DIRECTION, _STEP, _STEP_PRODUCT, _CORRECTION, _CORRECTION_PRODUCT = range(8)
_ITERATIONS, _REDUCTION = range(2)  # entries of ``BlockSystem.report``


@bundle
class BlockSystem:
    """A sparse matrix of 3x3 blocks with a right-hand side, in double precision.

    Attributes:
        values, columns, offsets: the matrix in CSR; the last two int32.
        diagonal: [n / 3] int32, index in ``values`` of the first number of each diagonal block.
        stride: [n / 3] int32, numbers between the rows of that block.
        inverse: [n, 3] receives the inverses of the diagonal blocks.
        vectors: [8, n] vectors; the first is the right-hand side, the second receives the solution.
        partial: [threads of a group, 2] scratch.
        sums: [128, 2] scratch.
        limits: [2] residual at which to stop, relative to the right-hand side, and largest number of iterations.
        report: [2] receives the number of iterations and the relative residual.
    """

    values: Array
    columns: Array
    offsets: Array
    diagonal: Array
    stride: Array
    inverse: Array
    vectors: Array
    partial: Array
    sums: Array
    limits: Array
    report: Array


class TeamSolver:
    """Solves systems of one pattern on the device of the kernels."""

    def __init__(self, columns: np.ndarray, offsets: np.ndarray) -> None:
        """Compile the kernel and set its arguments.

        Args:
            columns, offsets: int32 indices and row starts in CSR, columns in ascending order.
        """
        self._values = np.zeros(len(columns))
        self._vectors, self._limits, self._report = np.zeros((8, len(offsets) - 1)), np.zeros(2), np.zeros(2)
        self._launch = compiled_in_double(without_cfg_optimisation(self._bind))(columns, offsets)

    def _bind(self, columns: np.ndarray, offsets: np.ndarray) -> Launcher:
        row_count = len(offsets) - 1
        rows = np.repeat(np.arange(row_count), np.diff(offsets))
        on_diagonal = np.flatnonzero((rows % 3 == 0) & (columns == rows)).astype(np.int32)
        inverse = device_array(np.zeros((row_count, 3)))
        self._team = one_group(inverse, row_count)
        values, limits = self._values.view(), self._limits.view()
        values.flags.writeable = limits.flags.writeable = False  # not copied back from the device
        tables = (columns, offsets, on_diagonal, np.diff(offsets)[::3].astype(np.int32))
        system = BlockSystem(
            values, *(device_array(table) for table in tables), inverse, self._vectors,
            device_array(np.zeros((self._team.size, 2))), device_array(np.zeros((_SUMS, 2))), limits, self._report,
        )  # fmt: skip
        return Launcher(solve_block_system, self._team, system, integers=0)

    def solve(self, values: np.ndarray, rhs: np.ndarray, tolerance: float) -> np.ndarray:
        """[n] solution; less precise if more than the largest number of iterations would be needed, or not finite.

        Args:
            values: [entries] of the matrix.
            rhs: [n] right-hand side.
            tolerance: residual relative to it.
        """
        self._values[:], self._vectors[_RHS], self._limits[:] = values, rhs, (tolerance, _MAX_ITERATIONS)
        with LAUNCH_LOCK:
            reset_arrivals(self._team)
            self._launch()
            raise_if_timed_out(self._team)
        return self._vectors[_SOLUTION].copy()


def one_group(like: Array, rows: int) -> Team:
    """A team of one group for a number of rows.

    Args:
        like: array on the device of the kernels.
        rows: number of rows of a matrix.
    """
    device = require().device
    if device == "cpu":
        return cpu_team(1, thread_count())
    if device == "cuda" and rows > _BLOCK_DIM:
        return grid_team(like, _GRID_BLOCK_DIM)
    return block_team(like, 1, min(-(-rows // 32) * 32, _BLOCK_DIM))


@kernel
def solve_block_system(team: Team, system: BlockSystem):
    """Solve a system from zero (see ``BlockSystem``); the team has one group."""
    ti.loop_config(block_dim=team.block_dim)
    for index in range(team_iterations(team)):
        if takes_part(team, index):
            group, lane, passed = group_of(team, index), lane_of(team, index), 0
            blocks, rows = lane_share(team, lane, system.diagonal.shape[0]), lane_share(team, lane, system.vectors.shape[1])
            square, _unused = 0.0, 0.0
            for k in range(blocks):
                square += _begin(system, lane + k * team.size)
            square, _unused, passed = _group_sums(team, group, lane, system, square, 0.0, passed)
            limit, rhs_square = square * system.limits[0] * system.limits[0], square
            rho, previous_rho, alpha, omega, iteration = square, 1.0, 1.0, 1.0, 0
            while square > limit and iteration < system.limits[1]:
                beta = rho / previous_rho * alpha / omega
                for k in range(blocks):
                    _set_direction(system, lane + k * team.size, beta, omega)
                passed = team_barrier(team, group, lane, passed)
                product = 0.0
                for k in range(rows):
                    row = lane + k * team.size
                    value = _row_product(system, _STEP, row)
                    system.vectors[_STEP_PRODUCT, row] = value
                    product += system.vectors[_RHS, row] * value
                product, _unused, passed = _group_sums(team, group, lane, system, product, 0.0, passed)
                alpha = rho / product
                for k in range(blocks):
                    _set_correction(system, lane + k * team.size, alpha)
                passed = team_barrier(team, group, lane, passed)
                product, product_square = 0.0, 0.0
                for k in range(rows):
                    row = lane + k * team.size
                    value = _row_product(system, _CORRECTION, row)
                    system.vectors[_CORRECTION_PRODUCT, row] = value
                    product += system.vectors[_RESIDUAL, row] * value
                    product_square += value * value
                product, product_square, passed = _group_sums(team, group, lane, system, product, product_square, passed)
                omega = product / product_square if product_square > 0 else 0.0
                previous_rho, rho, square = rho, 0.0, 0.0
                for k in range(rows):
                    row = lane + k * team.size
                    step = alpha * system.vectors[_STEP, row] + omega * system.vectors[_CORRECTION, row]
                    system.vectors[_SOLUTION, row] += step
                    residual = system.vectors[_RESIDUAL, row] - omega * system.vectors[_CORRECTION_PRODUCT, row]
                    system.vectors[_RESIDUAL, row] = residual
                    rho += system.vectors[_RHS, row] * residual
                    square += residual * residual
                rho, square, passed = _group_sums(team, group, lane, system, rho, square, passed)
                iteration += 1
            if lane == 0:
                system.report[_ITERATIONS] = iteration
                system.report[_REDUCTION] = ti.sqrt(square / rhs_square)


@ti.func
def _begin(system: ti.template(), block):
    """Set the vectors and the preconditioner of a block.

    Returns:
        Square of the right-hand side.
    """
    first, stride = system.diagonal[block], system.stride[block]
    matrix, square = mat3(0.0), 0.0
    for i, j in ti.static(ti.ndrange(3, 3)):
        matrix[i, j] = system.values[first + i * stride + j]
    inverse = matrix.inverse()
    for i in ti.static(range(3)):
        row = 3 * block + i
        value = system.vectors[_RHS, row]
        square += value * value
        for j in ti.static(range(3)):
            system.inverse[row, j] = inverse[i, j]
        system.vectors[_RESIDUAL, row] = value
        for vector in ti.static((_SOLUTION, _DIRECTION, _STEP_PRODUCT)):
            system.vectors[vector, row] = 0.0
    return square


@ti.func
def _precondition(system: ti.template(), block, value, result: ti.template()):
    """Write the product of the block's inverse with a vector."""
    for i in ti.static(range(3)):
        row = 3 * block + i
        inverse = vec3(system.inverse[row, 0], system.inverse[row, 1], system.inverse[row, 2])
        system.vectors[result, row] = inverse.dot(value)


@ti.func
def _set_direction(system: ti.template(), block, beta, omega):
    """direction = residual + beta (direction - omega product), and the preconditioned direction."""
    value = vec3(0.0)
    for i in ti.static(range(3)):
        row = 3 * block + i
        previous = system.vectors[_DIRECTION, row] - omega * system.vectors[_STEP_PRODUCT, row]
        value[i] = system.vectors[_RESIDUAL, row] + beta * previous
        system.vectors[_DIRECTION, row] = value[i]
    _precondition(system, block, value, _STEP)


@ti.func
def _set_correction(system: ti.template(), block, alpha):
    """residual -= alpha product, and the preconditioned residual."""
    value = vec3(0.0)
    for i in ti.static(range(3)):
        row = 3 * block + i
        value[i] = system.vectors[_RESIDUAL, row] - alpha * system.vectors[_STEP_PRODUCT, row]
        system.vectors[_RESIDUAL, row] = value[i]
    _precondition(system, block, value, _CORRECTION)


@ti.func
def _row_product(system: ti.template(), vector: ti.template(), row):
    """Row of the product of the matrix with a vector."""
    total = 0.0
    for entry in range(system.offsets[row], system.offsets[row + 1]):
        total += system.values[entry] * system.vectors[vector, system.columns[entry]]
    return total


@ti.func
def _group_sums(team: ti.template(), group, lane, system: ti.template(), first, second, passed):
    """Sums of two numbers over the threads of the group, and the number of barriers passed."""
    system.partial[lane, 0], system.partial[lane, 1] = first, second
    passed = team_barrier(team, group, lane, passed)
    for k in range(lane_share(team, lane, _SUMS)):
        entry, first_sum, second_sum = lane + k * team.size, 0.0, 0.0
        for m in range((team.size - entry + _SUMS - 1) // _SUMS):
            first_sum += system.partial[entry + m * _SUMS, 0]
            second_sum += system.partial[entry + m * _SUMS, 1]
        system.sums[entry, 0], system.sums[entry, 1] = first_sum, second_sum
    passed = team_barrier(team, group, lane, passed)
    first_sums, second_sums = vec4(0.0), vec4(0.0)
    for chunk in range(_SUMS // _LOADS):
        for k in ti.static(range(_LOADS)):
            first_sums[k % 4] += system.sums[chunk * _LOADS + k, 0]
            second_sums[k % 4] += system.sums[chunk * _LOADS + k, 1]
    return first_sums.sum(), second_sums.sum(), passed
