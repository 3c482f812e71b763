"""Result of a control run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from risp_torch.control.objectives import GoalLoss
from risp_torch.control.optimise import PolicySearchResult
from risp_torch.control.task import Objective


@dataclass(frozen=True)
class Control:
    """Result of a control run.

    Attributes:
        objective: the objective.
        note: description of the goal.
        search: the policy, its motion and the history.
        goal_loss: loss and error relative to the goal.
        seconds: wall-clock time [s].
        folder: folder of the run, or None.
    """

    objective: Objective
    note: str
    search: PolicySearchResult
    goal_loss: GoalLoss
    seconds: float
    folder: Path | None

    @property
    def error(self) -> float:
        """Error of the best policy, relative to the task's size."""
        return self.search.history.errors[self.search.best]
