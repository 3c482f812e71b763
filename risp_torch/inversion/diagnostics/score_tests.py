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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from risp_torch.inversion.problem.linearisation import Linearisation
from risp_torch.inversion.problem.residual_blocks import BlockOrder, block_scores_of

MIN_FREEDOM, KNOWN_FREEDOM = 4.0, 1e6  # degrees of freedom of a covariance from few samples, and of a known one
BIAS_ERROR = 0.3  # relative error of the mean of compressed films' errors
BLOCK_FREEDOM = 20.0  # degrees of freedom of a covariance whose shape is that of errors in blocks
MAX_KNOWN_FREEDOM = 30.0  # degrees of freedom of known errors beside those of the residual


@dataclass(frozen=True)
class FilmErrors:
    """Errors of the observations of a film if the scene is correct.

    Attributes:
        variance: of independent errors of an observation; None where it is unknown and the residual's is taken.
        samples: residuals [frames, blocks, n, size], in ``BlockOrder``, of two or more films of the estimate that were
            compressed, or rounded; or None.
        bias: [P] mean of compressed films' residuals, as they have errors that all films have; 0 for rounded ones, which have
            none.
        design_effect: number of observations that count as one independent one, in the residual and in priors of the nuisances.
        relative_variance: [P] variance of each observation's errors, relative to ``variance``; equal by default.
    """

    variance: float | None
    samples: torch.Tensor | None = None
    bias: torch.Tensor | float = 0.0
    design_effect: float = 1.0
    relative_variance: torch.Tensor | None = None

    @staticmethod
    def of_rounding(variance: float | None, samples: torch.Tensor, order: BlockOrder) -> FilmErrors:
        """Errors of a film with residuals [n, P] of rounded films."""
        return FilmErrors(variance, order.ordered(samples))

    @staticmethod
    def of_compression(variance: float | None, samples: Iterable[torch.Tensor], order: BlockOrder, count: int) -> FilmErrors:
        """Errors of a film with residuals [P] of at most ``count`` compressed films, which are made one at a time."""
        ordered, total, made = None, 0.0, 0
        for made, sample in enumerate(samples, start=1):
            (in_blocks,) = order.ordered(sample[None]).movedim(2, 0)
            if ordered is None:
                ordered = sample.new_empty(*in_blocks.shape[:2], count, in_blocks.shape[2])
            ordered[:, :, made - 1] = in_blocks
            total = total + sample
        return FilmErrors(variance, ordered[:, :, :made], total / made)

    def scatter(self, sample_values: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Scatter of the samples, from a linear function of each of them.

        Args:
            sample_values: the function of every sample, such as its scores in blocks.

        Returns:
            Values whose mean square is the variance of the function of another film's errors about that of ``bias``; the last one
            is of the bias's own error. Empty without samples.
        """
        count = len(sample_values)
        if not count:
            return []
        if isinstance(self.bias, float):
            return [*sample_values, np.zeros_like(sample_values[0])]
        bias = sum(sample_values) / count
        scale = ((count + 1) / max(1, count - 1) * (count + 1) / count) ** 0.5
        return [scale * (value - bias) for value in sample_values] + [BIAS_ERROR * (count + 1) ** 0.5 * bias]


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


@dataclass(frozen=True)
class FamilyScores:
    """Scores of a family of M known numbers at an estimate of K unknowns, in C blocks of observations.

    Every test of some of the numbers follows from them, without another pass over the observations. Derivatives are those by the
    numbers without what the unknowns absorb.

    Attributes:
        unit_shift: [K, M] shifts of the unknowns by one standard deviation of each number.
        normal: [M, M] normal equations of the numbers.
        noise: [M, M] covariance of the score for independent errors of variance 1, with their relative variances.
        score: [M] of the residual without ``FilmErrors.bias``, and of the priors.
        residual: [C, M] block scores of that residual.
        products: [C, M, M] normal equations of each block.
        samples: block scores [C, M] of the film's errors (``FilmErrors.scatter``).
        fitted: number of unknowns.
    """

    unit_shift: np.ndarray
    normal: np.ndarray
    noise: np.ndarray
    score: np.ndarray
    residual: np.ndarray
    products: np.ndarray
    samples: list[np.ndarray]
    fitted: int

    @classmethod
    def of(cls, linearisation: Linearisation, columns: torch.Tensor, errors: FilmErrors) -> FamilyScores | None:
        """Scores of the numbers with these derivatives.

        Args:
            linearisation: linearisation at the estimate.
            columns: [P, M] derivatives of the observations by the family's numbers, in standard deviations of these.
            errors: of the film.

        Returns:
            The scores; None if a world diverges near the estimate.
        """
        film, _gradient = linearisation.normal_equations
        inverse = np.linalg.pinv(
            film + linearisation.prior_matrix + 1e-9 * np.trace(film) / len(film) * np.eye(len(film)), hermitian=True
        )
        cross = (linearisation.jacobian.double().T @ columns.double()).cpu().numpy()
        if not np.isfinite(cross).all():
            return None
        projected = columns - linearisation.jacobian @ torch.as_tensor(inverse @ cross).to(columns)
        double = projected.double()
        normal = (double.T @ double).cpu().numpy()
        noise = normal
        if errors.relative_variance is not None:
            noise = (double.T @ (double * errors.relative_variance[:, None].to(double))).cpu().numpy()
        residual = linearisation.residual - torch.as_tensor(errors.bias).to(linearisation.residual)
        prior_score = cross.T @ inverse @ (linearisation.prior_gradient + np.zeros(len(film)))
        scores = block_scores_of(
            replace(linearisation, jacobian=projected), torch.cat([residual[None], projected.T]), errors.samples
        )
        count = projected.shape[1]
        return cls(
            unit_shift=-inverse @ cross, normal=normal, noise=noise,
            score=(double.T @ residual.double()).cpu().numpy() - prior_score, residual=scores[0],
            products=np.stack(scores[1 : 1 + count], axis=1), samples=errors.scatter(scores[1 + count :]),
            fitted=len(film),
        )  # fmt: skip

    def subset(self, indices: Sequence[int]) -> FamilyScores:
        """Scores of some of the numbers."""
        pairs = np.ix_(indices, indices)
        return FamilyScores(
            self.unit_shift[:, indices], self.normal[pairs], self.noise[pairs], self.score[indices], self.residual[:, indices],
            self.products[:, indices][:, :, indices], [sample[:, indices] for sample in self.samples], self.fitted,
        )  # fmt: skip


def score_test(
    linearisation: Linearisation, scores: FamilyScores, limits: tuple[np.ndarray, np.ndarray], errors: FilmErrors
) -> ScoreTest | None:
    """Test a family of known numbers.

    Args:
        linearisation: linearisation at the estimate.
        scores: of the family's numbers.
        limits: lowest and highest amplitudes [M] (``Family.limits``).
        errors: of the film.

    Returns:
        The test; None if no number changes the film.
    """
    normal_matrix, score = scores.normal, scores.score
    if not np.trace(normal_matrix) > 0:
        return None
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
    fitted_scores = scores.residual - scores.products @ amplitudes  # of the residual after the family's step
    covariances, freedom = _covariances(scores, fitted_scores, variance, errors)
    shift_map = scores.unit_shift @ inverse_normal
    ratio, correlation_p_value = _block_variance_ratio(scores, variance, errors)
    return ScoreTest(
        amplitudes=amplitudes, shift=scores.unit_shift @ amplitudes, unit_shift=scores.unit_shift,
        shift_sd=np.array([np.sqrt(np.einsum("km,mn,kn->k", shift_map, matrix, shift_map)) for matrix in covariances]),
        visible=np.sqrt(np.diag(normal_matrix) / effective_variance),
        residual_decrease=float(2 * amplitudes @ score - amplitudes @ normal_matrix @ amplitudes),
        statistics=np.array([_squared_length(score[is_free], matrix[np.ix_(is_free, is_free)]) for matrix in covariances]),
        freedom=freedom, block_variance_ratio=ratio, correlation_p_value=correlation_p_value,
    )  # fmt: skip


def _squared_length(score: np.ndarray, covariance: np.ndarray) -> float:
    return float(score @ np.linalg.pinv(covariance, hermitian=True) @ score)


def _covariances(
    family: FamilyScores, scores: np.ndarray, variance: float, errors: FilmErrors
) -> tuple[list[np.ndarray], np.ndarray]:
    """Covariances [M, M] of the score if the family is correct, and their degrees of freedom.

    One is of the film's known errors, the other also of the residual after the family's step, in blocks.

    Args:
        family: scores of the family.
        scores: block scores [blocks, M] of the residual after the family's step.
        variance: of independent errors.
        errors: of the film.
    """
    normal, samples = family.normal, family.samples
    blocks = int((np.abs(scores).sum(axis=1) > 0).sum())
    residual_freedom = max(MIN_FREEDOM, float(blocks - len(normal) - family.fitted))
    clustered = blocks / residual_freedom * scores.T @ scores  # residuals of a fit are too small
    modelled, modelled_freedom = errors.design_effect * variance * family.noise, KNOWN_FREEDOM
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


def _block_variance_ratio(family: FamilyScores, variance: float, errors: FilmErrors) -> tuple[float, float]:
    """Power of the residual's block scores along the family's derivatives over that of the film's errors, and its p-value.

    The residual is that before the family's step. The power of independent errors is a sum over blocks, with weights w_c that are
    the blocks' shares of the normal equations: a chi-squared variable of (sum w)^2 / sum w^2 degrees of freedom, nearly
    (Satterthwaite, 1946).
    """
    inverse, samples = np.linalg.pinv(family.normal, hermitian=True), family.samples

    def power(scores: np.ndarray) -> float:
        return float(np.trace(inverse @ (scores.T @ scores)))

    weights = np.einsum("mn,cnm->c", inverse, family.products)
    freedom = float(weights.sum() ** 2 / max((weights**2).sum(), 1e-300))
    expected = errors.design_effect * variance * float(np.trace(inverse @ family.noise))
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
    ratio = power(family.residual) / max(expected, 1e-300)
    from scipy.stats import f as fisher

    return ratio, float(fisher.sf(ratio, freedom, expected_freedom))
