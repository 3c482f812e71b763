"""Rounds of least squares with a history and a progress bar, saved and resumed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tqdm import tqdm

from risp_torch.inversion.solvers.gradient_descent import HistoryCheckpoint
from risp_torch.least_squares.loop import Policy, Starts, minimise
from risp_torch.least_squares.problem import LeastSquaresProblem


def minimise_with_progress(
    problem: LeastSquaresProblem, starts: Starts, policy: Policy, checkpoint: HistoryCheckpoint,
    record: Callable[[Starts, Starts], None], *, title: str, progress: bool, leave: bool = True,
) -> np.ndarray:  # fmt: skip
    """``minimise`` with a progress bar.

    Args:
        problem, starts, policy, checkpoint: as of ``minimise``.
        record: appends a round, the starts before and after it, to the history.
        title: of the bar.
        progress: whether to show it.
        leave: whether it stays when the search has ended.

    Returns:
        [S, K] points of the ends.
    """
    saved = checkpoint.load()
    initial = 0 if saved is None else int(saved["rounds"])
    progress_bar = tqdm(total=policy.rounds, initial=initial, desc=title, disable=not progress, mininterval=0.5, leave=leave)

    def after_round(before: Starts, after: Starts) -> None:
        record(before, after)
        progress_bar.set_postfix(loss=f"{np.nanmin([before.objectives, after.objectives], initial=np.inf):.3e}")
        progress_bar.update()

    minimise(problem, starts, policy, checkpoint=checkpoint, after_round=after_round)
    progress_bar.close()
    return np.array(starts.points)
