"""Files that are either whole or absent: written beside their place, then moved there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ti_sim.base.errors import UserError

__all__ = ["replacing", "write_text"]


@contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """Give a temporary path in the same folder; what was written there becomes ``path`` when the block ends well.

    A killed process leaves at most a hidden file ``.<name>.<process>.tmp``, never a part of ``path``.

    Args:
        path: the file (or new folder) to write; its parent folders are made.

    Raises:
        UserError: the place cannot be written to.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        _flush(temporary)
        os.replace(temporary, path)
    except (PermissionError, NotADirectoryError, IsADirectoryError, FileExistsError) as error:
        raise UserError(f"{path} cannot be written ({error.strerror}): choose another place for it") from error
    finally:
        _remove(temporary)


def write_text(path: Path | str, text: str) -> None:
    """Write a UTF-8 text file, whole or not at all.

    Raises:
        UserError: the place cannot be written to.
    """
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _remove(path: Path) -> None:
    """Take away what a failed block left; nothing is there after a good one."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    elif path.exists():
        path.unlink()


def _flush(path: Path) -> None:
    """Put a file's bytes on the disk before its name points at them, so that a power cut leaves no empty file."""
    if path.is_file():
        with open(path, "rb") as handle:
            os.fsync(handle.fileno())
