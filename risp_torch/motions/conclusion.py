"""The estimate from fits to windows of several lengths, with error bars that cover all of them, and doubts about it."""

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

MAX_DISAGREEMENT = 3.5  # error bars of the shorter windows: noise explains smaller differences
EQUIVALENT_COST_RISE = 9.0  # times the misfit: fits whose cost is higher by less are equivalent
MAX_START_DISTANCE = 2.0  # standard deviations of measured starts
MIN_MEAN_WEIGHT = 0.8  # robust weight, mean over frames and windows
BOUND_MARGIN = 1e-3  # relative to the range between the bounds


def conclude(growing: GrowingFits, settings: MotionFitSettings) -> MotionFit:
    """Choose the fit to the longest windows whose residuals noise explains; if noise explains none or all, the last fit.

    The cost of long windows has many minima. If noise explains the residuals of shorter windows, and not those of longer ones,
    the fit to the longer windows is in a wrong minimum.
    """
    explained_lengths = [k for k, fit in enumerate(growing.fits) if fit.misfit <= EXPLAINED]
    chosen = explained_lengths[-1] if explained_lengths else len(growing.fits) - 1
    fit, longer = growing.fits[chosen], growing.fits[chosen + 1 :]
    alternatives = growing.alternatives if not longer else ()
    shorter = growing.fits[:chosen]
    disagreement_covariance, disagreement_doubts = disagreement(fit, shorter, growing.cost_rise)
    doubts = [*doubts_of_misfit(fit, longer), *doubts_of_search(fit, alternatives), *disagreement_doubts]
    doubts += [*doubts_of_data(fit, settings), *doubts_of_bounds(fit)]
    return replace(fit, covariance=fit.covariance + disagreement_covariance, doubts=doubts, shorter=shorter)


def disagreement(
    fit: MotionFit, shorter: Sequence[MotionFit], cost_rise: Callable[[int, np.ndarray], float]
) -> tuple[np.ndarray, list[str]]:
    """Covariance [K, K] that covers fits to shorter windows, and a sentence, if noise does not explain their differences.

    Estimates from shorter windows have larger error bars. If a difference exceeds ``MAX_DISAGREEMENT`` of these error bars, and
    the estimate of the longer windows raises the cost of the shorter ones as much, the model is not exact: the covariance is
    then the mean square of the differences, else zero.

    Args:
        fit: the chosen fit.
        shorter: fits to shorter windows.
        cost_rise: (index of one of these, other unknowns [K]) -> rise of its cost.
    """
    no_covariance = np.zeros_like(fit.covariance)
    differences = np.array([shorter_fit.scaled - fit.scaled for shorter_fit in shorter]).reshape(len(shorter), len(fit.scaled))
    shorter_sd = np.array([np.sqrt(np.maximum(np.diag(shorter_fit.covariance), 1e-300)) for shorter_fit in shorter]).reshape(
        differences.shape
    )
    relative_differences = np.abs(differences) / shorter_sd
    candidates = [
        k for k in np.argsort(-relative_differences.max(axis=1, initial=0.0)) if relative_differences[k].max() > MAX_DISAGREEMENT
    ]
    worst = next((k for k in candidates if cost_rise(k, fit.scaled) > MAX_DISAGREEMENT**2 * max(shorter[k].misfit, 1.0)), None)
    if worst is None:
        return no_covariance, []
    k = int(relative_differences[worst].argmax())
    label, unit, scale = fit.unknowns.labels[k], fit.unknowns.units[k], fit.unknowns.scales[k]
    window_lengths = [max(window.frames for window in shorter_fit.windows) for shorter_fit in (shorter[worst], fit)]
    return differences.T @ differences / len(differences), [
        f"windows of {window_lengths[0]} and of {window_lengths[1]} frames disagree: {label} differs by "
        f"{relative_differences[worst, k]:.2g} error bars (now "
        f"{size_of(float(np.sqrt(np.mean(differences[:, k] ** 2))), unit, scale)} more): the model is not exact over the longer "
        "ones"
    ]


def doubts_of_misfit(fit: MotionFit, longer: Sequence[MotionFit]) -> list[str]:
    """Sentences on residuals of the fit, and of fits to longer windows, that exceed the noise."""
    if fit.misfit > EXPLAINED:
        return [
            f"the motions are not explained: the residual is {fit.misfit**0.5:.3g} times the noise of the settings: another "
            "minimum, a model that lacks something, or a noise that is stated too small; error bars need not hold"
        ]
    if longer:
        window_lengths = [max(window.frames for window in window_fit.windows) for window_fit in (fit, longer[-1])]
        return [
            f"only windows of {window_lengths[0]} frames are explained: those of {window_lengths[1]} leave "
            f"{longer[-1].misfit ** 0.5:.3g} times the noise, so that the estimate is that of the shorter ones: another "
            "minimum, or a model that is not exact"
        ]
    return []


def doubts_of_search(fit: MotionFit, alternatives: Sequence[MotionFit]) -> list[str]:
    """Sentences on a search that has not converged, and on other estimates that fit equally well."""
    sentences = []
    if not fit.converged:
        sentences.append(
            f"not converged after {len(fit.costs) - 1} steps: the error bars include the next step; give more iterations"
        )
    sd = np.sqrt(np.maximum(np.diag(fit.covariance), 1e-300))
    for alternative in alternatives:
        relative_differences = np.abs(alternative.scaled - fit.scaled) / sd
        if (
            alternative.chi_square - fit.chi_square < EQUIVALENT_COST_RISE * max(fit.misfit, 1.0)
            and relative_differences.max() > MAX_DISAGREEMENT
        ):
            values = ", ".join(f"{label} {value:.4g}" for label, value in alternative.values.items())
            sentences.append(f"another estimate fits as well: {values}")
    return sentences


def doubts_of_data(fit: MotionFit, settings: MotionFitSettings) -> list[str]:
    """Sentences on starts far from measured ones, frames with small weights, and spikes of recorded actions."""
    sentences = []
    if fit.start_distance > MAX_START_DISTANCE:
        sentences.append(
            f"estimated starts are {fit.start_distance:.2g} standard deviations from measured ones: those of the settings are "
            "too small, or starts make up for what the model lacks"
        )
    weight = float(np.mean(fit.weights))
    if weight < MIN_MEAN_WEIGHT:
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
    on_bound = np.minimum(fit.scaled - low, high - fit.scaled) < BOUND_MARGIN * fit.unknowns.scaled_range()
    return [label for label, is_on_bound in zip(fit.unknowns.labels, on_bound, strict=True) if is_on_bound]
