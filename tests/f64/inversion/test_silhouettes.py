"""The overlap of silhouettes: closed forms, gradients, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from risp_torch.inversion.silhouettes import silhouette_iou
from ti_sim import UserError, gradcheck


def test_overlap_of_rectangles() -> None:
    one, other = torch.zeros(2, 8, 8, dtype=torch.float64), torch.zeros(2, 8, 8, dtype=torch.float64)
    one[0, 1:5, 1:5], other[0, 3:7, 1:5] = 1.0, 1.0  # 8 of 24 pixels; the second pair is empty
    assert silhouette_iou(one, other).tolist() == [8 / 24, 1.0]
    assert silhouette_iou(one, one).tolist() == [1.0, 1.0]
    assert silhouette_iou(0.5 * one, other)[0] == pytest.approx(4.0 / (8.0 + 16.0 - 4.0))
    soft = 0.4 * one + 0.3 * other
    assert silhouette_iou(soft, other, threshold=0.5).tolist() == [8 / 16, 1.0]
    assert silhouette_iou(soft, other, threshold=0.3).tolist() == [16 / 24, 1.0]


def test_gradients_of_the_overlap() -> None:
    rng = np.random.default_rng(1)
    point = {name: rng.uniform(size=(2, 3, 4)) for name in ("first", "second")}

    def loss_and_gradient(at: dict[str, np.ndarray]) -> tuple[float, dict[str, np.ndarray]]:
        pair = {name: torch.tensor(array, requires_grad=True) for name, array in at.items()}
        value = (silhouette_iou(pair["first"], pair["second"]) * torch.tensor([1.0, -2.0], dtype=torch.float64)).sum()
        value.backward()
        return value.item(), {name: tensor.grad.cpu().numpy() for name, tensor in pair.items()}

    report = gradcheck(loss_and_gradient, point, rtol=1e-7, step=1e-4, min_observable=48)
    report.raise_if_wrong()
    assert report.ok


def test_empty_silhouettes_have_gradients_of_zero() -> None:
    empty = torch.zeros(4, 4, dtype=torch.float64, requires_grad=True)
    silhouette_iou(empty, torch.zeros(4, 4, dtype=torch.float64)).backward()
    assert torch.equal(empty.grad, torch.zeros(4, 4, dtype=torch.float64))


def test_pictures_that_do_not_fit() -> None:
    with pytest.raises(UserError, match=r"silhouettes have shapes \(2, 3\) and \(3, 2\)"):
        silhouette_iou(torch.zeros(2, 3), torch.zeros(3, 2))
