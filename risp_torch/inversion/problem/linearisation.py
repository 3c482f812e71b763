"""The observations of a film near one set of unknowns: residual and Jacobian by finite differences, and Gauss-Newton steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Annotated

import numpy as np
import torch

from risp_torch.inversion.problem.comparison import Comparison, film_losses
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.least_squares.damping import MeanDiagonalDamping
from risp_torch.least_squares.equations import NormalEquations
from risp_torch.least_squares.jacobian import central_differences
from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import UserError
from ti_sim.base.rules import FromZero, Rule, checked

Step = Annotated[float, Rule(above=0, maximum=0.5)]  # step of differences, in parts of the range
MAX_RESPONSE_CHANGE = 1e-2  # of a principal direction's response, relative


@dataclass(frozen=True)
class Linearisation:
    """The observations of a film near one set of unknowns.

    Attributes:
        residual: target - simulation, [P] (with the pixel loss, P = frames × pixels × 3).
        jacobian: [P, K] derivative of the observations with respect to the scaled unknowns divided by their ranges.
        scaled: [K] scaled coordinates of the point.
        comparison: the comparison.
        prior_matrix: [K, K] contribution of smoothness penalties and priors to J^T J; 0 without them.
        prior_gradient: [K] their contribution to J^T residual.
        prior_precision: [K, K] inverse covariance of the priors, relative to the ranges; 0 without them.
        observation_variance: variance of one observation (``Priors.variance``), which converts precisions of priors to units of
            J^T J: ``prior_matrix`` contains ``observation_variance`` times ``prior_precision``; 0 without priors.
        frozen_comparison: the comparison whose solved look is frozen at the point (``Comparison.frozen_at``), for finite
            differences about the point; None for ``comparison``.
    """

    residual: torch.Tensor
    jacobian: torch.Tensor
    scaled: np.ndarray
    comparison: Comparison
    prior_matrix: np.ndarray | float = 0.0
    prior_gradient: np.ndarray | float = 0.0
    prior_precision: np.ndarray | float = 0.0
    observation_variance: float = 0.0
    frozen_comparison: Comparison | None = None

    @property
    def loss(self) -> float:
        """Mean squared residual of the observations that count, without smoothness and priors."""
        return float((self.residual**2).mean()) * (len(self.residual) / self.comparison.observation_count)

    @property
    def is_finite(self) -> bool:
        """Whether residual and Jacobian are finite. Their sums of products, which a step needs, are not if one of them is not."""
        return all(np.isfinite(sums).all() for sums in self.normal_equations)

    @cached_property
    def normal_equations(self) -> tuple[np.ndarray, np.ndarray]:
        """J^T J [K, K] and J^T r [K], without smoothness and priors, computed once."""
        equations = NormalEquations.from_rows(self.frames())
        return equations.matrix, equations.gradient

    @cached_property
    def equations(self) -> NormalEquations:
        """The same with smoothness and priors; coordinates are the unknowns in parts of their ranges."""
        matrix, gradient = self.normal_equations
        prior = self.observation_variance * np.diag(self.prior_precision + np.zeros_like(matrix))
        return NormalEquations(
            matrix + self.prior_matrix, gradient + self.prior_gradient, self.loss * self.comparison.observation_count,
            np.diag(matrix), prior,
        )  # fmt: skip

    def frames(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Jacobian [D, K] and residual [D] of each frame, in double precision: all frames at once may need gigabytes."""
        count = len(self.comparison.frames)
        for jacobian, residual in zip(self.jacobian.chunk(count), self.residual.chunk(count), strict=True):
            yield jacobian.double(), residual.double()


