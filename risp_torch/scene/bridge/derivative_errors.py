"""Results without derivatives: a request for one is an error, not a silent zero."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch

_SECOND_DERIVATIVE = "trying to differentiate {} twice: the kernels have first derivatives only; use finite differences of these"


class _FirstDerivativeOnly(torch.autograd.Function):
    @staticmethod
    def forward(
        compute: Callable[[], Sequence[torch.Tensor]], error: RuntimeError, *_sources: torch.Tensor | None
    ) -> tuple[torch.Tensor, ...]:
        return tuple(compute())

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
        ctx.error = inputs[1]

    @staticmethod
    def backward(ctx: Any, *_bars: Any) -> Any:
        raise ctx.error

    @staticmethod
    def jvp(ctx: Any, *_tangents: Any) -> Any:
        raise ctx.error


def without_second_derivative(
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
    return _FirstDerivativeOnly.apply(compute, error, *sources)


def second_derivative_error(name: str) -> RuntimeError:
    """The error for a second derivative."""
    return RuntimeError(_SECOND_DERIVATIVE.format(name))


def one_by_one(
    function: Any, info: Any, in_dims: tuple[Any, ...], arguments: tuple[Any, ...], calls: Sequence[Any] | None = None
) -> Any:
    """A ``vmap`` of an autograd function: calls it for one row after the other.

    Args:
        function: its first argument is no tensor.
        info, in_dims, arguments: of its ``vmap``.
        calls: first argument of each row, that of ``arguments`` by default.

    Returns:
        Results with the rows along the first axis, and their axes.
    """
    rows = []
    for index in range(info.batch_size):
        row = (a if dim is None else a.select(dim, index) for a, dim in zip(arguments[1:], in_dims[1:], strict=True))
        rows.append(function.apply(arguments[0] if calls is None else calls[index], *row))
    if isinstance(rows[0], tuple):
        return tuple(map(torch.stack, zip(*rows, strict=True))), (0,) * len(rows[0])
    return torch.stack(rows), 0


class Derivative(torch.autograd.Function):
    """Base of functions that compute a derivative: differentiating them raises an error; batches are computed row by row.

    Attributes:
        subject: name of the differentiated function in messages.
    """

    subject: ClassVar[str]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        pass

    @classmethod
    def backward(cls, ctx: Any, *_gradients: torch.Tensor) -> Any:
        raise second_derivative_error(cls.subject)

    @classmethod
    def jvp(cls, ctx: Any, *_tangents: torch.Tensor | None) -> Any:
        raise second_derivative_error(cls.subject)

    @classmethod
    def vmap(cls, info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> Any:
        return one_by_one(cls, info, in_dims, arguments)
