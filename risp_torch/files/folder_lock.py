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

    def __init__(self, descriptor: int) -> None:
        """Args: ``descriptor``, file descriptor of the locked folder."""
        self._descriptor = descriptor

    def __del__(self) -> None:
        os.close(self._descriptor)


# Locks belong to the process and are shared by all users of a folder in it.
_locks: WeakValueDictionary[tuple[int, int], FolderLock] = WeakValueDictionary()


def lock_folder(path: Path, *, shared: bool = False) -> FolderLock:
    """Lock a folder against other processes for the lifetime of the result.

    Args:
        path: a folder that exists.
        shared: whether other processes may hold a shared lock at the same time.

    Raises:
        UserError: another process has locked the folder.
    """
    descriptor = os.open(path, os.O_RDONLY)
    folder_status = os.fstat(descriptor)
    key = (folder_status.st_dev, folder_status.st_ino)
    if (lock := _locks.get(key)) is not None:
        os.close(descriptor)
        return lock
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise UserError(f"another process works in {path}: wait until it has ended, or choose another folder") from None
    except OSError:
        pass  # a file system without locks
    lock = _locks[key] = FolderLock(descriptor)
    return lock
