"""Vectors of neighbouring numbers, one for each lane of the processor's vector units: load, store, and functions of them.

In a kernel that is compiled ``with_vector_code``, arithmetic of a ``ti.Vector`` of LANES numbers becomes one vector instruction.
Taichi 1.7.4 then compiles + - * / of vectors, square root, min, max, comparisons and ``ti.select``; the sign in front of a
vector, -=, abs, floor, exp, log and casts end the process. Branches take place for all lanes together: a lane is left out by
``ti.select``. In such a kernel, vectors in space have no sign in front and no -= either.
"""

from typing import Any

import numpy as np

from ti_sim.base.runtime import ti
from ti_sim.base.vecmath import mat3, vec3

# 32-byte vectors of f32: longer ones are no faster here, as a row of pixels of a small face has few pixels.
LANES = 8

# Argument of a kernel in single precision: an array [n, LANES] of vectors, each of which is loaded and stored by one instruction,
# from ``make_lane_array``.
LANE_ARRAY = ti.types.ndarray(dtype=ti.types.vector(LANES, ti.f32), ndim=1)

# Least argument of ``exp_lanes``, whose value is 2e-14.
MIN_LANE_EXPONENT = -31.5


def make_lane_array(count: int) -> np.ndarray:
    """Zeros [count, LANES] float32 for a LANE_ARRAY, at an address that vector instructions need."""
    vector_bytes = 4 * LANES
    memory = np.zeros((count + 1) * vector_bytes, dtype=np.uint8)
    start = -memory.ctypes.data % vector_bytes
    return memory[start : start + count * vector_bytes].view(np.float32).reshape(count, LANES)


class LaneNumber:
    """A number in lanes as an argument of a ``differentiable`` function, where a bare vector is one in space.

    Attributes:
        value: the vector of lanes.
    """

    _data_oriented = True  # lets a kernel keep it in a variable
    _is_wrapped_kernel = True  # lets a kernel call it without a warning

    def __init__(self, value: Any) -> None:
        self.value = value


class LaneVector:
    """A short vector in space whose components are vectors of lanes, while a kernel is compiled.

    The other operand of + - and ``dot`` may be a vector in space without lanes; that of * is a number, with or without lanes.
    ``b = a`` gives the vector a second name: make a copy, ``b = a * 1.0``, where one of them changes.

    Attributes:
        entries: the components.
    """

    _data_oriented = True
    _is_wrapped_kernel = True

    def __init__(self, *entries: Any) -> None:
        # Local variables: an expression would be computed again wherever it is used.
        self.entries = [ti.lang.impl.expr_init(entry) for entry in entries]

    def __getitem__(self, i: int) -> Any:
        return self.entries[i]

    def __add__(self, other: Any) -> "LaneVector":
        return LaneVector(*[a + b for a, b in zip(self.entries, components(other), strict=True)])

    def __sub__(self, other: Any) -> "LaneVector":
        return LaneVector(*[a - b for a, b in zip(self.entries, components(other), strict=True)])

    def __mul__(self, factor: Any) -> "LaneVector":
        return LaneVector(*[a * factor for a in self.entries])

    def _assign(self, other: Any) -> None:
        """Taichi's hook of an assignment to a variable of a kernel: the variable keeps this object."""
        for target, value in zip(self.entries, components(other), strict=True):
            target._assign(value)

    def _augassign(self, other: Any, operation: str) -> None:
        """Taichi's hook of += and -=; those of a vector of lanes take no number without lanes, and do not compile for -=."""
        for target, value in zip(self.entries, components(other), strict=True):
            target._assign(target + value if operation == "Add" else target - value)

    def dot(self, other: Any) -> Any:
        """Dot product, in lanes."""
        products = [a * b for a, b in zip(self.entries, components(other), strict=True)]
        return sum(products[1:], products[0])

    def by_components(self, other: Any) -> "LaneVector":
        """Product component by component."""
        return LaneVector(*[a * b for a, b in zip(self.entries, components(other), strict=True)])

    dot._is_wrapped_kernel = by_components._is_wrapped_kernel = True


