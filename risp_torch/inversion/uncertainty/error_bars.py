"""Error bars of an estimate, with all their components and intermediate results.

| component | error | file |
|---|---|---|
| noise, other unknowns, look, correlated errors | of the observations, by the Gauss-Newton model of the loss | covariance.py |
| curvature | of that model: the loss may be flatter | flatness.py |
| solved look | of a look that the solved look cannot represent | appearance_errors.py |
| compression | of a compressed film | compression.py, compression_refits.py |
| mask edges | of the observations of a simulated film | ``Loss.systematic`` |
| starts | scatter of starts in equally good minima, and rounding | scatter_of_starts.py, rounding.py |
| distance | remaining distance to the minimum | distance.py |
| misfit | of a residual that noise does not explain | misfit.py |
| wrong scene | shift by numbers of the scene that are likely wrong | ../diagnostics/misspecification.py |
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch

from risp_torch.inversion.losses.loss import PictureLoss
from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.inversion.problem.films.rendered_film import film_at, motion_at
from risp_torch.inversion.problem.linearisation import Linearisation, jacobian_along_eigenvectors, linearise, newton_step
from risp_torch.inversion.problem.problem import Problem
from risp_torch.inversion.problem.search_stages import MAX_LINEARISED
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.inversion.solvers.search import SearchResult
from risp_torch.inversion.uncertainty.appearance_errors import look_moves
from risp_torch.inversion.uncertainty.compression import (
    CompressedFilm,
    Encoder,
    Encoding,
    beyond_blocks,
    compressed_films,
    compression_moves,
    size_of_moves,
)
from risp_torch.inversion.uncertainty.compression_refits import refitted_moves
from risp_torch.inversion.uncertainty.covariance import CovarianceEstimate, Uncertainty, error_bars, widened
from risp_torch.inversion.uncertainty.distance import distance_in_newton_steps, distance_in_steps, widened_by_distance
from risp_torch.inversion.uncertainty.flatness import flatness
from risp_torch.inversion.uncertainty.misfit import (
    DOUBTED_RATIO,
    Residual,
    explained_residual,
    widened_by_misfit,
    with_omitted_variable_bias,
)
from risp_torch.inversion.uncertainty.noise_floor import expected_residual
from risp_torch.inversion.uncertainty.rounding import rounding_scatter
from risp_torch.inversion.uncertainty.scatter_of_starts import excess_by_errors, scatter_of_starts
from risp_torch.scene.scene import Scene

WIDE_STEP = 1e-2  # of the range: step of the differences for error bars of more unknowns than MAX_LINEARISED
NON_SMOOTH_STEP = 4e-2  # of the range: step of the differences for the convergence check on a non-smooth loss
MAX_EXPLAINED_STEPS = 4.0  # longest distance to a minimum whose residual is explained, in Gauss-Newton steps
COMPRESSION = "compression"  # name of that part of an error bar


@dataclass(frozen=True)
class ErrorBars:
    """Error bars of an estimate, with intermediate results.

    Attributes:
        correct_scene_bars: error bars if the scene is correct, with all components except the last two.
        linearisation: of the observations at the estimate.
        film: [T, H, W, 3] the estimate's film, linear rgb; None for a loss that compares no pictures of a film.
        encoder: of that film, where the target is compressed; otherwise None.
        compressed: that film after compression, one for each quality.
        bytes_per_frame: of the target's file, where it is compressed.
        explained: mean squared residual that noise and compression explain, or else usual errors of such data; None if unknown.
        noise_is_known: whether it is that of known noise, and not one estimated from the data.
        misfit: mean squared residual divided by ``explained``; None if unknown.
        excess: loss beyond the best start's that errors of the film explain (``excess_by_errors``).
        widest: [K] that ranges and priors allow, scaled units.
        unfinished: a sentence on the distance to the minimum, if the search has not converged.
    """

    correct_scene_bars: Uncertainty
    linearisation: Linearisation
    film: torch.Tensor | None
    encoder: Encoder | None
    compressed: list[CompressedFilm]
    bytes_per_frame: float | None
    explained: float | None
    noise_is_known: bool
    misfit: float | None
    excess: float
    widest: np.ndarray
    unfinished: list[str] = field(default_factory=list)

    @cached_property
    def bars(self) -> Uncertainty:
        """``correct_scene_bars`` with the component of a misfit."""
        return (
            self.correct_scene_bars
            if self.misfit is None
            else widened_by_misfit(self.correct_scene_bars, self.misfit, self.widest)
        )

    def with_omitted_variable_bias(self, shifts: np.ndarray) -> Uncertainty:
        """``bars`` with the largest of N shifts [N, K] (scaled units) by misspecifications."""
        return with_omitted_variable_bias(self.bars, shifts, self.widest)

    def residual(self, pictures: torch.Tensor | None) -> Residual:
        """The residual at the estimate, with the target's pictures [T, H, W, 3] (``Residual.of``)."""
        return Residual.of(self.linearisation, self.film, pictures, self.compressed, self.bytes_per_frame, self.explained)


