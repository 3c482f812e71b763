"""Objects of one of several classes from JSON: a kind, and the attributes of its class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ti_sim.base.errors import UserError

T = TypeVar("T")


def of_kind(kinds: Mapping[str, Callable[..., T]], data: Mapping[str, Any], *, owner: str, verb: str) -> T:
    """An object of the class with the name in the entry "kind".

    Args:
        kinds: name in files -> class.
        data: "kind", and the arguments of that class.
        owner, verb: beginning of error messages: "the state head" "is of kind".

    Raises:
        UserError: the kind is unknown, or an entry is missing or unexpected.
    """
    fields = dict(data)
    kind = fields.pop("kind", None)
    if kind not in kinds:
        raise UserError(f"{owner} {verb} {kind!r}: the kinds are {', '.join(kinds)}")
    try:
        return kinds[kind](**fields)
    except TypeError as error:
        raise UserError(f"{owner} does not describe a {kind}: {error}") from None
