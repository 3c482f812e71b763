"""Fast path for passing the arguments of a kernel launch, at a few microseconds per array.

Taichi takes about 20 us to pass an array, mostly for checks of containers, layouts and devices. That dominates the launch of a
small kernel. Arguments outside the plain cases here take Taichi's own path: tensors with gradients, structures, matrices,
textures, return values, arguments of a wrong type. The compiled code and its results do not change. On a GPU both paths are given
copies of host arrays (``staging``). This module patches ``taichi.lang.kernel_impl`` of the Taichi release in pyproject.toml.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from ti_sim.base.staging import launch_staged

_TEMPLATE, _ARRAY, _REAL, _INTEGER = range(4)
_PLAIN = frozenset((bool, int, float, str, type(None)))  # values of ti.template() that stand for themselves
_MOST_ARGUMENTS = 64
_MOST_NUMBERS = np.iinfo(np.int32).max


def install_fast_launch(kernel_impl: ModuleType) -> None:
    """Replace the lookup of the compiled kernel and the passing of arguments by the fast path, for plain arguments.

    Args:
        kernel_impl: ``taichi.lang.kernel_impl``, patched in place.
    """
    kernel_impl.Kernel.launch_kernel = _plain_launch(kernel_impl, kernel_impl.Kernel.launch_kernel)
    mapper = kernel_impl.TaichiCallableTemplateMapper
    mapper.lookup = _plain_lookup(kernel_impl, mapper.lookup)


def _slots_of(kernel_impl: ModuleType, owner: Any) -> tuple[int, ...]:
    """Kind of each argument of a kernel, cached in ``owner``; empty if one of them is not plain."""
    try:
        return owner.plain_slots
    except AttributeError:
        slots = tuple(_slot(kernel_impl, argument.annotation) for argument in owner.arguments)
        plain = None not in slots and len(slots) - slots.count(_TEMPLATE) <= _MOST_ARGUMENTS
        owner.plain_slots = slots if plain else ()
        return owner.plain_slots


def _slot(kernel_impl: ModuleType, annotation: Any) -> int | None:
    types = kernel_impl.primitive_types
    if isinstance(annotation, kernel_impl.template):
        return _TEMPLATE
    if isinstance(annotation, kernel_impl.ndarray_type.NdarrayType):
        return _ARRAY if annotation.dtype is None or id(annotation.dtype) in types.type_ids else None
    if id(annotation) in types.real_type_ids:
        return _REAL
    signed = id(annotation) in types.integer_type_ids and kernel_impl.is_signed(kernel_impl.cook_dtype(annotation))
    return _INTEGER if signed else None


def _plain_lookup(kernel_impl: ModuleType, original: Callable[..., tuple[int, tuple]]) -> Callable[..., tuple[int, tuple]]:
    """``lookup`` of Taichi's mapper (arguments -> number and features of the compiled kernel), cached by argument types."""

    def lookup(mapper: Any, args: Sequence[Any]) -> tuple[int, tuple]:
        slots = _slots_of(kernel_impl, mapper)
        kinds = _kinds(args, slots) if len(args) == len(slots) else None
        if kinds is None:
            return original(mapper, args)
        try:
            return mapper.plain_kinds[kinds]
        except AttributeError:
            mapper.plain_kinds = {}
        except KeyError:
            pass
        mapper.plain_kinds[kinds] = kind = original(mapper, args)
        return kind

    return lookup


def _kinds(args: Sequence[Any], slots: Sequence[int]) -> tuple | None:
    """Everything that the compiled kernel can depend on; None if an argument is not plain."""
    kinds: list[Any] = []
    for value, slot in zip(args, slots, strict=True):
        kind = type(value)
        if slot == _ARRAY:
            if kind is np.ndarray:
                kinds.append((value.dtype, value.ndim))
            elif _is_tensor(value) and not value.requires_grad:
                kinds.append((value.dtype, value.ndim, "tensor"))
            else:
                return None
        elif slot == _TEMPLATE:
            if kind not in _PLAIN:
                return None
            kinds.append((kind, value))
    return tuple(kinds)


def _plain_launch(kernel_impl: ModuleType, original: Callable[..., Any]) -> Callable[..., Any]:
    """``Kernel.launch_kernel``, with the arguments set by ``_set``, and copies of host arrays on a GPU."""
    impl, cuda = kernel_impl.impl, kernel_impl._ti_core.Arch.cuda

    def launch_kernel(kernel: Any, compiled: Any, *args: Any, staged: bool = False) -> Any:
        program = impl.get_runtime().prog
        config = program.config()
        on_cuda = config.arch == cuda
        if on_cuda and not staged:
            return launch_staged(
                args, lambda arguments: launch_kernel(kernel, compiled, *arguments, staged=True), program.synchronize
            )
        slots = _slots_of(kernel_impl, kernel)
        if len(args) != len(slots) or kernel.return_type is not None or kernel.has_print:
            return original(kernel, compiled, *args)
        context = compiled.make_launch_context()
        if not _set(context, args, slots, on_cuda=on_cuda):
            return original(kernel, compiled, *args)
        try:
            program.launch_kernel(program.compile_kernel(config, program.get_device_caps(), compiled), context)
        except Exception as error:
            raise kernel_impl.handle_exception_from_cpp(error) from None
        return None

    return launch_kernel


def _set(context: Any, args: Sequence[Any], slots: Sequence[int], *, on_cuda: bool) -> bool:
    """Set the arguments of a launch; return False, with some of them set, if one is not plain."""
    position = 0
    for value, slot in zip(args, slots, strict=True):
        if slot == _TEMPLATE:
            continue
        if slot == _ARRAY:
            address = _address(value, on_cuda)
            if address is None:
                return False
            context.set_arg_external_array_with_shape((position,), address, value.nbytes, tuple(value.shape), 0)
        elif slot == _INTEGER:
            if not isinstance(value, int | np.integer):
                return False
            context.set_arg_int((position,), int(value))
        else:
            if not isinstance(value, float | int | np.floating | np.integer):
                return False
            context.set_arg_float((position,), float(value))
        position += 1
    return True


def _address(array: Any, on_cuda: bool) -> int | None:
    """Memory address of a contiguous numpy array, or of a torch tensor without gradient; None for any other array."""
    if type(array) is np.ndarray:
        plain = array.flags.c_contiguous and array.size <= _MOST_NUMBERS
        return array.ctypes.data if plain else None
    if not _is_tensor(array) or array.requires_grad or array.grad is not None or not array.is_contiguous():
        return None
    plain = array.numel() <= _MOST_NUMBERS and (array.device.type == "cpu" or on_cuda)
    return array.data_ptr() if plain else None


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)