class LaneMatrix:
    """A 3 x 3 matrix in space whose entries are vectors of lanes, while a kernel is compiled.

    The other operand of + and - is a matrix of this kind; that of * is a number, with or without lanes, on the right; that of @ a
    matrix of this kind or a ``LaneVector``.

    Attributes:
        entries: the nine entries, row by row.
    """

    _data_oriented = True
    _is_wrapped_kernel = True

    def __init__(self, *entries: Any) -> None:
        self.entries = [ti.lang.impl.expr_init(entry) for entry in entries]

    def __getitem__(self, index: tuple[int, int]) -> Any:
        return self.entries[3 * index[0] + index[1]]

    def __add__(self, other: "LaneMatrix") -> "LaneMatrix":
        return LaneMatrix(*[a + b for a, b in zip(self.entries, other.entries, strict=True)])

    def __sub__(self, other: "LaneMatrix") -> "LaneMatrix":
        return LaneMatrix(*[a - b for a, b in zip(self.entries, other.entries, strict=True)])

    def __mul__(self, factor: Any) -> "LaneMatrix":
        return LaneMatrix(*[a * factor for a in self.entries])

    def matrix_product(self, other: Any) -> Any:
        """The product by @, see ``ti_sim.base.matrix_products``."""
        if isinstance(other, LaneVector):
            return LaneVector(*[_sum_of_products([self[i, k] for k in range(3)], other.entries) for i in range(3)])
        columns = [[other[k, j] for k in range(3)] for j in range(3)]
        return LaneMatrix(*[_sum_of_products([self[i, k] for k in range(3)], columns[j]) for i in range(3) for j in range(3)])

    def _assign(self, other: "LaneMatrix") -> None:
        """Taichi's hook of an assignment to a variable of a kernel: the variable keeps this object."""
        for target, value in zip(self.entries, other.entries, strict=True):
            target._assign(value)

    def _augassign(self, other: "LaneMatrix", operation: str) -> None:
        """Taichi's hook of += and -=."""
        for target, value in zip(self.entries, other.entries, strict=True):
            target._assign(target + value if operation == "Add" else target - value)

    def transpose(self) -> "LaneMatrix":
        """The transpose."""
        return LaneMatrix(*[self[j, i] for i in range(3) for j in range(3)])

    transpose._is_wrapped_kernel = True


def _sum_of_products(first: list[Any], second: list[Any]) -> Any:
    return first[0] * second[0] + first[1] * second[1] + first[2] * second[2]


def matrix_like(matrix: Any, *entries: Any) -> Any:
    """A 3 x 3 matrix from its entries, row by row, while a kernel is compiled: in lanes where ``matrix`` is."""
    return LaneMatrix(*entries) if isinstance(matrix, LaneMatrix) else mat3(*entries)


def vector_like(matrix: Any, *entries: Any) -> Any:
    """A 3-vector from its components, while a kernel is compiled: in lanes where ``matrix`` is."""
    return LaneVector(*entries) if isinstance(matrix, LaneMatrix) else vec3(*entries)


matrix_like._is_wrapped_kernel = vector_like._is_wrapped_kernel = True


def components(x: Any) -> list[Any]:
    """Components of a vector in space, while a kernel is compiled."""
    if isinstance(x, LaneVector):
        return list(x.entries)
    if isinstance(x, ti.Matrix):
        return [x[i] for i in range(x.n)]
    builder = ti.lang.impl.get_runtime().compiling_callable.ast_builder()
    return [ti.lang.impl.expr_init(ti.lang.impl.subscript(builder, x, i)) for i in range(x.get_shape()[0])]


def is_in_lanes(x: Any) -> bool:
    """Whether a number of a kernel has a value for each lane."""
    return isinstance(x, ti.Matrix) or (isinstance(x, ti.lang.expr.Expr) and x.is_tensor())


@ti.func
def interpolate_lanes(matrix: ti.template(), weights: ti.template()):
    """Product of a matrix with three columns and a ``LaneVector``."""
    return LaneVector(
        matrix[0, 0] * weights[0] + matrix[0, 1] * weights[1] + matrix[0, 2] * weights[2],
        matrix[1, 0] * weights[0] + matrix[1, 1] * weights[1] + matrix[1, 2] * weights[2],
        matrix[2, 0] * weights[0] + matrix[2, 1] * weights[1] + matrix[2, 2] * weights[2],
    )


@ti.func
def transposed_lanes(matrix: ti.template(), x: ti.template()):
    """Product of the transpose of a matrix with three rows and a ``LaneVector``."""
    return LaneVector(
        matrix[0, 0] * x[0] + matrix[1, 0] * x[1] + matrix[2, 0] * x[2],
        matrix[0, 1] * x[0] + matrix[1, 1] * x[1] + matrix[2, 1] * x[2],
        matrix[0, 2] * x[0] + matrix[1, 2] * x[1] + matrix[2, 2] * x[2],
    )


@ti.func
def zero_lane_vector():
    """The vector in space (0, 0, 0) in every lane."""
    return LaneVector(constant_lanes(0.0), constant_lanes(0.0), constant_lanes(0.0))


