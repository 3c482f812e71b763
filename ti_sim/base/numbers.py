"""Conversion of user input to real numbers, and a short form of it for error messages."""

from __future__ import annotations

import numbers
import reprlib
from typing import Any

import numpy as np

_MAX_LENGTH = 120  # characters of a value in a message


def real_numbers(value: Any) -> np.ndarray | None:
    """Integers or real numbers as an array (integers keep their type); None for anything else.

    Booleans, strings, None, complex numbers, ragged lists and other objects are not numbers, nor are lists that contain one.

    Args:
        value: a number, an array, a tensor, or nested lists of numbers.
    """
    if isinstance(value, numbers.Real) and not isinstance(value, bool | np.generic):
        return np.asarray(value if isinstance(value, int) and abs(value) < 2**63 else _float(value))
    if isinstance(value, list | tuple) and any(isinstance(item, bool | np.bool_) for item in value):
        return None
    try:
        array = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
    except (TypeError, ValueError, OverflowError):
        return None
    return array if array.dtype.kind in "iuf" else None


def format_value(value: Any) -> str:
    """A value in one short line; the type of an object that is neither a number nor a string."""
    if isinstance(value, numbers.Number):
        return reprlib.repr(value) if isinstance(value, int) else str(value)
    if not isinstance(value, str | list | tuple | dict | type(None)) and not hasattr(value, "tolist"):
        return f"of type {type(value).__name__}"
    text = " ".join(reprlib.repr(value.tolist() if hasattr(value, "tolist") else value).split())
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 3]}..."


def _float(number: numbers.Real) -> float:
    try:
        return float(number)
    except OverflowError:  # an integer or fraction beyond the range of floats
        return float("inf") if number > 0 else float("-inf")
