"""Validation of the numbers of camera files: they are converted to float64, or an error of one sentence is raised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from ti_sim.base.errors import UserError

ROTATION_TOLERANCE = 1e-3  # accepts three written decimals; the nearest rotation is then at most half of this [rad] away


@contextmanager
def located(location: str) -> Iterator[None]:
    """Prefix the message of every UserError that the block raises with a location (a file, a camera, a line)."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{location}: {error}") from None


def required(entry: Mapping[str, Any], key: str, meaning: str) -> Any:
    """The value of ``key``.

    Raises:
        UserError: the key is missing; the message names it and its meaning.
    """
    if key not in entry:
        raise UserError(f"the key {key!r} is missing: give {meaning}")
    return entry[key]


def numbers(value: Any, name: str, *, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """A float64 copy of an array of finite numbers.

    Args:
        value: nested lists or an array; strings, null and booleans are refused.
        name: its name in messages.
        shape: the shape that it must have; None for any.

    Raises:
        UserError: it is ragged, not numeric, of another shape or not finite.
    """
    expected_shape = f" of shape {list(shape)}" if shape else ""
    try:
        array = np.asarray(value)
    except ValueError:  # ragged lists
        raise UserError(f"{name} is {_short(value)}: give numbers{expected_shape}, all rows equally long") from None
    if array.dtype.kind not in "iuf":
        raise UserError(f"{name} is {_short(value)}: give numbers{expected_shape}")
    if shape is not None and array.shape != shape:
        raise UserError(f"{name} has shape {list(array.shape)}: {list(shape)} is needed")
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise UserError(f"{name}: not all entries are finite ({_short(array.tolist())}), give finite numbers")
    return array


def vector(value: Any, name: str, *, lengths: tuple[int, ...]) -> np.ndarray:
    """A float64 vector of one of the given lengths, from a list, a row [1, n] or a column [n, 1].

    Raises:
        UserError: as ``numbers``, or it has another length.
    """
    array = numbers(value, name)
    if array.size not in lengths or array.size != max(array.shape, default=1):
        expected_lengths = " or ".join(str(length) for length in lengths)
        raise UserError(f"{name} has shape {list(array.shape)}: a list of {expected_lengths} numbers is needed")
    return array.reshape(-1)


def number(value: Any, name: str) -> float:
    """One finite number.

    Raises:
        UserError: the value is invalid.
    """
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not is_number or not abs(value) <= np.finfo(np.float64).max:  # the comparison is false for NaN too
        raise UserError(f"{name} is {_short(value)}: give one finite number")
    return float(value)


def image_side(value: Any, name: str) -> int:
    """A side of an image: a whole number of pixels, at least 1 (640.0 passes for 640).

    Raises:
        UserError: the value is invalid.
    """
    side = number(value, name)
    if side < 1 or side != int(side):
        raise UserError(f"{name} is {side:g}: give a whole number of pixels, at least 1")
    return int(side)


def rotation(value: Any, name: str) -> np.ndarray:
    """The rotation nearest to a matrix that is orthonormal up to rounding (the orthogonal factor of its polar decomposition).

    Args:
        value: [3, 3].
        name: its name in messages.

    Returns:
        [3, 3] float64, orthonormal to machine precision.

    Raises:
        UserError: the matrix is further than 1e-3 from orthonormal (the message says how far), or it is a reflection.
    """
    matrix = numbers(value, name, shape=(3, 3))
    deviation = float(np.abs(matrix @ matrix.T - np.eye(3)).max())
    if deviation > ROTATION_TOLERANCE:
        raise UserError(
            f"{name} is not a rotation: {name} times its transpose differs from the identity by {deviation:.3g} "
            f"(at most {ROTATION_TOLERANCE:g} is taken): give an orthonormal matrix without scale"
        )
    left, _, right = np.linalg.svd(matrix)
    nearest = left @ right
    if np.linalg.det(nearest) < 0:
        raise UserError(f"{name} is a reflection (determinant -1), not a rotation: one or three of its axes point backwards")
    return nearest


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
