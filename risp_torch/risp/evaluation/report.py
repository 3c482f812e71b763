"""Tables of errors, and pictures with their predictions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from risp_torch.files.report import format_table
from risp_torch.risp.training.pictures import prediction_sheet
from ti_sim.base.rules import checked

if TYPE_CHECKING:
    import torch

    from risp_torch.risp.evaluation.errors import StateErrors
    from risp_torch.risp.evaluation.test_set import TestSet
    from risp_torch.scene.state_heads.head import StateHead

_SHEET_STATES = 2  # number of states on a sheet, each in all appearances


@checked
def error_table(errors: Mapping[str, StateErrors]) -> str:
    """One line per predictor: mean and standard deviation of the outputs' error, mean physical errors, spread over appearances.

    Args:
        errors: name of the predictor -> its errors.
    """
    physical = list(next(iter(errors.values())).physical)
    rows = [
        [name, f"{e.per_image.mean():.4f} ± {e.per_image.std():.4f}", *(f"{e.physical[p].mean():.3g}" for p in physical),
         f"{e.spread.mean():.4f}"]
        for name, e in errors.items()
    ]  # fmt: skip
    return format_table(rows, ["", "error of the outputs", *physical, "spread over appearances"])


def output_table(errors: Mapping[str, StateErrors]) -> str:
    """One line per output, one column per predictor: mean and standard deviation of the error.

    Args:
        errors: name of the predictor -> its errors.
    """
    labels = next(iter(errors.values())).labels
    rows = [
        [label, *(f"{e.absolute[:, k].mean():.4f} ± {e.absolute[:, k].std():.4f}" for e in errors.values())]
        for k, label in enumerate(labels)
    ]
    return format_table(rows, ["output", *errors])


def write_prediction_sheet(path: Path | str, test_set: TestSet, predicted: torch.Tensor, head: StateHead) -> None:
    """Write pictures of a few states in all appearances, captioned with the prediction and, in parentheses, the truth.

    Args:
        path: PNG to write.
        test_set: the test set.
        predicted: [n, S] predictions.
        head: state head of the outputs.

    Raises:
        UserError: the file cannot be written.
    """
    num_appearances = int(test_set.appearance[-1]) + 1
    num_states = len(test_set) // num_appearances
    rows_shown = [a * num_states + s for s in range(min(_SHEET_STATES, num_states)) for a in range(num_appearances)]
    prediction_sheet(Path(path), test_set.images[rows_shown], predicted[rows_shown], test_set.outputs[rows_shown], head)
