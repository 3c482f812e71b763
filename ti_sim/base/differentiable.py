"""Straight-line functions with exact derivatives, recorded and expanded while a kernel is compiled.

Taichi differentiates whole kernels of a narrow dialect only. A function marked ``@differentiable`` is plain Python over
``Real`` numbers and ``Vector``s of them; inside a kernel:

    y = f.value(a, b)                      the value
    a_bar, b_bar = f.vjp((a, b), y_bar)    reverse mode: adjoints of the arguments
    y_dot = f.jvp((a, b), (a_dot, b_dot))  forward mode: tangent of the result
    f_at = f.linearize(a, b)               then f_at.value, f_at.vjp(y_bar), f_at.jvp((a_dot, b_dot)): the value is computed once

Arguments and results are scalars or short vectors of the kernel; several results, and several arguments in ``vjp``, are tuples.
Both modes use one table of partial derivatives per operation (Griewank and Walther, Evaluating Derivatives, 2008, ch. 3), so they
agree to rounding. Branches and loops over data are not allowed. Use ``where(condition, a, b)`` instead: its derivative is that of
the selected side, and the other side must also be finite.

Arguments may have a value for each lane of the processor's vector units (``ti_sim.base.lanes``): scalars as a ``LaneNumber``,
vectors as a ``LaneVector``. Results and adjoints that are vectors are then ``LaneVector``s. In lanes, ``exp`` takes arguments
from MIN_LANE_EXPONENT to 0, ``log`` from 1e-9 to 1.3, and there is no sine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ti_sim.base.lanes import (
    MIN_LANE_EXPONENT,
    LaneNumber,
    LaneVector,
    components,
    constant_lanes,
    exp_lanes,
    is_in_lanes,
    log_lanes,
    max_lanes,
)
from ti_sim.base.runtime import ti

_impl = ti.lang.impl


def _local(expression: Any) -> Any:
    """Store the expression in a local variable of the kernel, so that it is computed once."""
    return _impl.expr_init(expression)


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float)


class Real:
    """A recorded scalar of a kernel: its value and its partial derivatives with respect to earlier scalars."""

    def __init__(self, value: Any, parents: Sequence[tuple[Real, Any]] = (), *, active: bool = True) -> None:
        self.value = value
        self.active = active
        self.parents = [(parent, partial) for parent, partial in parents if parent.active]

    def __add__(self, other: Any) -> Any:
        if _is_number(other) and other == 0:
            return self
        return _binary(self, other, lambda a, b: a + b, lambda a, b, y: (1.0, 1.0))

    def __sub__(self, other: Any) -> Any:
        if _is_number(other) and other == 0:
            return self
        return _binary(self, other, lambda a, b: a - b, lambda a, b, y: (1.0, -1.0))

    def __rsub__(self, other: Any) -> Any:
        return _binary(other, self, lambda a, b: a - b, lambda a, b, y: (1.0, -1.0))

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Vector):
            return other * self
        if _is_number(other) and other in (0, 1):
            return self if other == 1 else 0.0
        return _binary(self, other, lambda a, b: a * b, lambda a, b, y: (b, a))

    def __truediv__(self, other: Any) -> Any:
        if _is_number(other):
            return self * (1.0 / other)
        return self * inverse(other)

    def __rtruediv__(self, other: Any) -> Any:
        return inverse(self) * other

    def __neg__(self) -> Any:
        # The sign in front of a vector of lanes does not compile.
        return _unary(self, lambda a: 0.0 - a if is_in_lanes(a) else -a, lambda a, y: -1.0)

    def __gt__(self, other: Any) -> Any:
        return self.value > _value(other)

    def __lt__(self, other: Any) -> Any:
        return self.value < _value(other)

    def __ge__(self, other: Any) -> Any:
        return self.value >= _value(other)

    def __le__(self, other: Any) -> Any:
        return self.value <= _value(other)

    __radd__ = __add__
    __rmul__ = __mul__


class Vector:
    """A short vector of ``Real``s."""

    def __init__(self, entries: Sequence[Any]) -> None:
        self.entries = list(entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, i: int) -> Any:
        return self.entries[i]

    def __add__(self, other: Vector) -> Vector:
        return Vector([a + b for a, b in zip(self.entries, other.entries, strict=True)])

    def __sub__(self, other: Vector) -> Vector:
        return Vector([a - b for a, b in zip(self.entries, other.entries, strict=True)])

    def __mul__(self, factor: Any) -> Vector:
        """Product with a scalar, or element-wise product with a vector."""
        if isinstance(factor, Vector):
            return Vector([a * b for a, b in zip(self.entries, factor.entries, strict=True)])
        return Vector([a * factor for a in self.entries])

    def __neg__(self) -> Vector:
        return Vector([-a for a in self.entries])

    __rmul__ = __mul__

    def dot(self, other: Vector) -> Any:
        """Dot product."""
        return sum((a * b for a, b in zip(self.entries, other.entries, strict=True)), 0.0)

    def cross(self, other: Vector) -> Vector:
        """Cross product of 3-vectors."""
        a, b = self.entries, other.entries
        return Vector([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def _value(x: Any) -> Any:
    return x.value if isinstance(x, Real) else x


def _unary(a: Real, function: Callable, partial: Callable) -> Real:
    y = _local(function(a.value))
    return Real(y, [(a, partial(a.value, y))], active=a.active) if a.active else Real(y, active=False)


def _binary(a: Any, b: Any, function: Callable, partials: Callable) -> Real:
    left, right = _value(a), _value(b)
    y = _local(function(left, right))
    parents = [(x, p) for x, p in zip((a, b), partials(left, right, y), strict=True) if isinstance(x, Real)]
    return Real(y, parents, active=any(x.active for x, _ in parents))


def recorded(value: Any, partials: Sequence[tuple[Any, Any]]) -> Real:
    """A recorded number from a value computed otherwise in the kernel and its partial derivatives.

    Args:
        value: the number.
        partials: pairs of a recorded number or vector and the partial derivative with respect to it.
    """
    parents = [(x, _local(partial)) for pair in partials for x, partial in _zip_entries(*pair)]
    return Real(_local(value), parents, active=any(x.active for x, _ in parents))


def inverse(a: Real) -> Real:
    """1 / a."""
    return _unary(a, lambda x: 1.0 / x, lambda x, y: _local(0.0 - y * y))


def sqrt(a: Real) -> Real:
    """Square root of a positive number."""
    return _unary(a, ti.sqrt, lambda x, y: _local(0.5 / y))


def exp(a: Real) -> Real:
    """Exponential."""
    return _unary(a, _exp, lambda x, y: y)


def _exp(x: Any) -> Any:
    return exp_lanes(max_lanes(x, constant_lanes(MIN_LANE_EXPONENT))) if is_in_lanes(x) else ti.exp(x)


def log(a: Real) -> Real:
    """Natural logarithm of a positive number."""
    return _unary(a, lambda x: log_lanes(x) if is_in_lanes(x) else ti.log(x), lambda x, y: _local(1.0 / x))


def sin(a: Real) -> Real:
    """Sine."""
    return _unary(a, ti.sin, lambda x, y: _local(ti.cos(x)))


def where(condition: Any, a: Any, b: Any) -> Real:
    """``a`` if the condition holds, else ``b``; both must always be finite."""
    one = constant_lanes(1.0) if is_in_lanes(condition) else 1.0
    y = _local(ti.select(condition, _value(a) * one, _value(b) * one))
    parents = []
    if isinstance(a, Real):
        parents.append((a, _local(ti.select(condition, one, one * 0.0))))
    if isinstance(b, Real):
        parents.append((b, _local(ti.select(condition, one * 0.0, one))))
    return Real(y, parents, active=any(x.active for x, _ in parents))


def positive_part(a: Real) -> Real:
    """max(0, a)."""
    return where(a > 0.0, a, 0.0)


def clip(a: Real, low: float, high: float) -> Real:
    """``a`` clamped to [low, high]."""
    return where(a < low, low, where(a > high, high, a))


def smoothstep(t: Real) -> Real:
    """3 t^2 - 2 t^3 with t clamped to [0, 1]: rises from 0 to 1 with zero slope at both ends."""
    clipped = clip(t, 0.0, 1.0)
    return clipped * clipped * (3.0 - 2.0 * clipped)


def sigmoid(a: Real) -> Real:
    """1 / (1 + exp(-a)), with a clamped to [-80, 80]."""
    return inverse(exp(-clip(a, -80.0, 80.0)) + 1.0)


def normalize(v: Vector, *, min_squared: float = 0.0) -> Vector:
    """v / |v|, or zero where |v|^2 is not above ``min_squared``."""
    squared_norm = v.dot(v)
    is_nonzero = squared_norm > min_squared
    length = sqrt(where(is_nonzero, squared_norm, 1.0))
    return v * where(is_nonzero, inverse(length), 0.0)


def _kernel_function(function: Callable) -> Callable:
    """Mark a method as callable in kernels; otherwise Taichi warns about plain functions."""
    function._is_wrapped_kernel = True
    return function


class Linearized:
    """A ``differentiable`` function at one point: its value, and both modes of its derivative."""

    _data_oriented = True  # lets a kernel keep it in a variable

    def __init__(self, function: Callable, arguments: Sequence[Any], active: Sequence[bool]) -> None:
        self.inputs = [_record(x, flag) for x, flag in zip(arguments, active, strict=True)]
        results = function(*self.inputs)
        self.outputs = list(results) if isinstance(results, tuple) else [results]
        self.value = _unpack_single([_unrecord(y, _value) for y in self.outputs])

    @_kernel_function
    def vjp(self, adjoints: Any) -> Any:
        """Adjoints of the arguments (0 for inactive ones) from the adjoints of the results."""
        adjoints = adjoints if len(self.outputs) > 1 else [adjoints]
        bars: dict[int, Any] = {}
        order: list[Real] = []
        visited: set[int] = set()
        for output, adjoint in zip(self.outputs, adjoints, strict=True):
            for node, bar in _zip_entries(output, adjoint):
                if isinstance(node, Real) and node.active:
                    bars[id(node)] = _local(bars[id(node)] + bar) if id(node) in bars else _local(bar * 1.0)
                    _post_order(node, order, visited)
        for node in reversed(order):
            if id(node) not in bars:
                continue
            for parent, partial in node.parents:
                term = _times(bars[id(node)], partial)
                bars[id(parent)] = _local(bars[id(parent)] + term) if id(parent) in bars else _local(term)
        return _unpack_single([_unrecord(x, lambda node: bars.get(id(node), 0.0)) for x in self.inputs])

    @_kernel_function
    def jvp(self, tangents: Any) -> Any:
        """Tangents of the results from the tangents of the arguments (those of inactive arguments are ignored)."""
        tangents = tangents if len(self.inputs) > 1 else [tangents]
        dots: dict[int, Any] = {}
        for argument, tangent in zip(self.inputs, tangents, strict=True):
            for node, dot in _zip_entries(argument, tangent):
                if node.active:
                    dots[id(node)] = dot
        order: list[Real] = []
        visited: set[int] = set()
        for output in self.outputs:
            for node, _ in _zip_entries(output, output):
                if isinstance(node, Real) and node.active:
                    _post_order(node, order, visited)
        for node in order:
            terms = [_times(dots[id(parent)], partial) for parent, partial in node.parents]
            if terms:
                dots[id(node)] = _local(sum(terms[1:], terms[0]))
        return _unpack_single([_unrecord(y, lambda node: dots.get(id(node), 0.0)) for y in self.outputs])


class Differentiable:
    """Result of ``@differentiable`` (see the module docstring)."""

    def __init__(self, function: Callable, constant: Sequence[str]) -> None:
        self.function = function
        self.__doc__ = function.__doc__
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        self.active = [name not in constant for name in names]

    @_kernel_function
    def linearize(self, *arguments: Any) -> Linearized:
        """Record the function at these arguments."""
        return Linearized(self.function, arguments, self.active)

    @_kernel_function
    def value(self, *arguments: Any) -> Any:
        """The results."""
        return Linearized(self.function, arguments, [False] * len(arguments)).value

    @_kernel_function
    def vjp(self, arguments: Any, adjoints: Any) -> Any:
        """Adjoints of the arguments from the adjoints of the results."""
        return self.linearize(*(arguments if len(self.active) > 1 else [arguments])).vjp(adjoints)

    @_kernel_function
    def jvp(self, arguments: Any, tangents: Any) -> Any:
        """Tangents of the results from the tangents of the arguments."""
        return self.linearize(*(arguments if len(self.active) > 1 else [arguments])).jvp(tangents)


def differentiable(*, constant: Sequence[str] = ()) -> Callable[[Callable], Differentiable]:
    """Make a function of scalars and short vectors usable in kernels, together with its derivatives.

    Args:
        constant: names of arguments that are not differentiated (their adjoint is 0).
    """
    return lambda function: Differentiable(function, constant)


def _unpack_single(values: list[Any]) -> Any:
    """The single element, or a tuple of several."""
    return values[0] if len(values) == 1 else tuple(values)


def _record(x: Any, active: bool) -> Any:
    if isinstance(x, tuple | list):
        return Vector([Real(_local(entry), active=active) for entry in x])
    if isinstance(x, LaneNumber):
        return Real(_local(x.value), active=active)
    if isinstance(x, LaneVector) or is_in_lanes(x):
        return Vector([Real(entry, active=active) for entry in components(x)])
    return Real(_local(x), active=active)


def _unrecord(x: Any, value_of: Callable) -> Any:
    """The scalar or vector with every recorded number replaced by ``value_of(number)``."""
    if isinstance(x, Vector):
        values = [value_of(entry) * 1.0 for entry in x.entries]
        return LaneVector(*values) if any(is_in_lanes(value) for value in values) else ti.Vector(values)
    return value_of(x)


def _zip_entries(recorded: Any, values: Any) -> list[tuple[Any, Any]]:
    """Pairs of recorded numbers and the entries of a value of the same shape."""
    if isinstance(recorded, Vector):
        if isinstance(values, Vector):
            entries = values.entries
        elif isinstance(values, tuple | list):
            entries = list(values)
        elif _is_number(values):
            entries = [values] * len(recorded)
        else:
            entries = components(values)
        return list(zip(recorded.entries, entries, strict=True))
    return [(recorded, values)]


def _times(a: Any, partial: Any) -> Any:
    if _is_number(partial) and partial == 1.0:
        return a
    return a * partial


def _post_order(node: Real, order: list[Real], visited: set[int]) -> None:
    """Append ``node`` and everything it depends on to ``order``, parents first (without recursion)."""
    stack = [(node, False)]
    while stack:
        current, expanded = stack.pop()
        if expanded:
            order.append(current)
        elif id(current) not in visited:
            visited.add(id(current))
            stack.append((current, True))
            stack.extend((parent, False) for parent, _ in current.parents if id(parent) not in visited)
