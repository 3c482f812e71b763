"""Rules for numeric arguments, written in annotations and checked by the decorator ``checked``."""

from __future__ import annotations

import builtins
import inspect
import math
import sys
from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, wraps
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import numpy as np

from ti_sim.base.errors import UserError
from ti_sim.base.numbers import format_value, real_numbers
from ti_sim.base.param import Param

_UNCHECKED = (int, float, object, Any)
_PACKAGES = ("ti_sim", "ti_render", "risp_torch")
_MAX_INT32 = 2**31 - 1  # kernels and arrays use 32-bit indices
T = TypeVar("T", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Rule for the numbers of an argument. They are always real; booleans are not numbers.

    Attributes:
        shape: () for one number; shape of an array, with None for an axis of any length; None for any shape.
        empty: whether an axis of any length may be empty.
        named: whether the argument is a mapping from names to values, each of which satisfies the rule.
        exact: whether one number is refused in place of an array.
        integer: whether the numbers are integers.
        minimum, maximum: inclusive bounds, or None.
        above, below: exclusive bounds, or None.
        infinite: whether infinite numbers are accepted.
        param: whether a ``Param`` is accepted in place of its value.
    """

    shape: tuple[int | None, ...] | None = ()
    empty: bool = False
    named: bool = False
    exact: bool = False
    integer: bool = False
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    below: float | None = None
    infinite: bool = False
    param: bool = False

    @property
    def expected(self) -> str:
        """Description of the accepted values, for error messages."""
        qualifier = "whole " if self.integer else "" if self.infinite else "finite "
        shape = f" of shape {_format_shape(self.shape)}" if self.shape else ""
        text = f"a {qualifier}number" if self.shape == () else f"{qualifier}numbers{shape}"
        text = f"names, each with {text}" if self.named else text
        # The bound of the integer type is not shown.
        maximum = None if self.maximum is None or self.maximum >= _MAX_INT32 else self.maximum
        if self.minimum is not None and maximum is not None:
            return f"{text} from {self.minimum:.10g} to {maximum:.10g}"
        words = [
            "" if self.minimum is None else "that is not negative" if self.minimum == 0 else f"of at least {self.minimum:.10g}",
            "" if self.above is None else "above zero" if self.above == 0 else f"above {self.above:.10g}",
            "" if self.below is None else f"below {self.below:.10g}",
            "" if maximum is None else f"up to {maximum:.10g}",
        ]
        return " ".join([text, " and ".join(word for word in words if word)]).strip()

    @property
    def example(self) -> Any:
        """A value that satisfies the rule."""
        low = next((bound for bound in (self.minimum, self.maximum) if bound is not None), None)
        if low is None:
            low = 1.0 if self.above is None else self.above + 1.0 if self.below is None else 0.5 * (self.above + self.below)
        number = int(low) if self.integer else float(low)
        value = number if not self.shape else np.full([1 if count is None else count for count in self.shape], number)
        return {"a": value} if self.named else value

    def check(self, label: str, argument: Any) -> None:
        """Raise a UserError that begins with ``label`` unless the value satisfies the rule."""
        if self.shape == () and not self.named and self._accepts_number(argument):  # without an array, for speed
            return
        if self.named:
            if not isinstance(argument, Mapping):
                raise UserError(f"{label} is {format_value(argument)}: give {self.expected}")
            for name, value in argument.items():
                replace(self, named=False).check(f"{label}[{name!r}]", value)
            return
        if isinstance(argument, Param):
            if not self.param:
                raise UserError(f"{label} is a Param, and it can be no unknown: give {self.expected}")
            argument = argument.value
        array = real_numbers(argument)
        if array is not None and self.shape is not None and not self._fits(array.shape):
            needed = _format_shape(self.shape)
            raise UserError(f"{label} has shape {_format_shape(array.shape)}, and {needed} is needed: give {self.expected}")
        if array is None or not self._is_satisfied_by(array):
            exceeds_int32 = (
                self.integer and array is not None and array.size and array.max() > (self.maximum or math.inf) >= _MAX_INT32
            )
            limit = f", at most {self.maximum}" if exceeds_int32 else ""
            raise UserError(f"{label} is {format_value(argument)}: give {self.expected}{limit}")

    def _accepts_number(self, value: Any) -> bool:
        """Whether a value is a Python number, in the range of 64-bit integers if it is whole, that satisfies the rule."""
        if type(value) is int:
            if abs(value) >= 2**63:
                return False
        elif type(value) is not float or self.integer or not (math.isfinite(value) or self.infinite and not math.isnan(value)):
            return False
        return self._within_bounds(value, value)

    def _fits(self, shape: tuple[int, ...]) -> bool:
        if shape == () and not self.exact or shape == (0,) and None in self.shape:
            return True
        return len(shape) == len(self.shape) and all(a in (None, b) for a, b in zip(self.shape, shape, strict=True))

    def _is_satisfied_by(self, array: np.ndarray) -> bool:
        if not array.size:
            return self.empty or self.shape is None
        if self.integer and array.dtype.kind not in "iu":
            return False
        low, high = array.min().item(), array.max().item()  # NaN if one of them is
        if math.isnan(low) or not (self.infinite or math.isfinite(low) and math.isfinite(high)):
            return False
        return self._within_bounds(low, high)

    def _within_bounds(self, low: float, high: float) -> bool:
        return not (
            (self.minimum is not None and low < self.minimum) or (self.above is not None and low <= self.above)
            or (self.maximum is not None and high > self.maximum) or (self.below is not None and high >= self.below)
        )  # fmt: skip


@dataclass(frozen=True)
class Container:
    """A sequence, an iterable or a mapping of items.

    Attributes:
        container: ``Sequence``, ``Iterable`` or ``Mapping``.
        items: accepted items, or values of a mapping; None if they are not checked.
        named: whether the keys of a mapping must be strings.
    """

    container: type
    items: Argument | None = None
    named: bool = False

    def accepts(self, value: Any) -> bool:
        """Whether a value is such a container of accepted items.

        Sets and views of mappings are accepted as sequences, and so are arrays of numbers if the items are numbers or arrays.
        A mapping is an iterable of its keys. The items of an iterator are not checked.
        """
        if isinstance(value, str | bytes):
            return False
        if self.container is Mapping:
            is_accepted_mapping = isinstance(value, Mapping) and (not self.named or all(isinstance(key, str) for key in value))
            return is_accepted_mapping and self._all(value.values())
        if isinstance(value, Mapping) and self.container is Sequence:
            return False
        if hasattr(value, "dtype"):
            accepts_numbers = self.items is None or not self.items.classes or bool(self.items.kinds)
            return accepts_numbers and getattr(value, "ndim", 0) > 0 and self._all(value[:1])  # only the first entry is checked
        if isinstance(value, Collection):
            return self._all(value)
        return self.container is Iterable and isinstance(value, Iterable)

    def _all(self, items: Iterable[Any]) -> bool:
        return self.items is None or all(self.items.accepts(item) for item in items)

    @property
    def expected(self) -> str:
        """Description of the accepted values, for error messages."""
        kind = "a mapping" if self.container is Mapping else "a list"
        keys = " from names" if self.named else ""
        link = " to" if self.container is Mapping else ", each"
        return f"{kind}{keys}" + ("" if self.items is None else f"{link} {self.items.expected}")

    @property
    def example(self) -> Any:
        """A value that is accepted."""
        return {} if self.container is Mapping else []


@dataclass(frozen=True)
class Numbers:
    """An array, or nested lists, of numbers or booleans; NaN may be among them.

    Attributes:
        single: whether one number is accepted in place of an array.
    """

    single: bool = False
    expected: str = "an array of numbers"

    def accepts(self, value: Any) -> bool:
        """Whether a value is an array of numbers."""
        dtype = getattr(value, "dtype", None)
        if dtype is not None:  # the entries of a large array are not read
            is_real = str(dtype).removeprefix("torch.").startswith(("float", "bfloat", "int", "uint", "bool"))
            return is_real and (self.single or not isinstance(value, np.generic))
        try:
            array = np.asarray(value)
            return array.dtype.kind in "biuf" and (self.single or array.ndim > 0)
        except (TypeError, ValueError, OverflowError):
            return False

    @property
    def example(self) -> Any:
        """A value that is accepted."""
        return np.zeros(1)


@dataclass(frozen=True)
class KernelArray:
    """An array that kernels read."""

    expected: str = "an array or a tensor"

    def accepts(self, value: Any) -> bool:
        """Whether a value has the shape and the type of an array."""
        return hasattr(value, "dtype") and len(getattr(value, "shape", ())) > 0

    @property
    def example(self) -> Any:
        """A value that is accepted."""
        return np.zeros(1)


@dataclass(frozen=True)
class Function:
    """A function."""

    expected: str = "a function"

    def accepts(self, value: Any) -> bool:
        """Whether a value can be called."""
        return callable(value)

    @property
    def example(self) -> Any:
        """A value that is accepted."""
        return lambda *_: None


@dataclass(frozen=True)
class Argument:
    """Accepted values of an argument.

    Attributes:
        rule: rule for its numbers, None for an argument without numbers.
        classes: other classes that it may be an instance of.
        optional: whether it may be None.
        kinds: other kinds of values that are accepted.
        choices: the values of a Literal, of which it may be one.
    """

    rule: Rule | None
    classes: tuple[type, ...]
    optional: bool
    kinds: tuple[Container | Numbers | KernelArray | Function, ...] = ()
    choices: tuple[Any, ...] = ()

    def accepts(self, value: Any) -> bool:
        """Whether a value is accepted."""
        try:
            self.check("", value)
        except UserError:
            return False
        return True

    @property
    def expected(self) -> str:
        """Description of the accepted values, for error messages."""
        words = [] if self.rule is None else [self.rule.expected]
        words += [*map(_with_article, self.classes), *map(repr, self.choices)]
        words += [kind.expected for kind in sorted(self.kinds, key=lambda kind: isinstance(kind, Container))]
        return " or ".join(dict.fromkeys(words))

    def check(self, label: str, value: Any) -> None:
        """Raise a UserError that begins with ``label`` unless the value is accepted."""
        if value is None and self.optional:
            return
        if isinstance(value, self.classes):
            if Path in self.classes and isinstance(value, str | Path):
                check_path(label, str(value))
            return
        if bool in self.classes and isinstance(value, np.bool_) or any(kind.accepts(value) for kind in self.kinds):
            return
        if self.choices:
            if not any(type(value) is type(choice) and value == choice for choice in self.choices):
                *first_choices, last = (repr(choice) for choice in self.choices)
                choices = f"{', '.join(first_choices)}{' or ' if first_choices else ''}{last}"
                raise UserError(f"{label} {format_value(value)} is unknown: choose {choices}")
        elif self.rule is not None and not (self.kinds and real_numbers(value) is None):
            self.rule.check(label, value)
        else:
            raise UserError(f"{label} is {format_value(value)}: give {self.expected}")


def check_path(label: str, path: str) -> None:
    """Raise a UserError that begins with ``label`` for a path that no file has, or that no message or result can hold."""
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        shown_path = path.encode("utf-8", "backslashreplace").decode()
        raise UserError(f"{label} {shown_path} is no text in UTF-8: rename the file or folder, or choose another place") from None
    if "\0" in path:
        raise UserError(f"{label} {path!r} has a zero byte, which no path has: write the path again")


Real = Annotated[float, Rule()]
Positive = Annotated[float, Rule(above=0)]
PositiveOrInfinite = Annotated[float, Rule(above=0, infinite=True)]
NotNegative = Annotated[float, Rule(minimum=0)]
StandardDeviation = Annotated[
    float, Rule(minimum=1e-9, maximum=1e9)
]  # a standard deviation, whose square is neither zero nor infinite
FiniteArray = Annotated[Any, Rule(shape=None)]
UnitInterval = Annotated[float, Rule(minimum=0, maximum=1)]
WholeNumber = Annotated[int, Rule(integer=True)]
Count = Annotated[int, Rule(integer=True, minimum=1, maximum=_MAX_INT32)]
FromZero = Annotated[int, Rule(integer=True, minimum=0, maximum=_MAX_INT32)]
Seed = Annotated[int, Rule(integer=True, minimum=0, maximum=2**63 - 1)]


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
        target.__init__ = _wrap_checked(target.__init__, target, target.__name__)  # type: ignore[misc]
        return target
    return _wrap_checked(target, target, target.__qualname__.removesuffix(".__init__").rpartition(".")[2])  # type: ignore[return-value]


@cache
def arguments_of(target: Callable[..., Any]) -> dict[str, Argument]:
    """Accepted values by argument name, of a function or class; unchecked arguments are left out."""
    arguments = {name: _argument(hint) for name, hint in _hints(target) if name != "return"}
    return {name: argument for name, argument in arguments.items() if argument is not None}


def _hints(target: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Annotations of a function, or of a class and its bases; those with an unknown name are left out."""
    owners = reversed(target.__mro__) if isinstance(target, type) else [inspect.unwrap(target)]
    for owner in owners:
        names = vars(sys.modules[owner.__module__]) if isinstance(owner, type) else getattr(owner, "__globals__", {})
        for name, hint in inspect.get_annotations(owner).items():
            try:
                yield name, eval(hint, {}, ChainMap(names, _LoadedClasses())) if isinstance(hint, str) else hint
            except NameError:
                continue


class _LoadedClasses(dict):
    """Classes of modules that are loaded, by name: annotations may name classes that are imported under TYPE_CHECKING only."""

    def __missing__(self, name: str) -> Any:
        modules = [] if hasattr(builtins, name) else list(sys.modules.items())  # thousands of modules, for every "float"
        for path, module in modules:
            if path.partition(".")[0] in _PACKAGES and getattr(vars(module).get(name), "__module__", None) == path:
                return vars(module)[name]
        raise KeyError(name)


def _wrap_checked(function: Callable[..., Any], owner: Callable[..., Any], title: str) -> Callable[..., Any]:
    signature = inspect.signature(function)
    is_constructor = isinstance(owner, type) or function.__name__ == "__init__"
    variadic = {name for name, parameter in signature.parameters.items() if parameter.kind is parameter.VAR_POSITIONAL}
    keyword_variadic = {name for name, parameter in signature.parameters.items() if parameter.kind is parameter.VAR_KEYWORD}
    bind = _binder(signature)

    @wraps(function)
    def check_and_call(*args: Any, **kwargs: Any) -> Any:
        try:
            arguments = bind(args, kwargs)
        except TypeError:
            return function(*args, **kwargs)  # raises Python's own TypeError
        object_name = None if is_constructor else arguments.get("name")
        prefix = f"{object_name}." if isinstance(object_name, str) and object_name else f"{title}: "
        for name, argument in arguments_of(owner).items():
            if name in variadic:
                for k, value in enumerate(arguments.get(name, ())):
                    argument.check(f"{prefix}{name}[{k}]", value)
            elif name in arguments and name not in keyword_variadic:
                argument.check(prefix + name, arguments[name])
        return function(*args, **kwargs)

    return check_and_call


def _binder(signature: inspect.Signature) -> Callable[[tuple[Any, ...], dict[str, Any]], Mapping[str, Any]]:
    """Function (args, kwargs) -> arguments by name, the same as ``signature.bind`` returns, several times as fast."""
    parameters = signature.parameters.values()
    positional = [parameter.name for parameter in parameters if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
    has_no_variadic = all(parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY) for parameter in parameters)
    required = frozenset(parameter.name for parameter in parameters if parameter.default is parameter.empty)
    parameter_names = frozenset(signature.parameters)

    def bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Mapping[str, Any]:
        if has_no_variadic and len(args) <= len(positional):
            arguments = dict(zip(positional, args, strict=False))
            if arguments.keys().isdisjoint(kwargs):
                arguments.update(kwargs)
                if required <= arguments.keys() <= parameter_names:
                    return arguments
        return signature.bind(*args, **kwargs).arguments

    return bind


def _format_shape(shape: tuple[int | None, ...]) -> str:
    return str(tuple(shape)).replace("None", "any")


def _with_article(kind: type) -> str:
    words = {str: "a text", bool: "True or False"}
    return words.get(kind, f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}")


def _is_checked_class(alternative: Any) -> bool:
    return isinstance(alternative, type) and alternative not in _UNCHECKED and not getattr(alternative, "_is_protocol", False)


def _argument(hint: Any) -> Argument | None:
    """Accepted values of an annotation; None if it is not checked."""
    alternatives = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    annotated = [alternative for alternative in alternatives if get_origin(alternative) is Annotated]
    rules = [rule for alternative in annotated for rule in alternative.__metadata__ if isinstance(rule, Rule)]
    classes: list[type] = []
    kinds: list[Container | Numbers | KernelArray | Function] = []
    choices: list[Any] = []
    for alternative in alternatives:
        origin = get_origin(alternative)
        if origin is Annotated or alternative is type(None):
            metadata = getattr(alternative, "__metadata__", ())
            kinds += [KernelArray()] * any(type(entry).__name__ == "NdarrayType" for entry in metadata)
            continue
        if alternative is np.ndarray:
            kinds.append(Numbers())
        elif origin is Literal:
            choices += get_args(alternative)
        elif (origin or alternative) in _CONTAINERS:
            kinds.append(_container(_CONTAINERS[origin or alternative], get_args(alternative)))
        elif origin is Callable or alternative is Callable:
            kinds.append(Function())
        elif origin is None and _is_checked_class(alternative):
            classes.append(alternative)
        else:
            return None
    if not (rules or classes or kinds or choices):
        return None
    return Argument(rules[-1] if rules else None, tuple(classes), type(None) in alternatives, tuple(kinds), tuple(choices))


_CONTAINERS = {
    Sequence: Sequence, list: Sequence, tuple: Sequence, Iterable: Iterable, Iterator: Iterable, Mapping: Mapping, dict: Mapping,
}  # fmt: skip


def _container(container: type, item_hints: tuple[Any, ...]) -> Container:
    """Accepted containers of an annotation; the items of tuples with different types are not checked."""
    if container is Mapping:
        value = _item(item_hints[1], single=True) if len(item_hints) == 2 else None
        return Container(container, value, named=item_hints[:1] == (str,))
    is_homogeneous = len(item_hints) == 1 or (len(item_hints) == 2 and item_hints[1] is Ellipsis)
    return Container(container, _item(item_hints[0]) if is_homogeneous else None)


def _item(hint: Any, *, single: bool = False) -> Argument | None:
    """Accepted values of an item of a container: if tensors are annotated, arrays are accepted, and numbers if ``single``."""
    argument = _argument(hint)
    if argument is None or not (Numbers() in argument.kinds or any(kind.__name__ == "Tensor" for kind in argument.classes)):
        return argument
    return replace(argument, kinds=(*(kind for kind in argument.kinds if kind != Numbers()), Numbers(single=single)))
