"""Test that forward and reverse derivatives of one function are transposes of each other: <w, J v> = <J^T w, v>."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

Point = dict[str, np.ndarray]


@dataclass(frozen=True)
class DotProducts:
    """The two sides.

    Attributes:
        forward: <w, J v>.
        reverse: <J^T w, v>.
        rtol: allowed relative difference.
    """

    forward: float
    reverse: float
    rtol: float

    @property
    def relative(self) -> float:
        """Difference over the larger of both."""
        return abs(self.forward - self.reverse) / max(abs(self.forward), abs(self.reverse), np.finfo(np.float64).tiny)

    @property
    def ok(self) -> bool:
        """True when both are finite, agree, and are not both zero."""
        return self.relative <= self.rtol and (self.forward != 0.0 or self.reverse != 0.0)


def dot_product_test(
    jvp: Callable[[Point, Point], np.ndarray],
    vjp: Callable[[Point, np.ndarray], Mapping[str, np.ndarray]],
    point: Mapping[str, np.ndarray],
    output_shape: tuple[int, ...],
    *,
    seed: int = 0,
    rtol: float = 1e-10,
) -> DotProducts:
    """Both sides for standard normal v and w of a seed.

    Args:
        jvp: function from (point, tangent of each array) to J v of ``output_shape``.
        vjp: function from (point, w of ``output_shape``) to J^T w of each array.
        point: float64 arrays by name.
        output_shape: shape of the function's output.
        seed: seed of v and w.
        rtol: allowed relative difference.

    Raises:
        AssertionError: an array is not float64, or a result has another shape.
    """
    point = {name: np.array(array) for name, array in point.items()}
    generator = np.random.default_rng(seed)
    v = {name: generator.standard_normal(array.shape) for name, array in point.items()}
    w = generator.standard_normal(output_shape)
    for name, array in point.items():
        check(f"point[{name!r}]", array, array.shape)
    pushed = jvp({name: array.copy() for name, array in point.items()}, {name: array.copy() for name, array in v.items()})
    check("J v", pushed, tuple(output_shape))
    pulled = vjp({name: array.copy() for name, array in point.items()}, w.copy())
    for name, array in point.items():
        check(f"J^T w of {name!r}", pulled[name], array.shape)
    reverse = sum(float(np.sum(pulled[name] * v[name])) for name in point)
    return DotProducts(float(np.sum(w * pushed)), reverse, rtol)


def check(name: str, array: np.ndarray, shape: tuple[int, ...]) -> None:
    """Fail with the name of an array that is not float64 or has another shape."""
    assert array.dtype == np.float64, f"{name} is {array.dtype}"
    assert array.shape == shape, f"{name} has shape {array.shape}, and {shape} is needed"
