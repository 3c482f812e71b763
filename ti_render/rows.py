"""Broadcasting of rows over images: image m of M reads row m n // M of an input of n rows, where n divides M."""

from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3


@ti.func
def row_of(m, n, images):
    """Row, out of ``n``, that serves image ``m`` of ``images``."""
    return m * n // images


@ti.func
def is_finite(x):
    """Whether ``x`` is neither nan nor infinite."""
    return not (ti.math.isnan(x) or ti.math.isinf(x))


@ti.func
def has_nonzero(numbers: ti.template()):
    """Whether an entry of a vector or a 3 x 3 matrix is not zero."""
    result = False
    if ti.static(len(numbers.get_shape()) == 1):
        for i in ti.static(range(numbers.get_shape()[0])):
            result = result or numbers[i] != 0
    else:
        for i, k in ti.static(ti.ndrange(3, 3)):
            result = result or numbers[i, k] != 0
    return result


@ti.func
def get3(array: ti.template(), i):
    """Three neighbouring entries of a flat array."""
    return vec3(array[i], array[i + 1], array[i + 2])


@ti.func
def put3(array: ti.template(), i, v):
    """Write three neighbouring entries of a flat array."""
    for k in ti.static(range(3)):
        array[i + k] = v[k]


@ti.func
def add_to3(array: ti.template(), i, v):
    """Add to three neighbouring entries of a flat array that no other thread writes."""
    for k in ti.static(range(3)):
        array[i + k] = array[i + k] + v[k]
