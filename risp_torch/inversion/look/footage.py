"""What a film shows of one motion: the weights of colours in its pixels, as a sparse matrix, and what is left of the backdrop."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix

from risp_torch.inversion.look.palette import Palette
from ti_render import FragmentWeights

MOST_NUMBERED = 5 * 10**7  # numbers that a table is made for: it is faster than sorting


@dataclass(frozen=True, eq=False)
class Footage:
    """One motion's pixels as a function of colours: n frames of P pixels, R rows (frame and pixel) that show a body.

    A column is one colour of the palette on one face in one frame: it has one brightness. Pixels that never show a body are left
    out unless all are asked for: the look of the bodies does not depend on them.

    Attributes:
        matrix: [R, C] weights of the columns in the rows.
        active: [P] numbers of the pixels in the picture, ascending.
        row: [R] frame P + position in ``active``.
        color: [C] the palette's colour of each column.
        basis: [C, L] shading of each column (``shading_basis``).
        left: [n, P] what the bodies leave of the backdrop.
        film: [n, P, 3] linear colour.
        weight: [n, P] weights of the pixels, at least 0.
        palette: the colours.
    """

    matrix: csr_matrix
    active: np.ndarray
    row: np.ndarray
    color: np.ndarray
    basis: np.ndarray
    left: np.ndarray
    film: np.ndarray
    weight: np.ndarray
    palette: Palette

    @staticmethod
    def of(
        entries: FragmentWeights, basis: np.ndarray, left: np.ndarray, film: np.ndarray, palette: Palette, *,
        weight: np.ndarray | None = None, whole: bool = False,
    ) -> Footage:  # fmt: skip
        """Put the fragments of one motion together.

        Args:
            entries: weights of the corners; the images are the n frames.
            basis: [n, F, L] shading of the faces.
            left: [n, H W] 1 - alpha.
            film: [n, H W, 3].
            palette: the colours.
            weight: [n, H W]; all 1 by default.
            whole: whether pixels that never show a body take part, too.
        """
        pixels = left.shape[1]
        active = np.arange(pixels) if whole else np.unique(entries.pixel)
        position = np.zeros(pixels, dtype=np.int64)
        position[active] = np.arange(len(active))
        rows, columns, weights = _corners(entries, basis.shape[1], palette)
        row, at_row = _numbered(rows[0] * len(active) + position[rows[1]], len(left) * len(active))
        column, at_column = _numbered(columns, 3 * len(left) * basis.shape[1])
        matrix = csr_matrix((weights, (at_row, at_column)), shape=(len(row), len(column)))
        face_of_frame = column // 3
        color = palette.corner[face_of_frame % basis.shape[1], column % 3]
        shading = basis.reshape(-1, basis.shape[2])[face_of_frame].astype(np.float64)
        weight = np.ones(left.shape) if weight is None else weight
        left, film, weight = (np.ascontiguousarray(array[:, active], dtype=np.float64) for array in (left, film, weight))
        return Footage(matrix, active, row, color, shading, left, film, weight, palette)

    @property
    def frames(self) -> int:
        """n."""
        return len(self.left)

    @cached_property
    def transposed(self) -> csr_matrix:
        """[C, R]."""
        return self.matrix.T.tocsr()

    @cached_property
    def squared(self) -> csr_matrix:
        """[C, R] squared weights."""
        return self.transposed.multiply(self.transposed).tocsr()

    @cached_property
    def pixel(self) -> np.ndarray:
        """[R] pixel of each row."""
        return self.row % self.left.shape[1]

    @cached_property
    def frame(self) -> np.ndarray:
        """[R] frame of each row."""
        return self.row // self.left.shape[1]

    @cached_property
    def into_pixels(self) -> csr_matrix:
        """[P, R] sums rows over the frames."""
        rows = len(self.row)
        return csr_matrix((np.ones(rows), (self.pixel, np.arange(rows))), shape=(self.left.shape[1], rows))

    @cached_property
    def into_colors(self) -> csr_matrix:
        """[N, C] sums columns by colour."""
        columns = len(self.color)
        return csr_matrix((np.ones(columns), (self.color, np.arange(columns))), shape=(self.palette.count, columns))

    @cached_property
    def mean_basis(self) -> np.ndarray:
        """[N, L] mean shading of each colour over the pixels that show it; that of even light for a colour that none shows."""
        shown = self.transposed @ np.ones(len(self.row))
        total = self.into_colors @ shown
        mean = (self.into_colors @ (shown[:, None] * self.basis)) / np.maximum(total, 1e-12)[:, None]
        mean[total <= 1e-12] = np.eye(1, self.basis.shape[1])
        return mean

    def merged(self, brightness: np.ndarray) -> csr_matrix:
        """[R, N] weights of the colours in the rows, for a brightness [C] of the columns."""
        columns = len(self.color)
        shaded = csr_matrix((brightness, self.color, np.arange(columns + 1)), shape=(columns, self.palette.count))
        return self.matrix @ shaded

    @cached_property
    def stiffness(self) -> csr_matrix:
        """[N, N] graph Laplacian of the palette's neighbours."""
        a, b = self.palette.neighbours.T
        ones, count = np.ones(len(a)), self.palette.count
        edge = csr_matrix(
            (np.concatenate([ones, -ones]), (np.tile(np.arange(len(a)), 2), np.concatenate([a, b]))), shape=(len(a), count)
        )
        return (edge.T @ edge).tocsr()


def _numbered(given: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The different numbers among those given (below ``size``), ascending, and the place of each given one among them."""
    if size > MOST_NUMBERED:
        return np.unique(given, return_inverse=True)
    present = np.zeros(size, dtype=bool)
    present[given] = True
    place = np.cumsum(present, dtype=np.int32) - 1
    return np.flatnonzero(present), place[given].astype(np.int64)


def _corners(
    entries: FragmentWeights, faces: int, palette: Palette
) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray, np.ndarray]:
    """Frame and pixel, column (frame, face and corner as one number) and weight of every entry.

    Where the three corners of each face have one colour, their weights are summed into the first.
    """
    if (palette.corner == palette.corner[:, :1]).all():
        column = (entries.image * faces + entries.face) * 3
        return (entries.image, entries.pixel), column, entries.weight.sum(axis=1, dtype=np.float64)
    image, pixel, face = (np.repeat(each, 3) for each in (entries.image, entries.pixel, entries.face))
    corner = np.tile(np.arange(3), len(entries.face))
    return (image, pixel), (image * faces + face) * 3 + corner, entries.weight.reshape(-1).astype(np.float64)
