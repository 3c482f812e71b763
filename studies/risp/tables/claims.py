"""State of units: done, failed or in progress, in files that all processes can read."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from risp_torch.programs import write_text

_DONE, _FAILED, _LOCK = "done.json", "failed.json", "unit.lock"


def done(folder: Path) -> dict[str, Any] | None:
    """The record of a finished unit ({"seconds"}), or None."""
    return _read(folder / _DONE)


def mark_done(folder: Path, seconds: float) -> None:
    """Record that a unit is finished."""
    write_text(folder / _DONE, json.dumps({"seconds": seconds}) + "\n")
    (folder / _FAILED).unlink(missing_ok=True)


def failed(folder: Path, *, since: float) -> dict[str, Any] | None:
    """The record of a failed unit ({"reason", "status"}); None if it has not failed since this time [s of the epoch]."""
    record = _read(folder / _FAILED)
    return record if record is not None and record["time"] >= since else None


def mark_failed(folder: Path, reason: str, *, status: int, time: float) -> None:
    """Record why a unit failed, and its exit status."""
    write_text(folder / _FAILED, json.dumps({"reason": reason, "status": status, "time": time}) + "\n")


@contextmanager
def claimed(folder: Path) -> Iterator[bool]:
    """Claim a unit; yields whether this process has the claim. It ends with the block or with the process."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / _LOCK, "w", encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def is_claimed(folder: Path) -> bool:
    """Whether a process is working on a unit."""
    if not (folder / _LOCK).is_file():
        return False
    with claimed(folder) as free:
        return not free


def _read(path: Path) -> Mapping[str, Any] | None:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
