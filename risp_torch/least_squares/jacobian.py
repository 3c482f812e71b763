"""Jacobians: central differences in batches of worlds, and rows by reverse mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch

Predict = Callable[[np.ndarray], tuple[torch.Tensor, torch.Tensor]]


def central_differences(
    predict: Predict, point: np.ndarray, moves: np.ndarray, *, at_once: int | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Predictions at point + move minus those at point - move, for each of some moves.

    Args:
        predict: from points [N, K] to predictions [N, ...], and which worlds stayed finite [N] bool.
        point: [K].
        moves: [M, K].
        at_once: largest number of moves in a batch of worlds; all if None.

    Returns:
        Differences [M, ...], and for which moves both worlds stayed finite [M] bool.
    """
    count, differences, finite = at_once or max(len(moves), 1), None, []
    for first in range(0, len(moves), count):
        batch = moves[first : first + count]
        predicted, alive = predict(np.concatenate([point + batch, point - batch]))
        difference = predicted[: len(batch)] - predicted[len(batch) :]
        if len(batch) == len(moves):  # films are large: no copy of the only batch
            differences = difference
        else:
            differences = difference.new_empty((len(moves), *difference.shape[1:])) if differences is None else differences
            differences[first : first + count] = difference
        finite.append(alive[: len(batch)] & alive[len(batch) :])
    if differences is None:
        raise ValueError("central differences need at least one move")
    return differences, torch.cat(finite)


def adjoint_rows(
    predict: Callable[[torch.Tensor], torch.Tensor], point: torch.Tensor, *, block: int = 64
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Blocks of rows [p, K] of a Jacobian by reverse mode, one backward pass each row, and the predictions [p] of the rows.

    For few observations and many unknowns. ``NormalEquations.from_rows`` sums the blocks.

    Args:
        predict: differentiable, from a point [K] to predictions [P].
        point: [K].
        block: rows in a block.
    """
    point = point.detach().clone().requires_grad_()
    predicted = predict(point)
    for first in range(0, len(predicted), block):
        values = predicted[first : first + block]
        rows = [torch.autograd.grad(value, point, retain_graph=True)[0] for value in values]
        yield torch.stack(rows), values.detach()
