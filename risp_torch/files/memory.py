"""Checks of available memory before work begins, because a process that runs out of memory is killed without a message."""

from __future__ import annotations

import os
from pathlib import Path

from ti_sim.base.errors import UserError

__all__ = ["available_bytes", "check_memory", "readable_bytes"]

_MEMINFO = Path("/proc/meminfo")
_OWN_SIZE = Path("/proc/self/statm")
# Limit and use of the control group that containers and batch systems put a process into (version 2, version 1).
_GROUPS = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current"), Path("/sys/fs/cgroup/memory.stat")),
    (
        Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"), Path("/sys/fs/cgroup/memory/memory.usage_in_bytes"),
        Path("/sys/fs/cgroup/memory/memory.stat"),
    ),
)  # fmt: skip
_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


def available_bytes() -> int:
    """Bytes of memory that this process may still take: what the machine, its control group and its own limits leave."""
    return max(min([_machine(), *_of_groups(), *_of_limits()]), 0)


def check_memory(needed: int | float, label: str, remedy: str, *, available: int | None = None) -> None:
    """Raise a UserError if the bytes needed exceed the available memory.

    Args:
        needed: estimate of the bytes that it takes, all at the same time.
        label: name of the data, the beginning of the error's sentence, such as "a film of 100000 frames".
        remedy: what to do about it: the end of the sentence, such as "take fewer frames".
        available: bytes that there are; ``available_bytes()`` by default.

    Raises:
        UserError: there is not as much.
    """
    free = available_bytes() if available is None else available
    if needed > free:
        raise UserError(
            f"{label} would take about {readable_bytes(needed)} of memory, and {readable_bytes(free)} are free: {remedy}"
        )


def readable_bytes(count: int | float) -> str:
    """A number of bytes with two digits and a unit (1 kB = 1000 bytes)."""
    count = float(count)
    for unit in _UNITS[:-1]:
        if count < 999.5:
            return f"{count:.2g} {unit}" if count < 99.5 else f"{count:.0f} {unit}"
        count /= 1000.0
    return f"{count:.2g} {_UNITS[-1]}"


def _machine() -> int:
    """Bytes that the machine can give without swapping."""
    for line in _text(_MEMINFO).splitlines():
        if line.startswith("MemAvailable:"):
            return 1024 * int(line.split()[1])
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _of_groups() -> list[int]:
    """Bytes that the limits of control groups leave; memory of cached files counts as free."""
    free_bytes = []
    for limit, used, statistics in _GROUPS:
        limit_text, usage = _text(limit).strip(), _text(used).strip()
        if limit_text.isdecimal() and usage.isdecimal():
            cached = [line.split()[1] for line in _text(statistics).splitlines() if line.startswith("inactive_file ")]
            free_bytes.append(int(limit_text) - int(usage) + sum(int(count) for count in cached))
    return free_bytes


def _of_limits() -> list[int]:
    """Bytes that the limit of the process's address space leaves (``ulimit -v``)."""
    try:
        import resource
    except ImportError:  # not a Unix
        return []
    memory_limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    pages = _text(_OWN_SIZE).split()
    if memory_limit == resource.RLIM_INFINITY or not pages:
        return []
    return [memory_limit - int(pages[0]) * os.sysconf("SC_PAGE_SIZE")]


def _text(path: Path) -> str:
    """A file of the system, empty where there is none."""
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