def estimate_error_bars(problem: Problem, estimate: SearchResult) -> ErrorBars:
    """Error bars of an estimate, the end of the best start of a search.

    Args:
        problem: the inversion problem.
        estimate: ends of its starts.
    """
    scene, unknowns, comparison = problem.scene, estimate.unknowns, estimate.comparison
    loss, values, ranges = comparison.loss, estimate.final[estimate.best], unknowns.scaled_range()
    linearisation = _linearised(scene, comparison, unknowns, values)
    film = film_at(scene, unknowns, values, loss) if isinstance(loss, PictureLoss) else None
    floor = comparison.noise_floor(film)
    encoding = Encoding.of(problem.video) if film is not None and not loss.temporally_correlated else None
    encoder = _encoder(problem, comparison, film, encoding)
    compressed = [] if encoder is None else compressed_films(encoder)
    size, refits = None if encoding is None else encoding.size, bool(compressed) and loss.compression_by_refit
    moves = _moves(problem, unknowns, linearisation, values, compressed, size, encoder)
    explained = explained_residual(linearisation, film, problem.pictures, compressed, size, floor)
    bars, model_bars, excess = _bars(
        scene, unknowns, linearisation, estimate, floor=floor, moves=moves,
        look_shifts=look_moves(scene, unknowns, linearisation, values, explained),
        measure_flatness=loss.of_pictures and not loss.non_smooth and len(values) <= MAX_LINEARISED, has_refits=refits,
        shift_name=COMPRESSION if encoder is not None and size is not None else "mask edges",
    )  # fmt: skip
    # Near the minimum of a non-smooth loss, local minima dominate the slopes; wide differences average over them.
    wide = linearise(scene, comparison, unknowns, values, step=NON_SMOOTH_STEP) if loss.non_smooth else linearisation
    step = newton_step(wide)
    residual_fraction = (
        min(1.0, explained / max(linearisation.loss, 1e-300)) ** 0.5 if explained is not None and loss.needs_film else 1.0
    )
    noise_is_known = loss.colors_of_pixels or loss.noise is not None or loss.rounding() is not None
    expected = explained if noise_is_known else expected_residual(linearisation)
    misfit = None if expected is None else linearisation.loss / expected
    distance = distance_in_newton_steps(scene, unknowns, wide, step, distance_in_steps(wide, step, explained))
    if noise_is_known and misfit <= DOUBTED_RATIO:  # the explained residual is only known to some tens of percent
        distance = min(distance, MAX_EXPLAINED_STEPS)
    bars, sentences = widened_by_distance(
        bars, unknowns, step * ranges, model_bars=model_bars, distance=distance, residual_fraction=residual_fraction
    )
    widest = unknowns.priors.max_error_bars(unknowns.scaled(values), ranges)
    return ErrorBars(
        bars, linearisation, film, encoder, compressed, size, expected, noise_is_known, misfit, excess, widest, sentences
    )


def _linearised(scene: Scene, comparison: Comparison, unknowns: Unknowns, values: np.ndarray) -> Linearisation:
    """The observations near an estimate [K]."""
    if len(unknowns.labels) <= MAX_LINEARISED:
        return jacobian_along_eigenvectors(scene, unknowns, linearise(scene, comparison, unknowns, values))
    # Rounds along weak directions would each cost as much as the Jacobian; wider steps also raise weak responses above rounding.
    return linearise(scene, comparison, unknowns, values, step=WIDE_STEP)


def _encoder(
    problem: Problem, comparison: Comparison, estimate: torch.Tensor | None, encoding: Encoding | None
) -> Encoder | None:
    """The encoder of the film of the estimate if the target was compressed and the loss compares images; else None."""
    if estimate is None or encoding is None or not encoding.fits(*estimate.shape[1:3]):
        return None
    return Encoder(comparison, estimate, problem.scene.fps, encoding.enlargement)


