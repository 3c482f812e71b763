"""Kernels write to several dimensions through a flat array, in any container."""

import numpy as np
import pytest
import torch

from ti_sim.base.arrays import flat_view, to_numpy
from ti_sim.base.runtime import ti


@ti.kernel
def number_entries(array: ti.types.ndarray()):
    """Add the index of each entry of a flat array."""
    for i in range(array.shape[0]):
        array[i] = array[i] + i


def ndarray(values: np.ndarray) -> ti.Ndarray:
    """A Taichi ndarray with these values."""
    array = ti.ndarray(ti.f64, values.shape)
    array.from_numpy(values)
    return array


@pytest.mark.parametrize("container", [np.array, torch.tensor, ndarray])
def test_a_kernel_writes_to_the_array_behind_a_flat_view(container) -> None:
    array = container(np.full((2, 3, 4), 10.0))
    with flat_view(array) as flat:
        number_entries(flat)
    np.testing.assert_array_equal(to_numpy(array), 10.0 + np.arange(24.0).reshape(2, 3, 4))
