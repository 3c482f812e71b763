"""Errors of predicted states: of the network's outputs, as in RISP's table 1, and in metres and degrees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ti_sim.base.errors import UserError

if TYPE_CHECKING:
    from risp_torch.risp.evaluation.test_set import TestSet
    from risp_torch.scene.state_heads.head import StateHead

_EULER = ("yaw", "pitch", "roll")


@dataclass(frozen=True, eq=False)
class StateErrors:
    """Errors of one predictor on a test set.

    Attributes:
        labels: S names of the outputs.
        absolute: [n, S] absolute errors of the outputs.
        physical: name with its unit -> [n] errors: "position [m]" the distance, "rotation [deg]" the angle of the rotation
            between the two orientations.
        spread: [states] standard deviation, of the predictions over the appearances of one state, mean over the outputs: 0
            for a predictor that is invariant to appearance.
    """

    labels: list[str]
    absolute: np.ndarray
    physical: Mapping[str, np.ndarray]
    spread: np.ndarray

    @property
    def per_image(self) -> np.ndarray:
        """[n] mean absolute error of every picture's outputs: RISP's table 1 gives its mean and standard deviation."""
        return self.absolute.mean(axis=1)

    def to_json(self) -> dict[str, Any]:
        """Means and standard deviations over the pictures as JSON values."""
        return {
            "error": _moments(self.per_image),
            "outputs": {label: _moments(self.absolute[:, k]) for k, label in enumerate(self.labels)},
            "physical": {name: _moments(values) for name, values in self.physical.items()},
            "spread": _moments(self.spread),
        }


def state_errors(predicted: torch.Tensor, test_set: TestSet, head: StateHead) -> StateErrors:
    """Errors of predictions.

    Args:
        predicted: [n, S] outputs predicted for the test set's pictures.
        test_set: test set with the true outputs.
        head: state head of the outputs.

    Raises:
        UserError: the predictions have another shape, or are not finite.
    """
    predicted, true = predicted.detach().double().cpu(), test_set.outputs.double()
    if predicted.shape != true.shape:
        raise UserError(f"the predictions have shape {tuple(predicted.shape)}, and the test set has {tuple(true.shape)}")
    if not torch.isfinite(predicted).all():
        raise UserError("some predictions are not finite: the network is damaged, train it again")
    num_states = len(test_set) // (int(test_set.appearance[-1]) + 1)
    predictions_by_state = predicted.numpy().reshape(-1, num_states, predicted.shape[1])
    return StateErrors(
        head.labels, (predicted - true).abs().numpy(), physical_errors(head.physical(predicted), head.physical(true)),
        predictions_by_state.std(axis=0).mean(axis=1),
    )  # fmt: skip


def physical_errors(predicted: Mapping[str, torch.Tensor], true: Mapping[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """Errors [n] of physical values (``StateHead.physical``): norms of differences, and one angle for yaw, pitch and roll.

    Args:
        predicted, true: name -> [n] or [n, 3].
    """
    from scipy.spatial.transform import Rotation

    errors = {}
    for name in true:
        if name not in _EULER:
            difference = (predicted[name] - true[name]).numpy()
            unit = " [m]" if name == "position" else ""
            errors[name + unit] = np.abs(difference) if difference.ndim == 1 else np.linalg.norm(difference, axis=-1)
    if set(_EULER) <= set(true):
        rotations = [Rotation.from_euler("ZYX", np.stack([v[n].numpy() for n in _EULER], axis=-1)) for v in (predicted, true)]
        errors["rotation [deg]"] = np.degrees((rotations[0].inv() * rotations[1]).magnitude())
    return errors


def _moments(values: np.ndarray) -> dict[str, float]:
    return {"mean": float(values.mean()), "sd": float(values.std())}
