"""Levenberg-Marquardt steps from every start, over a horizon that grows: the default search for few unknowns.

Masses and contact parameters have similar effects on a film, so the loss has a narrow valley, along which the gradient is
small. A Gauss-Newton step uses the correlation of the unknowns, but needs a start near the minimum. Over the first
few frames, nearly any start is near enough, and each additional frame moves the minimum only a little.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from risp_torch.files.search_checkpoint import SearchCheckpoint
from risp_torch.inversion.problem.comparison import Comparison
from risp_torch.inversion.problem.search_settings import NewtonSteps
from risp_torch.inversion.problem.unknowns import Unknowns
from risp_torch.inversion.solvers.film_problem import FilmProblem
from risp_torch.inversion.solvers.gradient_descent import History, HistoryCheckpoint
from risp_torch.inversion.solvers.saved_search import rounds_bar
from risp_torch.least_squares.loop import Starts, minimise
from risp_torch.scene.scene import Scene


class _HorizonProblem(FilmProblem):
    """The film up to a horizon of frame intervals."""

    reevaluates = True

    def __init__(self, scene: Scene, comparison: Comparison, unknowns: Unknowns, horizons: list[int]) -> None:
        super().__init__(scene, comparison, unknowns)
        self.horizons = horizons

    def at_stage(self, stage: int) -> _HorizonProblem:
        """The film up to the horizon of a stage (``LeastSquaresProblem.at_stage``)."""
        frames = self.comparison.frames_up_to(self.horizons[stage])
        comparison = replace(self.comparison, target=self.comparison.target[: len(frames)], frames=frames)
        return _HorizonProblem(self.scene, comparison, self.unknowns, self.horizons)


def newton_descend(
    scene: Scene, comparison: Comparison, unknowns: Unknowns, values: np.ndarray, settings: NewtonSteps, history: History,
    *, margin: float = 0.0, checkpoint: SearchCheckpoint | None = None, progress: bool = True,
) -> np.ndarray:  # fmt: skip
    """Search from every start independently.

    A round takes a Jacobian by central differences and tries steps of several dampings, in the unknowns' own scales (Marquardt,
    SIAM J. Appl. Math. 11, 1963). The best is taken if its loss over the same frames is lower; scenes with implicit steps and
    losses whose worlds each cost time try larger dampings only where smaller ones do not lower it, the former longer steps, too.

    Args:
        scene, comparison, unknowns: those of the inversion.
        values: physical values of the starts [S, K].
        settings: rounds and horizons.
        history: every round appends the losses before its step, over the horizon of a start, and the values.
        margin: losses with a smaller difference count as equal.
        checkpoint: saves the search after every round, and resumes it.
        progress: whether to show a progress bar.

    Returns:
        Physical values [S, K] of the ends of the starts.
    """
    horizons = settings.horizons(comparison.last)
    implicit, serial = scene.stepping.is_implicit, comparison.loss.serial
    policy = settings.policy(len(horizons), margin=margin, implicit=implicit, serial=serial)
    starts = Starts.begin(list(unknowns.scaled(values)), policy)

    def record(before: Starts, after: Starts) -> None:
        history.append(before.objectives, unknowns.physical_values(np.array(before.points)), comparison.target)
        history.stopped = sorted({*history.stopped, *np.flatnonzero(after.stopped).tolist()})

    saved, problem = (
        HistoryCheckpoint(checkpoint, history, comparison.target.device), _HorizonProblem(scene, comparison, unknowns, horizons)
    )  # fmt: skip
    with rounds_bar(saved, record, rounds=policy.rounds, title="inverting", progress=progress) as after_round:
        minimise(problem, starts, policy, checkpoint=saved, after_round=after_round)
    return unknowns.physical_values(np.array(starts.points))
