"""The estimate of fits to windows of several lengths, with error bars that cover all of them, and doubts about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from risp_torch.inversion.uncertainty.unobservable import size_of
from risp_torch.motions.growing import GrowingFits
from risp_torch.motions.joint_recording import JointRecording
from risp_torch.motions.recorded_actions import spikes
from risp_torch.motions.result import MotionFit
from risp_torch.motions.search import EXPLAINED
from risp_torch.motions.settings import MotionFitSettings
from ti_sim.base.rules import checked

DISAGREEING = 3.5  # error bars of the shorter windows: a difference that noise does not explain
ALSO_FITS = 9.0  # change of the cost in multiples of the noise: an estimate that fits as well
FAR_STARTS = 2.0  # standard deviations
LITTLE_WEIGHT = 0.8  # mean robust weight
AT_BOUND = 1e-3  # of the range


def conclude(growing: GrowingFits, settings: MotionFitSettings) -> MotionFit:
    """The fit to the longest windows that the noise explains, or to the given windows if it explains none or all.

    A cost of long windows has many minima. Where the noise explains what shorter windows leave, and not what longer ones leave,
    the fit to the longer ones is no estimate.
    """
    explained = [k for k, fit in enumerate(growing.fits) if fit.misfit <= EXPLAINED]
    chosen = explained[-1] if explained else len(growing.fits) - 1
    fit, longer = growing.fits[chosen], growing.fits[chosen + 1 :]
    alternatives = growing.alternatives if not longer else ()
    shorter = growing.fits[:chosen]
    extra, sentences = disagreement(fit, shorter, growing.rise)
    doubts = [*doubts_of_misfit(fit, longer), *doubts_of_search(fit, alternatives), *sentences]
    doubts += [*doubts_of_data(fit, settings), *doubts_of_bounds(fit)]
    return replace(fit, covariance=fit.covariance + extra, doubts=doubts, shorter=shorter)


def disagreement(
    fit: MotionFit, shorter: Sequence[MotionFit], rise: Callable[[int, np.ndarray], float]
) -> tuple[np.ndarray, list[str]]:
    """Covariance [K, K] that covers fits to shorter windows, and a sentence, if noise does not explain how these differ.

    Estimates of shorter windows have larger error bars, those of the same noise. Where a difference exceeds ``DISAGREEING`` of
    them, and the shorter windows fit that much worse by the estimate of the longer ones, the model is not exact, and the mean
    square of the differences is added.

    Args:
        fit: the fit.
        shorter: fits to shorter windows.
        rise: change of the cost of one of these, by its number, at other unknowns [K].
    """
    extra = np.zeros_like(fit.covariance)
    moves = np.array([shorter_fit.scaled - fit.scaled for shorter_fit in shorter]).reshape(len(shorter), len(fit.scaled))
    bars = np.array([np.sqrt(np.maximum(np.diag(shorter_fit.covariance), 1e-300)) for shorter_fit in shorter]).reshape(
        moves.shape
    )
    away = np.abs(moves) / bars
    suspects = [k for k in np.argsort(-away.max(axis=1, initial=0.0)) if away[k].max() > DISAGREEING]
    length = next((k for k in suspects if rise(k, fit.scaled) > DISAGREEING**2 * max(shorter[k].misfit, 1.0)), None)
    if length is None:
        return extra, []
    k = int(away[length].argmax())
    label, unit, scale = fit.unknowns.labels[k], fit.unknowns.units[k], fit.unknowns.scales[k]
    frames = [max(window.frames for window in shorter_fit.windows) for shorter_fit in (shorter[length], fit)]
    return moves.T @ moves / len(moves), [
        f"windows of {frames[0]} and of {frames[1]} frames disagree: {label} differs by {away[length, k]:.2g} error bars (now "
        f"{size_of(float(np.sqrt(np.mean(moves[:, k] ** 2))), unit, scale)} more): the model is not exact over the longer ones"
    ]


def doubts_of_misfit(fit: MotionFit, longer: Sequence[MotionFit]) -> list[str]:
    """Sentences on residuals that the noise does not explain, of the fit and of those to longer windows."""
    if fit.misfit > EXPLAINED:
        return [
            f"the motions are not explained: the residual is {fit.misfit**0.5:.3g} times the noise of the settings: another "
            "minimum, a model that lacks something, or a noise that is stated too small; error bars need not hold"
        ]
    if longer:
        frames = [max(window.frames for window in window_fit.windows) for window_fit in (fit, longer[-1])]
        return [
            f"only windows of {frames[0]} frames are explained: those of {frames[1]} leave {longer[-1].misfit ** 0.5:.3g} times "
            "the noise, so that the estimate is that of the shorter ones: another minimum, or a model that is not exact"
        ]
    return []


def doubts_of_search(fit: MotionFit, alternatives: Sequence[MotionFit]) -> list[str]:
    """Sentences on a search that has not ended, and on other estimates that fit as well."""
    sentences = []
    if not fit.converged:
        sentences.append(
            f"not converged after {len(fit.costs) - 1} steps: the error bars include the next step; give more iterations"
        )
    bars = np.sqrt(np.maximum(np.diag(fit.covariance), 1e-300))
    for alternative in alternatives:
        away = np.abs(alternative.scaled - fit.scaled) / bars
        if alternative.chi_square - fit.chi_square < ALSO_FITS * max(fit.misfit, 1.0) and away.max() > DISAGREEING:
            values = ", ".join(f"{label} {value:.4g}" for label, value in alternative.values.items())
            sentences.append(f"another estimate fits as well: {values}")
    return sentences


def doubts_of_data(fit: MotionFit, settings: MotionFitSettings) -> list[str]:
    """Sentences on starts far from measured ones, frames that count little, and spikes of recorded actions."""
    sentences = []
    if fit.start_distance > FAR_STARTS:
        sentences.append(
            f"estimated starts are {fit.start_distance:.2g} standard deviations from measured ones: those of the settings are "
            "too small, or starts make up for what the model lacks"
        )
    weight = float(np.mean(fit.weights))
    if weight < LITTLE_WEIGHT:
        sentences.append(f"frames count for {100 * weight:.0f} % on average, as they do not fit (robust weights)")
    recordings = {id(window.recording): window.recording for window in fit.windows}.values()
    if getattr(settings.noise, "recorded_action", 1.0) is None and settings.noise.action is None:
        recorded = [
            recording for recording in recordings if isinstance(recording, JointRecording) and recording.actions is not None
        ]
        counts = {recording.name: int((spikes(recording.actions) != 0).sum()) for recording in recorded}
        name = max(counts, key=counts.get, default="")
        if counts.get(name):
            sentences.append(
                f"{counts[name]} recorded actions of {name} stand out from their neighbours and are taken as exact: give "
                "JointNoise(recorded_action=...)"
            )
    return sentences


def doubts_of_bounds(fit: MotionFit) -> list[str]:
    """A sentence on unknowns that ended at a bound."""
    names = at_bounds(fit)
    return [f"{', '.join(names)} ended at a bound: widen it, or the model lacks something"] if names else []


@checked
def at_bounds(fit: MotionFit) -> list[str]:
    """Labels of unknowns that ended at a bound."""
    low, high = (fit.unknowns.scaled(bound) for bound in fit.unknowns.bounds())
    on_bound = np.minimum(fit.scaled - low, high - fit.scaled) < AT_BOUND * fit.unknowns.scaled_range()
    return [label for label, is_on_bound in zip(fit.unknowns.labels, on_bound, strict=True) if is_on_bound]
