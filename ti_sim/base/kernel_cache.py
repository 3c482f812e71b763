"""The folder in which compiled kernels are cached between processes."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import warnings
from pathlib import Path

__all__ = ["cache_folder", "home_directory", "writable_cache"]


def home_directory() -> Path:
    """The user's home folder, or the folder of temporary files if it cannot be determined."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(tempfile.gettempdir())


def cache_folder() -> Path:
    """Cache folder ``risp-taichi/kernels`` in ``XDG_CACHE_HOME`` (used if it is an absolute path) or in ``~/.cache``."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (given if given.is_absolute() else home_directory() / ".cache") / "risp-taichi" / "kernels"


def writable_cache() -> Path | None:
    """A writable folder for compiled kernels.

    Taichi crashes with a segmentation fault if it cannot write there.

    Returns:
        ``cache_folder()``; if that is not writable, a temporary folder that is deleted when the process ends; None if that fails,
        too.

    Warns:
        UserWarning: the result is not ``cache_folder()``.
    """
    wanted = cache_folder()
    try:
        wanted.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=wanted).close()
        return wanted
    except OSError as error:
        reason = error.strerror
    try:
        cache = Path(tempfile.mkdtemp(prefix="risp-kernels-"))
        atexit.register(shutil.rmtree, cache, ignore_errors=True)
    except OSError:
        cache = None
    warnings.warn(
        f"the folder of compiled kernels {wanted} cannot be written ({reason}), so that every process compiles again: "
        "make it writable, or set XDG_CACHE_HOME to another folder",
        stacklevel=2,
    )
    return cache
