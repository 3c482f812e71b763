"""One camera's picture of one frame: the colours of the bodies, and the normal equations of their poses.

Colours are unknown in every frame and each camera, with a weak memory of the frame beside it: what light, gloss and neighbours do
to the brightness of a side is then in its colours, and outlines and edges between sides determine poses. Colours are
eliminated as in variable projection (Kaufman, BIT 15, 1975).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import binary_dilation, gaussian_filter

from risp_torch.tracking.background import background
from risp_torch.tracking.coverage import Coverage, Outlines
from risp_torch.tracking.settings import TrackSettings

GREY = 0.4  # colour of what no frame has shown yet
ROUNDS, FIRST_ROUNDS = 3, 6  # of reweighting
MARGIN = 5  # pixels about the bodies that are compared
HIDDEN = 1e-3  # part of a pixel that shows the background, below which the plate need not be known


@dataclass(frozen=True, eq=False)
class BackgroundPixels:
    """Background of a frame.

    Attributes:
        picture: [P, 3] of the film.
        colors: [P, 3] the background; 0 where it is not known.
        is_known: [P] bool.
    """

    picture: np.ndarray
    colors: np.ndarray
    is_known: np.ndarray

    def at(self, pixels: np.ndarray) -> BackgroundPixels:
        """The same of some pixels."""
        return BackgroundPixels(self.picture[pixels], self.colors[pixels], self.is_known[pixels])


@dataclass(frozen=True, eq=False)
class Solved:
    """Colours [N, 3] of a placement, what they leave [p, 3], the weights [p] of the pixels, and the cost with the regularisation
    matrix [N, N] that they were solved with."""

    colors: np.ndarray
    residual: np.ndarray
    weight: np.ndarray
    cost: float
    matrix: np.ndarray


@dataclass(frozen=True, eq=False)
class PictureNormal:
    """Normal equations of the pose changes [D] at a placement: matrix [D, D], gradient [D]; the cost, colours [N, 3] and
    background there."""

    matrix: np.ndarray
    gradient: np.ndarray
    cost: float
    colors: np.ndarray
    behind: BackgroundPixels


class FilmedView:
    """A film by one camera."""

    def __init__(self, outlines: Outlines, film: np.ndarray, plate: np.ndarray, settings: TrackSettings) -> None:
        """A film to fit.

        Args:
            outlines: of the camera.
            film: [T, H, W, 3] linear colour.
            plate: [H, W, 3] the picture without bodies; NaN where it is not known.
            settings: of the fit.
        """
        self.outlines, self.settings = outlines, settings
        self.film, self.plate = film.reshape(len(film), -1, 3), plate.reshape(-1, 3)
        count, (a, b) = outlines.palette.count, outlines.palette.neighbours.T
        self._smooth = np.zeros((count, count))
        for rows, columns, value in ((a, a, 1.0), (b, b, 1.0), (a, b, -1.0), (b, a, -1.0)):
            np.add.at(self._smooth, (rows, columns), settings.smoothness * value)
        self._memory = settings.memory * np.eye(count)

    def behind(self, frame: int, placement: np.ndarray, left: np.ndarray) -> BackgroundPixels:
        """The background of a frame for a placement [N, 7] that leaves this much [P] of it."""
        picture = self.film[frame]
        background_colors = background(self.outlines, placement, left, picture, self.plate, self.settings.robust)
        is_known = np.isfinite(background_colors).all(axis=1)
        return BackgroundPixels(picture, np.where(is_known[:, None], background_colors, 0.0), is_known)

    def costs(self, placements: np.ndarray, before: np.ndarray | None, behind: BackgroundPixels) -> np.ndarray:
        """[B] robust costs of placements [B, N, 7] before one background.

        Args:
            placements: to compare.
            before: [N, 3] colours in the frame beside it, None for the first one.
            behind: of the frame.
        """
        coverage = self.outlines.of(placements)
        pixels = self._near_pixels(coverage.left.min(axis=0))
        pixel_coverage, behind = coverage.at(pixels), behind.at(pixels)
        return np.array([self._solved(pixel_coverage, b, before, behind).cost for b in range(len(placements))])

    def normal(
        self, frame: int, placements: np.ndarray, width: float, before: np.ndarray | None, *, blurred: bool
    ) -> PictureNormal:
        """Normal equations at the first placement.

        Args:
            frame: number of the picture.
            placements: [1 + 2 D, N, 7]: a placement, D ones after a change by ``width`` along each coordinate, and D against it.
            width: m.
            before: [N, 3] colours in the frame beside it, None for the first one.
            blurred: whether pictures are compared after a Gaussian, and colours are held.
        """
        coverage = self.outlines.of(placements)
        far = self.behind(frame, placements[0], coverage.left[0])
        pixels = self._near_pixels(coverage.left.min(axis=0))
        pixel_coverage, behind = coverage.at(pixels), far.at(pixels)
        solved = self._solved(pixel_coverage, 0, before, behind)
        pictures = (
            np.einsum("bnp,nc->bpc", pixel_coverage.columns, solved.colors, optimize=True)
            + pixel_coverage.left[..., None] * behind.colors
        )
        changes = len(placements) // 2
        jacobian = (pictures[1 : 1 + changes] - pictures[1 + changes :]) / (2 * width)  # [D, p, 3]
        residual, weight = solved.residual, solved.weight
        if blurred:
            is_known = self._known(pixel_coverage, 0, behind)
            both = self._blurred(is_known[:, None] * np.concatenate([jacobian, residual[None]]), pixels)
            jacobian, residual = both[:-1], both[-1]
            weight, projected = is_known * self._factor(residual), jacobian
        else:
            projected = self._projected(jacobian, pixel_coverage.columns[0], solved)
        weighted = weight[:, None] * jacobian
        # With the rows of the colours' regularisation, projected as well, these are J^T W P J and J^T W r.
        matrix = np.einsum("ipc,jpc->ij", weighted, projected, optimize=True)
        gradient = np.einsum("ipc,pc->i", weighted, residual)
        return PictureNormal(matrix, gradient, solved.cost, solved.colors, far)

    def _near_pixels(self, left: np.ndarray) -> np.ndarray:
        """Numbers of the pixels at bodies that leave this much [P] of the background."""
        covered = (left < 1.0).reshape(self.outlines.height, self.outlines.width)
        return np.flatnonzero(binary_dilation(covered, iterations=MARGIN))

    def _known(self, coverage: Coverage, b: int, behind: BackgroundPixels) -> np.ndarray:
        """[p] 1 for pixels whose background is known, or hidden."""
        return (behind.is_known | (coverage.left[b] < HIDDEN)).astype(np.float64)

    def _factor(self, residual: np.ndarray) -> np.ndarray:
        """Robust weights [p] of residuals [p, 3]."""
        return 1.0 / (1.0 + (residual**2).sum(axis=1) / self.settings.robust**2) ** 2

    def _solved(self, coverage: Coverage, b: int, before: np.ndarray | None, behind: BackgroundPixels) -> Solved:
        """The colours of a placement (iteratively reweighted least squares)."""
        columns, is_known = coverage.columns[b], self._known(coverage, b, behind)
        target = behind.picture - coverage.left[b][:, None] * behind.colors
        home = np.full((len(columns), 3), GREY) if before is None else before
        colors, matrix = home, self._smooth + self._memory
        for turn in range(FIRST_ROUNDS if before is None else ROUNDS):
            # Far from the truth every pixel is an outlier: the first colours are those of all of them.
            trusted = turn > 0 or before is not None
            weighted = columns * (is_known * self._factor(target - columns.T @ colors) if trusted else is_known)
            colors = np.linalg.solve(weighted @ columns.T + matrix, weighted @ target + self._memory @ home)
        residual, away = target - columns.T @ colors, colors - home
        square = (residual**2).sum(axis=1)
        cost = (is_known * square / (1.0 + square / self.settings.robust**2)).sum()
        cost += (away * (self._memory @ away)).sum() + (colors * (self._smooth @ colors)).sum()
        return Solved(colors, residual, is_known * self._factor(residual), float(cost), matrix)

    def _projected(self, jacobian: np.ndarray, columns: np.ndarray, solved: Solved) -> np.ndarray:
        """A Jacobian [D, p, 3] without what changes of the colours absorb."""
        flat = np.concatenate([jacobian[..., channel] for channel in range(3)])
        weighted = columns * solved.weight
        flat = flat - np.linalg.solve(weighted @ columns.T + solved.matrix, weighted @ flat.T).T @ columns
        return np.moveaxis(flat.reshape(3, len(jacobian), -1), 0, 2)

    def _blurred(self, images: np.ndarray, pixels: np.ndarray) -> np.ndarray:
        """Images [M, p, 3] of some pixels after the Gaussian."""
        full_images = np.zeros((len(images), self.plate.shape[0], 3))
        full_images[:, pixels] = images
        full_images = full_images.reshape(len(images), self.outlines.height, self.outlines.width, 3)
        return gaussian_filter(full_images, self.settings.blur, axes=(1, 2)).reshape(len(images), -1, 3)[:, pixels]
