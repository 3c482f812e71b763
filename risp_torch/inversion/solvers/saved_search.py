"""A progress bar for rounds of least squares that record a history, and that are saved and resumed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from tqdm import tqdm

from risp_torch.inversion.solvers.gradient_descent import HistoryCheckpoint
from risp_torch.least_squares.loop import AfterRound, Starts


@contextmanager
def rounds_bar(
    checkpoint: HistoryCheckpoint, record: AfterRound, *, rounds: int, title: str, progress: bool, leave: bool = True
) -> Iterator[AfterRound]:
    """A progress bar of ``minimise``.

    Args:
        checkpoint: of the search; the bar begins at its saved round.
        record: appends a round, the starts before and after it, to the history.
        rounds: largest number of rounds.
        title: of the bar.
        progress: whether to show it.
        leave: whether it stays when the search has ended.

    Yields:
        Function for ``after_round`` of ``minimise``, which records a round and advances the bar.
    """
    saved = checkpoint.load()
    initial = 0 if saved is None else int(saved["rounds"])
    with tqdm(total=rounds, initial=initial, desc=title, disable=not progress, mininterval=0.5, leave=leave) as progress_bar:

        def after_round(before: Starts, after: Starts) -> None:
            record(before, after)
            progress_bar.set_postfix(loss=f"{np.nanmin([before.objectives, after.objectives], initial=np.inf):.3e}")
            progress_bar.update()

        yield after_round
