"""A reusable tape: Taichi's own tape does not clear the gradients of ndarrays between two uses."""

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from ti_sim.base.arrays import Array
from ti_sim.base.errors import UserError
from ti_sim.base.runtime import require, ti


class Tape:
    """``ti.ad.Tape`` that sets the gradients of all recorded ndarrays to zero before the backward pass.

    Use: ``with Tape(loss): rollout(...); render(...); loss_kernel(...)``; afterwards ``array.grad`` holds the derivative of the
    loss, also when the block runs again. The loss is a 1-element ti.ndarray with ``needs_grad=True``.
    """

    def __init__(self, loss: Array) -> None:
        """Record calls that lead to ``loss``.

        Args:
            loss: 1-element ti.ndarray with ``needs_grad=True``; it is set to zero on entry.

        Raises:
            UserError: the loss is something else.
        """
        require()
        if not isinstance(loss, ti.Ndarray) or loss.shape != (1,) or loss.grad is None:
            raise UserError("the loss of a Tape must be ti.ndarray(dtype, (1,), needs_grad=True)")
        self.loss = loss
        self._tape = None

    def __enter__(self) -> "Tape":
        self._tape = ti.ad.Tape(loss=self.loss)
        self._tape.eval_on_exit = False  # our own backward pass below clears gradients first
        self._tape.__enter__()
        return self

    def __exit__(self, exception_type: Any, exception: Any, traceback: Any) -> None:
        self._tape.__exit__(exception_type, exception, traceback)
        if exception_type is None:
            for array in _arrays(arguments for _function, arguments in self._tape.calls):
                array.grad.fill(0.0)
            self.loss.grad.fill(1.0)
            for function, arguments in reversed(self._tape.calls):
                if hasattr(function, "grad"):  # element writes from Python have none
                    function.grad(*arguments)


def refuse_on_tape(name: str, *, recorded_by: str) -> None:
    """Raise a UserError on a running tape: Taichi would differentiate kernels whose adjoints are written by hand.

    Args:
        name: function that a program called.
        recorded_by: name of the function or class that records the same computation on a tape.

    Raises:
        UserError: a tape records.
    """
    runtime = ti.lang.impl.get_runtime()
    if runtime.target_tape and not runtime.grad_replaced:
        raise UserError(f"{name} cannot be recorded on a tape: use {recorded_by}, or call it outside of the tape")


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
