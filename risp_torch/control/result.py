"""What a run of control found."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from risp_torch.control.objectives import Aim
from risp_torch.control.optimise import Search
from risp_torch.control.task import Objective


@dataclass(frozen=True)
class Control:
    """What a run of control found.

    Attributes:
        objective: what was lowered.
        note: what the goal is.
        search: the policy, its motion and the history.
        aim: the goal.
        seconds: wall-clock time.
        folder: where the run was written, or None.
    """

    objective: Objective
    note: str
    search: Search
    aim: Aim
    seconds: float
    folder: Path | None

    @property
    def error(self) -> float:
        """Error of the policy that is kept, in parts of the task's size."""
        return self.search.history.errors[self.search.best]
