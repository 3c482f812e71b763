"""Linear model of a film for one motion: a sparse matrix of colour weights in its pixels, and shares of the background."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix

from risp_torch.inversion.appearance.fit.assembly_kernel import Assembly, assembled
from risp_torch.inversion.appearance.model.background_plate import SmoothPictures
from risp_torch.inversion.appearance.model.palette import Palette
from ti_render import FragmentWeights

MIN_SHADOW_COVERAGE = 1e-6  # part of a pixel in shadow: smaller ones are left out
MAX_LOOKUP_SIZE = 5 * 10**7  # numbers that a table is made for: it is faster than sorting


@dataclass(frozen=True, eq=False)
class AppearanceSystem:
    """One motion's pixels as a function of colours: n frames of P pixels, R rows (frame and pixel) that show a body
    or a shadow.

    A column is one colour of the palette on one face at one moment: it has one brightness; or it is one shadow, in all frames.
    Pixels that never show either are omitted unless all are requested: the look of the bodies does not depend on them.

    Attributes:
        matrix: [R, C] weights of the columns in the rows.
        active: [P] numbers of the pixels in the picture, ascending.
        row: [R] frame P + position in ``active``.
        color: [C] the palette's colour of each column.
        basis: [C, L] shading of each column (``shading_basis``).
        plate_share: [n, P] visible share of the plate, 1 - coverage by bodies.
        film: [n, P, 3] linear colour.
        weight: [n, P] weights of the pixels, at least 0.
        palette: the colours.
        plate_basis: pictures of which the plate is a combination; None for any plate.
    """

    matrix: csr_matrix
    active: np.ndarray
    row: np.ndarray
    color: np.ndarray
    basis: np.ndarray
    plate_share: np.ndarray
    film: np.ndarray
    weight: np.ndarray
    palette: Palette
    plate_basis: SmoothPictures | None = None

    @staticmethod
    def of(
        entries: FragmentWeights, basis: np.ndarray, plate_share: np.ndarray, film: np.ndarray, palette: Palette, *,
        shadows: np.ndarray | None = None, weight: np.ndarray | None = None, all_pixels: bool = False,
        plate_basis: SmoothPictures | None = None,
    ) -> AppearanceSystem:  # fmt: skip
        """Put the fragments of one motion together.

        Args:
            entries: weights of the corners; the images are the n frames, or S moments of each, one frame's after the other's.
            basis: [n S, F, L] shading of the faces.
            plate_share: [n, H W] visible share of the plate, 1 - alpha.
            film: [n, H W, 3].
            palette: the colours of the bodies.
            shadows: [n, K, H W] share of a pixel that shows ground in shadow (``shadows_of``), at most ``plate_share``.
            weight: [n, H W]; all 1 by default.
            all_pixels: whether pixels that never show a body or a shadow take part, too.
            plate_basis: pictures of H W pixels of which the plate is a combination; it takes ``all_pixels``.
        """
        frames, pixels = plate_share.shape
        images, faces = basis.shape[:2]
        assembly = _assembled(entries, palette, frames=frames, pixels=pixels, images=images, faces=faces, shadows=shadows)
        frame, row_pixel = np.divmod(assembly.frame_and_pixel, pixels)
        is_active = np.full(pixels, all_pixels)
        is_active[row_pixel] = True
        active, position = np.flatnonzero(is_active), np.cumsum(is_active) - 1
        row = frame * len(active) + position[row_pixel]
        face_of_image, corner_index = np.divmod(assembly.column, palette.corner.shape[1])
        color = palette.corner[face_of_image % faces, corner_index]
        shading = basis.reshape(-1, basis.shape[2])[face_of_image].astype(np.float64)
        if shadows is not None:
            color = np.concatenate([color, palette.count + np.arange(shadows.shape[1])])
            shading = np.concatenate([shading, np.eye(1, basis.shape[2]).repeat(shadows.shape[1], axis=0)])
            palette = palette.with_shadows(shadows.shape[1])
        system = AppearanceSystem(
            assembly.matrix, active, row, color, shading, _of_pixels(plate_share, active), film, plate_share, palette, plate_basis
        )  # fmt: skip
        return system.with_film(film, weight)

    def with_film(self, film: np.ndarray, weight: np.ndarray | None) -> AppearanceSystem:
        """The same motion's pixels in a film [n, H W, 3] with weights [n, H W] of the pixels, all 1 by default."""
        weight = np.ones(self.plate_share.shape) if weight is None else _of_pixels(weight, self.active)
        return replace(self, film=_of_pixels(film, self.active), weight=weight)

    def without_film(self) -> AppearanceSystem:
        """The same pixels with an empty film, and empty weights."""
        return replace(self, film=np.zeros((0, 0, 3)), weight=np.zeros((0, 0)))

    @property
    def frames(self) -> int:
        """n."""
        return len(self.plate_share)

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
        return self.row % self.plate_share.shape[1]

    @cached_property
    def frame(self) -> np.ndarray:
        """[R] frame of each row."""
        return self.row // self.plate_share.shape[1]

    @cached_property
    def row_of_pixel(self) -> np.ndarray:
        """[n, P] int32 row of each pixel of a frame, -1 for a pixel without one."""
        rows = np.full(self.plate_share.shape, -1, dtype=np.int32)
        rows.reshape(-1)[self.row] = np.arange(len(self.row), dtype=np.int32)
        return rows

    @cached_property
    def into_pixels(self) -> csr_matrix:
        """[P, R] sums rows over the frames."""
        rows = len(self.row)
        return csr_matrix((np.ones(rows), (self.pixel, np.arange(rows))), shape=(self.plate_share.shape[1], rows))

    @cached_property
    def into_colors(self) -> csr_matrix:
        """[N, C] sums columns by colour."""
        columns = len(self.color)
        return csr_matrix((np.ones(columns), (self.color, np.arange(columns))), shape=(self.palette.count, columns))

    @cached_property
    def mean_basis(self) -> np.ndarray:
        """[N, L] mean shading of each colour over the pixels that show it; that of even light for a colour that none shows."""
        column_sums = np.bincount(self.matrix.indices, weights=self.matrix.data, minlength=len(self.color))
        total = self.into_colors @ column_sums
        mean = (self.into_colors @ (column_sums[:, None] * self.basis)) / np.maximum(total, 1e-12)[:, None]
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


