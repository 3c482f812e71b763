"""The folder in which compiled kernels are cached between processes.

Its files are run as machine code: it belongs to the user, no other user may write to it, and none may put another folder in its
place.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
from functools import cache
from pathlib import Path

from ti_sim.base.warn import warn

__all__ = ["CACHED_BYTES", "cache_folder", "home_directory", "writable_cache"]

# Above this size Taichi deletes, as each process ends, the quarter of the kernels that were used least recently. A kernel takes
# up to a megabyte, and Taichi's own limit is 100 MiB: the kernels of a few scenes.
CACHED_BYTES = 2_000_000_000

_PRIVATE = 0o700
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def home_directory() -> Path:
    """The user's home folder; if it cannot be determined, a private folder ``risp-taichi-UID`` among the temporary files.

    Where another user has taken that name, it is a folder that is deleted when the process ends.
    """
    try:
        return Path.home()
    except RuntimeError:
        return _private_home()


@cache
def _private_home() -> Path:
    folder = Path(tempfile.gettempdir()) / f"risp-taichi-{os.getuid()}"
    try:
        folder.mkdir(mode=_PRIVATE, exist_ok=True)
    except OSError:
        return _temporary_folder("risp-home-")
    return folder if _exposure_risk(folder) is None else _temporary_folder("risp-home-")


def cache_folder() -> Path:
    """Cache folder ``risp-taichi/kernels`` in ``XDG_CACHE_HOME`` (used if it is an absolute path) or in ``~/.cache``."""
    configured = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (configured if configured.is_absolute() else home_directory() / ".cache") / "risp-taichi" / "kernels"


def writable_cache() -> Path | None:
    """A private, writable folder for compiled kernels.

    Taichi crashes with a segmentation fault if it cannot write there.

    Returns:
        ``cache_folder()``, with the mode 0700; if that is not writable or other users can write to it, a temporary folder that is
        deleted when the process ends; None if that fails, too.

    Warns:
        UserWarning: the result is not ``cache_folder()``.
    """
    preferred = cache_folder()
    try:
        preferred.parent.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        preferred.mkdir(mode=_PRIVATE, exist_ok=True)
        risk = _exposure_risk(preferred.parent) or _exposure_risk(preferred) or _replacement_risk(preferred.parent)
        if risk is None:
            preferred.chmod(_PRIVATE)
            tempfile.TemporaryFile(dir=preferred).close()
            return preferred
        reason, advice = f"is not used: {risk}", "remove it, or set XDG_CACHE_HOME to a folder of your own"
    except OSError as error:
        reason = f"cannot be written ({error.strerror})"
        advice = "make it writable, or set XDG_CACHE_HOME to another folder"
    try:
        folder = _temporary_folder("risp-kernels-")
    except OSError:
        folder = None
    consequence = "so that every process compiles again"
    warn(f"the folder of compiled kernels {preferred} {reason}, {consequence}: {advice}")
    return folder


def _temporary_folder(prefix: str) -> Path:
    """A private folder that is deleted when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _exposure_risk(folder: Path) -> str | None:
    """Reason why other users may access a folder, or None; always None on systems without user numbers."""
    if not hasattr(os, "getuid"):
        return None
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        return f"{folder} is a link or no folder"
    if status.st_uid != os.getuid():
        return f"{folder} belongs to another user"
    if status.st_mode & _WRITABLE_BY_OTHERS:
        return f"other users can write to {folder}"
    return None


def _replacement_risk(folder: Path) -> str | None:
    """Reason why another user than root may replace ``folder``, from its parent folders, or None."""
    if not hasattr(os, "getuid"):
        return None
    for parent in folder.resolve().parents:
        status = parent.stat()
        if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
            return f"every user can replace what is in {parent}"
        if status.st_uid not in (0, os.getuid()):
            return f"{parent} belongs to another user"
    return None
