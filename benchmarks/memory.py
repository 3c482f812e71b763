"""Peak memory of a process (Linux only)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_STATUS, _CLEAR_REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def reset_peak() -> None:
    """Reset the peak to the current memory."""
    _CLEAR_REFS.write_text("5")


def peak_bytes() -> int:
    """Largest resident memory since ``reset_peak``."""
    return _status_bytes("VmHWM")


def resident_bytes() -> int:
    """Resident memory now."""
    return _status_bytes("VmRSS")


def numbers_of_child_process(module: str, function: str, *arguments: object) -> list[int] | None:
    """Integers that a function prints in a child process, whose memory contains nothing else.

    Args:
        module: of the function.
        function: its name; it prints the numbers in its last line.
        arguments: whose ``repr`` is valid Python.

    Returns:
        The numbers; None on other systems than Linux.
    """
    if not sys.platform.startswith("linux"):
        return None
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    code = f"from {module} import {function}; {function}({', '.join(map(repr, arguments))})"
    process = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    return [int(word) for word in process.stdout.splitlines()[-1].split()]


def _status_bytes(name: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(name + ":"))
    return int(line.split()[1]) * 1024
