"""Reliability of an estimate: error bars, the remaining distance to the minimum, and the misfit."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from risp_torch.inversion.diagnostics.misfit import (
    MISFIT,
    Residual,
    doubts_of_misfit,
    explained_residual,
    local_noise,
    rounding_error,
    rounding_samples,
    widened_by_misfit,
)
from risp_torch.inversion.diagnostics.misspecification import (
    MOST_UNKNOWNS,
    NOTICED,
    Diagnosis,
    diagnose,
    doubts_of_residual,
    misspecification_sentences,
    with_omitted_variable_bias,
)
from risp_torch.inversion.diagnostics.noise_floor import doubts_of_motion, expected_residual
from risp_torch.inversion.diagnostics.score_tests import FilmErrors
from risp_torch.inversion.losses.loss import PictureLoss
from risp_torch.inversion.losses.pixel import PixelLoss
from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.inversion.problem.effective_sample_size import design_effect
from risp_torch.inversion.problem.films.rendered_film import film_at, motion_at
from risp_torch.inversion.problem.linearisation import Linearisation, jacobian_along_eigenvectors, linearise, newton_step
from risp_torch.inversion.problem.problem import MOST_LINEARISED, Problem
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.inversion.solvers.search import SearchResult
from risp_torch.inversion.uncertainty.appearance_errors import look_moves
from risp_torch.inversion.uncertainty.compressed_neighbours import compressed_neighbours
from risp_torch.inversion.uncertainty.compression import (
    CompressedFilm,
    Encoder,
    Encoding,
    beyond_blocks,
    compressed_films,
    compression_moves,
    compression_power,
    compression_quality,
    size_of_moves,
)
from risp_torch.inversion.uncertainty.compression_refits import refitted_moves
from risp_torch.inversion.uncertainty.covariance import (
    CovarianceEstimate,
    Uncertainty,
    distance_in_steps,
    error_bars,
    unfinished,
    widened,
)
from risp_torch.inversion.uncertainty.distance_in_newton_steps import distance_in_newton_steps
from risp_torch.inversion.uncertainty.flatness import flatness
from risp_torch.inversion.uncertainty.rounding import rounding_scatter
from risp_torch.inversion.uncertainty.scatter_of_starts import excess_by_errors, scatter_of_starts
from risp_torch.scene.scene import Scene

WIDE_STEP = 1e-2  # of the range: step of the differences for error bars of more unknowns than MOST_LINEARISED
ROUGH_STEP = 4e-2  # of the range: step of the differences for the convergence check on a rough loss
FEW_STEPS = 4.0  # longest distance to a minimum whose residual is explained, in Gauss-Newton steps
LEAST_NOISE = 1e-3  # of the explained residual: independent errors beside those of rounding or compression
COMPRESSION = "compression"  # name of that part of an error bar
UNMOVED = 1e-5  # of the range: change of a guess by rounding


@dataclass(frozen=True)
class Assessment:
    """Assessment of an estimate.

    Attributes:
        bars: error bars.
        misfit: mean squared residual divided by the part explained by noise and compression; None if unknown.
        doubts: sentences on why the estimate may be wrong.
        residual: how large the residual is, and what of it is noise of the film; None without error bars.
        suspects: what is likely wrong with the scene (``Misspecification.to_json``).
        whiteness: power of the residual in blocks over that of the film's errors; None if unknown.
        assumptions: sentences on numbers that the film does not show, and that estimates stand for.
        excess: loss beyond the best start's that errors of the film explain (``excess_by_errors``); None without error bars.
    """

    bars: Uncertainty
    misfit: float | None
    doubts: list[str]
    residual: Residual | None = None
    suspects: list[dict[str, Any]] = field(default_factory=list)
    whiteness: float | None = None
    assumptions: list[str] = field(default_factory=list)
    excess: float | None = None


def assess(problem: Problem, search: SearchResult) -> Assessment:
    """Error bars at the end of the best start, and doubts about the estimate.

    Args:
        problem: the inversion problem.
        search: the ends of its starts.
    """
    scene, unknowns, comparison = problem.scene, search.unknowns, search.comparison
    loss, values, ranges = comparison.loss, search.final[search.best], unknowns.scaled_range()
    linearisation = _linearised(scene, comparison, unknowns, values)
    estimate = film_at(scene, unknowns, values, loss) if isinstance(loss, PictureLoss) else None
    floor = comparison.noise_floor(estimate)
    encoding = Encoding.of(problem.video) if estimate is not None and not loss.temporally_correlated else None
    encoder = _encoder(problem, comparison, estimate, encoding)
    films = [] if encoder is None else compressed_films(encoder)
    size, refits = None if encoding is None else encoding.size, bool(films) and loss.compression_by_refit
    moves = _moves(problem, unknowns, linearisation, values, films, size, encoder)
    flat = loss.of_pictures and not loss.non_smooth and len(values) <= MOST_LINEARISED
    shift_name = COMPRESSION if encoder is not None and size is not None else "mask edges"
    explained = explained_residual(linearisation, estimate, problem.pictures, films, size, floor)
    look = look_moves(scene, unknowns, linearisation, values, explained)
    bars, model_bars, excess = _bars(
        scene,
        unknowns,
        linearisation,
        search,
        floor=floor,
        moves=moves,
        look=look,
        flat=flat,
        refits=refits,
        shift_name=shift_name,
    )
    # Near the minimum of a rough loss, local minima dominate the slopes; wide differences average over them.
    rough = linearise(scene, comparison, unknowns, values, step=ROUGH_STEP) if loss.non_smooth else linearisation
    step = newton_step(rough)
    fit = min(1.0, explained / max(linearisation.loss, 1e-300)) ** 0.5 if explained is not None and loss.needs_film else 1.0
    misfit = None
    if loss.colors_of_pixels or loss.noise is not None or loss.rounding() is not None:
        misfit = linearisation.loss / explained
    stated = misfit is not None
    expected = explained if stated else expected_residual(linearisation)
    if misfit is None and expected is not None:
        misfit = linearisation.loss / expected
    distance = distance_in_newton_steps(scene, unknowns, rough, step, distance_in_steps(rough, step, explained))
    if stated and misfit <= NOTICED:  # the explained residual is known to some tens of percent: no more is left
        distance = min(distance, FEW_STEPS)
    bars, doubts = unfinished(bars, unknowns, step * ranges, model_bars=model_bars, times=distance, fit=fit)
    doubts = loss.doubts(linearisation.residual.reshape(len(comparison.frames), -1), comparison.frames) + doubts
    if misfit is not None:
        moved = np.abs(unknowns.scaled(values) - unknowns.scaled(problem.initial[search.best])) / ranges
        doubts += doubts_of_misfit(misfit, linearisation.loss, expected, unmoved=bool(moved.max() < UNMOVED), stated=stated)
    if not stated:
        doubts += doubts_of_motion(linearisation, expected)
    errors = _errors_of_film(
        problem, unknowns, linearisation, bars, encoder, films, size, explained if stated else None, estimate
    )
    widest = unknowns.priors.widest(unknowns.scaled(values), ranges)
    bars = bars if misfit is None else widened_by_misfit(bars, misfit, widest)
    # The noise of a pixel is that of its three colours: losses of other observations of pixels, such as luminance, have none.
    if stated and type(loss) is PixelLoss and loss.weights is None and problem.pictures is not None:
        frames = list(comparison.frames)
        errors = replace(errors, local=local_noise(problem.pictures[frames], estimate[frames], errors.variance))
    fits = misfit is None or misfit <= MISFIT
    diagnosis = Diagnosis()
    if not problem.handed_on:
        diagnosis = diagnose(
            scene, unknowns, linearisation, bars.sd, errors, explained=expected, misfit=misfit if stated or not fits else None
        )
    suspects = diagnosis.suspects
    bars = with_omitted_variable_bias(bars, suspects, widest)
    residual = Residual.of(linearisation, estimate, problem.pictures, films, size, expected)
    doubts += misspecification_sentences(suspects, unknowns, linearisation.scaled)
    if not problem.handed_on:
        doubts += doubts_of_residual(diagnosis, misfit if stated and not loss.compression_by_refit else None)
    doubts = loss.target_doubts(scene) + doubts
    return Assessment(
        bars, misfit, doubts, residual, [suspect.to_json(unknowns) for suspect in suspects], diagnosis.whiteness,
        diagnosis.assumptions, excess,
    )  # fmt: skip


def _errors_of_film(
    problem: Problem, unknowns: Unknowns, linearisation: Linearisation, bars: Uncertainty, encoder: Encoder | None,
    films: list[CompressedFilm], size: float | None, explained: float | None, estimate: torch.Tensor | None,
) -> FilmErrors:  # fmt: skip
    """Residual of a film of a right scene: noise, and rounding, or compression of films near the estimate's at their quality."""
    if explained is None:
        return FilmErrors(None, (), design_effect(linearisation))
    loss, frames = linearisation.comparison.loss, list(linearisation.comparison.frames)
    if not films or size is None:
        if estimate is None or not loss.colors_of_pixels:
            return FilmErrors(explained)
        noise = max(explained - rounding_error(linearisation, estimate), LEAST_NOISE * explained)
        return FilmErrors(noise, rounding_samples(loss, estimate, frames))
    if problem.handed_on or loss.compression_by_refit or len(unknowns.labels) > MOST_UNKNOWNS:  # nothing is tested
        return FilmErrors(explained)
    power, crf = compression_power(films, size), compression_quality(films, size)
    neighbours = compressed_neighbours(problem.scene, unknowns, linearisation, bars, encoder, crf)
    samples = [film.residual * (power / max(film.power, 1e-300)) ** 0.5 for film in neighbours]
    return FilmErrors(max(explained - power, LEAST_NOISE * explained), samples, biased=True)


