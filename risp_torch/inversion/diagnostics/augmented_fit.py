"""Gauss-Newton steps of the unknowns together with a family of nuisances, which are known by priors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from risp_torch.inversion.diagnostics.nuisance_parameters import Family
from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.inversion.problem.linearisation import Linearisation
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.least_squares.damping import MarquardtDamping
from risp_torch.least_squares.equations import NormalEquations
from risp_torch.least_squares.loop import Policy, Starts, minimise
from risp_torch.least_squares.problem import Equations, LeastSquaresProblem
from risp_torch.least_squares.step_search import FixedSteps
from risp_torch.least_squares.termination import Termination
from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.scene import Scene

NUISANCE_STEP = 0.03  # step of the differences by a nuisance, in its standard deviations
UNKNOWN_STEP = 1e-3  # step of the differences by an unknown, in parts of its range
MAX_EXPONENT = 60.0  # largest exponent of the priors' factor
MAX_AMPLITUDE = 3.0  # largest change of a nuisance, in standard deviations
MAX_NUISANCE_STEP, MAX_UNKNOWN_STEP = 2.0, 0.15  # limits of a step: standard deviations, and parts of the ranges
POLICY = Policy(
    MarquardtDamping(residual_weight=0.0, with_priors=False, truncated=True), FixedSteps((1e-6, 1e-3, 1e-1), (1.0, 0.3)),
    rounds=1, termination=Termination(decrease=1e-3),
)  # fmt: skip


@dataclass(frozen=True)
class AugmentedProblem:
    """The unknowns of an inversion and a family of nuisances as one vector [K + M].

    Its entries are the unknowns in parts of their ranges, and the nuisances in standard deviations, 0 at the scene's values.

    Attributes:
        family: the nuisances.
        comparison: of the inversion.
        unknowns: of the inversion.
    """

    family: Family
    comparison: Comparison
    unknowns: Unknowns

    @property
    def num_unknowns(self) -> int:
        """K."""
        return len(self.unknowns.labels)

    def start(self, scaled: np.ndarray) -> np.ndarray:
        """The vector of an estimate [K] (scaled units)."""
        return np.concatenate([scaled / self.unknowns.scaled_range(), np.zeros(len(self.family.nuisances))])

    @cached_property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Lowest and highest vectors."""
        low, high = (self.unknowns.scaled(bound) / self.unknowns.scaled_range() for bound in self.unknowns.bounds())
        family_low, family_high = self.family.limits(MAX_AMPLITUDE)
        return np.concatenate([low, family_low]), np.concatenate([high, family_high])

    def values(self, points: np.ndarray) -> dict[str, torch.Tensor]:
        """Parameter values [n, ...] of vectors [n, K + M]."""
        rows = torch.as_tensor(points, dtype=bridge_dtype(), device=bridge_device())
        ranges = torch.as_tensor(self.unknowns.scaled_range()).to(rows)
        nuisance_values = {} if self.family.variants else self.family.values(rows[:, self.num_unknowns :])
        return self.unknowns.from_scaled(rows[:, : self.num_unknowns] * ranges) | nuisance_values

    def observed(
        self, points: np.ndarray, comparison: Comparison | None = None, scene: Scene | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Observations [n, P] of vectors [n, K + M], and which worlds stayed finite [n]; of another scene if that is given."""
        comparison, batches = comparison or self.comparison, []
        with torch.no_grad():
            for start in range(0, len(points), comparison.worlds_at_once):
                batch = points[start : start + comparison.worlds_at_once]
                values = self.values(batch)
                observed, finite = comparison.observe(scene or self.family.scene, values, worlds=len(batch))
                batches.append((observed.flatten(1), finite))
        return torch.cat([batch_result[0] for batch_result in batches]), torch.cat([batch_result[1] for batch_result in batches])

    def columns(self, point: np.ndarray, entries: range, *, central: bool = True) -> torch.Tensor:
        """Derivatives [P, n] of the observations by some entries of the vector, by central or one-sided differences.

        Those by variants of the scene are the differences to their films.
        """
        if self.family.variants:
            reference, *variant_films = (
                self.observed(point[None], scene=scene)[0][0] for scene in (self.family.scene, *self.family.variants)
            )  # fmt: skip
            return self.family.variant_scale * torch.stack([film - reference for film in variant_films], dim=1)
        low, high = self.bounds
        steps = np.where(np.arange(len(point)) < self.num_unknowns, UNKNOWN_STEP, NUISANCE_STEP)
        moves = np.diag(steps)[list(entries)]
        frozen_comparison, count = self.comparison.frozen_at(self.family.scene, self.values(point[None])), len(entries)
        if central:
            points = np.concatenate([np.clip(point + sign * moves, low, high) for sign in (1, -1)])
            lengths = np.maximum((points[:count] - points[count:]).sum(axis=1), 1e-12)
        else:
            moved_points = np.clip(point + moves, low, high)
            moved_points = np.where(np.isclose(moved_points, point).all(axis=1)[:, None], point - moves, moved_points)
            points, lengths = np.concatenate([moved_points, point[None]]), (moved_points - point).sum(axis=1)
        observed, _ = self.observed(points, frozen_comparison)
        return ((observed[:count] - observed[count:]) / torch.as_tensor(lengths).to(observed)[:, None]).T

    def penalty(self, points: np.ndarray) -> np.ndarray:
        """Squared distance [n] of vectors [n, K + M] from the priors, in standard deviations."""
        scaled = torch.as_tensor(points[:, : self.num_unknowns] * self.unknowns.scaled_range())
        prior_distance = self.unknowns.priors.squared_distance(scaled).numpy() if self.unknowns.priors else 0.0
        return prior_distance + (points[:, self.num_unknowns :] ** 2).sum(axis=1)

    def precision(self) -> np.ndarray:
        """Inverse covariance [K + M, K + M] of the priors."""
        precision = np.eye(self.num_unknowns + len(self.family.nuisances))
        precision[: self.num_unknowns, : self.num_unknowns] = self.unknowns.priors.precision(self.unknowns.scaled_range())
        return precision


@dataclass(frozen=True)
class AugmentedFit:
    """An estimate of the unknowns together with a family of nuisances.

    Attributes:
        family: the nuisances.
        amplitudes: [M] of the nuisances, standard deviations.
        shift: [K] change of the unknowns, scaled units.
        loss: mean squared residual of the estimate.
    """

    family: Family
    amplitudes: np.ndarray
    shift: np.ndarray
    loss: float


def fit_augmented(linearisation: Linearisation, joint: AugmentedProblem, *, design_effect: float, rounds: int) -> AugmentedFit:
    """Gauss-Newton steps of the unknowns with a family of nuisances, from an estimate.

    Minimised is L exp(Q / N), with the same minimum as the posterior N log L + Q: N independent observations with a mean squared
    residual L and a squared distance Q from the priors (``risp_torch.inversion.problem.priors``).

    Args:
        linearisation: linearisation at the estimate.
        joint: unknowns and nuisances.
        design_effect: number of observations that count as one independent observation.
        rounds: largest number of rounds, each with 2 (K + M) films.
    """
    initial_vector = joint.start(linearisation.scaled)
    problem, initial = _JointProblem(joint, design_effect), _Evaluated(initial_vector, linearisation.residual, linearisation.loss)
    limit = np.where(np.arange(len(initial_vector)) < joint.num_unknowns, MAX_UNKNOWN_STEP, MAX_NUISANCE_STEP)
    policy = replace(POLICY, rounds=rounds, limit=limit)
    objective = problem.penalised(np.array([linearisation.loss]), initial_vector[None])
    (minimum,) = minimise(problem, Starts.begin([initial], policy, objective), policy).points
    shift = (minimum.vector - initial_vector)[: joint.num_unknowns] * joint.unknowns.scaled_range()
    return AugmentedFit(joint.family, minimum.vector[joint.num_unknowns :], shift, minimum.loss)


@dataclass(frozen=True, eq=False)
class _Evaluated:
    """A vector [K + M], its residual [P], and the mean square of that."""

    vector: np.ndarray
    residual: torch.Tensor
    loss: float


class _JointProblem(LeastSquaresProblem):
    """The posterior of unknowns and nuisances; a point keeps its residual, so that no film is rendered twice."""

    def __init__(self, joint: AugmentedProblem, design_effect: float) -> None:
        self.joint, self.design_effect = joint, design_effect
        self.precision = joint.precision()
        self.low, self.high = joint.bounds

    def linearise(self, points: Sequence[_Evaluated]) -> list[NormalEquations | None]:
        """Normal equations of the film and the priors (``LeastSquaresProblem.linearise``)."""
        equations = []
        for point in points:
            columns = self.joint.columns(point.vector, range(len(point.vector)))
            variance = self.design_effect * max(point.loss, 1e-300)
            film_equations = NormalEquations.from_columns(columns.T, point.residual)
            equations.append(film_equations.with_prior(variance * self.precision, _prior_offset(self.joint, point.vector)))
        return equations

    def evaluate(
        self, points: Sequence[_Evaluated], equations: Equations, steps: Sequence[np.ndarray], before: np.ndarray, *, first: bool
    ) -> tuple[list[list[_Evaluated]], np.ndarray, np.ndarray]:
        """Films of the candidates, with their residuals (``LeastSquaresProblem.evaluate``)."""
        target, candidates, objectives = self.joint.comparison.target.flatten(), [], []
        for point, point_steps in zip(points, steps, strict=True):
            vectors = np.clip(point.vector + point_steps, self.low, self.high)
            observed, finite = self.joint.observed(vectors)
            residual = target - observed
            losses = (residual**2).sum(dim=1).double().cpu().numpy() / self.joint.comparison.observation_count
            losses[~finite.cpu().numpy() | ~np.isfinite(losses)] = np.inf
            candidates.append([_Evaluated(*row) for row in zip(vectors, residual, losses.tolist(), strict=True)])
            objectives.append(self.penalised(losses, vectors))
        return candidates, np.stack(objectives), before

    def penalised(self, losses: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Losses [n] of vectors [n, K + M] with their distance from the priors."""
        observation_weight = self.design_effect / self.joint.comparison.observation_count
        return losses * np.exp(np.minimum(observation_weight * self.joint.penalty(vectors), MAX_EXPONENT))


def _prior_offset(joint: AugmentedProblem, point: np.ndarray) -> np.ndarray:
    """Distance [K + M] of a vector from the priors' means."""
    ranges = joint.unknowns.scaled_range()
    return np.concatenate(
        [joint.unknowns.priors.offset(point[: joint.num_unknowns] * ranges, ranges), point[joint.num_unknowns :]]
    )
