"""Host arrays as arguments of kernels on a GPU: each piece of host memory has one copy on the device during a launch.

Taichi copies each argument by itself. Two arguments that share memory, such as parts of one buffer, then have two copies, and
values that a kernel writes to one of them are overwritten by the other when both are copied back. Here arguments that overlap are
parts of one copy.

Copies on CUDA are torch tensors. Torch is imported at the first launch with host arrays; programs whose kernels run on the CPU
need none of this. Copies on Vulkan are Taichi arrays (``TaichiStaging``): Taichi does not upload host arrays that a kernel only
writes, and then overwrites all their numbers, also those that the kernel did not write.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ti_sim.base.errors import UserError

DEVICE = "cuda:0"  # Taichi launches on the first GPU that the process sees
_ALIGNMENT = 64  # bytes: a copy has the same address modulo this as the host memory, so that its numbers are equally aligned

R = TypeVar("R")


class Span(NamedTuple):
    """Host memory [start, end), by byte addresses."""

    start: int
    end: int


def merge_overlapping(spans: Iterable[Span]) -> list[Span]:
    """Spans that overlap as one, in ascending order; spans that only touch stay apart."""
    result: list[Span] = []
    for span in sorted(spans):
        if result and span.start < result[-1].end:
            result[-1] = Span(result[-1].start, max(result[-1].end, span.end))
        else:
            result.append(span)
    return result


def launch_staged(
    arguments: Sequence[Any], launch: Callable[[Sequence[Any]], R], synchronize: Callable[[], None],
    make_copy: Callable[[np.ndarray], Any] | None = None,
) -> R:  # fmt: skip
    """Launch a kernel on a device; the host arrays among its arguments are copied there, and back.

    Args:
        arguments: arguments of the kernel.
        launch: launches the kernel with arguments whose contiguous arrays are all on the device.
        synchronize: waits until it has run.
        make_copy: makes the Taichi array of a host array, its values copied; None for tensors on ``DEVICE``.

    Returns:
        The result of ``launch``.
    """
    if _copying.active or not any(is_staged(argument) for argument in arguments):
        return launch(arguments)
    staging = Staging(arguments, DEVICE) if make_copy is None else TaichiStaging(arguments, make_copy)
    result = launch(staging.arguments)
    synchronize()
    staging.download()
    return result


class _Copying(threading.local):
    """Whether this thread copies arrays by kernels of Taichi, whose host arrays Taichi uploads itself."""

    active: bool = False

    @contextmanager
    def by_kernels(self) -> Iterator[None]:
        """Context of such copies."""
        self.active = True
        try:
            yield
        finally:
            self.active = False


_copying = _Copying()


def is_staged(argument: Any) -> bool:
    """Whether an argument is a host array that gets a copy: contiguous, and not empty.

    The others are left to Taichi, which copies arrays in column order, refuses strided ones, and reads nothing of empty ones.
    """
    if isinstance(argument, np.ndarray):
        return argument.size > 0 and bool(argument.flags.c_contiguous)
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(argument, torch.Tensor) or argument.device.type != "cpu":
        return False
    is_dense = argument.numel() > 0 and argument.is_contiguous()
    return is_dense and (argument.grad is None or argument.grad.is_contiguous())


class Staging:
    """The copies of the host arrays among the arguments of one launch.

    Attributes:
        arguments: the arguments, host arrays replaced by tensors of the same dtype and shape that lie in the copies.
    """

    def __init__(self, arguments: Sequence[Any], device: str) -> None:
        """Copy the host arrays to the device.

        Args:
            arguments: arguments of a kernel: arrays of any container, and anything else.
            device: torch device of the copies.

        Raises:
            UserError: numbers of an array do not lie at multiples of their size.
        """
        self._torch = importlib.import_module("torch")
        arrays = [array for argument in arguments if is_staged(argument) for array in self._with_gradient(argument)]
        self._spans = merge_overlapping(_span(array) for array in arrays)
        self._copies = [self._upload(span, device) for span in self._spans]
        self._writeable_spans = merge_overlapping(_span(array) for array in arrays if _is_writeable(array))
        self.arguments = [self._device_tensor(argument) if is_staged(argument) else argument for argument in arguments]

    def download(self) -> None:
        """Copy the writeable host arrays back from the device; the kernel must have run."""
        for span in self._writeable_spans:
            self._torch.from_numpy(_host_bytes(span)).copy_(self._bytes_of(span))

    def _with_gradient(self, array: Any) -> tuple[Any, ...]:
        """An array, and its gradient if it requires one; a missing gradient is created with zeros, as Taichi does."""
        if isinstance(array, np.ndarray):
            return (array,)
        if array.requires_grad and array.grad is None:
            array.grad = self._torch.zeros_like(array)
        return (array,) if array.grad is None else (array, array.grad)

    def _upload(self, span: Span, device: str) -> Any:
        misalignment = span.start % _ALIGNMENT
        copy = self._torch.empty(misalignment + span.end - span.start, dtype=self._torch.uint8, device=device)[misalignment:]
        return copy.copy_(self._torch.from_numpy(_host_bytes(span)))

    def _device_tensor(self, array: Any) -> Any:
        """The device tensor of a host array, with its gradient."""
        tensor, *gradient = map(self._view, self._with_gradient(array))
        if gradient:
            tensor.requires_grad_(array.requires_grad).grad = gradient[0]
        return tensor

    def _view(self, array: Any) -> Any:
        dtype = self._torch.from_numpy(np.empty(0, array.dtype)).dtype if isinstance(array, np.ndarray) else array.dtype
        return self._bytes_of(_span(array)).view(dtype).view(tuple(array.shape))

    def _bytes_of(self, span: Span) -> Any:
        """Bytes of a copy."""
        index = bisect_right(self._spans, span.start, key=lambda candidate: candidate.start) - 1
        offset = span.start - self._spans[index].start
        return self._copies[index][offset : offset + span.end - span.start]


class TaichiStaging:
    """As ``Staging``, with Taichi arrays as copies, one for each array; arrays that overlap must be the same.

    Attributes:
        arguments: the arguments, host arrays replaced by Taichi arrays.
    """

    def __init__(self, arguments: Sequence[Any], make_copy: Callable[[np.ndarray], Any]) -> None:
        """Copy the host arrays to the device with ``make_copy`` (see ``launch_staged``).

        Raises:
            UserError: two arrays overlap and are not the same.
        """
        self._copies: dict[tuple[Span, tuple[int, ...]], tuple[np.ndarray, Any]] = {}
        with _copying.by_kernels():
            self.arguments = [self._copy(value, make_copy) if is_staged(value) else value for value in arguments]
        spans = sorted({span for span, _ in self._copies})
        if len(merge_overlapping(spans)) < len(self._copies):
            raise UserError("two arrays of a kernel share memory and have other shapes: copy one of them")

    def download(self) -> None:
        """Copy the writeable host arrays back from the device."""
        with _copying.by_kernels():
            for host, copy in self._copies.values():
                if host.flags.writeable:
                    host[...] = copy.to_numpy()

    def _copy(self, array: Any, make_copy: Callable[[np.ndarray], Any]) -> Any:
        host = array if isinstance(array, np.ndarray) else array.detach().numpy()
        key = _span(host), host.shape
        if key not in self._copies:
            self._copies[key] = host, make_copy(host)
        return self._copies[key][1]


def _span(array: Any) -> Span:
    """Memory of a contiguous host array."""
    if isinstance(array, np.ndarray):
        start, size, count = array.ctypes.data, array.itemsize, array.size
    else:
        start, size, count = array.data_ptr(), array.element_size(), array.numel()
    if start % size:
        raise UserError(f"an array of {array.dtype} begins at address {start}, which is no multiple of {size}: copy it")
    return Span(start, start + size * count)


def _is_writeable(array: Any) -> bool:
    return not isinstance(array, np.ndarray) or bool(array.flags.writeable)


def _host_bytes(span: Span) -> np.ndarray:
    """Host memory as uint8."""
    return np.frombuffer((ctypes.c_uint8 * (span.end - span.start)).from_address(span.start), dtype=np.uint8)
