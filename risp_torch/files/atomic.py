"""Files that are either whole or absent: written beside their place, then moved there."""

from __future__ import annotations

import errno
import glob
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ti_sim.base.errors import UserError

if TYPE_CHECKING:
    import torch

__all__ = [
    "PLACE_ERRORS", "DiskFullError", "clear_leftovers", "is_running", "remove_leftovers", "replacing", "write_tensors",
    "write_text",
]  # fmt: skip

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


def write_tensors(path: Path | str, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> None:
    """Write a safetensors file, whole or not at all.

    Args:
        path: of the file.
        tensors: of any device; no two may share memory.
        metadata: texts.

    Raises:
        UserError: the place cannot be written to (``DiskFullError`` for want of room).
    """
    from safetensors.torch import save

    content = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, metadata=dict(metadata))
    with replacing(path) as temporary:
        temporary.write_bytes(content)  # and not by safetensors, whose errors do not tell a full disk from others


def remove_leftovers(path: Path | str) -> None:
    """Take away what killed processes have left of their attempts to write ``path``; those of running processes stay."""
    path = Path(path)
    for temporary in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        _remove_leftover(temporary)


def clear_leftovers(folder: Path | str) -> None:
    """Take away what killed processes have left of any file in a folder and those below it."""
    for temporary in sorted(Path(folder).glob("**/.*.tmp")):
        _remove_leftover(temporary)


def _remove_leftover(temporary: Path) -> None:
    process = temporary.suffixes[-2].removeprefix(".") if len(temporary.suffixes) > 1 else ""
    if process.isdecimal() and (int(process) == os.getpid() or not is_running(int(process))):
        _remove(temporary)


def is_running(process: int) -> bool:
    """Whether there is a process of this number."""
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
