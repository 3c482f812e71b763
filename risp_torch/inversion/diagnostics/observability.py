"""Identifiability of unknowns before a film is recorded: error bars of unknowns from the image Jacobian at a scene's own values.

With observations of independent errors of variance s^2, J their derivative by the unknowns and S the inverse covariance of
priors, the error bars are those of (J^T J / s^2 + S)^-1. Singular values of J / s are inverse error bars of directions; null
directions are where they vanish. Errors by compression are correlated within blocks: they enter as in
``uncertainty``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from risp_torch.files.video import Quality
from risp_torch.inversion.appearance.matched_loss import MatchedLoss
from risp_torch.inversion.losses.loss import Loss
from risp_torch.inversion.losses.pixel import PixelLoss
from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.inversion.problem.films.rendered_film import film_at
from risp_torch.inversion.problem.films.target import is_file
from risp_torch.inversion.problem.linearisation import Linearisation, jacobian_along_eigenvectors, linearise
from risp_torch.inversion.problem.priors import PriorsGiven
from risp_torch.inversion.problem.problem import Problem
from risp_torch.inversion.problem.residual_blocks import block_scores
from risp_torch.inversion.problem.search_stages import MAX_LINEARISED
from risp_torch.inversion.problem.unknowns import Bounds, UnknownNames, Unknowns, split_psi
from risp_torch.inversion.uncertainty.compression import Encoder, noise_variance
from risp_torch.inversion.uncertainty.covariance import NO_TRACE, CovarianceEstimate, Uncertainty, error_bars, widened
from risp_torch.inversion.uncertainty.unobservable import MAX_LISTED, size_of
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import DivergenceError, UserError
from ti_sim.base.rules import StandardDeviation, checked

GREY_LEVEL = 1 / 255  # default standard deviation of an observation
USUAL_CRF = 18  # constant rate factor of films whose own is not known
STRONG_CORRELATION = 0.9  # smallest correlation of pairs that are reported


@dataclass(frozen=True)
class Observability:
    """Identifiability of unknowns by a film.

    Attributes:
        unknowns: the unknowns.
        values: [K] at which the film was simulated, physical units.
        noise: standard deviation of an observation, errors by compression included.
        bars: error bars, correlations and unobservable directions, with the priors.
        alone: [K] error bars if all other unknowns were known, scaled units; infinite without any effect.
        singular: [K] singular values of the whitened Jacobian, per range of the unknowns, the largest first, without priors.
        observation_name: name of an observation in a sentence.
    """

    unknowns: Unknowns
    values: np.ndarray
    noise: float
    bars: Uncertainty
    alone: np.ndarray
    singular: np.ndarray
    observation_name: str = "pixel"

    @property
    def shares(self) -> np.ndarray:
        """[K] error bars relative to the ranges."""
        return self.bars.sd / self.unknowns.scaled_range()

    @property
    def strong_pairs(self) -> list[tuple[str, str, float]]:
        """Names and correlation of pairs of observable unknowns above ``STRONG_CORRELATION``, the strongest first."""
        labels, observable, pairs = self.unknowns.labels, self.bars.observable, []
        for i in range(len(labels)):
            for j in range(i):
                if abs(self.bars.correlation[i, j]) > STRONG_CORRELATION and observable[i] and observable[j]:
                    pairs.append((labels[j], labels[i], float(self.bars.correlation[i, j])))
        return sorted(pairs, key=lambda pair: -abs(pair[2]))

    def size(self, k: int, sd: float) -> str:
        """An error bar of the k-th unknown in words."""
        logarithmic = self.unknowns.scales[k] == "log10"
        if logarithmic and sd < 0.1:
            return f"± {100 * (10**sd - 1):.2g} %"
        return size_of(sd, self.unknowns.units[k], self.unknowns.scales[k])

    def verdict(self) -> str:
        """One or two sentences: which unknowns the film identifies, how well, and which it does not."""
        labels, observable = self.unknowns.labels, np.array(self.bars.observable)
        noise = f"errors of {self.noise:.2g} in a {self.observation_name}"
        worst = int(np.where(observable, self.shares, -1.0).argmax())
        worst_text = f"{labels[worst]} to {self.size(worst, self.bars.sd[worst])}" if observable.any() else ""
        if observable.all():
            subject = f"all {len(labels)} unknowns" if len(labels) > 1 else labels[0]
            worst_text = f", {worst_text} at worst" if len(labels) > 1 else f" to {self.size(0, self.bars.sd[0])}"
            return f"the film identifies {subject}{worst_text} ({noise}, to first order)"
        unobservable = [label for label, is_observable in zip(labels, observable, strict=True) if not is_observable]
        names = ", ".join(unobservable[:MAX_LISTED]) + (
            f" and {len(unobservable) - MAX_LISTED} more" if len(unobservable) > MAX_LISTED else ""
        )
        addition = f"; of the others {worst_text} at worst" if observable.any() else ""
        return f"the film does not identify {names} ({noise}, to first order){addition}"

    def to_json(self) -> dict[str, Any]:
        """Numbers and sentences as JSON values."""
        rows = {
            label: {
                "value": self.values[k], "unit": self.unknowns.units[k], "scale": self.unknowns.scales[k],
                "sd": self.bars.sd[k], "alone": self.alone[k], "share": self.shares[k], "observable": self.bars.observable[k],
            }
            for k, label in enumerate(self.unknowns.labels)
        }  # fmt: skip
        return {
            "noise": self.noise, "unknowns": rows, "singular_values": self.singular.tolist(),
            "correlation": self.bars.correlation.tolist(), "unobservable": self.bars.unobservable, "verdict": self.verdict(),
        }  # fmt: skip


@checked
def observability(
    scene: Scene, unknown: UnknownNames, *, bounds: Bounds | None = None, priors: PriorsGiven | None = None,
    noise: StandardDeviation = GREY_LEVEL, crf: Quality | None = USUAL_CRF, loss: Loss | None = None, sampling: str = "all",
) -> Observability:  # fmt: skip
    """Identifiability of unknowns by a film of a scene at the scene's values.

    Args:
        scene: the scene; its values should be near those of the film that is planned.
        unknown: parameter names, and rendering parameters (``invert``).
        bounds, priors: those of the unknowns (``invert``).
        noise: standard deviation of an observation, for pixels of a linear colour from 0 to 1; a grey level of 255 by default.
        crf: constant rate factor of the planned H.264 file, whose errors are added to the noise; None for a film that is not
            compressed.
        loss: what is compared, ``PixelLoss()`` by default.
        sampling: compared frames (``invert``).

    Raises:
        UserError: an unknown, bound or prior is invalid, there are too many unknowns, or the scene has no camera.
        DivergenceError: the scene cannot be simulated.
    """
    names, psi = split_psi(unknown)
    unknowns = Unknowns.of(scene, names, bounds=bounds, psi=psi, priors=priors)
    count = len(unknowns.labels)
    if count > MAX_LINEARISED:
        raise UserError(f"{count} numbers are unknown, and at most {MAX_LINEARISED} can be checked together: name fewer")
    loss = loss or PixelLoss()
    loss.check(scene)
    values = unknowns.current()
    observed_loss = (
        PixelLoss() if isinstance(loss, MatchedLoss) else loss
    )  # a look is solved from a film, which has the scene's own
    film = film_at(scene, unknowns, values, observed_loss) if loss.needs_film else None
    comparison = Comparison.of(scene, loss, film, sampling)
    linearisation = jacobian_along_eigenvectors(scene, unknowns, linearise(scene, comparison, unknowns, values))
    errors = torch.zeros_like(linearisation.residual)
    if crf is not None and loss.needs_film:
        errors = Encoder(comparison, film, scene.fps).film(crf).residual
    return observed(linearisation, unknowns, values, noise, errors)


def verdict_before_search(problem: Problem) -> str | None:
    """Identifiability of the unknowns of an inversion by pixels, at the scene's values and the film's noise.

    None where pixels are not compared, there are too many unknowns, or that motion cannot be simulated.
    """
    loss, unknowns = problem.loss, problem.unknowns
    if not isinstance(loss, PixelLoss) or problem.pictures is None or len(unknowns.labels) > MAX_LINEARISED:
        return None
    frames = list(problem.comparison.frames)
    read_film = loss.read(problem.pictures[frames])
    noise = (problem.comparison.noise_floor(problem.pictures) + noise_variance(read_film)) ** 0.5
    try:
        linearisation = linearise(problem.scene, problem.comparison, unknowns, unknowns.current())
    except DivergenceError:
        return None
    if not torch.isfinite(linearisation.jacobian).all():
        return None
    errors = torch.zeros_like(linearisation.residual)
    if is_file(problem.video) and all(side % 2 == 0 for side in problem.pictures.shape[1:3]):
        film = film_at(problem.scene, unknowns, unknowns.current(), loss)
        errors = Encoder(problem.comparison, film, problem.scene.fps).film(USUAL_CRF).residual
    return observed(linearisation, unknowns, unknowns.current(), noise, errors).verdict()


def observed(
    linearisation: Linearisation, unknowns: Unknowns, values: np.ndarray, noise: float, errors: torch.Tensor
) -> Observability:
    """Observability by a linearisation.

    Args:
        linearisation: linearisation at the values.
        unknowns: the unknowns.
        values: [K] physical values.
        noise: standard deviation of an observation.
        errors: [P] further errors, correlated within blocks.
    """
    ranges = unknowns.scaled_range()
    film_matrix, error_gradient = replace(linearisation, residual=errors).normal_equations
    variance = noise**2 + float((errors.double() ** 2).sum()) / linearisation.comparison.observation_count
    prior_precision = variance * unknowns.priors.precision(ranges)
    eigenvalues, eigenvectors = np.linalg.eigh(film_matrix + prior_precision)
    eigenvalues = np.maximum(eigenvalues, variance / NO_TRACE**2)
    inverse = (eigenvectors / eigenvalues) @ eigenvectors.T
    scores = block_scores(replace(linearisation, residual=errors))
    shift = inverse @ error_gradient
    sandwich_covariance = inverse @ (
        scores.T @ scores + noise**2 * film_matrix + variance * prior_precision
    ) @ inverse + np.outer(shift, shift)
    covariances = CovarianceEstimate(eigenvalues, eigenvectors, variance, variance * inverse, sandwich_covariance[None])
    no_shift = np.zeros(len(ranges))
    bars = widened(error_bars(linearisation, unknowns, floor=variance, covariances=covariances), unknowns, no_shift, no_shift)
    with np.errstate(divide="ignore"):
        alone = ranges / np.sqrt(np.diag(film_matrix + prior_precision) / variance)
    singular = np.sqrt(np.maximum(np.linalg.eigvalsh(film_matrix)[::-1], 0.0) / variance)
    return Observability(unknowns, values, variance**0.5, bars, alone, singular)


def settings_of(unknowns: Unknowns, noise: float, crf: float | None) -> Mapping[str, Any]:
    """Arguments of an identifiability check, as JSON values."""
    low, high = unknowns.bounds()
    return {
        "unknown": dict(zip(unknowns.labels, np.stack([low, high], axis=1).tolist(), strict=True)),
        "priors": dict(unknowns.priors.specification), "noise": noise, "crf": crf,
    }  # fmt: skip
