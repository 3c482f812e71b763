"""Kernels that copy and add whole arrays."""

from ti_sim.base.runtime import ti


@ti.kernel
def copy(source: ti.types.ndarray(), target: ti.types.ndarray()):
    """target = source, element by element (same shape)."""
    for index in ti.grouped(source):
        target[index] = source[index]


@ti.kernel
def accumulate(source: ti.types.ndarray(), target: ti.types.ndarray()):
    """target += source, element by element (same shape)."""
    for index in ti.grouped(source):
        target[index] = target[index] + source[index]
