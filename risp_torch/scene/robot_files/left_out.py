"""Features of a file that are not imported: collected while reading, reported as sentences."""

from __future__ import annotations


class LeftOut:
    """Features that are not imported, each kind once with all its places."""

    def __init__(self) -> None:
        self._places: dict[str, list[str]] = {}

    def add(self, what: str, place: str) -> None:
        """Record one feature.

        Args:
            what: the kind of feature and how it is treated, the beginning of a sentence: "joint friction is not used".
            place: its place in the file: "joint 'elbow'".
        """
        places = self._places.setdefault(what, [])
        if place not in places:
            places.append(place)

    def sentences(self) -> tuple[str, ...]:
        """One sentence for each kind, in order of first occurrence."""
        return tuple(f"{what} ({', '.join(places)})" for what, places in self._places.items())
