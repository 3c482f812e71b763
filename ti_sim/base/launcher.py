"""Repeated launches of one kernel with low overhead."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ti_sim.base.arrays import is_contiguous, kernel_view
from ti_sim.base.bundles import flat
from ti_sim.base.errors import UserError
from ti_sim.base.fast_launch import taichi_copy
from ti_sim.base.runtime import require, ti
from ti_sim.base.staging import is_staged, launch_staged


class Launcher:
    """A kernel with its arguments bound, for repeated launches that change only its first arguments, which are integers.

    A kernel call compares all its arrays with those of the last one. A launch of this object sets the integers only. On a GPU it
    sets all arguments again, and copies host arrays there and back.
    """

    def __new__(cls, *_arguments: Any, **_options: Any) -> "Launcher":
        """A launcher for the device of the runtime."""
        return super().__new__(_DeviceLauncher if _on_gpu() else cls)

    def __init__(self, kernel: Any, *arguments: Any, integers: int = 1) -> None:
        """Compile the kernel and set its arguments.

        Args:
            kernel: a ti.kernel whose first ``integers`` arguments are ints.
            arguments: the other arguments in order: arrays, bundles, ints, floats, values of ti.template(). Arrays must not move
                in memory; this object keeps references to them.

        Raises:
            UserError: an array is not contiguous, or is on a device that kernels do not run on.
        """
        primal, arguments = kernel._primal, flat(*arguments)
        views = [kernel_view(argument) if hasattr(argument, "shape") else argument for argument in arguments]
        self._program = ti.lang.impl.get_runtime().prog
        self._compiled = primal.compiled_kernels[primal.ensure_compiled(*[0] * integers, *views)]
        runtime_arguments = [
            (parameter.name, view)
            for parameter, view in zip(primal.arguments[integers:], views, strict=True)
            if not isinstance(parameter.annotation, ti.template)
        ]
        for name, view in runtime_arguments:
            _check_argument(name, view)
        element_axes = {p.name: _element_axes(p.annotation) for p in primal.arguments}
        self._element_axes = [element_axes[name] for name, _ in runtime_arguments]
        self._integer_count, self._views = integers, [view for _, view in runtime_arguments]
        self._machine_code = self._program.compile_kernel(self._program.config(), self._program.get_device_caps(), self._compiled)
        self._bind()

    def _bind(self) -> None:
        self._context = self._launch_context(self._setter_calls(self._views))

    def __call__(self, *numbers: int) -> None:
        """Launch with ``numbers`` for the first arguments."""
        for position, number in enumerate(numbers):
            self._context.set_arg_int((position,), number)
        self._program.launch_kernel(self._machine_code, self._context)

    def _launch_context(self, calls: Sequence[tuple[str, tuple[Any, ...]]]) -> Any:
        """Launch context in which these calls have set the arguments after the integers."""
        context = self._compiled.make_launch_context()
        for method, arguments in calls:
            getattr(context, method)(*arguments)
        return context

    def _setter_calls(self, values: Sequence[Any]) -> list[tuple[str, tuple[Any, ...]]]:
        """Calls that set the arguments after the integers to these values: (name of a context method, its arguments)."""
        result: list[tuple[str, tuple[Any, ...]]] = []
        for position, (value, axes) in enumerate(zip(values, self._element_axes, strict=True), self._integer_count):
            if isinstance(value, int):
                result.append(("set_arg_int", ((position,), value)))
            elif isinstance(value, float):
                result.append(("set_arg_float", ((position,), value)))
            elif isinstance(value, ti.Ndarray):
                result.append(("set_arg_ndarray", ((position,), value.arr)))
            else:
                address = int(value.ctypes.data if isinstance(value, np.ndarray) else value.data_ptr())
                shape = tuple(value.shape)[: value.ndim - axes]
                result.append(("set_arg_external_array_with_shape", ((position,), address, value.nbytes, shape, 0)))
        return result


class _DeviceLauncher(Launcher):
    """A launcher on a GPU.

    After a launch on CUDA, the context refers to device memory that Taichi has freed: each launch needs a new context. If no
    array is on the host, the calls that set its arguments are computed once: computing them takes a third of a launch's time.
    """

    def _bind(self) -> None:
        """Compute the calls that set the arguments, unless arrays have to be copied at each launch."""
        self._reused_calls = None if any(map(is_staged, self._views)) else self._setter_calls(self._views)

    def __call__(self, *numbers: int) -> None:
        """Launch with ``numbers`` for the first arguments."""

        def launch(values: Sequence[Any]) -> None:
            context = self._launch_context(self._setter_calls(values) if self._reused_calls is None else self._reused_calls)
            for position, number in enumerate(numbers):
                context.set_arg_int((position,), number)
            self._program.launch_kernel(self._machine_code, context)

        if self._reused_calls is None:
            make_copy = taichi_copy if require().device == "vulkan" else None
            launch_staged(self._views, launch, self._program.synchronize, make_copy)
        else:
            launch(self._views)


def _element_axes(annotation: Any) -> int:
    """Number of last axes of an array that are those of its elements."""
    element = getattr(annotation, "dtype", None)
    return element.ndim if isinstance(element, ti.lang.matrix.MatrixType) else 0


def _on_gpu() -> bool:
    return require().device != "cpu"


def _check_argument(name: str, value: Any) -> None:
    """Raise a UserError for an array that kernels cannot read."""
    if isinstance(value, int | float | ti.Ndarray):
        return
    array_device, device = "cpu" if isinstance(value, np.ndarray) else value.device.type, require().device
    if not is_contiguous(value) or array_device not in ("cpu", device):
        raise UserError(f"{name} is not contiguous, or is on {array_device} while kernels run on {device}: convert it")
