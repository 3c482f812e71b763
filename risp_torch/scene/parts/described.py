"""Parts of a scene that describe themselves in its fingerprint."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class DescribedPart(ABC):
    """A part of a scene, a field of its spec, with its own entry in ``Scene.description``."""

    @abstractmethod
    def description(self) -> dict[str, Any]:
        """All data besides parameters that determine the part, as JSON values."""
