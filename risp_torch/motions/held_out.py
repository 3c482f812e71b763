"""Which recordings are held out: a rule that looks at names alone, so that it can be fixed before the first fit."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Annotated

from ti_sim.base.rules import Rule, checked


@checked
def held_out(names: Iterable[str], *, one_in: Annotated[int, Rule(integer=True, minimum=2)] = 5) -> list[str]:
    """The names whose SHA-256 begins with a byte that ``one_in`` divides; about one in ``one_in``, the same on every machine.

    Args:
        names: of recordings.
        one_in: reciprocal of the share that is held out.
    """
    return [name for name in names if sha256(name.encode()).digest()[0] % one_in == 0]
