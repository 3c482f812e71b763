"""The Jacobian of a stage as a sparse matrix: its pattern, and where the elements' contributions go."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csc_matrix, csr_matrix

from ti_sim.deformable.families import FAMILIES, TABLES
from ti_sim.deformable.model import HELD, DeformableModel


@dataclass(frozen=True)
class Pattern:
    """Sparsity pattern of 3x3 blocks in the Jacobian of the free particles of a model, constant over a rollout.

    Attributes:
        free: [F] particles whose positions are unknown; rows 3 i to 3 i + 2 of the matrix are those of particle ``free[i]``.
        rows: number of rows that ``kernels.element_jacobians`` writes.
        start, entry, stride, value_index, diagonal: int32 tables of ``kernels.assemble``.
        columns, offsets: int32 indices and row starts of the matrix in CSR.
        upper, mirrored: indices in the CSR data of the upper triangle's entries in CSC order, and of their transposed entries.
        upper_rows, upper_offsets: indices and column starts of the upper triangle in CSC.
    """

    free: np.ndarray
    rows: int
    start: np.ndarray
    entry: np.ndarray
    stride: np.ndarray
    value_index: np.ndarray
    diagonal: np.ndarray
    columns: np.ndarray
    offsets: np.ndarray
    upper: np.ndarray
    mirrored: np.ndarray
    upper_rows: np.ndarray
    upper_offsets: np.ndarray

    @cached_property
    def transposed(self) -> np.ndarray:
        """Indices in the CSR data of the transposed entries."""
        row_count = len(self.offsets) - 1
        return csr_matrix(
            csr_matrix((np.arange(len(self.columns)), self.columns, self.offsets), shape=(row_count, row_count)).T
        ).data

    def full(self, data: np.ndarray) -> csr_matrix:
        """The matrix [3 F, 3 F] with these numbers."""
        row_count = 3 * len(self.free)
        return csr_matrix((data, self.columns, self.offsets), shape=(row_count, row_count), copy=False)

    def symmetric_upper(self, data: np.ndarray) -> csc_matrix:
        """Upper triangle of the symmetric part of the matrix."""
        row_count = 3 * len(self.free)
        values = 0.5 * (data[self.upper] + data[self.mirrored])
        return csc_matrix((values, self.upper_rows, self.upper_offsets), shape=(row_count, row_count), copy=False)


def pattern_of(model: DeformableModel) -> Pattern:
    """The pattern of a model's elements and of the diagonal."""
    free = np.flatnonzero(model.particle_table[:, HELD] == 0)
    count = len(free)
    free_index = np.full(model.particle_count, -1)
    free_index[free] = np.arange(count)
    keys, entries, strides, rows = [np.arange(count) * (count + 1)], [np.full(count, -1)], [np.zeros(count, int)], 0
    for family, nodes in FAMILIES.items():
        corners = free_index[model.tables[TABLES[family]]]
        element, row_corner, column_corner = (
            values.ravel() for values in np.meshgrid(np.arange(len(corners)), *[np.arange(nodes)] * 2, indexing="ij")
        )
        row, column = corners[element, row_corner], corners[element, column_corner]
        is_free_pair = (row >= 0) & (column >= 0)
        keys.append((row * count + column)[is_free_pair])
        entries.append((rows + (element * 3 * nodes + 3 * row_corner) * nodes + column_corner)[is_free_pair])
        strides.append(np.full(is_free_pair.sum(), nodes))
        rows += 3 * nodes * nodes * len(corners)
    key, entry, stride = (np.concatenate(values) for values in (keys, entries, strides))
    unique_keys, block = np.unique(key, return_inverse=True)
    is_free = entry >= 0
    order = np.argsort(block[is_free], kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(block[is_free], minlength=len(unique_keys)))])
    block_row, block_column = unique_keys // count, unique_keys % count
    diagonal = np.where(block_row == block_column, free[block_row], -1)
    offsets, columns, value_index = _scalar_rows(block_row, block_column, count)
    upper, mirrored, upper_rows, upper_offsets = _upper_triangle(columns, offsets)
    return Pattern(
        free, rows, _as_int32(start), _as_int32(entry[is_free][order]), _as_int32(stride[is_free][order]), _as_int32(value_index),
        _as_int32(diagonal), _as_int32(columns), _as_int32(offsets), upper, mirrored, upper_rows, upper_offsets,
    )  # fmt: skip


def _scalar_rows(block_row: np.ndarray, block_column: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """CSR row starts and columns of a matrix of 3x3 blocks in order of rows and columns, and ``value_index`` of each block."""
    blocks_per_row = np.bincount(block_row, minlength=count)
    first_block = np.concatenate([[0], np.cumsum(blocks_per_row)])
    offsets = np.concatenate([[0], np.cumsum(np.repeat(3 * blocks_per_row, 3))])
    block_in_row = np.arange(len(block_row)) - first_block[block_row]
    value_index = np.stack([9 * first_block[block_row] + 3 * block_in_row, 3 * blocks_per_row[block_row]], axis=1)
    columns = np.empty(9 * len(block_row), dtype=int)
    for i in range(3):
        for j in range(3):
            columns[value_index[:, 0] + i * value_index[:, 1] + j] = 3 * block_column + j
    return offsets, columns, value_index


def _upper_triangle(columns: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The last four attributes of ``Pattern`` for a matrix whose pattern is symmetric."""
    row_count = len(offsets) - 1
    entry_indices = csr_matrix((np.arange(len(columns)), columns, offsets), shape=(row_count, row_count))
    mirrored = csr_matrix(entry_indices.T).data  # index of entry (j, i), in the order of (i, j)
    row = np.repeat(np.arange(row_count), np.diff(offsets))
    upper = np.flatnonzero(row <= columns)
    order = upper[np.lexsort((row[upper], columns[upper]))]
    starts = np.concatenate([[0], np.cumsum(np.bincount(columns[order], minlength=row_count))])
    return order, mirrored[order], _as_int32(row[order]), _as_int32(starts)


def _as_int32(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values, dtype=np.int32)
