"""RISP's losses: the error of the predicted state, and the derivative of the prediction with respect to the rendering parameters.

The renderer enters only through the precomputed dI/dpsi: the second derivatives needed in training are those of the
network (RISP, ICLR 2022, theorem 1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch

Regulariser = Literal["error", "outputs", "none"]
Norm = Literal["norm", "squared"]
Network = Callable[[torch.Tensor], torch.Tensor]

_FORWARD_COST = 2.0  # cost of a forward-mode pass with its gradient, relative to a backward pass (measured on a CPU)
_MIN_SQUARED_NORM = 1e-12  # added under the root, which is not differentiable at zero


def state_error(predicted: torch.Tensor, outputs: torch.Tensor) -> torch.Tensor:
    """L1 error of every picture's prediction (RISP, Eq. 8).

    Args:
        predicted: [B, S] predictions.
        outputs: [B, S] true outputs.

    Returns:
        [B], the sum over the outputs.
    """
    return (predicted - outputs).abs().sum(dim=1)


def error_and_gradient_norm(
    network: Network, images: torch.Tensor, outputs: torch.Tensor, jacobian: torch.Tensor, *, norm: Norm = "norm"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Error, and the norm of its derivative with respect to psi (RISP, Eq. 12); both differentiable in the network's parameters.

    One forward pass of the network, and one backward pass to its input with the graph kept.

    Args:
        network: pictures [B, 3, H, W] -> [B, S].
        images: [B, 3, H, W].
        outputs: [B, S].
        jacobian: [B, K, H, W, 3] dI/dpsi.
        norm: "norm" as in the equations, or "squared" as in the paper's proof (Eq. 13).

    Returns:
        (error [B], penalty [B]).
    """
    images = images.detach().requires_grad_()
    error = state_error(network(images), outputs)
    (gradient,) = torch.autograd.grad(error.sum(), images, create_graph=True)
    return error, _norm(_to_psi(gradient, jacobian), norm)


def error_and_jacobian_norm(
    network: Network,
    images: torch.Tensor,
    outputs: torch.Tensor,
    jacobian: torch.Tensor,
    *,
    norm: Norm = "norm",
    loop: Literal["cheaper", "outputs", "psi"] = "cheaper",
) -> tuple[torch.Tensor, torch.Tensor]:
    """Error, and the Frobenius norm of dN/dpsi (RISP, Eq. 10); both differentiable in the network's parameters.

    The S x K entries are computed by S backward passes to the input, or by K forward-mode passes along the columns of dI/dpsi.

    Args:
        network: pictures [B, 3, H, W] -> [B, S], without state that a pass changes.
        images, outputs, jacobian, norm: as in ``error_and_gradient_norm``.
        loop: over the "outputs", over "psi", or over the "cheaper" of the two.

    Returns:
        (error [B], penalty [B]).
    """
    over_outputs = outputs.shape[1] <= _FORWARD_COST * jacobian.shape[1] if loop == "cheaper" else loop == "outputs"
    images = images.detach().requires_grad_()
    predicted = network(images)
    rows = _by_outputs(predicted, images, jacobian) if over_outputs else _by_psi(network, images.detach(), jacobian)
    return state_error(predicted, outputs), _norm(rows, norm)


def _by_outputs(predicted: torch.Tensor, images: torch.Tensor, jacobian: torch.Tensor) -> torch.Tensor:
    """Entries [B, S * K] of dN/dpsi, one backward pass per output."""
    rows = []
    for column in predicted.unbind(dim=1):
        (gradient,) = torch.autograd.grad(column.sum(), images, create_graph=True)
        rows.append(_to_psi(gradient, jacobian))
    return torch.cat(rows, dim=1)


def _by_psi(network: Network, images: torch.Tensor, jacobian: torch.Tensor) -> torch.Tensor:
    """Entries [B, K * S] of dN/dpsi, one forward-mode pass per entry of psi."""
    unwrapped = getattr(network, "module", network)  # DistributedDataParallel requires one forward pass per backward pass
    columns = [
        torch.func.jvp(unwrapped, (images,), (column.permute(0, 3, 1, 2).to(images),))[1] for column in jacobian.unbind(dim=1)
    ]
    return torch.cat(columns, dim=1)


def _to_psi(gradient: torch.Tensor, jacobian: torch.Tensor) -> torch.Tensor:
    """Derivatives [B, K] with respect to psi from those with respect to the pictures [B, 3, H, W]."""
    columns = jacobian.flatten(2).to(gradient.dtype)
    return torch.bmm(columns, gradient.permute(0, 2, 3, 1).flatten(1).unsqueeze(2)).squeeze(2)


def _norm(entries: torch.Tensor, norm: Norm) -> torch.Tensor:
    square = entries.square().sum(dim=1)
    return square if norm == "squared" else (square + _MIN_SQUARED_NORM).sqrt()
