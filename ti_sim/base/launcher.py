"""Repeated launches of one kernel with low overhead."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ti_sim.base.arrays import is_contiguous, kernel_view
from ti_sim.base.bundles import flat
from ti_sim.base.errors import UserError
from ti_sim.base.runtime import require, ti
from ti_sim.base.staging import is_staged, launch_staged


class Launcher:
    """A kernel with its arguments bound, for repeated launches that change only its first arguments, which are integers.

    A kernel call costs about 5 us per array argument. A launch of this object sets the integers only. On a GPU it sets all
    arguments again, and copies host arrays there and back.
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
        named = [
            (slot.name, view)
            for slot, view in zip(primal.arguments[integers:], views, strict=True)
            if not isinstance(slot.annotation, ti.template)
        ]
        for name, view in named:
            _check(name, view)
        self._integers, self._views = integers, [view for _, view in named]
        self._code = self._program.compile_kernel(self._program.config(), self._program.get_device_caps(), self._compiled)
        self._bind()

    def _bind(self) -> None:
        self._context = self._context_of(self._settings(self._views))

    def __call__(self, *numbers: int) -> None:
        """Launch with ``numbers`` for the first arguments."""
        for position, number in enumerate(numbers):
            self._context.set_arg_int((position,), number)
        self._program.launch_kernel(self._code, self._context)

    def _context_of(self, settings: Sequence[tuple[str, tuple[Any, ...]]]) -> Any:
        """What a launch with these settings for the arguments after the integers reads."""
        context = self._compiled.make_launch_context()
        for setter, arguments in settings:
            getattr(context, setter)(*arguments)
        return context

    def _settings(self, values: Sequence[Any]) -> list[tuple[str, tuple[Any, ...]]]:
        """Calls that set the arguments after the integers to these values: methods of a context, and what each is given."""
        result: list[tuple[str, tuple[Any, ...]]] = []
        for position, value in enumerate(values, self._integers):
            if isinstance(value, int):
                result.append(("set_arg_int", ((position,), value)))
            elif isinstance(value, float):
                result.append(("set_arg_float", ((position,), value)))
            elif isinstance(value, ti.Ndarray):
                result.append(("set_arg_ndarray", ((position,), value.arr)))
            else:
                address = int(value.ctypes.data if isinstance(value, np.ndarray) else value.data_ptr())
                result.append(("set_arg_external_array_with_shape", ((position,), address, value.nbytes, tuple(value.shape), 0)))
        return result


class _DeviceLauncher(Launcher):
    """A launcher on a GPU.

    After a launch on CUDA, the context refers to device memory that Taichi has freed: each launch needs a context of its own.
    Where no array is on the host, what it is given stays the same and is kept: finding that takes a third of a launch's time.
    """

    def _bind(self) -> None:
        """Keep the settings of a context, unless arrays have to be copied."""
        self._kept = None if any(map(is_staged, self._views)) else self._settings(self._views)

    def __call__(self, *numbers: int) -> None:
        """Launch with ``numbers`` for the first arguments."""

        def launch(values: Sequence[Any]) -> None:
            context = self._context_of(self._settings(values) if self._kept is None else self._kept)
            for position, number in enumerate(numbers):
                context.set_arg_int((position,), number)
            self._program.launch_kernel(self._code, context)

        if self._kept is None:
            launch_staged(self._views, launch, self._program.synchronize)
        else:
            launch(self._views)


def _on_gpu() -> bool:
    return require().device != "cpu"


def _check(name: str, value: Any) -> None:
    """Raise a UserError for an array that kernels cannot read."""
    if isinstance(value, int | float | ti.Ndarray):
        return
    array_device, device = "cpu" if isinstance(value, np.ndarray) else value.device.type, require().device
    if not is_contiguous(value) or array_device not in ("cpu", device):
        raise UserError(f"{name} is not contiguous, or is on {array_device} while kernels run on {device}: convert it")
