"""Fits to growing windows: from many short pieces to the windows, from several first guesses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.motions.kinds import measured_motions
from risp_torch.motions.recording import Window
from risp_torch.motions.result import MotionFit
from risp_torch.motions.search import MotionSearch
from risp_torch.motions.settings import MotionFitSettings
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, checked

_GUESS_SEED = 0
_MAX_COST_RATIO = 1.5  # to the lowest cost, of fits that are extended to longer pieces
_MIN_SEPARATION = 0.02  # relative to the ranges: closer fits are the same minimum


@checked
@dataclass(frozen=True, eq=False)
class GrowingFits:
    """Fits to pieces of windows, from the shortest to the windows themselves.

    Attributes:
        fits: one for each length; windows of a fit are twice as long as those of the one before.
        alternatives: fits of the last length that began with other guesses and ended elsewhere.
        searches: the problem of each length.
    """

    fits: tuple[MotionFit, ...]
    alternatives: tuple[MotionFit, ...] = ()
    searches: tuple[MotionSearch, ...] = ()

    def cost_rise(self, length_index: int, scaled: np.ndarray) -> float:
        """Rise of the cost of all coordinates, in the fit of one length, from its estimate to other shared unknowns [K]."""
        fit, search = self.fits[length_index], self.searches[length_index]
        return search.profile_cost(scaled, fit.starts - search.motions.starts) - fit.chi_square

    @property
    def values(self) -> Mapping[str, float]:
        """Label -> estimate of the last fit, to the windows as they are."""
        return self.fits[-1].values

    def derived_number(self, function: Callable[[Mapping[str, float]], float]) -> tuple[float, float]:
        """A number computed from the estimates of the last fit, and its error bar.

        Where the model is right, all lengths agree. The variance is that of the fit with the most windows plus the mean square
        distance of the other lengths from the last. K unknowns absorb part of the scatter of G windows, so that the variance is
        multiplied by G / (G - K).

        Args:
            function: of label -> physical value.
        """
        derived_numbers = [fit.derived(function) for fit in self.fits]
        values = np.array([derived.value for derived in derived_numbers])
        windows, unknowns = len(self.fits[0].windows), len(self.fits[0].scaled)
        variance = derived_numbers[0].sd ** 2 * windows / max(windows - unknowns, 1)
        squared_scatter = np.mean(np.square(values[:-1] - values[-1])) if len(values) > 1 else 0.0
        return float(values[-1]), float(np.sqrt(variance + squared_scatter))


@checked
def split_windows(windows: Sequence[Window], count: Count) -> list[Window]:
    """Each window in ``count`` pieces whose lengths differ by at most one frame; neighbours share a frame.

    Pieces in twice as many begin where these begin, and between.

    Args:
        windows: the windows.
        count: pieces of each.

    Raises:
        UserError: a piece would have fewer than 3 frames.
    """
    pieces = []
    for window in windows:
        boundaries = np.round(np.linspace(0, window.frames - 1, count + 1)).astype(int)
        if np.diff(boundaries).min() < 2:
            raise UserError(
                f"{window.recording.name} has a window of {window.frames} frames: give at most {(window.frames - 1) // 2} pieces"
            )
        for first, last in zip(boundaries[:-1].tolist(), boundaries[1:].tolist(), strict=True):
            noise = None if window.noise is None else window.noise[first : last + 1]
            pieces.append(replace(window, first=window.first + first, frames=last - first + 1, noise=noise))
    return pieces


def default_piece_counts(windows: Sequence[Window], min_frames: int | None) -> list[int]:
    """Numbers of pieces of a fit to growing windows, ..., 8, 4, 2, 1, so that each piece has at least ``min_frames`` frames."""
    counts, shortest_window = [1], min(window.frames for window in windows)
    while min_frames is not None and (shortest_window - 1) // (2 * counts[0]) + 1 >= min_frames:
        counts.insert(0, 2 * counts[0])
    return counts


@checked
def fit_growing_windows(
    scene: Scene,
    windows: Sequence[Window],
    unknown: Sequence[str],
    settings: MotionFitSettings,
    *,
    bounds: dict[str, tuple] | None = None,
    priors: dict[str, Any] | None = None,
    scale: str | None = None,
    encoder_offsets: Sequence[str] | None = None,
    action_offsets: Sequence[str] | None = None,
    action_lag: str | None = None,
    progress: bool = False,
    say: Callable[[str], None] | None = None,
) -> GrowingFits:
    """Fit numbers of a scene to pieces of windows that grow; each fit begins with the numbers and starts of the one before.

    Simulations of long windows are sensitive to small errors of a parameter, so their cost has many minima. The cost of short
    windows has fewer minima, and determines the parameters less precisely. The shortest pieces are fitted from several first
    guesses (``MotionFitSettings.first_guesses``); of the distinct minima, those with nearly the lowest cost are extended. If
    there are fewer recordings than unknowns, pieces count as separate clusters in the error bars.

    Args:
        scene: as of ``fit_motions``, and so are the other arguments below.
        windows: parts of recordings.
        unknown: names of parameters, or of entries.
        settings: noise and search.
        bounds, priors, scale, encoder_offsets, action_offsets, action_lag, progress: as of ``fit_motions``.
        say: function that is called with a line of text after each fit.

    Raises:
        UserError: as of ``fit_motions``.
    """
    instrument_parameters = {
        "scale": scale,
        "encoder_offsets": encoder_offsets,
        "action_offsets": action_offsets,
        "action_lag": action_lag,
    }
    check_unknown(scene, windows, unknown, settings, instrument_parameters)
    unknowns = Unknowns.of(scene, list(unknown), bounds=bounds, priors=priors)
    guesses = first_guesses(unknowns, settings.first_guesses)
    fits, searches, initial_points = [], [], [(guess, None) for guess in guesses]
    for count in settings.piece_counts or default_piece_counts(windows, settings.shortest_window):
        pieces = split_windows(windows, count)
        motions = measured_motions(scene, pieces, settings.noise, **instrument_parameters)
        num_recordings = len({id(window.recording) for window in windows})
        search = MotionSearch(
            motions, pieces, unknowns, settings, windows_are_clusters=num_recordings <= len(guesses[0]) and count > 1
        )
        fits_of_guesses = []
        for scaled, previous_fit in initial_points:
            offsets = None if previous_fit is None else start_offsets(previous_fit, pieces, motions.starts)
            fits_of_guesses.append(search.result(*search.run(progress=progress, scaled=scaled, start_offsets=offsets)))
        minima = distinct_minima(fits_of_guesses, unknowns.scaled_range())
        initial_points = [(fit.scaled, fit) for fit in minima]
        fits.append(minima[0])
        searches.append(search)
        if say is not None:
            say(f"{len(pieces)} windows: residual {minima[0].misfit ** 0.5:.3g} times the noise; " + "; ".join(minima[0].lines()))
    return GrowingFits(tuple(fits), tuple(minima[1:]), tuple(searches))


def check_unknown(
    scene: Scene,
    windows: Sequence[Window],
    unknown: Sequence[str],
    settings: MotionFitSettings,
    instrument_parameters: dict[str, Any],
) -> None:
    """Raise a UserError if the windows do not fit the scene, or an unknown is the start of a body or joint."""
    motions = measured_motions(scene, windows, settings.noise, **instrument_parameters)
    for name in unknown:
        if name.split("[")[0] in motions.start_names:
            raise UserError(f"{name} is a start, and every motion has its own: leave it out")


def first_guesses(unknowns: Unknowns, count: int) -> list[np.ndarray]:
    """Scaled coordinates [K] of the scene's values, and of ``count`` - 1 others spread over the bounds."""
    current = unknowns.scaled(unknowns.current())
    return [current, *unknowns.scaled(unknowns.starts(count - 1, _GUESS_SEED))] if count > 1 else [current]