@checked
def linearise(
    scene: Scene, target: torch.Tensor | Comparison, unknowns: Unknowns, physical: np.ndarray, *, step: Step = 1e-3
) -> Linearisation:
    """Residual and Jacobian of the observations at ``physical`` [K], by central differences over 2 K + 1 worlds.

    Args:
        scene, unknowns: those of the inversion.
        target: a film [T, H, W, 3] to compare by pixels, or any comparison.
        physical: values of the unknowns.
        step: of the differences, in parts of the allowed range (it shrinks near a bound).

    Raises:
        UserError: there is another number of values than of unknowns.
    """
    if np.shape(physical) != (len(unknowns.labels),):
        raise UserError(f"linearise: physical has shape {np.shape(physical)}: give {len(unknowns.labels)} values")
    comparison = Comparison.of_target(target)
    scaled = unknowns.scaled(physical)
    ranges = unknowns.scaled_range()
    low, high = (unknowns.scaled(bound) for bound in unknowns.bounds())
    steps = np.minimum(step * ranges, np.maximum(np.minimum(scaled - low, high - scaled), 0.1 * step * ranges))
    frozen_comparison = comparison.frozen_at(scene, unknowns.from_scaled(_rows(scaled[None])))
    observed, _ = _observe(scene, frozen_comparison, unknowns, scaled[None])
    rows, _ = _differences(scene, frozen_comparison, unknowns, scaled, np.diag(steps))
    rows *= torch.as_tensor(ranges / (2 * steps)).to(rows)[:, None]
    residual = comparison.target.flatten() - observed[0].flatten()
    return with_penalties(Linearisation(residual, rows.T, scaled, comparison, frozen_comparison=frozen_comparison), unknowns)


def with_penalties(linearisation: Linearisation, unknowns: Unknowns) -> Linearisation:
    """A linearisation, until now without them, with the smoothness and the priors of the unknowns."""
    ranges = unknowns.scaled_range()
    # The loss is a mean over the observations that count, and normal equations are sums.
    smoothness_matrix = linearisation.comparison.observation_count * unknowns.smoothness.matrix(ranges)
    linearisation = replace(
        linearisation, prior_matrix=smoothness_matrix, prior_gradient=-smoothness_matrix @ (linearisation.scaled / ranges)
    )
    return with_priors(linearisation, unknowns) if unknowns.priors else linearisation


def with_priors(linearisation: Linearisation, unknowns: Unknowns) -> Linearisation:
    """A linearisation, until now without priors, with those of the unknowns."""
    priors, ranges = unknowns.priors, unknowns.scaled_range()
    precision, variance = priors.precision(ranges), priors.variance(linearisation.loss)
    prior_matrix = variance * precision
    offset = priors.offset(linearisation.scaled, ranges)
    return replace(
        linearisation,
        prior_matrix=linearisation.prior_matrix + prior_matrix,
        prior_gradient=linearisation.prior_gradient - prior_matrix @ offset,
        prior_precision=precision,
        observation_variance=variance,
    )


