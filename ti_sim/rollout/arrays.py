"""Declaration of solver inputs: arrays with shape and meaning, which checks, adjoints and the torch bridge read.

    @dataclass(frozen=True)
    class Inputs(Arrays):
        particle_mass: Array = array("B P", "kg")
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, field, fields
from typing import Any, Self

from ti_sim.base.arrays import Array, check_array, is_contiguous, zeros_in_same_library
from ti_sim.base.errors import UserError


def array(shape: str, meaning: str, *, default: Any = MISSING, double: bool = False) -> Any:
    """A field of ``Arrays``.

    Args:
        shape: sizes of the axes, numbers or letters: "B N 3". B is the number of worlds.
        meaning: description of the array, with units in brackets.
        default: None for an optional array.
        double: whether it has double precision, whatever the working precision.
    """
    return field(default=default, metadata={"shape": tuple(shape.split()), "meaning": meaning, "double": double})


class Arrays:
    """A dataclass whose fields are arrays (see ``array``), other ``Arrays``, or None."""

    def named_arrays(self) -> dict[str, Array]:
        """The arrays by name ("links.gravity" in a field that is an ``Arrays``), in the order of the fields, without None."""
        arrays_by_name: dict[str, Array] = {}
        for array_field in fields(self):
            value = getattr(self, array_field.name)
            if isinstance(value, Arrays):
                arrays_by_name |= {f"{array_field.name}.{name}": array for name, array in value.named_arrays().items()}
            elif value is not None:
                arrays_by_name[array_field.name] = value
        return arrays_by_name

    def double_names(self) -> frozenset[str]:
        """Names of the arrays that have double precision, whatever the working precision."""
        names = set()
        for array_field in fields(self):
            value = getattr(self, array_field.name)
            if isinstance(value, Arrays):
                names |= {f"{array_field.name}.{name}" for name in value.double_names()}
            elif array_field.metadata["double"]:
                names.add(array_field.name)
        return frozenset(names)

    def arrays(self) -> tuple[Array, ...]:
        """The arrays in the order of ``named_arrays``."""
        return tuple(self.named_arrays().values())

    def with_arrays(self, arrays: Iterable[Array]) -> Self:
        """A copy with other arrays, in the order of ``named_arrays``."""
        return self._with_next_arrays(iter(arrays))

    def zeros(self) -> Self:
        """Zeros with the shapes and containers of the arrays, to which adjoints are added."""
        return self.with_arrays(zeros_in_same_library(array, tuple(array.shape)) for array in self.arrays())

    def check_shapes(self, axis_lengths: Mapping[str, int]) -> None:
        """Check shapes, precision and layout of the arrays.

        Args:
            axis_lengths: length of each axis, by its letter in the shapes.

        Raises:
            UserError: an array has another shape or precision, or is not contiguous.
        """
        shapes, doubles = {field.name: field.metadata["shape"] for field in fields(self)}, self.double_names()
        for name, array in self.named_arrays().items():
            shape = tuple(axis_lengths[axis] if axis in axis_lengths else int(axis) for axis in shapes[name])
            check_array(array, name, shape, double=name in doubles)
            if not is_contiguous(array):
                raise UserError(f"{name} is not contiguous: give a contiguous copy of it")

    def _with_next_arrays(self, arrays: Iterator[Array]) -> Self:
        values: dict[str, Any] = {}
        for array_field in fields(self):
            value = getattr(self, array_field.name)
            new_value = value._with_next_arrays(arrays) if isinstance(value, Arrays) else value if value is None else next(arrays)
            values[array_field.name] = new_value
        return type(self)(**values)
