"""Kernels of the tests of launches' arguments."""

from ti_sim.base.runtime import ti


@ti.kernel
def scale_and_add(source: ti.types.ndarray(), target: ti.types.ndarray(), factor: ti.f32, shift: ti.i32, shifted: ti.template()):
    """target += factor source, plus shift where ``shifted``."""
    for index in ti.grouped(source):
        target[index] = target[index] + factor * source[index]
        if ti.static(shifted):
            target[index] = target[index] + shift


@ti.kernel
def square(source: ti.types.ndarray(), target: ti.types.ndarray()):
    """target += source^2."""
    for index in ti.grouped(source):
        target[index] += source[index] ** 2


@ti.kernel
def total(source: ti.types.ndarray()) -> float:
    """Sum of an array."""
    result = 0.0
    for index in ti.grouped(source):
        result += source[index]
    return result


@ti.kernel
def length(points: ti.types.ndarray(dtype=ti.math.vec3, ndim=1), lengths: ti.types.ndarray()):
    """Lengths of vectors."""
    for i in points:
        lengths[i] = points[i].norm()


@ti.kernel
def typed(source: ti.types.ndarray(dtype=ti.f32, ndim=1), target: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    """target += source."""
    for i in source:
        target[i] += source[i]


@ti.kernel
def add_twice(count: int, source: ti.types.ndarray(), first: ti.types.ndarray(), second: ti.types.ndarray()):
    """first += source, then second += 10 source."""
    for i in range(count):
        first[i] += source[i]
    for i in range(count):
        second[i] += 10 * source[i]
