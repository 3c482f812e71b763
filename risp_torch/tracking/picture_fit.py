"""One camera's picture of one frame: the colours of the bodies, and the normal equations of their poses.

Colours are unknown in every frame and each camera; a weak prior ties them to the colours of the neighbouring frame. The colours
absorb the effect of light, gloss and neighbouring bodies on the brightness of a side; outlines and edges between sides determine
the poses. Colours are eliminated as in variable projection (Kaufman, BIT 15, 1975).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import binary_dilation, gaussian_filter

from risp_torch.tracking.background import shadowed_plate
from risp_torch.tracking.coverage import Coverage, CoverageRenderer
from risp_torch.tracking.settings import TrackSettings

INITIAL_GREY = 0.4  # mean of the prior of colours, linear rgb, where no neighbouring frame has been fitted
REWEIGHTINGS, FIRST_REWEIGHTINGS = 3, 6  # with and without colours of a neighbouring frame
MARGIN_PIXELS = 5  # width of the compared band of pixels around the bodies
HIDDEN_BELOW = 1e-3  # fraction of a pixel that shows the background: below it the plate may be unknown


@dataclass(frozen=True, eq=False)
class BackgroundPixels:
    """Background of a frame.

    Attributes:
        picture: [P, 3] frame of the film, linear rgb.
        colors: [P, 3] the background, linear rgb; 0 where it is unknown.
        is_known: [P] bool, whether the background is known.
    """

    picture: np.ndarray
    colors: np.ndarray
    is_known: np.ndarray

    def select(self, pixels: np.ndarray) -> BackgroundPixels:
        """The background of some pixels, by their indices."""
        return BackgroundPixels(self.picture[pixels], self.colors[pixels], self.is_known[pixels])


@dataclass(frozen=True, eq=False)
class ColorFit:
    """Colours of a placement.

    Attributes:
        colors: [N, 3] linear rgb.
        residual: [p, 3] observed minus predicted colours of the compared pixels.
        weights: [p] robust weights of the pixels.
        cost: robust sum of squares, regularisation included.
        regularisation: [N, N] matrix of the priors of the colours.
    """

    colors: np.ndarray
    residual: np.ndarray
    weights: np.ndarray
    cost: float
    regularisation: np.ndarray


@dataclass(frozen=True, eq=False)
class PoseNormalEquations:
    """Normal equations of the pose changes at a placement.

    Attributes:
        matrix: [D, D] Gauss-Newton matrix.
        gradient: [D] J^T W r.
        cost: cost at the placement.
        colors: [N, 3] fitted colours.
        background: background at the placement.
    """

    matrix: np.ndarray
    gradient: np.ndarray
    cost: float
    colors: np.ndarray
    background: BackgroundPixels


class FilmedView:
    """A film by one camera."""

    def __init__(self, renderer: CoverageRenderer, film: np.ndarray, plate: np.ndarray, settings: TrackSettings) -> None:
        """A film to fit.

        Args:
            renderer: coverage renderer of the camera.
            film: [T, H, W, 3] linear rgb.
            plate: [H, W, 3] the picture without bodies, linear rgb; NaN where it is unknown.
            settings: settings of the fit.
        """
        self.renderer, self.settings = renderer, settings
        self.film, self.plate = film.reshape(len(film), -1, 3), plate.reshape(-1, 3)
        num_colors, (first_color, second_color) = renderer.palette.count, renderer.palette.neighbours.T
        self._smoothness_matrix = np.zeros((num_colors, num_colors))
        for rows, columns, value in (
            (first_color, first_color, 1.0),
            (second_color, second_color, 1.0),
            (first_color, second_color, -1.0),
            (second_color, first_color, -1.0),
        ):
            np.add.at(self._smoothness_matrix, (rows, columns), settings.smoothness * value)
        self._temporal_matrix = settings.temporal_smoothness * np.eye(num_colors)

    def background(self, frame: int, placement: np.ndarray, uncovered: np.ndarray) -> BackgroundPixels:
        """The background of a frame for a placement [N, 7], with the uncovered fraction [P] of each pixel."""
        picture = self.film[frame]
        background_colors = shadowed_plate(self.renderer, placement, uncovered, picture, self.plate, self.settings.robust_scale)
        is_known = np.isfinite(background_colors).all(axis=1)
        return BackgroundPixels(picture, np.where(is_known[:, None], background_colors, 0.0), is_known)

    def costs(self, placements: np.ndarray, neighbour_colors: np.ndarray | None, background: BackgroundPixels) -> np.ndarray:
        """[B] robust costs of placements in front of a fixed background.

        Args:
            placements: [B, N, 7].
            neighbour_colors: [N, 3] colours in the neighbouring frame that is already fitted, None for the first one.
            background: background of the frame.
        """
        coverage = self.renderer.of(placements)
        pixels = self._near_pixels(coverage.uncovered.min(axis=0))
        near_coverage, background = coverage.select(pixels), background.select(pixels)
        return np.array([self._fit_colors(near_coverage, k, neighbour_colors, background).cost for k in range(len(placements))])

    def normal(
        self, frame: int, placements: np.ndarray, difference_step: float, neighbour_colors: np.ndarray | None, *, blurred: bool
    ) -> PoseNormalEquations:
        """Normal equations at the first placement.

        Args:
            frame: index of the frame.
            placements: [1 + 2 D, N, 7]: a placement, D ones after a change by +``difference_step`` of each coordinate, and D ones
                after a change by -``difference_step``.
            difference_step: half the width of the central differences [m].
            neighbour_colors: [N, 3] colours in the neighbouring frame that is already fitted, None for the first one.
            blurred: whether residuals are smoothed by a Gaussian; the colours are then constants.
        """
        coverage = self.renderer.of(placements)
        full_background = self.background(frame, placements[0], coverage.uncovered[0])
        pixels = self._near_pixels(coverage.uncovered.min(axis=0))
        near_coverage, near_background = coverage.select(pixels), full_background.select(pixels)
        color_fit = self._fit_colors(near_coverage, 0, neighbour_colors, near_background)
        pictures = (
            np.einsum("bnp,nc->bpc", near_coverage.by_color, color_fit.colors, optimize=True)
            + near_coverage.uncovered[..., None] * near_background.colors
        )
        num_coordinates = len(placements) // 2
        jacobian = (pictures[1 : 1 + num_coordinates] - pictures[1 + num_coordinates :]) / (2 * difference_step)  # [D, p, 3]
        residual, weights = color_fit.residual, color_fit.weights
        if blurred:
            is_valid = self._has_known_background(near_coverage, 0, near_background)
            blurred_images = self._blur(is_valid[:, None] * np.concatenate([jacobian, residual[None]]), pixels)
            jacobian, residual = blurred_images[:-1], blurred_images[-1]
            weights, projected = is_valid * self._robust_weight(residual), jacobian
        else:
            projected = self._project_out_colors(jacobian, near_coverage.by_color[0], color_fit)
        weighted = weights[:, None] * jacobian
        # With the rows of the colours' regularisation, projected as well, these are J^T W P J and J^T W r.
        matrix = np.einsum("ipc,jpc->ij", weighted, projected, optimize=True)
        gradient = np.einsum("ipc,pc->i", weighted, residual)
        return PoseNormalEquations(matrix, gradient, color_fit.cost, color_fit.colors, full_background)

    def _near_pixels(self, uncovered: np.ndarray) -> np.ndarray:
        """Indices of the pixels at and around the bodies, for the uncovered fraction [P] of each pixel."""
        covered = (uncovered < 1.0).reshape(self.renderer.height, self.renderer.width)
        return np.flatnonzero(binary_dilation(covered, iterations=MARGIN_PIXELS))

    def _has_known_background(self, coverage: Coverage, placement_index: int, background: BackgroundPixels) -> np.ndarray:
        """[p] 1 for pixels whose background is known, or hidden."""
        return (background.is_known | (coverage.uncovered[placement_index] < HIDDEN_BELOW)).astype(np.float64)

    def _robust_weight(self, residual: np.ndarray) -> np.ndarray:
        """Robust weights [p] of residuals [p, 3]."""
        return 1.0 / (1.0 + (residual**2).sum(axis=1) / self.settings.robust_scale**2) ** 2

    def _fit_colors(
        self, coverage: Coverage, placement_index: int, neighbour_colors: np.ndarray | None, background: BackgroundPixels
    ) -> ColorFit:
        """Fit the colours of a placement by iteratively reweighted least squares."""
        by_color, is_valid = coverage.by_color[placement_index], self._has_known_background(coverage, placement_index, background)
        target = background.picture - coverage.uncovered[placement_index][:, None] * background.colors
        prior_colors = np.full((len(by_color), 3), INITIAL_GREY) if neighbour_colors is None else neighbour_colors
        colors, regularisation = prior_colors, self._smoothness_matrix + self._temporal_matrix
        for iteration in range(FIRST_REWEIGHTINGS if neighbour_colors is None else REWEIGHTINGS):
            # Far from the solution every pixel is an outlier, so the first fit weights all pixels equally.
            uses_robust_weights = iteration > 0 or neighbour_colors is not None
            weighted_coverage = by_color * (
                is_valid * self._robust_weight(target - by_color.T @ colors) if uses_robust_weights else is_valid
            )
            colors = np.linalg.solve(
                weighted_coverage @ by_color.T + regularisation, weighted_coverage @ target + self._temporal_matrix @ prior_colors
            )
        residual, deviation = target - by_color.T @ colors, colors - prior_colors
        squared_residual = (residual**2).sum(axis=1)
        cost = (is_valid * squared_residual / (1.0 + squared_residual / self.settings.robust_scale**2)).sum()
        cost += (deviation * (self._temporal_matrix @ deviation)).sum() + (colors * (self._smoothness_matrix @ colors)).sum()
        return ColorFit(colors, residual, is_valid * self._robust_weight(residual), float(cost), regularisation)

    def _project_out_colors(self, jacobian: np.ndarray, by_color: np.ndarray, color_fit: ColorFit) -> np.ndarray:
        """A Jacobian [D, p, 3], projected onto the complement of the colours' Jacobian."""
        flat_jacobian = np.concatenate([jacobian[..., channel] for channel in range(3)])
        weighted_coverage = by_color * color_fit.weights
        flat_jacobian = (
            flat_jacobian
            - np.linalg.solve(weighted_coverage @ by_color.T + color_fit.regularisation, weighted_coverage @ flat_jacobian.T).T
            @ by_color
        )
        return np.moveaxis(flat_jacobian.reshape(3, len(jacobian), -1), 0, 2)

    def _blur(self, images: np.ndarray, pixels: np.ndarray) -> np.ndarray:
        """Images [M, p, 3] of some pixels, smoothed by a Gaussian; other pixels count as zero."""
        full_images = np.zeros((len(images), self.plate.shape[0], 3))
        full_images[:, pixels] = images
        full_images = full_images.reshape(len(images), self.renderer.height, self.renderer.width, 3)
        return gaussian_filter(full_images, self.settings.blur, axes=(1, 2)).reshape(len(images), -1, 3)[:, pixels]
