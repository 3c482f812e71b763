"""Checks of available memory before work begins, because a process that runs out of memory is killed without a message."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from ti_sim.base.errors import UserError

__all__ = ["available_bytes", "check_memory", "keep_freed_memory", "readable_bytes"]

_MEMINFO = Path("/proc/meminfo")
_PROCESS_SIZE = Path("/proc/self/statm")
# Limit, usage and statistics of the control group of a container or batch job (version 2, version 1).
_CONTROL_GROUPS = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current"), Path("/sys/fs/cgroup/memory.stat")),
    (
        Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"), Path("/sys/fs/cgroup/memory/memory.usage_in_bytes"),
        Path("/sys/fs/cgroup/memory/memory.stat"),
    ),
)  # fmt: skip
# Parameters of glibc's mallopt, and their values [bytes]: smaller arrays are no memory maps, and less free memory stays.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = (-1, 2**29), (-3, 2**28)
_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


def available_bytes() -> int:
    """Bytes of memory that this process may still allocate, by the machine, its control group and its address-space limit."""
    return max(min([_machine_bytes(), *_control_group_bytes(), *_address_space_bytes()]), 0)


def keep_freed_memory() -> None:
    """Let the C library keep up to 512 MB of freed memory for the next allocation, where it is glibc.

    A search allocates and frees films in each step. By default each film is a new memory map, whose pages the system clears.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library, or Windows
        return
    for parameter, value in (_TRIM_THRESHOLD, _MMAP_THRESHOLD):
        mallopt(parameter, value)


def check_memory(needed: int | float, label: str, remedy: str, *, available: int | None = None) -> None:
    """Raise a UserError if the bytes needed exceed the available memory.

    Args:
        needed: estimate of the peak memory in bytes.
        label: name of the data, at the start of the error message, such as "a film of 100000 frames".
        remedy: advice at the end of the error message, such as "take fewer frames".
        available: available bytes; ``available_bytes()`` by default.

    Raises:
        UserError: too little memory is available.
    """
    available_memory = available_bytes() if available is None else available
    if needed > available_memory:
        raise UserError(
            f"{label} would take about {readable_bytes(needed)} of memory, and {readable_bytes(available_memory)} are free: "
            f"{remedy}"
        )


def readable_bytes(count: int | float) -> str:
    """A number of bytes with two digits and a unit (1 kB = 1000 bytes)."""
    count = float(count)
    for unit in _UNITS[:-1]:
        if count < 999.5:
            return f"{count:.2g} {unit}" if count < 99.5 else f"{count:.0f} {unit}"
        count /= 1000.0
    return f"{count:.2g} {_UNITS[-1]}"


def _machine_bytes() -> int:
    """Bytes that the machine can allocate without swapping."""
    for line in _read_text(_MEMINFO).splitlines():
        if line.startswith("MemAvailable:"):
            return 1024 * int(line.split()[1])
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _control_group_bytes() -> list[int]:
    """Bytes below the limits of the control groups; memory of cached files counts as free."""
    free_bytes = []
    for limit_file, usage_file, statistics_file in _CONTROL_GROUPS:
        limit_text, usage = _read_text(limit_file).strip(), _read_text(usage_file).strip()
        if limit_text.isdecimal() and usage.isdecimal():
            cached = [line.split()[1] for line in _read_text(statistics_file).splitlines() if line.startswith("inactive_file ")]
            free_bytes.append(int(limit_text) - int(usage) + sum(int(count) for count in cached))
    return free_bytes


def _address_space_bytes() -> list[int]:
    """Bytes below the limit of the process's address space (``ulimit -v``); empty without a limit."""
    try:
        import resource
    except ImportError:  # not a Unix
        return []
    memory_limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    pages = _read_text(_PROCESS_SIZE).split()
    if memory_limit == resource.RLIM_INFINITY or not pages:
        return []
    return [memory_limit - int(pages[0]) * os.sysconf("SC_PAGE_SIZE")]


def _read_text(path: Path) -> str:
    """Content of a system file; empty if it does not exist."""
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