@ti.func
def zero_lane_vector2():
    """The vector in the plane (0, 0) in every lane."""
    return LaneVector(constant_lanes(0.0), constant_lanes(0.0))


@ti.func
def lane_numbers():
    """The vector 0, 1, 2, ..."""
    return ti.Vector([float(lane) for lane in range(LANES)])


@ti.func
def constant_lanes(value):
    """The vector of one number."""
    return ti.Vector([value for _ in range(LANES)])


@ti.func
def max_lanes(a, b):
    """The larger of each two numbers: one instruction, where ``ti.max`` of vectors takes three (for NaN)."""
    return ti.select(a > b, a, b)


@ti.func
def min_lanes(a, b):
    """The smaller of each two numbers."""
    return ti.select(a < b, a, b)


@ti.func
def abs_lanes(a):
    """The magnitudes."""
    return max_lanes(a, 0.0 - a)


@ti.func
def load_lanes(array: ti.template(), first):
    """Neighbouring entries of a flat array."""
    return ti.Vector([array[first + lane] for lane in range(LANES)])


@ti.func
def store_lanes(array: ti.template(), first, lanes):
    """Write neighbouring entries of a flat array."""
    for lane in ti.static(range(LANES)):
        array[first + lane] = lanes[lane]


@ti.func
def add_lanes(array: ti.template(), first, lanes):
    """Add to neighbouring entries of a flat array that no other thread writes."""
    store_lanes(array, first, load_lanes(array, first) + lanes)


@ti.func
def exp_lanes(x):
    """exp(x) for MIN_LANE_EXPONENT <= x <= 0, to rounding in single precision.

    exp(-k) of the binary digits k = 16, 8, ... 1/2 of -x are multiplied; the rest is a Taylor polynomial.
    """
    factor = constant_lanes(1.0)
    for digit, exp_of_digit in ti.static(_EXPONENTIALS):
        is_below = x < -digit
        factor = ti.select(is_below, factor * exp_of_digit, factor)
        x = ti.select(is_below, x + digit, x)
    return factor * (
        1.0 + x * (1.0 + x * (0.5 + x * (1 / 6 + x * (1 / 24 + x * (1 / 120 + x * (1 / 720 + x * (1 / 5040)))))))
    )


@ti.func
def log_lanes(x):
    """log(x) for 1e-9 <= x <= 1.3, to rounding in single precision.

    x is multiplied by powers of two until it is at least 1/2; the rest is 2 artanh(t) with t = (x - 1) / (x + 1).
    """
    exponent = constant_lanes(0.0)
    for digit in ti.static((16, 8, 4, 2, 1)):
        is_below = x < 0.5**digit
        exponent = ti.select(is_below, exponent - digit, exponent)
        x = ti.select(is_below, x * 2.0**digit, x)
    is_below = x < 0.7071067811865476
    exponent = ti.select(is_below, exponent - 0.5, exponent)
    x = ti.select(is_below, x * 1.4142135623730951, x)
    t = (x - 1.0) / (x + 1.0)
    v = t * t
    return exponent * 0.6931471805599453 + 2.0 * t * (1.0 + v * (1 / 3 + v * (1 / 5 + v * (1 / 7 + v * (1 / 9)))))


# exp(-k) for the binary digits k.
_EXPONENTIALS = (
    (16.0, 1.1253517471925912e-07), (8.0, 3.3546262790251185e-04), (4.0, 1.8315638888734179e-02),
    (2.0, 1.3533528323661270e-01), (1.0, 3.6787944117144233e-01), (0.5, 6.0653065971263342e-01),
)  # fmt: skip


@ti.func
def atan2_lanes(y, x):
    """Angle of the points (x, y) with y >= 0, in [0, pi], to rounding in single precision; 0 for the origin.

    The arctangent of t <= tan(pi / 8) is a polynomial (Cephes, atanf); beyond, atan(t) = pi / 4 + atan((t - 1) / (t + 1)).
    """
    size = abs_lanes(x)
    larger, smaller = max_lanes(size, y), min_lanes(size, y)
    t = smaller / max_lanes(larger, constant_lanes(1e-30))
    is_steep = t > 0.41421356237309503
    u = ti.select(is_steep, (t - 1.0) / (t + 1.0), t)
    v = u * u
    angle = (((8.05374449538e-2 * v - 1.38776856032e-1) * v + 1.99777106478e-1) * v - 3.33329491539e-1) * v * u + u
    angle = ti.select(is_steep, angle + 0.7853981633974483, angle)
    angle = ti.select(y > size, 1.5707963267948966 - angle, angle)
    return ti.select(x < 0.0, 3.141592653589793 - angle, angle)
