"""Conversion of user input to real numbers, and a short form of it for error messages."""

from __future__ import annotations

import numbers
import reprlib
from typing import Any

import numpy as np

_LONGEST = 120  # characters of a value in a message


def real_numbers(given: Any) -> np.ndarray | None:
    """Integers or real numbers as an array (integers keep their type); None for anything else.

    Booleans, strings, None, complex numbers, ragged lists and other objects are not numbers, nor are lists that contain one.

    Args:
        given: a number, an array, a tensor, or nested lists of numbers.
    """
    if isinstance(given, numbers.Real) and not isinstance(given, bool | np.generic):
        return np.asarray(given if isinstance(given, int) and abs(given) < 2**63 else _float(given))
    if isinstance(given, list | tuple) and any(isinstance(item, bool | np.bool_) for item in given):
        return None
    try:
        array = np.asarray(given.detach().cpu() if hasattr(given, "detach") else given)
    except (TypeError, ValueError, OverflowError):
        return None
    return array if array.dtype.kind in "iuf" else None


def shown(given: Any) -> str:
    """A value in one short line; the type of an object that is neither a number nor a string."""
    if isinstance(given, numbers.Number):
        return reprlib.repr(given) if isinstance(given, int) else str(given)
    if not isinstance(given, str | list | tuple | dict | type(None)) and not hasattr(given, "tolist"):
        return f"of type {type(given).__name__}"
    text = " ".join(reprlib.repr(given.tolist() if hasattr(given, "tolist") else given).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _float(number: numbers.Real) -> float:
    try:
        return float(number)
    except OverflowError:  # an integer or fraction beyond the range of floats
        return float("inf") if number > 0 else float("-inf")