def _differences(
    scene: Scene, comparison: Comparison, unknowns: Unknowns, scaled: np.ndarray, moves: np.ndarray
) -> tuple[torch.Tensor, bool]:
    """Observations at scaled + move minus those at scaled - move for each of the moves [M, K]: [M, P]; whether all are finite."""
    differences, finite = central_differences(
        partial(_observe, scene, comparison, unknowns), scaled, moves, at_once=max(1, comparison.worlds_at_once // 2)
    )
    return differences.flatten(1), bool(finite.all())


def _rows(scaled: np.ndarray) -> torch.Tensor:
    return torch.as_tensor(scaled, dtype=bridge_dtype(), device=bridge_device())


def predict(scene: Scene, comparison: Comparison, unknowns: Unknowns, scaled: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Observations [M, P] at scaled points [M, K], as many at a time as fit into memory, and which stayed finite [M]."""
    observed, finite = _observe(scene, comparison, unknowns, scaled)
    return observed.flatten(1), finite


def _observe(scene: Scene, comparison: Comparison, unknowns: Unknowns, scaled: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Observations [M, n, ...] of ``predict``: of pictures usually a view, which ``flatten`` would copy."""
    rows = _rows(scaled)
    batches = []
    with torch.no_grad():
        for batch in rows.split(comparison.worlds_at_once):
            batches.append(comparison.observe(scene, unknowns.from_scaled(batch), worlds=len(batch)))
    if len(batches) == 1:  # films are large: no copy of the only one
        return batches[0]
    return torch.cat([batch_result[0] for batch_result in batches]), torch.cat([batch_result[1] for batch_result in batches])


def losses_at(scene: Scene, target: torch.Tensor | Comparison, unknowns: Unknowns, scaled: np.ndarray) -> np.ndarray:
    """Losses [M] at scaled points [M, K], smoothness and priors included; infinite where a world diverged."""
    rows, comparison = _rows(scaled), Comparison.of_target(target)
    film_loss = film_losses(scene, unknowns.from_scaled(rows), comparison, worlds=len(rows))
    return unknowns.penalised_at(film_loss, rows, comparison.observation_count).double().cpu().numpy()


@checked
def jacobian_along_eigenvectors(
    scene: Scene,
    unknowns: Unknowns,
    linearisation: Linearisation,
    *,
    rounds: FromZero = 4,
    step: Step = 1e-3,
    widest: Annotated[float, Rule(minimum=1)] = 100.0,
) -> Linearisation:
    """The same linearisation, its Jacobian measured along its principal directions instead of along single unknowns.

    A finite difference has a relative error. If the responses to several unknowns cancel (all masses and contact
    parameters scaled together do not change the motion), the errors of the columns remain, and the direction seems observable.
    So the differences are repeated along the eigenvectors of J^T J, with wider steps for weaker responses,
    and the eigenvectors recomputed: a subspace iteration, whose weakest direction converges to the unobservable one. It ends
    once the turns of the eigenvectors change no response by more than ``MAX_RESPONSE_CHANGE``.

    Args:
        scene, unknowns: those of the inversion.
        linearisation: result of ``linearise``.
        rounds: largest number of iterations, each with a batch of 2 K worlds.
        step: of the differences along the strongest direction, in parts of the allowed range (it shrinks near a bound).
        widest: largest ratio of the step along the weakest direction to that.
    """
    count = len(linearisation.scaled)
    ranges = unknowns.scaled_range()
    low, high = (unknowns.scaled(bound) for bound in unknowns.bounds())
    bound_distance = np.maximum(np.minimum(linearisation.scaled - low, high - linearisation.scaled) / ranges, 0.1 * step)
    jacobian, measured = linearisation.jacobian, None
    for _ in range(rounds if count > 1 else 0):
        values, vectors = np.linalg.eigh(replace(linearisation, jacobian=jacobian).normal_equations[0])
        response = np.sqrt(np.maximum(values, 1e-30 * max(values.max(), 1e-30)))
        if measured is not None:
            turned = np.abs(measured.T @ vectors) * (response[:, None] / response)
            if (turned - np.diag(np.diag(turned)) <= MAX_RESPONSE_CHANGE).all():
                break
        measured = vectors
        steps = step * np.clip(response.max() / response, 1.0, widest)
        steps = np.minimum(steps, (bound_distance[:, None] / np.maximum(np.abs(vectors), 1e-12)).min(axis=0))
        moves = (steps * vectors).T * ranges
        directional, finite = _differences(
            scene, linearisation.frozen_comparison or linearisation.comparison, unknowns, linearisation.scaled, moves
        )
        if not finite:
            return linearisation
        directional /= torch.as_tensor(2 * steps[:, None]).to(directional)
        jacobian = directional.T @ torch.as_tensor(vectors.T).to(directional)
    return replace(linearisation, jacobian=jacobian)


def newton_step(linearisation: Linearisation, *, damping: float = 1e-6) -> np.ndarray:
    """Levenberg-Marquardt step of the unknowns, [K] in parts of their ranges (``MeanDiagonalDamping``)."""
    return MeanDiagonalDamping().step(linearisation.equations, damping)