def _linearised(scene: Scene, comparison: Comparison, unknowns: Unknowns, values: np.ndarray) -> Linearisation:
    """The observations near an estimate [K]."""
    if len(unknowns.labels) <= MOST_LINEARISED:
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
    """Shifts [M, K] of an estimate by compression, or by what simulated observations are wrong by, in parts of the ranges."""
    if encoder is None or size is None:
        return _systematic_move(problem.scene, unknowns, linearisation, values)
    if linearisation.comparison.loss.compression_by_refit:
        return refitted_moves(problem.scene, unknowns, linearisation, films, size)
    return compression_moves(linearisation, films, encoder.elsewhere)


def _systematic_move(scene: Scene, unknowns: Unknowns, linearisation: Linearisation, values: np.ndarray) -> np.ndarray:
    """Shift [1, K] of an estimate, in parts of the ranges, by what simulated observations are wrong by (``Loss.systematic``)."""
    frames = list(linearisation.comparison.frames)
    states, numbers = motion_at(scene, unknowns, values)
    with torch.no_grad():
        error = linearisation.comparison.loss.systematic(scene, states, numbers, frames)
    if error is None:
        return np.zeros((1, len(values)))
    return newton_step(replace(linearisation, residual=error.flatten().to(linearisation.residual), pull=0.0))[None]


