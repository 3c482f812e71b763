"""Gauss-Newton refinement of every start, with long steps along a valley of the loss."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from tqdm import tqdm

from risp_torch.inversion.comparison import Comparison
from risp_torch.inversion.linearisation import linearise, losses_at, newton_step, weakest_direction
from risp_torch.inversion.optimise import History
from risp_torch.inversion.unknowns import Unknowns
from risp_torch.scene.scene import Scene

DAMPINGS = (1e-6, 1e-3, 3e-2)  # of the normal equations' mean diagonal
LENGTHS = (1.0, 0.3, 0.05)  # of a step
MANY_DAMPINGS, MANY_LENGTHS = (1e-6, 1e-4, 1e-2), (30.0, 10.0, 3.0, 1.0, 0.3)  # of more than MOST_IN_VALLEY unknowns
VALLEY = (0.001, 0.003, 0.01, 0.03, 0.1)  # of the range: steps along the least observable direction, in both senses
MOST_IN_VALLEY = 40  # unknowns: each of these steps needs a Jacobian
HOPE = 10  # rounds: a start continues if this many rounds like its last one would reach the lowest loss
BEHIND = 1.2  # times the lowest loss: a start with a larger loss takes no steps along valleys


def refined(
    scene: Scene, comparison: Comparison, unknowns: Unknowns, values: np.ndarray, rounds: int, history: History,
    *, thorough: bool = True, progress: bool,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Gauss-Newton steps from the end of every start that was not stopped early, each accepted only if the loss decreases.

    If none does, the point may be in a local minimum of a valley's floor (contacts that begin, end, slip or stick cause
    small ones): longer steps along the weakest direction, each followed by a Gauss-Newton step across the valley, leave it.
    That takes some 70 worlds, and is left out where each costs time: with implicit steps.

    Args:
        scene, comparison, unknowns: those of the inversion.
        values: physical values of the starts' ends, [S, K].
        rounds: largest number of rounds per start.
        history: history to which every round is appended.
        thorough: whether to try several dampings, steps along valleys, and to stop starts that cannot reach the best.
        progress: whether to show a progress bar.

    Returns:
        Physical values [S, K] and losses over the whole film [S]; infinite where a world diverged.
    """
    search = _Refinement(scene, comparison, unknowns, thorough and not scene.stepping.is_implicit)
    scaled = unknowns.scaled(values)
    losses = losses_at(scene, comparison, unknowns, scaled)
    active = np.isfinite(losses)
    active[history.stopped] = False
    for _ in tqdm(range(rounds), desc="refining", disable=not progress, leave=False):
        if not active.any():
            break
        for s in np.flatnonzero(active):
            lowest = np.min(losses, where=np.isfinite(losses), initial=np.inf)
            point, loss = search.round(scaled[s], losses[s], valley=losses[s] <= BEHIND * lowest)
            fall = losses[s] - loss
            active[s] = fall > 1e-6 * losses[s] and (not thorough or loss - HOPE * fall <= lowest)
            scaled[s], losses[s] = point, loss
        for column, rows in ((history.losses, losses), (history.values, unknowns.physical_values(scaled))):
            shown = torch.as_tensor(rows).to(comparison.target)
            shown[history.stopped] = torch.nan
            column.append(shown)
    return unknowns.physical_values(scaled), losses


class _Refinement:
    """One film and its unknowns, in scaled coordinates."""

    def __init__(self, scene: Scene, comparison: Comparison, unknowns: Unknowns, thorough: bool) -> None:
        self.thorough = thorough
        self.scene, self.comparison, self.unknowns = scene, comparison, unknowns
        self.low, self.high = (unknowns.scaled(bound) for bound in unknowns.bounds())
        self.ranges = unknowns.scaled_range()

    def round(self, point: np.ndarray, loss: float, *, valley: bool = True) -> tuple[np.ndarray, float]:
        """The better of the point and the result of one round of steps, with or without steps along the valley."""
        at = linearise(self.scene, self.comparison, self.unknowns, self.unknowns.physical_values(point))
        dampings, lengths = self._tried()
        steps = [length * step for step in (newton_step(at, damping=damping) for damping in dampings) for length in lengths]
        found, lowest = self._best(point, np.array(steps))
        if lowest < loss * (1 - 1e-6):
            return found, lowest
        if len(point) > MOST_IN_VALLEY or not (self.thorough and valley):
            return point, loss
        direction = weakest_direction(at)
        along = np.array([sign * length * direction for length in VALLEY for sign in (1, -1)])
        across = [self._across(point + step * self.ranges) for step in along]
        found, lowest = self._best(point, np.array(across) + along)
        return (found, lowest) if lowest < loss else (point, loss)

    def _tried(self) -> tuple[Sequence[float], Sequence[float]]:
        """Dampings and lengths of the steps that are tried.

        Where an edge is displaced by more than its softness, a step is only as long as the edge is soft: longer ones lead
        farther. Of many unknowns, such as a sequence, they cost little beside the Jacobian.
        """
        if len(self.ranges) > MOST_IN_VALLEY:
            return MANY_DAMPINGS, MANY_LENGTHS
        return DAMPINGS if self.thorough else DAMPINGS[1:2], LENGTHS

    def _across(self, point: np.ndarray) -> np.ndarray:
        """Gauss-Newton step at a point without its part along the weakest direction, in parts of the ranges."""
        point = np.clip(point, self.low, self.high)
        at = linearise(self.scene, self.comparison, self.unknowns, self.unknowns.physical_values(point))
        if not at.is_finite:
            return np.zeros(len(point))
        step, direction = newton_step(at), weakest_direction(at)
        return step - direction * (step @ direction)

    def _best(self, point: np.ndarray, steps: np.ndarray) -> tuple[np.ndarray, float]:
        """The best of the ends of steps [tries, K] (relative to the ranges)."""
        tries = np.clip(point + steps * self.ranges, self.low, self.high)
        losses = losses_at(self.scene, self.comparison, self.unknowns, tries)
        pick = int(np.argmin(losses))
        return tries[pick], float(losses[pick])
