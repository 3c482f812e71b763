"""Param: a number of a scene, its bounds, and the map between it and the variable of an optimiser.

The maps accept numpy arrays and torch tensors; torch is not imported here.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from ti_sim.base.errors import UserError
from ti_sim.base.numbers import format_value, real_numbers

Value = Any  # float, numpy.ndarray or torch.Tensor; results come in the container of the argument

_SCALES = ("linear", "log10")
_MARGIN = 1e-6  # fraction of the range: margin that ``to_unbounded`` keeps to the bounds, so that its result is finite


@dataclass(frozen=True, eq=False)
class Param:
    """A scalar or array of a scene that may be unknown.

    It has three coordinates: the *physical* value (in ``unit``); the *scaled* one, in which errors are reported (log10 of the
    value for "log10", the value itself for "linear"); and the *unbounded* one, of unit scale, which an optimiser changes without
    constraints. With s the scaled and z the unbounded coordinate, and w the distance of the scaled start value from the bound (1
    if it lies on it):

    =============  ======================================
    bounds         s(z)
    =============  ======================================
    low and high   low + (high - low) sigmoid(z)
    low only       low + w softplus(z)
    high only      high - w softplus(-z)
    none, linear   value + z
    none, log10    z
    =============  ======================================

    s increases with z in all cases (low and high are the scaled bounds).

    Attributes:
        value: start value, a float or a float64 array, in physical units.
        low: lowest physical value (a number, or an array that broadcasts with ``value``), or None.
        high: highest physical value, or None.
        scale: "linear" or "log10".
        unit: of value, low and high, for tables and plots.
        frozen: True for a number that is not estimated.

    Raises:
        UserError: a number is not finite, the value lies outside its bounds, ``low`` is not below ``high``, the scale
            is unknown, or "log10" was asked for with numbers that are not positive.
    """

    value: Value
    low: Value = None
    high: Value = None
    scale: str = "linear"
    unit: str = ""
    frozen: bool = False

    def __post_init__(self) -> None:
        if self.scale not in _SCALES:
            raise UserError(f"Param: scale {self.scale!r} is unknown: choose one of {', '.join(_SCALES)}")
        for name in ("value", "low", "high"):
            value = getattr(self, name)
            if value is not None or name == "value":
                object.__setattr__(self, name, self._checked_number(name, value))
        self._check_bounds()

    @property
    def range(self) -> float | np.ndarray | None:
        """``high - low`` in scaled units (decades for "log10"), or None unless both bounds are given."""
        if self.low is None or self.high is None:
            return None
        return self.to_scaled(self.high) - self.to_scaled(self.low)

    def to_scaled(self, value: Value) -> Value:
        """The coordinate in which errors are reported: log10(value) for "log10", the value for "linear"."""
        value = _as_float(value)
        return _module_of(value).log10(value) if self.scale == "log10" else value

    def from_scaled(self, scaled: Value) -> Value:
        """Inverse of ``to_scaled``: the physical value."""
        scaled = _as_float(scaled)
        return 10.0**scaled if self.scale == "log10" else scaled

    def to_physical(self, z: Value) -> Value:
        """Physical value within the bounds for the unbounded variable z (formulas in the class docstring).

        Args:
            z: a float, numpy array or torch tensor of the value's shape, or broadcasting with it.

        Returns:
            The value in ``unit``, same container and precision, differentiable in torch; never beyond a bound (for large |z|,
            rounding puts it on the bound).
        """
        z = _as_float(z)
        low, high, width = self._scaled_bounds(z)
        if low is not None and high is not None:
            scaled = low + (high - low) * _sigmoid(z)
        elif low is not None:
            scaled = low + width * _softplus(z)
        elif high is not None:
            scaled = high - width * _softplus(-z)
        else:
            scaled = z if self.scale == "log10" else z + _constant(self.value, z)
        return self._clip(self.from_scaled(scaled), self.low, self.high)

    def to_unbounded(self, value: Value) -> Value:
        """Inverse of ``to_physical``.

        Args:
            value: physical value; a value at a bound, or beyond it by rounding, is moved inside by 1e-6 of the range (1e-6 of the
                width w with one bound), so that the result is finite.

        Returns:
            z, same container and precision.

        Raises:
            UserError: a value lies beyond a bound by more than rounding, or is not positive under "log10".
        """
        value = _as_float(value)
        self._check_within_bounds(value)
        if self.scale == "log10" and self.low is not None:  # rounding may reduce a value below a tiny bound to zero
            value = self._clip(value, self.low, None)
        scaled = self.to_scaled(value)
        low, high, width = self._scaled_bounds(scaled)
        if low is None and high is None:
            return scaled if self.scale == "log10" else scaled - _constant(self.value, scaled)
        # Clipped as fractions of the width: single precision may not resolve the margin beside a large bound.
        module = _module_of(scaled)
        if low is not None and high is not None:
            from_low = module.clip((scaled - low) / width, _MARGIN, 1.0 - _MARGIN)
            to_high = module.clip((high - scaled) / width, _MARGIN, 1.0 - _MARGIN)  # not 1 - from_low, which would cancel
            return module.log(from_low) - module.log(to_high)
        if low is not None:
            return _inverse_softplus(module.clip((scaled - low) / width, _MARGIN, None))
        return -_inverse_softplus(module.clip((high - scaled) / width, _MARGIN, None))

    def _scaled_bounds(self, like: Value) -> tuple[Value, Value, Value]:
        """Scaled bounds (or None) and the width w, in the container of ``like``; w is the range with two bounds."""
        low = None if self.low is None else self.to_scaled(self.low)
        high = None if self.high is None else self.to_scaled(self.high)
        if low is not None and high is not None:
            width = high - low
        elif low is None and high is None:
            width = 1.0
        else:
            distance = np.abs(self.to_scaled(self.value) - (low if low is not None else high))
            width = np.where(distance > 0, distance, 1.0)
        return tuple(None if number is None else _constant(number, like) for number in (low, high, width))  # type: ignore[return-value]

    @staticmethod
    def _clip(value: Value, low: Value, high: Value) -> Value:
        """The value clamped to the physical bounds; torch's clip, unlike its maximum, keeps the full gradient on a bound."""
        if low is None and high is None:
            return value
        bounds = (None if bound is None else _constant(bound, value) for bound in (low, high))
        return _module_of(value).clip(value, *bounds)

    def _checked_number(self, name: str, value: Value) -> Value:
        numbers = real_numbers(value)
        if numbers is None:
            raise UserError(f"Param: {name} is {format_value(value)}: give a number or an array of numbers")
        number = np.array(numbers, dtype=np.float64)
        if not np.isfinite(number).all():
            hint = "" if name == "value" else " (leave it out for no bound)"
            raise UserError(f"Param: {name} is {format_value(value)}, which is not finite{hint}")
        if self.scale == "log10" and (number <= 0).any():
            raise UserError(
                f"Param: {name} is {format_value(value)}, and scale 'log10' needs numbers above zero: use 'linear', or change it"
            )
        return float(number) if number.ndim == 0 else number

    def _check_bounds(self) -> None:
        shape = np.shape(self.value)
        for name in ("low", "high"):
            bound = getattr(self, name)
            if bound is not None and not _broadcasts_to(np.shape(bound), shape):
                raise UserError(
                    f"Param: {name} has shape {np.shape(bound)}, and the value has {shape}: give one number, or the value's shape"
                )
        if self.low is not None and self.high is not None and not np.all(np.less(self.low, self.high)):
            raise UserError(
                f"Param: low {self.low} is not below high {self.high}: swap them, or use frozen=True for a known value"
            )
        below_low = np.zeros(shape, bool) if self.low is None else np.less(self.value, self.low)
        above_high = np.zeros(shape, bool) if self.high is None else np.greater(self.value, self.high)
        self._raise_if_outside(np.asarray(self.value), below_low | above_high, "start value")

    def _check_within_bounds(self, value: Value) -> None:
        """Raise unless every value lies within the bounds up to rounding in its own precision."""
        is_single_precision = str(getattr(value, "dtype", "")).endswith(("float32", "float16"))
        numbers = value.detach().cpu().numpy() if hasattr(value, "detach") else value
        numbers = np.asarray(numbers, dtype=np.float64)
        if self.scale == "log10" and self.low is None:
            is_invalid = ~(numbers > 0)
            if is_invalid.any():
                raise UserError(
                    f"Param: value {numbers[is_invalid].flat[0]:g} has no logarithm: scale 'log10' needs numbers above zero"
                )
        magnitude = np.maximum(np.abs(_bound_or(self.low, 0.0)), np.abs(_bound_or(self.high, 0.0)))
        width = _bound_or(self.high, 0.0) - _bound_or(self.low, 0.0) if self.range is not None else magnitude
        slack = _MARGIN * np.abs(width) + (1e-6 if is_single_precision else 1e-14) * magnitude
        is_inside = (numbers >= _bound_or(self.low, -np.inf) - slack) & (numbers <= _bound_or(self.high, np.inf) + slack)
        self._raise_if_outside(numbers, ~is_inside, "value")

    def _raise_if_outside(self, value: np.ndarray, is_outside: np.ndarray, reason: str) -> None:
        if not np.any(is_outside):
            return
        value, is_outside = np.broadcast_arrays(value, is_outside)
        index = np.unravel_index(int(np.argmax(is_outside)), is_outside.shape)
        low, high = (
            np.broadcast_to(_bound_or(bound, default), is_outside.shape)[index]
            for bound, default in ((self.low, -np.inf), (self.high, np.inf))
        )
        location = f" at {[int(i) for i in index]}" if index else ""
        raise UserError(
            f"Param: {reason} {value[index]:.9g}{location} lies outside its bounds [{low:.9g}, {high:.9g}] {self.unit}".rstrip()
            + ": change the value or the bounds"
        )


