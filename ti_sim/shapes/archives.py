"""Size check of compressed mesh files before decompression."""

from __future__ import annotations

import bz2
import gzip
import zipfile
import zlib
from pathlib import Path

from ti_sim.base.errors import UserError

_LARGEST = 1 << 30  # bytes
_SMALL = 1 << 24  # bytes: allowed unpacked size at any ratio
_RATIO = 100.0  # of unpacked to packed size: 3 to 30 for meshes
_CHUNK = 1 << 20  # bytes


def check_unpacked_size(path: Path, name: str) -> None:
    """Raise a UserError if a compressed file (zip, gzip, bzip2, or a format based on zip) is far too large when unpacked.

    Args:
        path: path of any file; uncompressed files pass.
        name: name of the file in error messages.
    """
    packed = path.stat().st_size
    max_bytes = min(_LARGEST, max(_SMALL, _RATIO * packed))
    unpacked = _unpacked(path, max_bytes)
    if unpacked > max_bytes:
        raise UserError(
            f"{name} holds {packed / 1e6:.3g} MB that unpack to {'' if zipfile.is_zipfile(path) else 'more than '}"
            f"{unpacked / 1e6:.4g} MB: no mesh packs like that, or it is too large; unpack it yourself if you trust it"
        )


def _unpacked(path: Path, max_bytes: float) -> float:
    """Unpacked size of a file in bytes. If only decompression can determine it, that stops shortly after ``max_bytes``."""
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                return float(sum(member.file_size for member in archive.infolist()))
        opened = {".gz": gzip.open, ".tgz": gzip.open, ".bz2": bz2.open}.get(path.suffix.lower())
        if opened is None:
            return 0.0
        total = 0
        with opened(path, "rb") as stream:
            while total <= max_bytes and (chunk := stream.read(_CHUNK)):
                total += len(chunk)
        return float(total)
    except (OSError, EOFError, ValueError, zlib.error, zipfile.BadZipFile):
        return 0.0  # damaged: its reader reports the error
