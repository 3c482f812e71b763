"""Settings of the search for the start of a film."""

from __future__ import annotations

from dataclasses import dataclass

from ti_sim.base.rules import Count, checked


@checked
@dataclass(frozen=True, kw_only=True)
class FindStart:
    """Settings of the search for the start.

    Attributes:
        frames: pictures after the first one that velocities are found from; None takes a twelfth of the film, at least two.
        candidates: poses, and velocities of all kept poses together, that are tried.
        keep: poses that velocities are looked for.

    Raises:
        UserError: a setting is out of its range.
    """

    frames: Count | None = None
    candidates: Count = 1024
    keep: Count = 8
