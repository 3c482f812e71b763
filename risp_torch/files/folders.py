"""Which paths are one place, which lie in another, and which are files or folders."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ti_sim.base.errors import UserError

__all__ = ["check_regular", "contains", "is_same_path"]


def is_same_path(first_path: Path | str, second_path: Path | str) -> bool:
    """Whether two paths are one file or folder, also through links; paths that do not exist are compared by their names."""
    try:
        return os.path.samefile(first_path, second_path)
    except OSError:
        return os.path.realpath(first_path) == os.path.realpath(second_path)


def contains(folder: Path | str, path: Path | str) -> bool:
    """Whether a path, which need not exist, lies in a folder or deeper in it, also through links."""
    inner = os.path.realpath(path)
    parents = [inner]
    while (parent := os.path.dirname(parents[-1])) != parents[-1]:
        parents.append(parent)
    return any(is_same_path(folder, parent) for parent in parents[1:])


def check_regular(path: Path | str, label: str) -> None:
    """Refuse a pipe or a device, which could keep its reader waiting; a path that does not exist is left to its reader.

    Raises:
        UserError: the path is neither a file nor a folder.
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise UserError(f"{label} is a pipe or a device: write what it gives to a file, and give that")
