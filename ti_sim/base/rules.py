"""Rules for numeric arguments, written in annotations and checked by the decorator ``checked``."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, wraps
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import numpy as np

from ti_sim.base.errors import UserError
from ti_sim.base.numbers import real_numbers, shown
from ti_sim.base.param import Param

_UNCHECKED = (int, float, object, Any, np.ndarray)  # lists are accepted in place of arrays
_COUNTED = 2**31 - 1  # kernels and arrays use 32-bit indices
T = TypeVar("T", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Rule for the numbers of an argument. They are always real; booleans are not numbers.

    Attributes:
        shape: () for one number; shape of an array, with None for an axis of any length; None for any shape.
        empty: whether an axis of any length may be empty.
        named: whether the argument is a mapping from names to values, each of which satisfies the rule.
        exact: whether one number is refused in place of an array.
        whole: whether the numbers are integers.
        least, most: inclusive bounds, or None.
        above, below: exclusive bounds, or None.
        infinite: whether infinite numbers are accepted.
        param: whether a ``Param`` is accepted in place of its value.
    """

    shape: tuple[int | None, ...] | None = ()
    empty: bool = False
    named: bool = False
    exact: bool = False
    whole: bool = False
    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    infinite: bool = False
    param: bool = False

    @property
    def wanted(self) -> str:
        """Description of the accepted values, for error messages."""
        kind = "whole " if self.whole else "" if self.infinite else "finite "
        shape = f" of shape {_shown_shape(self.shape)}" if self.shape else ""
        text = f"a {kind}number" if self.shape == () else f"{kind}numbers{shape}"
        text = f"names, each with {text}" if self.named else text
        most = None if self.most is None or self.most >= _COUNTED else self.most  # a bound of the integer type is not shown
        if self.least is not None and most is not None:
            return f"{text} from {self.least:.10g} to {most:.10g}"
        words = [
            "" if self.least is None else "that is not negative" if self.least == 0 else f"of at least {self.least:.10g}",
            "" if self.above is None else "above zero" if self.above == 0 else f"above {self.above:.10g}",
            "" if self.below is None else f"below {self.below:.10g}",
            "" if most is None else f"up to {most:.10g}",
        ]
        return " ".join([text, " and ".join(word for word in words if word)]).strip()

    @property
    def example(self) -> Any:
        """A value that satisfies the rule."""
        low = next((bound for bound in (self.least, self.most) if bound is not None), None)
        if low is None:
            low = 1.0 if self.above is None else self.above + 1.0 if self.below is None else 0.5 * (self.above + self.below)
        number = int(low) if self.whole else float(low)
        given = number if not self.shape else np.full([1 if count is None else count for count in self.shape], number)
        return {"a": given} if self.named else given

    def check(self, label: str, given: Any) -> None:
        """Raise a UserError that begins with ``label`` unless the value satisfies the rule."""
        if self.named:
            if not isinstance(given, Mapping):
                raise UserError(f"{label} is {shown(given)}: give {self.wanted}")
            for name, value in given.items():
                replace(self, named=False).check(f"{label}[{name!r}]", value)
            return
        if isinstance(given, Param):
            if not self.param:
                raise UserError(f"{label} is a Param, and it can be no unknown: give {self.wanted}")
            given = given.value
        array = real_numbers(given)
        if array is not None and self.shape is not None and not self._fits(array.shape):
            needed = _shown_shape(self.shape)
            raise UserError(f"{label} has shape {_shown_shape(array.shape)}, and {needed} is needed: give {self.wanted}")
        if array is None or not self._kept_by(array):
            uncounted = self.whole and array is not None and array.size and array.max() > (self.most or math.inf) >= _COUNTED
            raise UserError(f"{label} is {shown(given)}: give {self.wanted}" + (f", at most {self.most}" if uncounted else ""))

    def _fits(self, shape: tuple[int, ...]) -> bool:
        if shape == () and not self.exact or shape == (0,) and None in self.shape:
            return True
        return len(shape) == len(self.shape) and all(a in (None, b) for a, b in zip(self.shape, shape, strict=True))

    def _kept_by(self, array: np.ndarray) -> bool:
        if not array.size:
            return self.empty or self.shape is None
        if self.whole and array.dtype.kind not in "iu":
            return False
        low, high = array.min().item(), array.max().item()  # NaN if one of them is
        if math.isnan(low) or not (self.infinite or math.isfinite(low) and math.isfinite(high)):
            return False
        return not (
            (self.least is not None and low < self.least) or (self.above is not None and low <= self.above)
            or (self.most is not None and high > self.most) or (self.below is not None and high >= self.below)
        )  # fmt: skip


