"""Files that are either whole or absent: written beside their place, then moved there."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ti_sim.base.errors import UserError

__all__ = ["PLACE_ERRORS", "DiskFullError", "remove_leftovers", "replacing", "write_text"]

# A path leads nowhere, or to where nothing can be written or read.
PLACE_ERRORS = (
    errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG,
    errno.ELOOP, errno.EINVAL, errno.EBUSY, errno.ENODEV, errno.ENXIO, errno.EIO, errno.ENOTSUP, errno.ENOTEMPTY,
)  # fmt: skip
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class DiskFullError(UserError):
    """A file could not be written for want of room on the disk, or because a limit of the user's was reached."""


@contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """Give a temporary path in the same folder; what was written there becomes ``path`` when the block ends well.

    A killed process leaves at most a hidden file ``.<name>.<process>.tmp``, never a part of ``path``.

    Args:
        path: the file (or new folder) to write; its parent folders are made.

    Raises:
        UserError: the place cannot be written to.
        DiskFullError: there is no room for it.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        _flush(temporary)
        os.replace(temporary, path)
    except OSError as error:
        if error.errno in PLACE_ERRORS:
            raise UserError(f"{path} cannot be written ({error.strerror}): choose another place for it") from error
        if error.errno in _FULL:
            raise DiskFullError(f"{path} cannot be written ({error.strerror}): make room, or choose another place") from error
        raise
    finally:
        _remove(temporary)


def write_text(path: Path | str, text: str) -> None:
    """Write a UTF-8 text file, whole or not at all.

    Raises:
        UserError: the place cannot be written to.
    """
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def remove_leftovers(path: Path | str) -> None:
    """Take away what killed processes have left of their attempts to write ``path``; those of running processes stay."""
    path = Path(path)
    for temporary in path.parent.glob(f".{path.name}.*.tmp"):
        process = temporary.name.removeprefix(f".{path.name}.").removesuffix(".tmp")
        if process.isdecimal() and (int(process) == os.getpid() or not _runs(int(process))):
            _remove(temporary)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _remove(path: Path) -> None:
    """Take away what a failed block left; nothing is there after a good one."""
    # For a name that is too long, Path.exists raises the error once more.
    if os.path.isdir(path):
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.exists(path):
        path.unlink()


def _flush(path: Path) -> None:
    """Put a file's bytes on the disk before its name points at them, so that a power cut leaves no empty file."""
    if path.is_file():
        with open(path, "rb") as handle:
            os.fsync(handle.fileno())
