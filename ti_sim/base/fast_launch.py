"""Fast path for passing the arguments of a kernel launch, at a few microseconds per array.

Taichi takes about 20 us to pass an array, mostly for checks of containers, layouts and devices. That dominates the launch of a
small kernel. Arguments that the fast path does not support take Taichi's own path: tensors with gradients, structures, matrices,
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
_TEMPLATE_VALUE_TYPES = frozenset((bool, int, float, str, type(None)))  # that identify a specialization by their value
_MAX_ARGUMENTS = 64
_MAX_ARRAY_SIZE = np.iinfo(np.int32).max


def install_fast_launch(kernel_impl: ModuleType) -> None:
    """Replace the lookup of the compiled kernel and the passing of arguments by the fast path, for supported arguments.

    Args:
        kernel_impl: ``taichi.lang.kernel_impl``, patched in place.
    """
    kernel_impl.Kernel.launch_kernel = _fast_launch(kernel_impl, kernel_impl.Kernel.launch_kernel)
    mapper = kernel_impl.TaichiCallableTemplateMapper
    mapper.lookup = _cached_lookup(kernel_impl, mapper.lookup)


def _argument_kinds(kernel_impl: ModuleType, owner: Any) -> tuple[int, ...]:
    """Kind of each argument of a kernel, cached in ``owner``; empty if the fast path does not support one of them."""
    try:
        return owner.argument_kinds
    except AttributeError:
        kinds = tuple(_argument_kind(kernel_impl, argument.annotation) for argument in owner.arguments)
        is_supported = None not in kinds and len(kinds) - kinds.count(_TEMPLATE) <= _MAX_ARGUMENTS
        owner.argument_kinds = kinds if is_supported else ()
        return owner.argument_kinds


def _argument_kind(kernel_impl: ModuleType, annotation: Any) -> int | None:
    types = kernel_impl.primitive_types
    if isinstance(annotation, kernel_impl.template):
        return _TEMPLATE
    if isinstance(annotation, kernel_impl.ndarray_type.NdarrayType):
        return _ARRAY if annotation.dtype is None or id(annotation.dtype) in types.type_ids else None
    if id(annotation) in types.real_type_ids:
        return _REAL
    is_signed_integer = id(annotation) in types.integer_type_ids and kernel_impl.is_signed(kernel_impl.cook_dtype(annotation))
    return _INTEGER if is_signed_integer else None


def _cached_lookup(kernel_impl: ModuleType, original: Callable[..., tuple[int, tuple]]) -> Callable[..., tuple[int, tuple]]:
    """``lookup`` of Taichi's mapper (arguments -> number and features of the compiled kernel), cached by argument types."""

    def lookup(mapper: Any, args: Sequence[Any]) -> tuple[int, tuple]:
        argument_kinds = _argument_kinds(kernel_impl, mapper)
        key = _specialization_key(args, argument_kinds) if len(args) == len(argument_kinds) else None
        if key is None:
            return original(mapper, args)
        try:
            return mapper.specializations[key]
        except AttributeError:
            mapper.specializations = {}
        except KeyError:
            pass
        mapper.specializations[key] = specialization = original(mapper, args)
        return specialization

    return lookup


def _specialization_key(args: Sequence[Any], argument_kinds: Sequence[int]) -> tuple | None:
    """Everything that the compiled kernel can depend on; None if an argument is not supported."""
    key: list[Any] = []
    for value, argument_kind in zip(args, argument_kinds, strict=True):
        value_type = type(value)
        if argument_kind == _ARRAY:
            if value_type is np.ndarray:
                key.append((value.dtype, value.ndim))
            elif _is_tensor(value) and not value.requires_grad:
                key.append((value.dtype, value.ndim, "tensor"))
            else:
                return None
        elif argument_kind == _TEMPLATE:
            if value_type not in _TEMPLATE_VALUE_TYPES:
                return None
            key.append((value_type, value))
    return tuple(key)


def _fast_launch(kernel_impl: ModuleType, original: Callable[..., Any]) -> Callable[..., Any]:
    """``Kernel.launch_kernel``, with the arguments set by ``_set_arguments``, and copies of host arrays on a GPU."""
    impl, arch = kernel_impl.impl, kernel_impl._ti_core.Arch

    def launch_kernel(kernel: Any, compiled: Any, *args: Any, staged: bool = False) -> Any:
        program = impl.get_runtime().prog
        config = program.config()
        on_cuda = config.arch == arch.cuda
        if config.arch in (arch.cuda, arch.vulkan) and not staged:
            return launch_staged(
                args,
                lambda arguments: launch_kernel(kernel, compiled, *arguments, staged=True),
                program.synchronize,
                None if on_cuda else taichi_copy,
            )
        argument_kinds = _argument_kinds(kernel_impl, kernel)
        if len(args) != len(argument_kinds) or kernel.return_type is not None or kernel.has_print:
            return original(kernel, compiled, *args)
        context = compiled.make_launch_context()
        if not _set_arguments(context, args, argument_kinds, on_cuda=on_cuda):
            return original(kernel, compiled, *args)
        try:
            program.launch_kernel(program.compile_kernel(config, program.get_device_caps(), compiled), context)
        except Exception as error:
            raise kernel_impl.handle_exception_from_cpp(error) from None
        return None

    return launch_kernel


def taichi_copy(array: np.ndarray) -> Any:
    """A Taichi array with the values of a host array."""
    lang = sys.modules["taichi.lang"]
    copy = lang.impl.ndarray(lang.util.to_taichi_type(array.dtype), array.shape)
    copy.from_numpy(array)
    return copy


def _set_arguments(context: Any, args: Sequence[Any], argument_kinds: Sequence[int], *, on_cuda: bool) -> bool:
    """Set the arguments of a launch; return False, with some of them set, if one is not supported."""
    position = 0
    for value, argument_kind in zip(args, argument_kinds, strict=True):
        if argument_kind == _TEMPLATE:
            continue
        if argument_kind == _ARRAY:
            address = _address(value, on_cuda)
            if address is None:
                return False
            context.set_arg_external_array_with_shape((position,), address, value.nbytes, tuple(value.shape), 0)
        elif argument_kind == _INTEGER:
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
        is_supported = array.flags.c_contiguous and array.size <= _MAX_ARRAY_SIZE
        return array.ctypes.data if is_supported else None
    if not _is_tensor(array) or array.requires_grad or array.grad is not None or not array.is_contiguous():
        return None
    is_supported = array.numel() <= _MAX_ARRAY_SIZE and (array.device.type == "cpu" or on_cuda)
    return array.data_ptr() if is_supported else None


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)
