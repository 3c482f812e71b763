"""Comparison of paths: same file or folder, path inside a folder, regular file."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ti_sim.base.errors import UserError

__all__ = ["check_regular", "contains", "is_same_path"]


def is_same_path(first_path: Path | str, second_path: Path | str) -> bool:
    """Whether two paths are the same file or folder, also through links; nonexistent paths are compared by their names."""
    try:
        return os.path.samefile(first_path, second_path)
    except OSError:
        return os.path.realpath(first_path) == os.path.realpath(second_path)


def contains(folder: Path | str, path: Path | str) -> bool:
    """Whether a path, which need not exist, is inside a folder or its subfolders, also through links."""
    real_path = os.path.realpath(path)
    parents = [real_path]
    while (parent := os.path.dirname(parents[-1])) != parents[-1]:
        parents.append(parent)
    return any(is_same_path(folder, parent) for parent in parents[1:])


def check_regular(path: Path | str, label: str) -> None:
    """Refuse a pipe or a device, from which reading could block; a path that does not exist is accepted.

    Raises:
        UserError: the path is neither a file nor a folder.
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise UserError(f"{label} is a pipe or a device: write what it gives to a file, and give that")