@dataclass(frozen=True)
class Argument:
    """Accepted values of an argument.

    Attributes:
        rule: rule for its numbers, None for an argument without numbers.
        classes: other classes that it may be an instance of.
        optional: whether it may be None.
        choices: the values of a Literal, of which it may be one.
    """

    rule: Rule | None
    classes: tuple[type, ...]
    optional: bool
    choices: tuple[Any, ...] = ()

    def check(self, label: str, given: Any) -> None:
        """Raise a UserError that begins with ``label`` unless the value is accepted."""
        if given is None and self.optional or isinstance(given, self.classes):
            return
        if self.choices:
            if not any(type(given) is type(choice) and given == choice for choice in self.choices):
                *others, last = (repr(choice) for choice in self.choices)
                raise UserError(f"{label} {shown(given)} is unknown: choose {', '.join(others)}{' or ' if others else ''}{last}")
            return
        if self.rule is not None:
            self.rule.check(label, given)
        elif not (bool in self.classes and isinstance(given, np.bool_)):
            raise UserError(f"{label} is {shown(given)}: give {' or '.join(map(_article, self.classes))}")


Real = Annotated[float, Rule()]
Positive = Annotated[float, Rule(above=0)]
PositiveOrInfinite = Annotated[float, Rule(above=0, infinite=True)]
NotNegative = Annotated[float, Rule(least=0)]
Deviation = Annotated[float, Rule(least=1e-9, most=1e9)]  # a standard deviation, whose square is neither zero nor infinite
FiniteArray = Annotated[Any, Rule(shape=None)]
Share = Annotated[float, Rule(least=0, most=1)]
Whole = Annotated[int, Rule(whole=True)]
Count = Annotated[int, Rule(whole=True, least=1, most=_COUNTED)]
FromZero = Annotated[int, Rule(whole=True, least=0, most=_COUNTED)]
Seed = Annotated[int, Rule(whole=True, least=0, most=2**63 - 1)]


def checked(target: T) -> T:
    """Decorator for functions and dataclasses: checks the arguments before the call.

    The annotation of a numeric argument contains a rule, ``Annotated[type, Rule(...)]``. It may also contain classes that the
    argument may be an instance of, and None if it is optional. Of a Literal the argument is one of the values. Other annotations
    (Any, Callable) are not checked.

    Raises:
        UserError: at a call, an argument does not match its annotation. The message begins with the class
            (``Contact: stiffness``), with the name of the object (``die.mass``, if the argument ``name`` is "die"), or with the
            function (``sheet_disk: radius``).
    """
    if isinstance(target, type):
        target.__init__ = _held(target.__init__, target, target.__name__)  # type: ignore[misc]
        return target
    return _held(target, target, target.__qualname__.removesuffix(".__init__").rpartition(".")[2])  # type: ignore[return-value]


@cache
def arguments_of(target: Callable[..., Any]) -> dict[str, Argument]:
    """Accepted values by argument name, of a function or class; unchecked arguments are left out."""
    found = {name: _argument(hint) for name, hint in _hints(target) if name != "return"}
    return {name: argument for name, argument in found.items() if argument is not None}


def _hints(target: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Annotations of a function, or of a class and its bases; annotations that only type checkers can resolve are left out."""
    owners = reversed(target.__mro__) if isinstance(target, type) else [inspect.unwrap(target)]
    for owner in owners:
        names = vars(sys.modules[owner.__module__]) if isinstance(owner, type) else owner.__globals__
        for name, hint in inspect.get_annotations(owner).items():
            try:
                yield name, eval(hint, names) if isinstance(hint, str) else hint
            except NameError:  # imported below TYPE_CHECKING
                continue


def _held(function: Callable[..., Any], owner: Callable[..., Any], title: str) -> Callable[..., Any]:
    signature = inspect.signature(function)
    by_class = isinstance(owner, type) or function.__name__ == "__init__"

    @wraps(function)
    def held(*args: Any, **kwargs: Any) -> Any:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:
            return function(*args, **kwargs)  # raises Python's own TypeError
        named = None if by_class else given.get("name")
        prefix = f"{named}." if isinstance(named, str) and named else f"{title}: "
        for name, argument in arguments_of(owner).items():
            if name in given:
                argument.check(prefix + name, given[name])
        return function(*args, **kwargs)

    return held


def _shown_shape(shape: tuple[int | None, ...]) -> str:
    return str(tuple(shape)).replace("None", "any")


def _article(kind: type) -> str:
    words = {str: "a text", bool: "True or False"}
    return words.get(kind, f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}")


def _argument(hint: Any) -> Argument | None:
    """Accepted values of an annotation; None if it is not checked."""
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    rules = [rule for part in parts if get_origin(part) is Annotated for rule in part.__metadata__ if isinstance(rule, Rule)]
    choices = tuple(value for part in parts if get_origin(part) is Literal for value in get_args(part))
    others = [part for part in parts if get_origin(part) not in (Annotated, Literal) and part is not type(None)]
    others = [get_origin(part) if rules and get_origin(part) in (Mapping, list, tuple) else part for part in others]
    plain = all(isinstance(part, type) and get_origin(part) is None and part not in _UNCHECKED for part in others)
    if not plain or not (rules or others or choices):
        return None
    return Argument(rules[-1] if rules else None, tuple(others), type(None) in parts, choices)
