"""Reading one of several classes back from a file: its kind, and its attributes beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ti_sim.base.errors import UserError

T = TypeVar("T")


def of_kind(kinds: Mapping[str, Callable[..., T]], data: Mapping[str, Any], *, owner: str, verb: str) -> T:
    """An object of the class that the entry "kind" names.

    Args:
        kinds: name in files -> class.
        data: "kind", and the arguments of that class.
        owner, verb: what error messages begin with: "the state head" "is of kind".

    Raises:
        UserError: the kind is unknown, or an entry is missing or too much.
    """
    given = dict(data)
    kind = given.pop("kind", None)
    if kind not in kinds:
        raise UserError(f"{owner} {verb} {kind!r}: the kinds are {', '.join(kinds)}")
    try:
        return kinds[kind](**given)
    except TypeError as error:
        raise UserError(f"{owner} does not describe a {kind}: {error}") from None
