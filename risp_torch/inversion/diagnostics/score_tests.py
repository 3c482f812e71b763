"""Score tests: whether estimating known numbers, too, would shift an estimate by more than errors of the film explain.

The score of a family of known numbers is C^T r, with the derivatives C of the observations by its numbers and the residual r of
the estimate. Components that the unknowns can absorb are projected out (C - J A^-1 J^T C, with the unknowns' normal equations
A), so that the score is that of the joint model (Rao 1948; Silvey 1959). One joint Gauss-Newton step gives the numbers'
amplitudes and the omitted-variable bias of the unknowns.

Compressed films of the estimate have the errors of a correct scene. Their mean, a blur of all edges, is subtracted from the
residual. Covariances of the score are those of independent noise and of the films' scatter about that mean, and a mean of these
with that of the residual in blocks, for errors that are correlated otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from risp_torch.inversion.problem.linearisation import Linearisation
from risp_torch.inversion.problem.residual_blocks import block_scores, block_scores_of

MIN_FREEDOM, KNOWN_FREEDOM = 4.0, 1e6  # degrees of freedom of a covariance from few samples, and of a known one
BIAS_ERROR = 0.3  # relative error of the mean of compressed films' errors
BLOCK_FREEDOM = 20.0  # degrees of freedom of a covariance whose shape is that of errors in blocks
MAX_KNOWN_FREEDOM = 30.0  # degrees of freedom of known errors beside those of the residual


@dataclass(frozen=True)
class FilmErrors:
    """Errors of the observations of a film if the scene is correct.

    Attributes:
        variance: of independent errors of an observation; None where it is unknown and the residual's is taken.
        samples: residuals [P] of two or more films of the estimate that were compressed, or rounded; or none.
        design_effect: number of observations that count as one independent one, in the residual and in priors of the nuisances.
        relative_variance: [P] variance of each observation's errors, relative to ``variance``; equal by default.
        biased: whether the samples have errors that all films have, as compressed ones do, and rounded ones do not.
    """

    variance: float | None
    samples: Sequence[torch.Tensor] = ()
    design_effect: float = 1.0
    relative_variance: torch.Tensor | None = None
    biased: bool = False

    @cached_property
    def bias(self) -> torch.Tensor | float:
        """[P] mean of the samples if they are ``biased``, otherwise 0."""
        return torch.stack(list(self.samples)).mean(dim=0) if self.samples and self.biased else 0.0

    @cached_property
    def scatter(self) -> list[torch.Tensor]:
        """Residuals [P] whose mean square is the variance of another film's errors about ``bias``; the last one is the bias's own
        error.
        """
        count = len(self.samples)
        if not count:
            return []
        if not self.biased:
            return [*self.samples, torch.zeros_like(self.samples[0])]
        scale = ((count + 1) / max(1, count - 1) * (count + 1) / count) ** 0.5
        return [scale * (sample - self.bias) for sample in self.samples] + [BIAS_ERROR * (count + 1) ** 0.5 * self.bias]


@dataclass(frozen=True)
class ScoreTest:
    """Test of a family of M known numbers at an estimate of K unknowns.

    Attributes:
        amplitudes: [M] of the joint step, standard deviations of the family's numbers.
        shift: [K] of the unknowns, relative to their ranges.
        shift_sd: [C, K] standard deviations of that shift if the family is correct, by each of C covariances of the errors.
        unit_shift: [K, M] shifts by one standard deviation of each number.
        visible: [M] change of the film by one standard deviation of each number that the unknowns cannot absorb, in standard
            deviations of the film's errors.
        residual_decrease: decrease of the summed squared residual by the step.
        statistics: [C] squared lengths of the score in the covariances.
        freedom: [C] degrees of freedom of the covariances.
        block_variance_ratio: power of the residual's scores in blocks, without ``FilmErrors.bias``, over that of a correct
            scene's errors; above 1 where the residual is correlated (variance-ratio test; Lo and MacKinlay, 1988).
        correlation_p_value: probability of a ratio as large if the scene is correct.
    """

    amplitudes: np.ndarray
    shift: np.ndarray
    shift_sd: np.ndarray
    unit_shift: np.ndarray
    visible: np.ndarray
    residual_decrease: float
    statistics: np.ndarray
    freedom: np.ndarray
    block_variance_ratio: float
    correlation_p_value: float

    @cached_property
    def p_value(self) -> float:
        """Largest probability of such a score if the family is correct, over the covariances (Lagrange multiplier test)."""
        from scipy.stats import f as fisher  # takes most of a second

        count = len(self.amplitudes)
        return float(fisher.sf(self.statistics / count, count, self.freedom).max())

    @cached_property
    def shift_p_values(self) -> np.ndarray:
        """[K] largest probabilities of such shifts if the family is correct, over the covariances."""
        from scipy.stats import t as student

        return 2 * student.sf(np.abs(self.shift) / np.maximum(self.shift_sd, 1e-300), self.freedom[:, None]).max(axis=0)


def score_test(
    linearisation: Linearisation, columns: torch.Tensor, limits: tuple[np.ndarray, np.ndarray], errors: FilmErrors
) -> ScoreTest | None:
    """Test a family of known numbers.

    Args:
        linearisation: linearisation at the estimate.
        columns: [P, M] derivatives of the observations by the family's numbers, in standard deviations of these.
        limits: lowest and highest amplitudes [M] (``Family.limits``).
        errors: of the film.

    Returns:
        The test; None if a world diverges near the estimate, or no number changes the film.
    """
    film, gradient = linearisation.normal_equations
    inverse = np.linalg.pinv(
        film + linearisation.prior_matrix + 1e-9 * np.trace(film) / len(film) * np.eye(len(film)), hermitian=True
    )
    cross = (linearisation.jacobian.double().T @ columns.double()).cpu().numpy()
    if not np.isfinite(cross).all():
        return None
    projected = columns - linearisation.jacobian @ torch.as_tensor(inverse @ cross).to(columns)
    projected_double = projected.double()
    normal_matrix = (projected_double.T @ projected_double).cpu().numpy()
    if not np.trace(normal_matrix) > 0:
        return None
    residual = linearisation.residual - torch.as_tensor(errors.bias).to(linearisation.residual)
    score = (projected_double.T @ residual.double()).cpu().numpy() - cross.T @ inverse @ (
        linearisation.prior_gradient + np.zeros(len(film))
    )
    variance = linearisation.loss if errors.variance is None else errors.variance
    effective_variance = errors.design_effect * max(variance, 1e-300)
    is_free, amplitudes = np.ones(len(normal_matrix), dtype=bool), np.zeros(len(normal_matrix))
    for _ in range(len(normal_matrix)):  # numbers on a limit that the step would exceed stay fixed
        inverse_normal = np.zeros((len(normal_matrix),) * 2)
        inverse_normal[np.ix_(is_free, is_free)] = np.linalg.pinv(
            normal_matrix[np.ix_(is_free, is_free)] + effective_variance * np.eye(is_free.sum()), hermitian=True
        )
        amplitudes = inverse_normal @ score
        outside = is_free & (((limits[0] == 0) & (amplitudes < 0)) | ((limits[1] == 0) & (amplitudes > 0)))
        if not outside.any():
            break
        is_free &= ~outside
    unit_shift = -inverse @ cross
    nuisance_fit = replace(
        linearisation, jacobian=projected, residual=residual - projected @ torch.as_tensor(amplitudes).to(projected)
    )
    scatter = [matrix.to(projected) for matrix in errors.scatter]
    # The blocks of the Jacobian are gathered once for all residuals.
    *samples, scores, first_scores = block_scores_of(nuisance_fit, [*scatter, nuisance_fit.residual, residual])
    covariances, freedom = _covariances(
        nuisance_fit, normal_matrix, variance, errors, samples, scores, fitted=len(normal_matrix) + len(film)
    )
    shift_map = unit_shift @ inverse_normal
    ratio, correlation_p_value = _block_variance_ratio(nuisance_fit, normal_matrix, variance, errors, samples, first_scores)
    return ScoreTest(
        amplitudes=amplitudes, shift=unit_shift @ amplitudes, unit_shift=unit_shift,
        shift_sd=np.array([np.sqrt(np.einsum("km,mn,kn->k", shift_map, matrix, shift_map)) for matrix in covariances]),
        visible=np.sqrt(np.diag(normal_matrix) / effective_variance),
        residual_decrease=float(2 * amplitudes @ score - amplitudes @ normal_matrix @ amplitudes),
        statistics=np.array([_squared_length(score[is_free], matrix[np.ix_(is_free, is_free)]) for matrix in covariances]),
        freedom=freedom, block_variance_ratio=ratio, correlation_p_value=correlation_p_value,
    )  # fmt: skip


def _squared_length(score: np.ndarray, covariance: np.ndarray) -> float:
    return float(score @ np.linalg.pinv(covariance, hermitian=True) @ score)


def _covariances(
    linearisation: Linearisation,
    normal: np.ndarray,
    variance: float,
    errors: FilmErrors,
    samples: list[np.ndarray],
    scores: np.ndarray,
    *,
    fitted: int,
) -> tuple[list[np.ndarray], np.ndarray]:
    """Covariances [M, M] of the score if the family is correct, and their degrees of freedom.

    One is of the film's known errors, the other also of the residual after the family's step, in blocks.

    Args:
        linearisation: linearisation with the family's projected columns, and the residual after its step.
        normal: [M, M] their normal equations.
        variance: of independent errors.
        errors: of the film.
        samples: block scores [blocks, M] of its ``scatter``.
        scores: block scores [blocks, M] of the residual.
        fitted: numbers that are fitted.
    """
    blocks = int((np.abs(scores).sum(axis=1) > 0).sum())
    residual_freedom = max(MIN_FREEDOM, float(blocks - fitted))
    clustered = blocks / residual_freedom * scores.T @ scores  # residuals of a fit are too small
    weighted = (
        linearisation.jacobian
        if errors.relative_variance is None
        else linearisation.jacobian * errors.relative_variance[:, None].to(linearisation.jacobian)
    )
    noise = normal if errors.relative_variance is None else (linearisation.jacobian.double().T @ weighted.double()).cpu().numpy()
    modelled, modelled_freedom = errors.design_effect * variance * noise, KNOWN_FREEDOM
    inverse = np.linalg.pinv(normal, hermitian=True)
    if samples:
        count = len(samples) - 2  # without the mean and its error
        sample_totals = np.array([sample_scores.sum(axis=0) for sample_scores in samples])
        sample_covariance = sample_totals.T @ sample_totals / len(samples)
        # Few samples do not span many numbers: their size is that of the samples, their shape also that of errors in blocks.
        shape = sum(sample_scores.T @ sample_scores for sample_scores in samples) / len(samples)
        size_ratio = max(1.0, float(np.trace(inverse @ sample_covariance)) / max(float(np.trace(inverse @ shape)), 1e-300))
        sample_covariance = (count * sample_covariance + BLOCK_FREEDOM * size_ratio * shape) / (count + BLOCK_FREEDOM)
        modelled = modelled + sample_covariance
        ratio = min(
            KNOWN_FREEDOM, float(np.trace(inverse @ modelled)) / max(float(np.trace(inverse @ sample_covariance)), 1e-300)
        )
        modelled_freedom = max(
            MIN_FREEDOM, (count + BLOCK_FREEDOM - len(normal) + 1.0) * ratio**2
        )  # independent errors are known
    if errors.variance is None:
        return [modelled, clustered], np.array([modelled_freedom, residual_freedom])
    # Known errors of the residual's size: the more it exceeds them, the less they count.
    excess_ratio = max(1.0, float(np.trace(inverse @ clustered)) / max(float(np.trace(inverse @ modelled)), 1e-300))
    trusted_freedom = min(modelled_freedom, MAX_KNOWN_FREEDOM) / excess_ratio**2
    combined = (trusted_freedom * excess_ratio * modelled + residual_freedom * clustered) / (trusted_freedom + residual_freedom)
    return [modelled, combined], np.array([modelled_freedom, trusted_freedom + residual_freedom])


def _block_variance_ratio(
    linearisation: Linearisation,
    normal: np.ndarray,
    variance: float,
    errors: FilmErrors,
    samples: list[np.ndarray],
    scores: np.ndarray,
) -> tuple[float, float]:
    """Power of the residual's block scores along the Jacobian's columns over that of the film's errors, and its p-value.

    ``scores`` are those of the residual before the family's step.
    The power of independent errors is a sum over blocks, with weights w_c that are the blocks' shares of the normal equations: a
    chi-squared variable of (sum w)^2 / sum w^2 degrees of freedom, nearly (Satterthwaite, 1946).
    """
    inverse = np.linalg.pinv(normal, hermitian=True)

    def power(scores: np.ndarray) -> float:
        return float(np.trace(inverse @ (scores.T @ scores)))

    jacobian = linearisation.jacobian.double()
    leverages = (
        ((jacobian @ torch.as_tensor(inverse).to(jacobian)) * jacobian).sum(dim=1, keepdim=True).to(linearisation.jacobian)
    )
    weights = block_scores(replace(linearisation, jacobian=leverages, residual=torch.ones_like(linearisation.residual)))[:, 0]
    freedom = float(weights.sum() ** 2 / max((weights**2).sum(), 1e-300))
    local = 1.0 if errors.relative_variance is None else errors.relative_variance.to(leverages)[:, None]
    expected = errors.design_effect * variance * float((leverages * local).double().sum())
    powers = np.array([power(sample_scores) for sample_scores in samples[:-1]])
    sample_power, expected_freedom = 0.0, KNOWN_FREEDOM
    if samples and powers.any():
        sample_power = float(powers.sum() + power(samples[-1])) / len(samples)
        expected += sample_power
        sample_freedom = np.clip(
            2 * powers.mean() ** 2 / max(float(powers.var()), 1e-300), 1.0, freedom
        )  # degrees of freedom of a sample
        expected_freedom = min(
            KNOWN_FREEDOM, sample_freedom * (len(powers) - 1) * min(KNOWN_FREEDOM, expected / sample_power) ** 2
        )
    ratio = power(scores) / max(expected, 1e-300)
    from scipy.stats import f as fisher

    return ratio, float(fisher.sf(ratio, freedom, expected_freedom))
