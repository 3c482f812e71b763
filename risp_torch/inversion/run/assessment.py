"""Reliability of an estimate: error bars, the misfit, and doubts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from risp_torch.inversion.diagnostics.compressed_neighbours import NUM_FILMS, compressed_neighbours
from risp_torch.inversion.diagnostics.misspecification import (
    MAX_UNKNOWNS,
    Diagnosis,
    diagnose,
    doubts_of_residual,
    misspecification_sentences,
)
from risp_torch.inversion.diagnostics.score_tests import FilmErrors
from risp_torch.inversion.losses.pixel import PixelLoss
from risp_torch.inversion.problem.effective_sample_size import design_effect
from risp_torch.inversion.problem.problem import Problem
from risp_torch.inversion.problem.residual_blocks import BlockOrder
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.inversion.solvers.search import SearchResult
from risp_torch.inversion.uncertainty import error_bars
from risp_torch.inversion.uncertainty.compression import compression_power, compression_quality
from risp_torch.inversion.uncertainty.covariance import Uncertainty, without_error_bars
from risp_torch.inversion.uncertainty.error_bars import ErrorBars
from risp_torch.inversion.uncertainty.misfit import (
    MISFIT_RATIO,
    Residual,
    doubts_of_misfit,
    local_noise,
    rounding_error,
    rounding_samples,
)
from risp_torch.inversion.uncertainty.noise_floor import doubts_of_motion

MIN_NOISE_FRACTION = 1e-3  # of the explained residual: independent errors beside those of rounding or compression
MIN_GUESS_CHANGE = 1e-5  # of the range: a guess that changed less has not moved but by rounding


@dataclass(frozen=True)
class Assessment:
    """Assessment of an estimate (``assess``).

    Attributes:
        bars: error bars.
        misfit: mean squared residual divided by the part explained by noise and compression; None if unknown.
        doubts: sentences on why the estimate may be wrong.
        residual: how large the residual is, and what of it is noise of the film; None without error bars.
        misspecifications: families of the scene's numbers that are likely wrong (``Misspecification.to_json``).
        block_variance_ratio: power of the residual in blocks over that of the film's errors; None if unknown.
        assumptions: sentences on known numbers that the film does not determine, and that the estimates depend on.
        excess: loss beyond the best start's that errors of the film explain (``excess_by_errors``); None without error bars.
        converged: whether the search has come to a minimum; None without error bars.
    """

    bars: Uncertainty
    misfit: float | None
    doubts: list[str]
    residual: Residual | None = None
    misspecifications: list[dict[str, Any]] = field(default_factory=list)
    block_variance_ratio: float | None = None
    assumptions: list[str] = field(default_factory=list)
    excess: float | None = None
    converged: bool | None = None


def assess(problem: Problem, search: SearchResult) -> Assessment:
    """Error bars at the end of the best start, and doubts about the estimate; NaN bars for too many unknowns.

    Args:
        problem: the inversion problem.
        search: the ends of its starts.
    """
    scene, unknowns, comparison = problem.scene, search.unknowns, search.comparison
    if not problem.is_linearised:
        return Assessment(without_error_bars(len(unknowns.labels)), None, [])
    errors = error_bars.estimate_error_bars(problem, search)
    loss, linearisation, misfit = comparison.loss, errors.linearisation, errors.misfit
    doubts = loss.doubts(linearisation.residual.reshape(len(comparison.frames), -1), comparison.frames) + errors.unfinished
    if misfit is not None:
        guess_change = np.abs(linearisation.scaled - unknowns.scaled(problem.initial[search.best])) / unknowns.scaled_range()
        doubts += doubts_of_misfit(
            misfit,
            linearisation.loss,
            errors.explained,
            unmoved=bool(guess_change.max() < MIN_GUESS_CHANGE),
            noise_is_known=errors.noise_is_known,
        )
    if not errors.noise_is_known:
        doubts += doubts_of_motion(linearisation, errors.explained)
    diagnosis = Diagnosis()
    film_errors = _errors_of_film(problem, unknowns, errors)
    if not problem.is_intermediate:
        is_judged = errors.noise_is_known or (misfit is not None and misfit > MISFIT_RATIO)
        diagnosis = diagnose(
            scene, unknowns, linearisation, errors.bars.sd, film_errors, explained=errors.explained,
            misfit=misfit if is_judged else None,
        )  # fmt: skip
    misspecifications = diagnosis.misspecifications
    bars = errors.with_omitted_variable_bias(np.array([entry.augmented.shift for entry in misspecifications]))
    residual = errors.residual(problem.pictures)
    doubts += misspecification_sentences(misspecifications, unknowns, linearisation.scaled)
    if not problem.is_intermediate:
        doubts += doubts_of_residual(diagnosis, misfit if errors.noise_is_known and not loss.compression_by_refit else None)
    return Assessment(
        bars, misfit, loss.target_doubts(scene) + doubts, residual,
        [entry.to_json(unknowns) for entry in misspecifications], diagnosis.block_variance_ratio, diagnosis.assumptions,
        errors.excess, converged=not errors.unfinished,
    )  # fmt: skip


def _errors_of_film(problem: Problem, unknowns: Unknowns, errors: ErrorBars) -> FilmErrors:
    """Errors of the film if the scene is correct: noise, and rounding, or compression of films near the estimate's."""
    linearisation, explained, film = errors.linearisation, errors.explained, errors.film
    if not errors.noise_is_known:
        return FilmErrors(None, design_effect=design_effect(linearisation))
    order = BlockOrder.of(linearisation.comparison, linearisation.residual.device)
    loss, frames, bytes_per_frame = linearisation.comparison.loss, list(linearisation.comparison.frames), errors.bytes_per_frame
    if not errors.compressed or bytes_per_frame is None:
        film_errors = FilmErrors(explained)
        if film is not None and loss.colors_of_pixels:
            noise = max(explained - rounding_error(linearisation, film), MIN_NOISE_FRACTION * explained)
            samples = rounding_samples(loss, film, frames).to(linearisation.residual)
            film_errors = FilmErrors.of_rounding(noise, samples, order)
    elif problem.is_intermediate or loss.compression_by_refit or len(unknowns.labels) > MAX_UNKNOWNS:  # nothing is tested
        film_errors = FilmErrors(explained)
    else:
        power, crf = (
            compression_power(errors.compressed, bytes_per_frame),
            compression_quality(errors.compressed, bytes_per_frame),
        )
        neighbours = compressed_neighbours(problem.scene, unknowns, linearisation, errors.correct_scene_bars, errors.encoder, crf)
        samples = (
            compressed.residual.to(linearisation.residual) * (power / max(compressed.power, 1e-300)) ** 0.5
            for compressed in neighbours
        )
        noise = max(explained - power, MIN_NOISE_FRACTION * explained)
        film_errors = FilmErrors.of_compression(noise, samples, order, NUM_FILMS)
    # The noise of a pixel is that of its three colours: losses of other observations of pixels, such as luminance, have none.
    if type(loss) is PixelLoss and loss.weights is None and problem.pictures is not None:
        film_errors = replace(
            film_errors, relative_variance=local_noise(problem.pictures[frames], film[frames], film_errors.variance)
        )
    return film_errors
