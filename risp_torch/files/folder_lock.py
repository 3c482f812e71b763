"""Locks of run folders: one process at a time, without a lock file, released with the process."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from weakref import WeakValueDictionary

from ti_sim.base.errors import UserError

__all__ = ["FolderLock", "lock_folder"]


class FolderLock:
    """A lock on a folder, released when this object is deleted or the process ends."""

    def __init__(self, handle: int) -> None:
        """Args: ``handle``, of the locked folder."""
        self._handle = handle

    def __del__(self) -> None:
        os.close(self._handle)


# Locks belong to the process and are shared by all users of a folder in it.
_held: WeakValueDictionary[tuple[int, int], FolderLock] = WeakValueDictionary()


def lock_folder(path: Path, *, shared: bool = False) -> FolderLock:
    """Lock a folder against other processes for the lifetime of the result.

    Args:
        path: a folder that exists.
        shared: let in others that ask for the same.

    Raises:
        UserError: another process has the folder.
    """
    handle = os.open(path, os.O_RDONLY)
    status = os.fstat(handle)
    key = (status.st_dev, status.st_ino)
    if (lock := _held.get(key)) is not None:
        os.close(handle)
        return lock
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise UserError(f"another process works in {path}: wait until it has ended, or choose another folder") from None
    except OSError:
        pass  # a file system without locks
    lock = _held[key] = FolderLock(handle)
    return lock