def _bars(
    scene: Scene, unknowns: Unknowns, linearisation: Linearisation, search: SearchResult, *, floor: float, moves: np.ndarray,
    flat: bool, refits: bool, shift_name: str = COMPRESSION, look: np.ndarray | None = None,
) -> tuple[Uncertainty, Uncertainty, float]:  # fmt: skip
    """Error bars of the estimate, those of the Gauss-Newton model, relative to which the length of its next step is measured, and
    the excess of a loss that errors of the film explain.

    Args:
        scene, unknowns: those of the inversion.
        linearisation: linearisation near the estimate.
        search: ends of the starts.
        floor: lower bound of the variance of an observation.
        moves: [M, K] shifts of the estimate by compression, relative to the ranges.
        flat: whether to evaluate the loss along the principal directions, where it may be flatter than its model.
        refits: whether the moves are those of repeated estimates, which include the flatness of the loss.
        shift_name: what makes the moves.
        look: [L, K] shifts by errors of a solved look, relative to the ranges; None without.
    """
    spread, ranges = CovarianceEstimate.of(linearisation, floor), unknowns.scaled_range()
    straight, times, wider = error_bars(linearisation, unknowns, floor=floor, spread=spread), np.ones(len(ranges)), moves
    bars = straight
    if flat:
        local_moves = np.zeros_like(moves) if refits else moves
        times = flatness(
            scene, unknowns, linearisation, spread, np.hypot(spread.sizes, size_of_moves(local_moves @ spread.vectors))
        )
        bars = error_bars(linearisation, unknowns, floor=floor, spread=spread.stretched(times))
        bars = replace(
            bars, components=replace(straight, components=dict(straight.components)).wider(bars.sd, "curvature").components
        )
        wider = moves if refits else moves @ spread.stretch(times)
    if look is not None and look.any():
        by_look = np.minimum(np.sqrt(np.mean((look @ spread.stretch(times)) ** 2, axis=0)), 1.0) * ranges
        bars = bars.wider(np.hypot(bars.sd, by_look), "solved look")
    beyond = beyond_blocks if shift_name == COMPRESSION and not refits else lambda shift, _: shift
    sizes = times * spread.sizes
    sizes = np.hypot(sizes, beyond(size_of_moves(wider @ spread.vectors), sizes))
    excess = excess_by_errors(spread.values / times, sizes, floor) / linearisation.comparison.count
    rounding = rounding_scatter(scene, unknowns, linearisation) if len(ranges) <= MOST_LINEARISED else np.zeros(len(ranges))
    scatter = np.hypot(scatter_of_starts(unknowns, search.final, search.losses, search.best, excess), rounding)
    shift = beyond(size_of_moves(moves) * ranges, straight.sd)
    model_bars, model = (widened(straight, unknowns, added_scatter, shift) for added_scatter in (rounding, scatter))
    # If no start has converged, their scatter is not an error bar: the step is then compared with the bars without it.
    model_bars = replace(model_bars, sd=np.where(model.observable, model.sd, model_bars.sd))
    shift = beyond(size_of_moves(wider) * ranges, bars.sd)
    return widened(bars, unknowns, scatter, shift, shift_name=shift_name), model_bars, excess
