"""Results without derivatives: a request for one is an error, not a silent zero."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

_TWICE = "trying to differentiate {} twice: the kernels have first derivatives only; use finite differences of these"


class _Once(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, compute: Callable[[], Sequence[torch.Tensor]], error: RuntimeError, *_sources: torch.Tensor | None
    ) -> tuple[torch.Tensor, ...]:
        ctx.error = error
        return tuple(compute())

    @staticmethod
    def backward(ctx: Any, *_bars: Any) -> Any:
        raise ctx.error


def once(
    compute: Callable[[], Sequence[torch.Tensor]], error: RuntimeError, *sources: torch.Tensor | None
) -> tuple[torch.Tensor, ...]:
    """The results of ``compute`` as tensors that depend on ``sources`` and raise an error when differentiated.

    Args:
        compute: computes new tensors from the sources; its operations are not recorded.
        error: raised by a backward pass through the results.
        sources: all tensors that the results depend on.

    Returns:
        The results; they require a gradient if gradients are recorded and a source requires one.
    """
    return _Once.apply(compute, error, *sources)


def twice(what: str) -> RuntimeError:
    """The error for a second derivative."""
    return RuntimeError(_TWICE.format(what))
