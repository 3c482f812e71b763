"""What a file holds and the description does not: collected while reading, told as sentences."""

from __future__ import annotations


class LeftOut:
    """Things that are not carried over, each kind once with all the places where it stands."""

    def __init__(self) -> None:
        self._places: dict[str, list[str]] = {}

    def add(self, what: str, place: str) -> None:
        """Note one thing.

        Args:
            what: the kind of thing and what becomes of it, the beginning of a sentence: "joint friction is not used".
            place: where it stands in the file: "joint 'elbow'".
        """
        places = self._places.setdefault(what, [])
        if place not in places:
            places.append(place)

    def sentences(self) -> tuple[str, ...]:
        """One sentence for each kind, in the order in which they were first met."""
        return tuple(f"{what} ({', '.join(places)})" for what, places in self._places.items())