def as_param(x: Value) -> Param:
    """A Param for any number of a scene.

    Args:
        x: a Param, which is returned unchanged, or a plain number or array, which becomes a frozen Param without bounds (numbers
            that are not declared unknown are known).
    """
    return x if isinstance(x, Param) else Param(x, frozen=True)


def _module_of(x: Value) -> ModuleType:
    """torch for a tensor, else numpy; a tensor can only exist once torch has been imported."""
    return sys.modules["torch"] if hasattr(x, "detach") else np


def _as_float(x: Value) -> Value:
    """Tensors and floating-point numpy arrays unchanged, anything else as float64."""
    if hasattr(x, "detach") or isinstance(x, np.ndarray | np.generic) and np.issubdtype(x.dtype, np.floating):
        return x
    return np.asarray(x, dtype=np.float64)[()]


def _constant(value: Value, like: Value) -> Value:
    """``value`` in the container, precision and device of ``like``."""
    if hasattr(value, "detach"):
        return value
    if hasattr(like, "detach"):
        return _module_of(like).as_tensor(value, dtype=like.dtype, device=like.device)
    return np.asarray(value, dtype=like.dtype)[()]


def _bound_or(bound: Value, default: float) -> Value:
    return default if bound is None else bound


def _broadcasts_to(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, target) == tuple(target)
    except ValueError:
        return False


def _softplus(z: Value) -> Value:
    """log(1 + exp(z)) without overflow."""
    module = _module_of(z)
    return module.logaddexp(module.zeros_like(z), z)


def _sigmoid(z: Value) -> Value:
    """1 / (1 + exp(-z)) without overflow, with a small relative error where it is small."""
    return _module_of(z).exp(-_softplus(-z))


def _inverse_softplus(y: Value) -> Value:
    """log(exp(y) - 1) without overflow, for y > 0."""
    module = _module_of(y)
    return y + module.log(-module.expm1(-y))
