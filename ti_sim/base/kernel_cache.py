"""The folder in which compiled kernels are kept from one process to the next."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import warnings
from pathlib import Path

__all__ = ["cache_folder", "home_directory", "writable_cache"]


def home_directory() -> Path:
    """The user's home; the folder of temporary files where nobody says which that is."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(tempfile.gettempdir())


def cache_folder() -> Path:
    """Where kernels are kept: ``risp-taichi/kernels`` in ``XDG_CACHE_HOME``, which counts where it is an absolute path."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (given if given.is_absolute() else home_directory() / ".cache") / "risp-taichi" / "kernels"


def writable_cache() -> Path | None:
    """A folder that kernels can be written to.

    Taichi ends the process with a segmentation fault where it cannot write there.

    Returns:
        ``cache_folder()``; where that cannot be written, a temporary folder that goes with the process; None without that.

    Warns:
        UserWarning: it is not ``cache_folder()``.
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
        "make it writable, or let XDG_CACHE_HOME name another folder",
        stacklevel=2,
    )
    return cache
