"""Checks of gradients: adjoints against central differences."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ti_sim.base.errors import UserError
from ti_sim.base.rules import Count, FromZero, NotNegative, Positive, WholeNumber, checked

__all__ = ["GradcheckEntry", "GradcheckReport", "GradientError", "gradcheck"]

Point = dict[str, np.ndarray]
_TINY = np.finfo(np.float64).tiny
_EPS = np.finfo(np.float64).eps


class GradientError(AssertionError):
    """A gradient is wrong or not finite; the message states where."""


@dataclass(frozen=True)
class GradcheckEntry:
    """One compared entry of a gradient.

    Attributes:
        name: of the array.
        index: of the entry in it.
        adjoint: the gradient under test.
        difference: the central difference.
        relative: ``|adjoint - difference| / max(|difference|, floor)``.
        status: "ok", "WRONG", "kink" (the one-sided differences disagree), "kink, inside" (the adjoint lies between them, and
            kinks are allowed), "jump" (one of them grows as the step decreases) or "not observable" (adjoint and difference are
            at most the floor).
        left: one-sided difference from below, only where the central one disagrees.
        right: one-sided difference from above, only where the central one disagrees.
        noise: bound on the roundoff of the loss in the difference.
    """

    name: str
    index: tuple[int, ...]
    adjoint: float
    difference: float
    relative: float
    status: str
    left: float | None = None
    right: float | None = None
    noise: float = 0.0

    @property
    def ok(self) -> bool:
        """True unless the entry is wrong or is a kink that is not allowed."""
        return self.status in ("ok", "kink, inside", "not observable")


@dataclass(frozen=True)
class GradcheckReport:
    """Every compared entry.

    Attributes:
        entries: in the order in which they were compared.
        rtol: allowed relative difference.
        floor: gradients of at most this size are "not observable".
        min_observable: number of entries that must be observable, so that a gradient of zeros does not pass.
    """

    entries: list[GradcheckEntry] = field(repr=False)
    rtol: float
    floor: float
    min_observable: int

    @property
    def observable(self) -> int:
        """Number of observable entries."""
        return sum(entry.status != "not observable" for entry in self.entries)

    @property
    def worst(self) -> GradcheckEntry | None:
        """The failing entry with the largest relative difference, or of all if none fails; None if none is observable."""
        observable = [entry for entry in self.entries if entry.status != "not observable"]
        return max(observable, key=lambda entry: (not entry.ok, entry.relative), default=None)

    @property
    def ok(self) -> bool:
        """True when no entry fails and enough of them are observable."""
        return all(entry.ok for entry in self.entries) and self.observable >= self.min_observable

    def table(self, *, rows: int = 40) -> str:
        """A table of the entries, the failing ones first, then by relative difference.

        Args:
            rows: maximum number of entries shown.
        """
        sorted_entries = sorted(self.entries, key=lambda entry: (entry.ok, entry.status == "not observable", -entry.relative))
        failing = [entry for entry in self.entries if not entry.ok]
        lines = [
            f"gradcheck: {len(self.entries)} entries, {len(failing)} fail, "
            f"{len(self.entries) - self.observable} not observable (rtol {self.rtol:g}, floor {self.floor:g})"
        ]
        width = max([len(_entry_label(entry)) for entry in sorted_entries[:rows]], default=0)
        lines += [f"  {'entry':<{width}}  {'adjoint':>16}  {'difference':>16}  {'relative':>9}  status"]
        lines += [_table_row(entry, width) for entry in sorted_entries[:rows]]
        if len(sorted_entries) > rows:
            lines.append(f"  ... and {len(sorted_entries) - rows} more")
        if self.observable < self.min_observable:
            lines.append(
                f"  {self.observable} entries are observable, and {self.min_observable} must be: "
                "choose a point where the loss reacts"
            )
        noisy = sum(abs(entry.adjoint - entry.difference) <= entry.noise for entry in failing)
        if noisy:
            lines.append(
                f"  {noisy} of the failing entries differ by no more than roundoff of the difference: "
                "use a larger step or a floor"
            )
        return "\n".join(lines)

    def raise_if_wrong(self) -> GradcheckReport:
        """Return the report, or raise a GradientError with its table when it is not ``ok``."""
        if not self.ok:
            raise GradientError(self.table())
        return self


@checked
def gradcheck(
    loss_and_gradient: Callable[[Point], tuple[float, Mapping[str, np.ndarray]]],
    point: Mapping[str, np.ndarray],
    *,
    names: Sequence[str] | None = None,
    step: Positive | Mapping[str, float] = 1e-6,
    rtol: NotNegative = 1e-5,
    floor: NotNegative = 0.0,
    atol: NotNegative = 0.0,
    order: WholeNumber = 4,
    max_entries: Count | None = None,
    allow_kinks: bool = False,
    min_observable: FromZero = 1,
    loss: Callable[[Point], float] | None = None,
) -> GradcheckReport:
    """Compare an adjoint gradient with central differences, entry by entry, in float64.

    Where the two disagree, second-order one-sided differences are taken on both sides. If these disagree by more than tolerance
    and roundoff, the entry is marked as a kink of the loss, or as a jump if one of them is four times as large over a quarter of
    the step.

    Args:
        loss_and_gradient: function from a dict of float64 arrays to the loss and a dict with the gradient of each checked array.
            It receives a copy of the point at every call.
        point: float64 arrays (or plain numbers) by name.
        names: the arrays to check; None checks all.
        step: h = step * max(1, |x|); one number, or one for each checked name.
        rtol: allowed ``|adjoint - difference| / max(|difference|, floor)``.
        atol: allowed ``|adjoint - difference|`` independent of the entry's size, for arrays whose entries are sums with
            cancellation.
        floor: entries whose adjoint and difference are at most this are "not observable".
        order: 4 selects the five-point stencil (error h^4), 2 the three-point stencil (error h^2).
        max_entries: check at most this many entries of each array, a random sample that is the same in every call.
        allow_kinks: accept an entry at a kink if its adjoint lies between the one-sided differences.
        min_observable: entries that must be observable for the report to be ok; 0 accepts a gradient of zeros.
        loss: the loss without its gradient, used for the differences where it is cheaper.

    Returns:
        The report; call ``report.raise_if_wrong()`` in tests.

    Raises:
        UserError: an array or the gradient is not float64, or an option or a name is unknown.
        GradientError: a loss or gradient is not finite, or a gradient is missing or has another shape.
    """
    point = {name: _as_float64(array, f"point[{name!r}]") for name, array in point.items()}
    names = _checked_names(names, point)
    steps = _checked_steps(step, names)
    if order not in (2, 4):
        raise UserError(f"gradcheck: order {order!r} is unknown: choose 2 or 4")
    value, gradient = loss_and_gradient(_copy_point(point))
    centre_loss = _finite_loss(value, "at the point itself")
    adjoints = {name: _checked_gradient(gradient, name, point[name].shape) for name in names}
    evaluate = loss if loss is not None else lambda inputs: loss_and_gradient(inputs)[0]
    generator = np.random.default_rng(0)
    entries = []
    for name in names:
        for flat_index in _sample_indices(point[name].size, max_entries, generator):
            index = tuple(int(i) for i in np.unravel_index(flat_index, point[name].shape))
            coordinate_line = _CoordinateLine(evaluate, point, name, index, steps[name], centre_loss)
            entries.append(_compare_entry(coordinate_line, float(adjoints[name][index]), rtol, atol, floor, order, allow_kinks))
    return GradcheckReport(entries, rtol, floor, min_observable)


class _CoordinateLine:
    """The loss along one coordinate; each value is computed once."""

    def __init__(
        self, evaluate: Callable[[Point], float], point: Point, name: str, index: tuple[int, ...], step: float, centre_loss: float
    ) -> None:
        self.evaluate, self.point, self.name, self.index = evaluate, point, name, index
        self.x = float(point[name][index])
        self.h = (self.x + step * max(1.0, abs(self.x))) - self.x  # exactly representable step
        self.values = {0: centre_loss}

    def __call__(self, k: float) -> float:
        """Loss at x + k h."""
        if k not in self.values:
            shifted_point = _copy_point(self.point)
            shifted_point[self.name][self.index] = self.x + k * self.h
            self.values[k] = _finite_loss(self.evaluate(shifted_point), f"at {self.name}{list(self.index)} {k * self.h:+g}")
        return self.values[k]

    def central(self, order: int) -> float:
        """Three-point (order 2) or five-point (order 4) central difference."""
        if order == 2:
            return (self(1) - self(-1)) / (2 * self.h)
        return (8 * (self(1) - self(-1)) - (self(2) - self(-2))) / (12 * self.h)

    def one_sided(self, side: int) -> float:
        """Three-point difference of second order to the right (side 1) or left (-1)."""
        return side * (4 * self(side) - 3 * self(0) - self(2 * side)) / (2 * self.h)

    def jumps(self, side: int, tolerance: float) -> bool:
        """Whether the slope over a quarter of the step is about four times the slope over the step."""
        full_step, quarter_step = self(side) - self(0), 4 * (self(0.25 * side) - self(0))
        ratio = abs(quarter_step) / max(abs(full_step), _TINY)
        return abs(quarter_step) > 8 * tolerance * self.h and 3.0 < ratio < 5.0 and quarter_step * full_step > 0

    def noise(self) -> float:
        """Bound on the error that a few units of roundoff in each loss cause in a difference."""
        return 16 * _EPS * max(abs(value) for value in self.values.values()) / self.h


def _compare_entry(
    line: _CoordinateLine, adjoint: float, rtol: float, atol: float, floor: float, order: int, allow_kinks: bool
) -> GradcheckEntry:
    difference = line.central(order)
    relative = abs(adjoint - difference) / max(abs(difference), floor, _TINY)
    left = right = None
    if abs(adjoint) <= floor and abs(difference) <= floor:
        status = "not observable"
    elif relative <= rtol or abs(adjoint - difference) <= atol:
        status = "ok"
    else:
        left, right = line.one_sided(-1), line.one_sided(1)
        tolerance = max(rtol * max(abs(left), abs(right), floor), atol) + line.noise()
        is_kink = abs(left - right) > tolerance
        is_between = min(left, right) - tolerance <= adjoint <= max(left, right) + tolerance
        status = ("kink, inside" if allow_kinks and is_between else "kink") if is_kink else "WRONG"
        if is_kink and (line.jumps(-1, tolerance) or line.jumps(1, tolerance)):
            status = "jump"
    return GradcheckEntry(line.name, line.index, adjoint, difference, relative, status, left, right, line.noise())


def _as_float64(array: np.ndarray, name: str) -> np.ndarray:
    if isinstance(array, int | float) and not isinstance(array, bool | np.generic):
        array = np.float64(array)
    dtype = getattr(array, "dtype", type(array).__name__)
    if not isinstance(array, np.ndarray | np.generic) or dtype != np.float64:
        raise UserError(
            f"gradcheck: {name} is {dtype}, and finite differences need numpy float64: "
            "run in f64 precision and pass float64 arrays"
        )
    return np.array(array)


def _copy_point(point: Point) -> Point:
    return {name: array.copy() for name, array in point.items()}


def _checked_names(names: Sequence[str] | None, point: Point) -> list[str]:
    for name in names or ():
        if name not in point:
            similar_names = difflib.get_close_matches(name, point) or list(point)
            raise UserError(f"gradcheck: point has no {name!r}: choose from {', '.join(similar_names)}")
    return list(point if names is None else names)


def _checked_steps(step: float | Mapping[str, float], names: list[str]) -> dict[str, float]:
    steps = {name: step.get(name) if isinstance(step, Mapping) else step for name in names}
    for name, size in steps.items():
        if size is None or not (np.isfinite(size) and size > 0):
            raise UserError(f"gradcheck: the step of {name!r} is {size}: give a number above zero")
    return steps


def _finite_loss(value: float, location: str) -> float:
    if str(getattr(value, "dtype", "")).endswith(("float32", "float16")):
        raise UserError(
            f"gradcheck: the loss is {value.dtype}, and finite differences need float64: run in f64 precision"
        )  # type: ignore[union-attr]
    value = float(value)
    if not np.isfinite(value):
        raise GradientError(f"gradcheck: the loss {location} is {value}")
    return value


def _checked_gradient(gradient: Mapping[str, np.ndarray], name: str, shape: tuple[int, ...]) -> np.ndarray:
    if name not in gradient:
        raise GradientError(
            f"gradcheck: no gradient of {name!r} came back, only of {', '.join(map(repr, gradient)) or 'nothing'}"
        )
    array = _as_float64(gradient[name], f"the gradient of {name!r}")
    if array.shape != tuple(shape):
        raise GradientError(f"gradcheck: the gradient of {name!r} has shape {array.shape}, and {tuple(shape)} is needed")
    if not np.isfinite(array).all():
        index = [int(i) for i in np.unravel_index(int(np.argmax(~np.isfinite(array))), array.shape)]
        raise GradientError(f"gradcheck: the gradient of {name!r} at {index} is {array[tuple(index)]}")
    return array


def _sample_indices(size: int, max_entries: int | None, generator: np.random.Generator) -> np.ndarray:
    if max_entries is None or size <= max_entries:
        return np.arange(size)
    return np.sort(generator.choice(size, max_entries, replace=False))


def _entry_label(entry: GradcheckEntry) -> str:
    return f"{entry.name}{list(entry.index)}"


def _table_row(entry: GradcheckEntry, width: int) -> str:
    numbers = f"{entry.adjoint:>16.9g}  {entry.difference:>16.9g}  {entry.relative:>9.1e}"
    row = f"  {_entry_label(entry):<{width}}  {numbers}  {entry.status}"
    if entry.left is None or entry.right is None or entry.status == "WRONG":
        return row
    return f"{row} (left {entry.left:.6g}, right {entry.right:.6g})"
