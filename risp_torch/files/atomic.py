"""Atomic files: written to a temporary path, then renamed."""

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
from ti_sim.base.rules import checked

if TYPE_CHECKING:
    import torch

__all__ = [
    "PATH_ERRNOS", "DiskFullError", "atomic_replacement", "clear_leftovers", "process_exists", "remove_leftovers",
    "write_tensors", "write_text",
]  # fmt: skip

# Errors of paths that do not exist or cannot be read or written.
PATH_ERRNOS = (
    errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG,
    errno.ELOOP, errno.EINVAL, errno.EBUSY, errno.ENODEV, errno.ENXIO, errno.EIO, errno.ENOTSUP, errno.ENOTEMPTY,
)  # fmt: skip
_DISK_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class DiskFullError(UserError):
    """A file could not be written because the disk or a quota is full."""


@checked
@contextmanager
def atomic_replacement(path: Path | str) -> Iterator[Path]:
    """Yield a temporary path in the same folder, which is renamed to ``path`` if the block succeeds.

    A killed process leaves at most a hidden file ``.<name>.<process>.tmp``, never an incomplete ``path``.

    Args:
        path: the file (or new folder) to write; its parent folders are made.

    Raises:
        UserError: the path cannot be written.
        DiskFullError: the disk is full.
    """
    path = Path(path)
    if not path.name or "\0" in path.name:
        raise UserError(f"{str(path)!r} is no name of a file: give it one")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        _flush(temporary)
        os.replace(temporary, path)
    except OSError as error:
        if error.errno in PATH_ERRNOS:
            raise UserError(f"{path} cannot be written ({error.strerror}): choose another place for it") from error
        if error.errno in _DISK_FULL_ERRNOS:
            raise DiskFullError(f"{path} cannot be written ({error.strerror}): make room, or choose another place") from error
        raise
    finally:
        _remove(temporary)


@checked
def write_text(path: Path | str, text: str) -> None:
    """Write a UTF-8 text file, atomically.

    Raises:
        UserError: the path cannot be written.
    """
    with atomic_replacement(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_tensors(path: Path | str, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> None:
    """Write a safetensors file, atomically.

    Args:
        path: path of the file.
        tensors: tensors on any device that do not share memory.
        metadata: texts.

    Raises:
        UserError: the path cannot be written (``DiskFullError`` if the disk is full).
    """
    from safetensors.torch import save

    content = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, metadata=dict(metadata))
    with atomic_replacement(path) as temporary:
        temporary.write_bytes(content)  # not by safetensors, whose errors do not distinguish a full disk


def remove_leftovers(path: Path | str) -> None:
    """Remove temporary files of killed processes for ``path``, not those of running processes."""
    path = Path(path)
    for temporary in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        _remove_leftover(temporary)


def clear_leftovers(folder: Path | str) -> None:
    """Remove temporary files of killed processes in a folder and its subfolders."""
    for temporary in sorted(Path(folder).glob("**/.*.tmp")):
        _remove_leftover(temporary)


def _remove_leftover(temporary: Path) -> None:
    process = temporary.suffixes[-2].removeprefix(".") if len(temporary.suffixes) > 1 else ""
    if process.isdecimal() and (int(process) == os.getpid() or not process_exists(int(process))):
        _remove(temporary)


def process_exists(process: int) -> bool:
    """Whether a process with this id exists."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _remove(path: Path) -> None:
    """Remove the temporary file of a failed block, if it exists."""
    # For a name that is too long, Path.exists raises the error once more.
    if os.path.isdir(path):
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.exists(path):
        path.unlink()


def _flush(path: Path) -> None:
    """Flush a file to the disk before it is renamed, so that a power cut leaves no empty file."""
    if path.is_file():
        with open(path, "rb") as handle:
            os.fsync(handle.fileno())
