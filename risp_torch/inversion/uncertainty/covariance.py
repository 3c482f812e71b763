"""Uncertainty of the unknowns: error bars, unobservable directions, and the remaining distance to the minimum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from risp_torch.inversion.problem.linearisation import Linearisation
from risp_torch.inversion.problem.residual_blocks import correlation_frames, scores_of_sizes
from risp_torch.inversion.problem.unknowns import PSI, Unknowns
from risp_torch.inversion.uncertainty.unobservable import determined_by_priors, unobservable_directions, weakly_identified
from ti_sim.base.rules import NotNegative, checked

UNOBSERVABLE = 0.25  # of the allowed range: a direction with a larger standard deviation counts as unobservable
NO_TRACE = 1e3  # ranges: standard deviation of a direction without effect; rounding adds a little of it to all others
_QUANTISATION = (1 / 255) ** 2 / 12  # variance of the rounding of eight-bit images


@dataclass(frozen=True)
class Uncertainty:
    """Error bars of an estimate.

    Attributes:
        sd: [K] standard deviations, scaled units (decades for log10).
        correlation: [K, K].
        observable: K flags; False if the film leaves the unknown free over a large part of its range.
        unobservable: sentences on unobservable directions.
        modes: [K, K] unit vectors (columns, relative to the ranges) with uncorrelated amplitudes,
            without smoothness, the best known first. Empty if not computed.
        mode_sd: [K] standard deviations of their amplitudes.
        components: name of an error -> [K] its standard deviation, scaled units; their squares add up to those of ``sd``.
    """

    sd: np.ndarray
    correlation: np.ndarray
    observable: list[bool]
    unobservable: list[str]
    modes: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    mode_sd: np.ndarray = field(default_factory=lambda: np.zeros(0))
    components: Mapping[str, np.ndarray] = field(default_factory=dict)

    def wider(self, sd: np.ndarray, component: str) -> Uncertainty:
        """With these standard deviations [K]; their increase counts as an error of the name ``component``."""
        added = np.sqrt(np.maximum(sd**2 - self.sd**2, 0.0))
        return replace(
            self, sd=sd, components={**self.components, component: np.hypot(self.components.get(component, 0.0), added)}
        )

    @property
    def observable_modes(self) -> int | None:
        """Number of modes known to better than a quarter of the ranges; None if not computed."""
        return int((self.mode_sd <= UNOBSERVABLE).sum()) if len(self.mode_sd) else None

    @property
    def covariance(self) -> np.ndarray:
        """[K, K], scaled units."""
        return self.correlation * np.outer(self.sd, self.sd)


def widened(
    bars: Uncertainty, unknowns: Unknowns, scatter: np.ndarray, shift: np.ndarray, *, shift_name: str = "compression"
) -> Uncertainty:
    """Error bars with additional errors: scatter of the starts and shift by compression, [K] scaled units.

    An unknown whose error bar then is wider than a quarter of its range counts as not observable.
    """
    sd = np.sqrt(bars.sd**2 + scatter**2 + shift**2)
    bars = replace(bars, components={**bars.components, "starts": scatter, shift_name: shift})
    is_wide = sd > UNOBSERVABLE * unknowns.scaled_range()
    remarks = weakly_identified(is_wide & np.array(bars.observable), sd, unknowns)
    observable = [
        bool(is_observable and not is_wide_bar) for is_observable, is_wide_bar in zip(bars.observable, is_wide, strict=True)
    ]
    return replace(bars, sd=sd, observable=observable, unobservable=bars.unobservable + remarks)


@dataclass(frozen=True)
class CovarianceEstimate:
    """Covariances of an estimate by the Gauss-Newton model of the loss, in parts of the ranges.

    Attributes:
        values: [K] eigenvalues, ascending, of J^T J, smoothness and priors.
        vectors: [K, K] their eigenvectors (columns), the principal directions.
        noise: variance of the residual times the correlation length in frames, at least the stated one (``Loss.noise``) and the
            one that priors are weighed with.
        iid_covariance: [K, K] covariance for independent errors of equal variance.
        sandwich_covariances: [S, K, K] cluster-robust covariances, for errors that are correlated within blocks of S sizes.
    """

    values: np.ndarray
    vectors: np.ndarray
    noise: float
    iid_covariance: np.ndarray
    sandwich_covariances: np.ndarray

    @staticmethod
    def of(linearisation: Linearisation, floor: float | None = None) -> CovarianceEstimate:
        """The covariances at an estimate; ``floor`` as in ``error_bars``."""
        film_matrix, _ = linearisation.normal_equations
        floor = _QUANTISATION if floor is None else floor
        correlation_length = correlation_frames(linearisation) if linearisation.comparison.loss.temporally_correlated else 1.0
        noise = (
            correlation_length
            * float((linearisation.residual.double() ** 2).sum())
            / max(1.0, linearisation.comparison.observation_count - correlation_length * len(film_matrix))
        )
        noise = max(noise, linearisation.observation_variance, (linearisation.comparison.loss.noise or 0.0) ** 2)
        values, vectors = _eigen(film_matrix + linearisation.prior_matrix, max(noise, floor) / NO_TRACE**2)
        inverse = (vectors / values) @ vectors.T
        prior_matrix = linearisation.observation_variance * linearisation.prior_precision
        # Gradients of the priors scatter, as their means do, with the covariance variance^2 precision.
        prior_scores = noise * (linearisation.prior_matrix - prior_matrix) + linearisation.observation_variance * prior_matrix
        sandwich_covariances = [
            inverse @ (scores.T @ scores + prior_scores) @ inverse for scores in scores_of_sizes(linearisation)
        ]
        return CovarianceEstimate(values, vectors, noise, noise * inverse, np.array(sandwich_covariances))

    @property
    def variances(self) -> np.ndarray:
        """[K] variances of the unknowns, of the largest of the covariances."""
        covariances = (self.iid_covariance, *self.sandwich_covariances)
        return np.array([np.diag(covariance) for covariance in covariances]).max(axis=0)

    @property
    def sizes(self) -> np.ndarray:
        """[K] error bars along the principal directions, of the largest of the covariances."""
        covariances = (self.iid_covariance, *self.sandwich_covariances)
        variances = [np.diag(self.vectors.T @ covariance @ self.vectors) for covariance in covariances]
        return np.sqrt(np.maximum(np.max(variances, axis=0), 0.0))

    def stretch(self, factors: np.ndarray) -> np.ndarray:
        """Matrix [K, K] that scales moves by ``factors`` [K] along the principal directions."""
        return (self.vectors * factors) @ self.vectors.T

    def stretched(self, factors: np.ndarray) -> CovarianceEstimate:
        """The covariances scaled by ``factors`` [K] along the principal directions."""
        stretch = self.stretch(factors)
        return replace(
            self,
            values=self.values / factors**2,
            iid_covariance=stretch @ self.iid_covariance @ stretch,
            sandwich_covariances=stretch @ self.sandwich_covariances @ stretch,
        )


@checked
def error_bars(
    linearisation: Linearisation,
    unknowns: Unknowns,
    *,
    floor: NotNegative | None = None,
    covariances: CovarianceEstimate | None = None,
) -> Uncertainty:
    """Error bars at an estimate, to first order.

    The residual noise gives the covariance s2 (J^T J)^-1; compression errors are correlated within macroblocks, and those of a
    scene that differs from the film's reach farther, so the covariance is also summed over blocks: of 16 × 16 pixels and 4
    frames, whole frames, and quarters of the picture through sixths of the film (the cluster-robust form (J^T J)^-1
    (sum_c g_c g_c^T) (J^T J)^-1 with block scores g_c = J_c^T r_c; Liang and Zeger, 1986). The largest of the error bars is
    used. Constant biases are not included: see ``uncertainty.compression`` and ``diagnostics.misspecification``.

    Smoothness and priors count as knowledge in error bars and unobservable directions, but not in the modes. With priors of
    inverse covariance S the covariances are those of the posterior's maximum, (J^T J / s2 + S)^-1 and its robust form, in which
    the priors' means scatter about the truth. Unknowns whose bars the film hardly narrows are named.

    The errors of a network are similar in successive frames. For losses with such errors, the first covariance therefore
    counts only as many frames as are independent, by the residual's correlation over time (``correlation_frames``), and the
    blocks of the second are the single outputs.

    Args:
        linearisation: linearisation at the estimate.
        unknowns: unknowns of the inversion.
        floor: lower bound of the variance of the observations (``Loss.noise_floor``); that of eight-bit images by default.
        covariances: covariances to use instead of those of the Gauss-Newton model (``uncertainty.flatness``).
    """
    film_matrix, _ = linearisation.normal_equations
    count = len(film_matrix)
    covariances = covariances or CovarianceEstimate.of(linearisation, floor)
    noise = max(covariances.noise, _QUANTISATION if floor is None else floor)
    iid_covariance, vectors = covariances.iid_covariance, covariances.vectors
    sd = np.sqrt(covariances.variances)
    plain_sd = np.sqrt(np.maximum(np.diag(iid_covariance), 1e-300))
    direction_sd = np.sqrt(noise / covariances.values)
    weak = [k for k in range(count) if direction_sd[k] > UNOBSERVABLE]
    largest_component = np.zeros(count) if not weak else np.abs(vectors[:, weak]).max(axis=1)
    film_values, modes = _eigen(film_matrix, noise / NO_TRACE**2)
    mode_sd = np.sqrt(noise / film_values)
    ranges = unknowns.scaled_range()
    sd, independent_sd = sd * ranges, plain_sd * ranges
    return Uncertainty(
        sd=sd,
        correlation=iid_covariance / np.outer(plain_sd, plain_sd),
        observable=[bool(size < 0.3) for size in largest_component],
        unobservable=[
            *unobservable_directions(vectors[:, weak], direction_sd[weak], unknowns), *determined_by_priors(sd, unknowns)
        ],
        modes=modes[:, ::-1], mode_sd=mode_sd[::-1],
        components=_noise_components(covariances, unknowns, np.minimum(independent_sd, sd))
        | {"correlated errors": np.sqrt(np.maximum(sd**2 - independent_sd**2, 0.0))},
    )  # fmt: skip


def _noise_components(covariances: CovarianceEstimate, unknowns: Unknowns, independent_sd: np.ndarray) -> dict[str, np.ndarray]:
    """Components of error bars for independent errors [K]: noise alone, correlation with other unknowns, and with the look."""
    model, count = (covariances.vectors * covariances.values) @ covariances.vectors.T, len(independent_sd)
    is_look = np.zeros(count, dtype=bool)
    if PSI in unknowns.groups:
        is_look[unknowns.groups[PSI]] = True
    ranges, noise_sd = unknowns.scaled_range(), np.sqrt(covariances.noise / np.maximum(np.diag(model), 1e-300))
    noise_sd, sd_without_look = np.minimum(noise_sd * ranges, independent_sd), independent_sd.copy()
    if is_look.any() and not is_look.all():
        motion_sd = np.sqrt(covariances.noise * np.diag(np.linalg.pinv(model[np.ix_(~is_look, ~is_look)], hermitian=True)))
        sd_without_look[~is_look] = np.clip(motion_sd * ranges[~is_look], noise_sd[~is_look], independent_sd[~is_look])
    return {
        "noise": noise_sd, "other unknowns": np.sqrt(np.maximum(sd_without_look**2 - noise_sd**2, 0.0)),
        "look": np.sqrt(np.maximum(independent_sd**2 - sd_without_look**2, 0.0)),
    }  # fmt: skip


def _eigen(matrix: np.ndarray, least: float) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, ascending and at least ``least``, and eigenvectors of normal equations."""
    values, vectors = np.linalg.eigh(matrix)
    return np.maximum(values, least), vectors


def without_error_bars(count: int) -> Uncertainty:
    """Placeholder for error bars of K unknowns that were not computed: NaN."""
    unknown_sd = np.full(count, np.nan)
    return Uncertainty(unknown_sd, np.full((count, count), np.nan), [True] * count, [])
