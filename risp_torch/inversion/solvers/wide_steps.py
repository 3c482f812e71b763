"""Gauss-Newton steps with derivatives from wide finite differences: a search for losses that are locally non-smooth.

The predictions of a network fluctuate as edges move through pixels. The fluctuations are small relative to the changes over
the whole film, but their slopes are not: the loss has many local minima, in which gradient descent ends. Differences
over a large part of the allowed range average over them, and so does the mean loss of the points of such a difference.

The mean observation of these points is also smooth, but differs from that of their centre if observations are nonlinear: with a
second derivative H along an unknown, the mean of points at a distance w is biased by H w^2 / 2. The last rounds,
whose ends are averaged, evaluate the centre.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from risp_torch.files.search_checkpoint import SearchCheckpoint
from risp_torch.inversion.problem.comparison import Comparison, film_losses
from risp_torch.inversion.problem.search_settings import WideSteps
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.inversion.solvers.gradient_descent import History, HistoryCheckpoint
from risp_torch.inversion.solvers.saved_search import rounds_bar
from risp_torch.inversion.solvers.wide_differences import REGION, Point, WideProblem
from risp_torch.least_squares.loop import Policy, Starts, minimise
from risp_torch.least_squares.step_search import RegionSchedule
from risp_torch.least_squares.termination import Termination
from risp_torch.scene.scene import Scene
from ti_sim.base.errors import DivergenceError


@dataclass(frozen=True)
class _WideCheckpoint(HistoryCheckpoint):
    """The checkpoint of some rounds, with their points and the targets of settling steps.

    Attributes:
        targets: [K] ends of the settling steps, restored in place.
    """

    targets: list[np.ndarray]

    def load(self) -> dict[str, Any] | None:
        """The last state (``HistoryCheckpoint.load``)."""
        saved = super().load()
        if saved is None:
            return None
        self.targets[:] = saved["targets"]
        return saved | {"starts": saved["starts"] | {"points": [Point.from_state(point) for point in saved["starts"]["points"]]}}

    def save(self, state: dict[str, Any]) -> None:
        """Save a state (``HistoryCheckpoint.save``)."""
        starts = state["starts"] | {"points": [point.to_state() for point in state["starts"]["points"]]}
        super().save(state | {"starts": starts, "targets": self.targets})


def wide_gauss_newton(
    scene: Scene, comparison: Comparison, unknowns: Unknowns, values: np.ndarray, settings: WideSteps, history: History,
    *, refining: bool = False, checkpoint: SearchCheckpoint | None = None, progress: bool = True,
) -> tuple[np.ndarray, int]:  # fmt: skip
    """Levenberg-Marquardt steps with wide finite differences, from every start and then from the best one.

    A round simulates two worlds per direction (an unknown, or a knot of a sequence), one on each side. Their mean approximates
    the observations at the point (settling rounds have a world there), their differences give the Jacobian, and the mean of their
    losses the loss. A step that increases it is rejected, and a shorter one is tried.

    Args:
        scene, comparison, unknowns: those of the inversion.
        values: physical values of the starts [S, K].
        settings: widths, trust region, horizon.
        history: history to which every round is appended; its losses are means over a round's worlds.
        checkpoint: saves the search after every round, and resumes it.
        refining: whether the loss freezes its solved numbers at each round's centre (``Loss.frozen_at``), for narrow differences.
        progress: whether to show a progress bar.

    Returns:
        Physical values [S, K] of the ends of the starts, and the index of the best one, with all frames and the narrowest
        differences: its row is the estimate, with ``settling_rounds`` the mean end of the steps of these.

    Raises:
        DivergenceError: no start could be simulated.
    """
    rounds = len(settings.widths)
    settles_at, trial_at = rounds - settings.settling_rounds, settings.trial_rounds - 1
    targets: list[np.ndarray] = []
    policy = Policy(
        REGION, RegionSchedule(first=settings.trust_radius, longer=2.0, shorter=0.3), rounds,
        termination=Termination(decrease=None),
    )  # fmt: skip
    problem = WideProblem(scene, comparison, unknowns, settings, refining=refining)
    starts = Starts.begin([None] * len(values), policy)

    def checkpoint_at(end: int) -> _WideCheckpoint:
        phase = None if checkpoint is None else replace(checkpoint, phase=f"{checkpoint.phase}-{end}")
        return _WideCheckpoint(phase, history, comparison.target.device, targets)

    def record(before: Starts, after: Starts) -> None:
        losses = _losses(after)
        if not np.isfinite(losses[after.active]).any():
            raise DivergenceError("every start of the search diverged: take smaller steps (more substeps)", body="", step=0)
        points = np.array([point.scaled for point in after.points])
        history.append(losses, unknowns.physical_values(points), comparison.target)

    def record_settling(before: Starts, after: Starts) -> None:
        for row, (old_point, new_point) in enumerate(zip(before.points, after.points, strict=True)):
            if new_point is not old_point:  # a settling step may be as long as the first one
                after.damping[row] = policy.search.first
        record(before, after)
        best = int(np.nanargmin(_losses(after)))
        target = problem.next_point(after.points[best], after.damping[best])
        keeps_targets = settings.settling_residual_ratio is None or problem.is_near(after.points[best], target)
        targets[:] = [*targets, target] if keeps_targets else []

    def advance(number: int, end: int, record_round: Callable[[Starts, Starts], None], title: str) -> None:
        saved, rounds = checkpoint_at(end), end - number
        with rounds_bar(saved, record_round, rounds=rounds, title=title, progress=progress) as after_round:
            minimise(
                problem.at_round(number + 1), starts, replace(policy, rounds=rounds), checkpoint=saved, after_round=after_round
            )

    if (saved_state := checkpoint_at(0).load()) is not None:
        starts.restore(saved_state["starts"])
    else:
        starts.points = [problem.point_at(scaled) for scaled in unknowns.scaled(values)]
        record(starts, starts)
        checkpoint_at(0).save({"starts": starts.to_arrays()})
    number = 0
    for end in sorted({0, settles_at, rounds, min(trial_at, rounds)}):
        if end > number and number < settles_at:
            advance(number, end, record, "inverting")
        elif end > number:
            advance(number, end, record_settling, "settling")
        number = end
        if end == trial_at and starts.active.sum() > 1:
            starts.active[:] = np.arange(len(starts.points)) == np.nanargmin(_losses(starts))
            history.stopped = np.flatnonzero(~starts.active).tolist()
    best, points = int(np.nanargmin(_losses(starts))), np.array([point.scaled for point in starts.points])
    if settings.settling_rounds:
        points[best] = np.mean(targets or [problem.next_point(starts.points[best], starts.damping[best])], axis=0)
    return unknowns.physical_values(points), best


def _losses(starts: Starts) -> np.ndarray:
    """[S] losses of the starts that take steps; NaN for others."""
    return np.array([point.loss if active else math.nan for point, active in zip(starts.points, starts.active, strict=True)])


def refine_whitened(
    scene: Scene, comparison: Comparison, unknowns: Unknowns, minimum: np.ndarray, settings: WideSteps, history: History,
    *, start: int = 0, seed: int = 0, checkpoint: SearchCheckpoint | None = None, progress: bool = True,
) -> tuple[np.ndarray, Comparison]:  # fmt: skip
    """Feasible generalised least squares: repeat the settling rounds with whitened observations.

    The covariance of the errors is measured at the estimate of plain least squares, because the motions of first guesses may be
    too far from the target's. A penalty on sequences keeps its relative weight, as does the least variance that priors assume.

    Args:
        scene, comparison, unknowns: those of the inversion.
        minimum: end of the plain search, physical values [K].
        settings: settings of that search.
        history: the points of these rounds are appended, without losses, because those of whitened observations have other units.
        start: index of that start in the history.
        seed: seed of the samples for the covariance.
        checkpoint: saves these rounds, and resumes them.
        progress: whether to show a progress bar.

    Returns:
        Physical values [K] and the whitened comparison; ``minimum`` and ``comparison`` if the covariance is unknown, or
        ``settings`` do not require it.

    Raises:
        DivergenceError: the motion cannot be simulated.
    """
    row = torch.as_tensor(unknowns.scaled(minimum)[None]).to(comparison.target)
    values = unknowns.from_scaled(row)
    whitened = comparison.whitened(scene, values, seed=seed) if settings.whiten else None
    if whitened is None:
        return minimum, comparison
    loss_ratio = float(film_losses(scene, values, whitened, worlds=1)[0] / film_losses(scene, values, comparison, worlds=1)[0])
    smoothness = replace(unknowns.smoothness, weights=loss_ratio * unknowns.smoothness.weights)
    priors = replace(unknowns.priors, floor=loss_ratio * unknowns.priors.floor)
    new_history, unknowns = History(), replace(unknowns, smoothness=smoothness, priors=priors)
    minima, _ = wide_gauss_newton(
        scene, whitened, unknowns, minimum[None], settings.last_rounds(), new_history, checkpoint=checkpoint, progress=progress
    )
    for point in new_history.values:
        row_values = torch.full_like(history.values[-1], math.nan)
        row_values[start] = point[0]
        history.values.append(row_values)
        history.losses.append(row_values.new_full((len(row_values),), math.nan))
    return minima[0], whitened
