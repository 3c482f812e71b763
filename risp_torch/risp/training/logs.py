"""Logs of a training run: a table of its epochs, and TensorBoard."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from risp_torch.files.atomic import write_text

COLUMNS = ("epoch", "rate", "gamma", "loss", "error", "penalty", "validation", "seconds", "waited")


TEST = "test"


def columns_of(row: Mapping[str, float]) -> tuple[str, ...]:
    """The columns of a table with these rows."""
    return (*COLUMNS, TEST) if TEST in row else COLUMNS


def write_table(path: Path, history: Sequence[Mapping[str, float]]) -> None:
    """Write the table of all epochs so far.

    Args:
        path: of the .csv file.
        history: a row for each epoch: "epoch", "rate" (learning rate at its end), "gamma", "loss" (total loss), "error"
            (mean L1 of an output), "penalty" (before gamma), "validation" (mean L1 of an output), "seconds" and "waited"
            (share of the time in which training waited for data); "test" like "validation", if there are test pictures.
    """
    text, columns = io.StringIO(), columns_of(history[-1])
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: f"{row[name]:.8g}" for name in columns} for row in history)
    write_text(path, text.getvalue())


class TensorBoardLog:
    """The log for TensorBoard (``tensorboard --logdir DIR``), by tensorboardX."""

    def __init__(self, folder: Path, *, first_epoch: int) -> None:
        """Open a log; entries of a killed run from ``first_epoch`` on are discarded."""
        from tensorboardX import SummaryWriter

        self._writer = SummaryWriter(str(folder), purge_step=first_epoch)

    def add(self, row: Mapping[str, float]) -> None:
        """Add one epoch's row (``write_table``)."""
        for name in columns_of(row)[1:]:
            self._writer.add_scalar(name, row[name], int(row["epoch"]))
        self._writer.flush()

    def close(self) -> None:
        """Flush the log."""
        self._writer.close()
