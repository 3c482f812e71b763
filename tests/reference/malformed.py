"""Malformed numbers, and calls with one of them, for what ``ti_sim.base.rules`` checks."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from ti_sim import Param, UserError
from ti_sim.base.rules import Argument, arguments_of


def malformed(found: Argument) -> Iterator[Any]:
    """Values that no number may be, beside those that this one may not."""
    rule = found.rule
    wrong = [True, np.bool_(False), object(), 1j, [True], [[1.0], [1.0, 2.0]], torch.tensor(True), math.nan, np.array(["a"])]
    wrong += [np.array([math.nan]), [None]]
    wrong += [()] if rule.shape is not None and not rule.empty else []
    wrong += [] if found.optional else [None]
    wrong += [] if str in found.classes else ["3", "large", ""]
    wrong += [] if rule.infinite else [math.inf, -math.inf, 10**400]
    wrong += [2.5, 2.0] if rule.integer else []
    if rule.shape is not None:
        wrong.append(np.ones([1, *(count or 1 for count in rule.shape)]).astype(int))
    if rule.shape == ():
        wrong.append([1.0])
    if rule.exact:
        wrong.append(1)
    if not rule.param and Param not in found.classes:
        wrong.append(Param(1.0))
    for bound, outside in ((rule.minimum, -1), (rule.above, 0), (rule.maximum, 1), (rule.below, 0)):
        if bound is not None:
            wrong.append(_filled(rule.shape, bound + outside))
    wrong = [{"a": value} for value in wrong] + [3.0] if rule.named else [*wrong, {}]
    for value in wrong:
        if not isinstance(value, found.classes) and not any(kind.accepts(value) for kind in found.kinds):
            yield value


def call(target: Callable[..., Any], needs: dict[str, Argument], argument: str, value: Any, instance: Any = None) -> None:
    """Call with one argument; what else is needed is an example that the check lets through."""
    given = {argument: value}
    parameters = inspect.signature(target).parameters
    for name, parameter in parameters.items():
        several = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if parameter.default is parameter.empty and name not in given and name != "self" and not several:
            need = needs.get(name)
            kind = None if need is None or not need.classes else need.classes[0]
            rule = None if need is None else need.rule
            if need is not None and need.choices:
                given[name] = need.choices[0]
                continue
            held = need.kinds[0].example if need is not None and need.kinds else None
            given[name] = rule.example if rule else "thing" if kind is str else _stand_in(kind) if kind else held
    target(*([instance] if "self" in parameters else []), **given)


@cache
def _stand_in(kind: type) -> Mock:
    """An object that passes for one of a class."""
    return Mock(spec=kind)


def check_refused(target: Callable[..., Any], needs: dict[str, Argument], argument: str, instance: Any = None) -> None:
    """Every malformed value of an argument ends in one sentence that begins with its name."""
    for value in malformed(needs[argument]):
        with pytest.raises(UserError) as error:
            call(target, needs, argument, value, instance)
        message = str(error.value)
        pattern = rf"(\w+: |\w+\.){argument}(\['a'\])? (is|has shape) .*: give "
        assert re.match(pattern, message), f"{value!r}: {message}"
        assert "\n" not in message and len(message) < 200


def check_wrong_types_are_refused(target: Callable[..., Any], argument: str, instance: Any = None) -> None:
    """Every value of a type that an argument may not have ends in one sentence with its name."""
    needs = arguments_of(target)
    wrong = [object(), None, 3, -1.5, math.nan, "words", b"bytes", {"a": object()}, [object()], np.array(["a"]), lambda: 0, int]
    for value in wrong:
        if needs[argument].accepts(value):
            continue
        with pytest.raises(UserError) as error:
            call(target, needs, argument, value, instance)
        message = str(error.value)
        assert argument in message and "\n" not in message and len(message) < 400, f"{value!r}: {message}"


def numbers_of(target: Callable[..., Any]) -> list[str]:
    """Arguments of a function or class that hold numbers and have a rule."""
    return [name for name, found in arguments_of(target).items() if found.rule is not None]


def _filled(shape: tuple[int | None, ...] | None, value: Any) -> Any:
    return value if not shape else np.full([count or 1 for count in shape], value)
