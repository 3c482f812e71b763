"""Features of a file that are not imported: collected while reading, reported as sentences."""

from __future__ import annotations


class Unsupported:
    """Features that are not imported, each kind once with all its locations."""

    def __init__(self) -> None:
        self._locations: dict[str, list[str]] = {}

    def add(self, feature: str, location: str) -> None:
        """Record one feature.

        Args:
            feature: the kind of feature and how it is treated, the beginning of a sentence: "joint friction is not used".
            location: its location in the file: "joint 'elbow'".
        """
        locations = self._locations.setdefault(feature, [])
        if location not in locations:
            locations.append(location)

    def sentences(self) -> tuple[str, ...]:
        """One sentence for each kind, in order of first occurrence."""
        return tuple(f"{feature} ({', '.join(locations)})" for feature, locations in self._locations.items())
