"""One process at a time in the folder of a run: a lock on the folder itself, which leaves no file and ends with its holder."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from weakref import WeakValueDictionary

from ti_sim.base.errors import UserError

__all__ = ["FolderLock", "lock_folder"]


class FolderLock:
    """A lock on a folder, which goes when nobody holds this object any more, or with the process."""

    def __init__(self, handle: int) -> None:
        """Args: ``handle``, of the locked folder."""
        self._handle = handle

    def __del__(self) -> None:
        os.close(self._handle)


# The lock is the process's: whoever opens a folder a second time in one process shares it.
_held: WeakValueDictionary[tuple[int, int], FolderLock] = WeakValueDictionary()


def lock_folder(path: Path, *, shared: bool = False) -> FolderLock:
    """Keep other processes out of a folder for as long as the result lives.

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