def _of_pixels(array: np.ndarray, active: np.ndarray) -> np.ndarray:
    """The pixels [n, P, ...] of an array [n, H W, ...], in double precision."""
    return np.ascontiguousarray(np.take(array, active, axis=1), dtype=np.float64)


def _numbered(numbers: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The different numbers among those given (below ``size``), ascending, and the place of each given one among them."""
    if size > MAX_LOOKUP_SIZE:
        return np.unique(numbers, return_inverse=True)
    present = np.zeros(size, dtype=bool)
    present[numbers] = True
    rank = np.cumsum(present, dtype=np.int32) - 1
    return np.flatnonzero(present), rank[numbers].astype(np.int64)


def _cast(amounts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Frame, number of the shadow, pixel and weight of every entry of [n, K, H W] that counts."""
    frame, number, pixel = np.nonzero(amounts > MIN_SHADOW_COVERAGE)
    return frame, number, pixel, amounts[frame, number, pixel].astype(np.float64)


def _assembled(
    entries: FragmentWeights, palette: Palette, *, frames: int, pixels: int, images: int, faces: int, shadows: np.ndarray | None
) -> Assembly:
    """The matrix of the bodies' entries, and of shadows, whose columns come last and have no number."""
    offset, weight = _places(entries, palette)
    places, moments, cast = palette.corner.shape[1], images // frames, None if shadows is None else _cast(shadows)
    if cast is None and len(entries.image) and images * faces * places <= MAX_LOOKUP_SIZE:
        return assembled(
            entries.image, entries.pixel, entries.face, offset, weight, frames=frames, moments=moments, pixels=pixels,
            faces=faces, places=places,
        )  # fmt: skip
    image = entries.image.astype(np.int64)
    columns = ((image * faces + entries.face)[:, None] * places + offset).reshape(-1)
    rows = np.repeat(image // moments * pixels + entries.pixel, weight.shape[1])
    weights = weight.reshape(-1).astype(np.float64)
    column, at_column = _numbered(columns, images * faces * places)
    count = len(column)
    if cast is not None:
        frame, number, pixel, amount = cast
        rows, at_column = np.concatenate([rows, frame * pixels + pixel]), np.concatenate([at_column, count + number])
        weights, count = np.concatenate([weights, amount]), count + shadows.shape[1]
    row, at_row = _numbered(rows, frames * pixels)
    return Assembly(csr_matrix((weights, (at_row, at_column)), shape=(len(row), count)), row, column)


def _places(entries: FragmentWeights, palette: Palette) -> tuple[np.ndarray, np.ndarray]:
    """Places in a face [n or 1, K] of the colours of each entry, and their weights [n, K].

    Where the corners of each face have one colour, their weights are summed into the first.
    """
    if (palette.corner == palette.corner[:, :1]).all():
        return np.zeros((1, 1), dtype=np.int64), entries.weight.sum(axis=1, dtype=np.float64)[:, None]
    if palette.lattice.divisions == 1:
        return np.arange(3)[None], entries.weight
    return palette.lattice.weights(entries.weight.astype(np.float64))
