"""Array containers that kernels accept: numpy arrays, torch tensors, Taichi ndarrays.

The library allocates results in the container of its inputs. A torch program stays in torch without a copy, and a program without
torch never imports it: torch tensors are recognised by their methods.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Annotated, Any

import numpy as np

from ti_sim.base.errors import UserError
from ti_sim.base.fast_launch import taichi_copy
from ti_sim.base.runtime import require, ti
from ti_sim.base.staging import DEVICE

Array = Annotated[Any, ti.types.ndarray()]  # numpy.ndarray | torch.Tensor | ti.Ndarray, C-contiguous
_NOT_TORCH = (np.ndarray, ti.Ndarray)


def zeros_in_same_library(like: Array, shape: tuple[int, ...]) -> Array:
    """Real zeros of the working precision in the container and on the device of ``like``.

    Args:
        like: array whose container and device the result gets.
        shape: shape of the result.
    """
    runtime = require()
    if isinstance(like, np.ndarray):
        return np.zeros(shape, dtype=runtime.numpy_dtype)
    if isinstance(like, ti.Ndarray):
        result = ti.ndarray(dtype=ti.f64 if runtime.precision == "f64" else ti.f32, shape=shape)
        result.fill(0)
        return result
    like = like.detach().double() if runtime.precision == "f64" else like.detach().float()
    return _torch_zeros(like, shape)


def _torch_zeros(like: Array, shape: tuple[int, ...]) -> Array:
    """Zeros with the dtype and device of a tensor. On the CPU numpy fills them: torch would start its own threads, which then
    spin on the cores that the kernels need.
    """
    if like.device.type != "cpu":
        return like.new_zeros(shape)
    result = like.new_empty(shape)
    result.numpy().fill(0)
    return result


def empty_in_same_library(like: Array, shape: tuple[int, ...]) -> Array:
    """Like ``zeros_in_same_library``, but uninitialised: for arrays that a kernel fills."""
    runtime = require()
    if isinstance(like, np.ndarray):
        return np.empty(shape, dtype=runtime.numpy_dtype)
    if isinstance(like, ti.Ndarray):
        return ti.ndarray(dtype=ti.f64 if runtime.precision == "f64" else ti.f32, shape=shape)
    # The dtype of ``like`` is the working precision, because inputs are checked before.
    return like.detach().new_empty(shape)


def int_zeros_in_same_library(like: Array, shape: tuple[int, ...]) -> Array:
    """32-bit integer zeros in the container and on the device of ``like``."""
    if isinstance(like, np.ndarray):
        return np.zeros(shape, dtype=np.int32)
    if isinstance(like, ti.Ndarray):
        result = ti.ndarray(dtype=ti.i32, shape=shape)
        result.fill(0)
        return result
    return like.detach().new_zeros(shape, dtype=sys.modules["torch"].int32)


def int_empty_in_same_library(like: Array, shape: tuple[int, ...]) -> Array:
    """Like ``int_zeros_in_same_library``, but uninitialised: for arrays that a kernel fills."""
    if isinstance(like, np.ndarray):
        return np.empty(shape, dtype=np.int32)
    if isinstance(like, ti.Ndarray):
        return ti.ndarray(dtype=ti.i32, shape=shape)
    return like.detach().new_empty(shape, dtype=sys.modules["torch"].int32)


def kernel_view(array: Array) -> Array:
    """The form of ``array`` that is passed to kernels.

    A torch tensor on the CPU becomes a numpy view of the same memory: Taichi takes half the time to pass it.
    """
    if isinstance(array, _NOT_TORCH) or not array.is_cpu:
        return array
    return array.detach().numpy()


def in_same_library(like: Array, array: Array) -> Array:
    """``array``, a result of kernels, in the container of ``like``; the inverse of ``kernel_view``."""
    if isinstance(array, np.ndarray) and not isinstance(like, np.ndarray | ti.Ndarray):
        return sys.modules["torch"].from_numpy(array)
    return array


def ints_in_same_library(like: Array, values: np.ndarray) -> Array:
    """The integers ``values`` as int32 in the container and on the device of ``like``."""
    result = int_zeros_in_same_library(like, values.shape)
    return _filled(result, np.ascontiguousarray(values, dtype=np.int32))


def reals_in_same_library(like: Array, values: np.ndarray) -> Array:
    """The numbers ``values`` in the working precision, in the container and on the device of ``like``."""
    result = zeros_in_same_library(like, values.shape)
    return _filled(result, np.ascontiguousarray(values, dtype=require().numpy_dtype))


def to_numpy(array: Array) -> np.ndarray:
    """A numpy view or copy of ``array``."""
    if isinstance(array, np.ndarray):
        return array
    if isinstance(array, ti.Ndarray):
        return array.to_numpy()
    return array.detach().cpu().numpy()


def doubles_in_same_library(like: Array, values: np.ndarray) -> Array:
    """The numbers ``values`` in double precision, in the container and on the device of ``like``."""
    values = np.ascontiguousarray(values, dtype=np.float64)
    if isinstance(like, np.ndarray):
        return values
    if isinstance(like, ti.Ndarray):
        return _filled(ti.ndarray(dtype=ti.f64, shape=values.shape), values)
    return like.detach().new_tensor(values, dtype=sys.modules["torch"].float64)


def device_array(values: np.ndarray) -> Array:
    """A copy of a host array that stays on the GPU, in torch or in Taichi; the array itself if kernels run on the CPU.

    Args:
        values: int32, f32 or f64.
    """
    device = require().device
    if device == "cpu" or not values.size:
        return values
    values = np.ascontiguousarray(values)
    if device == "cuda":
        return importlib.import_module("torch").tensor(values, device=DEVICE)
    return taichi_copy(values)


@contextmanager
def flat_view(array: Array) -> Iterator[Array]:
    """Context with the numbers of an array as a flat array for kernels to write to; of a ``ti.Ndarray``, a copy written back.

    A kernel computes an index into an array of several dimensions from its shape, which it loads again after each store.
    """
    if isinstance(array, ti.Ndarray):
        flat = reals_in_same_library(array, array.to_numpy().reshape(-1))
        yield flat
        array.from_numpy(flat.to_numpy().reshape(array.shape))
    else:
        yield array.reshape(-1)


def section(array: Array, index: tuple) -> Array:
    """A contiguous copy of ``array[index]``, in the same container."""
    if isinstance(array, np.ndarray):
        return np.array(array[index], order="C")
    if isinstance(array, ti.Ndarray):
        return reals_in_same_library(array, array.to_numpy()[index])
    return array.detach()[index].clone()


def assign(array: Array, index: tuple, values: Array) -> None:
    """Write ``values`` into ``array[index]``, in any container."""
    if isinstance(array, ti.Ndarray):
        filled = array.to_numpy()
        filled[index] = to_numpy(values)
        array.from_numpy(filled)
    elif isinstance(array, np.ndarray) or array.device.type == "cpu":  # a view: torch would start its own threads
        to_numpy(array)[index] = to_numpy(values)
    else:
        array[index] = values.detach()


def _filled(result: Array, values: np.ndarray) -> Array:
    if isinstance(result, np.ndarray):
        return values
    if isinstance(result, ti.Ndarray):
        if values.size:
            result.from_numpy(values)
        return result
    return result.new_tensor(values)


def is_contiguous(array: Array) -> bool:
    """Whether an array is C-contiguous."""
    if isinstance(array, np.ndarray):
        return bool(array.flags.c_contiguous)
    return isinstance(array, ti.Ndarray) or bool(array.is_contiguous())


@cache
def _name(dtype: Any) -> str:
    return str(dtype)


def check_array(array: Array, name: str, shape: tuple[int, ...], *, double: bool = False) -> None:
    """Raise a UserError unless ``array`` has the given shape and the working precision.

    Args:
        array: any container.
        name: name of the array in error messages.
        shape: expected shape.
        double: whether double precision is needed, whatever the working precision.
    """
    if tuple(array.shape) != tuple(shape):
        raise UserError(f"{name} has shape {tuple(array.shape)}, and {tuple(shape)} is needed")
    precision = "f64" if double else require().precision
    dtypes = {"f32": ("float32", "torch.float32", "f32"), "f64": ("float64", "torch.float64", "f64")}[precision]
    if _name(array.dtype) not in dtypes:
        remedy = "convert it" if double else "convert it, or start the runtime in its precision"
        raise UserError(f"{name} is {array.dtype}, and the {'solver' if double else 'runtime'} works in {precision}: {remedy}")
