"""Gauss-Newton steps of the unknowns together with a family of nuisances, which are known by priors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from risp_torch.inversion.diagnostics.nuisance_parameters import Family
from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.inversion.problem.linearisation import Linearisation
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.scene.bridge import bridge_dtype
from risp_torch.scene.bridge.checks import bridge_device
from risp_torch.scene.scene import Scene

STEP = 0.03  # of the differences, in standard deviations of a nuisance
OWN_STEP = 1e-3  # of the differences of the unknowns, in parts of their ranges
LONGEST = 2.0  # largest change of a nuisance in one round, in standard deviations
FARTHEST = 3.0  # largest change of a nuisance, in standard deviations
LONGEST_OWN = 0.15  # the same of an unknown, in parts of its range
DAMPINGS = (1e-6, 1e-3, 1e-1)
LENGTHS = (1.0, 0.3)
ENOUGH = 1e-3  # relative fall of the loss below which the rounds end


@dataclass(frozen=True)
class Joint:
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
    def own(self) -> int:
        """K."""
        return len(self.unknowns.labels)

    def start(self, scaled: np.ndarray) -> np.ndarray:
        """The vector of an estimate [K] (scaled units)."""
        return np.concatenate([scaled / self.unknowns.scaled_range(), np.zeros(len(self.family.nuisances))])

    @cached_property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Lowest and highest vectors."""
        low, high = (self.unknowns.scaled(bound) / self.unknowns.scaled_range() for bound in self.unknowns.bounds())
        least, most = self.family.limits(FARTHEST)
        return np.concatenate([low, least]), np.concatenate([high, most])

    def values(self, points: np.ndarray) -> dict[str, torch.Tensor]:
        """Parameter values [n, ...] of vectors [n, K + M]."""
        rows = torch.as_tensor(points, dtype=bridge_dtype(), device=bridge_device())
        ranges = torch.as_tensor(self.unknowns.scaled_range()).to(rows)
        known = {} if self.family.variants else self.family.values(rows[:, self.own :])
        return self.unknowns.from_scaled(rows[:, : self.own] * ranges) | known

    def observed(
        self, points: np.ndarray, comparison: Comparison | None = None, scene: Scene | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Observations [n, P] of vectors [n, K + M], and which worlds stayed finite [n]; of another scene if that is given."""
        comparison, parts = comparison or self.comparison, []
        with torch.no_grad():
            for first in range(0, len(points), comparison.worlds_at_once):
                some = points[first : first + comparison.worlds_at_once]
                values = self.values(some)
                observed, finite = comparison.observe(scene or self.family.scene, values, worlds=len(some))
                parts.append((observed.flatten(1), finite))
        return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])

    def columns(self, point: np.ndarray, which: range, *, central: bool = True) -> torch.Tensor:
        """Derivatives [P, n] of the observations by some entries of the vector, by central or one-sided differences.

        Those by variants of the scene are the differences to their films.
        """
        if self.family.variants:
            own, *others = (
                self.observed(point[None], scene=scene)[0][0] for scene in (self.family.scene, *self.family.variants)
            )  # fmt: skip
            return self.family.times * torch.stack([film - own for film in others], dim=1)
        low, high = self.bounds
        steps = np.where(np.arange(len(point)) < self.own, OWN_STEP, STEP)
        moves = np.diag(steps)[list(which)]
        nearby, count = self.comparison.near(self.family.scene, self.values(point[None])), len(which)
        if central:
            ends = np.concatenate([np.clip(point + sign * moves, low, high) for sign in (1, -1)])
            lengths = np.maximum((ends[:count] - ends[count:]).sum(axis=1), 1e-12)
        else:
            first = np.clip(point + moves, low, high)
            first = np.where(np.isclose(first, point).all(axis=1)[:, None], point - moves, first)
            ends, lengths = np.concatenate([first, point[None]]), (first - point).sum(axis=1)
        observed, _ = self.observed(ends, nearby)
        return ((observed[:count] - observed[count:]) / torch.as_tensor(lengths).to(observed)[:, None]).T

    def penalty(self, points: np.ndarray) -> np.ndarray:
        """Squared distance [n] of vectors [n, K + M] from the priors, in standard deviations."""
        scaled = torch.as_tensor(points[:, : self.own] * self.unknowns.scaled_range())
        known = self.unknowns.priors.distance(scaled).numpy() if self.unknowns.priors else 0.0
        return known + (points[:, self.own :] ** 2).sum(axis=1)

    def precision(self) -> np.ndarray:
        """Inverse covariance [K + M, K + M] of the priors."""
        whole = np.eye(self.own + len(self.family.nuisances))
        whole[: self.own, : self.own] = self.unknowns.priors.precision(self.unknowns.scaled_range())
        return whole


@dataclass(frozen=True)
class Freed:
    """The estimate with a family of nuisances freed.

    Attributes:
        family: the nuisances.
        amplitudes: [M] of the nuisances, standard deviations.
        shift: [K] change of the unknowns, scaled units.
        loss: mean squared residual that is left.
    """

    family: Family
    amplitudes: np.ndarray
    shift: np.ndarray
    loss: float


def freed(at: Linearisation, joint: Joint, *, together: float, rounds: int) -> Freed:
    """Gauss-Newton steps of the unknowns with a family of nuisances, from an estimate.

    Minimised is the posterior N log L + (squared distance from the priors): N independent observations with a mean squared
    residual L (``risp_torch.inversion.problem.priors``).

    Args:
        at: linearisation at the estimate.
        joint: unknowns and nuisances.
        together: number of observations that count as one independent observation.
        rounds: largest number of rounds, each with 2 (K + M) films.
    """
    target, count = joint.comparison.target.flatten(), joint.comparison.count
    begin = point = joint.start(at.scaled)
    low, high = joint.bounds
    longest = np.where(np.arange(len(point)) < joint.own, LONGEST_OWN, LONGEST)
    loss, known = at.loss, joint.precision()
    value = count / together * math.log(max(loss, 1e-300)) + float(joint.penalty(point[None])[0])
    residual = at.residual
    for _ in range(rounds):
        jacobian = joint.columns(point, range(len(point))).double()
        normal, slope = (jacobian.T @ jacobian).cpu().numpy(), (jacobian.T @ residual.double()).cpu().numpy()
        variance = together * max(loss, 1e-300)
        if not np.isfinite(normal).all():
            break
        pull = slope - variance * known @ _away(joint, point)
        tries = []
        for damping in DAMPINGS:
            ridge = damping * np.diag(np.maximum(np.diag(normal), 1e-12 * np.trace(normal)))
            step = np.linalg.pinv(normal + variance * known + ridge, hermitian=True) @ pull
            step *= min(1.0, float((longest / np.maximum(np.abs(step), 1e-300)).min()))
            tries += [np.clip(point + length * step, low, high) for length in LENGTHS]
        observed, finite = joint.observed(np.array(tries))
        losses = ((target - observed) ** 2).sum(dim=1).double().cpu().numpy() / count
        values = count / together * np.log(np.maximum(losses, 1e-300)) + joint.penalty(np.array(tries))
        values[~finite.cpu().numpy() | ~np.isfinite(losses)] = np.inf
        best = int(np.argmin(values))
        if not values[best] < value:
            break
        fall, point, value = 1 - losses[best] / loss, tries[best], float(values[best])
        loss, residual = float(losses[best]), target - observed[best]
        if fall < ENOUGH:
            break
    shift = (point - begin)[: joint.own] * joint.unknowns.scaled_range()
    return Freed(joint.family, point[joint.own :], shift, loss)


def _away(joint: Joint, point: np.ndarray) -> np.ndarray:
    """Distance [K + M] of a vector from the priors' means."""
    ranges = joint.unknowns.scaled_range()
    return np.concatenate([joint.unknowns.priors.offset(point[: joint.own] * ranges, ranges), point[joint.own :]])
