"""Peak memory of a process, where the system tells (Linux)."""

from __future__ import annotations

import os
import subprocess
import sys
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


def in_own_process(module: str, function: str, *arguments: object) -> list[int] | None:
    """Whole numbers that a function prints in a process of its own, where no other work has left memory behind.

    Args:
        module: where the function is.
        function: its name; it prints the numbers in its last line.
        arguments: whose ``repr`` is Python that makes them.

    Returns:
        The numbers; None where the system does not tell of memory.
    """
    if not sys.platform.startswith("linux"):
        return None
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    code = f"from {module} import {function}; {function}({', '.join(map(repr, arguments))})"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    return [int(word) for word in done.stdout.splitlines()[-1].split()]


def _status_bytes(name: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(name + ":"))
    return int(line.split()[1]) * 1024
