"""Errors for a wrong name, which list the names that were perhaps meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from ti_sim.base.errors import UserError

__all__ = ["near_names", "unknown_name_error"]

_MOST_LISTED = 12
_LEAST_LIKENESS = 0.6
# A name this much more like the given one than another makes the other not worth a mention.
_CLEAR_LEAD = 0.15


def near_names(name: str, known: Iterable[str], *, most: int = 3) -> list[str]:
    """The known names most like ``name``, best first.

    A name is near when its spelling is close (whole, or in its last dotted part) or when one name contains the other.

    Args:
        name: what the user wrote.
        known: the names there are.
        most: how many to return at most.

    Returns:
        At most ``most`` names; empty when none is near.
    """
    scores = {other: _likeness(name.lower(), other.lower()) for other in known}
    least = max(_LEAST_LIKENESS, max(scores.values(), default=0.0) - _CLEAR_LEAD)
    near = [other for other, score in scores.items() if score >= least]
    return sorted(near, key=lambda other: (-scores[other], other))[:most]


def unknown_name_error(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error to raise for a name that is not known.

    Args:
        kind: what the name stands for, in the singular: "parameter", "scene", "option".
        name: what the user wrote.
        known: the names there are.

    Returns:
        A ``UserError`` (not raised) that gives the near names and the known ones.
    """
    names = sorted(known)
    if not names:
        return UserError(f"unknown {kind} {name!r}: there is no {kind} to choose from")
    near = near_names(name, names)
    if not near:
        return UserError(f"unknown {kind} {name!r}: choose one of {_listed(names)}")
    guesses = " or ".join(repr(other) for other in near)
    return UserError(f"unknown {kind} {name!r}: did you mean {guesses}? (known: {_listed(names)})")


def _likeness(name: str, other: str) -> float:
    """How much two names look alike: 0 nothing, 1 the same."""
    whole = difflib.SequenceMatcher(a=name, b=other).ratio()
    last = difflib.SequenceMatcher(a=_last_part(name), b=_last_part(other)).ratio()
    contained = len(name) > 2 and name in other or len(other) > 2 and other in name
    # The last part alone says less than the whole name: "a.mass" is not "b.mass".
    return max(whole, 0.9 * last, 0.75 if contained else 0.0)


def _last_part(name: str) -> str:
    return name.rpartition(".")[2]


def _listed(names: list[str]) -> str:
    if len(names) <= _MOST_LISTED:
        return ", ".join(names)
    return f"{', '.join(names[:_MOST_LISTED])} and {len(names) - _MOST_LISTED} more"
