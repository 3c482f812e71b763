"""Figures of a training run: losses, and predictions with the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from risp_torch.files.atomic import atomic_replacement
from risp_torch.scene.rendering_parameters import contact_sheet
from risp_torch.scene.state_heads.head import StateHead


def plot_training(path: Path, history: Sequence[Mapping[str, float]]) -> None:
    """Plot error, validation error and weighted penalty over the epochs.

    Args:
        path: of the .png file.
        history: rows of ``logs.write_table``.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    epochs = [row["epoch"] + 1 for row in history]
    axes.semilogy(epochs, [row["error"] for row in history], label="training pictures")
    axes.semilogy(epochs, [row["validation"] for row in history], label="pictures held out")
    axes.set(xlabel="epoch", ylabel="mean L1 error of an output")
    if any(row["penalty"] > 0 for row in history):
        penalty = axes.twinx()
        penalty.semilogy(epochs, [row["penalty"] for row in history], "k:", linewidth=1)
        penalty.set_ylabel("gradient penalty, before gamma (dotted)")
    axes.legend()
    axes.grid(alpha=0.3)
    with atomic_replacement(path) as temporary:
        figure.savefig(temporary, format="png", dpi=110)


def prediction_sheet(path: Path, images: torch.Tensor, predicted: torch.Tensor, outputs: torch.Tensor, head: StateHead) -> None:
    """Write pictures, captioned with prediction and truth.

    Args:
        path: of the .png file.
        images: [n, H, W, 3] linear rgb.
        predicted, outputs: [n, S] normalised outputs.
        head: state head with names and units.
    """
    predictions, expected = (_numbers(head.physical(x.double().cpu())) for x in (predicted, outputs))
    captions = []
    for index in range(len(images)):
        lines = [f"{name} {predictions[name][index]:+.3f} ({expected[name][index]:+.3f})" for name in predictions]
        captions.append("\n".join(lines))
    contact_sheet(path, images, captions)


def _numbers(physical: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Every number [n] with a separate name, one per line of a caption."""
    columns = {}
    for name, values in physical.items():
        columns_of_value = values.reshape(len(values), -1).unbind(-1)
        columns |= {name if len(columns_of_value) == 1 else f"{name}[{k}]": column for k, column in enumerate(columns_of_value)}
    return columns
