"""Peak memory of a process, where the system tells (Linux)."""

from __future__ import annotations

from pathlib import Path

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def reset_peak() -> None:
    """Let the peak be counted from now on."""
    _CLEAR.write_text("5")


def peak_bytes() -> int:
    """Largest resident memory since ``reset_peak``."""
    return _status_bytes("VmHWM")


def resident_bytes() -> int:
    """Resident memory now."""
    return _status_bytes("VmRSS")


def _status_bytes(name: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(name + ":"))
    return int(line.split()[1]) * 1024
