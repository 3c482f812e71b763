"""A tape that can be used again and again: Taichi's own clears no gradient of an ndarray between two uses."""

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from ti_sim.base.arrays import Array
from ti_sim.base.runtime import require, ti


class Tape:
    """``ti.ad.Tape`` that sets the gradients of all recorded ndarrays to zero before the backward pass.

    Use: ``with Tape(loss): rollout(...); render(...); loss_kernel(...)``; afterwards ``array.grad`` holds the derivative of
    the loss, the second and third time as the first. The loss is a 1-element ti.ndarray with ``needs_grad=True``.
    """

    def __init__(self, loss: Array) -> None:
        """Record calls that lead to ``loss``."""
        require()
        self.loss = loss
        self._tape = ti.ad.Tape(loss=None)

    def __enter__(self) -> "Tape":
        self.loss.fill(0.0)
        self._tape.__enter__()
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        self._tape.__exit__(kind, value, trace)
        if kind is None:
            for array in _arrays(arguments for _function, arguments in self._tape.calls):
                array.grad.fill(0.0)
            self.loss.grad.fill(1.0)
            for function, arguments in reversed(self._tape.calls):
                function.grad(*arguments)


def _arrays(values: Iterable[Any]) -> Iterator[Array]:
    """Every ndarray with a gradient in nested tuples and dataclasses of arguments."""
    for value in values:
        if isinstance(value, ti.Ndarray):
            if value.grad is not None:
                yield value
        elif isinstance(value, tuple | list):
            yield from _arrays(value)
        elif is_dataclass(value):
            yield from _arrays(getattr(value, field.name) for field in fields(value))
