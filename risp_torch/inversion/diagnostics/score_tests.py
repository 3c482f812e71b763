"""Score tests: whether estimating known numbers, too, would move an estimate by more than errors of the film let it.

The score of a family of known numbers is C^T r, with the derivatives C of the observations by its numbers and the residual r of
the estimate. Components that the unknowns can absorb are projected out (C - J A^-1 J^T C, with the unknowns' normal equations
A), so that the score is that of the joint model (Rao 1948; Silvey 1959). One joint Gauss-Newton step gives the numbers'
amplitudes and the omitted-variable bias of the unknowns.

Compressed films of the estimate have the errors of a right scene. Their mean, which blurs all edges alike, is taken off the
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

LEAST_FREEDOM, MANY = 4.0, 1e6  # degrees of freedom of a covariance from few samples, and of a known one
BIAS = 0.3  # of the mean of compressed films' errors: what it may be wrong by
FROM_BLOCKS = 20.0  # degrees of freedom of a covariance whose shape is that of errors in blocks
MAX_KNOWN_DEGREES = 30.0  # degrees of freedom of known errors beside those of the residual


@dataclass(frozen=True)
class FilmErrors:
    """Errors that the film of a right scene leaves.

    Attributes:
        variance: of independent errors of an observation; None where it is unknown and the residual's is taken.
        samples: residuals [P] of two or more films of the estimate that were compressed, or rounded; or none.
        design_effect: number of observations that count as one independent one, in the residual and in priors of the nuisances.
        local: [P] variance of each observation's errors, relative to ``variance``; equal by default.
        biased: whether the samples have errors that all films have, as compressed ones do, and rounded ones do not.
    """

    variance: float | None
    samples: Sequence[torch.Tensor] = ()
    design_effect: float = 1.0
    local: torch.Tensor | None = None
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
        times = ((count + 1) / max(1, count - 1) * (count + 1) / count) ** 0.5
        return [times * (sample - self.bias) for sample in self.samples] + [BIAS * (count + 1) ** 0.5 * self.bias]


@dataclass(frozen=True)
class ScoreTest:
    """Test of a family of M known numbers at an estimate of K unknowns.

    Attributes:
        amplitudes: [M] of the joint step, standard deviations of the family's numbers.
        shift: [K] of the unknowns, relative to their ranges.
        shift_sd: [C, K] standard deviations of that shift if the family is right, by each of C covariances of the errors.
        unit_shift: [K, M] shifts by one standard deviation of each number.
        visible: [M] how many standard deviations of the film's errors one standard deviation of each number changes the film by,
            beyond what the unknowns can absorb.
        falls: by how much the step lowers the summed squared residual.
        statistics: [C] squared lengths of the score in the covariances.
        freedom: [C] degrees of freedom of the covariances.
        block_variance_ratio: power of the residual's scores in blocks, without ``FilmErrors.bias``, over that of a right scene's
            errors; above 1 where the residual is correlated (variance-ratio test; Lo and MacKinlay, 1988).
        correlation_p_value: probability of a ratio as large if the errors are those of a right scene.
    """

    amplitudes: np.ndarray
    shift: np.ndarray
    shift_sd: np.ndarray
    unit_shift: np.ndarray
    visible: np.ndarray
    falls: float
    statistics: np.ndarray
    freedom: np.ndarray
    block_variance_ratio: float
    correlation_p_value: float

    @cached_property
    def p_value(self) -> float:
        """Of the multiplier test: probability of such a score if the family is right, by the least telling covariance."""
        from scipy.stats import f as fisher  # takes most of a second

        count = len(self.amplitudes)
        return float(fisher.sf(self.statistics / count, count, self.freedom).max())

    @cached_property
    def shift_p_values(self) -> np.ndarray:
        """[K] probabilities of such shifts if the family is right, by the least telling covariance."""
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
    inverse = np.linalg.pinv(film + linearisation.prior + 1e-9 * np.trace(film) / len(film) * np.eye(len(film)), hermitian=True)
    cross = (linearisation.jacobian.double().T @ columns.double()).cpu().numpy()
    if not np.isfinite(cross).all():
        return None
    rest = columns - linearisation.jacobian @ torch.as_tensor(inverse @ cross).to(columns)
    normal = (rest.double().T @ rest.double()).cpu().numpy()
    if not np.trace(normal) > 0:
        return None
    residual = linearisation.residual - torch.as_tensor(errors.bias).to(linearisation.residual)
    score = (rest.double().T @ residual.double()).cpu().numpy() - cross.T @ inverse @ (linearisation.pull + np.zeros(len(film)))
    variance = linearisation.loss if errors.variance is None else errors.variance
    weight = errors.design_effect * max(variance, 1e-300)
    free, amplitudes = np.ones(len(normal), dtype=bool), np.zeros(len(normal))
    for _ in range(len(normal)):  # numbers on their limits that would leave them stay there
        step = np.zeros((len(normal),) * 2)
        step[np.ix_(free, free)] = np.linalg.pinv(normal[np.ix_(free, free)] + weight * np.eye(free.sum()), hermitian=True)
        amplitudes = step @ score
        outside = free & (((limits[0] == 0) & (amplitudes < 0)) | ((limits[1] == 0) & (amplitudes > 0)))
        if not outside.any():
            break
        free &= ~outside
    away = -inverse @ cross
    nuisance_fit = replace(linearisation, jacobian=rest, residual=residual - rest @ torch.as_tensor(amplitudes).to(rest))
    scatter = [matrix.to(rest) for matrix in errors.scatter]
    # The blocks of the Jacobian are gathered once for all of them.
    *samples, scores, first_scores = block_scores_of(nuisance_fit, [*scatter, nuisance_fit.residual, residual])
    covariances, freedom = _covariances(nuisance_fit, normal, variance, errors, samples, scores, fitted=len(normal) + len(film))
    to_shift = away @ step
    ratio, correlation_p_value = _block_variance_ratio(nuisance_fit, normal, variance, errors, samples, first_scores)
    return ScoreTest(
        amplitudes=amplitudes, shift=away @ amplitudes, unit_shift=away,
        shift_sd=np.array([np.sqrt(np.einsum("km,mn,kn->k", to_shift, matrix, to_shift)) for matrix in covariances]),
        visible=np.sqrt(np.diag(normal) / weight), falls=float(2 * amplitudes @ score - amplitudes @ normal @ amplitudes),
        statistics=np.array([_squared_length(score[free], matrix[np.ix_(free, free)]) for matrix in covariances]),
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
    """Covariances [M, M] of the score if the family is right, and their degrees of freedom.

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
    rest = max(LEAST_FREEDOM, float(blocks - fitted))
    clustered = blocks / rest * scores.T @ scores  # residuals of a fit are too small
    weighted = (
        linearisation.jacobian
        if errors.local is None
        else linearisation.jacobian * errors.local[:, None].to(linearisation.jacobian)
    )
    noise = normal if errors.local is None else (linearisation.jacobian.double().T @ weighted.double()).cpu().numpy()
    modelled, certain = errors.design_effect * variance * noise, MANY
    inverse = np.linalg.pinv(normal, hermitian=True)
    if samples:
        count = len(samples) - 2  # without the mean and its error
        totals = np.array([sample_scores.sum(axis=0) for sample_scores in samples])
        sampled = totals.T @ totals / len(samples)
        # Few samples do not span many numbers: their size is that of the samples, their shape also that of errors in blocks.
        shape = sum(sample_scores.T @ sample_scores for sample_scores in samples) / len(samples)
        size = max(1.0, float(np.trace(inverse @ sampled)) / max(float(np.trace(inverse @ shape)), 1e-300))
        sampled = (count * sampled + FROM_BLOCKS * size * shape) / (count + FROM_BLOCKS)
        modelled = modelled + sampled
        ratio = min(MANY, float(np.trace(inverse @ modelled)) / max(float(np.trace(inverse @ sampled)), 1e-300))
        certain = max(LEAST_FREEDOM, (count + FROM_BLOCKS - len(normal) + 1.0) * ratio**2)  # independent errors are known
    if errors.variance is None:
        return [modelled, clustered], np.array([certain, rest])
    # Known errors of the residual's size: the more it exceeds them, the less they count.
    larger = max(1.0, float(np.trace(inverse @ clustered)) / max(float(np.trace(inverse @ modelled)), 1e-300))
    trusted = min(certain, MAX_KNOWN_DEGREES) / larger**2
    both = (trusted * larger * modelled + rest * clustered) / (trusted + rest)
    return [modelled, both], np.array([certain, trusted + rest])


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
    squares = ((jacobian @ torch.as_tensor(inverse).to(jacobian)) * jacobian).sum(dim=1, keepdim=True).to(linearisation.jacobian)
    weights = block_scores(replace(linearisation, jacobian=squares, residual=torch.ones_like(linearisation.residual)))[:, 0]
    freedom = float(weights.sum() ** 2 / max((weights**2).sum(), 1e-300))
    local = 1.0 if errors.local is None else errors.local.to(squares)[:, None]
    expected = errors.design_effect * variance * float((squares * local).double().sum())
    powers = np.array([power(sample_freedom) for sample_freedom in samples[:-1]])
    by_samples, certain = 0.0, MANY
    if samples and powers.any():
        by_samples = float(powers.sum() + power(samples[-1])) / len(samples)
        expected += by_samples
        sample_freedom = np.clip(
            2 * powers.mean() ** 2 / max(float(powers.var()), 1e-300), 1.0, freedom
        )  # degrees of freedom of a sample
        certain = min(MANY, sample_freedom * (len(powers) - 1) * min(MANY, expected / by_samples) ** 2)
    ratio = power(scores) / max(expected, 1e-300)
    from scipy.stats import f as fisher

    return ratio, float(fisher.sf(ratio, freedom, certain))