def _moves(
    problem: Problem, unknowns: Unknowns, linearisation: Linearisation, values: np.ndarray, films: list[CompressedFilm],
    size: float | None, encoder: Encoder | None,
) -> np.ndarray:  # fmt: skip
    """Shifts [M, K] of an estimate by compression, or by the bias of simulated observations, in parts of the ranges."""
    if encoder is None or size is None:
        return _systematic_move(problem.scene, unknowns, linearisation, values)
    if linearisation.comparison.loss.compression_by_refit:
        return refitted_moves(problem.scene, unknowns, linearisation, films, size)
    return compression_moves(linearisation, films, encoder.at_other_offsets)


def _systematic_move(scene: Scene, unknowns: Unknowns, linearisation: Linearisation, values: np.ndarray) -> np.ndarray:
    """Shift [1, K] of an estimate, in parts of the ranges, by the bias of simulated observations (``Loss.systematic``)."""
    frames = list(linearisation.comparison.frames)
    states, parameter_values = motion_at(scene, unknowns, values)
    with torch.no_grad():
        error = linearisation.comparison.loss.systematic(scene, states, parameter_values, frames)
    if error is None:
        return np.zeros((1, len(values)))
    return newton_step(replace(linearisation, residual=error.flatten().to(linearisation.residual), prior_gradient=0.0))[None]


def _bars(
    scene: Scene, unknowns: Unknowns, linearisation: Linearisation, search: SearchResult, *, floor: float, moves: np.ndarray,
    measure_flatness: bool, has_refits: bool, shift_name: str = COMPRESSION, look_shifts: np.ndarray | None = None,
) -> tuple[Uncertainty, Uncertainty, float]:  # fmt: skip
    """Error bars of the estimate, those of the Gauss-Newton model, relative to which the length of its next step is measured, and
    the excess of a loss that errors of the film explain.

    Args:
        scene, unknowns: those of the inversion.
        linearisation: linearisation near the estimate.
        search: ends of the starts.
        floor: lower bound of the variance of an observation.
        moves: [M, K] shifts of the estimate by compression, relative to the ranges.
        measure_flatness: whether to evaluate the loss along the principal directions, where it may be flatter than its model.
        has_refits: whether the moves are those of repeated estimates, which include the flatness of the loss.
        shift_name: name of the component that the moves make.
        look_shifts: [L, K] shifts by errors of a solved look, relative to the ranges; None without.
    """
    covariances, ranges = CovarianceEstimate.of(linearisation, floor), unknowns.scaled_range()
    newton_bars = bars = error_bars(linearisation, unknowns, floor=floor, covariances=covariances)
    flatness_ratios, stretched_moves = np.ones(len(ranges)), moves
    if measure_flatness:
        local_moves = np.zeros_like(moves) if has_refits else moves
        sizes = np.hypot(covariances.sizes, size_of_moves(local_moves @ covariances.vectors))
        flatness_ratios = flatness(scene, unknowns, linearisation, covariances, sizes)
        bars = error_bars(linearisation, unknowns, floor=floor, covariances=covariances.stretched(flatness_ratios))
        bars = replace(
            bars,
            components=replace(newton_bars, components=dict(newton_bars.components)).wider(bars.sd, "curvature").components,
        )
        stretched_moves = moves if has_refits else moves @ covariances.stretch(flatness_ratios)
    if look_shifts is not None and look_shifts.any():
        look_sd = np.minimum(np.sqrt(np.mean((look_shifts @ covariances.stretch(flatness_ratios)) ** 2, axis=0)), 1.0) * ranges
        bars = bars.wider(np.hypot(bars.sd, look_sd), "solved look")
    beyond_residual = beyond_blocks if shift_name == COMPRESSION and not has_refits else lambda shift, _: shift
    sizes = flatness_ratios * covariances.sizes
    sizes = np.hypot(sizes, beyond_residual(size_of_moves(stretched_moves @ covariances.vectors), sizes))
    excess = excess_by_errors(covariances.values / flatness_ratios, sizes, floor) / linearisation.comparison.observation_count
    rounding = rounding_scatter(scene, unknowns, linearisation) if len(ranges) <= MAX_LINEARISED else np.zeros(len(ranges))
    scatter = np.hypot(scatter_of_starts(unknowns, search.final, search.losses, search.best, excess), rounding)
    shift = beyond_residual(size_of_moves(moves) * ranges, newton_bars.sd)
    model_bars, model = (widened(newton_bars, unknowns, added_scatter, shift) for added_scatter in (rounding, scatter))
    # If no start has converged, their scatter is not an error bar: the step is then compared with the bars without it.
    model_bars = replace(model_bars, sd=np.where(model.observable, model.sd, model_bars.sd))
    shift = beyond_residual(size_of_moves(stretched_moves) * ranges, bars.sd)
    return widened(bars, unknowns, scatter, shift, shift_name=shift_name), model_bars, excess
