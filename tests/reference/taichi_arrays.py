"""Arrays of Taichi's in tests of kernels and tapes: made from numpy or torch, read back, and summed on a tape."""

import numpy as np
import torch

from ti_sim.base.runtime import ti


def taichi_array(values: np.ndarray | torch.Tensor, *, needs_grad: bool = False) -> ti.Ndarray:
    """A copy: float32 and float64 stay what they are, integers become int32."""
    values = values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else values
    dtype = {"float32": ti.f32, "float64": ti.f64}.get(values.dtype.name, ti.i32)
    array = ti.ndarray(dtype, values.shape, needs_grad=needs_grad)
    array.from_numpy(np.ascontiguousarray(values))
    return array


def taichi_zeros(*shape: int) -> ti.Ndarray:
    """Zeros in float64, with a gradient."""
    return taichi_array(np.zeros(shape), needs_grad=True)


def as_numpy(array: object) -> np.ndarray:
    """What an array of numpy, torch or Taichi holds."""
    if isinstance(array, ti.Ndarray):
        return array.to_numpy()
    return array.detach().cpu().numpy() if isinstance(array, torch.Tensor) else np.asarray(array)


@ti.kernel
def weighted_sum(values: ti.types.ndarray(), weights: ti.types.ndarray(), loss: ti.types.ndarray()):
    """Adds to loss[0] the sum of weights * values, of any one shape; differentiated by Taichi."""
    for index in ti.grouped(values):
        loss[0] += weights[index] * values[index]
