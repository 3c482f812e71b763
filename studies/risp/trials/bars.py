"""Error bars of a trial's estimate, and how many of them it is off."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from risp_torch.inversion.problem.problem import Problem
from risp_torch.inversion.run.assessment import assess
from risp_torch.inversion.solvers.gradient_descent import History
from risp_torch.inversion.solvers.search import SearchResult

if TYPE_CHECKING:
    from risp_torch import Loss, Scene
    from studies.risp.trials.search import Found
    from studies.risp.trials.trial import Trial


@dataclass(frozen=True)
class Bars:
    """Error bars of an estimate as ``invert`` has them.

    Attributes:
        sd: [K] standard deviations of the unknowns, scaled units (decades for log10).
        off: largest distance of an unknown from the truth, in its standard deviations.
    """

    sd: list[float]
    off: float

    @staticmethod
    def of(scene: Scene, trial: Trial, loss: Loss, target: Path | str | None, result: Found) -> Bars:
        """The error bars at the end of a search, which are not told the truth.

        Args:
            scene: the scene.
            trial: the trial, for the names of the unknowns and the truth that ``off`` is measured from.
            loss: of the method, before it has seen the film.
            target: folder of frames of the film.
            result: the end of the search.

        Raises:
            UserError: see ``Problem.of``.
        """
        problem = Problem.of(scene, target, list(trial.unknowns), loss=loss, sampling=trial.sampling, starts=[result.values])
        estimate, truth = (trial.row(values) for values in (result.values, trial.truth))
        comparison = result.comparison or problem.comparison
        search_result = SearchResult(estimate[None], np.array([result.loss]), 0, comparison, problem.unknowns, History())
        sd = assess(problem, search_result).bars.sd
        distance = np.abs(problem.unknowns.scaled(estimate) - problem.unknowns.scaled(truth))
        return Bars(sd.tolist(), float((distance / sd).max()))

    def to_json(self) -> dict[str, Any]:
        """Both numbers, as ``bars_sd`` and ``bars_off``."""
        return {f"bars_{name}": value for name, value in asdict(self).items()}