def start_offsets(previous_fit: MotionFit, windows: Sequence[Window], measured_starts: np.ndarray) -> np.ndarray:
    """Offsets [M, S] from measured starts to those estimated for shorter windows that begin at the same frame."""
    estimates = {
        (id(window.recording), window.first): start_estimate
        for window, start_estimate in zip(previous_fit.windows, previous_fit.starts, strict=True)
    }
    offsets = np.zeros_like(measured_starts)
    for offset, window, start in zip(offsets, windows, measured_starts, strict=True):
        start_estimate = estimates.get((id(window.recording), window.first))
        if start_estimate is not None:
            num_state = min(len(start_estimate), len(start))  # numbers of intervals follow those of the state
            offset[:num_state] = start_estimate[:num_state] - start[:num_state]
    return offsets


def distinct_minima(fits: Sequence[MotionFit], ranges: np.ndarray) -> list[MotionFit]:
    """The best fit first, then fits at other minima whose cost is nearly as low."""
    minima: list[MotionFit] = []
    for fit in sorted(fits, key=lambda fit: fit.cost):
        is_duplicate = any((np.abs(fit.scaled - minimum.scaled) < _MIN_SEPARATION * ranges).all() for minimum in minima)
        if not minima or (not is_duplicate and fit.cost <= _MAX_COST_RATIO * minima[0].cost):
            minima.append(fit)
    return minima
