"""Repeated launches of one kernel with low overhead."""

from typing import Any

import numpy as np

from ti_sim.base.arrays import Array, is_contiguous, kernel_view
from ti_sim.base.bundles import flat
from ti_sim.base.errors import UserError
from ti_sim.base.runtime import require, ti


class Launcher:
    """A kernel with its arguments bound, for repeated launches that change only its first arguments, which are integers.

    A kernel call costs about 5 us per array argument. A launch of this object sets the integers only.
    """

    def __init__(self, kernel: Any, *arguments: Any, integers: int = 1) -> None:
        """Compile the kernel and set its arguments.

        Args:
            kernel: a ti.kernel whose first ``integers`` arguments are ints.
            arguments: the other arguments in order: arrays, bundles, ints, floats, values of ti.template(). Arrays must not move
                in memory; this object keeps references to them.

        Raises:
            UserError: an array is not contiguous, or is on a device that kernels do not run on.
        """
        device = require().device
        primal, arguments = kernel._primal, flat(*arguments)
        self._arrays = [kernel_view(argument) if hasattr(argument, "shape") else argument for argument in arguments]
        self._program = ti.lang.impl.get_runtime().prog
        compiled = primal.compiled_kernels[primal.ensure_compiled(*[0] * integers, *self._arrays)]
        self._context = compiled.make_launch_context()
        at = integers
        for value, slot in zip(self._arrays, primal.arguments[integers:], strict=True):
            if isinstance(slot.annotation, ti.template):
                continue
            if isinstance(value, int):
                self._context.set_arg_int((at,), value)
            elif isinstance(value, float):
                self._context.set_arg_float((at,), value)
            elif isinstance(value, ti.Ndarray):
                self._context.set_arg_ndarray((at,), value.arr)
            else:
                self._set_memory(at, value, device, slot.name)
            at += 1
        self._code = self._program.compile_kernel(self._program.config(), self._program.get_device_caps(), compiled)

    def __call__(self, *numbers: int) -> None:
        """Launch with ``numbers`` for the first arguments."""
        for at, number in enumerate(numbers):
            self._context.set_arg_int((at,), number)
        self._program.launch_kernel(self._code, self._context)

    def _set_memory(self, at: int, array: Array, device: str, name: str) -> None:
        """Set a numpy array or a torch tensor as argument."""
        if isinstance(array, np.ndarray):
            place, address = "cpu", array.ctypes.data
        else:
            place, address = array.device.type, array.data_ptr()
        if not is_contiguous(array) or place not in ("cpu", device):
            raise UserError(f"{name} is not contiguous, or is on {place} while kernels run on {device}: convert it")
        self._context.set_arg_external_array_with_shape((at,), int(address), array.nbytes, tuple(array.shape), 0)
