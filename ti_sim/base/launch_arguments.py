"""Arguments of a kernel launch that the fast path supports (``fast_launch``): their kind, and how they are set in a context."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

ArrayKey = tuple[int, tuple[int, ...]]  # memory address and shape
_TEMPLATE, _ARRAY, _REAL, _INTEGER = range(4)
_TEMPLATE_VALUE_TYPES = frozenset((bool, int, float, str, type(None)))  # that identify a specialization by their value
_INTEGERS, _NUMBERS = (int, np.integer), (float, int, np.floating, np.integer)
_MAX_ARGUMENTS = 64
_MAX_ARRAY_SIZE = np.iinfo(np.int32).max


class Parameters(NamedTuple):
    """Parameters of a kernel by kind: their indices, and those without templates their positions in launch contexts."""

    count: int
    templates: tuple[int, ...]
    arrays: tuple[tuple[int, int], ...]
    reals: tuple[tuple[int, int], ...]
    integers: tuple[tuple[int, int], ...]


class Arguments(NamedTuple):
    """Arguments of a launch.

    Attributes:
        kind: everything that the compiled kernel can depend on.
        arrays: memory address and shape of each array.
    """

    kind: tuple[Any, ...]
    arrays: list[ArrayKey]


def _address_reader() -> Callable[[np.ndarray], int]:
    """Function that returns the address of the memory of a numpy array.

    ``array.ctypes.data`` takes 1.4 us. The address is the first member of an array after the header of Python objects, in all
    releases of numpy, and is read there (0.2 us), where a test array confirms it.
    """
    header_size, word_at = object.__basicsize__, ctypes.c_size_t.from_address

    def read(array: np.ndarray) -> int:
        return word_at(id(array) + header_size).value

    sample = np.zeros(3)[1:]
    is_right = sys.implementation.name == "cpython" and read(sample) == sample.ctypes.data
    return read if is_right else lambda array: array.ctypes.data


_data_address = _address_reader()


def parameters_of(kernel_impl: ModuleType, kernel: Any) -> Parameters | None:
    """Parameters of a kernel; None if the fast path does not support one of them, or the kernel returns something."""
    kinds = [_parameter_kind(kernel_impl, argument.annotation) for argument in kernel.arguments]
    if None in kinds or len(kinds) - kinds.count(_TEMPLATE) > _MAX_ARGUMENTS or kernel.return_type is not None:
        return None
    indices = [index for index, kind in enumerate(kinds) if kind != _TEMPLATE]
    pairs = {kind: [] for kind in (_ARRAY, _REAL, _INTEGER)}
    for position, index in enumerate(indices):
        pairs[kinds[index]].append((index, position))
    templates = tuple(index for index, kind in enumerate(kinds) if kind == _TEMPLATE)
    return Parameters(len(kinds), templates, *map(tuple, pairs.values()))


def _parameter_kind(kernel_impl: ModuleType, annotation: Any) -> int | None:
    types = kernel_impl.primitive_types
    if isinstance(annotation, kernel_impl.template):
        return _TEMPLATE
    if isinstance(annotation, kernel_impl.ndarray_type.NdarrayType):
        return _ARRAY if annotation.dtype is None or id(annotation.dtype) in types.type_ids else None
    if id(annotation) in types.real_type_ids:
        return _REAL
    is_signed_integer = id(annotation) in types.integer_type_ids and kernel_impl.is_signed(kernel_impl.cook_dtype(annotation))
    return _INTEGER if is_signed_integer else None


def read_arguments(args: Sequence[Any], parameters: Parameters, *, on_cuda: bool) -> Arguments | None:
    """Kind and arrays of the arguments of a launch; None if one of them is not supported, or is a host array on a GPU."""
    count, templates, array_indices, _reals, _integers = parameters
    if len(args) != count:
        return None
    kind: list[Any] = []
    for index in templates:
        value = args[index]
        if type(value) not in _TEMPLATE_VALUE_TYPES:
            return None
        kind += (type(value), value)
    arrays, torch = [], sys.modules.get("torch")
    for index, _position in array_indices:
        value = args[index]
        if type(value) is np.ndarray:
            if on_cuda or not value.flags.c_contiguous:
                return None
            address = _data_address(value)
        elif torch is None or not isinstance(value, torch.Tensor):
            return None
        elif not _is_on_device(value, on_cuda) or value.requires_grad or value.grad is not None or not value.is_contiguous():
            return None
        else:
            address = value.data_ptr()
        kind += (value.dtype, value.ndim)
        arrays.append((address, value.shape))
    return Arguments(tuple(kind), arrays)


def _is_on_device(tensor: Any, on_cuda: bool) -> bool:
    return tensor.is_cuda if on_cuda else tensor.is_cpu


def set_arguments(
    context: Any, args: Sequence[Any], parameters: Parameters, arrays: list[ArrayKey], set_arrays: Sequence[ArrayKey]
) -> bool:
    """Set the arguments of a launch; return False, with some of them set, if one is not supported.

    Args:
        context: launch context.
        args: arguments of the launch.
        parameters: of the kernel.
        arrays: address and shape of the arrays among ``args``.
        set_arrays: arrays that are set in the context; empty in a new one.
    """
    _count, _templates, array_indices, reals, integers = parameters
    if arrays != set_arrays:
        previous = set_arrays or [None] * len(arrays)
        for (index, position), array, previous_array in zip(array_indices, arrays, previous, strict=True):
            if array != previous_array:
                value, (address, shape) = args[index], array
                byte_count = value.nbytes
                if byte_count > _MAX_ARRAY_SIZE * value.itemsize:
                    return False
                context.set_arg_external_array_with_shape((position,), address, byte_count, shape, 0)
    for index, position in integers:
        value = args[index]
        if not isinstance(value, _INTEGERS):
            return False
        context.set_arg_int((position,), int(value))
    for index, position in reals:
        value = args[index]
        if not isinstance(value, _NUMBERS):
            return False
        context.set_arg_float((position,), float(value))
    return True
