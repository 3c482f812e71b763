"""JSON of files that others may have written."""

from __future__ import annotations

import json
from typing import Any


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: it is not JSON, or lists and objects are nested too deeply (json.loads raises a RecursionError for these).
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("lists and objects are nested too deeply") from None
