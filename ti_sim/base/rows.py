"""Names of the columns of rows of numbers, and loads of the vectors in them (Taichi functions)."""

from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import vec3, vec4


class Row:
    """Names of the columns of a row of numbers: the first column of each part, the parts' ``names``, and the ``size`` of all.

    ``Row(eye=3, ray=3)`` has ``eye`` 0, ``ray`` 3 and ``size`` 6.
    """

    def __init__(self, **sizes: int) -> None:
        self.names, self.size = tuple(sizes), 0
        for name, size in sizes.items():
            setattr(self, name, self.size)
            self.size += size

    def __getattr__(self, name: str) -> int:
        raise AttributeError(f"a row has no part {name!r}")


POSE = Row(position=3, quaternion=4)  # [m], (x, y, z, w)
TWIST = Row(linear=3, angular=3)  # [m/s], [rad/s]
WRENCH = Row(force=3, torque=3)  # [N], [N m]


@ti.func
def load_vec3(array: ti.template(), b, i, column: ti.template()):
    """Three numbers of row (b, i) of an array, beginning at a column."""
    return vec3(array[b, i, column], array[b, i, column + 1], array[b, i, column + 2])


@ti.func
def store_vec3(array: ti.template(), b, i, column: ti.template(), value):
    """Write three numbers of row (b, i) of an array, beginning at a column."""
    for k in ti.static(range(3)):
        array[b, i, column + k] = value[k]


@ti.func
def add_vec3(array: ti.template(), b, i, column: ti.template(), value):
    """Add to three numbers of row (b, i) of an array that no other thread writes."""
    for k in ti.static(range(3)):
        array[b, i, column + k] = array[b, i, column + k] + value[k]


@ti.func
def load_vec4(array: ti.template(), b, i, column: ti.template()):
    """Four numbers of row (b, i) of an array, beginning at a column."""
    return vec4(array[b, i, column], array[b, i, column + 1], array[b, i, column + 2], array[b, i, column + 3])


@ti.func
def store_vec4(array: ti.template(), b, i, column: ti.template(), value):
    """Write four numbers of row (b, i) of an array, beginning at a column."""
    for k in ti.static(range(4)):
        array[b, i, column + k] = value[k]


@ti.func
def add_vec4(array: ti.template(), b, i, column: ti.template(), value):
    """Add to four numbers of row (b, i) of an array that no other thread writes."""
    for k in ti.static(range(4)):
        array[b, i, column + k] = array[b, i, column + k] + value[k]


@ti.func
def load_slot_vec3(array: ti.template(), b, slot, n, column: ti.template()):
    """3-vector from ``column`` on in row (b, slot, n) of a [B, slots, N, columns] array."""
    return vec3(array[b, slot, n, column], array[b, slot, n, column + 1], array[b, slot, n, column + 2])


@ti.func
def load_slot_vec4(array: ti.template(), b, slot, n, column: ti.template()):
    """4-vector from ``column`` on in row (b, slot, n) of a [B, slots, N, columns] array."""
    return vec4(
        array[b, slot, n, column], array[b, slot, n, column + 1], array[b, slot, n, column + 2], array[b, slot, n, column + 3]
    )
